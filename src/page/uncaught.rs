//! What nothing has caught: panics of the page's own wasm, errors and rejected promises of its scripts. They end where every
//! failure does.
//!
//! A panic leaves what it was in the middle of half done. So who is told of it gives that up, whatever it was; the rest of
//! the page goes on.
//!
//! Invariant: prevents nothing; the browser's console shows what it always does.

use super::dom;
use super::words::shortened;
use crate::error::Error;
use js_sys::Reflect;
use std::cell::RefCell;
use wasm_bindgen::{JsValue, prelude::*};
use web_sys::ErrorEvent;

thread_local! {
    /// What the last panic said; the trap that follows it says only `unreachable`.
    static PANIC: RefCell<Option<String>> = const { RefCell::new(None) };
}

#[wasm_bindgen]
extern "C" {
    #[wasm_bindgen(extends = web_sys::Event)]
    type PromiseRejectionEvent;
    #[wasm_bindgen(method, getter, structural)]
    fn reason(this: &PromiseRejectionEvent) -> JsValue;
}

/// Calls `on_failure` with each of them; true: it was a panic of this wasm.
pub fn watch(on_failure: impl Fn(&Error, bool) + Clone + 'static) {
    std::panic::set_hook(Box::new(|info| {
        console_error_panic_hook::hook(info);
        PANIC.set(Some(info.to_string()));
    }));
    let told = on_failure.clone();
    dom::on(&dom::window(), "error", move |event: ErrorEvent| {
        // An extension's scripts are not this page's; and an observer that is served in the next frame has not failed.
        let is_ours = !event.filename().contains("-extension:") && !event.message().starts_with("ResizeObserver loop");
        let panic = PANIC.take();
        if is_ours || panic.is_some() {
            told(&failure(panic.as_deref().unwrap_or(&event.message())), panic.is_some());
        }
    });
    dom::on(&dom::window(), "unhandledrejection", move |event: PromiseRejectionEvent| {
        let reason = event.reason();
        let text = |name: &str| Reflect::get(&reason, &name.into()).ok().and_then(|text| text.as_string());
        let panic = PANIC.take();
        // What `window.nucleus` refuses has a kind, and has been said.
        if panic.is_some() || !reason.is_object() || text("kind").is_none() {
            let said = panic.clone().or_else(|| text("message")).or_else(|| reason.as_string());
            on_failure(&failure(&said.unwrap_or_else(|| "a promise was rejected".to_owned())), panic.is_some());
        }
    });
}

fn failure(said: &str) -> Error {
    Error::PageFailed(format!("It reported: {}.", shortened(said.trim_end_matches('.'))))
}
