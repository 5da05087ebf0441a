//! The vectors elsewhere: the `wide` crate.
//!
//! Invariant: the bits of `wasm`; nobody counts its instructions.

use wide::{f32x4, i16x8, i32x4, i64x2, u8x16, u16x8};

#[derive(Clone, Copy)]
pub struct F32x4(f32x4);
#[derive(Clone, Copy)]
pub struct I32x4(i32x4);
#[derive(Clone, Copy)]
pub struct I16x8(i16x8);

impl F32x4 {
    pub const ZERO: Self = Self(f32x4::ZERO);
    #[inline(always)]
    pub fn splat(x: f32) -> Self {
        Self(f32x4::splat(x))
    }
    #[inline(always)]
    pub fn load(lanes: &[f32; 4]) -> Self {
        Self(f32x4::from(*lanes))
    }
    #[inline(always)]
    pub fn store(self, lanes: &mut [f32; 4]) {
        *lanes = self.0.to_array();
    }
    #[inline(always)]
    pub fn add(self, other: Self) -> Self {
        Self(self.0 + other.0)
    }
    #[inline(always)]
    pub fn sub(self, other: Self) -> Self {
        Self(self.0 - other.0)
    }
    #[inline(always)]
    pub fn mul(self, other: Self) -> Self {
        Self(self.0 * other.0)
    }
    #[inline(always)]
    pub fn div(self, other: Self) -> Self {
        Self(self.0 / other.0)
    }
    /// Lane-wise `self < other ? self : other`.
    #[inline(always)]
    pub fn min(self, other: Self) -> Self {
        let (a, b) = (self.to_array(), other.to_array());
        let lane = |i: usize| if a[i] < b[i] { a[i] } else { b[i] };
        Self(f32x4::from([lane(0), lane(1), lane(2), lane(3)]))
    }
    /// Lane-wise `self > other ? self : other`.
    #[inline(always)]
    pub fn max(self, other: Self) -> Self {
        let (a, b) = (self.to_array(), other.to_array());
        let lane = |i: usize| if a[i] > b[i] { a[i] } else { b[i] };
        Self(f32x4::from([lane(0), lane(1), lane(2), lane(3)]))
    }
    #[inline(always)]
    pub fn floor(self) -> Self {
        Self(self.0.floor())
    }
    /// 2^self for whole numbers in -126..=127.
    #[inline(always)]
    pub fn exp2_whole(self) -> Self {
        let power = |x: f32| f32::from_bits(((x as i32 + 127) << 23) as u32);
        let [a, b, c, d] = self.to_array();
        Self(f32x4::from([power(a), power(b), power(c), power(d)]))
    }
    /// Lane r of the result is the sum of the lanes of `rows[r]`.
    #[inline(always)]
    pub fn sum_each(rows: [Self; 4]) -> Self {
        let sums = rows.map(|row| {
            let [a, b, c, d] = row.to_array();
            (a + c) + (b + d)
        });
        Self(f32x4::from(sums))
    }
    #[inline(always)]
    pub fn to_array(self) -> [f32; 4] {
        self.0.to_array()
    }
}

impl I32x4 {
    pub const ZERO: Self = Self(i32x4::ZERO);
    #[inline(always)]
    pub fn splat(x: i32) -> Self {
        Self(i32x4::splat(x))
    }
    #[inline(always)]
    pub fn add(self, other: Self) -> Self {
        Self(self.0 + other.0)
    }
    #[inline(always)]
    pub fn to_array(self) -> [i32; 4] {
        self.0.to_array()
    }
    #[inline(always)]
    pub fn to_f32(self) -> F32x4 {
        F32x4(self.0.round_float())
    }
    #[inline(always)]
    pub fn sub(self, other: Self) -> Self {
        Self(self.0 - other.0)
    }
    /// The sums of neighbouring lanes, those of `a` first.
    #[inline(always)]
    pub fn sum_pairs(a: Self, b: Self) -> Self {
        let ([a, b, c, d], [e, f, g, h]) = (a.to_array(), b.to_array());
        Self(i32x4::from([a + b, c + d, e + f, g + h]))
    }
}

impl I16x8 {
    pub const ZERO: Self = Self(i16x8::ZERO);
    pub fn constant(x: i16) -> Self {
        Self(i16x8::splat(x))
    }
    /// Whole numbers in i16's range; NaN gives 0.
    #[inline(always)]
    pub fn from_f32([a, b]: [F32x4; 2]) -> Self {
        let ([a, b, c, d], [e, f, g, h]) = (a.to_array(), b.to_array());
        Self(i16x8::from([a, b, c, d, e, f, g, h].map(|x| x as i16)))
    }
    /// The same four lanes twice.
    #[inline(always)]
    pub fn splat_four(four: &[i16; 4]) -> Self {
        Self(bytemuck::cast(i64x2::splat(bytemuck::cast(*four))))
    }
    #[inline(always)]
    pub fn from_bytes(bytes: &[u8; 16]) -> Self {
        Self(bytemuck::cast(*bytes))
    }
    /// The sixteen bytes as i8, widened: the first eight, the last eight.
    #[inline(always)]
    pub fn widen_bytes(self) -> [Self; 2] {
        let bytes: u8x16 = bytemuck::cast(self.0);
        // Each byte becomes the upper half of a lane, then moves down with its sign.
        let halves = [u8x16::unpack_low(u8x16::ZERO, bytes), u8x16::unpack_high(u8x16::ZERO, bytes)];
        halves.map(|upper| Self(bytemuck::cast::<_, i16x8>(upper) >> 8))
    }
    #[inline(always)]
    pub fn and(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }
    #[inline(always)]
    pub fn or(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
    #[inline(always)]
    pub fn shl(self, n: u32) -> Self {
        Self(self.0 << n)
    }
    /// Zeros shifted in.
    #[inline(always)]
    pub fn shr(self, n: u32) -> Self {
        Self(bytemuck::cast(bytemuck::cast::<_, u16x8>(self.0) >> n))
    }
    /// Byte `k` of every four, an i8, as f32.
    #[inline(always)]
    pub fn byte_to_f32(self, k: u32) -> F32x4 {
        let bytes: [[i8; 4]; 4] = bytemuck::cast(self.0);
        F32x4(f32x4::from(bytes.map(|four| f32::from(four[k as usize]))))
    }
    pub fn to_array(self) -> [i16; 8] {
        self.0.to_array()
    }
    /// Products of neighbouring lanes, added in pairs.
    #[inline(always)]
    pub fn dot_pairs(self, other: Self) -> I32x4 {
        I32x4(self.0.dot(other.0))
    }
}

/// Reads f16.
#[derive(Clone, Copy)]
pub struct F16Reader;

impl F16Reader {
    pub fn new() -> Self {
        Self
    }
    /// Four little-endian f16, exactly; they are finite (`quant::scales_are_finite`).
    #[inline(always)]
    pub fn read(&self, halves: &[u8; 8]) -> F32x4 {
        let lane = |i: usize| {
            let bits = i32::from(i16::from_le_bytes([halves[2 * i], halves[2 * i + 1]]));
            f32::from_bits((bits << 13 & super::F16_MASK) as u32) * super::F16_SCALE
        };
        F32x4(f32x4::from([lane(0), lane(1), lane(2), lane(3)]))
    }
}
