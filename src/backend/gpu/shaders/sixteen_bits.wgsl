// Units of 16-bit floats; the format says what two words of them are: fn halves(words: vec2<u32>) -> vec4<f32>
fn load_unit(row: u32, unit: u32) -> Unit {
    let at = first_quant(row, unit);
    let a = quants[at];
    let b = quants[at + 1u];
    let c = quants[at + 2u];
    let d = quants[at + 3u];
    let q = Values(
        halves(a.xy), halves(a.zw), halves(b.xy), halves(b.zw), halves(c.xy), halves(c.zw), halves(d.xy), halves(d.zw),
    );
    return Unit(q, vec2(1.0), vec2(0.0));
}
