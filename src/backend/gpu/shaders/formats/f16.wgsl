// import sixteen_bits
// quants: 32 halves. No extras.
fn halves(words: vec2<u32>) -> vec4<f32> {
    return vec4(unpack2x16float(words.x), unpack2x16float(words.y));
}
