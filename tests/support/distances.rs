//! How far an engine's logits are from float32 (transformers), and llama.cpp's distance to it as the yardstick.

use crate::model::{fixture, floats, ids};
use crate::nmse::nmse;
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
    nmse(&(0..exact.len()).map(|i| ours[i * 997]).collect::<Vec<_>>(), &exact)
}

/// How far an engine is from float32 after some tokens.
pub struct Distances {
    pub n_tokens: usize,
    pub ours: f64,
    pub llama_cpp: f64,
    /// Normalised mean square error over a sample of the whole vocabulary.
    pub error: f64,
}

/// Every prompt and every position of two fixtures: the float32 values, and llama.cpp's.
pub fn all_distances(backend: &mut impl Backend, [exact, llama_cpp]: [&str; 2]) -> Vec<Distances> {
    let (exact, llama_cpp) = (fixture(exact), fixture(llama_cpp));
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
    all
}
