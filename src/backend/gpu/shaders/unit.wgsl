// import matrix
// A unit is 32 neighbouring values of a row, quantized or not. Each format of formats/ defines
//     fn load_unit(row: u32, unit: u32) -> Unit
// on the two planes into which `layout.rs` sorts a matrix: `quants`, QUANT_VECS vectors a unit, and `extras` (scales, minima,
// high bits), EXTRA_WORDS words for every EXTRA_UNITS units of a row.
struct Unit {
    q: Values,
    // Of the first and the second half: value = q * scale + minimum.
    scale: vec2<f32>,
    minimum: vec2<f32>,
}

// 32 values. Named, not an array: some compilers keep arrays in memory.
struct Values {
    v0: vec4<f32>,
    v1: vec4<f32>,
    v2: vec4<f32>,
    v3: vec4<f32>,
    v4: vec4<f32>,
    v5: vec4<f32>,
    v6: vec4<f32>,
    v7: vec4<f32>,
}

fn first_quant(row: u32, unit: u32) -> u32 {
    return (row * UNITS + unit) * QUANT_VECS;
}

fn first_extra(row: u32, unit: u32) -> u32 {
    return (row * EXTRA_GROUPS + unit / EXTRA_UNITS) * EXTRA_WORDS;
}

// The unit's values.
fn unit_values(u: Unit) -> Values {
    let scale = u.scale;
    let minimum = u.minimum;
    return Values(
        u.q.v0 * scale.x + minimum.x, u.q.v1 * scale.x + minimum.x,
        u.q.v2 * scale.x + minimum.x, u.q.v3 * scale.x + minimum.x,
        u.q.v4 * scale.y + minimum.y, u.q.v5 * scale.y + minimum.y,
        u.q.v6 * scale.y + minimum.y, u.q.v7 * scale.y + minimum.y,
    );
}
