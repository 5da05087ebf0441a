//! The engine's side of the worker: letters in, one request at a time, replies out.
//!
//! Between any two units of work (a prefill batch, a decode step, a piece of a download) the engine returns to the browser's event
//! loop, so that Stop and new credit are heard at once. Small questions are answered there too; a second piece of real work
//! while one is in progress is refused as `busy`.
//!
//! Invariant: owns the model and all that it needs; never touches the DOM.

mod arrival;
mod device;
mod load;
mod mail;
mod run;
mod source;
mod threads;

use crate::backend::ChosenBackend;
use crate::error::{Error, Result};
use crate::protocol::{Command, Diagnostics, Event, ModelInfo, TokenPiece};
use crate::tokenizer::{TokenBytes, Tokenizer};
use mail::{Letter, Mail};
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Which of the engine's builds this is.
pub const BUILD: &str = match (cfg!(target_feature = "relaxed-simd"), cfg!(target_feature = "atomics")) {
    (true, true) => "simd128, relaxed SIMD, threads",
    (true, false) => "simd128, relaxed SIMD",
    _ => "simd128",
};

/// Starts the engine in this worker, and tells the page. Does nothing in the workers of its threads, which run the same `main`.
pub fn start() {
    static IS_STARTED: AtomicBool = AtomicBool::new(false);
    if IS_STARTED.swap(true, Ordering::Relaxed) {
        return;
    }
    let mail = Mail::open();
    wasm_bindgen_futures::spawn_local(Engine { mail, model: None, last_error: None }.serve());
}

struct Engine {
    mail: Rc<Mail>,
    model: Option<Model>,
    last_error: Option<Error>,
}

struct Model {
    backend: ChosenBackend,
    tokenizer: Tokenizer,
    info: ModelInfo,
    /// The ids whose positions the backend's KV cache is known to hold.
    cached: Vec<u32>,
}

impl Engine {
    async fn serve(mut self) {
        loop {
            let letter = self.mail.next().await;
            self.handle(letter).await;
        }
    }

    async fn handle(&mut self, Letter { id, command, blobs }: Letter) {
        let event = match command {
            Command::Load { source, options } => self.load(id, source, blobs, options).await.map(Event::Loaded),
            Command::Generate { options, credit } => self.generate(id, options, credit).await.map(Event::Finished),
            Command::Logits { ids } => self.logits(id, &ids).await.map(Event::Logits),
            Command::Unload => {
                self.model = None;
                Ok(Event::Done)
            }
            other => self.answer(other),
        };
        self.reply(id, event);
    }

    /// Answers what has arrived while a piece of work is in progress.
    fn answer_mail(&mut self) {
        while let Some(Letter { id, command, .. }) = self.mail.try_next() {
            let event = match command {
                Command::Load { .. } | Command::Unload | Command::Logits { .. } | Command::Generate { .. } => {
                    Err(Error::Busy("The engine is loading or generating; stop that first.".into()))
                }
                question => self.answer(question),
            };
            self.reply(id, event);
        }
    }

    /// Questions that need no forward pass.
    fn answer(&self, command: Command) -> Result<Event> {
        match command {
            Command::Tokenize { text, special } => {
                let tokenizer = &self.model()?.tokenizer;
                let piece = |id| TokenPiece { id, bytes: tokenizer.token_bytes(id).to_vec() };
                Ok(Event::Tokens(tokenizer.encode(&text, special)?.into_iter().map(piece).collect()))
            }
            Command::RenderChat { messages } => self.model()?.tokenizer.rendered(&messages).map(Event::Rendered),
            Command::Detokenize { ids } => Ok(Event::Text(self.model()?.tokenizer.decode(&ids))),
            Command::Diagnostics => Ok(Event::Diagnostics(Box::new(Diagnostics {
                version: env!("CARGO_PKG_VERSION").into(),
                build: BUILD.into(),
                backend: self.model.as_ref().map_or("", |model| model.backend.name()).into(),
                memory_bytes: memory_bytes(),
                model: self.model.as_ref().map(|model| model.info.clone()),
                gpu: self.model.as_ref().and_then(|model| model.backend.diagnostics().cloned()),
                last_error: self.last_error.as_ref().map(|error| (error.kind().into(), error.to_string())),
            }))),
            // The mailbox has acted on these already; the rest is work, and goes through `handle`.
            _ => Ok(Event::Done),
        }
    }

    fn model(&self) -> Result<&Model> {
        self.model.as_ref().ok_or_else(no_model)
    }

    fn reply(&mut self, id: u32, event: Result<Event>) {
        let event = event.unwrap_or_else(|error| {
            self.last_error = Some(error.clone());
            Event::Failed(error)
        });
        mail::post(id, event);
    }
}

fn no_model() -> Error {
    Error::NoModel("No model is loaded; load one first.".into())
}

/// Bytes of this worker's wasm memory.
fn memory_bytes() -> u64 {
    core::arch::wasm32::memory_size(0) as u64 * 65_536
}
