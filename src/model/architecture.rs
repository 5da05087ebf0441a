//! The model families, and in what each departs from llama.
//!
//! Invariant: facts about families only; what differs from file to file is in the configuration.

use crate::error::{Error, Result, quoted};
use crate::gguf::Metadata;

/// A supported model family (`general.architecture`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Architecture {
    Llama,
    /// Llama with every fourth layer not rotated (SmolLM3).
    SmolLm3,
    /// Q, K and V with biases (Qwen2, Qwen2.5).
    Qwen2,
    /// Each head of Q and K normalised (Qwen3).
    Qwen3,
    /// Sublayers normalised before and after, most layers with a window of positions (Gemma 3).
    Gemma3,
}

/// Which values of a head are rotated together, for `n` rotated ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Pairing {
    /// Values 2i and 2i + 1, as llama.cpp's converter leaves llama's heads.
    Interleaved,
    /// Values i and i + n / 2, as in the original checkpoints; llama.cpp calls it NEOX.
    HalfSplit,
}

/// What the gate of a feed-forward layer goes through (Shazeer 2020).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Activation {
    /// x / (1 + exp(-x))
    Silu,
    /// x Φ(x), by its tanh approximation (Hendrycks and Gimpel 2016).
    Gelu,
}

impl Architecture {
    pub const ALL: [Self; 5] = [Self::Llama, Self::SmolLm3, Self::Qwen2, Self::Qwen3, Self::Gemma3];

    /// As `general.architecture` spells it, which is also how its metadata keys begin.
    pub fn name(self) -> &'static str {
        match self {
            Self::Llama => "llama",
            Self::SmolLm3 => "smollm3",
            Self::Qwen2 => "qwen2",
            Self::Qwen3 => "qwen3",
            Self::Gemma3 => "gemma3",
        }
    }

    pub fn pairing(self) -> Pairing {
        match self {
            Self::Llama | Self::SmolLm3 => Pairing::Interleaved,
            Self::Qwen2 | Self::Qwen3 | Self::Gemma3 => Pairing::HalfSplit,
        }
    }

    pub fn activation(self) -> Activation {
        if self == Self::Gemma3 { Activation::Gelu } else { Activation::Silu }
    }

    /// Whether a bias is added to Q, K and V.
    pub fn has_qkv_bias(self) -> bool {
        self == Self::Qwen2
    }

    /// Whether each head of Q and K is normalised.
    pub fn has_head_norms(self) -> bool {
        matches!(self, Self::Qwen3 | Self::Gemma3)
    }

    /// Whether what a sublayer adds to the residual stream is normalised first.
    pub fn has_post_norms(self) -> bool {
        self == Self::Gemma3
    }

    /// Errors: `missing-metadata`, `unsupported-architecture`; both list what is supported.
    pub(super) fn from_metadata(metadata: &Metadata) -> Result<Self> {
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
