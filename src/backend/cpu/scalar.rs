//! The scalar twin of the kernels in `matmul`: one row as it stands in the file, one token, plain loops.
//!
//! Invariant: what a kernel must equal, bit for bit.

use super::activations::Activations;
use crate::quant::GgmlType;
use crate::quant::units::{self, Parts};

/// Row · token: for each unit the exact integer dot product, of its halves where they have scales of their own, times both scales;
/// plus the minimum times the sum.
pub fn dot(ty: GgmlType, row: &[u8], x: &Activations, token: usize) -> f32 {
    let n_units = ty.block_len() / 32;
    let n_halves = if ty == GgmlType::Q6K { 2 } else { 1 };
    let mut acc = 0.0;
    for (b, block) in row.chunks_exact(ty.block_bytes()).enumerate() {
        for j in 0..n_units {
            let x = x.block(b * n_units + j, token);
            let Parts { quants, scales, minimum } = units::parts(ty, block, j);
            let values = x.operand.values();
            let halves = quants.chunks(32 / n_halves).zip(values.chunks(32 / n_halves));
            for ((quants, values), scale) in halves.zip(scales) {
                let dot: i32 = quants.iter().zip(values).map(|(w, x)| w * i32::from(*x)).sum();
                acc += dot as f32 * (scale * x.scale);
            }
            if let Some(minimum) = minimum {
                acc += minimum * x.scaled_sum;
            }
        }
    }
    acc
}
