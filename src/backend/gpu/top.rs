//! What a step reads back: the buffer that `shaders/top.wgsl` fills, as [`Top`].
//!
//! Invariant: the sizes here are the shaders' constants.

use crate::backend::{Sums, Top};

/// Workgroups of each of the three shaders, and partial sums.
pub const CHUNKS: usize = 16;
/// Bins of 1/64 of a logit below the maximum.
pub const BINS: usize = 4096;
/// Tokens in the list at most.
pub const MAX_BEST: usize = 1024;

/// The buffer: counts and padding, four floats a chunk, two words a token.
pub const HEADER: usize = 16;
const SUMS_AT: usize = HEADER;
const BEST_AT: usize = SUMS_AT + CHUNKS * 16;
/// Bytes of it.
pub const BYTES: usize = BEST_AT + MAX_BEST * 8;

/// Reads the buffer, whose sums are at `temperature`. Where a logit is not finite, so are the sums.
pub fn parse(bytes: &[u8], temperature: f32, top: &mut Top) {
    let word = |at: usize| u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
    let float = |at: usize| f32::from_bits(word(at));
    let chunks = || (0..CHUNKS).map(|chunk| SUMS_AT + chunk * 16);
    let max = chunks().map(float).fold(f32::NEG_INFINITY, f32::max);
    let mut sums = Sums { max, weight: 0.0, weighted_x: 0.0, weight_at_temperature: 0.0, error: Sums::F32_ERROR };
    let inverse_temperature = 1.0 / f64::from(temperature);
    for chunk in chunks() {
        // Relative to the chunk's own maximum so far.
        let shift = f64::from(float(chunk)) - f64::from(max);
        let (weight, weighted_x) = (f64::from(float(chunk + 4)), f64::from(float(chunk + 8)));
        if weight < 0.0 {
            sums.weight = f64::NAN;
        }
        let scale = shift.exp();
        sums.weight += weight * scale;
        sums.weighted_x += (weighted_x + shift * weight) * scale;
        sums.weight_at_temperature += f64::from(float(chunk + 12)) * (shift * inverse_temperature).exp();
    }
    top.sums = sums;
    top.best.clear();
    let n_best = (word(0) as usize).min(MAX_BEST);
    top.best.extend((0..n_best).map(|i| (word(BEST_AT + i * 8), float(BEST_AT + i * 8 + 4))));
}
