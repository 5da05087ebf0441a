//! The forward pass as data: a straight line of operations that reads like the paper and that every backend executes.
//!
//! Invariant: names no backend and holds no tensor bytes.

use super::{Activation, LayerWeights, ModelConfig, RopeScaling, TensorRef, Weights};

/// Index into [`Plan::tensors`].
pub type TensorId = usize;

/// Index into [`Plan::rotations`].
pub type RotationId = usize;

/// A working matrix, one row a token; widths in values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Slot {
    /// The residual stream, `n_embd`.
    X,
    /// X normalised, `n_embd`.
    Normed,
    /// `n_heads * head_dim`
    Q,
    /// `n_kv_heads * head_dim`
    K,
    /// `n_kv_heads * head_dim`
    V,
    /// What attention gathers, `n_heads * head_dim`.
    Attn,
    /// What a sublayer adds to X once normalised, `n_embd`.
    Delta,
    /// `n_ff`
    Gate,
    /// `n_ff`
    Up,
    /// `vocab_size`
    Logits,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Op {
    /// X = rows of `table`, one for each id, times `scale`.
    Embed { table: TensorId, scale: f32 },
    /// Normed = X / rms(X) * weight.
    RmsNorm { weight: TensorId },
    /// out = W x, or out += W x with `add`.
    MatMul { weight: TensorId, x: Slot, out: Slot, add: bool },
    /// x += bias.
    AddBias { x: Slot, bias: TensorId },
    /// Each head of `x` (Q or K) / its rms * weight.
    HeadNorm { x: Slot, weight: TensorId },
    /// Rotates the heads of `x` (Q or K) by their positions.
    Rope { x: Slot, rotation: RotationId },
    /// Appends K and V to the cache of `layer`.
    StoreKv { layer: usize },
    /// Attn = softmax(Q Kᵀ * attention_scale) V over the cache of `layer`, causal, by groups of heads that share K and V;
    /// with a window over so many last positions, its own included.
    Attention { layer: usize, window: Option<usize> },
    /// X += Delta / rms(Delta) * weight.
    AddNorm { weight: TensorId },
    /// Gate = activation(Gate) * Up.
    Glu { activation: Activation },
    /// From here on only the last position matters: X and Q keep their last row. A pass that wants no logits ends here.
    LastPosition,
}

/// How fast the pairs of a head turn from one position to the next.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rotation {
    pub base: f32,
    pub scaling: RopeScaling,
    /// Divisors of the frequencies, F32 `[1, rope_dim / 2]`.
    pub divisors: Option<TensorId>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    pub config: ModelConfig,
    pub tensors: Vec<TensorRef>,
    pub rotations: Vec<Rotation>,
    pub ops: Vec<Op>,
}

impl Plan {
    /// A decoder of the llama kind: pre-norm attention with grouped queries and rotated heads, then a gated feed-forward layer
    /// (Touvron et al. 2023; Shazeer 2020). What a family adds is there if its tensors are.
    pub fn new(config: ModelConfig, weights: Weights) -> Plan {
        let mut plan = Plan { config, tensors: Vec::new(), rotations: Vec::new(), ops: Vec::new() };
        plan.rotations(weights.rope_freqs);
        let table = plan.tensor(weights.token_embd);
        let n_layers = weights.layers.len();

        plan.ops.push(Op::Embed { table, scale: plan.config.embedding_scale });
        for (layer, weights) in weights.layers.into_iter().enumerate() {
            plan.layer(layer, weights, layer + 1 == n_layers);
        }
        plan.norm(weights.output_norm);
        let output = weights.output.map_or(table, |tensor| plan.tensor(tensor));
        plan.ops.push(Op::MatMul { weight: output, x: Slot::Normed, out: Slot::Logits, add: false });
        plan
    }

    /// The first for layers that see all positions, the second, if any, for those with a window.
    fn rotations(&mut self, rope_freqs: Option<TensorRef>) {
        let divisors = rope_freqs.map(|tensor| self.tensor(tensor));
        let ModelConfig { rope_base: base, rope_scaling: scaling, window, .. } = self.config;
        self.rotations.push(Rotation { base, scaling, divisors });
        let windowed = |rope_base| Rotation { base: rope_base, scaling: RopeScaling::None, divisors: None };
        self.rotations.extend(window.map(|window| windowed(window.rope_base)));
    }

    fn layer(&mut self, layer: usize, weights: LayerWeights, last: bool) {
        use Slot::{Attn, Gate, K, Normed, Q, Up, V};
        let window = self.config.window_of(layer);
        self.norm(weights.attn_norm);
        self.matmul(weights.attn_q, Normed, Q, false);
        self.matmul(weights.attn_k, Normed, K, false);
        self.matmul(weights.attn_v, Normed, V, false);
        for (x, bias) in [Q, K, V].into_iter().zip(weights.qkv_bias.into_iter().flatten()) {
            let bias = self.tensor(bias);
            self.ops.push(Op::AddBias { x, bias });
        }
        for (x, weight) in [Q, K].into_iter().zip(weights.head_norms.into_iter().flatten()) {
            let weight = self.tensor(weight);
            self.ops.push(Op::HeadNorm { x, weight });
        }
        if self.config.is_rotated(layer) {
            let rotation = usize::from(window.is_some());
            self.ops.extend([Q, K].map(|x| Op::Rope { x, rotation }));
        }
        self.ops.push(Op::StoreKv { layer });
        if last {
            self.ops.push(Op::LastPosition);
        }
        self.ops.push(Op::Attention { layer, window: window.map(|window| window.size) });
        self.residual(weights.attn_output, Attn, weights.attn_post_norm);

        self.norm(weights.ffn_norm);
        self.matmul(weights.ffn_gate, Normed, Gate, false);
        self.matmul(weights.ffn_up, Normed, Up, false);
        self.ops.push(Op::Glu { activation: self.config.architecture.activation() });
        self.residual(weights.ffn_down, Gate, weights.ffn_post_norm);
    }

    /// Adds W x to the residual stream, normalised where the family does that.
    fn residual(&mut self, weight: TensorRef, x: Slot, post_norm: Option<TensorRef>) {
        match post_norm {
            None => self.matmul(weight, x, Slot::X, true),
            Some(norm) => {
                self.matmul(weight, x, Slot::Delta, false);
                let weight = self.tensor(norm);
                self.ops.push(Op::AddNorm { weight });
            }
        }
    }

    fn norm(&mut self, weight: TensorRef) {
        let weight = self.tensor(weight);
        self.ops.push(Op::RmsNorm { weight });
    }

    fn matmul(&mut self, weight: TensorRef, x: Slot, out: Slot, add: bool) {
        let weight = self.tensor(weight);
        self.ops.push(Op::MatMul { weight, x, out, add });
    }

    fn tensor(&mut self, tensor: TensorRef) -> TensorId {
        self.tensors.push(tensor);
        self.tensors.len() - 1
    }
}
