//! The chain against transformers' own processors, in its fixtures: from all logits, and from the top of them.

use super::{OFF, fixture, give_top, real_logits, sample};
use nucleus::backend::Wanted;
use nucleus::protocol::{Candidate, SamplingOptions};
use nucleus::sampling::{Sampled, Sampler};
use serde_json::Value;

fn json_fixture(name: &str) -> Value {
    serde_json::from_slice(&fixture(name)).unwrap()
}

fn numbers<T>(value: &Value, convert: impl Fn(&Value) -> T) -> Vec<T> {
    value.as_array().unwrap().iter().map(convert).collect()
}

/// From the `n_best` likeliest tokens; none when they do not decide.
fn sample_top(
    options: &SamplingOptions,
    logits: &[f32],
    seen: &[u32],
    n_best: usize,
    n_candidates: usize,
) -> Option<Sampled> {
    let mut sampler = Sampler::new(options, logits.len()).unwrap();
    let wanted = sampler.wanted(seen);
    let top = (wanted != Wanted::All).then(|| give_top::give(logits, n_best, wanted))?;
    sampler.sample(&top, seen, n_candidates, None).unwrap()
}

/// `top_k=8 top_p=0.9` -> options.
fn parse_options(words: &[&str]) -> SamplingOptions {
    let mut options = OFF;
    for word in words {
        let (name, value) = word.split_once('=').unwrap();
        match name {
            "repetition_penalty" => options.repetition_penalty = value.parse().unwrap(),
            "temperature" => options.temperature = value.parse().unwrap(),
            "top_k" => options.top_k = value.parse().unwrap(),
            "top_p" => options.top_p = value.parse().unwrap(),
            "min_p" => options.min_p = value.parse().unwrap(),
            "typical_p" => options.typical_p = value.parse().unwrap(),
            "epsilon_cutoff" => options.epsilon_cutoff = value.parse().unwrap(),
            "eta_cutoff" => options.eta_cutoff = value.parse().unwrap(),
            "no_repeat_ngram_size" => options.no_repeat_ngram_size = value.parse().unwrap(),
            _ => panic!("unknown processor {word}"),
        }
    }
    options
}

#[test]
fn processors_match_transformers() {
    let fixture = json_fixture("logits_processors.json");
    let cases = fixture["cases"].as_array().unwrap();
    let (mut n_matched, mut n_from_top) = (0, 0);
    for case in cases {
        let name = case["name"].as_str().unwrap();
        let words: Vec<&str> = name.split(' ').skip(1).filter(|&word| word != "chain").collect();
        let options = parse_options(&words);
        let logits = numbers(&case["logits"], |x| x.as_f64().unwrap() as f32);
        let prompt = numbers(&case["prompt"], |x| x.as_u64().unwrap() as u32);
        let expected = Expected {
            name,
            keep: numbers(&case["keep"], |x| x == 1),
            probs: numbers(&case["probs"], |x| x.as_f64().unwrap()),
            // Top-p of 1 is off: transformers' processor, were it called, would cut tokens of probability 0 (`one_hot`).
            is_off: words == ["top_p=1.0"],
        };
        expected.check(&sample(&options, &logits, &prompt).candidates);
        n_matched += 1;
        if let Some(sampled) = sample_top(&options, &logits, &prompt, logits.len(), logits.len()) {
            expected.check(&sampled.candidates);
            n_from_top += 1;
        }
    }
    // 29 settings, each with 6 sets of logits.
    assert_eq!((cases.len(), n_matched), (29 * 6, 29 * 6));
    // The top decides all but 18 cases with a penalty, 6 in which a sum lands on the threshold to the last bit, 6 with
    // n-grams, and 18 which need the entropy of all tokens.
    assert_eq!(n_from_top, n_matched - 18 - 6 - 6 - 18);
}

struct Expected<'a> {
    name: &'a str,
    keep: Vec<bool>,
    probs: Vec<f64>,
    /// Nothing may be cut.
    is_off: bool,
}

impl Expected<'_> {
    fn check(&self, candidates: &[Candidate]) {
        let Expected { name, keep, probs, is_off } = self;
        assert_eq!(candidates.len(), probs.len(), "{name}");
        // When the nucleus ends among tokens of equal probability, transformers keeps whichever its unstable sort put first;
        // here it is the lower ids. So ask of each group of equals how many are kept, and how likely they are.
        for group in candidates.chunk_by(|a, b| a.p_temperature == b.p_temperature && a.logit == b.logit) {
            let n_kept = group.iter().filter(|c| c.kept).count();
            let n_expected = group.iter().filter(|c| keep[c.id as usize] || *is_off).count();
            assert_eq!(n_kept, n_expected, "{name}: kept of {group:?}");
        }
        let in_order = |mut probs: Vec<f64>| {
            probs.sort_by(f64::total_cmp);
            probs
        };
        let found = in_order(candidates.iter().map(|c| f64::from(c.p_final)).collect());
        for (p, expected) in found.into_iter().zip(in_order(probs.clone())) {
            assert!((p - expected).abs() <= 1e-6 + 1e-5 * expected, "{name}: p {p}, expected {expected}");
        }
        for c in candidates.iter().filter(|c| c.kept == keep[c.id as usize]) {
            let expected = probs[c.id as usize];
            assert!((f64::from(c.p_final) - expected).abs() <= 1e-6 + 1e-5 * expected, "{name}: {c:?} {expected}");
        }
    }
}

#[test]
fn nucleus_of_real_logits_matches_transformers() {
    let logits = real_logits();
    let fixture = json_fixture("nucleus_full_vocab.json");
    let cases = fixture["cases"].as_array().unwrap();
    assert_eq!((cases.len(), logits.len()), (9, 49_152));
    let mut n_from_top = 0;
    for case in cases {
        let number = |name: &str| case[name].as_f64().unwrap() as f32;
        let options = SamplingOptions { temperature: number("temperature"), top_p: number("top_p"), ..OFF };
        let first_ids = numbers(&case["first_ids"], |x| x.as_u64().unwrap());
        let first_probs = numbers(&case["first_probs"], |x| x.as_f64().unwrap());
        let from_top = sample_top(&options, &logits, &[], 1024, first_ids.len());
        n_from_top += u32::from(from_top.is_some());
        for sampled in [Some(sample(&options, &logits, &[])), from_top].into_iter().flatten() {
            assert_eq!(u64::from(sampled.nucleus_size), case["nucleus_size"].as_u64().unwrap(), "{case}");
            for (rank, (id, p)) in first_ids.iter().zip(&first_probs).enumerate() {
                let candidate = &sampled.candidates[rank];
                assert_eq!(u64::from(candidate.id), *id, "{case}");
                assert!((f64::from(candidate.p_final) / p - 1.0).abs() < 1e-4, "{case}: {candidate:?}");
            }
        }
    }
    // All but the two whose nucleus has thousands of tokens.
    assert_eq!(n_from_top, 7);
}
