//! Blocks as integers, one unit of 32 values at a time: what a kernel needs that unpacks them elsewhere. Layouts as in
//! ggml-common.h; [`super::dequantize_row`] says what the integers are worth.
//!
//! Invariant: moves bits, computes no value.

use super::GgmlType;

/// A unit of a quantized block, before scaling.
pub struct Unit {
    /// 4, 5 or 6 bits each, with the format's offset still in (Q4_0: 8, Q5_0: 16, Q6_K: 32); Q8_0: two's complement.
    pub quants: [u8; 32],
    /// Q4_K and Q5_K: the unit's scale and minimum, 6 bits each. Q6_K: scales of its two halves, two's complement. Others: 0.
    pub scales: [u8; 2],
}

/// The halves (f16) that scale a whole block, the second one 0 where there is none: scale and minimum of Q4_1 and Q5_1, scale of
/// scales and of minima of Q4_K and Q5_K.
pub fn block_scales(ty: GgmlType, block: &[u8]) -> [[u8; 2]; 2] {
    let half = |at: usize| [block[at], block[at + 1]];
    match ty {
        GgmlType::Q4_1 | GgmlType::Q5_1 | GgmlType::Q4K | GgmlType::Q5K => [half(0), half(2)],
        GgmlType::Q6K => [half(208), [0; 2]],
        _ => [half(0), [0; 2]],
    }
}

/// Unit `j` of a block of Q4_0, Q4_1, Q5_0, Q5_1, Q8_0 (one unit a block), Q4_K, Q5_K or Q6_K (eight).
pub fn unit(ty: GgmlType, block: &[u8], j: usize) -> Unit {
    let mut quants = [0; 32];
    let mut scales = [0; 2];
    match ty {
        GgmlType::Q4_0 => split_nibbles(&block[2..], &mut quants),
        GgmlType::Q4_1 => split_nibbles(&block[4..], &mut quants),
        GgmlType::Q5_0 | GgmlType::Q5_1 => {
            let at = if ty == GgmlType::Q5_0 { 2 } else { 4 };
            split_nibbles(&block[at + 4..], &mut quants);
            for (i, q) in quants.iter_mut().enumerate() {
                *q |= (block[at + i / 8] >> (i % 8) & 1) << 4;
            }
        }
        GgmlType::Q8_0 => quants.copy_from_slice(&block[2..34]),
        GgmlType::Q4K | GgmlType::Q5K => {
            scales = six_bit_pair(&block[4..16], j);
            let nibbles = if ty == GgmlType::Q4K { &block[16..] } else { &block[48..] };
            for (i, q) in quants.iter_mut().enumerate() {
                *q = nibbles[j / 2 * 32 + i] >> (j % 2 * 4) & 15;
            }
            if ty == GgmlType::Q5K {
                for (q, high) in quants.iter_mut().zip(&block[16..48]) {
                    *q |= (high >> j & 1) << 4;
                }
            }
        }
        GgmlType::Q6K => {
            let (low, high) = (&block[..128], &block[128..192]);
            let (half, k) = (j / 4, j % 4);
            for (i, q) in quants.iter_mut().enumerate() {
                let low = low[half * 64 + k % 2 * 32 + i] >> (k / 2 * 4) & 15;
                *q = low | (high[half * 32 + i] >> (k * 2) & 3) << 4;
            }
            scales = [block[192 + j * 2], block[192 + j * 2 + 1]];
        }
        _ => unreachable!("{} has no units of this shape", ty.name()),
    }
    Unit { quants, scales }
}

/// Value i in the low nibble of byte i, value 16 + i in its high one.
fn split_nibbles(bytes: &[u8], quants: &mut [u8; 32]) {
    for i in 0..16 {
        quants[i] = bytes[i] & 15;
        quants[16 + i] = bytes[i] >> 4;
    }
}

/// Scale and minimum of unit `j`: eight pairs of 6 bits in 12 bytes.
fn six_bit_pair(bytes: &[u8], j: usize) -> [u8; 2] {
    if j < 4 {
        [bytes[j] & 63, bytes[j + 4] & 63]
    } else {
        [bytes[j + 4] & 15 | bytes[j - 4] >> 6 << 4, bytes[j + 4] >> 4 | bytes[j] >> 6 << 4]
    }
}

#[cfg(test)]
mod tests {
    use super::super::dequantize_row;
    use super::*;
    use half::f16;

    /// Scaled as the formats say, the integers are the values.
    #[test]
    fn units_scale_to_the_dequantized_values() {
        use GgmlType::*;
        for ty in [Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, Q4K, Q5K, Q6K] {
            let mut block: Vec<u8> = (0..ty.block_bytes()).map(|i| (i * 151 % 251) as u8).collect();
            // Finite scales.
            for at in if ty == Q6K { [208, 208] } else { [0, 2] } {
                if at == 0 || matches!(ty, Q4_1 | Q5_1 | Q4K | Q5K | Q6K) {
                    block[at + 1] = block[at + 1] & 0x83 | 0x30;
                }
            }
            let mut expected = vec![0.0; ty.block_len()];
            dequantize_row(ty, &block, &mut expected).unwrap();
            let [d, m] = block_scales(ty, &block).map(|half| f16::from_le_bytes(half).to_f32());
            for (j, expected) in expected.chunks_exact(32).enumerate() {
                let Unit { quants, scales: [a, b] } = unit(ty, &block, j);
                for (i, (&q, expected)) in quants.iter().zip(expected).enumerate() {
                    let q = f32::from(q);
                    let found = match ty {
                        Q4_0 => d * (q - 8.0),
                        Q5_0 => d * (q - 16.0),
                        Q4_1 | Q5_1 => d * q + m,
                        Q8_0 => d * f32::from(quants[i] as i8),
                        Q4K | Q5K => d * f32::from(a) * q - m * f32::from(b),
                        _ => d * f32::from(if i < 16 { a } else { b } as i8) * (q - 32.0),
                    };
                    assert!((found - expected).abs() <= expected.abs() * 1e-6, "{} value {i} of unit {j}", ty.name());
                }
            }
        }
    }
}
