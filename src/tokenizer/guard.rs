//! What keeps the text of messages from becoming control tokens.
//!
//! Every name of a control token holds a **key character**. In the messages, each of these gives way to a stand-in that no
//! message and no name has, until the rendered prompt has been cut at its control tokens: then only key characters of the
//! template itself can be part of one. The messages keep all other characters, so that a template that trims, cuts or looks for
//! `</think>` does so as ever, and whatever it makes of them holds no key character still.
//!
//! Invariant: pure; knows names and texts, no ids.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashSet};

/// Private-use characters: no text has a use for them.
const STAND_INS: std::ops::RangeInclusive<char> = '\u{f0000}'..='\u{ffffd}';

/// Characters of which every name has at least one, few, and such as templates seldom look for.
pub(super) fn key_characters<'n>(names: impl Iterator<Item = &'n str>) -> Vec<char> {
    let mut open: Vec<&str> = names.filter(|name| !name.is_empty()).collect();
    let mut keys = Vec::new();
    while let Some(first) = open.first() {
        let most = candidates(&open).into_iter().max_by_key(|&(c, count)| (count, preference(c), c));
        let key = most.map_or_else(|| first.chars().next().expect("the name is not empty"), |(c, _)| c);
        open.retain(|name| !name.contains(key));
        keys.push(key);
    }
    keys
}

/// How many of the names have each character.
fn candidates(names: &[&str]) -> BTreeMap<char, usize> {
    let mut counts = BTreeMap::new();
    for name in names {
        let mut chars: Vec<char> = name.chars().collect();
        chars.sort_unstable();
        chars.dedup();
        for c in chars {
            *counts.entry(c).or_default() += 1;
        }
    }
    counts
}

/// Templates trim white space, and look for words and for tags such as `</think>`.
fn preference(c: char) -> u8 {
    match c {
        c if c.is_whitespace() => 0,
        c if c.is_alphanumeric() => 1,
        '<' | '>' | '/' => 2,
        _ => 3,
    }
}

/// Key characters and their stand-ins for one conversation.
pub(super) struct Guard {
    pairs: Vec<(char, char)>,
}

impl Guard {
    /// For texts that hold these messages. None if they leave no character for a stand-in.
    pub(super) fn new<'t>(keys: &[char], texts: impl Iterator<Item = &'t str>) -> Option<Self> {
        let taken: HashSet<char> = texts.flat_map(str::chars).filter(|c| STAND_INS.contains(c)).collect();
        let free = STAND_INS.filter(|c| !taken.contains(c));
        let pairs: Vec<(char, char)> = keys.iter().copied().zip(free).collect();
        (pairs.len() == keys.len()).then_some(Self { pairs })
    }

    /// The text without key characters.
    pub(super) fn hide(&self, text: &str) -> String {
        replaced(text, |c| self.pairs.iter().find(|(key, _)| *key == c).map(|(_, stand_in)| *stand_in)).into_owned()
    }

    /// The text as it was.
    pub(super) fn reveal<'t>(&self, text: &'t str) -> Cow<'t, str> {
        replaced(text, |c| self.pairs.iter().find(|(_, stand_in)| *stand_in == c).map(|(key, _)| *key))
    }
}

fn replaced(text: &str, other: impl Fn(char) -> Option<char>) -> Cow<'_, str> {
    if text.chars().any(|c| other(c).is_some()) {
        text.chars().map(|c| other(c).unwrap_or(c)).collect::<String>().into()
    } else {
        text.into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_has_a_key_character() {
        let keys = |names: &[&str]| key_characters(names.iter().copied());
        assert_eq!(keys(&["<|im_start|>", "<|im_end|>", "<|endoftext|>"]), ['|'], "not one that `</think>` has");
        assert_eq!(keys(&["<s>", "</s>", "[INST]", "[/INST]", "<unk>"]), ['>', ']']);
        assert_eq!(keys(&["the", "", "a b"]), ['t', 'b']);
        assert_eq!(keys(&[]), []);
    }

    #[test]
    fn what_is_hidden_comes_back() {
        let text = "a|b \u{f0000} <|x|>";
        let guard = Guard::new(&['|', '>'], [text].into_iter()).unwrap();
        let hidden = guard.hide(text);
        assert!(!hidden.contains(['|', '>']) && hidden.contains('\u{f0000}') && hidden.contains("a\u{f0001}b"));
        assert_eq!(guard.reveal(&hidden), text);
        let all: String = STAND_INS.collect();
        assert!(Guard::new(&['|'], [all.as_str()].into_iter()).is_none());
    }
}
