//! Dot products on bytes, with relaxed SIMD: one instruction for sixteen products. One operand of it must lie in 0..=127, where all
//! processors agree: the weights of up to six bits, or else the activations without their signs.
//!
//! Invariant: see `dot`.

use super::super::simd::{F32x4, I16x8, I32x4};
use super::{Dots, HALF, Integers, TakeQuad, Unit, VECS};

/// Weights of four rows, four of each.
#[derive(Clone, Copy)]
pub struct Quad(I16x8);

/// A block of activations as products read it: value = high, or 255 · high + low in a wide block.
#[derive(Clone, Copy)]
pub struct Operand {
    high: Plane,
    low: Plane,
    is_wide: bool,
}

/// A byte of each activation, in -127..=127.
#[derive(Clone, Copy)]
struct Plane {
    bytes: [i8; 32],
    half_sums: [i32; 2],
    /// The sum of the magnitudes of what is negative.
    negative: i32,
}

impl Quad {
    pub const ZERO: Self = Self(I16x8::ZERO);

    #[inline(always)]
    pub fn new(bytes: I16x8) -> Self {
        Self(bytes)
    }

    /// `[row][value]`
    pub fn to_array(self) -> [[i16; 4]; 4] {
        bytemuck::cast(self.0.widen_bytes().map(I16x8::to_array))
    }
}

impl Operand {
    pub const ZERO: Self = Self { high: Plane::ZERO, low: Plane::ZERO, is_wide: false };

    /// `values`: whole numbers, or NaN for 0.
    #[inline(always)]
    pub fn new(values: [[F32x4; 2]; 4], is_wide: bool) -> Self {
        if !is_wide {
            return Self { high: Plane::new(values), low: Plane::ZERO, is_wide };
        }
        let [step, inverse, half] = [255.0, 1.0 / 255.0, 0.5].map(F32x4::splat);
        let high = values.map(|pair| pair.map(|x| x.mul(inverse).add(half).floor()));
        let low = |i: usize, k: usize| values[i][k].sub(high[i][k].mul(step));
        let low = std::array::from_fn(|i| [low(i, 0), low(i, 1)]);
        Self { high: Plane::new(high), low: Plane::new(low), is_wide }
    }

    pub fn values(&self) -> [i16; 32] {
        let Self { high, low, is_wide } = self;
        let wide = |i: usize| 255 * i16::from(high.bytes[i]) + i16::from(low.bytes[i]);
        std::array::from_fn(|i| if *is_wide { wide(i) } else { i16::from(high.bytes[i]) })
    }

    #[inline(always)]
    pub fn sum(&self) -> i32 {
        let sum = |plane: &Plane| plane.half_sums[0] + plane.half_sums[1];
        if self.is_wide { 255 * sum(&self.high) + sum(&self.low) } else { sum(&self.high) }
    }
}

impl Plane {
    const ZERO: Self = Self { bytes: [0; 32], half_sums: [0; 2], negative: 0 };

    #[inline(always)]
    fn new(values: [[F32x4; 2]; 4]) -> Self {
        let zero = F32x4::ZERO;
        let sum = |[a, b]: [F32x4; 2]| a.add(b);
        let [a, b, c, d] = values;
        // Of whole numbers below 2^12, so exact; NaN counts as 0 in the integers only, and its block's scale is NaN.
        let halves = [sum(a).add(sum(b)), sum(c).add(sum(d))];
        let negative = values.map(|pair| sum(pair.map(|x| zero.min(x))));
        let negative = negative[0].add(negative[1]).add(negative[2].add(negative[3]));
        let [first, second, negative, _] = F32x4::sum_each([halves[0], halves[1], negative, zero]).to_array();
        let integers = values.map(I16x8::from_f32);
        let mut bytes = [0; 32];
        let (halves, _) = bytes.as_chunks_mut();
        for (bytes, [a, b]) in halves.iter_mut().zip(integers.as_chunks().0) {
            *bytes = I16x8::narrow_to_bytes(*a, *b);
        }
        Self { bytes, half_sums: [first as i32, second as i32], negative: -negative as i32 }
    }
}

/// The dot products of eight rows with `T` blocks.
#[inline(always)]
pub fn dot<const T: usize>(integers: Integers, unit: &impl Unit, x: [&Operand; T]) -> [Dots; T] {
    let dots = dot_planes(integers, unit, x.map(|x| &x.high));
    if x.iter().all(|x| !x.is_wide) {
        return dots;
    }
    // A copy, so that the others can stay in registers.
    let mut dots = dots;
    for (dots, x) in dots.iter_mut().zip(x) {
        if x.is_wide {
            let [low] = dot_planes(integers, unit, [&x.low]);
            for (dot, low) in dots.as_flattened_mut().iter_mut().zip(low.as_flattened()) {
                *dot = dot.shl(8).sub(*dot).add(*low);
            }
        }
    }
    dots
}

/// The sums of a unit's dot products with `T` planes, as they grow.
struct Sums<'a, const T: usize> {
    integers: Integers,
    x: [&'a Plane; T],
    dots: [Dots; T],
}

impl<const T: usize> TakeQuad for Sums<'_, T> {
    #[inline(always)]
    fn take_quad(&mut self, half: usize, q: usize, weights: [Quad; VECS]) {
        for (dots, x) in self.dots.iter_mut().zip(self.x) {
            let x = I16x8::splat_bytes(&x.bytes.as_chunks().0[HALF * half + q]);
            for (dot, Quad(weights)) in dots[self.integers.dot_of(half)].iter_mut().zip(weights) {
                // For a negative x: |x| · !w = |x| · (-w - 1) = x · w - |x|; the sum starts from these |x|.
                *dot = match self.integers.zero_point {
                    Some(_) => dot.add_dot_bytes(x, weights),
                    None => dot.add_dot_bytes(weights.xor(x.are_bytes_negative()), x.byte_magnitudes()),
                };
            }
        }
    }
}

#[inline(always)]
fn dot_planes<const T: usize>(integers: Integers, unit: &impl Unit, x: [&Plane; T]) -> [Dots; T] {
    let dots = x.map(|x| {
        let starts = match integers.zero_point {
            Some(zero_point) => integers.join(x.half_sums).map(|sum| -zero_point * sum),
            None => [x.negative, 0],
        };
        starts.map(|start| [I32x4::splat(start); VECS])
    });
    let mut sums = Sums { integers, x, dots };
    unit.give_quads(&mut sums);
    sums.dots
}

#[cfg(test)]
mod tests {
    use super::super::LARGEST_WIDE;
    use super::*;

    #[wasm_bindgen_test::wasm_bindgen_test]
    fn every_wide_value_splits_into_two_bytes_without_the_lowest() {
        let all: Vec<i16> = (-LARGEST_WIDE..=LARGEST_WIDE).chain([0; 31]).collect();
        for values in all.as_chunks::<32>().0 {
            let mut lanes = [[F32x4::ZERO; 2]; 4];
            for (lanes, values) in lanes.as_flattened_mut().iter_mut().zip(values.as_chunks::<4>().0) {
                *lanes = F32x4::load(&values.map(f32::from));
            }
            let operand = Operand::new(lanes, true);
            assert_eq!(operand.values(), *values);
            let sum: i32 = values.iter().map(|&value| i32::from(value)).sum();
            assert_eq!(operand.sum(), sum);
            for plane in [operand.high, operand.low] {
                assert!(!plane.bytes.contains(&i8::MIN), "{values:?}");
                let negative: i32 = plane.bytes.iter().map(|&byte| -i32::from(byte.min(0))).sum();
                assert_eq!(plane.negative, negative);
            }
        }
    }
}
