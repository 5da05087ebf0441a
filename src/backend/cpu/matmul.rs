//! Quantized matrix times quantized activations, for the formats with kernels of our own: Q4_0, Q4_1 and Q8_0.
//!
//! A kernel handles four rows (one packed group, see `pack`) and a tile of tokens: weights are unpacked once a block and used for
//! every token of the tile. Per block and row: an exact integer dot product, then one multiplication with both scales. The
//! scalar twins in `scalar` do the same in plain loops, and give the same bits.
//!
//! Invariant: reads packed weights and quantized activations; allocates nothing.

use super::activations::Activations;
use super::pack::ROWS;
use super::scalar;
use super::simd::{F32x4, I16x8, I32x4};
use crate::quant::GgmlType;

/// Tokens whose accumulators are kept at hand.
const TILE: usize = 16;

/// How the kernel reads one format. A packed block is `[4 scales][4 minima, if any][4 rows of quants]`.
trait Format {
    const TYPE: GgmlType;
    /// Bytes of one row's quants in a block.
    const QUANT_BYTES: usize;
    /// What a stored 0 stands for is `-ZERO_POINT` scales.
    const ZERO_POINT: i32 = 0;
    /// A minimum is added to every value.
    const HAS_MIN: bool = false;

    /// The 32 stored integers of one row's block, in the order of `activations::place`.
    fn widen(quants: &[u8]) -> [I16x8; 4];
}

struct Q4_0;
struct Q4_1;
struct Q8_0;

impl Format for Q4_0 {
    const TYPE: GgmlType = GgmlType::Q4_0;
    const QUANT_BYTES: usize = 16;
    const ZERO_POINT: i32 = 8;

    #[inline(always)]
    fn widen(quants: &[u8]) -> [I16x8; 4] {
        I16x8::widen_nibbles(&quants.as_chunks().0[0])
    }
}

impl Format for Q4_1 {
    const TYPE: GgmlType = GgmlType::Q4_1;
    const QUANT_BYTES: usize = 16;
    const HAS_MIN: bool = true;

    #[inline(always)]
    fn widen(quants: &[u8]) -> [I16x8; 4] {
        I16x8::widen_nibbles(&quants.as_chunks().0[0])
    }
}

impl Format for Q8_0 {
    const TYPE: GgmlType = GgmlType::Q8_0;
    const QUANT_BYTES: usize = 32;

    #[inline(always)]
    fn widen(quants: &[u8]) -> [I16x8; 4] {
        I16x8::widen_i8(&quants.as_chunks().0[0])
    }
}

/// out = W·x, or out += W·x with `add`. `weights`: packed, `n_rows` rows as long as the activations' rows; `out`: `[token][n_rows]`.
pub fn matmul(ty: GgmlType, weights: &[u8], n_rows: usize, x: &Activations, out: &mut [f32], add: bool) {
    match ty {
        GgmlType::Q4_0 => rows::<Q4_0>(weights, n_rows, x, out, add),
        GgmlType::Q4_1 => rows::<Q4_1>(weights, n_rows, x, out, add),
        GgmlType::Q8_0 => rows::<Q8_0>(weights, n_rows, x, out, add),
        _ => unreachable!("only formats with `packed_fields` are packed"),
    }
}

fn rows<F: Format>(weights: &[u8], n_rows: usize, x: &Activations, out: &mut [f32], add: bool) {
    let row_bytes = weights.len() / n_rows;
    for (g, group) in weights.chunks_exact(row_bytes * ROWS).enumerate() {
        for first in (0..x.len()).step_by(TILE) {
            let n = TILE.min(x.len() - first);
            let mut acc = [F32x4::splat(0.0); TILE];
            if n == 1 {
                tile::<F>(group, x, first, &mut acc[..1]);
            } else {
                tile::<F>(group, x, first, &mut acc[..n]);
            }
            for (t, acc) in acc[..n].iter().enumerate() {
                let out = &mut out[(first + t) * n_rows + g * ROWS..].as_chunks_mut::<ROWS>().0[0];
                if add { acc.add(F32x4::load(out)).store(out) } else { acc.store(out) }
            }
        }
    }
    let done = n_rows / ROWS * ROWS;
    for (row, bytes) in (done..n_rows).zip(weights[done * row_bytes..].chunks_exact(row_bytes)) {
        for t in 0..x.len() {
            let value = scalar::dot(F::TYPE, bytes, x, t);
            let out = &mut out[t * n_rows + row];
            *out = if add { value + *out } else { value };
        }
    }
}

/// Adds four rows' products with the tokens from `first` on to `acc`, one vector a token.
#[inline(always)]
fn tile<F: Format>(group: &[u8], x: &Activations, first: usize, acc: &mut [F32x4]) {
    let scales_bytes = ROWS * 2;
    let quants_at = if F::HAS_MIN { 2 * scales_bytes } else { scales_bytes };
    let block_bytes = quants_at + ROWS * F::QUANT_BYTES;
    for (column, block) in group.chunks_exact(block_bytes).enumerate() {
        let halves = block.as_chunks::<8>().0;
        let scales = F32x4::from_f16(&halves[0]);
        let minima = F32x4::from_f16(&halves[1]);
        let quants = &block[quants_at..];
        let row = |r: usize| F::widen(&quants[r * F::QUANT_BYTES..][..F::QUANT_BYTES]);
        let w = [row(0), row(1), row(2), row(3)];
        for (t, acc) in acc.iter_mut().enumerate() {
            let (values, scale, sum) = x.block(column, first + t);
            let values = values.as_chunks::<8>().0;
            let a =
                [I16x8::load(&values[0]), I16x8::load(&values[1]), I16x8::load(&values[2]), I16x8::load(&values[3])];
            let mut dots = I32x4::sum_each([dot(&w[0], &a), dot(&w[1], &a), dot(&w[2], &a), dot(&w[3], &a)]);
            if F::ZERO_POINT != 0 {
                dots = dots.add(I32x4::splat(-F::ZERO_POINT * sum));
            }
            *acc = acc.add(dots.to_f32().mul(scales.mul(F32x4::splat(scale))));
            if F::HAS_MIN {
                *acc = acc.add(minima.mul(F32x4::splat(scale * sum as f32)));
            }
        }
    }
}

/// The products of a row's block, in four partial sums.
#[inline(always)]
fn dot(w: &[I16x8; 4], a: &[I16x8; 4]) -> I32x4 {
    w[0].dot_pairs(a[0]).add(w[1].dot_pairs(a[1])).add(w[2].dot_pairs(a[2]).add(w[3].dot_pairs(a[3])))
}

#[cfg(test)]
mod tests {
    use super::super::pack;
    use super::*;
    use crate::quant;

    /// Odd shapes too: rows that do not fill a group of four, more tokens than a tile.
    #[cfg_attr(target_arch = "wasm32", wasm_bindgen_test::wasm_bindgen_test)]
    #[cfg_attr(not(target_arch = "wasm32"), test)]
    fn matmul_equals_scalar_dot_to_the_bit() {
        let mut state = 1u32;
        let mut random = move || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            state >> 8
        };
        for ty in [GgmlType::Q4_0, GgmlType::Q4_1, GgmlType::Q8_0] {
            for (n_rows, n_cols, n) in [(1, 32, 1), (4, 32, 1), (7, 96, 3), (8, 64, 16), (13, 160, 33)] {
                let row_bytes = ty.row_bytes(n_cols);
                let mut raw: Vec<u8> = (0..n_rows * row_bytes).map(|_| random() as u8).collect();
                for block in raw.chunks_exact_mut(ty.block_bytes()) {
                    block[1] &= 0xbf; // scales and minima finite, of both signs, subnormal ones among them
                    block[3] &= if ty == GgmlType::Q4_1 { 0xbf } else { 0xff };
                }
                let x: Vec<f32> = (0..n * n_cols).map(|_| random() as f32 / 8e6 - 1.0).collect();
                let mut activations = Activations::new(n, n_cols);
                activations.quantize(&x, n);

                let mut packed = raw.clone();
                pack::pack(&mut packed, row_bytes, quant::packed_fields(ty).unwrap());
                let mut out = vec![0.5; n * n_rows];
                matmul(ty, &packed, n_rows, &activations, &mut out, false);
                let mut sum = vec![0.5; n * n_rows];
                matmul(ty, &packed, n_rows, &activations, &mut sum, true);

                for t in 0..n {
                    for r in 0..n_rows {
                        let twin = scalar::dot(ty, &raw[r * row_bytes..][..row_bytes], &activations, t);
                        let at = t * n_rows + r;
                        assert_eq!(out[at], twin, "{} row {r} of {n_rows}, token {t} of {n}", ty.name());
                        assert_eq!(sum[at], twin + 0.5, "{} added", ty.name());
                    }
                }
            }
        }
    }

    /// The quantized product stays near the float one: 16-bit activations lose next to nothing.
    #[cfg_attr(target_arch = "wasm32", wasm_bindgen_test::wasm_bindgen_test)]
    #[cfg_attr(not(target_arch = "wasm32"), test)]
    fn scalar_dot_is_near_the_float_product() {
        let n_cols = 256;
        let x: Vec<f32> = (0..n_cols).map(|i| (i as f32 * 0.37).sin()).collect();
        let mut activations = Activations::new(1, n_cols);
        activations.quantize(&x, 1);
        for ty in [GgmlType::Q4_0, GgmlType::Q4_1, GgmlType::Q8_0] {
            let mut row: Vec<u8> = (0..ty.row_bytes(n_cols)).map(|i| (i * 197 % 256) as u8).collect();
            for block in row.chunks_exact_mut(ty.block_bytes()) {
                block[..2].copy_from_slice(&half::f16::from_f32(0.01).to_le_bytes());
                if ty == GgmlType::Q4_1 {
                    block[2..4].copy_from_slice(&half::f16::from_f32(-0.07).to_le_bytes());
                }
            }
            let mut weights = vec![0.0; n_cols];
            quant::dequantize_row(ty, &row, &mut weights).unwrap();
            let exact: f32 = weights.iter().zip(&x).map(|(w, x)| w * x).sum();
            let size: f32 = weights.iter().zip(&x).map(|(w, x)| (w * x).abs()).sum();
            let got = scalar::dot(ty, &row, &activations, 0);
            assert!((got - exact).abs() < 1e-4 * size, "{}: {got}, exactly {exact}", ty.name());
        }
    }
}
