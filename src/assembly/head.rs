//! The beginning of a file, until its header is whole.
//!
//! Invariant: the work is proportional to the header: it is tried again only when twice as many bytes have come.

use crate::error::{Error, Result};
use crate::gguf::Gguf;

/// Bytes that the second try waits for: most headers are larger.
const SECOND_TRY: usize = 1 << 16;

#[derive(Default)]
pub struct Head {
    bytes: Vec<u8>,
    /// Of the file, if known.
    total: Option<u64>,
    next_try: usize,
}

impl Head {
    /// Of a file of `total` bytes, if that is known.
    pub fn new(total: Option<u64>) -> Self {
        Self { bytes: Vec::new(), total, next_try: 0 }
    }

    /// The next bytes. Returns the header once they complete it.
    ///
    /// Errors: those of [`Gguf::parse`], as soon as the bytes so far make one certain.
    pub fn take(&mut self, bytes: &[u8]) -> Result<Option<Gguf>> {
        self.bytes.try_reserve(bytes.len()).map_err(|_| {
            Error::TooLarge(format!("There is no memory for a header of over {} bytes.", self.bytes.len()))
        })?;
        self.bytes.extend_from_slice(bytes);
        let n = self.bytes.len();
        // Past what was announced, nothing is known of the total.
        self.total = self.total.filter(|&total| total >= n as u64);
        if n < self.next_try && self.total != Some(n as u64) {
            return Ok(None);
        }
        self.next_try = (2 * n).max(SECOND_TRY);
        Gguf::parse_prefix(&self.bytes, self.total)
    }

    /// The header of a file that has ended here. Errors: those of [`Gguf::parse`].
    pub fn end(&self) -> Result<Gguf> {
        Gguf::parse(&self.bytes)
    }

    /// What has come.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}
