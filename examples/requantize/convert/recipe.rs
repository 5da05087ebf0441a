//! Which tensor gets which format. Source: `llama_tensor_get_type` of llama.cpp (`src/llama-quant.cpp`), for the llama
//! architecture without experts and without an importance matrix.
//!
//! Invariant: looks at names and shapes; reads no tensor data.

use nucleus::error::{Error, Result, quoted};
use nucleus::gguf::Gguf;
use nucleus::quant::GgmlType;

/// What a whole file is made of.
#[derive(Debug)]
pub struct Recipe {
    name: &'static str,
    /// `general.file_type`: the number of the file's format (`llama_ftype` in `llama.h`; of the `_S` mixtures for pure Q3_K to
    /// Q5_K, which have no number of their own).
    pub file_type: u32,
    matrices: GgmlType,
    /// Whether the tensors that matter most get Q6_K.
    is_mixture: bool,
}

const RECIPES: [Recipe; 14] = [
    pure("F32", 0, GgmlType::F32),
    pure("F16", 1, GgmlType::F16),
    pure("BF16", 32, GgmlType::BF16),
    pure("Q4_0", 2, GgmlType::Q4_0),
    pure("Q4_1", 3, GgmlType::Q4_1),
    pure("Q5_0", 8, GgmlType::Q5_0),
    pure("Q5_1", 9, GgmlType::Q5_1),
    pure("Q8_0", 7, GgmlType::Q8_0),
    pure("Q2_K", 10, GgmlType::Q2K),
    pure("Q3_K", 11, GgmlType::Q3K),
    pure("Q4_K", 14, GgmlType::Q4K),
    pure("Q5_K", 16, GgmlType::Q5K),
    pure("Q6_K", 18, GgmlType::Q6K),
    Recipe { name: "Q4_K_M", file_type: 15, matrices: GgmlType::Q4K, is_mixture: true },
];

const fn pure(name: &'static str, file_type: u32, matrices: GgmlType) -> Recipe {
    Recipe { name, file_type, matrices, is_mixture: false }
}

impl Recipe {
    /// Errors: `bad-option` for a name that is none of ours; the sentence lists them.
    pub fn named(name: &str) -> Result<&'static Self> {
        RECIPES.iter().find(|recipe| recipe.name == name).ok_or_else(|| {
            let names = RECIPES.map(|recipe| recipe.name).join(", ");
            Error::BadOption(format!("The format is {}; expected one of {names}.", quoted(name)))
        })
    }

    /// The format of each tensor of `gguf`, in its order. Vectors are F32 always, as the engine wants them.
    pub fn types(&self, gguf: &Gguf) -> Vec<GgmlType> {
        let n_layers = gguf.tensors.iter().filter(|tensor| tensor.name.ends_with(".ffn_down.weight")).count();
        let has_output = gguf.tensor("output.weight").is_some();
        let wanted = |name: &str| match self.is_mixture && matters_most(name, n_layers, has_output) {
            true => GgmlType::Q6K,
            false => self.matrices,
        };
        let tensors = gguf.tensors.iter();
        tensors
            .map(|tensor| match tensor.n_rows() {
                1 => GgmlType::F32,
                _ => fitting(wanted(&tensor.name), tensor.row_len()),
            })
            .collect()
    }
}

/// The output head, the token embedding where that is the head too, and of every layer where errors weigh more, the values
/// and the way down.
fn matters_most(name: &str, n_layers: usize, has_output: bool) -> bool {
    let in_layer = name.strip_prefix("blk.").and_then(|rest| rest.split_once('.'));
    match in_layer.and_then(|(layer, role)| Some((layer.parse::<usize>().ok()?, role))) {
        Some((layer, "attn_v.weight" | "ffn_down.weight")) => {
            let eighth = n_layers / 8;
            layer < eighth || layer >= 7 * n_layers / 8 || (layer - eighth) % 3 == 2
        }
        Some(_) => false,
        None => name == "output.weight" || (name == "token_embd.weight" && !has_output),
    }
}

/// `ty`, or what takes its place when rows of `row_len` values are not whole blocks of it. llama.cpp replaces Q2_K and Q3_K by
/// IQ4_NL, which this engine cannot compute with; Q4_0 is its size.
fn fitting(ty: GgmlType, row_len: usize) -> GgmlType {
    if row_len.is_multiple_of(ty.block_len()) {
        return ty;
    }
    let smaller_blocks = match ty {
        GgmlType::Q2K | GgmlType::Q3K => GgmlType::Q4_0,
        GgmlType::Q4K => GgmlType::Q5_0,
        GgmlType::Q5K => GgmlType::Q5_1,
        GgmlType::Q6K => GgmlType::Q8_0,
        _ => GgmlType::F16,
    };
    fitting(smaller_blocks, row_len)
}
