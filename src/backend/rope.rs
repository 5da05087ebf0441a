//! Rotary position embedding (Su et al. 2021): the angles, which every backend takes from here.
//!
//! Invariant: knows positions, not tensors.

use crate::model::{Plan, RopeScaling, Rotation, RotationId, TensorId, Yarn};
use std::f64::consts::TAU;

/// The rotations of a plan at some neighbouring positions. Which two values of a head are pair i is the family's pairing.
pub struct Rope {
    n_pairs: usize,
    /// `[rotation][pair]`
    pairs: Vec<Pair>,
    /// `[position][rotation][pair]`: cosine and sine.
    turns: Vec<[f32; 2]>,
}

/// How a pair turns.
struct Pair {
    /// Radians a position.
    frequency: f32,
    /// By how much it grows as it turns.
    magnitude: f32,
}

impl Rope {
    /// `divisors` gives the values of a rotation's divisors, one for each pair. Room for `max_n` positions at a time.
    pub fn new(plan: &Plan, divisors: impl Fn(TensorId) -> Vec<f32>, max_n: usize) -> Self {
        let rope_dim = plan.config.rope_dim;
        let n_pairs = rope_dim / 2;
        let mut pairs = Vec::with_capacity(plan.rotations.len() * n_pairs);
        for rotation in &plan.rotations {
            let divisors = rotation.divisors.map(&divisors);
            pairs.extend((0..n_pairs).map(|pair| {
                let divisor = divisors.as_ref().map_or(1.0, |divisors| divisors[pair]);
                Pair::new(rotation, pair, rope_dim, divisor)
            }));
        }
        let turns = Vec::with_capacity(pairs.len() * max_n);
        Self { n_pairs, pairs, turns }
    }

    /// Goes to positions `first..first + n`.
    pub fn seek(&mut self, first: usize, n: usize) {
        self.turns.clear();
        for position in first..first + n {
            self.turns.extend(self.pairs.iter().map(|Pair { frequency, magnitude }| {
                let (sin, cos) = f64::from(position as f32 * frequency).sin_cos();
                [cos as f32 * magnitude, sin as f32 * magnitude]
            }));
        }
    }

    /// All of them, `[position][rotation][pair]`: cosine and sine.
    pub fn turns(&self) -> &[[f32; 2]] {
        &self.turns
    }

    /// Those of position `first + i`.
    pub fn turns_at(&self, i: usize, rotation: RotationId) -> &[[f32; 2]] {
        &self.turns[i * self.pairs.len() + rotation * self.n_pairs..][..self.n_pairs]
    }
}

impl Pair {
    fn new(rotation: &Rotation, pair: usize, rope_dim: usize, divisor: f32) -> Self {
        let turn = f64::from(rotation.base).powf(-(2.0 * pair as f64) / rope_dim as f64) as f32;
        let frequency = turn / divisor;
        match rotation.scaling {
            RopeScaling::None => Self { frequency, magnitude: 1.0 },
            RopeScaling::Linear { factor } => Self { frequency: frequency / factor, magnitude: 1.0 },
            RopeScaling::Yarn(yarn) => {
                let stretched = stretched_share(yarn, rotation.base, pair, rope_dim);
                Self {
                    frequency: frequency / yarn.factor * stretched + frequency * (1.0 - stretched),
                    magnitude: yarn.magnitude * (1.0 + 0.1 * yarn.factor.ln()),
                }
            }
        }
    }
}

/// By how much a pair is stretched: not at all, in full, or on the ramp between (YaRN, equations 17 and 18 in the code of its authors'
/// `find_correction_range`).
fn stretched_share(yarn: Yarn, base: f32, pair: usize, rope_dim: usize) -> f32 {
    // The pair that makes so many turns within the original context.
    let pair_of = |turns: f32| {
        rope_dim as f64 * (yarn.original_context as f64 / (f64::from(turns) * TAU)).ln() / (2.0 * f64::from(base).ln())
    };
    let low = pair_of(yarn.beta_fast).floor().max(0.0);
    let high = pair_of(yarn.beta_slow).ceil().min(rope_dim as f64 - 1.0);
    ((pair as f64 - low) / (high - low).max(0.001)).clamp(0.0, 1.0) as f32
}
