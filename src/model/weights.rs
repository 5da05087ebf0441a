//! The tensors of a model by role, with their shapes checked against the configuration.

use crate::quant::GgmlType;
use std::ops::Range;

/// Where a tensor's bytes are. `n_rows` rows of `n_cols` values each (GGUF stores `ne[0] = n_cols` first).
#[derive(Debug, Clone, PartialEq)]
pub struct TensorRef {
    pub name: String,
    pub ty: GgmlType,
    pub n_rows: usize,
    pub n_cols: usize,
    /// Bytes from the start of the file.
    pub bytes: Range<usize>,
}

/// Tensors of one layer. `[n_rows, n_cols]` beside each.
#[derive(Debug, Clone, PartialEq)]
pub struct LayerWeights {
    /// F32 `[1, n_embd]`
    pub attn_norm: TensorRef,
    /// `[n_heads * head_dim, n_embd]`
    pub attn_q: TensorRef,
    /// `[n_kv_heads * head_dim, n_embd]`
    pub attn_k: TensorRef,
    /// `[n_kv_heads * head_dim, n_embd]`
    pub attn_v: TensorRef,
    /// `[n_embd, n_heads * head_dim]`
    pub attn_output: TensorRef,
    /// F32 `[1, n_embd]`
    pub ffn_norm: TensorRef,
    /// `[n_ff, n_embd]`
    pub ffn_gate: TensorRef,
    /// `[n_ff, n_embd]`
    pub ffn_up: TensorRef,
    /// `[n_embd, n_ff]`
    pub ffn_down: TensorRef,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Weights {
    /// `[vocab_size, n_embd]`
    pub token_embd: TensorRef,
    pub layers: Vec<LayerWeights>,
    /// F32 `[1, n_embd]`
    pub output_norm: TensorRef,
    /// `[vocab_size, n_embd]`; none: tied to `token_embd`.
    pub output: Option<TensorRef>,
    /// F32 `[1, rope_dim / 2]`: divisors of the rotation frequencies (`rope_freqs.weight`, Llama 3).
    pub rope_freqs: Option<TensorRef>,
}
