// import params
// import workgroup_sum
// x[token] += delta[token] / rms(delta[token]) * weight; one workgroup a token, with LAST for the last one alone. Past WIDTH delta
// and weight are zero.
@group(0) @binding(1) var<storage, read> delta: array<vec4<f32>>;
@group(0) @binding(2) var<storage, read> weight: array<vec4<f32>>;
@group(0) @binding(3) var<storage, read_write> x: array<vec4<f32>>;

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) local: u32) {
    let row = select(group.x, params.n - 1u, LAST) * UNITS * 8u;
    var square = 0.0;
    for (var i = local; i < UNITS * 8u; i += 64u) {
        square += dot(delta[row + i], delta[row + i]);
    }
    let scale = inverseSqrt(workgroup_sum(square, local) / f32(WIDTH) + NORM_EPS);
    for (var i = local; i < UNITS * 8u; i += 64u) {
        x[row + i] += delta[row + i] * scale * weight[i];
    }
}
