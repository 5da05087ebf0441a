//! Loading: the tensors one by one, in any order, each with the bytes that the file has of it.
//!
//! Invariant: a tensor's bytes are repacked where they are, or given back; two forms of one tensor stand side by side only while
//! candle copies it.

use super::kv::{GRANULE, KvCache};
use super::weights::{Matrix, Use, is_vector, keeps_bytes};
use super::{BATCH, CpuBackend, Pool, Rope, Work, ops};
use crate::error::Result;
use crate::model::{ModelConfig, Plan, TensorId};
use crate::quant::units;

/// A model whose tensors are still coming.
pub struct CpuLoader {
    plan: Plan,
    context_length: usize,
    /// One for each tensor of the plan.
    matrices: Vec<Option<Matrix>>,
}

/// Bytes that a model takes in memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Needs {
    pub weights: u64,
    /// A position of the KV cache, and the positions that it is made for at a time.
    pub per_position: u64,
    pub granule: u64,
    /// Working memory of a pass.
    pub work: u64,
    /// More than that while loading: candle's copies, of the largest tensor that it takes.
    pub passing: u64,
}

impl CpuLoader {
    /// For up to `context_length` positions.
    pub fn new(plan: Plan, context_length: usize) -> Self {
        let matrices = plan.tensors.iter().map(|_| None).collect();
        Self { plan, context_length, matrices }
    }

    /// Takes a tensor of the plan over. Errors: those of [`Matrix::new`].
    pub fn add(&mut self, id: TensorId, bytes: Vec<u8>) -> Result<()> {
        self.matrices[id] = Some(Matrix::new(self.plan.tensors[id].clone(), Use::of(&self.plan, id), bytes)?);
        Ok(())
    }

    /// The values of a vector that has been added.
    pub fn vector(&self, id: TensorId) -> Vec<f32> {
        self.matrices[id].as_ref().expect("every tensor has been added").vector().to_vec()
    }

    /// The model, once every tensor has been added, and the threads to run it on.
    pub fn finish(self, pool: Pool) -> CpuBackend {
        let rope = Rope::new(&self.plan, |id| self.vector(id), BATCH);
        let Self { plan, context_length, matrices } = self;
        let matrices = matrices.into_iter().map(|matrix| matrix.expect("every tensor has been added")).collect();
        let work = Work::new(&plan, rope, pool);
        CpuBackend { context_length, matrices, cache: cache(&plan.config), work, plan }
    }
}

impl CpuBackend {
    /// Loads a whole file whose tensors `plan` names.
    pub fn load(plan: Plan, file: &[u8], context_length: usize, pool: Pool) -> Result<Self> {
        let ranges: Vec<_> = plan.tensors.iter().map(|tensor| tensor.bytes.clone()).collect();
        let mut loader = CpuLoader::new(plan, context_length);
        for (id, range) in ranges.into_iter().enumerate() {
            loader.add(id, file[range].to_vec())?;
        }
        Ok(loader.finish(pool))
    }

    /// Whether the file's bytes of a tensor stay in memory.
    pub fn keeps_bytes(plan: &Plan, id: TensorId) -> bool {
        keeps_bytes(&plan.tensors[id], Use::of(plan, id))
    }

    /// What a model will take, on so many threads.
    pub fn needs(plan: &Plan, n_threads: usize) -> Needs {
        let config = &plan.config;
        let (mut weights, mut passing) = (0, 0);
        for (id, tensor) in plan.tensors.iter().enumerate() {
            let (used, bytes) = (Use::of(plan, id), tensor.bytes.len() as u64);
            let is_copied = !is_vector(tensor) && !units::has_units(tensor.ty) && used.is_multiplied;
            let is_kept = is_vector(tensor) || keeps_bytes(tensor, used);
            weights += bytes * (u64::from(is_kept) + u64::from(is_copied));
            // The bytes from the file, unless they stay, and the same aligned for candle.
            passing = passing.max(if is_copied { bytes * (2 - u64::from(is_kept)) } else { 0 });
        }
        let widest = config.n_embd.max(config.q_width()).max(config.n_ff);
        let widths = 4 * config.n_embd + 2 * config.q_width() + 2 * config.kv_width() + 2 * config.n_ff + widest;
        // Panels hold eight rows of integers and what a unit of them is worth.
        let panels = n_threads * widest * 16;
        // The logits once here and once in the hands of the caller.
        let work = BATCH * widths * size_of::<f32>() + panels + 2 * config.vocab_size * size_of::<f32>();
        let scores = n_threads * ops::HEADS * size_of::<f32>();
        Needs {
            weights,
            per_position: (cache(config).bytes_per_position() + scores) as u64,
            granule: GRANULE as u64,
            work: work as u64,
            passing,
        }
    }
}

fn cache(config: &ModelConfig) -> KvCache {
    KvCache::new(config.n_layers, config.n_kv_heads, config.head_dim)
}
