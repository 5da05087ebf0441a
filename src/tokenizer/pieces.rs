//! The bytes of every piece of a vocabulary, and the alphabet in which byte-level BPE writes them.
//!
//! Invariant: the only module that knows the byte alphabet.

use crate::tokenizer::vocabulary::TokenKind;

/// How SentencePiece writes a space.
pub(super) const SPM_SPACE: char = '\u{2581}';

/// Bytes of all pieces in one block: no allocation per token, none to read one.
pub(super) struct Pieces {
    bytes: Vec<u8>,
    /// Piece `id` is `bytes[offsets[id]..offsets[id + 1]]`.
    offsets: Vec<usize>,
}

impl Pieces {
    /// `tokens` and `kinds` have the same length. `is_spm`: a space is written `▁`; otherwise pieces are in the byte alphabet.
    pub(super) fn new(tokens: &[String], kinds: &[TokenKind], is_spm: bool) -> Self {
        let mut bytes = Vec::with_capacity(tokens.iter().map(String::len).sum());
        let mut offsets = Vec::with_capacity(tokens.len() + 1);
        offsets.push(0);
        for (token, kind) in tokens.iter().zip(kinds) {
            match kind {
                TokenKind::Byte(byte) => bytes.push(*byte),
                TokenKind::Normal if is_spm => bytes.extend(token.replace(SPM_SPACE, " ").as_bytes()),
                TokenKind::Normal if is_byte_level(token) => bytes.extend(token.chars().filter_map(byte_of_char)),
                // Written as it reads, not in the byte alphabet.
                TokenKind::Normal | TokenKind::Control | TokenKind::UserDefined => bytes.extend(token.as_bytes()),
            }
            offsets.push(bytes.len());
        }
        Self { bytes, offsets }
    }

    /// Empty past the vocabulary.
    pub(super) fn get(&self, id: usize) -> &[u8] {
        match self.offsets.get(id..).unwrap_or_default() {
            [start, end, ..] => &self.bytes[*start..*end],
            _ => &[],
        }
    }
}

/// Whether every character of the piece stands for one byte.
pub(super) fn is_byte_level(piece: &str) -> bool {
    piece.chars().all(|c| byte_of_char(c).is_some())
}

/// The byte that a character stands for: GPT-2's `bytes_to_unicode` (openai/gpt-2, src/encoder.py), inverted. Bytes that
/// print stand for themselves; the other 68 are U+0100 to U+0143 in ascending order.
fn byte_of_char(c: char) -> Option<u8> {
    let code = u32::from(c);
    let byte = match code {
        0x21..=0x7e | 0xa1..=0xac | 0xae..=0xff => code,
        0x100..=0x120 => code - 0x100,
        0x121..=0x142 => code - 0x121 + 0x7f,
        0x143 => 0xad,
        _ => return None,
    };
    u8::try_from(byte).ok()
}

/// The byte that a byte token such as `<0x0A>` names.
pub(super) fn byte_from_name(name: &str) -> Option<u8> {
    let digits = name.strip_prefix("<0x")?.strip_suffix('>')?;
    // `from_str_radix` alone would take a sign.
    let is_hex = digits.len() == 2 && digits.bytes().all(|digit| digit.is_ascii_hexdigit());
    is_hex.then(|| u8::from_str_radix(digits, 16).expect("two hexadecimal digits"))
}

#[cfg(test)]
mod tests {
    use super::byte_of_char;

    /// The construction of encoder.py, forwards.
    #[test]
    fn byte_of_char_inverts_gpt2s_bytes_to_unicode() {
        let prints = |byte: u8| matches!(byte, b'!'..=b'~' | 0xa1..=0xac | 0xae..=0xff);
        let mut next = 0x100..;
        for byte in 0..=255 {
            let code = if prints(byte) { u32::from(byte) } else { next.next().unwrap() };
            assert_eq!(byte_of_char(char::from_u32(code).unwrap()), Some(byte));
        }
        for c in [' ', '\u{7f}', '\u{ad}', '\u{144}', '日'] {
            assert_eq!(byte_of_char(c), None);
        }
    }
}
