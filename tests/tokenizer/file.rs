//! GGUF files with a small vocabulary: bytes have their value as id, and what a test adds follows from 256.

use crate::gguf_writer::{GgufFile, array, ty};
use nucleus::gguf::Gguf;
use nucleus::tokenizer::Tokenizer;
use std::collections::BTreeMap;

pub const NORMAL: i32 = 1;
pub const CONTROL: i32 = 3;
pub const USER_DEFINED: i32 = 4;
pub const BYTE: i32 = 6;

#[derive(Clone)]
pub enum Value {
    Bool(bool),
    U32(u32),
    I32(i32),
    U64(u64),
    String(String),
    Strings(Vec<String>),
    I32s(Vec<i32>),
    F32s(Vec<f32>),
}

/// The metadata of a file, as a test changes it.
#[derive(Clone)]
pub struct File(BTreeMap<String, Value>);

impl File {
    pub fn new(pre: &str, pieces: &[(&str, i32)], merges: &[&str]) -> Self {
        let mut tokens: Vec<String> = byte_alphabet().map(String::from).collect();
        let mut types = vec![NORMAL; 256];
        for (piece, ty) in pieces {
            tokens.push((*piece).to_owned());
            types.push(*ty);
        }
        let mut file = Self(BTreeMap::new());
        file.set("model", Value::String("gpt2".to_owned()));
        file.set("pre", Value::String(pre.to_owned()));
        file.set("tokens", Value::Strings(tokens));
        file.set("token_type", Value::I32s(types));
        file.set("merges", Value::Strings(merges.iter().map(|merge| (*merge).to_owned()).collect()));
        file
    }

    /// `key` without its `tokenizer.ggml.`.
    pub fn set(&mut self, key: &str, value: Value) {
        self.0.insert(format!("tokenizer.ggml.{key}"), value);
    }

    pub fn set_template(&mut self, template: Value) {
        self.0.insert("tokenizer.chat_template".to_owned(), template);
    }

    pub fn remove(&mut self, key: &str) {
        self.0.remove(&format!("tokenizer.ggml.{key}"));
    }

    pub fn change_strings(&mut self, key: &str, change: impl FnOnce(&mut Vec<String>)) {
        let Some(Value::Strings(strings)) = self.0.get_mut(&format!("tokenizer.ggml.{key}")) else {
            panic!("{key} is no array of strings");
        };
        change(strings);
    }

    pub fn tokenizer(&self, vocab_size: usize) -> nucleus::Result<Tokenizer> {
        Tokenizer::from_metadata(&Gguf::parse(&self.bytes(vocab_size)).unwrap().metadata, vocab_size)
    }

    /// The file, its embedding of `vocab_size` rows.
    pub fn bytes(&self, vocab_size: usize) -> Vec<u8> {
        let mut file = GgufFile::tiny_llama();
        file.set_vocab_size(vocab_size);
        for (key, value) in &self.0 {
            let (ty, bytes) = value.encoded();
            file.set(key, ty, bytes);
        }
        file.bytes()
    }
}

impl Value {
    /// The type number and the bytes of the value in a file.
    fn encoded(&self) -> (u32, Vec<u8>) {
        match self {
            Value::Bool(flag) => (ty::BOOL, vec![u8::from(*flag)]),
            Value::U32(number) => (ty::U32, number.to_le_bytes().to_vec()),
            Value::I32(number) => (ty::I32, number.to_le_bytes().to_vec()),
            Value::U64(number) => (ty::U64, number.to_le_bytes().to_vec()),
            Value::String(text) => (ty::STRING, string(text)),
            Value::Strings(texts) => list(ty::STRING, texts, |text| string(text)),
            Value::I32s(numbers) => list(ty::I32, numbers, |number| number.to_le_bytes().to_vec()),
            Value::F32s(numbers) => list(ty::F32, numbers, |number| number.to_le_bytes().to_vec()),
        }
    }
}

fn list<T>(element_ty: u32, elements: &[T], encoded: impl Fn(&T) -> Vec<u8>) -> (u32, Vec<u8>) {
    let bytes: Vec<u8> = elements.iter().flat_map(encoded).collect();
    (ty::ARRAY, array(element_ty, elements.len() as u64, bytes))
}

fn string(text: &str) -> Vec<u8> {
    [&(text.len() as u64).to_le_bytes()[..], text.as_bytes()].concat()
}

/// The character for each byte in byte-level BPE, bytes ascending.
fn byte_alphabet() -> impl Iterator<Item = char> {
    let mut next = 0x100..;
    (0..=255_u8).map(move |byte| match byte {
        b'!'..=b'~' | 0xa1..=0xac | 0xae..=0xff => char::from(byte),
        _ => char::from_u32(next.next().unwrap()).unwrap(),
    })
}
