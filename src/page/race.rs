//! What a run cost, token by token, and what the KV cache saved: the arithmetic behind the speed chart.
//!
//! Invariant: pure; times come in, figures go out, no clock and no DOM.

use crate::protocol::StepRecord;
use std::collections::VecDeque;

/// Decode tokens/s over the last steps that arrived: at most `N_WINDOW` of them, none older than `WINDOW_MS`.
#[derive(Debug, Default)]
pub struct LiveRate {
    arrivals_ms: VecDeque<f64>,
}

const N_WINDOW: usize = 48;
const WINDOW_MS: f64 = 1500.0;

impl LiveRate {
    pub fn clear(&mut self) {
        self.arrivals_ms.clear();
    }

    /// Counts one step; the first one ends the prefill and begins the clock.
    pub fn arrive(&mut self, now_ms: f64) {
        // The oldest arrival stays until two others are left: a slow run still has a rate.
        while self.arrivals_ms.len() >= N_WINDOW
            || (self.arrivals_ms.len() > 2 && self.arrivals_ms.front().is_some_and(|&first| now_ms - first > WINDOW_MS))
        {
            self.arrivals_ms.pop_front();
        }
        self.arrivals_ms.push_back(now_ms);
    }

    /// Tokens per second; none before the second step.
    pub fn tokens_per_s(&self) -> Option<f64> {
        let (first, last) = (self.arrivals_ms.front()?, self.arrivals_ms.back()?);
        let n_intervals = (self.arrivals_ms.len() - 1) as f64;
        (last > first).then(|| n_intervals * 1e3 / (last - first))
    }
}

/// The decode steps of one run: every step but the first, whose time is the prompt's.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Trace {
    pub n_prompt: u32,
    /// Milliseconds of computation, decode step by decode step.
    pub step_ms: Vec<f64>,
    /// As the engine measured it; none while the run goes on, and for a run that waited for the reader.
    pub tokens_per_s: Option<f64>,
}

impl Trace {
    pub fn push(&mut self, step: &StepRecord) {
        if step.index == 0 {
            self.n_prompt = step.position;
        } else {
            self.step_ms.push(step.ms.total);
        }
    }

    /// (position, milliseconds) of at most `n_most` points: neighbours are averaged when there are more steps.
    pub fn points(&self, n_most: usize) -> Vec<(f64, f64)> {
        let width = self.step_ms.len().div_ceil(n_most.max(1)).max(1);
        let first = f64::from(self.n_prompt) + 1.0;
        self.step_ms
            .chunks(width)
            .enumerate()
            .map(|(i, ms)| {
                let middle = (i * width) as f64 + (ms.len() - 1) as f64 / 2.0;
                (first + middle, ms.iter().sum::<f64>() / ms.len() as f64)
            })
            .collect()
    }
}

/// How much faster decoding was with the cache, over the steps that both runs have.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SpeedUp {
    pub ratio: f64,
    pub n_prompt: u32,
    pub n_steps: usize,
}

/// Compares two runs; none unless both have decode steps after prompts of the same length.
pub fn speed_up(with_cache: &Trace, without: &Trace) -> Option<SpeedUp> {
    let n_steps = with_cache.step_ms.len().min(without.step_ms.len());
    if n_steps == 0 || with_cache.n_prompt != without.n_prompt {
        return None;
    }
    let sum = |trace: &Trace| trace.step_ms[..n_steps].iter().sum::<f64>();
    let ratio = sum(without) / sum(with_cache);
    ratio.is_finite().then_some(SpeedUp { ratio, n_prompt: with_cache.n_prompt, n_steps })
}

/// A round number at or above `value`, for the end of an axis.
pub fn axis_end(value: f64) -> f64 {
    let value = if value.is_finite() { value.max(1e-3) } else { 1.0 };
    let power = 10f64.powf(value.log10().floor());
    [1.0, 1.2, 1.6, 2.0, 2.4, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0]
        .into_iter()
        .map(|step| step * power)
        .find(|end| *end >= value * 0.999_999)
        .unwrap_or(value)
}

#[cfg(test)]
mod tests {
    use super::super::ladder::tests::step;
    use super::*;

    fn trace(n_prompt: u32, step_ms: &[f64]) -> Trace {
        Trace { n_prompt, step_ms: step_ms.to_vec(), tokens_per_s: None }
    }

    #[test]
    fn the_live_rate_counts_intervals_in_the_window() {
        let mut rate = LiveRate::default();
        assert_eq!(rate.tokens_per_s(), None);
        rate.arrive(1000.0);
        assert_eq!(rate.tokens_per_s(), None);
        for i in 1..=10 {
            rate.arrive(1000.0 + 10.0 * f64::from(i));
        }
        assert!((rate.tokens_per_s().expect("eleven steps") - 100.0).abs() < 1e-9);
        for i in 1..=200 {
            rate.arrive(1100.0 + 20.0 * f64::from(i));
        }
        assert!((rate.tokens_per_s().expect("many steps") - 50.0).abs() < 1e-9, "old steps have left the window");
    }

    #[test]
    fn a_slow_run_still_has_a_rate() {
        let mut rate = LiveRate::default();
        for i in 0..4 {
            rate.arrive(4000.0 * f64::from(i));
        }
        assert!((rate.tokens_per_s().expect("steps") - 0.25).abs() < 1e-9);
    }

    #[test]
    fn the_first_step_belongs_to_the_prompt() {
        let mut trace = Trace::default();
        let mut record = step(0, 1, 0);
        record.ms.total = 90.0;
        trace.push(&record);
        record.index = 1;
        record.ms.total = 6.0;
        trace.push(&record);
        assert_eq!(trace.n_prompt, 5);
        assert_eq!(trace.step_ms, [6.0]);
        assert_eq!(trace.points(100), [(6.0, 6.0)]);
    }

    #[test]
    fn long_runs_are_averaged_down() {
        let points = trace(0, &[1.0, 3.0, 5.0, 7.0, 9.0]).points(3);
        assert_eq!(points, [(1.5, 2.0), (3.5, 6.0), (5.0, 9.0)]);
    }

    #[test]
    fn only_like_runs_are_compared() {
        let off = trace(4, &[10.0, 20.0, 30.0]);
        let compared = speed_up(&trace(4, &[5.0, 5.0]), &off).expect("same prompt length");
        assert_eq!(compared, SpeedUp { ratio: 3.0, n_prompt: 4, n_steps: 2 });
        assert_eq!(speed_up(&trace(5, &[5.0]), &off), None);
        assert_eq!(speed_up(&trace(4, &[]), &off), None);
    }

    #[test]
    fn axes_end_at_round_numbers() {
        assert_eq!(axis_end(88.0), 100.0);
        assert_eq!(axis_end(100.0), 100.0);
        assert_eq!(axis_end(0.31), 0.4);
        assert_eq!(axis_end(104.0), 120.0);
        assert_eq!(axis_end(f64::NAN), 1.0);
    }
}
