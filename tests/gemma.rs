//! Both engines on Gemma 3 270M, a vocabulary of 262,144 and a window of 512 positions: logits against float32 and llama.cpp's, and
//! greedy tokens. Each test runs where `cargo xtask model gemma` has put the file.
#![cfg(not(target_arch = "wasm32"))]

#[path = "support/distances.rs"]
mod distances;
#[path = "support/model.rs"]
mod model;
#[path = "support/nmse.rs"]
mod nmse;

use distances::all_distances;
use model::{backend_on, fixture, floats, gpu_backend, ids, open_gpu};
use nucleus::backend::cpu::{MAX_THREADS, Pool};
use nucleus::backend::{Backend, Logits, Wanted};
use pollster::block_on;
use std::path::Path;
use std::rc::Rc;

const FIXTURES: [&str; 2] = ["gemma3-270m-f32.json", "gemma3-270m-q4_k_m.json"];
const CONTEXT: usize = 2048;
/// What every WebGPU device binds: less than the embedding table takes.
const DEFAULT_BINDING: u64 = 128 << 20;

fn file() -> Option<Vec<u8>> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("www/models/gemma-3-270m.Q4_K_M.gguf");
    let file = std::fs::read(path).ok();
    if file.is_none() {
        println!("skipped: `cargo xtask model gemma` gets the model");
    }
    file
}

fn pool() -> Pool {
    let n = std::thread::available_parallelism().map_or(1, |n| n.get()).min(MAX_THREADS);
    Pool::start(n)
}

/// llama.cpp's greedy tokens, each after those before it, wherever the second token is clearly behind.
fn greedy_tokens_agree(backend: &mut impl Backend, n_steps: usize) {
    for case in fixture(FIXTURES[1])["forward"].as_array().unwrap() {
        let (expected, margins) = (ids(&case["greedy"]), floats(&case["greedy_margin"]));
        backend.truncate_kv(0);
        let (mut next, mut n_clear) = (ids(&case["ids"]), 0);
        for (step, (&expected, margin)) in expected.iter().zip(&margins).take(n_steps).enumerate() {
            let mut logits = Logits::default();
            block_on(backend.forward(&next, Some((Wanted::All, &mut logits)))).unwrap();
            let best = (0..logits.all.len()).max_by(|&a, &b| logits.all[a].total_cmp(&logits.all[b])).unwrap();
            if *margin > 0.5 {
                assert_eq!(best as u32, expected, "{}, step {step}", case["prompt"]);
                n_clear += 1;
            }
            next = vec![expected];
        }
        assert!(n_clear > n_steps.min(margins.len()) / 3, "{n_clear} clear steps");
    }
}

#[test]
fn cpu_logits_are_nearer_to_float32_than_llama_cpp() {
    let Some(file) = file() else { return };
    let mut backend = backend_on(pool(), file, CONTEXT).unwrap();
    let all = all_distances(&mut backend, FIXTURES);
    assert_eq!(all.iter().map(|case| case.n_tokens).collect::<Vec<_>>(), [5, 6, 8, 40, 300, 700, 1500]);
    for case in &all {
        assert!(case.ours <= case.llama_cpp, "{} tokens: {}, llama.cpp {}", case.n_tokens, case.ours, case.llama_cpp);
        assert!(case.error < 1e-3, "{} tokens: normalised mean square error {}", case.n_tokens, case.error);
    }
    greedy_tokens_agree(&mut backend, usize::MAX);
}

/// With bindings no larger than the default, the embedding table lies in two.
#[test]
fn gpu_logits_are_those_of_float32_with_bindings_of_128_mib() {
    let Some(file) = file() else { return };
    let gpu = block_on(open_gpu());
    let mut gpu = Rc::into_inner(gpu).expect("nobody else has it");
    assert!(gpu.largest_binding >= DEFAULT_BINDING);
    gpu.largest_binding = DEFAULT_BINDING;
    let mut backend = block_on(gpu_backend(&Rc::new(gpu), &file, CONTEXT)).unwrap();
    let all = all_distances(&mut backend, FIXTURES);
    assert_eq!(all.iter().map(|case| case.n_tokens).collect::<Vec<_>>(), [5, 6, 8, 40, 300, 700, 1500]);
    for case in &all {
        assert!(case.error < 1e-4, "{} tokens: normalised mean square error {}", case.n_tokens, case.error);
    }
    greedy_tokens_agree(&mut backend, 8);
}
