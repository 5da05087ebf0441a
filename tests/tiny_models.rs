//! Tiny random models, every family, variant and format, on both engines, against llama.cpp's logits. Runs natively and in the
//! browser.

#[path = "support/everywhere.rs"]
#[macro_use]
mod everywhere_macro;
#[path = "support/model.rs"]
mod model;
#[path = "support/nmse.rs"]
mod nmse;

use model::{backend, gpu_backend, open_gpu};
use nmse::nmse;
use nucleus::backend::{Backend, Logits, Wanted};
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
    "qwen2.gguf",
    "qwen3.gguf",
    "gemma3.gguf",
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

/// Formats that the GPU engine leaves to the CPU engine.
const CPU_ONLY: [&str; 2] = ["llama-q2_k.gguf", "llama-q3_k.gguf"];

/// Positions that the longest case needs.
const CONTEXT: usize = 64;

everywhere![
    cpu_logits_equal_llama_cpp_in_every_family_and_format,
    gpu_logits_equal_llama_cpp_in_every_family_and_format,
    gpu_refuses_formats_without_a_kernel_by_name,
    load_refuses_a_scale_that_is_not_finite,
    prefill_decode_and_truncation_agree,
    forward_refuses_what_does_not_fit_and_stays_usable,
];

async fn logits(backend: &mut impl Backend, ids: &[u32]) -> Vec<f32> {
    let mut logits = Logits::default();
    backend.forward(ids, Some((Wanted::All, &mut logits))).await.unwrap();
    logits.all
}

/// Ids and llama.cpp's logits, for each case of a model.
fn cases(name: &str) -> Vec<(Vec<u32>, Vec<f64>)> {
    let index: Value = serde_json::from_str(INDEX).unwrap();
    let models = index["models"].as_array().unwrap();
    assert_eq!(models.len(), MODELS.len(), "all of them are tested");
    let model = models.iter().find(|model| model["file"] == name).unwrap();
    let case = |case: &Value| (model::ids(&case["ids"]), model::floats(&case["logits"]));
    model["cases"].as_array().unwrap().iter().map(case).collect()
}

/// Every case of a model, each from an empty cache. Returns how many there were.
async fn check(name: &str, backend: &mut impl Backend, tolerance: f64) -> usize {
    let cases = cases(name);
    for (ids, expected) in &cases {
        backend.truncate_kv(0);
        let error = nmse(&logits(backend, ids).await, expected);
        assert!(error < tolerance, "{name}, {} tokens: normalised mean square error {error:.2e}", ids.len());
    }
    cases.len()
}

async fn cpu_logits_equal_llama_cpp_in_every_family_and_format() {
    let mut n = 0;
    for (name, file) in MODELS {
        n += check(name, &mut backend(file.to_vec(), CONTEXT).unwrap(), 1e-3).await;
    }
    assert_eq!(n, 19 * 3);
}

async fn gpu_logits_equal_llama_cpp_in_every_family_and_format() {
    let gpu = open_gpu().await;
    let mut n = 0;
    for (name, file) in MODELS.iter().filter(|(name, _)| !CPU_ONLY.contains(name)) {
        // Activations stay f32 on the GPU: what is left is rounding. (For GELU llama.cpp looks f16 up in a table.)
        let tolerance = if *name == "gemma3.gguf" { 1e-7 } else { 1e-10 };
        n += check(name, &mut gpu_backend(&gpu, file, CONTEXT).await.unwrap(), tolerance).await;
    }
    assert_eq!(n, 17 * 3);
}

/// The embedding table, which is also the output, in three bindings.
#[cfg(not(target_arch = "wasm32"))]
#[pollster::test]
async fn gpu_logits_are_the_same_where_a_binding_holds_part_of_a_matrix() {
    let (name, file) = MODELS.iter().find(|(name, _)| *name == "gemma3.gguf").unwrap();
    let mut gpu = std::rc::Rc::into_inner(open_gpu().await).expect("nobody else has it");
    gpu.largest_binding = 1 << 15;
    assert_eq!(Gguf::parse(file).unwrap().tensor("token_embd.weight").unwrap().bytes.len(), 76_800);
    assert_eq!(check(name, &mut gpu_backend(&std::rc::Rc::new(gpu), file, CONTEXT).await.unwrap(), 1e-7).await, 3);
}

async fn gpu_refuses_formats_without_a_kernel_by_name() {
    let gpu = open_gpu().await;
    for (name, file) in MODELS.iter().filter(|(name, _)| CPU_ONLY.contains(name)) {
        let error = gpu_backend(&gpu, file, CONTEXT).await.err().unwrap();
        assert_eq!(error.kind(), "unsupported-quantization");
        let format = name.trim_start_matches("llama-").trim_end_matches(".gguf").to_uppercase();
        assert!(error.to_string().contains(&format), "{error}");
    }
}

async fn load_refuses_a_scale_that_is_not_finite() {
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

/// One pass, token by token, and after going back: the same bits wherever our own CPU kernels compute, near enough elsewhere.
async fn prefill_decode_and_truncation_agree() {
    let gpu = open_gpu().await;
    for (name, file) in MODELS {
        let at_once = agree(name, &mut backend(file.to_vec(), CONTEXT).unwrap()).await;
        if ["llama-q4_0.gguf", "llama-q4_1.gguf", "llama-q8_0.gguf"].contains(name) {
            let [at_once, one_by_one, after_truncation] = at_once;
            assert_eq!(one_by_one, at_once, "{name}");
            assert_eq!(after_truncation, at_once, "{name}");
        }
        if ["llama-q4_1.gguf", "llama-headdim.gguf", "llama-q6_k.gguf", "gemma3.gguf"].contains(name) {
            agree(name, &mut gpu_backend(&gpu, file, CONTEXT).await.unwrap()).await;
        }
    }
}

/// Logits of the same 50 tokens, computed in three ways.
async fn agree(name: &str, backend: &mut impl Backend) -> [Vec<f32>; 3] {
    let ids: Vec<u32> = (0..50).map(|i| i * 7 % 256).collect();
    let at_once = logits(backend, &ids).await;

    backend.truncate_kv(0);
    let mut one_by_one = Vec::new();
    for id in &ids {
        one_by_one = logits(backend, &[*id]).await;
    }
    assert_eq!(backend.kv_len(), ids.len());

    backend.truncate_kv(20);
    logits(backend, &[1, 2, 3]).await; // another continuation, forgotten again
    backend.truncate_kv(20);
    let after_truncation = logits(backend, &ids[20..]).await;

    let expected: Vec<f64> = at_once.iter().map(|x| f64::from(*x)).collect();
    for other in [&one_by_one, &after_truncation] {
        let error = nmse(other, &expected);
        assert!(error < 1e-9, "{name}: normalised mean square error {error:.2e}");
    }
    [at_once, one_by_one, after_truncation]
}

async fn forward_refuses_what_does_not_fit_and_stays_usable() {
    let (_, file) = MODELS.iter().find(|(name, _)| *name == "llama-q4_1.gguf").unwrap();
    refuses(&mut backend(file.to_vec(), 8).unwrap()).await;
    refuses(&mut gpu_backend(&open_gpu().await, file, 8).await.unwrap()).await;
}

async fn refuses(backend: &mut impl Backend) {
    let expected = logits(backend, &[1, 2, 3]).await;
    for (ids, kind) in [
        (vec![], "empty-prompt"),
        (vec![4; 6], "prompt-too-long"),
        (vec![4, 288], "bad-token"),
        (vec![u32::MAX], "bad-token"),
    ] {
        let error = backend.forward(&ids, None).await.unwrap_err();
        assert_eq!(error.kind(), kind, "{error}");
        assert_eq!(backend.kv_len(), 3);
    }
    backend.truncate_kv(2);
    // One token by itself goes through other kernels on the GPU than three at once.
    let expected: Vec<f64> = expected.iter().map(|x| f64::from(*x)).collect();
    assert!(nmse(&logits(backend, &[3]).await, &expected) < 1e-9);
}
