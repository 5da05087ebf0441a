//! The session: stop rules, cache switching, cancelling, streaming text, reading back, refusals.

mod branches;
#[path = "../support/hash_backend.rs"]
mod hash_backend;
mod processors;
mod readback;

use hash_backend::{Alphabet, EOS, HashBackend, LIMITS};
use nucleus::error::Result;
use nucleus::generate::{Limits, Progress, Session};
use nucleus::protocol::{GenerateOptions, Prompt, RunResult, SamplingOptions, StepRecord, StopReason};
use nucleus::tokenizer::TokenBytes;
use pollster::block_on;

fn options() -> GenerateOptions {
    GenerateOptions {
        prompt: Prompt::Ids(Vec::new()),
        max_new_tokens: 12,
        min_new_tokens: 0,
        sampling: SamplingOptions {
            repetition_penalty: 1.1,
            temperature: 0.8,
            top_p: 0.9,
            seed: 3,
            ..SamplingOptions::OFF
        },
        stop: Vec::new(),
        ignore_eos: false,
        max_time_ms: None,
        kv_cache: true,
        candidates: 5,
        resume_ids: Vec::new(),
        force_ids: Vec::new(),
        reuse_cache: false,
    }
}

fn session(options: GenerateOptions, prompt: &[u32]) -> Session {
    Session::new(options, prompt.to_vec(), LIMITS, &[EOS]).unwrap()
}

fn advance(session: &mut Session, backend: &mut HashBackend) -> Result<Progress> {
    block_on(session.advance(backend, &Alphabet::new()))
}

struct Run {
    steps: Vec<StepRecord>,
    /// (done, total) of each batch before a step.
    prefills: Vec<(usize, usize)>,
    result: RunResult,
}

/// Runs to the end. `before` is called before each unit of work with the steps so far.
fn run_with(mut session: Session, backend: &mut HashBackend, mut before: impl FnMut(&mut Session, usize)) -> Run {
    let (mut steps, mut prefills) = (Vec::new(), Vec::new());
    loop {
        before(&mut session, steps.len());
        let is_over = session.is_over();
        match advance(&mut session, backend).unwrap() {
            Progress::Prefill { done, total } => prefills.push((done, total)),
            Progress::Step(step) => steps.push(*step),
            Progress::Finished(result) => {
                let (steps_text, ids) = steps.iter().fold((String::new(), Vec::new()), |(text, mut ids), step| {
                    ids.push(step.id);
                    (text + &step.text, ids)
                });
                assert_eq!(ids, result.ids);
                if is_over && result.stop_reason != StopReason::Cancelled {
                    assert_eq!(steps_text, result.text);
                } else {
                    assert!(result.text.starts_with(&steps_text));
                }
                return Run { steps, prefills, result };
            }
        }
        assert!(!is_over, "work was done after the end");
    }
}

fn run(options: GenerateOptions, prompt: &[u32], backend: &mut HashBackend) -> Run {
    run_with(session(options, prompt), backend, |_, _| {})
}

/// A run that is led through these pieces, all of one token each.
fn led(pieces: &[&[u8]], change: impl FnOnce(&mut GenerateOptions)) -> Run {
    let mut options = options();
    options.force_ids = Alphabet::new().ids(pieces);
    options.max_new_tokens = pieces.len() as u32;
    change(&mut options);
    run(options, &[0], &mut HashBackend::default())
}

fn texts(run: &Run) -> Vec<&str> {
    run.steps.iter().map(|step| step.text.as_str()).collect()
}

#[test]
fn prompt_goes_in_batches_and_each_token_alone() {
    let mut backend = HashBackend { cache: vec![9, 9, 9], ..HashBackend::default() };
    let prompt: Vec<u32> = (0..10).collect();
    let run = run(options(), &prompt, &mut backend);
    assert_eq!(run.prefills, [(4, 10), (8, 10)]);
    assert_eq!(backend.batches[..3], [4, 4, 2]);
    assert_eq!(backend.batches[3..], [1; 11]);
    assert_eq!(run.result.stop_reason, StopReason::Length);
    assert_eq!((run.result.prompt_tokens, run.result.new_tokens, run.result.seed), (10, 12, 3));
    assert_eq!(run.result.text, Alphabet::new().decode(&run.result.ids));
    for (i, step) in (0u32..).zip(&run.steps) {
        assert_eq!((step.index, step.position, step.kv_length), (i, 10 + i, 10 + i));
        assert_eq!(step.positions_computed, if i == 0 { 10 } else { 1 });
        assert_eq!(step.bytes, Alphabet::new().token_bytes(step.id));
        assert_eq!(step.candidates.len(), 5);
        assert!(step.candidates.iter().all(|c| c.bytes == Alphabet::new().token_bytes(c.id)));
        assert!(step.ms.total >= step.ms.forward + step.ms.sample - 1e-9 && step.ms.forward >= 0.0, "{:?}", step.ms);
    }
    assert!(run.result.decode_ms > 0.0 && run.result.decode_tokens_per_s > 0.0);
    // The prompt's passes and no others.
    assert_eq!(run.result.prefill_ms, run.steps[0].ms.forward);
    assert!(run.result.ttft_ms >= run.result.prefill_ms && run.result.prefill_tokens_per_s > 0.0);
}

#[test]
fn without_the_cache_every_token_computes_all_positions() {
    let prompt = [5, 6, 7, 8, 9];
    let with_cache = run(options(), &prompt, &mut HashBackend::default());
    let mut backend = HashBackend::default();
    let without = run(GenerateOptions { kv_cache: false, ..options() }, &prompt, &mut backend);
    assert_eq!(without.result.ids, with_cache.result.ids);
    assert_eq!(without.result.text, with_cache.result.text);
    let computed: Vec<u32> = without.steps.iter().map(|step| step.positions_computed).collect();
    assert_eq!(computed, (5..17).collect::<Vec<_>>());
    assert_eq!(backend.batches.iter().sum::<usize>(), (5..17).sum::<usize>());
    // Its batches are reported, so that Stop need not wait for a whole token.
    assert_eq!(without.prefills[..4], [(4, 5), (4, 6), (4, 7), (4, 8)]);
    assert_eq!(without.prefills[4..6], [(4, 9), (8, 9)]);
}

#[test]
fn cache_can_be_switched_at_any_time() {
    let prompt = [5, 6, 7, 8, 9];
    let expected = run(options(), &prompt, &mut HashBackend::default()).result.ids;
    // Off for the steps 3 to 6: 8, 9, 10, 11 positions; then on again.
    let switched = run_with(session(options(), &prompt), &mut HashBackend::default(), |session, n_steps| {
        session.set_kv_cache(!(3..7).contains(&n_steps));
    });
    assert_eq!(switched.result.ids, expected);
    let computed: Vec<u32> = switched.steps.iter().map(|step| step.positions_computed).collect();
    assert_eq!(computed, [5, 1, 1, 8, 9, 10, 11, 1, 1, 1, 1, 1]);
    // Back and forth at every unit of work, in the middle of a step's batches too.
    let mut on = false;
    let flickering = run_with(session(options(), &prompt), &mut HashBackend::default(), |session, _| {
        on = !on;
        session.set_kv_cache(on);
    });
    assert_eq!(flickering.result.ids, expected);
}

#[test]
fn runs_do_not_depend_on_the_run_before() {
    let mut backend = HashBackend::default();
    let (a, b) = ([1, 2, 3, 4, 5, 6], [7, 8]);
    let first = run(options(), &a, &mut backend);
    let other = run(options(), &b, &mut backend);
    let again = run(options(), &a, &mut backend);
    assert_ne!(first.result.ids, other.result.ids);
    assert_eq!(first.result.ids, again.result.ids);
    let computed = |run: &Run| run.steps.iter().map(|step| step.positions_computed).collect::<Vec<_>>();
    assert_eq!(computed(&first), computed(&again));
}

#[test]
fn end_of_sequence_is_a_step_without_text() {
    let run_to_end = |change: fn(&mut GenerateOptions)| led(&[b"h", b"i", b"<|end|>", b"x"], change);
    let run = run_to_end(|_| {});
    assert_eq!((run.result.stop_reason, run.result.text.as_str()), (StopReason::Eos, "hi"));
    assert_eq!((run.result.ids.len(), run.steps[2].id), (3, EOS));
    assert_eq!((run.steps[2].text.as_str(), run.steps[2].bytes.as_slice()), ("", &b"<|end|>"[..]));
    let ignoring = run_to_end(|options| options.ignore_eos = true);
    assert_eq!((ignoring.result.stop_reason, ignoring.result.text.as_str()), (StopReason::Length, "hix"));
}

#[test]
fn every_end_of_the_set_ends_the_run() {
    for eos in [2, 11] {
        let options = GenerateOptions { force_ids: vec![0, eos], ..options() };
        let session = Session::new(options, vec![0], LIMITS, &[11, 2, 30]).unwrap();
        let run = run_with(session, &mut HashBackend::default(), |_, _| {});
        assert_eq!((run.result.stop_reason, run.result.ids), (StopReason::Eos, vec![0, eos]));
    }
}

#[test]
fn end_of_sequence_releases_held_text() {
    let run = led(&[b"x", b"e", b"n", b"\xf0\x9f", b"<|end|>"], |options| options.stop = vec!["end".into()]);
    assert_eq!(texts(&run), ["x", "", "", "", "en\u{fffd}"]);
    assert_eq!(run.result.stop_reason, StopReason::Eos);
}

#[test]
fn stop_strings_straddle_tokens() {
    struct Case {
        stop: &'static [&'static str],
        pieces: &'static [&'static [u8]],
        texts: &'static [&'static str],
        reason: StopReason,
    }
    use StopReason::{Length, Stop};
    let cases = [
        Case {
            stop: &["end"],
            pieces: &[b"g", b"o", b"e", b"n", b"d", b"x"],
            texts: &["g", "o", "", "", ""],
            reason: Stop,
        },
        // Held back, then not a stop string after all.
        Case {
            stop: &["end"],
            pieces: &[b"e", b"n", b"e", b"n", b"t"],
            texts: &["", "", "en", "", "ent"],
            reason: Length,
        },
        // The run ends while text is held back.
        Case { stop: &["end"], pieces: &[b"g", b"e", b"n"], texts: &["g", "", "en"], reason: Length },
        // One token holds the end of the match and more.
        Case { stop: &["ab "], pieces: &[b"x", b"a", b"b c"], texts: &["x", "", ""], reason: Stop },
        Case { stop: &[" "], pieces: &[b"x", b"b c"], texts: &["x", "b"], reason: Stop },
        // One stop string is the end of another.
        Case { stop: &["ab", "aab"], pieces: &[b"x", b"a", b"a", b"b"], texts: &["x", "", "", ""], reason: Stop },
        Case { stop: &["ab", "aab"], pieces: &[b"x", b"aab"], texts: &["x", ""], reason: Stop },
        // At the very start.
        Case { stop: &["hi"], pieces: &[b"h", b"i", b"x"], texts: &["", ""], reason: Stop },
    ];
    for Case { stop, pieces, texts, reason } in cases {
        let run = led(pieces, |options| options.stop = stop.iter().map(|s| s.to_string()).collect());
        assert_eq!((self::texts(&run), run.result.stop_reason), (texts.to_vec(), reason), "{stop:?} {pieces:?}");
        assert_eq!(run.result.ids.len(), texts.len());
    }
}

#[test]
fn stop_strings_and_split_characters() {
    let smile: [&[u8]; 3] = [b"\xf0\x9f", b"\x99", b"\x82"];
    let pieces = [&[&b"x"[..]], &smile[..], &[&b"y"[..]]].concat();
    let run = led(&pieces, |options| options.stop = vec!["🙂".into()]);
    assert_eq!((texts(&run), run.result.stop_reason), (vec!["x", "", "", ""], StopReason::Stop));
    // Another emoji that begins with the same bytes is not held back for longer than its own bytes take.
    let run = led(&pieces, |options| options.stop = vec!["🙃".into()]);
    assert_eq!((texts(&run), run.result.stop_reason), (vec!["x", "", "", "🙂", "y"], StopReason::Length));
    // In the middle of a token of several characters.
    let run = led(&["é".as_bytes(), "日本".as_bytes(), b"x"], |options| options.stop = vec!["é日".into()]);
    assert_eq!((texts(&run), run.result.stop_reason), (vec!["", ""], StopReason::Stop));
}

#[test]
fn characters_split_over_tokens_come_out_whole() {
    let run = led(&[b"a", b"\xf0\x9f", b"\x99", b"\x82", b"\xff", b"z", b"\xf0\x9f", b"\x99"], |_| {});
    assert_eq!(texts(&run), ["a", "", "", "🙂", "\u{fffd}", "z", "", "\u{fffd}"]);
    assert_eq!(run.result.text, Alphabet::new().decode(&run.result.ids));
}

#[test]
fn no_new_tokens_means_no_work() {
    let mut backend = HashBackend::default();
    let run = run(GenerateOptions { max_new_tokens: 0, ..options() }, &[1, 2], &mut backend);
    assert_eq!((run.result.stop_reason, run.result.text.as_str()), (StopReason::Length, ""));
    assert_eq!((run.result.new_tokens, run.result.ttft_ms, run.result.decode_tokens_per_s), (0, 0.0, 0.0));
    assert!(backend.batches.is_empty());
}

#[test]
fn a_full_context_ends_the_run() {
    let long = GenerateOptions { max_new_tokens: u32::MAX, ..options() };
    for (n_prompt, n_new) in [(64, 0), (63, 1), (62, 2), (1, 63)] {
        let run = run(long.clone(), &vec![1; n_prompt], &mut HashBackend::default());
        assert_eq!(
            (run.result.stop_reason, run.result.ids.len()),
            (StopReason::Context, n_new),
            "prompt of {n_prompt}"
        );
    }
    let error = Session::new(long, vec![1; 65], LIMITS, &[]).err().unwrap();
    assert_eq!(error.kind(), "prompt-too-long");
    assert!(error.to_string().contains("65") && error.to_string().contains("64"), "{error}");
}

#[test]
fn cancel_keeps_the_text() {
    let mut options = GenerateOptions { stop: vec!["end".into()], ..options() };
    options.force_ids = Alphabet::new().ids(&[b"g", b"e", b"n"]);
    let run = run_with(session(options, &[0]), &mut HashBackend::default(), |session, n_steps| {
        if n_steps == 3 {
            session.cancel();
        }
    });
    assert_eq!((run.result.stop_reason, run.result.text.as_str()), (StopReason::Cancelled, "gen"));
    assert_eq!((texts(&run), run.result.new_tokens), (vec!["g", "", ""], 3));
}

#[test]
fn cancel_is_immediate_at_every_stage() {
    // Before the first unit of work; in the prompt; in the batches of a token without cache.
    for (n_units, n_tokens) in [(0, 0), (1, 0), (4, 1)] {
        let mut backend = HashBackend::default();
        let mut session = session(GenerateOptions { kv_cache: false, ..options() }, &[1; 10]);
        for _ in 0..n_units {
            advance(&mut session, &mut backend).unwrap();
        }
        session.cancel();
        assert!(session.is_over());
        let Progress::Finished(result) = advance(&mut session, &mut backend).unwrap() else { panic!("not finished") };
        assert_eq!((result.stop_reason, result.ids.len()), (StopReason::Cancelled, n_tokens));
        assert_eq!(backend.batches.len(), n_units);
        assert_eq!(advance(&mut session, &mut backend).unwrap_err().kind(), "engine-failed");
    }
}

#[test]
fn a_run_that_ended_by_itself_keeps_its_reason() {
    let run = run_with(session(options(), &[0]), &mut HashBackend::default(), |session, n_steps| {
        if n_steps == 12 {
            session.cancel();
        }
    });
    assert_eq!(run.result.stop_reason, StopReason::Length);
}

#[test]
fn time_limit_is_checked_between_steps() {
    let timed = |max_time_ms| GenerateOptions { max_time_ms: Some(max_time_ms), stop: vec!["zz".into()], ..options() };
    let run_out = run(timed(0.0), &[0], &mut HashBackend::default());
    assert_eq!((run_out.result.stop_reason, run_out.result.ids.len()), (StopReason::Time, 0));

    let mut options = timed(20.0);
    options.force_ids = Alphabet::new().ids(&[b"a", b"z"]);
    let run = run_with(session(options, &[0]), &mut HashBackend::default(), |_, n_steps| {
        if n_steps == 2 {
            std::thread::sleep(std::time::Duration::from_millis(25));
        }
    });
    assert_eq!((run.result.stop_reason, run.result.text.as_str()), (StopReason::Time, "az"));
    assert_eq!(texts(&run), ["a", ""]);

    let plenty = self::run(timed(1e6), &[0], &mut HashBackend::default());
    assert_eq!(plenty.result.stop_reason, StopReason::Length);
}

#[test]
fn forced_tokens_come_first_and_change_no_later_draw() {
    let free = run(options(), &[1, 2], &mut HashBackend::default());
    let force_ids = free.result.ids[..4].to_vec();
    let led = run(GenerateOptions { force_ids, ..options() }, &[1, 2], &mut HashBackend::default());
    assert_eq!(led.result.ids, free.result.ids);
    for (i, (led, free)) in led.steps.iter().zip(&free.steps).enumerate() {
        assert_eq!((led.p, led.rank, &led.candidates), (free.p, free.rank, &free.candidates));
        assert_eq!(led.u, if i < 4 { None } else { free.u });
    }
}

#[test]
fn the_penalty_sees_prompt_and_text() {
    let prompt = [1, 2, 3];
    let mut options = options();
    options.sampling = SamplingOptions { repetition_penalty: 1e6, temperature: 0.0, ..options.sampling };
    // Greedy with a huge penalty: no token of the prompt, and none twice, while any is left.
    let ids = run(GenerateOptions { max_new_tokens: 40, ..options }, &prompt, &mut HashBackend::default()).result.ids;
    let mut distinct: Vec<u32> = ids.iter().chain(&prompt).copied().collect();
    distinct.sort_unstable();
    distinct.dedup();
    assert_eq!(distinct.len(), 43);
}

#[test]
fn an_error_ends_the_session_and_spares_the_backend() {
    let expected = run(options(), &[1, 2, 3, 4, 5], &mut HashBackend::default()).result.ids;
    // In the prompt's first and last batch, and later.
    for pass in [0, 1, 5] {
        let failing = HashBackend { fails_at: Some(pass), ..HashBackend::default() };
        let not_a_number = HashBackend { nan_at: Some(pass.max(1)), ..HashBackend::default() };
        for (mut backend, kind) in [(failing, "backend"), (not_a_number, "non-finite-logits")] {
            let mut session = session(options(), &[1, 2, 3, 4, 5]);
            let error = loop {
                if let Err(error) = advance(&mut session, &mut backend) {
                    break error;
                }
            };
            assert_eq!(error.kind(), kind);
            assert!(session.is_over());
            assert_eq!(advance(&mut session, &mut backend).unwrap_err().kind(), "engine-failed");
            assert_eq!(run(options(), &[1, 2, 3, 4, 5], &mut backend).result.ids, expected);
        }
    }
}

#[test]
fn a_cache_that_somebody_else_filled_is_an_error() {
    let mut backend = HashBackend::default();
    let mut session = session(options(), &[1, 2]);
    advance(&mut session, &mut backend).unwrap();
    backend.cache.extend([7; 20]);
    assert_eq!(advance(&mut session, &mut backend).unwrap_err().kind(), "backend");
}

#[test]
fn bad_runs_are_refused_before_any_work() {
    let kind = |change: fn(&mut GenerateOptions), prompt: &[u32], limits: Limits| {
        let mut options = options();
        change(&mut options);
        Session::new(options, prompt.to_vec(), limits, &[EOS]).err().expect("it was accepted").kind()
    };
    assert_eq!(kind(|_| {}, &[], LIMITS), "empty-prompt");
    assert_eq!(kind(|_| {}, &[1, 50], LIMITS), "bad-token");
    assert_eq!(kind(|options| options.force_ids = vec![50], &[1], LIMITS), "bad-token");
    assert_eq!(kind(|options| options.stop = vec!["x".into(), String::new()], &[1], LIMITS), "bad-option");
    assert_eq!(kind(|options| options.max_time_ms = Some(f64::NAN), &[1], LIMITS), "bad-option");
    assert_eq!(kind(|options| options.max_time_ms = Some(-1.0), &[1], LIMITS), "bad-option");
    assert_eq!(kind(|options| options.sampling.suppress = vec![50], &[1], LIMITS), "bad-token");
    assert_eq!(kind(|options| options.sampling.typical_p = 0.0, &[1], LIMITS), "bad-option");
    assert_eq!(kind(|options| options.sampling.temperature = f32::NAN, &[1], LIMITS), "bad-option");
    assert_eq!(kind(|_| {}, &[1], Limits { prefill_batch: 0, ..LIMITS }), "bad-option");
    assert_eq!(kind(|_| {}, &[1], Limits { context_length: 0, ..LIMITS }), "bad-option");
}
