// import nibbles
// 32 nibbles with a fifth bit each: bit i of `high` belongs to value i.
fn five_bits(words: vec4<u32>, high: u32) -> Values {
    let q = nibbles(words);
    return to_floats(Bytes(
        q.b0 | fifth(high), q.b1 | fifth(high >> 4u), q.b2 | fifth(high >> 8u), q.b3 | fifth(high >> 12u),
        q.b4 | fifth(high >> 16u), q.b5 | fifth(high >> 20u), q.b6 | fifth(high >> 24u), q.b7 | fifth(high >> 28u),
    ));
}

fn fifth(high: u32) -> vec4<u32> {
    return ((vec4(high) >> vec4(0u, 1u, 2u, 3u)) & vec4(1u)) << vec4(4u);
}
