//! The filters of the chain: one function each, of the same meaning as its namesake in transformers
//! (`generation/logits_process.py`).
//!
//! A filter looks at the [`Distribution`] from the likeliest kept token down and narrows what is kept; it never keeps less than one
//! token. It gives none when it would have to look past the tokens that are known, or when the sums are too rough to decide.
//!
//! Invariant: no filter knows which others ran before it; the order is [`super::Sampler`]'s.

use super::distribution::Distribution;
use super::to_usize;

/// Keeps the `k` best tokens and all ties of the k-th (Fan et al. 2018). 0 is off.
pub(super) fn top_k(distribution: &mut Distribution, k: u32) -> Option<()> {
    let kept = distribution.kept();
    let k = to_usize(k);
    if k == 0 || k >= kept.len() {
        return Some(());
    }
    let threshold = distribution.score_at(kept.start + k - 1)?;
    let mut len = k;
    while len < kept.len() && distribution.score_at(kept.start + len)? >= threshold {
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
    // The probabilities that top-p sees are renormalised (rounded to f32) after another filter has cut.
    let is_cut = distribution.is_cut();
    let renormalised = |p: f32| if is_cut { f64::from((f64::from(p) / kept.mass) as f32) } else { f64::from(p) };
    let total = if is_cut {
        kept.ranks().map(|rank| distribution.p_at(rank).map(renormalised)).sum::<Option<f64>>()?
    } else {
        kept.mass
    };
    let mut mass_above = renormalised(distribution.p_at(kept.start)?);
    let mut len = 1;
    while len < kept.len() {
        let (left, threshold) = ((total - mass_above) as f32, 1.0 - p);
        if !distribution.decided(left > threshold, f64::from(left) - f64::from(threshold))? {
            break;
        }
        mass_above += renormalised(distribution.p_at(kept.start + len)?);
        len += 1;
    }
    distribution.keep(len)
}

/// Keeps the tokens with at least `min_p` times the probability of the likeliest (Nguyen et al. 2024). 0 is off.
pub(super) fn min_p(distribution: &mut Distribution, min_p: f32) -> Option<()> {
    if min_p == 0.0 {
        return Some(());
    }
    let start = distribution.kept().start;
    let threshold = min_p * distribution.p_at(start)?;
    keep_while(distribution, |p| p, threshold)
}

/// Keeps the tokens whose surprisal is nearest to the entropy, until they have the mass `p`, and all ties of the last one
/// (Meister et al. 2022). 1 is off.
///
/// The kept ranks are a window that grows on whichever side is nearer.
pub(super) fn typical_p(distribution: &mut Distribution, p: f32) -> Option<()> {
    if p == 1.0 {
        return Some(());
    }
    let kept = distribution.kept();
    // What is left by another filter is summed exactly.
    let is_cut = distribution.is_cut();
    let spread = distribution.spread()?;
    let mean = spread.mean_exponent();
    let mut start = kept.start;
    while start < kept.end && distribution.exponent_at(start)? > mean {
        start += 1;
    }
    let mut end = start;
    let (mut mass, mut farthest) = (0.0, 0.0);
    loop {
        let above = if start > kept.start { distribution.exponent_at(start - 1)? - mean } else { f64::INFINITY };
        let below = if end < kept.end { mean - distribution.exponent_at(end)? } else { f64::INFINITY };
        let nearest = above.min(below);
        if nearest == f64::INFINITY {
            break;
        }
        let decided =
            |outcome: bool, distance: f64| if is_cut { Some(outcome) } else { distribution.decided(outcome, distance) };
        // Equals are equal whatever the entropy is.
        let missing = f64::from(p) - mass / spread.weight;
        if nearest != farthest && decided(missing <= 0.0, missing)? && decided(nearest > farthest, nearest - farthest)?
        {
            break;
        }
        let rank = if decided(above <= below, above - below)? { start - 1 } else { end };
        (start, end) = (start.min(rank), end.max(rank + 1));
        mass += distribution.weight_at(rank)?;
        farthest = nearest;
    }
    distribution.keep_ranks(start..end)
}

/// Keeps the tokens with a probability of at least `epsilon` (Hewitt et al. 2022). 0 is off.
pub(super) fn epsilon_cutoff(distribution: &mut Distribution, epsilon: f32) -> Option<()> {
    if epsilon == 0.0 {
        return Some(());
    }
    let mass = distribution.kept().mass;
    keep_while(distribution, |p| (f64::from(p) / mass) as f32, epsilon)
}

/// Keeps the tokens with a probability of at least `epsilon`, or √`epsilon` e^-entropy where that is less (Hewitt et al. 2022).
/// 0 is off.
pub(super) fn eta_cutoff(distribution: &mut Distribution, epsilon: f32) -> Option<()> {
    if epsilon == 0.0 {
        return Some(());
    }
    let of_entropy = f64::from(epsilon).sqrt() * distribution.spread()?.p_of_entropy();
    epsilon_cutoff(distribution, epsilon.min(of_entropy as f32))
}

/// Keeps the tokens, from the likeliest down, whose probability, as `seen`, is at least `threshold`.
fn keep_while(distribution: &mut Distribution, seen: impl Fn(f32) -> f32, threshold: f32) -> Option<()> {
    let kept = distribution.kept();
    let mut len = 1;
    while len < kept.len() {
        let p = seen(distribution.p_at(kept.start + len)?);
        // In units of the threshold, which may be small: an error of the sums scales with the probability.
        if !distribution.decided(p >= threshold, f64::from(p) / f64::from(threshold) - 1.0)? {
            break;
        }
        len += 1;
    }
    distribution.keep(len)
}
