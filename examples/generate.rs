//! Writes text natively: `cargo run --release --example generate -- MODEL [options]`.
//!
//! The text goes to stdout as it is made; where the model ran, and how fast, to stderr at the end.
//!
//! Invariant: what a token is and when a run ends is decided by `Session`, as on the page; nothing here looks into a model.

use nucleus::backend::cpu::{MAX_THREADS, Pool};
use nucleus::backend::{Backend, ChosenBackend};
use nucleus::generate::{Limits, Progress, Session};
use nucleus::gguf::Gguf;
use nucleus::model::{ModelConfig, Plan, Weights};
use nucleus::protocol::{BackendChoice, GenerateOptions, Prompt, RunResult, SamplingOptions};
use nucleus::tokenizer::Tokenizer;
use std::fmt::Display;
use std::io::{self, Write};
use std::process::ExitCode;
use std::str::FromStr;
use std::time::SystemTime;

const USAGE: &str = "\
cargo run --release --example generate -- MODEL [options]
  --backend auto|gpu|cpu  where to run it (auto)
  --prompt TEXT           what to go on from (Once upon a time)
  --threads N             of the CPU engine (as many as there are cores, at most 8)
  --n N                   new tokens at most (64)
  --temperature T         0 is greedy (0.7)
  --top-p P               the probability that the nucleus holds (0.9)
  --seed S                of the draws (another one each time)
  --no-kv-cache           compute every position anew for each token";

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if arguments.iter().any(|argument| argument == "--help") {
        println!("{USAGE}");
        return ExitCode::SUCCESS;
    }
    match Arguments::parse(arguments).and_then(run) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("generate: {error}");
            ExitCode::FAILURE
        }
    }
}

struct Arguments {
    model: String,
    backend: BackendChoice,
    n_threads: usize,
    prompt: String,
    options: GenerateOptions,
}

impl Arguments {
    /// Defaults as on the page (`www/nucleus.d.ts`).
    fn parse(arguments: Vec<String>) -> Result<Self> {
        let mut model = None;
        let mut backend = BackendChoice::Auto;
        let mut n_threads = std::thread::available_parallelism().map_or(1, |n| n.get().min(8));
        let mut prompt = "Once upon a time".to_owned();
        let mut options = GenerateOptions {
            prompt: Prompt::Ids(Vec::new()),
            max_new_tokens: 64,
            min_new_tokens: 0,
            sampling: SamplingOptions { temperature: 0.7, top_p: 0.9, seed: another_seed(), ..SamplingOptions::OFF },
            stop: Vec::new(),
            ignore_eos: false,
            max_time_ms: None,
            kv_cache: true,
            candidates: 0,
            resume_ids: Vec::new(),
            force_ids: Vec::new(),
            reuse_cache: false,
        };
        let mut arguments = arguments.into_iter();
        while let Some(argument) = arguments.next() {
            let mut value =
                || arguments.next().ok_or(format!("`{argument}` is the last word; expected a value after it."));
            match argument.as_str() {
                "--backend" => backend = backend_named(&value()?)?,
                "--prompt" => prompt = value()?,
                "--threads" => n_threads = threads(&value()?)?,
                "--n" => options.max_new_tokens = number("--n", &value()?)?,
                "--temperature" => options.sampling.temperature = number("--temperature", &value()?)?,
                "--top-p" => options.sampling.top_p = number("--top-p", &value()?)?,
                "--seed" => options.sampling.seed = number("--seed", &value()?)?,
                "--no-kv-cache" => options.kv_cache = false,
                _ if argument.starts_with("--") => {
                    return Err(format!("`{argument}` is not an option; there are:\n{USAGE}").into());
                }
                _ if model.is_none() => model = Some(argument),
                _ => return Err(format!("`{argument}` comes after the model; expected one model only.").into()),
            }
        }
        let model = model.ok_or_else(|| format!("No model is named; expected the path of a GGUF file:\n{USAGE}"))?;
        Ok(Self { model, backend, n_threads, prompt, options })
    }
}

fn backend_named(name: &str) -> Result<BackendChoice> {
    match name {
        "auto" => Ok(BackendChoice::Auto),
        "gpu" => Ok(BackendChoice::WebGpu),
        "cpu" => Ok(BackendChoice::Cpu),
        _ => Err(format!("`--backend` is `{name}`; expected auto, gpu or cpu.").into()),
    }
}

fn threads(text: &str) -> Result<usize> {
    match number("--threads", text)? {
        n @ 1..=MAX_THREADS => Ok(n),
        n => Err(format!("`--threads` is {n}; expected 1 to {MAX_THREADS}.").into()),
    }
}

fn number<T: FromStr<Err: Display>>(option: &str, text: &str) -> Result<T> {
    text.parse().map_err(|error| format!("`{option}` is `{text}`; expected a number ({error}).").into())
}

/// The time of day: as good as any number, as long as it is another one each time.
fn another_seed() -> u64 {
    let since_1970 = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    since_1970.map_or(0, |duration| duration.as_millis() as u64)
}

fn run(arguments: Arguments) -> Result<()> {
    let Arguments { model, backend, n_threads, prompt, options } = arguments;
    let file = std::fs::read(&model).map_err(|error| format!("The model {model} cannot be read: {error}."))?;
    let gguf = Gguf::parse(&file)?;
    let config = ModelConfig::from_gguf(&gguf)?;
    let weights = Weights::from_gguf(&gguf, &config)?;
    let tokenizer = Tokenizer::from_metadata(&gguf.metadata, config.vocab_size)?;
    drop(gguf);
    let (context_length, vocab_size) = (config.context_length, config.vocab_size);
    let plan = Plan::new(config, weights);
    let pool = Pool::start(n_threads);
    let mut backend =
        pollster::block_on(ChosenBackend::load(backend, plan, &file, context_length, pool, |_, _, _| {}))?;
    let limits = Limits { context_length, vocab_size, prefill_batch: backend.prefill_batch() };

    // The token that the model wants in front, as the page adds it.
    let prompt = tokenizer.add_bos().into_iter().chain(tokenizer.encode(&prompt, false)?).collect();
    let session = Session::new(options, prompt, limits, tokenizer.eos())?;
    let result = pollster::block_on(stream(session, &mut backend, &tokenizer))?;
    report(&result, &backend);
    Ok(())
}

/// Prints the text of each token at once.
async fn stream<B: Backend>(mut session: Session, backend: &mut B, tokenizer: &Tokenizer) -> Result<RunResult> {
    let mut stdout = io::stdout();
    loop {
        match session.advance(backend, tokenizer).await? {
            Progress::Prefill { .. } => {}
            Progress::Step(step) => {
                stdout.write_all(step.text.as_bytes())?;
                stdout.flush()?;
            }
            Progress::Finished(result) => {
                stdout.write_all(b"\n")?;
                return Ok(result);
            }
        }
    }
}

fn report(result: &RunResult, backend: &ChosenBackend) {
    eprintln!("backend  {}: {}", backend.name(), backend.reason());
    eprintln!("threads  {}", backend.pool().n_threads());
    eprintln!("prompt   {} tokens, {:.1} tokens/s", result.prompt_tokens, result.prefill_tokens_per_s);
    eprintln!("decode   {} tokens, {:.1} tokens/s", result.new_tokens, result.decode_tokens_per_s);
    eprintln!("end      {}, seed {}", result.stop_reason.as_str(), result.seed);
}
