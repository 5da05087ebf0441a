//! The model's weights in GPU memory, joined as the groups of a plan want them.
//!
//! Invariant: each tensor is uploaded once, in one matrix.

use super::device::Gpu;
use super::fuse::{Fused, Qkv};
use super::matrix::{GpuMatrix, Order, floats, matrix_bytes, upload_floats, vector_bytes};
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

/// Tensors that are uploaded at once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Upload {
    Vector(TensorId),
    /// Joined in one matrix.
    Matrix(Vec<TensorId>, Order),
    /// What the heads of a layer go through: the biases of Q, K and V, if there are, then the norms, if there are.
    Heads {
        layer: usize,
        has_bias: bool,
        ids: Vec<TensorId>,
    },
}

impl Upload {
    /// All that `groups` use, each tensor once.
    pub fn all(plan: &Plan, groups: &[Fused]) -> Vec<Self> {
        let mut uploads = Vec::new();
        for group in groups {
            let norm = norm_of(group).map(Upload::Vector);
            let matrices = matrices_of(plan, group).into_iter().map(|(ids, order)| Upload::Matrix(ids, order));
            for upload in norm.into_iter().chain(heads_of(group)).chain(matrices) {
                // The output head is often the embedding table.
                if !uploads.contains(&upload) {
                    uploads.push(upload);
                }
            }
        }
        uploads
    }

    pub fn ids(&self) -> &[TensorId] {
        match self {
            Upload::Vector(id) => std::slice::from_ref(id),
            Upload::Matrix(ids, _) | Upload::Heads { ids, .. } => ids,
        }
    }

    /// Bytes in GPU memory. Errors: `unsupported-quantization` for a format without a shader.
    pub fn gpu_bytes(&self, plan: &Plan) -> Result<u64> {
        match self {
            Upload::Vector(id) => Ok(vector_bytes(&plan.tensors[*id]) as u64),
            Upload::Matrix(ids, _) => ids.iter().map(|&id| matrix_bytes(&plan.tensors[id])).sum(),
            Upload::Heads { .. } => Ok(((qkv_width(plan) + 2 * plan.config.head_dim) * size_of::<f32>()) as u64),
        }
    }
}

impl GpuWeights {
    pub fn new() -> Self {
        Self { matrices: HashMap::new(), vectors: HashMap::new(), heads: HashMap::new(), bytes: 0 }
    }

    /// Uploads some tensors; `data` is what the file has of each.
    ///
    /// Errors: those of [`GpuMatrix::upload`].
    pub fn add(&mut self, gpu: &Gpu, plan: &Plan, upload: &Upload, data: &[&[u8]]) -> Result<()> {
        match upload {
            Upload::Vector(id) => {
                let buffer = upload_floats(gpu, &plan.tensors[*id].name, floats(data[0]));
                self.bytes += buffer.size();
                self.vectors.insert(*id, buffer);
            }
            Upload::Matrix(ids, order) => {
                let tensors: Vec<&TensorRef> = ids.iter().map(|&id| &plan.tensors[id]).collect();
                let matrix = GpuMatrix::upload(gpu, data, &tensors, *order)?;
                self.bytes += matrix.bytes;
                self.matrices.insert(ids.clone(), matrix);
            }
            Upload::Heads { layer, has_bias, ids: _ } => {
                let mut values = if *has_bias { Vec::new() } else { vec![0.0; qkv_width(plan)] };
                values.extend(data.iter().copied().flat_map(floats));
                let buffer = upload_floats(gpu, "heads", values);
                self.bytes += buffer.size();
                self.heads.insert(*layer, buffer);
            }
        }
        Ok(())
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

fn qkv_width(plan: &Plan) -> usize {
    plan.config.q_width() + 2 * plan.config.kv_width()
}

fn heads_of(group: &Fused) -> Option<Upload> {
    let Fused::QkvInSteps { qkv, bias, head_norms } = *group else { return None };
    let ids = bias.into_iter().flatten().chain(head_norms.into_iter().flatten()).collect();
    Some(Upload::Heads { layer: qkv.layer, has_bias: bias.is_some(), ids })
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
