//! How a file says that its positions are stretched.
//!
//! Invariant: reads metadata; the angles are made in `backend/rope`.

use super::config::{Hyperparameters, as_bad, bad};
use crate::error::{Result, quoted};
use std::ops::RangeInclusive;

/// How positions are stretched beyond the length the model was trained on.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum RopeScaling {
    None,
    /// Positions divided by `factor`.
    Linear {
        factor: f32,
    },
    Yarn(Yarn),
}

/// Slow rotations are stretched, fast ones are not, with a ramp between (Peng et al. 2023).
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Yarn {
    pub factor: f32,
    /// The context before it was stretched.
    pub original_context: usize,
    /// Turns within that context from which a pair is not stretched, and below which it is stretched in full.
    pub beta_fast: f32,
    pub beta_slow: f32,
    /// Multiplies the rotated values, beside what `factor` asks for.
    pub magnitude: f32,
}

const FACTOR: RangeInclusive<f32> = 0.0..=1e6;

impl RopeScaling {
    /// As llama.cpp reads it: no type means linear, and a factor of 0 or none at all means no scaling.
    pub(super) fn read(keys: &Hyperparameters, context_length: usize) -> Result<Self> {
        const TYPE: &str = "rope.scaling.type";
        let key = keys.key(TYPE);
        let kind = keys.metadata.string(&key).map_err(as_bad)?.unwrap_or("linear");
        if kind == "none" {
            return Ok(Self::None);
        }
        if !["linear", "yarn"].contains(&kind) {
            return Err(bad(format!(
                "`{key}` is {}, which is not supported; expected none, linear or yarn.",
                quoted(kind)
            )));
        }
        let factor = match keys.float("rope.scaling.factor", FACTOR)? {
            Some(factor) => Some(factor),
            // Its name in older files.
            None => keys.float("rope.scale_linear", FACTOR)?,
        };
        Ok(match factor {
            None | Some(0.0 | 1.0) => Self::None,
            Some(factor) if kind == "yarn" => Self::Yarn(Yarn::read(keys, factor, context_length)?),
            Some(factor) => Self::Linear { factor },
        })
    }
}

impl Yarn {
    fn read(keys: &Hyperparameters, factor: f32, context_length: usize) -> Result<Self> {
        const BETA: RangeInclusive<f32> = 1e-3..=1e6;
        const MAGNITUDE: RangeInclusive<f32> = 1e-3..=1e3;
        // The strength of the ramp; no file is known to change it.
        keys.float("rope.scaling.yarn_ext_factor", 1.0..=1.0)?;
        let magnitude = |suffix: &str| Ok(keys.float(suffix, MAGNITUDE)?.unwrap_or(1.0));
        Ok(Self {
            factor,
            original_context: keys
                .integer("rope.scaling.original_context_length", super::config::CONTEXT)?
                .unwrap_or(context_length),
            beta_fast: keys.float("rope.scaling.yarn_beta_fast", BETA)?.unwrap_or(32.0),
            beta_slow: keys.float("rope.scaling.yarn_beta_slow", BETA)?.unwrap_or(1.0),
            magnitude: magnitude("rope.scaling.attn_factor")? * magnitude("rope.scaling.yarn_attn_factor")?,
        })
    }
}
