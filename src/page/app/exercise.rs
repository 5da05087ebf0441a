//! The lesson's exercise: the same text without and with the KV cache.
//!
//! Invariant: starts its runs as the controls do, through [`App::run`]; draws nothing itself.

use super::App;
use crate::error::{Error, Result};
use crate::page::options::Pace;
use crate::page::run::Start;
use crate::protocol::StopReason;
use futures_channel::oneshot;
use std::rc::Rc;

impl App {
    /// Runs the exercise and says how it ended.
    pub(super) async fn exercise_shown(self: &Rc<Self>) {
        self.is_exercise.set(true);
        self.is_exercise_cancelled.set(false);
        self.refresh();
        let outcome = self.exercise().await;
        self.is_exercise.set(false);
        self.refresh();
        match outcome {
            Ok(text) => self.stage.say(&text),
            Err(error) => self.stage.fail(&error),
        }
    }

    /// The lesson's exercise: the prompt and seed of the form, 100 tokens at temperature 0.7, once without and once with the
    /// cache. Both runs go unpaced, so that the figures are the engine's.
    async fn exercise(self: &Rc<Self>) -> Result<String> {
        let mut options = self.form.options()?;
        options.max_new_tokens = 100;
        options.sampling.temperature = 0.7;
        options.ignore_eos = true;
        options.stop.clear();
        let mut texts = Vec::new();
        for kv_cache in [false, true] {
            let message = if kv_cache {
                "Exercise, second half: the same 100 tokens with the cache."
            } else {
                "Exercise, first half: 100 tokens without the cache. Every token computes all positions again."
            };
            options.kv_cache = kv_cache;
            let run = self.run(options.clone(), Start::Paced(Pace::Free), message, None)?;
            let ended = || Error::EngineFailed("The run was dropped without an answer.".into());
            let result = run.await.map_err(|oneshot::Canceled| ended())??;
            if result.stop_reason == StopReason::Cancelled || self.is_exercise_cancelled.get() {
                return Ok("The exercise was stopped. What was measured stays below.".into());
            }
            texts.push(result.text);
        }
        let same = if texts[0] == texts[1] { "Both wrote the same text" } else { "Rounding made the texts differ" };
        Ok(format!("The exercise is done. {same}; the speeds are under “What the KV cache saves”."))
    }
}
