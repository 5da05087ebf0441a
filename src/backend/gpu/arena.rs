//! The buffers of a pass: parameters, working matrices, cache, and what is read back. All exist before the first token.
//!
//! Invariant: sizes only; what the buffers hold is the shaders' business.

use super::device::Gpu;
use super::shader::stride;
use super::{BATCH, MAX_SPLITS, top};
use crate::error::{Error, Result};
use crate::model::{ModelConfig, Plan};
use wgpu::{Buffer, BufferDescriptor, BufferUsages};

/// Positions of the cache are reserved in multiples of this.
const GRANULE: usize = 256;

/// Working memory for passes of up to [`BATCH`] tokens.
pub struct Arena {
    pub params: Buffer,
    /// `[token][stride(n_embd)]`; of prefill only: `normed`.
    pub x: Buffer,
    pub normed: Buffer,
    /// `[token][stride(n_heads * head_dim)]`
    pub q: Buffer,
    pub attn: Buffer,
    /// `[token][stride((n_heads + 2 * n_kv_heads) * head_dim)]`: products that become Q, K and V in a step of their own.
    pub qkv: Buffer,
    /// `[token][stride(n_embd)]`: what is added to `x` once normalised.
    pub delta: Buffer,
    /// `[token][stride(n_ff)]`
    pub gate: Buffer,
    /// `[vocab_size]`
    pub logits: Buffer,
    /// Parts of an attention over a long cache.
    pub splits: Buffer,
    pub top: Buffer,
    pub histogram: Buffer,
    /// Where `top` and `logits` can be read from.
    pub top_copy: Buffer,
    pub logits_copy: Buffer,
}

/// Keys and values of every layer, `[position][n_kv_heads * head_dim]`.
pub struct KvBuffers {
    /// Positions there is room for.
    pub capacity: usize,
    /// `[layer]`: keys and values.
    pub layers: Vec<(Buffer, Buffer)>,
}

impl Arena {
    pub fn new(gpu: &Gpu, plan: &Plan) -> Self {
        let config = &plan.config;
        const READ: BufferUsages = BufferUsages::MAP_READ.union(BufferUsages::COPY_DST);
        let matrix = |label, width: usize| storage(gpu, label, (BATCH * stride(width) * size_of::<f32>()) as u64);
        let copy = |label, size: usize| {
            gpu.device.create_buffer(&BufferDescriptor {
                label: Some(label),
                size: size as u64,
                usage: READ,
                mapped_at_creation: false,
            })
        };
        let logits_bytes = config.vocab_size * size_of::<f32>();
        Self {
            params: storage(gpu, "params", params_bytes(plan) as u64),
            x: matrix("x", config.n_embd),
            normed: matrix("normed", config.n_embd),
            q: matrix("q", config.q_width()),
            attn: matrix("attn", config.q_width()),
            qkv: matrix("qkv", config.q_width() + 2 * config.kv_width()),
            delta: matrix("delta", config.n_embd),
            gate: matrix("gate", config.n_ff),
            logits: storage(gpu, "logits", logits_bytes as u64),
            splits: storage(
                gpu,
                "splits",
                (config.n_heads * MAX_SPLITS * (config.head_dim + 4) * size_of::<f32>()) as u64,
            ),
            top: storage(gpu, "top", top::BYTES as u64),
            histogram: storage(gpu, "histogram", (top::BINS * size_of::<u32>()) as u64),
            top_copy: copy("top copy", top::BYTES),
            logits_copy: copy("logits copy", logits_bytes),
        }
    }

    /// Bytes of all buffers.
    pub fn bytes(&self) -> u64 {
        let Self { params, x, normed, q, attn, qkv, delta, gate, logits, .. } = self;
        let Self { splits, top, histogram, top_copy, logits_copy, .. } = self;
        let working = [params, x, normed, q, attn, qkv, delta, gate, logits];
        let others = [splits, top, histogram, top_copy, logits_copy];
        working.into_iter().chain(others).map(Buffer::size).sum()
    }
}

impl KvBuffers {
    /// Room for `n_positions`. Errors: `too-large` when a layer's keys exceed a binding.
    pub fn new(gpu: &Gpu, config: &ModelConfig, n_positions: usize) -> Result<Self> {
        let capacity = n_positions.next_multiple_of(GRANULE);
        let size = capacity as u64 * config.kv_width() as u64 * size_of::<f32>() as u64;
        let largest = gpu.largest_binding;
        if size > largest {
            return Err(Error::TooLarge(format!(
                "A KV cache of {capacity} positions takes {size} bytes a layer; this GPU binds at most {largest}."
            )));
        }
        let layer = |_| (storage(gpu, "keys", size), storage(gpu, "values", size));
        Ok(Self { capacity, layers: (0..config.n_layers).map(layer).collect() })
    }

    /// Gives the memory back, once what was submitted is done.
    pub fn destroy(&self) {
        for (keys, values) in &self.layers {
            keys.destroy();
            values.destroy();
        }
    }

    /// Copies the first `n_positions` from `old`.
    pub fn copy_from(&self, gpu: &Gpu, config: &ModelConfig, old: &Self, n_positions: usize) {
        let size = (n_positions * config.kv_width() * size_of::<f32>()) as u64;
        let mut encoder = gpu.device.create_command_encoder(&Default::default());
        for (new, old) in self.layers.iter().zip(&old.layers) {
            encoder.copy_buffer_to_buffer(&old.0, 0, &new.0, 0, size);
            encoder.copy_buffer_to_buffer(&old.1, 0, &new.1, 0, size);
        }
        gpu.queue.submit([encoder.finish()]);
    }
}

/// Bytes of the parameters: four words, the ids, the rotations.
pub fn params_bytes(plan: &Plan) -> usize {
    let turns = plan.rotations.len() * plan.config.rope_dim / 2;
    16 + BATCH * size_of::<u32>() + BATCH * turns * size_of::<[f32; 2]>()
}

fn storage(gpu: &Gpu, label: &str, size: u64) -> Buffer {
    gpu.device.create_buffer(&BufferDescriptor {
        label: Some(label),
        size,
        usage: BufferUsages::STORAGE | BufferUsages::COPY_DST | BufferUsages::COPY_SRC,
        mapped_at_creation: false,
    })
}
