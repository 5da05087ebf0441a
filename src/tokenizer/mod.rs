//! Text <-> token ids, from the vocabulary of a GGUF file.

/// The bytes that tokens stand for: all that generation and streaming decode need of a tokenizer.
pub trait TokenBytes {
    /// The token's own bytes, for a chip; a control token's are its name. Empty for an id past the vocabulary.
    fn token_bytes(&self, id: u32) -> &[u8];

    /// The bytes the token adds to the text: none for a control token or an id past the vocabulary.
    fn text_bytes(&self, id: u32) -> &[u8];
}
