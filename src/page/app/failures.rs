//! Failures that no call returns: a crashed engine, a panic of this wasm, and what nothing has caught.
//!
//! Invariant: each ends in the status line, and leaves a page that can go on.

use super::App;
use crate::error::Error;
use crate::page::api;
use crate::page::run::RunState;
use crate::page::uncaught;
use std::rc::Rc;

impl App {
    pub(super) fn listen_for_failures(self: &Rc<Self>) {
        let app = Rc::downgrade(self);
        self.client.on_crash(move |error| {
            if let Some(app) = app.upgrade() {
                app.set_model(None);
                app.picker.end(None);
                app.stage.fail(error);
            }
        });
        let (app, over) = (Rc::downgrade(self), Rc::downgrade(self));
        let on_failure = move |error: &Error| {
            if let Some(app) = app.upgrade() {
                app.stage.fail(error);
            }
        };
        let on_panic = move |error: &Error| {
            api::reject_all(error);
            if let Some(app) = over.upgrade() {
                app.client.end("The page has begun anew.");
            }
        };
        uncaught::watch(on_failure, on_panic);
    }

    /// What a call of `window.nucleus` was refused. While something else is in progress the line is its own.
    pub fn say_failure(&self, error: &Error) {
        if self.runs.state() == RunState::Idle && self.loading.borrow().is_none() {
            self.stage.fail(error);
        }
    }
}
