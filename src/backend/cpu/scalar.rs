//! The scalar twins of the kernels in `matmul`: one row as it stands in the file, one token, plain loops.
//!
//! Invariant: what a kernel must equal, bit for bit.

use super::activations::{self, Activations};
use crate::quant::{self, GgmlType};

/// Row · token: for each block the exact integer dot product, times both scales; plus the minimum times the sum.
pub fn dot(ty: GgmlType, row: &[u8], x: &Activations, token: usize) -> f32 {
    let mut acc = 0.0;
    for (column, block) in row.chunks_exact(ty.block_bytes()).enumerate() {
        let (values, scale, sum) = x.block(column, token);
        let block = quant::block_parts(ty, block);
        let product = |(i, w): (usize, &i32)| w * i32::from(values[activations::place(i)]);
        let dot: i32 = block.quants.iter().enumerate().map(product).sum();
        acc += dot as f32 * (block.scale * scale);
        if let Some(minimum) = block.minimum {
            acc += minimum * (scale * sum as f32);
        }
    }
    acc
}
