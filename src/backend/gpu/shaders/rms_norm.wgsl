// import params
// import workgroup_sum
// normed[token] = x[token] / rms(x[token]) * weight; one workgroup a token. Past WIDTH x and weight are zero.
@group(0) @binding(1) var<storage, read> x: array<vec4<f32>>;
@group(0) @binding(2) var<storage, read> weight: array<vec4<f32>>;
@group(0) @binding(3) var<storage, read_write> normed: array<vec4<f32>>;

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) local: u32) {
    let row = group.x * UNITS * 8u;
    var square = 0.0;
    for (var i = local; i < UNITS * 8u; i += 64u) {
        square += dot(x[row + i], x[row + i]);
    }
    let scale = inverseSqrt(workgroup_sum(square, local) / f32(WIDTH) + NORM_EPS);
    for (var i = local; i < UNITS * 8u; i += 64u) {
        normed[row + i] = x[row + i] * scale * weight[i];
    }
}
