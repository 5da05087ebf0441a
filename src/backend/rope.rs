//! Rotary position embedding (Su et al. 2021): the angles, which every backend takes from here.
//!
//! Invariant: knows positions, not tensors.

use crate::model::{ModelConfig, RopeScaling};

/// The rotations of some neighbouring positions, on pairs (2i, 2i + 1), the order in which GGUF stores llama's Q and K.
pub struct Rope {
    /// Radians a position, one for each pair.
    frequencies: Vec<f32>,
    /// `[position][pair]`: cosine and sine.
    turns: Vec<[f32; 2]>,
}

impl Rope {
    /// `divisors`: `rope_freqs.weight`, one for each pair, if the file has it. Room for `max_n` positions at a time.
    pub fn new(config: &ModelConfig, divisors: Option<&[f32]>, max_n: usize) -> Self {
        let stretch = match config.rope_scaling {
            RopeScaling::None => 1.0,
            RopeScaling::Linear { factor } => factor,
        };
        let frequency = |pair: usize| {
            let turn = f64::from(config.rope_base).powf(-(2.0 * pair as f64) / config.rope_dim as f64) as f32;
            turn / divisors.map_or(1.0, |divisors| divisors[pair]) / stretch
        };
        let n_pairs = config.rope_dim / 2;
        Self { frequencies: (0..n_pairs).map(frequency).collect(), turns: Vec::with_capacity(n_pairs * max_n) }
    }

    /// Goes to positions `first..first + n`.
    pub fn seek(&mut self, first: usize, n: usize) {
        self.turns.clear();
        for position in first..first + n {
            self.turns.extend(self.frequencies.iter().map(|frequency| {
                let (sin, cos) = f64::from(position as f32 * frequency).sin_cos();
                [cos as f32, sin as f32]
            }));
        }
    }

    /// All of them, `[position][pair]`: cosine and sine.
    pub fn turns(&self) -> &[[f32; 2]] {
        &self.turns
    }

    /// Those of position `first + i`.
    pub fn turns_at(&self, i: usize) -> &[[f32; 2]] {
        let n_pairs = self.frequencies.len();
        &self.turns[i * n_pairs..][..n_pairs]
    }
}
