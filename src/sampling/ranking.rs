//! Tokens in descending order of score, sorted only as far as somebody looks: all tokens, or those of the top.
//!
//! Invariant: what it returns is exactly what a full sort would; how far it has sorted cannot be observed.

/// Ranks sorted at the first look: covers the candidates of a step and nearly every nucleus.
const FIRST_BLOCK: usize = 128;
/// Each further look sorts so many times what was sorted before.
const GROWTH: usize = 4;

pub(super) struct Ranking {
    /// One per token that is ranked. The high half descends with the score, the low half is the id: ascending keys are descending scores,
    /// lower ids first among equals. Sorted up to `n_sorted`; the rest all sort after that.
    keys: Vec<u64>,
    n_sorted: usize,
}

impl Ranking {
    pub fn new(vocab_size: usize) -> Ranking {
        Ranking { keys: Vec::with_capacity(vocab_size), n_sorted: 0 }
    }

    /// Starts over with these tokens: each its score, not NaN, and its id.
    pub fn reset(&mut self, tokens: impl Iterator<Item = (f32, u32)>) {
        self.keys.clear();
        self.keys.extend(tokens.map(|(score, id)| sort_key(score, id)));
        self.n_sorted = 0;
    }

    /// How many tokens are ranked.
    pub fn len(&self) -> usize {
        self.keys.len()
    }

    /// All of them, in no order.
    pub fn ids(&self) -> impl Iterator<Item = u32> {
        // The low half of the key.
        self.keys.iter().map(|&key| key as u32)
    }

    /// The token at this rank, 0 the highest score; none past the last.
    pub fn id_at(&mut self, rank: usize) -> Option<u32> {
        if rank >= self.keys.len() {
            return None;
        }
        while rank >= self.n_sorted {
            self.sort_more();
        }
        Some(self.keys[rank] as u32)
    }

    /// The rank of the token `id`, whose score is `score`; none when it is not ranked.
    pub fn rank_of(&self, score: f32, id: u32) -> Option<usize> {
        let key = sort_key(score, id);
        self.keys.contains(&key).then(|| self.keys.iter().filter(|&&other| other < key).count())
    }

    fn sort_more(&mut self) {
        let rest = &mut self.keys[self.n_sorted..];
        let n_more = (self.n_sorted * GROWTH).max(FIRST_BLOCK);
        let block = if n_more < rest.len() { rest.select_nth_unstable(n_more).0 } else { rest };
        block.sort_unstable();
        self.n_sorted += block.len();
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

    #[test]
    fn equals_a_full_sort() {
        // Many ties, both zeros, both signs, the extremes.
        let mut scores: Vec<f32> = (0..5000u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 22) as f32 - 512.0).collect();
        scores[17] = -0.0;
        scores[40] = f32::MAX;
        scores[41] = f32::MIN;
        scores[42] = f32::MIN_POSITIVE;
        let mut expected: Vec<u32> = (0..5000).collect();
        expected.sort_by(|&a, &b| scores[b as usize].partial_cmp(&scores[a as usize]).unwrap().then(a.cmp(&b)));

        let mut ranking = Ranking::new(scores.len());
        // Twice, so that what one reset leaves behind cannot matter to the next; in leaps and one by one.
        for ranks in [vec![300, 0, 4999, 128, 127], (0..5000).collect()] {
            ranking.reset(scores.iter().copied().zip(0..));
            for rank in ranks {
                let id = expected[rank];
                assert_eq!(ranking.id_at(rank), Some(id), "rank {rank}");
                assert_eq!(ranking.rank_of(scores[id as usize], id), Some(rank));
            }
            assert_eq!(ranking.id_at(5000), None);
        }
    }

    #[test]
    fn knows_only_the_tokens_it_was_given() {
        let mut ranking = Ranking::new(100);
        ranking.reset([(1.0, 7), (3.0, 90), (1.0, 2)].into_iter());
        assert_eq!([0, 1, 2, 3].map(|rank| ranking.id_at(rank)), [Some(90), Some(2), Some(7), None]);
        assert_eq!(
            [(1.0, 7), (1.0, 3), (2.0, 90)].map(|(score, id)| ranking.rank_of(score, id)),
            [Some(2), None, None]
        );
        ranking.reset([].into_iter());
        assert_eq!((ranking.len(), ranking.id_at(0)), (0, None));
    }
}
