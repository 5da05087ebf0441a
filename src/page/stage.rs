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
use super::time_strip::TimeStrip;
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
    /// Nothing computes: the steps come from a file.
    pub is_recorded: bool,
}

pub struct Stage {
    output: Rc<Output>,
    inspector: Inspector,
    pub speed: SpeedView,
    pub time_strip: Rc<TimeStrip>,
    run: RefCell<Option<Rc<RunInfo>>>,
    steps: RefCell<Vec<StepRecord>>,
    /// The step that the reader picked; none: the newest.
    picked: Cell<Option<usize>>,
    place: TextCell,
    /// Says that the run on screen is recorded.
    recorded: HtmlElement,
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
                time_strip: TimeStrip::new(),
                run: RefCell::default(),
                steps: RefCell::default(),
                picked: Cell::new(None),
                place: TextCell::of_id("step-place"),
                recorded: by_id("recorded"),
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
        let was_recorded = self.run.borrow_mut().replace(Rc::clone(info)).is_some_and(|run| run.is_recorded);
        if was_recorded != info.is_recorded {
            self.speed.forget();
        }
        self.recorded.set_hidden(!info.is_recorded);
        self.steps.borrow_mut().clear();
        self.picked.set(None);
        self.follow.set_hidden(true);
        self.place.set("no step yet");
        self.output.begin(prompt);
        self.inspector.clear();
        self.speed.begin(info);
        self.time_strip.begin();
        self.say(info.message);
    }

    pub fn set_prompt(&self, prompt: &str) {
        self.output.set_prompt(prompt);
    }

    /// Shows the steps of one frame: their chips, and the newest one in the panel unless the reader looks at another.
    pub fn extend(&self, new: Vec<StepRecord>, is_paused: bool, now_ms: f64) {
        let Some(run) = self.run.borrow().clone() else { return };
        self.output.extend(&new);
        self.speed.extend(&new, &run, is_paused, now_ms);
        let n_before = self.steps.borrow().len();
        self.steps.borrow_mut().extend(new);
        self.show_current();
        self.time_strip.extend(&self.steps.borrow()[n_before..], now_ms);
    }

    pub fn end(&self, outcome: &Result<RunResult>, was_paused: bool) {
        let Some(run) = self.run.borrow().clone() else { return };
        self.speed.end(outcome.as_ref().ok(), run.options.kv_cache, was_paused);
        self.time_strip.end();
        match outcome {
            Ok(result) => self.say(&ending(result)),
            Err(error) => self.fail(error),
        }
    }

    /// A recorded run is shown to its end.
    pub fn end_recorded(&self, text: &str) {
        let run = self.run.borrow().clone();
        if let Some(run) = run.filter(|run| run.is_recorded) {
            self.speed.end_recorded(run.options.kv_cache);
        }
        self.say(text);
    }

    /// Whether what is on screen is recorded.
    pub fn is_recorded(&self) -> bool {
        self.run.borrow().as_ref().is_some_and(|run| run.is_recorded)
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
        let steps = self.steps.borrow();
        let run = self.run.borrow();
        let Some(last) = steps.len().checked_sub(1) else { return };
        let index = self.picked.get().unwrap_or(last).min(last);
        if let Some(run) = run.as_ref() {
            self.inspector.show(&steps[index], run);
        }
        self.output.mark(index);
        self.place.set(&place(index, steps.len()));
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
