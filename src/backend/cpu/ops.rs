//! The operations of a plan that are not matrix products, one function each, on f32 rows.
//!
//! Invariant: plain functions of slices; no state, no allocation.

use super::simd::{self, F32x4};

/// out = x / sqrt(mean(x²) + eps) * weight (Zhang and Sennrich 2019).
pub fn rms_norm(x: &[f32], weight: &[f32], eps: f32, out: &mut [f32]) {
    let mean_square = simd::dot(x, x) / x.len() as f32;
    let scale = 1.0 / (mean_square + eps).sqrt();
    for ((out, x), weight) in out.iter_mut().zip(x).zip(weight) {
        *out = x * scale * weight;
    }
}

/// gate = gate / (1 + exp(-gate)) * up (Shazeer 2020).
pub fn swiglu(gate: &mut [f32], up: &[f32]) {
    let silu = |x: F32x4| x.div(F32x4::splat(1.0).add(simd::exp(F32x4::splat(0.0).sub(x))));
    let (gate4, gate_rest) = gate.as_chunks_mut::<4>();
    let (up4, up_rest) = up.as_chunks::<4>();
    for (gate, up) in gate4.iter_mut().zip(up4) {
        silu(F32x4::load(gate)).mul(F32x4::load(up)).store(gate);
    }
    for (gate, up) in gate_rest.iter_mut().zip(up_rest) {
        *gate = silu(F32x4::splat(*gate)).to_array()[0] * up;
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

/// One head of one query position over the first `kv_len` positions' `keys` and `values`, `[position][head_dim]`. `scores`: room for
/// the cache's capacity.
pub fn attention(keys: &[f32], values: &[f32], kv_len: usize, q: &[f32], out: &mut [f32], scores: &mut [f32]) {
    let head_dim = q.len();
    let scale = 1.0 / (head_dim as f32).sqrt();
    let keys = keys.chunks_exact(TILE * head_dim);
    // The last tile may reach beyond `kv_len`, into room of the cache; nothing reads those scores.
    let tiles = scores.as_chunks_mut().0.iter_mut().take(kv_len.div_ceil(TILE));
    for (scores, keys) in tiles.zip(keys) {
        score_tile(q, keys).mul(F32x4::splat(scale)).store(scores);
    }
    let scores = &mut scores[..kv_len];
    let inverse = 1.0 / exp_scores(scores);
    let (wide, rest) = out.as_chunks_mut::<32>();
    for (i, out) in wide.iter_mut().enumerate() {
        weighted_sum::<8>(scores, &values[32 * i..], head_dim, inverse, out.as_chunks_mut().0);
    }
    let done = head_dim - rest.len();
    let (lanes, rest) = rest.as_chunks_mut::<4>();
    for (i, out) in lanes.iter_mut().enumerate() {
        weighted_sum::<1>(scores, &values[done + 4 * i..], head_dim, inverse, std::slice::from_mut(out));
    }
    let done = head_dim - rest.len();
    for (i, out) in rest.iter_mut().enumerate() {
        let column = values[done + i..].iter().step_by(head_dim);
        *out = scores.iter().zip(column).map(|(score, value)| score * value).sum::<f32>() * inverse;
    }
}

/// q · k for the keys of four positions.
#[inline(always)]
fn score_tile(q: &[f32], keys: &[f32]) -> F32x4 {
    let (q4, q_rest) = q.as_chunks::<4>();
    let keys: [&[f32]; TILE] = std::array::from_fn(|i| &keys[i * q.len()..][..q.len()]);
    let mut sums = [F32x4::ZERO; TILE];
    for (j, q) in q4.iter().enumerate() {
        let q = F32x4::load(q);
        for (sum, key) in sums.iter_mut().zip(keys) {
            *sum = sum.add(q.mul(F32x4::load(&key.as_chunks().0[j])));
        }
    }
    let mut scores = F32x4::sum_each(sums);
    for (j, &q) in q_rest.iter().enumerate() {
        let column = keys.map(|key| key[4 * q4.len() + j]);
        scores = scores.add(F32x4::splat(q).mul(F32x4::load(&column)));
    }
    scores
}

/// out = Σ scores · values · inverse for 4·N neighbouring columns; `values` starts at the first of them, rows are `stride` apart.
#[inline(always)]
fn weighted_sum<const N: usize>(scores: &[f32], values: &[f32], stride: usize, inverse: f32, out: &mut [[f32; 4]]) {
    let mut sums = [F32x4::ZERO; N];
    for (&score, row) in scores.iter().zip(values.chunks(stride)) {
        let score = F32x4::splat(score);
        for (sum, value) in sums.iter_mut().zip(&row[..4 * N].as_chunks().0[..N]) {
            *sum = sum.add(score.mul(F32x4::load(value)));
        }
    }
    for (out, sum) in out.iter_mut().zip(sums) {
        sum.mul(F32x4::splat(inverse)).store(out);
    }
}

/// Rotates every head of one token's `x` by `turns`, the cosines and sines of its pairs.
pub fn rotate(turns: &[[f32; 2]], head_dim: usize, x: &mut [f32]) {
    for head in x.chunks_exact_mut(head_dim) {
        for ([a, b], [cos, sin]) in head.as_chunks_mut::<2>().0.iter_mut().zip(turns) {
            (*a, *b) = (*a * cos - *b * sin, *a * sin + *b * cos);
        }
    }
}
