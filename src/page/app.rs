//! The page as a whole: one client, one model, one run, and the controls that work on them.
//!
//! Invariant: the order of things (load, run, exercise) is decided here and only here, for the controls and for
//! `window.nucleus` alike.

mod branch;
mod chat;
mod diagnostics;
mod exercise;
mod failures;
mod lesson;
mod link;
mod replay;

use super::api;
use super::chat_view::ChatView;
use super::client::{Client, unexpected};
use super::convert;
use super::dom::{self, on};
use super::engine_line::EngineLine;
use super::form::{Form, Situation, prompt_text};
use super::picker::{ModelSource, Picker};
use super::run::{RunState, Runs, Start};
use super::stage::{RunInfo, Stage};
use super::tempo::TempoControls;
use super::words::{bytes, milliseconds, shortened};
use crate::error::{Error, Result};
use crate::protocol::{Command, Event, GenerateOptions, LoadOptions, ModelInfo, Prompt, RunResult, Source};
use futures_channel::oneshot;
use js_sys::Function;
use std::cell::{Cell, OnceCell, RefCell};
use std::rc::{Rc, Weak};
use wasm_bindgen::JsValue;
use wasm_bindgen_futures::spawn_local;
use web_sys::{KeyboardEvent, Url};

pub struct App {
    pub client: Client,
    stage: Rc<Stage>,
    runs: Rc<Runs>,
    form: Form,
    chat: ChatView,
    tempo: TempoControls,
    picker: Rc<Picker>,
    engine_line: EngineLine,
    exercise_view: exercise::ExerciseView,
    lesson_view: lesson::LessonView,
    model: RefCell<Option<ModelInfo>>,
    /// The load in progress.
    loading: RefCell<Option<Loading>>,
    /// The form's run waits for the end of the one before it.
    is_starting: Cell<bool>,
    is_exercise: Cell<bool>,
    is_exercise_cancelled: Cell<bool>,
    replay: replay::Replay,
    api: OnceCell<js_sys::Object>,
}

#[derive(Default)]
struct Loading {
    is_cancelled: bool,
    /// Those who wait for its end: dropping them tells them.
    waiting: Vec<oneshot::Sender<()>>,
}

/// What the status line says during a run that the exercise has not started.
pub const WRITING: &str = "Writing. Stop with Escape.";

/// Builds the page and its `window.nucleus`, and starts the engine worker.
pub fn start() {
    let client = Client::new(link::engine_script());
    client.warm_up();
    let stage = Stage::new();
    let runs = Runs::new(client.clone(), Rc::clone(&stage));
    let app = Rc::new_cyclic(|weak: &Weak<App>| {
        let chooser = weak.clone();
        let choose = move |source| {
            if let Some(app) = chooser.upgrade() {
                spawn_local(async move { app.load_shown(source).await });
            }
        };
        App {
            client,
            stage,
            tempo: TempoControls::new(&runs),
            runs,
            form: Form::new(),
            chat: ChatView::new(),
            picker: Picker::new(choose),
            engine_line: EngineLine::new(),
            exercise_view: exercise::ExerciseView::new(),
            lesson_view: lesson::LessonView::new(),
            model: RefCell::default(),
            loading: RefCell::default(),
            is_starting: Cell::new(false),
            is_exercise: Cell::new(false),
            is_exercise_cancelled: Cell::new(false),
            replay: replay::Replay::new(),
            api: OnceCell::new(),
        }
    });
    app.listen();
    app.picker.show(None);
    app.stage.say("Load a model to begin: Generate, One token and the exercise wait for it.");
    app.refresh();
    app.api.get_or_init(|| api::install(&app));
    app.follow_link();
}

impl App {
    fn listen(self: &Rc<Self>) {
        let app = Rc::downgrade(self);
        self.runs.on_change(move || {
            if let Some(app) = app.upgrade() {
                app.refresh();
            }
        });
        let app = Rc::downgrade(self);
        self.client.on_model(move |info| {
            if let Some(app) = app.upgrade() {
                app.move_model(info);
            }
        });
        let app = Rc::clone(self);
        on(&self.form.generate, "click", move |_: web_sys::Event| app.generate_shown());
        let app = Rc::clone(self);
        on(&self.form.step, "click", move |_: web_sys::Event| app.step_shown());
        let app = Rc::clone(self);
        on(&self.form.stop, "click", move |_: web_sys::Event| app.stop_shown());
        self.listen_for_exercise();
        self.listen_for_lesson();
        let app = Rc::clone(self);
        on(self.form.kv_cache(), "change", move |_: web_sys::Event| app.switch_kv_cache());
        let app = Rc::clone(self);
        self.listen_to_branches();
        self.listen_to_replay();
        self.listen_to_chat();
        self.listen_for_failures();
        self.listen_for_diagnostics();
        on(&dom::document(), "keydown", move |event: KeyboardEvent| match event.key().as_str() {
            "Enter" if event.ctrl_key() || event.meta_key() => {
                event.prevent_default();
                if !app.form.generate.disabled() {
                    app.generate_shown();
                }
            }
            "Escape" if !app.form.stop.disabled() => app.stop_shown(),
            _ => {}
        });
    }

    fn refresh(&self) {
        self.tempo.refresh(self.runs.can_pause());
        self.form.refresh(Situation {
            has_model: self.model.borrow().is_some(),
            is_loading: self.loading.borrow().is_some(),
            run: self.runs.state(),
            is_exercise: self.is_exercise.get(),
            chat_refusal: self.chat_refusal(),
        });
        self.refresh_chat();
        self.refresh_replay();
        self.lesson_view.refresh(self.model.borrow().is_some(), self.form.generate.disabled());
    }

    fn set_model(&self, model: Option<ModelInfo>) {
        if let Some(object) = self.api.get() {
            let info = model.as_ref().map_or(JsValue::NULL, |info| convert::model_info(info).into());
            convert::put(object, "model", info);
        }
        self.picker.show(model.as_ref());
        self.engine_line.show(model.as_ref());
        self.stage.gauge.set_length(model.as_ref().map(|model| model.context_length));
        *self.model.borrow_mut() = model;
        self.refresh();
    }

    /// The model in place runs elsewhere from now on. A run that this ends says so itself, by its error; otherwise the status
    /// line does. News of a model that is gone is none.
    fn move_model(&self, info: ModelInfo) {
        if self.model.borrow().is_none() || self.loading.borrow().is_some() {
            return;
        }
        if self.runs.state() == RunState::Idle {
            self.stage.say(&info.backend_reason);
        }
        self.set_model(Some(with_short_name(info)));
    }

    /// Loads a model and says how that went; a run in progress is stopped first, and the model before is gone from the start.
    pub async fn load(
        self: &Rc<Self>,
        source: ModelSource,
        options: LoadOptions,
        on_progress: Option<Function>,
    ) -> Result<ModelInfo> {
        let loaded = self.load_unsaid(source, options, on_progress).await;
        match &loaded {
            Ok(info) => self.stage.say(&format!(
                "{}{} is ready after {}: {} of weights, {} of memory. Press Generate.",
                info.cache_notice.as_ref().map_or(String::new(), |notice| format!("{notice} ")),
                info.name,
                milliseconds(info.load_ms),
                bytes(info.bytes),
                bytes(info.memory_bytes)
            )),
            Err(error) => self.stage.fail(error),
        }
        loaded
    }

    async fn load_unsaid(
        self: &Rc<Self>,
        source: ModelSource,
        options: LoadOptions,
        on_progress: Option<Function>,
    ) -> Result<ModelInfo> {
        let (source, blobs) = match source {
            ModelSource::Url(url) => (Source::Url(absolute(&url)?), Vec::new()),
            ModelSource::Files(_) if options.cache == Some(true) => {
                return Err(Error::BadOption(
                    "`cache` is true: expected it for a URL only; a local file is not kept.".into(),
                ));
            }
            ModelSource::Files(files) => {
                let (names, blobs) = files.into_iter().unzip();
                (Source::Files(names), blobs)
            }
        };
        if self.loading.borrow().is_some() {
            return Err(Error::Busy("Another model is loading: wait for it.".into()));
        }
        *self.loading.borrow_mut() = Some(Loading::default());
        let name = shortened(source.file_name());
        self.refresh();
        self.picker.begin(&name);
        self.stage.say(&format!("Loading {name}."));
        let loaded = async {
            self.is_exercise_cancelled.set(true);
            self.stop_run().await?;
            if self.loading.borrow().as_ref().is_some_and(|loading| loading.is_cancelled) {
                return Err(Error::Cancelled("Loading was stopped.".into()));
            }
            self.set_model(None);
            let (done, receiver) = oneshot::channel();
            let mut done = Some(done);
            let picker = Rc::clone(&self.picker);
            self.client.open(Command::Load { source, options }, &blobs, move |event| match event {
                Event::Progress(progress) => {
                    picker.progress(&progress);
                    if let Some(Err(thrown)) =
                        on_progress.as_ref().map(|call| call.call1(&JsValue::UNDEFINED, &convert::progress(&progress)))
                    {
                        web_sys::console::error_1(&thrown);
                    }
                }
                event => {
                    if let Some(done) = done.take() {
                        // The load may have been abandoned; then nobody misses the answer.
                        let _ = done.send(event);
                    }
                }
            });
            match receiver.await {
                Ok(Event::Loaded(info)) => Ok(with_short_name(info)),
                Ok(Event::Failed(error)) => Err(error),
                Ok(other) => Err(unexpected(&other)),
                Err(oneshot::Canceled) => Err(Error::EngineFailed("It dropped the load without an answer.".into())),
            }
        };
        let loaded = loaded.await;
        self.loading.take();
        self.picker.end(loaded.as_ref().ok());
        self.set_model(loaded.as_ref().ok().cloned());
        loaded
    }

    pub async fn unload(self: &Rc<Self>) -> Result<()> {
        self.stop().await?;
        self.client.request(Command::Unload).await?;
        self.set_model(None);
        self.picker.end(None);
        self.stage.say("The model was unloaded.");
        Ok(())
    }

    /// Starts a run that the page shows, saying `message` while it writes; its outcome comes when all of it has been painted.
    pub fn run(
        self: &Rc<Self>,
        options: GenerateOptions,
        start: Start,
        message: &'static str,
        on_step: Option<Function>,
    ) -> Result<oneshot::Receiver<Result<RunResult>>> {
        self.run_as(options, start, message, on_step, None)
    }

    /// The same; `branch_at`: it goes on from the text on screen, after so many of its steps.
    fn run_as(
        self: &Rc<Self>,
        options: GenerateOptions,
        start: Start,
        message: &'static str,
        on_step: Option<Function>,
        branch_at: Option<usize>,
    ) -> Result<oneshot::Receiver<Result<RunResult>>> {
        let info = match self.model.borrow().as_ref() {
            None => return Err(Error::NoModel("Load a model before generating.".into())),
            Some(model) => RunInfo {
                options,
                vocab_size: model.vocab_size,
                kv_bytes_per_position: model.kv_bytes_per_position,
                message,
                sha256: model.sha256.clone(),
                branch_at,
                is_recorded: false,
            },
        };
        if branch_at.is_none() {
            self.keep_reply();
        }
        let prompt = info.options.prompt.clone();
        let receiver = self.runs.start(info, prompt_text(&prompt), start, on_step)?;
        self.show_prompt_of_ids(prompt);
        self.refresh();
        Ok(receiver)
    }

    /// Ids become text in the engine, so that their text comes after the run's start.
    fn show_prompt_of_ids(self: &Rc<Self>, prompt: Prompt) {
        let Prompt::Ids(ids) = prompt else { return };
        let app = Rc::clone(self);
        spawn_local(async move {
            // Ids that cannot be decoded are refused by the run itself, in its own words.
            if let Ok(Event::Text(text)) = app.client.request(Command::Detokenize { ids }).await {
                app.stage.set_prompt(&text);
            }
        });
    }

    /// Ends the run or the load in progress, if any; after it, another one can start.
    pub async fn stop(&self) -> Result<()> {
        self.is_exercise_cancelled.set(true);
        let loaded = self.loading.borrow_mut().as_mut().map(|loading| {
            let (sender, receiver) = oneshot::channel();
            loading.is_cancelled = true;
            loading.waiting.push(sender);
            receiver
        });
        match loaded {
            None => self.stop_run().await,
            Some(loaded) => {
                self.client.request(Command::Stop).await?;
                // It only ever ends by the sender's being dropped.
                let _ = loaded.await;
                Ok(())
            }
        }
    }

    async fn stop_run(&self) -> Result<()> {
        if self.runs.state() == RunState::Idle {
            return Ok(());
        }
        let ended = self.runs.ended();
        // What was computed ahead of a pause is shown with the end.
        self.runs.let_go();
        self.client.request(Command::Stop).await?;
        // The engine answers at once; the run's own end, with what it wrote, comes after that.
        ended.await;
        Ok(())
    }

    async fn load_shown(self: &Rc<Self>, source: ModelSource) {
        match self.picker.options() {
            // `load` says how it went.
            Ok(options) => drop(self.load(source, options, None).await),
            Err(error) => self.stage.fail(&error),
        }
    }

    /// Moves the KV cache of the run in progress to where the switch is. The exercise measures both modes by itself.
    fn switch_kv_cache(&self) {
        if self.runs.state() == RunState::Idle {
            return;
        }
        if self.is_exercise.get() {
            return self.stage.say("The exercise sets the KV cache itself; the switch counts from the next run on.");
        }
        let on = self.form.kv_cache().checked();
        self.runs.set_kv_cache(on);
        self.stage.say(if on {
            "KV cache on: from the next token on, each one costs one position."
        } else {
            "KV cache off: from the next token on, each one computes all positions again."
        });
    }

    fn stop_shown(self: &Rc<Self>) {
        let app = Rc::clone(self);
        spawn_local(async move {
            if let Err(error) = app.stop().await {
                app.stage.fail(&error);
            }
        });
    }
}

/// A file may call its model anything, at any length.
fn with_short_name(info: ModelInfo) -> ModelInfo {
    ModelInfo { name: shortened(&info.name), ..info }
}

/// The worker has its own base address: what the reader or a caller wrote is meant relative to the page.
fn absolute(url: &str) -> Result<String> {
    let bad = || Error::BadOption(format!("`source` is {url:?}: expected a URL or a path relative to the page."));
    if url.trim().is_empty() {
        return Err(bad());
    }
    let base = dom::document().base_uri().ok().flatten().unwrap_or_default();
    Url::new_with_base(url.trim(), &base).map(|url| url.href()).map_err(|_| bad())
}
