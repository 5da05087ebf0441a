//! Activations as 16-bit integers: quantized once for each matrix product, then multiplied with integer weights.
//!
//! Sixteen bits because the dot product of simd128 takes 16-bit operands anyway, so they cost nothing over eight; and eight were
//! measured to put the logits as far from float32 as llama.cpp's are, further for six prompts of seven (`tests/forward.rs`).
//!
//! Invariant: scratch only; sized at load, never grows while a token is computed.

use super::simd::F32x4;

/// Values in a block, the same as in the weight formats that are multiplied with them.
pub const BLOCK: usize = 32;

/// The largest quantized activation: 32 of them times 8-bit weights still fit an i32.
const LARGEST: f32 = 32_767.0;

/// Where value `i` of a block stands: the even ones first, because 8-bit weights widen to 16 bits more cheaply that way (a mask and
/// a shift each, no shuffle).
pub const fn place(i: usize) -> usize {
    i % 2 * (BLOCK / 2) + i / 2
}

/// `n` rows of `n_cols` activations in blocks of 32: integers in -32767..=32767, a
/// scale and a sum for each block. Blocks of the same column stand together: `[column block][row]`.
pub struct Activations {
    n: usize,
    /// `[n_cols / 32][n][32]`
    values: Vec<i16>,
    /// `[n_cols / 32][n]`
    scales: Vec<f32>,
    /// `[n_cols / 32][n]`: Σ values of the block
    sums: Vec<i32>,
}

impl Activations {
    /// Room for `max_n` rows of at most `max_cols` values.
    pub fn new(max_n: usize, max_cols: usize) -> Self {
        let blocks = max_n * max_cols.div_ceil(BLOCK);
        Self { n: 0, values: vec![0; blocks * BLOCK], scales: vec![0.0; blocks], sums: vec![0; blocks] }
    }

    pub fn len(&self) -> usize {
        self.n
    }

    /// Quantizes `x`, `n` rows of a whole number of blocks each: scale = max|x| / 32767, value = x / scale rounded half up.
    ///
    /// A value that is not finite makes its block's scale NaN, so that it reaches the logits and ends the run there.
    pub fn quantize(&mut self, x: &[f32], n: usize) {
        self.n = n;
        let n_blocks = x.len() / n / BLOCK;
        for (i, block) in x.as_chunks::<BLOCK>().0.iter().enumerate() {
            let (row, column) = (i / n_blocks, i % n_blocks);
            let at = column * n + row;
            let lanes = block.as_chunks::<4>().0;
            let zero = F32x4::splat(0.0);
            let (mut largest, mut poison) = (zero, zero);
            for x in lanes.iter().map(F32x4::load) {
                largest = largest.max(x).max(zero.sub(x));
                poison = poison.add(x.mul(zero));
            }
            let largest = largest.to_array().into_iter().fold(0.0, f32::max);
            self.scales[at] = largest / LARGEST + poison.to_array().iter().sum::<f32>();
            let inverse = F32x4::splat(if largest > 0.0 { LARGEST / largest } else { 0.0 });
            let values = &mut self.values.as_chunks_mut::<BLOCK>().0[at];
            for (i, x) in lanes.iter().enumerate() {
                let rounded = F32x4::load(x).mul(inverse).add(F32x4::splat(0.5)).floor().to_array();
                for (lane, x) in rounded.into_iter().enumerate() {
                    values[place(4 * i + lane)] = x as i16;
                }
            }
            let sum = values.iter().map(|&x| i32::from(x)).sum();
            self.sums[at] = sum;
        }
    }

    /// Values, scale and sum of one block.
    #[inline(always)]
    pub fn block(&self, column: usize, row: usize) -> (&[i16; BLOCK], f32, i32) {
        let at = column * self.n + row;
        (&self.values.as_chunks::<BLOCK>().0[at], self.scales[at], self.sums[at])
    }
}
