//! URL or local file -> bytes, in pieces as they arrive; and the files kept for the next visit.
//!
//! [`url`] reads the kept copy if there is one, and otherwise downloads: a lost connection is tried again and gone on with where
//! the server allows it, and what arrives is stored on the way. The key is the URL, and a kept copy is not asked about again: a
//! model file under one address does not change, a second visit should need no network, and deleting the copy is one click.
//!
//! Invariant: knows HTTP, Blobs and kept files, not GGUF; keeps no bytes in memory. All but [`answer`] runs in a worker only.

pub mod answer;

#[cfg(target_arch = "wasm32")]
mod connection;
#[cfg(target_arch = "wasm32")]
mod download;
#[cfg(target_arch = "wasm32")]
mod source;
#[cfg(target_arch = "wasm32")]
mod store;
#[cfg(target_arch = "wasm32")]
mod transfer;

#[cfg(target_arch = "wasm32")]
pub use source::{Fetched, Request, Sink, blob, check_sha256, forget_refused, url};
#[cfg(target_arch = "wasm32")]
pub use transfer::hex;
