// import fifth_bits
// quants: nibbles. extras: two words a unit, scale and minimum and then the fifth bits.
fn load_unit(row: u32, unit: u32) -> Unit {
    let at = first_extra(row, unit);
    let scale = unpack2x16float(extras[at]);
    return Unit(five_bits(quants[first_quant(row, unit)], extras[at + 1u]), scale.xx, scale.yy);
}
