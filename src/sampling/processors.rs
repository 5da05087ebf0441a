//! The processors of logits, of the same meaning as their namesakes in transformers (`generation/logits_process.py`): they change
//! scores in place, before anything is a probability.
//!
//! Invariant: pure; a forbidden token's score is -∞, all others stay finite.

use super::to_usize;
use crate::protocol::SamplingOptions;

/// The processors of one run.
pub(super) struct Processors {
    repetition_penalty: f32,
    no_repeat_ngram_size: usize,
    logit_bias: Vec<(u32, f32)>,
    suppress: Vec<u32>,
    /// Tokens that are forbidden while prompt and text are shorter than `min_len`.
    ends: Vec<u32>,
    min_len: usize,
}

impl Processors {
    pub fn new(options: &SamplingOptions) -> Processors {
        Processors {
            repetition_penalty: options.repetition_penalty,
            no_repeat_ngram_size: to_usize(options.no_repeat_ngram_size),
            logit_bias: options.logit_bias.clone(),
            suppress: options.suppress.clone(),
            ends: Vec::new(),
            min_len: 0,
        }
    }

    pub fn forbid_until(&mut self, ends: Vec<u32>, min_len: usize) {
        (self.ends, self.min_len) = (ends, min_len);
    }

    /// Whether they leave every score as it is after these tokens.
    pub fn are_idle(&self, seen: &[u32]) -> bool {
        self.repetition_penalty == 1.0
            && self.logit_bias.is_empty()
            && self.suppress.is_empty()
            && self.ends_to_forbid(seen).is_empty()
            && repeating(seen, self.no_repeat_ngram_size).next().is_none()
    }

    /// Changes `scores`, which begin as the model's `logits`. All ids are below their number.
    pub fn apply(&self, scores: &mut [f32], logits: &[f32], seen: &[u32]) {
        let mut forbid = |id: u32| scores[to_usize(id)] = f32::NEG_INFINITY;
        // A forbidden token stays so, whatever is added to it: the order among the others is SEMANTICS.md's.
        repeating(seen, self.no_repeat_ngram_size).for_each(&mut forbid);
        self.ends_to_forbid(seen).iter().chain(&self.suppress).copied().for_each(&mut forbid);
        let mut change = |id: u32, change: &dyn Fn(f32) -> f32| {
            let score = &mut scores[to_usize(id)];
            if *score > f32::NEG_INFINITY {
                // What is extreme must not make an infinity.
                *score = change(*score).clamp(f32::MIN, f32::MAX);
            }
        };
        if self.repetition_penalty != 1.0 {
            for &id in seen {
                // Always from the model's own logit, so a token that was seen twice is penalised once.
                change(id, &|_| penalised(logits[to_usize(id)], self.repetition_penalty));
            }
        }
        for &(id, bias) in &self.logit_bias {
            change(id, &|score| score + bias);
        }
    }

    fn ends_to_forbid(&self, seen: &[u32]) -> &[u32] {
        if seen.len() < self.min_len { &self.ends } else { &[] }
    }
}

/// Positive logits are divided by the penalty, others multiplied with it (Keskar et al. 2019, CTRL).
fn penalised(logit: f32, penalty: f32) -> f32 {
    if logit < 0.0 { logit * penalty } else { logit / penalty }
}

/// The tokens that would end a run of `n` tokens which is in `seen` already; none for 0.
fn repeating(seen: &[u32], n: usize) -> impl Iterator<Item = u32> {
    let n_last = n.checked_sub(1).filter(|n_last| *n_last <= seen.len());
    let last = n_last.map_or(&[][..], |n_last| &seen[seen.len() - n_last..]);
    // A window longer than all there is: none.
    let n = n_last.map_or(usize::MAX, |n_last| n_last + 1);
    seen.windows(n).filter_map(move |window| {
        let (next, before) = window.split_last()?;
        (before == last).then_some(*next)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_would_repeat() {
        let found = |seen: &[u32], n| repeating(seen, n).collect::<Vec<_>>();
        let seen = [1, 2, 3, 1, 2, 7, 1];
        assert_eq!(found(&seen, 0), [0; 0]);
        assert_eq!(found(&seen, 1), seen, "every token is a run of one");
        assert_eq!(found(&seen, 2), [2, 2]);
        assert_eq!(found(&[5, 1, 2, 9, 1, 2], 3), [9]);
        assert_eq!(found(&[1, 2, 3], 4), [0; 0]);
        assert_eq!(found(&[1, 2, 3], 5), [0; 0]);
        assert_eq!(found(&[], 1), [0; 0]);
        assert_eq!(found(&seen, usize::MAX), [0; 0]);
        // A run that overlaps itself.
        assert_eq!(found(&[4, 4, 4], 2), [4, 4]);
    }

    fn processed(change: impl FnOnce(&mut SamplingOptions), seen: &[u32]) -> Vec<f32> {
        let mut options = SamplingOptions::OFF;
        change(&mut options);
        let logits = [2.0, -2.0, 0.5, f32::MAX, f32::MIN];
        let mut scores = logits.to_vec();
        let processors = Processors::new(&options);
        processors.apply(&mut scores, &logits, seen);
        assert!(scores == logits || !processors.are_idle(seen));
        scores
    }

    #[test]
    fn penalty_and_bias_change_what_is_not_forbidden() {
        let penalised = processed(|options| options.repetition_penalty = 2.0, &[0, 1, 1, 3, 4]);
        assert_eq!(penalised, [1.0, -4.0, 0.5, f32::MAX / 2.0, f32::MIN]);
        let changed = processed(
            |options| {
                options.repetition_penalty = 2.0;
                options.logit_bias = vec![(1, 0.25), (2, 100.0), (3, f32::MAX), (0, -1.0)];
                options.suppress = vec![2];
            },
            &[0, 1, 2],
        );
        assert_eq!(changed, [0.0, -3.75, f32::NEG_INFINITY, f32::MAX, f32::MIN]);
        assert_eq!(processed(|_| {}, &[0, 1]), [2.0, -2.0, 0.5, f32::MAX, f32::MIN]);
    }

    #[test]
    fn ends_are_forbidden_until_the_text_is_long_enough() {
        let mut processors = Processors::new(&SamplingOptions::OFF);
        processors.forbid_until(vec![0, 2], 3);
        for (seen, expected) in [(&[1, 1][..], [f32::NEG_INFINITY, 0.0, f32::NEG_INFINITY]), (&[1, 1, 1], [0.0; 3])] {
            let mut scores = [0.0; 3];
            processors.apply(&mut scores, &[0.0; 3], seen);
            assert_eq!((scores, processors.are_idle(seen)), (expected, seen.len() == 3));
        }
    }
}
