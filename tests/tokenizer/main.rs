//! The tokenizer against llama.cpp's ids on the real vocabulary, and against small vocabularies made here. All but the first
//! run natively and in wasm, where `usize` has 32 bits.

#![cfg(feature = "engine")]

mod chat;
mod file;
mod long_texts;
// This test writes no wrong lengths, tensors or headers.
#[cfg(not(target_arch = "wasm32"))]
mod gemma3;
#[allow(dead_code)]
#[path = "../support/gguf_writer.rs"]
mod gguf_writer;
#[path = "../support/refusal.rs"]
mod refusal;
mod refusals;
mod small_vocabularies;
#[cfg(not(target_arch = "wasm32"))]
mod smollm2;
mod spm;
mod utf8_stream;
