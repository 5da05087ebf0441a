//! Shaders: typed keys -> WGSL text.
//!
//! A [`Kernel`] is everything that a shader's text depends on: which files, and the constants in front of them. Two dispatches
//! with equal keys share a pipeline.
//!
//! Invariant: text only; no device.

use super::layout::UNIT;
use super::wgsl::Text;
use super::{BATCH, top};
use crate::model::{Activation, Pairing};
use crate::quant::GgmlType;

/// Invocations of a workgroup of `matvec`, and rows that some of them share.
pub const MATVEC_WORKGROUP: usize = 64;
pub const MATVEC_ROWS: usize = 4;
/// Rows and tokens of a tile of `matmul`.
pub const TILE: usize = 64;
/// Tokens that one workgroup of prefill attention takes.
pub const QUERIES: usize = 8;

/// A compute shader.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Kernel {
    Embed {
        matrix: Matrix,
        scale: Float,
    },
    RmsNorm(Norm),
    /// Of all tokens, or of the last alone.
    AddNorm {
        norm: Norm,
        last: bool,
    },
    /// One token.
    MatVec {
        matrix: Matrix,
        norm: Option<Norm>,
        epilogue: Epilogue,
    },
    /// Many tokens.
    MatMul {
        matrix: Matrix,
        epilogue: Epilogue,
    },
    /// Biases, norms of heads, rotation, cache: what is left to do after the products.
    FinishQkv {
        heads: Heads,
        turns: Turns,
        pairing: Pairing,
        /// `eps` of the heads' norms, if they have any.
        norm_eps: Option<Float>,
    },
    /// `queries` is 1 (the last token, the cache in parts) or [`QUERIES`].
    Attention {
        heads: Heads,
        queries: usize,
        scale: Float,
        /// Last positions that a query sees, its own included; none: all.
        window: Option<usize>,
    },
    MergeSplits(Heads),
    LogitSums {
        vocab_size: usize,
    },
    LogitHistogram {
        vocab_size: usize,
    },
    CollectBest {
        vocab_size: usize,
    },
}

/// Some rows of a matrix, as they lie in one buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Matrix {
    pub format: GgmlType,
    /// Units a row.
    pub units: usize,
    pub n_rows: usize,
    /// Rows of the whole matrix that come before these.
    pub first_row: usize,
}

/// The bits of an f32, so that keys can be compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Float(pub u32);

impl From<f32> for Float {
    fn from(value: f32) -> Self {
        Self(value.to_bits())
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Norm {
    pub width: usize,
    pub eps: Float,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Heads {
    pub n_heads: usize,
    pub n_kv_heads: usize,
    pub head_dim: usize,
}

/// The rotation of some heads, and where `params.turns` has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Turns {
    /// Pairs that are rotated in each head.
    pub pairs: usize,
    /// Of all rotations together: what one token takes in `turns`.
    pub per_token: usize,
    /// Those before this rotation.
    pub first: usize,
}

/// What becomes of a product's rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Epilogue {
    /// out = Wx; `stride`: values a row of `out`; `first`: values of it before the product.
    Store { stride: usize, first: usize },
    /// out += Wx
    Add { stride: usize },
    /// Rows of gate and up in turn: out = activation(gate) * up.
    Glu { stride: usize, activation: Activation },
    /// `out` holds the gate already: out = activation(out) * Wx.
    Gated { stride: usize, activation: Activation },
    /// Rows of Q, then of K, then of V: rotated, and K and V stored in the cache.
    Qkv { q_rows: usize, k_rows: usize, heads: Heads, turns: Turns },
}

impl Norm {
    pub fn new(width: usize, eps: f32) -> Self {
        Self { width, eps: eps.into() }
    }
}

/// Values of a row of `n`, padded to whole units; the padding stays zero.
pub fn stride(n: usize) -> usize {
    n.next_multiple_of(UNIT)
}

impl Kernel {
    /// The main file's name.
    pub fn name(&self) -> &'static str {
        match self {
            Kernel::Embed { .. } => "embed",
            Kernel::RmsNorm(_) => "rms_norm",
            Kernel::AddNorm { .. } => "add_norm",
            Kernel::FinishQkv { .. } => "finish_qkv",
            Kernel::MatVec { .. } => "matvec",
            Kernel::MatMul { .. } => "matmul",
            Kernel::Attention { .. } => "attention",
            Kernel::MergeSplits(_) => "merge_splits",
            Kernel::LogitSums { .. } => "logit_sums",
            Kernel::LogitHistogram { .. } => "logit_histogram",
            Kernel::CollectBest { .. } => "collect_best",
        }
    }

    /// What to call it in a table: the name, and what tells it from others of that name.
    pub fn label(&self) -> String {
        match self {
            Kernel::MatVec { matrix, epilogue, .. } | Kernel::MatMul { matrix, epilogue } => {
                format!(
                    "{} {} {}x{} {}",
                    self.name(),
                    matrix.format.name(),
                    matrix.n_rows,
                    matrix.units * UNIT,
                    epilogue.name()
                )
            }
            Kernel::Embed { matrix, .. } => format!("embed {}", matrix.format.name()),
            Kernel::Attention { queries, window: None, .. } => format!("attention, queries {queries}"),
            Kernel::Attention { queries, window: Some(n), .. } => format!("attention, queries {queries}, window {n}"),
            _ => self.name().into(),
        }
    }

    /// Bindings in order: whether the shader writes to them. Binding 0 is the parameters.
    pub fn bindings(&self) -> &'static [(u32, bool)] {
        const READ: bool = false;
        const WRITE: bool = true;
        match self {
            Kernel::Embed { .. } | Kernel::RmsNorm(_) | Kernel::AddNorm { .. } => {
                &[(0, READ), (1, READ), (2, READ), (3, WRITE)]
            }
            Kernel::FinishQkv { .. } => &[(0, READ), (1, READ), (2, READ), (3, WRITE), (4, WRITE), (5, WRITE)],
            Kernel::MatVec { norm: Some(_), epilogue: Epilogue::Qkv { .. }, .. } => {
                &[(0, READ), (1, READ), (2, READ), (3, READ), (4, READ), (5, WRITE), (6, WRITE), (7, WRITE)]
            }
            Kernel::MatVec { epilogue: Epilogue::Qkv { .. }, .. }
            | Kernel::MatMul { epilogue: Epilogue::Qkv { .. }, .. } => {
                &[(0, READ), (1, READ), (2, READ), (3, READ), (5, WRITE), (6, WRITE), (7, WRITE)]
            }
            Kernel::MatVec { norm: Some(_), .. } => {
                &[(0, READ), (1, READ), (2, READ), (3, READ), (4, READ), (5, WRITE)]
            }
            Kernel::MatVec { .. } | Kernel::MatMul { .. } => &[(0, READ), (1, READ), (2, READ), (3, READ), (5, WRITE)],
            Kernel::Attention { .. } => &[(0, READ), (1, READ), (2, READ), (3, READ), (4, WRITE), (5, WRITE)],
            Kernel::MergeSplits(_) => &[(0, READ), (1, READ), (2, WRITE)],
            Kernel::LogitSums { .. } | Kernel::LogitHistogram { .. } | Kernel::CollectBest { .. } => {
                &[(0, READ), (1, READ), (2, WRITE), (3, WRITE)]
            }
        }
    }

    /// The whole shader.
    pub fn wgsl(&self) -> String {
        let mut text = Text::default();
        text.constant("BATCH", BATCH);
        match self {
            Kernel::Embed { matrix, scale } => {
                text.matrix(matrix);
                text.float("SCALE", *scale);
            }
            Kernel::RmsNorm(norm) => {
                text.constant("UNITS", norm.width.div_ceil(UNIT));
                text.norm(norm);
            }
            Kernel::AddNorm { norm, last } => {
                text.constant("UNITS", norm.width.div_ceil(UNIT));
                text.norm(norm);
                text.flag("LAST", *last);
            }
            Kernel::FinishQkv { heads, turns, pairing, norm_eps } => {
                text.qkv(heads, turns);
                text.constant("N_HEADS", heads.n_heads);
                text.constant("N_KV_HEADS", heads.n_kv_heads);
                text.constant("QKV_STRIDE", stride((heads.n_heads + 2 * heads.n_kv_heads) * heads.head_dim));
                text.flag("HALF_SPLIT", *pairing == Pairing::HalfSplit);
                text.flag("NORMED", norm_eps.is_some());
                text.float("NORM_EPS", norm_eps.unwrap_or(0.0.into()));
            }
            Kernel::MatVec { matrix, norm, epilogue } => {
                text.matrix(matrix);
                text.constant("WORKGROUP", MATVEC_WORKGROUP);
                text.constant("LANES", lanes(matrix.units));
                match norm {
                    Some(norm) => {
                        text.norm(norm);
                        text.import("norm");
                    }
                    None => text.import("no_norm"),
                }
                text.epilogue(epilogue);
            }
            Kernel::MatMul { matrix, epilogue } => {
                text.matrix(matrix);
                text.epilogue(epilogue);
            }
            Kernel::Attention { heads, queries, scale, window } => {
                text.heads(heads);
                text.constant("QUERIES", *queries);
                text.float("SCALE", *scale);
                // As good as none: no cache is that long.
                text.constant("WINDOW", window.unwrap_or(i32::MAX as usize));
            }
            Kernel::MergeSplits(heads) => text.heads(heads),
            Kernel::LogitSums { vocab_size }
            | Kernel::LogitHistogram { vocab_size }
            | Kernel::CollectBest { vocab_size } => {
                text.constant("VOCAB", *vocab_size);
                text.constant("CHUNKS", top::CHUNKS);
                text.constant("BINS", top::BINS);
                text.constant("MAX_BEST", top::MAX_BEST);
            }
        }
        text.import(self.name());
        text.text
    }
}

impl Epilogue {
    fn name(&self) -> &'static str {
        match self {
            Epilogue::Store { .. } => "store",
            Epilogue::Add { .. } => "add",
            Epilogue::Glu { .. } => "glu",
            Epilogue::Gated { .. } => "gated",
            Epilogue::Qkv { .. } => "qkv",
        }
    }
}

/// Invocations of `matvec` that share four rows: more for longer rows, so that each has some units to go through.
pub fn lanes(units: usize) -> usize {
    match units {
        0..32 => 4,
        32..128 => 8,
        _ => 16,
    }
}
