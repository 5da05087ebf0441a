//! Models for tests (the default one from where `cargo xtask model` puts it), and golden data.

#![allow(dead_code, reason = "each test target uses its own part")]

use nucleus::backend::cpu::{CpuBackend, Pool};
use nucleus::backend::gpu::{Gpu, GpuBackend};
use nucleus::gguf::Gguf;
use nucleus::model::{ModelConfig, Plan, Weights};
use nucleus::tokenizer::Tokenizer;
use serde_json::Value;
use std::path::Path;
use std::rc::Rc;

pub struct Loaded<B = CpuBackend> {
    pub backend: B,
    pub tokenizer: Tokenizer,
    pub config: ModelConfig,
}

pub fn default_model() -> Loaded {
    load(default_file())
}

pub fn default_file() -> Vec<u8> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("www/models/SmolLM2-135M-Instruct.Q4_1.gguf");
    std::fs::read(&path).expect("the default model is not there: run `cargo xtask model` first")
}

fn load(file: Vec<u8>) -> Loaded {
    let gguf = Gguf::parse(&file).unwrap();
    let config = ModelConfig::from_gguf(&gguf).unwrap();
    let tokenizer = Tokenizer::from_metadata(&gguf.metadata, config.vocab_size).unwrap();
    Loaded { backend: backend(file, config.context_length).unwrap(), tokenizer, config }
}

/// Only the engine: for models whose vocabulary is of no interest.
pub fn backend(file: Vec<u8>, context_length: usize) -> nucleus::Result<CpuBackend> {
    backend_on(Pool::alone(), file, context_length)
}

/// The same on several threads.
pub fn backend_on(pool: Pool, file: Vec<u8>, context_length: usize) -> nucleus::Result<CpuBackend> {
    let gguf = Gguf::parse(&file)?;
    let config = ModelConfig::from_gguf(&gguf)?;
    let weights = Weights::from_gguf(&gguf, &config)?;
    CpuBackend::load(Plan::new(config, weights), &file, context_length, pool)
}

/// A GPU: a real one, or natively lavapipe and in the browser SwiftShader, which `cargo xtask test` makes sure of.
pub async fn open_gpu() -> Rc<Gpu> {
    Rc::new(Gpu::open().await.expect("there is a GPU or a software one"))
}

pub async fn gpu_backend(gpu: &Rc<Gpu>, file: &[u8], context_length: usize) -> nucleus::Result<GpuBackend> {
    let gguf = Gguf::parse(file)?;
    let config = ModelConfig::from_gguf(&gguf)?;
    let weights = Weights::from_gguf(&gguf, &config)?;
    GpuBackend::load(gpu.clone(), Plan::new(config, weights), file, context_length, |_, _, _| {}).await
}

pub fn fixture(name: &str) -> Value {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(name);
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    serde_json::from_str(&text).unwrap()
}

pub fn ids(value: &Value) -> Vec<u32> {
    value.as_array().unwrap().iter().map(|id| id.as_u64().unwrap() as u32).collect()
}

pub fn floats(value: &Value) -> Vec<f64> {
    value.as_array().unwrap().iter().map(|x| x.as_f64().unwrap()).collect()
}
