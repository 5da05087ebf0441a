//! The CPU engine's logits on the real model: against float32 (transformers), and llama.cpp's distance to it as the yardstick.

#[path = "support/model.rs"]
mod model;

use model::{default_model, fixture, floats, ids};
use nucleus::backend::Backend;
use nucleus::backend::cpu::CpuBackend;
use pollster::block_on;
use serde_json::Value;
use std::collections::HashMap;

fn logits(backend: &mut CpuBackend, ids: &[u32]) -> Vec<f32> {
    let mut logits = Vec::new();
    backend.truncate_kv(0);
    block_on(backend.forward(ids, Some(&mut logits))).unwrap();
    logits
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

#[test]
fn logits_are_at_least_as_near_to_float32_as_llama_cpp() {
    let (exact, llama_cpp) = (fixture("smollm2-135m-f32.json"), fixture("smollm2-135m-q4_1.json"));
    let mut backend = default_model().backend;
    let short = exact["forward"].as_array().unwrap().iter().zip(llama_cpp["forward"].as_array().unwrap());
    let long_ids = ids(&llama_cpp["long"]["ids"]);
    let long = exact["long"].as_array().unwrap().iter().zip(llama_cpp["long"]["at"].as_array().unwrap());
    let cases = short.map(|(exact, theirs)| (ids(&exact["ids"]), exact, theirs)).chain(long.map(|(exact, theirs)| {
        assert_eq!(exact["n_tokens"], theirs["n_tokens"]);
        (long_ids[..exact["n_tokens"].as_u64().unwrap() as usize].to_vec(), exact, theirs)
    }));
    let mut lengths = Vec::new();
    for (ids, exact, theirs) in cases {
        let ours = logits(&mut backend, &ids);
        let (distance, llama_cpp_distance) = distances(&ours, exact, theirs);
        let error = normalised_error(&ours, exact);
        println!("{:5} tokens: rms {distance:.4}, llama.cpp {llama_cpp_distance:.4}; nmse {error:.2e}", ids.len());
        lengths.push((ids.len(), distance, llama_cpp_distance, error));
    }
    assert_eq!(lengths.iter().map(|case| case.0).collect::<Vec<_>>(), [4, 5, 7, 16, 40, 300, 700, 1500]);
    for (n, distance, llama_cpp_distance, error) in lengths {
        assert!(distance <= llama_cpp_distance, "{n} tokens: {distance} from float32, llama.cpp {llama_cpp_distance}");
        assert!(error < 1e-5, "{n} tokens: normalised mean square error {error}");
    }
}
