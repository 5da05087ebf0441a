//! What a step may draw from: every token's probability, and which of them are kept.
//!
//! When only the top of the logits is known, so are only the likeliest tokens; what asks for others gets none, and what is kept
//! is still counted over the whole vocabulary.
//!
//! Invariant: filters only ever narrow what is kept; probabilities are those of the softmax until the end. What the top decides,
//! the whole vector would have decided the same.

use super::ranking::Ranking;
use super::softmax::{Softmax, Spread};
use super::to_usize;
use crate::logits::{Sums, Top};
use std::ops::Range;

/// The ranks kept so far. Every filter keeps a run of them: most from the top, typical-p from around the entropy.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Kept {
    pub start: usize,
    pub end: usize,
    /// Sum of their probabilities.
    pub mass: f64,
}

impl Kept {
    pub fn len(&self) -> usize {
        self.end - self.start
    }

    pub fn ranks(&self) -> Range<usize> {
        self.start..self.end
    }
}

pub(super) struct Distribution {
    /// Logits after the processors, by id. The ranking is by these: temperature changes no order.
    scores: Vec<f32>,
    /// All tokens, or those of the top. Scores mean nothing for others.
    ranking: Ranking,
    /// The highest score.
    max: f32,
    /// Tokens that are not suppressed: those of the first ranks.
    n_allowed: usize,
    /// Over all tokens, when only the top is ranked.
    sums: Option<Sums>,
    /// The softmax of the scores at temperature 1, once somebody has asked for it.
    at_1: Option<Softmax>,
    /// Whether sums over all tokens are made in f64.
    is_exact: bool,
    softmax: Softmax,
    /// The token that has all of the probability.
    greedy: Option<u32>,
    kept: Kept,
}

impl Distribution {
    pub fn new(vocab_size: usize) -> Distribution {
        Distribution {
            scores: vec![0.0; vocab_size],
            ranking: Ranking::new(vocab_size),
            max: 0.0,
            n_allowed: vocab_size,
            sums: None,
            at_1: None,
            is_exact: false,
            softmax: Softmax::default(),
            greedy: None,
            kept: Kept { start: 0, end: vocab_size, mass: 1.0 },
        }
    }

    /// Starts a step: takes over `logits` and ranks the tokens.
    pub fn set_logits(&mut self, logits: &[f32]) {
        self.scores.copy_from_slice(logits);
        self.max = self.ranking.rank_all(&self.scores);
        self.n_allowed = logits.len();
        (self.sums, self.at_1, self.is_exact) = (None, None, false);
    }

    /// Starts a step of which only the top is known.
    pub fn set_top(&mut self, top: &Top) {
        for &(id, logit) in &top.best {
            self.scores[to_usize(id)] = logit;
        }
        self.ranking.rank_top(top.best.iter().map(|&(id, logit)| (logit, id)));
        self.n_allowed = self.vocab_size();
        (self.sums, self.at_1, self.is_exact) = (Some(top.sums), None, false);
    }

    /// Lets `process` change the scores of all tokens, and ranks them again. A score of -∞ forbids its token.
    pub fn change_scores(&mut self, process: impl FnOnce(&mut [f32])) {
        process(&mut self.scores);
        self.max = self.ranking.rank_all(&self.scores);
        self.at_1 = None;
        self.n_allowed = self.scores.iter().filter(|&&score| score > f32::NEG_INFINITY).count();
    }

    /// From now on in this step sums over all tokens are exact, and decide everything. All tokens must be known.
    pub fn sum_exactly(&mut self) {
        (self.at_1, self.is_exact) = (None, true);
    }

    /// The softmax of the scores. `temperature` above 0, and 1 or what the sums were asked for; not all tokens forbidden.
    pub fn softmax_at(&mut self, temperature: f32) -> Softmax {
        if let Some(softmax) = self.at_1.filter(|_| temperature == 1.0) {
            return softmax;
        }
        let softmax = match &self.sums {
            None if self.is_exact => Softmax::exactly_of(&self.scores, self.max, temperature),
            None => Softmax::of(&self.scores, self.max, temperature),
            Some(sums) if temperature == 1.0 => Softmax::of_sums(sums),
            Some(sums) => Softmax::of_sums_at(sums, temperature),
        };
        if temperature == 1.0 {
            self.at_1 = Some(softmax);
        }
        softmax
    }

    /// All tokens that are not forbidden, with the probabilities of `softmax`.
    pub fn keep_all(&mut self, softmax: Softmax) {
        self.softmax = softmax;
        self.greedy = None;
        self.kept = Kept { start: 0, end: self.n_allowed, mass: softmax.mass() };
    }

    /// The same tokens, with the probabilities of another softmax of the same scores.
    pub fn set_softmax(&mut self, softmax: Softmax) -> Option<()> {
        self.softmax = softmax;
        if self.is_cut() {
            return self.set_kept(self.kept.ranks());
        }
        self.kept.mass = softmax.mass();
        Some(())
    }

    /// The limit of temperature 0: all of the probability on the best token, the lowest id of equals.
    pub fn set_greedy(&mut self) -> Option<()> {
        self.greedy = Some(self.id_at(0)?);
        self.kept = Kept { start: 0, end: 1, mass: 1.0 };
        Some(())
    }

    pub fn vocab_size(&self) -> usize {
        self.scores.len()
    }

    /// How many tokens are known, the likeliest ones.
    pub fn n_known(&self) -> usize {
        self.ranking.len()
    }

    pub fn n_allowed(&self) -> usize {
        self.n_allowed
    }

    pub fn kept(&self) -> Kept {
        self.kept
    }

    pub fn softmax(&self) -> Softmax {
        self.softmax
    }

    /// Whether a filter has cut anything.
    pub fn is_cut(&self) -> bool {
        self.kept.len() < self.n_allowed
    }

    /// The outcome of a comparison of probabilities that are `distance` apart: none when an error of the sums could turn it.
    pub fn decided(&self, outcome: bool, distance: f64) -> Option<bool> {
        let error = self.sums.map_or(Sums::F32_ERROR, |sums| sums.error);
        let is_in_doubt = !self.is_exact && distance.abs() < error;
        (!is_in_doubt).then_some(outcome)
    }

    /// How the probability spreads over the kept tokens. None while all are kept and only the top is known; once something is
    /// cut it is summed over what is left, and the sums over the vocabulary do not matter.
    pub fn spread(&mut self) -> Option<Spread> {
        if !self.is_cut() {
            return self.sums.is_none().then(|| self.softmax.spread());
        }
        let mut spread = Spread::default();
        for rank in self.kept.ranks() {
            spread.add(self.exponent_at(rank)?);
        }
        Some(spread)
    }

    /// Keeps the `len` best of the tokens still kept, at least one of them.
    pub fn keep(&mut self, len: usize) -> Option<()> {
        let len = len.clamp(1, self.kept.len());
        self.keep_ranks(self.kept.start..self.kept.start + len)
    }

    /// Keeps these ranks, not none, of those still kept.
    pub fn keep_ranks(&mut self, ranks: Range<usize>) -> Option<()> {
        if ranks == self.kept.ranks() { Some(()) } else { self.set_kept(ranks) }
    }

    fn set_kept(&mut self, ranks: Range<usize>) -> Option<()> {
        let mass = ranks.clone().map(|rank| self.p_at(rank).map(f64::from)).sum::<Option<f64>>()?;
        self.kept = Kept { start: ranks.start, end: ranks.end, mass };
        Some(())
    }

    /// The token at `rank`, 0 the likeliest; ids break ties.
    pub fn id_at(&mut self, rank: usize) -> Option<u32> {
        self.ranking.id_at(rank, &self.scores)
    }

    pub fn rank_of(&self, id: u32) -> Option<usize> {
        self.ranking.rank_of(self.score(id), id, &self.scores)
    }

    pub fn score_at(&mut self, rank: usize) -> Option<f32> {
        self.id_at(rank).map(|id| self.score(id))
    }

    /// x = (score - max) / temperature of the token at `rank`.
    pub fn exponent_at(&mut self, rank: usize) -> Option<f64> {
        self.score_at(rank).map(|score| self.softmax.exponent(score))
    }

    /// e^x of the token at `rank`.
    pub fn weight_at(&mut self, rank: usize) -> Option<f64> {
        self.score_at(rank).map(|score| self.softmax.weight(score))
    }

    /// Probability of the token at `rank`, whether kept or not.
    pub fn p_at(&mut self, rank: usize) -> Option<f32> {
        self.id_at(rank).map(|id| self.p(id))
    }

    /// Score of the known token `id`.
    pub fn score(&self, id: u32) -> f32 {
        self.scores[to_usize(id)]
    }

    /// Probability of the known token `id`, whether kept or not.
    pub fn p(&self, id: u32) -> f32 {
        match self.greedy {
            Some(best) => f32::from(u8::from(id == best)),
            None => self.softmax.p(self.score(id)),
        }
    }

    /// Probability that the draw gives the known token `id`, which is at `rank`: 0 when cut.
    pub fn p_final(&self, id: u32, rank: usize) -> f32 {
        if self.kept.ranks().contains(&rank) { (f64::from(self.p(id)) / self.kept.mass) as f32 } else { 0.0 }
    }
}
