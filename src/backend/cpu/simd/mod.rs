//! Four-lane vectors, so that each kernel is written once: simd128 in wasm, the `wide` crate elsewhere. Both do
//! the same operations in the same order, so both give the same bits.
//!
//! Invariant: lanes and arithmetic only; knows no formats and no shapes.

#[cfg(not(all(target_arch = "wasm32", target_feature = "simd128")))]
mod native;
#[cfg(all(target_arch = "wasm32", target_feature = "simd128"))]
mod wasm;

#[cfg(not(all(target_arch = "wasm32", target_feature = "simd128")))]
pub use native::{F16Reader, F32x4, I16x8, I32x4};
#[cfg(all(target_arch = "wasm32", target_feature = "simd128"))]
pub use wasm::{F16Reader, F32x4, I16x8, I32x4};

/// 2^112: what an f16's exponent lacks when its bits are moved into an f32's fields.
const F16_SCALE: f32 = f32::from_bits((112 + 127) << 23);

/// Sign, and where exponent and mantissa come to stand, of an f16 whose bits were sign-extended and then shifted into an f32's fields.
const F16_MASK: i32 = 0x8fff_e000_u32 as i32;

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
    fn reading_f16_is_exact_for_every_finite_value() {
        for bits in (0..=u16::MAX).filter(|bits| bits & 0x7c00 != 0x7c00) {
            let [low, high] = bits.to_le_bytes();
            let lanes = F16Reader::new().read(&[0, 0, low, high, 0, 0, low, high]).to_array();
            let exact = half::f16::from_bits(bits).to_f32();
            assert_eq!(lanes.map(f32::to_bits), [0.0, exact, 0.0, exact].map(f32::to_bits), "bits {bits:#06x}");
        }
    }

    #[cfg_attr(target_arch = "wasm32", wasm_bindgen_test::wasm_bindgen_test)]
    #[cfg_attr(not(target_arch = "wasm32"), test)]
    fn dot_takes_any_length() {
        for n in [0, 1, 3, 4, 15, 16, 17, 64, 67] {
            let a: Vec<f32> = (0..n).map(|i| i as f32 * 0.5 - 3.0).collect();
            let b: Vec<f32> = (0..n).map(|i| 2.0 - i as f32 * 0.25).collect();
            let exact: f32 = a.iter().zip(&b).map(|(a, b)| a * b).sum();
            assert!((dot(&a, &b) - exact).abs() <= 1e-5 * (1.0 + exact.abs()), "{n}");
        }
    }
}
