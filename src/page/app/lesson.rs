//! The lesson on the page: one card at a time, which moves the real controls and starts a real run, or a recorded one while
//! there is no model.
//!
//! Invariant: does what a reader could do by hand; nothing waits for it, and leaving puts the controls back.

use super::{App, WRITING};
use crate::clock::now_ms;
use crate::error::{Error, Result};
use crate::page::convert;
use crate::page::dom::{self, TextCell, by_id, on};
use crate::page::form::prompt_text;
use crate::page::lesson::{CARDS, Card, LessonRun, PROMPT};
use crate::page::options::Pace;
use crate::page::recorded::{RecordedRun, Recording};
use crate::page::run::Start;
use crate::page::stage::RunInfo;
use futures_channel::oneshot;
use gloo_timers::callback::Timeout;
use std::cell::{Cell, OnceCell, RefCell};
use std::rc::Rc;
use wasm_bindgen::JsCast;
use wasm_bindgen_futures::{JsFuture, spawn_local};
use web_sys::{
    Element, Event, HtmlButtonElement, HtmlElement, HtmlInputElement, HtmlTextAreaElement, KeyboardEvent, Response,
    ScrollIntoViewOptions, ScrollLogicalPosition,
};

const RECORDING: &str = "recorded_run.json";
const PLAYING: &str = "A recorded run: nothing computes now. Load a model to run this card yourself.";
/// A recorded step is shown after the time that it took, within these limits.
const STEP_MS: (f64, f64) = (40.0, 250.0);
/// The controls that cards move.
const CONTROLS: [&str; 5] = ["temperature", "top-p", "top-k", "seed", "max-tokens"];

pub struct LessonView {
    panel: HtmlElement,
    opener: HtmlElement,
    place: TextCell,
    title: HtmlElement,
    text: TextCell,
    note: TextCell,
    action: HtmlButtonElement,
    back: HtmlButtonElement,
    next: HtmlButtonElement,
    leave: HtmlButtonElement,
    prompt: HtmlTextAreaElement,
    seed_is_new: HtmlInputElement,
    current: Cell<usize>,
    /// What the controls held when the lesson was opened.
    before: RefCell<Option<Before>>,
    recording: OnceCell<Recording>,
    /// Counts what was played: a playback ends when another one begins, or the lesson does.
    turn: Cell<u32>,
}

struct Before {
    prompt: String,
    values: [String; CONTROLS.len()],
    seed_is_new: bool,
}

impl LessonView {
    pub fn new() -> Self {
        Self {
            panel: by_id("lesson"),
            opener: by_id("lesson-open"),
            place: TextCell::of_id("lesson-place"),
            title: by_id("lesson-title"),
            text: TextCell::of_id("lesson-text"),
            note: TextCell::of_id("lesson-note"),
            action: by_id("lesson-action"),
            back: by_id("lesson-back"),
            next: by_id("lesson-next"),
            leave: by_id("lesson-leave"),
            prompt: by_id("prompt"),
            seed_is_new: by_id("seed-new"),
            current: Cell::new(0),
            before: RefCell::default(),
            recording: OnceCell::new(),
            turn: Cell::new(0),
        }
    }

    fn is_open(&self) -> bool {
        !self.panel.hidden()
    }

    fn card(&self) -> &'static Card {
        &CARDS[self.current.get()]
    }

    /// `is_busy`: the controls that start a run are off.
    pub fn refresh(&self, has_model: bool, is_busy: bool) {
        // Not `disabled`: that would take the focus away while the card's own run goes on.
        dom::set(&self.action, "aria-disabled", if has_model && is_busy { "true" } else { "false" });
        self.note.set(&match (has_model, self.recording.get()) {
            (true, _) => "It runs on the model in this page.".to_owned(),
            (false, None) => "No model is loaded yet: the button plays a recorded run.".to_owned(),
            (false, Some(recording)) => format!(
                "No model is loaded yet: the button plays a run recorded with {} on {}, {}.",
                recording.model, recording.backend, recording.date
            ),
        });
    }

    fn open(&self) {
        if !self.is_open() {
            *self.before.borrow_mut() = Some(Before {
                prompt: self.prompt.value(),
                values: CONTROLS.map(|id| by_id::<HtmlInputElement>(id).value()),
                seed_is_new: self.seed_is_new.checked(),
            });
        }
        self.panel.set_hidden(false);
        dom::set(&self.opener, "aria-expanded", "true");
        self.show(0);
    }

    /// Closes the panel and puts the controls back.
    fn close(&self) {
        self.turn.set(self.turn.get() + 1);
        self.look_at(None);
        self.panel.set_hidden(true);
        dom::set(&self.opener, "aria-expanded", "false");
        if let Some(before) = self.before.take() {
            self.prompt.set_value(&before.prompt);
            for (id, value) in CONTROLS.into_iter().zip(before.values) {
                set_control(id, &value);
            }
            self.seed_is_new.set_checked(before.seed_is_new);
        }
        self.opener.focus().expect("a button can have the focus");
    }

    fn show(&self, index: usize) {
        self.current.set(index);
        let card = self.card();
        self.look_at(None);
        self.place.set(&format!("{} of {}", index + 1, CARDS.len()));
        self.title.set_text_content(Some(card.title));
        self.text.set(card.text);
        self.action.set_text_content(Some(card.action));
        self.back.set_disabled(index == 0);
        self.next.set_disabled(index + 1 == CARDS.len());
        // So that a screen reader reads the new card, and Tab goes on from it.
        self.title.focus().expect("a heading with a tab index can have the focus");
    }

    /// Outlines one element of the page, and brings it into view.
    fn look_at(&self, id: Option<&str>) {
        if let Ok(Some(old)) = dom::document().query_selector("[data-looked-at]") {
            dom::set_if(&old, "data-looked-at", "", false);
        }
        if let Some(id) = id {
            let element: Element = by_id(id);
            dom::set(&element, "data-looked-at", "");
            let options = ScrollIntoViewOptions::new();
            options.set_block(ScrollLogicalPosition::Nearest);
            element.scroll_into_view_with_scroll_into_view_options(&options);
        }
    }

    fn move_controls(&self, card: &Card) {
        for (id, value) in card.settings {
            set_control(id, value);
        }
        self.seed_is_new.set_checked(false);
        self.prompt.set_value(PROMPT);
    }

    async fn recording(&self) -> Result<&Recording> {
        if let Some(recording) = self.recording.get() {
            return Ok(recording);
        }
        let unreachable = |_| Error::Network("The recorded run could not be fetched.".into());
        let answer =
            JsFuture::from(dom::window().fetch_with_str(&dom::build_file(RECORDING))).await.map_err(unreachable)?;
        let json = answer.unchecked_into::<Response>().json().map_err(unreachable)?;
        let recording = Recording::read(convert::file(&JsFuture::from(json).await.map_err(unreachable)?))?;
        Ok(self.recording.get_or_init(|| recording))
    }
}

impl App {
    pub(super) fn listen_for_lesson(self: &Rc<Self>) {
        let view = &self.lesson_view;
        let click = |button: &HtmlElement, act: fn(&Rc<App>)| {
            let app = Rc::clone(self);
            on(button, "click", move |_: Event| act(&app));
        };
        click(
            &view.opener,
            |app| if app.lesson_view.is_open() { app.lesson_view.close() } else { app.lesson_view.open() },
        );
        click(&view.leave, |app| app.lesson_view.close());
        click(&view.back, |app| app.lesson_view.show(app.lesson_view.current.get().saturating_sub(1)));
        click(&view.next, |app| app.lesson_view.show((app.lesson_view.current.get() + 1).min(CARDS.len() - 1)));
        click(&view.action, Self::act_on_card);
        let app = Rc::clone(self);
        on(&view.panel, "keydown", move |event: KeyboardEvent| {
            // Where a run is in progress, Escape stops it.
            if event.key() == "Escape" && app.form.stop.disabled() {
                app.lesson_view.close();
            }
        });
    }

    fn act_on_card(self: &Rc<Self>) {
        let view = &self.lesson_view;
        // Its texts go on from the prompt.
        self.chat.leave();
        self.refresh();
        self.keep_reply();
        let has_model = self.model.borrow().is_some();
        if has_model && self.form.generate.disabled() {
            return;
        }
        let card = view.card();
        view.move_controls(card);
        view.look_at(Some(card.look_at));
        if !has_model {
            let app = Rc::clone(self);
            spawn_local(async move {
                if let Err(error) = app.play(card).await {
                    app.stage.fail(&error);
                }
            });
            return;
        }
        match card.run {
            LessonRun::OneToken => self.step_shown(),
            LessonRun::Text => self.start_shown(Start::Paced(Pace::Frame), WRITING),
            LessonRun::Race => self.race_shown(),
        }
    }

    /// Shows the recorded runs of a card, step by step.
    async fn play(self: &Rc<Self>, card: &'static Card) -> Result<()> {
        let view = &self.lesson_view;
        let turn = view.turn.get() + 1;
        view.turn.set(turn);
        let recording = view.recording().await?;
        self.refresh();
        for run in recording.of_card(card.name) {
            if view.turn.get() != turn || self.model.borrow().is_some() {
                return Ok(());
            }
            let RecordedRun { options, steps, .. } = run;
            let info = RunInfo {
                options: options.clone(),
                vocab_size: recording.vocab_size,
                kv_bytes_per_position: recording.kv_bytes_per_position,
                message: PLAYING,
                sha256: String::new(),
                branch_at: None,
                is_recorded: true,
            };
            self.stage.begin(&Rc::new(info), prompt_text(&options.prompt));
            for step in steps {
                sleep(step.ms.total.clamp(STEP_MS.0, STEP_MS.1)).await;
                // A real run may have taken the stage.
                if view.turn.get() != turn || !self.stage.is_recorded() {
                    return Ok(());
                }
                self.stage.extend(vec![step.clone()], true, now_ms());
            }
            self.stage.end_recorded(PLAYING);
        }
        Ok(())
    }
}

/// Sets a control as a reader would: those who listen hear of it.
fn set_control(id: &str, value: &str) {
    let control: HtmlInputElement = by_id(id);
    control.set_value(value);
    for name in ["input", "change"] {
        let event = Event::new(name).expect("the event has a name");
        control.dispatch_event(&event).expect("the event was just made");
    }
}

async fn sleep(ms: f64) {
    let (done, waiting) = oneshot::channel();
    let timer = Timeout::new(ms as u32, move || {
        // Who waits holds the timer, so the receiver is there.
        let _ = done.send(());
    });
    let _ = waiting.await;
    drop(timer);
}
