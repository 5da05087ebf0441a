//! Nucleus: a small quantized language model in the browser, one token at a time.
//!
//! Modules in reading order, along the data flow (ARCHITECTURE.md tells the whole story):
//!
//! `fetch` bytes -> `gguf` directory -> `model` plan + weights -> `backend` logits -> `sampling` distribution ->
//! `generate` step record -> `protocol` event -> `page`.

pub mod clock;
pub mod error;
pub mod protocol;

#[cfg(feature = "engine")]
pub mod assembly;
#[cfg(feature = "engine")]
pub mod backend;
#[cfg(all(feature = "engine", target_arch = "wasm32"))]
pub mod engine;
#[cfg(feature = "engine")]
pub mod fetch;
#[cfg(feature = "engine")]
pub mod generate;
#[cfg(feature = "file")]
pub mod gguf;
pub mod kept;
pub mod logits;
#[cfg(feature = "file")]
pub mod model;
#[cfg(feature = "page")]
pub mod page;
#[cfg(feature = "file")]
pub mod quant;
pub mod sampling;
pub mod tail;
#[cfg(feature = "file")]
pub mod tokenizer;

pub use error::{Error, Result};
