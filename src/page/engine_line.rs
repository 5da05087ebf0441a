//! The line that says what runs the model, and why.
//!
//! Invariant: shows what it is told; the words are `about`'s.

use super::about;
use super::dom::{TextCell, by_id};
use super::words::shortened;
use crate::protocol::ModelInfo;
use web_sys::HtmlElement;

pub struct EngineLine {
    line: HtmlElement,
    name: TextCell,
    reason: TextCell,
    self_test: TextCell,
    details: TextCell,
}

impl EngineLine {
    pub fn new() -> Self {
        Self {
            line: by_id("backend"),
            name: TextCell::of_id("backend-name"),
            reason: TextCell::of_id("backend-reason"),
            self_test: TextCell::of_id("self-test"),
            details: TextCell::of_id("backend-details"),
        }
    }

    /// Which engine, why that one, and how the GPU did; nothing while no model is there.
    pub fn show(&self, model: Option<&ModelInfo>) {
        self.line.set_hidden(model.is_none());
        self.name.set(&model.map_or_else(|| "No engine runs".to_owned(), about::engine));
        self.reason
            .set(&model.map_or_else(|| "No model is loaded.".to_owned(), |model| shortened(&model.backend_reason)));
        self.self_test.set(&model.and_then(about::self_test).unwrap_or_default());
        self.details.set(&model.map(about::details).unwrap_or_default());
    }
}
