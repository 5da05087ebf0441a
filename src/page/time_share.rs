//! Where the time of each token goes, over the last tokens: the arithmetic behind the strip.
//!
//! Invariant: pure; times come in, parts and averages go out, no clock and no DOM.

use crate::protocol::StepMs;
use std::collections::VecDeque;

/// Tokens that the strip shows.
pub const N_SHOWN: usize = 120;

/// The parts of a token's time, from its computing to the screen, in the order in which they follow each other.
pub const PARTS: [&str; 5] = ["forward", "readback", "sampling", "waiting", "painting"];

/// Milliseconds of each part.
pub type Parts = [f64; PARTS.len()];

/// The parts of one token. The engine's come with the step; the token arrived at `arrived_ms`, the frame that showed it began at
/// `frame_ms` and took `painting_ms` for each of its tokens.
pub fn parts(ms: StepMs, arrived_ms: f64, frame_ms: f64, painting_ms: f64) -> Parts {
    [ms.forward, ms.readback, ms.sample, (frame_ms - arrived_ms).max(0.0), painting_ms]
}

/// The last tokens.
#[derive(Debug, Default)]
pub struct TimeShare {
    tokens: VecDeque<Parts>,
}

impl TimeShare {
    pub fn clear(&mut self) {
        self.tokens.clear();
    }

    pub fn push(&mut self, parts: Parts) {
        if self.tokens.len() == N_SHOWN {
            self.tokens.pop_front();
        }
        self.tokens.push_back(parts);
    }

    pub fn tokens(&self) -> &VecDeque<Parts> {
        &self.tokens
    }

    /// The mean of each part; none without tokens.
    pub fn means(&self) -> Option<Parts> {
        let n = self.tokens.len();
        let mean = |i: usize| self.tokens.iter().map(|parts| parts[i]).sum::<f64>() / n as f64;
        (n > 0).then(|| std::array::from_fn(mean))
    }

    /// The time that nine tokens in ten stay within: one stray token does not flatten all others.
    pub fn typical_most(&self) -> f64 {
        let mut totals: Vec<f64> = self.tokens.iter().map(|parts| parts.iter().sum()).collect();
        totals.sort_by(f64::total_cmp);
        totals.get(totals.len() * 9 / 10).copied().unwrap_or(0.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: StepMs = StepMs { total: 9.0, forward: 6.0, sample: 2.0, readback: 1.0 };

    #[test]
    fn a_token_waits_from_its_arrival_to_its_frame() {
        assert_eq!(parts(MS, 100.0, 104.0, 0.5), [6.0, 1.0, 2.0, 4.0, 0.5]);
        assert_eq!(parts(MS, 104.0, 100.0, 0.5)[3], 0.0, "a frame's time may be a little before the arrival");
    }

    #[test]
    fn the_means_are_of_the_last_tokens() {
        let mut share = TimeShare::default();
        assert_eq!(share.means(), None);
        (0..N_SHOWN).for_each(|_| share.push([100.0; 5]));
        (0..N_SHOWN / 2).for_each(|_| share.push([0.0; 5]));
        assert_eq!(share.tokens().len(), N_SHOWN);
        assert_eq!(share.means(), Some([50.0; 5]));
    }

    #[test]
    fn one_stray_token_does_not_set_the_scale() {
        let mut share = TimeShare::default();
        (0..19).for_each(|_| share.push([2.0; 5]));
        share.push([900.0; 5]);
        assert_eq!(share.typical_most(), 10.0);
        assert_eq!(TimeShare::default().typical_most(), 0.0);
    }
}
