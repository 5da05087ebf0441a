//! Letters between page and engine: each a postcard-encoded message, local files beside it.
//!
//! Invariant: what must not wait (credit, the KV switch, Stop) takes effect when it arrives, not when the engine gets to it.

use crate::protocol::{Command, Credit, Event, READY, Reply, Request};
use js_sys::{Array, Uint8Array};
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Poll, Waker};
use wasm_bindgen::prelude::*;
use web_sys::{
    AbortController, AbortSignal, Blob, DedicatedWorkerGlobalScope, MessageChannel, MessageEvent, MessagePort,
};

pub struct Letter {
    pub id: u32,
    pub command: Command,
    pub blobs: Vec<Blob>,
}

pub struct Mail {
    queue: RefCell<VecDeque<Letter>>,
    /// The work in progress.
    current: Cell<Option<u32>>,
    /// The last credit that came, and for which run: it may come before the run has begun.
    credit: Cell<Option<(u32, Credit)>>,
    /// The last switch of the KV cache that has not been taken, and for which run.
    kv_cache: Cell<Option<(u32, bool)>>,
    stop: Cell<bool>,
    /// Ends the download in progress.
    abort: RefCell<AbortController>,
    /// Messages to itself: the way to the end of the event loop's queue.
    ticker: MessagePort,
    ticks: Cell<u32>,
    waker: Cell<Option<Waker>>,
}

fn scope() -> DedicatedWorkerGlobalScope {
    js_sys::global().unchecked_into()
}

impl Mail {
    /// Listens to the page, and says that it does.
    pub fn open() -> Rc<Self> {
        let channel = MessageChannel::new().expect("every browser with wasm has MessageChannel");
        let mail = Rc::new(Self {
            queue: RefCell::default(),
            current: Cell::new(None),
            credit: Cell::new(None),
            kv_cache: Cell::new(None),
            stop: Cell::new(false),
            abort: RefCell::new(abort_controller()),
            ticker: channel.port1(),
            ticks: Cell::new(0),
            waker: Cell::new(None),
        });
        let on_tick = Closure::<dyn Fn()>::new({
            let mail = mail.clone();
            move || {
                mail.ticks.set(mail.ticks.get().wrapping_add(1));
                mail.wake();
            }
        });
        channel.port2().set_onmessage(Some(on_tick.into_js_value().unchecked_ref()));
        let on_message = Closure::<dyn Fn(MessageEvent)>::new({
            let mail = mail.clone();
            move |event: MessageEvent| mail.receive(&event.data())
        });
        scope().set_onmessage(Some(on_message.into_js_value().unchecked_ref()));
        send(&READY.into(), &Array::new());
        mail
    }

    fn receive(&self, data: &JsValue) {
        let parts: &Array = data.unchecked_ref();
        let bytes = Uint8Array::new(&parts.get(0)).to_vec();
        // Page and engine come from one build; a letter that does not decode is a bug there, and its sender must hear.
        let Request { id, command } = postcard::from_bytes(&bytes).expect("page and engine speak one protocol");
        match command {
            Command::Grant { run, credit } => {
                if self.current.get().is_none_or(|current| current == run) {
                    self.credit.set(Some((run, credit)));
                }
            }
            Command::SetKvCache { run, on } => self.kv_cache.set(Some((run, on))),
            command => {
                if command == Command::Stop {
                    self.stop.set(true);
                    self.abort.borrow().abort();
                }
                let blobs = parts.iter().skip(1).filter_map(|part| part.dyn_into().ok()).collect();
                self.queue.borrow_mut().push_back(Letter { id, command, blobs });
            }
        }
        self.wake();
    }

    fn wake(&self) {
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }

    /// The next letter.
    pub async fn next(&self) -> Letter {
        poll_fn(|context| match self.queue.borrow_mut().pop_front() {
            Some(letter) => Poll::Ready(letter),
            None => {
                self.waker.set(Some(context.waker().clone()));
                Poll::Pending
            }
        })
        .await
    }

    /// The next letter, if there is one.
    pub fn try_next(&self) -> Option<Letter> {
        self.queue.borrow_mut().pop_front()
    }

    /// Wakes the work in progress when the next letter comes.
    pub fn listen(&self, waker: &Waker) {
        self.waker.set(Some(waker.clone()));
    }

    /// Lets everything that waits in the event loop happen.
    pub async fn tick(&self) {
        let before = self.ticks.get();
        self.ticker.post_message(&JsValue::NULL).expect("null can be posted");
        self.until(|| self.ticks.get() != before).await;
    }

    /// Begins a piece of work that Stop ends; a run, with its first credit. A Stop that waits in the queue came after it, and ends it.
    pub fn begin(&self, id: u32, credit: Credit) {
        self.current.set(Some(id));
        self.stop.set(self.queue.borrow().iter().any(|letter| letter.command == Command::Stop));
        if !self.stop.get() {
            self.abort.replace(abort_controller());
        }
        if self.credit.get().is_none_or(|(run, _)| run != id) {
            self.credit.set(Some((id, credit)));
        }
    }

    /// The work is over: credit for it means nothing any more.
    pub fn end(&self) {
        self.current.set(None);
        self.credit.set(None);
    }

    /// What the KV cache of run `id` was switched to since this was last asked.
    pub fn take_kv_cache(&self, id: u32) -> Option<bool> {
        self.kv_cache.take().filter(|&(run, _)| run == id).map(|(_, on)| on)
    }

    pub fn stopped(&self) -> bool {
        self.stop.get()
    }

    /// Ends the download in progress, as Stop does.
    pub fn abort(&self) {
        self.abort.borrow().abort();
    }

    /// Aborted by Stop.
    pub fn abort_signal(&self) -> AbortSignal {
        self.abort.borrow().signal()
    }

    /// Waits until the run may make step number `steps` (from 0), or is stopped, or another letter has come.
    pub async fn credit_for(&self, steps: u32) {
        self.until(|| self.may_step(steps) || self.stop.get() || !self.queue.borrow().is_empty()).await;
    }

    /// Whether step number `steps` (from 0) has been granted.
    pub fn may_step(&self, steps: u32) -> bool {
        !matches!(self.credit.get(), Some((_, Credit::Steps(granted))) if granted <= steps)
    }

    async fn until(&self, condition: impl Fn() -> bool) {
        poll_fn(|context| {
            if condition() {
                return Poll::Ready(());
            }
            self.waker.set(Some(context.waker().clone()));
            Poll::Pending
        })
        .await;
    }
}

fn abort_controller() -> AbortController {
    AbortController::new().expect("every browser with wasm has AbortController")
}

/// Posts an event to the page.
pub fn post(id: u32, event: Event) {
    let bytes = postcard::to_stdvec(&Reply { id, event }).expect("every reply can be encoded");
    let array = Uint8Array::from(bytes.as_slice());
    send(&array, &Array::of1(&array.buffer()));
}

fn send(message: &JsValue, transfer: &Array) {
    scope().post_message_with_transfer(message, transfer).expect("bytes and strings can be posted");
}
