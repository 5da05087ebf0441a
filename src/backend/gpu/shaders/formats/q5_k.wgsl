// import fifth_bits
// import k_scales
// quants: nibbles. extras: thirteen words for eight units, as in q4_k and then the fifth bits of each unit.
fn load_unit(row: u32, unit: u32) -> Unit {
    let at = first_extra(row, unit);
    let s = scale_and_minimum(at, unit);
    let q = five_bits(quants[first_quant(row, unit)], extras[at + 5u + (unit & 7u)]);
    return Unit(q, s.xx, s.yy);
}
