//! One request to a server, watched: it ends when the load is stopped, and when nothing arrives for too long.
//!
//! Invariant: knows requests and silence, not what the bytes mean.

use super::answer::{Answer, Asked};
use crate::clock::now_ms;
use gloo_timers::callback::{Interval, Timeout};
use js_sys::{Promise, Reflect, Uint8Array};
use std::cell::Cell;
use std::rc::Rc;
use wasm_bindgen::prelude::*;
use wasm_bindgen_futures::JsFuture;
use web_sys::{
    AbortController, AbortSignal, Headers, ReadableStreamDefaultReader, RequestCache, RequestInit, Response,
    WorkerGlobalScope,
};

/// A connection that brings nothing for so long counts as lost.
pub const PATIENCE_MS: f64 = 15_000.0;

/// Why a connection gave no more.
#[derive(Debug, Clone, PartialEq)]
pub enum Lost {
    /// The reader stopped the load.
    Stopped,
    /// Nothing came for [`PATIENCE_MS`].
    Silent,
    /// What the browser says, which is little.
    Broken(String),
}

pub struct Connection<'a> {
    stop: &'a AbortSignal,
    controller: AbortController,
    /// When something last happened.
    last_ms: Rc<Cell<f64>>,
    is_silent: Rc<Cell<bool>>,
    reader: Option<ReadableStreamDefaultReader>,
    _watch: Interval,
    /// The signal holds it as its handler.
    _on_stop: Closure<dyn Fn()>,
}

impl<'a> Connection<'a> {
    pub fn new(stop: &'a AbortSignal) -> Self {
        let controller = AbortController::new().expect("every browser with wasm has AbortController");
        let (last_ms, is_silent) = (Rc::new(Cell::new(now_ms())), Rc::new(Cell::new(false)));
        let watch = Interval::new(500, {
            let (controller, last_ms, is_silent) = (controller.clone(), Rc::clone(&last_ms), Rc::clone(&is_silent));
            move || {
                if now_ms() - last_ms.get() > PATIENCE_MS {
                    is_silent.set(true);
                    controller.abort();
                }
            }
        });
        let on_stop = Closure::<dyn Fn()>::new({
            let controller = controller.clone();
            move || controller.abort()
        });
        stop.set_onabort(Some(on_stop.as_ref().unchecked_ref()));
        if stop.aborted() {
            controller.abort();
        }
        Self { stop, controller, last_ms, is_silent, reader: None, _watch: watch, _on_stop: on_stop }
    }

    /// Asks for the file, or for what `asked` says of it. `is_stored`: our own cache keeps it, so that the browser's need not.
    pub async fn ask(&mut self, url: &str, asked: Option<Asked<'_>>, is_stored: bool) -> Result<Response, Lost> {
        let options = RequestInit::new();
        options.set_signal(Some(&self.controller.signal()));
        if is_stored {
            options.set_cache(RequestCache::NoStore);
        }
        if let Some(Asked { at, version, is_conditional }) = asked {
            let headers = Headers::new().expect("no headers are valid");
            let set = |name, value: &str| headers.set(name, value).expect("a header that the server sent is valid");
            set("Range", &format!("bytes={at}-"));
            if is_conditional {
                set("If-Range", &version.validator);
            }
            options.set_headers(&headers);
        }
        let scope: WorkerGlobalScope = js_sys::global().unchecked_into();
        self.last_ms.set(now_ms());
        let response = JsFuture::from(scope.fetch_with_str_and_init(url, &options)).await;
        let response: Response = response.map_err(|error| self.lost(&error))?.unchecked_into();
        self.reader = response.body().map(|body| body.get_reader().unchecked_into());
        Ok(response)
    }

    /// The next bytes of the answer; none at its end.
    pub async fn read(&self) -> Result<Option<Uint8Array>, Lost> {
        let Some(reader) = &self.reader else { return Ok(None) };
        // What was done with the last bytes may have taken long.
        self.last_ms.set(now_ms());
        let chunk = JsFuture::from(reader.read()).await.map_err(|error| self.lost(&error))?;
        let value = Reflect::get(&chunk, &"value".into()).unwrap_or(JsValue::UNDEFINED);
        Ok(value.dyn_into().ok())
    }

    fn lost(&self, error: &JsValue) -> Lost {
        if self.stop.aborted() {
            Lost::Stopped
        } else if self.is_silent.get() {
            Lost::Silent
        } else {
            Lost::Broken(error.dyn_ref::<js_sys::Error>().map_or_else(String::new, |error| error.message().into()))
        }
    }
}

impl Drop for Connection<'_> {
    fn drop(&mut self) {
        self.stop.set_onabort(None);
        // Ends what is still on its way; after the end of the answer it does nothing.
        self.controller.abort();
    }
}

/// The headers of an answer, as far as they decide.
pub fn answer(response: &Response) -> Answer {
    let header = |name: &str| response.headers().get(name).ok().flatten();
    Answer {
        status: response.status(),
        content_length: header("content-length"),
        content_encoding: header("content-encoding"),
        content_range: header("content-range"),
        etag: header("etag"),
        last_modified: header("last-modified"),
    }
}

/// Waits, but not beyond `stop`.
pub async fn pause(ms: u32, stop: &AbortSignal) {
    if stop.aborted() {
        return;
    }
    let mut timeout = None;
    let promise = Promise::new(&mut |resolve: js_sys::Function, _| {
        stop.set_onabort(Some(&resolve));
        timeout = Some(Timeout::new(ms, move || {
            // It cannot throw.
            let _ = resolve.call0(&JsValue::UNDEFINED);
        }));
    });
    // It is never rejected.
    let _ = JsFuture::from(promise).await;
    stop.set_onabort(None);
}

/// Whether the browser says that it has no network. It may be wrong when it says nothing.
pub fn is_offline() -> bool {
    let scope: WorkerGlobalScope = js_sys::global().unchecked_into();
    !scope.navigator().on_line()
}

/// Whether a URL is of the site that this page is from: its headers are all shown, and any may be sent.
pub fn is_own_site(url: &str) -> bool {
    let scope: WorkerGlobalScope = js_sys::global().unchecked_into();
    let origin = scope.location().origin();
    url.strip_prefix(origin.as_str()).is_some_and(|rest| rest.starts_with('/'))
}
