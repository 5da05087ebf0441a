//! The tensors of a model by role, with their shapes checked against the configuration.
//!
//! Invariant: holds places in the file, never tensor data.

use super::{Architecture, ModelConfig};
use crate::error::{Error, Result};
use crate::gguf::{Gguf, TensorInfo};
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
    /// `[n_heads * head_dim, n_embd]`. Which rows of a head are rotated together is the family's
    /// [`Pairing`](super::Pairing).
    pub attn_q: TensorRef,
    /// `[n_kv_heads * head_dim, n_embd]`, ordered as `attn_q`.
    pub attn_k: TensorRef,
    /// `[n_kv_heads * head_dim, n_embd]`
    pub attn_v: TensorRef,
    /// Biases of Q, K and V: F32 `[1, width]` each.
    pub qkv_bias: Option<[TensorRef; 3]>,
    /// Norms of the heads of Q and of K: F32 `[1, head_dim]` each.
    pub head_norms: Option<[TensorRef; 2]>,
    /// `[n_embd, n_heads * head_dim]`
    pub attn_output: TensorRef,
    /// F32 `[1, n_embd]`: of what attention adds.
    pub attn_post_norm: Option<TensorRef>,
    /// F32 `[1, n_embd]`
    pub ffn_norm: TensorRef,
    /// `[n_ff, n_embd]`
    pub ffn_gate: TensorRef,
    /// `[n_ff, n_embd]`
    pub ffn_up: TensorRef,
    /// `[n_embd, n_ff]`
    pub ffn_down: TensorRef,
    /// F32 `[1, n_embd]`: of what the feed-forward layer adds.
    pub ffn_post_norm: Option<TensorRef>,
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

impl Weights {
    /// Finds every tensor that the architecture needs. Tensors that play no part in it are ignored; those that would
    /// change its result are refused.
    ///
    /// Errors: `missing-tensor`; `shape-mismatch`, also for an `output.weight` that is present but wrong;
    /// `unsupported-quantization` for a norm that is not F32; `unsupported-architecture` for a bias and the like;
    /// `bad-hyperparameter` for layers beyond the stated count.
    pub fn from_gguf(gguf: &Gguf, config: &ModelConfig) -> Result<Self> {
        let roles = Roles { gguf };
        roles.refuse_unsupported(config)?;
        let &ModelConfig { n_layers, n_embd, vocab_size, rope_dim, .. } = config;
        Ok(Self {
            token_embd: roles.matrix("token_embd.weight", vocab_size, n_embd)?,
            layers: (0..n_layers).map(|i| roles.layer(i, config)).collect::<Result<_>>()?,
            output_norm: roles.vector("output_norm.weight", n_embd)?,
            output: roles.optional("output.weight", |name| roles.matrix(name, vocab_size, n_embd))?,
            rope_freqs: roles.optional("rope_freqs.weight", |name| roles.vector(name, rope_dim / 2))?,
        })
    }
}

struct Roles<'a> {
    gguf: &'a Gguf,
}

impl Roles<'_> {
    fn layer(&self, i: usize, config: &ModelConfig) -> Result<LayerWeights> {
        let &ModelConfig { architecture, n_embd, n_ff, head_dim, .. } = config;
        let q_dim = config.q_width();
        let kv_dim = config.kv_width();
        let matrix = |role: &str, n_rows, n_cols| self.matrix(&format!("blk.{i}.{role}.weight"), n_rows, n_cols);
        let norm = |role: &str| self.vector(&format!("blk.{i}.{role}.weight"), n_embd);
        let bias = |role: &str, n| self.vector(&format!("blk.{i}.{role}.bias"), n);
        let head_norm = |role: &str| self.vector(&format!("blk.{i}.{role}.weight"), head_dim);
        let has_post_norms = architecture.has_post_norms();
        Ok(LayerWeights {
            attn_norm: norm("attn_norm")?,
            attn_q: matrix("attn_q", q_dim, n_embd)?,
            attn_k: matrix("attn_k", kv_dim, n_embd)?,
            attn_v: matrix("attn_v", kv_dim, n_embd)?,
            qkv_bias: if architecture.has_qkv_bias() {
                Some([bias("attn_q", q_dim)?, bias("attn_k", kv_dim)?, bias("attn_v", kv_dim)?])
            } else {
                None
            },
            head_norms: if architecture.has_head_norms() {
                Some([head_norm("attn_q_norm")?, head_norm("attn_k_norm")?])
            } else {
                None
            },
            attn_output: matrix("attn_output", n_embd, q_dim)?,
            attn_post_norm: has_post_norms.then(|| norm("post_attention_norm")).transpose()?,
            ffn_norm: norm("ffn_norm")?,
            ffn_gate: matrix("ffn_gate", n_ff, n_embd)?,
            ffn_up: matrix("ffn_up", n_ff, n_embd)?,
            ffn_down: matrix("ffn_down", n_embd, n_ff)?,
            ffn_post_norm: has_post_norms.then(|| norm("post_ffw_norm")).transpose()?,
        })
    }

    fn optional(&self, name: &str, find: impl FnOnce(&str) -> Result<TensorRef>) -> Result<Option<TensorRef>> {
        self.gguf.tensor(name).is_some().then(|| find(name)).transpose()
    }

    fn matrix(&self, name: &str, n_rows: usize, n_cols: usize) -> Result<TensorRef> {
        self.shaped(name, &[n_cols, n_rows])
    }

    fn vector(&self, name: &str, n: usize) -> Result<TensorRef> {
        let tensor = self.shaped(name, &[n])?;
        match tensor.ty {
            GgmlType::F32 => Ok(tensor),
            other => Err(Error::UnsupportedQuantization(format!(
                "`{name}` is stored as {}; expected F32, as for every vector of a model.",
                other.name()
            ))),
        }
    }

    /// The tensor `name`, if it has the shape `dims` (in GGUF's order; sizes of 1 at the end make no difference).
    fn shaped(&self, name: &str, dims: &[usize]) -> Result<TensorRef> {
        let Some(tensor) = self.gguf.tensor(name) else {
            return Err(Error::MissingTensor(format!(
                "The file has no tensor `{name}`; expected one of shape {dims:?}."
            )));
        };
        if without_trailing_ones(&tensor.dims) != without_trailing_ones(dims) {
            return Err(Error::ShapeMismatch(format!(
                "`{name}` has shape {:?}; expected {dims:?} by the file's metadata.",
                tensor.dims
            )));
        }
        Ok(TensorRef {
            name: tensor.name.clone(),
            ty: tensor.ty,
            n_rows: tensor.n_rows(),
            n_cols: tensor.row_len(),
            bytes: tensor.bytes.clone(),
        })
    }

    fn refuse_unsupported(&self, config: &ModelConfig) -> Result<()> {
        for TensorInfo { name, .. } in &self.gguf.tensors {
            let in_layer = name.strip_prefix("blk.").and_then(|rest| rest.split_once('.'));
            if in_layer.is_some_and(|(layer, _)| layer.parse().is_ok_and(|layer: usize| layer >= config.n_layers)) {
                return Err(Error::BadHyperparameter(format!(
                    "Found the tensor `{name}` in a model of {} layers; expected none beyond them.",
                    config.n_layers
                )));
            }
            let role = in_layer.map_or(name.as_str(), |(_, role)| role);
            let is_computed = in_layer.is_some() && is_optional_role(config.architecture, role);
            if !is_computed && (role.ends_with(".bias") || UNSUPPORTED_ROLES.contains(&role)) {
                return Err(Error::UnsupportedArchitecture(format!(
                    "Found the tensor `{}`; expected a {} model without it.",
                    name.escape_debug(),
                    config.architecture.name()
                )));
            }
        }
        Ok(())
    }
}

/// Whether a family computes with what others do not have.
fn is_optional_role(architecture: Architecture, role: &str) -> bool {
    match role {
        "attn_q.bias" | "attn_k.bias" | "attn_v.bias" => architecture.has_qkv_bias(),
        "attn_q_norm.weight" | "attn_k_norm.weight" => architecture.has_head_norms(),
        "post_attention_norm.weight" | "post_ffw_norm.weight" => architecture.has_post_norms(),
        _ => false,
    }
}

/// Tensors that variants of the architecture compute with: a model that has them gives wrong text without them.
const UNSUPPORTED_ROLES: [&str; 8] = [
    "attn_q_norm.weight",
    "attn_k_norm.weight",
    "attn_qkv.weight",
    "ffn_gate_inp.weight",
    "post_attention_norm.weight",
    "post_ffw_norm.weight",
    "rope_factors_long.weight",
    "rope_factors_short.weight",
];

fn without_trailing_ones(dims: &[usize]) -> &[usize] {
    let len = dims.iter().rposition(|&dim| dim != 1).map_or(0, |last| last + 1);
    &dims[..len]
}
