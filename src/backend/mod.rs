//! Where a plan runs. One trait, one executor per device.
//!
//! Invariant: knows tensors and positions; nothing of text, sampling or the page.

pub mod cpu;

use crate::error::Result;

/// An engine that holds a model and its KV cache.
pub trait Backend {
    /// Runs `ids` at the positions that follow the cache, and adds them to it. With `logits`, the last position's logits
    /// (one per vocabulary entry) replace its contents.
    ///
    /// Errors: `empty-prompt` without ids, `prompt-too-long` past the context, `bad-token` past the vocabulary, `backend` when the device fails. After an error the
    /// cache is as it was before the call.
    fn forward(&mut self, ids: &[u32], logits: Option<&mut Vec<f32>>) -> impl Future<Output = Result<()>>;

    /// Positions in the cache.
    fn kv_len(&self) -> usize;

    /// Forgets every position from `len` on. Does nothing when the cache is not longer than that.
    fn truncate_kv(&mut self, len: usize);

    /// Makes room for `n_positions` in all, so that the steps of a run allocate nothing.
    fn reserve_kv(&mut self, n_positions: usize) -> Result<()>;
}
