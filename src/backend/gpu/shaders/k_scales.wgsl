// Scale and minimum of a unit of Q4_K or Q5_K, whose group of extras begins at `at`: the block's two scales, then two bytes a unit.
fn scale_and_minimum(at: u32, unit: u32) -> vec2<f32> {
    let block = unpack2x16float(extras[at]);
    let pair = extras[at + 1u + (unit & 7u) / 2u] >> ((unit & 1u) * 16u);
    return vec2(block.x * f32(pair & 0xffu), -block.y * f32((pair >> 8u) & 0xffu));
}
