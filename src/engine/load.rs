//! Loading: bytes, then directory, tokenizer, plan and weights, each of which may refuse.
//!
//! Invariant: the model in place goes before its successor's bytes come, so that only one is ever in memory.

use super::{BUILD, Engine, Model, mail, memory_bytes, threads};
use crate::backend::{ChosenBackend, Stage};
use crate::clock::now_ms;
use crate::error::{Error, Result};
use crate::fetch::{self, Fetched, Request, Sink};
use crate::gguf::{self, Gguf};
use crate::model::{ModelConfig, Plan, Weights};
use crate::protocol::{Credit, Event, LoadOptions, LoadPhase, LoadProgress, ModelInfo, Source};
use crate::tokenizer::Tokenizer;
use js_sys::Uint8Array;
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
        file: Option<Blob>,
        options: LoadOptions,
    ) -> Result<ModelInfo> {
        let start = now_ms();
        self.model = None;
        self.mail.begin(id, Credit::Unlimited);
        let signal = self.mail.abort_signal();
        let mut download = Download::new(self, Progress::new(id, LoadPhase::Download));
        let sha256 = options.sha256.as_deref();
        let fetched = match (&source, file) {
            (Source::Url(url), _) => {
                let request = Request { url, stop: &signal, cache: options.cache.unwrap_or(true), sha256 };
                fetch::url(request, &mut download).await
            }
            (Source::Blob { .. }, Some(blob)) => fetch::blob(&blob, sha256, &mut download).await,
            (Source::Blob { .. }, None) => Err(Error::BadOption("The message holds no file.".into())),
        };
        let bytes = download.bytes;
        self.mail.end();
        let fetched = fetched?;
        report(id, LoadPhase::Parse, 0, None);
        let built = build(id, source.file_name(), bytes, fetched, &options, start).await;
        if let (Err(error), Source::Url(url)) = (&built, &source) {
            fetch::forget_refused(url, error).await;
        }
        let model = built?;
        let info = model.info.clone();
        self.model = Some(model);
        Ok(info)
    }
}

/// Gathers a download, reports it, answers mail meanwhile, and ends it when it is stopped or is no GGUF file.
struct Download<'a> {
    engine: &'a mut Engine,
    progress: Progress,
    bytes: Vec<u8>,
    total: Option<u64>,
}

impl<'a> Download<'a> {
    fn new(engine: &'a mut Engine, progress: Progress) -> Self {
        Self { engine, progress, bytes: Vec::new(), total: None }
    }

    /// Room for `n` more bytes: all that are to come at once, but only for a file that is one of ours.
    fn reserve(&mut self, n: usize) -> Result<()> {
        let start = self.bytes.len();
        let reserved = match self.total.filter(|_| start >= 4).map(usize::try_from) {
            Some(Ok(total)) => self.bytes.try_reserve_exact(total - start).is_ok(),
            Some(Err(_)) => false,
            None => self.bytes.try_reserve(n).is_ok(),
        };
        let total = self.total.unwrap_or((start + n) as u64);
        reserved.then_some(()).ok_or_else(|| {
            Error::TooLarge(format!("The file has {total} bytes; there is no memory for them in this browser."))
        })
    }
}

impl Sink for Download<'_> {
    fn begin(&mut self, total: Option<u64>) -> Result<()> {
        self.bytes.clear();
        self.total = total;
        self.progress.reported = 0;
        Ok(())
    }

    fn take(&mut self, chunk: &Uint8Array) -> Result<()> {
        let (start, n) = (self.bytes.len(), chunk.length() as usize);
        // Past what was announced, nothing is known of the total.
        self.total = self.total.filter(|&total| total >= (start + n) as u64);
        self.reserve(n)?;
        self.bytes.resize(start + n, 0);
        chunk.copy_to(&mut self.bytes[start..]);
        if start < 4 && self.bytes.len() >= 4 {
            gguf::check_magic(&self.bytes)?;
        }
        self.engine.answer_mail();
        if self.engine.mail.stopped() {
            return Err(Error::Cancelled("Loading was stopped.".into()));
        }
        self.progress.reached(self.bytes.len() as u64, self.total);
        Ok(())
    }

    fn phase(&mut self, phase: LoadPhase) {
        self.progress.phase = phase;
        if phase == LoadPhase::Retry {
            report(self.progress.id, phase, self.bytes.len() as u64, self.total);
        }
    }
}

/// Reports a phase's bytes to the page, now and then.
struct Progress {
    id: u32,
    phase: LoadPhase,
    /// Bytes at the last report.
    reported: u64,
}

impl Progress {
    fn new(id: u32, phase: LoadPhase) -> Self {
        Self { id, phase, reported: 0 }
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

    fn reached(&mut self, received: u64, total: Option<u64>) {
        if received >= self.reported + REPORT_EVERY || Some(received) == total {
            self.reported = received;
            report(self.id, self.phase, received, total);
        }
    }
}

async fn build(
    id: u32,
    name: &str,
    bytes: Vec<u8>,
    fetched: Fetched,
    options: &LoadOptions,
    start: f64,
) -> Result<Model> {
    let n_bytes = bytes.len() as u64;
    let gguf = Gguf::parse(&bytes)?;
    let config = ModelConfig::from_gguf(&gguf)?;
    let weights = Weights::from_gguf(&gguf, &config)?;
    let tokenizer = Tokenizer::from_metadata(&gguf.metadata, config.vocab_size)?;
    let context_length = context(&config, options.context_length)?;

    let mut info = ModelInfo {
        name: if config.name.is_empty() { name.into() } else { config.name.clone() },
        architecture: config.architecture.name().into(),
        quantization: gguf.commonest_type().map_or_else(String::new, |ty| ty.name().into()),
        parameters: gguf.tensors.iter().map(|tensor| tensor.n_elements() as u64).sum(),
        bytes: n_bytes,
        vocab_size: config.vocab_size as u32,
        context_length: context_length as u32,
        layers: config.n_layers as u32,
        embedding: config.n_embd as u32,
        heads: config.n_heads as u32,
        kv_heads: config.n_kv_heads as u32,
        backend: String::new(),
        backend_reason: String::new(),
        adapter: None,
        self_test: None,
        build: BUILD.into(),
        threads: 1,
        memory_bytes: 0,
        kv_bytes_per_position: 0,
        load_ms: 0.0,
        has_chat_template: gguf.metadata.get("tokenizer.chat_template").is_some(),
        sha256: fetched.sha256,
        from_cache: fetched.from_cache,
        cache_notice: fetched.notice,
    };
    let plan = Plan::llama(config, weights);
    drop(gguf);
    let mut progress = Progress::new(id, LoadPhase::Upload);
    let report = |stage, done, total| progress.reached_in(phase(stage), done, total);
    let pool = threads::start(options.threads).await;
    let backend = ChosenBackend::load(options.backend, plan, bytes, context_length, pool, report).await?;
    describe_backend(&mut info, &backend);
    info.kv_bytes_per_position = backend.kv_bytes_per_position() as u64;
    info.memory_bytes = memory_bytes();
    info.load_ms = now_ms() - start;
    Ok(Model { backend, tokenizer, info, cached: Vec::new() })
}

/// Says in `info` what runs the model.
pub(super) fn describe_backend(info: &mut ModelInfo, backend: &ChosenBackend) {
    info.backend = backend.name().into();
    info.backend_reason = match backend.pool().shortfall() {
        Some(shortfall) if backend.name() == "cpu" => format!("{} {shortfall}", backend.reason()),
        _ => backend.reason().into(),
    };
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
