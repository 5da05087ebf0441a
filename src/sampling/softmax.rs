//! The softmax in straight loops over the vocabulary, and its exponentials.
//!
//! A pass over the vocabulary sums in f32, some lanes at a time, to within 2e-7; the probability of a single token is computed in
//! f64. The few steps for which that is too rough sum in f64.
//!
//! Invariant: what decides the draw depends on the input alone, never on the target: no libm, no fused multiply-add, and sums
//! in a fixed order of lanes. (Entropy and surprisal, which are only shown, use `ln`.)

use crate::logits::Sums;
use std::f64::consts::{LN_2, LOG2_E};
use std::ops::AddAssign;

/// Independent partial sums, so that the compiler may keep them in vector registers.
const LANES: usize = 8;

/// Scores that are summed in f32 before the sum goes on in f64. Few, so that rounding stays below 1e-7.
const BLOCK: usize = 64;

/// Exponents below this count as probability 0: e^-70 is under 10^-30, far less than one step of `u` (2^-53), and stopping
/// here keeps every weight a normal f32, since arithmetic on subnormal numbers is slow.
const LOWEST_EXPONENT: f64 = -70.0;

/// softmax(scores / temperature), as its sums over the vocabulary: with x = (score - max) / temperature, a token's
/// probability is e^x / Σ e^x.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Softmax {
    max: f64,
    inverse_temperature: f64,
    /// Σ e^x
    weight: f64,
    /// Σ x e^x; 0 where nobody has summed it.
    weighted_x: f64,
    /// Sum of all probabilities, each rounded to f32: 1 but for rounding.
    mass: f64,
}

impl Softmax {
    /// Of `scores`, none NaN, whose largest is `max`, finite. -∞ has probability 0. `temperature` above 0.
    pub fn of(scores: &[f32], max: f32, temperature: f32) -> Softmax {
        let (mut weight, mut weighted_x) = (0.0, 0.0);
        for_each_block(scores, |block| {
            let sums = block_sums(block, max, temperature);
            weight += sums.0;
            weighted_x += sums.1;
        });
        Softmax { weight, weighted_x, ..Softmax::empty(max, temperature) }
    }

    /// The same, summed in f64.
    pub fn exactly_of(scores: &[f32], max: f32, temperature: f32) -> Softmax {
        let mut softmax = Softmax::empty(max, temperature);
        let (mut weight, mut weighted_x) = (0.0, 0.0);
        for_each_block(scores, |block| {
            let xs = block.map(|score| softmax.exponent(score).max(LOWEST_EXPONENT));
            let weights = block.map(|score| softmax.weight(score));
            weight += sum(&weights);
            weighted_x += sum(&std::array::from_fn(|i| xs[i] * weights[i]));
        });
        (softmax.weight, softmax.weighted_x, softmax.mass) = (weight, weighted_x, 0.0);
        for_each_block(scores, |block| softmax.mass += sum(&block.map(|score| f64::from(softmax.p(score)))));
        softmax
    }

    fn empty(max: f32, temperature: f32) -> Softmax {
        // In f64, so that not even the smallest temperature overflows.
        let inverse_temperature = 1.0 / f64::from(temperature);
        Softmax { max: f64::from(max), inverse_temperature, weight: 0.0, weighted_x: 0.0, mass: 1.0 }
    }

    /// The same at temperature 1, from sums that somebody else has computed.
    pub fn of_sums(sums: &Sums) -> Softmax {
        let Sums { max, weight, weighted_x, .. } = *sums;
        Softmax { weight, weighted_x, ..Softmax::empty(max, 1.0) }
    }

    /// The same at the temperature that the sums were asked for.
    pub fn of_sums_at(sums: &Sums, temperature: f32) -> Softmax {
        Softmax { weight: sums.weight_at_temperature, ..Softmax::empty(sums.max, temperature) }
    }

    /// Its sums, and that of `at_temperature`.
    pub fn sums(&self, at_temperature: &Softmax) -> Sums {
        Sums {
            max: self.max as f32,
            weight: self.weight,
            weighted_x: self.weighted_x,
            weight_at_temperature: at_temperature.weight,
            error: Sums::F32_ERROR,
        }
    }

    /// x of a token with this score: 0 for the best, negative for others.
    pub fn exponent(&self, score: f32) -> f64 {
        (f64::from(score) - self.max) * self.inverse_temperature
    }

    /// e^x of a token with this score: its probability but for the common factor.
    pub fn weight(&self, score: f32) -> f64 {
        exp_non_positive(self.exponent(score))
    }

    /// Probability of a token with this score.
    ///
    /// A higher score gets a higher probability, or one that rounds to the same f32: ranking by score is ranking by probability.
    pub fn p(&self, score: f32) -> f32 {
        (self.weight(score) / self.weight) as f32
    }

    pub fn mass(&self) -> f64 {
        self.mass
    }

    /// Of the whole vocabulary.
    pub fn spread(&self) -> Spread {
        Spread { weight: self.weight, weighted_x: self.weighted_x }
    }

    /// -log2 of a token's probability, exact where that underflows.
    pub fn surprisal_bits(&self, score: f32) -> f32 {
        // `+ 0.0` makes the -0 of a certain token a 0.
        ((self.weight.ln() - self.exponent(score)) / LN_2 + 0.0) as f32
    }

    /// -Σ p log2 p, which is log2 Σ e^x - E[x] / ln 2.
    pub fn entropy_bits(&self) -> f32 {
        ((self.weight.ln() - self.spread().mean_exponent()) / LN_2) as f32
    }
}

/// How the probability spreads over some tokens. Their entropy is ln Σ e^x - E[x] and a token's surprisal ln Σ e^x - x, so
/// the two differ by E[x] - x: no logarithm decides anything.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Spread {
    /// Σ e^x
    pub weight: f64,
    /// Σ x e^x
    pub weighted_x: f64,
}

impl Spread {
    /// Adds a token.
    pub fn add(&mut self, x: f64) {
        let weight = exp_non_positive(x);
        self.weight += weight;
        self.weighted_x += if weight > 0.0 { x * weight } else { 0.0 };
    }

    /// E[x], 0 or less.
    pub fn mean_exponent(&self) -> f64 {
        self.weighted_x / self.weight
    }

    /// e^-entropy: the probability that each token would have, were they all alike.
    pub fn p_of_entropy(&self) -> f64 {
        exp_non_positive(self.mean_exponent()) / self.weight
    }
}

/// The largest value; `values` not empty, none NaN.
pub(super) fn max(values: &[f32]) -> f32 {
    let mut maxima = [f32::NEG_INFINITY; LANES];
    let (chunks, rest) = values.as_chunks::<LANES>();
    for chunk in chunks {
        for lane in 0..LANES {
            maxima[lane] = if chunk[lane] > maxima[lane] { chunk[lane] } else { maxima[lane] };
        }
    }
    maxima.iter().chain(rest).fold(f32::NEG_INFINITY, |a, &b| a.max(b))
}

/// Σ e^x and Σ x e^x of a block.
#[inline(always)]
fn block_sums(block: &[f32; BLOCK], max: f32, temperature: f32) -> (f64, f64) {
    let (mut weights, mut weighted_xs) = ([0.0; BLOCK], [0.0; BLOCK]);
    for i in 0..BLOCK {
        // A division, since the inverse of the smallest temperature is no f32.
        let (x, weight) = exp_in_sums((block[i] - max) / temperature);
        weights[i] = weight;
        weighted_xs[i] = x * weight;
    }
    (sum(&weights), sum(&weighted_xs))
}

/// Calls `f` with each block; the last is filled up with -∞, which adds nothing.
#[inline(always)]
fn for_each_block(scores: &[f32], mut f: impl FnMut(&[f32; BLOCK])) {
    let (blocks, rest) = scores.as_chunks::<BLOCK>();
    blocks.iter().for_each(&mut f);
    let mut last = [f32::NEG_INFINITY; BLOCK];
    last[..rest.len()].copy_from_slice(rest);
    f(&last);
}

/// Σ of a block, lane by lane.
#[inline(always)]
fn sum<T: Copy + Default + AddAssign>(block: &[T; BLOCK]) -> f64
where
    f64: From<T>,
{
    let mut lanes = [T::default(); LANES];
    for chunk in block.as_chunks::<LANES>().0 {
        for lane in 0..LANES {
            lanes[lane] += chunk[lane];
        }
    }
    lanes.iter().map(|&lane| f64::from(lane)).sum()
}

/// x, but no lower than [`LOWEST_EXPONENT`], and e^x for x <= 0; 0 below that. Relative error below 2e-7.
#[inline(always)]
fn exp_in_sums(x: f32) -> (f32, f32) {
    const LOWEST: f32 = LOWEST_EXPONENT as f32;
    /// 1.5 * 2^23: adding it leaves the nearest integer in the low bits of the sum.
    const ROUND: f32 = 12_582_912.0;
    // ln 2 in two parts: few bits, so that n times it is exact, and the rest (Cephes `expf`, with its polynomial).
    const LN_2_HIGH: f32 = 0.693_359_4;
    const LN_2_LOW: f32 = -2.121_944_4e-4;
    let clamped = if x < LOWEST { LOWEST } else { x };
    let shifted = clamped * std::f32::consts::LOG2_E + ROUND;
    let n = shifted - ROUND;
    let r = clamped - n * LN_2_HIGH - n * LN_2_LOW;
    let tail = 1.666_666_5e-1 + r * (4.166_579_6e-2 + r * (8.333_452e-3 + r * (1.398_199_9e-3 + r * 1.987_569_1e-4)));
    let e_r = 1.0 + (r + r * r * (0.5 + r * tail));
    // Multiplies by 2^n: n goes straight into the exponent field.
    let e_x = f32::from_bits(e_r.to_bits().wrapping_add(shifted.to_bits() << 23));
    (clamped, if x < LOWEST { 0.0 } else { e_x })
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
        assert_eq!(exp_non_positive(f64::NEG_INFINITY), 0.0);
        assert_eq!(exp_non_positive(f64::from(f32::MIN) * 1e45), 0.0);
    }

    #[test]
    fn exp_in_sums_is_accurate() {
        for i in 0..=700_000 {
            let x = (f64::from(i) * -1e-4) as f32;
            let (clamped, found) = exp_in_sums(x);
            let expected = f64::from(x).exp();
            assert!((f64::from(found) / expected - 1.0).abs() < 2e-7, "e^{x}: {found}, expected {expected}");
            assert_eq!(clamped, x);
        }
        assert_eq!(exp_in_sums(0.0), (0.0, 1.0));
        assert_eq!(exp_in_sums(-0.0).1, 1.0);
        assert_eq!(exp_in_sums(-70.1), (-70.0, 0.0));
        assert_eq!(exp_in_sums(f32::NEG_INFINITY), (-70.0, 0.0));
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

    fn hashed(n: u32, spread: f32) -> Vec<f32> {
        (0..n).map(|i| (i.wrapping_mul(2_654_435_761) >> 8) as f32 / (1 << 24) as f32 * spread).collect()
    }

    #[test]
    fn sums_are_near_the_exact_ones() {
        for (n, spread) in [(49_152, 25.0), (49_152, 0.01), (49_151, 4.0), (1000, 60.0), (65, 1.0), (1, 1.0)] {
            let mut scores = hashed(n, spread);
            if n > 100 {
                scores[99] = f32::NEG_INFINITY;
            }
            let max = max(&scores);
            for temperature in [0.05, 0.7, 1.0, 3.0] {
                let softmax = Softmax::of(&scores, max, temperature);
                let x = |score: &f32| (f64::from(*score) - f64::from(max)) / f64::from(temperature);
                let weight: f64 = scores.iter().map(|score| x(score).exp()).sum();
                let finite = scores.iter().filter(|score| score.is_finite());
                let weighted_x: f64 = finite.map(|score| x(score) * x(score).exp()).sum();
                for (found, most) in [(softmax, 2e-7), (Softmax::exactly_of(&scores, max, temperature), 1e-8)] {
                    let error = (found.weight / weight - 1.0).abs();
                    assert!(error < most, "{n} {spread} at {temperature}: off by {error}");
                    let error = (found.weighted_x - weighted_x).abs() / (weight + weighted_x.abs());
                    assert!(error < most, "{n} {spread} at {temperature}: off by {error}");
                    assert!((found.mass - 1.0).abs() < 1e-7, "{n} {spread} at {temperature}: mass {}", found.mass);
                }
            }
        }
    }

    /// Golden bits, the same natively and in wasm.
    #[cfg_attr(target_arch = "wasm32", wasm_bindgen_test::wasm_bindgen_test)]
    #[cfg_attr(not(target_arch = "wasm32"), test)]
    fn sums_are_the_same_bits_on_every_target() {
        let scores = hashed(49_155, 25.0);
        let Softmax { weight, weighted_x, .. } = Softmax::of(&scores, max(&scores), 0.7);
        assert_eq!([weight, weighted_x].map(f64::to_bits), [4_653_773_642_881_609_089, 13_877_140_290_550_889_116]);
    }

    #[test]
    fn entropy_of_known_distributions() {
        let of = |scores: &[f32]| Softmax::of(scores, max(scores), 1.0);
        assert!((of(&[2.5; 1024]).entropy_bits() - 10.0).abs() < 1e-6);
        assert_eq!(of(&[0.0, -1e4, -1e4]).entropy_bits(), 0.0);
        assert_eq!(of(&[0.0, f32::NEG_INFINITY]).entropy_bits(), 0.0);
        // p = 3/4, 1/4
        let model = of(&[3f32.ln(), 0.0]);
        assert!((model.entropy_bits() - 0.811_278_1).abs() < 1e-6);
        assert!((model.surprisal_bits(0.0) - 2.0).abs() < 1e-6);
    }
}
