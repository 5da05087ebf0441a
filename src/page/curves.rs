//! The whole vocabulary of a step as two curves over the rank: the probability, and its running sum.
//!
//! Candidates count one by one; the tokens beyond them by their bin of 1/16 of a logit (`tail`).
//!
//! Invariant: pure; it arranges a `StepRecord` and knows no DOM.

use crate::protocol::{GenerateOptions, StepRecord};

/// Some tokens of nearly the same probability.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Level {
    /// Tokens before them.
    pub n_above: u32,
    pub count: u32,
    /// Of each of them.
    pub p: f64,
    /// Probability of all tokens down to the last of these.
    pub sum: f64,
}

/// What the curves show.
#[derive(Debug, Clone, PartialEq)]
pub struct Curves {
    /// From the likeliest down.
    pub levels: Vec<Level>,
    /// Tokens below all levels, of which nothing is known but what they have together.
    pub n_unknown: u32,
    /// The temperature of the probabilities.
    pub temperature: f32,
}

/// The temperature that the curves are at: the run's, unless it is greedy or processors changed the logits, which the tail does not
/// tell.
pub fn temperature(options: &GenerateOptions) -> f32 {
    let sampling = &options.sampling;
    if sampling.temperature == 0.0 || super::what_if::has_processors(options) { 1.0 } else { sampling.temperature }
}

/// None for a step without a tail.
pub fn curves(step: &StepRecord, options: &GenerateOptions) -> Option<Curves> {
    let tail = step.tail.as_ref()?;
    let temperature = temperature(options);
    let weight = if temperature == 1.0 { tail.sums.weight } else { tail.sums.weight_at_temperature };
    let listed = step.candidates.iter().take(crate::tail::N_LISTED).map(|candidate| (candidate.logit, 1));
    let mut levels: Vec<(f32, u32)> = listed.chain(tail.levels()).collect();
    // In order already, unless a processor has moved candidates. A bin's mean may be a hair above the last candidate.
    levels.sort_by(|a, b| b.0.total_cmp(&a.0));
    let (mut n_above, mut sum) = (0, 0.0);
    let levels = levels.into_iter().map(|(logit, count)| {
        let p = ((f64::from(logit) - f64::from(tail.sums.max)) / f64::from(temperature)).exp() / weight;
        sum += p * f64::from(count);
        let level = Level { n_above, count, p, sum: sum.min(1.0) };
        n_above += count;
        level
    });
    Some(Curves { levels: levels.collect(), n_unknown: tail.n_unknown, temperature })
}

impl Curves {
    /// Probability of the token at `rank`, 1 the likeliest, to 1/16 of a logit; none where it is not known.
    pub fn p_at(&self, rank: u32) -> Option<f64> {
        let below = self.levels.partition_point(|level| level.n_above + level.count < rank);
        self.levels.get(below).map(|level| level.p)
    }

    /// How many tokens are known.
    pub fn n_known(&self) -> u32 {
        self.levels.last().map_or(0, |last| last.n_above + last.count)
    }

    /// What the tokens below all levels have together.
    pub fn unknown_mass(&self) -> f64 {
        1.0 - self.levels.last().map_or(0.0, |last| last.sum)
    }
}
