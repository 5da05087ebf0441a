//! The plan on the CPU: one thread, vectors of 16 bytes, weights as quantized as in the file.
//!
//! Invariant: after `reserve_kv` nothing here allocates for a token, unless the model has formats that candle computes.

mod activations;
mod dot;
mod formats;
mod kv;
mod matmul;
mod ops;
mod pack;
mod scalar;
mod simd;
mod weights;
mod widths;

use super::rope::Rope;
use super::{Backend, Logits, Wanted, check_ids};
use crate::error::Result;
use crate::model::{Op, Plan, Slot};
use activations::Activations;
use kv::KvCache;
use matmul::Panel;
use weights::{Input, Matrix};

/// Tokens that go through the model together in a prefill; also how long Stop may have to wait.
pub const BATCH: usize = 32;

/// A model on the CPU, with its KV cache.
pub struct CpuBackend {
    plan: Plan,
    context_length: usize,
    /// The file, its tensors repacked.
    file: Vec<u8>,
    matrices: Vec<Matrix>,
    cache: KvCache,
    work: Work,
}

/// Working memory of a pass over at most `BATCH` tokens.
struct Work {
    rope: Rope,
    x: Vec<f32>,
    normed: Vec<f32>,
    q: Vec<f32>,
    k: Vec<f32>,
    v: Vec<f32>,
    attn: Vec<f32>,
    gate: Vec<f32>,
    up: Vec<f32>,
    /// One row.
    logits: Vec<f32>,
    quantized: Activations,
    /// Whose rows `quantized` holds.
    quantized_from: Option<Slot>,
    product: Vec<f32>,
    panel: Panel,
    scores: Vec<f32>,
}

impl CpuBackend {
    /// Takes over a file whose tensors `plan` names, for up to `context_length` positions. `progress(done, total)` counts bytes.
    pub fn load(
        plan: Plan,
        mut file: Vec<u8>,
        context_length: usize,
        mut progress: impl FnMut(u64, u64),
    ) -> Result<Self> {
        let total = plan.tensors.iter().map(|tensor| tensor.bytes.len() as u64).sum();
        let mut done = 0;
        let mut matrices = Vec::with_capacity(plan.tensors.len());
        for (id, tensor) in plan.tensors.iter().enumerate() {
            let multiplied = plan.ops.iter().any(|op| matches!(op, Op::MatMul { weight, .. } if *weight == id));
            matrices.push(Matrix::new(tensor.clone(), multiplied, &mut file)?);
            done += tensor.bytes.len() as u64;
            progress(done, total);
        }
        let config = &plan.config;
        let divisors = plan.rope_freqs.map(|id| matrices[id].vector());
        let rope = Rope::new(config, divisors, BATCH);
        let work = Work::new(&plan, rope);
        let cache = KvCache::new(config.n_layers, config.n_kv_heads, config.head_dim);
        Ok(Self { context_length, file, matrices, cache, work, plan })
    }

    /// Bytes that one position takes in the KV cache.
    pub fn kv_bytes_per_position(&self) -> usize {
        self.cache.bytes_per_position()
    }

    /// One pass over at most `BATCH` tokens; `cache.len` is left alone.
    fn pass(&mut self, ids: &[u32], logits: bool) -> Result<()> {
        let Self { plan, file, matrices, cache, work, .. } = self;
        let config = &plan.config;
        let first = cache.len;
        let mut n = ids.len();
        // Position of row 0 of Q and X: moves to the last one when only that matters.
        let mut from = first;
        work.rope.seek(first, n);
        for op in &plan.ops {
            match *op {
                Op::Embed { table } => {
                    for (&id, x) in ids.iter().zip(work.x.chunks_exact_mut(config.n_embd)) {
                        matrices[table].row(file, id as usize, &mut work.panel, x)?;
                    }
                }
                Op::RmsNorm { weight } => {
                    let rows = work.x.chunks_exact(config.n_embd).zip(work.normed.chunks_exact_mut(config.n_embd));
                    for (x, out) in rows.take(n) {
                        ops::rms_norm(x, matrices[weight].vector(), config.norm_eps, out);
                    }
                    work.forget(Slot::Normed);
                }
                Op::MatMul { weight, x, out, add } => work.matmul(&matrices[weight], file, n, x, out, add)?,
                Op::Rope { x } => {
                    let (rows, width) = match x {
                        Slot::Q => (&mut work.q, config.q_width()),
                        _ => (&mut work.k, config.kv_width()),
                    };
                    for (token, row) in rows.chunks_exact_mut(width).take(n).enumerate() {
                        ops::rotate(work.rope.turns_at(token), config.head_dim, row);
                    }
                }
                Op::StoreKv { layer } => {
                    let width = config.kv_width();
                    for (token, (k, v)) in
                        work.k.chunks_exact(width).zip(work.v.chunks_exact(width)).take(n).enumerate()
                    {
                        cache.write(layer, first + token, k, v);
                    }
                }
                Op::LastPosition => {
                    if !logits {
                        return Ok(());
                    }
                    work.keep_last(n, config.n_embd, config.q_width());
                    from = first + n - 1;
                    n = 1;
                }
                Op::Attention { layer } => {
                    let width = config.q_width();
                    let rows = work.q.chunks_exact(width).zip(work.attn.chunks_exact_mut(width)).take(n);
                    for (token, (q, out)) in rows.enumerate() {
                        ops::attention(config, cache, layer, from + token + 1, q, out, &mut work.scores);
                    }
                    work.forget(Slot::Attn);
                }
                Op::SwiGlu => {
                    ops::swiglu(&mut work.gate[..n * config.n_ff], &work.up[..n * config.n_ff]);
                    work.forget(Slot::Gate);
                }
            }
        }
        Ok(())
    }
}

impl Backend for CpuBackend {
    async fn forward(&mut self, ids: &[u32], logits: Option<(Wanted, &mut Logits)>) -> Result<()> {
        check_ids(ids, self.cache.len, self.context_length, self.plan.config.vocab_size)?;
        self.reserve_kv(self.cache.len + ids.len()).await?;
        let before = self.cache.len;
        let last = ids.len().div_ceil(BATCH).saturating_sub(1);
        for (i, batch) in ids.chunks(BATCH).enumerate() {
            if let Err(error) = self.pass(batch, logits.is_some() && i == last) {
                self.cache.len = before;
                return Err(error);
            }
            self.cache.len += batch.len();
        }
        match logits {
            // They are here already: the top alone would be no cheaper.
            Some((_, logits)) => self.read_all(logits).await,
            None => Ok(()),
        }
    }

    async fn read_all(&mut self, logits: &mut Logits) -> Result<()> {
        logits.all.clear();
        logits.all.extend_from_slice(&self.work.logits);
        Ok(())
    }

    fn kv_len(&self) -> usize {
        self.cache.len
    }

    fn truncate_kv(&mut self, len: usize) {
        self.cache.len = self.cache.len.min(len);
    }

    async fn reserve_kv(&mut self, n_positions: usize) -> Result<()> {
        self.cache.reserve(n_positions)?;
        let capacity = self.cache.capacity();
        self.work.scores.resize(capacity, 0.0);
        Ok(())
    }
}

impl Work {
    fn new(plan: &Plan, rope: Rope) -> Self {
        let config = &plan.config;
        let rows = |width: usize| vec![0.0; BATCH * width];
        let (q_width, kv_width) = (config.q_width(), config.kv_width());
        let widest_input = config.n_embd.max(q_width).max(config.n_ff);
        Self {
            rope,
            x: rows(config.n_embd),
            normed: rows(config.n_embd),
            q: rows(q_width),
            k: rows(kv_width),
            v: rows(kv_width),
            attn: rows(q_width),
            gate: rows(config.n_ff),
            up: rows(config.n_ff),
            logits: vec![0.0; config.vocab_size],
            quantized: Activations::new(BATCH, widest_input),
            quantized_from: None,
            product: rows(config.n_embd),
            panel: Panel::new(widest_input),
            scores: Vec::new(),
        }
    }

    /// `slot` was written: what was quantized from it is stale.
    fn forget(&mut self, slot: Slot) {
        self.quantized_from = self.quantized_from.filter(|&from| from != slot);
    }

    fn matmul(&mut self, matrix: &Matrix, file: &[u8], n: usize, x: Slot, out: Slot, add: bool) -> Result<()> {
        // Both taken out for the call, so that input and output can be fields of one struct.
        let (input_rows, mut out_rows) = (std::mem::take(self.slot(x)), std::mem::take(self.slot(out)));
        if matrix.wants_quantized() && self.quantized_from != Some(x) {
            self.quantized.quantize(&input_rows[..n * matrix.tensor.n_cols], n);
            self.quantized_from = Some(x);
        }
        let scratch = if add { &mut self.product[..n * matrix.tensor.n_rows] } else { &mut [] };
        let input =
            Input { n, x: &input_rows[..n * matrix.tensor.n_cols], quantized: &self.quantized, panel: &mut self.panel };
        let done = matrix.matmul(file, input, &mut out_rows[..n * matrix.tensor.n_rows], add, scratch);
        *self.slot(x) = input_rows;
        *self.slot(out) = out_rows;
        self.forget(out);
        done
    }

    fn slot(&mut self, slot: Slot) -> &mut Vec<f32> {
        match slot {
            Slot::X => &mut self.x,
            Slot::Normed => &mut self.normed,
            Slot::Q => &mut self.q,
            Slot::K => &mut self.k,
            Slot::V => &mut self.v,
            Slot::Attn => &mut self.attn,
            Slot::Gate => &mut self.gate,
            Slot::Up => &mut self.up,
            Slot::Logits => &mut self.logits,
        }
    }

    /// Moves the last of `n` rows of X and Q to the front.
    fn keep_last(&mut self, n: usize, n_embd: usize, q_width: usize) {
        self.x.copy_within((n - 1) * n_embd..n * n_embd, 0);
        self.q.copy_within((n - 1) * q_width..n * q_width, 0);
    }
}
