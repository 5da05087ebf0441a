// Four bytes of a word as numbers, the lowest first.
fn bytes_of(word: u32) -> vec4<u32> {
    return (vec4(word) >> vec4(0u, 8u, 16u, 24u)) & vec4(0xffu);
}

// 32 nibbles: value i is the low nibble of byte i, value 16 + i its high one.
fn nibbles(words: vec4<u32>) -> Bytes {
    let low = words & vec4(0x0f0f0f0fu);
    let high = (words >> vec4(4u)) & vec4(0x0f0f0f0fu);
    return Bytes(
        bytes_of(low.x), bytes_of(low.y), bytes_of(low.z), bytes_of(low.w),
        bytes_of(high.x), bytes_of(high.y), bytes_of(high.z), bytes_of(high.w),
    );
}

// 32 small integers.
struct Bytes {
    b0: vec4<u32>,
    b1: vec4<u32>,
    b2: vec4<u32>,
    b3: vec4<u32>,
    b4: vec4<u32>,
    b5: vec4<u32>,
    b6: vec4<u32>,
    b7: vec4<u32>,
}

fn to_floats(b: Bytes) -> Values {
    return Values(
        vec4<f32>(b.b0), vec4<f32>(b.b1), vec4<f32>(b.b2), vec4<f32>(b.b3),
        vec4<f32>(b.b4), vec4<f32>(b.b5), vec4<f32>(b.b6), vec4<f32>(b.b7),
    );
}
