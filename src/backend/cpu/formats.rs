//! The formats with kernels of our own: which width their integers have, and how the head of a packed block says what these
//! are worth.
//!
//! Invariant: reads the heads of packed blocks; the integers are for `widths`.

use super::activations::Block;
use super::pack::{self, ROWS};
use super::simd::{F16Reader, F32x4, I16x8, I32x4};
use super::widths::{Eight, Five, Four, Six, Steps, VECS, Wide, Width};
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
pub struct Constants<W: Width> {
    f16: F16Reader,
    pub masks: W::Masks,
    pub steps: Steps,
    scale_masks: <Six as Width>::Masks,
}

impl<W: Width> Constants<W> {
    pub fn new() -> Self {
        Self { f16: F16Reader::new(), masks: W::masks(), steps: Steps::new(), scale_masks: Six::masks() }
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
    halves: [[F32x4; VECS]; 2],
    /// Scales of the units: a pair for each row.
    units: [Wide; 8],
}

impl Head {
    #[inline(always)]
    pub fn new<F: Format>(block: &[u8], constants: &Constants<F::Width>) -> Self {
        let at = |i: usize| constants.f16.read(&block.as_chunks().0[i]);
        let scales = [at(0), at(1)];
        let minima = if F::HAS_MINIMA { [at(2), at(3)] } else { [F32x4::ZERO; VECS] };
        let scales_of_units = &block[pack::halves_bytes(F::TYPE)..F::HEAD];
        let units = match F::TYPE {
            GgmlType::Q4K | GgmlType::Q5K => Six::widen_half(&scales_of_units.as_chunks().0[0], constants.scale_masks),
            GgmlType::Q6K => std::array::from_fn(|j| Eight::widen_pair(scales_of_units, j)),
            _ => [[I16x8::ZERO; VECS]; 8],
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
        let [first, second] = self.units[j].map(|pair| pair.sides());
        let times = |d: [F32x4; VECS], side: usize| [d[0].mul(first[side]), d[1].mul(second[side])];
        if F::HAS_MINIMA {
            let minima = times(m, 1).map(|m| F32x4::splat(0.0).sub(m));
            Worth { scales: [times(d, 0); 2], minima }
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

    /// Adds a unit's products to the rows' results. `dots`: of integers less the zero point, as `Width::dot` has them.
    #[inline(always)]
    pub fn add<F: Format>(&self, acc: &mut [F32x4; VECS], dots: [[I32x4; VECS]; 2], x: &Block) {
        let scale = F32x4::splat(x.scale);
        let n_halves = if F::Width::HALVES { 2 } else { 1 };
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
