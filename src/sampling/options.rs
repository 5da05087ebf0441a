//! Which sampling options are valid.
//!
//! Invariant: refuses, never repairs.

use crate::error::{Error, Result};
use crate::protocol::SamplingOptions;

/// `bad-option`, naming the first option that is out of its range as the JavaScript API spells it.
pub(super) fn validate(options: &SamplingOptions) -> Result<()> {
    let SamplingOptions { repetition_penalty, temperature, top_k: _, top_p, min_p, seed: _ } = *options;
    check("temperature", temperature, temperature.is_finite() && temperature >= 0.0, "a finite number, 0 or more")?;
    check("topP", top_p, (0.0..=1.0).contains(&top_p), "a number from 0 to 1")?;
    check("minP", min_p, (0.0..=1.0).contains(&min_p), "a number from 0 to 1")?;
    let positive = repetition_penalty.is_finite() && repetition_penalty > 0.0;
    check("repetitionPenalty", repetition_penalty, positive, "a finite number above 0")
}

fn check(name: &str, found: f32, valid: bool, expected: &str) -> Result<()> {
    if valid { Ok(()) } else { Err(Error::BadOption(format!("`{name}` is {found}; expected {expected}."))) }
}
