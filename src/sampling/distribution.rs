//! What a step may draw from: every token's probability, and how many of the likeliest are kept.
//!
//! Invariant: filters only ever narrow what is kept; the probabilities stay as the temperature made them until the end.

use super::ranking::Ranking;
use super::softmax::softmax;
use super::to_usize;

/// The tokens kept so far: the `len` best ones. Every filter of the chain keeps a run of ranks from the top.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Kept {
    pub len: usize,
    /// Sum of their probabilities after temperature.
    pub mass: f64,
}

pub(super) struct Distribution {
    /// Logits after penalties, one per token. The ranking is by these: temperature changes no order.
    scores: Vec<f32>,
    /// After temperature, nothing filtered; one per token.
    probs: Vec<f32>,
    ranking: Ranking,
    kept: Kept,
}

impl Distribution {
    pub fn new(vocab_size: usize) -> Distribution {
        Distribution {
            scores: vec![0.0; vocab_size],
            probs: vec![0.0; vocab_size],
            ranking: Ranking::new(vocab_size),
            kept: Kept { len: vocab_size, mass: 1.0 },
        }
    }

    /// Starts a step: takes over `logits`, lets `process` change them, and ranks the tokens.
    pub fn set_scores(&mut self, logits: &[f32], process: impl FnOnce(&mut [f32])) {
        self.scores.copy_from_slice(logits);
        process(&mut self.scores);
        self.ranking.reset(&self.scores);
    }

    /// All tokens, with softmax(scores / `temperature`). `temperature` above 0.
    pub fn set_temperature(&mut self, temperature: f32) {
        let mass = softmax(&self.scores, temperature, &mut self.probs);
        self.kept = Kept { len: self.vocab_size(), mass };
    }

    /// The limit of temperature 0: all of the probability on the best token, the lowest id of equals.
    pub fn set_greedy(&mut self) {
        let best = self.id_at(0);
        self.probs.fill(0.0);
        self.probs[to_usize(best)] = 1.0;
        self.kept = Kept { len: 1, mass: 1.0 };
    }

    pub fn vocab_size(&self) -> usize {
        self.scores.len()
    }

    pub fn kept(&self) -> Kept {
        self.kept
    }

    /// Keeps the `len` best of the tokens still kept, at least one of them.
    pub fn keep(&mut self, len: usize) {
        let len = len.max(1);
        if len < self.kept.len {
            let mass = (0..len).map(|rank| f64::from(self.p_at(rank))).sum();
            self.kept = Kept { len, mass };
        }
    }

    /// The token at `rank`, 0 the likeliest; ids break ties.
    pub fn id_at(&mut self, rank: usize) -> u32 {
        self.ranking.id_at(rank)
    }

    pub fn rank_of(&self, id: u32) -> usize {
        self.ranking.rank_of(self.scores[to_usize(id)], id)
    }

    pub fn score_at(&mut self, rank: usize) -> f32 {
        let id = self.id_at(rank);
        self.scores[to_usize(id)]
    }

    /// Probability after temperature of the token at `rank`, whether kept or not.
    pub fn p_at(&mut self, rank: usize) -> f32 {
        let id = self.id_at(rank);
        self.probs[to_usize(id)]
    }

    /// Probability after temperature of the token `id`, whether kept or not.
    pub fn p(&self, id: u32) -> f32 {
        self.probs[to_usize(id)]
    }

    /// Probability that the draw gives the token `id`, which is at `rank`: 0 when cut.
    pub fn p_final(&self, id: u32, rank: usize) -> f32 {
        if rank < self.kept.len { (f64::from(self.p(id)) / self.kept.mass) as f32 } else { 0.0 }
    }
}
