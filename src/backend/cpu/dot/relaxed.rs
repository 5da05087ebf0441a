//! Dot products on bytes, with relaxed SIMD: one instruction for sixteen products. One operand of it must lie in 0..=127, where all
//! processors agree: the weights of up to six bits, or else the activations without their signs.
//!
//! Invariant: see `dot`.

use super::super::simd::{I16x8, I32x4};
use super::{Dots, HALF, Integers, TakeQuad, Unit, VECS};

/// Weights of four rows, four of each.
#[derive(Clone, Copy)]
pub struct Quad(I16x8);

/// A block of activations as products read it: value = high, or 255 · high + low in a wide block.
#[derive(Clone, Copy)]
pub struct Operand {
    pub values: [i16; 32],
    high: Plane,
    low: Option<Plane>,
}

/// A byte of each activation, in -127..=127.
#[derive(Clone, Copy)]
struct Plane {
    bytes: [i8; 32],
    magnitudes: [i8; 32],
    /// -1 for what is negative, else 0.
    signs: [i8; 32],
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
    pub const ZERO: Self = Self { values: [0; 32], high: Plane::ZERO, low: None };

    #[inline(always)]
    pub fn new(values: [i16; 32], is_wide: bool) -> Self {
        if is_wide {
            let high = values.map(high_byte);
            let low = std::array::from_fn(|i| (values[i] - 255 * i16::from(high[i])) as i8);
            Self { values, high: Plane::new(high), low: Some(Plane::new(low)) }
        } else {
            Self { values, high: Plane::new(values.map(|value| value as i8)), low: None }
        }
    }

    #[inline(always)]
    pub fn sum(&self) -> i32 {
        let sum = |plane: &Plane| plane.half_sums[0] + plane.half_sums[1];
        self.low.as_ref().map_or(sum(&self.high), |low| 255 * sum(&self.high) + sum(low))
    }
}

/// value / 255, rounded: 32897 / 2^23 is near enough to 1 / 255 for every value that there is.
fn high_byte(value: i16) -> i8 {
    ((i32::from(value) * 32_897 + (1 << 22)) >> 23) as i8
}

impl Plane {
    const ZERO: Self = Self { bytes: [0; 32], magnitudes: [0; 32], signs: [0; 32], half_sums: [0; 2], negative: 0 };

    #[inline(always)]
    fn new(bytes: [i8; 32]) -> Self {
        let magnitudes = bytes.map(i8::abs);
        let sum = |bytes: &[i8]| bytes.iter().map(|&byte| i32::from(byte)).sum::<i32>();
        let half_sums = [sum(&bytes[..16]), sum(&bytes[16..])];
        let negative = (sum(&magnitudes) - half_sums[0] - half_sums[1]) / 2;
        Self { bytes, magnitudes, signs: bytes.map(|byte| byte >> 7), half_sums, negative }
    }
}

/// The dot products of eight rows with `T` blocks.
#[inline(always)]
pub fn dot<const T: usize>(integers: Integers, unit: &impl Unit, x: [&Operand; T]) -> [Dots; T] {
    let dots = dot_planes(integers, unit, x.map(|x| &x.high));
    if x.iter().all(|x| x.low.is_none()) {
        return dots;
    }
    // A copy, so that the others can stay in registers.
    let mut dots = dots;
    for (dots, x) in dots.iter_mut().zip(x) {
        if let Some(low) = &x.low {
            let [low] = dot_planes(integers, unit, [low]);
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
            let four = |bytes: &[i8; 32]| I16x8::splat_bytes(&bytes.as_chunks().0[HALF * half + q]);
            for (dot, Quad(weights)) in dots[self.integers.dot_of(half)].iter_mut().zip(weights) {
                // For a negative x: |x| · !w = |x| · (-w - 1) = x · w - |x|; the sum starts from these |x|.
                *dot = match self.integers.zero_point {
                    Some(_) => dot.add_dot_bytes(four(&x.bytes), weights),
                    None => dot.add_dot_bytes(weights.xor(four(&x.signs)), four(&x.magnitudes)),
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
        for value in -LARGEST_WIDE..=LARGEST_WIDE {
            let high = i32::from(high_byte(value));
            let low = i32::from(value) - 255 * high;
            assert!(high.abs() <= 127 && low.abs() <= 127, "{value} = 255 · {high} + {low}");
        }
    }
}
