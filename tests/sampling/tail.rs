//! What a step says of the tokens beyond its candidates, against all of them, sorted and summed in the plainest way.

use super::{OFF, all, give_top, random_logits, real_logits};
use nucleus::logits::{Logits, Wanted};
use nucleus::protocol::SamplingOptions;
use nucleus::sampling::Sampler;
use nucleus::tail::{N_LISTED, Tail};

const TEMPERATURES: [f32; 9] = [0.05, 0.2, 0.5, 0.7, 0.95, 1.0, 1.25, 1.6, 2.0];

fn vectors() -> Vec<(&'static str, Vec<f32>)> {
    let mut with_outlier = random_logits(5001, 1 << 24, 30.0, 41);
    with_outlier[77] = 300.0;
    vec![
        ("real", real_logits()),
        ("wide", random_logits(20_011, 1 << 24, 40.0, 42)),
        ("tied", random_logits(1201, 37, 30.0, 43)),
        ("flat", vec![1.5; 3000]),
        ("all but one far below", with_outlier),
        ("fewer than are listed", random_logits(63, 1 << 24, 4.0, 44)),
        ("one more than are listed", random_logits(65, 1 << 24, 4.0, 45)),
        ("one", vec![-3.0]),
    ]
}

/// A step's tail and the logits of its candidates.
fn tail(logits: &Logits, vocab_size: usize, temperature: f32) -> (Tail, Vec<f32>) {
    let options = SamplingOptions { temperature, ..OFF };
    let mut sampler = Sampler::new(&options, vocab_size).unwrap();
    let sampled = sampler.sample(logits, &[], N_LISTED, Some(0)).unwrap();
    let Some(sampled) = sampled else {
        let mut sampler = Sampler::new(&SamplingOptions { top_k: 1, ..options }, vocab_size).unwrap();
        let best = logits.top.best.iter().max_by(|a, b| a.1.total_cmp(&b.1)).unwrap().0;
        let sampled = sampler.sample(logits, &[], N_LISTED, Some(best)).unwrap().expect("the best token is known");
        return (sampled.tail.unwrap(), sampled.candidates.iter().map(|c| c.logit).collect());
    };
    (sampled.tail.unwrap(), sampled.candidates.iter().map(|c| c.logit).collect())
}

fn sorted(logits: &[f32]) -> Vec<f32> {
    let mut sorted = logits.to_vec();
    sorted.sort_by(|a, b| b.total_cmp(a));
    sorted
}

fn weight(logits: &[f32], temperature: f32) -> f64 {
    let max = f64::from(sorted(logits)[0]);
    logits.iter().map(|&logit| ((f64::from(logit) - max) / f64::from(temperature)).exp()).sum()
}

/// Returns how far the bounds of the weight are apart, as a share of it.
fn assert_bounds(tail: &Tail, listed: &[f32], logits: &[f32], temperature: f32, kind: &str) -> f64 {
    let expected = weight(logits, temperature);
    let (least, most) = tail.weight_at(temperature, listed.iter().copied());
    let slack = 1e-9 * expected;
    assert!(
        least <= expected + slack && expected <= most + slack,
        "{kind}, at {temperature}: {expected} {least} {most}"
    );
    (most - least) / expected
}

#[test]
fn every_rank_is_within_a_bin_of_a_full_sort() {
    for (kind, logits) in vectors() {
        let (tail, listed) = tail(&all(&logits), logits.len(), 0.7);
        let sorted = sorted(&logits);
        assert_eq!(listed, sorted[..listed.len()], "{kind}");
        let mut rank = listed.len();
        for (level, count) in tail.levels() {
            for &logit in &sorted[rank..rank + count as usize] {
                // Those 64 logits below the best or more share one bin.
                let is_last = sorted[0] - logit >= 63.9 && sorted[0] - level >= 63.9;
                assert!(
                    (logit - level).abs() <= 1.0 / 16.0 || is_last,
                    "{kind} rank {rank}: {level}, expected {logit}"
                );
            }
            rank += count as usize;
        }
        assert_eq!((rank, tail.n_unknown), (logits.len(), 0), "{kind}");
    }
}

#[test]
fn the_sum_at_any_temperature_lies_between_its_bounds() {
    for (kind, logits) in vectors() {
        let (tail, listed) = tail(&all(&logits), logits.len(), 0.7);
        let mut widest: f64 = 0.0;
        for temperature in TEMPERATURES {
            let apart = assert_bounds(&tail, &listed, &logits, temperature, kind);
            if temperature >= 0.5 {
                widest = widest.max(apart);
            }
            if kind == "real" {
                println!("{kind} at {temperature}: bounds {apart:.1e} apart");
            }
        }
        println!("{kind}: bounds at most {widest:.1e} apart from temperature 0.5 on");
        // (β / 16)² / 8 of what the tail weighs, and a little for rounding.
        assert!(widest < 2.2e-3, "{kind}: bounds {widest} apart");
    }
}

#[test]
fn a_top_alone_gives_bounds_too() {
    for (kind, logits) in vectors() {
        for n_best in [64, 200, 1024] {
            let top = give_top::give(&logits, n_best, Wanted::Top { temperature: 0.7 });
            if top.top.best.len() < N_LISTED.min(logits.len()) {
                continue;
            }
            let (tail, listed) = tail(&top, logits.len(), 0.7);
            assert_eq!(tail.n_unknown as usize, logits.len() - top.top.best.len(), "{kind}");
            assert_eq!(listed, sorted(&logits)[..listed.len()], "{kind}");
            for temperature in TEMPERATURES {
                assert_bounds(&tail, &listed, &logits, temperature, &format!("{kind}, {n_best} best"));
            }
        }
    }
}

#[test]
fn a_step_without_candidates_has_no_tail() {
    let logits = real_logits();
    let sampled = super::take(&mut Sampler::new(&OFF, logits.len()).unwrap(), &logits, &[], 0, None);
    assert_eq!(sampled.tail, None);
}
