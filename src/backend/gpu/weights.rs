//! The model's weights in GPU memory, joined as the groups of a plan want them.
//!
//! Invariant: each tensor is uploaded once, in one matrix.

use super::device::Gpu;
use super::fuse::{Fused, Qkv};
use super::matrix::{GpuMatrix, Order, floats, upload_floats};
use crate::error::Result;
use crate::model::{Plan, TensorId, TensorRef};
use std::collections::HashMap;
use wgpu::Buffer;

pub struct GpuWeights {
    matrices: HashMap<Vec<TensorId>, GpuMatrix>,
    vectors: HashMap<TensorId, Buffer>,
    /// By layer: the biases of Q, K and V, or zeros; then the norms of Q's and of K's heads, if there are.
    heads: HashMap<usize, Buffer>,
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
        let mut weights = Self { matrices: HashMap::new(), vectors: HashMap::new(), heads: HashMap::new(), bytes: 0 };
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
            let buffer = upload_floats(gpu, &plan.tensors[norm].name, floats(file, &plan.tensors[norm]));
            self.bytes += buffer.size();
            self.vectors.insert(norm, buffer);
            done += plan.tensors[norm].bytes.len();
        }
        if let Fused::QkvInSteps { qkv, bias, head_norms } = *group {
            let zeros = plan.config.q_width() + 2 * plan.config.kv_width();
            let tensors = |ids: &[TensorId]| ids.iter().flat_map(|&id| floats(file, &plan.tensors[id])).collect();
            let mut values: Vec<f32> = bias.map_or(vec![0.0; zeros], |ids| tensors(&ids));
            values.extend(head_norms.map_or(Vec::new(), |ids| tensors(&ids)));
            let buffer = upload_floats(gpu, "heads", values);
            self.bytes += buffer.size();
            self.heads.insert(qkv.layer, buffer);
            let ids = bias.into_iter().flatten().chain(head_norms.into_iter().flatten());
            done += ids.map(|id| plan.tensors[id].bytes.len()).sum::<usize>();
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

    /// What a layer's heads go through beside their products.
    pub fn heads(&self, layer: usize) -> &Buffer {
        self.heads.get(&layer).expect("every layer whose heads are finished in a step of their own has them")
    }
}

fn norm_of(group: &Fused) -> Option<TensorId> {
    match *group {
        Fused::Qkv(qkv) | Fused::QkvInSteps { qkv, .. } => Some(qkv.norm),
        Fused::GateUp { norm, .. } | Fused::Head { norm, .. } => Some(norm),
        Fused::Project { post_norm, .. } => post_norm,
        Fused::Embed { .. } | Fused::Attention { .. } | Fused::LastPosition => None,
    }
}

/// The matrices that a group multiplies with, each as the tensors that are joined in it.
pub fn matrices_of(plan: &Plan, group: &Fused) -> Vec<(Vec<TensorId>, Order)> {
    let joined = |ids: &[TensorId]| {
        let tensors: Vec<&TensorRef> = ids.iter().map(|&id| &plan.tensors[id]).collect();
        GpuMatrix::can_join(&tensors)
    };
    match *group {
        Fused::Embed { table, .. } => vec![(vec![table], Order::Stacked)],
        Fused::Project { weight, .. } | Fused::Head { weight, .. } => vec![(vec![weight], Order::Stacked)],
        Fused::GateUp { gate, up, .. } if joined(&[gate, up]) => vec![(vec![gate, up], Order::Alternating)],
        Fused::GateUp { gate, up, .. } => vec![(vec![gate], Order::Stacked), (vec![up], Order::Stacked)],
        Fused::Qkv(Qkv { q, k, v, .. }) | Fused::QkvInSteps { qkv: Qkv { q, k, v, .. }, .. } => {
            // Some files keep V in a finer format.
            [q, k, v].chunk_by(|a, b| joined(&[*a, *b])).map(|ids| (ids.to_vec(), Order::Stacked)).collect()
        }
        Fused::Attention { .. } | Fused::LastPosition => Vec::new(),
    }
}
