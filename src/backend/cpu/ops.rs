//! The operations of a plan that are not matrix products, one function each, on f32 rows.
//!
//! Invariant: plain functions of slices; no state, no allocation.

use super::kv::KvCache;
use super::simd::{self, F32x4};
use crate::model::ModelConfig;

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
    let max = scores.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let mut sums = F32x4::splat(0.0);
    let (scores4, rest) = scores.as_chunks_mut::<4>();
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

/// One query position over the first `kv_len` positions of a layer's cache. `q` and `out`: `[n_heads][head_dim]`; `scores`: at least
/// `kv_len`.
pub fn attention(
    config: &ModelConfig,
    cache: &KvCache,
    layer: usize,
    kv_len: usize,
    q: &[f32],
    out: &mut [f32],
    scores: &mut [f32],
) {
    let head_dim = config.head_dim;
    let scale = 1.0 / (head_dim as f32).sqrt();
    let group = config.n_heads / config.n_kv_heads;
    let scores = &mut scores[..kv_len];
    for (head, (q, out)) in q.chunks_exact(head_dim).zip(out.chunks_exact_mut(head_dim)).enumerate() {
        let keys = cache.keys(layer, head / group).chunks_exact(head_dim);
        for (score, key) in scores.iter_mut().zip(keys) {
            *score = simd::dot(q, key) * scale;
        }
        let inverse = 1.0 / exp_scores(scores);
        out.fill(0.0);
        let values = cache.values(layer, head / group).chunks_exact(head_dim);
        for (&score, value) in scores.iter().zip(values) {
            simd::add_scaled(out, score * inverse, value);
        }
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
