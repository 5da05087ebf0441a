//! What page and engine say to each other: [`Request`]s one way, [`Reply`]s the other. Plain data, encoded with postcard into
//! one byte buffer per message; local files ride beside their `Load` request as Blobs.
//!
//! Invariant: no handles, no closures, no platform types; both wasm binaries are built from the same commit, so the
//! encoding needs no versioning.

mod options;

pub use options::{ChatMessage, GenerateOptions, Prompt, SamplerOrder, SamplingOptions};

use crate::error::Error;
use crate::tail::Tail;
use serde::{Deserialize, Serialize};

/// What the engine posts, as a plain string, once it can take letters: a module worker loses what comes before it listens.
pub const READY: &str = "ready";

/// A command with the number that its replies carry.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Request {
    pub id: u32,
    pub command: Command,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Command {
    /// -> `Progress`*, then `Loaded`.
    Load { source: Source, options: LoadOptions },
    /// -> `Done`. Drops model and cache.
    Unload,
    /// -> `Tokens`. `special`: control tokens in `text` are parsed.
    Tokenize { text: String, special: bool },
    /// -> `Text`.
    Detokenize { ids: Vec<u32> },
    /// -> `Rendered`.
    RenderChat { messages: Vec<ChatMessage> },
    /// One forward pass from an empty cache -> `Logits` of the last position, whole vocabulary.
    Logits { ids: Vec<u32> },
    /// -> `Prefill`*, `Step`*, then `Finished`.
    Generate { options: GenerateOptions, credit: Credit },
    /// Lets the run that request `run` started go on until it has made `credit` steps in all. No reply of its own.
    Grant { run: u32, credit: Credit },
    /// Switches the KV cache of the run that request `run` started, from its next token on. No reply of its own.
    SetKvCache { run: u32, on: bool },
    /// Ends what is in progress, if anything -> `Done`. A run then replies `Finished` with `Cancelled`, a load `Failed` with
    /// `cancelled`.
    Stop,
    /// -> `Diagnostics`.
    Diagnostics,
}

/// Threads that the CPU engine can have.
pub const MAX_THREADS: u32 = 16;

/// How far a run may go before it waits for the page.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Credit {
    /// Until it has made this many steps, counted from the start of the run.
    Steps(u32),
    /// To its end: the page is not pacing it.
    Unlimited,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Source {
    Url(String),
    /// The Blobs beside the message, by their names: one, or all parts of a split model in any order.
    Files(Vec<String>),
}

impl Source {
    /// What to call the file: the last part of a URL's path, or the whole URL where that is empty.
    pub fn file_name(&self) -> &str {
        match self {
            Source::Url(url) => {
                let path = url.split(['?', '#']).next().unwrap_or(url);
                path.rsplit('/').next().filter(|name| !name.is_empty()).unwrap_or(url)
            }
            Source::Files(names) => names.iter().min().map_or("", String::as_str),
        }
    }
}

/// Where a model is asked to run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum BackendChoice {
    /// On WebGPU where that works, otherwise on the CPU.
    #[default]
    Auto,
    WebGpu,
    Cpu,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct LoadOptions {
    pub backend: BackendChoice,
    /// Of the CPU engine; default: as many as there are cores, within reason.
    pub threads: Option<u32>,
    /// Positions the KV cache may hold; default: the model's own, at most 4096.
    pub context_length: Option<u32>,
    /// Read a URL's file from the kept copy, and keep one; default: yes.
    pub cache: Option<bool>,
    /// Lower-case hex; the file is refused when it differs.
    pub sha256: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Reply {
    /// The request this answers.
    pub id: u32,
    pub event: Event,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Event {
    Progress(LoadProgress),
    Loaded(ModelInfo),
    /// Under the number of whatever request is in progress, which goes on to its own last event: the model runs elsewhere from
    /// now on (its GPU was lost).
    Model(ModelInfo),
    Tokens(Vec<TokenPiece>),
    Text(String),
    Rendered(RenderedChat),
    Logits(Vec<f32>),
    /// The prompt: positions computed so far, of how many.
    Prefill {
        done: u32,
        total: u32,
    },
    Step(StepRecord),
    Finished(RunResult),
    Done,
    /// Boxed: much larger than a step, and rare.
    Diagnostics(Box<Diagnostics>),
    /// The request ends here.
    Failed(Error),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum LoadPhase {
    Download,
    /// The kept copy is read.
    Cache,
    /// The connection was lost; another try follows.
    Retry,
    Parse,
    Upload,
    /// The GPU's pipelines.
    Compile,
    /// A short prompt through both engines.
    SelfTest,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LoadProgress {
    pub phase: LoadPhase,
    /// Bytes in `Download`, `Cache`, `Retry` and `Upload`, pipelines in `Compile`; otherwise parts of the work.
    pub received: u64,
    pub total: Option<u64>,
}

/// Bytes that a model takes, as its header lets expect.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemoryNeeds {
    /// In the form in which the CPU engine keeps them.
    pub weights: u64,
    /// The CPU engine's KV cache, for the whole context.
    pub cache: u64,
    /// Working memory of a pass.
    pub work: u64,
    pub tokenizer: u64,
    /// In GPU memory, if the GPU holds the model; 0 where it cannot.
    pub gpu: u64,
}

/// `ModelInfo` of the JavaScript API.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ModelInfo {
    pub name: String,
    pub architecture: String,
    /// The commonest format by bytes, e.g. `Q4_1`.
    pub quantization: String,
    pub parameters: u64,
    pub bytes: u64,
    pub vocab_size: u32,
    pub context_length: u32,
    pub layers: u32,
    pub embedding: u32,
    pub heads: u32,
    pub kv_heads: u32,
    /// `webgpu` or `cpu`.
    pub backend: String,
    /// Why that one, as a sentence.
    pub backend_reason: String,
    /// What the browser said, in full, when it gave no GPU.
    pub backend_refusal: Option<String>,
    /// The GPU adapter's name; none on the CPU.
    pub adapter: Option<String>,
    /// How the GPU did against the CPU engine at loading; none when it was not tried.
    pub self_test: Option<SelfTest>,
    /// The engine build, e.g. `simd128`.
    pub build: String,
    /// Of the CPU engine.
    pub threads: u32,
    /// Bytes of wasm memory after loading.
    pub memory_bytes: u64,
    pub memory_needs: MemoryNeeds,
    /// Bytes that one position takes in the KV cache.
    pub kv_bytes_per_position: u64,
    pub load_ms: f64,
    pub has_chat_template: bool,
    /// Of the file, lower-case hex.
    pub sha256: String,
    /// It was kept from an earlier load.
    pub from_cache: bool,
    /// What the reader should know of the cache, as sentences.
    pub cache_notice: Option<String>,
}

/// A short prompt through both engines, the CPU engine being the reference.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct SelfTest {
    /// Normalised mean square error of the GPU's logits: Σ (gpu - cpu)² / Σ cpu².
    pub error: f64,
    /// The largest error that passes.
    pub tolerance: f64,
    /// Both engines find the same token likeliest, or the margin is too small to say; and the list of the likeliest tokens and
    /// the sums that the GPU makes are those of its logits.
    pub same_top: bool,
    pub passed: bool,
    /// Tokens of the prompt.
    pub n_tokens: u32,
    /// Milliseconds, both engines together.
    pub ms: f64,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TokenPiece {
    pub id: u32,
    /// The token's own bytes; a control token's are its name.
    pub bytes: Vec<u8>,
}

/// A conversation as the model reads it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RenderedChat {
    /// What the template wrote.
    pub text: String,
    /// The tokens of it; the first may be a BOS that the template leaves to the tokenizer.
    pub tokens: Vec<PromptToken>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PromptToken {
    pub bytes: Vec<u8>,
    pub is_control: bool,
}

/// One candidate of a step. Candidates come in descending probability; ids break ties.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Candidate {
    pub id: u32,
    pub bytes: Vec<u8>,
    /// As the model gave it.
    pub logit: f32,
    /// Softmax of the model's logits: temperature 1, nothing filtered.
    pub p_raw: f32,
    /// After processors and temperature, nothing filtered; 0 when forbidden.
    pub p_temperature: f32,
    /// As drawn from: 0 when cut.
    pub p_final: f32,
    /// Running sum, this one included, of the probability that top-p looks at: after the
    /// temperature and top-k, or, in llama.cpp's order, after top-k and typical-p at temperature 1.
    pub cumulative: f32,
    pub kept: bool,
}

/// One step of a run: what was computed, what could have been drawn, and what was.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StepRecord {
    /// 0 for the first new token.
    pub index: u32,
    /// The token's place in the sequence: prompt tokens + index.
    pub position: u32,
    /// Positions in the KV cache when the draw was made.
    pub kv_length: u32,
    /// Positions that went through the model for this step: 1 with the cache, all of them without (and for the prompt).
    pub positions_computed: u32,
    pub id: u32,
    /// The text that this step released: whole characters, nothing that could still become a stop string.
    pub text: String,
    pub bytes: Vec<u8>,
    /// Place of the token among all candidates, 0 the likeliest after the processors.
    pub rank: u32,
    /// The probability it was drawn with.
    pub p: f32,
    /// -log2 of the model's own probability (`p_raw`).
    pub surprisal_bits: f32,
    /// The uniform draw in [0, 1); none when greedy or forced.
    pub u: Option<f64>,
    pub candidates: Vec<Candidate>,
    /// How many tokens were kept, of the whole vocabulary.
    pub nucleus_size: u32,
    /// Their probability before renormalisation (after temperature).
    pub nucleus_mass: f32,
    /// Entropy of the model's own distribution (temperature 1).
    pub entropy_bits: f32,
    /// The tokens beyond the candidates; none when no candidates were asked for.
    pub tail: Option<Tail>,
    pub ms: StepMs,
}

/// Where the time of a step went, milliseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct StepMs {
    pub total: f64,
    pub forward: f64,
    pub sample: f64,
    pub readback: f64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum StopReason {
    Eos,
    Stop,
    Length,
    Context,
    Cancelled,
    Time,
}

impl StopReason {
    /// As the JavaScript API spells it.
    pub fn as_str(self) -> &'static str {
        match self {
            StopReason::Eos => "eos",
            StopReason::Stop => "stop",
            StopReason::Length => "length",
            StopReason::Context => "context",
            StopReason::Cancelled => "cancelled",
            StopReason::Time => "time",
        }
    }
}

/// A finished run and its three speeds (SEMANTICS.md, "Speed figures").
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunResult {
    /// Of the run's own steps; what it resumed from is not repeated.
    pub text: String,
    pub ids: Vec<u32>,
    pub stop_reason: StopReason,
    pub prompt_tokens: u32,
    pub new_tokens: u32,
    /// Positions that the KV cache already held when the run began.
    pub reused_tokens: u32,
    pub seed: u64,
    /// From the start of the run to its first token.
    pub ttft_ms: f64,
    pub prefill_ms: f64,
    pub prefill_tokens_per_s: f64,
    /// From the first token to the last.
    pub decode_ms: f64,
    /// (n - 1) / decode time; 0 for fewer than two tokens.
    pub decode_tokens_per_s: f64,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Diagnostics {
    pub version: String,
    pub build: String,
    pub backend: String,
    pub memory_bytes: u64,
    pub model: Option<ModelInfo>,
    /// None when no GPU was tried.
    pub gpu: Option<GpuDiagnostics>,
    /// Kind and sentence of the last failed request.
    pub last_error: Option<(String, String)>,
}

/// The GPU as it was found, in use or not.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct GpuDiagnostics {
    /// The adapter's name.
    pub adapter: String,
    /// It computes on the CPU.
    pub software: bool,
    /// Features of the device, as WebGPU names them.
    pub features: Vec<String>,
    /// Limits of the device, as WebGPU names them.
    pub limits: Vec<(String, u64)>,
    /// Bytes in the engine's buffers: weights, cache and scratch.
    pub buffer_bytes: u64,
    pub pipelines: u32,
    /// Milliseconds from the first pipeline asked for to the last one ready.
    pub compile_ms: f64,
    pub dispatches_per_token: u32,
    pub self_test: Option<SelfTest>,
    /// Why the GPU does not run the model, or no longer; none when it does.
    pub failure: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_names_its_file_without_query_and_fragment() {
        let name = |url: &str| Source::Url(url.into()).file_name().to_owned();
        assert_eq!(name("https://host/a/x.gguf"), "x.gguf");
        assert_eq!(name("https://host/x.gguf?download=true"), "x.gguf");
        assert_eq!(name("https://host/x.gguf#a/b"), "x.gguf");
        assert_eq!(name("x.gguf?from=/a/b"), "x.gguf");
        assert_eq!(name("https://host/?id=3"), "https://host/?id=3");
        assert_eq!(Source::Files(vec!["a?b.gguf".into()]).file_name(), "a?b.gguf", "a local file's name is its name");
    }
}
