//! SentencePiece by scores (`tokenizer.ggml.model` = `llama`): plain text -> ids, no control tokens.
//!
//! Neighbours merge as long as any two of them are a piece together, those with the best score first, the leftmost of equals.
//! A character that is no piece becomes its bytes. This is llama.cpp's `llm_tokenizer_spm`, but for one thing: control tokens are
//! no pieces here, so that no text can spell one.
//!
//! Invariant: ids only; what the pieces' bytes are, `pieces` knows.

use crate::error::{Error, Result, quoted};
use crate::tokenizer::pieces::SPM_SPACE;
use crate::tokenizer::vocabulary::{TokenKind, Vocabulary};
use std::cmp::Ordering;
use std::collections::{BinaryHeap, HashMap};

pub(super) struct Spm {
    ids: HashMap<Box<str>, u32>,
    /// By id.
    scores: Vec<f32>,
    /// The id for each byte.
    bytes: Vec<u32>,
    /// Bytes of the longest piece.
    longest: usize,
    add_space_prefix: bool,
}

/// A stretch of the text, in a list linked both ways: merging takes the right one out.
struct Symbol {
    start: usize,
    /// 0 once it has merged into the one before.
    len: usize,
    previous: usize,
    next: usize,
}

/// No neighbour.
const NONE: usize = usize::MAX;

/// Two neighbours that are a piece together.
struct Pair {
    score: f32,
    left: usize,
    right: usize,
    /// Bytes of both when they were found; if they have changed since, the pair is no more.
    len: usize,
}

impl Spm {
    /// Errors: `bad-tokenizer` for a byte that has neither a byte token nor a piece, when there is no unknown token for it.
    pub(super) fn new(vocabulary: &Vocabulary, scores: &[f32], add_space_prefix: bool) -> Result<Self> {
        let pieces = || (0..).zip(vocabulary.tokens.iter().zip(&vocabulary.kinds));
        let mut by_byte: [Option<u32>; 256] = [None; 256];
        for (id, (_, kind)) in pieces() {
            if let TokenKind::Byte(byte) = kind {
                by_byte[usize::from(*byte)].get_or_insert(id);
            }
        }
        let text = pieces().filter(|(_, (_, kind))| **kind != TokenKind::Control);
        let ids: HashMap<Box<str>, u32> = text.map(|(id, (token, _))| (token.as_str().into(), id)).collect();
        let one = |(byte, id): (usize, &Option<u32>)| {
            let alone = || ids.get(char::from(byte as u8).encode_utf8(&mut [0; 4]) as &str).filter(|_| byte < 128);
            id.as_ref().or_else(alone).or(vocabulary.unknown.as_ref()).copied().ok_or_else(|| {
                let name = quoted(format!("<0x{byte:02X}>"));
                Error::BadTokenizer(format!("The vocabulary has no byte token {name}, and no unknown token either."))
            })
        };
        let bytes = by_byte.iter().enumerate().map(one).collect::<Result<_>>()?;
        let longest = ids.keys().map(|piece| piece.len()).max().unwrap_or(0);
        Ok(Self { ids, scores: scores.to_vec(), bytes, longest, add_space_prefix })
    }

    /// Whether text begins with a space of its own.
    pub(super) fn adds_space_prefix(&self) -> bool {
        self.add_space_prefix
    }

    /// Appends the ids of `text`. `is_start`: nothing, or a token that is no text, is before it.
    pub(super) fn encode(&self, text: &str, is_start: bool, ids: &mut Vec<u32>) {
        let mut written = String::with_capacity(text.len() + text.len() / 4 + 3);
        if is_start && self.add_space_prefix {
            written.push(SPM_SPACE);
        }
        written.extend(text.chars().map(|c| if c == ' ' { SPM_SPACE } else { c }));
        let symbols = self.merged(&written);
        let mut at = 0;
        while let Some(symbol) = symbols.get(at) {
            let piece = &written[symbol.start..symbol.start + symbol.len];
            match self.ids.get(piece) {
                Some(id) => ids.push(*id),
                None => ids.extend(piece.bytes().map(|byte| self.bytes[usize::from(byte)])),
            }
            at = symbol.next;
        }
    }

    /// The characters of `text`, merged as far as they go.
    fn merged(&self, text: &str) -> Vec<Symbol> {
        let mut symbols: Vec<Symbol> = text
            .char_indices()
            .enumerate()
            .map(|(i, (start, c))| Symbol { start, len: c.len_utf8(), previous: i.wrapping_sub(1), next: i + 1 })
            .collect();
        if let Some(last) = symbols.last_mut() {
            last.next = NONE;
        }
        let mut queue = BinaryHeap::new();
        for left in 0..symbols.len() {
            queue.extend(self.pair(text, &symbols, left, left + 1));
        }
        while let Some(Pair { left, right, len, .. }) = queue.pop() {
            let right_len = symbols[right].len;
            if symbols[left].len == 0 || right_len == 0 || symbols[left].len + right_len != len {
                continue;
            }
            let next = symbols[right].next;
            symbols[right].len = 0;
            symbols[left].len = len;
            symbols[left].next = next;
            if let Some(after) = symbols.get_mut(next) {
                after.previous = left;
            }
            queue.extend(self.pair(text, &symbols, symbols[left].previous, left));
            queue.extend(self.pair(text, &symbols, left, next));
        }
        symbols
    }

    /// The two as a pair, if they are there and a piece together.
    fn pair(&self, text: &str, symbols: &[Symbol], left: usize, right: usize) -> Option<Pair> {
        let (first, second) = (symbols.get(left)?, symbols.get(right)?);
        let len = first.len + second.len;
        if len > self.longest {
            return None;
        }
        let id = self.ids.get(&text[first.start..first.start + len])?;
        Some(Pair { score: self.scores[*id as usize], left, right, len })
    }
}

impl Ord for Pair {
    fn cmp(&self, other: &Self) -> Ordering {
        self.score.total_cmp(&other.score).then(other.left.cmp(&self.left))
    }
}

impl PartialOrd for Pair {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Pair {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Pair {}
