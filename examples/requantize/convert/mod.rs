//! A GGUF file's bytes -> the same model's in other formats.
//!
//! `recipe` says which format each tensor gets, `metadata` copies what the file says about itself.
//!
//! Invariant: reads and writes no files; names, shapes and order of the tensors stay as they are.

mod metadata;
mod recipe;

pub use recipe::Recipe;

use candle_core::quantized::QTensor;
use candle_core::{Device, Tensor};
use nucleus::error::{Error, Result};
use nucleus::gguf::{Gguf, TensorInfo};
use nucleus::quant::{GgmlType, candle_error, candle_type, dequantize_row};

/// The layout that all formats have had since May 2023 (`GGML_QNT_VERSION`).
const QUANTIZATION_VERSION: u32 = 2;

/// A GGUF v3 file with the tensors of `file`, a whole GGUF file, in the formats of `recipe`.
///
/// Metadata are copied byte for byte; `general.file_type` is set, and `general.quantization_version` where it is absent. A
/// tensor that has its format already is copied, too.
///
/// Errors: those of [`Gguf::parse`]; `bad-value` for a tensor with values that are not finite, or that its new format cannot
/// hold; `backend` if candle, which quantizes, refuses.
pub fn requantize(file: &[u8], recipe: &Recipe) -> Result<Vec<u8>> {
    let gguf = Gguf::parse(file)?;
    let types = recipe.types(&gguf);
    let alignment = gguf.metadata.unsigned("general.alignment")?.unwrap_or(32);
    let alignment = usize::try_from(alignment).expect("the file was parsed, so its alignment is at most 65536");

    let mut entries = metadata::entries(file);
    if gguf.metadata.get("general.quantization_version").is_none() {
        metadata::set_u32(&mut entries, "general.quantization_version", QUANTIZATION_VERSION);
    }
    metadata::set_u32(&mut entries, "general.file_type", recipe.file_type);

    let mut out = Vec::new();
    out.extend(b"GGUF");
    out.extend(3_u32.to_le_bytes());
    out.extend((gguf.tensors.len() as u64).to_le_bytes());
    out.extend((entries.len() as u64).to_le_bytes());
    metadata::write(&entries, &mut out);
    write_directory(&gguf.tensors, &types, alignment, &mut out);
    out.resize(out.len().next_multiple_of(alignment), 0);
    for (tensor, ty) in gguf.tensors.iter().zip(types) {
        out.extend(convert(tensor, &file[tensor.bytes.clone()], ty)?);
        out.resize(out.len().next_multiple_of(alignment), 0);
    }
    Ok(out)
}

fn write_directory(tensors: &[TensorInfo], types: &[GgmlType], alignment: usize, out: &mut Vec<u8>) {
    let mut offset = 0;
    for (tensor, ty) in tensors.iter().zip(types) {
        metadata::write_string(tensor.name.as_bytes(), out);
        let n_dims = u32::try_from(tensor.dims.len()).expect("a tensor has at most 4 dimensions");
        out.extend(n_dims.to_le_bytes());
        out.extend(tensor.dims.iter().flat_map(|&dim| (dim as u64).to_le_bytes()));
        out.extend(ty.number().to_le_bytes());
        out.extend((offset as u64).to_le_bytes());
        offset += ty.row_bytes(tensor.n_elements()).next_multiple_of(alignment);
    }
}

/// The data of `tensor`, `bytes`, in the format `to`. Rows are whole blocks in both, so all rows together are one long row.
fn convert(tensor: &TensorInfo, bytes: &[u8], to: GgmlType) -> Result<Vec<u8>> {
    if tensor.ty == to {
        return Ok(bytes.to_vec());
    }
    let mut values = vec![0.0; tensor.n_elements()];
    dequantize_row(tensor.ty, bytes, &mut values)?;
    check_finite(tensor, &values, "as the source stores it")?;
    let rows = Tensor::from_slice(&values, values.len(), &Device::Cpu).map_err(candle_error)?;
    let quantized = QTensor::quantize(&rows, candle_type(to)).map_err(candle_error)?;
    let made = quantized.data().map_err(candle_error)?.into_owned();
    // Scales and plain halves end at 65504: what lies beyond has become infinite, or NaN.
    dequantize_row(to, &made, &mut values)?;
    check_finite(tensor, &values, &format!("once stored as {}", to.name()))?;
    Ok(made)
}

fn check_finite(tensor: &TensorInfo, values: &[f32], when: &str) -> Result<()> {
    match values.iter().find(|value| !value.is_finite()) {
        None => Ok(()),
        Some(value) => Err(Error::BadValue(format!(
            "The tensor `{}` holds the value {value}, {when}; expected finite values only.",
            tensor.name
        ))),
    }
}
