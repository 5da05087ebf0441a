//! Neighbouring operations of a plan that one dispatch does together.
//!
//! Invariant: pure data -> data; an operation is either part of a group known here or refused.

use crate::error::{Error, Result};
use crate::model::{Activation, Op, Pairing, Plan, RotationId, Slot, TensorId};

/// Some operations of a plan, as the GPU does them.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Fused {
    Embed {
        table: TensorId,
        scale: f32,
    },
    /// X normalised, times Q, K and V; Q and K rotated, on interleaved pairs; K and V stored.
    Qkv(Qkv),
    /// The same in two steps, for heads that need more than that.
    QkvInSteps {
        qkv: Qkv,
        /// Of Q, K and V.
        bias: Option<[TensorId; 3]>,
        /// Of the heads of Q and of K.
        head_norms: Option<[TensorId; 2]>,
    },
    Attention {
        layer: usize,
        window: Option<usize>,
    },
    /// X += W of Attn or Gate, normalised first if there is a norm.
    Project {
        weight: TensorId,
        from: Slot,
        post_norm: Option<TensorId>,
    },
    /// Gate = activation(gate of X normalised) * up of X normalised.
    GateUp {
        norm: TensorId,
        gate: TensorId,
        up: TensorId,
        activation: Activation,
    },
    /// Logits = W of X normalised.
    Head {
        norm: TensorId,
        weight: TensorId,
    },
    LastPosition,
}

/// The way from X to the cache of a layer.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Qkv {
    pub norm: TensorId,
    pub q: TensorId,
    pub k: TensorId,
    pub v: TensorId,
    pub rotation: Option<RotationId>,
    pub layer: usize,
}

/// Groups the operations of a plan. Errors: `backend` for a sequence that no group begins with.
pub fn fuse(plan: &Plan) -> Result<Vec<Fused>> {
    let pairing = plan.config.architecture.pairing();
    let mut ops = &plan.ops[..];
    let mut groups = Vec::new();
    while !ops.is_empty() {
        let (group, rest) = first_group(ops, pairing)
            .ok_or_else(|| Error::Backend(format!("The GPU engine has no kernel for {:?}.", ops[0])))?;
        groups.push(group);
        ops = rest;
    }
    Ok(groups)
}

fn first_group(ops: &[Op], pairing: Pairing) -> Option<(Fused, &[Op])> {
    use Slot::{Attn, Delta, Gate, K, Logits, Normed, Q, Up, V, X};
    Some(match *ops {
        [Op::Embed { table, scale }, ref rest @ ..] => (Fused::Embed { table, scale }, rest),
        [
            Op::RmsNorm { weight: norm },
            Op::MatMul { weight: q, x: Normed, out: Q, add: false },
            Op::MatMul { weight: k, x: Normed, out: K, add: false },
            Op::MatMul { weight: v, x: Normed, out: V, add: false },
            ref rest @ ..,
        ] => {
            let (bias, rest) = biases(rest);
            let (head_norms, rest) = head_norms(rest);
            let (rotation, rest) = rotation(rest);
            let [Op::StoreKv { layer }, rest @ ..] = rest else { return None };
            let qkv = Qkv { norm, q, k, v, rotation, layer: *layer };
            let is_plain = bias.is_none() && head_norms.is_none() && pairing == Pairing::Interleaved;
            (if is_plain { Fused::Qkv(qkv) } else { Fused::QkvInSteps { qkv, bias, head_norms } }, rest)
        }
        [Op::Attention { layer, window }, ref rest @ ..] => (Fused::Attention { layer, window }, rest),
        [Op::MatMul { weight, x: from @ (Attn | Gate), out: X, add: true }, ref rest @ ..] => {
            (Fused::Project { weight, from, post_norm: None }, rest)
        }
        [
            Op::MatMul { weight, x: from @ (Attn | Gate), out: Delta, add: false },
            Op::AddNorm { weight: norm },
            ref rest @ ..,
        ] => (Fused::Project { weight, from, post_norm: Some(norm) }, rest),
        [
            Op::RmsNorm { weight: norm },
            Op::MatMul { weight: gate, x: Normed, out: Gate, add: false },
            Op::MatMul { weight: up, x: Normed, out: Up, add: false },
            Op::Glu { activation },
            ref rest @ ..,
        ] => (Fused::GateUp { norm, gate, up, activation }, rest),
        [Op::RmsNorm { weight: norm }, Op::MatMul { weight, x: Normed, out: Logits, add: false }, ref rest @ ..] => {
            (Fused::Head { norm, weight }, rest)
        }
        [Op::LastPosition, ref rest @ ..] => (Fused::LastPosition, rest),
        _ => return None,
    })
}

/// The biases of Q, K and V, if they come next.
fn biases(ops: &[Op]) -> (Option<[TensorId; 3]>, &[Op]) {
    match *ops {
        [
            Op::AddBias { x: Slot::Q, bias: q },
            Op::AddBias { x: Slot::K, bias: k },
            Op::AddBias { x: Slot::V, bias: v },
            ref rest @ ..,
        ] => (Some([q, k, v]), rest),
        _ => (None, ops),
    }
}

/// The norms of the heads of Q and K, if they come next.
fn head_norms(ops: &[Op]) -> (Option<[TensorId; 2]>, &[Op]) {
    match *ops {
        [Op::HeadNorm { x: Slot::Q, weight: q }, Op::HeadNorm { x: Slot::K, weight: k }, ref rest @ ..] => {
            (Some([q, k]), rest)
        }
        _ => (None, ops),
    }
}

/// The rotation of Q and K, if it comes next.
fn rotation(ops: &[Op]) -> (Option<RotationId>, &[Op]) {
    match *ops {
        [Op::Rope { x: Slot::Q, rotation: q }, Op::Rope { x: Slot::K, rotation: k }, ref rest @ ..] if q == k => {
            (Some(q), rest)
        }
        _ => (None, ops),
    }
}
