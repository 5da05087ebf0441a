//! The top of the logits decides as all of them would, or leaves it to them.

use super::{OFF, give_top, random_logits, real_logits, take};
use nucleus::backend::{Logits, Top, Wanted};
use nucleus::protocol::SamplingOptions;
use nucleus::sampling::{Sampled, Sampler};

const VOCAB_SIZE: u32 = 1200;

fn distributions() -> Vec<(&'static str, Vec<f32>)> {
    // Ranked by a hash, falling like 1 / rank^2: as peaked as a model's.
    let peaked = random_logits(VOCAB_SIZE, 1 << 24, 1.0, 21).iter().map(|x| -2.0 * (0.5 - x + 1e-3).ln()).collect();
    let mut certain = random_logits(VOCAB_SIZE, 1 << 24, 4.0, 22);
    certain[123] = 90.0;
    vec![
        ("peaked", peaked),
        ("certain", certain),
        ("wide", random_logits(VOCAB_SIZE, 1 << 24, 30.0, 23)),
        ("nearly flat", random_logits(VOCAB_SIZE, 1 << 24, 0.01, 24)),
        ("tied", random_logits(VOCAB_SIZE, 37, 30.0, 25)),
        ("flat", vec![1.5; VOCAB_SIZE as usize]),
        ("both zeros", [0.0, -0.0, -1.0].repeat(VOCAB_SIZE as usize / 3)),
        ("one entry", vec![-3.0]),
    ]
}

const TEMPERATURES: [f32; 7] = [0.0, f32::from_bits(1), 0.05, 0.7, 1.0, 1.8, f32::MAX];

/// Every combination of filters, each with a seed of its own.
fn chains(temperature: f32) -> Vec<SamplingOptions> {
    let mut chains = Vec::new();
    for top_k in [0, 1, 2, 40, 129] {
        for top_p in [0.0, 0.5, 0.9, 0.99, 1.0] {
            for min_p in [0.0, 0.05, 1.0] {
                chains.push(SamplingOptions { temperature, top_k, top_p, min_p, seed: chains.len() as u64, ..OFF });
            }
        }
    }
    chains
}

fn is_near(a: f32, b: f32) -> bool {
    (a - b).abs() <= 1e-6 * a.abs().max(b.abs())
}

/// The same token from the same tokens; probabilities but for rounding.
pub fn assert_same(found: &Sampled, expected: &Sampled, context: impl Fn() -> String) {
    let decided = |s: &Sampled| {
        let candidates: Vec<_> = s.candidates.iter().map(|c| (c.id, c.kept, c.logit.to_bits())).collect();
        (s.id, s.rank, s.u, s.nucleus_size, candidates)
    };
    assert_eq!(decided(found), decided(expected), "{}", context());
    let shown = |s: &Sampled| {
        let of_candidates = s.candidates.iter().flat_map(|c| [c.p_raw, c.p_temperature, c.p_final, c.cumulative]);
        of_candidates.chain([s.p, s.nucleus_mass]).collect::<Vec<_>>()
    };
    for (found, expected) in shown(found).into_iter().zip(shown(expected)) {
        assert!(is_near(found, expected), "{}: {found}, expected {expected}", context());
    }
    // These may be near 0 for a certain token, so what is near is a millionth of a bit, too.
    for (a, b) in [(found.surprisal_bits, expected.surprisal_bits), (found.entropy_bits, expected.entropy_bits)] {
        assert!((a - b).abs() <= 1e-6 || is_near(a, b), "{}: {a} bits, expected {b}", context());
    }
}

#[test]
fn the_top_decides_as_all_logits_would_or_not_at_all() {
    for (kind, logits) in distributions() {
        let mut in_order: Vec<u32> = (0..logits.len() as u32).collect();
        in_order.sort_by(|&a, &b| logits[b as usize].total_cmp(&logits[a as usize]));
        let forced_at = |rank: usize| Some(in_order[rank.min(logits.len() - 1)]);
        let (mut n_decided, mut n_left) = (0, 0);
        for temperature in TEMPERATURES {
            let wanted = Sampler::new(&SamplingOptions { temperature, ..OFF }, logits.len()).unwrap().wanted(&[]);
            let tops = [0, 1, 2, 40, 128, 600, 1200].map(|n_best| (n_best, give_top::give(&logits, n_best, wanted)));
            for (i, options) in chains(temperature).into_iter().enumerate() {
                let n_candidates = [0, 1, 64][i % 3];
                let forced = [None, forced_at(0), None, forced_at(30), None, forced_at(usize::MAX), None][i % 7];
                let mut sampler = Sampler::new(&options, logits.len()).unwrap();
                assert_eq!(sampler.wanted(&[]), wanted);
                let first = take(&mut sampler, &logits, &[], n_candidates, forced);
                let second = take(&mut sampler, &logits, &[], 0, None);
                for (n_best, top) in &tops {
                    let context =
                        || format!("{kind}, {n_best} best, {n_candidates} candidates, {forced:?} forced, {options:?}");
                    let mut sampler = Sampler::new(&options, logits.len()).unwrap();
                    match sampler.sample(top, &[], n_candidates, forced).unwrap() {
                        Some(sampled) => {
                            n_decided += 1;
                            assert_same(&sampled, &first, context);
                        }
                        None => {
                            n_left += 1;
                            assert_eq!(take(&mut sampler, &logits, &[], n_candidates, forced), first, "{}", context());
                        }
                    }
                    // One `u` is used up, whichever way.
                    assert_eq!(take(&mut sampler, &logits, &[], 0, None), second, "{}", context());
                }
            }
        }
        println!("{kind}: {n_decided} decided, {n_left} left to all logits");
        assert!(n_decided > 500 && n_left > 500, "{kind}: {n_decided} decided, {n_left} left to all logits");
    }
}

#[test]
fn a_thousand_of_peaked_logits_are_enough() {
    let falling = |n: u32| random_logits(n, 1 << 24, 1.0, 31).iter().map(|x| -2.0 * (0.5 - x + 1e-4).ln()).collect();
    let wide = SamplingOptions { top_p: 0.99, ..OFF };
    let cases = [
        ("the page's options", real_logits(), SamplingOptions { temperature: 0.7, top_p: 0.9, ..OFF }, 1000),
        ("a nucleus of 92", real_logits(), wide.clone(), 990),
        ("nothing cut", real_logits(), OFF, 990),
        ("a nucleus of hundreds", falling(49_152), wide, 990),
    ];
    for (kind, logits, options, at_least) in cases {
        let mut sampler = Sampler::new(&options, logits.len()).unwrap();
        let top = give_top::give(&logits, 1024, sampler.wanted(&[]));
        let mut n_decided = 0;
        for _ in 0..1000 {
            match sampler.sample(&top, &[], 64, None).unwrap() {
                Some(_) => n_decided += 1,
                None => drop(take(&mut sampler, &logits, &[], 64, None)),
            }
        }
        println!("{kind}: {n_decided} of 1000 decided");
        assert!(n_decided >= at_least, "{kind}: {n_decided} of 1000 decided");
    }
}

/// Sums that are half a millionth off, as f32 arithmetic gives them.
fn rough(mut top: Logits, sign: f64) -> Logits {
    let sums = &mut top.top.sums;
    for sum in [&mut sums.weight, &mut sums.weighted_x, &mut sums.weight_at_temperature] {
        *sum *= 1.0 + sign * 5e-7;
    }
    top
}

#[test]
fn what_rounding_could_turn_is_left_to_all_logits() {
    let u = take(&mut Sampler::new(&OFF, 2).unwrap(), &[0.0, 0.0], &[], 0, None).u.unwrap();
    // Each with a threshold on the edge of a token, and one beside it.
    let at_u = [u, 1.0 - u].map(|p| p.ln() as f32).to_vec();
    let beside_u = [u + 1e-5, 1.0 - u - 1e-5].map(|p| p.ln() as f32).to_vec();
    let halves = [0.5f32, 0.25, 0.125, 0.125].map(f32::ln).to_vec();
    let cases = [
        ("u", at_u, OFF, false),
        ("u", beside_u, OFF, true),
        ("top-p", halves.clone(), SamplingOptions { top_p: 0.75, ..OFF }, false),
        ("top-p", halves.clone(), SamplingOptions { top_p: 0.75001, ..OFF }, true),
        ("top-p", halves.clone(), SamplingOptions { top_p: 0.74999, ..OFF }, true),
        ("top-p after top-k", halves.clone(), SamplingOptions { top_k: 2, top_p: 2.0 / 3.0, ..OFF }, false),
        ("top-p after top-k", halves.clone(), SamplingOptions { top_k: 2, top_p: 0.6666, ..OFF }, true),
        ("min-p", halves.clone(), SamplingOptions { min_p: 0.5, ..OFF }, false),
        ("min-p", halves.clone(), SamplingOptions { min_p: 0.50001, ..OFF }, true),
        ("min-p", halves.clone(), SamplingOptions { min_p: 0.49999, ..OFF }, true),
    ];
    for (kind, logits, options, is_decided) in cases {
        for sign in [-1.0, 0.0, 1.0] {
            let mut sampler = Sampler::new(&options, logits.len()).unwrap();
            let top = rough(give_top::give(&logits, logits.len(), sampler.wanted(&[])), sign);
            let found = sampler.sample(&top, &[], 2, None).unwrap();
            assert_eq!(found.is_some(), is_decided, "{kind} {options:?} {found:?}");
            if let Some(found) = found {
                let expected = take(&mut Sampler::new(&options, logits.len()).unwrap(), &logits, &[], 2, None);
                assert_same(&found, &expected, || format!("{kind} {options:?}"));
            }
        }
    }
}

#[test]
fn all_logits_are_wanted_for_a_penalty_alone() {
    let wanted = |options: SamplingOptions| Sampler::new(&options, 10).unwrap().wanted(&[]);
    assert_eq!(wanted(SamplingOptions { temperature: 0.3, top_k: 5, ..OFF }), Wanted::Top { temperature: 0.3 });
    // Greedy: the sums at any temperature will do.
    assert_eq!(wanted(SamplingOptions { temperature: 0.0, ..OFF }), Wanted::Top { temperature: 1.0 });
    let penalised = SamplingOptions { repetition_penalty: 1.1, ..OFF };
    assert_eq!(wanted(penalised.clone()), Wanted::All);
    // And a backend that gives the top nevertheless has not given enough.
    let top = give_top::give(&[3.0, 1.0], 2, Wanted::Top { temperature: 1.0 });
    assert_eq!(Sampler::new(&penalised, 2).unwrap().sample(&top, &[], 0, None).unwrap(), None);
}

#[test]
fn a_top_that_makes_no_sense_decides_nothing() {
    let logits = random_logits(100, 1 << 24, 4.0, 33);
    let mut sampler = Sampler::new(&SamplingOptions { top_k: 1, ..OFF }, 100).unwrap();
    let good = give_top::give(&logits, 10, sampler.wanted(&[]));
    let spoilt = |spoil: fn(&mut Top)| {
        let mut logits = good.clone();
        spoil(&mut logits.top);
        logits
    };
    let not_finite: [fn(&mut Top); 5] = [
        |top| top.sums.max = f32::INFINITY,
        |top| top.sums.weight = f64::NAN,
        |top| top.sums.weighted_x = f64::NEG_INFINITY,
        |top| top.sums.weight_at_temperature = f64::INFINITY,
        |top| top.best[9].1 = f32::NAN,
    ];
    for spoil in not_finite {
        assert_eq!(sampler.sample(&spoilt(spoil), &[], 0, None).unwrap(), None);
    }
    let error = sampler.sample(&spoilt(|top| top.best[0].0 = 100), &[], 0, None).unwrap_err();
    assert_eq!(error.kind(), "bad-token");
    assert_eq!(sampler.sample(&Logits::default(), &[], 0, None).unwrap(), None);
    // What is left of a top means nothing beside all logits.
    let both = Logits { all: logits.clone(), top: spoilt(|top| top.best[0].0 = 100).top };
    let expected = take(&mut Sampler::new(&SamplingOptions { top_k: 1, ..OFF }, 100).unwrap(), &logits, &[], 0, None);
    assert_eq!(sampler.sample(&both, &[], 0, None).unwrap(), Some(expected));
}
