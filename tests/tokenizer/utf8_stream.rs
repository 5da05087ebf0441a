//! Streaming decode against `String::from_utf8_lossy`.

use nucleus::tokenizer::Utf8Stream;
#[cfg(target_arch = "wasm32")]
use wasm_bindgen_test::wasm_bindgen_test as test;

#[test]
fn utf8_stream_equals_lossy_decoding_wherever_it_is_cut() {
    // Starts, continuations and neighbours of the ranges that UTF-8 forbids, so that most strings are nearly valid.
    const BYTES: [u8; 20] = [
        b'a', 0x7f, 0x80, 0x8f, 0x90, 0x9f, 0xa0, 0xbf, 0xc0, 0xc2, 0xdf, 0xe0, 0xe3, 0xed, 0xef, 0xf0, 0xf1, 0xf4,
        0xf5, 0xff,
    ];
    let mut random = xorshift();
    for _ in 0..20_000 {
        let bytes: Vec<u8> = (0..random() % 12).map(|_| BYTES[random() as usize % BYTES.len()]).collect();
        let mut stream = Utf8Stream::default();
        let mut streamed = String::new();
        let mut rest = &bytes[..];
        while !rest.is_empty() {
            let (piece, after) = rest.split_at(random() as usize % (rest.len() + 1));
            streamed += &stream.push(piece);
            rest = after;
        }
        streamed += &stream.flush();
        assert_eq!(streamed, String::from_utf8_lossy(&bytes), "{bytes:02x?}");
    }
}

#[test]
fn utf8_stream_holds_back_only_what_can_still_become_a_character() {
    let mut stream = Utf8Stream::default();
    assert_eq!(stream.push(b"a\xf0\x9f\x99"), "a");
    assert_eq!(stream.push(b"\x82b\xe6"), "🙂b");
    assert_eq!(stream.push(b"c\xff"), "\u{fffd}c\u{fffd}");
    assert_eq!(stream.push(b"\xe6\x97"), "");
    assert_eq!(stream.flush(), "\u{fffd}");
    assert_eq!(stream.flush(), "");
}

/// A fixed sequence of numbers (Marsaglia, "Xorshift RNGs").
fn xorshift() -> impl FnMut() -> u32 {
    let mut state = 2463534242_u32;
    move || {
        state ^= state << 13;
        state ^= state >> 17;
        state ^= state << 5;
        state
    }
}
