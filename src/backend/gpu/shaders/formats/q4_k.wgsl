// import nibbles
// import k_scales
// quants: nibbles. extras: five words for eight units, the block's two scales and then two bytes a unit: scale and minimum.
fn load_unit(row: u32, unit: u32) -> Unit {
    let at = first_extra(row, unit);
    let s = scale_and_minimum(at, unit);
    return Unit(to_floats(nibbles(quants[first_quant(row, unit)])), s.xx, s.yy);
}
