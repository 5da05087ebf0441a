//! A file's bytes on their way: to the sink, through the hash, and into the store.
//!
//! Invariant: the sink, the hash and the store have always seen the same bytes; a store that fails is left, and the load goes on.

use super::source::Sink;
use super::store::Entry;
use crate::error::Result;
use crate::kept::{Record, Version};
use js_sys::Uint8Array;
use sha2::{Digest, Sha256};
use wasm_bindgen::JsValue;

/// Bytes between two notes of what is safely stored: what a closed tab costs at most.
const NOTE_EVERY: u64 = 8 << 20;

pub struct Transfer<'a, S> {
    pub sink: &'a mut S,
    pub hash: Hash,
    /// None without a cache, and when it has failed.
    pub entry: Option<Entry>,
    /// Of the file that arrives; its rest can be asked for.
    pub version: Option<Version>,
    /// What the reader should know of the cache, as sentences.
    pub notices: Vec<String>,
    /// Bytes at the last note.
    noted: u64,
}

impl<'a, S: Sink> Transfer<'a, S> {
    pub fn new(sink: &'a mut S, entry: Option<Entry>) -> Self {
        let (hash, notices) = (Hash::default(), Vec::new());
        Self { sink, hash, entry, version: None, notices, noted: 0 }
    }

    pub fn received(&self) -> u64 {
        self.hash.n_bytes
    }

    /// The file begins with its first byte, which the server has yet to send.
    pub async fn begin(&mut self, total: Option<u64>, is_certain: bool, version: Option<Version>) -> Result<()> {
        (self.hash, self.version, self.noted) = (Hash::default(), version, 0);
        let restarted = self.entry.as_ref().map_or(Ok(()), Entry::restart);
        self.check_store(restarted).await;
        self.sink.begin(total, is_certain)
    }

    /// The next bytes from the server.
    pub async fn take(&mut self, chunk: &Uint8Array) -> Result<()> {
        let position = self.received();
        self.sink.take(chunk)?;
        self.hash.update(chunk);
        let written = self.entry.as_ref().map_or(Ok(()), |entry| entry.write(position, chunk));
        self.check_store(written).await;
        if self.received() >= self.noted + NOTE_EVERY {
            self.note().await;
        }
        Ok(())
    }

    /// The file begins with what is stored of it.
    pub fn begin_stored(&mut self, version: Version) -> Result<()> {
        let total = version.total;
        (self.hash, self.version, self.noted) = (Hash::default(), Some(version), 0);
        self.sink.begin(total, false)
    }

    /// The next bytes from the store, which has them.
    pub fn take_stored(&mut self, chunk: &Uint8Array) -> Result<()> {
        self.sink.take(chunk)?;
        self.hash.update(chunk);
        self.noted = self.received();
        Ok(())
    }

    /// Notes what is stored, if it can be gone on with.
    pub async fn note(&mut self) {
        if self.version.is_some() && self.received() > self.noted {
            self.noted = self.received();
            self.put_record(false).await;
        }
    }

    /// The file is whole.
    pub async fn commit(&mut self) {
        self.put_record(true).await;
    }

    async fn put_record(&mut self, is_complete: bool) {
        let Some(entry) = &self.entry else { return };
        let noted = entry.note(Record {
            url: String::new(),
            bytes: self.hash.n_bytes,
            sha256: self.hash.hex(),
            is_complete,
            version: self.version.clone(),
            saved_at: 0.0,
        });
        self.check_store(noted).await;
    }

    /// After a failure of the store, the load goes on without it.
    async fn check_store(&mut self, outcome: Result<(), JsValue>) {
        if outcome.is_ok() {
            return;
        }
        self.notices.push(
            "The browser has no room to keep the file for the next visit: free some under “Kept in this browser”."
                .into(),
        );
        self.discard().await;
    }

    /// Nothing of the file stays stored.
    pub async fn discard(&mut self) {
        if let Some(entry) = self.entry.take() {
            entry.discard().await;
        }
    }

    /// The load ended early: what is stored stays only if it can be gone on with.
    pub async fn interrupt(&mut self) {
        self.note().await;
        if self.entry.as_ref().is_some_and(|entry| entry.partial().is_none()) {
            self.discard().await;
        }
    }
}

/// SHA-256 of bytes as they pass.
#[derive(Default)]
pub struct Hash {
    pub n_bytes: u64,
    hasher: Sha256,
    /// JavaScript's bytes, where Rust can see them.
    scratch: Vec<u8>,
}

impl Hash {
    pub fn update(&mut self, chunk: &Uint8Array) {
        self.scratch.resize(chunk.length() as usize, 0);
        chunk.copy_to(&mut self.scratch);
        self.hasher.update(&self.scratch);
        self.n_bytes += u64::from(chunk.length());
    }

    /// Lower-case hex, of the bytes so far.
    pub fn hex(&self) -> String {
        hex(&self.hasher)
    }
}

/// Of the bytes so far, lower-case hex.
pub fn hex(hasher: &Sha256) -> String {
    hasher.clone().finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}
