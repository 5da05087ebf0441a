//! The compute threads in the browser: workers that instantiate the engine's wasm once more, on the same memory.
//!
//! Invariant: all that is JavaScript about threads is here and in `www/thread.js`; a worker that does not start costs a thread,
//! never the model.

use crate::backend::cpu::Pool;
use js_sys::Reflect;
use wasm_bindgen::JsValue;

/// As many threads as asked for, or one fewer than there are cores, where page and build allow more than one.
pub async fn start(asked: Option<u32>) -> Pool {
    let alone = |shortfall: Option<&str>| Pool::new(Default::default(), 0, shortfall.map(str::to_owned));
    if asked == Some(1) {
        return alone(None);
    }
    let is_isolated = Reflect::get(&js_sys::global(), &JsValue::from("crossOriginIsolated"));
    if is_isolated.map_or(true, |is_isolated| is_isolated.is_falsy()) {
        return alone(Some("It has one thread: the page is not isolated from other sites, which more would need."));
    }
    #[cfg(target_feature = "atomics")]
    return workers::start(asked).await;
    #[cfg(not(target_feature = "atomics"))]
    return alone(Some("It has one thread: this build of the engine has no more."));
}

#[cfg(target_feature = "atomics")]
mod workers {
    use super::{JsValue, Pool};
    use crate::backend::cpu::{MAX_THREADS, Team};
    use futures_channel::oneshot::{self, Receiver};
    use gloo_timers::callback::Timeout;
    use js_sys::Array;
    use std::cell::Cell;
    use std::rc::Rc;
    use std::sync::Arc;
    use wasm_bindgen::prelude::*;
    use web_sys::{DedicatedWorkerGlobalScope, ErrorEvent, Event, MessageEvent, Worker, WorkerOptions, WorkerType};

    /// Threads where none are asked for: more of them wait for memory only, and for each other.
    const DEFAULT_MOST: usize = 8;

    /// The JavaScript of this build, as `thread.js` finds it.
    const SCRIPT: &str = "./engine_fast.js";

    /// Bytes: the kernels' frames are small, and they call nothing deep.
    const STACK_SIZE: u32 = 1 << 18;

    /// Milliseconds that a worker has to start.
    const PATIENCE: u32 = 5_000;

    pub async fn start(asked: Option<u32>) -> Pool {
        let scope: DedicatedWorkerGlobalScope = js_sys::global().unchecked_into();
        let n_cores = scope.navigator().hardware_concurrency() as usize;
        // One core is left to the page, which paints meanwhile.
        let default = n_cores.saturating_sub(1).clamp(1, DEFAULT_MOST);
        let n_threads = asked.map_or(default, |asked| (asked as usize).clamp(1, MAX_THREADS));
        // All at once; then they are waited for.
        let starting: Vec<_> = (1..n_threads).map(|_| Starting::new()).collect();
        let (mut workers, mut failure) = (Vec::new(), None);
        for worker in starting {
            match worker {
                Ok(worker) => match worker.ready().await {
                    Ok(worker) => workers.push(worker),
                    Err(error) => failure = Some(error),
                },
                Err(error) => failure = Some(error),
            }
        }
        let team = Arc::new(Team::default());
        for (thread, worker) in (1u32..).zip(&workers) {
            let address = Arc::into_raw(team.clone()) as u32;
            let go = Array::of2(&address.into(), &thread.into());
            worker.post_message(&go).expect("numbers can be posted");
        }
        let n_ready = workers.len() + 1;
        let shortfall = failure.map(|error| format!("It has {n_ready} of {n_threads} threads: {error}."));
        Pool::new(team, workers.len(), shortfall)
    }

    /// A worker that has been created.
    struct Starting {
        worker: Worker,
        outcome: Receiver<Result<(), String>>,
        _timeout: Timeout,
        _on_message: Closure<dyn Fn(MessageEvent)>,
        _on_error: Closure<dyn Fn(Event)>,
    }

    impl Starting {
        fn new() -> Result<Self, String> {
            let options = WorkerOptions::new();
            options.set_type(WorkerType::Module);
            let worker = Worker::new_with_options("./thread.js", &options).map_err(|_| "a worker was refused")?;
            let (sender, outcome) = oneshot::channel();
            let sender = Rc::new(Cell::new(Some(sender)));
            let tell = move |outcome: Result<(), String>| {
                if let Some(sender) = sender.take() {
                    // Nobody waits any more for a worker that has been given up.
                    sender.send(outcome).unwrap_or_default();
                }
            };
            let on_message = Closure::<dyn Fn(MessageEvent)>::new({
                let (worker, tell) = (worker.clone(), tell.clone());
                move |event: MessageEvent| match event.data().as_string().as_deref() {
                    Some("listening") => {
                        let (script, stack_size) = (JsValue::from(SCRIPT), JsValue::from(STACK_SIZE));
                        let engine = Array::of4(&script, &wasm_bindgen::module(), &wasm_bindgen::memory(), &stack_size);
                        if worker.post_message(&engine).is_err() {
                            tell(Err("a worker could not be given the engine's memory".into()));
                        }
                    }
                    _ => tell(Ok(())),
                }
            });
            let on_error = Closure::<dyn Fn(Event)>::new({
                let tell = tell.clone();
                move |event: Event| {
                    event.prevent_default();
                    let message = event.dyn_ref::<ErrorEvent>().map_or_else(String::new, ErrorEvent::message);
                    tell(Err(format!("a worker failed to start ({})", message.trim_end_matches('.'))));
                }
            });
            worker.set_onmessage(Some(on_message.as_ref().unchecked_ref()));
            worker.set_onerror(Some(on_error.as_ref().unchecked_ref()));
            let timeout = Timeout::new(PATIENCE, move || tell(Err("a worker did not answer in time".into())));
            Ok(Self { worker, outcome, _timeout: timeout, _on_message: on_message, _on_error: on_error })
        }

        /// The worker, once its wasm stands; one that does not get there is ended.
        async fn ready(self) -> Result<Worker, String> {
            let outcome = self.outcome.await.unwrap_or_else(|_| Err("a worker was lost".into()));
            self.worker.set_onmessage(None);
            self.worker.set_onerror(None);
            match outcome {
                Ok(()) => Ok(self.worker),
                Err(error) => {
                    self.worker.terminate();
                    Err(error)
                }
            }
        }
    }

    /// A worker's life: helps the team at `address`, which `start` gave it, until that is dismissed.
    #[wasm_bindgen]
    pub fn run_thread(address: u32, thread: u32) {
        // SAFETY: `start` made the address with `into_raw`, and posted it to one worker.
        let team = unsafe { Arc::from_raw(address as *const Team) };
        team.help(thread as usize);
    }

    /// After `run_thread` trapped: the engine must not wait for this thread.
    #[wasm_bindgen]
    pub fn fail_thread(address: u32) {
        // SAFETY: what trapped never gave its share of the team back.
        unsafe { &*(address as *const Team) }.fail();
    }
}
