//! Byte-level BPE on the `tokenizers` crate: plain text -> ids, no control tokens.
//!
//! Invariant: the only module that names the `tokenizers` crate.

use crate::error::{Error, Result, quoted};
use crate::tokenizer::pieces::is_byte_level;
use crate::tokenizer::pre_tokenizer::PreTokenizer;
use crate::tokenizer::vocabulary::{TokenKind, Vocabulary};
use std::collections::HashSet;
use tokenizers::models::bpe::{BPE, Merges, Vocab};
use tokenizers::pre_tokenizers::PreTokenizerWrapper;
use tokenizers::pre_tokenizers::byte_level::ByteLevel;
use tokenizers::pre_tokenizers::sequence::Sequence;
use tokenizers::pre_tokenizers::split::{Split, SplitPattern};
use tokenizers::{SplitDelimiterBehavior, Tokenizer};

/// Stands for a byte that has no piece. Such a byte yields no token, in llama.cpp as here, but it still keeps its
/// neighbours from merging, so BPE has to see it. The name is no word of the byte alphabet: no text can spell it.
const HOLE: (&str, u32) = ("\u{fffd}", u32::MAX);

/// From a million on, the backtracking regex engine gives up without a word and leaves the rest of the text uncut.
const MAX_WHITE_SPACE_RUN: usize = 500_000;

pub(super) struct ByteLevelBpe {
    tokenizer: Tokenizer,
}

impl ByteLevelBpe {
    /// Errors: `bad-tokenizer` for a merge of pieces that the vocabulary lacks.
    pub(super) fn new(vocabulary: &Vocabulary, merges: &[String], pre: &PreTokenizer) -> Result<Self> {
        // A control token is no piece here, so that no text can become one, merges or not.
        let mut pieces: Vocab = (0..)
            .zip(vocabulary.tokens.iter().zip(&vocabulary.kinds))
            .filter(|(_, (token, kind))| **kind != TokenKind::Control && is_byte_level(token))
            .map(|(id, (token, _))| (token.clone(), id))
            .collect();
        let merges = reachable(merges, vocabulary, &pieces)?;
        pieces.insert(HOLE.0.to_owned(), HOLE.1);

        let model = BPE::builder()
            .vocab_and_merges(pieces, merges)
            .unk_token(HOLE.0.to_owned())
            .ignore_merges(pre.ignore_merges)
            // The crate's word cache is thread-local and outlives the tokenizer that filled it.
            .cache_capacity(0)
            .build()
            .map_err(refused)?;
        let mut steps = Vec::new();
        for regex in pre.regexes {
            let pattern = SplitPattern::Regex((*regex).to_owned());
            let split = Split::new(pattern, SplitDelimiterBehavior::Isolated, false).map_err(refused)?;
            steps.push(PreTokenizerWrapper::from(split));
        }
        steps.push(ByteLevel::new(false, false, false).into());
        let mut tokenizer = Tokenizer::new(model);
        tokenizer.with_pre_tokenizer(Some(Sequence::new(steps)));
        Ok(Self { tokenizer })
    }

    /// Appends the ids of `text`.
    ///
    /// Errors: `prompt-too-long` for more white space in a row than the regexes can look past.
    pub(super) fn encode(&self, text: &str, ids: &mut Vec<u32>) -> Result<()> {
        let mut white_space = text.split(|c: char| !c.is_whitespace());
        if white_space.any(|run| run.len() > MAX_WHITE_SPACE_RUN) {
            return Err(Error::PromptTooLong(format!(
                "The text has more than {MAX_WHITE_SPACE_RUN} bytes of white space in a row; expected at most that."
            )));
        }
        let encoding = self.tokenizer.encode_fast(text, false).map_err(refused)?;
        ids.extend(encoding.get_ids().iter().filter(|id| **id != HOLE.1));
        Ok(())
    }
}

/// The merges that text can reach, highest priority first. The builder of the crate panics on a merge whose result is
/// longer than every piece, so all three pieces are looked up here.
fn reachable(all: &[String], vocabulary: &Vocabulary, pieces: &Vocab) -> Result<Merges> {
    let known: HashSet<&str> = vocabulary.tokens.iter().map(String::as_str).collect();
    let mut seen = HashSet::with_capacity(all.len());
    let mut merges = Merges::with_capacity(all.len());
    let mut merged = String::new();
    for (rank, merge) in all.iter().enumerate() {
        let (left, right) = match merge.split_once(' ') {
            Some((left, right)) if !left.is_empty() && !right.is_empty() && !right.contains(' ') => (left, right),
            _ => {
                let merge = quoted(merge);
                let problem = format!("Merge {rank} is {merge}; expected two pieces with one space between them.");
                return Err(Error::BadTokenizer(problem));
            }
        };
        merged.clear();
        merged.push_str(left);
        merged.push_str(right);
        if let Some(unknown) = [left, right, &merged].into_iter().find(|piece| !known.contains(piece)) {
            let (merge, unknown) = (quoted(merge), quoted(unknown));
            let problem = format!(
                "Merge {rank} is {merge}, but {unknown} is not in the vocabulary; expected both pieces and what they make."
            );
            return Err(Error::BadTokenizer(problem));
        }
        // The first of two equal merges counts, as in llama.cpp.
        let reachable = [left, right, &merged].into_iter().all(|piece| pieces.contains_key(piece));
        if reachable && seen.insert((left, right)) {
            merges.push((left.to_owned(), right.to_owned()));
        }
    }
    Ok(merges)
}

fn refused(error: tokenizers::Error) -> Error {
    Error::BadTokenizer(format!("The tokenizer refused: {error}."))
}
