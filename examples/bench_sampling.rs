//! What a step of sampling costs: the default model's logits after "Once upon a time", all of them, as the CPU engine gives them.
//!
//! `cargo run --release --example bench_sampling`

use nucleus::backend::{Logits, Top};
use nucleus::error::Result;
use nucleus::protocol::SamplingOptions;
use nucleus::sampling::Sampler;
use std::time::Instant;

const RUNS: usize = 400;

fn main() -> Result<()> {
    let bytes = include_bytes!("../tests/fixtures/once_upon_a_time.logits.f32");
    let all: Vec<f32> = bytes.as_chunks::<4>().0.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect();
    let logits = Logits { all, top: Top::default() };
    let page = SamplingOptions { temperature: 0.7, top_p: 0.9, ..SamplingOptions::OFF };
    let chains = [
        ("greedy", SamplingOptions { temperature: 0.0, ..SamplingOptions::OFF }),
        ("the page's", page.clone()),
        ("a penalty", SamplingOptions { repetition_penalty: 1.1, ..page.clone() }),
        ("typical-p", SamplingOptions { top_p: 1.0, typical_p: 0.9, ..page.clone() }),
        ("nothing cut", SamplingOptions::OFF),
        ("wide", SamplingOptions { temperature: 1.5, top_p: 0.99, ..page }),
    ];
    println!("{} logits, 64 candidates; microseconds a step, best and median of {RUNS}", logits.all.len());
    for (name, options) in chains {
        let mut sampler = Sampler::new(&options, logits.all.len())?;
        let mut times = Vec::with_capacity(RUNS);
        for _ in 0..RUNS {
            let start = Instant::now();
            sampler.sample(&logits, &[1, 2, 3, 4], 64, None)?;
            times.push(start.elapsed().as_secs_f64() * 1e6);
        }
        times.sort_by(f64::total_cmp);
        println!("{name:<12} {:>7.1} {:>7.1}", times[0], times[RUNS / 2]);
    }
    Ok(())
}
