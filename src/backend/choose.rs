//! The engine that runs a model: the GPU where it can and agrees with the CPU engine (`load` finds out), otherwise the CPU, which
//! stands by: wasm could not give the weights' memory back anyway, and so a lost device costs the run in progress and nothing else.
//!
//! Invariant: every way to the CPU leaves a reason that a person can read.

use super::cpu::{self, CpuBackend, Pool};
use super::gpu::{self, GpuBackend};
use super::{Backend, Logits, Wanted};
use crate::error::Result;
use crate::protocol::{GpuDiagnostics, SelfTest};

/// A model on the engine that was chosen for it.
pub struct ChosenBackend {
    pub(super) cpu: CpuBackend,
    /// Runs the model while it is there.
    pub(super) gpu: Option<GpuBackend>,
    pub(super) reason: String,
    /// What the browser said when it gave no GPU.
    pub(super) refusal: Option<String>,
    pub(super) diagnostics: Option<GpuDiagnostics>,
}

impl ChosenBackend {
    /// `webgpu` or `cpu`.
    pub fn name(&self) -> &'static str {
        if self.gpu.is_some() { "webgpu" } else { "cpu" }
    }

    /// Why this engine, as a sentence.
    pub fn reason(&self) -> &str {
        &self.reason
    }

    /// What the browser said, in full, when it gave no GPU.
    pub fn refusal(&self) -> Option<&str> {
        self.refusal.as_deref()
    }

    /// The CPU engine's threads.
    pub fn pool(&self) -> &Pool {
        self.cpu.pool()
    }

    /// The GPU adapter that runs the model, if one does.
    pub fn adapter(&self) -> Option<&str> {
        self.gpu.as_ref().map(|gpu| gpu.gpu().adapter.as_str())
    }

    /// The GPU as it was found, if one was tried.
    pub fn diagnostics(&self) -> Option<&GpuDiagnostics> {
        self.diagnostics.as_ref()
    }

    pub fn self_test(&self) -> Option<SelfTest> {
        self.diagnostics.as_ref().and_then(|diagnostics| diagnostics.self_test)
    }

    /// Tokens that go through the model together in a prefill.
    pub fn prefill_batch(&self) -> usize {
        if self.gpu.is_some() { gpu::BATCH } else { cpu::BATCH }
    }

    /// Bytes that one position takes in the KV cache; both engines keep it in f32.
    pub fn kv_bytes_per_position(&self) -> usize {
        self.cpu.kv_bytes_per_position()
    }

    /// Goes on with the CPU engine, from an empty cache, if the GPU has failed. Returns whether it has.
    pub fn leave_failed_gpu(&mut self) -> bool {
        let Some(error) = self.gpu.as_ref().and_then(GpuBackend::failure) else { return false };
        self.reason = format!("The CPU engine runs, because the GPU failed: {error}");
        if let Some(diagnostics) = &mut self.diagnostics {
            diagnostics.failure = Some(self.reason.clone());
        }
        self.gpu = None;
        true
    }
}

impl Backend for ChosenBackend {
    async fn forward(&mut self, ids: &[u32], logits: Option<(Wanted, &mut Logits)>) -> Result<()> {
        match &mut self.gpu {
            Some(gpu) => gpu.forward(ids, logits).await,
            None => self.cpu.forward(ids, logits).await,
        }
    }

    async fn read_all(&mut self, logits: &mut Logits) -> Result<()> {
        match &mut self.gpu {
            Some(gpu) => gpu.read_all(logits).await,
            None => self.cpu.read_all(logits).await,
        }
    }

    fn kv_len(&self) -> usize {
        self.gpu.as_ref().map_or(self.cpu.kv_len(), GpuBackend::kv_len)
    }

    fn truncate_kv(&mut self, len: usize) {
        match &mut self.gpu {
            Some(gpu) => gpu.truncate_kv(len),
            None => self.cpu.truncate_kv(len),
        }
    }

    async fn reserve_kv(&mut self, n_positions: usize) -> Result<()> {
        match &mut self.gpu {
            Some(gpu) => gpu.reserve_kv(n_positions).await,
            None => self.cpu.reserve_kv(n_positions).await,
        }
    }
}
