//! A run: prompt in, one [`StepRecord`] per token out, until a stop rule ends it.
//!
//! [`Session`] is a state machine that does one unit of work per call, so that its owner can look at its mail in between.
//! `text` turns tokens into text and `stop` finds stop strings in it; `speed` keeps the run's three figures.
//!
//! Invariant: knows a [`Backend`] and [`TokenBytes`] only as traits; nothing of the page, of messages, or of pacing.

mod speed;
mod stop;
mod text;
mod validate;

use crate::backend::{Backend, Logits, Top};
use crate::clock::now_ms;
use crate::error::{Error, Result};
use crate::protocol::{Candidate, GenerateOptions, RunResult, StepMs, StepRecord, StopReason};
use crate::sampling::{Sampled, Sampler};
use crate::tokenizer::TokenBytes;
use speed::Speed;
use text::TextStream;

/// What the model and its backend allow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Tokens that prompt and text may have together.
    pub context_length: usize,
    pub vocab_size: usize,
    /// Positions that one forward pass takes at most; at least 1.
    pub prefill_batch: usize,
}

/// What a call of [`Session::advance`] did.
#[derive(Debug, Clone, PartialEq)]
pub enum Progress {
    /// One batch of several: `done` of the `total` positions that the next token needs are in the cache. Comes before the first
    /// token, and before each one while the KV cache is off. The last batch comes with its token, as a `Step`.
    Prefill { done: usize, total: usize },
    /// One new token.
    Step(Box<StepRecord>),
    /// The run is over. Comes by itself, after the last step.
    Finished(RunResult),
}

/// One run.
///
/// - The KV cache is emptied when the run starts, so its figures never depend on the run before; with `reuse_cache` it is cut to
///   the longest beginning that it shares with the run's ids, and [`RunResult::reused_tokens`] says how long that is.
/// - A resumed run (`resume_ids`) goes on where another one was: indices, the seed's numbers (that of step i is the i-th of the
///   stream, whoever made the steps before), stop rules and `max_new_tokens` count the text it resumes from. With that text
///   and the same options it makes the very steps that the other run would have made.
/// - With the KV cache off, each token empties it and runs all ids again from position 0: the same code with more to do.
/// - An end-of-sequence token is a step like others and counted in the result's ids, as Hugging Face does, but has no text.
/// - The texts of all steps, concatenated, are the text of the result: the last step releases what was held back. Only when
///   a run is cancelled or out of time, which happens between steps, does the result's text hold more than they do.
/// - Prompt and text together never exceed the context: a prompt that fills it ends the run at once, with `context`.
/// - After an error the session is over; the backend is as ready for another run as before.
pub struct Session {
    options: GenerateOptions,
    limits: Limits,
    eos: Vec<u32>,
    /// Prompt and text.
    ids: Vec<u32>,
    n_prompt: usize,
    /// Ids when the run began: the prompt's, and those it resumes from.
    n_start: usize,
    /// Positions of them that the KV cache is said to hold; once the run has begun, those that it held.
    n_cached: usize,
    /// The cache holds this run's positions and no others.
    owns_cache: bool,
    sampler: Sampler,
    /// Of the last position computed: all, or what the sampler wanted.
    logits: Logits,
    text: TextStream,
    speed: Speed,
    state: State,
    /// What has been done for the next token; none between steps.
    step: Option<StepWork>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    New,
    Running,
    /// No more work; the next call says so.
    Ending(StopReason),
    Over,
}

#[derive(Debug, Clone, Copy, Default)]
struct StepWork {
    n_positions: usize,
    ms: StepMs,
}

impl Session {
    /// A run of `options` from `prompt_ids` (`options.prompt` is not looked at) that the tokens `eos` end.
    ///
    /// Errors: `empty-prompt`; `prompt-too-long` past the context; `bad-token` for an id of the prompt, `resume_ids` or `force_ids`
    /// past the vocabulary; `bad-option` for an empty stop string, a bad time limit, a sampling option out of range, or limits of 0.
    pub fn new(options: GenerateOptions, prompt_ids: Vec<u32>, limits: Limits, eos: &[u32]) -> Result<Session> {
        validate::limits(&limits)?;
        validate::options(&options, &limits)?;
        validate::prompt(&prompt_ids, options.resume_ids.len(), &limits)?;
        let mut sampler = Sampler::new(&options.sampling, limits.vocab_size)?;
        sampler.forbid_until(eos, prompt_ids.len().saturating_add(to_usize(options.min_new_tokens)));
        sampler.skip(options.resume_ids.len());
        let n_prompt = prompt_ids.len();
        let ids = [prompt_ids, options.resume_ids.clone()].concat();
        let mut session = Session {
            sampler,
            logits: Logits { all: Vec::with_capacity(limits.vocab_size), top: Top::default() },
            text: TextStream::new(&options.stop),
            speed: Speed::default(),
            eos: eos.to_vec(),
            n_prompt,
            n_start: ids.len(),
            n_cached: 0,
            owns_cache: false,
            ids,
            state: State::New,
            step: None,
            options,
            limits,
        };
        session.ids.reserve_exact(session.max_len().saturating_sub(session.n_start));
        if let Some(reason) = session.full() {
            session.state = State::Ending(reason);
        }
        Ok(session)
    }

    /// `cached`: the ids whose positions the backend's KV cache holds, first to last. A run with `reuse_cache` keeps of them what
    /// it begins with; the last position is computed in any case, since the cache holds no logits.
    pub fn reuse(&mut self, cached: &[u32]) {
        if self.options.reuse_cache && self.options.kv_cache {
            let ids = &self.ids[..self.n_start - 1];
            self.n_cached = ids.iter().zip(cached).take_while(|(id, cached)| id == cached).count();
        }
    }

    /// Does one unit of work: one batch of positions and, when it is the last that a token needs, the token.
    ///
    /// Stop rules are applied to a token in this order: end of sequence, stop string, length, context. The time limit is
    /// checked before each unit of work.
    ///
    /// Errors: the backend's; `non-finite-logits`; `engine-failed` when the run is already over. The session is then over.
    pub async fn advance<B: Backend, T: TokenBytes>(&mut self, backend: &mut B, tokens: &T) -> Result<Progress> {
        let progress = self.work(backend, tokens).await;
        if matches!(progress, Ok(Progress::Finished(_)) | Err(_)) {
            self.state = State::Over;
        }
        progress
    }

    /// Ends the run: the next [`advance`](Self::advance) returns the text so far, with `Cancelled`. A run that has just ended
    /// by itself keeps its reason.
    pub fn cancel(&mut self) {
        if matches!(self.state, State::New | State::Running) {
            self.state = State::Ending(StopReason::Cancelled);
        }
    }

    /// Switches the KV cache; takes effect with the next token that is begun.
    pub fn set_kv_cache(&mut self, on: bool) {
        self.options.kv_cache = on;
    }

    /// The ids whose `kv_len` positions the backend's KV cache holds: none known before the first unit of work.
    pub fn cached_ids(&self, kv_len: usize) -> &[u32] {
        if self.owns_cache { &self.ids[..kv_len.min(self.ids.len())] } else { &[] }
    }

    /// Whether all that is left is to hear that the run has finished.
    pub fn is_over(&self) -> bool {
        matches!(self.state, State::Ending(_) | State::Over)
    }

    async fn work<B: Backend, T: TokenBytes>(&mut self, backend: &mut B, tokens: &T) -> Result<Progress> {
        let started = now_ms();
        if self.state == State::New {
            backend.truncate_kv(self.n_cached);
            self.n_cached = backend.kv_len();
            self.owns_cache = true;
            backend.reserve_kv(self.max_len()).await?;
            self.speed.start(started);
            self.state = State::Running;
            self.resume_text(tokens);
        }
        if self.state == State::Running
            && self.options.max_time_ms.is_some_and(|max| self.speed.elapsed(started) >= max)
        {
            self.state = State::Ending(StopReason::Time);
        }
        match self.state {
            State::Ending(reason) => return Ok(Progress::Finished(self.finish(reason))),
            State::Over => {
                return Err(Error::EngineFailed("This run is over; expected a new session for another run.".into()));
            }
            State::New | State::Running => {}
        }
        let done = self.forward(backend, started).await?;
        if done < self.ids.len() {
            return Ok(Progress::Prefill { done, total: self.ids.len() });
        }
        Ok(Progress::Step(Box::new(self.take_token(backend, tokens).await?)))
    }

    /// Computes the next batch of positions; the logits too when it is the last. Returns how many positions are in the cache.
    async fn forward<B: Backend>(&mut self, backend: &mut B, started: f64) -> Result<usize> {
        if self.step.is_none() && !self.options.kv_cache {
            backend.truncate_kv(0);
        }
        let step = self.step.get_or_insert_default();
        let kv_len = backend.kv_len();
        let todo = self.ids.get(kv_len..).filter(|todo| !todo.is_empty()).ok_or_else(|| {
            Error::Backend(format!("The KV cache holds {kv_len} positions; expected fewer than {}.", self.ids.len()))
        })?;
        let batch = &todo[..todo.len().min(self.limits.prefill_batch)];
        let is_last = batch.len() == todo.len();
        backend.forward(batch, is_last.then_some((self.sampler.wanted(&self.ids), &mut self.logits))).await?;

        let ms = now_ms() - started;
        step.n_positions += batch.len();
        step.ms.forward += ms;
        step.ms.total += ms;
        if self.ids.len() == self.n_start {
            self.speed.add_prefill(batch.len(), ms);
        }
        Ok(kv_len + batch.len())
    }

    /// Samples from the logits, and applies the stop rules to the token.
    async fn take_token<B: Backend, T: TokenBytes>(&mut self, backend: &mut B, tokens: &T) -> Result<StepRecord> {
        let started = now_ms();
        let position = self.ids.len();
        let index = position - self.n_prompt;
        let forced = self.options.force_ids.get(position - self.n_start).copied();
        let n_candidates = usize::try_from(self.options.candidates).unwrap_or(usize::MAX);
        let mut readback = 0.0;
        let sampled = match self.sampler.sample(&self.logits, &self.ids, n_candidates, forced)? {
            Some(sampled) => sampled,
            None => {
                let asked = now_ms();
                backend.read_all(&mut self.logits).await?;
                readback = now_ms() - asked;
                self.sampler.sample(&self.logits, &self.ids, n_candidates, forced)?.ok_or_else(no_logits)?
            }
        };
        self.ids.push(sampled.id);
        let text = self.apply_stop_rules(tokens.text_bytes(sampled.id), sampled.id);

        let mut work = self.step.take().expect("a forward pass begins every step");
        let Sampled { id, rank, p, surprisal_bits, u, candidates, nucleus_size, nucleus_mass, entropy_bits, tail } =
            sampled;
        let candidates =
            candidates.into_iter().map(|c| Candidate { bytes: tokens.token_bytes(c.id).to_vec(), ..c }).collect();
        let ended = now_ms();
        work.ms.readback = readback;
        work.ms.sample = ended - started - readback;
        work.ms.total += ended - started;
        self.speed.add_token(ended);
        Ok(StepRecord {
            index: to_u32(index),
            position: to_u32(position),
            kv_length: to_u32(position),
            positions_computed: to_u32(work.n_positions),
            id,
            text,
            bytes: tokens.token_bytes(id).to_vec(),
            rank,
            p,
            surprisal_bits,
            u,
            candidates,
            nucleus_size,
            nucleus_mass,
            entropy_bits,
            tail,
            ms: work.ms,
        })
    }

    /// Reads the text that the run resumes from; what it holds back, half a character or half a stop string, the first step releases.
    fn resume_text<T: TokenBytes>(&mut self, tokens: &T) {
        for &id in &self.ids[self.n_prompt..] {
            self.text.push(tokens.text_bytes(id));
        }
        self.text.take();
        if self.text.is_stopped() {
            self.state = State::Ending(StopReason::Stop);
        }
    }

    /// Returns the text that the newest token releases; sets the state when the run ends with it.
    fn apply_stop_rules(&mut self, text_bytes: &[u8], id: u32) -> String {
        let is_eos = !self.options.ignore_eos && self.eos.contains(&id);
        let mut released = if is_eos { String::new() } else { self.text.push(text_bytes) };
        let reason = if is_eos { Some(StopReason::Eos) } else { self.full() };
        if let Some(reason) = reason {
            self.state = State::Ending(reason);
            released += &self.text.finish();
        }
        // What was cut off in the middle of a character may have completed a stop string, too.
        if self.text.is_stopped() {
            self.state = State::Ending(StopReason::Stop);
        }
        released
    }

    /// Why there can be no further token, if so.
    fn full(&self) -> Option<StopReason> {
        if self.ids.len() >= self.max_len() {
            let is_asked_for = self.ids.len() - self.n_prompt >= to_usize(self.options.max_new_tokens);
            return Some(if is_asked_for { StopReason::Length } else { StopReason::Context });
        }
        None
    }

    /// Tokens that prompt and text may have together in this run.
    fn max_len(&self) -> usize {
        self.n_prompt.saturating_add(to_usize(self.options.max_new_tokens)).min(self.limits.context_length)
    }

    fn finish(&mut self, reason: StopReason) -> RunResult {
        self.text.finish();
        let ids = self.ids[self.n_start..].to_vec();
        RunResult {
            text: self.text.take(),
            stop_reason: reason,
            prompt_tokens: to_u32(self.n_prompt),
            new_tokens: to_u32(ids.len()),
            ids,
            reused_tokens: if self.owns_cache { to_u32(self.n_cached) } else { 0 },
            seed: self.options.sampling.seed,
            ttft_ms: self.speed.ttft_ms(),
            prefill_ms: self.speed.prefill_ms(),
            prefill_tokens_per_s: self.speed.prefill_tokens_per_s(),
            decode_ms: self.speed.decode_ms(),
            decode_tokens_per_s: self.speed.decode_tokens_per_s(),
        }
    }
}

fn no_logits() -> Error {
    Error::Backend("The backend read back no logits; expected one for each entry of the vocabulary.".into())
}

fn to_usize(n: u32) -> usize {
    usize::try_from(n).unwrap_or(usize::MAX)
}

/// A count of positions; [`Session::new`] has checked that the context fits.
fn to_u32(n: usize) -> u32 {
    u32::try_from(n).expect("the context fits u32")
}
