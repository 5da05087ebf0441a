// Rows alternate between gate and up (Shazeer 2020): out = activation(gate) * up.
@group(0) @binding(5) var<storage, read_write> out: array<f32>;

fn finish(token: u32, pair: u32, y: vec2<f32>) {
    out[token * OUT_STRIDE + FIRST_ROW / 2u + pair] = activation(y.x) * y.y;
}
