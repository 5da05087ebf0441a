//! The line that says what happens, and, where something went wrong, the button beside it that copies what is known of it.
//!
//! Invariant: every failure of the page ends here, in words; the last one is kept for the diagnostics.

use super::dom::{self, TextCell, by_id, iso_now};
use super::words::explain;
use crate::error::Error;
use std::cell::RefCell;
use web_sys::HtmlElement;

pub struct Status {
    line: HtmlElement,
    /// The button that copies the diagnostics.
    copy: HtmlElement,
    note: TextCell,
    last_failure: RefCell<Option<Failure>>,
}

#[derive(Debug, Clone)]
pub struct Failure {
    pub error: Error,
    /// ISO 8601.
    pub at: String,
}

impl Status {
    pub fn new() -> Self {
        Self {
            line: by_id("status"),
            copy: by_id("copy-diagnostics"),
            note: TextCell::of_id("copied"),
            last_failure: RefCell::default(),
        }
    }

    /// Says what happens, in the live region.
    pub fn say(&self, text: &str) {
        dom::set_if(&self.line, "data-error", "", false);
        self.copy.set_hidden(true);
        self.show(text);
    }

    /// Says what went wrong, what was found, and what to do.
    pub fn fail(&self, error: &Error) {
        dom::set(&self.line, "data-error", error.kind());
        // What the reader stopped is no fault to report.
        self.copy.set_hidden(matches!(error, Error::Cancelled(_)));
        self.show(&explain(error));
        *self.last_failure.borrow_mut() = Some(Failure { error: error.clone(), at: iso_now() });
    }

    /// Says a thing beside the message, until the next one.
    pub fn note(&self, text: &str) {
        self.note.set(text);
    }

    pub fn last_failure(&self) -> Option<Failure> {
        self.last_failure.borrow().clone()
    }

    /// Compared with the document, not with what was said last: after a failed start the page's loader has written here.
    fn show(&self, text: &str) {
        self.note.set("");
        if self.line.text_content().as_deref() != Some(text) {
            self.line.set_text_content(Some(text));
        }
    }
}
