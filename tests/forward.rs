//! Both engines' logits on the real model: against float32 (transformers), and llama.cpp's distance to it as the yardstick.

#[path = "support/model.rs"]
mod model;

use model::{default_file, default_model, fixture, floats, gpu_backend, ids, open_gpu};
use nucleus::backend::{Backend, Logits, Wanted};
use pollster::block_on;
use serde_json::Value;
use std::collections::HashMap;

/// Logits after `ids`, of which the cache holds some already.
fn logits(backend: &mut impl Backend, ids: &[u32]) -> Vec<f32> {
    let mut logits = Logits::default();
    block_on(backend.forward(&ids[backend.kv_len()..], Some((Wanted::All, &mut logits)))).unwrap();
    logits.all
}

/// Root mean square distance to the float32 values, over the ids that both fixtures list: ours and llama.cpp's.
fn distances(ours: &[f32], exact: &Value, llama_cpp: &Value) -> (f64, f64) {
    let exact: HashMap<u32, f64> = ids(&exact["top_ids"]).into_iter().zip(floats(&exact["top_logits"])).collect();
    let theirs = ids(&llama_cpp["top_ids"]).into_iter().zip(floats(&llama_cpp["top_logits"]));
    let common: Vec<(f64, f64, f64)> = theirs
        .filter_map(|(id, theirs)| exact.get(&id).map(|&exact| (exact, f64::from(ours[id as usize]), theirs)))
        .collect();
    assert!(common.len() >= 24, "the fixtures share {} ids", common.len());
    let rms = |of: fn(&(f64, f64, f64)) -> f64| {
        (common.iter().map(|values| (of(values) - values.0).powi(2)).sum::<f64>() / common.len() as f64).sqrt()
    };
    (rms(|values| values.1), rms(|values| values.2))
}

/// Distance over a sample of the whole vocabulary, as a share of the values' own size.
fn normalised_error(ours: &[f32], exact: &Value) -> f64 {
    let exact = floats(&exact["every_997th"]);
    let error: f64 = exact.iter().enumerate().map(|(i, exact)| (f64::from(ours[i * 997]) - exact).powi(2)).sum();
    error / exact.iter().map(|exact| exact * exact).sum::<f64>()
}

/// How far the engines are from float32 after some tokens.
struct Distances {
    n_tokens: usize,
    ours: f64,
    llama_cpp: f64,
    /// Normalised mean square error over a sample of the whole vocabulary.
    error: f64,
}

/// Every prompt and every position of the fixtures.
fn all_distances(backend: &mut impl Backend) -> Vec<Distances> {
    let (exact, llama_cpp) = (fixture("smollm2-135m-f32.json"), fixture("smollm2-135m-q4_1.json"));
    let mut all = Vec::new();
    let mut compare = |backend: &mut _, ids: &[u32], exact: &Value, theirs: &Value| {
        let logits = logits(backend, ids);
        let (ours, llama_cpp) = distances(&logits, exact, theirs);
        let error = normalised_error(&logits, exact);
        println!("{:5} tokens: rms {ours:.6}, llama.cpp {llama_cpp:.4}; nmse {error:.2e}", ids.len());
        all.push(Distances { n_tokens: ids.len(), ours, llama_cpp, error });
    };
    for (exact, theirs) in exact["forward"].as_array().unwrap().iter().zip(llama_cpp["forward"].as_array().unwrap()) {
        backend.truncate_kv(0);
        compare(backend, &ids(&exact["ids"]), exact, theirs);
    }
    // One long text: each position goes on from the one before.
    backend.truncate_kv(0);
    let long = ids(&llama_cpp["long"]["ids"]);
    let positions = exact["long"].as_array().unwrap().iter().zip(llama_cpp["long"]["at"].as_array().unwrap());
    for (exact, theirs) in positions {
        assert_eq!(exact["n_tokens"], theirs["n_tokens"]);
        compare(backend, &long[..exact["n_tokens"].as_u64().unwrap() as usize], exact, theirs);
    }
    assert_eq!(all.iter().map(|case| case.n_tokens).collect::<Vec<_>>(), [4, 5, 7, 16, 40, 300, 700, 1500]);
    all
}

#[test]
fn logits_are_nearer_to_float32_than_llama_cpp_and_on_the_gpu_nearer_still() {
    let cpu = all_distances(&mut default_model().backend);
    for case in &cpu {
        assert!(
            case.ours <= case.llama_cpp,
            "{} tokens: {} from float32, llama.cpp {}",
            case.n_tokens,
            case.ours,
            case.llama_cpp
        );
        // Most activations have eight bits: up to 2e-4 was seen, llama.cpp's own distance is larger still (SEMANTICS.md, "Numbers").
        assert!(case.error < 1e-3, "{} tokens: normalised mean square error {}", case.n_tokens, case.error);
    }
    let mut gpu = block_on(async { gpu_backend(&open_gpu().await, &default_file(), 2048).await }).unwrap();
    for (gpu, cpu) in all_distances(&mut gpu).iter().zip(&cpu) {
        assert!(
            gpu.ours <= cpu.ours,
            "{} tokens: {} from float32 on the GPU, {} on the CPU",
            gpu.n_tokens,
            gpu.ours,
            cpu.ours
        );
    }
}
