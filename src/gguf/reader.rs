//! A cursor over the bytes of a file, or over as many of them as have come; every read is checked.
//!
//! Invariant: never reads past the end, trusts no length, allocates nothing but the sentence of an error.

use crate::error::{Error, Result};

/// No string of a model comes near this; a length above it is a broken file rather than a short one.
const MAX_STRING_BYTES: u64 = 128 << 20;

pub(super) struct Reader<'a> {
    bytes: &'a [u8],
    position: usize,
    /// Of the whole file, whose beginning `bytes` is.
    file_bytes: u64,
    /// A read needed bytes that have not come yet.
    is_short: bool,
}

impl<'a> Reader<'a> {
    pub(super) fn new(bytes: &'a [u8], file_bytes: u64) -> Self {
        Self { bytes, position: 0, file_bytes, is_short: false }
    }

    /// Whether a read failed only because the rest of the file has not come yet.
    pub(super) fn is_short(&self) -> bool {
        self.is_short
    }

    /// Bytes read so far.
    pub(super) fn position(&self) -> usize {
        self.position
    }

    pub(super) fn file_bytes(&self) -> u64 {
        self.file_bytes
    }

    /// The bytes that have come, from here on.
    pub(super) fn rest(&self) -> &'a [u8] {
        &self.bytes[self.position..]
    }

    /// Bytes that the file has from here on.
    pub(super) fn remaining(&self) -> u64 {
        self.file_bytes - self.position as u64
    }

    /// Whether the next `n` bytes are here. If not, but the file has them, the reader is short.
    pub(super) fn has(&mut self, n: u64) -> bool {
        let has = n <= (self.bytes.len() - self.position) as u64;
        self.is_short |= !has && n <= self.remaining();
        has
    }

    pub(super) fn take(&mut self, n: u64, what: &str) -> Result<&'a [u8]> {
        if !self.has(n) {
            return Err(Error::Truncated(format!(
                "The file ends inside {what}: found {} bytes, expected {n}.",
                self.remaining()
            )));
        }
        let taken = &self.bytes[self.position..][..usize::try_from(n).expect("as many bytes are in memory")];
        self.position += taken.len();
        Ok(taken)
    }

    pub(super) fn array<const N: usize>(&mut self, what: &str) -> Result<[u8; N]> {
        let taken = self.take(N as u64, what)?;
        Ok(taken.try_into().expect("take returns the length it was asked for"))
    }

    pub(super) fn u32(&mut self, what: &str) -> Result<u32> {
        self.array(what).map(u32::from_le_bytes)
    }

    pub(super) fn u64(&mut self, what: &str) -> Result<u64> {
        self.array(what).map(u64::from_le_bytes)
    }

    /// A u64 length and as many bytes, not yet known to be UTF-8.
    pub(super) fn string(&mut self, what: &str) -> Result<&'a [u8]> {
        let len = self.u64(what)?;
        if len > MAX_STRING_BYTES {
            return Err(Error::StringTooLong(format!(
                "Found a string of {len} bytes for {what}; expected at most {MAX_STRING_BYTES}."
            )));
        }
        self.take(len, what)
    }
}
