//! `window.nucleus`: the public JavaScript API (API.md, `www/nucleus.d.ts`).
//!
//! Every method returns a promise; a rejection is an `Error` with a stable `kind`.
//!
//! Invariant: a thin face of `App`; options are judged in `options`, shapes are made in `convert`.

use super::app::{App, WRITING};
use super::client::unexpected;
use super::convert::{self, put, value};
use super::dom;
use super::form::random_seed;
use super::kept_view;
use super::options;
use super::picker::ModelSource;
use super::run::Start;
use crate::error::{Error, Result};
use crate::protocol::{Command, Event};
use futures_channel::oneshot;
use js_sys::{Array, Float32Array, Function, Object, Promise, Reflect};
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::future::Future;
use std::rc::Rc;
use wasm_bindgen::{JsCast, prelude::*};
use wasm_bindgen_futures::spawn_local;
use web_sys::Blob;

/// Fills in the object that `www/page_loader.js` has put on `window`, where its `ready` waits for this.
pub fn install(app: &Rc<App>) -> Object {
    let nucleus: Object = dom::window().get("nucleus").expect("page_loader.js has put it there");
    put(&nucleus, "version", env!("CARGO_PKG_VERSION"));
    put(&nucleus, "model", JsValue::NULL);
    method(&nucleus, "load", app, load);
    method(&nucleus, "tokenize", app, tokenize);
    method(&nucleus, "detokenize", app, detokenize);
    method(&nucleus, "renderChat", app, render_chat);
    method(&nucleus, "logits", app, logits);
    method(&nucleus, "generate", app, generate);
    method(&nucleus, "stop", app, |app, _, _| async move { app.stop().await.map(|()| JsValue::UNDEFINED) });
    method(&nucleus, "unload", app, |app, _, _| async move { app.unload().await.map(|()| JsValue::UNDEFINED) });
    method(&nucleus, "diagnostics", app, diagnostics);
    kept_view::install(&nucleus);
    nucleus
}

/// Adds a method of up to two arguments.
fn method<F>(nucleus: &Object, name: &str, app: &Rc<App>, call: impl Fn(Rc<App>, JsValue, JsValue) -> F + 'static)
where
    F: Future<Output = Result<JsValue>> + 'static,
{
    let app = Rc::clone(app);
    let closure = Closure::<dyn Fn(JsValue, JsValue) -> Promise>::new(move |first, second| {
        let answer = call(Rc::clone(&app), first, second);
        let app = Rc::clone(&app);
        let mut work = Some(async move {
            answer.await.map_err(|error| {
                app.say_failure(&error);
                convert::error(&error)
            })
        });
        Promise::new(&mut |resolve, reject| {
            // It is called once, at once.
            if let Some(work) = work.take() {
                settle(work, resolve, reject);
            }
        })
    });
    put(nucleus, name, closure.into_js_value());
}

thread_local! {
    /// What rejects the calls that have no answer yet.
    static OPEN: RefCell<HashMap<u32, Function>> = RefCell::default();
    static N_CALLS: Cell<u32> = const { Cell::new(0) };
}

/// Rejects every call that has no answer yet: none will come from this wasm.
pub fn reject_all(error: &Error) {
    for reject in OPEN.take().into_values() {
        // A promise's own function throws nothing.
        let _ = reject.call1(&JsValue::UNDEFINED, &convert::error(error));
    }
}

/// Settles a promise with what `work` comes to, if nothing else settles it before.
fn settle(work: impl Future<Output = Result<JsValue, JsValue>> + 'static, resolve: Function, reject: Function) {
    let call = N_CALLS.get();
    N_CALLS.set(call.wrapping_add(1));
    OPEN.with_borrow_mut(|open| open.insert(call, reject.clone()));
    spawn_local(async move {
        let found = work.await;
        OPEN.with_borrow_mut(|open| open.remove(&call));
        let (settled, value) = found.map_or_else(|error| (reject, error), |value| (resolve, value));
        let _ = settled.call1(&JsValue::UNDEFINED, &value);
    });
}

async fn load(app: Rc<App>, source: JsValue, js_options: JsValue) -> Result<JsValue> {
    let options = options::load(value(&js_options))?;
    let on_progress =
        Reflect::get(&js_options, &"onProgress".into()).ok().and_then(|call| call.dyn_into::<Function>().ok());
    app.load(model_source(source)?, options, on_progress).await.map(|info| convert::model_info(&info).into())
}

fn model_source(source: JsValue) -> Result<ModelSource> {
    if let Some(url) = source.as_string() {
        return Ok(ModelSource::Url(url));
    }
    let files: Vec<JsValue> = match source.dyn_into::<Array>() {
        Ok(list) if list.length() == 0 => {
            return Err(Error::BadOption("`source` is an empty list: expected the files of a model.".into()));
        }
        Ok(list) => list.iter().collect(),
        Err(file) => vec![file],
    };
    files.into_iter().map(file).collect::<Result<_>>().map(ModelSource::Files)
}

fn file(file: JsValue) -> Result<(String, Blob)> {
    let bad = || {
        Error::BadOption("`source` is neither a string nor a File nor a Blob nor a list of these: expected one.".into())
    };
    let blob = file.dyn_into::<Blob>().map_err(|_| bad())?;
    // What only looks like a Blob, such as a Proxy, throws when its properties are read.
    let read = |name: &str| Reflect::get(&blob, &name.into()).map_err(|_| bad());
    read("size")?;
    let name = read("name")?.as_string().unwrap_or_else(|| "a file without a name".into());
    Ok((name, blob))
}

async fn tokenize(app: Rc<App>, text: JsValue, js_options: JsValue) -> Result<JsValue> {
    let special = options::tokenize(value(&js_options))?;
    let text = options::text("text", value(&text))?;
    match app.client.request(Command::Tokenize { text, special }).await? {
        Event::Tokens(pieces) => Ok(convert::tokens(&pieces).into()),
        other => Err(unexpected(&other)),
    }
}

async fn detokenize(app: Rc<App>, ids: JsValue, _: JsValue) -> Result<JsValue> {
    let ids = options::ids(value(&ids))?;
    match app.client.request(Command::Detokenize { ids }).await? {
        Event::Text(text) => Ok(text.into()),
        other => Err(unexpected(&other)),
    }
}

async fn render_chat(app: Rc<App>, messages: JsValue, _: JsValue) -> Result<JsValue> {
    let messages = options::messages(value(&messages))?;
    match app.client.request(Command::RenderChat { messages }).await? {
        Event::Rendered(rendered) => Ok(rendered.text.into()),
        other => Err(unexpected(&other)),
    }
}

async fn logits(app: Rc<App>, ids: JsValue, _: JsValue) -> Result<JsValue> {
    let ids = options::ids(value(&ids))?;
    match app.client.request(Command::Logits { ids }).await? {
        Event::Logits(logits) => Ok(Float32Array::from(logits.as_slice()).into()),
        other => Err(unexpected(&other)),
    }
}

async fn generate(app: Rc<App>, js_options: JsValue, on_step: JsValue) -> Result<JsValue> {
    let (options, pace) = options::generate(value(&js_options), random_seed())?;
    let on_step = match on_step.dyn_into::<Function>() {
        Ok(call) => Some(call),
        Err(other) if other.is_undefined() => None,
        Err(_) => return Err(Error::BadOption("`onStep` is not a function: expected one, or nothing.".into())),
    };
    let run = app.run(options, Start::Paced(pace), WRITING, on_step)?;
    match run.await {
        Ok(outcome) => outcome.map(|result| convert::result(&result).into()),
        Err(oneshot::Canceled) => Err(Error::EngineFailed("The run was dropped without an answer.".into())),
    }
}

async fn diagnostics(app: Rc<App>, _: JsValue, _: JsValue) -> Result<JsValue> {
    match app.client.request(Command::Diagnostics).await? {
        Event::Diagnostics(found) => Ok(convert::diagnostics(&found).into()),
        other => Err(unexpected(&other)),
    }
}
