//! What if the temperature, top-p, top-k or min-p had been another: the steps of a run once more, each from its kept logits.
//!
//! A step keeps its likeliest tokens with their logits, sums over the vocabulary, and its tail. The sampler runs on these as on
//! the top of the logits that a GPU reads back, so its code is the same and so is its promise: what it gives is what a
//! fresh run on the whole vector would have given (the same kept tokens, the same token drawn), and where the kept logits do
//! not decide it, it gives nothing. That is where the nucleus reaches past them, or where a threshold or `u` lies
//! nearer to a token's edge than the sum of all probabilities is known. That sum is exact at temperature 1 and the run's own;
//! at others it lies between bounds (`tail`), which most often are 10^-4 apart or less.
//!
//! Invariant: pure; every step is judged alone, on the text as it was written.

use crate::error::{Error, Result};
use crate::logits::{Logits, Sums};
use crate::protocol::{Candidate, GenerateOptions, SamplingOptions, StepRecord};
use crate::sampling::{Sampler, draws};
use crate::tail::N_LISTED;

/// The settings that can be moved.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Settings {
    pub temperature: f32,
    pub top_p: f32,
    pub top_k: u32,
    pub min_p: f32,
}

/// What a step would have taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// The token that it took, or it was given one.
    Same,
    Other(u32),
    /// What was kept of the step does not decide.
    Unknown,
}

/// A sum that is known no better gives probabilities that should not be shown.
const MOST_ERROR: f64 = 0.005;

pub struct WhatIf {
    sampling: SamplingOptions,
    /// Of the run, of which sums are exact.
    run_temperature: f32,
    n_forced: usize,
    sampler: Sampler,
    top: Logits,
    /// The draws of the steps so far, for those that made none, and those to come.
    us: Vec<f64>,
    draws: Box<dyn Iterator<Item = f64>>,
}

impl Settings {
    pub fn of(sampling: &SamplingOptions) -> Settings {
        let SamplingOptions { temperature, top_p, top_k, min_p, .. } = *sampling;
        Settings { temperature, top_p, top_k, min_p }
    }
}

impl WhatIf {
    /// Errors: `unsupported-option` for a run whose processors change the logits by what came before; `bad-option` as for a run.
    pub fn new(run: &GenerateOptions, settings: Settings, vocab_size: u32) -> Result<WhatIf> {
        if has_processors(run) {
            return Err(Error::UnsupportedOption(
                "This run changed its logits before they were filtered (penalty, n-grams, bias, forbidden tokens, least \
                 length), which its steps do not keep."
                    .into(),
            ));
        }
        let Settings { temperature, top_p, top_k, min_p } = settings;
        let sampling = SamplingOptions { temperature, top_p, top_k, min_p, ..run.sampling.clone() };
        Ok(WhatIf {
            sampler: Sampler::new(&sampling, usize::try_from(vocab_size).unwrap_or(usize::MAX))?,
            draws: Box::new(draws(sampling.seed)),
            sampling,
            run_temperature: run.sampling.temperature,
            n_forced: run.force_ids.len(),
            top: Logits::default(),
            us: Vec::new(),
        })
    }

    /// The settings of the run, with those that were moved.
    pub fn sampling(&self) -> &SamplingOptions {
        &self.sampling
    }

    pub fn judge(&mut self, step: &StepRecord) -> Verdict {
        if self.is_forced(step) {
            return Verdict::Same;
        }
        match self.take(step, 0) {
            None => Verdict::Unknown,
            Some(taken) if taken.id == step.id => Verdict::Same,
            Some(taken) => Verdict::Other(taken.id),
        }
    }

    /// The step as it would have been; a token that was given stays. None where what was kept does not decide.
    pub fn recompute(&mut self, step: &StepRecord) -> Option<StepRecord> {
        let listed = &step.candidates[..step.candidates.len().min(N_LISTED)];
        let taken = self.take(step, listed.len())?;
        let with_bytes = |(new, old): (Candidate, &Candidate)| Candidate { bytes: old.bytes.clone(), ..new };
        let candidates: Vec<Candidate> = taken.candidates.into_iter().zip(listed).map(with_bytes).collect();
        let mut tail = step.tail.clone()?;
        tail.sums = self.top.top.sums;
        let is_forced = self.is_forced(step);
        let id = if is_forced { step.id } else { taken.id };
        let at = candidates.iter().position(|candidate| candidate.id == id);
        // A given token beyond the list: without a cut all are kept, and its probability is not known.
        if at.is_none() && candidates.iter().all(|candidate| candidate.kept) {
            return None;
        }
        let listed = at.map(|at| &candidates[at]);
        Some(StepRecord {
            id,
            text: String::new(),
            bytes: listed.map_or_else(|| step.bytes.clone(), |candidate| candidate.bytes.clone()),
            rank: if is_forced { step.rank } else { taken.rank },
            p: listed.map_or(0.0, |candidate| candidate.p_final),
            surprisal_bits: if id == step.id { step.surprisal_bits } else { taken.surprisal_bits },
            u: if is_forced { None } else { taken.u },
            nucleus_size: taken.nucleus_size,
            nucleus_mass: taken.nucleus_mass,
            tail: Some(tail),
            candidates,
            ..*step
        })
    }

    fn take(&mut self, step: &StepRecord, n_candidates: usize) -> Option<crate::sampling::Sampled> {
        let tail = step.tail.as_ref()?;
        let listed = || step.candidates.iter().take(N_LISTED);
        self.top.top.best.clear();
        self.top.top.best.extend(listed().map(|candidate| (candidate.id, candidate.logit)));
        let temperature = self.sampling.temperature;
        self.top.top.sums = if temperature == self.run_temperature || temperature == 0.0 {
            tail.sums
        } else if temperature == 1.0 {
            Sums { weight_at_temperature: tail.sums.weight, ..tail.sums }
        } else {
            let (least, most) = tail.weight_at(temperature, listed().map(|candidate| candidate.logit));
            let middle = (least + most) / 2.0;
            let error = tail.sums.error + (most - least) / 2.0 / least;
            if error > MOST_ERROR {
                return None;
            }
            Sums { weight_at_temperature: middle, error, ..tail.sums }
        };
        let u = self.u(step);
        // Only a bad id is an error, and what was kept of a step holds none.
        self.sampler.would_take(&self.top, n_candidates, u).ok().flatten()
    }

    /// The step's draw, or the one that a greedy step did not look at.
    fn u(&mut self, step: &StepRecord) -> f64 {
        let at = usize::try_from(step.index).unwrap_or(usize::MAX);
        match step.u {
            Some(u) => u,
            None if self.is_forced(step) => 0.0,
            None => {
                while self.us.len() <= at {
                    self.us.extend(self.draws.next());
                }
                self.us[at]
            }
        }
    }

    fn is_forced(&self, step: &StepRecord) -> bool {
        self.n_forced > usize::try_from(step.index).unwrap_or(usize::MAX)
    }
}

/// Whether anything changes logits between the model and the filters.
pub fn has_processors(run: &GenerateOptions) -> bool {
    let SamplingOptions { repetition_penalty, no_repeat_ngram_size, logit_bias, suppress, .. } = &run.sampling;
    *repetition_penalty != 1.0
        || *no_repeat_ngram_size > 0
        || !logit_bias.is_empty()
        || !suppress.is_empty()
        || run.min_new_tokens > 0
}
