//! Failures that no call returns: a crashed engine, a panic of this wasm, and what nothing has caught.
//!
//! Invariant: each ends in the status line, and leaves a page that can go on.

use super::App;
use crate::error::Error;
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
        let app = Rc::downgrade(self);
        uncaught::watch(move |error, is_panic| {
            if let Some(app) = app.upgrade() {
                if is_panic {
                    app.give_up();
                }
                app.stage.fail(error);
            }
        });
    }

    /// This wasm has panicked: what it was in the middle of is given up, so that the next thing can be asked for.
    fn give_up(&self) {
        self.is_starting.set(false);
        self.is_exercise.set(false);
        let was_loading = self.loading.try_borrow_mut().is_ok_and(|mut loading| loading.take().is_some());
        if self.runs.give_up() || was_loading {
            self.client.end("The page gave its work up.");
        }
        self.refresh();
    }

    /// What a call of `window.nucleus` was refused. While something else is in progress the line is its own.
    pub fn say_failure(&self, error: &Error) {
        if self.runs.state() == RunState::Idle && self.loading.borrow().is_none() {
            self.stage.fail(error);
        }
    }
}
