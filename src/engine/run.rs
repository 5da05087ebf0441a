//! Forward passes that take a while: a run, at the pace that the page grants, and the logits of a long prompt.
//!
//! Invariant: never more than its credit ahead; after Stop, at most the unit of work in progress is finished.

use super::load::describe_backend;
use super::{Engine, mail, no_model};
use crate::backend::{Backend, ChosenBackend, Logits, Wanted};
use crate::error::{Error, Result};
use crate::generate::{Limits, Progress, Session};
use crate::protocol::{Credit, Event, GenerateOptions, Prompt, RunResult};

impl Engine {
    pub(super) async fn generate(&mut self, id: u32, options: GenerateOptions, credit: Credit) -> Result<RunResult> {
        // A GPU that was lost since the run before costs nothing.
        self.leave_failed_gpu(id);
        self.mail.begin(id, credit);
        let result = self.run(id, options).await;
        self.mail.end();
        self.leave_failed_gpu(id);
        result
    }

    async fn run(&mut self, id: u32, options: GenerateOptions) -> Result<RunResult> {
        let model = self.model()?;
        let prompt = prompt_ids(model, &options.prompt)?;
        let limits = Limits {
            context_length: model.info.context_length as usize,
            vocab_size: model.info.vocab_size as usize,
            prefill_batch: model.backend.prefill_batch(),
        };
        let model = self.model.as_mut().ok_or_else(no_model)?;
        let mut session = Session::new(options, prompt, limits, model.tokenizer.eos())?;
        // Taken, so that a run that ends in any other way than the ordinary one leaves nothing to be reused. One that is refused
        // before it begins touches nothing.
        session.reuse(&std::mem::take(&mut model.cached));
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
                Progress::Finished(result) => {
                    model.cached = session.cached_ids(model.backend.kv_len()).to_vec();
                    return Ok(result);
                }
            }
        }
    }

    /// Logits of the last of `ids`, from an empty cache.
    pub(super) async fn logits(&mut self, id: u32, ids: &[u32]) -> Result<Vec<f32>> {
        self.leave_failed_gpu(id);
        self.mail.begin(id, Credit::Unlimited);
        let logits = self.forward_all(ids).await;
        self.mail.end();
        self.leave_failed_gpu(id);
        logits
    }

    async fn forward_all(&mut self, ids: &[u32]) -> Result<Vec<f32>> {
        let mut logits = Logits::default();
        self.model.as_mut().ok_or_else(no_model)?.cached.clear();
        self.backend()?.truncate_kv(0);
        let batch = self.backend()?.prefill_batch();
        let (before, last) = ids.split_at(ids.len().saturating_sub(1) / batch * batch);
        for batch in before.chunks(batch) {
            self.backend()?.forward(batch, None).await?;
            self.mail.tick().await;
            self.answer_mail();
            if self.mail.stopped() {
                return Err(Error::Cancelled("The forward pass was stopped.".into()));
            }
        }
        self.backend()?.forward(last, Some((Wanted::All, &mut logits))).await?;
        Ok(logits.all)
    }

    /// After a failure of the GPU the model goes on on the CPU engine. The page hears so before it hears how request `id` goes.
    fn leave_failed_gpu(&mut self, id: u32) {
        if let Some(model) = &mut self.model
            && model.backend.leave_failed_gpu()
        {
            model.cached.clear();
            describe_backend(&mut model.info, &model.backend);
            mail::post(id, Event::Model(model.info.clone()));
        }
    }

    fn backend(&mut self) -> Result<&mut ChosenBackend> {
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
            Ok(model.tokenizer.with_bos(ids))
        }
        Prompt::Chat(messages) => Ok(model.tokenizer.chat(messages)?.ids),
    }
}
