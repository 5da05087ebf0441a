//! Dequantisation of every format, in plain loops: what a tensor's values are. Blocks that consist of [`units`] are taken apart
//! there, the others by candle.

use super::GgmlType;
use super::units::{self, Parts};
use crate::error::{Error, Result};
use candle_core::CpuStorage;
use candle_core::quantized::{GgmlDType, QuantizedType};
use half::{bf16, f16};
use std::borrow::Cow;

/// Whether every half that scales a block of units is finite, as the kernels take for granted.
pub fn scales_are_finite(ty: GgmlType, bytes: &[u8]) -> bool {
    let is_finite = |half: [u8; 2]| f16::from_le_bytes(half).is_finite();
    bytes.chunks_exact(ty.block_bytes()).all(|block| units::block_scales(ty, block).into_iter().all(is_finite))
}

/// The values of a row: `bytes` is `ty.row_bytes(out.len())` long.
///
/// Errors: `backend` if candle, which dequantises the formats that have no code here, refuses.
pub fn dequantize_row(ty: GgmlType, bytes: &[u8], out: &mut [f32]) -> Result<()> {
    match ty {
        GgmlType::F32 => fill(out, bytes, f32::from_le_bytes),
        GgmlType::F16 => fill(out, bytes, |b| f16::from_le_bytes(b).to_f32()),
        GgmlType::BF16 => fill(out, bytes, |b| bf16::from_le_bytes(b).to_f32()),
        _ if units::has_units(ty) => {
            for (block, out) in bytes.chunks_exact(ty.block_bytes()).zip(out.chunks_exact_mut(ty.block_len())) {
                let halves = units::block_scales(ty, block);
                for (j, out) in out.as_chunks_mut().0.iter_mut().enumerate() {
                    *out = Parts::new(ty, &units::unit(ty, block, j), halves).values();
                }
            }
        }
        _ => {
            let values = to_candle(ty, bytes)?.dequantize(out.len()).map_err(candle_error)?;
            let CpuStorage::F32(values) = values else { unreachable!("candle dequantises to f32") };
            out.copy_from_slice(&values);
        }
    }
    Ok(())
}

fn fill<const N: usize>(out: &mut [f32], bytes: &[u8], value: impl Fn([u8; N]) -> f32) {
    for (out, bytes) in out.iter_mut().zip(bytes.as_chunks().0) {
        *out = value(*bytes);
    }
}

/// The same format, as candle calls it.
pub fn candle_type(ty: GgmlType) -> GgmlDType {
    match ty {
        GgmlType::F32 => GgmlDType::F32,
        GgmlType::F16 => GgmlDType::F16,
        GgmlType::BF16 => GgmlDType::BF16,
        GgmlType::Q4_0 => GgmlDType::Q4_0,
        GgmlType::Q4_1 => GgmlDType::Q4_1,
        GgmlType::Q5_0 => GgmlDType::Q5_0,
        GgmlType::Q5_1 => GgmlDType::Q5_1,
        GgmlType::Q8_0 => GgmlDType::Q8_0,
        GgmlType::Q2K => GgmlDType::Q2K,
        GgmlType::Q3K => GgmlDType::Q3K,
        GgmlType::Q4K => GgmlDType::Q4K,
        GgmlType::Q5K => GgmlDType::Q5K,
        GgmlType::Q6K => GgmlDType::Q6K,
    }
}

/// A tensor's blocks as candle holds them: a copy, since candle wants its blocks aligned and its own. Errors: `too-large`.
pub fn to_candle(ty: GgmlType, bytes: &[u8]) -> Result<Box<dyn QuantizedType>> {
    let dtype = candle_type(ty);
    let too_large = |_| Error::TooLarge(format!("There is no memory for a tensor of {} bytes.", bytes.len()));
    let n_words = bytes.len().div_ceil(8);
    let mut words = Vec::new();
    words.try_reserve_exact(n_words).map_err(too_large)?;
    words.resize(n_words, 0u64);
    let aligned = &mut bytemuck::cast_slice_mut(&mut words)[..bytes.len()];
    aligned.copy_from_slice(bytes);
    // Candle's own copy cannot fail gracefully: make sure first that there is room for it.
    let mut room = Vec::<u8>::new();
    room.try_reserve_exact(bytes.len()).map_err(too_large)?;
    drop(std::hint::black_box(room)); // unseen, the compiler would leave the allocation out
    Ok(dtype.from_data(Cow::Borrowed(aligned)))
}

/// A candle failure, in our terms.
pub fn candle_error(error: candle_core::Error) -> Error {
    Error::Backend(format!("candle: {error}"))
}
