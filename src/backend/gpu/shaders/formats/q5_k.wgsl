// import fifth_bits
// quants: nibbles. extras: thirteen words for eight units, as in q4_k and then the fifth bits of each unit.
fn load_unit(row: u32, unit: u32) -> Unit {
    let at = first_extra(row, unit);
    let block = unpack2x16float(extras[at]);
    let pair = extras[at + 1u + (unit & 7u) / 2u] >> ((unit & 1u) * 16u);
    let scale = block.x * f32(pair & 0xffu);
    let minimum = -block.y * f32((pair >> 8u) & 0xffu);
    let q = five_bits(quants[first_quant(row, unit)], extras[at + 5u + (unit & 7u)]);
    return Unit(q, vec2(scale), vec2(minimum));
}
