//! The draw: a seeded stream of uniform numbers, and the token each of them selects.
//!
//! Invariant: one number per step; nothing but the seed decides the stream.

use super::distribution::Distribution;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

/// ChaCha with 8 rounds, its key spread from the 64-bit seed by `SeedableRng::seed_from_u64` (PCG32), block counter and
/// stream 0. Each u is the upper 53 bits of the next little-endian 64-bit word, times 2^-53: uniform in [0, 1).
pub(super) struct Draws {
    rng: ChaCha8Rng,
    u: f64,
}

impl Draws {
    pub fn new(seed: u64) -> Draws {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        Draws { u: uniform(&mut rng), rng }
    }

    /// The number of this step: the same until [`advance`](Self::advance).
    pub fn u(&self) -> f64 {
        self.u
    }

    pub fn advance(&mut self) {
        self.u = uniform(&mut self.rng);
    }
}

fn uniform(rng: &mut ChaCha8Rng) -> f64 {
    const TWO_POW_MINUS_53: f64 = 1.0 / (1u64 << 53) as f64;
    (rng.next_u64() >> 11) as f64 * TWO_POW_MINUS_53
}

/// The draws of a run with this seed, from its first step on.
pub fn draws(seed: u64) -> impl Iterator<Item = f64> {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    std::iter::repeat_with(move || uniform(&mut rng))
}

/// The first kept token, from the likeliest down, at which the running sum of probabilities exceeds `u`; and its rank.
pub(super) fn invert_cdf(distribution: &mut Distribution, u: f64) -> Option<(u32, usize)> {
    let kept = distribution.kept();
    // Instead of dividing every probability by the mass.
    let target = u * kept.mass;
    let mut cumulative = 0.0;
    let mut drawn = (distribution.id_at(kept.start)?, kept.start);
    for rank in kept.ranks() {
        // Before the token is looked at: the one drawn may be the last that is known.
        if rank > kept.start && distribution.decided(cumulative > target, cumulative - target)? {
            break;
        }
        let id = distribution.id_at(rank)?;
        let p = distribution.p(id);
        // Only zeros follow a zero: when the sum ends a rounding error below the mass, the last token that can be drawn is it.
        if p == 0.0 {
            break;
        }
        cumulative += f64::from(p);
        drawn = (id, rank);
    }
    Some(drawn)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Computed with a ChaCha8 and PCG32 written independently (Python), so the documented generator is the one that runs.
    #[test]
    fn stream_is_the_documented_one() {
        let golden = [
            (0, [0.7090754154265618, 0.46592172228961015, 0.6991432426747317, 0.0601711656341718]),
            (42, [0.6818961923066714, 0.950275407672484, 0.4275164028565197, 0.6273605211973403]),
            (u64::MAX, [0.6840841488189228, 0.4282359489222861, 0.3807887518836143, 0.43286335295990463]),
        ];
        for (seed, expected) in golden {
            let mut draws = Draws::new(seed);
            let found = expected.map(|_| {
                let u = draws.u();
                draws.advance();
                u
            });
            assert_eq!(found, expected, "seed {seed}");
        }
    }
}
