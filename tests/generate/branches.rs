//! Runs that go on from another one's text, and what they keep of its cache.

use super::{Run, advance, options, run, run_with, session};
use crate::hash_backend::{Alphabet, EOS, HashBackend, LIMITS};
use nucleus::generate::{Progress, Session};
use nucleus::protocol::{GenerateOptions, StopReason};

const PROMPT: [u32; 5] = [5, 6, 7, 8, 9];

/// What a branch at step `at` of a run is asked for: its text up to there, another token, then draws again.
fn branch(at: usize, of: &Run, token: u32) -> GenerateOptions {
    let resume_ids = of.result.ids[..at].to_vec();
    GenerateOptions { resume_ids, force_ids: vec![token], reuse_cache: true, ..options() }
}

/// Runs on the cache that `before` left.
fn run_after(before: &[u32], options: GenerateOptions, backend: &mut HashBackend) -> Run {
    let mut session = session(options, &PROMPT);
    session.reuse(before);
    run_with(session, backend, |_, _| {})
}

#[test]
fn a_branch_computes_one_position_and_takes_the_steps_of_a_fresh_run() {
    let mut backend = HashBackend::default();
    let root = run(options(), &PROMPT, &mut backend);
    for at in [1, 4, 7, 11] {
        let cached = backend.cache.clone();
        let found = run_after(&cached, branch(at, &root, 21), &mut backend);
        // The same ids led from the start, on an empty cache.
        let force_ids = [&root.result.ids[..at], &[21]].concat();
        let fresh = run(GenerateOptions { force_ids, ..options() }, &PROMPT, &mut HashBackend::default());
        assert_eq!(found.result.ids, fresh.result.ids[at..], "at {at}");
        assert_eq!((found.result.reused_tokens, found.steps[0].positions_computed), (4 + at as u32, 1), "at {at}");
        for (step, fresh) in found.steps.iter().zip(&fresh.steps[at..]) {
            assert_eq!((step.index, step.position, step.kv_length), (fresh.index, fresh.position, fresh.kv_length));
            assert_eq!((step.id, step.rank, step.u, step.p), (fresh.id, fresh.rank, fresh.u, fresh.p));
            assert_eq!(step.candidates, fresh.candidates);
        }
        assert_eq!(found.result.text, fresh.result.text[root_text(&root, at).len()..]);
        assert_eq!((found.result.new_tokens as usize, found.result.prompt_tokens), (12 - at, 5));
        // Back to the root's own cache for the next one.
        run_after(&backend.cache.clone(), GenerateOptions { reuse_cache: true, ..options() }, &mut backend);
    }
}

fn root_text(root: &Run, at: usize) -> String {
    Alphabet::new().decode(&root.result.ids[..at])
}

#[test]
fn only_the_common_beginning_is_reused() {
    let mut backend = HashBackend::default();
    let expected = run(options(), &PROMPT, &mut HashBackend::default()).result.ids;
    for (cached, n_reused) in [
        (vec![], 0),
        (vec![5, 6, 7], 3),
        (vec![5, 6, 7, 8, 9], 4),
        (vec![5, 6, 1, 8, 9], 2),
        (vec![9], 0),
        ([&PROMPT[..], &[1; 30]].concat(), 4),
    ] {
        backend.cache.clone_from(&cached);
        let found = run_after(&cached, GenerateOptions { reuse_cache: true, ..options() }, &mut backend);
        assert_eq!(found.result.ids, expected, "{cached:?}");
        assert_eq!(found.result.reused_tokens, n_reused, "{cached:?}");
        assert_eq!(found.steps[0].positions_computed, 5 - n_reused, "{cached:?}");
    }
}

#[test]
fn without_the_option_or_the_cache_nothing_is_reused() {
    let off = GenerateOptions { kv_cache: false, reuse_cache: true, ..options() };
    for options in [options(), off] {
        let mut backend = HashBackend { cache: PROMPT.to_vec(), ..HashBackend::default() };
        let found = run_after(&PROMPT, options, &mut backend);
        assert_eq!((found.result.reused_tokens, found.steps[0].positions_computed), (0, 5));
    }
}

#[test]
fn a_resumed_run_makes_the_steps_that_are_left() {
    let whole = run(options(), &PROMPT, &mut HashBackend::default());
    for n in [1, 6, 11, 12] {
        let resume_ids = whole.result.ids[..n].to_vec();
        let rest = run(GenerateOptions { resume_ids, ..options() }, &PROMPT, &mut HashBackend::default());
        assert_eq!(rest.result.ids, whole.result.ids[n..], "after {n}");
        assert_eq!(rest.result.stop_reason, StopReason::Length);
        let draws = |run: &Run| run.steps.iter().map(|step| step.u).collect::<Vec<_>>();
        assert_eq!(draws(&rest), draws(&whole)[n..], "after {n}");
    }
}

#[test]
fn stop_strings_and_characters_may_begin_in_the_text_before() {
    let pieces = |pieces: &[&[u8]]| Alphabet::new().ids(pieces);
    let resumed = |before: &[&[u8]], after: &[&[u8]]| {
        let mut options = GenerateOptions { resume_ids: pieces(before), force_ids: pieces(after), ..options() };
        options.max_new_tokens = (before.len() + after.len()) as u32;
        options.stop = vec!["end".into()];
        run(options, &PROMPT, &mut HashBackend::default()).result
    };
    let stopped = resumed(&[b"a", b"e", b"n"], &[b"d", b"x"]);
    assert_eq!((stopped.stop_reason, stopped.text.as_str(), stopped.ids.len()), (StopReason::Stop, "", 1));
    let gone_on = resumed(&[b"a", b"e", b"n"], &[b"o", b"x"]);
    assert_eq!(gone_on.text, "enox", "what was held back comes with the first step");
    assert_eq!(resumed(&[b"\xf0\x9f", b"\x99"], &[b"\x82"]).text, "🙂");
    assert_eq!(resumed(&[b"e", b"n", b"d"], &[b"x"]).stop_reason, StopReason::Stop);
}

#[test]
fn a_run_that_never_begins_says_nothing_of_the_cache() {
    let mut backend = HashBackend { cache: vec![1, 2, 3], ..HashBackend::default() };
    let mut session = session(options(), &PROMPT);
    session.reuse(&[1, 2, 3]);
    session.cancel();
    let Ok(Progress::Finished(result)) = advance(&mut session, &mut backend) else { panic!("it went on") };
    assert_eq!((result.reused_tokens, session.cached_ids(3)), (0, &[][..]));
}

#[test]
fn after_a_run_its_ids_are_in_the_cache() {
    let mut backend = HashBackend::default();
    let mut session = session(options(), &PROMPT);
    while !matches!(advance(&mut session, &mut backend), Ok(Progress::Finished(_))) {}
    assert_eq!(session.cached_ids(backend.cache.len()), backend.cache);
    assert_eq!(backend.cache.len(), 16, "the last token has not been through the model");
}

#[test]
fn text_to_resume_from_is_checked_as_a_prompt_is() {
    let kind = |resume_ids: Vec<u32>| {
        let options = GenerateOptions { resume_ids, ..options() };
        Session::new(options, PROMPT.to_vec(), LIMITS, &[EOS]).err().map(|error| error.kind())
    };
    assert_eq!(kind(vec![50]), Some("bad-token"));
    assert_eq!(kind(vec![1; 60]), Some("prompt-too-long"));
    assert_eq!(kind(vec![1; 59]), None);
}
