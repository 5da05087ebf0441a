//! The vocabulary of Gemma 3 and llama.cpp's ids (`fixtures/gemma3-270m-q4_k_m.json`), where `cargo xtask model gemma` has put the
//! file.

use nucleus::gguf::Gguf;
use nucleus::protocol::ChatMessage;
use nucleus::tokenizer::{TokenBytes, Tokenizer};
use std::sync::OnceLock;
use std::time::Instant;

const MODEL: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/www/models/gemma-3-270m.Q4_K_M.gguf");

/// None where the file is not there.
fn gemma3() -> Option<&'static Tokenizer> {
    static TOKENIZER: OnceLock<Option<Tokenizer>> = OnceLock::new();
    let read = || {
        let Ok(bytes) = std::fs::read(MODEL) else {
            eprintln!("{MODEL} is not there: nothing is tested.");
            return None;
        };
        let metadata = Gguf::parse(&bytes).unwrap().metadata;
        let started = Instant::now();
        let tokenizer = Tokenizer::from_metadata(&metadata, 262_144).unwrap();
        eprintln!("262,144 pieces: {:?}", started.elapsed());
        Some(tokenizer)
    };
    TOKENIZER.get_or_init(read).as_ref()
}

#[test]
fn ids_equal_llama_cpp() {
    let Some(tokenizer) = gemma3() else { return };
    let fixture: serde_json::Value = serde_json::from_str(include_str!("../fixtures/gemma3-270m-q4_k_m.json")).unwrap();
    let cases = fixture["tokenize"].as_array().unwrap();
    assert_eq!(cases.len(), 41);
    for case in cases {
        let ids = |column: &str| -> Vec<u32> { serde_json::from_value(case[column].clone()).unwrap() };
        let text = case["text"].as_str().unwrap();
        assert_eq!(tokenizer.encode(text, false).unwrap(), ids("ids"), "{text:?}");
        assert_eq!(tokenizer.encode(text, true).unwrap(), ids("ids_special"), "{text:?}, special");
        assert_eq!(tokenizer.decode(&ids("ids")), text);
    }
}

#[test]
fn long_texts_round_trip_in_time_that_grows_with_them() {
    let Some(tokenizer) = gemma3() else { return };
    for unit in ["a", " ", "\n", "🙂", "1", "<", " the quick", "\u{0}"] {
        let text = unit.repeat(100_000 / unit.len());
        let started = Instant::now();
        let ids = tokenizer.encode(&text, false).unwrap();
        eprintln!("{unit:?}: {} ids in {:?}", ids.len(), started.elapsed());
        assert!(started.elapsed().as_secs_f64() < 5.0, "{unit:?}");
        assert_eq!(tokenizer.decode(&ids), text, "{unit:?}");
    }
}

#[test]
fn gemma3_begins_with_bos_and_ends_at_the_end_of_a_turn() {
    let Some(tokenizer) = gemma3() else { return };
    assert_eq!(tokenizer.add_bos(), Some(2));
    // <eos> and <end_of_turn>; the file itself names only the first.
    assert_eq!(tokenizer.eos(), [1, 106]);
    assert_eq!(tokenizer.token_bytes(106), b"<end_of_turn>");
    let message = ChatMessage { role: "user".into(), content: "Hi".into() };
    assert_eq!(tokenizer.chat(&[message]).unwrap_err().kind(), "no-chat-template");
}
