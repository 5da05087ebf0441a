//! Dot products on 16-bit integers: bytes are widened, activations are 16 bits wide whether they need it or not.
//!
//! Invariant: see `dot`.

use super::super::simd::{F32x4, I16x8, I32x4};
use super::{Dots, HALF, Integers, TakeQuad, Unit, VECS};

/// Weights of four rows, four of each, widened: two rows in each vector.
#[derive(Clone, Copy)]
pub struct Quad([I16x8; 2]);

/// A block of activations as products read it.
#[derive(Clone, Copy)]
pub struct Operand {
    values: [i16; 32],
    half_sums: [i32; 2],
}

impl Quad {
    pub const ZERO: Self = Self([I16x8::ZERO; 2]);

    #[inline(always)]
    pub fn new(bytes: I16x8) -> Self {
        Self(bytes.widen_bytes())
    }

    /// `[row][value]`
    pub fn to_array(self) -> [[i16; 4]; 4] {
        bytemuck::cast(self.0.map(I16x8::to_array))
    }
}

impl Operand {
    pub const ZERO: Self = Self { values: [0; 32], half_sums: [0; 2] };

    /// `values`: whole numbers, or NaN for 0.
    #[inline(always)]
    pub fn new(values: [[F32x4; 2]; 4], _is_wide: bool) -> Self {
        let values: [i16; 32] = bytemuck::cast(values.map(|pair| I16x8::from_f32(pair).to_array()));
        let sum = |half: usize| values[half * 16..][..16].iter().map(|&value| i32::from(value)).sum();
        Self { values, half_sums: [sum(0), sum(1)] }
    }

    pub fn values(&self) -> [i16; 32] {
        self.values
    }

    #[inline(always)]
    pub fn sum(&self) -> i32 {
        self.half_sums[0] + self.half_sums[1]
    }
}

/// The sums of a unit's dot products with `T` blocks, as they grow.
struct Sums<'a, const T: usize> {
    integers: Integers,
    x: [&'a Operand; T],
    sums: [[[[I32x4; 2]; VECS]; 2]; T],
}

impl<const T: usize> TakeQuad for Sums<'_, T> {
    #[inline(always)]
    fn take_quad(&mut self, half: usize, q: usize, weights: [Quad; VECS]) {
        for (sums, x) in self.sums.iter_mut().zip(self.x) {
            let x = I16x8::splat_four(&x.values.as_chunks().0[HALF * half + q]);
            for (sums, Quad(weights)) in sums[self.integers.dot_of(half)].iter_mut().zip(weights) {
                for (sum, weights) in sums.iter_mut().zip(weights) {
                    *sum = sum.add(weights.dot_pairs(x));
                }
            }
        }
    }
}

/// The dot products of eight rows with `T` blocks.
#[inline(always)]
pub fn dot<const T: usize>(integers: Integers, unit: &impl Unit, x: [&Operand; T]) -> [Dots; T] {
    let mut sums = Sums { integers, x, sums: [[[[I32x4::ZERO; 2]; VECS]; 2]; T] };
    unit.give_quads(&mut sums);
    let zero_point = integers.zero_point.unwrap_or(0);
    std::array::from_fn(|t| {
        let zeros = integers.join(x[t].half_sums).map(|sum| I32x4::splat(zero_point * sum));
        std::array::from_fn(|half| sums.sums[t][half].map(|[a, b]| I32x4::sum_pairs(a, b).sub(zeros[half])))
    })
}
