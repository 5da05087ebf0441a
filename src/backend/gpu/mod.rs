//! The plan on WebGPU: weights quantized in GPU memory, everything recorded once; a token is one write, one submit, one map.
//!
//! Invariant: after `load` no pipeline, and after `reserve_kv` no buffer and no bind group is made for a token.

mod arena;
mod device;
mod fuse;
mod layout;
mod load;
mod matrix;
mod pipelines;
mod profile;
mod record;
mod run;
mod shader;
#[cfg(test)]
mod tests;
mod top;
mod weights;
mod wgsl;

pub use device::{Gpu, SAYS};
pub use load::GpuLoader;
pub use profile::KernelTime;

use super::rope::Rope;
use super::{Backend, Logits, Wanted, check_ids};
use crate::error::{Error, Result};
use crate::model::Plan;
use crate::protocol::GpuDiagnostics;
use arena::{Arena, KvBuffers};
use fuse::Fused;
use pipelines::Pipelines;
use record::{Buffers, Dispatch, Recording};
use std::rc::Rc;
use weights::GpuWeights;

/// Tokens that go through the model together in a prefill.
pub const BATCH: usize = 128;
/// Into how many parts attention splits a long cache at most, and positions from which another part pays.
const MAX_SPLITS: usize = 16;
const SPLIT: usize = 256;
/// Workgroups in one dimension that every device takes.
const MAX_GROUPS: usize = 65_535;

/// A model on the GPU, with its KV cache.
pub struct GpuBackend {
    gpu: Rc<Gpu>,
    plan: Plan,
    groups: Vec<Fused>,
    context_length: usize,
    weights: GpuWeights,
    arena: Arena,
    kv: KvBuffers,
    kv_len: usize,
    pipelines: Pipelines,
    recording: Recording<Dispatch>,
    rope: Rope,
    /// What is written before a pass.
    params: Vec<u8>,
}

impl GpuBackend {
    /// Why the device cannot be used any more, if so.
    pub fn failure(&self) -> Option<&Error> {
        self.gpu.failure()
    }

    pub fn gpu(&self) -> &Gpu {
        &self.gpu
    }

    /// Adds what the engine knows about itself.
    pub fn complete(&self, diagnostics: &mut GpuDiagnostics) {
        let kv_bytes = self.kv.layers.iter().map(|(keys, values)| keys.size() + values.size()).sum::<u64>();
        diagnostics.buffer_bytes = self.weights.bytes + self.arena.bytes() + kv_bytes;
        diagnostics.pipelines = self.pipelines.len() as u32;
        diagnostics.compile_ms = self.pipelines.compile_ms;
        let lists = self.lists(1, Some(Wanted::Top { temperature: 1.0 }));
        let runs = |dispatch: &&Dispatch| dispatch.groups.count(1, 1).is_some();
        diagnostics.dispatches_per_token = lists.into_iter().flatten().filter(runs).count() as u32;
    }
}

impl Backend for GpuBackend {
    async fn forward(&mut self, ids: &[u32], mut logits: Option<(Wanted, &mut Logits)>) -> Result<()> {
        check_ids(ids, self.kv_len, self.context_length, self.plan.config.vocab_size)?;
        self.gpu.check()?;
        self.reserve_kv(self.kv_len + ids.len()).await?;
        let before = self.kv_len;
        let last = ids.len().div_ceil(BATCH) - 1;
        for (i, batch) in ids.chunks(BATCH).enumerate() {
            let logits = if i == last { logits.take() } else { None };
            if let Err(error) = self.pass(batch, logits).await {
                self.kv_len = before;
                return Err(error);
            }
            self.kv_len += batch.len();
        }
        Ok(())
    }

    async fn read_all(&mut self, logits: &mut Logits) -> Result<()> {
        self.gpu.check()?;
        let mut encoder = self.gpu.device.create_command_encoder(&Default::default());
        self.copy_logits(&mut encoder);
        self.gpu.queue.submit([encoder.finish()]);
        self.read_logits(logits).await
    }

    fn kv_len(&self) -> usize {
        self.kv_len
    }

    fn truncate_kv(&mut self, len: usize) {
        self.kv_len = self.kv_len.min(len);
    }

    async fn reserve_kv(&mut self, n_positions: usize) -> Result<()> {
        if n_positions <= self.kv.capacity {
            return Ok(());
        }
        let scopes = self.gpu.scopes();
        let grown = self.grow_kv(n_positions);
        scopes.end().await?;
        let (kv, recording) = grown?;
        std::mem::replace(&mut self.kv, kv).destroy();
        self.recording = recording;
        Ok(())
    }
}

impl GpuBackend {
    /// A larger cache, and the dispatches that use it.
    fn grow_kv(&self, n_positions: usize) -> Result<(KvBuffers, Recording<Dispatch>)> {
        let kv = KvBuffers::new(&self.gpu, &self.plan.config, n_positions)?;
        kv.copy_from(&self.gpu, &self.plan.config, &self.kv, self.kv_len);
        let buffers = Buffers { weights: &self.weights, arena: &self.arena, kv: &kv };
        let steps = record::record(&self.plan, &self.groups, buffers);
        let recording = steps.map(|step| self.pipelines.bind(&self.gpu, &self.arena.params, step));
        Ok((kv, recording))
    }
}
