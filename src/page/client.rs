//! The engine worker, as the page sees it: requests out, replies back to whoever asked.
//!
//! A request is a postcard-encoded [`Request`] in a `Uint8Array`, posted as the array `[bytes, blob...]`; a reply is a
//! `Uint8Array` with a [`Reply`]. The worker posts the string `"ready"` once it listens: a module worker loses what arrives
//! before. When it crashes, every open request fails with `engine-failed` and the next request starts a fresh worker. A `Model`
//! event is news for the page, whatever request it comes under: it goes to [`Client::on_model`], not to the request's listener.
//!
//! Invariant: knows messages and their numbers, not what they mean; no DOM.

use crate::error::{Error, Result};
use crate::protocol::{Command, Event, ModelInfo, READY, Reply, Request};
use futures_channel::oneshot;
use js_sys::{Array, Uint8Array};
use std::{
    cell::{Cell, RefCell},
    collections::HashMap,
    rc::{Rc, Weak},
};
use wasm_bindgen::{JsCast, prelude::*};
use web_sys::{Blob, ErrorEvent, MessageEvent, Worker, WorkerOptions, WorkerType};

/// Called with every event of one request; the last one is `Failed` or ends the request otherwise.
type Listener = Box<dyn FnMut(Event)>;

/// Called with the model that runs elsewhere.
type ModelListener = Box<dyn Fn(ModelInfo)>;

/// Called with what every open request has failed with.
type CrashListener = Box<dyn Fn(&Error)>;

#[derive(Clone)]
pub struct Client {
    inner: Rc<Inner>,
}

struct Inner {
    worker: RefCell<Option<Connection>>,
    next_id: Cell<u32>,
    open: RefCell<HashMap<u32, Listener>>,
    on_crash: RefCell<Option<CrashListener>>,
    on_model: RefCell<Option<ModelListener>>,
    /// The same for every worker, so that a crash never drops the closure that reports it.
    on_message: Closure<dyn FnMut(MessageEvent)>,
    on_error: Closure<dyn FnMut(web_sys::Event)>,
    /// What a worker starts with.
    script: String,
}

struct Connection {
    worker: Worker,
    /// Messages and what they transfer, held back until the worker listens; none once it does.
    waiting: Option<Vec<(Array, Array)>>,
}

impl Client {
    /// For workers that start with `script`.
    pub fn new(script: String) -> Self {
        let inner = Rc::new_cyclic(|weak: &Weak<Inner>| {
            let (on_message, on_error) = (weak.clone(), weak.clone());
            Inner {
                worker: RefCell::new(None),
                next_id: Cell::new(1),
                open: RefCell::default(),
                on_crash: RefCell::default(),
                on_model: RefCell::default(),
                on_message: Closure::new(move |event: MessageEvent| {
                    if let Some(inner) = on_message.upgrade() {
                        inner.receive(&event.data());
                    }
                }),
                on_error: Closure::new(move |event: web_sys::Event| {
                    if let Some(inner) = on_error.upgrade() {
                        inner.crash(&crash_sentence(&event));
                    }
                }),
                script,
            }
        });
        Self { inner }
    }

    /// Starts the worker if none runs, so that it compiles while the reader reads.
    pub fn warm_up(&self) {
        self.inner.ensure_worker();
    }

    /// Called after a crash has failed the open requests.
    pub fn on_crash(&self, callback: impl Fn(&Error) + 'static) {
        *self.inner.on_crash.borrow_mut() = Some(Box::new(callback));
    }

    /// Ends the worker as a crash does; `sentence` says why.
    pub fn end(&self, sentence: &str) {
        self.inner.crash(sentence);
    }

    /// Called when the model in place runs elsewhere from now on.
    pub fn on_model(&self, callback: impl Fn(ModelInfo) + 'static) {
        *self.inner.on_model.borrow_mut() = Some(Box::new(callback));
    }

    /// Posts a command; its events go to `listener` until the last one. Returns the request's number.
    pub fn open(&self, command: Command, blobs: &[Blob], listener: impl FnMut(Event) + 'static) -> u32 {
        let id = self.inner.new_id();
        self.inner.open.borrow_mut().insert(id, Box::new(listener));
        self.inner.post(&Request { id, command }, blobs);
        id
    }

    /// Posts a command that has no reply of its own.
    pub fn send(&self, command: Command) {
        self.inner.post(&Request { id: self.inner.new_id(), command }, &[]);
    }

    /// Posts a command and waits for its last event.
    pub async fn request(&self, command: Command) -> Result<Event> {
        let (sender, receiver) = oneshot::channel();
        let mut sender = Some(sender);
        self.open(command, &[], move |event| {
            if is_last(&event)
                && let Some(sender) = sender.take()
            {
                // The one who asked may have gone away; then nobody misses the answer.
                let _ = sender.send(event);
            }
        });
        match receiver.await {
            Ok(Event::Failed(error)) => Err(error),
            Ok(event) => Ok(event),
            Err(oneshot::Canceled) => Err(Error::EngineFailed("The request was dropped without an answer.".into())),
        }
    }
}

/// True for events after which a request has no more.
pub fn is_last(event: &Event) -> bool {
    !matches!(event, Event::Progress(_) | Event::Model(_) | Event::Prefill { .. } | Event::Step(_))
}

/// What to say when an answer is of another kind than its request allows.
pub fn unexpected(event: &Event) -> Error {
    let text: String = format!("{event:?}").chars().take(60).collect();
    Error::EngineFailed(format!("The engine gave an answer that does not fit the request: {text}."))
}

impl Inner {
    fn new_id(&self) -> u32 {
        let id = self.next_id.get();
        self.next_id.set(id.wrapping_add(1));
        id
    }

    /// True when a worker runs afterwards.
    fn ensure_worker(&self) -> bool {
        if self.worker.borrow().is_some() {
            return true;
        }
        let options = WorkerOptions::new();
        options.set_type(WorkerType::Module);
        let Ok(worker) = Worker::new_with_options(&self.script, &options) else {
            return false;
        };
        worker.set_onmessage(Some(self.on_message.as_ref().unchecked_ref()));
        worker.set_onerror(Some(self.on_error.as_ref().unchecked_ref()));
        worker.set_onmessageerror(Some(self.on_error.as_ref().unchecked_ref()));
        *self.worker.borrow_mut() = Some(Connection { worker, waiting: Some(Vec::new()) });
        true
    }

    fn post(&self, request: &Request, blobs: &[Blob]) {
        let encoded = postcard::to_stdvec(request).expect("plain data encodes");
        let bytes = Uint8Array::from(encoded.as_slice());
        let transfer = Array::of1(&bytes.buffer());
        let message = Array::of1(&bytes);
        for blob in blobs {
            message.push(blob);
        }
        let is_posted = self.ensure_worker()
            && match self.worker.borrow_mut().as_mut() {
                Some(Connection { waiting: Some(waiting), .. }) => {
                    waiting.push((message, transfer));
                    true
                }
                Some(connection) => connection.worker.post_message_with_transfer(&message, &transfer).is_ok(),
                None => false,
            };
        if !is_posted {
            self.crash("The browser could not reach the engine worker.");
        }
    }

    fn receive(&self, data: &JsValue) {
        if data.as_string().as_deref() == Some(READY) {
            return self.release();
        }
        let decoded = data.dyn_ref::<Uint8Array>().map(|bytes| postcard::from_bytes::<Reply>(&bytes.to_vec()));
        let Some(Ok(Reply { id, event })) = decoded else {
            return self.crash("The engine sent a message that cannot be read.");
        };
        if let Event::Model(info) = event {
            if let Some(on_model) = self.on_model.borrow().as_ref() {
                on_model(info);
            }
            return;
        }
        // Taken out while it runs: a listener may open further requests.
        let Some(mut listener) = self.open.borrow_mut().remove(&id) else { return };
        let is_last = is_last(&event);
        listener(event);
        if !is_last {
            self.open.borrow_mut().insert(id, listener);
        }
    }

    /// The worker listens: posts what was held back.
    fn release(&self) {
        let mut is_lost = false;
        if let Some(connection) = self.worker.borrow_mut().as_mut() {
            for (message, transfer) in connection.waiting.take().unwrap_or_default() {
                is_lost |= connection.worker.post_message_with_transfer(&message, &transfer).is_err();
            }
        }
        if is_lost {
            self.crash("The browser could not reach the engine worker.");
        }
    }

    /// Ends the worker and fails every open request.
    fn crash(&self, sentence: &str) {
        if let Some(connection) = self.worker.borrow_mut().take() {
            connection.worker.terminate();
        }
        let error = Error::EngineFailed(sentence.to_owned());
        let open = std::mem::take(&mut *self.open.borrow_mut());
        for mut listener in open.into_values() {
            listener(Event::Failed(error.clone()));
        }
        if let Some(on_crash) = self.on_crash.borrow().as_ref() {
            on_crash(&error);
        }
    }
}

fn crash_sentence(event: &web_sys::Event) -> String {
    event.prevent_default();
    match event.dyn_ref::<ErrorEvent>().map(ErrorEvent::message) {
        Some(message) if !message.is_empty() => format!("It reported: {}.", message.trim_end_matches('.')),
        _ => "Its script could not be loaded or its message could not be read.".to_owned(),
    }
}
