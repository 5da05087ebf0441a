//! How fast a run is shown: at full speed, in slow motion, or paused.
//!
//! Invariant: controls only; the pace itself is kept by `run`.

use super::dom::{self, by_id, on};
use super::pacing::Tempo;
use super::run::Runs;
use std::rc::Rc;
use web_sys::{Event, HtmlButtonElement, HtmlSelectElement};

pub struct TempoControls {
    pause: HtmlButtonElement,
}

impl TempoControls {
    pub fn new(runs: &Rc<Runs>) -> Self {
        let pause: HtmlButtonElement = by_id("pause");
        let paused = Rc::clone(runs);
        on(&pause, "click", move |_: Event| paused.pause());
        let select: HtmlSelectElement = by_id("tempo");
        let (slowed, chosen) = (Rc::clone(runs), select.clone());
        on(&select, "change", move |_: Event| {
            // "full" is no number.
            let per_second: Option<f64> = chosen.value().parse().ok();
            slowed.set_tempo(per_second.map_or(Tempo::Full, |n| Tempo::Every { ms: 1000.0 / n }));
        });
        Self { pause }
    }

    /// Enables what can be used.
    pub fn refresh(&self, can_pause: bool) {
        self.pause.set_disabled(!can_pause);
        dom::set_if(&self.pause, "title", "No run to pause", !can_pause);
    }
}
