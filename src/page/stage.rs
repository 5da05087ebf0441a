//! What the reader watches: the text, the panel about one step, the speeds, and the line that says what happens.
//!
//! It keeps the steps of the run on screen, so that any of them can be looked at again, and those of the texts that left it
//! ([`Branches`]). The panel follows the newest step until the reader picks one.
//!
//! Invariant: draws what it is given; starts and stops nothing.

use super::branch_view::BranchView;
use super::branches::Branches;
use super::dom::{self, TextCell, by_id};
use super::gauge::Gauge;
use super::inspector::Inspector;
use super::output::Output;
use super::scrub::Scrubber;
use super::sentence::place;
use super::speed::SpeedView;
use super::status::Status;
use super::time_strip::TimeStrip;
use super::what_if_panel::WhatIfPanel;
use super::words::spelt;
use crate::error::{Error, Result};
use crate::protocol::{GenerateOptions, RunResult, StepRecord};
use std::cell::{Cell, Ref, RefCell};
use std::rc::{Rc, Weak};
use web_sys::{Event, HtmlElement};

/// Chips before the current one that are likely in view.
const N_AROUND: usize = 150;

/// What the views need to know about a run beside its steps.
pub struct RunInfo {
    pub options: GenerateOptions,
    pub vocab_size: u32,
    pub kv_bytes_per_position: u64,
    /// What the status line says while it writes.
    pub message: &'static str,
    /// Of the model's file.
    pub sha256: String,
    /// It goes on from the text on screen, after so many of its steps.
    pub branch_at: Option<usize>,
    /// Nothing computes: the steps come from a file.
    pub is_recorded: bool,
}

impl RunInfo {
    /// Whether a token was given, not drawn. A step before a branch is its parent run's: there only the missing draw tells.
    pub fn is_forced(&self, step: &StepRecord) -> bool {
        self.options.is_forced(step.index) || step.u.is_none() && self.options.sampling.temperature > 0.0
    }
}

/// While tokens stream, the panel about one step is drawn no more often than this. It costs as much as the rest of a frame, and
/// nobody reads sixty lists of candidates a second.
const PANEL_MS: f64 = 30.0;

pub struct Stage {
    output: Rc<Output>,
    inspector: Inspector,
    scrubber: Scrubber,
    what_if: WhatIfPanel,
    what_if_note: TextCell,
    pub speed: SpeedView,
    pub gauge: Gauge,
    pub time_strip: Rc<TimeStrip>,
    run: RefCell<Option<Rc<RunInfo>>>,
    steps: RefCell<Vec<Rc<StepRecord>>>,
    branches: RefCell<Branches>,
    branch_view: BranchView,
    /// Counts what was put on screen: a text that comes in parts stops coming when another one has begun.
    n_begun: Cell<u32>,
    /// The step that the reader picked; none: the newest.
    picked: Cell<Option<usize>>,
    /// The panel shows an older step than the newest, which it should follow.
    is_behind: Cell<bool>,
    drawn_ms: Cell<f64>,
    place: TextCell,
    /// Says that the run on screen is recorded.
    recorded: HtmlElement,
    follow: HtmlElement,
    pub status: Status,
}

impl Stage {
    pub fn new() -> Rc<Self> {
        Rc::new_cyclic(|weak: &Weak<Self>| {
            let (picker, follower, scrubbed, moved) = (weak.clone(), weak.clone(), weak.clone(), weak.clone());
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
                scrubber: Scrubber::new(move |index| {
                    if let Some(stage) = scrubbed.upgrade() {
                        stage.pick(index);
                    }
                }),
                what_if: WhatIfPanel::new(move |is_back| {
                    if let Some(stage) = moved.upgrade() {
                        stage.move_settings(is_back);
                    }
                }),
                what_if_note: TextCell::of_id("if-step"),
                speed: SpeedView::new(),
                gauge: Gauge::new(),
                time_strip: TimeStrip::new(),
                run: RefCell::default(),
                steps: RefCell::default(),
                branches: RefCell::default(),
                branch_view: BranchView::new(),
                n_begun: Cell::new(0),
                picked: Cell::new(None),
                is_behind: Cell::new(false),
                drawn_ms: Cell::new(0.0),
                place: TextCell::of_id("step-place"),
                recorded: by_id("recorded"),
                follow,
                status: Status::new(),
            }
        })
    }

    pub fn say(&self, text: &str) {
        self.status.say(text);
    }

    pub fn fail(&self, error: &Error) {
        self.status.fail(error);
    }

    pub fn begin(&self, info: &Rc<RunInfo>, prompt: &str) {
        let was_recorded = self.run.borrow_mut().replace(Rc::clone(info)).is_some_and(|run| run.is_recorded);
        if was_recorded != info.is_recorded {
            self.speed.forget();
        }
        self.recorded.set_hidden(!info.is_recorded);
        self.picked.set(None);
        self.is_behind.set(false);
        self.follow.set_hidden(true);
        match info.branch_at {
            // The common part is on screen already.
            Some(at) => self.branches.borrow_mut().leave(at),
            None => {
                self.clear(prompt);
                self.branches.borrow_mut().begin();
            }
        }
        self.show_branches();
        self.what_if.begin(info);
        self.what_if_note.set("");
        self.speed.begin(info);
        self.time_strip.begin();
        self.say(info.message);
    }

    pub fn set_prompt(&self, prompt: &str) {
        self.output.set_prompt(prompt);
    }

    /// Shows the steps of one frame: their chips, and the newest one in the panel unless the reader looks at another or it was
    /// drawn just now: then [`Stage::catch_up`] is due.
    pub fn extend(self: &Rc<Self>, new: Vec<StepRecord>, is_held: bool, now_ms: f64) {
        let Some(run) = self.run.borrow().clone() else { return };
        self.output.extend(&new);
        self.speed.extend(&new, &run, is_held, now_ms);
        self.gauge.show(new.last().map_or(0, |step| step.position + 1));
        let n_before = self.steps.borrow().len();
        self.steps.borrow_mut().extend(new.into_iter().map(Rc::new));
        self.mark_current();
        self.is_behind.set(self.picked.get().is_none());
        if is_held || now_ms - self.drawn_ms.get() >= PANEL_MS {
            self.catch_up(now_ms);
        }
        let n_steps = self.steps.borrow().len();
        if is_held {
            self.show_place();
        } else {
            let shown = self.picked.get().unwrap_or(n_steps - 1);
            self.scrubber.follow(shown, n_steps, &place(shown, n_steps), now_ms);
        }
        if self.what_if.is_on() {
            self.what_if.judge_new(n_before..n_steps);
            self.judge_later();
        }
        if run.branch_at == Some(n_before) {
            self.branches.borrow_mut().keep(&self.steps.borrow());
            self.show_branches();
        }
        self.time_strip.extend(&self.steps.borrow()[n_before..], now_ms);
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
        self.show_place();
        self.speed.end(outcome.as_ref().ok(), run.options.kv_cache, was_paused);
        self.keep_text();
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
            self.keep_text();
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
        self.show_place();
    }

    /// The reader has moved a setting of "what if", or put all back: the step on screen first, then the others.
    fn move_settings(self: &Rc<Self>, is_back: bool) {
        let Some(run) = self.run.borrow().clone() else { return };
        self.what_if.read(&run, is_back);
        self.show_current();
        // What is in view is judged before what is not.
        let n_steps = self.steps.borrow().len();
        self.what_if.judge_from(self.picked.get().unwrap_or(n_steps).saturating_sub(N_AROUND), n_steps);
        self.judge_later();
    }

    fn judge_later(self: &Rc<Self>) {
        let stage = Rc::downgrade(self);
        self.what_if.later(move || {
            if let Some(stage) = stage.upgrade()
                && stage.what_if.judge_slice(&stage.steps.borrow(), |at, verdict| stage.output.set_verdict(at, verdict))
            {
                stage.judge_later();
            }
        });
    }

    /// The slider, at the step on screen.
    pub fn show_place(&self) {
        let n_steps = self.steps.borrow().len();
        if let Some(last) = n_steps.checked_sub(1) {
            let index = self.picked.get().unwrap_or(last).min(last);
            self.scrubber.show(index, n_steps, &place(index, n_steps));
        }
    }

    fn follow_newest(&self) {
        self.picked.set(None);
        self.follow.set_hidden(true);
        self.show_current();
        self.show_place();
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
            self.show_step(&self.steps.borrow()[index], run);
        }
    }
}

impl Stage {
    /// As it was drawn, or as it would have been.
    fn show_step(&self, step: &StepRecord, run: &RunInfo) {
        let recomputed = self.what_if.recompute(step, run);
        let note = match &recomputed {
            None if self.what_if.is_on() => "Not known from what was kept: shown as it was drawn.".to_owned(),
            None => String::new(),
            Some((other, _)) if other.id == step.id => format!("Here {} all the same.", spelt(&step.bytes)),
            Some((other, _)) => format!("Here {} instead of {}.", spelt(&other.bytes), spelt(&step.bytes)),
        };
        self.what_if_note.set(&note);
        match &recomputed {
            Some((step, run)) => self.inspector.show(step, run),
            None => self.inspector.show(step, run),
        }
    }

    /// An empty text after `prompt`.
    fn clear(&self, prompt: &str) {
        self.n_begun.set(self.n_begun.get().wrapping_add(1));
        self.steps.borrow_mut().clear();
        self.picked.set(None);
        self.follow.set_hidden(true);
        self.place.set("no step yet");
        self.output.begin(prompt);
        self.inspector.clear();
        self.scrubber.clear();
    }
}

/// Texts that are there already: branches, recorded runs.
impl Stage {
    /// The run on screen and its steps so far.
    pub fn on_screen(&self) -> Option<(Rc<RunInfo>, Vec<Rc<StepRecord>>)> {
        self.run.borrow().as_ref().map(|run| (Rc::clone(run), self.steps.borrow().clone()))
    }

    pub fn n_steps(&self) -> usize {
        self.steps.borrow().len()
    }

    /// Which step the panel shows.
    pub fn current(&self) -> Option<usize> {
        let last = self.steps.borrow().len().checked_sub(1)?;
        Some(self.picked.get().unwrap_or(last).min(last))
    }

    pub fn branches(&self) -> Ref<'_, Branches> {
        self.branches.borrow()
    }

    /// Shows the text of a branch; no run is in progress.
    pub async fn show_branch(&self, branch: usize, info: RunInfo, prompt: &str) {
        let steps = self.branches.borrow().steps(branch);
        self.branches.borrow_mut().show(branch);
        self.show_text(info, prompt, steps).await;
    }

    /// Shows the beginning of the text on screen, from which a branch is to leave.
    pub async fn show_beginning(&self, n_steps: usize, info: RunInfo, prompt: &str) {
        self.branches.borrow_mut().keep(&self.steps.borrow());
        let steps = self.steps.borrow().iter().take(n_steps).cloned().collect();
        self.show_text(info, prompt, steps).await;
    }

    /// Shows a run that was made elsewhere.
    pub async fn show_recorded(&self, info: RunInfo, prompt: &str, steps: Vec<Rc<StepRecord>>) {
        {
            let mut branches = self.branches.borrow_mut();
            branches.begin();
            branches.keep(&steps);
            branches.set_writing(false);
        }
        self.show_text(info, prompt, steps).await;
    }

    /// Puts steps on screen, so many a frame that none takes long.
    async fn show_text(&self, info: RunInfo, prompt: &str, steps: Vec<Rc<StepRecord>>) {
        const N_A_FRAME: usize = 256;
        let info = Rc::new(info);
        self.recorded.set_hidden(!info.is_recorded);
        *self.run.borrow_mut() = Some(Rc::clone(&info));
        self.clear(prompt);
        self.what_if.begin(&info);
        self.what_if_note.set("");
        // First, so that chips have their marks from the start.
        self.show_branches();
        let begun = self.n_begun.get();
        for (i, part) in steps.chunks(N_A_FRAME).enumerate() {
            if i > 0 {
                dom::next_frame().await;
            }
            if self.n_begun.get() != begun {
                return;
            }
            self.output.extend(part);
            self.steps.borrow_mut().extend_from_slice(part);
        }
        self.output.follow();
        self.gauge.show(steps.last().map_or(0, |step| step.position + 1));
        self.show_current();
        self.show_place();
    }

    /// The text on screen is whole.
    fn keep_text(&self) {
        {
            let mut branches = self.branches.borrow_mut();
            branches.keep(&self.steps.borrow());
            branches.set_writing(false);
        }
        self.show_branches();
    }

    fn show_branches(&self) {
        let branches = self.branches.borrow();
        let shown = branches.all().get(branches.shown());
        self.output.mark_branches(shown.map_or(0, |branch| branch.at), &branches.forks());
        self.branch_view.show(&branches);
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
    format!("{n}: {why}. Click a token to see its step, a candidate to branch from there. Seed {}.", result.seed)
}
