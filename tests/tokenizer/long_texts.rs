//! Texts that a careless algorithm takes the square of their length for: each is read in proportion to its length, and whole.

use crate::file::{CONTROL, File, NORMAL, USER_DEFINED};
use nucleus::clock::now_ms;
use nucleus::tokenizer::Tokenizer;
#[cfg(target_arch = "wasm32")]
use wasm_bindgen_test::wasm_bindgen_test as test;

const N: usize = 100_000;

/// Ten times the text takes ten times as long, or a hundred times where an algorithm is quadratic.
const MAX_RATIO: f64 = 40.0;

/// Sooner than this, nobody minds; a quadratic algorithm takes many times as long.
const SOON_MS: f64 = 1_000.0;

/// By name, each of about `n` characters.
fn texts(n: usize) -> Vec<(&'static str, String)> {
    let emoji = |i: usize| char::from_u32(0x1f300 + (i * 7919 % 0x2ff) as u32).expect("the block has no gaps");
    vec![
        ("one letter", "a".repeat(n)),
        ("emoji", (0..n).map(emoji).collect()),
        ("characters, all different", ('\u{10000}'..).take(n).collect()),
        ("a letter after each space", " a".repeat(n / 2)),
        ("white space of every kind", "\t \r\n".repeat(n / 4)),
        ("spaces", " ".repeat(n)),
        ("newlines", "\n".repeat(n)),
        ("spaces, then a letter, over and over", format!("{}x", " ".repeat(999)).repeat(n / 1000)),
        ("spaces and newlines in turn", " \n".repeat(n / 2)),
        ("apostrophes", "'".repeat(n)),
        ("digits", "7".repeat(n)),
        ("letters of two scripts in turn", "aя".repeat(n / 2)),
        ("beginnings of a control token", "<|im_start|".repeat(n / 11)),
        ("control tokens", "<|im_start|>".repeat(n / 12)),
        ("zero bytes", "\0".repeat(n)),
        ("one letter, composed and not", "e\u{301}é".repeat(n / 3)),
    ]
}

pub fn assert_reads_in_time(tokenizer: &Tokenizer, named: &str) {
    for ((what, short), (_, long)) in texts(N / 10).into_iter().zip(texts(N)) {
        // Only the names of control tokens are read in two ways.
        for special in [false, true].into_iter().take(if long.contains('<') { 2 } else { 1 }) {
            // On a busy machine a single measurement means little.
            let is_linear = (0..5).any(|_| {
                let took = ms_to_read(tokenizer, &long, special);
                took < SOON_MS || took < MAX_RATIO * ms_to_read(tokenizer, &short, special)
            });
            assert!(is_linear, "{named}, {what}: not in proportion to the text");
        }
        let ids = tokenizer.encode(&long, false).expect(what);
        assert!(tokenizer.decode(&ids) == long, "{named}, {what}: another text came back");
    }
}

fn ms_to_read(tokenizer: &Tokenizer, text: &str, special: bool) -> f64 {
    let start = now_ms();
    tokenizer.encode(text, special).expect("no more white space than can be read");
    now_ms() - start
}

#[test]
fn long_texts_are_read_in_time_and_whole() {
    let pieces =
        [("aa", NORMAL), ("aaaa", NORMAL), ("ĠĠ", NORMAL), ("<|im_start|>", CONTROL), ("e\u{301}", USER_DEFINED)];
    // All the regexes there are, but for one that differs from the last in how it cuts numbers.
    for pre in ["smollm", "llama-bpe"] {
        let tokenizer = File::new(pre, &pieces, &["a a", "aa aa", "Ġ Ġ"]).tokenizer(256 + pieces.len()).unwrap();
        assert_reads_in_time(&tokenizer, pre);
    }
}
