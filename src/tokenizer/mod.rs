//! Text <-> token ids, from the vocabulary of a GGUF file.
//!
//! `vocabulary` checks what the file says; `added_tokens` finds control and user-defined tokens in text, and `bpe` or `spm`
//! encodes what lies between them; `pieces` holds the bytes of every token; `utf8_stream` turns bytes that arrive one token at a
//! time into text. `chat` renders a conversation by the file's template, with `date`, and `guard` keeps what people say in it from
//! becoming control tokens.
//!
//! Invariant: knows metadata and text; no tensors, no sampling, no page.

mod added_tokens;
mod bpe;
mod chat;
mod date;
mod guard;
mod pieces;
mod pre_tokenizer;
mod spm;
mod utf8_stream;
mod vocabulary;

pub use chat::{RoleNames, render as render_template};
pub use utf8_stream::Utf8Stream;

use crate::clock::unix_seconds;
use crate::error::{Error, Result, quoted};
use crate::gguf::Metadata;
use crate::protocol::{ChatMessage, PromptToken, RenderedChat};
use added_tokens::{AddedTokens, Fragment};
use bpe::ByteLevelBpe;
use guard::Guard;
use pieces::Pieces;
use spm::Spm;
use vocabulary::{Algorithm, TokenKind, Vocabulary};

/// The bytes that tokens stand for: all that generation and streaming decode need of a tokenizer.
pub trait TokenBytes {
    /// The token's own bytes, for a chip; a control token's are its name. Empty for an id past the vocabulary.
    fn token_bytes(&self, id: u32) -> &[u8];

    /// The bytes the token adds to the text: none for a control token or an id past the vocabulary.
    fn text_bytes(&self, id: u32) -> &[u8];
}

/// Byte-level BPE or SentencePiece (`tokenizer.ggml.model` = `gpt2` or `llama`). Ids equal llama.cpp's, but for one thing: control
/// tokens are kept out of the pieces, so that a file cannot make plain text spell one.
pub struct Tokenizer {
    added_tokens: AddedTokens,
    model: Model,
    pieces: Pieces,
    kinds: Vec<TokenKind>,
    add_bos: Option<u32>,
    eos: Vec<u32>,
    /// The file's, or why it cannot be used; none where the file has none.
    template: Option<Result<String>>,
    role_names: Vec<(&'static str, String)>,
    /// See `guard`.
    key_characters: Vec<char>,
}

enum Model {
    Bpe(Box<ByteLevelBpe>),
    Spm(Spm),
}

/// A conversation as a prompt.
#[derive(Debug, Clone, PartialEq)]
pub struct ChatPrompt {
    /// What the template wrote.
    pub text: String,
    /// With a BOS where the model wants one.
    pub ids: Vec<u32>,
}

impl Tokenizer {
    /// `vocab_size`: rows of the token embedding; the vocabulary has as many pieces. A chat template is not looked at before it is
    /// used: a file whose template is bad can still complete text.
    ///
    /// Errors: `bad-tokenizer` for a vocabulary, types, scores, special ids or merges that are missing, of the wrong type or
    /// length, or do not fit together, and for a model or a pre-tokenizer that is not known here.
    pub fn from_metadata(metadata: &Metadata, vocab_size: usize) -> Result<Self> {
        let vocabulary = Vocabulary::from_metadata(metadata, vocab_size)?;
        let model = match vocabulary.algorithm {
            Algorithm::Bpe { merges, pre } => Model::Bpe(Box::new(ByteLevelBpe::new(&vocabulary, merges, pre)?)),
            Algorithm::Spm { scores, add_space_prefix } => Model::Spm(Spm::new(&vocabulary, scores, add_space_prefix)?),
        };
        let added_tokens = AddedTokens::new(&vocabulary)?;
        let is_spm = matches!(model, Model::Spm(_));
        Ok(Self {
            key_characters: guard::key_characters(added_tokens.control_names()),
            added_tokens,
            model,
            pieces: Pieces::new(vocabulary.tokens, &vocabulary.kinds, is_spm),
            kinds: vocabulary.kinds,
            add_bos: vocabulary.add_bos,
            eos: vocabulary.eos,
            template: chat::template(metadata),
            role_names: vocabulary.role_names,
        })
    }

    /// The ids of `text`, with no BOS added. `special`: control tokens in the text are parsed; otherwise they are spelled
    /// out, so that user text never becomes one. A byte for which a BPE vocabulary has no piece yields no id.
    ///
    /// Errors: `prompt-too-long` for over 500,000 bytes of white space in a row.
    pub fn encode(&self, text: &str, special: bool) -> Result<Vec<u32>> {
        let mut ids = Vec::new();
        let mut is_start = true;
        self.append(text, special, &mut is_start, &mut ids)?;
        Ok(ids)
    }

    /// `is_start`: nothing, or a token that is no text, is before it; kept up to date.
    fn append(&self, text: &str, special: bool, is_start: &mut bool, ids: &mut Vec<u32>) -> Result<()> {
        for fragment in self.added_tokens.partition(text, special) {
            *is_start = match fragment {
                Fragment::Token(id) => {
                    ids.push(id);
                    true
                }
                Fragment::Text(text) => {
                    match &self.model {
                        Model::Bpe(bpe) => bpe.encode(text, ids)?,
                        Model::Spm(spm) => spm.encode(text, *is_start, ids),
                    }
                    false
                }
            };
        }
        Ok(())
    }

    /// The prompt of a conversation, at whose end the assistant's turn begins. What the messages say never becomes a control token.
    ///
    /// Errors: `no-chat-template`; `template-refused`; `bad-option` for a role that is none; `empty-prompt` without messages or
    /// when the template writes nothing; `prompt-too-long` as [`encode`](Self::encode).
    pub fn chat(&self, messages: &[ChatMessage]) -> Result<ChatPrompt> {
        let template = self.template.as_ref().ok_or_else(|| {
            Error::NoChatTemplate("The file has no `tokenizer.chat_template`: this model completes text only.".into())
        })?;
        let template = template.as_ref().map_err(Error::clone)?;
        if messages.is_empty() {
            return Err(Error::EmptyPrompt("The conversation has no messages; expected at least one.".into()));
        }
        if let Some(message) = messages.iter().find(|m| !ChatMessage::ROLES.contains(&m.role.as_str())) {
            let (role, roles) = (quoted(&message.role), ChatMessage::ROLES.join(", "));
            return Err(Error::BadOption(format!("A message has the role {role}; expected one of {roles}.")));
        }
        let guard = Guard::new(&self.key_characters, messages.iter().map(|m| m.content.as_str())).ok_or_else(|| {
            Error::BadOption("The messages hold every private-use character; expected some that they do not.".into())
        })?;
        let hidden = |m: &ChatMessage| ChatMessage { role: m.role.clone(), content: guard.hide(&m.content) };
        let messages: Vec<ChatMessage> = messages.iter().map(hidden).collect();
        let text = chat::render(template, &messages, &self.role_names, unix_seconds())?;

        let mut ids = Vec::new();
        let mut is_start = true;
        for fragment in self.added_tokens.partition(&text, true) {
            match fragment {
                Fragment::Token(id) => {
                    ids.push(id);
                    is_start = true;
                }
                Fragment::Text(text) => self.append(&guard.reveal(text), false, &mut is_start, &mut ids)?,
            }
        }
        if ids.is_empty() {
            return Err(Error::EmptyPrompt("The chat template wrote nothing; expected a prompt.".into()));
        }
        Ok(ChatPrompt { text: guard.reveal(&text).into_owned(), ids: self.with_bos(ids) })
    }

    /// The same for those who look at it.
    ///
    /// Errors: those of [`chat`](Self::chat).
    pub fn rendered(&self, messages: &[ChatMessage]) -> Result<RenderedChat> {
        let ChatPrompt { text, ids } = self.chat(messages)?;
        let token = |id| PromptToken { bytes: self.token_bytes(id).to_vec(), is_control: self.is_control(id) };
        Ok(RenderedChat { text, tokens: ids.into_iter().map(token).collect() })
    }

    /// A prompt's ids with the BOS that the model wants, unless they bring their own.
    pub fn with_bos(&self, ids: Vec<u32>) -> Vec<u32> {
        let bos = self.add_bos.filter(|bos| ids.first() != Some(bos));
        bos.into_iter().chain(ids).collect()
    }

    /// The text of `ids`. Control tokens and ids past the vocabulary are empty; bytes that are no UTF-8 are U+FFFD. Where encoding
    /// begins a text with a space of its own, that one is left out.
    pub fn decode(&self, ids: &[u32]) -> String {
        let bytes: Vec<u8> = ids.iter().flat_map(|id| self.text_bytes(*id)).copied().collect();
        let bytes = match &self.model {
            Model::Spm(spm) if spm.adds_space_prefix() => bytes.strip_prefix(b" ").unwrap_or(&bytes),
            _ => &bytes,
        };
        String::from_utf8_lossy(bytes).into_owned()
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
