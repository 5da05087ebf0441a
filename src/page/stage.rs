//! What the reader watches: the text, the panel about one step, the speeds, and the line that says what happens.
//!
//! It keeps the steps of the run on screen, so that any of them can be looked at again, and those of the texts that left it
//! ([`Branches`]). The panel follows the newest step until the reader picks one.
//!
//! Invariant: draws what it is given; starts and stops nothing.

use super::branch_view::BranchView;
use super::branches::Branches;
use super::dom::{self, TextCell, by_id};
use super::inspector::Inspector;
use super::output::Output;
use super::sentence::place;
use super::speed::SpeedView;
use super::words::explain;
use crate::error::{Error, Result};
use crate::protocol::{GenerateOptions, RunResult, StepRecord};
use std::cell::{Cell, Ref, RefCell};
use std::rc::{Rc, Weak};
use web_sys::{Event, HtmlElement};

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
}

impl RunInfo {
    /// Whether a token was given, not drawn. A step before a branch is its parent run's: there only the missing draw tells.
    pub fn is_forced(&self, step: &StepRecord) -> bool {
        self.options.is_forced(step.index) || step.u.is_none() && self.options.sampling.temperature > 0.0
    }
}

pub struct Stage {
    output: Rc<Output>,
    inspector: Inspector,
    pub speed: SpeedView,
    run: RefCell<Option<Rc<RunInfo>>>,
    steps: RefCell<Vec<Rc<StepRecord>>>,
    branches: RefCell<Branches>,
    branch_view: BranchView,
    /// Counts what was put on screen: a text that comes in parts stops coming when another one has begun.
    n_begun: Cell<u32>,
    /// The step that the reader picked; none: the newest.
    picked: Cell<Option<usize>>,
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
                branches: RefCell::default(),
                branch_view: BranchView::new(),
                n_begun: Cell::new(0),
                picked: Cell::new(None),
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
        self.picked.set(None);
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
        self.speed.begin(info.options.kv_cache);
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
        let is_branching = run.branch_at == Some(self.steps.borrow().len());
        self.steps.borrow_mut().extend(new.into_iter().map(Rc::new));
        self.show_current();
        if is_branching {
            self.branches.borrow_mut().keep(&self.steps.borrow());
            self.show_branches();
        }
    }

    pub fn end(&self, outcome: &Result<RunResult>, was_paused: bool) {
        let Some(run) = self.run.borrow().clone() else { return };
        self.speed.end(outcome.as_ref().ok(), run.options.kv_cache, was_paused);
        {
            let mut branches = self.branches.borrow_mut();
            branches.keep(&self.steps.borrow());
            branches.set_writing(false);
        }
        self.show_branches();
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

    /// An empty text after `prompt`.
    fn clear(&self, prompt: &str) {
        self.n_begun.set(self.n_begun.get().wrapping_add(1));
        self.steps.borrow_mut().clear();
        self.picked.set(None);
        self.follow.set_hidden(true);
        self.place.set("no step yet");
        self.output.begin(prompt);
        self.inspector.clear();
    }
}

/// Texts that are there already: branches, recorded runs.
impl Stage {
    /// The run on screen and its steps so far.
    pub fn on_screen(&self) -> Option<(Rc<RunInfo>, Vec<Rc<StepRecord>>)> {
        self.run.borrow().as_ref().map(|run| (Rc::clone(run), self.steps.borrow().clone()))
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
        *self.run.borrow_mut() = Some(Rc::new(info));
        self.clear(prompt);
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
        self.show_current();
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
