//! What a run refuses before it begins.
//!
//! Invariant: refuses, never repairs.

use super::Limits;
use crate::error::{Error, Result};
use crate::protocol::GenerateOptions;

pub(super) fn limits(limits: &Limits) -> Result<()> {
    let Limits { context_length, vocab_size: _, prefill_batch } = *limits;
    if context_length == 0 || u32::try_from(context_length).is_err() || prefill_batch == 0 {
        return Err(Error::BadOption(format!(
            "The context has {context_length} positions, a batch {prefill_batch}; expected at least 1 and at most {} of each.",
            u32::MAX
        )));
    }
    Ok(())
}

/// All but the sampling options, which the sampler checks.
pub(super) fn options(options: &GenerateOptions, limits: &Limits) -> Result<()> {
    if options.stop.iter().any(String::is_empty) {
        return Err(Error::BadOption("`stop` holds an empty string; expected at least one character in each.".into()));
    }
    if let Some(ms) = options.max_time_ms.filter(|ms| !ms.is_finite() || *ms < 0.0) {
        return Err(Error::BadOption(format!("`maxTimeMs` is {ms}; expected a finite number, 0 or more.")));
    }
    check_ids("`resumeIds`", &options.resume_ids, limits)?;
    check_ids("`forceIds`", &options.force_ids, limits)
}

/// `n_resumed`: tokens of text that follow the prompt from the start.
pub(super) fn prompt(ids: &[u32], n_resumed: usize, limits: &Limits) -> Result<()> {
    if ids.is_empty() {
        return Err(Error::EmptyPrompt("The prompt has no tokens; expected at least one to go on from.".into()));
    }
    if ids.len() > limits.context_length {
        return Err(Error::PromptTooLong(format!(
            "The prompt has {} tokens; expected at most the {} of the context.",
            ids.len(),
            limits.context_length
        )));
    }
    if ids.len() + n_resumed > limits.context_length {
        return Err(Error::PromptTooLong(format!(
            "The prompt and `resumeIds` have {} tokens together; expected at most the {} of the context.",
            ids.len() + n_resumed,
            limits.context_length
        )));
    }
    check_ids("The prompt", ids, limits)
}

fn check_ids(what: &str, ids: &[u32], limits: &Limits) -> Result<()> {
    let is_past = |id: &u32| usize::try_from(*id).map_or(true, |id| id >= limits.vocab_size);
    match ids.iter().copied().find(is_past) {
        None => Ok(()),
        Some(id) => Err(Error::BadToken(format!(
            "{what} holds the token {id}; expected ids below the vocabulary's size, {}.",
            limits.vocab_size
        ))),
    }
}
