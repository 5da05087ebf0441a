//! logit_sums, logit_histogram and collect_best, one after the other as they ship, and `top::parse` of what they leave.
//!
//! Invariant: the list is held against a full sort, not only against its twin.

use super::random::Random;
use super::{Bench, Pass, twins};
use crate::backend::Top;
use crate::backend::gpu::record::Step;
use crate::backend::gpu::shader::Kernel;
use crate::backend::gpu::top::{self, BINS, MAX_BEST};

/// Relative error of a sum: `exp` in a shader is right to 3 + 2 |x| units in the last place (WGSL), and only terms with |x| < 20 count.
const MAX_ERROR: f64 = 1e-5;
const TEMPERATURES: [f32; 6] = [1.0, 0.7, 1e-3, 1e-30, 1e3, 1e30];

/// The top of `logits`, and the histogram that led to it.
async fn run(bench: &mut Bench, logits: &[f32], temperature: f32) -> (Top, Vec<u32>) {
    let vocab_size = logits.len();
    let logits = bench.buffer(logits);
    // As a pass clears them; the rest is what an earlier token has left.
    let mut contents = [0xab; top::BYTES];
    contents[..top::HEADER].fill(0);
    let (top, histogram) = (bench.buffer(&contents), bench.buffer(&[0u32; BINS]));
    let kernels =
        [Kernel::LogitSums { vocab_size }, Kernel::LogitHistogram { vocab_size }, Kernel::CollectBest { vocab_size }];
    let steps = kernels.map(|kernel| Step { kernel, buffers: vec![&logits, &top, &histogram] });
    let pass = Pass { inverse_temperature: 1.0 / temperature, ..Pass::new(1) };
    bench.run(&pass, steps.into()).await;
    let mut found = Top::default();
    top::parse(&bench.read::<u8>(&top).await, temperature, &mut found);
    (found, bench.read(&histogram).await)
}

/// Compares with the twins and a full sort; returns how many tokens were listed.
async fn check(bench: &mut Bench, logits: &[f32], temperature: f32, what: &str) -> usize {
    let what = format!("{what}, {} logits at temperature {temperature}", logits.len());
    let (Top { mut best, sums }, histogram) = run(bench, logits, temperature).await;
    let expected = twins::logit_sums(logits, temperature);
    assert_eq!(sums.max, expected.max, "{what}");
    for (found, expected) in [
        (sums.weight, expected.weight),
        (sums.weighted_x, expected.weighted_x),
        (sums.weight_at_temperature, expected.weight_at_temperature),
    ] {
        assert!((found - expected).abs() <= MAX_ERROR * expected.abs(), "{what}: {found} for {expected}");
    }
    // Without the vectors themselves: nobody would read them.
    assert!(histogram == twins::logit_histogram(logits), "{what}: another histogram");

    best.sort_by_key(|(id, _)| *id);
    assert!(best == twins::collect_best(logits), "{what}: another list");
    let mut sorted: Vec<(u32, f32)> = (0..).zip(logits.iter().copied()).collect();
    sorted.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
    best.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
    assert!(best == sorted[..best.len()], "{what}: not what a full sort puts first");
    if let (Some(last), Some(next)) = (best.last(), sorted.get(best.len())) {
        assert!(next.1 < last.1, "{what}: {next:?} ties with {last:?} and is not listed");
    }
    best.len()
}

#[cfg_attr(target_arch = "wasm32", wasm_bindgen_test::wasm_bindgen_test)]
#[cfg_attr(not(target_arch = "wasm32"), pollster::test)]
async fn top_of_the_distribution() {
    let mut bench = Bench::open().await;
    let mut random = Random(21);
    for vocab_size in [1, 63, 288, 49_152, 262_144] {
        // Nearly normal, with a spread of 4, as a model's are.
        let usual: Vec<f32> = (0..vocab_size).map(|_| random.floats(6, 3.0).iter().sum()).collect();
        for temperature in TEMPERATURES {
            let listed = check(&mut bench, &usual, temperature, "usual").await;
            assert!(listed >= vocab_size.min(MAX_BEST / 2), "{listed} of {vocab_size}");
        }
        let flat = random.floats(vocab_size, 1e-3);
        check(&mut bench, &flat, 1.0, "flat").await;
        let mut peak = usual.clone();
        peak[vocab_size / 2] = 1e4;
        check(&mut bench, &peak, 0.5, "one far above").await;
        let wide = random.floats(vocab_size, 1e30);
        check(&mut bench, &wide, 2.0, "wide").await;
    }
}

/// Equal logits are listed together or not at all.
#[cfg_attr(target_arch = "wasm32", wasm_bindgen_test::wasm_bindgen_test)]
#[cfg_attr(not(target_arch = "wasm32"), pollster::test)]
async fn ties() {
    let mut bench = Bench::open().await;
    for vocab_size in [1, 63, 288, 49_152, 262_144] {
        let listed = check(&mut bench, &vec![-2.5; vocab_size], 0.7, "all equal").await;
        assert_eq!(listed, if vocab_size > MAX_BEST { 0 } else { vocab_size });
    }
    let mut random = Random(22);
    for (n_first, n_second, expected) in [(1000, 100, 1000), (MAX_BEST - 100, 100, MAX_BEST), (MAX_BEST + 1, 1, 0)] {
        let mut logits = vec![-9.0; 49_152];
        logits[..n_first].fill(3.0);
        logits[n_first..][..n_second].fill(2.0);
        for i in (1..logits.len()).rev() {
            logits.swap(i, random.below(i + 1));
        }
        assert_eq!(check(&mut bench, &logits, 1.0, "two levels").await, expected, "{n_first} and {n_second}");
    }
}

/// One such logit anywhere shows in the sums, whatever the list says.
#[cfg_attr(target_arch = "wasm32", wasm_bindgen_test::wasm_bindgen_test)]
#[cfg_attr(not(target_arch = "wasm32"), pollster::test)]
async fn logits_that_are_not_finite() {
    let mut bench = Bench::open().await;
    for vocab_size in [1, 288, 49_152] {
        for (i, bad) in [f32::NAN, -f32::NAN, f32::INFINITY, f32::NEG_INFINITY].into_iter().enumerate() {
            let mut logits = Random(23).floats(vocab_size, 9.0);
            logits[(vocab_size - 1) * i / 3] = bad;
            let (top, _) = run(&mut bench, &logits, 1.0).await;
            assert!(!top.sums.weight.is_finite(), "{bad} among {vocab_size}");
            assert!(top.best.len() <= MAX_BEST);
        }
    }
}
