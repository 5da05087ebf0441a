//! A cursor over the bytes of a file; every read is checked.
//!
//! Invariant: never reads past the end, trusts no length, allocates nothing but the sentence of an error.

use crate::error::{Error, Result};

/// No string of a model comes near this; a length above it is a broken file rather than a short one.
const MAX_STRING_BYTES: u64 = 128 << 20;

pub(super) struct Reader<'a> {
    bytes: &'a [u8],
    position: usize,
}

impl<'a> Reader<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, position: 0 }
    }

    /// Bytes read so far.
    pub(super) fn position(&self) -> usize {
        self.position
    }

    pub(super) fn remaining(&self) -> usize {
        self.bytes.len() - self.position
    }

    pub(super) fn take(&mut self, n: u64, what: &str) -> Result<&'a [u8]> {
        let rest = &self.bytes[self.position..];
        let taken = usize::try_from(n).ok().and_then(|n| rest.get(..n)).ok_or_else(|| {
            Error::Truncated(format!("The file ends inside {what}: found {} bytes, expected {n}.", rest.len()))
        })?;
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
