//! The plan on the CPU: a few threads, vectors of 16 bytes, weights as quantized as in the file.
//!
//! Invariant: after `reserve_kv` nothing here allocates for a token, unless the model has formats that candle computes.

mod activations;
#[cfg(all(test, target_arch = "wasm32"))]
mod bench;
mod dot;
mod formats;
mod kv;
mod load;
mod matmul;
mod ops;
mod pack;
mod pool;
mod scalar;
mod simd;
mod weights;
mod widths;

use super::rope::Rope;
use super::{Backend, Logits, Wanted, check_ids};
use crate::error::Result;
use crate::model::{Activation, ModelConfig, Op, Plan, Slot};
use activations::Activations;
use kv::KvCache;
use matmul::Panel;
use pool::Grain;
use weights::{Input, Matrix};

pub use load::{CpuLoader, Needs};
pub use pool::{MAX_THREADS, Pool, Team};

/// Tokens that go through the model together in a prefill; also how long Stop may have to wait.
pub const BATCH: usize = 32;

/// What a value costs, in the multiply-adds of a quantized product.
const NORM_COST: usize = 8;
const GLU_COST: usize = 16;
/// For each position.
const ATTENTION_COST: usize = 4;

/// A model on the CPU, with its KV cache.
pub struct CpuBackend {
    plan: Plan,
    context_length: usize,
    matrices: Vec<Matrix>,
    cache: KvCache,
    work: Work,
}

/// Threads and working memory of a pass over at most `BATCH` tokens.
struct Work {
    pool: Pool,
    rope: Rope,
    x: Vec<f32>,
    normed: Vec<f32>,
    q: Vec<f32>,
    k: Vec<f32>,
    v: Vec<f32>,
    attn: Vec<f32>,
    delta: Vec<f32>,
    gate: Vec<f32>,
    up: Vec<f32>,
    /// One row.
    logits: Vec<f32>,
    quantized: Activations,
    /// Whose rows `quantized` holds.
    quantized_from: Option<Slot>,
    product: Vec<f32>,
    /// One for each thread.
    panels: Vec<Panel>,
    scores: Vec<Vec<f32>>,
}

impl CpuBackend {
    /// Bytes that one position takes in the KV cache.
    pub fn kv_bytes_per_position(&self) -> usize {
        self.cache.bytes_per_position()
    }

    pub fn pool(&self) -> &Pool {
        &self.work.pool
    }

    /// One pass over at most `BATCH` tokens; `cache.len` is left alone.
    fn pass(&mut self, ids: &[u32], logits: bool) -> Result<()> {
        let Self { plan, matrices, cache, work, .. } = self;
        let config = &plan.config;
        let first = cache.len;
        let mut n = ids.len();
        // Position of row 0 of Q and X: moves to the last one when only that matters.
        let mut from = first;
        work.rope.seek(first, n);
        let mut ops = &plan.ops[..];
        while let Some(op) = ops.first() {
            let together = n_together(ops, matrices);
            let product = |i: usize| match ops[i] {
                Op::MatMul { weight, out, .. } => (&matrices[weight], out),
                _ => unreachable!("n_together counts products"),
            };
            match *op {
                Op::MatMul { x, .. } if together == 2 => work.matmul_all([0, 1].map(product), n, x),
                Op::MatMul { x, .. } if together == 3 => work.matmul_all([0, 1, 2].map(product), n, x),
                Op::Embed { table, scale } => {
                    for (&id, x) in ids.iter().zip(work.x.chunks_exact_mut(config.n_embd)) {
                        matrices[table].row(id as usize, &mut work.panels[0], x)?;
                        x.iter_mut().for_each(|x| *x *= scale);
                    }
                }
                Op::RmsNorm { weight } => work.rms_norm(config, matrices[weight].vector(), n),
                Op::AddNorm { weight } => work.add_norm(config, matrices[weight].vector(), n),
                Op::MatMul { weight, x, out, add } => work.matmul(&matrices[weight], n, x, out, add)?,
                Op::AddBias { x, bias } => ops::add_bias(work.heads(x, config, n).0, matrices[bias].vector()),
                Op::HeadNorm { x, weight } => {
                    ops::head_norm(work.heads(x, config, n).0, matrices[weight].vector(), config.norm_eps);
                }
                Op::Rope { x, rotation } => {
                    let (rows, rope) = work.heads(x, config, n);
                    let pairing = config.architecture.pairing();
                    for (token, row) in rows.chunks_exact_mut(rows.len() / n).enumerate() {
                        ops::rotate(rope.turns_at(token, rotation), pairing, config.head_dim, row);
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
                Op::Attention { layer, window } => work.attention(config, cache, layer, window, from, n),
                Op::Glu { activation } => work.glu(activation, config.n_ff, n),
            }
            ops = &ops[together..];
        }
        Ok(())
    }
}

/// Sets or changes each row of `to`, by the row of `from` at its place.
fn norm_rows(pool: &mut Pool, width: usize, from: &[f32], to: &mut [f32], norm: impl Fn(&[f32], &mut [f32]) + Sync) {
    let (n_values, grain) = (to.len(), Grain { columns: width, cost: NORM_COST * width });
    pool.split(to, n_values, grain, &mut [(); MAX_THREADS], |range, mut to, ()| {
        let rows = from[range].chunks_exact(width).zip(to.row(0).chunks_exact_mut(width));
        rows.for_each(|(from, to)| norm(from, to));
    });
}

/// How many of the operations that come next are done as one: up to three packed products of the same input.
fn n_together(ops: &[Op], matrices: &[Matrix]) -> usize {
    let input = |op: &Op| match *op {
        Op::MatMul { weight, x, add: false, .. } if matrices[weight].is_packed() => Some(x),
        _ => None,
    };
    match input(&ops[0]) {
        Some(x) => ops.iter().take(3).take_while(|op| input(op) == Some(x)).count(),
        None => 1,
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
        let room = ops::HEADS * self.cache.capacity();
        self.work.scores.iter_mut().for_each(|scores| scores.resize(room, 0.0));
        Ok(())
    }
}

impl Work {
    fn new(plan: &Plan, rope: Rope, pool: Pool) -> Self {
        let n_threads = pool.n_threads();
        let config = &plan.config;
        let rows = |width: usize| vec![0.0; BATCH * width];
        let (q_width, kv_width) = (config.q_width(), config.kv_width());
        let widest_input = config.n_embd.max(q_width).max(config.n_ff);
        Self {
            pool,
            rope,
            x: rows(config.n_embd),
            normed: rows(config.n_embd),
            q: rows(q_width),
            k: rows(kv_width),
            v: rows(kv_width),
            attn: rows(q_width),
            delta: rows(config.n_embd),
            gate: rows(config.n_ff),
            up: rows(config.n_ff),
            logits: vec![0.0; config.vocab_size],
            quantized: Activations::new(BATCH, widest_input),
            quantized_from: None,
            product: rows(config.n_embd),
            panels: (0..n_threads).map(|_| Panel::new(widest_input)).collect(),
            scores: vec![Vec::new(); n_threads],
        }
    }

    /// `slot` was written: what was quantized from it is stale.
    fn forget(&mut self, slot: Slot) {
        self.quantized_from = self.quantized_from.filter(|&from| from != slot);
    }

    fn matmul(&mut self, matrix: &Matrix, n: usize, x: Slot, out: Slot, add: bool) -> Result<()> {
        if matrix.is_packed() {
            self.quantize(x, n, matrix.tensor.n_cols);
        }
        // Both taken out for the call, so that input and output can be fields of one struct.
        let (input_rows, mut out_rows) = (std::mem::take(self.slot(x)), std::mem::take(self.slot(out)));
        let scratch = if add { &mut self.product[..n * matrix.tensor.n_rows] } else { &mut [] };
        let x_rows = &input_rows[..n * matrix.tensor.n_cols];
        let input = Input { n, x: x_rows, quantized: &self.quantized, pool: &mut self.pool, panels: &mut self.panels };
        let done = matrix.matmul(input, &mut out_rows[..n * matrix.tensor.n_rows], add, scratch);
        *self.slot(x) = input_rows;
        *self.slot(out) = out_rows;
        self.forget(out);
        done
    }

    /// Packed products of the same input.
    fn matmul_all<const N: usize>(&mut self, products: [(&Matrix, Slot); N], n: usize, x: Slot) {
        self.quantize(x, n, products[0].0.tensor.n_cols);
        let mut outs = products.map(|(_, out)| std::mem::take(self.slot(out)));
        let mut values = outs.iter_mut().zip(products).map(|(out, (matrix, _))| &mut out[..n * matrix.tensor.n_rows]);
        let values = std::array::from_fn(|_| values.next().expect("one for each product"));
        let input = Input { n, x: &[], quantized: &self.quantized, pool: &mut self.pool, panels: &mut self.panels };
        weights::multiply_packed(products.map(|(matrix, _)| matrix), input, values, false);
        for ((_, slot), out) in products.into_iter().zip(outs) {
            *self.slot(slot) = out;
            self.forget(slot);
        }
    }

    /// Quantizes `n` rows of `x`, unless they are.
    fn quantize(&mut self, x: Slot, n: usize, n_cols: usize) {
        if self.quantized_from != Some(x) {
            let rows = std::mem::take(self.slot(x));
            self.quantized.quantize(&rows[..n * n_cols], n, &mut self.pool);
            *self.slot(x) = rows;
            self.quantized_from = Some(x);
        }
    }

    fn rms_norm(&mut self, config: &ModelConfig, weight: &[f32], n: usize) {
        let (width, eps) = (config.n_embd, config.norm_eps);
        let out = &mut self.normed[..n * width];
        norm_rows(&mut self.pool, width, &self.x, out, |x, out| ops::rms_norm(x, weight, eps, out));
        self.forget(Slot::Normed);
    }

    fn add_norm(&mut self, config: &ModelConfig, weight: &[f32], n: usize) {
        let (width, eps) = (config.n_embd, config.norm_eps);
        let x = &mut self.x[..n * width];
        norm_rows(&mut self.pool, width, &self.delta, x, |delta, x| ops::add_norm(delta, weight, eps, x));
        self.forget(Slot::X);
    }

    /// `n` rows of Q, K or V, and how they are rotated.
    fn heads(&mut self, x: Slot, config: &ModelConfig, n: usize) -> (&mut [f32], &Rope) {
        match x {
            Slot::Q => (&mut self.q[..n * config.q_width()], &self.rope),
            Slot::K => (&mut self.k[..n * config.kv_width()], &self.rope),
            Slot::V => (&mut self.v[..n * config.kv_width()], &self.rope),
            _ => unreachable!("only Q, K and V are made of heads"),
        }
    }

    /// For `n` positions from `from` on.
    fn attention(
        &mut self,
        config: &ModelConfig,
        cache: &KvCache,
        layer: usize,
        window: Option<usize>,
        from: usize,
        n: usize,
    ) {
        let (head_dim, n_kv_heads, q) = (config.head_dim, config.n_kv_heads, &self.q);
        // The heads that share keys and values stay together.
        let columns = config.n_heads / n_kv_heads * head_dim;
        let window = window.unwrap_or(usize::MAX);
        let grain = Grain { columns, cost: ATTENTION_COST * columns * window.min(from + n) };
        let len = n * config.q_width();
        self.pool.split(&mut self.attn[..len], len, grain, &mut self.scores, |range, mut out, scores| {
            let first = range.start / columns;
            let groups = q[range].chunks_exact(columns).zip(out.row(0).chunks_exact_mut(columns));
            for (i, (q, out)) in (first..).zip(groups) {
                let (token, kv_head) = (i / n_kv_heads, i % n_kv_heads);
                let (keys, values) = (cache.keys(layer, kv_head), cache.values(layer, kv_head));
                let end = from + token + 1;
                let view = ops::View { seen: end.saturating_sub(window)..end, head_dim, scale: config.attention_scale };
                ops::attention(keys, values, &view, q, out, scores);
            }
        });
        self.forget(Slot::Attn);
    }

    fn glu(&mut self, activation: Activation, n_ff: usize, n: usize) {
        let up = &self.up;
        let grain = Grain { columns: n_ff, cost: GLU_COST * n_ff };
        self.pool.split(&mut self.gate[..n * n_ff], n * n_ff, grain, &mut [(); MAX_THREADS], |range, mut gate, ()| {
            ops::glu(activation, gate.row(0), &up[range]);
        });
        self.forget(Slot::Gate);
    }

    fn slot(&mut self, slot: Slot) -> &mut Vec<f32> {
        match slot {
            Slot::X => &mut self.x,
            Slot::Normed => &mut self.normed,
            Slot::Q => &mut self.q,
            Slot::K => &mut self.k,
            Slot::V => &mut self.v,
            Slot::Attn => &mut self.attn,
            Slot::Delta => &mut self.delta,
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
