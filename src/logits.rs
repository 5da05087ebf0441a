//! What a backend says of the next token: every logit, or the top of the distribution with sums over the rest.
//!
//! Invariant: `Top` holds exactly the tokens that a full sort would put first, and sums over the whole vocabulary, so a reader
//! that looks no further than its end sees what the whole vector would have shown, up to the rounding of the sums.

use serde::{Deserialize, Serialize};

/// How much of the logits somebody needs.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Wanted {
    /// The whole vector.
    All,
    /// The likeliest tokens, and sums over all: those at this temperature too (above 0).
    Top { temperature: f32 },
}

/// Logits of one position.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Logits {
    /// One per vocabulary entry; empty when only `top` is known.
    pub all: Vec<f32>,
    /// Means nothing while `all` is there.
    pub top: Top,
}

/// The likeliest tokens, and what is known of all.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Top {
    /// Id and logit, in no order. Ties with the last one are all in or all out. May be empty, when thousands tie.
    pub best: Vec<(u32, f32)>,
    pub sums: Sums,
}

/// Sums over the whole vocabulary, with x = logit - max.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Sums {
    pub max: f32,
    /// Σ e^x
    pub weight: f64,
    /// Σ x e^x
    pub weighted_x: f64,
    /// Σ e^(x / temperature), at the temperature that was asked for.
    pub weight_at_temperature: f64,
    /// Error that each sum may have, as a share of it. Comparisons that it could turn are left undecided.
    pub error: f64,
}

impl Sums {
    /// The error of sums in f32. WGSL grants an exponential 3 + 2|x| units in the last place, under 1e-6 where the weight of a
    /// distribution lies; our own quick sums are five times nearer.
    pub const F32_ERROR: f64 = 1e-6;
}
