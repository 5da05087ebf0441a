//! What the fuzz targets share with each other and with the tests: a writer of GGUF files, and what must hold of every
//! result.
//!
//! Invariant: the only place that calls the readers; a target makes files.

#[path = "../../tests/tokenizer/file.rs"]
pub mod file;
#[path = "../../tests/support/gguf_writer.rs"]
pub mod gguf_writer;
#[path = "../../tests/support/refusal.rs"]
mod refusal;
#[path = "../../tests/support/watched_allocator.rs"]
mod watched_allocator;

use nucleus::Result;
use nucleus::gguf::Gguf;
use nucleus::model::{ModelConfig, Weights};
use nucleus::protocol::ChatMessage;
use nucleus::tokenizer::{Tokenizer, render_template};
use refusal::in_words;
use watched_allocator::{backed_by, largest_allocation};

/// Bytes that a template may take at once: several times the longest one that is read.
const MAX_OF_A_TEMPLATE: usize = 4 << 20;

/// 2025-12-03.
const NOW: u64 = 1_764_720_000;

/// The directory of a file, if it is accepted.
pub fn gguf(file: &[u8]) -> Option<Gguf> {
    let gguf = frugal(file.len(), || Gguf::parse(file))?;
    let mut tensors: Vec<_> = gguf.tensors.iter().collect();
    tensors.sort_by_key(|tensor| tensor.bytes.start);
    let mut end = 0;
    for tensor in tensors {
        assert!(tensor.bytes.start >= end, "{} overlaps the tensor before it", tensor.name);
        assert_eq!(tensor.bytes.len(), tensor.n_rows() * tensor.ty.row_bytes(tensor.row_len()), "{}", tensor.name);
        end = tensor.bytes.end;
    }
    assert!(end <= file.len());
    Some(gguf)
}

/// What the file says the model is, if it is accepted.
pub fn model(file: &[u8]) -> Option<(ModelConfig, Weights)> {
    let gguf = gguf(file)?;
    frugal(file.len(), || {
        let config = ModelConfig::from_gguf(&gguf)?;
        let weights = Weights::from_gguf(&gguf, &config)?;
        Ok((config, weights))
    })
}

/// The tokenizer of a file, if it is accepted.
pub fn tokenizer(file: &[u8], vocab_size: usize) -> Option<Tokenizer> {
    let gguf = gguf(file)?;
    in_words(Tokenizer::from_metadata(&gguf.metadata, vocab_size)).ok()
}

/// The prompt that a template makes of a conversation, if the template is accepted.
pub fn chat_prompt(template: &str, messages: &[ChatMessage]) -> Option<String> {
    let (result, largest) = largest_allocation(|| render_template(template, messages, &[], NOW));
    assert!(largest <= MAX_OF_A_TEMPLATE, "allocated {largest} bytes at once");
    if let Err(error) = &result {
        let sentence = error.to_string();
        assert_eq!(error.kind(), "template-refused", "{sentence}");
        assert!(sentence.len() <= 450 && !sentence.contains(char::is_control), "{sentence:?}");
    }
    result.ok()
}

/// What `read` makes of a file of `n_bytes`: it allocates nothing that the file does not back, and a refusal is in words.
fn frugal<T>(n_bytes: usize, read: impl FnOnce() -> Result<T>) -> Option<T> {
    let (result, largest) = largest_allocation(read);
    assert!(largest <= backed_by(n_bytes), "allocated {largest} bytes at once for a file of {n_bytes}");
    in_words(result).ok()
}
