//! Activations as integers: quantized once for each matrix product, then multiplied with integer weights.
//!
//! Eight bits, as llama.cpp has them, except in the *wide* blocks, which have sixteen: those where a value stands far out of its
//! row. A few channels of a model do so for every token; eight bits there, about one block in five, were measured to cost most of
//! what eight bits everywhere cost (`tests/forward.rs`).
//!
//! Invariant: scratch only; sized at load, never grows while a token is computed.

use super::dot::{LARGEST_NARROW, LARGEST_WIDE, Operand};
use super::pool::{Grain, MAX_THREADS, Pool};
use super::simd::{F32x4, dot};

/// Values in a block, the same as in the weight formats that are multiplied with them.
pub const BLOCK: usize = 32;

/// A block is wide if its largest value exceeds this many times the root mean square of its row.
const FAR_OUT: f32 = 4.0;

/// What a value costs, in the multiply-adds of a quantized product.
const COST: usize = 16;

/// Below this a block counts as zero: 32512 divided by it is still finite.
const SMALLEST: f32 = 1e-33;

/// A block of quantized activations: value i is `operand.values()[i] · scale`.
#[derive(Clone, Copy)]
pub struct Block {
    pub operand: Operand,
    pub scale: f32,
    /// The sum of the block: scale · Σ values.
    pub scaled_sum: f32,
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
        let empty = Block { operand: Operand::ZERO, scale: 0.0, scaled_sum: 0.0 };
        Self { n: 0, blocks: vec![empty; max_n * max_cols.div_ceil(BLOCK)] }
    }

    pub fn len(&self) -> usize {
        self.n
    }

    /// Quantizes `x`, `n` rows of a whole number of blocks each: scale = max|x| / 127, or / 32512 in a wide block; value = x / scale,
    /// rounded half up.
    ///
    /// A value that is not finite makes its block's scale NaN, so that it reaches the logits and ends the run there.
    pub fn quantize(&mut self, x: &[f32], n: usize, pool: &mut Pool) {
        self.n = n;
        let n_cols = x.len() / n;
        let blocks = &mut self.blocks[..x.len() / BLOCK];
        let grain = Grain { columns: 1, cost: COST * n_cols };
        pool.split(blocks, n, grain, &mut [(); MAX_THREADS], |rows, mut blocks, ()| {
            for (i, row) in rows.enumerate() {
                let x = &x[row * n_cols..][..n_cols];
                let far_out = FAR_OUT * (dot(x, x) / n_cols as f32).sqrt();
                for (column, x) in x.as_chunks::<BLOCK>().0.iter().enumerate() {
                    blocks.row(column)[i] = Block::new(x, far_out);
                }
            }
        });
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
    /// `far_out`: from where on a value makes the block wide.
    fn new(x: &[f32; BLOCK], far_out: f32) -> Self {
        let lanes = x.as_chunks::<4>().0;
        let zero = F32x4::ZERO;
        let (mut largest, mut poison) = (zero, zero);
        for x in lanes.iter().map(F32x4::load) {
            largest = largest.max(x).max(zero.sub(x));
            poison = poison.add(x.mul(zero));
        }
        let largest = largest.to_array().into_iter().fold(0.0, f32::max);
        let is_wide = largest > far_out;
        let limit = f32::from(if is_wide { LARGEST_WIDE } else { LARGEST_NARROW });
        let scale = largest / limit + poison.to_array().iter().sum::<f32>();
        let inverse = F32x4::splat(if largest > SMALLEST && !scale.is_nan() { limit / largest } else { 0.0 });
        let round = |i: usize| F32x4::load(&lanes[i]).mul(inverse).add(F32x4::splat(0.5)).floor();
        let values = std::array::from_fn(|i| [round(2 * i), round(2 * i + 1)]);
        let operand = Operand::new(values, is_wide);
        Self { scale, scaled_sum: scale * operand.sum() as f32, operand }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg_attr(target_arch = "wasm32", wasm_bindgen_test::wasm_bindgen_test)]
    #[cfg_attr(not(target_arch = "wasm32"), test)]
    fn a_block_is_wide_where_a_value_stands_far_out_of_its_row() {
        // The root mean square is a little above 1: 4.5 stands out, 3.5 does not.
        let mut x: Vec<f32> = (0..1024).map(|i| if i % 2 == 0 { 1.0 } else { -1.0 }).collect();
        (x[0], x[40], x[70]) = (-4.5, 3.5, f32::NAN);
        let mut activations = Activations::new(1, x.len());
        activations.quantize(&x[..64], 1, &mut Pool::alone());
        assert_eq!(activations.block(0, 0).operand.values()[..2], [-127, -28]);
        let calm: Vec<f32> = x[96..].iter().chain(&x[..64]).copied().collect();
        activations.quantize(&calm, 1, &mut Pool::alone());
        let last = calm.len() / BLOCK - 1;
        assert_eq!(activations.block(last - 1, 0).operand.values()[..2], [-LARGEST_WIDE, -7225]);
        assert_eq!(activations.block(last, 0).operand.values()[8], LARGEST_NARROW);
        activations.quantize(&x, 1, &mut Pool::alone());
        assert!(activations.block(2, 0).scale.is_nan() && activations.block(1, 0).scale.is_finite());
    }
}
