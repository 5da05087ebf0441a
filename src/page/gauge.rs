//! How full the context is.
//!
//! Invariant: shows the two numbers that it is told.

use super::dom::{self, TextCell, by_id};
use super::words::grouped;
use std::cell::Cell;
use web_sys::HtmlElement;

pub struct Gauge {
    panel: HtmlElement,
    meter: HtmlElement,
    text: TextCell,
    /// Positions of the context; none without a model.
    length: Cell<Option<u32>>,
    used: Cell<u32>,
}

impl Gauge {
    pub fn new() -> Self {
        Self {
            panel: by_id("context"),
            meter: by_id("context-gauge"),
            text: TextCell::of_id("context-text"),
            length: Cell::new(None),
            used: Cell::new(0),
        }
    }

    /// A model was loaded, or is gone.
    pub fn set_length(&self, length: Option<u32>) {
        self.length.set(length);
        self.panel.set_hidden(length.is_none());
        self.show(if length.is_some() { self.used.get() } else { 0 });
    }

    /// So many positions have a token of prompt or text.
    pub fn show(&self, used: u32) {
        self.used.set(used);
        let Some(length) = self.length.get() else { return };
        dom::set(&self.meter, "aria-valuemax", &length.to_string());
        dom::set(&self.meter, "aria-valuenow", &used.min(length).to_string());
        let share = f64::from(used.min(length)) / f64::from(length.max(1));
        dom::style(&self.meter, "--share", &format!("{share:.4}"));
        let text = format!("context {} of {}", grouped(used.into()), grouped(length.into()));
        dom::set(&self.meter, "aria-valuetext", &text);
        self.text.set(&text);
    }
}
