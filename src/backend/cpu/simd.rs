//! Four-lane vectors, so that each kernel is written once: simd128 in wasm, the `wide` crate elsewhere. Both do
//! the same operations in the same order, so both give the same bits.
//!
//! Invariant: lanes and arithmetic only; knows no formats and no shapes.

pub use imp::{F32x4, I16x8, I32x4};

#[cfg(all(target_arch = "wasm32", target_feature = "simd128"))]
mod imp {
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
        /// Four little-endian f16, exactly; they are finite (`quant::scales_are_finite`).
        #[inline(always)]
        pub fn from_f16(halves: &[u8; 8]) -> Self {
            // SAFETY: eight readable bytes; wasm loads need no alignment.
            let bits = unsafe { u32x4_load_extend_u16x4(halves.as_ptr().cast()) };
            let sign = i32x4_shl(v128_and(bits, u32x4_splat(0x8000)), 16);
            let magnitude = i32x4_shl(v128_and(bits, u32x4_splat(0x7fff)), 13);
            // Exponent and mantissa, moved into f32's fields, are off by the difference of the two biases: 2^112.
            Self(v128_or(f32x4_mul(magnitude, f32x4_splat(super::F16_SCALE)), sign))
        }
        #[inline(always)]
        pub fn to_array(self) -> [f32; 4] {
            let mut lanes = [0.0; 4];
            self.store(&mut lanes);
            lanes
        }
    }

    impl I32x4 {
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
        /// Lane r of the result is the sum of the lanes of `rows[r]`.
        #[inline(always)]
        pub fn sum_each(rows: [Self; 4]) -> Self {
            let [Self(a), Self(b), Self(c), Self(d)] = rows;
            let ab = i32x4_add(i32x4_shuffle::<0, 4, 1, 5>(a, b), i32x4_shuffle::<2, 6, 3, 7>(a, b));
            let cd = i32x4_add(i32x4_shuffle::<0, 4, 1, 5>(c, d), i32x4_shuffle::<2, 6, 3, 7>(c, d));
            Self(i32x4_add(i64x2_shuffle::<0, 2>(ab, cd), i64x2_shuffle::<1, 3>(ab, cd)))
        }
    }

    impl I16x8 {
        #[inline(always)]
        pub fn load(lanes: &[i16; 8]) -> Self {
            Self(load(lanes))
        }
        /// 32 i8, widened, the even ones first (the order of `activations::place`).
        #[inline(always)]
        pub fn widen_i8(bytes: &[u8; 32]) -> [Self; 4] {
            let [a, b] = [load(&bytes.as_chunks::<16>().0[0]), load(&bytes.as_chunks::<16>().0[1])];
            let even = |v| Self(i16x8_shr(i16x8_shl(v, 8), 8));
            let odd = |v| Self(i16x8_shr(v, 8));
            [even(a), even(b), odd(a), odd(b)]
        }
        /// 32 nibbles, 0 to 15, the even ones first; value i is in the low half of byte i, value 16 + i in its high half.
        #[inline(always)]
        pub fn widen_nibbles(bytes: &[u8; 16]) -> [Self; 4] {
            let v = load(bytes);
            let low = |v| Self(v128_and(v, u16x8_splat(0x0f)));
            [low(v), low(u16x8_shr(v, 4)), low(u16x8_shr(v, 8)), Self(u16x8_shr(v, 12))]
        }
        /// Products of neighbouring lanes, added in pairs.
        #[inline(always)]
        pub fn dot_pairs(self, other: Self) -> I32x4 {
            I32x4(i32x4_dot_i16x8(self.0, other.0))
        }
    }
}

#[cfg(not(all(target_arch = "wasm32", target_feature = "simd128")))]
mod imp {
    use wide::{f32x4, i16x8, i32x4};

    #[derive(Clone, Copy)]
    pub struct F32x4(f32x4);
    #[derive(Clone, Copy)]
    pub struct I32x4(i32x4);
    #[derive(Clone, Copy)]
    pub struct I16x8(i16x8);

    impl F32x4 {
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
        /// Four little-endian f16, exactly; they are finite (`quant::scales_are_finite`).
        #[inline(always)]
        pub fn from_f16(halves: &[u8; 8]) -> Self {
            let lane = |i: usize| {
                let bits = u32::from(u16::from_le_bytes([halves[2 * i], halves[2 * i + 1]]));
                let magnitude = f32::from_bits((bits & 0x7fff) << 13) * super::F16_SCALE;
                f32::from_bits(magnitude.to_bits() | (bits & 0x8000) << 16)
            };
            Self(f32x4::from([lane(0), lane(1), lane(2), lane(3)]))
        }
        #[inline(always)]
        pub fn to_array(self) -> [f32; 4] {
            self.0.to_array()
        }
    }

    impl I32x4 {
        #[inline(always)]
        pub fn splat(x: i32) -> Self {
            Self(i32x4::splat(x))
        }
        #[inline(always)]
        pub fn add(self, other: Self) -> Self {
            Self(self.0 + other.0)
        }
        #[inline(always)]
        pub fn to_f32(self) -> F32x4 {
            F32x4(self.0.round_float())
        }
        /// Lane r of the result is the sum of the lanes of `rows[r]`.
        #[inline(always)]
        pub fn sum_each(rows: [Self; 4]) -> Self {
            let sum = |row: Self| {
                let [a, b, c, d] = row.0.to_array();
                (a + b) + (c + d)
            };
            Self(i32x4::from([sum(rows[0]), sum(rows[1]), sum(rows[2]), sum(rows[3])]))
        }
    }

    impl I16x8 {
        #[inline(always)]
        pub fn load(lanes: &[i16; 8]) -> Self {
            Self(i16x8::from(*lanes))
        }
        /// 32 i8, widened, the even ones first (the order of `activations::place`).
        #[inline(always)]
        pub fn widen_i8(bytes: &[u8; 32]) -> [Self; 4] {
            let [a, b]: [i16x8; 2] = bytemuck::cast(*bytes);
            [Self((a << 8) >> 8), Self((b << 8) >> 8), Self(a >> 8), Self(b >> 8)]
        }
        /// 32 nibbles, 0 to 15, the even ones first; value i is in the low half of byte i, value 16 + i in its high half.
        #[inline(always)]
        pub fn widen_nibbles(bytes: &[u8; 16]) -> [Self; 4] {
            let v: i16x8 = bytemuck::cast(*bytes);
            let low = i16x8::splat(0x0f);
            [Self(v & low), Self((v >> 4) & low), Self((v >> 8) & low), Self((v >> 12) & low)]
        }
        /// Products of neighbouring lanes, added in pairs.
        #[inline(always)]
        pub fn dot_pairs(self, other: Self) -> I32x4 {
            I32x4(self.0.dot(other.0))
        }
    }
}

/// 2^112: what an f16's exponent lacks when its bits are moved into an f32's fields.
const F16_SCALE: f32 = f32::from_bits((112 + 127) << 23);

/// exp(x) with a relative error below 2e-7 for x in -87..=88; x is clamped to that (Cephes `expf`).
#[inline(always)]
pub fn exp(x: F32x4) -> F32x4 {
    const LN_2_HIGH: f32 = 0.693_359_4;
    const LN_2_LOW: f32 = -2.121_944_4e-4;
    let f = F32x4::splat;
    let clamped = f(88.0).min(f(-87.0).max(x)); // in this order NaN stays NaN
    let n = clamped.mul(f(std::f32::consts::LOG2_E)).add(f(0.5)).floor();
    let r = clamped.sub(n.mul(f(LN_2_HIGH))).sub(n.mul(f(LN_2_LOW)));
    let mut poly = f(1.987_569_1e-4);
    for c in [1.398_199_9e-3, 8.333_452e-3, 4.166_579_6e-2, 1.666_666_5e-1, 0.5] {
        poly = poly.mul(r).add(f(c));
    }
    poly.mul(r.mul(r)).add(r).add(f(1.0)).mul(n.exp2_whole())
}

/// Σ a·b over four lanes each of four partial sums; any length, the same order on every build.
#[inline(always)]
pub fn dot(a: &[f32], b: &[f32]) -> f32 {
    let (a16, a_rest) = a.as_chunks::<16>();
    let (b16, b_rest) = b.as_chunks::<16>();
    let mut sums = [F32x4::splat(0.0); 4];
    for (a, b) in a16.iter().zip(b16) {
        let (a, b) = (a.as_chunks::<4>().0, b.as_chunks::<4>().0);
        for i in 0..4 {
            sums[i] = sums[i].add(F32x4::load(&a[i]).mul(F32x4::load(&b[i])));
        }
    }
    let [x, y, z, w] = sums[0].add(sums[1]).add(sums[2].add(sums[3])).to_array();
    let rest: f32 = a_rest.iter().zip(b_rest).map(|(a, b)| a * b).sum();
    (x + y) + (z + w) + rest
}

/// y += scale · x.
#[inline(always)]
pub fn add_scaled(y: &mut [f32], scale: f32, x: &[f32]) {
    let (y4, y_rest) = y.as_chunks_mut::<4>();
    let (x4, x_rest) = x.as_chunks::<4>();
    for (y, x) in y4.iter_mut().zip(x4) {
        F32x4::load(y).add(F32x4::load(x).mul(F32x4::splat(scale))).store(y);
    }
    for (y, x) in y_rest.iter_mut().zip(x_rest) {
        *y += scale * x;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg_attr(target_arch = "wasm32", wasm_bindgen_test::wasm_bindgen_test)]
    #[cfg_attr(not(target_arch = "wasm32"), test)]
    fn exp_is_near_the_exact_value() {
        for i in -86_000..=88_000 {
            let x = i as f32 / 1000.0;
            let exact = f64::from(x).exp();
            let got = f64::from(exp(F32x4::splat(x)).to_array()[3]);
            assert!((got / exact - 1.0).abs() < 2e-7, "exp({x}) is {got}, exactly {exact}");
        }
        assert!(exp(F32x4::splat(f32::NEG_INFINITY)).to_array()[0] < 2e-38);
        assert!(exp(F32x4::splat(f32::NAN)).to_array()[0].is_nan());
    }

    #[cfg_attr(target_arch = "wasm32", wasm_bindgen_test::wasm_bindgen_test)]
    #[cfg_attr(not(target_arch = "wasm32"), test)]
    fn from_f16_is_exact_for_every_finite_value() {
        for bits in (0..=u16::MAX).filter(|bits| bits & 0x7c00 != 0x7c00) {
            let [low, high] = bits.to_le_bytes();
            let lanes = F32x4::from_f16(&[0, 0, low, high, 0, 0, low, high]).to_array();
            let exact = half::f16::from_bits(bits).to_f32();
            assert_eq!(lanes.map(f32::to_bits), [0.0, exact, 0.0, exact].map(f32::to_bits), "bits {bits:#06x}");
        }
    }

    #[cfg_attr(target_arch = "wasm32", wasm_bindgen_test::wasm_bindgen_test)]
    #[cfg_attr(not(target_arch = "wasm32"), test)]
    fn dot_and_add_scaled_take_any_length() {
        for n in [0, 1, 3, 4, 15, 16, 17, 64, 67] {
            let a: Vec<f32> = (0..n).map(|i| i as f32 * 0.5 - 3.0).collect();
            let b: Vec<f32> = (0..n).map(|i| 2.0 - i as f32 * 0.25).collect();
            let exact: f32 = a.iter().zip(&b).map(|(a, b)| a * b).sum();
            assert!((dot(&a, &b) - exact).abs() <= 1e-5 * (1.0 + exact.abs()), "{n}");
            let mut y = b.clone();
            add_scaled(&mut y, 2.0, &a);
            assert!(y.iter().zip(a.iter().zip(&b)).all(|(y, (a, b))| *y == b + 2.0 * a), "{n}");
        }
    }
}
