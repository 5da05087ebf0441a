//! Texts that a careless algorithm takes the square of their length for: each is read in well under a second, and whole.

use crate::file::{CONTROL, File, NORMAL, USER_DEFINED};
use nucleus::clock::now_ms;
use nucleus::tokenizer::Tokenizer;
#[cfg(target_arch = "wasm32")]
use wasm_bindgen_test::wasm_bindgen_test as test;

/// A quadratic algorithm takes minutes for this many characters; a linear one some tens of milliseconds, or a second on a machine
/// that has other things to do.
const N: usize = 100_000;
const MAX_MS: f64 = 5_000.0;

/// By name, each of `N` characters or a few more.
pub fn texts() -> Vec<(&'static str, String)> {
    let emoji = |i: usize| char::from_u32(0x1f300 + (i * 7919 % 0x2ff) as u32).expect("the block has no gaps");
    vec![
        ("one letter", "a".repeat(N)),
        ("emoji", (0..N).map(emoji).collect()),
        ("characters, all different", ('\u{10000}'..).take(N).collect()),
        ("a letter after each space", " a".repeat(N / 2)),
        ("white space of every kind", "\t \r\n".repeat(N / 4)),
        ("spaces", " ".repeat(N)),
        ("newlines", "\n".repeat(N)),
        ("spaces, then a letter, over and over", format!("{}x", " ".repeat(999)).repeat(N / 1000)),
        ("spaces and newlines in turn", " \n".repeat(N / 2)),
        ("apostrophes", "'".repeat(N)),
        ("digits", "7".repeat(N)),
        ("letters of two scripts in turn", "aя".repeat(N / 2)),
        ("beginnings of a control token", "<|im_start|".repeat(N / 11)),
        ("control tokens", "<|im_start|>".repeat(N / 12)),
        ("zero bytes", "\0".repeat(N)),
        ("one letter, composed and not", "e\u{301}é".repeat(N / 3)),
    ]
}

pub fn assert_reads_in_time(tokenizer: &Tokenizer, named: &str) {
    for (what, text) in texts() {
        for special in [false, true] {
            let start = now_ms();
            let ids = tokenizer.encode(&text, special).expect(what);
            let decoded = tokenizer.decode(&ids);
            let took = now_ms() - start;
            assert!(took < MAX_MS, "{named}, {what}: {took} ms");
            if !special {
                assert_eq!(decoded.len(), text.len(), "{named}, {what}");
                assert!(decoded == text, "{named}, {what}: another text came back");
            }
        }
    }
}

#[test]
fn long_texts_are_read_in_time_and_whole() {
    let pieces =
        [("aa", NORMAL), ("aaaa", NORMAL), ("ĠĠ", NORMAL), ("<|im_start|>", CONTROL), ("e\u{301}", USER_DEFINED)];
    for pre in ["gpt-2", "smollm", "qwen2", "llama-bpe"] {
        let tokenizer = File::new(pre, &pieces, &["a a", "aa aa", "Ġ Ġ"]).tokenizer(256 + pieces.len()).unwrap();
        assert_reads_in_time(&tokenizer, pre);
    }
}
