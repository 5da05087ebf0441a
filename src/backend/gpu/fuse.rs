//! Neighbouring operations of a plan that one dispatch does together.
//!
//! Invariant: pure data -> data; an operation is either part of a group known here or refused.

use crate::error::{Error, Result};
use crate::model::{Op, Slot, TensorId};

/// Some operations of a plan, as the GPU does them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fused {
    Embed {
        table: TensorId,
    },
    /// X normalised, times Q, K and V; Q and K rotated; K and V stored.
    Qkv {
        norm: TensorId,
        q: TensorId,
        k: TensorId,
        v: TensorId,
        layer: usize,
    },
    Attention {
        layer: usize,
    },
    /// X += W of Attn or Gate.
    Project {
        weight: TensorId,
        from: Slot,
    },
    /// Gate = silu(gate of X normalised) * up of X normalised.
    GateUp {
        norm: TensorId,
        gate: TensorId,
        up: TensorId,
    },
    /// Logits = W of X normalised.
    Head {
        norm: TensorId,
        weight: TensorId,
    },
    LastPosition,
}

/// Groups the operations of a plan. Errors: `backend` for a sequence that no group begins with.
pub fn fuse(mut ops: &[Op]) -> Result<Vec<Fused>> {
    let mut groups = Vec::new();
    while !ops.is_empty() {
        let (group, rest) = first_group(ops)
            .ok_or_else(|| Error::Backend(format!("The GPU engine has no kernel for {:?}.", ops[0])))?;
        groups.push(group);
        ops = rest;
    }
    Ok(groups)
}

fn first_group(ops: &[Op]) -> Option<(Fused, &[Op])> {
    use Slot::{Attn, Gate, K, Logits, Normed, Q, Up, V, X};
    Some(match *ops {
        [Op::Embed { table }, ref rest @ ..] => (Fused::Embed { table }, rest),
        [
            Op::RmsNorm { weight: norm },
            Op::MatMul { weight: q, x: Normed, out: Q, add: false },
            Op::MatMul { weight: k, x: Normed, out: K, add: false },
            Op::MatMul { weight: v, x: Normed, out: V, add: false },
            Op::Rope { x: Q },
            Op::Rope { x: K },
            Op::StoreKv { layer },
            ref rest @ ..,
        ] => (Fused::Qkv { norm, q, k, v, layer }, rest),
        [Op::Attention { layer }, ref rest @ ..] => (Fused::Attention { layer }, rest),
        [Op::MatMul { weight, x: from @ (Attn | Gate), out: X, add: true }, ref rest @ ..] => {
            (Fused::Project { weight, from }, rest)
        }
        [
            Op::RmsNorm { weight: norm },
            Op::MatMul { weight: gate, x: Normed, out: Gate, add: false },
            Op::MatMul { weight: up, x: Normed, out: Up, add: false },
            Op::SwiGlu,
            ref rest @ ..,
        ] => (Fused::GateUp { norm, gate, up }, rest),
        [Op::RmsNorm { weight: norm }, Op::MatMul { weight, x: Normed, out: Logits, add: false }, ref rest @ ..] => {
            (Fused::Head { norm, weight }, rest)
        }
        [Op::LastPosition, ref rest @ ..] => (Fused::LastPosition, rest),
        _ => return None,
    })
}
