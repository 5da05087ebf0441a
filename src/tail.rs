//! What a step says of the tokens beyond its list of candidates: how many have which logit, and sums over the whole vocabulary.
//!
//! A histogram of 1/16 of a logit a bin, made in one pass, with the mean of each bin. It is a thousandth of the vocabulary's
//! logits in size, and tells two things: the whole rank-probability curve, every rank's logit to 1/16 (its probability to 6.5 % at
//! temperature 1), and the sum of all probabilities at any other temperature, between bounds that are proven.
//!
//! Invariant: pure; bounds are bounds: what lies between them may be anything.

use crate::logits::{Logits, Sums};
use serde::{Deserialize, Serialize};

/// Candidates of a step that are kept one by one: as many as a run reports by default. All other tokens are its tail.
pub const N_LISTED: usize = 64;

/// Bins: the last one takes all that is 64 logits or more below the best.
const BINS: usize = 1024;
const BINS_PER_LOGIT: f64 = 16.0;
/// Parts of a bin that means are counted in. Small enough for a million tokens in one bin.
const PARTS: u32 = 1 << 12;

/// The tokens that are not among the first [`N_LISTED`] candidates. With x = logit - max, 0 or less.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Tail {
    /// Over the whole vocabulary, the candidates included. `weight_at_temperature` is that of the logits after the processors, at
    /// the run's temperature, or 1 for a greedy one.
    pub sums: Sums,
    /// How far down the first of the bins lies, in bins.
    first_bin: u32,
    /// How many tokens, and their mean distance from the bin's upper edge, rounded down, in 1/4096 of a bin.
    bins: Vec<(u32, u16)>,
    /// Tokens of which nothing is known but that they are below all others: the GPU reads back the top alone.
    pub n_unknown: u32,
}

impl Tail {
    /// The tail of a step with these logits, less those of the `listed` tokens, which are among them. Of a top, `sums` are its own.
    pub fn of(logits: &Logits, sums: Sums, vocab_size: usize, listed: impl Iterator<Item = f32>) -> Tail {
        // The count in the upper half and the sum of parts in the lower, so that a token is one addition.
        let mut bins = [0u64; BINS];
        let entry = |part: u32| ((part / PARTS) as usize % BINS, 1 << 32 | u64::from(part % PARTS));
        let mut add = |part: u32| {
            let (bin, entry) = entry(part);
            bins[bin] += entry;
        };
        let n_unknown = if logits.all.is_empty() {
            logits.top.best.iter().for_each(|&(_, logit)| add(part_of(sums.max, logit)));
            vocab_size - logits.top.best.len()
        } else {
            // Block by block: the compiler computes the parts in vectors.
            let (blocks, rest) = logits.all.as_chunks::<64>();
            for block in blocks {
                block.map(|logit| part_of(sums.max, logit)).into_iter().for_each(&mut add);
            }
            rest.iter().for_each(|&logit| add(part_of(sums.max, logit)));
            0
        };
        for logit in listed.take(N_LISTED) {
            let (bin, entry) = entry(part_of(sums.max, logit));
            bins[bin] -= entry;
        }
        let first = bins.iter().position(|&bin| bin > 0).unwrap_or(0);
        let end = bins.iter().rposition(|&bin| bin > 0).map_or(first, |last| last + 1);
        let unpack = |&bin: &u64| {
            let (count, parts) = ((bin >> 32) as u32, bin as u32);
            (count, parts.checked_div(count).map_or(0, |mean| mean as u16))
        };
        Tail {
            sums,
            first_bin: first as u32,
            bins: bins[first..end].iter().map(unpack).collect(),
            n_unknown: u32::try_from(n_unknown).expect("the vocabulary fits u32"),
        }
    }

    /// The least and the most that Σ e^(x / temperature) over the whole vocabulary can be; `listed` are the logits of the first
    /// [`N_LISTED`] candidates. `temperature` above 0. For logits that no processor has changed.
    ///
    /// In a bin the sum is least when all tokens are at its mean (Jensen), and most when they are at its two edges.
    pub fn weight_at(&self, temperature: f32, listed: impl Iterator<Item = f32>) -> (f64, f64) {
        let beta = 1.0 / f64::from(temperature);
        let max = f64::from(self.sums.max);
        let (mut known_at_1, mut lowest) = ((0.0, 0.0), 0.0);
        let mut weight = 0.0;
        for logit in listed.take(N_LISTED) {
            let x = f64::from(logit) - max;
            weight += (x * beta).exp();
            known_at_1 = add(known_at_1, (x.exp(), x.exp()));
            lowest = x.min(lowest);
        }
        let mut bounds = (weight, weight);
        for (bin, count, mean) in self.filled() {
            bounds = add(bounds, bin_weight(bin, count, mean, beta));
            known_at_1 = add(known_at_1, bin_weight(bin, count, mean, 1.0));
            lowest = -f64::from(bin) / BINS_PER_LOGIT;
        }
        if self.n_unknown == 0 {
            return bounds;
        }
        // Each of the others has x <= lowest, and their weight at temperature 1 is what is left of the sum.
        let n = f64::from(self.n_unknown);
        let error = self.sums.weight * self.sums.error;
        let left =
            ((self.sums.weight - error - known_at_1.1).max(0.0), (self.sums.weight + error - known_at_1.0).max(0.0));
        let alike = |weight: f64| n * (weight / n).powf(beta);
        let at_top = |weight: f64| weight * ((beta - 1.0) * lowest).exp();
        add(bounds, if beta > 1.0 { (alike(left.0), at_top(left.1)) } else { (at_top(left.0), alike(left.1)) })
    }

    /// Logits and how many tokens have them, from the top down: bin by bin, each at its mean.
    pub fn levels(&self) -> impl Iterator<Item = (f32, u32)> {
        self.filled().map(|(bin, count, mean)| {
            let distance = (f64::from(bin) + (f64::from(mean) + 0.5) / f64::from(PARTS)) / BINS_PER_LOGIT;
            ((f64::from(self.sums.max) - distance) as f32, count)
        })
    }

    /// The bins that are not empty: which, how many tokens, and their mean.
    fn filled(&self) -> impl Iterator<Item = (u32, u32, u16)> {
        let bins = (self.first_bin..).zip(&self.bins);
        bins.filter(|(_, (count, _))| *count > 0).map(|(bin, &(count, mean))| (bin, count, mean))
    }
}

/// How far below the maximum a logit lies, in parts of bins, to the nearest one.
#[inline(always)]
fn part_of(max: f32, logit: f32) -> u32 {
    const LAST: f32 = (BINS as u32 * PARTS - 1) as f32;
    /// 2^23: adding it leaves the nearest integer in the low bits.
    const ROUND: f32 = 8_388_608.0;
    let parts = (max - logit) * (BINS_PER_LOGIT as f32 * PARTS as f32);
    let parts = if parts < LAST { parts } else { LAST };
    (parts + ROUND).to_bits() & (BINS as u32 * PARTS - 1)
}

/// Bounds of Σ e^(beta x) over the tokens of one bin.
fn bin_weight(bin: u32, count: u32, mean: u16, beta: f64) -> (f64, f64) {
    let n = f64::from(count);
    let at = |bins: f64| (-beta * bins / BINS_PER_LOGIT).exp();
    // A token may be nearer than the edge by the half part that it was rounded by.
    let (near, far) = (at(f64::from(bin) - 1.0 / f64::from(PARTS)), at(f64::from(bin) + 1.0));
    if bin as usize == BINS - 1 {
        return (0.0, n * near);
    }
    // Parts are rounded to the nearest and their mean is rounded down; the subtraction in f32 is good to 1/8 of a part.
    let share = |parts: f64| ((f64::from(mean) + parts) / f64::from(PARTS)).clamp(0.0, 1.0);
    let (least, most) = (share(-0.75), share(1.75));
    (n * at(f64::from(bin) + most), n * (near + (far - near) * least))
}

fn add(a: (f64, f64), b: (f64, f64)) -> (f64, f64) {
    (a.0 + b.0, a.1 + b.1)
}
