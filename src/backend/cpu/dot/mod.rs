//! Exact dot products of a unit of eight rows with blocks of activations: on bytes with relaxed SIMD, elsewhere on 16-bit integers.
//! Both give the same integers.
//!
//! Invariant: integers only; knows neither scales nor how weights are packed.

#[cfg(not(target_feature = "relaxed-simd"))]
mod pairs;
#[cfg(target_feature = "relaxed-simd")]
mod relaxed;

#[cfg(not(target_feature = "relaxed-simd"))]
pub use pairs::{Operand, Quad, dot};
#[cfg(target_feature = "relaxed-simd")]
pub use relaxed::{Operand, Quad, dot};

use super::simd::I32x4;

/// Vectors that eight rows take: four rows each.
pub const VECS: usize = 2;

/// Four values each of four rows: what one vector of bytes holds. A unit has this many for each of its `VECS`.
pub const QUADS: usize = 8;

/// Quads in a half of a unit.
pub const HALF: usize = QUADS / 2;

/// The largest activation of a wide block: 255 · 127 + 127, so that it splits into two of `LARGEST_NARROW` and less.
pub const LARGEST_WIDE: i16 = 32_512;
/// The largest activation of any other block.
pub const LARGEST_NARROW: i16 = 127;

/// Dot products of eight rows, one for each half of a unit, or one in all and nothing.
pub type Dots = [[I32x4; VECS]; 2];

/// The weights of a unit of eight rows.
pub trait Unit {
    /// Gives every quad, in any order.
    fn give_quads(&self, to: &mut impl TakeQuad);
}

/// What is done with the quads of a unit. (A closure is inlined where the compiler likes; these are in the innermost loop.)
pub trait TakeQuad {
    /// `half` of the unit, and `q` of it 0 to 3.
    fn take_quad(&mut self, half: usize, q: usize, weights: [Quad; VECS]);
}

/// For loops that must stay loops. Unrolled, the products of a unit come out in order of the sums that they belong to, after all
/// that is multiplied was read; and V8 has no more than sixteen registers to keep it in.
#[derive(Clone, Copy)]
pub struct Steps(usize);

impl Steps {
    const MAX: usize = 4;

    pub fn new() -> Self {
        Self(std::hint::black_box(Self::MAX))
    }

    /// 0 to `N` - 1, unknown to the compiler.
    #[inline(always)]
    pub fn to<const N: usize>(self) -> std::ops::Range<usize> {
        const { assert!(N <= Self::MAX) };
        0..self.0.min(N)
    }
}

/// What the integers of a format are like.
#[derive(Clone, Copy)]
pub struct Integers {
    /// Which of 0..=63 stands for 0; none for integers with a sign of their own, -128..=127.
    pub zero_point: Option<i32>,
    /// Whether the halves of a unit have scales, and so products, of their own.
    pub halves: bool,
}

impl Integers {
    /// Which of the two dot products a half belongs to.
    fn dot_of(self, half: usize) -> usize {
        if self.halves { half } else { 0 }
    }

    /// One value for each dot product, from one for each half.
    fn join<T: std::ops::Add<Output = T> + Copy + Default>(self, [a, b]: [T; 2]) -> [T; 2] {
        if self.halves { [a, b] } else { [a + b, T::default()] }
    }
}
