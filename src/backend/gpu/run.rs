//! A pass: parameters written, dispatches encoded in one compute pass, one submit, and what is wanted read back in one map.
//!
//! Invariant: creates nothing on the device but the command encoder.

use super::record::Dispatch;
use super::{GpuBackend, MAX_SPLITS, SPLIT, top};
use crate::backend::{Logits, Wanted};
use crate::error::Result;
use wgpu::{CommandEncoder, ComputePass};

/// Beyond this, e^(x / temperature) is 0 or 1 all the same, and the product of infinity with 0 would be NaN.
const MAX_INVERSE_TEMPERATURE: f32 = 1e30;

impl GpuBackend {
    /// Computes `ids` (at most `BATCH`) at the positions that follow the cache; `kv_len` is left alone.
    pub(super) async fn pass(&mut self, ids: &[u32], logits: Option<(Wanted, &mut Logits)>) -> Result<()> {
        let temperature = match logits {
            Some((Wanted::Top { temperature }, _)) => temperature,
            _ => 1.0,
        };
        let n_splits = self.n_splits(ids.len());
        self.write_params(ids, n_splits, temperature);
        let gpu = self.gpu.clone();
        let mut encoder = gpu.device.create_command_encoder(&Default::default());
        if let Some((Wanted::Top { .. }, _)) = logits {
            encoder.clear_buffer(&self.arena.top, 0, Some(top::HEADER as u64));
            encoder.clear_buffer(&self.arena.histogram, 0, None);
        }
        {
            let mut pass = encoder.begin_compute_pass(&Default::default());
            for dispatches in self.lists(ids.len(), logits.as_ref().map(|(wanted, _)| *wanted)) {
                dispatch(&mut pass, dispatches, ids.len(), n_splits);
            }
        }
        let Some((wanted, logits)) = logits else {
            gpu.queue.submit([encoder.finish()]);
            return gpu.finish().await;
        };
        match wanted {
            Wanted::All => {
                self.copy_logits(&mut encoder);
                gpu.queue.submit([encoder.finish()]);
                self.read_logits(logits).await
            }
            Wanted::Top { .. } => {
                encoder.copy_buffer_to_buffer(&self.arena.top, 0, &self.arena.top_copy, 0, top::BYTES as u64);
                gpu.queue.submit([encoder.finish()]);
                logits.all.clear();
                gpu.read(&self.arena.top_copy, |bytes| top::parse(bytes, temperature, &mut logits.top)).await
            }
        }
    }

    /// Into how many parts decode attention splits the cache once `n` more tokens are in it.
    pub(super) fn n_splits(&self, n: usize) -> usize {
        (self.kv_len + n).div_ceil(SPLIT).min(MAX_SPLITS)
    }

    /// What a pass of `n` tokens runs.
    pub(super) fn lists(&self, n: usize, wanted: Option<Wanted>) -> [&[Dispatch]; 3] {
        let recording = &self.recording;
        let (all_positions, last_position) = recording.one.split_at(recording.last_only);
        [
            if n == 1 { all_positions } else { &recording.many },
            if wanted.is_some() { last_position } else { &[] },
            if matches!(wanted, Some(Wanted::Top { .. })) { &recording.top } else { &[] },
        ]
    }

    pub(super) fn copy_logits(&self, encoder: &mut CommandEncoder) {
        let size = self.arena.logits.size();
        encoder.copy_buffer_to_buffer(&self.arena.logits, 0, &self.arena.logits_copy, 0, size);
    }

    pub(super) async fn read_logits(&self, logits: &mut Logits) -> Result<()> {
        let all = &mut logits.all;
        self.gpu
            .read(&self.arena.logits_copy, |bytes| {
                all.clear();
                all.extend(bytes.as_chunks().0.iter().map(|word| f32::from_le_bytes(*word)));
            })
            .await
    }

    /// The parameters as `shaders/params.wgsl` declares them, as far as this pass reads them.
    pub(super) fn write_params(&mut self, ids: &[u32], n_splits: usize, temperature: f32) {
        let inverse_temperature = (1.0 / temperature).min(MAX_INVERSE_TEMPERATURE);
        let words = [ids.len() as u32, self.kv_len as u32, n_splits as u32, inverse_temperature.to_bits()];
        self.rope.seek(self.kv_len, ids.len());
        let turns = self.rope.turns();
        let turns_at = 16 + super::BATCH * size_of::<u32>();
        self.params[..16].copy_from_slice(bytemuck::cast_slice(&words));
        self.params[16..][..size_of_val(ids)].copy_from_slice(bytemuck::cast_slice(ids));
        self.params[turns_at..][..size_of_val(turns)].copy_from_slice(bytemuck::cast_slice(turns));
        let end = turns_at + size_of_val(turns);
        self.gpu.queue.write_buffer(&self.arena.params, 0, &self.params[..end]);
    }
}

/// Encodes dispatches for `n` tokens and a cache in `n_splits` parts.
pub(super) fn dispatch(pass: &mut ComputePass, dispatches: &[Dispatch], n: usize, n_splits: usize) {
    for Dispatch { pipeline, bind_group, groups, .. } in dispatches {
        if let Some([x, y, z]) = groups.count(n, n_splits) {
            pass.set_pipeline(pipeline);
            pass.set_bind_group(0, bind_group, &[]);
            pass.dispatch_workgroups(x, y, z);
        }
    }
}
