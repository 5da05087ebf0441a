//! The plan as dispatches, recorded once: which kernel with which buffers, in order.
//!
//! Two lists run the same plan: `one` computes the last token of a pass, `many` all of its tokens. A pass of one token runs
//! `one`; a longer one runs `many` as far as all positions matter, and then the rest of `one`.
//!
//! Invariant: runs nothing, and creates nothing on the device.

use super::arena::{Arena, KvBuffers};
use super::fuse::{Fused, Qkv};
use super::matrix::{GpuMatrix, Part};
use super::shader::{
    Epilogue, Heads, Kernel, MATVEC_ROWS, MATVEC_WORKGROUP, Norm, QUERIES, TILE, Turns, lanes, stride,
};
use super::weights::{GpuWeights, matrices_of};
use super::{MAX_GROUPS, top};
use crate::model::{Plan, RotationId, Slot};
use wgpu::{BindGroup, Buffer, ComputePipeline};

/// A kernel with its buffers, in the order of [`Kernel::bindings`] after the parameters.
pub struct Step<'a> {
    pub kernel: Kernel,
    pub buffers: Vec<&'a Buffer>,
}

/// A step that can be dispatched.
pub struct Dispatch {
    pub kernel: Kernel,
    pub pipeline: ComputePipeline,
    pub bind_group: BindGroup,
    pub groups: Groups,
}

/// The plan in order; of steps, and then of dispatches.
pub struct Recording<T> {
    pub one: Vec<T>,
    pub many: Vec<T>,
    /// Where in `one` that part begins which only the last position takes.
    pub last_only: usize,
    /// The top of the distribution, after the logits.
    pub top: Vec<T>,
}

/// How many workgroups a dispatch takes.
#[derive(Debug, Clone, Copy)]
pub enum Groups {
    Fixed([u32; 3]),
    /// One for every `each` of `per_token` times the tokens.
    Tokens {
        per_token: usize,
        each: usize,
    },
    /// `x` for every `each` tokens.
    Tiles {
        x: u32,
        each: usize,
    },
    /// `x` for each part of the cache.
    Splits {
        x: u32,
    },
    /// `x`, unless the cache is in one part.
    Merge {
        x: u32,
    },
}

impl Groups {
    /// What a kernel is dispatched with.
    pub fn of(kernel: &Kernel) -> Self {
        match kernel {
            Kernel::Embed { matrix, .. } => Groups::Tokens { per_token: matrix.units, each: 64 },
            Kernel::AddNorm { last: true, .. } => Groups::Fixed([1, 1, 1]),
            Kernel::RmsNorm(_) | Kernel::AddNorm { .. } => Groups::Tokens { per_token: 1, each: 1 },
            Kernel::FinishQkv { heads, .. } => {
                Groups::Tiles { x: (heads.n_heads + 2 * heads.n_kv_heads) as u32, each: 1 }
            }
            Kernel::MatVec { matrix, .. } => {
                let rows_each = MATVEC_WORKGROUP / lanes(matrix.units) * MATVEC_ROWS;
                Groups::linear(matrix.n_rows.div_ceil(rows_each))
            }
            Kernel::MatMul { matrix, .. } => Groups::Tiles { x: matrix.n_rows.div_ceil(TILE) as u32, each: TILE },
            Kernel::Attention { heads, queries: 1, .. } => Groups::Splits { x: heads.n_heads as u32 },
            Kernel::Attention { heads, queries, .. } => Groups::Tiles { x: heads.n_heads as u32, each: *queries },
            Kernel::MergeSplits(heads) => Groups::Merge { x: heads.n_heads as u32 },
            Kernel::LogitSums { .. } | Kernel::LogitHistogram { .. } | Kernel::CollectBest { .. } => {
                Groups::Fixed([top::CHUNKS as u32, 1, 1])
            }
        }
    }

    /// Workgroups for `n` tokens and `n_splits` parts of the cache; none: nothing to do.
    pub fn count(self, n: usize, n_splits: usize) -> Option<[u32; 3]> {
        match self {
            Groups::Fixed(groups) => Some(groups),
            Groups::Tokens { per_token, each } => Some([(n * per_token).div_ceil(each) as u32, 1, 1]),
            Groups::Tiles { x, each } => Some([x, n.div_ceil(each) as u32, 1]),
            Groups::Splits { x } => Some([x, 1, n_splits as u32]),
            Groups::Merge { x } => (n_splits > 1).then_some([x, 1, 1]),
        }
    }

    /// `n` in one row, or in several where a row would be longer than a device takes.
    pub fn linear(n: usize) -> Self {
        let rows = n.div_ceil(MAX_GROUPS);
        Groups::Fixed([n.div_ceil(rows) as u32, rows as u32, 1])
    }
}

impl<T> Recording<T> {
    pub fn map<U>(self, f: impl Fn(T) -> U) -> Recording<U> {
        let all = |list: Vec<T>| list.into_iter().map(&f).collect();
        Recording { one: all(self.one), many: all(self.many), last_only: self.last_only, top: all(self.top) }
    }

    pub fn all(&self) -> impl Iterator<Item = &T> {
        self.one.iter().chain(&self.many).chain(&self.top)
    }
}

/// Where the steps find what they read and write.
#[derive(Clone, Copy)]
pub struct Buffers<'a> {
    pub weights: &'a GpuWeights,
    pub arena: &'a Arena,
    pub kv: &'a KvBuffers,
}

/// The steps of `groups`.
pub fn record<'a>(plan: &Plan, groups: &[Fused], buffers: Buffers<'a>) -> Recording<Step<'a>> {
    let mut recorder = Recorder { plan, buffers, one: Vec::new(), many: Vec::new() };
    let mut last_only = 0;
    let mut all_positions = true;
    for group in groups {
        if *group == Fused::LastPosition {
            (last_only, all_positions) = (recorder.one.len(), false);
        } else {
            recorder.group(group, all_positions);
        }
    }
    let arena = buffers.arena;
    let vocab_size = plan.config.vocab_size;
    let kernels =
        [Kernel::LogitSums { vocab_size }, Kernel::LogitHistogram { vocab_size }, Kernel::CollectBest { vocab_size }];
    let top = kernels.map(|kernel| Step { kernel, buffers: vec![&arena.logits, &arena.top, &arena.histogram] });
    Recording { one: recorder.one, many: recorder.many, last_only, top: top.into() }
}

struct Recorder<'a, 'p> {
    plan: &'p Plan,
    buffers: Buffers<'a>,
    one: Vec<Step<'a>>,
    many: Vec<Step<'a>>,
}

impl<'a> Recorder<'a, '_> {
    /// Adds a group to `one`, and to `many` unless only the last position takes it.
    fn group(&mut self, group: &Fused, all_positions: bool) {
        let Buffers { weights, arena, kv } = self.buffers;
        let config = &self.plan.config;
        let norm_of = |id| (Norm::new(config.n_embd, config.norm_eps), weights.vector(id));
        let heads = Heads { n_heads: config.n_heads, n_kv_heads: config.n_kv_heads, head_dim: config.head_dim };
        match *group {
            Fused::Embed { table, scale } => {
                for part in &weights.matrix(&[table]).parts {
                    let step = || Step {
                        kernel: Kernel::Embed { matrix: part.matrix, scale: scale.into() },
                        buffers: vec![&part.quants, &part.extras, &arena.x],
                    };
                    self.one.push(step());
                    self.many.push(step());
                }
            }
            Fused::Qkv(Qkv { norm, q, k, rotation, layer, .. }) => {
                let (keys, values) = &kv.layers[layer];
                self.norm_rows(norm_of(norm));
                for (ids, _) in matrices_of(self.plan, group) {
                    let rows_of = |id| if ids.contains(&id) { self.plan.tensors[id].n_rows } else { 0 };
                    let (q_rows, k_rows) = (rows_of(q), rows_of(k));
                    let epilogue = Epilogue::Qkv { q_rows, k_rows, heads, turns: self.turns(rotation) };
                    let out = [&arena.q, keys, values];
                    self.product(weights.matrix(&ids), &arena.x, Some(norm_of(norm)), epilogue, &out, true);
                }
            }
            Fused::QkvInSteps { qkv, head_norms, .. } => {
                self.norm_rows(norm_of(qkv.norm));
                let mut first = 0;
                for (ids, _) in matrices_of(self.plan, group) {
                    let stride = stride(config.q_width() + 2 * config.kv_width());
                    let epilogue = Epilogue::Store { stride, first };
                    let norm = Some(norm_of(qkv.norm));
                    self.product(weights.matrix(&ids), &arena.x, norm, epilogue, &[&arena.qkv], true);
                    first += ids.iter().map(|&id| self.plan.tensors[id].n_rows).sum::<usize>();
                }
                let kernel = Kernel::FinishQkv {
                    heads,
                    turns: self.turns(qkv.rotation),
                    pairing: config.architecture.pairing(),
                    norm_eps: head_norms.map(|_| config.norm_eps.into()),
                };
                let (keys, values) = &kv.layers[qkv.layer];
                let buffers = vec![&arena.qkv, weights.heads(qkv.layer), &arena.q, keys, values];
                self.one.push(Step { kernel: kernel.clone(), buffers: buffers.clone() });
                self.many.push(Step { kernel, buffers });
            }
            Fused::Attention { layer, window } => self.attention(layer, window, heads, all_positions),
            Fused::Project { weight, from, post_norm } => {
                let from = if from == Slot::Attn { &arena.attn } else { &arena.gate };
                let stride = stride(config.n_embd);
                let matrix = weights.matrix(&[weight]);
                match post_norm {
                    None => self.product(matrix, from, None, Epilogue::Add { stride }, &[&arena.x], all_positions),
                    Some(norm) => {
                        let epilogue = Epilogue::Store { stride, first: 0 };
                        self.product(matrix, from, None, epilogue, &[&arena.delta], all_positions);
                        self.add_norm(norm_of(norm), all_positions);
                    }
                }
            }
            Fused::GateUp { norm, gate, up, activation } => {
                if all_positions {
                    self.norm_rows(norm_of(norm));
                }
                let stride = stride(config.n_ff);
                let out = [&arena.gate];
                let matrices = matrices_of(self.plan, group);
                if matrices.len() == 1 {
                    let matrix = weights.matrix(&[gate, up]);
                    let epilogue = Epilogue::Glu { stride, activation };
                    self.product(matrix, &arena.x, Some(norm_of(norm)), epilogue, &out, all_positions);
                } else {
                    let gated = Epilogue::Gated { stride, activation };
                    for (id, epilogue) in [(gate, Epilogue::Store { stride, first: 0 }), (up, gated)] {
                        let matrix = weights.matrix(&[id]);
                        self.product(matrix, &arena.x, Some(norm_of(norm)), epilogue, &out, all_positions);
                    }
                }
            }
            Fused::Head { norm, weight } => {
                // One row of logits, whatever the token.
                let epilogue = Epilogue::Store { stride: 0, first: 0 };
                let matrix = weights.matrix(&[weight]);
                self.product(matrix, &arena.x, Some(norm_of(norm)), epilogue, &[&arena.logits], false);
            }
            Fused::LastPosition => unreachable!("handled by the caller"),
        }
    }

    /// Normalises all rows of X for the products of `many`; those of `one` do it on the way.
    fn norm_rows(&mut self, (norm, weight): (Norm, &'a Buffer)) {
        let arena = self.buffers.arena;
        self.many.push(Step { kernel: Kernel::RmsNorm(norm), buffers: vec![&arena.x, weight, &arena.normed] });
    }

    /// Adds the rows of `delta`, normalised, to those of X.
    fn add_norm(&mut self, (norm, weight): (Norm, &'a Buffer), all_positions: bool) {
        let arena = self.buffers.arena;
        let step =
            |last| Step { kernel: Kernel::AddNorm { norm, last }, buffers: vec![&arena.delta, weight, &arena.x] };
        self.one.push(step(true));
        if all_positions {
            self.many.push(step(false));
        }
    }

    fn turns(&self, rotation: Option<RotationId>) -> Turns {
        let n_pairs = self.plan.config.rope_dim / 2;
        let pairs = if rotation.is_some() { n_pairs } else { 0 };
        Turns { pairs, per_token: self.plan.rotations.len() * n_pairs, first: rotation.unwrap_or(0) * n_pairs }
    }

    /// A product of `from`: normalised first, if there is a norm.
    fn product(
        &mut self,
        matrix: &'a GpuMatrix,
        from: &'a Buffer,
        norm: Option<(Norm, &'a Buffer)>,
        epilogue: Epilogue,
        out: &[&'a Buffer],
        all_positions: bool,
    ) {
        for Part { matrix, quants, extras } in &matrix.parts {
            let mut buffers = vec![quants, extras, from];
            buffers.extend(norm.map(|(_, weight)| weight));
            buffers.extend(out);
            self.one.push(Step {
                kernel: Kernel::MatVec { matrix: *matrix, norm: norm.map(|(norm, _)| norm), epilogue },
                buffers,
            });
            if all_positions {
                let from = if norm.is_some() { &self.buffers.arena.normed } else { from };
                let mut buffers = vec![quants, extras, from];
                buffers.extend(out);
                self.many.push(Step { kernel: Kernel::MatMul { matrix: *matrix, epilogue }, buffers });
            }
        }
    }

    fn attention(&mut self, layer: usize, window: Option<usize>, heads: Heads, all_positions: bool) {
        let Buffers { arena, kv, .. } = self.buffers;
        let (keys, values) = &kv.layers[layer];
        let step = |queries| Step {
            kernel: Kernel::Attention { heads, queries, scale: self.plan.config.attention_scale.into(), window },
            buffers: vec![&arena.q, keys, values, &arena.attn, &arena.splits],
        };
        self.one.push(step(1));
        self.one.push(Step { kernel: Kernel::MergeSplits(heads), buffers: vec![&arena.splits, &arena.attn] });
        if all_positions {
            self.many.push(step(QUERIES));
        }
    }
}
