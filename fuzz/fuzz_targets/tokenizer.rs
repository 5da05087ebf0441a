//! A vocabulary made of anything, and text in it.

#![no_main]

use arbitrary::Arbitrary;
use libfuzzer_sys::fuzz_target;
use nucleus::tokenizer::{TokenBytes, Utf8Stream};
use nucleus_fuzz::file::{File, Value};

/// More text than this only takes time.
const MAX_TEXT: usize = 256;

fuzz_target!(|input: Input| {
    let pieces: Vec<_> = input.pieces.iter().map(|(piece, kind)| (*piece, i32::from(kind % 8))).collect();
    let merges: Vec<_> = input.merges.iter().map(|merge| merge.text(&pieces)).collect();
    let pre = PRES[usize::from(input.pre) % PRES.len()];
    let mut file = File::new(pre, &pieces, &merges.iter().map(String::as_str).collect::<Vec<_>>());
    let is_whole = input.changes.is_empty();
    for change in input.changes {
        change.apply(&mut file);
    }
    let vocab_size = 256 + pieces.len();
    let Some(tokenizer) = nucleus_fuzz::tokenizer(&file.bytes(vocab_size), vocab_size) else { return };

    let end = input.text.floor_char_boundary(MAX_TEXT);
    for special in [false, true] {
        let text = &input.text[..end];
        let ids = tokenizer.encode(text, special).expect("there is no long white space");
        assert!(ids.iter().all(|&id| (id as usize) < vocab_size));
        assert!(special || !ids.iter().any(|&id| tokenizer.is_control(id)), "text spelled a control token");
        let decoded = tokenizer.decode(&ids);
        if is_whole && !special {
            assert_eq!(decoded, text, "every byte has a piece");
        }
        let mut stream = Utf8Stream::default();
        let mut streamed: String = ids.iter().map(|&id| stream.push(tokenizer.text_bytes(id))).collect();
        streamed.push_str(&stream.flush());
        assert_eq!(streamed, decoded);
    }
    assert!(tokenizer.token_bytes(u32::MAX).is_empty());
});

#[derive(Arbitrary, Debug)]
struct Input<'a> {
    pre: u8,
    pieces: Vec<(&'a str, u8)>,
    merges: Vec<Merge<'a>>,
    changes: Vec<Change<'a>>,
    text: &'a str,
}

#[derive(Arbitrary, Debug)]
enum Merge<'a> {
    /// Cuts one of the pieces in two.
    Of {
        piece: u8,
        at: u8,
    },
    Text(&'a str),
}

impl Merge<'_> {
    fn text(&self, pieces: &[(&str, i32)]) -> String {
        match *self {
            Merge::Of { piece, at } if !pieces.is_empty() => {
                let (piece, _) = pieces[usize::from(piece) % pieces.len()];
                let (left, right) = piece.split_at(piece.floor_char_boundary(usize::from(at)));
                format!("{left} {right}")
            }
            Merge::Of { .. } => String::new(),
            Merge::Text(text) => text.to_owned(),
        }
    }
}

/// Each replaces the value under one key, by one of a type that may fit it.
#[derive(Arbitrary, Debug)]
enum Change<'a> {
    Remove(u8),
    Text(u8, &'a str),
    Flag(u8, bool),
    Id(u8, u64),
    SmallId(u8, u8),
    Negative(u8, i32),
    Texts(u8, Vec<&'a str>),
    Numbers(u8, Vec<i32>),
    Floats(u8, Vec<f32>),
}

const PRES: [&str; 8] = ["gpt-2", "phi-2", "smollm", "qwen2", "deepseek-r1-qwen", "llama-bpe", "llama3", "llama-v3"];

const KEYS: [&str; 14] = [
    "model",
    "pre",
    "tokens",
    "token_type",
    "scores",
    "merges",
    "add_bos_token",
    "add_eos_token",
    "add_space_prefix",
    "bos_token_id",
    "eos_token_id",
    "eot_token_id",
    "unknown_token_id",
    "padding_token_id",
];

impl Change<'_> {
    fn apply(self, file: &mut File) {
        let (key, value) = match self {
            Change::Remove(key) => (key, None),
            Change::Text(key, text) => (key, Some(Value::String(text.to_owned()))),
            Change::Flag(key, flag) => (key, Some(Value::Bool(flag))),
            Change::Id(key, id) => (key, Some(Value::U64(id))),
            Change::SmallId(key, id) => (key, Some(Value::U32(id.into()))),
            Change::Negative(key, id) => (key, Some(Value::I32(id))),
            Change::Texts(key, texts) => (key, Some(Value::Strings(texts.into_iter().map(str::to_owned).collect()))),
            Change::Numbers(key, numbers) => (key, Some(Value::I32s(numbers))),
            Change::Floats(key, numbers) => (key, Some(Value::F32s(numbers))),
        };
        let key = KEYS[usize::from(key) % KEYS.len()];
        match value {
            Some(value) => file.set(key, value),
            None => file.remove(key),
        }
    }
}
