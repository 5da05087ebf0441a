// import nibbles
// quants: nibbles. extras: one word for two units, their scales.
fn load_unit(row: u32, unit: u32) -> Unit {
    let scale = unpack2x16float(extras[first_extra(row, unit)])[unit & 1u];
    return Unit(to_floats(nibbles(quants[first_quant(row, unit)])), vec2(scale), vec2(-8.0 * scale));
}
