//! What the reader watches: the text, the panel about one step, the speeds, and the line that says what happens.
//!
//! It keeps the steps of the run on screen, so that any of them can be looked at again. The panel follows the newest step
//! until the reader picks one.
//!
//! Invariant: draws what it is given; starts and stops nothing.

use super::dom::{self, TextCell, by_id};
use super::inspector::Inspector;
use super::output::Output;
use super::sentence::place;
use super::speed::SpeedView;
use super::words::explain;
use crate::error::{Error, Result};
use crate::protocol::{GenerateOptions, RunResult, StepRecord};
use std::cell::{Cell, RefCell};
use std::rc::{Rc, Weak};
use web_sys::{Event, HtmlElement};

/// What the views need to know about a run beside its steps.
pub struct RunInfo {
    pub options: GenerateOptions,
    pub vocab_size: u32,
    pub kv_bytes_per_position: u64,
    /// What the status line says while it writes.
    pub message: &'static str,
}

/// While tokens stream, the panel about one step is drawn no more often than this. It costs as much as the rest of a frame, and
/// nobody reads sixty lists of candidates a second.
const PANEL_MS: f64 = 30.0;

pub struct Stage {
    output: Rc<Output>,
    inspector: Inspector,
    pub speed: SpeedView,
    run: RefCell<Option<Rc<RunInfo>>>,
    steps: RefCell<Vec<StepRecord>>,
    /// The step that the reader picked; none: the newest.
    picked: Cell<Option<usize>>,
    /// The panel shows an older step than the newest, which it should follow.
    is_behind: Cell<bool>,
    drawn_ms: Cell<f64>,
    place: TextCell,
    follow: HtmlElement,
    status: HtmlElement,
    status_text: TextCell,
}

impl Stage {
    pub fn new() -> Rc<Self> {
        Rc::new_cyclic(|weak: &Weak<Self>| {
            let (picker, follower) = (weak.clone(), weak.clone());
            let follow: HtmlElement = by_id("follow");
            dom::on(&follow, "click", move |_: Event| {
                if let Some(stage) = follower.upgrade() {
                    stage.follow_newest();
                }
            });
            Self {
                output: Output::new(move |index| {
                    if let Some(stage) = picker.upgrade() {
                        stage.pick(index);
                    }
                }),
                inspector: Inspector::new(),
                speed: SpeedView::new(),
                run: RefCell::default(),
                steps: RefCell::default(),
                picked: Cell::new(None),
                is_behind: Cell::new(false),
                drawn_ms: Cell::new(0.0),
                place: TextCell::of_id("step-place"),
                follow,
                status: by_id("status"),
                status_text: TextCell::of_id("status"),
            }
        })
    }

    /// Says what happens, in the live region.
    pub fn say(&self, text: &str) {
        dom::set_if(&self.status, "data-error", "", false);
        self.status_text.set(text);
    }

    /// Says what went wrong, what was found, and what to do.
    pub fn fail(&self, error: &Error) {
        dom::set(&self.status, "data-error", error.kind());
        self.status_text.set(&explain(error));
    }

    pub fn begin(&self, info: &Rc<RunInfo>, prompt: &str) {
        *self.run.borrow_mut() = Some(Rc::clone(info));
        self.steps.borrow_mut().clear();
        self.picked.set(None);
        self.is_behind.set(false);
        self.follow.set_hidden(true);
        self.place.set("no step yet");
        self.output.begin(prompt);
        self.inspector.clear();
        self.speed.begin(info.options.kv_cache);
        self.say(info.message);
    }

    pub fn set_prompt(&self, prompt: &str) {
        self.output.set_prompt(prompt);
    }

    /// Shows the steps of one frame: their chips, and the newest one in the panel unless the reader looks at another or it was
    /// drawn just now: then [`Stage::catch_up`] is due.
    pub fn extend(&self, new: Vec<StepRecord>, is_paused: bool, now_ms: f64) {
        let Some(run) = self.run.borrow().clone() else { return };
        self.output.extend(&new);
        self.speed.extend(&new, &run, is_paused, now_ms);
        self.steps.borrow_mut().extend(new);
        self.mark_current();
        self.is_behind.set(self.picked.get().is_none());
        if is_paused || now_ms - self.drawn_ms.get() >= PANEL_MS {
            self.catch_up(now_ms);
        }
        self.output.follow();
    }

    pub fn is_behind(&self) -> bool {
        self.is_behind.get()
    }

    /// Draws the newest step in the panel if it does not show it yet.
    pub fn catch_up(&self, now_ms: f64) {
        if self.is_behind.get() {
            self.drawn_ms.set(now_ms);
            self.inspect_current();
        }
    }

    pub fn end(&self, outcome: &Result<RunResult>, was_paused: bool) {
        let Some(run) = self.run.borrow().clone() else { return };
        if self.is_behind.get() {
            self.inspect_current();
        }
        self.speed.end(outcome.as_ref().ok(), run.options.kv_cache, was_paused);
        match outcome {
            Ok(result) => self.say(&ending(result)),
            Err(error) => self.fail(error),
        }
    }

    fn pick(&self, index: usize) {
        self.picked.set(Some(index));
        self.follow.set_hidden(false);
        self.show_current();
    }

    fn follow_newest(&self) {
        self.picked.set(None);
        self.follow.set_hidden(true);
        self.show_current();
    }

    fn show_current(&self) {
        self.mark_current();
        self.inspect_current();
    }

    /// Marks the chip of the step that the panel is about, and says its number.
    fn mark_current(&self) {
        if let Some(index) = self.current() {
            self.output.mark(index);
            self.place.set(&place(index, self.steps.borrow().len()));
        }
    }

    fn inspect_current(&self) {
        self.is_behind.set(false);
        if let (Some(index), Some(run)) = (self.current(), self.run.borrow().as_ref()) {
            self.inspector.show(&self.steps.borrow()[index], run);
        }
    }

    /// The step that the reader picked, or the newest.
    fn current(&self) -> Option<usize> {
        let last = self.steps.borrow().len().checked_sub(1)?;
        Some(self.picked.get().unwrap_or(last).min(last))
    }
}

/// Why a run ended, in words.
fn ending(result: &RunResult) -> String {
    use crate::protocol::StopReason::{Cancelled, Context, Eos, Length, Stop, Time};
    let n = super::words::count(result.new_tokens.into(), "token");
    let why = match result.stop_reason {
        Eos => "the model ended its text",
        Stop => "a stop string came up",
        Length => "that was the number asked for",
        Context => "the context is full",
        Cancelled => "stopped by you",
        Time => "the time was up",
    };
    format!("{n}: {why}. Click a token, or walk with the arrow keys, to see its step. Seed {}.", result.seed)
}
