//! The operations of a plan that are not matrix products, one function each, on f32 rows.
//!
//! Invariant: plain functions of slices; no state, no allocation.

use super::simd::{self, F32x4};
use crate::model::{Activation, Pairing};
use std::ops::Range;

/// out = x / sqrt(mean(x²) + eps) * weight (Zhang and Sennrich 2019).
pub fn rms_norm(x: &[f32], weight: &[f32], eps: f32, out: &mut [f32]) {
    let scale = norm_scale(x, eps);
    for ((out, x), weight) in out.iter_mut().zip(x).zip(weight) {
        *out = x * scale * weight;
    }
}

/// out += x / sqrt(mean(x²) + eps) * weight.
pub fn add_norm(x: &[f32], weight: &[f32], eps: f32, out: &mut [f32]) {
    let scale = norm_scale(x, eps);
    for ((out, x), weight) in out.iter_mut().zip(x).zip(weight) {
        *out += x * scale * weight;
    }
}

/// Each head of `x`, as wide as `weight`, normalised.
pub fn head_norm(x: &mut [f32], weight: &[f32], eps: f32) {
    for head in x.chunks_exact_mut(weight.len()) {
        let scale = norm_scale(head, eps);
        for (x, weight) in head.iter_mut().zip(weight) {
            *x = *x * scale * weight;
        }
    }
}

fn norm_scale(x: &[f32], eps: f32) -> f32 {
    let mean_square = simd::dot(x, x) / x.len() as f32;
    1.0 / (mean_square + eps).sqrt()
}

/// Each row of `x`, as wide as `bias`, += bias.
pub fn add_bias(x: &mut [f32], bias: &[f32]) {
    for row in x.chunks_exact_mut(bias.len()) {
        row.iter_mut().zip(bias).for_each(|(x, bias)| *x += bias);
    }
}

/// gate = activation(gate) * up (Shazeer 2020).
pub fn glu(activation: Activation, gate: &mut [f32], up: &[f32]) {
    match activation {
        Activation::Silu => gated(gate, up, |x| x),
        // 0.5 (1 + tanh u) is 1 / (1 + exp(-2u)).
        Activation::Gelu => gated(gate, up, |x| {
            let cubic = x.mul(x).mul(x).mul(F32x4::splat(0.044_715));
            x.add(cubic).mul(F32x4::splat(2.0 * SQRT_2_OVER_PI))
        }),
    }
}

const SQRT_2_OVER_PI: f32 = 0.797_884_6;

/// gate = gate / (1 + exp(-slope(gate))) * up.
#[inline(always)]
fn gated(gate: &mut [f32], up: &[f32], slope: impl Fn(F32x4) -> F32x4) {
    let activation = |x: F32x4| x.div(F32x4::splat(1.0).add(simd::exp(F32x4::splat(0.0).sub(slope(x)))));
    let (gate4, gate_rest) = gate.as_chunks_mut::<4>();
    let (up4, up_rest) = up.as_chunks::<4>();
    for (gate, up) in gate4.iter_mut().zip(up4) {
        activation(F32x4::load(gate)).mul(F32x4::load(up)).store(gate);
    }
    for (gate, up) in gate_rest.iter_mut().zip(up_rest) {
        *gate = activation(F32x4::splat(*gate)).to_array()[0] * up;
    }
}

/// scores = exp(scores - max); returns their sum. NaN scores give a NaN sum.
fn exp_scores(scores: &mut [f32]) -> f32 {
    let (scores4, rest) = scores.as_chunks_mut::<4>();
    let lanes = scores4.iter().map(F32x4::load).fold(F32x4::splat(f32::NEG_INFINITY), F32x4::max);
    let max = lanes.to_array().iter().chain(rest.iter()).copied().fold(f32::NEG_INFINITY, f32::max);
    let mut sums = F32x4::ZERO;
    for scores in scores4 {
        let e = simd::exp(F32x4::load(scores).sub(F32x4::splat(max)));
        sums = sums.add(e);
        e.store(scores);
    }
    for score in rest.iter_mut() {
        *score = simd::exp(F32x4::splat(*score - max)).to_array()[0];
    }
    sums.to_array().iter().chain(rest.iter()).sum()
}

/// Positions whose scores are computed together. The cache has room for a whole number of such tiles.
const TILE: usize = 4;

/// Heads that go through keys and values together at most: their sums fill twelve of the sixteen registers of x86-64.
pub const HEADS: usize = 3;

/// Vectors of neighbouring columns whose sums over all positions are made together.
const WIDTH: usize = 4;

/// What a query looks at.
pub struct View {
    /// Positions; at least one.
    pub seen: Range<usize>,
    pub head_dim: usize,
    /// Multiplies the products of query and keys.
    pub scale: f32,
}

/// Heads of one query position that share `keys` and `values`, `[position][head_dim]`. `q` and `out`: `[head][head_dim]`.
/// `scores`: room for the cache's capacity, `HEADS` times.
pub fn attention(keys: &[f32], values: &[f32], view: &View, q: &[f32], out: &mut [f32], scores: &mut [f32]) {
    let n_heads = q.len() / view.head_dim;
    // As even as can be: four go as two and two.
    let together = n_heads.div_ceil(n_heads.div_ceil(HEADS)) * view.head_dim;
    for (q, out) in q.chunks(together).zip(out.chunks_mut(together)) {
        match q.len() / view.head_dim {
            1 => attend::<1>(keys, values, view, q, out, scores),
            2 => attend::<2>(keys, values, view, q, out, scores),
            _ => attend::<HEADS>(keys, values, view, q, out, scores),
        }
    }
}

/// `attention` for `N` heads, which read each key and value once.
fn attend<const N: usize>(keys: &[f32], values: &[f32], view: &View, q: &[f32], out: &mut [f32], scores: &mut [f32]) {
    let &View { ref seen, head_dim, scale } = view;
    let scale = F32x4::splat(scale);
    let (capacity, mut rooms) = (scores.len() / HEADS, scores);
    let scores: [&mut [f32]; N] =
        std::array::from_fn(|_| rooms.split_off_mut(..capacity).expect("room for HEADS heads"));
    let queries: [&[f32]; N] = std::array::from_fn(|i| &q[i * head_dim..][..head_dim]);
    // The first tile may begin before what is seen, and the last reach beyond it, into room of the cache; nothing reads those
    // scores.
    let first_tile = seen.start / TILE;
    let tiles = keys.chunks_exact(TILE * head_dim).take(seen.end.div_ceil(TILE)).enumerate().skip(first_tile);
    for (tile, keys) in tiles {
        for (i, products) in score_tile(queries, keys).into_iter().enumerate() {
            products.mul(scale).store(&mut scores[i].as_chunks_mut().0[tile]);
        }
    }
    let values = &values[seen.start * head_dim..];
    let scores = scores.map(|scores| &mut scores[seen.clone()]);
    let inverse = std::array::from_fn(|i| 1.0 / exp_scores(scores[i]));
    let weights = scores.map(|scores| &*scores);
    let mut column = 0;
    while column + 4 * WIDTH <= head_dim {
        weighted_sum::<N, WIDTH>(weights, &values[column..], head_dim, inverse, &mut out[column..]);
        column += 4 * WIDTH;
    }
    while column + 4 <= head_dim {
        weighted_sum::<N, 1>(weights, &values[column..], head_dim, inverse, &mut out[column..]);
        column += 4;
    }
    for column in column..head_dim {
        for i in 0..N {
            let column_values = values[column..].iter().step_by(head_dim);
            let sum: f32 = weights[i].iter().zip(column_values).map(|(weight, value)| weight * value).sum();
            out[i * head_dim + column] = sum * inverse[i];
        }
    }
}

/// q · k for the keys of four positions.
#[inline(always)]
fn score_tile<const N: usize>(queries: [&[f32]; N], keys: &[f32]) -> [F32x4; N] {
    let head_dim = queries[0].len();
    let n_lanes = head_dim / 4;
    let keys: [&[f32]; TILE] = std::array::from_fn(|position| &keys[position * head_dim..][..head_dim]);
    let (queries4, keys4) = (queries.map(|q| q.as_chunks::<4>().0), keys.map(|key| key.as_chunks::<4>().0));
    let mut sums = [[F32x4::ZERO; TILE]; N];
    for j in 0..n_lanes {
        let q = queries4.map(|q| F32x4::load(&q[j]));
        for (position, key) in keys4.iter().enumerate() {
            let key = F32x4::load(&key[j]);
            for i in 0..N {
                sums[i][position] = sums[i][position].add(q[i].mul(key));
            }
        }
    }
    std::array::from_fn(|i| {
        let mut scores = F32x4::sum_each(sums[i]);
        for (j, &q) in queries[i].iter().enumerate().skip(4 * n_lanes) {
            scores = scores.add(F32x4::splat(q).mul(F32x4::load(&keys.map(|key| key[j]))));
        }
        scores
    })
}

/// out = Σ weights · values · inverse for 4·W neighbouring columns, the first of `values` and of `out`; rows are `stride` apart in both.
#[inline(always)]
fn weighted_sum<const N: usize, const W: usize>(
    weights: [&[f32]; N],
    values: &[f32],
    stride: usize,
    inverse: [f32; N],
    out: &mut [f32],
) {
    let mut sums = [[F32x4::ZERO; W]; N];
    for (position, row) in values.chunks(stride).take(weights[0].len()).enumerate() {
        let row: [F32x4; W] = std::array::from_fn(|j| F32x4::load(&row.as_chunks().0[j]));
        for i in 0..N {
            let weight = F32x4::splat(weights[i][position]);
            for j in 0..W {
                sums[i][j] = sums[i][j].add(weight.mul(row[j]));
            }
        }
    }
    for i in 0..N {
        for (j, out) in out[i * stride..].as_chunks_mut().0.iter_mut().take(W).enumerate() {
            sums[i][j].mul(F32x4::splat(inverse[i])).store(out);
        }
    }
}

/// Rotates every head of one token's `x` by `turns`, the cosines and sines of its pairs.
pub fn rotate(turns: &[[f32; 2]], pairing: Pairing, head_dim: usize, x: &mut [f32]) {
    let turn = |a: &mut f32, b: &mut f32, [cos, sin]: &[f32; 2]| {
        (*a, *b) = (*a * cos - *b * sin, *a * sin + *b * cos);
    };
    for head in x.chunks_exact_mut(head_dim) {
        match pairing {
            Pairing::Interleaved => {
                let pairs = head.as_chunks_mut::<2>().0.iter_mut().zip(turns);
                pairs.for_each(|([a, b], turned)| turn(a, b, turned));
            }
            Pairing::HalfSplit => {
                let (first, second) = head.split_at_mut(turns.len());
                let pairs = first.iter_mut().zip(second).zip(turns);
                pairs.for_each(|((a, b), turned)| turn(a, b, turned));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Any number of heads, widths that fill no vector, lengths that fill no tile, windows; what is not seen does not matter.
    #[cfg_attr(target_arch = "wasm32", wasm_bindgen_test::wasm_bindgen_test)]
    #[cfg_attr(not(target_arch = "wasm32"), test)]
    fn attention_is_near_the_exact_one() {
        let capacity = 24;
        for (n_heads, head_dim) in [(1, 64), (2, 20), (3, 7), (4, 16), (5, 33), (7, 4)] {
            let value = |i: usize| ((i * 37 % 101) as f32 - 50.0) / 50.0;
            let q: Vec<f32> = (0..n_heads * head_dim).map(|i| 2.0 * value(i)).collect();
            for seen in [0..1, 0..4, 0..6, 0..23, 1..24, 6..7, 8..21, 19..22] {
                let cache = |salt: usize| -> Vec<f32> {
                    let is_seen = |i: usize| seen.contains(&(i / head_dim));
                    (0..capacity * head_dim).map(|i| if is_seen(i) { value(i + salt) } else { f32::NAN }).collect()
                };
                let (keys, values) = (cache(3), cache(11));
                let (mut out, mut scores) = (vec![0.0; q.len()], vec![0.0; HEADS * capacity]);
                let view = View { seen: seen.clone(), head_dim, scale: 0.3 };
                attention(&keys, &values, &view, &q, &mut out, &mut scores);
                for (q, out) in q.chunks(head_dim).zip(out.chunks(head_dim)) {
                    let score = |key: &[f32]| -> f64 {
                        let dot: f64 = q.iter().zip(key).map(|(q, k)| f64::from(*q) * f64::from(*k)).sum();
                        (dot * 0.3).exp()
                    };
                    let (keys, values) = (&keys[seen.start * head_dim..], &values[seen.start * head_dim..]);
                    let weights: Vec<f64> = keys.chunks(head_dim).take(seen.len()).map(score).collect();
                    let sum: f64 = weights.iter().sum();
                    for (column, &out) in out.iter().enumerate() {
                        let column = values[column..].iter().step_by(head_dim);
                        let exact: f64 = weights.iter().zip(column).map(|(w, v)| w * f64::from(*v)).sum::<f64>() / sum;
                        assert!(
                            (f64::from(out) - exact).abs() < 1e-5,
                            "{n_heads} x {head_dim}, {seen:?}: {out} {exact}"
                        );
                    }
                }
            }
        }
    }

    #[cfg_attr(target_arch = "wasm32", wasm_bindgen_test::wasm_bindgen_test)]
    #[cfg_attr(not(target_arch = "wasm32"), test)]
    fn glu_is_near_the_exact_one() {
        let silu = |x: f64| x / (1.0 + (-x).exp());
        let gelu = |x: f64| 0.5 * x * (1.0 + ((2.0 / std::f64::consts::PI).sqrt() * (x + 0.044715 * x.powi(3))).tanh());
        let exact = [(Activation::Silu, silu as fn(f64) -> f64), (Activation::Gelu, gelu)];
        for (activation, exact) in exact {
            let gate: Vec<f32> = (-30..=32).map(|i| i as f32 * 0.4).collect();
            let up: Vec<f32> = (0..gate.len()).map(|i| 2.0 - i as f32 * 0.1).collect();
            let mut out = gate.clone();
            glu(activation, &mut out, &up);
            for ((out, gate), up) in out.iter().zip(&gate).zip(&up) {
                let exact = exact(f64::from(*gate)) * f64::from(*up);
                assert!(
                    (f64::from(*out) - exact).abs() <= 1e-6 * exact.abs().max(1.0),
                    "{gate}: {out}, exactly {exact}"
                );
            }
        }
    }

    /// Heads of six, four values of which are rotated, by a quarter turn and by a half.
    #[cfg_attr(target_arch = "wasm32", wasm_bindgen_test::wasm_bindgen_test)]
    #[cfg_attr(not(target_arch = "wasm32"), test)]
    fn rotate_turns_the_pairs_of_each_head() {
        let turns = [[0.0, 1.0], [-1.0, 0.0]];
        for (pairing, expected) in [
            (Pairing::Interleaved, [-2.0, 1.0, -3.0, -4.0, 5.0, 6.0]),
            (Pairing::HalfSplit, [-3.0, -2.0, 1.0, -4.0, 5.0, 6.0]),
        ] {
            let mut x: Vec<f32> = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0].repeat(2);
            rotate(&turns, pairing, 6, &mut x);
            assert_eq!(x, expected.repeat(2));
        }
    }

    /// 3, 4 has the root mean square √12.5.
    #[cfg_attr(target_arch = "wasm32", wasm_bindgen_test::wasm_bindgen_test)]
    #[cfg_attr(not(target_arch = "wasm32"), test)]
    fn norms_divide_by_the_root_mean_square() {
        let rms = 12.5_f32.sqrt();
        let near = |found: &[f32], expected: &[f32]| {
            assert!(found.iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-6), "{found:?}, expected {expected:?}");
        };
        let mut x = [3.0, 4.0, 30.0, -40.0];
        head_norm(&mut x, &[1.0, 2.0], 0.0);
        near(&x, &[3.0 / rms, 8.0 / rms, 3.0 / rms, -8.0 / rms]);
        let mut x = [1.0, 1.0];
        add_norm(&[3.0, 4.0], &[1.0, 2.0], 0.0, &mut x);
        near(&x, &[1.0 + 3.0 / rms, 1.0 + 8.0 / rms]);
        add_bias(&mut x, &[0.0, -1.0]);
        near(&x, &[1.0 + 3.0 / rms, 8.0 / rms]);
    }
}
