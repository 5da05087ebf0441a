//! The three speeds of a run (SEMANTICS.md, "Speed figures"). All times in milliseconds.
//!
//! Invariant: only ever told moments; it reads no clock.

#[derive(Debug, Default)]
pub(super) struct Speed {
    start: f64,
    n_prefill: usize,
    prefill_ms: f64,
    n_tokens: usize,
    first_token: f64,
    last_token: f64,
}

impl Speed {
    pub fn start(&mut self, now: f64) {
        self.start = now;
    }

    pub fn elapsed(&self, now: f64) -> f64 {
        now - self.start
    }

    /// Positions of the prompt went through the model.
    pub fn add_prefill(&mut self, n_positions: usize, ms: f64) {
        self.n_prefill += n_positions;
        self.prefill_ms += ms;
    }

    pub fn add_token(&mut self, now: f64) {
        if self.n_tokens == 0 {
            self.first_token = now;
        }
        self.n_tokens += 1;
        self.last_token = now;
    }

    /// From the start of the run to its first token; 0 without one.
    pub fn ttft_ms(&self) -> f64 {
        if self.n_tokens == 0 { 0.0 } else { self.first_token - self.start }
    }

    /// Spent in the forward passes of the prompt.
    pub fn prefill_ms(&self) -> f64 {
        self.prefill_ms
    }

    pub fn prefill_tokens_per_s(&self) -> f64 {
        per_second(self.n_prefill, self.prefill_ms)
    }

    /// From the first token to the last, pauses included.
    pub fn decode_ms(&self) -> f64 {
        self.last_token - self.first_token
    }

    /// The first token is the prefill's work, so `n_tokens - 1` were made in that time.
    pub fn decode_tokens_per_s(&self) -> f64 {
        per_second(self.n_tokens.saturating_sub(1), self.decode_ms())
    }
}

/// 0 when no time has passed that the clock can see.
fn per_second(n: usize, ms: f64) -> f64 {
    if ms > 0.0 { n as f64 / ms * 1e3 } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_of_a_run() {
        let mut speed = Speed::default();
        speed.start(1000.0);
        speed.add_prefill(64, 100.0);
        speed.add_prefill(36, 60.0);
        for now in [1200.0, 1250.0, 1300.0] {
            speed.add_token(now);
        }
        assert_eq!((speed.ttft_ms(), speed.prefill_ms(), speed.prefill_tokens_per_s()), (200.0, 160.0, 625.0));
        assert_eq!((speed.decode_ms(), speed.decode_tokens_per_s()), (100.0, 20.0));
    }

    #[test]
    fn one_token_or_none_has_no_decode_speed() {
        let mut speed = Speed::default();
        speed.start(5.0);
        assert_eq!((speed.ttft_ms(), speed.decode_ms(), speed.decode_tokens_per_s()), (0.0, 0.0, 0.0));
        speed.add_token(9.0);
        assert_eq!((speed.ttft_ms(), speed.decode_ms(), speed.decode_tokens_per_s()), (4.0, 0.0, 0.0));
    }
}
