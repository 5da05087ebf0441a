//! How fast a download comes.
//!
//! Invariant: pure; bytes and times come in, a rate goes out, no clock and no DOM.

/// A rate over less than this would be noise.
const LEAST_MS: f64 = 200.0;

/// The clock of one download: it starts with the first report, which already brings bytes.
#[derive(Debug, Clone, Copy, Default)]
pub struct Download {
    /// Bytes and milliseconds at the first report.
    start: Option<(u64, f64)>,
}

impl Download {
    /// Bytes per second since the first report; none so soon after it that it would be noise.
    pub fn bytes_per_s(&mut self, received: u64, now_ms: f64) -> Option<f64> {
        let (n_before, start_ms) = *self.start.get_or_insert((received, now_ms));
        let elapsed_ms = now_ms - start_ms;
        (elapsed_ms > LEAST_MS).then(|| received.saturating_sub(n_before) as f64 * 1e3 / elapsed_ms)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_from_before_the_clock_started_do_not_count() {
        let mut download = Download::default();
        assert_eq!(download.bytes_per_s(90_000_000, 1000.0), None, "one report is no rate");
        assert_eq!(download.bytes_per_s(90_500_000, 1100.0), None, "too soon");
        assert_eq!(download.bytes_per_s(92_000_000, 1500.0), Some(4e6));
    }
}
