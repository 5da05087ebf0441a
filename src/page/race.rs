//! What a run cost, token by token, and what the KV cache saved: the arithmetic behind the speed chart.
//!
//! Invariant: pure; times come in, figures go out, no clock and no DOM.

use super::report::speed_ups;
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

/// The last run with the cache and the last one without.
///
/// Each step counts for the mode that it was computed in, so a run whose switch was moved midway has steps on both curves and
/// is a run of neither mode: it has no speed of its own there.
#[derive(Debug, Default)]
pub struct Race {
    /// With the cache, and without.
    traces: [Trace; 2],
    works: [Work; 2],
    /// Which of them the run in progress has begun.
    is_begun: [bool; 2],
}

/// What the decode steps of one run in one mode took beside time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Work {
    /// Positions that went through the model, all steps together.
    pub n_computed: u64,
    /// Positions that the cache holds after the last step; 0 without it.
    pub n_cached: u32,
}

impl Race {
    /// Forgets both runs.
    pub fn clear(&mut self) {
        *self = Self::default();
    }

    /// A run begins in this mode: its steps replace those of the last one of its kind.
    pub fn begin(&mut self, kv_cache: bool) {
        self.is_begun = [false; 2];
        self.enter(slot(kv_cache));
    }

    pub fn push(&mut self, step: &StepRecord) {
        let Some(kv_cache) = used_cache(step) else { return };
        let slot = slot(kv_cache);
        self.enter(slot);
        self.traces[slot].push(step);
        let work = &mut self.works[slot];
        work.n_computed += u64::from(step.positions_computed);
        work.n_cached = if kv_cache { step.kv_length } else { 0 };
    }

    /// The run was switched from one mode to the other midway.
    pub fn is_mixed(&self) -> bool {
        self.is_begun == [true; 2]
    }

    pub fn traces(&self) -> &[Trace; 2] {
        &self.traces
    }

    pub fn works(&self) -> &[Work; 2] {
        &self.works
    }

    /// The speed-up over the first n decode steps, for each n that both runs have; none where [`speed_up`] compares none.
    pub fn speed_ups(&self) -> Vec<f64> {
        let [with_cache, without] = &self.traces;
        if with_cache.n_prompt != without.n_prompt {
            return Vec::new();
        }
        speed_ups(&with_cache.unbroken_ms(), &without.unbroken_ms())
    }

    fn enter(&mut self, slot: usize) {
        if !self.is_begun[slot] {
            self.is_begun[slot] = true;
            self.traces[slot] = Trace::default();
            self.works[slot] = Work::default();
        }
    }
}

/// The place of a mode among the two.
pub fn slot(kv_cache: bool) -> usize {
    usize::from(!kv_cache)
}

/// Whether a step used the cache: without it, all positions before its token are computed again. None for the first step,
/// which computes the whole prompt either way.
pub fn used_cache(step: &StepRecord) -> Option<bool> {
    (step.index > 0).then_some(step.positions_computed < step.position)
}

/// The decode steps of one run in one mode: every step but the first, whose time is the prompt's.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Trace {
    pub n_prompt: u32,
    /// Index in the run and milliseconds of computation, decode step by decode step.
    pub steps: Vec<(u32, f64)>,
}

impl Trace {
    fn push(&mut self, step: &StepRecord) {
        self.n_prompt = step.position - step.index;
        self.steps.push((step.index, step.ms.total));
    }

    /// Decode steps per second of computation; none without steps.
    pub fn tokens_per_s(&self) -> Option<f64> {
        let ms: f64 = self.steps.iter().map(|step| step.1).sum();
        (ms > 0.0).then(|| self.steps.len() as f64 * 1e3 / ms)
    }

    /// Milliseconds of the decode steps from the first one on, up to a gap.
    pub fn unbroken_ms(&self) -> Vec<f64> {
        (1..).zip(&self.steps).take_while(|(expected, step)| *expected == step.0).map(|(_, step)| step.1).collect()
    }

    /// (position, milliseconds) of about `n_most` points at most, one list per stretch of steps without a gap: neighbours are
    /// averaged when there are more steps.
    pub fn stretches(&self, n_most: usize) -> Vec<Vec<(f64, f64)>> {
        let width = self.steps.len().div_ceil(n_most.max(1)).max(1);
        let point = |steps: &[(u32, f64)]| {
            let mean = |of: fn(&(u32, f64)) -> f64| steps.iter().map(of).sum::<f64>() / steps.len() as f64;
            (f64::from(self.n_prompt) + mean(|step| step.0.into()), mean(|step| step.1))
        };
        let stretches = self.steps.chunk_by(|step, next| next.0 == step.0 + 1);
        stretches.map(|steps| steps.chunks(width).map(point).collect()).collect()
    }
}

/// How much faster decoding was with the cache, over the steps that both runs have.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SpeedUp {
    pub ratio: f64,
    pub n_prompt: u32,
    pub n_steps: usize,
}

/// Compares the modes at the places where both have a decode step; none where there is no such place, or the prompts differ in
/// length.
pub fn speed_up(with_cache: &Trace, without: &Trace) -> Option<SpeedUp> {
    if with_cache.n_prompt != without.n_prompt {
        return None;
    }
    let (mut n_steps, mut ms_with, mut ms_without) = (0, 0.0, 0.0);
    let mut others = without.steps.iter().peekable();
    for &(index, ms) in &with_cache.steps {
        while others.next_if(|other| other.0 < index).is_some() {}
        if let Some(other) = others.next_if(|other| other.0 == index) {
            (n_steps, ms_with, ms_without) = (n_steps + 1, ms_with + ms, ms_without + other.1);
        }
    }
    let ratio = ms_without / ms_with;
    (n_steps > 0 && ratio.is_finite()).then_some(SpeedUp { ratio, n_prompt: with_cache.n_prompt, n_steps })
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
        Trace { n_prompt, steps: (1..).zip(step_ms.iter().copied()).collect() }
    }

    /// Step `index` after a prompt of 5 tokens.
    fn decode_step(index: u32, kv_cache: bool, ms: f64) -> StepRecord {
        let mut step = step(0, 1, 0);
        (step.index, step.position) = (index, 5 + index);
        step.positions_computed = if kv_cache && index > 0 { 1 } else { step.position };
        step.ms.total = ms;
        step
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
        let mut race = Race::default();
        race.begin(true);
        race.push(&decode_step(0, true, 90.0));
        race.push(&decode_step(1, true, 6.0));
        let [with_cache, without] = race.traces();
        assert_eq!(*with_cache, trace(5, &[6.0]));
        assert_eq!(with_cache.stretches(100), [[(6.0, 6.0)]]);
        assert_eq!(with_cache.tokens_per_s(), Some(1e3 / 6.0));
        assert_eq!(without.tokens_per_s(), None);
        assert_eq!(*without, Trace::default(), "the prompt's step is no step without the cache");
    }

    #[test]
    fn a_switch_midway_puts_each_step_on_the_curve_of_its_mode() {
        let mut race = Race::default();
        race.begin(false);
        race.push(&decode_step(1, false, 70.0));
        race.push(&decode_step(2, false, 70.0));
        race.begin(true);
        race.push(&decode_step(1, true, 6.0));
        assert!(!race.is_mixed());
        for (index, kv_cache, ms) in [(2, false, 40.0), (3, false, 50.0), (4, true, 7.0)] {
            race.push(&decode_step(index, kv_cache, ms));
        }
        assert!(race.is_mixed());
        let [with_cache, without] = race.traces();
        assert_eq!(with_cache.steps, [(1, 6.0), (4, 7.0)]);
        assert_eq!(with_cache.stretches(100), [[(6.0, 6.0)], [(9.0, 7.0)]], "no line over what was not measured");
        assert_eq!(without.steps, [(2, 40.0), (3, 50.0)], "what the run before measured is gone");
        assert_eq!(speed_up(with_cache, without), None, "no step was computed in both modes");
        race.begin(true);
        race.push(&decode_step(1, true, 6.0));
        race.push(&decode_step(2, true, 8.0));
        assert!(!race.is_mixed());
        let [with_cache, without] = race.traces();
        assert_eq!(speed_up(with_cache, without), Some(SpeedUp { ratio: 5.0, n_prompt: 5, n_steps: 1 }));
    }

    #[test]
    fn the_speed_up_grows_with_the_length_and_needs_steps_from_the_first_on() {
        let mut race = Race::default();
        for (kv_cache, step_ms) in [(true, [2.0, 2.0, 2.0]), (false, [4.0, 12.0, 20.0])] {
            race.begin(kv_cache);
            for (index, ms) in (1..).zip(step_ms) {
                race.push(&decode_step(index, kv_cache, ms));
            }
        }
        assert_eq!(race.speed_ups(), [2.0, 4.0, 6.0]);
        assert_eq!(race.works()[0], Work { n_computed: 3, n_cached: 5 });
        assert_eq!(race.works()[1], Work { n_computed: 6 + 7 + 8, n_cached: 0 });
        race.begin(true);
        race.push(&decode_step(2, true, 2.0));
        assert_eq!(race.speed_ups(), [0.0; 0]);
        race.clear();
        assert_eq!(race.works(), &[Work::default(); 2]);
    }

    #[test]
    fn long_runs_are_averaged_down() {
        let stretches = trace(0, &[1.0, 3.0, 5.0, 7.0, 9.0]).stretches(3);
        assert_eq!(stretches, [[(1.5, 2.0), (3.5, 6.0), (5.0, 9.0)]]);
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
