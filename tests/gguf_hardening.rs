//! Bad GGUF files: every refusal of HARDENING.md rows 1 to 19 with its kind and in words, every cut of a real header, and every
//! byte of it flipped. Nothing may panic, nor allocate what the file does not back.
//!
//! The same tests run natively and in wasm, where `usize` has 32 bits.

#[path = "support/gguf_cases.rs"]
mod gguf_cases;
#[path = "support/gguf_writer.rs"]
mod gguf_writer;
#[path = "support/refusal.rs"]
mod refusal;
#[path = "support/watched_allocator.rs"]
mod watched_allocator;

use gguf_cases::{REFUSED, SOUND};
use gguf_writer::GgufFile;
use nucleus::Result;
use nucleus::gguf::{Gguf, check_magic};
use nucleus::model::{ModelConfig, RopeScaling, Weights};
use nucleus::quant::GgmlType;
use nucleus::tokenizer::Tokenizer;
use refusal::in_words;
use watched_allocator::{backed_by, largest_allocation};

/// A whole file: 5,751 bytes of header, then 294,912 of data.
const REAL: &[u8] = include_bytes!("fixtures/tiny/llama-q4_1.gguf");

#[cfg_attr(target_arch = "wasm32", wasm_bindgen_test::wasm_bindgen_test)]
#[cfg_attr(not(target_arch = "wasm32"), test)]
fn refuses_every_bad_file_by_kind() {
    let mut failures = Vec::new();
    for case in REFUSED {
        let mut file = GgufFile::tiny_llama();
        (case.edit)(&mut file);
        let kind = load_frugally(&file.bytes()).map_or_else(|error| error.kind(), |_| "accepted");
        if kind != case.kind {
            failures.push(format!("row {}, {}: {kind}, expected {}", case.row, case.what, case.kind));
        }
    }
    report(&format!("{} bad files", REFUSED.len()));
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

#[cfg_attr(target_arch = "wasm32", wasm_bindgen_test::wasm_bindgen_test)]
#[cfg_attr(not(target_arch = "wasm32"), test)]
fn has_cases_for_rows_1_to_19() {
    for row in 1..=19 {
        assert!(REFUSED.iter().any(|case| case.row == row), "row {row} has no case");
    }
}

#[cfg_attr(target_arch = "wasm32", wasm_bindgen_test::wasm_bindgen_test)]
#[cfg_attr(not(target_arch = "wasm32"), test)]
fn accepts_every_sound_file() {
    for (what, edit) in SOUND {
        let mut file = GgufFile::tiny_llama();
        edit(&mut file);
        if let Err(error) = load_frugally(&file.bytes()) {
            panic!("{what}: {error}");
        }
    }
}

#[cfg_attr(target_arch = "wasm32", wasm_bindgen_test::wasm_bindgen_test)]
#[cfg_attr(not(target_arch = "wasm32"), test)]
fn names_what_it_found() {
    let message = |bytes: &[u8]| check_magic(bytes).expect_err("not a GGUF file").to_string();
    for (start, likeness) in [
        (&b"\n<!DOCTYPE html>"[..], "HTML"),
        (b"<html>", "HTML"),
        (b"\x1f\x8b\x08\x00", "gzip"),
        (b"PK\x03\x04", "zip"),
        (b"{\"error\": 1}", "JSON"),
        (b"FUGG\x03\0\0\0", "swapped"),
        (b"version https://git-lfs.github.com/spec/v1", "LFS"),
        (b"\x40\x01\0\0\0\0\0\0{", "safetensors"),
    ] {
        assert!(message(start).contains(likeness), "{}", message(start));
    }

    for (what, parts) in [
        ("an unknown architecture", &["`mamba`", "llama, smollm3, qwen2, qwen3, gemma3"][..]),
        ("IQ2_XXS", &["IQ2_XXS", "blk.0.attn_q.weight"]),
        ("a transposed matrix", &["blk.0.ffn_down.weight", "[32, 64]", "[64, 32]"]),
        ("output rows too few", &["output.weight", "[32, 39]", "[32, 40]"]),
        ("rope scaling by longrope", &["llama.rope.scaling.type", "longrope"]),
        ("no Q", &["blk.0.attn_q.weight"]),
        ("heads as a string", &["llama.attention.head_count", "string", "integer"]),
        ("two tensors in one place", &["token_embd.weight", "blk.0.attn_k.weight"]),
        ("a beside a\\0", &["a\\0"]),
    ] {
        let case = REFUSED.iter().find(|case| case.what == what).expect("the table has this case");
        let mut file = GgufFile::tiny_llama();
        (case.edit)(&mut file);
        let message = load(&file.bytes()).expect_err(what).to_string();
        for part in parts {
            assert!(message.contains(part), "{what}: {message}");
        }
    }
}

#[cfg_attr(target_arch = "wasm32", wasm_bindgen_test::wasm_bindgen_test)]
#[cfg_attr(not(target_arch = "wasm32"), test)]
fn reads_what_the_file_says() {
    let mut file = GgufFile::tiny_llama();
    file.set_string("llama.rope.scaling.type", "linear");
    file.set_f32("llama.rope.scaling.factor", 4.0);
    let (gguf, config, weights) = load(&file.bytes()).expect("a sound file");
    assert_eq!((config.n_layers, config.n_embd, config.n_ff, config.vocab_size), (1, 32, 64, 40));
    assert_eq!((config.n_heads, config.n_kv_heads, config.head_dim, config.rope_dim), (4, 2, 8, 8));
    assert_eq!((config.context_length, config.norm_eps, config.rope_base), (512, 1e-5, 10_000.0));
    assert_eq!(config.rope_scaling, RopeScaling::Linear { factor: 4.0 });
    assert_eq!(config.name, "tiny");
    let down = &weights.layers[0].ffn_down;
    assert_eq!((down.n_rows, down.n_cols, down.bytes.len()), (32, 64, 32 * 2 * 34));
    assert_eq!(down.bytes.end, file.bytes().len());
    assert_eq!(gguf.tensor("blk.0.ffn_down.weight").expect("it is there").n_elements(), 64 * 32);
    assert_eq!(gguf.commonest_type(), Some(GgmlType::Q8_0));

    file.remove("llama.attention.head_count_kv");
    file.remove("llama.rope.freq_base");
    file.remove("llama.rope.dimension_count");
    for name in ["blk.0.attn_k.weight", "blk.0.attn_v.weight"] {
        file.tensor(name).dims = vec![32, 32];
        file.tensor(name).n_bytes *= 2;
    }
    let (_, defaults, _) = load(&file.bytes()).expect("a sound file");
    assert_eq!((defaults.n_kv_heads, defaults.rope_dim, defaults.rope_base), (4, 8, 10_000.0));
}

#[cfg_attr(target_arch = "wasm32", wasm_bindgen_test::wasm_bindgen_test)]
#[cfg_attr(not(target_arch = "wasm32"), test)]
fn calls_every_cut_truncated() {
    let header_len = header_len(REAL);
    let cuts = (0..header_len).chain((header_len..REAL.len()).step_by(997)).chain([REAL.len() - 1]);
    for len in cuts {
        let error = load_frugally(&REAL[..len]).expect_err("a cut file");
        assert_eq!(error.kind(), "truncated", "cut to {len} bytes: {error}");
    }
}

#[cfg_attr(target_arch = "wasm32", wasm_bindgen_test::wasm_bindgen_test)]
#[cfg_attr(not(target_arch = "wasm32"), test)]
fn survives_every_flipped_byte() {
    let n_refused = n_flips_refused(&mut REAL.to_vec(), 1);
    report(&format!("{n_refused} of {} flips refused", 3 * header_len(REAL)));
}

/// The same of a large vocabulary, here and there.
#[cfg(not(target_arch = "wasm32"))]
#[test]
fn survives_flipped_bytes_of_the_default_model() {
    const MODEL: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/www/models/SmolLM2-135M-Instruct.Q4_1.gguf");
    let mut file = std::fs::read(MODEL).expect("the default model is not there: run `cargo xtask model` first");
    // A prime, so that every kind of field is met: lengths, types, text, offsets.
    let n_refused = n_flips_refused(&mut file, 17_389);
    report(&format!("{n_refused} flips of the default model refused"));
}

/// Flips every `step`th byte of the header in three ways; the file is whole again afterwards.
fn n_flips_refused(bytes: &mut [u8], step: usize) -> usize {
    let mut n_refused = 0;
    for at in (0..header_len(bytes)).step_by(step) {
        for flip in [0x01, 0x80, 0xff] {
            bytes[at] ^= flip;
            n_refused += usize::from(!load_all(bytes));
            bytes[at] ^= flip;
        }
    }
    assert!(n_refused > 0 && load_all(bytes), "every flip was undone");
    n_refused
}

fn load(bytes: &[u8]) -> Result<(Gguf, ModelConfig, Weights)> {
    let gguf = Gguf::parse(bytes)?;
    let config = ModelConfig::from_gguf(&gguf)?;
    let weights = Weights::from_gguf(&gguf, &config)?;
    Ok((gguf, config, weights))
}

/// [`load`], which must make no single allocation that the file does not back, and refuse in words.
fn load_frugally(bytes: &[u8]) -> Result<(Gguf, ModelConfig, Weights)> {
    let (result, largest) = largest_allocation(|| load(bytes));
    assert!(largest <= backed_by(bytes.len()), "allocated {largest} bytes at once for a file of {}", bytes.len());
    in_words(result)
}

/// [`load_frugally`], then the tokenizer, as far as it gets. True when all of it was accepted.
fn load_all(bytes: &[u8]) -> bool {
    let Ok((gguf, config, _)) = load_frugally(bytes) else { return false };
    assert_layout_is_sound(&gguf, bytes.len());
    let Ok(tokenizer) = in_words(Tokenizer::from_metadata(&gguf.metadata, config.vocab_size)) else { return false };
    let ids = tokenizer.encode("A flipped byte: \u{1f642}", true).expect("a short text");
    assert!(ids.iter().all(|&id| (id as usize) < config.vocab_size));
    tokenizer.decode(&ids);
    true
}

fn header_len(bytes: &[u8]) -> usize {
    let gguf = Gguf::parse(bytes).expect("a sound file");
    gguf.tensors.iter().map(|tensor| tensor.bytes.start).min().expect("the file has tensors")
}

fn assert_layout_is_sound(gguf: &Gguf, file_len: usize) {
    let mut end = 0;
    let mut tensors: Vec<_> = gguf.tensors.iter().collect();
    tensors.sort_by_key(|tensor| tensor.bytes.start);
    for tensor in tensors {
        assert!(tensor.bytes.start >= end, "{} overlaps the tensor before it", tensor.name);
        assert_eq!(tensor.bytes.len(), tensor.n_rows() * tensor.ty.row_bytes(tensor.row_len()), "{}", tensor.name);
        end = tensor.bytes.end;
    }
    assert!(end <= file_len);
}

fn report(line: &str) {
    #[cfg(target_arch = "wasm32")]
    wasm_bindgen_test::console_log!("{line}");
    #[cfg(not(target_arch = "wasm32"))]
    println!("{line}");
}
