//! The whole chain, both orders, against its definitions in f64 over sets of tokens; and the top of the logits against all.

use super::{OFF, all, give_top, random_logits, real_logits, sample, take};
use nucleus::backend::Wanted;
use nucleus::protocol::{SamplerOrder, SamplingOptions};
use nucleus::sampling::Sampler;
use std::f64::consts::LN_2;

/// Every combination of filters that come after top-k or before top-p, in both orders.
fn chains() -> Vec<SamplingOptions> {
    let mut chains = Vec::new();
    for order in [SamplerOrder::HuggingFace, SamplerOrder::LlamaCpp] {
        for (temperature, top_k) in [(0.6, 0), (1.0, 50), (1.7, 0), (0.3, 7)] {
            for (top_p, min_p) in [(1.0, 0.0), (0.83, 0.0), (1.0, 0.013), (0.91, 0.021)] {
                for typical_p in [1.0, 0.23, 0.88] {
                    for (epsilon_cutoff, eta_cutoff) in [(0.0, 0.0), (0.0031, 0.0), (0.0, 0.0017)] {
                        let seed = chains.len() as u64;
                        chains.push(SamplingOptions {
                            order,
                            temperature,
                            top_k,
                            top_p,
                            min_p,
                            typical_p,
                            epsilon_cutoff,
                            eta_cutoff,
                            seed,
                            ..OFF
                        });
                    }
                }
            }
        }
    }
    chains
}

/// Kept tokens with their scores, the highest first.
struct Kept(Vec<(u32, f64)>);

impl Kept {
    /// Probabilities at a temperature, and their entropy in nats.
    fn probs(&self, temperature: f64) -> (Vec<f64>, f64) {
        let weights: Vec<f64> = self.0.iter().map(|(_, score)| ((score - self.0[0].1) / temperature).exp()).collect();
        let sum: f64 = weights.iter().sum();
        let probs: Vec<f64> = weights.iter().map(|weight| weight / sum).collect();
        let entropy = -probs.iter().filter(|&&p| p > 0.0).map(|p| p * p.ln()).sum::<f64>();
        (probs, entropy)
    }

    fn retain(&mut self, keep: impl Fn(usize) -> bool) {
        let mut rank = 0..;
        self.0.retain(|_| rank.next().is_some_and(&keep));
    }

    fn top_p(&mut self, p: f64, temperature: f64) {
        let probs = self.probs(temperature).0;
        self.retain(|rank| rank == 0 || p >= 1.0 || probs[..rank].iter().sum::<f64>() < p);
    }

    fn at_least(&mut self, p: f64, temperature: f64) {
        let probs = self.probs(temperature).0;
        self.retain(|rank| rank == 0 || probs[rank] >= p);
    }

    fn typical(&mut self, mass: f64, temperature: f64) {
        if mass >= 1.0 {
            return;
        }
        let (probs, entropy) = self.probs(temperature);
        let distance = |rank: usize| (-probs[rank].ln() - entropy).abs();
        let mut by_distance: Vec<usize> = (0..probs.len()).collect();
        by_distance.sort_by(|&a, &b| distance(a).total_cmp(&distance(b)));
        let mut sum = 0.0;
        let n_below = by_distance.iter().take_while(|&&rank| (sum += probs[rank], sum < mass).1).count();
        let farthest = distance(by_distance[n_below.min(probs.len() - 1)]);
        self.retain(|rank| distance(rank) <= farthest + 1e-12);
    }
}

/// Ids that are kept, and their final probabilities.
fn reference(options: &SamplingOptions, logits: &[f32]) -> Vec<(u32, f64)> {
    let mut kept = Kept((0..).zip(logits.iter().map(|&logit| f64::from(logit))).collect());
    kept.0.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
    let SamplingOptions { order, top_k, top_p, min_p, typical_p, epsilon_cutoff, eta_cutoff, .. } = *options;
    let temperature = f64::from(options.temperature);
    let t = if order == SamplerOrder::LlamaCpp { 1.0 } else { temperature };
    if top_k > 0 {
        let threshold = kept.0[top_k as usize - 1].1;
        kept.0.retain(|(_, score)| *score >= threshold);
    }
    if order == SamplerOrder::LlamaCpp {
        kept.typical(f64::from(typical_p), t);
    }
    kept.top_p(f64::from(top_p), t);
    let likeliest = kept.probs(t).0[0];
    kept.at_least(f64::from(min_p) * likeliest, t);
    if order == SamplerOrder::HuggingFace {
        kept.typical(f64::from(typical_p), t);
    }
    kept.at_least(f64::from(epsilon_cutoff), t);
    let eta = f64::from(eta_cutoff);
    kept.at_least(eta.min(eta.sqrt() * (-kept.probs(t).1).exp()), t);
    let probs = kept.probs(temperature).0;
    kept.0.iter().map(|(id, _)| *id).zip(probs).collect()
}

#[test]
fn the_chain_keeps_what_its_definitions_keep() {
    for (kind, logits) in [
        ("peaked", random_logits(1501, 1 << 24, 1.0, 41).iter().map(|x| -2.0 * (0.5 - x + 1e-3).ln()).collect()),
        ("wide", random_logits(1501, 1 << 24, 30.0, 42)),
        ("tied", random_logits(700, 23, 9.0, 43)),
    ] {
        let logits: Vec<f32> = logits;
        for options in chains() {
            let expected = reference(&options, &logits);
            let sampled = sample(&options, &logits, &[]);
            let kept: Vec<_> = sampled.candidates.iter().filter(|candidate| candidate.kept).collect();
            let ids: Vec<u32> = kept.iter().map(|candidate| candidate.id).collect();
            assert_eq!(ids, expected.iter().map(|(id, _)| *id).collect::<Vec<_>>(), "{kind} {options:?}");
            assert_eq!(sampled.nucleus_size as usize, ids.len());
            for (found, (_, p)) in kept.iter().zip(&expected) {
                assert!((f64::from(found.p_final) - p).abs() <= 1e-5 * p + 1e-30, "{kind} {options:?} {found:?} {p}");
            }
            assert!(ids.contains(&sampled.id), "{kind} {options:?}: a cut token was drawn");
            let mass: f64 = kept.iter().map(|candidate| f64::from(candidate.p_temperature)).sum();
            assert!((f64::from(sampled.nucleus_mass) - mass).abs() < 1e-5, "{kind} {options:?}");
        }
    }
}

#[test]
fn the_top_decides_the_whole_chain_as_all_logits_would_or_not_at_all() {
    let (mut n_decided, mut n_left) = (0, 0);
    for logits in [random_logits(1200, 1 << 24, 30.0, 44), random_logits(1200, 37, 30.0, 45), vec![1.5; 1200]] {
        for options in chains() {
            let expected = take(&mut Sampler::new(&options, 1200).unwrap(), &logits, &[], 5, None);
            for n_best in [5, 60, 1200] {
                let mut sampler = Sampler::new(&options, 1200).unwrap();
                let top = give_top::give(&logits, n_best, Wanted::Top { temperature: options.temperature });
                let Some(found) = sampler.sample(&top, &[], 5, None).unwrap() else {
                    n_left += 1;
                    continue;
                };
                n_decided += 1;
                super::top::assert_same(&found, &expected, || format!("{n_best} best, {options:?}"));
                assert!(n_best > 5 || sampler.wanted(&[]) != Wanted::All, "{options:?}");
            }
        }
    }
    println!("{n_decided} decided, {n_left} left to all logits");
    assert!(n_decided > 500 && n_left > 500, "{n_decided} decided, {n_left} left to all logits");
}

#[test]
fn what_looks_at_single_tokens_or_at_the_entropy_wants_all_logits() {
    let wants_all = |options: SamplingOptions, seen: &[u32]| {
        let mut sampler = Sampler::new(&options, 10).unwrap();
        let wants_all = sampler.wanted(seen) == Wanted::All;
        // And a top that comes nevertheless is not enough.
        let top =
            give_top::give(&[3.0, 1.0, 0.5, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0], 10, Wanted::Top { temperature: 1.0 });
        assert_eq!(sampler.sample(&top, seen, 0, None).unwrap().is_none(), wants_all, "{options:?}");
        wants_all
    };
    assert!(wants_all(SamplingOptions { suppress: vec![3], ..OFF }, &[]));
    assert!(wants_all(SamplingOptions { logit_bias: vec![(3, 1.0)], ..OFF }, &[]));
    let pairs = SamplingOptions { no_repeat_ngram_size: 2, ..OFF };
    assert!(wants_all(pairs.clone(), &[1, 2, 1]));
    assert!(!wants_all(pairs, &[1, 2, 3]), "nothing would repeat");
    let typical = SamplingOptions { typical_p: 0.5, ..OFF };
    assert!(wants_all(typical.clone(), &[]));
    assert!(!wants_all(SamplingOptions { top_k: 3, ..typical.clone() }, &[]), "what top-k leaves is known");
    assert!(wants_all(SamplingOptions { eta_cutoff: 0.01, ..OFF }, &[]));
    assert!(!wants_all(SamplingOptions { temperature: 0.0, ..typical }, &[]), "no filter is asked");
}

#[test]
fn forbidden_tokens_have_no_chance_and_raw_figures_stay() {
    let logits = real_logits();
    let plain = sample(&OFF, &logits, &[]);
    let best = plain.candidates[0].id;
    let options = SamplingOptions { suppress: vec![best, 7], logit_bias: vec![(9, 2.0), (best, 50.0)], ..OFF };
    let sampled = sample(&options, &logits, &[]);
    assert_eq!((sampled.nucleus_size, sampled.entropy_bits), (49_150, plain.entropy_bits));
    let of = |id: u32| sampled.candidates.iter().find(|candidate| candidate.id == id).unwrap();
    for id in [best, 7] {
        assert_eq!((of(id).p_temperature, of(id).p_final, of(id).kept), (0.0, 0.0, false));
        assert_eq!(of(id).logit, logits[id as usize]);
    }
    let raw = plain.candidates.iter().find(|candidate| candidate.id == 9).unwrap();
    assert_eq!((of(9).logit, of(9).p_raw), (raw.logit, raw.p_raw));
    assert!(of(9).p_temperature > 6.0 * raw.p_raw);
    assert_eq!(plain.candidates[0].p_raw, of(best).p_raw);
    // Forced, it is taken all the same.
    let forced = take(&mut Sampler::new(&options, logits.len()).unwrap(), &logits, &[], 0, Some(best));
    assert_eq!((forced.id, forced.p), (best, 0.0));
    assert!((forced.surprisal_bits + plain.candidates[0].p_raw.ln() / LN_2 as f32).abs() < 1e-4);
}

#[test]
fn a_step_without_a_token_that_may_come_is_an_error() {
    let options = SamplingOptions { suppress: vec![0, 1, 2], ..OFF };
    let mut sampler = Sampler::new(&options, 3).unwrap();
    let error = sampler.sample(&all(&[1.0, 2.0, 3.0]), &[], 0, None).unwrap_err();
    assert_eq!(error.kind(), "bad-option");
    assert!(error.to_string().contains("`suppress`") && error.to_string().contains("forbidden"), "{error}");
    // One that runs of one token have used up.
    let options = SamplingOptions { no_repeat_ngram_size: 1, temperature: 0.0, ..OFF };
    let mut sampler = Sampler::new(&options, 3).unwrap();
    assert_eq!(take(&mut sampler, &[1.0, 2.0, 3.0], &[2, 1], 0, None).id, 0);
    assert_eq!(sampler.sample(&all(&[1.0, 2.0, 3.0]), &[2, 1, 0], 0, None).unwrap_err().kind(), "bad-option");
}
