// import nibbles
// quants: nibbles. extras: one word a unit, scale and minimum.
fn load_unit(row: u32, unit: u32) -> Unit {
    let scale = unpack2x16float(extras[first_extra(row, unit)]);
    return Unit(to_floats(nibbles(quants[first_quant(row, unit)])), scale.xx, scale.yy);
}
