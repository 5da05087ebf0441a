//! Shaders: typed keys -> WGSL text.
//!
//! A [`Kernel`] is everything that a shader's text depends on: which files, and the constants in front of them. Two dispatches
//! with equal keys share a pipeline.
//!
//! Invariant: text only; no device.

use super::layout::{Layout, UNIT};
use super::{BATCH, MAX_SPLITS, top};
use crate::quant::GgmlType;
use std::fmt::Write;

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
    Embed(Matrix),
    RmsNorm(Norm),
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
    /// `queries` is 1 (the last token, the cache in parts) or [`QUERIES`].
    Attention {
        heads: Heads,
        queries: usize,
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

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Norm {
    pub width: usize,
    pub eps: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Heads {
    pub n_heads: usize,
    pub n_kv_heads: usize,
    pub head_dim: usize,
}

/// What becomes of a product's rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Epilogue {
    /// out = Wx; `stride`: values a row of `out`.
    Store { stride: usize },
    /// out += Wx
    Add { stride: usize },
    /// Rows of gate and up in turn: out = silu(gate) * up.
    SwiGlu { stride: usize },
    /// `out` holds the gate already: out = silu(out) * Wx.
    Gated { stride: usize },
    /// Rows of Q, then of K, then of V: rotated, and K and V stored in the cache.
    Qkv { q_rows: usize, k_rows: usize, heads: Heads, rope_dim: usize },
}

impl Norm {
    pub fn new(width: usize, eps: f32) -> Self {
        Self { width, eps: eps.to_bits() }
    }
}

/// Values of a row of `n`, padded to whole units; the padding stays zero.
pub fn stride(n: usize) -> usize {
    n.next_multiple_of(UNIT)
}

macro_rules! files {
    ($($name:literal),* $(,)?) => {
        &[$(($name, include_str!(concat!("shaders/", $name, ".wgsl")))),*]
    };
}

pub(super) const FILES: &[(&str, &str)] = files![
    "params",
    "unit",
    "nibbles",
    "fifth_bits",
    "k_scales",
    "sixteen_bits",
    "matrix",
    "formats/q4_0",
    "formats/q4_1",
    "formats/q5_0",
    "formats/q5_1",
    "formats/q8_0",
    "formats/q4_k",
    "formats/q5_k",
    "formats/q6_k",
    "formats/f16",
    "formats/bf16",
    "formats/f32",
    "epilogues/store",
    "epilogues/add",
    "epilogues/swiglu",
    "epilogues/gated",
    "epilogues/qkv",
    "embed",
    "rms_norm",
    "norm",
    "no_norm",
    "matvec",
    "matmul",
    "attention",
    "merge_splits",
    "top",
    "logit_sums",
    "logit_histogram",
    "collect_best",
];

impl Kernel {
    /// The main file's name.
    pub fn name(&self) -> &'static str {
        match self {
            Kernel::Embed(_) => "embed",
            Kernel::RmsNorm(_) => "rms_norm",
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
            Kernel::Embed(matrix) => format!("embed {}", matrix.format.name()),
            Kernel::Attention { queries, .. } => format!("attention, queries {queries}"),
            _ => self.name().into(),
        }
    }

    /// Bindings in order: whether the shader writes to them. Binding 0 is the parameters.
    pub fn bindings(&self) -> &'static [(u32, bool)] {
        const READ: bool = false;
        const WRITE: bool = true;
        match self {
            Kernel::Embed(_) => &[(0, READ), (1, READ), (2, READ), (3, WRITE)],
            Kernel::RmsNorm(_) => &[(0, READ), (1, READ), (2, READ), (3, WRITE)],
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
            Kernel::Embed(matrix) => text.matrix(matrix),
            Kernel::RmsNorm(norm) => {
                text.constant("UNITS", norm.width.div_ceil(UNIT));
                text.norm(norm);
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
            Kernel::Attention { heads, queries } => {
                text.heads(heads);
                text.constant("QUERIES", *queries);
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
            Epilogue::SwiGlu { .. } => "swiglu",
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

/// A shader in the making: constants first, then the files that use them.
#[derive(Default)]
struct Text {
    text: String,
    imported: Vec<&'static str>,
}

impl Text {
    /// Adds a file, after those that it imports itself (`// import name`, a line each, at its top); no file comes twice.
    fn import(&mut self, name: &str) {
        let &(name, text) = FILES.iter().find(|(known, _)| *known == name).expect("every shader file is in FILES");
        if self.imported.contains(&name) {
            return;
        }
        self.imported.push(name);
        text.lines().map_while(|line| line.strip_prefix("// import ")).for_each(|name| self.import(name));
        self.text += text;
    }

    fn constant(&mut self, name: &str, value: usize) {
        writeln!(self.text, "const {name} = {value}u;").expect("a String takes all");
    }

    /// Written with as many digits as it takes to read the same float back.
    fn float(&mut self, name: &str, value: f32) {
        writeln!(self.text, "const {name} = {value:e}f;").expect("a String takes all");
    }

    fn matrix(&mut self, matrix: &Matrix) {
        let layout = Layout::of(matrix.format).expect("matrices are made of formats that have a shader");
        self.constant("UNITS", matrix.units);
        self.constant("N_ROWS", matrix.n_rows);
        self.constant("FIRST_ROW", matrix.first_row);
        self.constant("QUANT_VECS", layout.quant_vecs);
        self.constant("EXTRA_UNITS", layout.extra_units);
        self.constant("EXTRA_WORDS", layout.extra_words);
        self.constant("EXTRA_GROUPS", matrix.units.div_ceil(layout.extra_units));
        self.import("unit");
        self.import(match matrix.format {
            GgmlType::Q4_0 => "formats/q4_0",
            GgmlType::Q4_1 => "formats/q4_1",
            GgmlType::Q5_0 => "formats/q5_0",
            GgmlType::Q5_1 => "formats/q5_1",
            GgmlType::Q8_0 => "formats/q8_0",
            GgmlType::Q4K => "formats/q4_k",
            GgmlType::Q5K => "formats/q5_k",
            GgmlType::Q6K => "formats/q6_k",
            GgmlType::F16 => "formats/f16",
            GgmlType::BF16 => "formats/bf16",
            GgmlType::F32 => "formats/f32",
            GgmlType::Q2K | GgmlType::Q3K => unreachable!("these have no layout either"),
        });
    }

    fn norm(&mut self, norm: &Norm) {
        self.constant("WIDTH", norm.width);
        self.float("NORM_EPS", f32::from_bits(norm.eps));
    }

    fn epilogue(&mut self, epilogue: &Epilogue) {
        match *epilogue {
            Epilogue::Store { stride }
            | Epilogue::Add { stride }
            | Epilogue::SwiGlu { stride }
            | Epilogue::Gated { stride } => self.constant("OUT_STRIDE", stride),
            Epilogue::Qkv { q_rows, k_rows, heads, rope_dim } => {
                self.constant("Q_ROWS", q_rows);
                self.constant("K_ROWS", k_rows);
                self.constant("HEAD_DIM", heads.head_dim);
                self.constant("ROPE_PAIRS", rope_dim / 2);
                self.constant("Q_STRIDE", stride(heads.n_heads * heads.head_dim));
                self.constant("KV_WIDTH", heads.n_kv_heads * heads.head_dim);
            }
        }
        self.import(match epilogue {
            Epilogue::Store { .. } => "epilogues/store",
            Epilogue::Add { .. } => "epilogues/add",
            Epilogue::SwiGlu { .. } => "epilogues/swiglu",
            Epilogue::Gated { .. } => "epilogues/gated",
            Epilogue::Qkv { .. } => "epilogues/qkv",
        });
    }

    fn heads(&mut self, heads: &Heads) {
        let &Heads { n_heads, n_kv_heads, head_dim } = heads;
        self.constant("HEAD_DIM", head_dim);
        self.constant("GROUP", n_heads / n_kv_heads);
        self.constant("Q_VECS", stride(n_heads * head_dim) / 4);
        self.constant("KV_VECS", n_kv_heads * head_dim / 4);
        self.constant("MAX_SPLITS", MAX_SPLITS);
        self.float("SCALE", 1.0 / (head_dim as f32).sqrt());
    }
}
