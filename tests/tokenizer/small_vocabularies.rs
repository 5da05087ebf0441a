//! What the rules of encoding do, one at a time.

use crate::file::{BYTE, CONTROL, File, NORMAL, USER_DEFINED, Value};
use nucleus::tokenizer::TokenBytes;
#[cfg(target_arch = "wasm32")]
use wasm_bindgen_test::wasm_bindgen_test as test;

#[test]
fn each_pre_tokenizer_cuts_numbers_and_contractions_its_own_way() {
    let pieces = [("12", NORMAL), ("123", NORMAL), ("1234", NORMAL), ("'S", NORMAL), ("Ġ'", NORMAL), ("'S'", NORMAL)];
    let merges = ["1 2", "12 3", "123 4", "' S", "'S '", "Ġ '"];
    let cases: [(&str, &str, &[u32]); 17] = [
        ("gpt-2", "1234", &[258]),
        ("phi-2", "1234", &[258]),
        ("smollm", "1234", &[49, 50, 51, 52]),
        ("qwen2", "1234", &[49, 50, 51, 52]),
        ("deepseek-r1-qwen", "1234", &[49, 50, 51, 52]),
        ("llama-bpe", "1234", &[257, 52]),
        ("llama3", "1234", &[257, 52]),
        ("llama-v3", "1234", &[257, 52]),
        // Only the last two know a contraction by its capital.
        ("gpt-2", "'S", &[39, 83]),
        ("smollm", "'S", &[39, 83]),
        ("qwen2", "'S", &[259]),
        ("tekken", "1234", &[49, 50, 51, 52]),
        ("tekken", "'S'", &[259, 39]),
        ("refact", "1234", &[49, 50, 51, 52]),
        ("default", "1234", &[257, 52]),
        ("default", "'S'", &[39, 83, 39]),
        ("llama-bpe", "'S", &[259]),
    ];
    for (pre, text, ids) in cases {
        let tokenizer = File::new(pre, &pieces, &merges).tokenizer(262).unwrap();
        assert_eq!(tokenizer.encode(text, false).unwrap(), ids, "{pre}: {text:?}");
    }
}

#[test]
fn tekken_cuts_where_a_word_of_capitals_begins() {
    let pieces = [("aB", NORMAL), ("Bb", NORMAL), ("BB", NORMAL)];
    let tokenizer = File::new("tekken", &pieces, &["a B", "B b", "B B"]).tokenizer(259).unwrap();
    assert_eq!(tokenizer.encode("aBb", false).unwrap(), [97, 257]);
    assert_eq!(tokenizer.encode("aBB", false).unwrap(), [97, 258]);
    for unit in ["a", "B", "aB", "é", "\u{65e5}"] {
        let text = unit.repeat(100_000 / unit.len());
        assert_eq!(tokenizer.decode(&tokenizer.encode(&text, false).unwrap()), text, "{unit}");
    }
}

#[test]
fn only_llama_bpe_takes_a_whole_word_without_merges() {
    for (pre, ids) in [("llama-bpe", &[256][..]), ("qwen2", &[116, 104, 101]), ("gpt-2", &[116, 104, 101])] {
        let tokenizer = File::new(pre, &[("the", NORMAL)], &[]).tokenizer(257).unwrap();
        assert_eq!(tokenizer.encode("the", false).unwrap(), ids, "{pre}");
    }
}

#[test]
fn text_never_becomes_a_control_token_unless_asked() {
    // Merges, and a word that is a piece as a whole, would both lead to the control token `the`.
    for pre in ["gpt-2", "llama-bpe"] {
        let pieces = [("th", NORMAL), ("the", CONTROL), ("<|x|>", CONTROL)];
        let tokenizer = File::new(pre, &pieces, &["t h", "th e"]).tokenizer(259).unwrap();
        assert_eq!(tokenizer.encode("the<|x|>", false).unwrap(), [256, 101, 60, 124, 120, 124, 62], "{pre}");
        assert_eq!(tokenizer.encode("the<|x|>", true).unwrap(), [257, 258], "{pre}");
    }
}

#[test]
fn user_defined_tokens_are_always_found_and_longer_names_win() {
    let pieces = [("ab", USER_DEFINED), ("bcd", USER_DEFINED), ("日本", USER_DEFINED), ("d!", CONTROL)];
    let tokenizer = File::new("gpt-2", &pieces, &[]).tokenizer(260).unwrap();
    assert_eq!(tokenizer.encode("abcd!ab", false).unwrap(), [97, 257, 33, 256]);
    assert_eq!(tokenizer.encode("abd!", true).unwrap(), [256, 259]);
    assert_eq!(tokenizer.encode("日本", false).unwrap(), [258]);
    assert_eq!(tokenizer.decode(&[258, 97]), "日本a");
}

#[test]
fn a_byte_without_a_piece_yields_nothing_and_keeps_its_neighbours_apart() {
    let mut file = File::new("gpt-2", &[("!!", NORMAL)], &["! !"]);
    // The character of byte 4.
    file.change_strings("tokens", |tokens| tokens[4] = "no longer byte 4".to_owned());
    let tokenizer = file.tokenizer(257).unwrap();
    assert_eq!(tokenizer.encode("!!\u{4}", false).unwrap(), [256]);
    assert_eq!(tokenizer.encode("!\u{4}!", false).unwrap(), [33, 33]);
}

#[test]
fn of_two_equal_merges_the_first_counts() {
    let pieces = [("ab", NORMAL), ("bc", NORMAL)];
    let tokenizer = File::new("gpt-2", &pieces, &["a b", "b c", "a b"]).tokenizer(258).unwrap();
    assert_eq!(tokenizer.encode("abc", false).unwrap(), [256, 99]);
}

#[test]
fn byte_tokens_are_their_byte() {
    let tokenizer = File::new("gpt-2", &[("<0xE6>", BYTE)], &[]).tokenizer(257).unwrap();
    assert_eq!(tokenizer.token_bytes(256), [0xe6]);
}

#[test]
fn the_eos_set_is_the_roles_and_the_well_known_names() {
    let pieces = [("<stop>", CONTROL), ("<|eot_id|>", USER_DEFINED), ("<|end_of_text|>", CONTROL), ("<x>", CONTROL)];
    let mut file = File::new("gpt-2", &pieces, &[]);
    file.set("eos_token_id", Value::U32(258));
    file.set("eom_token_id", Value::U64(256));
    let tokenizer = file.tokenizer(260).unwrap();
    assert_eq!(tokenizer.eos(), [256, 257, 258]);
    // An end of turn is a control token whatever the file calls it.
    assert!(tokenizer.is_control(257));
    assert!(!tokenizer.encode("<|eot_id|>", false).unwrap().contains(&257));

    assert!(File::new("gpt-2", &[], &[]).tokenizer(256).unwrap().eos().is_empty());
}

#[test]
fn bos_is_added_where_the_file_or_its_pre_tokenizer_says_so() {
    let cases = [
        ("gpt-2", None, None),
        ("gpt-2", Some(false), None),
        ("gpt-2", Some(true), Some(256)),
        ("llama-bpe", None, Some(256)),
        ("llama-bpe", Some(false), None),
    ];
    for (pre, add_bos_token, expected) in cases {
        let mut file = File::new(pre, &[("<s>", CONTROL)], &[]);
        file.set("bos_token_id", Value::U32(256));
        if let Some(flag) = add_bos_token {
            file.set("add_bos_token", Value::Bool(flag));
        }
        assert_eq!(file.tokenizer(257).unwrap().add_bos(), expected, "{pre}, {add_bos_token:?}");
    }
}

#[test]
fn long_white_space_is_cut_as_short_is_or_refused() {
    for pre in ["gpt-2", "smollm", "qwen2", "llama-bpe", "tekken", "default"] {
        let tokenizer = File::new(pre, &[("ĠĠ", NORMAL)], &["Ġ Ġ"]).tokenizer(257).unwrap();
        // All but the last space are one piece, an odd number of them; a regex engine that gave up would leave pairs only.
        let ids = tokenizer.encode(&format!("{}x", " ".repeat(500_000)), false).unwrap();
        assert_eq!(ids.len(), 249_999 + 3, "{pre}");
        assert_eq!(ids[249_998..], [256, 32, 32, 120], "{pre}");
        assert_eq!(tokenizer.encode(&" ".repeat(500_001), false).unwrap_err().kind(), "prompt-too-long", "{pre}");
    }
}
