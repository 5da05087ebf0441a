//! Long work in slices, between which the page is drawn and heard.
//!
//! Invariant: a slice ends a few milliseconds after it began, if its work asks often enough.

use crate::clock::now_ms;
use futures_channel::oneshot;
use gloo_timers::callback::Timeout;

/// Half a frame.
const SLICE_MS: f64 = 8.0;

pub struct Slices {
    began_ms: f64,
}

impl Slices {
    pub fn new() -> Self {
        Self { began_ms: now_ms() }
    }

    /// Called between pieces of the work: ends the slice if it has been long enough.
    pub async fn breathe(&mut self) {
        if now_ms() - self.began_ms > SLICE_MS {
            next_task().await;
            self.began_ms = now_ms();
        }
    }
}

/// Resolves in a task of its own.
async fn next_task() {
    let (done, waiting) = oneshot::channel::<()>();
    let timer = Timeout::new(0, move || drop(done));
    // It only ever ends by the sender's being dropped.
    let _ = waiting.await;
    drop(timer);
}
