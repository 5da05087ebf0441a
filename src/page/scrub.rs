//! Time travel: a slider over the steps, and a button on each side of it.
//!
//! Invariant: a run moves the slider a few times a second, not at every frame.

use super::dom::{self, by_id, on};
use std::cell::Cell;
use std::rc::Rc;
use web_sys::{Event, HtmlButtonElement, HtmlInputElement};

/// The slider follows a run at this rhythm.
const FOLLOW_MS: f64 = 250.0;

pub struct Scrubber {
    slider: HtmlInputElement,
    back: HtmlButtonElement,
    forward: HtmlButtonElement,
    followed_ms: Cell<f64>,
}

impl Scrubber {
    /// `pick` is called with the index of the step that the reader goes to.
    pub fn new(pick: impl Fn(usize) + 'static) -> Self {
        let this = Self {
            slider: by_id("scrub"),
            back: by_id("scrub-back"),
            forward: by_id("scrub-forward"),
            followed_ms: Cell::new(f64::NEG_INFINITY),
        };
        let pick = Rc::new(pick);
        let (slider, picked) = (this.slider.clone(), Rc::clone(&pick));
        on(&this.slider, "input", move |_: Event| picked(index(&slider)));
        let (slider, picked) = (this.slider.clone(), Rc::clone(&pick));
        on(&this.back, "click", move |_: Event| picked(index(&slider).saturating_sub(1)));
        let slider = this.slider.clone();
        on(&this.forward, "click", move |_: Event| pick(index(&slider) + 1));
        this
    }

    /// No steps yet.
    pub fn clear(&self) {
        self.followed_ms.set(f64::NEG_INFINITY);
        self.slider.set_disabled(true);
        self.back.set_disabled(true);
        self.forward.set_disabled(true);
    }

    /// Follows a run, now and then.
    pub fn follow(&self, index: usize, n_steps: usize, place: &str, now_ms: f64) {
        if now_ms - self.followed_ms.get() >= FOLLOW_MS {
            self.followed_ms.set(now_ms);
            self.show(index, n_steps, place);
        }
    }

    /// Stands at step `index` of `n_steps`, which `place` says in words.
    pub fn show(&self, index: usize, n_steps: usize, place: &str) {
        self.slider.set_disabled(n_steps == 0);
        self.slider.set_max(&n_steps.saturating_sub(1).to_string());
        self.slider.set_value(&index.to_string());
        dom::set(&self.slider, "aria-valuetext", place);
        self.back.set_disabled(index == 0);
        self.forward.set_disabled(index + 1 >= n_steps);
    }
}

fn index(slider: &HtmlInputElement) -> usize {
    slider.value_as_number() as usize
}
