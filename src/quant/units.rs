//! Blocks as integers, one unit of 32 values at a time: what a kernel needs that unpacks them elsewhere. Layouts as in
//! ggml-common.h; [`super::dequantize_row`] says what the integers are worth.
//!
//! Invariant: moves bits; only [`Parts`] knows what they are worth.

use super::GgmlType;
use half::f16;

/// A unit of a quantized block, before scaling.
pub struct Unit {
    /// 4, 5 or 6 bits each, with the format's offset still in (Q4_0: 8, Q5_0: 16, Q6_K: 32); Q8_0: two's complement.
    pub quants: [u8; 32],
    /// Q4_K and Q5_K: the unit's scale and minimum, 6 bits each. Q6_K: scales of its two halves, two's complement. Others: 0.
    pub scales: [u8; 2],
}

/// What a unit says: value i is `quants[i] · scales[i / 16] + minimum`.
pub struct Parts {
    pub quants: [i32; 32],
    pub scales: [f32; 2],
    pub minimum: Option<f32>,
}

impl Parts {
    /// `halves`: those of the unit's block, from [`block_scales`].
    pub fn new(ty: GgmlType, unit: &Unit, halves: [[u8; 2]; 2]) -> Self {
        let Unit { quants, scales: [a, b] } = *unit;
        let [d, m] = halves.map(|half| f16::from_le_bytes(half).to_f32());
        let (scales, minimum) = match ty {
            GgmlType::Q4_1 | GgmlType::Q5_1 => ([d; 2], Some(m)),
            GgmlType::Q4K | GgmlType::Q5K => ([d * f32::from(a); 2], Some(0.0 - m * f32::from(b))),
            GgmlType::Q6K => ([a, b].map(|scale| d * f32::from(scale as i8)), None),
            _ => ([d; 2], None),
        };
        let value = |q| if ty == GgmlType::Q8_0 { i32::from(q as i8) } else { i32::from(q) - zero_point(ty) };
        Self { quants: quants.map(value), scales, minimum }
    }

    pub fn values(&self) -> [f32; 32] {
        let minimum = self.minimum.unwrap_or(0.0);
        std::array::from_fn(|i| self.quants[i] as f32 * self.scales[i / 16] + minimum)
    }
}

/// What unit `j` of a block says.
pub fn parts(ty: GgmlType, block: &[u8], j: usize) -> Parts {
    Parts::new(ty, &unit(ty, block, j), block_scales(ty, block))
}

/// The stored integer that stands for 0, in the formats that have [`Unit`]s without a sign of their own.
pub const fn zero_point(ty: GgmlType) -> i32 {
    match ty {
        GgmlType::Q4_0 => 8,
        GgmlType::Q5_0 => 16,
        GgmlType::Q6K => 32,
        _ => 0,
    }
}

/// Whether blocks of this type consist of [`Unit`]s.
pub const fn has_units(ty: GgmlType) -> bool {
    use GgmlType::*;
    matches!(ty, Q4_0 | Q4_1 | Q5_0 | Q5_1 | Q8_0 | Q4K | Q5K | Q6K)
}

/// How many of the two halves of [`block_scales`] the format has.
pub const fn n_halves(ty: GgmlType) -> usize {
    use GgmlType::*;
    if matches!(ty, Q4_1 | Q5_1 | Q4K | Q5K) { 2 } else { 1 }
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
    use super::super::to_candle;
    use super::*;
    use candle_core::CpuStorage;

    /// Against candle, to the bit.
    #[test]
    fn parts_are_worth_what_candle_says() {
        use GgmlType::*;
        for ty in [Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, Q4K, Q5K, Q6K] {
            let mut block: Vec<u8> = (0..ty.block_bytes()).map(|i| (i * 151 % 251) as u8).collect();
            // Finite scales.
            let at = if ty == Q6K { 208 } else { 0 };
            for half in block[at..].as_chunks_mut::<2>().0.iter_mut().take(n_halves(ty)) {
                half[1] = half[1] & 0x83 | 0x30;
            }
            let CpuStorage::F32(expected) = to_candle(ty, &block).unwrap().dequantize(ty.block_len()).unwrap() else {
                panic!("candle dequantises to f32")
            };
            for (j, expected) in expected.chunks_exact(32).enumerate() {
                let parts = Parts::new(ty, &unit(ty, &block, j), block_scales(ty, &block));
                assert_eq!(parts.values(), expected, "{} unit {j}", ty.name());
            }
        }
    }
}
