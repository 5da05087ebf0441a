//! The model's weights in GPU memory, joined as the groups of a plan want them.
//!
//! Invariant: each tensor is uploaded once, in one matrix.

use super::device::Gpu;
use super::fuse::Fused;
use super::matrix::{GpuMatrix, Order, upload_vector};
use crate::error::Result;
use crate::model::{Plan, TensorId, TensorRef};
use std::collections::HashMap;
use wgpu::Buffer;

pub struct GpuWeights {
    matrices: HashMap<Vec<TensorId>, GpuMatrix>,
    vectors: HashMap<TensorId, Buffer>,
    /// In GPU memory.
    pub bytes: u64,
}

impl GpuWeights {
    /// Uploads all that `groups` use. `progress(done, total)` counts bytes of the file.
    ///
    /// Errors: those of [`GpuMatrix::upload`]; `device-lost`; and what the device refuses.
    pub async fn upload(
        gpu: &Gpu,
        plan: &Plan,
        file: &[u8],
        groups: &[Fused],
        mut progress: impl FnMut(u64, u64),
    ) -> Result<Self> {
        let total = plan.tensors.iter().map(|tensor| tensor.bytes.len() as u64).sum();
        let mut done = 0;
        let mut weights = Self { matrices: HashMap::new(), vectors: HashMap::new(), bytes: 0 };
        for group in groups {
            let scopes = gpu.scopes();
            let uploaded = weights.upload_group(gpu, plan, file, group);
            scopes.end().await?;
            gpu.check()?;
            done += uploaded?;
            progress(done, total);
        }
        Ok(weights)
    }

    /// Bytes of the file that the group took.
    fn upload_group(&mut self, gpu: &Gpu, plan: &Plan, file: &[u8], group: &Fused) -> Result<u64> {
        let mut done = 0;
        if let Some(norm) = norm_of(group) {
            let buffer = upload_vector(gpu, file, &plan.tensors[norm]);
            self.bytes += buffer.size();
            self.vectors.insert(norm, buffer);
            done += plan.tensors[norm].bytes.len();
        }
        for (ids, order) in matrices_of(plan, group) {
            if self.matrices.contains_key(&ids) {
                continue; // the output head is often the embedding table
            }
            let tensors: Vec<&TensorRef> = ids.iter().map(|&id| &plan.tensors[id]).collect();
            let matrix = GpuMatrix::upload(gpu, file, &tensors, order)?;
            self.bytes += matrix.bytes;
            self.matrices.insert(ids, matrix);
            done += tensors.iter().map(|tensor| tensor.bytes.len()).sum::<usize>();
        }
        Ok(done as u64)
    }

    /// Bytes that the products of one token read.
    pub fn bytes_per_token(&self, plan: &Plan, groups: &[Fused]) -> u64 {
        let products = groups.iter().filter(|group| !matches!(group, Fused::Embed { .. }));
        products.flat_map(|group| matrices_of(plan, group)).map(|(ids, _)| self.matrix(&ids).bytes).sum()
    }

    /// A matrix that [`matrices_of`] names.
    pub fn matrix(&self, ids: &[TensorId]) -> &GpuMatrix {
        self.matrices.get(ids).expect("every matrix of the groups was uploaded")
    }

    pub fn vector(&self, id: TensorId) -> &Buffer {
        self.vectors.get(&id).expect("every norm of the groups was uploaded")
    }
}

fn norm_of(group: &Fused) -> Option<TensorId> {
    match *group {
        Fused::Qkv { norm, .. } | Fused::GateUp { norm, .. } | Fused::Head { norm, .. } => Some(norm),
        _ => None,
    }
}

/// The matrices that a group multiplies with, each as the tensors that are joined in it.
pub fn matrices_of(plan: &Plan, group: &Fused) -> Vec<(Vec<TensorId>, Order)> {
    let joined = |ids: &[TensorId]| {
        let tensors: Vec<&TensorRef> = ids.iter().map(|&id| &plan.tensors[id]).collect();
        GpuMatrix::can_join(&tensors)
    };
    match *group {
        Fused::Embed { table } => vec![(vec![table], Order::Stacked)],
        Fused::Project { weight, .. } | Fused::Head { weight, .. } => vec![(vec![weight], Order::Stacked)],
        Fused::GateUp { gate, up, .. } if joined(&[gate, up]) => vec![(vec![gate, up], Order::Alternating)],
        Fused::GateUp { gate, up, .. } => vec![(vec![gate], Order::Stacked), (vec![up], Order::Stacked)],
        Fused::Qkv { q, k, v, .. } => {
            // Some files keep V in a finer format.
            [q, k, v].chunk_by(|a, b| joined(&[*a, *b])).map(|ids| (ids.to_vec(), Order::Stacked)).collect()
        }
        Fused::Attention { .. } | Fused::LastPosition => Vec::new(),
    }
}
