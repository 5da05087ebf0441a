//! Loading: the header is judged when it is there, each tensor is handed over when its last byte is, while the rest still comes.
//!
//! Invariant: the model in place goes before its successor's bytes come, so that only one is ever in memory; Stop is heard between
//! any two tensors.

use super::arrival::{Arrival, ArrivalSink, stopped};
use super::source::{self, How, Part};
use super::{BUILD, Engine, Model, mail, memory_bytes, threads};
use crate::backend::{Budget, ChosenBackend, Estimate, Loader, Stage};
use crate::clock::now_ms;
use crate::error::{Error, Result};
use crate::fetch::Fetched;
use crate::gguf::Gguf;
use crate::model::{ModelConfig, Plan, Weights};
use crate::protocol::{Credit, Event, LoadOptions, LoadPhase, LoadProgress, MAX_THREADS, ModelInfo, Source};
use crate::tokenizer::Tokenizer;
use std::cell::RefCell;
use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;
use web_sys::Blob;

/// The context when none is asked for: enough for a page, and a cache that a phone can hold.
const DEFAULT_CONTEXT: usize = 4096;

/// Bytes between two reports of progress.
const REPORT_EVERY: u64 = 1 << 20;

impl Engine {
    pub(super) async fn load(
        &mut self,
        id: u32,
        source: Source,
        files: Vec<Blob>,
        options: LoadOptions,
    ) -> Result<ModelInfo> {
        let start = now_ms();
        self.model = None;
        self.mail.begin(id, Credit::Unlimited);
        let loaded = match source::parts(source.clone(), files) {
            Ok(parts) => {
                let loaded = self.load_model(id, source.file_name(), &parts, options).await;
                if let Err(error) = &loaded {
                    source::forget_refused(&parts, error).await;
                }
                loaded
            }
            Err(error) => Err(error),
        };
        self.mail.end();
        let mut model = loaded?;
        model.info.load_ms = now_ms() - start;
        let info = model.info.clone();
        self.model = Some(model);
        Ok(info)
    }

    async fn load_model(&mut self, id: u32, name: &str, parts: &[Part], options: LoadOptions) -> Result<Model> {
        let threads = options.threads;
        let arrival = RefCell::new(Arrival::new(id, name.to_owned(), options.clone(), self.mail.clone()));
        let (fetched, arrived) = self.arrive(parts, &options, &arrival).await?;
        let n_bytes = arrival.borrow().n_bytes();
        drop(arrival);

        let Arrived { loader, tokenizer, mut info } = arrived;
        let mut progress = Progress::new(id, LoadPhase::Upload);
        let weights = info.memory_needs.weights;
        progress.reached_in(LoadPhase::Upload, weights, weights);
        let pool = threads::start(threads).await;
        let finishing = loader.finish(pool, |stage, done, total| progress.reached_in(phase(stage), done, total));
        let mut finishing = pin!(finishing);
        let backend = poll_fn(|context| {
            if self.attend(context) {
                return Poll::Ready(Err(stopped()));
            }
            finishing.as_mut().poll(context).map(Ok)
        });
        let backend = backend.await?;
        describe_backend(&mut info, &backend);
        info.kv_bytes_per_position = backend.kv_bytes_per_position() as u64;
        (info.bytes, info.memory_bytes) = (n_bytes, memory_bytes());
        (info.sha256, info.from_cache, info.cache_notice) = (fetched.sha256, fetched.from_cache, fetched.notice);
        Ok(Model { backend, tokenizer, info, cached: Vec::new() })
    }

    /// Fetches a model, and hands its tensors over meanwhile.
    async fn arrive(
        &mut self,
        parts: &[Part],
        options: &LoadOptions,
        arrival: &RefCell<Arrival>,
    ) -> Result<(Fetched, Arrived)> {
        let (mail, stop) = (self.mail.clone(), self.mail.abort_signal());
        let how = How { stop: &stop, cache: options.cache.unwrap_or(true), sha256: options.sha256.as_deref() };
        let mut sink = ArrivalSink::new(arrival);
        let mut fetching = pin!(source::transfer(parts, &mail, how, &mut sink));
        let (mut is_fetched, mut fetched) = (false, None);
        let (mut building, mut n_beginnings) = (None, 0);
        poll_fn(|context| {
            let is_stopped = self.attend(context);
            if !is_fetched && let Poll::Ready(outcome) = fetching.as_mut().poll(context) {
                is_fetched = true;
                let mut arrival = arrival.borrow_mut();
                if let Some(failure) = arrival.failure() {
                    return Poll::Ready(Err(failure));
                }
                match outcome.and_then(|outcome| arrival.complete().map(|()| outcome)) {
                    Ok(outcome) => fetched = Some(outcome),
                    Err(error) => return Poll::Ready(Err(error)),
                }
            }
            if is_fetched && is_stopped {
                return Poll::Ready(Err(stopped()));
            }
            let n = arrival.borrow().n_beginnings();
            if n != n_beginnings {
                // What was built of an earlier beginning is void.
                (building, n_beginnings) = (Some(Box::pin(build(arrival, &mail))), n);
            }
            let Some(Poll::Ready(built)) = building.as_mut().map(|building| building.as_mut().poll(context)) else {
                return Poll::Pending;
            };
            building = None;
            match built {
                Err(error) if !is_fetched => {
                    // The transfer ends before its error is passed on.
                    arrival.borrow_mut().fail(error);
                    mail.abort();
                    context.waker().wake_by_ref();
                    Poll::Pending
                }
                built => Poll::Ready(built.map(|arrived| {
                    let fetched = fetched.take().expect("what was built had come in full");
                    (fetched, arrived)
                })),
            }
        })
        .await
    }

    /// Answers mail, and hears of the next. Returns whether the work was stopped.
    fn attend(&mut self, context: &std::task::Context) -> bool {
        self.answer_mail();
        self.mail.listen(context.waker());
        self.mail.stopped()
    }
}

/// What the header of a model says, and what it asks for.
pub(super) struct Opened {
    pub plan: Plan,
    tokenizer: Tokenizer,
    info: ModelInfo,
    options: LoadOptions,
    /// Why the GPU is not to be tried.
    gpu_refusal: Option<String>,
}

/// A model all of whose tensors have been handed over.
struct Arrived {
    loader: Loader,
    tokenizer: Tokenizer,
    info: ModelInfo,
}

impl Opened {
    /// Errors: whatever is wrong with the header; `too-large` beyond `budget`; `bad-option`.
    pub fn new(gguf: Gguf, name: &str, options: &LoadOptions, budget: &Budget) -> Result<Self> {
        let config = ModelConfig::from_gguf(&gguf)?;
        let weights = Weights::from_gguf(&gguf, &config)?;
        let context_length = context(&config, options.context_length)?;
        let mut info = ModelInfo {
            name: if config.name.is_empty() { name.into() } else { config.name.clone() },
            architecture: config.architecture.name().into(),
            quantization: gguf.commonest_type().map_or_else(String::new, |ty| ty.name().into()),
            parameters: gguf.tensors.iter().map(|tensor| tensor.n_elements() as u64).sum(),
            bytes: 0,
            vocab_size: config.vocab_size as u32,
            context_length: context_length as u32,
            layers: config.n_layers as u32,
            embedding: config.n_embd as u32,
            heads: config.n_heads as u32,
            kv_heads: config.n_kv_heads as u32,
            backend: String::new(),
            backend_reason: String::new(),
            backend_refusal: None,
            adapter: None,
            self_test: None,
            build: BUILD.into(),
            threads: 1,
            memory_bytes: 0,
            memory_needs: Default::default(),
            kv_bytes_per_position: 0,
            load_ms: 0.0,
            has_chat_template: gguf.metadata.get("tokenizer.chat_template").is_some(),
            sha256: String::new(),
            from_cache: false,
            cache_notice: None,
        };
        let plan = Plan::new(config, weights);
        let n_threads = options.threads.unwrap_or(MAX_THREADS) as usize;
        let estimate = Estimate::new(&plan, &gguf.metadata, context_length, n_threads);
        // Before the tokenizer, which takes a while, and memory.
        let gpu_refusal = estimate.check(budget)?;
        info.memory_needs = estimate.needs;
        let tokenizer = Tokenizer::from_metadata(&gguf.metadata, info.vocab_size as usize)?;
        Ok(Self { plan, tokenizer, info, options: options.clone(), gpu_refusal })
    }
}

/// Hands each set of tensors over once it is there.
async fn build(arrival: &RefCell<Arrival>, mail: &mail::Mail) -> Result<Arrived> {
    // Whoever polls this has let the transfer go on just before; there is nothing else to be woken by.
    let opened = poll_fn(|_| arrival.borrow_mut().take_opened().map_or(Poll::Pending, Poll::Ready)).await;
    let Opened { plan, tokenizer, info, options, gpu_refusal } = opened;
    let mut loader = Loader::new(options.backend, gpu_refusal, plan, info.context_length as usize).await;
    for set in 0..loader.n_sets() {
        let ids = loader.set(set).to_vec();
        let data = poll_fn(|_| arrival.borrow_mut().hand_over(&ids).map_or(Poll::Pending, Poll::Ready)).await;
        loader.add(set, data).await?;
        mail.tick().await;
    }
    poll_fn(|_| if arrival.borrow().is_complete() { Poll::Ready(()) } else { Poll::Pending }).await;
    Ok(Arrived { loader, tokenizer, info })
}

/// Reports a phase's bytes to the page, now and then.
pub(super) struct Progress {
    id: u32,
    phase: LoadPhase,
    /// Bytes at the last report.
    reported: u64,
}

impl Progress {
    pub(super) fn new(id: u32, phase: LoadPhase) -> Self {
        Self { id, phase, reported: 0 }
    }

    /// A phase begins, so far into the bytes.
    pub(super) fn enter(&mut self, phase: LoadPhase, received: u64, total: Option<u64>) {
        (self.phase, self.reported) = (phase, received);
        report(self.id, phase, received, total);
    }

    /// The bytes come from the first one again.
    pub(super) fn restart(&mut self) {
        self.reported = 0;
    }

    /// Something that takes no time to speak of, between others.
    pub(super) fn passed(&self, phase: LoadPhase) {
        report(self.id, phase, 0, None);
    }

    /// Like [`reached`](Self::reached), in a phase that may be new.
    fn reached_in(&mut self, phase: LoadPhase, done: u64, total: u64) {
        if phase != self.phase {
            (self.phase, self.reported) = (phase, 0);
        }
        // Only bytes come in numbers too large to report each.
        if phase == LoadPhase::Upload {
            self.reached(done, Some(total));
        } else {
            report(self.id, phase, done, Some(total));
        }
    }

    pub(super) fn reached(&mut self, received: u64, total: Option<u64>) {
        if received >= self.reported + REPORT_EVERY || Some(received) == total {
            self.reported = received;
            report(self.id, self.phase, received, total);
        }
    }
}

/// Says in `info` what runs the model.
pub(super) fn describe_backend(info: &mut ModelInfo, backend: &ChosenBackend) {
    info.backend = backend.name().into();
    info.backend_reason = match backend.pool().shortfall() {
        Some(shortfall) if backend.name() == "cpu" => format!("{} {shortfall}", backend.reason()),
        _ => backend.reason().into(),
    };
    info.backend_refusal = backend.refusal().map(str::to_owned);
    info.threads = backend.pool().n_threads() as u32;
    info.adapter = backend.adapter().map(str::to_owned);
    info.self_test = backend.self_test();
}

fn phase(stage: Stage) -> LoadPhase {
    match stage {
        Stage::Upload => LoadPhase::Upload,
        Stage::Compile => LoadPhase::Compile,
        Stage::SelfTest => LoadPhase::SelfTest,
    }
}

/// The context to make room for: what was asked for, at most what the model was trained on.
fn context(config: &ModelConfig, asked: Option<u32>) -> Result<usize> {
    let limit = config.context_length;
    match asked {
        None => Ok(limit.min(DEFAULT_CONTEXT)),
        Some(asked) if asked > 0 && asked as usize <= limit => Ok(asked as usize),
        Some(asked) => Err(Error::BadOption(format!("contextLength is {asked}; this model takes 1 to {limit}."))),
    }
}

fn report(id: u32, phase: LoadPhase, received: u64, total: Option<u64>) {
    mail::post(id, Event::Progress(LoadProgress { phase, received, total }));
}
