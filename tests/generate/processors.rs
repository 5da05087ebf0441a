//! What the processors of logits see of a run: how long its text is, and what is in prompt and text already.

use super::hash_backend::{EOS, HashBackend, LIMITS};
use super::{options, run, run_with};
use nucleus::generate::Session;
use nucleus::protocol::{GenerateOptions, SamplingOptions, StopReason};

#[test]
fn ends_are_forbidden_until_the_text_is_long_enough() {
    let run_with_least = |min_new_tokens| {
        let mut options = GenerateOptions { min_new_tokens, ..options() };
        // The ends are the likeliest by far.
        options.sampling =
            SamplingOptions { logit_bias: vec![(EOS, 90.0), (7, 40.0)], temperature: 0.0, ..SamplingOptions::OFF };
        let session = Session::new(options, vec![1, 2, 3], LIMITS, &[EOS, 7]).unwrap();
        run_with(session, &mut HashBackend::default(), |_, _| {}).result
    };
    for (least, expected) in [(0, 1), (1, 2), (5, 6), (11, 12)] {
        let result = run_with_least(least);
        let (last, before) = result.ids.split_last().unwrap();
        assert_eq!((result.stop_reason, result.ids.len(), *last), (StopReason::Eos, expected, EOS));
        assert!(before.iter().all(|id| ![EOS, 7].contains(id)), "{before:?}");
    }
    let never = run_with_least(12);
    assert_eq!((never.stop_reason, never.ids.len()), (StopReason::Length, 12));
    assert_eq!(run_with_least(u32::MAX).stop_reason, StopReason::Length);
}

#[test]
fn no_pair_comes_again_in_prompt_and_text() {
    let prompt = [1, 2, 1, 3];
    let mut options = GenerateOptions { max_new_tokens: 40, ..options() };
    // Three tokens in all but name: nine pairs.
    let likely = vec![(1, 60.0), (2, 60.0), (3, 60.0)];
    options.sampling =
        SamplingOptions { no_repeat_ngram_size: 2, logit_bias: likely, temperature: 0.0, ..SamplingOptions::OFF };
    let ids = run(options, &prompt, &mut HashBackend::default()).result.ids;
    let all = [&prompt[..], &ids].concat();
    let mut pairs: Vec<&[u32]> = all.windows(2).collect();
    pairs.sort_unstable();
    pairs.dedup();
    assert_eq!((ids.len(), pairs.len()), (40, 43));
}
