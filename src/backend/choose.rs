//! Which engine runs a model: the GPU where it can and agrees with the CPU engine, otherwise the CPU.
//!
//! Both are loaded from one file: the GPU gets a repacked copy, the CPU engine takes the file itself. The GPU must prove itself
//! on a short prompt against the CPU engine, which then stands by: wasm could not give the file's memory back anyway, and so a
//! lost device costs the run in progress and nothing else.
//!
//! Invariant: every way to the CPU leaves a reason that a person can read.

use super::cpu::{self, CpuBackend, Pool};
use super::gpu::{self, Gpu, GpuBackend};
use super::self_test::self_test;
use super::{Backend, Logits, Stage, Wanted};
use crate::error::Result;
use crate::model::Plan;
use crate::protocol::{BackendChoice, GpuDiagnostics, SelfTest};
use std::rc::Rc;

/// A model on the engine that was chosen for it.
pub struct ChosenBackend {
    cpu: CpuBackend,
    /// Runs the model while it is there.
    gpu: Option<GpuBackend>,
    reason: String,
    /// What the browser said when it gave no GPU.
    refusal: Option<String>,
    diagnostics: Option<GpuDiagnostics>,
}

impl ChosenBackend {
    /// Takes over a file whose tensors `plan` names, for up to `context_length` positions, and the CPU engine's threads.
    /// `progress(stage, done, total)`.
    ///
    /// Errors: the CPU engine's only; whatever the GPU refuses is a reason to do without it.
    pub async fn load(
        choice: BackendChoice,
        plan: Plan,
        file: Vec<u8>,
        context_length: usize,
        pool: Pool,
        mut progress: impl FnMut(Stage, u64, u64),
    ) -> Result<Self> {
        let mut diagnostics = None;
        let candidate = match open(choice, &mut diagnostics).await {
            Ok(gpu) => GpuBackend::load(gpu, plan.clone(), &file, context_length, &mut progress)
                .await
                .map_err(|error| format!("The CPU engine runs, because the GPU cannot hold this model: {error}")),
            Err(reason) => Err(reason),
        };
        // For the reason its first sentence is enough; a browser may go on for long.
        let (candidate, refusal) = match candidate {
            Ok(candidate) => (Ok(candidate), None),
            Err(reason) => match reason.split_once(gpu::SAYS) {
                Some((reason, refusal)) => (Err(reason.to_owned()), Some(refusal.to_owned())),
                None => (Err(reason), None),
            },
        };
        let vocab_size = plan.config.vocab_size;
        let upload = |done, total| progress(Stage::Upload, done, total);
        let mut cpu = CpuBackend::load(plan, file, context_length, pool, upload)?;
        let (gpu, reason) = match candidate {
            Ok(candidate) => prove(candidate, &mut cpu, vocab_size, context_length, &mut diagnostics, progress).await,
            Err(reason) => (None, reason),
        };
        if let Some(diagnostics) = &mut diagnostics {
            diagnostics.failure = gpu.is_none().then(|| reason.clone());
        }
        Ok(Self { cpu, gpu, reason, refusal, diagnostics })
    }

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

/// A GPU worth trying, or why there is none.
async fn open(choice: BackendChoice, diagnostics: &mut Option<GpuDiagnostics>) -> Result<Rc<Gpu>, String> {
    if choice == BackendChoice::Cpu {
        return Err("The CPU engine was asked for.".into());
    }
    let gpu = Gpu::open().await.map_err(|error| format!("The CPU engine runs. {error}"))?;
    *diagnostics = Some(gpu.diagnostics());
    if choice == BackendChoice::Auto && gpu.is_software {
        let adapter = &gpu.adapter;
        return Err(format!("The only WebGPU adapter here ({adapter}) is software; the CPU engine is faster."));
    }
    Ok(Rc::new(gpu))
}

/// Lets a GPU show that it computes what the CPU engine does. Returns it if so, and the reason for what runs.
async fn prove(
    mut candidate: GpuBackend,
    cpu: &mut CpuBackend,
    vocab_size: usize,
    context_length: usize,
    diagnostics: &mut Option<GpuDiagnostics>,
    mut progress: impl FnMut(Stage, u64, u64),
) -> (Option<GpuBackend>, String) {
    let progress = |done, total| progress(Stage::SelfTest, done, total);
    let tested = self_test(&mut candidate, cpu, vocab_size, context_length, progress).await;
    if let Some(diagnostics) = diagnostics {
        candidate.complete(diagnostics);
        diagnostics.self_test = tested.as_ref().ok().copied();
    }
    match tested {
        Ok(test) if test.passed => {
            let reason = format!("WebGPU runs on {}; it agrees with the CPU engine.", candidate.gpu().adapter);
            (Some(candidate), reason)
        }
        Ok(test) => {
            let SelfTest { error, tolerance, .. } = test;
            let found = if error <= tolerance {
                "it finds other tokens the likeliest, or other sums over all".into()
            } else {
                format!("its logits differ by {error:.1e} of their size, at most {tolerance:.1e} is expected")
            };
            (None, format!("The CPU engine runs, because the GPU computes something else: {found}."))
        }
        Err(error) => (None, format!("The CPU engine runs, because the GPU failed its self-test: {error}")),
    }
}
