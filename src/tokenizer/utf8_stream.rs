//! Bytes that arrive in pieces -> text, whole characters only.
//!
//! Invariant: knows bytes; no vocabulary.

/// Decodes UTF-8 that is cut anywhere. All that [`push`](Self::push) and [`flush`](Self::flush) return, concatenated, equals
/// `String::from_utf8_lossy` of all the bytes, wherever they were cut.
#[derive(Debug, Default, Clone)]
pub struct Utf8Stream {
    /// The beginning of a character whose end has not arrived: at most 3 bytes between calls.
    held: Vec<u8>,
}

impl Utf8Stream {
    /// The characters that `bytes` completes. What can no longer become a character is U+FFFD, once per maximal subpart as
    /// the Unicode standard recommends (section 3.9, table 3-8).
    pub fn push(&mut self, bytes: &[u8]) -> String {
        self.held.extend_from_slice(bytes);
        let held = self.held.len() - incomplete_len(&self.held);
        let text = String::from_utf8_lossy(&self.held[..held]).into_owned();
        self.held.drain(..held);
        text
    }

    /// The end of the bytes: what was held back can no longer become a character.
    pub fn flush(&mut self) -> String {
        let text = String::from_utf8_lossy(&self.held).into_owned();
        self.held.clear();
        text
    }
}

/// How many bytes at the end are the beginning of a character that is not all there.
fn incomplete_len(bytes: &[u8]) -> usize {
    let last_invalid = bytes.utf8_chunks().last().map_or(&[][..], |chunk| chunk.invalid());
    match std::str::from_utf8(last_invalid) {
        // No error length: the bytes are valid as far as they go.
        Err(error) if error.error_len().is_none() => last_invalid.len(),
        _ => 0,
    }
}
