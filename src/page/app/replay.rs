//! Runs as files, and running one again.
//!
//! Invariant: a repeated run is started as every other is; the file is judged in `run_file`, the outcome in `compare`.

use super::App;
use crate::error::{Error, Result};
use crate::page::compare::Comparison;
use crate::page::dom::{self, TextCell, by_id, on};
use crate::page::form::prompt_text;
use crate::page::options::{Pace, entries};
use crate::page::run::{RunState, Start};
use crate::page::run_file::{self, MOST_BYTES, Reader, RunFile};
use crate::page::save_file::save_parts;
use crate::page::slices::Slices;
use crate::page::stage::RunInfo;
use crate::protocol::{ModelInfo, StopReason};
use futures_channel::oneshot;
use js_sys::{Array, Uint8Array};
use std::cell::RefCell;
use std::rc::Rc;
use wasm_bindgen_futures::JsFuture;
use web_sys::{Blob, Event, HtmlButtonElement, HtmlInputElement};

/// Bytes of a run file that are read between two looks at the clock: about a millisecond's.
const N_BYTES_A_PIECE: usize = 32 << 10;

/// The controls under “Share and replay”.
pub(super) struct Replay {
    save: HtmlButtonElement,
    again: HtmlButtonElement,
    file: HtmlInputElement,
    note: TextCell,
    /// The file whose run is on screen.
    opened: RefCell<Option<RunFile>>,
}

impl Replay {
    pub fn new() -> Self {
        Self {
            save: by_id("save-run"),
            again: by_id("run-again"),
            file: by_id("run-file"),
            note: TextCell::of_id("comparison"),
            opened: RefCell::default(),
        }
    }
}

impl App {
    pub(super) fn listen_to_replay(self: &Rc<Self>) {
        let app = Rc::clone(self);
        on(&by_id::<HtmlButtonElement>("copy-link"), "click", move |_: Event| {
            let linked = Rc::clone(&app);
            app.start_once(async move { linked.copy_link().await });
        });
        let app = Rc::clone(self);
        on(&self.replay.save, "click", move |_: Event| {
            let saving = Rc::clone(&app);
            app.start_once(async move { saving.save_run().await });
        });
        let app = Rc::clone(self);
        on(&self.replay.again, "click", move |_: Event| {
            let again = Rc::clone(&app);
            app.start_once(async move { again.run_again().await });
        });
        let app = Rc::clone(self);
        on(&self.replay.file, "change", move |_: Event| {
            let file = app.replay.file.files().and_then(|files| files.get(0));
            // So that the same file can be chosen again.
            app.replay.file.set_value("");
            if let Some(file) = file {
                let opening = Rc::clone(&app);
                app.start_once(async move { opening.open_run(&file).await });
            }
        });
    }

    /// A run can be saved and repeated when it is over.
    pub(super) fn refresh_replay(&self) {
        let is_idle = self.runs.state() == RunState::Idle && !self.is_exercise.get();
        let has_steps = self.stage.current().is_some();
        let set = |button: &HtmlButtonElement, is_enabled: bool, why_not: &str| {
            button.set_disabled(!is_enabled);
            dom::set_if(button, "title", why_not, !is_enabled);
        };
        let why_not = if is_idle { "Generate a text first, or open a run file" } else { "A run is in progress" };
        set(&self.replay.save, is_idle && has_steps, why_not);
        let has_model = self.model.borrow().is_some();
        let why_not = if has_steps && is_idle { "Load a model first" } else { why_not };
        set(&self.replay.again, is_idle && has_steps && has_model, why_not);
    }

    /// What the run on screen would be as a file.
    fn recorded(&self) -> Result<RunFile> {
        let (info, steps) = self.stage.on_screen().ok_or_else(nothing_there)?;
        // A file's run keeps what the file says of its making, for as long as it is on screen.
        if let Some(file) = self.replay.opened.borrow().as_ref()
            && info.sha256 == file.model.sha256
            && steps.iter().map(|step| step.id).eq(file.steps.iter().map(|step| step.id))
        {
            return Ok(file.clone());
        }
        match self.model.borrow().as_ref() {
            Some(model) if model.sha256 == info.sha256 => Ok(RunFile::of(model, &info.options, &steps)),
            _ => Err(Error::OtherModel("That one is not loaded.".into())),
        }
    }

    async fn save_run(&self) -> Result<()> {
        let run = self.recorded()?;
        let (parts, mut slices) = (Array::new(), Slices::new());
        for part in run.parts() {
            parts.push(&part.into());
            slices.breathe().await;
        }
        save_parts("nucleus-run.json", "application/json", &parts)?;
        self.stage.say("The run was saved: its settings, every token and its likeliest candidates.");
        Ok(())
    }

    /// Shows the run of a file, and fills in its settings.
    async fn open_run(self: &Rc<Self>, file: &Blob) -> Result<()> {
        if file.size() > MOST_BYTES as f64 {
            return Err(run_file::too_long(file.size()));
        }
        let unreadable = |_| Error::BadRunFile("The browser could not read it. It may have been moved.".into());
        let bytes = JsFuture::from(file.array_buffer()).await.map_err(unreadable)?;
        let mut text = String::from_utf8(Uint8Array::new(&bytes).to_vec())
            .map_err(|_| Error::BadRunFile("It is no run file: it holds bytes that are no text.".into()))?;
        if text.starts_with('\u{feff}') {
            text.remove(0);
        }
        let (mut reader, mut slices) = (Reader::new(text)?, Slices::new());
        let run = loop {
            if let Some(run) = reader.read_on(N_BYTES_A_PIECE)? {
                break run;
            }
            slices.breathe().await;
        };
        self.end_run().await?;
        self.keep_reply();
        self.form.fill(&entries(&run.options));
        let info = RunInfo {
            options: run.options.clone(),
            vocab_size: run.model.vocab_size,
            kv_bytes_per_position: 0,
            message: "",
            sha256: run.model.sha256.clone(),
            branch_at: None,
            is_recorded: false,
        };
        let prompt = prompt_text(&run.options.prompt).to_owned();
        self.show_prompt_of_ids(run.options.prompt.clone());
        self.stage.show_recorded(info, &prompt, run.steps.clone()).await;
        self.replay.note.set(&format!("Recorded by {}.", run.maker()));
        self.stage
            .say("A recorded run: nothing was computed now. “Run again and compare” repeats it with the loaded model.");
        *self.replay.opened.borrow_mut() = Some(run);
        self.refresh();
        Ok(())
    }

    /// Runs the settings of the run on screen again, and says what came out differently.
    async fn run_again(self: &Rc<Self>) -> Result<()> {
        let before = self.recorded()?;
        let model = self.model.borrow().clone().ok_or_else(|| Error::NoModel("Load a model before running.".into()))?;
        let message = "Running the same settings again, to compare. Stop with Escape.";
        let run = self.run(before.options.clone(), Start::Paced(Pace::Frame), message, None)?;
        self.replay.note.set("Running again…");
        let app = Rc::clone(self);
        wasm_bindgen_futures::spawn_local(async move {
            let dropped = || Error::EngineFailed("The run was dropped without an answer.".into());
            let said = match run.await.map_err(|oneshot::Canceled| dropped()).and_then(|outcome| outcome) {
                Ok(result) if result.stop_reason == StopReason::Cancelled => {
                    "Stopped: nothing was compared.".to_owned()
                }
                Ok(_) => app.compared(&before, &model),
                // The status line has said it.
                Err(_) => return app.replay.note.set("The run failed: nothing was compared."),
            };
            app.replay.note.set(&said);
            app.stage.say(&said);
        });
        Ok(())
    }

    fn compared(&self, before: &RunFile, model: &ModelInfo) -> String {
        let Some((_, steps)) = self.stage.on_screen() else { return String::new() };
        let comparison = Comparison::of(&before.steps, &steps);
        let because = match &before.differences(model)[..] {
            [] => String::new(),
            found => format!(" It was run on {}.", found.join(" and ")),
        };
        format!("{}{because}", comparison.words(before.n_given()))
    }
}

fn nothing_there() -> Error {
    Error::NoText("Nothing has been generated yet.".into())
}
