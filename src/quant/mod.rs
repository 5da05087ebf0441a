//! GGML block formats: which there are, how large a block is, and what its bytes mean.
//!
//! Invariant: the reference for every bit layout; the CPU's and the GPU's packed layouts are made from its units.

#[cfg(feature = "engine")]
mod blocks;
#[cfg(feature = "engine")]
pub mod units;

#[cfg(feature = "engine")]
pub use blocks::{candle_error, candle_type, dequantize_row, scales_are_finite, to_candle};

/// A GGML tensor type that this engine can compute with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum GgmlType {
    F32,
    F16,
    Q4_0,
    Q4_1,
    Q5_0,
    Q5_1,
    Q8_0,
    Q2K,
    Q3K,
    Q4K,
    Q5K,
    Q6K,
    BF16,
}

/// One row per format: the number in the file, the name, values in a block, bytes in a block.
const FORMATS: [(GgmlType, u32, &str, usize, usize); 13] = [
    (GgmlType::F32, 0, "F32", 1, 4),
    (GgmlType::F16, 1, "F16", 1, 2),
    (GgmlType::Q4_0, 2, "Q4_0", 32, 18),
    (GgmlType::Q4_1, 3, "Q4_1", 32, 20),
    (GgmlType::Q5_0, 6, "Q5_0", 32, 22),
    (GgmlType::Q5_1, 7, "Q5_1", 32, 24),
    (GgmlType::Q8_0, 8, "Q8_0", 32, 34),
    (GgmlType::Q2K, 10, "Q2_K", 256, 84),
    (GgmlType::Q3K, 11, "Q3_K", 256, 110),
    (GgmlType::Q4K, 12, "Q4_K", 256, 144),
    (GgmlType::Q5K, 13, "Q5_K", 256, 176),
    (GgmlType::Q6K, 14, "Q6_K", 256, 210),
    (GgmlType::BF16, 30, "BF16", 1, 2),
];

/// Formats that exist in ggml and that this engine cannot compute with, so that a refusal can name them.
const UNSUPPORTED: [(u32, &str); 21] = [
    (9, "Q8_1"),
    (15, "Q8_K"),
    (16, "IQ2_XXS"),
    (17, "IQ2_XS"),
    (18, "IQ3_XXS"),
    (19, "IQ1_S"),
    (20, "IQ4_NL"),
    (21, "IQ3_S"),
    (22, "IQ2_S"),
    (23, "IQ4_XS"),
    (24, "I8"),
    (25, "I16"),
    (26, "I32"),
    (27, "I64"),
    (28, "F64"),
    (29, "IQ1_M"),
    (34, "TQ1_0"),
    (35, "TQ2_0"),
    (39, "MXFP4"),
    (40, "NVFP4"),
    (41, "Q1_0"),
];

impl GgmlType {
    const fn row(self) -> (GgmlType, u32, &'static str, usize, usize) {
        let mut i = 0;
        while FORMATS[i].0 as usize != self as usize {
            i += 1; // FORMATS has a row for every variant
        }
        FORMATS[i]
    }

    /// The type with this number in a GGUF file, if this engine can compute with it.
    pub fn from_number(number: u32) -> Option<Self> {
        FORMATS.iter().find(|row| row.1 == number).map(|row| row.0)
    }

    /// The number of this type in a GGUF file.
    pub fn number(self) -> u32 {
        self.row().1
    }

    /// The name of a type that exists but is not supported.
    pub fn unsupported_name(number: u32) -> Option<&'static str> {
        UNSUPPORTED.iter().find(|row| row.0 == number).map(|row| row.1)
    }

    /// As ggml writes it, e.g. `Q4_1`.
    pub fn name(self) -> &'static str {
        self.row().2
    }

    /// Values in a block: 1 for the plain float types.
    pub const fn block_len(self) -> usize {
        self.row().3
    }

    /// Bytes in a block.
    pub const fn block_bytes(self) -> usize {
        self.row().4
    }

    /// Bytes of a row of `n` values; `n` is a whole number of blocks.
    pub fn row_bytes(self, n: usize) -> usize {
        n / self.block_len() * self.block_bytes()
    }
}
