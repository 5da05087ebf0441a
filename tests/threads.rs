//! The CPU engine gives the same bits on any number of threads.
#![cfg(not(target_arch = "wasm32"))]

#[path = "support/model.rs"]
mod model;

use nucleus::backend::cpu::{CpuBackend, Pool};
use nucleus::backend::{Backend, Logits, Wanted};

fn logits(backend: &mut CpuBackend, ids: &[u32]) -> Vec<f32> {
    let mut logits = Logits::default();
    pollster::block_on(backend.forward(ids, Some((Wanted::All, &mut logits)))).unwrap();
    logits.all
}

/// Logits after a prompt of more than a batch, and after each of a few more tokens.
fn run(file: &[u8], n_threads: usize) -> Vec<Vec<f32>> {
    let mut backend = model::backend_on(Pool::start(n_threads), file.to_vec(), 64).unwrap();
    assert_eq!(backend.pool().n_threads(), n_threads);
    let ids: Vec<u32> = (0..50).map(|i| i * 7 % 256).collect();
    let mut all = vec![logits(&mut backend, &ids)];
    all.extend((0..8).map(|id| logits(&mut backend, &[id])));
    all
}

fn same_on_any_number_of_threads(name: &str, file: &[u8]) {
    let expected = run(file, 1);
    for n_threads in [2, 3, 8] {
        assert!(run(file, n_threads) == expected, "{name} on {n_threads} threads");
    }
}

#[test]
fn tiny_models_give_the_same_bits() {
    for name in ["llama", "llama-headdim", "llama-linear", "llama-q4_1", "llama-q8_0", "llama-q6_k", "llama-f16"] {
        let path = format!("{}/tests/fixtures/tiny/{name}.gguf", env!("CARGO_MANIFEST_DIR"));
        same_on_any_number_of_threads(name, &std::fs::read(path).unwrap());
    }
}

/// Large enough that single tokens are shared out too.
#[test]
fn the_default_model_gives_the_same_bits() {
    same_on_any_number_of_threads("the default model", &model::default_file());
}
