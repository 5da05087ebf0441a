//! Whole runs on the real model, on both engines: greedy text against llama.cpp's, the KV cache on and off, one run after another.

#[path = "support/model.rs"]
mod model;

use model::{Loaded, default_file, default_model, fixture, floats, gpu_backend, ids, open_gpu};
use nucleus::backend::gpu::GpuBackend;
use nucleus::backend::{Backend, cpu, gpu};
use nucleus::generate::{Limits, Progress, Session};
use nucleus::protocol::{GenerateOptions, Prompt, RunResult, SamplingOptions, StepRecord, StopReason};
use pollster::block_on;

/// Below this margin between the two best tokens, quantization noise may choose (SEMANTICS.md, "Numbers").
const CLEAR_MARGIN: f64 = 0.5;

fn greedy(max_new_tokens: u32) -> GenerateOptions {
    GenerateOptions {
        prompt: Prompt::Ids(Vec::new()),
        max_new_tokens,
        min_new_tokens: 0,
        sampling: SamplingOptions { temperature: 0.0, ..SamplingOptions::OFF },
        stop: Vec::new(),
        ignore_eos: true,
        max_time_ms: None,
        kv_cache: true,
        candidates: 2,
        resume_ids: Vec::new(),
        force_ids: Vec::new(),
        reuse_cache: false,
    }
}

fn run(model: &mut Loaded, prompt: &[u32], options: GenerateOptions) -> (Vec<StepRecord>, RunResult) {
    run_on(model, prompt, options, cpu::BATCH)
}

fn run_on<B: Backend>(
    model: &mut Loaded<B>,
    prompt: &[u32],
    options: GenerateOptions,
    prefill_batch: usize,
) -> (Vec<StepRecord>, RunResult) {
    run_after(model, prompt, options, prefill_batch, &[])
}

/// `cached`: the ids that the model's KV cache holds.
fn run_after<B: Backend>(
    model: &mut Loaded<B>,
    prompt: &[u32],
    options: GenerateOptions,
    prefill_batch: usize,
    cached: &[u32],
) -> (Vec<StepRecord>, RunResult) {
    let limits =
        Limits { context_length: model.config.context_length, vocab_size: model.config.vocab_size, prefill_batch };
    let mut session = Session::new(options, prompt.to_vec(), limits, model.tokenizer.eos()).unwrap();
    session.reuse(cached);
    let mut steps = Vec::new();
    loop {
        match block_on(session.advance(&mut model.backend, &model.tokenizer)).unwrap() {
            Progress::Prefill { .. } => {}
            Progress::Step(step) => steps.push(*step),
            Progress::Finished(result) => return (steps, result),
        }
    }
}

fn default_model_on_gpu() -> Loaded<GpuBackend> {
    let Loaded { tokenizer, config, .. } = default_model();
    let load = async { gpu_backend(&open_gpu().await, &default_file(), config.context_length).await };
    Loaded { backend: block_on(load).unwrap(), tokenizer, config }
}

#[test]
fn greedy_tokens_equal_llama_cpp_wherever_the_margin_is_clear() {
    follow_llama_cpp(&mut default_model(), cpu::BATCH);
}

#[test]
fn greedy_tokens_on_the_gpu_equal_llama_cpp_wherever_the_margin_is_clear() {
    follow_llama_cpp(&mut default_model_on_gpu(), gpu::BATCH);
}

fn follow_llama_cpp<B: Backend>(model: &mut Loaded<B>, prefill_batch: usize) {
    let (mut clear, mut all) = (0, 0);
    for case in fixture("smollm2-135m-q4_1.json")["forward"].as_array().unwrap() {
        let expected = ids(&case["greedy"]);
        let margins = floats(&case["greedy_margin"]);
        assert_eq!((expected.len(), margins.len()), (48, 48));
        // Along the fixture's own text, so that one near-tie does not end the comparison.
        let options = GenerateOptions { force_ids: expected.clone(), ..greedy(48) };
        let (steps, result) = run_on(model, &ids(&case["ids"]), options, prefill_batch);
        assert_eq!(result.text, case["greedy_text"].as_str().unwrap());
        for (step, (expected, margin)) in steps.iter().zip(expected.iter().zip(margins)) {
            all += 1;
            if margin > CLEAR_MARGIN {
                clear += 1;
                assert_eq!(step.candidates[0].id, *expected, "{} step {}, margin {margin}", case["prompt"], step.index);
            }
        }
    }
    println!("{clear} of {all} tokens had a clear margin");
    assert!(all == 4 * 48 && clear > all / 2);
}

/// The top of the distribution, found on the GPU, leads to the same draws as the CPU engine's whole vector.
#[test]
fn both_engines_draw_the_same_tokens_with_and_without_the_kv_cache() {
    let (mut cpu, mut gpu) = (default_model(), default_model_on_gpu());
    let prompt = cpu.tokenizer.encode("The old lighthouse keeper", false).unwrap();
    let mut options = greedy(16);
    options.candidates = 64;
    options.sampling = SamplingOptions { temperature: 0.7, top_p: 0.9, seed: 7, ..options.sampling };
    let (expected, _) = run(&mut cpu, &prompt, options.clone());
    for kv_cache in [true, false] {
        let (steps, _) = run_on(&mut gpu, &prompt, GenerateOptions { kv_cache, ..options.clone() }, gpu::BATCH);
        for (step, expected) in steps.iter().zip(&expected) {
            assert_eq!((step.id, step.u), (expected.id, expected.u), "step {}", step.index);
            // The CPU engine rounds most activations to eight bits: up to 0.03 and 0.12 were seen.
            assert!((step.p - expected.p).abs() < 0.06 && step.nucleus_size.abs_diff(expected.nucleus_size) <= 4);
            assert!((step.entropy_bits - expected.entropy_bits).abs() < 0.25, "step {}", step.index);
            assert_eq!(step.candidates.len(), 64);
        }
        assert_eq!(steps.len(), 16);
    }
}

#[test]
fn kv_cache_on_and_off_give_the_same_tokens() {
    let mut model = default_model();
    let prompt = model.tokenizer.encode("The old lighthouse keeper", false).unwrap();
    let mut sampled = greedy(24);
    sampled.sampling = SamplingOptions { temperature: 0.7, top_p: 0.9, seed: 7, ..sampled.sampling };
    for options in [greedy(24), sampled] {
        let (on, _) = run(&mut model, &prompt, options.clone());
        let (off, _) = run(&mut model, &prompt, GenerateOptions { kv_cache: false, ..options });
        assert_eq!(on.len(), 24);
        for (on, off) in on.iter().zip(&off) {
            assert_eq!(on.id, off.id, "step {}", on.index);
            assert!((on.candidates[0].logit - off.candidates[0].logit).abs() < 1e-3, "step {}", on.index);
            let expected = if on.index == 0 { prompt.len() as u32 } else { 1 };
            assert_eq!((on.positions_computed, off.positions_computed), (expected, prompt.len() as u32 + on.index));
        }
    }
}

/// On the cache of the run before, cut at the branch: the logits are those of a run of the same ids from nothing.
fn branch_and_fresh_run<B: Backend>(model: &mut Loaded<B>, batch: usize) -> [Vec<StepRecord>; 2] {
    let prompt = model.tokenizer.encode("The old lighthouse keeper", false).unwrap();
    let mut options = GenerateOptions { candidates: 64, ..greedy(16) };
    options.sampling = SamplingOptions { temperature: 0.7, top_p: 0.9, seed: 7, ..options.sampling };
    let (steps, root) = run_on(model, &prompt, options.clone(), batch);
    let at = 6;
    let other = steps[at].candidates.iter().map(|c| c.id).find(|&id| id != steps[at].id).unwrap();
    let cached = [&prompt[..], &root.ids].concat();
    let resume_ids = root.ids[..at].to_vec();
    let force_ids = vec![other];
    let branch = GenerateOptions { resume_ids, force_ids, reuse_cache: true, ..options.clone() };
    let (found, result) = run_after(model, &prompt, branch, batch, &cached[..cached.len() - 1]);
    assert_eq!(result.reused_tokens as usize, prompt.len() + at - 1);
    assert!(found.iter().all(|step| step.positions_computed == 1) && found.len() == 10);
    let force_ids = [&root.ids[..at], &[other]].concat();
    let (fresh, _) = run_on(model, &prompt, GenerateOptions { force_ids, ..options }, batch);
    [found, fresh[at..].to_vec()]
}

#[test]
fn a_branch_has_the_logits_of_a_fresh_run_to_the_bit() {
    let [found, fresh] = branch_and_fresh_run(&mut default_model(), cpu::BATCH);
    for (step, fresh) in found.iter().zip(&fresh) {
        assert_eq!((step.id, step.index, step.u), (fresh.id, fresh.index, fresh.u));
        assert_eq!(step.candidates, fresh.candidates, "step {}", step.index);
    }
    assert_eq!(found.len(), fresh.len());
}

#[test]
fn on_the_gpu_a_branch_has_the_logits_of_a_fresh_run_within_rounding() {
    let [found, fresh] = branch_and_fresh_run(&mut default_model_on_gpu(), gpu::BATCH);
    for (step, fresh) in found.iter().zip(&fresh) {
        assert_eq!((step.id, step.index, step.u), (fresh.id, fresh.index, fresh.u));
        for (candidate, fresh) in step.candidates.iter().zip(&fresh.candidates).take(8) {
            assert_eq!(candidate.id, fresh.id);
            assert!((candidate.logit - fresh.logit).abs() < 1e-3, "{candidate:?} {fresh:?}");
        }
    }
    assert_eq!(found.len(), fresh.len());
}

#[test]
fn a_then_b_then_a_gives_the_same_a() {
    let mut model = default_model();
    let a = model.tokenizer.encode("Once upon a time", false).unwrap();
    let b = model.tokenizer.encode("def fibonacci(n):\n    if n < 2:\n        return n\n", false).unwrap();
    let first = run(&mut model, &a, greedy(16)).0;
    run(&mut model, &b, greedy(16));
    let again = run(&mut model, &a, greedy(16)).0;
    let logits = |steps: &[StepRecord]| steps.iter().map(|step| step.candidates[0].logit.to_bits()).collect::<Vec<_>>();
    assert_eq!(logits(&first), logits(&again));
}

#[test]
fn streamed_text_equals_the_batch_decode() {
    let mut model = default_model();
    let prompt = model.tokenizer.encode("Translate:", false).unwrap();
    let text = "日本語のテキスト 🙂🙂 👩‍👩‍👧‍👦 family 🇯🇵 हिन्दी العربية — naïve\n";
    let forced = model.tokenizer.encode(text, false).unwrap();
    let n = forced.len() as u32;
    let (steps, result) = run(&mut model, &prompt, GenerateOptions { force_ids: forced.clone(), ..greedy(n) });
    let streamed: String = steps.iter().map(|step| step.text.as_str()).collect();
    assert_eq!(streamed, text);
    assert_eq!(result.text, model.tokenizer.decode(&forced));
    assert_eq!(steps.len(), forced.len(), "no token without its step");
    let bytes: Vec<u8> = steps.iter().flat_map(|step| step.bytes.clone()).collect();
    assert_eq!(bytes, text.as_bytes(), "a chip for every byte");
}

#[test]
fn a_chat_turn_ends_with_its_end_of_turn_token() {
    let mut model = default_model();
    let prompt = "<|im_start|>user\nWhat is 2+2?<|im_end|>\n<|im_start|>assistant\n";
    let prompt = model.tokenizer.encode(prompt, true).unwrap();
    let (_, result) = run(&mut model, &prompt, GenerateOptions { ignore_eos: false, ..greedy(100) });
    assert_eq!(result.stop_reason, StopReason::Eos);
    assert!(!result.text.contains("<|im_end|>"));
}
