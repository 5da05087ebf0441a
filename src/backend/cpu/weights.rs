//! Tensors in the form in which the CPU computes with them.
//!
//! Invariant: the file's buffer is the only copy of every tensor that has a kernel of our own; it is repacked in place.

use super::activations::Activations;
use super::matmul::{Panel, Product};
use super::pack::{self, ROWS};
use super::pool::{Grain, Out, Pool};
use crate::error::{Error, Result, quoted};
use crate::model::TensorRef;
use crate::quant::{self, GgmlType, units};
use candle_core::quantized::QuantizedType;

/// A tensor, ready to be used.
pub struct Matrix {
    pub tensor: TensorRef,
    kind: Kind,
}

enum Kind {
    /// In the file's buffer, eight rows packed together.
    Packed,
    /// A norm's weights and the like.
    Vector(Vec<f32>),
    /// Held by candle; an embedding table is also read row by row from the file's buffer.
    Candle(Box<dyn QuantizedType>),
    /// In the file's buffer as it came: a table that is never multiplied, in a format without a kernel of ours.
    Table,
}

/// out = W x, or out += W x with `add`, for packed matrices that read the same input, shared among the threads as one product.
pub fn multiply_packed<const N: usize>(
    matrices: [&Matrix; N],
    file: &[u8],
    input: Input,
    outs: [&mut [f32]; N],
    add: bool,
) {
    let tensors = matrices.map(|matrix| &matrix.tensor);
    let mut row_lens = tensors.iter().map(|tensor| tensor.n_rows);
    let outs = outs.map(|values| Out { values, row_len: row_lens.next().expect("one for each matrix") });
    let grain = Grain { columns: ROWS, cost: ROWS * tensors[0].n_cols * input.n };
    let x = input.quantized;
    input.pool.split_all(outs, grain, input.panels, |i, rows, out, panel| {
        let TensorRef { ty, n_rows, bytes, .. } = tensors[i];
        let weights = &file[bytes.clone()];
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

impl Matrix {
    /// Takes a tensor over from the file's buffer; `multiplied`: the plan has a product with it.
    ///
    /// Errors: `bad-value` for a block whose scale is not finite; `too-large` when candle's copy does not fit.
    pub fn new(tensor: TensorRef, multiplied: bool, file: &mut [u8]) -> Result<Self> {
        let bytes = &mut file[tensor.bytes.clone()];
        let kind = if tensor.n_rows == 1 && tensor.ty == GgmlType::F32 {
            let mut values = vec![0.0; tensor.n_cols];
            quant::dequantize_row(tensor.ty, bytes, &mut values)?;
            Kind::Vector(values)
        } else if units::has_units(tensor.ty) {
            if !quant::scales_are_finite(tensor.ty, bytes) {
                let name = quoted(&tensor.name);
                return Err(Error::BadValue(format!(
                    "Found a block with a scale that is not finite in tensor {name}."
                )));
            }
            pack::pack(tensor.ty, bytes, tensor.ty.row_bytes(tensor.n_cols));
            Kind::Packed
        } else if multiplied {
            Kind::Candle(quant::to_candle(tensor.ty, bytes)?)
        } else {
            Kind::Table
        };
        Ok(Self { tensor, kind })
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
    pub fn row(&self, file: &[u8], row: usize, panel: &mut Panel, out: &mut [f32]) -> Result<()> {
        let TensorRef { ty, n_rows, bytes, .. } = &self.tensor;
        let bytes = &file[bytes.clone()];
        match self.kind {
            Kind::Packed => panel.row(*ty, bytes, *n_rows, row, out),
            _ => {
                let row_bytes = bytes.len() / n_rows;
                quant::dequantize_row(*ty, &bytes[row * row_bytes..][..row_bytes], out)
            }
        }
    }

    /// out = W x for each row of `input`, or out += W x with `add`. `scratch` is as long as `out`.
    pub fn matmul(&self, file: &[u8], input: Input, out: &mut [f32], add: bool, scratch: &mut [f32]) -> Result<()> {
        let TensorRef { n_rows, n_cols, .. } = &self.tensor;
        match &self.kind {
            Kind::Packed => multiply_packed([self], file, input, [out], add),
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
