//! The text of a shader: constants, and the files of `shaders/` that use them.
//!
//! Invariant: text only; what a kernel consists of is said in `shader`.

use super::MAX_SPLITS;
use super::layout::Layout;
use super::shader::{Epilogue, Float, Heads, Matrix, Norm, Turns, stride};
use crate::model::Activation;
use crate::quant::GgmlType;
use std::fmt::Write;

macro_rules! files {
    ($($name:literal),* $(,)?) => {
        &[$(($name, include_str!(concat!("shaders/", $name, ".wgsl")))),*]
    };
}

pub const FILES: &[(&str, &str)] = files![
    "params",
    "workgroup_sum",
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
    "epilogues/glu",
    "epilogues/gated",
    "epilogues/qkv",
    "activations/silu",
    "activations/gelu",
    "embed",
    "rms_norm",
    "add_norm",
    "finish_qkv",
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

/// A shader in the making: constants first, then the files that use them.
#[derive(Default)]
pub struct Text {
    pub text: String,
    imported: Vec<&'static str>,
}

impl Text {
    /// Adds a file, after those that it imports itself (`// import name`, a line each, at its top); no file comes twice.
    pub fn import(&mut self, name: &str) {
        let &(name, text) = FILES.iter().find(|(known, _)| *known == name).expect("every shader file is in FILES");
        if self.imported.contains(&name) {
            return;
        }
        self.imported.push(name);
        text.lines().map_while(|line| line.strip_prefix("// import ")).for_each(|name| self.import(name));
        self.text += text;
    }

    pub fn constant(&mut self, name: &str, value: usize) {
        writeln!(self.text, "const {name} = {value}u;").expect("a String takes all");
    }

    /// Written with as many digits as it takes to read the same float back.
    pub fn float(&mut self, name: &str, Float(bits): Float) {
        writeln!(self.text, "const {name} = {:e}f;", f32::from_bits(bits)).expect("a String takes all");
    }

    pub fn flag(&mut self, name: &str, value: bool) {
        writeln!(self.text, "const {name} = {value};").expect("a String takes all");
    }

    pub fn matrix(&mut self, matrix: &Matrix) {
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

    pub fn norm(&mut self, norm: &Norm) {
        self.constant("WIDTH", norm.width);
        self.float("NORM_EPS", norm.eps);
    }

    pub fn epilogue(&mut self, epilogue: &Epilogue) {
        match *epilogue {
            Epilogue::Store { stride, first } => {
                self.constant("OUT_STRIDE", stride);
                self.constant("OUT_FIRST", first);
            }
            Epilogue::Add { stride } => self.constant("OUT_STRIDE", stride),
            Epilogue::Glu { stride, activation } | Epilogue::Gated { stride, activation } => {
                self.constant("OUT_STRIDE", stride);
                self.import(match activation {
                    Activation::Silu => "activations/silu",
                    Activation::Gelu => "activations/gelu",
                });
            }
            Epilogue::Qkv { q_rows, k_rows, heads, turns } => {
                self.constant("Q_ROWS", q_rows);
                self.constant("K_ROWS", k_rows);
                self.qkv(&heads, &turns);
            }
        }
        self.import(match epilogue {
            Epilogue::Store { .. } => "epilogues/store",
            Epilogue::Add { .. } => "epilogues/add",
            Epilogue::Glu { .. } => "epilogues/glu",
            Epilogue::Gated { .. } => "epilogues/gated",
            Epilogue::Qkv { .. } => "epilogues/qkv",
        });
    }

    /// Where heads go, and how they turn on the way.
    pub fn qkv(&mut self, heads: &Heads, turns: &Turns) {
        self.constant("HEAD_DIM", heads.head_dim);
        self.constant("Q_STRIDE", stride(heads.n_heads * heads.head_dim));
        self.constant("KV_WIDTH", heads.n_kv_heads * heads.head_dim);
        self.constant("ROPE_PAIRS", turns.pairs);
        self.constant("TURNS", turns.per_token);
        self.constant("FIRST_TURN", turns.first);
    }

    pub fn heads(&mut self, heads: &Heads) {
        let &Heads { n_heads, n_kv_heads, head_dim } = heads;
        self.constant("HEAD_DIM", head_dim);
        self.constant("GROUP", n_heads / n_kv_heads);
        self.constant("Q_VECS", stride(n_heads * head_dim) / 4);
        self.constant("KV_VECS", n_kv_heads * head_dim / 4);
        self.constant("MAX_SPLITS", MAX_SPLITS);
    }
}
