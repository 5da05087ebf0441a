//! Tokens in descending order of score, found and sorted only as far as somebody looks: all tokens, or those of the top.
//!
//! Among all tokens the first ones are found by the maxima of blocks: when n blocks have a maximum of at least t, then n tokens
//! or more have a score of at least t, and no other block need be looked at.
//!
//! Invariant: what it returns is exactly what a full sort would; how far it has sorted cannot be observed.

use super::softmax::max;

/// Scores that have a maximum together.
const BLOCK: usize = 64;
/// Ranks sorted at the first look: covers the candidates of a step and nearly every nucleus.
const FIRST_LOOK: usize = 128;
/// Each further look sorts so many times what was sorted before.
const GROWTH: usize = 4;

pub(super) struct Ranking {
    /// How many tokens are ranked.
    len: usize,
    /// One per token found so far. The high half descends with the score, the low half is the id: ascending keys are descending
    /// scores, lower ids first among equals. Sorted up to `n_sorted`; the rest all sort after that.
    keys: Vec<u64>,
    n_sorted: usize,
    /// Of each block of scores; empty when only the top is ranked, which is found from the start.
    maxima: Vec<f32>,
    /// Every token with this score or a higher one has been found.
    found_down_to: f32,
    /// Room to order the maxima in.
    scratch: Vec<f32>,
}

impl Ranking {
    pub fn new(vocab_size: usize) -> Ranking {
        let n_blocks = vocab_size.div_ceil(BLOCK);
        Ranking {
            len: 0,
            keys: Vec::with_capacity(vocab_size),
            n_sorted: 0,
            maxima: Vec::with_capacity(n_blocks),
            found_down_to: f32::NEG_INFINITY,
            scratch: Vec::with_capacity(n_blocks),
        }
    }

    /// Starts over with all tokens, none with a score of NaN or +∞. Returns the highest score.
    pub fn rank_all(&mut self, scores: &[f32]) -> f32 {
        self.keys.clear();
        self.n_sorted = 0;
        self.len = scores.len();
        self.maxima.clear();
        self.maxima.extend(scores.chunks(BLOCK).map(max));
        self.found_down_to = f32::INFINITY;
        max(&self.maxima)
    }

    /// Starts over with these tokens: each its score, not NaN, and its id.
    pub fn rank_top(&mut self, tokens: impl Iterator<Item = (f32, u32)>) {
        self.keys.clear();
        self.keys.extend(tokens.map(|(score, id)| sort_key(score, id)));
        self.n_sorted = 0;
        self.len = self.keys.len();
        self.maxima.clear();
        self.found_down_to = f32::NEG_INFINITY;
    }

    /// How many tokens are ranked.
    pub fn len(&self) -> usize {
        self.len
    }

    /// The token at this rank, 0 the highest score; none past the last. `scores` by id, as they were when it started over.
    pub fn id_at(&mut self, rank: usize, scores: &[f32]) -> Option<u32> {
        if rank >= self.len {
            return None;
        }
        while rank >= self.n_sorted {
            self.sort_more(scores);
        }
        // The low half of the key.
        Some(self.keys[rank] as u32)
    }

    /// The rank of the token `id`, whose score is `score`; none when it is not ranked.
    pub fn rank_of(&self, score: f32, id: u32, scores: &[f32]) -> Option<usize> {
        let key = sort_key(score, id);
        if !self.maxima.is_empty() {
            let is_before = |(&other, other_id): (&f32, u32)| sort_key(other, other_id) < key;
            return Some(scores.iter().zip(0..).filter(|&other| is_before(other)).count());
        }
        self.keys.contains(&key).then(|| self.keys.iter().filter(|&&other| other < key).count())
    }

    fn sort_more(&mut self, scores: &[f32]) {
        let n_more = (self.n_sorted * GROWTH).max(FIRST_LOOK);
        if self.n_sorted == self.keys.len() {
            self.find(self.n_sorted + n_more, scores);
        }
        let rest = &mut self.keys[self.n_sorted..];
        let block = if n_more < rest.len() { rest.select_nth_unstable(n_more).0 } else { rest };
        block.sort_unstable();
        self.n_sorted += block.len();
    }

    /// Finds more tokens, so that there are more than `n` in all, or all there are.
    fn find(&mut self, n: usize, scores: &[f32]) {
        let lowest = if n < self.maxima.len() {
            self.scratch.clone_from(&self.maxima);
            *self.scratch.select_nth_unstable_by(n, |a, b| b.total_cmp(a)).1
        } else {
            f32::NEG_INFINITY
        };
        let wanted = |score: f32| score >= lowest && score < self.found_down_to;
        for ((block, &max), start) in scores.chunks(BLOCK).zip(&self.maxima).zip((0..).step_by(BLOCK)) {
            if max >= lowest {
                let found = block.iter().copied().zip(start..).filter(|&(score, _)| wanted(score));
                self.keys.extend(found.map(|(score, id)| sort_key(score, id)));
            }
        }
        self.found_down_to = lowest;
    }
}

fn sort_key(score: f32, id: u32) -> u64 {
    // `+ 0.0` turns -0 into 0, its equal.
    let bits = (score + 0.0).to_bits();
    // Negative floats descend as their bits ascend; positive ones do once all but the sign is inverted.
    let descending = if bits >> 31 == 1 { bits } else { !bits & 0x7fff_ffff };
    u64::from(descending) << 32 | u64::from(id)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn assert_equals_a_full_sort(scores: &[f32]) {
        let n = scores.len();
        let mut expected: Vec<u32> = (0..n as u32).collect();
        expected.sort_by(|&a, &b| scores[b as usize].partial_cmp(&scores[a as usize]).unwrap().then(a.cmp(&b)));
        let mut ranking = Ranking::new(n);
        // Twice, so that what one start leaves behind cannot matter to the next; in leaps and one by one.
        for ranks in [vec![300, 0, n - 1, 128, 127, 1000], (0..n).collect()] {
            let highest = ranking.rank_all(scores);
            assert_eq!(highest, scores[expected[0] as usize]);
            for rank in ranks.into_iter().filter(|rank| *rank < n) {
                let id = expected[rank];
                assert_eq!(ranking.id_at(rank, scores), Some(id), "rank {rank} of {n}");
                if rank % 97 == 0 {
                    assert_eq!(ranking.rank_of(scores[id as usize], id, scores), Some(rank));
                }
            }
            assert_eq!(ranking.id_at(n, scores), None);
        }
    }

    #[test]
    fn equals_a_full_sort() {
        let hash = |i: u32| i.wrapping_mul(2_654_435_761);
        for n in [1, 63, 64, 65, 5000, 20_011] {
            // Many ties, both zeros, both signs, the extremes, what is suppressed.
            let mut scores: Vec<f32> = (0..n).map(|i| (hash(i) >> 22) as f32 - 512.0).collect();
            for (id, score) in [
                (17, -0.0),
                (40, f32::MAX),
                (41, f32::MIN),
                (42, f32::MIN_POSITIVE),
                (43, f32::NEG_INFINITY),
                (12, f32::NEG_INFINITY),
            ] {
                if let Some(at) = scores.get_mut(id) {
                    *at = score;
                }
            }
            assert_equals_a_full_sort(&scores);
            assert_equals_a_full_sort(&(0..n).map(|i| hash(i) as f32).collect::<Vec<_>>());
            assert_equals_a_full_sort(&vec![1.5; n as usize]);
            // All of the best in one block.
            assert_equals_a_full_sort(&(0..n).map(|i| -(i as f32)).collect::<Vec<_>>());
            assert_equals_a_full_sort(&(0..n).map(|i| [f32::NEG_INFINITY, 0.0][(i == 0) as usize]).collect::<Vec<_>>());
        }
    }

    #[test]
    fn knows_only_the_tokens_it_was_given() {
        let mut ranking = Ranking::new(100);
        ranking.rank_top([(1.0, 7), (3.0, 90), (1.0, 2)].into_iter());
        assert_eq!([0, 1, 2, 3].map(|rank| ranking.id_at(rank, &[])), [Some(90), Some(2), Some(7), None]);
        assert_eq!(
            [(1.0, 7), (1.0, 3), (2.0, 90)].map(|(score, id)| ranking.rank_of(score, id, &[])),
            [Some(2), None, None]
        );
        ranking.rank_top([].into_iter());
        assert_eq!((ranking.len(), ranking.id_at(0, &[])), (0, None));
    }
}
