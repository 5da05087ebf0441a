//! Logits -> processors -> [`Distribution`] -> filters -> token: one step of the decoding chain.
//!
//! Two orders (SEMANTICS.md, "Sampling"). Hugging Face's: repetition penalty, n-grams, least length, bias and suppression; then
//! temperature, top-k, top-p, min-p, typical-p, epsilon, eta; renormalise, draw. llama.cpp's: the same processors; then top-k,
//! typical-p, top-p, min-p, (epsilon, eta, which it does not have,) all at temperature 1; temperature last; renormalise, draw.
//! The whole vocabulary takes part in every step: with a logit each, or, where the likeliest tokens decide all there is to
//! decide, as sums. All arithmetic that decides anything is plain IEEE addition, multiplication, division and comparison in a
//! fixed order, so every build draws the same token from the same logits and seed.
//!
//! Invariant: pure. No clock, no async; of the backend it knows the data type [`Logits`] alone; after [`Sampler::new`] only the
//! returned candidates and their tail are allocated.

mod distribution;
mod draw;
mod filters;
mod options;
mod processors;
mod ranking;
mod softmax;

use crate::error::{Error, Result};
use crate::logits::{Logits, Sums, Top, Wanted};
use crate::protocol::{Candidate, SamplerOrder, SamplingOptions};
use crate::tail::Tail;
use distribution::{Distribution, Kept};
pub use draw::draws;
use draw::{Draws, invert_cdf};
use processors::Processors;
use softmax::Softmax;

/// The decoding chain of one run, with its random generator and its scratch memory.
pub struct Sampler {
    options: SamplingOptions,
    processors: Processors,
    distribution: Distribution,
    draws: Draws,
}

/// The token of one step, and what it was chosen from. The fields mean what they mean in [`crate::protocol::StepRecord`].
#[derive(Debug, Clone, PartialEq)]
pub struct Sampled {
    pub id: u32,
    pub rank: u32,
    /// 1 for a greedy choice; 0 for a forced token that the chain had cut.
    pub p: f32,
    pub surprisal_bits: f32,
    pub u: Option<f64>,
    /// The likeliest tokens, cut ones included; `bytes` are left empty.
    pub candidates: Vec<Candidate>,
    pub nucleus_size: u32,
    pub nucleus_mass: f32,
    pub entropy_bits: f32,
    pub tail: Option<Tail>,
}

/// What top-p came to look at.
#[derive(Clone, Copy)]
struct Seen {
    softmax: Softmax,
    kept: Kept,
}

impl Sampler {
    /// A chain for logits of `vocab_size` entries.
    ///
    /// Errors: `bad-option`, naming the option, for `temperature` not finite or negative, `top_p` or `min_p` outside [0, 1],
    /// `typical_p` outside (0, 1], a cutoff outside [0, 1), `repetition_penalty` not finite or not above 0, a bias not finite, and
    /// a vocabulary that is empty or past 2^32 entries; `bad-token` for a bias or suppression past the vocabulary. Every other
    /// value is valid.
    pub fn new(options: &SamplingOptions, vocab_size: usize) -> Result<Sampler> {
        options::validate(options, vocab_size)?;
        if vocab_size == 0 || u32::try_from(vocab_size).is_err() {
            return Err(Error::BadOption(format!(
                "The vocabulary has {vocab_size} entries; expected 1 to {}.",
                u32::MAX
            )));
        }
        Ok(Sampler {
            options: options.clone(),
            processors: Processors::new(options),
            distribution: Distribution::new(vocab_size),
            draws: Draws::new(options.seed),
        })
    }

    /// Forbids the tokens `ends` as long as prompt and text together are shorter than `min_len`. Ids past the vocabulary have no
    /// chance anyway.
    pub fn forbid_until(&mut self, ends: &[u32], min_len: usize) {
        let vocab_size = self.distribution.vocab_size();
        self.processors.forbid_until(ends.iter().copied().filter(|&id| to_usize(id) < vocab_size).collect(), min_len);
    }

    /// Goes on as after `n` steps: their numbers of the stream are used up.
    pub fn skip(&mut self, n: usize) {
        (0..n).for_each(|_| self.draws.advance());
    }

    /// What [`sample`](Self::sample) can do with at best after the tokens `seen`: the top, unless a processor must find single
    /// tokens anywhere, or a filter needs the entropy of all of them.
    pub fn wanted(&self, seen: &[u32]) -> Wanted {
        let SamplingOptions { order, temperature, top_k, top_p, min_p, typical_p, eta_cutoff, .. } = self.options;
        // Where a filter before it has left few tokens, the entropy is theirs.
        let (by_top_k, by_others) = (top_k > 0, top_p < 1.0 || min_p > 0.0);
        let is_cut_before_typical = by_top_k || by_others && order == SamplerOrder::HuggingFace;
        let needs_entropy = typical_p < 1.0 && !is_cut_before_typical || eta_cutoff > 0.0 && !(by_top_k || by_others);
        if temperature > 0.0 && needs_entropy || !self.processors.are_idle(seen) {
            return Wanted::All;
        }
        // A greedy choice looks at the model's own distribution only.
        Wanted::Top { temperature: if temperature == 0.0 { 1.0 } else { temperature } }
    }

    /// Takes the next token; none when only the top of the logits was there and more is needed.
    ///
    /// - `logits` as the model gave them: one per vocabulary entry, or a top as [`wanted`](Self::wanted), its sums within a
    ///   millionth of their values. What a top gives is what the whole vector would: the same token of the same rank, kept set
    ///   and candidates; only probabilities, entropy and surprisal inherit the error of the sums.
    /// - `seen`: prompt and text so far, for the processors that look at them.
    /// - `n_candidates`: how many of the likeliest tokens to report.
    /// - `forced`: a token to take instead of choosing.
    ///
    /// Every step uses up one `u`, greedy and forced ones too: the `u` of step `i` depends on the seed and `i` alone, and
    /// forcing the very token that would have been drawn changes nothing that follows. Only a step that takes no token
    /// uses up none.
    ///
    /// Errors: `non-finite-logits`; `bad-token` for an id of `seen`, `forced` or the top past the vocabulary; `shape-mismatch` when
    /// the logits are neither none nor as many as the vocabulary; `bad-option` when the processors forbid every token.
    pub fn sample(
        &mut self,
        logits: &Logits,
        seen: &[u32],
        n_candidates: usize,
        forced: Option<u32>,
    ) -> Result<Option<Sampled>> {
        self.check(logits, seen, forced)?;
        let Some(model) = self.set_logits(logits, seen) else { return Ok(None) };
        if self.distribution.n_allowed() == 0 {
            return Err(Error::BadOption(format!(
                "All {} tokens of the vocabulary are forbidden (`suppress`, `minNewTokens`, `noRepeatNgramSize`); expected at \
                 least one that may come next.",
                self.distribution.vocab_size()
            )));
        }
        let u = self.draws.u();
        let mut sampled = self.take_token(logits, &model, n_candidates, forced, u);
        if sampled.is_none() && !logits.all.is_empty() {
            self.distribution.sum_exactly();
            sampled = self.take_token(logits, &model, n_candidates, forced, u);
        }
        if sampled.is_some() {
            self.draws.advance();
        }
        Ok(sampled)
    }

    /// What this chain would have taken, had its draw been `u`, from a top of logits that no processor changes: of a step that is
    /// past. None when the top does not decide.
    ///
    /// Errors: `bad-token` for an id past the vocabulary.
    pub fn would_take(&mut self, top: &Logits, n_candidates: usize, u: f64) -> Result<Option<Sampled>> {
        self.check(top, &[], None)?;
        let Some(model) = self.set_logits(top, &[]) else { return Ok(None) };
        Ok(self.take_token(top, &model, n_candidates, None, u))
    }

    fn check(&self, logits: &Logits, seen: &[u32], forced: Option<u32>) -> Result<()> {
        let vocab_size = self.distribution.vocab_size();
        let Logits { all, top } = logits;
        if !all.is_empty() && all.len() != vocab_size {
            return Err(Error::ShapeMismatch(format!(
                "The model gave {} logits; expected one for each of the {vocab_size} entries of the vocabulary.",
                all.len()
            )));
        }
        let of_top = if all.is_empty() { &top.best[..] } else { &[] };
        let mut ids = seen.iter().copied().chain(forced).chain(of_top.iter().map(|&(id, _)| id));
        if let Some(id) = ids.find(|&id| to_usize(id) >= vocab_size) {
            return Err(Error::BadToken(format!(
                "Found the token {id}; expected ids below the vocabulary's size, {vocab_size}."
            )));
        }
        // Not `all`: a loop without an early exit is vectorised.
        if all.iter().fold(true, |finite, x| finite & x.is_finite()) {
            return Ok(());
        }
        let id = all.iter().position(|x| !x.is_finite()).expect("one of them is not finite");
        Err(Error::NonFiniteLogits(format!("The logit of token {id} is {}; expected finite numbers only.", all[id])))
    }

    /// [`sample`](Self::sample), once everything is checked and ranked. Changes nothing but scratch memory.
    fn take_token(
        &mut self,
        logits: &Logits,
        model: &Softmax,
        n_candidates: usize,
        forced: Option<u32>,
        u: f64,
    ) -> Option<Sampled> {
        let seen_by_top_p = self.run_chain()?;
        let greedy = self.options.temperature == 0.0;
        let (id, rank) = match forced {
            Some(id) => (id, self.distribution.rank_of(id)?),
            None if greedy => (self.distribution.id_at(0)?, 0),
            None => invert_cdf(&mut self.distribution, u)?,
        };
        let kept = self.distribution.kept();
        let candidates = self.candidates(logits, model, seen_by_top_p, n_candidates)?;
        let tail = (n_candidates > 0).then(|| self.tail(logits, model, &candidates));
        Some(Sampled {
            id,
            rank: to_u32(rank),
            p: self.distribution.p_final(id, rank),
            surprisal_bits: model.surprisal_bits(logit(logits, &self.distribution, id)),
            u: (forced.is_none() && !greedy).then_some(u),
            candidates,
            nucleus_size: to_u32(kept.len()),
            nucleus_mass: kept.mass.min(1.0) as f32,
            entropy_bits: model.entropy_bits(),
            tail,
        })
    }

    fn tail(&self, logits: &Logits, model: &Softmax, candidates: &[Candidate]) -> Tail {
        let at_temperature = if self.options.temperature == 0.0 { *model } else { self.distribution.softmax() };
        let vocab_size = self.distribution.vocab_size();
        Tail::of(logits, model.sums(&at_temperature), vocab_size, candidates.iter().map(|candidate| candidate.logit))
    }

    /// Starts a step: ranks the tokens that are known, by their logits after the processors. Returns the model's own distribution.
    fn set_logits(&mut self, logits: &Logits, seen: &[u32]) -> Option<Softmax> {
        let Logits { all, top } = logits;
        let are_idle = self.processors.are_idle(seen);
        if !all.is_empty() {
            self.distribution.set_logits(all);
            let model = self.distribution.softmax_at(1.0);
            if !are_idle {
                self.distribution.change_scores(|scores| self.processors.apply(scores, all, seen));
            }
            return Some(model);
        }
        // What is not finite may be a logit or an overflow of the sums: the whole vector tells.
        if !are_idle || !is_finite(top) {
            return None;
        }
        self.distribution.set_top(top);
        Some(self.distribution.softmax_at(1.0))
    }

    /// Applies temperature and filters. Returns what was left when top-p came to look.
    fn run_chain(&mut self) -> Option<Seen> {
        let SamplingOptions { order, temperature, top_k, top_p, min_p, typical_p, .. } = self.options;
        let SamplingOptions { epsilon_cutoff, eta_cutoff, .. } = self.options;
        let distribution = &mut self.distribution;
        if temperature == 0.0 {
            distribution.set_greedy()?;
            return Some(Seen::by_top_p(distribution));
        }
        let at_temperature = distribution.softmax_at(temperature);
        let seen_by_top_p;
        match order {
            SamplerOrder::HuggingFace => {
                distribution.keep_all(at_temperature);
                filters::top_k(distribution, top_k)?;
                seen_by_top_p = Seen::by_top_p(distribution);
                filters::top_p(distribution, top_p)?;
                filters::min_p(distribution, min_p)?;
                filters::typical_p(distribution, typical_p)?;
                filters::epsilon_cutoff(distribution, epsilon_cutoff)?;
                filters::eta_cutoff(distribution, eta_cutoff)?;
            }
            SamplerOrder::LlamaCpp => {
                let at_1 = distribution.softmax_at(1.0);
                distribution.keep_all(at_1);
                filters::top_k(distribution, top_k)?;
                filters::typical_p(distribution, typical_p)?;
                seen_by_top_p = Seen::by_top_p(distribution);
                filters::top_p(distribution, top_p)?;
                filters::min_p(distribution, min_p)?;
                filters::epsilon_cutoff(distribution, epsilon_cutoff)?;
                filters::eta_cutoff(distribution, eta_cutoff)?;
                distribution.set_softmax(at_temperature)?;
            }
        }
        Some(seen_by_top_p)
    }

    fn candidates(
        &mut self,
        logits: &Logits,
        model: &Softmax,
        seen_by_top_p: Seen,
        n_candidates: usize,
    ) -> Option<Vec<Candidate>> {
        let greedy = self.options.temperature == 0.0;
        let distribution = &mut self.distribution;
        let n = n_candidates.min(distribution.vocab_size());
        // Before anything is allocated.
        if n > distribution.n_known() {
            return None;
        }
        let mut cumulative = 0.0;
        let mut candidates = Vec::with_capacity(n);
        for rank in 0..n {
            let id = distribution.id_at(rank)?;
            let logit = logit(logits, distribution, id);
            let p_temperature = distribution.p(id);
            if seen_by_top_p.kept.ranks().contains(&rank) {
                let p = if greedy { p_temperature } else { seen_by_top_p.softmax.p(distribution.score(id)) };
                cumulative += f64::from(p) / seen_by_top_p.kept.mass;
            }
            candidates.push(Candidate {
                id,
                bytes: Vec::new(),
                logit,
                p_raw: model.p(logit),
                p_temperature,
                p_final: distribution.p_final(id, rank),
                cumulative: cumulative.min(1.0) as f32,
                kept: distribution.kept().ranks().contains(&rank),
            });
        }
        Some(candidates)
    }
}

impl Seen {
    fn by_top_p(distribution: &Distribution) -> Seen {
        Seen { softmax: distribution.softmax(), kept: distribution.kept() }
    }
}

/// The model's own logit of a known token. Scores are logits where only the top is known: nothing was processed.
fn logit(logits: &Logits, distribution: &Distribution, id: u32) -> f32 {
    logits.all.get(to_usize(id)).copied().unwrap_or_else(|| distribution.score(id))
}

fn is_finite(top: &Top) -> bool {
    let Sums { max, weight, weighted_x, weight_at_temperature, .. } = top.sums;
    let sums_are_finite = max.is_finite() && [weight, weighted_x, weight_at_temperature].iter().all(|x| x.is_finite());
    sums_are_finite && top.best.iter().all(|(_, logit)| logit.is_finite())
}

/// A token id as an index; `usize` has at least 32 bits on every target.
fn to_usize(id: u32) -> usize {
    id as usize
}

/// A rank or a count of tokens; [`Sampler::new`] has checked that the vocabulary fits.
fn to_u32(n: usize) -> u32 {
    u32::try_from(n).expect("the vocabulary fits u32")
}
