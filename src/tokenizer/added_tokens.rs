//! Tokens that are found in text by their name, before what lies between them is taken apart.
//!
//! Invariant: knows names and ids; never looks inside a word.

use crate::error::{Error, Result};
use crate::tokenizer::vocabulary::{TokenKind, Vocabulary};
use aho_corasick::AhoCorasick;

/// A stretch of text, or a token that stood in it.
pub(super) enum Fragment<'t> {
    Text(&'t str),
    Token(u32),
}

pub(super) struct AddedTokens {
    /// Longest name first.
    tokens: Vec<AddedToken>,
    /// Finds all their names in one pass: some vocabularies have thousands.
    names: AhoCorasick,
}

struct AddedToken {
    name: String,
    id: u32,
    control: bool,
}

impl AddedTokens {
    /// Errors: `bad-tokenizer` for more names than can be looked for.
    pub(super) fn new(vocabulary: &Vocabulary) -> Result<Self> {
        let mut tokens: Vec<_> = (0..)
            .zip(vocabulary.tokens.iter().zip(&vocabulary.kinds))
            .filter(|(_, (name, kind))| matches!(kind, TokenKind::Control | TokenKind::UserDefined) && !name.is_empty())
            .map(|(id, (name, kind))| AddedToken { name: name.clone(), id, control: *kind == TokenKind::Control })
            .collect();
        tokens.sort_by_key(|token| std::cmp::Reverse(token.name.len()));
        let names = AhoCorasick::new(tokens.iter().map(|token| &token.name))
            .map_err(|error| Error::BadTokenizer(format!("The control tokens have too many names: {error}.")))?;
        Ok(Self { tokens, names })
    }

    /// Of the control tokens.
    pub(super) fn control_names(&self) -> impl Iterator<Item = &str> {
        self.tokens.iter().filter(|token| token.control).map(|token| token.name.as_str())
    }

    /// Cuts `text` at every user-defined token and, if `special`, at every control token. Where two overlap the longer one
    /// wins, even when the other starts further left: llama.cpp's `tokenizer_st_partition`.
    pub(super) fn partition<'t>(&self, text: &'t str, special: bool) -> Vec<Fragment<'t>> {
        let mut is_there = vec![false; self.tokens.len()];
        for found in self.names.find_overlapping_iter(text) {
            is_there[found.pattern()] = true;
        }
        let mut fragments: Vec<_> =
            Some(text).filter(|text| !text.is_empty()).map(Fragment::Text).into_iter().collect();
        for (token, _) in
            self.tokens.iter().zip(is_there).filter(|(token, is_there)| *is_there && (special || !token.control))
        {
            fragments = fragments.into_iter().flat_map(|fragment| token.cut(fragment)).collect();
        }
        fragments
    }
}

impl AddedToken {
    fn cut<'t>(&self, fragment: Fragment<'t>) -> Vec<Fragment<'t>> {
        let Fragment::Text(text) = fragment else { return vec![fragment] };
        let mut cut = Vec::new();
        for (index, between) in text.split(&self.name).enumerate() {
            if index > 0 {
                cut.push(Fragment::Token(self.id));
            }
            if !between.is_empty() {
                cut.push(Fragment::Text(between));
            }
        }
        cut
    }
}
