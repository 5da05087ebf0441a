//! What a model will take in memory, known from its header alone, and whether a device has it.
//!
//! Invariant: sums only. What a backend allocates it says itself; what a device has, the caller knows.

use super::cpu::CpuBackend;
use super::gpu::GpuBackend;
use crate::error::{Error, Result};
use crate::gguf::{Array, Metadata, Value};
use crate::model::Plan;
use crate::protocol::MemoryNeeds;

/// Of the tokenizer, measured (`tests/memory.rs`): maps from pieces to ids and back, and of pairs that merge.
const TOKENIZER: u64 = 232_000;
const BYTES_PER_TOKEN: u64 = 84;
const BYTES_PER_MERGE: u64 = 60;

/// What a model takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Estimate {
    pub needs: MemoryNeeds,
    context_length: usize,
    per_position: u64,
    /// Positions that the cache is made for at a time.
    granule: u64,
    /// Of the time of loading only, when there is no cache yet.
    passing: u64,
}

/// Bytes that a device lends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Budget {
    /// For the CPU engine, in this engine's own memory.
    pub engine: u64,
    /// For that and the GPU's copy together.
    pub both: u64,
    /// Where the figures come from, as it may end a sentence.
    pub why: String,
}

impl Estimate {
    /// For a KV cache of `context_length` positions and so many threads. `metadata` has the vocabulary.
    pub fn new(plan: &Plan, metadata: &Metadata, context_length: usize, n_threads: usize) -> Self {
        let cpu = CpuBackend::needs(plan, n_threads);
        let len = |key: &str| match metadata.get(key) {
            Some(Value::Array(Array::String(strings))) => strings.len() as u64,
            _ => 0,
        };
        let needs = MemoryNeeds {
            weights: cpu.weights,
            cache: cpu.per_position * (context_length as u64).next_multiple_of(cpu.granule),
            work: cpu.work,
            tokenizer: TOKENIZER
                + BYTES_PER_TOKEN * len("tokenizer.ggml.tokens")
                + BYTES_PER_MERGE * len("tokenizer.ggml.merges"),
            // What the GPU has no kernel for it will not hold.
            gpu: GpuBackend::needed_bytes(plan, context_length).unwrap_or(0),
        };
        let per_position = cpu.per_position;
        Self { needs, context_length, per_position, granule: cpu.granule, passing: cpu.passing }
    }

    /// In the engine's memory, at the highest.
    pub fn engine_bytes(&self) -> u64 {
        let MemoryNeeds { weights, cache, work, tokenizer, .. } = self.needs;
        weights + tokenizer + (cache + work).max(self.passing)
    }

    /// Refuses what does not fit. If it fits, but not with the GPU's copy beside it, returns why the GPU is not used.
    ///
    /// Errors: `too-large`, with the figures, and with a context that would fit, if there is one.
    pub fn check(&self, budget: &Budget) -> Result<Option<String>> {
        let Budget { engine, both, why } = budget;
        let needed = self.engine_bytes();
        if needed > *engine {
            let advice = match self.longest_context(*engine) {
                Some(positions) => format!(" A context of {positions} would fit."),
                None => String::new(),
            };
            return Err(Error::TooLarge(format!(
                "It needs {} ({} of weights, {} of cache for {} positions); {} are available: {why}.{advice}",
                size(needed),
                size(self.needs.weights),
                size(self.needs.cache),
                self.context_length,
                size(*engine)
            )));
        }
        let with_gpu = needed + self.needs.gpu;
        Ok((with_gpu > *both).then(|| {
            format!(
                "The CPU engine runs: the model takes {}, and {} with a copy for the GPU; {} are available: {why}.",
                size(needed),
                size(with_gpu),
                size(*both)
            )
        }))
    }

    /// Positions, in whole granules.
    fn longest_context(&self, available: u64) -> Option<u64> {
        let MemoryNeeds { weights, work, tokenizer, .. } = self.needs;
        let free = available.checked_sub(weights + tokenizer + work)?;
        let is_passing = weights + tokenizer + self.passing > available;
        let positions = free / self.per_position / self.granule * self.granule;
        (positions > 0 && !is_passing).then_some(positions)
    }
}

/// In the units that files are measured in.
fn size(bytes: u64) -> String {
    match bytes {
        0..1_000_000 => format!("{} kB", bytes.div_ceil(1000)),
        1_000_000..1_000_000_000 => format!("{} MB", bytes.div_ceil(1_000_000)),
        _ => format!("{:.1} GB", bytes as f64 / 1e9),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 1 GB of weights, 10 kB a position, 4096 of them, as much again on the GPU.
    fn estimate() -> Estimate {
        let needs = MemoryNeeds {
            weights: 1_000_000_000,
            cache: 40_960_000,
            work: 3_000_000,
            tokenizer: 6_000_000,
            gpu: 1_100_000_000,
        };
        Estimate { needs, context_length: 4096, per_position: 10_000, granule: 256, passing: 0 }
    }

    fn budget(engine: u64, both: u64) -> Budget {
        Budget { engine, both, why: "half of this device's 4 GB".into() }
    }

    #[test]
    fn what_fits_runs_and_what_fits_once_runs_on_the_cpu() {
        let needed = estimate().engine_bytes();
        assert_eq!(needed, 1_049_960_000);
        assert_eq!(estimate().check(&budget(needed, needed + 1_100_000_000)).unwrap(), None);
        let reason = estimate().check(&budget(needed, needed + 1_099_999_999)).unwrap().expect("it fits only once");
        for part in ["CPU", "1.0 GB", "2.1 GB", "half of this device's 4 GB"] {
            assert!(reason.contains(part), "{part}: {reason}");
        }
    }

    #[test]
    fn a_refusal_says_what_is_needed_what_there_is_and_what_would_fit() {
        let refused = |engine| estimate().check(&budget(engine, u64::MAX)).unwrap_err();
        let error = refused(1_049_959_999);
        assert_eq!(error.kind(), "too-large");
        for part in ["1.0 GB of weights", "41 MB of cache for 4096 positions", "half of", "A context of 3840 would fit"]
        {
            assert!(error.to_string().contains(part), "{part}: {error}");
        }
        assert!(error.to_string().len() <= 200, "the page shows 200 characters: {error}");
        assert!(refused(1_009_000_000 + 2_560_000).to_string().contains("A context of 256 would fit"));
        assert!(!refused(1_009_000_000 + 2_559_999).to_string().contains("would fit"));
        assert!(!refused(1_000_000).to_string().contains("would fit"));
        let passing = Estimate { passing: 500_000_000, ..estimate() };
        let error = passing.check(&budget(1_100_000_000, u64::MAX)).unwrap_err().to_string();
        assert!(!error.contains("would fit"), "a shorter context does not help: {error}");
    }
}
