//! Text <-> token ids, from the vocabulary of a GGUF file.
//!
//! `vocabulary` checks what the file says; `added_tokens` finds control and user-defined tokens in text, and `bpe` encodes
//! what lies between them; `pieces` holds the bytes of every token; `utf8_stream` turns bytes that arrive one token at a
//! time into text.
//!
//! Invariant: knows metadata and text; no tensors, no sampling, no page.

mod added_tokens;
mod bpe;
mod pieces;
mod pre_tokenizer;
mod utf8_stream;
mod vocabulary;

pub use utf8_stream::Utf8Stream;

use crate::error::Result;
use crate::gguf::Metadata;
use added_tokens::{AddedTokens, Fragment};
use bpe::ByteLevelBpe;
use pieces::Pieces;
use vocabulary::{TokenKind, Vocabulary};

/// The bytes that tokens stand for: all that generation and streaming decode need of a tokenizer.
pub trait TokenBytes {
    /// The token's own bytes, for a chip; a control token's are its name. Empty for an id past the vocabulary.
    fn token_bytes(&self, id: u32) -> &[u8];

    /// The bytes the token adds to the text: none for a control token or an id past the vocabulary.
    fn text_bytes(&self, id: u32) -> &[u8];
}

/// Byte-level BPE (`tokenizer.ggml.model` = `gpt2`). Ids equal llama.cpp's, but for one thing: control tokens are kept out
/// of BPE itself, so that a file cannot make plain text spell one.
pub struct Tokenizer {
    added_tokens: AddedTokens,
    bpe: ByteLevelBpe,
    pieces: Pieces,
    kinds: Vec<TokenKind>,
    add_bos: Option<u32>,
    eos: Vec<u32>,
}

impl Tokenizer {
    /// `vocab_size`: rows of the token embedding; the vocabulary has as many pieces.
    ///
    /// Errors: `bad-tokenizer` for a vocabulary, types, scores, special ids or merges that are missing, of the wrong type or
    /// length, or do not fit together, and for a model or a pre-tokenizer that is not known here.
    pub fn from_metadata(metadata: &Metadata, vocab_size: usize) -> Result<Self> {
        let vocabulary = Vocabulary::from_metadata(metadata, vocab_size)?;
        Ok(Self {
            added_tokens: AddedTokens::new(&vocabulary),
            bpe: ByteLevelBpe::new(&vocabulary)?,
            pieces: Pieces::new(vocabulary.tokens, &vocabulary.kinds),
            kinds: vocabulary.kinds,
            add_bos: vocabulary.add_bos,
            eos: vocabulary.eos,
        })
    }

    /// The ids of `text`, with no BOS added. `special`: control tokens in the text are parsed; otherwise they are spelled
    /// out, so that user text never becomes one. A byte for which the vocabulary has no piece yields no id.
    ///
    /// Errors: `prompt-too-long` for over 500,000 bytes of white space in a row.
    pub fn encode(&self, text: &str, special: bool) -> Result<Vec<u32>> {
        let mut ids = Vec::new();
        for fragment in self.added_tokens.partition(text, special) {
            match fragment {
                Fragment::Token(id) => ids.push(id),
                Fragment::Text(text) => self.bpe.encode(text, &mut ids)?,
            }
        }
        Ok(ids)
    }

    /// The text of `ids`. Control tokens and ids past the vocabulary are empty; bytes that are no UTF-8 are U+FFFD.
    pub fn decode(&self, ids: &[u32]) -> String {
        let bytes: Vec<u8> = ids.iter().flat_map(|id| self.text_bytes(*id)).copied().collect();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// The token that a prompt without a chat template starts with, if the model wants one.
    pub fn add_bos(&self) -> Option<u32> {
        self.add_bos
    }

    /// The ids that end a text or a turn, ascending. Empty when the file names none.
    pub fn eos(&self) -> &[u32] {
        &self.eos
    }

    pub fn is_control(&self, id: u32) -> bool {
        usize::try_from(id).ok().and_then(|id| self.kinds.get(id)) == Some(&TokenKind::Control)
    }
}

impl TokenBytes for Tokenizer {
    fn token_bytes(&self, id: u32) -> &[u8] {
        usize::try_from(id).map_or(&[], |id| self.pieces.get(id))
    }

    fn text_bytes(&self, id: u32) -> &[u8] {
        if self.is_control(id) { &[] } else { self.token_bytes(id) }
    }
}
