//! The vocabulary of SmolLM2 and llama.cpp's ids (`fixtures/smollm2-135m-q4_1.json`).

use crate::long_texts::assert_reads_in_time;
use nucleus::gguf::Gguf;
use nucleus::protocol::ChatMessage;
use nucleus::tokenizer::{TokenBytes, Tokenizer, Utf8Stream};
use std::sync::OnceLock;

const MODEL: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/www/models/SmolLM2-135M-Instruct.Q4_1.gguf");

fn smollm2() -> &'static Tokenizer {
    static TOKENIZER: OnceLock<Tokenizer> = OnceLock::new();
    TOKENIZER.get_or_init(|| {
        let bytes =
            std::fs::read(MODEL).unwrap_or_else(|error| panic!("{MODEL}: {error}; run `cargo xtask model` first"));
        Tokenizer::from_metadata(&Gguf::parse(&bytes).unwrap().metadata, 49152).unwrap()
    })
}

/// A text of the fixture and llama.cpp's ids of it.
struct Case {
    text: String,
    ids: Vec<u32>,
    ids_special: Vec<u32>,
}

fn llama_cpp_cases() -> Vec<Case> {
    let fixture: serde_json::Value = serde_json::from_str(include_str!("../fixtures/smollm2-135m-q4_1.json")).unwrap();
    let cases: Vec<_> = fixture["tokenize"]
        .as_array()
        .unwrap()
        .iter()
        .map(|case| {
            let ids = |column: &str| serde_json::from_value(case[column].clone()).unwrap();
            Case { text: case["text"].as_str().unwrap().to_owned(), ids: ids("ids"), ids_special: ids("ids_special") }
        })
        .collect();
    assert_eq!(cases.len(), 41);
    cases
}

#[test]
fn ids_equal_llama_cpp() {
    for case in llama_cpp_cases() {
        assert_eq!(smollm2().encode(&case.text, false).unwrap(), case.ids, "{:?}", case.text);
        assert_eq!(smollm2().encode(&case.text, true).unwrap(), case.ids_special, "{:?}, special", case.text);
    }
}

#[test]
fn its_own_template_makes_a_prompt() {
    let say = |role: &str, content: &str| ChatMessage { role: role.into(), content: content.into() };
    let prompt = smollm2().chat(&[say("user", "Hi <|im_end|>")]).unwrap();
    let text = "<|im_start|>system\nYou are a helpful AI assistant named SmolLM, trained by Hugging Face<|im_end|>\n<|im_start|>user\nHi <|im_end|><|im_end|>\n<|im_start|>assistant\n";
    assert_eq!(prompt.text, text);
    let control: Vec<u32> = prompt.ids.iter().copied().filter(|id| smollm2().is_control(*id)).collect();
    assert_eq!(control, [1, 2, 1, 2, 1], "the one that was said is text");
    let said = smollm2().chat(&[say("system", "Be brief."), say("user", "Hi")]).unwrap();
    assert_eq!(said.ids, smollm2().encode(&said.text, true).unwrap());
    assert!(said.text.starts_with("<|im_start|>system\nBe brief.<|im_end|>\n"), "{}", said.text);
}

#[test]
fn decoding_inverts_encoding() {
    for case in llama_cpp_cases() {
        assert_eq!(smollm2().decode(&case.ids), case.text);
    }
}

#[test]
fn streamed_text_equals_batch_decode_and_no_chip_is_empty() {
    for text in ["🙂🙂 👩‍👩‍👧‍👦 🇯🇵", "日本語のテキスト 中文 한국어", "naïve café"]
    {
        let ids = smollm2().encode(text, false).unwrap();
        let mut stream = Utf8Stream::default();
        let mut streamed = String::new();
        for id in &ids {
            assert!(!smollm2().token_bytes(*id).is_empty());
            streamed += &stream.push(smollm2().text_bytes(*id));
            assert!(text.starts_with(&streamed), "half a character was let out: {streamed:?}");
        }
        streamed += &stream.flush();
        assert_eq!(streamed, smollm2().decode(&ids));
        assert_eq!(streamed, text);
    }
}

#[test]
fn long_texts_are_read_in_time_and_whole() {
    assert_reads_in_time(smollm2(), "SmolLM2");
}

#[test]
fn smollm2_ends_at_im_end_and_endoftext_and_adds_no_bos() {
    // <|endoftext|> and <|im_end|>; the file itself names only the second.
    assert_eq!(smollm2().eos(), [0, 2]);
    assert_eq!(smollm2().add_bos(), None);
    assert!(smollm2().is_control(1));
    assert_eq!(smollm2().token_bytes(1), b"<|im_start|>");
    assert_eq!(smollm2().text_bytes(1), b"");
    assert_eq!(smollm2().token_bytes(49152), b"");
    assert_eq!(smollm2().decode(&[1, 19556, 2, 905, u32::MAX]), "Hello world");
}
