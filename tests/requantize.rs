//! The requantizer of `examples/requantize`: what it writes against what llama.cpp wrote from the same weights.

#[path = "../examples/requantize/convert/mod.rs"]
mod convert;
#[path = "support/gguf_writer.rs"]
#[allow(dead_code, reason = "each test target uses its own part")]
mod gguf_writer;
#[path = "support/model.rs"]
mod model;

use convert::{Recipe, requantize};
use gguf_writer::{GgufFile, array, ty};
use model::{backend, fixture, floats, ids};
use nucleus::backend::{Backend, Logits, Wanted};
use nucleus::gguf::{Gguf, Value};
use nucleus::quant::{GgmlType, dequantize_row};

/// The same weights as all files below, in 16 bits.
const SOURCE: &str = "llama-f16.gguf";

/// Formats and what llama.cpp made of those weights in each.
const FORMATS: [(&str, &str); 11] = [
    ("BF16", "llama-bf16.gguf"),
    ("Q4_0", "llama-q4_0.gguf"),
    ("Q4_1", "llama-q4_1.gguf"),
    ("Q5_0", "llama-q5_0.gguf"),
    ("Q5_1", "llama-q5_1.gguf"),
    ("Q8_0", "llama-q8_0.gguf"),
    ("Q2_K", "llama-q2_k.gguf"),
    ("Q3_K", "llama-q3_k.gguf"),
    ("Q4_K", "llama-q4_k.gguf"),
    ("Q5_K", "llama-q5_k.gguf"),
    ("Q6_K", "llama-q6_k.gguf"),
];

fn tiny(name: &str) -> Vec<u8> {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/tiny").join(name);
    std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn made(file: &[u8], format: &str) -> Vec<u8> {
    requantize(file, Recipe::named(format).unwrap()).unwrap()
}

/// Everything before the first tensor's data.
fn header(file: &[u8]) -> &[u8] {
    let tensors = Gguf::parse(file).unwrap().tensors;
    &file[..tensors.iter().map(|tensor| tensor.bytes.start).min().unwrap()]
}

/// The values of all tensors, in the file's order.
fn weights(file: &[u8]) -> Vec<f32> {
    let mut values = Vec::new();
    for tensor in Gguf::parse(file).unwrap().tensors {
        let start = values.len();
        values.resize(start + tensor.n_elements(), 0.0);
        dequantize_row(tensor.ty, &file[tensor.bytes], &mut values[start..]).unwrap();
    }
    values
}

/// Σ (ours - expected)² / Σ expected².
fn normalised_error(ours: &[f32], expected: &[f32]) -> f64 {
    assert_eq!(ours.len(), expected.len());
    let square = |x: f32| f64::from(x).powi(2);
    let error: f64 = ours.iter().zip(expected).map(|(ours, expected)| square(ours - expected)).sum();
    error / expected.iter().map(|&expected| square(expected)).sum::<f64>()
}

fn logits(file: Vec<u8>, ids: &[u32]) -> Vec<f32> {
    let mut logits = Logits::default();
    let mut backend = backend(file, 64).unwrap();
    pollster::block_on(backend.forward(ids, Some((Wanted::All, &mut logits)))).unwrap();
    logits.all
}

#[test]
fn files_equal_llama_cpp_but_for_the_rounding_of_weights() {
    let source = tiny(SOURCE);
    for (format, theirs) in FORMATS {
        let (ours, theirs) = (made(&source, format), tiny(theirs));
        assert!(header(&ours) == header(&theirs), "{format}: metadata, directory and offsets");
        assert_eq!(ours.len(), theirs.len(), "{format}");
    }
}

/// llama.cpp's own file says how far weights in this format must be from 16 bits.
#[test]
fn weights_are_as_near_to_the_source_as_those_of_llama_cpp() {
    let source = tiny(SOURCE);
    let expected = weights(&source);
    for (format, theirs) in FORMATS {
        let ours = normalised_error(&weights(&made(&source, format)), &expected);
        let theirs = normalised_error(&weights(&tiny(theirs)), &expected);
        println!("{format:<6}{ours:.3e}, llama.cpp {theirs:.3e}");
        assert!(ours < 1.15 * theirs, "{format}: {ours:.3e}, llama.cpp {theirs:.3e}");
    }
}

#[test]
fn logits_in_8_bits_are_those_of_the_source() {
    let source = tiny(SOURCE);
    let made = made(&source, "Q8_0");
    let index = fixture("tiny/index.json");
    let models = index["models"].as_array().unwrap();
    let cases = models.iter().find(|model| model["file"] == SOURCE).unwrap()["cases"].as_array().unwrap();
    assert_eq!(cases.len(), 3);
    for case in cases {
        let ids = ids(&case["ids"]);
        let ours = logits(made.clone(), &ids);
        let llama_cpp: Vec<f32> = floats(&case["logits"]).iter().map(|logit| *logit as f32).collect();
        for expected in [logits(source.clone(), &ids), llama_cpp] {
            let error = normalised_error(&ours, &expected);
            assert!(error < 2e-3, "{} tokens: normalised mean square error {error:.2e}", ids.len());
        }
    }
}

#[test]
fn metadata_of_every_type_are_copied_byte_for_byte() {
    let mut file = GgufFile::tiny_llama();
    file.set("general.alignment", ty::U32, 64_u32.to_le_bytes());
    file.alignment = 64;
    for (number, n_bytes) in [(0, 1), (1, 1), (2, 2), (3, 2), (4, 4), (5, 4), (10, 8), (11, 8), (12, 8)] {
        file.set(&format!("test.{number}"), number, vec![0x3f; n_bytes]);
    }
    let words = [&3_u64.to_le_bytes()[..], b"one", &0_u64.to_le_bytes()].concat();
    file.set("test.words", ty::ARRAY, array(ty::STRING, 2, words));
    file.set("test.nested", ty::ARRAY, array(ty::ARRAY, 2, [array(ty::BOOL, 1, [1]), array(2, 2, [9; 4])].concat()));
    file.set_u32("general.file_type", 7);
    file.set("test.after", ty::I32, [1, 2, 3, 4]);
    let source = file.bytes();

    // The same file with what requantizing changes changed: one entry in its place, one added, the tensors' formats.
    file.set_u32("general.quantization_version", 2);
    file.entry("general.file_type").value = gguf_writer::Payload::Bytes(0_u32.to_le_bytes().to_vec());
    for tensor in &mut file.tensors {
        tensor.ty = 0;
        tensor.n_bytes = tensor.dims.iter().product::<u64>() as usize * 4;
    }
    let made = made(&source, "F32");
    assert!(header(&made) == header(&file.bytes()));
    assert_eq!(Gguf::parse(&made).unwrap().metadata.get("general.file_type"), Some(&Value::U32(0)));
}

/// The layers that llama.cpp stores in Q6_K are those of `use_more_bits` for 16 layers: the first and last eighth, and every
/// third between.
#[test]
fn the_mixture_spends_its_bits_where_llama_cpp_does() {
    let mut file = GgufFile::tiny_llama();
    file.tensors.clear();
    for layer in 0..16 {
        for (role, row_len) in [("attn_q", 256), ("attn_v", 576), ("ffn_down", 256)] {
            file.push_f32_tensor(&format!("blk.{layer}.{role}.weight"), &[row_len, 2]);
        }
    }
    file.push_f32_tensor("token_embd.weight", &[576, 2]);
    file.push_f32_tensor("output_norm.weight", &[576]);
    let types = |file: &GgufFile, format: &str| {
        let gguf = Gguf::parse(&file.bytes()).unwrap();
        let types = Recipe::named(format).unwrap().types(&gguf);
        move |name: &str| types[gguf.tensors.iter().position(|tensor| tensor.name == name).unwrap()]
    };

    let tied = types(&file, "Q4_K_M");
    for layer in 0..16 {
        let more = [0, 1, 4, 7, 10, 13, 14, 15].contains(&layer);
        let expected = if more { (GgmlType::Q8_0, GgmlType::Q6K) } else { (GgmlType::Q5_0, GgmlType::Q4K) };
        let found = (tied(&format!("blk.{layer}.attn_v.weight")), tied(&format!("blk.{layer}.ffn_down.weight")));
        assert_eq!(found, expected, "layer {layer}");
        assert_eq!(tied(&format!("blk.{layer}.attn_q.weight")), GgmlType::Q4K);
    }
    assert_eq!(tied("token_embd.weight"), GgmlType::Q8_0);
    assert_eq!(tied("output_norm.weight"), GgmlType::F32);

    file.push_f32_tensor("output.weight", &[256, 2]);
    let untied = types(&file, "Q4_K_M");
    assert_eq!((untied("output.weight"), untied("token_embd.weight")), (GgmlType::Q6K, GgmlType::Q5_0));
    let pure = types(&file, "Q4_K");
    assert_eq!((pure("output.weight"), pure("token_embd.weight")), (GgmlType::Q4K, GgmlType::Q5_0));
}

#[test]
fn rows_that_are_no_whole_blocks_get_the_next_format() {
    let mut file = GgufFile::tiny_llama();
    file.tensors.clear();
    file.push_f32_tensor("blocks_of_32", &[96, 2]);
    file.push_f32_tensor("no_blocks", &[33, 2]);
    let gguf = Gguf::parse(&file.bytes()).unwrap();
    for (format, in_blocks, without) in [
        ("F32", GgmlType::F32, GgmlType::F32),
        ("Q4_1", GgmlType::Q4_1, GgmlType::F16),
        ("Q2_K", GgmlType::Q4_0, GgmlType::F16),
        ("Q3_K", GgmlType::Q4_0, GgmlType::F16),
        ("Q4_K", GgmlType::Q5_0, GgmlType::F16),
        ("Q5_K", GgmlType::Q5_1, GgmlType::F16),
        ("Q6_K", GgmlType::Q8_0, GgmlType::F16),
    ] {
        assert_eq!(Recipe::named(format).unwrap().types(&gguf), [in_blocks, without], "{format}");
    }
}

#[test]
fn refusals_name_what_was_found() {
    let error = Recipe::named("Q9_Z").unwrap_err();
    assert_eq!(error.kind(), "bad-option");
    assert!(error.to_string().contains("`Q9_Z`") && error.to_string().contains("Q4_K_M"), "{error}");

    let error = requantize(b"no model", Recipe::named("Q8_0").unwrap()).unwrap_err();
    assert_eq!(error.kind(), "not-gguf");

    let source = tiny("llama.gguf");
    let tensor = Gguf::parse(&source).unwrap().tensor("blk.1.ffn_up.weight").unwrap().clone();
    // No number at all, and one that no 16-bit float holds.
    for (value, format) in [(f32::NAN, "Q8_0"), (1e9, "F16"), (1e9, "Q4_0")] {
        let mut source = source.clone();
        source[tensor.bytes.start..][..4].copy_from_slice(&value.to_le_bytes());
        let error = requantize(&source, Recipe::named(format).unwrap()).unwrap_err();
        assert_eq!(error.kind(), "bad-value", "{error}");
        assert!(error.to_string().contains("blk.1.ffn_up.weight"), "{error}");
    }
}
