// `out` holds the gate, W is up: out = activation(out) * (W x). For files whose gate and up differ in format.
@group(0) @binding(5) var<storage, read_write> out: array<f32>;

fn finish(token: u32, pair: u32, y: vec2<f32>) {
    let at = token * OUT_STRIDE + FIRST_ROW + pair * 2u;
    out[at] = activation(out[at]) * y.x;
    if (pair * 2u + 1u < N_ROWS) {
        out[at + 1u] = activation(out[at + 1u]) * y.y;
    }
}
