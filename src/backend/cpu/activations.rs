//! Activations as 16-bit integers: quantized once for each matrix product, then multiplied with integer weights.
//!
//! Sixteen bits because the dot product of simd128 takes 16-bit operands anyway, so they cost nothing over eight; and eight were
//! measured to put the logits as far from float32 as llama.cpp's are, further for six prompts of seven (`tests/forward.rs`).
//!
//! Invariant: scratch only; sized at load, never grows while a token is computed.

use super::simd::{F32x4, I16x8};

/// Values in a block, the same as in the weight formats that are multiplied with them.
pub const BLOCK: usize = 32;

/// The largest quantized activation: 32 of them times 8-bit weights still fit an i32.
const LARGEST: f32 = 32_767.0;

/// A block of quantized activations: value i is `values[i] · scale`.
#[derive(Clone, Copy)]
pub struct Block {
    /// In -32767..=32767.
    pub values: [i16; BLOCK],
    pub scale: f32,
    /// The sum of the block: scale · Σ values.
    pub scaled_sum: f32,
    /// Σ values of each half.
    pub half_sums: [i32; 2],
}

/// `n` rows of activations in blocks. Blocks of the same column stand together.
pub struct Activations {
    n: usize,
    /// `[column][n]`
    blocks: Vec<Block>,
}

impl Activations {
    /// Room for `max_n` rows of at most `max_cols` values.
    pub fn new(max_n: usize, max_cols: usize) -> Self {
        let empty = Block { values: [0; BLOCK], scale: 0.0, scaled_sum: 0.0, half_sums: [0; 2] };
        Self { n: 0, blocks: vec![empty; max_n * max_cols.div_ceil(BLOCK)] }
    }

    pub fn len(&self) -> usize {
        self.n
    }

    /// Quantizes `x`, `n` rows of a whole number of blocks each: scale = max|x| / 32767, value = x / scale rounded half up.
    ///
    /// A value that is not finite makes its block's scale NaN, so that it reaches the logits and ends the run there.
    pub fn quantize(&mut self, x: &[f32], n: usize) {
        self.n = n;
        let n_columns = x.len() / n / BLOCK;
        for (i, x) in x.as_chunks::<BLOCK>().0.iter().enumerate() {
            let (row, column) = (i / n_columns, i % n_columns);
            self.blocks[column * n + row] = Block::new(x);
        }
    }

    /// One block.
    #[inline(always)]
    pub fn block(&self, column: usize, row: usize) -> &Block {
        &self.blocks[column * self.n + row]
    }

    /// The blocks of `T` rows from `first` on.
    #[inline(always)]
    pub fn tile<const T: usize>(&self, column: usize, first: usize) -> &[Block; T] {
        self.blocks[column * self.n + first..].first_chunk().expect("a tile lies within the rows")
    }
}

impl Block {
    fn new(x: &[f32; BLOCK]) -> Self {
        let lanes = x.as_chunks::<4>().0;
        let zero = F32x4::splat(0.0);
        let (mut largest, mut poison) = (zero, zero);
        for x in lanes.iter().map(F32x4::load) {
            largest = largest.max(x).max(zero.sub(x));
            poison = poison.add(x.mul(zero));
        }
        let largest = largest.to_array().into_iter().fold(0.0, f32::max);
        let scale = largest / LARGEST + poison.to_array().iter().sum::<f32>();
        let inverse = F32x4::splat(if largest > 0.0 { LARGEST / largest } else { 0.0 });
        let round = |x| F32x4::load(x).mul(inverse).add(F32x4::splat(0.5)).floor();
        let mut values = [0; BLOCK];
        let mut half_sums = [0; 2];
        for (i, (values, [a, b])) in values.as_chunks_mut().0.iter_mut().zip(lanes.as_chunks().0).enumerate() {
            let eight = I16x8::from_f32([round(a), round(b)]);
            *values = eight.to_array();
            half_sums[i / 2] += eight.dot_pairs(I16x8::splat(1)).to_array().iter().sum::<i32>();
        }
        let sum = half_sums[0] + half_sums[1];
        Self { values, scale, scaled_sum: scale * sum as f32, half_sums }
    }
}
