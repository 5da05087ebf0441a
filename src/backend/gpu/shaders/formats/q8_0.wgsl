// quants: 32 signed bytes. extras: one word for two units, their scales.
fn load_unit(row: u32, unit: u32) -> Unit {
    let scale = unpack2x16float(extras[first_extra(row, unit)])[unit & 1u];
    let at = first_quant(row, unit);
    let a = bitcast<vec4<i32>>(quants[at]);
    let b = bitcast<vec4<i32>>(quants[at + 1u]);
    let q = Values(
        signed_bytes(a.x), signed_bytes(a.y), signed_bytes(a.z), signed_bytes(a.w),
        signed_bytes(b.x), signed_bytes(b.y), signed_bytes(b.z), signed_bytes(b.w),
    );
    return Unit(q, vec2(scale), vec2(0.0));
}

fn signed_bytes(word: i32) -> vec4<f32> {
    return vec4<f32>((vec4(word) << vec4(24u, 16u, 8u, 0u)) >> vec4(24u));
}
