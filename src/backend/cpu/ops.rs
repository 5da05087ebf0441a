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

/// Heads that go through keys and values together at most: their sums fill twelve of the sixteen registers of x86-64.
pub const HEADS: usize = 3;

/// Vectors of neighbouring columns whose sums over all positions are made together.
const WIDTH: usize = 4;

/// Heads of one query position that share the first `kv_len` positions of `keys` and `values`, `[position][head_dim]`. `q` and `out`:
/// `[head][head_dim]`. `scores`: room for the cache's capacity, `HEADS` times.
pub fn attention(
    keys: &[f32],
    values: &[f32],
    kv_len: usize,
    head_dim: usize,
    q: &[f32],
    out: &mut [f32],
    scores: &mut [f32],
) {
    let n_heads = q.len() / head_dim;
    // As even as can be: four go as two and two.
    let together = n_heads.div_ceil(n_heads.div_ceil(HEADS)) * head_dim;
    for (q, out) in q.chunks(together).zip(out.chunks_mut(together)) {
        match q.len() / head_dim {
            1 => attend::<1>(keys, values, kv_len, q, out, scores),
            2 => attend::<2>(keys, values, kv_len, q, out, scores),
            _ => attend::<HEADS>(keys, values, kv_len, q, out, scores),
        }
    }
}

/// `attention` for `N` heads, which read each key and value once.
fn attend<const N: usize>(keys: &[f32], values: &[f32], kv_len: usize, q: &[f32], out: &mut [f32], scores: &mut [f32]) {
    let head_dim = q.len() / N;
    let scale = F32x4::splat(1.0 / (head_dim as f32).sqrt());
    let (capacity, mut rooms) = (scores.len() / HEADS, scores);
    let scores: [&mut [f32]; N] =
        std::array::from_fn(|_| rooms.split_off_mut(..capacity).expect("room for HEADS heads"));
    let queries: [&[f32]; N] = std::array::from_fn(|i| &q[i * head_dim..][..head_dim]);
    // The last tile may reach beyond `kv_len`, into room of the cache; nothing reads those scores.
    for (tile, keys) in keys.chunks_exact(TILE * head_dim).take(kv_len.div_ceil(TILE)).enumerate() {
        for (i, products) in score_tile(queries, keys).into_iter().enumerate() {
            products.mul(scale).store(&mut scores[i].as_chunks_mut().0[tile]);
        }
    }
    let scores = scores.map(|scores| &mut scores[..kv_len]);
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
pub fn rotate(turns: &[[f32; 2]], head_dim: usize, x: &mut [f32]) {
    for head in x.chunks_exact_mut(head_dim) {
        for ([a, b], [cos, sin]) in head.as_chunks_mut::<2>().0.iter_mut().zip(turns) {
            (*a, *b) = (*a * cos - *b * sin, *a * sin + *b * cos);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Any number of heads, widths that fill no vector, lengths that fill no tile; what lies beyond the length does not matter.
    #[cfg_attr(target_arch = "wasm32", wasm_bindgen_test::wasm_bindgen_test)]
    #[cfg_attr(not(target_arch = "wasm32"), test)]
    fn attention_is_near_the_exact_one() {
        let capacity = 24;
        for (n_heads, head_dim) in [(1, 64), (2, 20), (3, 7), (4, 16), (5, 33), (7, 4)] {
            let value = |i: usize| ((i * 37 % 101) as f32 - 50.0) / 50.0;
            let q: Vec<f32> = (0..n_heads * head_dim).map(|i| 2.0 * value(i)).collect();
            for kv_len in [1, 4, 6, 23] {
                let cache = |salt: usize| -> Vec<f32> {
                    let beyond = kv_len * head_dim;
                    (0..capacity * head_dim).map(|i| if i < beyond { value(i + salt) } else { f32::NAN }).collect()
                };
                let (keys, values) = (cache(3), cache(11));
                let (mut out, mut scores) = (vec![0.0; q.len()], vec![0.0; HEADS * capacity]);
                attention(&keys, &values, kv_len, head_dim, &q, &mut out, &mut scores);
                for (q, out) in q.chunks(head_dim).zip(out.chunks(head_dim)) {
                    let score = |key: &[f32]| -> f64 {
                        let dot: f64 = q.iter().zip(key).map(|(q, k)| f64::from(*q) * f64::from(*k)).sum();
                        (dot / (head_dim as f64).sqrt()).exp()
                    };
                    let weights: Vec<f64> = keys.chunks(head_dim).take(kv_len).map(score).collect();
                    let sum: f64 = weights.iter().sum();
                    for (column, &out) in out.iter().enumerate() {
                        let column = values[column..].iter().step_by(head_dim);
                        let exact: f64 = weights.iter().zip(column).map(|(w, v)| w * f64::from(*v)).sum::<f64>() / sum;
                        assert!(
                            (f64::from(out) - exact).abs() < 1e-5,
                            "{n_heads} x {head_dim}, {kv_len}: {out} {exact}"
                        );
                    }
                }
            }
        }
    }
}
