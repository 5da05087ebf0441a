// import params
// import unit
// One token: W times x. With NORM, x is normalised on the way: the products are taken with x * weight, and the root mean
// square, gathered in the same loop, is divided out at the end.
//
// LANES invocations share four neighbouring rows: each takes every LANES-th unit, so that they read side by side, and uses
// what it has read of x four times.
@group(0) @binding(3) var<storage, read> x: array<vec4<f32>>;

var<workgroup> partial_sums: array<vec4<f32>, WORKGROUP>;
var<workgroup> partial_squares: array<f32, WORKGROUP>;

fn dot_row(row: u32, unit: u32, x: Values, sums: vec2<f32>) -> f32 {
    let u = load_unit(min(row, N_ROWS - 1u), unit);
    let q = u.q;
    let first = dot(q.v0, x.v0) + dot(q.v1, x.v1) + dot(q.v2, x.v2) + dot(q.v3, x.v3);
    let second = dot(q.v4, x.v4) + dot(q.v5, x.v5) + dot(q.v6, x.v6) + dot(q.v7, x.v7);
    return dot(u.scale, vec2(first, second)) + dot(u.minimum, sums);
}

fn sum_of(v: vec4<f32>) -> f32 {
    return v.x + v.y + v.z + v.w;
}

@compute @workgroup_size(WORKGROUP)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) local: u32,
) {
    let token = params.n - 1u;
    let lane = local % LANES;
    // The last rows of the last workgroup may not be there.
    let row = ((group.y * groups.x + group.x) * (WORKGROUP / LANES) + local / LANES) * 4u;

    var sums = vec4(0.0);
    var square = 0.0;
    for (var unit = lane; unit < UNITS; unit += LANES) {
        let at = (token * UNITS + unit) * 8u;
        let v = Values(x[at], x[at + 1u], x[at + 2u], x[at + 3u], x[at + 4u], x[at + 5u], x[at + 6u], x[at + 7u]);
        square += square_of(v);
        let w = weighed(v, unit);
        let halves = vec2(sum_of(w.v0 + w.v1 + w.v2 + w.v3), sum_of(w.v4 + w.v5 + w.v6 + w.v7));
        sums += vec4(
            dot_row(row, unit, w, halves),
            dot_row(row + 1u, unit, w, halves),
            dot_row(row + 2u, unit, w, halves),
            dot_row(row + 3u, unit, w, halves),
        );
    }
    partial_sums[local] = sums;
    partial_squares[local] = square;
    workgroupBarrier();
    if (lane == 0u && row < N_ROWS) {
        for (var i = 1u; i < LANES; i++) {
            sums += partial_sums[local + i];
            square += partial_squares[local + i];
        }
        let y = sums * norm_scale(square);
        finish(token, row / 2u, y.xy);
        if (row + 2u < N_ROWS) {
            finish(token, row / 2u + 1u, y.zw);
        }
    }
}
