//! The processors of the chain: one function each, of the same meaning as its namesake in transformers
//! (`generation/logits_process.py`).
//!
//! A processor of logits changes scores in place. A filter looks at the [`Distribution`] from the likeliest token down and
//! narrows what is kept; it never keeps less than one token. It gives none when it would have to look past the tokens that are
//! known, or when the sums are too rough to decide.
//!
//! Invariant: no processor knows which others ran before it; the order is [`super::Sampler`]'s.

use super::distribution::Distribution;
use super::to_usize;

/// Divides positive logits of tokens in `seen` by `penalty` and multiplies others with it (Keskar et al. 2019, CTRL).
pub(super) fn repetition_penalty(scores: &mut [f32], logits: &[f32], seen: &[u32], penalty: f32) {
    if penalty == 1.0 {
        return;
    }
    for &id in seen {
        let logit = logits[to_usize(id)];
        let score = if logit < 0.0 { logit * penalty } else { logit / penalty };
        // Always from the model's own logit, so a token that was seen twice is penalised once. An extreme penalty must
        // not make an infinity.
        scores[to_usize(id)] = score.clamp(f32::MIN, f32::MAX);
    }
}

/// Keeps the `k` best tokens and all ties of the k-th (Fan et al. 2018). 0 is off.
pub(super) fn top_k(distribution: &mut Distribution, k: u32) -> Option<()> {
    let n_kept = distribution.kept().len;
    let k = to_usize(k);
    if k == 0 || k >= n_kept {
        return Some(());
    }
    let threshold = distribution.score_at(k - 1)?;
    let mut len = k;
    while len < n_kept && distribution.score_at(len)? >= threshold {
        len += 1;
    }
    distribution.keep(len)
}

/// Keeps a token iff the mass strictly above it is below `p` (Holtzman et al. 2019). 1 is off.
///
/// Asked the other way round, as transformers does: is the mass of the token and everything below it more than 1 - `p`?
/// In exact arithmetic it is the same question; in float32 the two differ when a sum lands on the threshold to the last bit.
pub(super) fn top_p(distribution: &mut Distribution, p: f32) -> Option<()> {
    if p == 1.0 {
        return Some(());
    }
    let kept = distribution.kept();
    // The probabilities that top-p sees are renormalised (rounded to f32) after top-k has cut.
    let is_cut = kept.len < distribution.vocab_size();
    let renormalised = |p: f32| if is_cut { f64::from((f64::from(p) / kept.mass) as f32) } else { f64::from(p) };
    let total = if is_cut {
        (0..kept.len).map(|rank| distribution.p_at(rank).map(renormalised)).sum::<Option<f64>>()?
    } else {
        kept.mass
    };
    let mut mass_above = renormalised(distribution.p_at(0)?);
    let mut len = 1;
    while len < kept.len {
        let (left, threshold) = ((total - mass_above) as f32, 1.0 - p);
        if !distribution.decided(left > threshold, f64::from(left) - f64::from(threshold))? {
            break;
        }
        mass_above += renormalised(distribution.p_at(len)?);
        len += 1;
    }
    distribution.keep(len)
}

/// Keeps the tokens with at least `min_p` times the probability of the likeliest (Nguyen et al. 2024). 0 is off.
pub(super) fn min_p(distribution: &mut Distribution, min_p: f32) -> Option<()> {
    if min_p == 0.0 {
        return Some(());
    }
    let n_kept = distribution.kept().len;
    let threshold = min_p * distribution.p_at(0)?;
    let mut len = 1;
    while len < n_kept {
        let p = distribution.p_at(len)?;
        // In units of the threshold, which may be small: an error of the sums scales both.
        if !distribution.decided(p >= threshold, f64::from(p) / f64::from(threshold) - 1.0)? {
            break;
        }
        len += 1;
    }
    distribution.keep(len)
}
