//! The kernels once more, as plainly as they can be written, under the names of their shaders. Sums are in double precision, so
//! that what a kernel differs by is its own rounding.
//!
//! Invariant: no device, no layout of GPU memory; a twin sees rows of values.

use crate::backend::Sums;
use crate::backend::gpu::top::{BINS, MAX_BEST};
use crate::model::{Activation, Pairing};
use std::f64::consts::PI;

/// The rows of a table that `ids` name, times `scale`.
pub fn embed(table: &[Vec<f32>], ids: &[u32], scale: f32) -> Vec<Vec<f32>> {
    ids.iter().map(|&id| table[id as usize].iter().map(|x| x * scale).collect()).collect()
}

/// x / rms(x) * weight (Zhang and Sennrich 2019).
pub fn rms_norm(x: &[f32], weight: &[f32], eps: f32) -> Vec<f64> {
    let squares: f64 = x.iter().map(|x| f64::from(*x).powi(2)).sum();
    let rms = (squares / x.len() as f64 + f64::from(eps)).sqrt();
    x.iter().zip(weight).map(|(x, weight)| f64::from(*x) / rms * f64::from(*weight)).collect()
}

/// out += x / rms(x) * weight
pub fn add_norm(x: &[f32], weight: &[f32], eps: f32, out: &mut [f32]) {
    add(&rms_norm(x, weight, eps), out);
}

/// W x
pub fn matvec(w: &[Vec<f32>], x: &[f64]) -> Vec<f64> {
    w.iter().map(|row| row.iter().zip(x).map(|(w, x)| f64::from(*w) * x).sum()).collect()
}

/// W x of each x.
pub fn matmul(w: &[Vec<f32>], xs: &[Vec<f64>]) -> Vec<Vec<f64>> {
    xs.iter().map(|x| matvec(w, x)).collect()
}

/// out = y
pub fn store(y: &[f64], out: &mut [f32]) {
    for (out, y) in out.iter_mut().zip(y) {
        *out = *y as f32;
    }
}

/// out += y
pub fn add(y: &[f64], out: &mut [f32]) {
    for (out, y) in out.iter_mut().zip(y) {
        *out = (f64::from(*out) + y) as f32;
    }
}

/// out = activation(gate) * up, `y` being gate and up in turn (Shazeer 2020).
pub fn glu(activation: Activation, y: &[f64], out: &mut [f32]) {
    for (out, pair) in out.iter_mut().zip(y.as_chunks().0) {
        let [gate, up] = pair;
        *out = (self::activation(activation, *gate) * up) as f32;
    }
}

/// out = activation(out) * y
pub fn gated(activation: Activation, y: &[f64], out: &mut [f32]) {
    for (out, y) in out.iter_mut().zip(y) {
        *out = (self::activation(activation, f64::from(*out)) * y) as f32;
    }
}

fn activation(activation: Activation, x: f64) -> f64 {
    match activation {
        Activation::Silu => x / (1.0 + (-x).exp()),
        // Hendrycks and Gimpel 2016, with tanh.
        Activation::Gelu => 0.5 * x * (1.0 + ((2.0 / PI).sqrt() * (x + 0.044715 * x.powi(3))).tanh()),
    }
}

/// A head of Q or K: its product `y` with the bias added, normalised if there are weights for that, and rotated.
pub fn finish_qkv(
    y: &[f32],
    bias: &[f32],
    norm: Option<(&[f32], f32)>,
    pairing: Pairing,
    turns: &[[f32; 2]],
) -> Vec<f64> {
    let mut head: Vec<f64> = y.iter().zip(bias).map(|(y, bias)| f64::from(y + bias)).collect();
    if let Some((weight, eps)) = norm {
        head = rms_norm(&head.iter().map(|x| *x as f32).collect::<Vec<_>>(), weight, eps);
    }
    for (pair, [cos, sin]) in turns.iter().enumerate() {
        let (first, second) = match pairing {
            Pairing::Interleaved => (2 * pair, 2 * pair + 1),
            Pairing::HalfSplit => (pair, pair + turns.len()),
        };
        let (a, b, cos, sin) = (head[first], head[second], f64::from(*cos), f64::from(*sin));
        (head[first], head[second]) = (a * cos - b * sin, a * sin + b * cos);
    }
    head
}

/// Rows `y` of Q, K and V of one position, Q and K rotated head by head (Su et al. 2021): `turns` holds cosine and sine of a
/// head's first pairs.
pub fn qkv(y: &[f64], turns: &[[f32; 2]], head_dim: usize, [q, k, v]: [&mut [f32]; 3]) {
    let (y_q, y) = y.split_at(q.len());
    let (y_k, y_v) = y.split_at(k.len());
    for (y, out) in [(y_q, q), (y_k, k)] {
        for (y, out) in y.chunks(head_dim).zip(out.chunks_mut(head_dim)) {
            let mut rotated = y.to_vec();
            for (pair, [cos, sin]) in rotated.as_chunks_mut().0.iter_mut().zip(turns) {
                let [a, b]: [f64; 2] = *pair;
                let (cos, sin) = (f64::from(*cos), f64::from(*sin));
                *pair = [a * cos - b * sin, a * sin + b * cos];
            }
            store(&rotated, out);
        }
    }
    store(y_v, v);
}

/// What one query of one head gathers from the values of the positions that it sees: softmax(q k scale) v (Vaswani et al. 2017).
pub fn attention(q: &[f32], keys: &[&[f32]], values: &[&[f32]], scale: f32) -> Vec<f64> {
    let dot = |key: &&[f32]| q.iter().zip(*key).map(|(q, k)| f64::from(*q) * f64::from(*k)).sum::<f64>();
    let scores: Vec<f64> = keys.iter().map(|key| dot(key) * f64::from(scale)).collect();
    let maximum = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let weights: Vec<f64> = scores.iter().map(|score| (score - maximum).exp()).collect();
    let total: f64 = weights.iter().sum();
    let column = |i: usize| values.iter().zip(&weights).map(|(v, weight)| f64::from(v[i]) * weight).sum::<f64>();
    (0..q.len()).map(|i| column(i) / total).collect()
}

/// A part of an attention: weighted sums of values, and the maximum and the sum of the weights that are relative to it.
pub struct Split {
    pub sums: Vec<f32>,
    pub maximum: f32,
    pub weight: f32,
}

/// All parts of one head together.
pub fn merge_splits(splits: &[Split]) -> Vec<f64> {
    let scale = |split: &Split| f64::from(split.maximum).exp();
    let total: f64 = splits.iter().map(|split| scale(split) * f64::from(split.weight)).sum();
    let column = |i: usize| splits.iter().map(|split| scale(split) * f64::from(split.sums[i])).sum::<f64>();
    (0..splits[0].sums.len()).map(|i| column(i) / total).collect()
}

/// The sums that `shaders/logit_sums.wgsl` takes chunk by chunk.
pub fn logit_sums(logits: &[f32], temperature: f32) -> Sums {
    let max = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let sum = |term: &dyn Fn(f64) -> f64| logits.iter().map(|&x| term(f64::from(x) - f64::from(max))).sum();
    Sums {
        max,
        weight: sum(&|x| x.exp()),
        weighted_x: sum(&|x| if x == 0.0 { 0.0 } else { x * x.exp() }),
        weight_at_temperature: sum(&|x| (x / f64::from(temperature)).exp()),
        error: 0.0,
    }
}

/// The bin of each logit, 64 of them a logit below the maximum.
pub fn logit_bins(logits: &[f32]) -> Vec<usize> {
    let max = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    logits.iter().map(|x| (((max - x) * 64.0) as usize).min(BINS - 1)).collect()
}

/// Logits in each bin.
pub fn logit_histogram(logits: &[f32]) -> Vec<u32> {
    let mut histogram = vec![0; BINS];
    for bin in logit_bins(logits) {
        histogram[bin] += 1;
    }
    histogram
}

/// Token and logit of the first bins, of as many as hold no more than `MAX_BEST` together.
pub fn collect_best(logits: &[f32]) -> Vec<(u32, f32)> {
    let mut taken = 0;
    let fits = |n: &u32| {
        taken += *n as usize;
        taken <= MAX_BEST
    };
    let n_bins = logit_histogram(logits).into_iter().take_while(fits).count();
    let bins = logit_bins(logits);
    (0..).zip(logits.iter().copied()).zip(bins).filter(|(_, bin)| *bin < n_bins).map(|(best, _)| best).collect()
}
