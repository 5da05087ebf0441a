//! Tokens that are found in text by their name, before BPE sees what lies between them.
//!
//! Invariant: knows names and ids; never looks inside a word.

use crate::tokenizer::vocabulary::{TokenKind, Vocabulary};

/// A stretch of text, or a token that stood in it.
pub(super) enum Fragment<'t> {
    Text(&'t str),
    Token(u32),
}

pub(super) struct AddedTokens {
    /// Longest name first.
    tokens: Vec<AddedToken>,
}

struct AddedToken {
    name: String,
    id: u32,
    control: bool,
}

impl AddedTokens {
    pub(super) fn new(vocabulary: &Vocabulary) -> Self {
        let mut tokens: Vec<_> = (0..)
            .zip(vocabulary.tokens.iter().zip(&vocabulary.kinds))
            .filter(|(_, (name, kind))| matches!(kind, TokenKind::Control | TokenKind::UserDefined) && !name.is_empty())
            .map(|(id, (name, kind))| AddedToken { name: name.clone(), id, control: *kind == TokenKind::Control })
            .collect();
        tokens.sort_by_key(|token| std::cmp::Reverse(token.name.len()));
        Self { tokens }
    }

    /// Cuts `text` at every user-defined token and, if `special`, at every control token. Where two overlap the longer one
    /// wins, even when the other starts further left: llama.cpp's `tokenizer_st_partition`.
    pub(super) fn partition<'t>(&self, text: &'t str, special: bool) -> Vec<Fragment<'t>> {
        let mut fragments = vec![Fragment::Text(text)];
        for token in self.tokens.iter().filter(|token| special || !token.control) {
            // Most tokens are in no text: leave the fragments alone.
            if text.contains(&token.name) {
                fragments = fragments.into_iter().flat_map(|fragment| token.cut(fragment)).collect();
            }
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
