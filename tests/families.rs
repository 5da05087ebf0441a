//! Random models of every family in odd shapes, written by `examples/write_tiny`, on both engines, against a plain forward pass.

#[path = "support/everywhere.rs"]
#[macro_use]
mod everywhere_macro;
#[path = "support/model.rs"]
mod model;
#[path = "support/nmse.rs"]
mod nmse;
#[path = "support/reference.rs"]
mod reference;
#[path = "../examples/write_tiny/shape.rs"]
mod shape;

use model::backend;
use nmse::nmse;
use nucleus::backend::{Backend, Logits, Wanted};
use nucleus::gguf::Gguf;
use nucleus::model::Architecture;
use nucleus::tokenizer::Tokenizer;
use reference::Reference;
use shape::{Format, Shape};

/// Positions: more than a prefill batch of the CPU engine, and windows several times over.
const N_TOKENS: usize = 41;
/// Of these, so many one by one.
const N_DECODED: usize = 3;

everywhere![cpu_logits_of_every_family_are_those_of_a_plain_pass, a_written_model_has_a_vocabulary,];

/// Every family, and what it is known to come in. Quantized where rows are whole blocks.
fn shapes() -> Vec<Shape> {
    let llama = Shape::of("llama");
    let gemma = Shape { n_layers: 7, head_dim: 32, rope_dim: 32, rope_base: 1e6, ..Shape::of("gemma3") };
    vec![
        // No two widths alike, all heads with keys of their own, rotated in part.
        Shape { n_embd: 50, n_ff: 70, n_heads: 3, n_kv_heads: 3, head_dim: 20, rope_dim: 12, ..llama.clone() },
        // One head of keys for all; the output is a matrix of its own.
        Shape { n_heads: 5, n_kv_heads: 1, tied: false, rope_scaling: Some("linear"), ..llama.clone() },
        Shape {
            rope_scaling: Some("yarn"),
            rope_freqs: true,
            head_dim: 64,
            rope_dim: 64,
            format: Format::Q8_0,
            ..llama
        },
        // Long rows.
        Shape { n_layers: 4, n_embd: 160, n_ff: 4128, n_heads: 2, format: Format::Q4_0, ..Shape::of("smollm3") },
        Shape { n_heads: 14, n_kv_heads: 2, head_dim: 32, rope_dim: 32, format: Format::Q8_0, ..Shape::of("qwen2") },
        Shape { n_heads: 6, n_kv_heads: 1, rope_dim: 8, rope_scaling: Some("yarn"), tied: false, ..Shape::of("qwen2") },
        Shape { n_heads: 3, n_kv_heads: 3, head_dim: 36, rope_dim: 36, ..Shape::of("qwen3") },
        Shape { head_dim: 128, rope_dim: 128, format: Format::Q4_0, ..Shape::of("qwen3") },
        Shape { window: 5, rope_scaling: Some("linear"), ..gemma.clone() },
        Shape { window: 1, n_heads: 3, n_kv_heads: 1, head_dim: 256, rope_dim: 256, format: Format::Q8_0, ..gemma },
    ]
}

fn ids(n_vocab: usize) -> Vec<u32> {
    (1..=N_TOKENS).map(|i| (i * 7919 % n_vocab) as u32).collect()
}

/// Normalised mean square error of the last logits, after a prefill and some single tokens.
async fn error(backend: &mut impl Backend, ids: &[u32], expected: &[f64]) -> f64 {
    let mut logits = Logits::default();
    let (prompt, rest) = ids.split_at(ids.len() - N_DECODED);
    backend.forward(prompt, None).await.unwrap();
    for id in rest {
        backend.forward(&[*id], Some((Wanted::All, &mut logits))).await.unwrap();
    }
    nmse(&logits.all, expected)
}

async fn cpu_logits_of_every_family_are_those_of_a_plain_pass() {
    let shapes = shapes();
    for architecture in Architecture::ALL {
        assert!(shapes.iter().any(|shape| shape.architecture == architecture.name()), "{architecture:?} has no model");
    }
    for shape in shapes {
        let file = shape.write();
        let ids = ids(shape.vocab_size);
        let expected = Reference::new(&file).logits(&ids).pop().unwrap();
        let error = error(&mut backend(file, N_TOKENS).unwrap(), &ids, &expected).await;
        // Quantized products round the activations.
        let tolerance = if shape.format == Format::F32 { 1e-9 } else { 1e-3 };
        assert!(error <= tolerance, "{shape:?}: normalised mean square error {error:.1e}");
    }
}

/// Not in the browser, where shaders take seconds to compile: there the GPU has the families' fixtures (`tiny_models`).
#[cfg(not(target_arch = "wasm32"))]
#[pollster::test]
async fn gpu_logits_of_every_family_are_those_of_a_plain_pass() {
    let gpu = model::open_gpu().await;
    for shape in shapes() {
        let file = shape.write();
        let ids = ids(shape.vocab_size);
        let expected = Reference::new(&file).logits(&ids).pop().unwrap();
        let error = error(&mut model::gpu_backend(&gpu, &file, N_TOKENS).await.unwrap(), &ids, &expected).await;
        assert!(error <= 1e-9, "{shape:?}: normalised mean square error {error:.1e}");
    }
}

async fn a_written_model_has_a_vocabulary() {
    let gguf = Gguf::parse(&Shape::of("qwen3").write()).unwrap();
    let tokenizer = Tokenizer::from_metadata(&gguf.metadata, 300).unwrap();
    assert_eq!(tokenizer.encode("the", false).unwrap(), [256, u32::from(b'e')]);
}
