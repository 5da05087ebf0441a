//! "Copy diagnostics": what a report of a fault needs, as text: browser, engine, model, settings, the last failure.
//!
//! Invariant: no prompt, no text that was written and no address beyond the page's own goes into it; nothing is sent anywhere.

use super::App;
use crate::error::{Error, Result};
use crate::page::client::unexpected;
use crate::page::clipboard;
use crate::page::convert::{self, put};
use crate::page::dom::{self, by_id, on};
use crate::page::form::prompt_text;
use crate::page::options::{Value, entries};
use crate::page::words::count;
use crate::protocol::{Command, Event as Answer};
use futures_channel::oneshot;
use gloo_timers::callback::Timeout;
use js_sys::{JSON, Object, Reflect};
use std::cell::Cell;
use std::rc::Rc;
use wasm_bindgen::JsValue;
use wasm_bindgen_futures::spawn_local;
use web_sys::{Event, HtmlElement, HtmlTextAreaElement};

/// An engine that has not answered by then is in the middle of something long, or gone.
const PATIENCE_MS: u32 = 3000;
/// Of the last failure's message: the status line shows 200.
const MOST_CHARS: usize = 2000;
/// The buttons: beside an error, and in the engine's details.
const BUTTONS: [&str; 2] = ["copy-diagnostics", "copy-engine-diagnostics"];

impl App {
    pub(super) fn listen_for_diagnostics(self: &Rc<Self>) {
        for id in BUTTONS {
            let app = Rc::clone(self);
            on(&by_id::<HtmlElement>(id), "click", move |_: Event| {
                let app = Rc::clone(&app);
                spawn_local(async move { app.copy_diagnostics().await });
            });
        }
        on(&by_id::<HtmlElement>("diagnostics-close"), "click", |_: Event| {
            by_id::<HtmlElement>("diagnostics").set_hidden(true);
        });
    }

    /// To the clipboard; where that is not to be had, into a box, selected.
    async fn copy_diagnostics(&self) {
        let text = self.diagnostics_text().await;
        let is_copied = clipboard::copy(&text).await;
        by_id::<HtmlElement>("diagnostics").set_hidden(is_copied);
        if is_copied {
            self.stage.status.note(&format!(
                "Diagnostics copied, {}: browser, engine, model, settings and the last failure; no prompt and no text.",
                count(text.chars().count() as u64, "character")
            ));
            return;
        }
        self.stage.status.note("");
        let area: HtmlTextAreaElement = by_id("diagnostics-text");
        area.set_value(&text);
        area.focus().expect("a field can have the focus");
        area.select();
    }

    async fn diagnostics_text(&self) -> String {
        let all = Object::new();
        put(&all, "nucleus", env!("CARGO_PKG_VERSION"));
        put(&all, "time", dom::iso_now());
        put(&all, "page", page_address());
        let failure = self.stage.status.last_failure().map(|failure| {
            let object = Object::new();
            put(&object, "kind", failure.error.kind());
            put(&object, "message", failure.error.to_string().chars().take(MOST_CHARS).collect::<String>());
            put(&object, "at", failure.at);
            object
        });
        put(&all, "lastFailure", failure.map_or(JsValue::NULL, Into::into));
        put(&all, "browser", browser());
        put(&all, "now", self.now());
        put(&all, "engine", self.engine().await.unwrap_or_else(|error| error.to_string().into()));
        put(&all, "settings", self.settings());
        let text = JSON::stringify_with_replacer_and_space(&all, &JsValue::NULL, &2.into());
        text.map_or_else(|_| "The diagnostics could not be written.".to_owned(), String::from)
    }

    /// What the page is in the middle of.
    fn now(&self) -> Object {
        let object = Object::new();
        put(&object, "run", format!("{:?}", self.runs.state()).to_lowercase());
        put(&object, "loading", self.loading.borrow().is_some());
        put(&object, "measuring", self.is_exercise.get());
        put(&object, "stepsOnScreen", self.stage.n_steps() as f64);
        put(&object, "branches", self.stage.branches().all().len() as f64);
        put(&object, "pageMemoryBytes", (core::arch::wasm32::memory_size(0) * 65_536) as f64);
        object
    }

    /// What the engine says of itself.
    async fn engine(&self) -> Result<JsValue> {
        let (answer, answered) = oneshot::channel();
        let answer = Rc::new(Cell::new(Some(answer)));
        let (late, client) = (Rc::clone(&answer), self.client.clone());
        let timer = Timeout::new(PATIENCE_MS, move || {
            // Dropping the sender tells that nothing came.
            late.take();
        });
        spawn_local(async move {
            let found = client.request(Command::Diagnostics).await;
            if let Some(answer) = answer.take() {
                // The receiver waits for it or for the timer.
                let _ = answer.send(found);
            }
        });
        let answer = answered.await;
        drop(timer);
        match answer {
            Ok(Ok(Answer::Diagnostics(found))) => Ok(convert::diagnostics(&found).into()),
            Ok(Ok(other)) => Err(unexpected(&other)),
            Ok(Err(error)) => Err(error),
            Err(oneshot::Canceled) => Err(Error::EngineFailed(format!("It gave no answer within {PATIENCE_MS} ms."))),
        }
    }

    /// Those of the form. Of prompt and lists, only how long they are.
    fn settings(&self) -> JsValue {
        let options = match self.form.read() {
            Ok(options) => options,
            Err(error) => return error.to_string().into(),
        };
        let object = Object::new();
        for (name, value) in entries(&options) {
            match value {
                Value::Number(number) => put(&object, &name, number),
                Value::Bool(flag) => put(&object, &name, flag),
                Value::Text(text) if name != "prompt" => put(&object, &name, text),
                Value::List(items) => put(&object, &name, items.len() as f64),
                _ => {}
            }
        }
        put(&object, "promptCharacters", prompt_text(&options.prompt).chars().count() as f64);
        object.into()
    }
}

/// Without what stands after `?` and `#`, which may hold a prompt.
fn page_address() -> String {
    let href = dom::window().location().href().unwrap_or_default();
    href.split(['?', '#']).next().unwrap_or_default().to_owned()
}

fn browser() -> Object {
    let window = dom::window();
    let navigator = window.navigator();
    let has = |object: &JsValue, name: &str| Reflect::get(object, &name.into()).is_ok_and(|found| found.is_truthy());
    let number = |object: &JsValue, name: &str| Reflect::get(object, &name.into()).unwrap_or(JsValue::NULL);
    let object = Object::new();
    put(&object, "userAgent", navigator.user_agent().unwrap_or_default());
    put(&object, "cores", navigator.hardware_concurrency());
    put(&object, "memoryGb", number(&navigator, "deviceMemory"));
    put(&object, "isolated", dom::is_isolated());
    put(&object, "secure", has(&window, "isSecureContext"));
    put(&object, "webgpu", has(&navigator, "gpu"));
    put(&object, "online", has(&navigator, "onLine"));
    put(&object, "hidden", dom::document().hidden());
    for name in ["innerWidth", "innerHeight", "devicePixelRatio"] {
        put(&object, name, number(&window, name));
    }
    object
}
