//! The top of a vector of logits as a backend gives it, but sorted and summed in the plainest way.

use nucleus::backend::{Logits, Sums, Top, Wanted};

/// What is wanted of `logits`; of a top the `n_best` likeliest tokens and all ties of the last one.
pub fn give(logits: &[f32], n_best: usize, wanted: Wanted) -> Logits {
    let Wanted::Top { temperature } = wanted else {
        return Logits { all: logits.to_vec(), top: Top::default() };
    };
    let mut best: Vec<(u32, f32)> = (0..).zip(logits.iter().copied()).collect();
    best.sort_by(|a, b| b.1.total_cmp(&a.1));
    let max = best[0].1;
    let last = n_best.checked_sub(1).map(|i| best[i.min(best.len() - 1)].1);
    best.retain(|(_, logit)| last.is_some_and(|last| *logit >= last));
    // In no order: the ids'.
    best.sort_by_key(|(id, _)| *id);
    let sum = |term: fn(f64, f64) -> f64| {
        logits.iter().map(|&logit| term(f64::from(logit) - f64::from(max), f64::from(temperature))).sum()
    };
    let sums = Sums {
        max,
        weight: sum(|x, _| x.exp()),
        weighted_x: sum(|x, _| x * x.exp()),
        weight_at_temperature: sum(|x, temperature| (x / temperature).exp()),
        error: Sums::F32_ERROR,
    };
    Logits { all: Vec::new(), top: Top { best, sums } }
}
