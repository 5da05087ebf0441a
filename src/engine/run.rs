//! Forward passes that take a while: a run, at the pace that the page grants, and the logits of a long prompt.
//!
//! Invariant: never more than its credit ahead; after Stop, at most the unit of work in progress is finished.

use super::{Engine, mail, no_model};
use crate::backend::Backend;
use crate::backend::cpu::{BATCH, CpuBackend};
use crate::error::{Error, Result};
use crate::generate::{Limits, Progress, Session};
use crate::protocol::{Credit, Event, GenerateOptions, Prompt, RunResult};

impl Engine {
    pub(super) async fn generate(&mut self, id: u32, options: GenerateOptions, credit: Credit) -> Result<RunResult> {
        self.mail.begin(id, credit);
        let result = self.run(id, options).await;
        self.mail.end();
        result
    }

    async fn run(&mut self, id: u32, options: GenerateOptions) -> Result<RunResult> {
        let model = self.model()?;
        let prompt = prompt_ids(model, &options.prompt)?;
        let limits = Limits {
            context_length: model.info.context_length as usize,
            vocab_size: model.info.vocab_size as usize,
            prefill_batch: BATCH,
        };
        let mut session = Session::new(options, prompt, limits, model.tokenizer.eos())?;
        let mut steps = 0;
        loop {
            self.mail.tick().await;
            self.answer_mail();
            while !session.is_over() && !self.mail.may_step(steps) && !self.mail.stopped() {
                self.mail.credit_for(steps).await;
                self.answer_mail();
            }
            if let Some(on) = self.mail.take_kv_cache(id) {
                session.set_kv_cache(on);
            }
            if self.mail.stopped() {
                session.cancel();
            }
            let model = self.model.as_mut().ok_or_else(no_model)?;
            match session.advance(&mut model.backend, &model.tokenizer).await? {
                Progress::Prefill { done, total } => {
                    mail::post(id, Event::Prefill { done: done as u32, total: total as u32 });
                }
                Progress::Step(step) => {
                    steps += 1;
                    mail::post(id, Event::Step(*step));
                }
                Progress::Finished(result) => return Ok(result),
            }
        }
    }

    /// Logits of the last of `ids`, from an empty cache.
    pub(super) async fn logits(&mut self, id: u32, ids: &[u32]) -> Result<Vec<f32>> {
        self.mail.begin(id, Credit::Unlimited);
        let logits = self.forward_all(ids).await;
        self.mail.end();
        logits
    }

    async fn forward_all(&mut self, ids: &[u32]) -> Result<Vec<f32>> {
        let mut logits = Vec::new();
        self.backend()?.truncate_kv(0);
        let (before, last) = ids.split_at(ids.len().saturating_sub(1) / BATCH * BATCH);
        for batch in before.chunks(BATCH) {
            self.backend()?.forward(batch, None).await?;
            self.mail.tick().await;
            self.answer_mail();
            if self.mail.stopped() {
                return Err(Error::Cancelled("The forward pass was stopped.".into()));
            }
        }
        self.backend()?.forward(last, Some(&mut logits)).await?;
        Ok(logits)
    }

    fn backend(&mut self) -> Result<&mut CpuBackend> {
        Ok(&mut self.model.as_mut().ok_or_else(no_model)?.backend)
    }
}

/// The prompt's ids; text gets a BOS where the model wants one.
fn prompt_ids(model: &super::Model, prompt: &Prompt) -> Result<Vec<u32>> {
    match prompt {
        Prompt::Ids(ids) => Ok(ids.clone()),
        Prompt::Text { text, special } => {
            let ids = model.tokenizer.encode(text, *special)?;
            if ids.is_empty() {
                return Err(Error::EmptyPrompt(
                    "The prompt is empty; the model needs at least one token to go on from.".into(),
                ));
            }
            // A prompt whose control tokens were parsed may bring its own.
            let bos = model.tokenizer.add_bos().filter(|bos| ids.first() != Some(bos));
            Ok(bos.into_iter().chain(ids).collect())
        }
    }
}
