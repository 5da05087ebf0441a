//! The perplexity of a text, from an engine's logits and from the plain pass's.

use crate::nmse::nmse;
use crate::reference::Rows;
use nucleus::backend::{Backend, Logits, Wanted};

/// What the texts of tests are measured on.
pub const PROSE: &str = include_str!("../fixtures/prose.txt");

/// How far an engine's perplexity may be from the plain pass's, in percent.
pub const TOLERANCE: f64 = 0.5;

/// The engine's logits after each of `ids`, as it writes: one token after the other.
pub async fn step_through(backend: &mut impl Backend, ids: &[u32]) -> nucleus::Result<Rows> {
    let mut logits = Logits::default();
    let mut rows = Vec::new();
    backend.reserve_kv(ids.len()).await?;
    for &id in ids {
        backend.forward(&[id], Some((Wanted::All, &mut logits))).await?;
        rows.push(logits.all.iter().map(|&logit| f64::from(logit)).collect());
    }
    Ok(rows)
}

/// exp of the mean negative log-likelihood of each id but the first, after those before it.
pub fn perplexity(logits: &Rows, ids: &[u32]) -> f64 {
    let surprise = |(logits, &next): (&Vec<f64>, &u32)| {
        let max = logits.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        max + logits.iter().map(|logit| (logit - max).exp()).sum::<f64>().ln() - logits[next as usize]
    };
    let sum: f64 = logits.iter().zip(&ids[1..]).map(surprise).sum();
    (sum / (ids.len() - 1) as f64).exp()
}

/// How far an engine is from the plain pass.
pub struct Deviation {
    pub perplexity: f64,
    /// Of the perplexity.
    pub percent: f64,
    /// Normalised mean square error of the logits, at the position where it is largest.
    pub worst_nmse: f64,
}

impl Deviation {
    pub fn new(ours: &Rows, exact: &Rows, ids: &[u32]) -> Self {
        let (perplexity, exact_perplexity) = (perplexity(ours, ids), perplexity(exact, ids));
        Self {
            perplexity,
            percent: (perplexity / exact_perplexity - 1.0) * 100.0,
            worst_nmse: ours.iter().zip(exact).map(|(ours, exact)| nmse(ours, exact)).fold(0.0, f64::max),
        }
    }

    /// Not so for a perplexity that is not a number either.
    pub fn is_near(&self) -> bool {
        self.percent.abs() <= TOLERANCE
    }
}
