//! The start-up self-test: the same short prompt through the GPU and the CPU engine.
//!
//! Invariant: leaves both caches empty.

use super::{Backend, Logits, Sums, Top, Wanted};
use crate::clock::now_ms;
use crate::error::Result;
use crate::protocol::SelfTest;
use std::collections::HashSet;

/// Enough for the kernels of prefill and of decode, few enough that nobody waits.
const N_TOKENS: usize = 9;
/// What passes: the engines differ by 1e-4 to 1e-3, since the CPU rounds most activations to 8 bits; a wrong kernel by 1.
const TOLERANCE: f64 = 1e-2;
/// What the sums of a top may be off, as a share of the weight.
const SUMS_TOLERANCE: f64 = 1e-3;
/// Below this margin between the two best tokens, either may win.
const CLEAR_MARGIN: f32 = 0.5;

/// Compares `candidate` with `reference`: all but the last token in one pass, then the last by itself, as in a run.
pub async fn self_test(
    candidate: &mut impl Backend,
    reference: &mut impl Backend,
    vocab_size: usize,
    context_length: usize,
    mut progress: impl FnMut(u64, u64),
) -> Result<SelfTest> {
    let start = now_ms();
    let n_tokens = N_TOKENS.min(context_length);
    // Spread over the vocabulary, the same in every run.
    let ids: Vec<u32> = (0..n_tokens).map(|i| ((i + 1) * 7919 % vocab_size) as u32).collect();
    let (prompt, last) = ids.split_at(n_tokens - 1);
    let mut test = SelfTest { error: 0.0, tolerance: TOLERANCE, same_top: true, passed: false, n_tokens: 0, ms: 0.0 };
    let (mut found, mut expected) = (Logits::default(), Logits::default());
    for ids in [prompt, last] {
        if ids.is_empty() {
            continue;
        }
        reference.forward(ids, Some((Wanted::All, &mut expected))).await?;
        candidate.forward(ids, Some((Wanted::Top { temperature: 1.0 }, &mut found))).await?;
        let best = best(&expected.all);
        // The whole vector must be right, and the top must be that vector's.
        let has_top = found.all.is_empty();
        candidate.read_all(&mut found).await?;
        let error = normalised_error(&found.all, &expected.all);
        // Not `max`: that passes over what is not a number.
        test.error = if test.error.is_nan() || test.error > error { test.error } else { error };
        test.same_top &= !has_top || is_top_of(&found.top, &found.all);
        if margin(&expected.all, best) > CLEAR_MARGIN {
            test.same_top &= self::best(&found.all) == best;
        }
        test.n_tokens += ids.len() as u32;
        progress(test.n_tokens.into(), n_tokens as u64);
    }
    candidate.truncate_kv(0);
    reference.truncate_kv(0);
    // Not `error > tolerance` the other way round: an error that is not a number fails.
    test.passed = test.same_top && test.error <= TOLERANCE;
    test.ms = now_ms() - start;
    Ok(test)
}

/// Whether `top`, at temperature 1, is what these logits give.
fn is_top_of(top: &Top, all: &[f32]) -> bool {
    let lowest = top.best.iter().map(|best| best.1).fold(f32::INFINITY, f32::min);
    let ids: HashSet<u32> = top.best.iter().map(|best| best.0).collect();
    let is_listed = |(id, logit): (usize, &f32)| (*logit >= lowest) == ids.contains(&(id as u32));
    let max = all.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let xs = || all.iter().map(|&logit| f64::from(logit) - f64::from(max));
    let weight: f64 = xs().map(f64::exp).sum();
    let weighted_x: f64 = xs().map(|x| x * x.exp()).sum();
    let is_near = |found: f64, expected: f64| (found - expected).abs() <= SUMS_TOLERANCE * weight;
    let Sums { max: top_max, weight: top_weight, weighted_x: top_weighted_x, weight_at_temperature, .. } = top.sums;
    ids.len() == top.best.len()
        && all.iter().enumerate().all(is_listed)
        && top.best.iter().all(|&(id, logit)| all.get(id as usize) == Some(&logit))
        && top_max == max
        && is_near(top_weight, weight)
        && is_near(weight_at_temperature, weight)
        && is_near(top_weighted_x, weighted_x)
}

/// Σ (found - expected)² / Σ expected².
fn normalised_error(found: &[f32], expected: &[f32]) -> f64 {
    let square = |x: f64| x * x;
    let error: f64 = found.iter().zip(expected).map(|(a, b)| square(f64::from(*a) - f64::from(*b))).sum();
    error / expected.iter().map(|x| square(f64::from(*x))).sum::<f64>()
}

fn best(logits: &[f32]) -> usize {
    (0..logits.len()).max_by(|&a, &b| logits[a].total_cmp(&logits[b])).unwrap_or(0)
}

/// How far the token `best` is ahead of all others.
fn margin(logits: &[f32], best: usize) -> f32 {
    let others = logits.iter().enumerate().filter(|(id, _)| *id != best);
    logits[best] - others.map(|(_, logit)| *logit).fold(f32::NEG_INFINITY, f32::max)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Error;
    use pollster::block_on;

    /// Logits that depend on the position; `factor` on some of them. With `spoil`, a pass gives their top alone, spoilt.
    struct Fake {
        kv_len: usize,
        factor: f32,
        spoil: Option<fn(&mut Top)>,
    }

    impl Backend for Fake {
        async fn forward(&mut self, ids: &[u32], logits: Option<(Wanted, &mut Logits)>) -> Result<()> {
            self.kv_len += ids.len();
            let Some((_, logits)) = logits else {
                return Err(Error::Backend("The self-test looks at every pass.".into()));
            };
            self.read_all(logits).await?;
            if let Some(spoil) = self.spoil {
                let all = std::mem::take(&mut logits.all);
                let weight = all.iter().map(|logit| f64::from(logit - 16.0).exp()).sum();
                let weighted_x = all.iter().map(|logit| f64::from(logit - 16.0)).map(|x| x * x.exp()).sum();
                let listed = (0..).zip(&all).filter(|(_, logit)| **logit > 9.0);
                logits.top.best = listed.map(|(id, logit)| (id, *logit)).collect();
                logits.top.sums = Sums { max: 16.0, weight, weighted_x, weight_at_temperature: weight, error: 0.0 };
                spoil(&mut logits.top);
            }
            Ok(())
        }

        async fn read_all(&mut self, logits: &mut Logits) -> Result<()> {
            let factor = |id: usize| if id == 3 { self.factor } else { 1.0 };
            logits.all = (0..20).map(|id| (id * self.kv_len % 17) as f32 * factor(id)).collect();
            Ok(())
        }

        fn kv_len(&self) -> usize {
            self.kv_len
        }

        fn truncate_kv(&mut self, len: usize) {
            self.kv_len = len;
        }

        async fn reserve_kv(&mut self, _: usize) -> Result<()> {
            Ok(())
        }
    }

    fn test(factor: f32, spoil: Option<fn(&mut Top)>, context_length: usize) -> SelfTest {
        let mut candidate = Fake { kv_len: 0, factor, spoil };
        let mut reference = Fake { kv_len: 0, factor: 1.0, spoil: None };
        let test = block_on(self_test(&mut candidate, &mut reference, 20, context_length, |_, _| {})).unwrap();
        assert_eq!((candidate.kv_len, reference.kv_len), (0, 0));
        test
    }

    #[test]
    fn equal_engines_pass_and_unequal_ones_do_not() {
        assert!(test(1.0, None, 64).passed);
        assert_eq!((test(1.0, None, 64).n_tokens, test(1.0, None, 1).n_tokens), (9, 1));
        assert!(test(1.0, None, 1).passed);
        assert!(!test(1.9, None, 64).passed);
        let not_a_number = test(f32::NAN, None, 64);
        assert!(!not_a_number.passed && not_a_number.error.is_nan());
    }

    #[test]
    fn the_top_must_be_that_of_the_logits() {
        assert!(test(1.0, Some(|_| ()), 64).passed);
        let spoilt: [fn(&mut Top); 7] = [
            |top| top.best[0].0 = 0,
            |top| top.best[1].1 += 1.0,
            |top| top.best.retain(|best| best.1 != 12.0),
            |top| top.best.push(top.best[0]),
            |top| top.sums.max = 15.0,
            |top| top.sums.weight *= 1.01,
            |top| top.sums.weight_at_temperature = f64::NAN,
        ];
        for (i, spoil) in spoilt.into_iter().enumerate() {
            let test = test(1.0, Some(spoil), 64);
            assert!(!test.passed && test.error <= test.tolerance, "{i}");
        }
    }
}
