//! Tiny random llama models, every format and variant, against llama.cpp's logits. Runs natively and in the browser.

#[path = "support/model.rs"]
mod model;

use model::backend;
use nucleus::backend::Backend;
use nucleus::backend::cpu::CpuBackend;
use nucleus::gguf::Gguf;
use serde_json::Value;

const INDEX: &str = include_str!("fixtures/tiny/index.json");

macro_rules! models {
    ($($name:literal),* $(,)?) => {
        &[$(($name, include_bytes!(concat!("fixtures/tiny/", $name)))),*]
    };
}

const MODELS: &[(&str, &[u8])] = models![
    "llama.gguf",
    "llama-untied-freqs.gguf",
    "llama-headdim.gguf",
    "llama-linear.gguf",
    "llama-q4_0.gguf",
    "llama-q4_1.gguf",
    "llama-q8_0.gguf",
    "llama-q5_0.gguf",
    "llama-q5_1.gguf",
    "llama-q2_k.gguf",
    "llama-q3_k.gguf",
    "llama-q4_k.gguf",
    "llama-q5_k.gguf",
    "llama-q6_k.gguf",
    "llama-f16.gguf",
    "llama-bf16.gguf",
];

/// Positions that the longest case needs.
const CONTEXT: usize = 64;

fn logits(backend: &mut CpuBackend, ids: &[u32]) -> Vec<f32> {
    let mut logits = Vec::new();
    pollster::block_on(backend.forward(ids, Some(&mut logits))).unwrap();
    logits
}

/// Σ (ours - expected)² / Σ expected².
fn normalised_error(ours: &[f32], expected: &[f64]) -> f64 {
    assert_eq!(ours.len(), expected.len());
    let error: f64 = ours.iter().zip(expected).map(|(ours, expected)| (f64::from(*ours) - expected).powi(2)).sum();
    error / expected.iter().map(|expected| expected * expected).sum::<f64>()
}

#[cfg_attr(target_arch = "wasm32", wasm_bindgen_test::wasm_bindgen_test)]
#[cfg_attr(not(target_arch = "wasm32"), test)]
fn logits_equal_llama_cpp_in_every_format_and_variant() {
    let index: Value = serde_json::from_str(INDEX).unwrap();
    let mut cases = 0;
    for (name, file) in MODELS {
        let expected = index["models"].as_array().unwrap().iter().find(|model| model["file"] == *name).unwrap();
        for case in expected["cases"].as_array().unwrap() {
            let ids: Vec<u32> = case["ids"].as_array().unwrap().iter().map(|id| id.as_u64().unwrap() as u32).collect();
            let expected: Vec<f64> = case["logits"].as_array().unwrap().iter().map(|x| x.as_f64().unwrap()).collect();
            let error = normalised_error(&logits(&mut backend(file.to_vec(), CONTEXT).unwrap(), &ids), &expected);
            assert!(error < 1e-3, "{name}, {} tokens: normalised mean square error {error:.2e}", ids.len());
            cases += 1;
        }
    }
    assert_eq!(cases, 16 * 3);
}

#[cfg_attr(target_arch = "wasm32", wasm_bindgen_test::wasm_bindgen_test)]
#[cfg_attr(not(target_arch = "wasm32"), test)]
fn load_refuses_a_scale_that_is_not_finite() {
    let (_, file) = MODELS.iter().find(|(name, _)| *name == "llama-q4_1.gguf").unwrap();
    let gguf = Gguf::parse(file).unwrap();
    let tensor = gguf.tensor("blk.0.ffn_up.weight").unwrap();
    // Scale and minimum of the last block: infinity, then NaN.
    for (at, half) in [(20, 0x7c00_u16), (18, 0x7e00)] {
        let mut file = file.to_vec();
        let end = tensor.bytes.end;
        file[end - at..][..2].copy_from_slice(&half.to_le_bytes());
        let error = backend(file, CONTEXT).err().unwrap();
        assert_eq!(error.kind(), "bad-value", "{error}");
        assert!(error.to_string().contains("blk.0.ffn_up.weight"), "{error}");
    }
}

/// One pass, token by token, and after going back: the same bits wherever our own kernels compute, near enough where candle does.
#[cfg_attr(target_arch = "wasm32", wasm_bindgen_test::wasm_bindgen_test)]
#[cfg_attr(not(target_arch = "wasm32"), test)]
fn prefill_decode_and_truncation_agree() {
    for (name, file) in MODELS {
        let ids: Vec<u32> = (0..50).map(|i| i * 7 % 256).collect();
        let mut backend = backend(file.to_vec(), CONTEXT).unwrap();
        let at_once = logits(&mut backend, &ids);

        backend.truncate_kv(0);
        let mut one_by_one = Vec::new();
        for id in &ids {
            one_by_one = logits(&mut backend, &[*id]);
        }
        assert_eq!(backend.kv_len(), ids.len());

        backend.truncate_kv(20);
        logits(&mut backend, &[1, 2, 3]); // another continuation, forgotten again
        backend.truncate_kv(20);
        let after_truncation = logits(&mut backend, &ids[20..]);

        if ["llama-q4_0.gguf", "llama-q4_1.gguf", "llama-q8_0.gguf"].contains(name) {
            assert_eq!(one_by_one, at_once, "{name}");
            assert_eq!(after_truncation, at_once, "{name}");
        }
        for other in [one_by_one, after_truncation] {
            let expected: Vec<f64> = at_once.iter().map(|x| f64::from(*x)).collect();
            let error = normalised_error(&other, &expected);
            assert!(error < 1e-9, "{name}: normalised mean square error {error:.2e}");
        }
    }
}

#[cfg_attr(target_arch = "wasm32", wasm_bindgen_test::wasm_bindgen_test)]
#[cfg_attr(not(target_arch = "wasm32"), test)]
fn forward_refuses_what_does_not_fit_and_stays_usable() {
    let (_, file) = MODELS.iter().find(|(name, _)| *name == "llama-q4_1.gguf").unwrap();
    let mut backend = backend(file.to_vec(), 8).unwrap();
    let expected = logits(&mut backend, &[1, 2, 3]);
    for (ids, kind) in [
        (vec![], "empty-prompt"),
        (vec![4; 6], "prompt-too-long"),
        (vec![4, 288], "bad-token"),
        (vec![u32::MAX], "bad-token"),
    ] {
        let error = pollster::block_on(backend.forward(&ids, None)).unwrap_err();
        assert_eq!(error.kind(), kind, "{error}");
        assert_eq!(backend.kv_len(), 3);
    }
    backend.truncate_kv(2);
    assert_eq!(logits(&mut backend, &[3]), expected);
}
