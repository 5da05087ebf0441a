//! The blocks of Q4_0, Q4_1 and Q8_0, as ggml-common.h defines them, and scalar dequantisation of every format.
//!
//! ```text
//! Q4_0  [scale f16][16 bytes: value i in the low nibble of byte i, value 16 + i in its high one]    (q - 8) · scale
//! Q4_1  [scale f16][minimum f16][16 bytes, likewise]                                                 q · scale + minimum
//! Q8_0  [scale f16][32 i8]                                                                           q · scale
//! ```

use super::GgmlType;
use crate::error::{Error, Result};
use candle_core::CpuStorage;
use candle_core::quantized::{GgmlDType, QuantizedType};
use half::{bf16, f16};
use std::borrow::Cow;

/// What a block of 32 values says: value i is `quants[i] · scale + minimum`.
pub struct BlockParts {
    pub scale: f32,
    pub minimum: Option<f32>,
    pub quants: [i32; 32],
}

/// Bytes of each field of a block, for the formats whose rows can be interleaved (those of [`block_parts`]).
pub fn packed_fields(ty: GgmlType) -> Option<&'static [usize]> {
    match ty {
        GgmlType::Q4_0 => Some(&[2, 16]),
        GgmlType::Q4_1 => Some(&[2, 2, 16]),
        GgmlType::Q8_0 => Some(&[2, 32]),
        _ => None,
    }
}

/// Takes a block of Q4_0, Q4_1 or Q8_0 apart.
pub fn block_parts(ty: GgmlType, block: &[u8]) -> BlockParts {
    let half_at = |at: usize| f16::from_le_bytes([block[at], block[at + 1]]).to_f32();
    let nibbles =
        |bytes: &[u8], zero: i32| std::array::from_fn(|i| i32::from(bytes[i % 16] >> (i / 16 * 4) & 15) - zero);
    let (minimum, quants) = match ty {
        GgmlType::Q4_0 => (None, nibbles(&block[2..], 8)),
        GgmlType::Q4_1 => (Some(half_at(2)), nibbles(&block[4..], 0)),
        GgmlType::Q8_0 => (None, std::array::from_fn(|i| i32::from(block[2 + i] as i8))),
        _ => unreachable!("{} has no parts of this shape", ty.name()),
    };
    BlockParts { scale: half_at(0), minimum, quants }
}

/// Whether every scale and minimum of these blocks (Q4_0, Q4_1 or Q8_0) is finite, as the kernels take for granted.
pub fn scales_are_finite(ty: GgmlType, bytes: &[u8]) -> bool {
    let n_halves = if ty == GgmlType::Q4_1 { 2 } else { 1 };
    let is_finite = |half: &[u8; 2]| f16::from_le_bytes(*half).is_finite();
    bytes.chunks_exact(ty.block_bytes()).all(|block| block[..2 * n_halves].as_chunks().0.iter().all(is_finite))
}

/// The values of a row: `bytes` is `ty.row_bytes(out.len())` long.
///
/// Errors: `backend` if candle, which dequantises the formats that have no code here, refuses.
pub fn dequantize_row(ty: GgmlType, bytes: &[u8], out: &mut [f32]) -> Result<()> {
    match ty {
        GgmlType::F32 => fill(out, bytes, f32::from_le_bytes),
        GgmlType::F16 => fill(out, bytes, |b| f16::from_le_bytes(b).to_f32()),
        GgmlType::BF16 => fill(out, bytes, |b| bf16::from_le_bytes(b).to_f32()),
        GgmlType::Q4_0 | GgmlType::Q4_1 | GgmlType::Q8_0 => {
            for (block, out) in bytes.chunks_exact(ty.block_bytes()).zip(out.chunks_exact_mut(ty.block_len())) {
                let BlockParts { scale, minimum, quants } = block_parts(ty, block);
                for (out, q) in out.iter_mut().zip(quants) {
                    *out = q as f32 * scale + minimum.unwrap_or(0.0);
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Our own three formats against candle's.
    #[test]
    fn dequantize_row_equals_candle() {
        for ty in [GgmlType::Q4_0, GgmlType::Q4_1, GgmlType::Q8_0] {
            let n = 7 * 32;
            let mut bytes: Vec<u8> = (0..ty.row_bytes(n)).map(|i| (i * 89 % 256) as u8).collect();
            for block in bytes.chunks_exact_mut(ty.block_bytes()) {
                block[1] &= 0x3f; // a finite scale
                if ty == GgmlType::Q4_1 {
                    block[3] &= 0xbf;
                }
            }
            let mut out = vec![0.0; n];
            dequantize_row(ty, &bytes, &mut out).unwrap();
            let CpuStorage::F32(expected) = to_candle(ty, &bytes).unwrap().dequantize(n).unwrap() else { panic!() };
            assert_eq!(out, expected, "{}", ty.name());
        }
    }
}
