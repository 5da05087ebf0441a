//! What a step may draw from: every token's probability, and how many of the likeliest are kept.
//!
//! When only the top of the logits is known, so are only the likeliest tokens; what asks for others gets none, and what is kept
//! is still counted over the whole vocabulary.
//!
//! Invariant: filters only ever narrow what is kept; the probabilities stay as the temperature made them until the end. What the
//! top decides, the whole vector would have decided the same.

use super::ranking::Ranking;
use super::softmax::{softmax, softmax_from_sums};
use super::to_usize;
use crate::backend::{Sums, Top};

/// Error that a backend's sums may have, as a share of them. WGSL grants an exponential 3 + 2|x| units in the last place, under
/// 1e-6 where the weight of a distribution lies. A comparison of probabilities nearer than this is left to the whole vector.
const SUMS_ERROR: f64 = 1e-6;

/// The tokens kept so far: the `len` best ones. Every filter of the chain keeps a run of ranks from the top.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Kept {
    pub len: usize,
    /// Sum of their probabilities after temperature.
    pub mass: f64,
}

pub(super) struct Distribution {
    /// Logits after penalties, by id. The ranking is by these: temperature changes no order.
    scores: Vec<f32>,
    /// After temperature, nothing filtered; by id.
    probs: Vec<f32>,
    /// All tokens, or those of the top. Scores and probabilities mean nothing for others.
    ranking: Ranking,
    /// Over all tokens, when only the top is ranked.
    sums: Option<Sums>,
    kept: Kept,
}

impl Distribution {
    pub fn new(vocab_size: usize) -> Distribution {
        Distribution {
            scores: vec![0.0; vocab_size],
            probs: vec![0.0; vocab_size],
            ranking: Ranking::new(vocab_size),
            sums: None,
            kept: Kept { len: vocab_size, mass: 1.0 },
        }
    }

    /// Starts a step: takes over `logits`, lets `process` change them, and ranks the tokens.
    pub fn set_scores(&mut self, logits: &[f32], process: impl FnOnce(&mut [f32])) {
        self.scores.copy_from_slice(logits);
        process(&mut self.scores);
        self.ranking.reset(self.scores.iter().copied().zip(0..));
        self.sums = None;
    }

    /// Starts a step of which only the top is known, its scores the logits themselves.
    pub fn set_top(&mut self, top: &Top) {
        for &(id, logit) in &top.best {
            self.scores[to_usize(id)] = logit;
        }
        self.ranking.reset(top.best.iter().map(|&(id, logit)| (logit, id)));
        self.sums = Some(top.sums);
    }

    /// All tokens, with softmax(scores / `temperature`). `temperature` above 0, and the one that the sums were asked for.
    pub fn set_temperature(&mut self, temperature: f32) {
        let mass = match &self.sums {
            None => softmax(&self.scores, temperature, &mut self.probs),
            Some(sums) => {
                for id in self.ranking.ids() {
                    self.probs[to_usize(id)] = softmax_from_sums(self.scores[to_usize(id)], temperature, sums);
                }
                1.0
            }
        };
        self.kept = Kept { len: self.vocab_size(), mass };
    }

    /// The limit of temperature 0: all of the probability on the best token, the lowest id of equals.
    pub fn set_greedy(&mut self) -> Option<()> {
        let best = self.id_at(0)?;
        self.probs.fill(0.0);
        self.probs[to_usize(best)] = 1.0;
        self.kept = Kept { len: 1, mass: 1.0 };
        Some(())
    }

    pub fn vocab_size(&self) -> usize {
        self.scores.len()
    }

    /// How many tokens are known, the likeliest ones.
    pub fn n_known(&self) -> usize {
        self.ranking.len()
    }

    pub fn kept(&self) -> Kept {
        self.kept
    }

    /// The outcome of a comparison of probabilities that are `distance` apart: none when an error of the sums could turn it.
    pub fn decided(&self, outcome: bool, distance: f64) -> Option<bool> {
        let is_in_doubt = self.sums.is_some() && distance.abs() < SUMS_ERROR;
        (!is_in_doubt).then_some(outcome)
    }

    /// Keeps the `len` best of the tokens still kept, at least one of them.
    pub fn keep(&mut self, len: usize) -> Option<()> {
        let len = len.max(1);
        if len < self.kept.len {
            let mass = (0..len).map(|rank| self.p_at(rank).map(f64::from)).sum::<Option<f64>>()?;
            self.kept = Kept { len, mass };
        }
        Some(())
    }

    /// The token at `rank`, 0 the likeliest; ids break ties.
    pub fn id_at(&mut self, rank: usize) -> Option<u32> {
        self.ranking.id_at(rank)
    }

    pub fn rank_of(&self, id: u32) -> Option<usize> {
        self.ranking.rank_of(self.score(id), id)
    }

    pub fn score_at(&mut self, rank: usize) -> Option<f32> {
        self.id_at(rank).map(|id| self.score(id))
    }

    /// Probability after temperature of the token at `rank`, whether kept or not.
    pub fn p_at(&mut self, rank: usize) -> Option<f32> {
        self.id_at(rank).map(|id| self.p(id))
    }

    /// Score of the known token `id`.
    pub fn score(&self, id: u32) -> f32 {
        self.scores[to_usize(id)]
    }

    /// Probability after temperature of the known token `id`, whether kept or not.
    pub fn p(&self, id: u32) -> f32 {
        self.probs[to_usize(id)]
    }

    /// Probability that the draw gives the known token `id`, which is at `rank`: 0 when cut.
    pub fn p_final(&self, id: u32, rank: usize) -> f32 {
        if rank < self.kept.len { (f64::from(self.p(id)) / self.kept.mass) as f32 } else { 0.0 }
    }
}
