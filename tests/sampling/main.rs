//! The decoding chain against transformers' own processors, against a full sort written here in the plainest way, against
//! the statistics that a draw must have, and from the top of the logits against itself from all of them.

mod chain;
#[path = "../support/top.rs"]
mod give_top;
mod tail;
mod top;
mod transformers;

use nucleus::backend::{Logits, Top};
use nucleus::protocol::SamplingOptions;
use nucleus::sampling::{Sampled, Sampler};

const OFF: SamplingOptions = SamplingOptions::OFF;

fn fixture(name: &str) -> Vec<u8> {
    let path = format!("{}/tests/fixtures/{name}", env!("CARGO_MANIFEST_DIR"));
    std::fs::read(&path).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// The model's logits after "Once upon a time", 49,152 of them.
fn real_logits() -> Vec<f32> {
    fixture("once_upon_a_time.logits.f32").chunks_exact(4).map(|b| f32::from_le_bytes(b.try_into().unwrap())).collect()
}

fn all(logits: &[f32]) -> Logits {
    Logits { all: logits.to_vec(), top: Top::default() }
}

/// With all logits there is always a token.
fn take(sampler: &mut Sampler, logits: &[f32], seen: &[u32], n_candidates: usize, forced: Option<u32>) -> Sampled {
    sampler.sample(&all(logits), seen, n_candidates, forced).unwrap().unwrap()
}

fn sample(options: &SamplingOptions, logits: &[f32], seen: &[u32]) -> Sampled {
    take(&mut Sampler::new(options, logits.len()).unwrap(), logits, seen, logits.len(), None)
}

/// Hash-made logits: `n_levels` different values, so that few levels mean many ties.
fn random_logits(n: u32, n_levels: u32, spread: f32, salt: u32) -> Vec<f32> {
    let hash = |i: u32| {
        let x = (i ^ salt).wrapping_mul(2_654_435_761);
        (x ^ x >> 15).wrapping_mul(2_246_822_519) >> 8
    };
    (0..n).map(|i| (hash(i) % n_levels) as f32 / n_levels as f32 * spread - spread / 2.0).collect()
}

/// The chain by definition: f64, the whole vocabulary sorted, "the mass strictly above is below p".
struct Reference {
    ids: Vec<u32>,
    p_temperature: Vec<f64>,
    n_kept: usize,
}

fn reference(options: &SamplingOptions, logits: &[f32], seen: &[u32]) -> Reference {
    let penalty = options.repetition_penalty;
    let mut is_seen = vec![false; logits.len()];
    seen.iter().for_each(|&id| is_seen[id as usize] = true);
    let score = |id: u32| {
        let logit = logits[id as usize];
        match is_seen[id as usize] {
            true if logit < 0.0 => logit * penalty,
            true => logit / penalty,
            false => logit,
        }
    };
    let mut ids: Vec<u32> = (0..logits.len() as u32).collect();
    ids.sort_by(|&a, &b| score(b).partial_cmp(&score(a)).unwrap().then(a.cmp(&b)));
    let max = f64::from(score(ids[0]));
    let weights: Vec<f64> =
        ids.iter().map(|&id| ((f64::from(score(id)) - max) / f64::from(options.temperature)).exp()).collect();
    let sum: f64 = weights.iter().sum();
    let p_temperature: Vec<f64> = weights.iter().map(|w| w / sum).collect();

    let mut n_kept = ids.len();
    if options.top_k > 0 {
        let threshold = score(ids[(options.top_k as usize).min(ids.len()) - 1]);
        n_kept = ids.partition_point(|&id| score(id) >= threshold);
    }
    if options.top_p < 1.0 {
        let mass: f64 = p_temperature[..n_kept].iter().sum();
        let threshold = f64::from(options.top_p) * mass;
        let mut above = 0.0;
        let mut n_below_threshold = 0;
        while n_below_threshold < n_kept && above < threshold {
            above += p_temperature[n_below_threshold];
            n_below_threshold += 1;
        }
        n_kept = n_below_threshold.max(1);
    }
    let threshold = f64::from(options.min_p) * p_temperature[0];
    n_kept = p_temperature[..n_kept].iter().take_while(|&&p| p >= threshold).count();
    Reference { ids, p_temperature, n_kept }
}

#[test]
fn partial_sort_equals_full_sort() {
    let all_logits = [
        ("random", random_logits(20_000, 1 << 24, 20.0, 1)),
        ("tied", random_logits(20_000, 37, 8.0, 2)),
        ("nearly flat", random_logits(20_000, 1 << 24, 0.01, 3)),
        ("flat", vec![1.5; 5000]),
        ("real", real_logits()),
        ("one entry", vec![-3.0]),
    ];
    let chains = [
        SamplingOptions { temperature: 0.7, top_p: 0.93, ..OFF },
        SamplingOptions { temperature: 1.6, top_p: 0.987, ..OFF },
        SamplingOptions { top_k: 129, ..OFF },
        SamplingOptions { top_k: 700, top_p: 0.613, ..OFF },
        SamplingOptions { temperature: 1.3, min_p: 0.0213, ..OFF },
        SamplingOptions { temperature: 0.01, top_p: 0.5003, ..OFF },
        SamplingOptions { repetition_penalty: 1.7, temperature: 0.9, top_k: 40, top_p: 0.971, min_p: 0.0113, ..OFF },
        OFF,
    ];
    for (kind, logits) in &all_logits {
        let seen: Vec<u32> = (0..logits.len() as u32).step_by(11).collect();
        for options in &chains {
            let expected = reference(options, logits, &seen);
            let mut sampler = Sampler::new(options, logits.len()).unwrap();
            // Few candidates first: how far the ranking was sorted for them must not matter.
            let brief = take(&mut sampler, logits, &seen, 5, None);
            assert_eq!(brief.nucleus_size as usize, expected.n_kept, "{kind} {options:?}");
            assert_eq!(brief.candidates.len(), logits.len().min(5));

            let full = take(&mut sampler, logits, &seen, usize::MAX, None);
            assert_eq!(full.candidates[..brief.candidates.len()], brief.candidates[..], "{kind} {options:?}");
            let ids: Vec<u32> = full.candidates.iter().map(|c| c.id).collect();
            assert!(ids == expected.ids, "{kind} {options:?}: order differs");
            let mass: f64 = expected.p_temperature[..expected.n_kept].iter().sum();
            assert!((f64::from(full.nucleus_mass) - mass).abs() < 1e-5, "{kind} {options:?}");
            for (rank, (c, p)) in full.candidates.iter().zip(&expected.p_temperature).enumerate() {
                assert_eq!(c.kept, rank < expected.n_kept, "{kind} {options:?} rank {rank}");
                assert!((f64::from(c.p_temperature) - p).abs() <= 1e-6 * p + 1e-30, "{kind} {options:?} {c:?} {p}");
                let p_final = if c.kept { p / mass } else { 0.0 };
                assert!((f64::from(c.p_final) - p_final).abs() <= 1e-5 * p_final + 1e-30, "{kind} {options:?} {c:?}");
            }
            let drawn = &full.candidates[full.rank as usize];
            assert_eq!((drawn.id, drawn.p_final, drawn.kept), (full.id, full.p, true), "{kind} {options:?}");
        }
    }
}

#[test]
fn cumulative_is_what_top_p_looks_at() {
    // Probabilities 1/2, 1/4, 1/8, 1/16, 1/16: top-k leaves the first three, 4/7, 2/7, 1/7 of what is left.
    let logits = [0.5f32, 0.25, 0.125, 0.0625, 0.0625].map(f32::ln);
    let sampled = sample(&SamplingOptions { top_k: 3, top_p: 0.6, ..OFF }, &logits, &[]);
    let found: Vec<f32> = sampled.candidates.iter().map(|c| c.cumulative).collect();
    for (found, expected) in found.iter().zip([4.0 / 7.0, 6.0 / 7.0, 1.0, 1.0, 1.0]) {
        assert!((found - expected).abs() < 1e-6, "{found} {expected}");
    }
    assert_eq!(sampled.nucleus_size, 2);
    assert!((sampled.nucleus_mass - 0.75).abs() < 1e-6);
    assert!((sampled.candidates[1].p_final - 1.0 / 3.0).abs() < 1e-6);
    assert!((sampled.entropy_bits - 1.875).abs() < 1e-6);
}

#[test]
fn raw_probabilities_ignore_the_chain() {
    let logits = [0.5f32, 0.25, 0.25].map(f32::ln);
    let options = SamplingOptions { repetition_penalty: 2.0, temperature: 0.3, top_k: 1, ..OFF };
    let mut sampler = Sampler::new(&options, 3).unwrap();
    let sampled = take(&mut sampler, &logits, &[0], 3, Some(0));
    let of_0 = sampled.candidates.iter().find(|c| c.id == 0).unwrap();
    assert!((of_0.p_raw - 0.5).abs() < 1e-6 && of_0.logit == logits[0], "{of_0:?}");
    assert!((sampled.surprisal_bits - 1.0).abs() < 1e-6);
    assert!((sampled.entropy_bits - 1.5).abs() < 1e-6);
}

#[test]
fn greedy_takes_the_lowest_id_of_the_best() {
    let mut logits = random_logits(1000, 1 << 24, 10.0, 5);
    for id in [400, 77, 901] {
        logits[id] = 9.0;
    }
    let options = SamplingOptions { temperature: 0.0, top_p: 0.9, top_k: 2, ..OFF };
    let sampled = sample(&options, &logits, &[]);
    assert_eq!((sampled.id, sampled.rank, sampled.p, sampled.u), (77, 0, 1.0, None));
    assert_eq!((sampled.nucleus_size, sampled.nucleus_mass), (1, 1.0));
    assert_eq!(sampled.candidates[..3].iter().map(|c| c.id).collect::<Vec<_>>(), [77, 400, 901]);
    // The penalty comes before the choice.
    let penalised = sample(&SamplingOptions { repetition_penalty: 1.01, ..options }, &logits, &[77]);
    assert_eq!(penalised.id, 400);
}

#[test]
fn draws_are_reproducible() {
    let logits = real_logits();
    let options = SamplingOptions { temperature: 1.5, top_p: 0.99, seed: 42, ..OFF };
    let run = |seed: u64| {
        let mut sampler = Sampler::new(&SamplingOptions { seed, ..options.clone() }, logits.len()).unwrap();
        (0..8).map(|_| take(&mut sampler, &logits, &[], 0, None)).collect::<Vec<_>>()
    };
    let sampled = run(42);
    assert_eq!(sampled, run(42));
    assert_ne!(sampled, run(43));
    let us: Vec<f64> = sampled.iter().take(3).map(|s| s.u.unwrap()).collect();
    assert_eq!(us, [0.6818961923066714, 0.950275407672484, 0.4275164028565197]);
    let ids: Vec<u32> = sampled.iter().map(|s| s.id).collect();
    assert_eq!(ids, GOLDEN_IDS);
}

/// Seed 42 on the real logits at temperature 1.5 and top-p 0.99. A change here changes every reader's text.
const GOLDEN_IDS: [u32; 8] = [29365, 31293, 281, 3261, 28, 28, 28, 2003];

#[test]
fn forcing_uses_up_a_draw() {
    let logits = random_logits(300, 1 << 24, 4.0, 9);
    let options = SamplingOptions { seed: 7, top_k: 50, ..OFF };
    let mut free = Sampler::new(&options, 300).unwrap();
    let mut led = Sampler::new(&options, 300).unwrap();
    let first = take(&mut free, &logits, &[], 0, None);
    let forced = take(&mut led, &logits, &[], 0, Some(first.id));
    assert_eq!(forced, Sampled { u: None, ..first });
    assert_eq!(take(&mut free, &logits, &[], 9, None), take(&mut led, &logits, &[], 9, None));

    // A token that top-k had cut can be forced; its probability says what the chain thought of it.
    let last = take(&mut free, &logits, &[], 300, None).candidates[299].clone();
    let forced = take(&mut free, &logits, &[], 0, Some(last.id));
    assert_eq!((forced.id, forced.rank, forced.p, last.kept), (last.id, 299, 0.0, false));
    assert!((forced.surprisal_bits + last.p_raw.log2()).abs() < 1e-4);
}

#[test]
fn a_draw_inverts_the_cdf() {
    let logits = random_logits(500, 1 << 24, 6.0, 11);
    for seed in 0..200 {
        let sampled = sample(&SamplingOptions { seed, top_p: 0.95, ..OFF }, &logits, &[]);
        let u = sampled.u.unwrap();
        let below: f64 = sampled.candidates[..sampled.rank as usize].iter().map(|c| f64::from(c.p_final)).sum();
        assert!(below <= u + 1e-6 && u < below + f64::from(sampled.p) + 1e-6, "seed {seed}: {below} {u} {}", sampled.p);
    }
}

#[test]
fn draws_have_the_shown_frequencies() {
    let n_draws = 100_000;
    let logits = random_logits(40, 1 << 24, 5.0, 13);
    let options = SamplingOptions { temperature: 0.8, top_p: 0.9, seed: 1, ..OFF };
    let mut sampler = Sampler::new(&options, 40).unwrap();
    let candidates = take(&mut sampler, &logits, &[], 40, None).candidates;
    let mut counts = [0u32; 40];
    for _ in 0..n_draws {
        counts[take(&mut sampler, &logits, &[], 0, None).id as usize] += 1;
    }
    let mut chi_square = 0.0;
    let mut n_kept = 0;
    for c in &candidates {
        let count = f64::from(counts[c.id as usize]);
        if !c.kept {
            assert_eq!(count, 0.0, "a cut token was drawn");
            continue;
        }
        let expected = f64::from(c.p_final) * f64::from(n_draws);
        chi_square += (count - expected).powi(2) / expected;
        n_kept += 1;
    }
    // Mean d, variance 2 d for d degrees of freedom: 5 standard deviations either way. A fixed seed, so never by chance.
    let d = f64::from(n_kept - 1);
    assert!(n_kept > 10 && (chi_square - d).abs() < 5.0 * (2.0 * d).sqrt(), "chi-square {chi_square}, {d} degrees");
}

#[test]
fn extreme_options_and_logits_give_finite_numbers() {
    let logits = [f32::MAX, f32::MIN, 0.0, -0.0, 1e-30, -1e-30];
    for temperature in [f32::from_bits(1), 1e-30, 1.0, f32::MAX] {
        for repetition_penalty in [f32::MIN_POSITIVE, 1.0, f32::MAX] {
            for top_p in [0.0, 1.0] {
                let options = SamplingOptions { temperature, repetition_penalty, top_p, top_k: u32::MAX, ..OFF };
                let sampled = sample(&options, &logits, &[1, 2, 4]);
                for c in &sampled.candidates {
                    let probabilities = [c.p_raw, c.p_temperature, c.p_final, c.cumulative];
                    assert!(probabilities.iter().all(|p| (0.0..=1.0).contains(p)), "{options:?} {c:?}");
                }
                assert!(sampled.entropy_bits.is_finite() && (0.0..=1.0).contains(&sampled.nucleus_mass), "{sampled:?}");
            }
        }
    }
}

#[test]
fn bad_options_are_refused_by_name() {
    let refused = |options: SamplingOptions, name: &str| {
        let error = Sampler::new(&options, 10).err().unwrap_or_else(|| panic!("{options:?} was accepted"));
        assert_eq!(error.kind(), "bad-option");
        assert!(error.to_string().contains(name), "{error} does not name {name}");
    };
    for bad in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, -0.1] {
        refused(SamplingOptions { temperature: bad, ..OFF }, "temperature");
        refused(SamplingOptions { top_p: bad, ..OFF }, "topP");
        refused(SamplingOptions { min_p: bad, ..OFF }, "minP");
        refused(SamplingOptions { repetition_penalty: bad, ..OFF }, "repetitionPenalty");
    }
    refused(SamplingOptions { top_p: 1.1, ..OFF }, "topP");
    refused(SamplingOptions { min_p: 1.1, ..OFF }, "minP");
    refused(SamplingOptions { repetition_penalty: 0.0, ..OFF }, "repetitionPenalty");
    for bad in [f32::NAN, -0.1, 1.01, f32::INFINITY] {
        refused(SamplingOptions { typical_p: bad, ..OFF }, "typicalP");
        refused(SamplingOptions { epsilon_cutoff: bad, ..OFF }, "epsilonCutoff");
        refused(SamplingOptions { eta_cutoff: bad, ..OFF }, "etaCutoff");
    }
    refused(SamplingOptions { typical_p: 0.0, ..OFF }, "typicalP");
    refused(SamplingOptions { epsilon_cutoff: 1.0, ..OFF }, "epsilonCutoff");
    refused(SamplingOptions { logit_bias: vec![(3, f32::INFINITY)], ..OFF }, "logitBias");
    for past in
        [SamplingOptions { logit_bias: vec![(10, 1.0)], ..OFF }, SamplingOptions { suppress: vec![3, 10], ..OFF }]
    {
        assert_eq!(Sampler::new(&past, 10).err().map(|error| error.kind()), Some("bad-token"), "{past:?}");
    }
    assert_eq!(Sampler::new(&OFF, 0).err().unwrap().kind(), "bad-option");
}

#[test]
fn bad_logits_and_tokens_are_refused_and_change_nothing() {
    let logits = random_logits(100, 1 << 24, 4.0, 17);
    let mut sampler = Sampler::new(&OFF, 100).unwrap();
    let mut kind =
        |logits: &[f32], seen: &[u32], forced| sampler.sample(&all(logits), seen, 3, forced).unwrap_err().kind();
    for bad in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
        let mut logits = logits.clone();
        logits[63] = bad;
        assert_eq!(kind(&logits, &[], None), "non-finite-logits");
    }
    assert_eq!(kind(&logits, &[3, 100], None), "bad-token");
    assert_eq!(kind(&logits, &[], Some(100)), "bad-token");
    assert_eq!(kind(&logits[1..], &[], None), "shape-mismatch");
    let after_errors = take(&mut sampler, &logits, &[], 3, None);
    assert_eq!(after_errors, take(&mut Sampler::new(&OFF, 100).unwrap(), &logits, &[], 3, None));
}
