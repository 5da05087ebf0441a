//! The controls of "what if", and the steps judged by them, a slice at a time.
//!
//! Invariant: no slice takes longer than a few milliseconds, however long the run; nothing here changes a run.

use super::dom::{TextCell, by_id, on};
use super::stage::RunInfo;
use super::what_if::{Settings, Verdict, WhatIf};
use super::words::{count, grouped, setting};
use crate::clock::now_ms;
use crate::protocol::StepRecord;
use gloo_timers::callback::Timeout;
use std::cell::RefCell;
use std::collections::VecDeque;
use std::ops::Range;
use std::rc::Rc;
use web_sys::{Event, HtmlButtonElement, HtmlElement, HtmlInputElement};

/// A task judges steps for so long, and looks at the clock after so many.
const SLICE_MS: f64 = 6.0;
const N_BETWEEN_LOOKS: usize = 16;

pub struct WhatIfPanel {
    sliders: [(HtmlInputElement, HtmlElement); 3],
    top_k: HtmlInputElement,
    back: HtmlButtonElement,
    text: TextCell,
    what_if: RefCell<Option<WhatIf>>,
    verdicts: RefCell<Vec<Option<Verdict>>>,
    /// Steps that wait to be judged.
    queue: RefCell<VecDeque<Range<usize>>>,
    timer: RefCell<Option<Timeout>>,
}

impl WhatIfPanel {
    /// `on_change` is called when the reader has moved a setting, and with true for all as it was drawn.
    pub fn new(on_change: impl Fn(bool) + 'static) -> Self {
        let slider = |id: &str| (by_id(id), by_id(&format!("{id}-value")));
        let this = Self {
            sliders: ["if-temperature", "if-top-p", "if-min-p"].map(slider),
            top_k: by_id("if-top-k"),
            back: by_id("as-drawn"),
            text: TextCell::of_id("if-result"),
            what_if: RefCell::default(),
            verdicts: RefCell::default(),
            queue: RefCell::default(),
            timer: RefCell::default(),
        };
        let on_change = Rc::new(on_change);
        let inputs = this.sliders.iter().map(|(input, _)| input).chain([&this.top_k]);
        for input in inputs {
            let moved = Rc::clone(&on_change);
            on(input, "input", move |_: Event| moved(false));
        }
        on(&this.back, "click", move |_: Event| on_change(true));
        this
    }

    /// A run begins: everything as it is drawn.
    pub fn begin(&self, run: &RunInfo) {
        self.timer.take();
        *self.what_if.borrow_mut() = None;
        self.verdicts.borrow_mut().clear();
        self.queue.borrow_mut().clear();
        self.back.set_disabled(true);
        self.show_settings(Settings::of(&run.options.sampling));
        self.text.set(AS_DRAWN);
    }

    /// Takes over the settings of the controls, or puts them back to the run's own.
    pub fn read(&self, run: &RunInfo, is_back: bool) {
        self.timer.take();
        let own = Settings::of(&run.options.sampling);
        let settings = if is_back { own } else { self.settings() };
        self.show_settings(settings);
        let what_if = (settings != own).then(|| WhatIf::new(&run.options, settings, run.vocab_size));
        self.back.set_disabled(what_if.is_none());
        let (what_if, text) = match what_if {
            None => (None, AS_DRAWN.to_owned()),
            Some(Ok(what_if)) => (Some(what_if), "Judging the steps…".to_owned()),
            Some(Err(error)) => (None, error.to_string()),
        };
        self.text.set(&text);
        *self.what_if.borrow_mut() = what_if;
    }

    pub fn is_on(&self) -> bool {
        self.what_if.borrow().is_some()
    }

    /// The step with the moved settings, and a run that has them.
    pub fn recompute(&self, step: &StepRecord, run: &RunInfo) -> Option<(StepRecord, RunInfo)> {
        let mut what_if = self.what_if.borrow_mut();
        let what_if = what_if.as_mut()?;
        let step = what_if.recompute(step)?;
        let mut options = run.options.clone();
        options.sampling = what_if.sampling().clone();
        Some((step, RunInfo { options, sha256: run.sha256.clone(), ..*run }))
    }

    /// Judges all `n_steps` steps anew, those from `first` on before the others.
    pub fn judge_from(&self, first: usize, n_steps: usize) {
        let first = first.min(n_steps);
        *self.queue.borrow_mut() = VecDeque::from([first..n_steps, 0..first]);
    }

    /// Judges these new steps, too.
    pub fn judge_new(&self, steps: Range<usize>) {
        self.queue.borrow_mut().push_back(steps);
    }

    /// Judges steps for a few milliseconds; `mark` hears of each whose verdict changed. True when there is more to do.
    pub fn judge_slice(&self, steps: &[Rc<StepRecord>], mark: impl Fn(usize, Option<Verdict>)) -> bool {
        let start = now_ms();
        let mut what_if = self.what_if.borrow_mut();
        let mut verdicts = self.verdicts.borrow_mut();
        verdicts.resize(steps.len(), None);
        let mut queue = self.queue.borrow_mut();
        let waiting = std::iter::from_fn(|| {
            while queue.front().is_some_and(Range::is_empty) {
                queue.pop_front();
            }
            queue.front_mut().and_then(Iterator::next)
        });
        for (n_judged, at) in (1usize..).zip(waiting) {
            let verdict = what_if.as_mut().map(|what_if| what_if.judge(&steps[at]));
            if std::mem::replace(&mut verdicts[at], verdict) != verdict {
                mark(at, verdict);
            }
            if n_judged.is_multiple_of(N_BETWEEN_LOOKS) && now_ms() - start > SLICE_MS {
                return true;
            }
        }
        if what_if.is_some() {
            self.text.set(&summary(&verdicts));
        }
        false
    }

    /// Calls `slice` in a task of its own.
    pub fn later(&self, slice: impl FnOnce() + 'static) {
        *self.timer.borrow_mut() = Some(Timeout::new(0, slice));
    }

    fn settings(&self) -> Settings {
        let [temperature, top_p, min_p] = [0, 1, 2].map(|i| self.sliders[i].0.value_as_number() as f32);
        Settings { temperature, top_p, top_k: self.top_k.value().trim().parse().unwrap_or(0), min_p }
    }

    fn show_settings(&self, settings: Settings) {
        let Settings { temperature, top_p, top_k, min_p } = settings;
        for ((input, output), value) in self.sliders.iter().zip([temperature, top_p, min_p]) {
            if input.value_as_number() as f32 != value {
                input.set_value(&value.to_string());
            }
            output.set_text_content(Some(&setting(value)));
        }
        if self.top_k.value().trim().parse() != Ok(top_k) {
            self.top_k.set_value(&top_k.to_string());
        }
    }
}

const AS_DRAWN: &str = "All is as it was drawn. Move a setting to see what each step would have kept and drawn.";

fn summary(verdicts: &[Option<Verdict>]) -> String {
    let n = |wanted: fn(&Verdict) -> bool| verdicts.iter().flatten().filter(|verdict| wanted(verdict)).count() as u64;
    let n_other = n(|verdict| matches!(verdict, Verdict::Other(_)));
    let n_unknown = n(|verdict| *verdict == Verdict::Unknown);
    let unknown = match n_unknown {
        0 => String::new(),
        n => format!(" Of {} it is not known from the 64 candidates that were kept (dotted).", grouped(n)),
    };
    format!(
        "At {} of {} the same u would have drawn another token (wavy underline).{unknown} Each step is judged alone, on the text \
         as it was written.",
        grouped(n_other),
        count(verdicts.len() as u64, "step")
    )
}
