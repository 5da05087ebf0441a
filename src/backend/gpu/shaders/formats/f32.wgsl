// quants: 32 floats. No extras.
fn load_unit(row: u32, unit: u32) -> Unit {
    let at = first_quant(row, unit);
    let q = Values(
        floats(at), floats(at + 1u), floats(at + 2u), floats(at + 3u),
        floats(at + 4u), floats(at + 5u), floats(at + 6u), floats(at + 7u),
    );
    return Unit(q, vec2(1.0), vec2(0.0));
}

fn floats(at: u32) -> vec4<f32> {
    return bitcast<vec4<f32>>(quants[at]);
}
