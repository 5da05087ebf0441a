//! `cargo run --example perplexity -- TOKENS MODEL...`: the perplexity of a fixed text by the scalar reference, the CPU engine and the
//! GPU engine, a row for each model file. `cargo xtask bench perplexity` makes the files.
//!
//! Invariant: fails when an engine's perplexity is further from the reference's than [`TOLERANCE`].

#[path = "../tests/support/nmse.rs"]
mod nmse;
#[path = "../tests/support/perplexity.rs"]
mod perplexity;
#[path = "../tests/support/reference.rs"]
mod reference;

use nucleus::backend::cpu::{CpuBackend, Pool};
use nucleus::backend::gpu::{Gpu, GpuBackend};
use nucleus::gguf::Gguf;
use nucleus::model::{ModelConfig, Plan, Weights};
use nucleus::tokenizer::Tokenizer;
use perplexity::{Deviation, PROSE, TOLERANCE, perplexity, step_through};
use reference::Reference;
use std::path::Path;
use std::process::ExitCode;
use std::rc::Rc;
use std::thread;

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match pollster::block_on(measure(&arguments)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("perplexity: {error}");
            ExitCode::FAILURE
        }
    }
}

async fn measure(arguments: &[String]) -> Result<()> {
    let [n_tokens, models @ ..] = arguments else { return Err("Expected a number of tokens and model files.".into()) };
    let n_tokens: usize = n_tokens.parse()?;
    let gpu = Gpu::open().await.map(Rc::new);
    match &gpu {
        Ok(gpu) => println!("GPU: {}", gpu.adapter),
        Err(error) => println!("No GPU: {error}"),
    }
    println!("{:<32}{:>12}{:>11}{:>23}{:>23}", "model", "bytes", "reference", "CPU %, worst nmse", "GPU %, worst nmse");
    let mut far = Vec::new();
    for model in models {
        if !row(model, n_tokens, gpu.as_ref().ok()).await? {
            far.push(model.as_str());
        }
    }
    match far.is_empty() {
        true => Ok(()),
        false => Err(format!("More than {TOLERANCE} % from the reference: {}.", far.join(", ")).into()),
    }
}

/// Prints what a model file gives. Whether all engines that can take it are near the reference.
async fn row(model: &str, n_tokens: usize, gpu: Option<&Rc<Gpu>>) -> Result<bool> {
    let file = std::fs::read(model).map_err(|error| format!("The model {model} cannot be read: {error}."))?;
    let gguf = Gguf::parse(&file)?;
    let config = ModelConfig::from_gguf(&gguf)?;
    let mut ids = Tokenizer::from_metadata(&gguf.metadata, config.vocab_size)?.encode(PROSE, false)?;
    if !(2..=ids.len()).contains(&n_tokens) {
        return Err(format!("{n_tokens} tokens are asked for; the text has from 2 to {}.", ids.len()).into());
    }
    ids.truncate(n_tokens);
    let plan = || -> nucleus::Result<Plan> {
        let config = ModelConfig::from_gguf(&gguf)?;
        let weights = Weights::from_gguf(&gguf, &config)?;
        Ok(Plan::new(config, weights))
    };
    let exact = Reference::new(&file).logits(&ids);

    let pool = Pool::start(thread::available_parallelism()?.get());
    let mut cpu = CpuBackend::load(plan()?, &file, n_tokens, pool)?;
    let cpu = Deviation::new(&step_through(&mut cpu, &ids).await?, &exact, &ids);
    let on_gpu = match gpu {
        None => None,
        Some(gpu) => match GpuBackend::load(gpu.clone(), plan()?, &file, n_tokens, |_, _, _| {}).await {
            Err(error) if error.kind() == "unsupported-quantization" => None,
            backend => Some(Deviation::new(&step_through(&mut backend?, &ids).await?, &exact, &ids)),
        },
    };

    let name = Path::new(model).file_stem().map_or(model.into(), |name| name.to_string_lossy());
    let cell = |of: &Deviation| format!("{:.4} {:+.4} {:.0e}", of.perplexity, of.percent, of.worst_nmse);
    println!(
        "{name:<32}{:>12}{:>11.4}{:>23}{:>23}",
        file.len(),
        perplexity(&exact, &ids),
        cell(&cpu),
        on_gpu.as_ref().map_or(if gpu.is_some() { "no kernel" } else { "no GPU" }.to_owned(), cell),
    );
    Ok(cpu.is_near() && on_gpu.is_none_or(|of| of.is_near()))
}
