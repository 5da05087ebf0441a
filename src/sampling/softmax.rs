//! The softmax in straight loops over the vocabulary, and its exponential.
//!
//! Invariant: what decides the draw depends on the input alone, never on the target: no libm, no fused multiply-add, and sums
//! in a fixed order of lanes. (Entropy and surprisal, which are only shown, use `ln`.)

use crate::backend::Sums;
use std::f64::consts::{LN_2, LOG2_E};

/// Independent partial sums, so that the compiler may keep them in vector registers.
const LANES: usize = 8;

/// Exponents below this count as probability 0: e^-70 is under 10^-30, far less than one step of `u` (2^-53), and stopping
/// here keeps every weight a normal f32, since arithmetic on subnormal numbers is slow.
const LOWEST_EXPONENT: f64 = -70.0;

/// The model's own distribution: temperature 1, nothing filtered.
pub(super) struct Softmax {
    max: f64,
    /// Sum of e^(logit - max).
    sum: f64,
    /// Sum of (logit - max) e^(logit - max).
    weighted_sum: f64,
}

impl Softmax {
    /// `logits` finite and not empty.
    pub fn of_logits(logits: &[f32]) -> Softmax {
        let max = f64::from(max(logits));
        let mut sums = [0.0; LANES];
        let mut weighted_sums = [0.0; LANES];
        for_each_lane(logits, |lane, &logit| {
            let x = f64::from(logit) - max;
            let weight = exp_non_positive(x);
            sums[lane] += weight;
            weighted_sums[lane] += x * weight;
        });
        Softmax { max, sum: sums.iter().sum(), weighted_sum: weighted_sums.iter().sum() }
    }

    /// The same, from sums that somebody else has computed.
    pub fn of_sums(sums: &Sums) -> Softmax {
        Softmax { max: f64::from(sums.max), sum: sums.weight, weighted_sum: sums.weighted_x }
    }

    /// Probability of a token with this logit.
    pub fn p(&self, logit: f32) -> f32 {
        (exp_non_positive(f64::from(logit) - self.max) / self.sum) as f32
    }

    /// -log2 of that probability, exact where it underflows.
    pub fn surprisal_bits(&self, logit: f32) -> f32 {
        // `+ 0.0` makes the -0 of a certain token a 0.
        ((self.max - f64::from(logit) + self.sum.ln()) / LN_2 + 0.0) as f32
    }

    /// -sum p log2 p, which is log2(sum) - E[logit - max] / ln 2.
    pub fn entropy_bits(&self) -> f32 {
        ((self.sum.ln() - self.weighted_sum / self.sum) / LN_2) as f32
    }
}

/// Fills `probs` with softmax(`scores` / `temperature`), each rounded to f32, and returns their sum: 1 but for rounding.
///
/// A higher score gets a higher probability, or one that rounds to the same f32: ranking by score is ranking by probability.
pub(super) fn softmax(scores: &[f32], temperature: f32, probs: &mut [f32]) -> f64 {
    let max = f64::from(max(scores));
    // In f64, so that neither the smallest temperature nor the largest score overflows.
    let inverse_temperature = 1.0 / f64::from(temperature);
    probs.copy_from_slice(scores);
    let mut sums = [0.0; LANES];
    for_each_lane_mut(probs, |lane, x| {
        let weight = exp_non_positive((f64::from(*x) - max) * inverse_temperature);
        *x = weight as f32;
        sums[lane] += weight;
    });
    let scale = 1.0 / sums.iter().sum::<f64>();
    let mut sums = [0.0; LANES];
    for_each_lane_mut(probs, |lane, x| {
        *x = (f64::from(*x) * scale) as f32;
        sums[lane] += f64::from(*x);
    });
    sums.iter().sum()
}

/// What [`softmax`] gives a token with this score, from sums at that temperature over the whole vocabulary.
pub(super) fn softmax_from_sums(score: f32, temperature: f32, sums: &Sums) -> f32 {
    let inverse_temperature = 1.0 / f64::from(temperature);
    let weight = exp_non_positive((f64::from(score) - f64::from(sums.max)) * inverse_temperature);
    (f64::from(weight as f32) * (1.0 / sums.weight_at_temperature)) as f32
}

/// The largest value; `values` finite and not empty.
fn max(values: &[f32]) -> f32 {
    let mut maxima = [f32::NEG_INFINITY; LANES];
    for_each_lane(values, |lane, &value| maxima[lane] = if value > maxima[lane] { value } else { maxima[lane] });
    maxima.iter().fold(f32::NEG_INFINITY, |a, &b| a.max(b))
}

/// Calls `f` with each value and its lane. The whole chunks go first, in a loop whose constant length lets it be vectorised.
#[inline(always)]
fn for_each_lane(values: &[f32], mut f: impl FnMut(usize, &f32)) {
    let (chunks, rest) = values.as_chunks::<LANES>();
    for chunk in chunks {
        chunk.iter().enumerate().for_each(|(lane, value)| f(lane, value));
    }
    rest.iter().enumerate().for_each(|(lane, value)| f(lane, value));
}

/// [`for_each_lane`] that changes the values.
#[inline(always)]
fn for_each_lane_mut(values: &mut [f32], mut f: impl FnMut(usize, &mut f32)) {
    let (chunks, rest) = values.as_chunks_mut::<LANES>();
    for chunk in chunks {
        chunk.iter_mut().enumerate().for_each(|(lane, value)| f(lane, value));
    }
    rest.iter_mut().enumerate().for_each(|(lane, value)| f(lane, value));
}

/// e^x for x <= 0; 0 below [`LOWEST_EXPONENT`].
///
/// x = n ln 2 + r with |r| <= ln 2 / 2, and e^r by its Taylor series to r^7: relative error below 8e-9, far less than an
/// f32 resolves (6e-8), and small enough that the results for neighbouring f32 values keep their order.
#[inline(always)]
fn exp_non_positive(x: f64) -> f64 {
    /// 1.5 * 2^52: adding it leaves the nearest integer in the low bits of the sum.
    const ROUND: f64 = 6_755_399_441_055_744.0;
    let clamped = if x < LOWEST_EXPONENT { LOWEST_EXPONENT } else { x };
    let shifted = clamped * LOG2_E + ROUND;
    let r = clamped - (shifted - ROUND) * LN_2;
    let even_tail = 1.0 / 24.0 + r * (1.0 / 120.0 + r * (1.0 / 720.0 + r * (1.0 / 5040.0)));
    let e_r = 1.0 + r * (1.0 + r * (1.0 / 2.0 + r * (1.0 / 6.0 + r * even_tail)));
    // Multiplies by 2^n: n goes straight into the exponent field.
    let e_x = f64::from_bits(e_r.to_bits().wrapping_add(shifted.to_bits() << 52));
    if x < LOWEST_EXPONENT { 0.0 } else { e_x }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exp_is_accurate_and_monotone() {
        let mut previous = 0.0;
        for i in (0..=700_000).rev() {
            let x = f64::from(i) * -1e-4;
            let (found, expected) = (exp_non_positive(x), x.exp());
            assert!((found / expected - 1.0).abs() < 8e-9, "e^{x}: {found}, expected {expected}");
            assert!(found > previous, "not monotone at {x}");
            previous = found;
        }
        assert_eq!(exp_non_positive(0.0), 1.0);
        assert_eq!(exp_non_positive(-70.1), 0.0);
        assert_eq!(exp_non_positive(f64::from(f32::MIN) * 1e45), 0.0);
    }

    /// The seams between two powers of two are where a rough exponential steps back.
    #[test]
    fn exp_of_neighbouring_f32_keeps_order() {
        for n in 0..100 {
            let seam = (-(f64::from(n) + 0.5) * LN_2) as f32;
            // Counting up in bits makes a negative float smaller.
            let mut previous = f64::INFINITY;
            for bits in seam.to_bits() - 1000..seam.to_bits() + 1000 {
                let found = exp_non_positive(f64::from(f32::from_bits(bits)));
                assert!(found < previous, "not monotone at {}", f32::from_bits(bits));
                previous = found;
            }
        }
    }

    #[test]
    fn entropy_of_known_distributions() {
        assert!((Softmax::of_logits(&[2.5; 1024]).entropy_bits() - 10.0).abs() < 1e-6);
        assert_eq!(Softmax::of_logits(&[0.0, -1e4, -1e4]).entropy_bits(), 0.0);
        // p = 3/4, 1/4
        let model = Softmax::of_logits(&[3f32.ln(), 0.0]);
        assert!((model.entropy_bits() - 0.811_278_1).abs() < 1e-6);
        assert!((model.surprisal_bits(0.0) - 2.0).abs() < 1e-6);
    }
}
