// out = W x, after OUT_FIRST values of the row
@group(0) @binding(5) var<storage, read_write> out: array<f32>;

fn finish(token: u32, pair: u32, y: vec2<f32>) {
    let at = token * OUT_STRIDE + OUT_FIRST + FIRST_ROW + pair * 2u;
    out[at] = y.x;
    if (pair * 2u + 1u < N_ROWS) {
        out[at + 1u] = y.y;
    }
}
