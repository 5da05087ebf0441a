// import nibbles
// quants: nibbles. extras: five words for eight units, the block's two scales and then two bytes a unit: scale and minimum.
fn load_unit(row: u32, unit: u32) -> Unit {
    let at = first_extra(row, unit);
    let block = unpack2x16float(extras[at]);
    let pair = extras[at + 1u + (unit & 7u) / 2u] >> ((unit & 1u) * 16u);
    let scale = block.x * f32(pair & 0xffu);
    let minimum = -block.y * f32((pair >> 8u) & 0xffu);
    return Unit(to_floats(nibbles(quants[first_quant(row, unit)])), vec2(scale), vec2(minimum));
}
