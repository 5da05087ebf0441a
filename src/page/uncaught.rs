//! What nothing has caught: panics of the page's own wasm, errors and rejected promises of its scripts. They end where every
//! failure does.
//!
//! A panic leaves things half done and borrowed for good, so this instance of the wasm is done with: it stops listening, and
//! `www/page_loader.js` starts another one on fresh markup. That one says what happened.
//!
//! Invariant: prevents nothing; the browser's console shows what it always does.

use super::dom;
use crate::error::Error;
use js_sys::Reflect;
use std::cell::{Cell, RefCell};
use wasm_bindgen::{JsValue, prelude::*};
use web_sys::ErrorEvent;

thread_local! {
    /// What the panic said; the trap that follows it says only `unreachable`.
    static PANIC: RefCell<Option<String>> = const { RefCell::new(None) };
    static IS_OVER: Cell<bool> = const { Cell::new(false) };
}

#[wasm_bindgen]
extern "C" {
    #[wasm_bindgen(extends = web_sys::Event)]
    type PromiseRejectionEvent;
    #[wasm_bindgen(method, getter, structural)]
    fn reason(this: &PromiseRejectionEvent) -> JsValue;

    /// Of `www/page_loader.js`.
    #[wasm_bindgen(js_namespace = nucleus, js_name = startAgain)]
    fn start_again(said: &str);
}

/// Whether this instance has panicked. Timers and frames that still come are not to be heeded.
pub fn is_over() -> bool {
    IS_OVER.get()
}

/// Calls `on_failure` with each error that nothing caught, and `on_panic` when this instance is done with, which is to tell those
/// who wait for it.
pub fn watch(on_failure: impl Fn(&Error) + Clone + 'static, on_panic: impl Fn(&Error) + Clone + 'static) {
    std::panic::set_hook(Box::new(|info| {
        console_error_panic_hook::hook(info);
        PANIC.set(Some(info.to_string()));
    }));
    let judge = move |said: String, is_ours: bool| match PANIC.take() {
        _ if is_over() => {}
        Some(panic) => {
            IS_OVER.set(true);
            dom::stop_listening();
            let error = reported(&panic);
            start_again(&error.to_string());
            on_panic(&error);
        }
        None if is_ours => on_failure(&reported(&said)),
        None => {}
    };
    let caught = judge.clone();
    dom::on_always(&dom::window(), "error", move |event: ErrorEvent| {
        // An extension's scripts are not this page's; and an observer that is served in the next frame has not failed.
        let is_ours = !event.filename().contains("-extension:") && !event.message().starts_with("ResizeObserver loop");
        caught(event.message(), is_ours);
    });
    dom::on_always(&dom::window(), "unhandledrejection", move |event: PromiseRejectionEvent| {
        let reason = event.reason();
        let text = |name: &str| Reflect::get(&reason, &name.into()).ok().and_then(|text| text.as_string());
        let said = text("message").or_else(|| reason.as_string());
        // What `window.nucleus` refuses has a kind, and has been said.
        let is_ours = !reason.is_object() || text("kind").is_none();
        judge(said.unwrap_or_else(|| "a promise was rejected".to_owned()), is_ours);
    });
}

fn reported(said: &str) -> Error {
    let words: Vec<&str> = said.split_whitespace().collect();
    Error::PageFailed(format!("It reported: {}.", words.join(" ").trim_end_matches('.')))
}
