//! Tensors in the form in which the CPU computes with them.
//!
//! Invariant: the bytes that came from the file are the only copy of every tensor that has a kernel of our own; they are repacked in
//! place.

use super::activations::Activations;
use super::matmul::{Panel, Product};
use super::pack::{self, ROWS};
use super::pool::{Grain, Out, Pool};
use crate::error::{Error, Result, quoted};
use crate::model::{Op, Plan, TensorId, TensorRef};
use crate::quant::{self, GgmlType, units};
use candle_core::quantized::QuantizedType;

/// A tensor, ready to be used.
pub struct Matrix {
    pub tensor: TensorRef,
    kind: Kind,
    /// As they came from the file, or packed; empty where they are not needed any more.
    bytes: Vec<u8>,
}

enum Kind {
    /// Eight rows packed together.
    Packed,
    /// A norm's weights and the like.
    Vector(Vec<f32>),
    /// Held by candle; an embedding table is also read row by row from the file's bytes.
    Candle(Box<dyn QuantizedType>),
    /// As it came: a table that is never multiplied, in a format without a kernel of ours.
    Table,
}

/// What a plan does with a tensor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Use {
    /// It has a product with it.
    pub is_multiplied: bool,
    /// It reads single rows.
    pub is_looked_up: bool,
}

impl Use {
    pub fn of(plan: &Plan, id: TensorId) -> Self {
        Self {
            is_multiplied: plan.ops.iter().any(|op| matches!(op, Op::MatMul { weight, .. } if *weight == id)),
            is_looked_up: plan.ops.iter().any(|op| matches!(op, Op::Embed { table, .. } if *table == id)),
        }
    }
}

/// out = W x, or out += W x with `add`, for packed matrices that read the same input, shared among the threads as one product.
pub fn multiply_packed<const N: usize>(matrices: [&Matrix; N], input: Input, outs: [&mut [f32]; N], add: bool) {
    let tensors = matrices.map(|matrix| &matrix.tensor);
    let mut row_lens = tensors.iter().map(|tensor| tensor.n_rows);
    let outs = outs.map(|values| Out { values, row_len: row_lens.next().expect("one for each matrix") });
    let grain = Grain { columns: ROWS, cost: ROWS * tensors[0].n_cols * input.n };
    let x = input.quantized;
    input.pool.split_all(outs, grain, input.panels, |i, rows, out, panel| {
        let TensorRef { ty, n_rows, .. } = tensors[i];
        let weights = &matrices[i].bytes;
        let row_bytes = weights.len() / n_rows;
        let weights = &weights[rows.start * row_bytes..rows.end * row_bytes];
        Product { weights, n_rows: rows.len(), x, out, add, panel }.compute(*ty);
    });
}

/// What a product reads: f32 rows, and the same rows quantized; and what computes it.
pub struct Input<'a> {
    pub n: usize,
    pub x: &'a [f32],
    pub quantized: &'a Activations,
    pub pool: &'a mut Pool,
    /// One for each thread.
    pub panels: &'a mut [Panel],
}

/// Whether a tensor's bytes stay in memory as they came, or packed; otherwise they are only read once, at loading.
pub fn keeps_bytes(tensor: &TensorRef, used: Use) -> bool {
    !is_vector(tensor) && (units::has_units(tensor.ty) || used.is_looked_up || !used.is_multiplied)
}

/// A norm's weights and the like.
pub fn is_vector(tensor: &TensorRef) -> bool {
    tensor.n_rows == 1 && tensor.ty == GgmlType::F32
}

impl Matrix {
    /// Takes over the bytes that the file has of a tensor.
    ///
    /// Errors: `bad-value` for a block whose scale is not finite; `too-large` when candle's copy does not fit.
    pub fn new(tensor: TensorRef, used: Use, mut bytes: Vec<u8>) -> Result<Self> {
        let kind = if is_vector(&tensor) {
            let mut values = vec![0.0; tensor.n_cols];
            quant::dequantize_row(tensor.ty, &bytes, &mut values)?;
            Kind::Vector(values)
        } else if units::has_units(tensor.ty) {
            if !quant::scales_are_finite(tensor.ty, &bytes) {
                let name = quoted(&tensor.name);
                return Err(Error::BadValue(format!(
                    "Found a block with a scale that is not finite in tensor {name}."
                )));
            }
            pack::pack(tensor.ty, &mut bytes, tensor.ty.row_bytes(tensor.n_cols));
            Kind::Packed
        } else if used.is_multiplied {
            Kind::Candle(quant::to_candle(tensor.ty, &bytes)?)
        } else {
            Kind::Table
        };
        if !keeps_bytes(&tensor, used) {
            bytes = Vec::new();
        }
        Ok(Self { tensor, kind, bytes })
    }

    /// The values of a norm or another f32 vector.
    pub fn vector(&self) -> &[f32] {
        match &self.kind {
            Kind::Vector(values) => values,
            _ => unreachable!("Weights::from_gguf admits vectors as F32 only"),
        }
    }

    /// Whether products read quantized activations.
    pub fn is_packed(&self) -> bool {
        matches!(self.kind, Kind::Packed)
    }

    /// One row's values.
    pub fn row(&self, row: usize, panel: &mut Panel, out: &mut [f32]) -> Result<()> {
        let (TensorRef { ty, n_rows, .. }, bytes) = (&self.tensor, &self.bytes);
        match self.kind {
            Kind::Packed => panel.row(*ty, bytes, *n_rows, row, out),
            _ => {
                let row_bytes = bytes.len() / n_rows;
                quant::dequantize_row(*ty, &bytes[row * row_bytes..][..row_bytes], out)
            }
        }
    }

    /// out = W x for each row of `input`, or out += W x with `add`. `scratch` is as long as `out`.
    pub fn matmul(&self, input: Input, out: &mut [f32], add: bool, scratch: &mut [f32]) -> Result<()> {
        let TensorRef { n_rows, n_cols, .. } = &self.tensor;
        match &self.kind {
            Kind::Packed => multiply_packed([self], input, [out], add),
            Kind::Candle(blocks) => {
                let to = if add { &mut *scratch } else { &mut *out };
                blocks.matmul_t((input.n, *n_cols, *n_rows), input.x, to).map_err(quant::candle_error)?;
                if add {
                    for (out, product) in out.iter_mut().zip(scratch.iter()) {
                        *out += product;
                    }
                }
            }
            Kind::Table => unreachable!("the plan has no product with it"),
            Kind::Vector(weights) => {
                for (out, x) in out.iter_mut().zip(input.x.chunks_exact(*n_cols)) {
                    let product = super::simd::dot(weights, x);
                    *out = if add { *out + product } else { product };
                }
            }
        }
        Ok(())
    }
}
