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
use nucleus::tokenizer::Tokenizer;
use refusal::in_words;
use watched_allocator::{backed_by, largest_allocation};

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

/// What `read` makes of a file of `n_bytes`: it allocates nothing that the file does not back, and a refusal is in words.
fn frugal<T>(n_bytes: usize, read: impl FnOnce() -> Result<T>) -> Option<T> {
    let (result, largest) = largest_allocation(read);
    assert!(largest <= backed_by(n_bytes), "allocated {largest} bytes at once for a file of {n_bytes}");
    in_words(result).ok()
}
