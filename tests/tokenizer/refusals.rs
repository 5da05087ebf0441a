//! Vocabularies that must be refused, and what the refusal says.

use crate::file::{BYTE, File, NORMAL, Value};
#[cfg(test)]
use crate::refusal::in_words;
#[cfg(target_arch = "wasm32")]
use wasm_bindgen_test::wasm_bindgen_test as test;

/// Pieces of the file that [`REFUSALS`] change.
pub const VOCAB_SIZE: usize = 257;

/// A file that is accepted.
pub fn good() -> File {
    File::new("gpt-2", &[("th", NORMAL)], &["t h"])
}

/// What is changed in the good file, and a part of the sentence that refuses it.
pub type Refusal = (&'static str, fn(&mut File), &'static str);

pub const REFUSALS: &[Refusal] = &[
    ("no model", |file| file.remove("model"), "`tokenizer.ggml.model` is missing"),
    ("model of the wrong type", |file| file.set("model", Value::U32(1)), "`tokenizer.ggml.model` has type u32"),
    ("unknown model", |file| file.set("model", Value::String("bert".into())), "`bert`; expected gpt2 or llama"),
    ("no pre", |file| file.remove("pre"), "`tokenizer.ggml.pre` is missing"),
    ("unknown pre", |file| file.set("pre", Value::String("klingon".into())), "`klingon`; expected one of gpt-2"),
    ("no vocabulary", |file| file.remove("tokens"), "`tokenizer.ggml.tokens` is missing"),
    ("empty vocabulary", |file| file.change_strings("tokens", Vec::clear), "has 0 pieces"),
    (
        "shorter than the embedding",
        |file| file.change_strings("tokens", |tokens| tokens.truncate(256)),
        "has 256 pieces",
    ),
    (
        "longer than the embedding",
        |file| file.change_strings("tokens", |tokens| tokens.push("more".into())),
        "has 258 pieces; expected one for each of the 257",
    ),
    ("pieces that are numbers", |file| file.set("tokens", Value::I32s(vec![0; 257])), "tokens` has type array of i32"),
    (
        "a piece twice",
        |file| file.change_strings("tokens", |tokens| tokens[7] = "th".into()),
        "`th` at 7 and again at 256",
    ),
    ("too few types", |file| file.set("token_type", Value::I32s(vec![1; 256])), "token_type` has 256 elements"),
    ("too many types", |file| file.set("token_type", Value::I32s(vec![1; 258])), "token_type` has 258 elements"),
    (
        "types that are floats",
        |file| file.set("token_type", Value::F32s(vec![1.0; 257])),
        "token_type` has type array of f32",
    ),
    ("an unknown type", |file| file.set("token_type", Value::I32s(vec![7; 257])), "token_type` is 7 for token 0"),
    ("a negative type", |file| file.set("token_type", Value::I32s(vec![-1; 257])), "token_type` is -1 for token 0"),
    (
        "bytes that name none",
        |file| file.set("token_type", Value::I32s(vec![BYTE; 257])),
        "expected a form like <0x0A>",
    ),
    ("<0xZZ>", |file| make_byte(file, "<0xZZ>"), "`<0xZZ>`"),
    ("<0x+1>", |file| make_byte(file, "<0x+1>"), "`<0x+1>`"),
    ("too few scores", |file| file.set("scores", Value::F32s(vec![0.0; 256])), "scores` has 256 elements"),
    ("scores that are integers", |file| file.set("scores", Value::I32s(vec![0; 257])), "scores` has type array of i32"),
    (
        "id past the end",
        |file| file.set("eos_token_id", Value::U32(257)),
        "eos_token_id` is 257; expected an id below 257",
    ),
    ("negative id", |file| file.set("bos_token_id", Value::I32(-1)), "bos_token_id` is -1"),
    ("id of 2^32 + 1", |file| file.set("eot_token_id", Value::U64((1 << 32) + 1)), "eot_token_id` is 4294967297"),
    (
        "padding past the end",
        |file| file.set("padding_token_id", Value::U32(u32::MAX)),
        "padding_token_id` is 4294967295",
    ),
    ("id of the wrong type", |file| file.set("eos_token_id", Value::Bool(true)), "eos_token_id` has type bool"),
    (
        "BOS to add, but none named",
        |file| file.set("add_bos_token", Value::Bool(true)),
        "no `tokenizer.ggml.bos_token_id`",
    ),
    ("add_bos of the wrong type", |file| file.set("add_bos_token", Value::U32(1)), "add_bos_token` has type u32"),
    ("no merges", |file| file.remove("merges"), "`tokenizer.ggml.merges` is missing"),
    ("merges that are numbers", |file| file.set("merges", Value::I32s(vec![1])), "merges` has type array of i32"),
    ("merge without a space", |file| add_merge(file, "th"), "Merge 1 is `th`"),
    ("merge of three", |file| add_merge(file, "t h e"), "Merge 1 is `t h e`"),
    ("merge with an empty side", |file| add_merge(file, " h"), "Merge 1 is ` h`"),
    ("merge of an unknown piece", |file| add_merge(file, "t xyz"), "`xyz` is not in the vocabulary"),
    ("merge to an unknown piece", |file| add_merge(file, "t t"), "`tt` is not in the vocabulary"),
    ("merge longer than any piece", |file| add_merge(file, "th th"), "`thth` is not in the vocabulary"),
];

fn add_merge(file: &mut File, merge: &str) {
    file.change_strings("merges", |merges| merges.push(merge.to_owned()));
}

fn make_byte(file: &mut File, name: &str) {
    file.change_strings("tokens", |tokens| tokens[256] = name.to_owned());
    file.change_strings("merges", Vec::clear);
    let types = (0..257).map(|id| if id == 256 { BYTE } else { NORMAL });
    file.set("token_type", Value::I32s(types.collect()));
}

#[test]
fn what_is_refused() {
    good().tokenizer(VOCAB_SIZE).unwrap();
    for (name, change, sentence) in REFUSALS {
        let mut file = good();
        change(&mut file);
        let Err(error) = in_words(file.tokenizer(VOCAB_SIZE)) else { panic!("{name}: accepted") };
        assert_eq!(error.kind(), "bad-tokenizer", "{name}: {error}");
        assert!(error.to_string().contains(sentence), "{name}: {error}");
    }
}

/// The sentence of a refusal holds no more of a hostile piece than helps.
#[test]
fn a_refusal_quotes_only_the_beginning_of_a_long_piece() {
    let mut file = File::new("gpt-2", &[], &[]);
    add_merge(&mut file, &"x".repeat(1_000_000));
    let Err(error) = file.tokenizer(256) else { panic!("accepted") };
    assert!(error.to_string().len() < 200);
}
