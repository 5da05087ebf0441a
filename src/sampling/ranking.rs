//! Tokens in descending order of score, sorted only as far as somebody looks.
//!
//! Invariant: what it returns is exactly what a full sort would; how far it has sorted cannot be observed.

/// Ranks sorted at the first look: covers the candidates of a step and nearly every nucleus.
const FIRST_BLOCK: usize = 128;
/// Each further look sorts so many times what was sorted before.
const GROWTH: usize = 4;

pub(super) struct Ranking {
    /// One per token. The high half descends with the score, the low half is the id: ascending keys are descending scores,
    /// lower ids first among equals. Sorted up to `n_sorted`; the rest all sort after that.
    keys: Vec<u64>,
    n_sorted: usize,
}

impl Ranking {
    pub fn new(vocab_size: usize) -> Ranking {
        Ranking { keys: vec![0; vocab_size], n_sorted: 0 }
    }

    /// Starts over with these scores, one per token, none of them NaN.
    pub fn reset(&mut self, scores: &[f32]) {
        for ((key, &score), id) in self.keys.iter_mut().zip(scores).zip(0u32..) {
            *key = sort_key(score, id);
        }
        self.n_sorted = 0;
    }

    /// The token at this rank, 0 the highest score.
    pub fn id_at(&mut self, rank: usize) -> u32 {
        while rank >= self.n_sorted {
            self.sort_more();
        }
        // The low half of the key.
        self.keys[rank] as u32
    }

    /// The rank of the token `id`, whose score is `score`.
    pub fn rank_of(&self, score: f32, id: u32) -> usize {
        let key = sort_key(score, id);
        self.keys.iter().filter(|&&other| other < key).count()
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
            ranking.reset(&scores);
            for rank in ranks {
                let id = ranking.id_at(rank);
                assert_eq!(id, expected[rank], "rank {rank}");
                assert_eq!(ranking.rank_of(scores[id as usize], id), rank);
            }
        }
    }
}
