//! Measures the GPU engine natively: `cargo xtask bench gpu [MODEL]`.
//!
//! Prefill and decode tokens/s of greedy runs, dispatches a token, the share of the memory bandwidth that decode reaches, and
//! where the device has timestamps the GPU time of each kernel.
//!
//! Invariant: measures what a run does; changes nothing.

use nucleus::backend::gpu::{BATCH, Gpu, GpuBackend};
use nucleus::backend::{Backend, Logits, Wanted};
use nucleus::clock::now_ms;
use nucleus::gguf::Gguf;
use nucleus::model::{ModelConfig, Plan, Weights};
use std::process::ExitCode;
use std::rc::Rc;

const PROMPT_TOKENS: usize = 512;
const NEW_TOKENS: usize = 128;
const RUNS: usize = 3;

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match pollster::block_on(bench(&arguments)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("bench_gpu: {error}");
            ExitCode::FAILURE
        }
    }
}

async fn bench(arguments: &[String]) -> Result<()> {
    let [model] = arguments else { return Err("Expected one argument, the path of a GGUF file.".into()) };
    let file = std::fs::read(model).map_err(|error| format!("The model {model} cannot be read: {error}."))?;
    let gguf = Gguf::parse(&file)?;
    let config = ModelConfig::from_gguf(&gguf)?;
    let weights = Weights::from_gguf(&gguf, &config)?;
    let (vocab_size, kv_width, n_layers) = (config.vocab_size, config.kv_width(), config.n_layers);
    let gpu = Rc::new(Gpu::open().await?);
    println!("model    {model}");
    println!("adapter  {}{}", gpu.adapter, if gpu.is_software { " (software: its speeds say little)" } else { "" });
    // A software adapter takes a second for a few tokens.
    let scale = if gpu.is_software { 16 } else { 1 };
    let (n_prompt, n_new) = (PROMPT_TOKENS / scale, NEW_TOKENS / scale);

    let start = now_ms();
    let plan = Plan::new(config, weights);
    let mut backend = GpuBackend::load(gpu.clone(), plan, &file, n_prompt + n_new, |_, _, _| {}).await?;
    let loaded_ms = now_ms() - start;
    let mut diagnostics = gpu.diagnostics();
    backend.complete(&mut diagnostics);
    println!(
        "load     {loaded_ms:.0} ms, of which {} pipelines {:.0} ms",
        diagnostics.pipelines, diagnostics.compile_ms
    );
    println!("memory   {:.1} MB in buffers", diagnostics.buffer_bytes as f64 / 1e6);
    println!("token    {} dispatches", diagnostics.dispatches_per_token);

    let prompt: Vec<u32> = (0..n_prompt).map(|i| ((i + 1) * 7919 % vocab_size) as u32).collect();
    backend.reserve_kv(n_prompt + n_new).await?;
    let (mut prefill, mut decode) = (Vec::new(), Vec::new());
    // One more for the first, whose shaders and clocks are cold.
    for run in 0..=RUNS {
        let (prefill_ms, decode_ms) = self::run(&mut backend, &prompt, n_new).await?;
        if run > 0 {
            prefill.push(n_prompt as f64 / prefill_ms * 1e3);
            decode.push(n_new as f64 / decode_ms * 1e3);
        }
    }
    let (prefill, decode) = (median(prefill), median(decode));
    println!("prefill  {prefill:.1} tokens/s ({n_prompt} tokens, {BATCH} at a time)");
    println!("decode   {decode:.1} tokens/s ({n_new} tokens, median of {RUNS} runs)");

    let kv_bytes = 2 * n_layers * kv_width * size_of::<f32>() * (n_prompt + n_new / 2);
    let bytes = backend.bytes_per_token() + kv_bytes as u64;
    let (reached, copied) = (bytes as f64 * decode, backend.copy_bandwidth(1 << 28).await?);
    println!(
        "memory   {:.1} MB a token: {:.2} GB/s, {:.1} % of the {:.1} GB/s of a copy within the device",
        bytes as f64 / 1e6,
        reached / 1e9,
        reached / copied * 100.0,
        copied / 1e9
    );
    match backend.profile(prompt[0]).await {
        Ok(times) => {
            let total: f64 = times.iter().map(|time| time.microseconds).sum();
            println!(
                "GPU time of a token, each dispatch by itself: {total:.0} µs; {:.0} µs from token to token",
                1e6 / decode
            );
            for time in times {
                println!("{:>9.1} µs  {:>4} × {}", time.microseconds, time.n_dispatches, time.label);
            }
        }
        Err(error) => println!("kernels  {error}"),
    }
    Ok(())
}

/// A prompt and some greedy tokens from an empty cache: milliseconds of each.
async fn run(backend: &mut GpuBackend, prompt: &[u32], n_new: usize) -> Result<(f64, f64)> {
    let mut logits = Logits::default();
    let wanted = Wanted::Top { temperature: 1.0 };
    backend.truncate_kv(0);
    let start = now_ms();
    backend.forward(prompt, Some((wanted, &mut logits))).await?;
    let first = now_ms();
    for _ in 0..n_new {
        let best = logits.top.best.iter().max_by(|a, b| a.1.total_cmp(&b.1)).ok_or("The GPU found no best token.")?;
        backend.forward(&[best.0], Some((wanted, &mut logits))).await?;
    }
    Ok((first - start, now_ms() - first))
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
