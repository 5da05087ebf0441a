//! The perplexity of the default model on the start of a text: both engines against a plain pass. `cargo xtask bench perplexity`
//! does this in every format.
#![cfg(not(target_arch = "wasm32"))]

#[path = "support/model.rs"]
mod model;
#[path = "support/nmse.rs"]
mod nmse;
#[path = "support/perplexity.rs"]
mod perplexity;
#[path = "support/reference.rs"]
mod reference;

use model::{default_file, default_model, gpu_backend, open_gpu};
use perplexity::{Deviation, PROSE, perplexity, step_through};
use reference::Reference;

/// Fewer than in the bench, so that it is done in seconds; with half as many the roundings of a token or two decide.
const N_TOKENS: usize = 64;

#[pollster::test]
async fn perplexity_of_both_engines_is_that_of_a_plain_pass() {
    let (file, mut model) = (default_file(), default_model());
    let mut ids = model.tokenizer.encode(PROSE, false).unwrap();
    ids.truncate(N_TOKENS);
    let exact = Reference::new(&file).logits(&ids);
    // English prose that the model has not seen: neither known by heart nor noise.
    let found = perplexity(&exact, &ids);
    assert!((5.0..100.0).contains(&found), "perplexity {found}");

    let cpu = step_through(&mut model.backend, &ids).await.unwrap();
    let mut gpu = gpu_backend(&open_gpu().await, &file, N_TOKENS).await.unwrap();
    let gpu = step_through(&mut gpu, &ids).await.unwrap();
    // Seen at the worst position: 2e-3 with most activations in eight bits, 2e-11 in float32.
    for (engine, logits, largest_nmse) in [("CPU", cpu, 5e-3), ("GPU", gpu, 1e-9)] {
        let deviation = Deviation::new(&logits, &exact, &ids);
        let Deviation { perplexity, percent, worst_nmse } = deviation;
        println!("{engine}: {perplexity:.4}, {percent:+.4} %, worst nmse {worst_nmse:.1e}");
        assert!(deviation.is_near(), "{engine}: perplexity {perplexity}, {percent} % from {found}");
        assert!(worst_nmse < largest_nmse, "{engine}: normalised mean square error {worst_nmse:.1e}");
    }
}

#[test]
fn perplexity_is_that_of_the_ids_that_follow() {
    // Even odds among four, then three to one for what came.
    let logits = vec![vec![7.0; 4], vec![0.0, 9_f64.ln(), 0.0, 0.0], vec![0.0; 4]];
    assert!((perplexity(&logits, &[0, 2, 1]) - (4.0_f64 * 4.0 / 3.0).sqrt()).abs() < 1e-12);
}

#[test]
fn a_deviation_beyond_half_a_percent_is_not_near() {
    let exact = vec![vec![0.0, 0.0]; 2];
    let off = |by: f64| Deviation::new(&vec![vec![by, 0.0]; 2], &exact, &[0, 1]);
    assert!(off(0.009).is_near() && off(-0.009).is_near());
    assert!(!off(0.011).is_near() && !off(-0.011).is_near() && !off(f64::NAN).is_near());
}
