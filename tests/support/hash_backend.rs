//! A backend and a vocabulary for tests of the session: deterministic, with no model behind them.

#[path = "top.rs"]
mod top;

use nucleus::backend::{Backend, Logits, Wanted};
use nucleus::error::{Error, Result};
use nucleus::generate::Limits;
use nucleus::tokenizer::TokenBytes;

const VOCAB_SIZE: usize = 50;
pub const EOS: u32 = 49;
pub const LIMITS: Limits = Limits { context_length: 64, vocab_size: VOCAB_SIZE, prefill_batch: 4 };

/// A cache of ids. Logits are a hash of all of them: a wrong position, a lost token or a stale cache changes every
/// token that follows.
#[derive(Default)]
pub struct HashBackend {
    pub cache: Vec<u32>,
    pub reserved: usize,
    /// How many ids each forward pass was given.
    pub batches: Vec<usize>,
    /// Which forward pass fails, if any.
    pub fails_at: Option<usize>,
    /// Which forward pass gives a NaN, if any.
    pub nan_at: Option<usize>,
    /// How many of the likeliest tokens it gives where that is enough; none gives all always.
    pub n_best: Option<usize>,
    /// How often all were asked for afterwards.
    pub n_read_all: usize,
    /// Of the last position.
    pub logits: Vec<f32>,
}

impl Backend for HashBackend {
    async fn forward(&mut self, ids: &[u32], logits: Option<(Wanted, &mut Logits)>) -> Result<()> {
        assert!(!ids.is_empty() && ids.len() <= LIMITS.prefill_batch, "a batch of {}", ids.len());
        let n_passes = self.batches.len();
        self.batches.push(ids.len());
        if self.fails_at == Some(n_passes) {
            return Err(Error::Backend("The device was lost; expected it to stay.".into()));
        }
        self.cache.extend_from_slice(ids);
        assert!(self.cache.len() <= self.reserved, "position {} was not reserved", self.cache.len());
        if let Some((wanted, out)) = logits {
            let hash = |h: u64, x: u64| (h ^ x).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29);
            let state = self.cache.iter().fold(1, |h, &id| hash(h, u64::from(id) + 1));
            let logit = |id| (hash(hash(state, id), 7) >> 40) as f32 / (1 << 22) as f32;
            self.logits = (0..VOCAB_SIZE as u64).map(logit).collect();
            // Ends come only where a test asks for them.
            self.logits[EOS as usize] = -30.0;
            if self.nan_at == Some(n_passes) {
                self.logits[3] = f32::NAN;
            }
            let wanted = if self.n_best.is_some() { wanted } else { Wanted::All };
            *out = top::give(&self.logits, self.n_best.unwrap_or(0), wanted);
        }
        Ok(())
    }

    async fn read_all(&mut self, logits: &mut Logits) -> Result<()> {
        self.n_read_all += 1;
        logits.all.clone_from(&self.logits);
        Ok(())
    }

    fn kv_len(&self) -> usize {
        self.cache.len()
    }

    fn truncate_kv(&mut self, len: usize) {
        self.cache.truncate(len);
    }

    async fn reserve_kv(&mut self, n_positions: usize) -> Result<()> {
        self.reserved = n_positions;
        Ok(())
    }
}

/// Come after the letters.
const MORE_TOKENS: [&[u8]; 9] =
    [b" ", b"\xf0\x9f", b"\x99", b"\x82", "é".as_bytes(), "日本".as_bytes(), b"aab", b"\xff", b"b c"];

/// Tokens 0 to 25 are the letters, then come some pieces of text and some fillers; [`EOS`] is a control token.
pub struct Alphabet(Vec<Vec<u8>>);

impl Alphabet {
    pub fn new() -> Self {
        let mut pieces: Vec<Vec<u8>> = (b'a'..=b'z').map(|letter| vec![letter]).collect();
        pieces.extend(MORE_TOKENS.iter().map(|piece| piece.to_vec()));
        while pieces.len() < EOS as usize {
            pieces.push(format!("<{}>", pieces.len()).into_bytes());
        }
        pieces.push(b"<|end|>".to_vec());
        Self(pieces)
    }

    /// The ids of these pieces, each a token.
    pub fn ids(&self, pieces: &[&[u8]]) -> Vec<u32> {
        let id = |piece: &&[u8]| self.0.iter().position(|p| p == piece).unwrap_or_else(|| panic!("no token {piece:?}"));
        pieces.iter().map(|piece| id(piece) as u32).collect()
    }

    pub fn decode(&self, ids: &[u32]) -> String {
        let bytes: Vec<u8> = ids.iter().flat_map(|&id| self.text_bytes(id)).copied().collect();
        String::from_utf8_lossy(&bytes).into_owned()
    }
}

impl TokenBytes for Alphabet {
    fn token_bytes(&self, id: u32) -> &[u8] {
        self.0.get(id as usize).map_or(&[], Vec::as_slice)
    }

    fn text_bytes(&self, id: u32) -> &[u8] {
        if id == EOS { &[] } else { self.token_bytes(id) }
    }
}
