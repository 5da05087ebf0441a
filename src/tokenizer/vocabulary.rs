//! Metadata -> [`Vocabulary`]: everything under `tokenizer.ggml.` that encoding needs, checked.
//!
//! Invariant: the only module that reads metadata.

use crate::error::{Error, Result, quoted};
use crate::gguf::Metadata;
use crate::tokenizer::pieces::byte_from_name;
use crate::tokenizer::pre_tokenizer::PreTokenizer;
use std::collections::HashMap;

const TOKENS: &str = "tokenizer.ggml.tokens";
const TOKEN_TYPES: &str = "tokenizer.ggml.token_type";
const SCORES: &str = "tokenizer.ggml.scores";
const MERGES: &str = "tokenizer.ggml.merges";
const MODEL: &str = "tokenizer.ggml.model";
const PRE: &str = "tokenizer.ggml.pre";
const ADD_BOS: &str = "tokenizer.ggml.add_bos_token";
const ADD_SPACE_PREFIX: &str = "tokenizer.ggml.add_space_prefix";

/// The tokens with a role, as `tokenizer.ggml.<role>_token_id` (GGUF specification; the misspelling is the format's).
const ROLES: [&str; 18] = [
    "bos",
    "eos",
    "eot",
    "eom",
    "unknown",
    "seperator",
    "padding",
    "cls",
    "mask",
    "prefix",
    "suffix",
    "middle",
    "fim_pre",
    "fim_suf",
    "fim_mid",
    "fim_pad",
    "fim_rep",
    "fim_sep",
];
const END_ROLES: [&str; 3] = ["eos", "eot", "eom"];

/// The roles that SentencePiece files fill where they are silent (llama.cpp, src/llama-vocab.cpp, `LLAMA_VOCAB_TYPE_SPM`).
const SPM_ROLES: [(&str, u32); 3] = [("unknown", 0), ("bos", 1), ("eos", 2)];

/// What transformers calls the tokens of these roles in a chat template.
const TEMPLATE_NAMES: [(&str, &str); 4] =
    [("bos", "bos_token"), ("eos", "eos_token"), ("unknown", "unk_token"), ("padding", "pad_token")];

/// Tokens that end a text or a turn whatever the file says of them: many files name one and leave out the other. From
/// llama.cpp (src/llama-vocab.cpp, `special_eog_ids`).
const END_NAMES: [&str; 16] = [
    "<|im_end|>",
    "<|eot_id|>",
    "<|eom_id|>",
    "<|end|>",
    "<|endoftext|>",
    "<|end_of_text|>",
    "<|return|>",
    "<|call|>",
    "<end_of_turn>",
    "<end_of_utterance>",
    "<｜end▁of▁sentence｜>",
    "<EOT>",
    "_<EOT>",
    "[EOT]",
    "[EOS]",
    "</s>",
];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TokenKind {
    /// A piece of text.
    Normal,
    /// Steers the model; no part of the text.
    Control,
    /// Text that is always this one token.
    UserDefined,
    /// One byte, written `<0x0A>`.
    Byte(u8),
}

/// A validated vocabulary. Ids are indices into `tokens`; each piece occurs once, and all ids below fit `u32`.
pub(super) struct Vocabulary<'m> {
    pub(super) tokens: &'m [String],
    /// As long as `tokens`.
    pub(super) kinds: Vec<TokenKind>,
    pub(super) algorithm: Algorithm<'m>,
    /// The token to start with, where the model wants one.
    pub(super) add_bos: Option<u32>,
    /// Ascending.
    pub(super) eos: Vec<u32>,
    pub(super) unknown: Option<u32>,
    /// Of the tokens that chat templates write, by the names that they write them by.
    pub(super) role_names: Vec<(&'static str, String)>,
}

/// How text becomes pieces.
#[derive(Clone, Copy)]
pub(super) enum Algorithm<'m> {
    /// `gpt2`: byte-level BPE.
    Bpe {
        /// Two pieces with a space between, highest priority first. Not validated: `bpe` takes them apart.
        merges: &'m [String],
        pre: &'static PreTokenizer,
    },
    /// `llama`: SentencePiece, by scores.
    Spm {
        /// As long as `tokens`.
        scores: &'m [f32],
        /// Text begins with a space of its own.
        add_space_prefix: bool,
    },
}

impl<'m> Vocabulary<'m> {
    /// `vocab_size`: rows of the token embedding.
    pub(super) fn from_metadata(metadata: &'m Metadata, vocab_size: usize) -> Result<Self> {
        let tokens = required(metadata.strings(TOKENS), TOKENS)?;
        let ids = ids_by_piece(tokens, vocab_size)?;
        let algorithm = algorithm(metadata, tokens.len())?;
        let mut kinds = kinds(metadata, tokens)?;

        let roles = roles(metadata, tokens.len(), &algorithm)?;
        let mut eos: Vec<u32> = END_ROLES.iter().filter_map(|role| roles.get(role)).copied().collect();
        for id in END_NAMES.iter().filter_map(|name| ids.get(name)) {
            let kind = &mut kinds[*id as usize];
            // In Gemma's vocabulary this one is a tag of HTML.
            if tokens[*id as usize] == "</s>" && *kind == TokenKind::UserDefined {
                continue;
            }
            // Whatever its type in the file: no pre-tokenizer leaves such a name in one piece, so it is no piece of text.
            *kind = TokenKind::Control;
            eos.push(*id);
        }
        eos.sort_unstable();
        eos.dedup();

        let bos = roles.get("bos").copied();
        let add_bos = match optional(metadata.boolean(ADD_BOS))? {
            Some(true) if bos.is_none() => {
                return refuse(format!(
                    "`{ADD_BOS}` is true, but the file has no `tokenizer.ggml.bos_token_id`; expected both or neither."
                ));
            }
            Some(add_bos) => add_bos,
            None => algorithm.adds_bos(),
        };
        let name = |(role, name)| Some((name, tokens[*roles.get(role)? as usize].clone()));
        Ok(Self {
            tokens,
            kinds,
            algorithm,
            add_bos: bos.filter(|_| add_bos),
            eos,
            unknown: roles.get("unknown").copied(),
            role_names: TEMPLATE_NAMES.into_iter().filter_map(name).collect(),
        })
    }
}

impl Algorithm<'_> {
    /// Whether a text starts with BOS where the file is silent.
    fn adds_bos(&self) -> bool {
        match self {
            Algorithm::Bpe { pre, .. } => pre.add_bos,
            Algorithm::Spm { .. } => true,
        }
    }
}

fn algorithm(metadata: &Metadata, n_tokens: usize) -> Result<Algorithm<'_>> {
    let model = required(metadata.string(MODEL), MODEL)?;
    let scores = optional(metadata.floats(SCORES))?;
    if let Some(scores) = scores {
        same_length(SCORES, scores.len(), n_tokens)?;
    }
    match model {
        "gpt2" => {
            let pre = required(metadata.string(PRE), PRE)?;
            let Some(pre) = PreTokenizer::by_name(pre) else {
                return refuse(format!("`{PRE}` is {}; expected one of {}.", quoted(pre), PreTokenizer::known_names()));
            };
            Ok(Algorithm::Bpe { merges: required(metadata.strings(MERGES), MERGES)?, pre })
        }
        "llama" => Ok(Algorithm::Spm {
            scores: required(Ok(scores), SCORES)?,
            add_space_prefix: optional(metadata.boolean(ADD_SPACE_PREFIX))?.unwrap_or(true),
        }),
        _ => refuse(format!("`{MODEL}` is {}; expected gpt2 or llama, the tokenizers known here.", quoted(model))),
    }
}

fn ids_by_piece(tokens: &[String], vocab_size: usize) -> Result<HashMap<&str, u32>> {
    if tokens.len() != vocab_size || tokens.is_empty() {
        let found = tokens.len();
        return refuse(format!(
            "`{TOKENS}` has {found} pieces; expected one for each of the {vocab_size} embedding rows."
        ));
    }
    // The largest id is kept free for `bpe`.
    if u32::try_from(tokens.len()).is_err() {
        return refuse(format!("`{TOKENS}` has {} pieces; expected fewer than 2^32.", tokens.len()));
    }
    let mut ids = HashMap::with_capacity(tokens.len());
    for (id, piece) in (0..).zip(tokens) {
        if let Some(first) = ids.insert(piece.as_str(), id) {
            let piece = quoted(piece);
            return refuse(format!("`{TOKENS}` has the piece {piece} at {first} and again at {id}; expected it once."));
        }
    }
    Ok(ids)
}

/// All normal where the file is silent.
fn kinds(metadata: &Metadata, tokens: &[String]) -> Result<Vec<TokenKind>> {
    let Some(types) = optional(metadata.integers(TOKEN_TYPES))? else {
        return Ok(vec![TokenKind::Normal; tokens.len()]);
    };
    same_length(TOKEN_TYPES, types.len(), tokens.len())?;
    let kind = |(id, (ty, piece)): (usize, (i128, &String))| match ty {
        // Undefined, normal and unused.
        0 | 1 | 5 => Ok(TokenKind::Normal),
        // Unknown and control.
        2 | 3 => Ok(TokenKind::Control),
        4 => Ok(TokenKind::UserDefined),
        6 => byte_from_name(piece).map(TokenKind::Byte).ok_or_else(|| {
            let piece = quoted(piece);
            Error::BadTokenizer(format!("Token {id} is typed as a byte and is {piece}; expected a form like <0x0A>."))
        }),
        _ => refuse(format!("`{TOKEN_TYPES}` is {ty} for token {id}; expected 0 to 6.")),
    };
    types.zip(tokens).enumerate().map(kind).collect()
}

/// The id of each role that the file fills.
fn roles(metadata: &Metadata, n_tokens: usize, algorithm: &Algorithm) -> Result<HashMap<&'static str, u32>> {
    let mut ids = HashMap::new();
    if matches!(algorithm, Algorithm::Spm { .. }) {
        ids.extend(SPM_ROLES.into_iter().filter(|(_, id)| (*id as usize) < n_tokens));
    }
    for role in ROLES {
        let key = format!("tokenizer.ggml.{role}_token_id");
        let Some(id) = optional(metadata.unsigned(&key))? else { continue };
        match u32::try_from(id) {
            Ok(small) if id < n_tokens as u64 => ids.insert(role, small),
            _ => {
                return refuse(format!(
                    "`{key}` is {id}; expected an id below {n_tokens}, the size of the vocabulary."
                ));
            }
        };
    }
    Ok(ids)
}

fn same_length(key: &str, found: usize, n_tokens: usize) -> Result<()> {
    if found == n_tokens {
        return Ok(());
    }
    refuse(format!("`{key}` has {found} elements; expected {n_tokens}, one for each piece."))
}

fn required<T>(value: Result<Option<T>>, key: &str) -> Result<T> {
    optional(value)?.ok_or_else(|| Error::BadTokenizer(format!("`{key}` is missing; expected it in every model file.")))
}

/// A value of the wrong type is a fault of the tokenizer, not of the file format.
fn optional<T>(value: Result<Option<T>>) -> Result<Option<T>> {
    value.map_err(|error| Error::BadTokenizer(error.to_string()))
}

fn refuse<T>(sentence: String) -> Result<T> {
    Err(Error::BadTokenizer(sentence))
}
