//! Where a token's time goes on the GPU: each dispatch in a pass of its own, between two timestamps.
//!
//! Invariant: computes the same token as a run would; slower, since nothing overlaps.

use super::GpuBackend;
use super::run::dispatch;
use crate::backend::Wanted;
use crate::clock::now_ms;
use crate::error::{Error, Result};
use wgpu::{
    BufferDescriptor, BufferUsages, ComputePassDescriptor, ComputePassTimestampWrites, Features, QuerySetDescriptor,
    QueryType,
};

/// The dispatches of one kernel in a token.
#[derive(Debug, Clone, PartialEq)]
pub struct KernelTime {
    pub label: String,
    pub n_dispatches: usize,
    /// All of them together.
    pub microseconds: f64,
}

impl GpuBackend {
    /// Computes the token `id` after the cache, and says how long each kernel took, the slowest first.
    ///
    /// Errors: `backend` where the device has no timestamps.
    pub async fn profile(&mut self, id: u32) -> Result<Vec<KernelTime>> {
        if !self.gpu.device.features().contains(Features::TIMESTAMP_QUERY) {
            return Err(Error::Backend("This GPU has no timestamps.".into()));
        }
        let n_splits = self.n_splits(1);
        self.write_params(&[id], n_splits, 1.0);
        let gpu = self.gpu.clone();
        let lists = self.lists(1, Some(Wanted::Top { temperature: 1.0 }));
        let dispatches: Vec<_> =
            lists.into_iter().flatten().filter(|d| d.groups.count(1, n_splits).is_some()).collect();
        let n_stamps = 2 * dispatches.len() as u32;
        let stamps =
            gpu.device.create_query_set(&QuerySetDescriptor { label: None, ty: QueryType::Timestamp, count: n_stamps });
        let size = u64::from(n_stamps) * 8;
        let buffer =
            |usage| gpu.device.create_buffer(&BufferDescriptor { label: None, size, usage, mapped_at_creation: false });
        let resolved = buffer(BufferUsages::QUERY_RESOLVE | BufferUsages::COPY_SRC);
        let copy = buffer(BufferUsages::COPY_DST | BufferUsages::MAP_READ);

        let mut encoder = gpu.device.create_command_encoder(&Default::default());
        for (stamp, one) in (0..).step_by(2).zip(&dispatches) {
            let mut pass = encoder.begin_compute_pass(&ComputePassDescriptor {
                label: None,
                timestamp_writes: Some(ComputePassTimestampWrites {
                    query_set: &stamps,
                    beginning_of_pass_write_index: Some(stamp),
                    end_of_pass_write_index: Some(stamp + 1),
                }),
            });
            dispatch(&mut pass, std::slice::from_ref(*one), 1, n_splits);
        }
        encoder.resolve_query_set(&stamps, 0..n_stamps, &resolved, 0);
        encoder.copy_buffer_to_buffer(&resolved, 0, &copy, 0, size);
        gpu.queue.submit([encoder.finish()]);
        let stamps = gpu
            .read(&copy, |bytes| bytes.as_chunks().0.iter().map(|stamp| u64::from_le_bytes(*stamp)).collect::<Vec<_>>())
            .await?;

        let period = f64::from(gpu.queue.get_timestamp_period());
        let mut times: Vec<KernelTime> = Vec::new();
        for (one, stamps) in dispatches.iter().zip(stamps.chunks_exact(2)) {
            let label = one.kernel.label();
            let microseconds = stamps[1].saturating_sub(stamps[0]) as f64 * period / 1e3;
            match times.iter_mut().find(|time| time.label == label) {
                Some(time) => {
                    time.n_dispatches += 1;
                    time.microseconds += microseconds;
                }
                None => times.push(KernelTime { label, n_dispatches: 1, microseconds }),
            }
        }
        times.sort_by(|a, b| b.microseconds.total_cmp(&a.microseconds));
        Ok(times)
    }

    /// Bytes of weights that a token reads: every matrix of the plan once, and one row of the embedding.
    pub fn bytes_per_token(&self) -> u64 {
        self.weights.bytes_per_token(&self.plan, &self.groups)
    }

    /// Bytes a second that this GPU reads and writes when it copies `bytes` within its memory, the best of some attempts.
    pub async fn copy_bandwidth(&self, bytes: u64) -> Result<f64> {
        const ATTEMPTS: usize = 5;
        const COPIES: usize = 8;
        let gpu = &self.gpu;
        let buffer = || {
            let usage = BufferUsages::COPY_SRC | BufferUsages::COPY_DST;
            gpu.device.create_buffer(&BufferDescriptor { label: None, size: bytes, usage, mapped_at_creation: false })
        };
        let scopes = gpu.scopes();
        let (source, target) = (buffer(), buffer());
        scopes.end().await?;
        let mut best = 0.0_f64;
        for _ in 0..ATTEMPTS {
            let mut encoder = gpu.device.create_command_encoder(&Default::default());
            for _ in 0..COPIES {
                encoder.copy_buffer_to_buffer(&source, 0, &target, 0, bytes);
            }
            let start = now_ms();
            gpu.queue.submit([encoder.finish()]);
            gpu.finish().await?;
            best = best.max((2 * COPIES as u64 * bytes) as f64 / (now_ms() - start) * 1e3);
        }
        Ok(best)
    }
}
