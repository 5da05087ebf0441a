//! The formats with kernels of our own: which width their integers have, and how the head of a packed block says what these
//! are worth.
//!
//! Invariant: reads the heads of packed blocks; the integers are for `widths`.

use super::activations::Block;
use super::dot::{Dots, Integers, VECS};
use super::pack::{self, ROWS};
use super::simd::{F16Reader, F32x4, I16x8};
use super::widths::{Eight, Five, Four, Masks, PART, Part, Six, Width};
use crate::quant::{GgmlType, units};

/// A format of packed weights.
pub trait Format {
    const TYPE: GgmlType;
    type Width: Width;

    /// Units in a block.
    const UNITS: usize = Self::TYPE.block_len() / 32;
    /// Bytes of a packed block's head.
    const HEAD: usize = pack::head_bytes(Self::TYPE);
    /// Bytes of a packed block.
    const BLOCK: usize = Self::TYPE.block_bytes() * ROWS;
    const HAS_MINIMA: bool = units::n_halves(Self::TYPE) == 2;
    const INTEGERS: Integers = Integers {
        zero_point: match Self::TYPE {
            GgmlType::Q8_0 => None,
            ty => Some(units::zero_point(ty)),
        },
        halves: matches!(Self::TYPE, GgmlType::Q6K),
    };
}

macro_rules! formats {
    ($($name:ident: $width:ident),*) => {
        $(
            pub struct $name;
            impl Format for $name {
                const TYPE: GgmlType = GgmlType::$name;
                type Width = $width;
            }
        )*
    };
}

formats!(Q4_0: Four, Q4_1: Four, Q5_0: Five, Q5_1: Five, Q8_0: Eight, Q4K: Four, Q5K: Five, Q6K: Six);

/// What a product with a matrix needs beside it, made once for all of its rows.
#[derive(Clone, Copy)]
pub struct Constants {
    f16: F16Reader,
    pub masks: Masks,
}

impl Constants {
    pub fn new() -> Self {
        Self { f16: F16Reader::new(), masks: Masks::new() }
    }
}

/// What a unit of eight rows is worth: value = integer · scale of its half + minimum.
#[derive(Clone, Copy)]
pub struct Worth {
    scales: [[F32x4; VECS]; 2],
    minima: [F32x4; VECS],
}

/// The head of a packed block, read.
pub struct Head {
    /// Scales and minima; the minima of the K formats are negative already.
    halves: [[F32x4; VECS]; 2],
    /// Scales of the units, of two units in each.
    units: Part,
}

impl Head {
    #[inline(always)]
    pub fn new<F: Format>(block: &[u8], constants: &Constants) -> Self {
        let at = |i: usize| constants.f16.read(&block.as_chunks().0[i]);
        let scales = [at(0), at(1)];
        let minima = if F::HAS_MINIMA { [at(2), at(3)] } else { [F32x4::ZERO; VECS] };
        let minima = if F::UNITS == 1 { minima } else { minima.map(|m| F32x4::ZERO.sub(m)) };
        let of_units = &block[pack::halves_bytes(F::TYPE)..F::HEAD];
        let units = match F::TYPE {
            GgmlType::Q4K | GgmlType::Q5K => Six::lone_part(of_units, constants.masks),
            GgmlType::Q6K => Eight::lone_part(of_units),
            _ => [[I16x8::ZERO; VECS]; PART],
        };
        Self { halves: [scales, minima], units }
    }

    /// What unit `j` is worth.
    #[inline(always)]
    pub fn worth<F: Format>(&self, j: usize) -> Worth {
        let [d, m] = self.halves;
        if F::UNITS == 1 {
            return Worth { scales: [d, d], minima: m };
        }
        let times = |d: [F32x4; VECS], side: u32| {
            let [a, b] = self.units[j / 2].map(|scales| scales.byte_to_f32(j as u32 % 2 * 2 + side));
            [d[0].mul(a), d[1].mul(b)]
        };
        if F::HAS_MINIMA {
            Worth { scales: [times(d, 0); 2], minima: times(m, 1) }
        } else {
            Worth { scales: [times(d, 0), times(d, 1)], minima: m }
        }
    }
}

impl Worth {
    pub const NOTHING: Self = Self { scales: [[F32x4::ZERO; VECS]; 2], minima: [F32x4::ZERO; VECS] };

    /// Scales of the two halves and minimum of one row.
    pub fn of_row(&self, row: usize) -> ([f32; 2], f32) {
        let lane = |rows: [F32x4; VECS]| rows[row / 4].to_array()[row % 4];
        (self.scales.map(lane), lane(self.minima))
    }

    /// Adds a unit's products to the rows' results.
    #[inline(always)]
    pub fn add<F: Format>(&self, acc: &mut [F32x4; VECS], dots: Dots, x: &Block) {
        let scale = F32x4::splat(x.scale);
        let n_halves = if F::INTEGERS.halves { 2 } else { 1 };
        for (dots, scales) in dots.into_iter().zip(self.scales).take(n_halves) {
            for ((acc, dot), weight_scale) in acc.iter_mut().zip(dots).zip(scales) {
                *acc = acc.add(dot.to_f32().mul(weight_scale.mul(scale)));
            }
        }
        if F::HAS_MINIMA {
            let sum = F32x4::splat(x.scaled_sum);
            for (acc, minimum) in acc.iter_mut().zip(self.minima) {
                *acc = acc.add(minimum.mul(sum));
            }
        }
    }
}
