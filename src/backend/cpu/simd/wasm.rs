//! The vectors in wasm: simd128.
//!
//! Invariant: one instruction of wasm or a few a function; `native` does the same.

use core::arch::wasm32::*;

#[derive(Clone, Copy)]
pub struct F32x4(v128);
#[derive(Clone, Copy)]
pub struct I32x4(v128);
#[derive(Clone, Copy)]
pub struct I16x8(v128);

fn load<T: bytemuck::Pod, const N: usize>(lanes: &[T; N]) -> v128 {
    const { assert!(size_of::<T>() * N == 16) };
    // SAFETY: 16 readable bytes (asserted above); wasm loads need no alignment.
    unsafe { v128_load(lanes.as_ptr().cast()) }
}

impl F32x4 {
    pub const ZERO: Self = Self(f32x4(0.0, 0.0, 0.0, 0.0));
    #[inline(always)]
    pub fn splat(x: f32) -> Self {
        Self(f32x4_splat(x))
    }
    #[inline(always)]
    pub fn load(lanes: &[f32; 4]) -> Self {
        Self(load(lanes))
    }
    #[inline(always)]
    pub fn store(self, lanes: &mut [f32; 4]) {
        // SAFETY: four f32 are 16 writable bytes; wasm stores need no alignment.
        unsafe { v128_store(lanes.as_mut_ptr().cast(), self.0) }
    }
    #[inline(always)]
    pub fn add(self, other: Self) -> Self {
        Self(f32x4_add(self.0, other.0))
    }
    #[inline(always)]
    pub fn sub(self, other: Self) -> Self {
        Self(f32x4_sub(self.0, other.0))
    }
    #[inline(always)]
    pub fn mul(self, other: Self) -> Self {
        Self(f32x4_mul(self.0, other.0))
    }
    #[inline(always)]
    pub fn div(self, other: Self) -> Self {
        Self(f32x4_div(self.0, other.0))
    }
    /// Lane-wise `self < other ? self : other`.
    #[inline(always)]
    pub fn min(self, other: Self) -> Self {
        Self(f32x4_pmin(other.0, self.0))
    }
    /// Lane-wise `self > other ? self : other`.
    #[inline(always)]
    pub fn max(self, other: Self) -> Self {
        Self(f32x4_pmax(other.0, self.0))
    }
    #[inline(always)]
    pub fn floor(self) -> Self {
        Self(f32x4_floor(self.0))
    }
    /// 2^self for whole numbers in -126..=127.
    #[inline(always)]
    pub fn exp2_whole(self) -> Self {
        let n = i32x4_trunc_sat_f32x4(self.0);
        Self(i32x4_shl(i32x4_add(n, i32x4_splat(127)), 23))
    }
    /// Lane r of the result is the sum of the lanes of `rows[r]`.
    #[inline(always)]
    pub fn sum_each(rows: [Self; 4]) -> Self {
        let [Self(a), Self(b), Self(c), Self(d)] = rows;
        let ab = f32x4_add(i32x4_shuffle::<0, 4, 1, 5>(a, b), i32x4_shuffle::<2, 6, 3, 7>(a, b));
        let cd = f32x4_add(i32x4_shuffle::<0, 4, 1, 5>(c, d), i32x4_shuffle::<2, 6, 3, 7>(c, d));
        Self(f32x4_add(i64x2_shuffle::<0, 2>(ab, cd), i64x2_shuffle::<1, 3>(ab, cd)))
    }
    #[inline(always)]
    pub fn to_array(self) -> [f32; 4] {
        let mut lanes = [0.0; 4];
        self.store(&mut lanes);
        lanes
    }
}

impl I32x4 {
    #[cfg(not(target_feature = "relaxed-simd"))]
    pub const ZERO: Self = Self(i32x4(0, 0, 0, 0));
    #[inline(always)]
    pub fn splat(x: i32) -> Self {
        Self(i32x4_splat(x))
    }
    #[inline(always)]
    pub fn add(self, other: Self) -> Self {
        Self(i32x4_add(self.0, other.0))
    }
    #[inline(always)]
    pub fn to_f32(self) -> F32x4 {
        F32x4(f32x4_convert_i32x4(self.0))
    }
    #[inline(always)]
    pub fn sub(self, other: Self) -> Self {
        Self(i32x4_sub(self.0, other.0))
    }
    #[cfg(target_feature = "relaxed-simd")]
    #[inline(always)]
    pub fn shl(self, n: u32) -> Self {
        Self(i32x4_shl(self.0, n))
    }
    /// The sums of neighbouring lanes, those of `a` first.
    #[cfg(not(target_feature = "relaxed-simd"))]
    #[inline(always)]
    pub fn sum_pairs(a: Self, b: Self) -> Self {
        Self(i32x4_add(i32x4_shuffle::<0, 2, 4, 6>(a.0, b.0), i32x4_shuffle::<1, 3, 5, 7>(a.0, b.0)))
    }
    /// Adds to each lane the products of its four bytes: `signed` in -128..=127, `unsigned` in 0..=127.
    #[cfg(target_feature = "relaxed-simd")]
    #[inline(always)]
    pub fn add_dot_bytes(self, signed: I16x8, unsigned: I16x8) -> Self {
        Self(i32x4_relaxed_dot_i8x16_i7x16_add(signed.0, unsigned.0, self.0))
    }
}

impl I16x8 {
    pub const ZERO: Self = Self(i16x8(0, 0, 0, 0, 0, 0, 0, 0));
    /// A constant, hidden from the compiler: LLVM would put it into the loop, where V8 makes it anew each time it is
    /// used, for three instructions where the use takes one.
    pub fn constant(x: i16) -> Self {
        Self(std::hint::black_box(i16x8_splat(x)))
    }
    /// Whole numbers in i16's range; NaN gives 0.
    #[inline(always)]
    pub fn from_f32([a, b]: [F32x4; 2]) -> Self {
        Self(i16x8_narrow_i32x4(i32x4_trunc_sat_f32x4(a.0), i32x4_trunc_sat_f32x4(b.0)))
    }
    /// Sixteen lanes in -128..=127, as bytes.
    #[cfg(target_feature = "relaxed-simd")]
    #[inline(always)]
    pub fn narrow_to_bytes(a: Self, b: Self) -> [i8; 16] {
        let mut bytes = [0; 16];
        // SAFETY: sixteen writable bytes; wasm stores need no alignment.
        unsafe { v128_store(bytes.as_mut_ptr().cast(), i8x16_narrow_i16x8(a.0, b.0)) }
        bytes
    }
    /// The same four bytes four times.
    #[cfg(target_feature = "relaxed-simd")]
    #[inline(always)]
    pub fn splat_bytes(bytes: &[i8; 4]) -> Self {
        // SAFETY: four readable bytes; wasm loads need no alignment.
        Self(unsafe { v128_load32_splat(bytes.as_ptr().cast()) })
    }
    /// -1 for each of the sixteen bytes that is negative, else 0.
    #[cfg(target_feature = "relaxed-simd")]
    #[inline(always)]
    pub fn are_bytes_negative(self) -> Self {
        Self(i8x16_gt(i8x16_splat(0), self.0))
    }
    #[cfg(target_feature = "relaxed-simd")]
    #[inline(always)]
    pub fn byte_magnitudes(self) -> Self {
        Self(i8x16_abs(self.0))
    }
    #[cfg(target_feature = "relaxed-simd")]
    #[inline(always)]
    pub fn xor(self, other: Self) -> Self {
        Self(v128_xor(self.0, other.0))
    }
    /// The same four lanes twice.
    #[cfg(not(target_feature = "relaxed-simd"))]
    #[inline(always)]
    pub fn splat_four(lanes: &[i16; 4]) -> Self {
        // SAFETY: eight readable bytes; wasm loads need no alignment.
        Self(unsafe { v128_load64_splat(lanes.as_ptr().cast()) })
    }
    #[inline(always)]
    pub fn from_bytes(bytes: &[u8; 16]) -> Self {
        Self(load(bytes))
    }
    /// The sixteen bytes as i8, widened: the first eight, the last eight.
    #[inline(always)]
    pub fn widen_bytes(self) -> [Self; 2] {
        [Self(i16x8_extend_low_i8x16(self.0)), Self(i16x8_extend_high_i8x16(self.0))]
    }
    #[inline(always)]
    pub fn and(self, other: Self) -> Self {
        Self(v128_and(self.0, other.0))
    }
    #[inline(always)]
    pub fn or(self, other: Self) -> Self {
        Self(v128_or(self.0, other.0))
    }
    #[inline(always)]
    pub fn shl(self, n: u32) -> Self {
        Self(i16x8_shl(self.0, n))
    }
    /// Zeros shifted in.
    #[inline(always)]
    pub fn shr(self, n: u32) -> Self {
        Self(u16x8_shr(self.0, n))
    }
    /// Byte `k` of every four, an i8, as f32.
    #[inline(always)]
    pub fn byte_to_f32(self, k: u32) -> F32x4 {
        F32x4(f32x4_convert_i32x4(i32x4_shr(i32x4_shl(self.0, 24 - 8 * k), 24)))
    }
    pub fn to_array(self) -> [i16; 8] {
        let mut lanes = [0; 8];
        // SAFETY: eight i16 are 16 writable bytes; wasm stores need no alignment.
        unsafe { v128_store(lanes.as_mut_ptr().cast(), self.0) }
        lanes
    }
    /// Products of neighbouring lanes, added in pairs.
    #[cfg(not(target_feature = "relaxed-simd"))]
    #[inline(always)]
    pub fn dot_pairs(self, other: Self) -> I32x4 {
        I32x4(i32x4_dot_i16x8(self.0, other.0))
    }
}

/// Reads f16; holds the constants for it (see `I16x8::constant`).
#[derive(Clone, Copy)]
pub struct F16Reader {
    mask: v128,
    scale: v128,
}

impl F16Reader {
    pub fn new() -> Self {
        let constants = Self { mask: i32x4_splat(super::F16_MASK), scale: f32x4_splat(super::F16_SCALE) };
        std::hint::black_box(constants)
    }
    /// Four little-endian f16, exactly; they are finite (`quant::scales_are_finite`).
    #[inline(always)]
    pub fn read(&self, halves: &[u8; 8]) -> F32x4 {
        // SAFETY: eight readable bytes; wasm loads need no alignment.
        let bits = unsafe { i32x4_load_extend_i16x4(halves.as_ptr().cast()) };
        F32x4(f32x4_mul(v128_and(i32x4_shl(bits, 13), self.mask), self.scale))
    }
}
