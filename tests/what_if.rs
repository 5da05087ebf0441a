//! "What if" against fresh runs: the sampler on the whole vector, with the settings that were moved, and the same draw.

#[path = "support/top.rs"]
mod give_top;

use nucleus::logits::{Logits, Top};
use nucleus::page::what_if::{Settings, Verdict, WhatIf};
use nucleus::protocol::{GenerateOptions, Prompt, SamplerOrder, SamplingOptions, StepMs, StepRecord};
use nucleus::sampling::{Sampled, Sampler, draws};

const N_STEPS: u32 = 40;

fn options(sampling: &SamplingOptions, force_ids: Vec<u32>) -> GenerateOptions {
    GenerateOptions {
        prompt: Prompt::Ids(vec![1]),
        max_new_tokens: N_STEPS,
        min_new_tokens: 0,
        sampling: sampling.clone(),
        stop: Vec::new(),
        ignore_eos: true,
        max_time_ms: None,
        kv_cache: true,
        candidates: 64,
        force_ids,
        resume_ids: Vec::new(),
        reuse_cache: false,
    }
}

fn hash(i: u32) -> u32 {
    let x = i.wrapping_mul(2_654_435_761);
    (x ^ x >> 15).wrapping_mul(2_246_822_519) >> 8
}

/// Like a model's: falling with the logarithm of the rank, by another slope at every step.
fn logits_of(step: u32) -> Vec<f32> {
    if step == 0 {
        let bytes = include_bytes!("fixtures/once_upon_a_time.logits.f32");
        return bytes.as_chunks::<4>().0.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect();
    }
    let slope = 1.2 + (step % 7) as f32 * 0.4;
    (0..8000).map(|i| -slope * (hash(i ^ step << 16) as f32 / (1 << 24) as f32 + 1e-4).ln()).collect()
}

fn whole(step: u32) -> Logits {
    Logits { all: logits_of(step), top: Top::default() }
}

fn record(index: u32, sampled: Sampled) -> StepRecord {
    let Sampled { id, rank, p, surprisal_bits, u, candidates, nucleus_size, nucleus_mass, entropy_bits, tail } =
        sampled;
    StepRecord {
        index,
        position: index + 1,
        kv_length: index + 1,
        positions_computed: 1,
        id,
        text: String::new(),
        bytes: Vec::new(),
        rank,
        p,
        surprisal_bits,
        u,
        candidates,
        nucleus_size,
        nucleus_mass,
        entropy_bits,
        tail,
        ms: StepMs::default(),
    }
}

/// A sampler whose next draw is that of step `index`.
fn sampler_at(sampling: &SamplingOptions, vocab_size: usize, index: u32) -> Sampler {
    let mut sampler = Sampler::new(sampling, vocab_size).unwrap();
    let certain = Logits { all: vec![0.0; vocab_size], top: Top::default() };
    for _ in 0..index {
        sampler.sample(&certain, &[], 0, Some(0)).unwrap();
    }
    sampler
}

fn settings(i: u32) -> Settings {
    let pick = |salt: u32, n: u32| hash(i.wrapping_mul(7) ^ salt << 20) % n;
    Settings {
        temperature: [0.0, 0.3, 0.5, 0.7, 0.85, 1.0, 1.2, 1.7][pick(1, 8) as usize],
        top_p: [0.0, 0.3, 0.5, 0.8, 0.9, 0.95, 1.0][pick(2, 7) as usize],
        top_k: [0, 0, 0, 1, 7, 40][pick(3, 6) as usize],
        min_p: [0.0, 0.0, 0.0, 0.05, 0.2][pick(4, 5) as usize],
    }
}

/// Each step as the run made it, with its logits read back as `read` gives them, and again from what it kept.
fn compare(run: &SamplingOptions, read: impl Fn(&Sampler, u32) -> Logits) -> (usize, usize) {
    let (mut n_known, mut n_unknown) = (0, 0);
    for index in 0..N_STEPS {
        let logits = whole(index);
        let vocab_size = logits.all.len();
        let mut sampler = sampler_at(run, vocab_size, index);
        let seen_by_engine = read(&sampler, index);
        let Some(drawn) = sampler.sample(&seen_by_engine, &[], 64, None).unwrap() else { continue };
        let step = record(index, drawn);
        for i in 0..24 {
            let settings = settings(index * 24 + i);
            let mut what_if = WhatIf::new(&options(run, vec![]), settings, vocab_size as u32).unwrap();
            let fresh = sampler_at(what_if.sampling(), vocab_size, index).sample(&logits, &[], 64, None).unwrap();
            let fresh = fresh.expect("the whole vector decides");
            let verdict = what_if.judge(&step);
            let Some(found) = what_if.recompute(&step) else {
                assert_eq!(verdict, Verdict::Unknown, "{settings:?}");
                n_unknown += 1;
                continue;
            };
            n_known += 1;
            let expected = if fresh.id == step.id { Verdict::Same } else { Verdict::Other(fresh.id) };
            assert_eq!(verdict, expected, "step {index} {settings:?}");
            let exactly = |id, rank, u: Option<f64>, size, candidates: &[nucleus::protocol::Candidate]| {
                let masks: Vec<_> = candidates.iter().map(|c| (c.id, c.kept, c.logit.to_bits())).collect();
                (id, rank, u, size, masks)
            };
            assert_eq!(
                exactly(found.id, found.rank, found.u, found.nucleus_size, &found.candidates),
                exactly(fresh.id, fresh.rank, fresh.u, fresh.nucleus_size, &fresh.candidates),
                "step {index} {settings:?}"
            );
            for (a, b) in found.candidates.iter().zip(&fresh.candidates) {
                for (a, b) in [(a.p_raw, b.p_raw), (a.p_temperature, b.p_temperature), (a.p_final, b.p_final)] {
                    // As near as the sum at that temperature is known from the tail.
                    assert!((a - b).abs() <= 6e-3 * b.abs() + 1e-9, "step {index} {settings:?}: {a}, expected {b}");
                }
            }
        }
    }
    (n_known, n_unknown)
}

#[test]
fn what_was_kept_gives_what_a_fresh_run_gives_or_nothing() {
    let page = SamplingOptions { temperature: 0.7, top_p: 0.9, seed: 11, ..SamplingOptions::OFF };
    let runs = [
        page.clone(),
        SamplingOptions { temperature: 0.0, ..page.clone() },
        SamplingOptions { order: SamplerOrder::LlamaCpp, ..page.clone() },
        SamplingOptions { typical_p: 0.9, epsilon_cutoff: 0.001, ..page },
    ];
    for run in runs {
        let (n_known, n_unknown) = compare(&run, |_, index| whole(index));
        println!("{n_known} known, {n_unknown} not: {run:?}");
        assert!(n_known > 400, "{n_known} known, {n_unknown} not: {run:?}");
    }
}

#[test]
fn a_step_read_back_from_a_gpu_is_recomputed_too() {
    let run = SamplingOptions { temperature: 0.7, top_p: 0.9, seed: 11, ..SamplingOptions::OFF };
    let (n_known, n_unknown) =
        compare(&run, |sampler, index| give_top::give(&logits_of(index), 1024, sampler.wanted(&[])));
    println!("{n_known} known, {n_unknown} not");
    assert!(n_known > 400, "{n_known} known, {n_unknown} not");
}

#[test]
fn the_settings_of_the_run_give_the_run() {
    for temperature in [0.0, 0.7, 1.0] {
        let run = SamplingOptions { temperature, top_p: 0.8, seed: 3, ..SamplingOptions::OFF };
        for index in 0..N_STEPS {
            let logits = whole(index);
            let mut sampler = sampler_at(&run, logits.all.len(), index);
            let step = record(index, sampler.sample(&logits, &[], 64, None).unwrap().unwrap());
            let mut what_if = WhatIf::new(&options(&run, vec![]), Settings::of(&run), logits.all.len() as u32).unwrap();
            if step.nucleus_size > 64 {
                assert_eq!(what_if.recompute(&step), None);
            } else if let Some(again) = what_if.recompute(&step) {
                assert_eq!(again, step, "step {index} at {temperature}");
            } else {
                panic!("step {index} at {temperature} is not decided");
            }
        }
    }
}

#[test]
fn a_given_token_stays_and_its_mask_is_recomputed() {
    let run = SamplingOptions { temperature: 0.7, top_p: 0.9, seed: 11, ..SamplingOptions::OFF };
    let logits = whole(3);
    let mut in_order: Vec<u32> = (0..8000).collect();
    in_order.sort_by(|&a, &b| logits.all[b as usize].total_cmp(&logits.all[a as usize]));
    for rank in [0, 5, 63, 64, 500] {
        let given = in_order[rank];
        let mut sampler = Sampler::new(&run, 8000).unwrap();
        let step = record(0, sampler.sample(&logits, &[], 64, Some(given)).unwrap().unwrap());
        let moved = Settings { top_p: 0.5, ..Settings::of(&run) };
        let mut what_if = WhatIf::new(&options(&run, vec![given]), moved, 8000).unwrap();
        assert_eq!(what_if.judge(&step), Verdict::Same);
        let found = what_if.recompute(&step).unwrap();
        let mut fresh = Sampler::new(what_if.sampling(), 8000).unwrap();
        let fresh = fresh.sample(&logits, &[], 64, Some(given)).unwrap().unwrap();
        assert_eq!((found.id, found.rank, found.u, found.nucleus_size), (given, fresh.rank, None, fresh.nucleus_size));
        assert_eq!(found.p, fresh.p, "rank {rank}");
        assert!(found.candidates.iter().zip(&fresh.candidates).all(|(a, b)| a.kept == b.kept));
        let open = Settings { top_p: 1.0, ..moved };
        let open = WhatIf::new(&options(&run, vec![given]), open, 8000).unwrap().recompute(&step);
        assert_eq!(open.is_some(), rank < 64, "beyond the list its probability is not known");
    }
}

#[test]
fn a_run_with_processors_is_refused() {
    let off = SamplingOptions::OFF;
    let changed = [
        SamplingOptions { repetition_penalty: 1.1, ..off.clone() },
        SamplingOptions { no_repeat_ngram_size: 2, ..off.clone() },
        SamplingOptions { logit_bias: vec![(1, 1.0)], ..off.clone() },
        SamplingOptions { suppress: vec![1], ..off.clone() },
    ];
    let kind = |options: &GenerateOptions| {
        WhatIf::new(options, Settings::of(&options.sampling), 100).err().map(|error| error.kind().to_owned())
    };
    for sampling in changed {
        assert_eq!(kind(&options(&sampling, vec![])).as_deref(), Some("unsupported-option"), "{sampling:?}");
    }
    let least = GenerateOptions { min_new_tokens: 3, ..options(&off, vec![]) };
    assert_eq!(kind(&least).as_deref(), Some("unsupported-option"));
    assert_eq!(kind(&options(&off, vec![])), None);
}

#[test]
fn draws_are_those_of_a_run() {
    let logits = Logits { all: vec![0.0, 0.0], top: Top::default() };
    let mut sampler = Sampler::new(&SamplingOptions { seed: 9, ..SamplingOptions::OFF }, 2).unwrap();
    let us: Vec<f64> = (0..5).map(|_| sampler.sample(&logits, &[], 0, None).unwrap().unwrap().u.unwrap()).collect();
    assert_eq!(draws(9).take(5).collect::<Vec<_>>(), us);
}
