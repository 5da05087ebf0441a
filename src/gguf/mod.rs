//! GGUF v2 and v3: bytes -> header, metadata, tensor directory, all validated before anything is allocated for it.
//!
//! Invariant: knows the file format only; no model, no GPU, no DOM.
