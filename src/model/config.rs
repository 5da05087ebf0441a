//! Metadata -> [`ModelConfig`]. Every number is checked here once; later code relies on it.
//!
//! Invariant: reads metadata and shapes, never tensor data.

use super::{Architecture, RopeScaling};
use crate::error::{Error, Result};
use crate::gguf::{Gguf, Metadata};
use std::ops::RangeInclusive;

/// Hyperparameters of a model, validated: none is zero, and head counts times `head_dim` fit 32 bits. The size of a
/// matrix does too once [`Weights`](super::Weights) has found it in the file; that of a KV cache, which grows with the
/// context, is the backend's to check.
#[derive(Debug, Clone, PartialEq)]
pub struct ModelConfig {
    pub architecture: Architecture,
    /// The start of `general.name`, or empty.
    pub name: String,
    pub n_layers: usize,
    /// Width of the residual stream.
    pub n_embd: usize,
    /// Width of the feed-forward layer.
    pub n_ff: usize,
    pub n_heads: usize,
    /// Divides `n_heads`.
    pub n_kv_heads: usize,
    /// Width of one head of Q, K and V; `n_embd / n_heads` unless the file says otherwise.
    pub head_dim: usize,
    /// How many of a head's values are rotated (the first ones); even, at most `head_dim`.
    pub rope_dim: usize,
    pub rope_base: f32,
    pub rope_scaling: RopeScaling,
    /// Every so-manyth layer is not rotated, if some are not.
    pub unrotated_every: Option<usize>,
    /// Layers that see the last positions only, if there are such.
    pub window: Option<Window>,
    /// Multiplies the rows of the embedding table.
    pub embedding_scale: f32,
    /// Multiplies the products of queries and keys.
    pub attention_scale: f32,
    pub norm_eps: f32,
    /// The context the model was trained for.
    pub context_length: usize,
    /// Rows of `token_embd.weight`.
    pub vocab_size: usize,
}

/// The layers that attend to the last positions only: all but every `full_every`-th.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Window {
    /// Positions that they see, their own included.
    pub size: usize,
    pub full_every: usize,
    /// Base of their rotations, which no scaling stretches.
    pub rope_base: f32,
}

// Far above any model that a browser can hold, and low enough that sizes formed from them fit 32 bits.
const LAYERS: RangeInclusive<usize> = 1..=512;
const WIDTH: RangeInclusive<usize> = 1..=1 << 16;
const FF_WIDTH: RangeInclusive<usize> = 1..=1 << 18;
const HEADS: RangeInclusive<usize> = 1..=1024;
const HEAD_DIM: RangeInclusive<usize> = 1..=1024;
const ROPE_BASE: RangeInclusive<f32> = 1.0..=1e12;
pub(super) const CONTEXT: RangeInclusive<usize> = 1..=1 << 24;
/// All heads together: as wide as the embedding in every known model, or a little wider.
const HEADS_WIDTH: usize = 1 << 16;
/// Characters of a model's name that are kept.
const MAX_NAME: usize = 200;

impl ModelConfig {
    /// Width of all query heads together: of Q, and of what attention gathers.
    pub fn q_width(&self) -> usize {
        self.n_heads * self.head_dim
    }

    /// Width of all KV heads together: of K and of V.
    pub fn kv_width(&self) -> usize {
        self.n_kv_heads * self.head_dim
    }

    /// The window of a layer, unless it sees all positions.
    pub fn window_of(&self, layer: usize) -> Option<Window> {
        self.window.filter(|window| !(layer + 1).is_multiple_of(window.full_every))
    }

    pub fn is_rotated(&self, layer: usize) -> bool {
        self.unrotated_every.is_none_or(|every| !(layer + 1).is_multiple_of(every))
    }

    /// Reads and checks the hyperparameters of a file.
    ///
    /// Errors: `unsupported-architecture`; `missing-metadata` for a key without a default; `bad-hyperparameter` for a
    /// value out of range, of the wrong type, or for a variant that this engine does not compute; `missing-tensor` or
    /// `shape-mismatch` when the embedding does not tell the size of the vocabulary.
    pub fn from_gguf(gguf: &Gguf) -> Result<Self> {
        let metadata = &gguf.metadata;
        let architecture = Architecture::from_metadata(metadata)?;
        let keys = Hyperparameters { metadata, prefix: architecture.name() };
        keys.refuse_experts()?;
        keys.refuse_softcaps()?;

        let n_embd = keys.required("embedding_length", WIDTH)?;
        let n_heads = keys.required("attention.head_count", HEADS)?;
        let n_kv_heads = keys.integer("attention.head_count_kv", HEADS)?.unwrap_or(n_heads);
        if !n_heads.is_multiple_of(n_kv_heads) {
            return Err(bad(format!(
                "Found {n_heads} heads and {n_kv_heads} KV heads; expected a divisor of the heads."
            )));
        }
        let head_dim = keys.head_dim(n_embd, n_heads)?;
        let n_layers = keys.required("block_count", LAYERS)?;
        let context_length = keys.required("context_length", CONTEXT)?;
        let is_gemma = architecture == Architecture::Gemma3;
        // Its largest model, known by its depth, scales by the width that heads would have had.
        let scaled_width = if is_gemma && n_layers == 62 { n_embd / n_heads } else { head_dim };
        Ok(Self {
            architecture,
            name: metadata.string("general.name").map_err(as_bad)?.unwrap_or_default().chars().take(MAX_NAME).collect(),
            n_layers,
            n_embd,
            n_ff: keys.required("feed_forward_length", FF_WIDTH)?,
            n_heads,
            n_kv_heads,
            head_dim,
            rope_dim: keys.rope_dim(head_dim)?,
            rope_base: keys.float("rope.freq_base", ROPE_BASE)?.unwrap_or(10_000.0),
            rope_scaling: RopeScaling::read(&keys, context_length)?,
            unrotated_every: (architecture == Architecture::SmolLm3).then_some(4),
            window: if is_gemma { keys.window()? } else { None },
            embedding_scale: if is_gemma { (n_embd as f32).sqrt() } else { 1.0 },
            attention_scale: 1.0 / (scaled_width as f32).sqrt(),
            norm_eps: keys
                .float("attention.layer_norm_rms_epsilon", f32::MIN_POSITIVE..=1.0)?
                .ok_or_else(|| keys.missing("attention.layer_norm_rms_epsilon"))?,
            context_length,
            vocab_size: keys.vocab_size(gguf)?,
        })
    }
}

/// The keys of one architecture, read by the part of their name after its prefix.
pub(super) struct Hyperparameters<'a> {
    pub metadata: &'a Metadata,
    prefix: &'static str,
}

impl Hyperparameters<'_> {
    pub fn key(&self, suffix: &str) -> String {
        format!("{}.{suffix}", self.prefix)
    }

    fn missing(&self, suffix: &str) -> Error {
        Error::MissingMetadata(format!(
            "The file has no `{}`; expected it in every model of its architecture.",
            self.key(suffix)
        ))
    }

    fn required(&self, suffix: &str, range: RangeInclusive<usize>) -> Result<usize> {
        self.integer(suffix, range)?.ok_or_else(|| self.missing(suffix))
    }

    pub fn integer(&self, suffix: &str, range: RangeInclusive<usize>) -> Result<Option<usize>> {
        let key = self.key(suffix);
        let Some(found) = self.metadata.unsigned(&key).map_err(as_bad)? else { return Ok(None) };
        match usize::try_from(found) {
            Ok(value) if range.contains(&value) => Ok(Some(value)),
            _ => Err(bad(format!("`{key}` is {found}; expected {} to {}.", range.start(), range.end()))),
        }
    }

    /// NaN lies in no range.
    pub fn float(&self, suffix: &str, range: RangeInclusive<f32>) -> Result<Option<f32>> {
        let key = self.key(suffix);
        let Some(found) = self.metadata.float(&key).map_err(as_bad)? else { return Ok(None) };
        let value = found as f32;
        if range.contains(&value) {
            Ok(Some(value))
        } else {
            Err(bad(format!("`{key}` is {found}; expected {} to {}.", range.start(), range.end())))
        }
    }

    fn head_dim(&self, n_embd: usize, n_heads: usize) -> Result<usize> {
        let key_dim = self.integer("attention.key_length", HEAD_DIM)?;
        let value_dim = self.integer("attention.value_length", HEAD_DIM)?;
        let head_dim = match key_dim {
            Some(key_dim) => key_dim,
            None if n_embd.is_multiple_of(n_heads) => n_embd / n_heads,
            None => {
                return Err(bad(format!(
                    "Found {n_heads} heads for an embedding of {n_embd}; expected a divisor of it."
                )));
            }
        };
        if !HEAD_DIM.contains(&head_dim) {
            return Err(bad(format!("Found heads of width {head_dim}; expected at most {}.", HEAD_DIM.end())));
        }
        let width = n_heads * head_dim;
        if width > HEADS_WIDTH {
            return Err(bad(format!(
                "Found {n_heads} heads of width {head_dim}; expected at most {HEADS_WIDTH} in all."
            )));
        }
        match value_dim {
            Some(value_dim) if value_dim != head_dim => {
                Err(bad(format!("Found heads of width {head_dim} for K and {value_dim} for V; expected them equal.")))
            }
            _ => Ok(head_dim),
        }
    }

    fn rope_dim(&self, head_dim: usize) -> Result<usize> {
        let rope_dim = self.integer("rope.dimension_count", 2..=head_dim)?.unwrap_or(head_dim);
        if rope_dim.is_multiple_of(2) {
            Ok(rope_dim)
        } else {
            Err(bad(format!("Found {rope_dim} rotated values in a head; expected pairs.")))
        }
    }

    /// Files do not name the rhythm of the layers nor, as a rule, the base of their rotations: both are Gemma 3's own.
    fn window(&self) -> Result<Option<Window>> {
        let Some(size) = self.integer("attention.sliding_window", 0..=*CONTEXT.end())?.filter(|&size| size > 0) else {
            return Ok(None);
        };
        let full_every = self.integer("attention.sliding_window_pattern", LAYERS)?.unwrap_or(6);
        let rope_base = self.float("rope.freq_base_swa", ROPE_BASE)?.unwrap_or(10_000.0);
        Ok(Some(Window { size, full_every, rope_base }))
    }

    /// Mixture-of-experts models share the name of the dense architecture.
    fn refuse_experts(&self) -> Result<()> {
        const SUFFIX: &str = "expert_count";
        match self.metadata.unsigned(&self.key(SUFFIX)).map_err(as_bad)? {
            None | Some(0) => Ok(()),
            Some(n) => Err(bad(format!("`{}` is {n}; expected a model without experts.", self.key(SUFFIX)))),
        }
    }

    /// Bounds on scores and logits, which no supported family has.
    fn refuse_softcaps(&self) -> Result<()> {
        for suffix in ["attn_logit_softcapping", "final_logit_softcapping"] {
            match self.metadata.float(&self.key(suffix)).map_err(as_bad)? {
                None | Some(0.0) => {}
                Some(cap) => {
                    return Err(bad(format!("`{}` is {cap}; expected a model without it.", self.key(suffix))));
                }
            }
        }
        Ok(())
    }

    fn vocab_size(&self, gguf: &Gguf) -> Result<usize> {
        const NAME: &str = "token_embd.weight";
        let Some(tensor) = gguf.tensor(NAME) else {
            return Err(Error::MissingTensor(format!("The file has no tensor `{NAME}`; expected it in every model.")));
        };
        let rows = tensor.n_rows();
        match self.metadata.unsigned(&self.key("vocab_size")).map_err(as_bad)? {
            Some(stated) if stated != rows as u64 => Err(Error::ShapeMismatch(format!(
                "`{NAME}` has shape {:?}; expected {stated} rows, the `{}`.",
                tensor.dims,
                self.key("vocab_size")
            ))),
            _ => Ok(rows),
        }
    }
}

pub(super) fn bad(sentence: String) -> Error {
    Error::BadHyperparameter(sentence)
}

/// A wrong type or sign, seen as what it means here.
pub(super) fn as_bad(error: Error) -> Error {
    Error::BadHyperparameter(error.to_string())
}
