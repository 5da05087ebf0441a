//! The forward pass as data: a straight line of operations that reads like the paper and that every backend executes.
//!
//! Invariant: names no backend and holds no tensor bytes.

use super::{LayerWeights, ModelConfig, TensorRef, Weights};

/// Index into [`Plan::tensors`].
pub type TensorId = usize;

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
    /// `n_ff`
    Gate,
    /// `n_ff`
    Up,
    /// `vocab_size`
    Logits,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Op {
    /// X = rows of `table`, one for each id.
    Embed { table: TensorId },
    /// Normed = X / rms(X) * weight.
    RmsNorm { weight: TensorId },
    /// out = W x, or out += W x with `add`.
    MatMul { weight: TensorId, x: Slot, out: Slot, add: bool },
    /// Rotates the heads of `x` (Q or K) by their positions.
    Rope { x: Slot },
    /// Appends K and V to the cache of `layer`.
    StoreKv { layer: usize },
    /// Attn = softmax(Q Kᵀ / sqrt(head_dim)) V over the cache of `layer`, causal, by groups of heads that share K and V.
    Attention { layer: usize },
    /// Gate = silu(Gate) * Up.
    SwiGlu,
    /// From here on only the last position matters: X and Q keep their last row. A pass that wants no logits ends here.
    LastPosition,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    pub config: ModelConfig,
    pub tensors: Vec<TensorRef>,
    /// Divisors of the rotation frequencies, if the file has them.
    pub rope_freqs: Option<TensorId>,
    pub ops: Vec<Op>,
}

impl Plan {
    /// The llama family: pre-norm attention with grouped queries and rotated heads, then a gated feed-forward layer (Touvron et
    /// al. 2023; Shazeer 2020).
    pub fn llama(config: ModelConfig, weights: Weights) -> Plan {
        let mut plan = Plan { config, tensors: Vec::new(), rope_freqs: None, ops: Vec::new() };
        plan.rope_freqs = weights.rope_freqs.map(|tensor| plan.tensor(tensor));
        let table = plan.tensor(weights.token_embd);
        let n_layers = weights.layers.len();

        plan.ops.push(Op::Embed { table });
        for (layer, weights) in weights.layers.into_iter().enumerate() {
            plan.layer(layer, weights, layer + 1 == n_layers);
        }
        plan.norm(weights.output_norm);
        let output = weights.output.map_or(table, |tensor| plan.tensor(tensor));
        plan.ops.push(Op::MatMul { weight: output, x: Slot::Normed, out: Slot::Logits, add: false });
        plan
    }

    fn layer(&mut self, layer: usize, weights: LayerWeights, last: bool) {
        self.norm(weights.attn_norm);
        self.matmul(weights.attn_q, Slot::Normed, Slot::Q, false);
        self.matmul(weights.attn_k, Slot::Normed, Slot::K, false);
        self.matmul(weights.attn_v, Slot::Normed, Slot::V, false);
        self.ops.extend([Op::Rope { x: Slot::Q }, Op::Rope { x: Slot::K }, Op::StoreKv { layer }]);
        if last {
            self.ops.push(Op::LastPosition);
        }
        self.ops.push(Op::Attention { layer });
        self.matmul(weights.attn_output, Slot::Attn, Slot::X, true);

        self.norm(weights.ffn_norm);
        self.matmul(weights.ffn_gate, Slot::Normed, Slot::Gate, false);
        self.matmul(weights.ffn_up, Slot::Normed, Slot::Up, false);
        self.ops.push(Op::SwiGlu);
        self.matmul(weights.ffn_down, Slot::Gate, Slot::X, true);
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
