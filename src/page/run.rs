//! One run at a time: starting it, pacing it by frames, ending it.
//!
//! What arrives is queued; a frame drains the queue, paints once and grants more credit (`pacing`). In a hidden tab there
//! are no frames, so an interval takes over, and likewise in a run that nothing paces, which is painted less often. A run that the reader walks through gets one step of credit at a time,
//! and slow motion one at each of its beats.
//!
//! Invariant: the only place that grants credit; knows steps, not what they look like.

use super::client::{Client, unexpected};
use super::convert;
use super::dom;
use super::ladder;
use super::options::Pace;
use super::pacing::{Pacing, Tempo, Tick};
use super::stage::{RunInfo, Stage};
use super::uncaught::is_over;
use crate::clock::now_ms;
use crate::error::{Error, Result};
use crate::protocol::{Command, Credit, Event, RunResult, StepRecord};
use futures_channel::oneshot;
use gloo_timers::callback::Interval;
use js_sys::Function;
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::{Rc, Weak};
use wasm_bindgen::{JsCast, prelude::*};

/// Prompts shorter than this are read before a message about it could be.
const N_LONG_PROMPT: u32 = 256;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RunState {
    Idle,
    Running,
    /// Waits for the reader to ask for the next token.
    Paused,
}

/// How a run begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Start {
    Paced(Pace),
    OneToken,
}

pub struct Runs {
    client: Client,
    stage: Rc<Stage>,
    active: RefCell<Option<ActiveRun>>,
    on_change: RefCell<Option<Box<dyn Fn()>>>,
    frame: Closure<dyn FnMut()>,
    is_frame_due: Cell<bool>,
    tempo: Cell<Tempo>,
    /// What calls instead of frames.
    timer: RefCell<Option<(Tick, Interval)>>,
}

struct ActiveRun {
    id: u32,
    info: Rc<RunInfo>,
    pace: Pace,
    is_paused: bool,
    was_paused: bool,
    /// It is being stopped: nothing holds back what has come.
    is_let_go: bool,
    pacing: Pacing,
    /// The prompt has been read: its first step has come.
    has_step: bool,
    arrived: VecDeque<StepRecord>,
    outcome: Option<Result<RunResult>>,
    done: oneshot::Sender<Result<RunResult>>,
    on_step: Option<Function>,
    /// Those who wait for the end of this run: dropping them tells them.
    waiting: Vec<oneshot::Sender<()>>,
}

impl Runs {
    pub fn new(client: Client, stage: Rc<Stage>) -> Rc<Self> {
        let this = Rc::new_cyclic(|weak: &Weak<Self>| {
            let weak = weak.clone();
            let frame = move || {
                if let Some(runs) = weak.upgrade() {
                    runs.is_frame_due.set(false);
                    runs.tick(Tick::Frame);
                }
            };
            Self {
                client,
                stage,
                active: RefCell::default(),
                on_change: RefCell::default(),
                frame: Closure::new(frame),
                is_frame_due: Cell::new(false),
                tempo: Cell::new(Tempo::Full),
                timer: RefCell::default(),
            }
        });
        let runs = Rc::clone(&this);
        dom::on(&dom::document(), "visibilitychange", move |_: web_sys::Event| runs.choose_clock());
        this
    }

    /// Called whenever [`Runs::state`] may have changed.
    pub fn on_change(&self, callback: impl Fn() + 'static) {
        *self.on_change.borrow_mut() = Some(Box::new(callback));
    }

    pub fn state(&self) -> RunState {
        match self.active.borrow().as_ref() {
            None => RunState::Idle,
            Some(run) if run.is_paused => RunState::Paused,
            Some(_) => RunState::Running,
        }
    }

    /// What the run in progress was started with.
    pub fn info(&self) -> Option<Rc<RunInfo>> {
        self.active.borrow().as_ref().map(|run| Rc::clone(&run.info))
    }

    /// Starts a run; its outcome comes through the receiver once all of it has been painted.
    pub fn start(
        self: &Rc<Self>,
        info: RunInfo,
        prompt: &str,
        start: Start,
        on_step: Option<Function>,
    ) -> Result<oneshot::Receiver<Result<RunResult>>> {
        if self.active.borrow().is_some() {
            return Err(Error::Busy("A run is in progress: stop it, or wait for its end.".into()));
        }
        let (credit, n_granted) = match start {
            Start::OneToken => (Credit::Steps(1), 1),
            Start::Paced(Pace::Frame) => (Credit::Steps(Pacing::first_credit()), Pacing::first_credit()),
            Start::Paced(Pace::Free) => (Credit::Unlimited, u32::MAX),
        };
        let (done, receiver) = oneshot::channel();
        let info = Rc::new(info);
        let is_paused = start == Start::OneToken;
        let mut pacing = Pacing::new(n_granted);
        if is_paused {
            pacing.hold();
            pacing.one_more();
        }
        self.stage.begin(&info, prompt);
        let options = info.options.clone();
        *self.active.borrow_mut() = Some(ActiveRun {
            id: 0,
            info,
            pace: if start == Start::Paced(Pace::Free) { Pace::Free } else { Pace::Frame },
            is_paused,
            was_paused: is_paused,
            is_let_go: false,
            pacing,
            has_step: false,
            arrived: VecDeque::new(),
            outcome: None,
            done,
            on_step,
            waiting: Vec::new(),
        });
        let runs = Rc::downgrade(self);
        let id = self.client.open(Command::Generate { options, credit }, &[], move |event| {
            if let Some(runs) = runs.upgrade() {
                runs.receive(event);
            }
        });
        if let Some(run) = self.active.borrow_mut().as_mut() {
            run.id = id;
        }
        self.choose_clock();
        self.changed();
        Ok(receiver)
    }

    /// Resolves when the run that is in progress at this call, if any, has ended; a later one is not waited for.
    pub fn ended(&self) -> impl Future<Output = ()> + use<> {
        let receiver = self.active.borrow_mut().as_mut().map(|run| {
            let (sender, receiver) = oneshot::channel();
            run.waiting.push(sender);
            receiver
        });
        async move {
            if let Some(receiver) = receiver {
                // It only ever ends by the sender's being dropped.
                let _ = receiver.await;
            }
        }
    }

    /// Switches the KV cache of the run in progress, if any, from its next token on.
    pub fn set_kv_cache(&self, on: bool) {
        let run = self.active.borrow().as_ref().map(|run| run.id);
        if let Some(run) = run {
            self.client.send(Command::SetKvCache { run, on });
        }
    }

    /// Lets a paused run show one more step.
    pub fn step(&self) {
        let grant = self.active.borrow_mut().as_mut().filter(|run| run.is_paused).and_then(|run| {
            let credit = run.pacing.one_more()?;
            Some(Command::Grant { run: run.id, credit: Credit::Steps(credit) })
        });
        if let Some(grant) = grant {
            self.client.send(grant);
        }
        self.request_frame();
    }

    /// Pauses the run in progress, if the page paces it: what has been granted is still computed, but not shown.
    pub fn pause(&self) {
        if let Some(run) = self.active.borrow_mut().as_mut().filter(|run| run.pace == Pace::Frame) {
            (run.is_paused, run.was_paused) = (true, true);
            run.pacing.hold();
        }
        self.stage.show_place();
        self.changed();
    }

    /// Shows what has come of the run in progress, at full speed: it is being stopped.
    pub fn let_go(&self) {
        if let Some(run) = self.active.borrow_mut().as_mut() {
            run.is_let_go = true;
            run.pacing.release();
        }
        self.request_frame();
    }

    /// Sets how fast runs that the page paces are shown, from now on.
    pub fn set_tempo(&self, tempo: Tempo) {
        self.tempo.set(tempo);
        self.request_frame();
    }

    /// Whether there is a run that [`Runs::pause`] pauses.
    pub fn can_pause(&self) -> bool {
        self.active.borrow().as_ref().is_some_and(|run| run.pace == Pace::Frame && !run.is_paused)
    }

    /// Lets a paused run go on by itself.
    pub fn resume(self: &Rc<Self>) {
        if let Some(run) = self.active.borrow_mut().as_mut() {
            run.is_paused = false;
            run.pacing.release();
        }
        self.changed();
        self.tick(Tick::Frame);
    }

    fn receive(self: &Rc<Self>, event: Event) {
        let on_step = {
            let mut active = self.active.borrow_mut();
            let Some(run) = active.as_mut() else { return };
            match event {
                Event::Step(mut step) => {
                    let now_ms = now_ms();
                    if !run.is_paused {
                        self.stage.speed.arrive(now_ms);
                    }
                    self.stage.time_strip.arrive(now_ms);
                    if !std::mem::replace(&mut run.has_step, true) {
                        // Where reading the prompt was the message, it is over.
                        self.stage.say(run.info.message);
                    }
                    let call = run.on_step.clone().map(|function| (function, convert::step(&step)));
                    ladder::trim(&mut step);
                    run.arrived.push_back(step);
                    call
                }
                Event::Prefill { done, total } => {
                    if !run.has_step {
                        self.stage.gauge.show(done);
                    }
                    // Without the cache every token has a prefill of its own; only the first one reads the prompt.
                    if total > N_LONG_PROMPT && !run.has_step {
                        self.stage.say(&format!("Reading the prompt: {done} of {total} tokens."));
                    }
                    None
                }
                Event::Finished(result) => {
                    run.outcome = Some(Ok(result));
                    None
                }
                Event::Failed(error) => {
                    run.outcome = Some(Err(error));
                    None
                }
                other => {
                    run.outcome = Some(Err(unexpected(&other)));
                    None
                }
            }
        };
        if let Some((function, step)) = on_step
            && let Err(thrown) = function.call1(&JsValue::UNDEFINED, &step)
        {
            // The caller's own error: the run goes on, the console shows it.
            web_sys::console::error_1(&thrown);
        }
        self.after_arrival();
    }

    /// A short rest is painted with the end, so that a run never waits for a frame to be over.
    fn after_arrival(self: &Rc<Self>) {
        let (n_arrived, is_over) = match self.active.borrow().as_ref() {
            Some(run) => (run.arrived.len(), run.outcome.is_some()),
            None => return,
        };
        let tick = self.timer.borrow().as_ref().map_or(Tick::Frame, |(tick, _)| *tick);
        if is_over && n_arrived <= tick.n_most() {
            self.tick(tick);
        } else {
            self.request_frame();
        }
    }

    fn tick(self: &Rc<Self>, tick: Tick) {
        if is_over() {
            return;
        }
        let now = now_ms();
        let (steps, tempo, is_held) = {
            let mut active = self.active.borrow_mut();
            let Some(run) = active.as_mut() else { return };
            let tempo = if run.pace == Pace::Free || run.is_let_go { Tempo::Full } else { self.tempo.get() };
            let room = usize::try_from(run.pacing.room(tempo, now)).unwrap_or(usize::MAX);
            let n_new = run.arrived.len().min(tick.n_most()).min(room);
            // A run that the reader slows down says nothing of the engine's speed.
            run.was_paused |= tempo != Tempo::Full;
            (run.arrived.drain(..n_new).collect::<Vec<_>>(), tempo, run.is_paused || tempo != Tempo::Full)
        };
        let n_new = u32::try_from(steps.len()).expect("maxNewTokens is a u32");
        if steps.is_empty() {
            self.stage.catch_up(now);
        } else {
            self.stage.extend(steps, is_held, now);
        }
        let (grant, has_more, can_show, is_over) = {
            let mut active = self.active.borrow_mut();
            let Some(run) = active.as_mut() else { return };
            let credit = if run.is_paused || run.pace == Pace::Free {
                run.pacing.paint(n_new);
                None
            } else if let Tempo::Every { ms } = tempo {
                run.pacing.tick_slowly(n_new, ms, now)
            } else {
                run.pacing.tick(tick, n_new)
            };
            let grant = credit.map(|credit| Command::Grant { run: run.id, credit: Credit::Steps(credit) });
            let can_show = !run.is_paused || run.is_let_go || run.pacing.room(tempo, now) > 0;
            (grant, !run.arrived.is_empty(), can_show, run.outcome.is_some())
        };
        match grant {
            Some(grant) if !is_over => self.client.send(grant),
            _ => {}
        }
        if has_more && can_show {
            self.request_frame();
        } else if is_over && !has_more {
            self.finish();
        } else if self.stage.is_behind() {
            self.request_frame();
        }
    }

    fn finish(&self) {
        let Some(ActiveRun { outcome: Some(outcome), done, was_paused, waiting, .. }) = self.active.borrow_mut().take()
        else {
            return;
        };
        self.timer.borrow_mut().take();
        self.stage.end(&outcome, was_paused);
        self.changed();
        // The page's own Generate button waits for nothing: then nobody receives.
        let _ = done.send(outcome);
        drop(waiting);
    }

    /// Frames while the tab is shown and the run is paced, else an interval.
    fn choose_clock(self: &Rc<Self>) {
        let tick = match self.active.borrow().as_ref().map(|run| run.pace) {
            Some(_) if dom::document().hidden() => Tick::HiddenTimer,
            Some(Pace::Free) => Tick::FreeTimer,
            _ => Tick::Frame,
        };
        let runs = Rc::downgrade(self);
        *self.timer.borrow_mut() = tick.interval_ms().map(|interval| {
            let call = move || {
                if let Some(runs) = runs.upgrade() {
                    runs.tick(tick);
                }
            };
            (tick, Interval::new(interval, call))
        });
        self.request_frame();
    }

    fn request_frame(&self) {
        if self.timer.borrow().is_none() && self.active.borrow().is_some() && !self.is_frame_due.replace(true) {
            let frame = self.frame.as_ref().unchecked_ref();
            dom::window().request_animation_frame(frame).expect("a window has animation frames");
        }
    }

    fn changed(&self) {
        if let Some(on_change) = self.on_change.borrow().as_ref() {
            on_change();
        }
    }
}
