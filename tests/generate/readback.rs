//! A backend that gives only the top of the logits: the run is the same, and all of them are read where it takes them.

use super::hash_backend::HashBackend;
use super::{Run, advance, options, run, session};
use nucleus::protocol::{GenerateOptions, SamplingOptions};

/// A run without a penalty, which would ask for all logits at once.
fn unpenalised(change: impl FnOnce(&mut GenerateOptions)) -> GenerateOptions {
    let mut options = options();
    options.sampling.repetition_penalty = 1.0;
    change(&mut options);
    options
}

fn assert_same_run(found: &Run, expected: &Run) {
    assert_eq!(found.steps.len(), expected.steps.len());
    for (found, expected) in found.steps.iter().zip(&expected.steps) {
        let mut found = found.clone();
        found.ms = expected.ms;
        // A top tells less of the tokens beyond the candidates; what it tells is of the same tokens (`tests/sampling/tail.rs`).
        match (&found.tail, &expected.tail) {
            (Some(tail), Some(all)) => {
                // Only a part of the top's last bin may be known.
                let n_whole = tail.levels().count().saturating_sub(usize::from(tail.n_unknown > 0));
                assert!(tail.levels().zip(all.levels()).take(n_whole).all(|(a, b)| a == b));
                assert!((tail.sums.weight / all.sums.weight - 1.0).abs() < 1e-6);
            }
            (tail, all) => assert_eq!(tail, all),
        }
        found.tail.clone_from(&expected.tail);
        for (found, expected) in found.candidates.iter_mut().zip(&expected.candidates) {
            for (found, expected) in [
                (&mut found.p_raw, expected.p_raw),
                (&mut found.p_temperature, expected.p_temperature),
                (&mut found.p_final, expected.p_final),
                (&mut found.cumulative, expected.cumulative),
            ] {
                round_to(found, expected);
            }
        }
        for (found, expected) in [
            (&mut found.p, expected.p),
            (&mut found.surprisal_bits, expected.surprisal_bits),
            (&mut found.nucleus_mass, expected.nucleus_mass),
            (&mut found.entropy_bits, expected.entropy_bits),
        ] {
            round_to(found, expected);
        }
        assert_eq!(&found, expected);
    }
}

/// `expected`, where that is a rounding away.
fn round_to(found: &mut f32, expected: f32) {
    if (*found - expected).abs() <= 1e-6 * expected {
        *found = expected;
    }
}

#[test]
fn the_top_gives_the_same_run_as_all_logits() {
    struct Case {
        name: &'static str,
        options: GenerateOptions,
        /// Steps of 12 for which all logits are read.
        n_read: std::ops::RangeInclusive<usize>,
    }
    let case = |name, n_read, change: fn(&mut GenerateOptions)| Case { name, options: unpenalised(change), n_read };
    let cases = [
        case("greedy", 0..=0, |options| options.sampling.temperature = 0.0),
        case("few are kept", 0..=0, |options| options.sampling.top_k = 5),
        case("a nucleus at times longer than the list", 1..=11, |options| options.sampling.top_p = 0.64),
        case("nothing cut, some draws past the list", 1..=11, |options| {
            options.sampling = SamplingOptions { temperature: 0.4, top_p: 1.0, ..options.sampling.clone() };
        }),
        case("more candidates than the list has", 12..=12, |options| options.candidates = 20),
        case("a token past the list is forced", 1..=1, |options| {
            options.sampling.temperature = 0.0;
            options.force_ids = vec![super::EOS];
            options.ignore_eos = true;
        }),
        case("without the cache", 0..=0, |options| {
            options.sampling.top_k = 5;
            options.kv_cache = false;
        }),
        // All logits are asked for in the forward pass, so none later.
        case("a penalty", 0..=0, |options| options.sampling.repetition_penalty = 1.1),
        case("a token is suppressed", 0..=0, |options| options.sampling.suppress = vec![4]),
        // All are wanted for the five steps in which the ends are forbidden, and only then.
        case("ends are forbidden at first", 0..=0, |options| {
            options.min_new_tokens = 5;
            options.sampling.top_k = 5;
        }),
        case("a filter by entropy after top-k", 0..=0, |options| {
            options.sampling = SamplingOptions { top_k: 8, typical_p: 0.6, ..options.sampling.clone() };
        }),
        case("a filter by entropy alone", 0..=0, |options| {
            options.sampling = SamplingOptions { top_p: 1.0, typical_p: 0.6, ..options.sampling.clone() };
        }),
    ];
    for Case { name, options, n_read } in cases {
        let expected = run(options.clone(), &[1, 2, 3, 4, 5], &mut HashBackend::default());
        let mut backend = HashBackend { n_best: Some(10), ..HashBackend::default() };
        let found = run(options, &[1, 2, 3, 4, 5], &mut backend);
        assert_same_run(&found, &expected);
        assert!(n_read.contains(&backend.n_read_all), "{name}: all logits were read {} times", backend.n_read_all);
        assert_eq!(found.steps.len(), 12, "{name}");
        let n_timed = found.steps.iter().filter(|step| step.ms.readback > 0.0).count();
        assert_eq!(n_timed, backend.n_read_all, "{name}: steps with a time for reading");
        for step in &found.steps {
            let ms = step.ms;
            assert!(ms.sample > 0.0, "{name}: {ms:?}");
            assert!((ms.total - ms.forward - ms.sample - ms.readback).abs() < 1e-9, "{name}: {ms:?}");
        }
    }
}

#[test]
fn sums_that_are_not_finite_lead_to_the_logit_that_is_not() {
    let mut backend = HashBackend { n_best: Some(10), nan_at: Some(0), ..HashBackend::default() };
    let error = advance(&mut session(unpenalised(|_| {}), &[1, 2]), &mut backend).unwrap_err();
    assert_eq!((error.kind(), backend.n_read_all), ("non-finite-logits", 1));
    assert!(error.to_string().contains("token 3"), "{error}");
}
