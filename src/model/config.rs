//! Metadata -> [`ModelConfig`]. Every number is checked here once; later code relies on it.
//!
//! Invariant: reads metadata and shapes, never tensor data.

use crate::error::{Error, Result, quoted};
use crate::gguf::{Gguf, Metadata};
use std::ops::RangeInclusive;

/// A supported model family (`general.architecture`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Architecture {
    Llama,
}

impl Architecture {
    const ALL: [Self; 1] = [Self::Llama];

    /// As `general.architecture` spells it, which is also how its metadata keys begin.
    pub fn name(self) -> &'static str {
        match self {
            Self::Llama => "llama",
        }
    }

    fn from_metadata(metadata: &Metadata) -> Result<Self> {
        const KEY: &str = "general.architecture";
        let supported = || Self::ALL.map(Self::name).join(", ");
        let found = match metadata.string(KEY) {
            Ok(Some(found)) => found,
            Ok(None) => {
                return Err(Error::MissingMetadata(format!(
                    "The file has no `{KEY}`; expected one of {}.",
                    supported()
                )));
            }
            Err(error) => return Err(Error::UnsupportedArchitecture(error.to_string())),
        };
        Self::ALL.into_iter().find(|architecture| architecture.name() == found).ok_or_else(|| {
            Error::UnsupportedArchitecture(format!(
                "The model has architecture {}; expected one of {}.",
                quoted(found),
                supported()
            ))
        })
    }
}

/// How positions are stretched beyond the length the model was trained on.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum RopeScaling {
    None,
    /// Positions divided by `factor`.
    Linear {
        factor: f32,
    },
}

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
    pub norm_eps: f32,
    /// The context the model was trained for.
    pub context_length: usize,
    /// Rows of `token_embd.weight`.
    pub vocab_size: usize,
}

// Far above any model that a browser can hold, and low enough that sizes formed from them fit 32 bits.
const LAYERS: RangeInclusive<usize> = 1..=512;
const WIDTH: RangeInclusive<usize> = 1..=1 << 16;
const FF_WIDTH: RangeInclusive<usize> = 1..=1 << 18;
const HEADS: RangeInclusive<usize> = 1..=1024;
const HEAD_DIM: RangeInclusive<usize> = 1..=1024;
const CONTEXT: RangeInclusive<usize> = 1..=1 << 24;
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

        let n_embd = keys.required("embedding_length", WIDTH)?;
        let n_heads = keys.required("attention.head_count", HEADS)?;
        let n_kv_heads = keys.integer("attention.head_count_kv", HEADS)?.unwrap_or(n_heads);
        if !n_heads.is_multiple_of(n_kv_heads) {
            return Err(bad(format!(
                "Found {n_heads} heads and {n_kv_heads} KV heads; expected a divisor of the heads."
            )));
        }
        let head_dim = keys.head_dim(n_embd, n_heads)?;
        Ok(Self {
            architecture,
            name: metadata.string("general.name").map_err(as_bad)?.unwrap_or_default().chars().take(MAX_NAME).collect(),
            n_layers: keys.required("block_count", LAYERS)?,
            n_embd,
            n_ff: keys.required("feed_forward_length", FF_WIDTH)?,
            n_heads,
            n_kv_heads,
            head_dim,
            rope_dim: keys.rope_dim(head_dim)?,
            rope_base: keys.float("rope.freq_base", 1.0..=1e12)?.unwrap_or(10_000.0),
            rope_scaling: keys.rope_scaling()?,
            norm_eps: keys
                .float("attention.layer_norm_rms_epsilon", f32::MIN_POSITIVE..=1.0)?
                .ok_or_else(|| keys.missing("attention.layer_norm_rms_epsilon"))?,
            context_length: keys.required("context_length", CONTEXT)?,
            vocab_size: keys.vocab_size(gguf)?,
        })
    }
}

/// The keys of one architecture, read by the part of their name after its prefix.
struct Hyperparameters<'a> {
    metadata: &'a Metadata,
    prefix: &'static str,
}

impl Hyperparameters<'_> {
    fn key(&self, suffix: &str) -> String {
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

    fn integer(&self, suffix: &str, range: RangeInclusive<usize>) -> Result<Option<usize>> {
        let key = self.key(suffix);
        let Some(found) = self.metadata.unsigned(&key).map_err(as_bad)? else { return Ok(None) };
        match usize::try_from(found) {
            Ok(value) if range.contains(&value) => Ok(Some(value)),
            _ => Err(bad(format!("`{key}` is {found}; expected {} to {}.", range.start(), range.end()))),
        }
    }

    /// NaN lies in no range.
    fn float(&self, suffix: &str, range: RangeInclusive<f32>) -> Result<Option<f32>> {
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

    /// As llama.cpp reads it: no type means linear, and a factor of 0 or none at all means no scaling.
    fn rope_scaling(&self) -> Result<RopeScaling> {
        let key = self.key("rope.scaling.type");
        match self.metadata.string(&key).map_err(as_bad)? {
            Some("none") => return Ok(RopeScaling::None),
            Some("linear") | None => {}
            Some(other) => {
                return Err(bad(format!(
                    "`{key}` is {}, which is not supported; expected none or linear.",
                    quoted(other)
                )));
            }
        }
        const FACTOR: RangeInclusive<f32> = 0.0..=1e6;
        let factor = match self.float("rope.scaling.factor", FACTOR)? {
            Some(factor) => Some(factor),
            // Its name in older files.
            None => self.float("rope.scale_linear", FACTOR)?,
        };
        Ok(match factor {
            None | Some(0.0 | 1.0) => RopeScaling::None,
            Some(factor) => RopeScaling::Linear { factor },
        })
    }

    /// Mixture-of-experts models share the name of the dense architecture.
    fn refuse_experts(&self) -> Result<()> {
        const SUFFIX: &str = "expert_count";
        match self.metadata.unsigned(&self.key(SUFFIX)).map_err(as_bad)? {
            None | Some(0) => Ok(()),
            Some(n) => Err(bad(format!("`{}` is {n}; expected a model without experts.", self.key(SUFFIX)))),
        }
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

fn bad(sentence: String) -> Error {
    Error::BadHyperparameter(sentence)
}

/// A wrong type or sign, seen as what it means here.
fn as_bad(error: Error) -> Error {
    Error::BadHyperparameter(error.to_string())
}
