// import nibbles
// quants: the low four bits as nibbles. extras: 21 words for eight units, the block's scale, then two signed bytes a unit (the
// scales of its halves), then two words a unit (the high two bits, value i at bits 2i and 2i + 1).
fn load_unit(row: u32, unit: u32) -> Unit {
    let at = first_extra(row, unit);
    let block = unpack2x16float(extras[at]).x;
    let pair = bitcast<i32>(extras[at + 1u + (unit & 7u) / 2u] << ((1u - (unit & 1u)) * 16u));
    let scale = block * vec2(f32((pair << 8u) >> 24u), f32(pair >> 24u));
    let high = at + 5u + (unit & 7u) * 2u;
    let a = extras[high];
    let b = extras[high + 1u];
    let q = nibbles(quants[first_quant(row, unit)]);
    let six = Bytes(
        q.b0 | two_bits(a), q.b1 | two_bits(a >> 8u), q.b2 | two_bits(a >> 16u), q.b3 | two_bits(a >> 24u),
        q.b4 | two_bits(b), q.b5 | two_bits(b >> 8u), q.b6 | two_bits(b >> 16u), q.b7 | two_bits(b >> 24u),
    );
    return Unit(to_floats(six), scale, -32.0 * scale);
}

fn two_bits(high: u32) -> vec4<u32> {
    return ((vec4(high) >> vec4(0u, 2u, 4u, 6u)) & vec4(3u)) << vec4(4u);
}
