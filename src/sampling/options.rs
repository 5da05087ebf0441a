//! Which sampling options are valid.
//!
//! Invariant: refuses, never repairs.

use crate::error::{Error, Result};
use crate::protocol::SamplingOptions;

/// `bad-option`, naming the first option that is out of its range as the JavaScript API spells it; `bad-token` for an id past
/// the vocabulary.
pub(super) fn validate(options: &SamplingOptions, vocab_size: usize) -> Result<()> {
    let SamplingOptions { repetition_penalty, temperature, top_p, min_p, typical_p, .. } = *options;
    let positive = repetition_penalty.is_finite() && repetition_penalty > 0.0;
    check("repetitionPenalty", repetition_penalty, positive, "a finite number above 0")?;
    check("temperature", temperature, temperature.is_finite() && temperature >= 0.0, "a finite number, 0 or more")?;
    check("topP", top_p, (0.0..=1.0).contains(&top_p), "a number from 0 to 1")?;
    check("minP", min_p, (0.0..=1.0).contains(&min_p), "a number from 0 to 1")?;
    check("typicalP", typical_p, typical_p > 0.0 && typical_p <= 1.0, "a number above 0, at most 1")?;
    for (name, cutoff) in [("epsilonCutoff", options.epsilon_cutoff), ("etaCutoff", options.eta_cutoff)] {
        check(name, cutoff, (0.0..1.0).contains(&cutoff), "a number from 0 to below 1")?;
    }
    for &(id, bias) in &options.logit_bias {
        check("logitBias", bias, bias.is_finite(), "finite numbers")?;
        check_id("logitBias", id, vocab_size)?;
    }
    options.suppress.iter().try_for_each(|&id| check_id("suppress", id, vocab_size))
}

fn check(name: &str, found: f32, valid: bool, expected: &str) -> Result<()> {
    if valid { Ok(()) } else { Err(Error::BadOption(format!("`{name}` is {found}; expected {expected}."))) }
}

fn check_id(name: &str, id: u32, vocab_size: usize) -> Result<()> {
    if super::to_usize(id) < vocab_size {
        return Ok(());
    }
    Err(Error::BadToken(format!(
        "`{name}` names the token {id}; expected ids below the vocabulary's size, {vocab_size}."
    )))
}
