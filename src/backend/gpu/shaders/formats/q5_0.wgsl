// import fifth_bits
// quants: nibbles. extras: three words for two units, their scales and then the fifth bits of each.
fn load_unit(row: u32, unit: u32) -> Unit {
    let at = first_extra(row, unit);
    let scale = unpack2x16float(extras[at])[unit & 1u];
    let q = five_bits(quants[first_quant(row, unit)], extras[at + 1u + (unit & 1u)]);
    return Unit(q, vec2(scale), vec2(-16.0 * scale));
}
