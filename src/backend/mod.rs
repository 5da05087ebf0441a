//! Where a plan runs. One trait, one executor per device.
//!
//! Invariant: knows tensors and positions; nothing of text, sampling or the page.

mod choose;
pub mod cpu;
mod estimate;
pub mod gpu;
mod load;
mod rope;
mod self_test;

pub use crate::logits::{Logits, Sums, Top, Wanted};
pub use choose::ChosenBackend;
pub use estimate::{Budget, Estimate};
pub use load::Loader;

use crate::error::{Error, Result};

/// An engine that holds a model and its KV cache.
pub trait Backend {
    /// Runs `ids` at the positions that follow the cache, and adds them to it. With `logits`, the last position's replace its
    /// contents: the whole vector, or the top alone where that is all that is wanted and the backend finds it cheaper.
    ///
    /// Errors: `empty-prompt` without ids, `prompt-too-long` past the context, `bad-token` past the vocabulary, `backend` when
    /// the device fails. After an error the cache is as it was before the call.
    fn forward(&mut self, ids: &[u32], logits: Option<(Wanted, &mut Logits)>) -> impl Future<Output = Result<()>>;

    /// The whole vector of the last position that `forward` computed logits for, when its top was not enough.
    fn read_all(&mut self, logits: &mut Logits) -> impl Future<Output = Result<()>>;

    /// Positions in the cache.
    fn kv_len(&self) -> usize;

    /// Forgets every position from `len` on. Does nothing when the cache is not longer than that.
    fn truncate_kv(&mut self, len: usize);

    /// Makes room for `n_positions` in all, so that the steps of a run allocate nothing.
    fn reserve_kv(&mut self, n_positions: usize) -> impl Future<Output = Result<()>>;
}

/// A part of loading a model into a backend.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// Bytes of the file.
    Upload,
    /// GPU pipelines.
    Compile,
    /// Positions computed on each engine.
    SelfTest,
}

/// Refuses ids that a pass cannot take: none, more than the context has room for, or past the vocabulary.
fn check_ids(ids: &[u32], kv_len: usize, context_length: usize, vocab_size: usize) -> Result<()> {
    if ids.is_empty() {
        return Err(Error::EmptyPrompt("A forward pass needs at least one token.".into()));
    }
    if ids.len() > context_length - kv_len {
        let n = ids.len();
        return Err(Error::PromptTooLong(format!(
            "{n} more tokens do not fit: the cache holds {kv_len} of at most {context_length} positions."
        )));
    }
    match ids.iter().find(|&&id| id as usize >= vocab_size) {
        Some(id) => {
            Err(Error::BadToken(format!("Token {id} does not exist: the vocabulary has {vocab_size} entries.")))
        }
        None => Ok(()),
    }
}
