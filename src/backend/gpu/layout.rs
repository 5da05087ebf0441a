//! How weights lie in GPU memory: still quantized, sorted into two planes that shaders read in whole words.
//!
//! A row is cut into units of 32 values. The `quants` plane holds a fixed number of 16-byte vectors a unit; the `extras` plane
//! holds scales, minima and high bits, some words for every group of units. `shaders/formats/` says what stands where.
//!
//! Invariant: values are not touched; unpacked by the shaders they are those of `quant::dequantize_row`.

use crate::quant::{GgmlType, units};

/// Values in a unit.
pub const UNIT: usize = 32;

/// The two planes of a format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Layout {
    /// 16-byte vectors a unit.
    pub quant_vecs: usize,
    /// Units that share a group of extras.
    pub extra_units: usize,
    /// 32-bit words a group.
    pub extra_words: usize,
}

/// Formats that have a shader, with their layouts.
pub const FORMATS: [(GgmlType, Layout); 11] = {
    const fn layout(quant_vecs: usize, extra_units: usize, extra_words: usize) -> Layout {
        Layout { quant_vecs, extra_units, extra_words }
    }
    [
        (GgmlType::Q4_0, layout(1, 2, 1)),
        (GgmlType::Q4_1, layout(1, 1, 1)),
        (GgmlType::Q5_0, layout(1, 2, 3)),
        (GgmlType::Q5_1, layout(1, 1, 2)),
        (GgmlType::Q8_0, layout(2, 2, 1)),
        (GgmlType::Q4K, layout(1, 8, 5)),
        (GgmlType::Q5K, layout(1, 8, 13)),
        (GgmlType::Q6K, layout(1, 8, 21)),
        (GgmlType::F16, layout(4, 1, 0)),
        (GgmlType::BF16, layout(4, 1, 0)),
        (GgmlType::F32, layout(8, 1, 0)),
    ]
};

impl Layout {
    /// The layout of a format, if it has a shader.
    pub fn of(ty: GgmlType) -> Option<Self> {
        FORMATS.iter().find(|(known, _)| *known == ty).map(|(_, layout)| *layout)
    }

    /// Bytes of one row of `units` units in each plane.
    pub fn row_bytes(&self, units: usize) -> (usize, usize) {
        (units * self.quant_vecs * 16, units.div_ceil(self.extra_units) * self.extra_words * 4)
    }
}

/// Sorts a row, `ty`'s bytes for some whole blocks, into its place in the two planes, which are zero.
pub fn pack_row(ty: GgmlType, row: &[u8], quants: &mut [u8], extras: &mut [u8]) {
    if ty.block_len() == 1 {
        quants[..row.len()].copy_from_slice(row);
        return;
    }
    let Layout { quant_vecs, extra_units, extra_words } = Layout::of(ty).expect("the format has a shader");
    let units_per_block = ty.block_len() / UNIT;
    let mut places = quants.chunks_exact_mut(quant_vecs * 16).enumerate();
    for block in row.chunks_exact(ty.block_bytes()) {
        let [scale, minimum] = units::block_scales(ty, block);
        for (j, (index, place)) in places.by_ref().take(units_per_block).enumerate() {
            let unit = units::unit(ty, block, j);
            pack_quants(ty, &unit.quants, place);
            let extras = &mut extras[index / extra_units * extra_words * 4..][..extra_words * 4];
            // Where the unit's own share of the group's words begins, after what the group shares.
            match ty {
                GgmlType::Q4_0 | GgmlType::Q8_0 | GgmlType::Q5_0 => {
                    let side = index % 2;
                    extras[side * 2..][..2].copy_from_slice(&scale);
                    if ty == GgmlType::Q5_0 {
                        extras[4 + side * 4..][..4].copy_from_slice(&fifth_bits(&unit.quants));
                    }
                }
                GgmlType::Q4_1 | GgmlType::Q5_1 => {
                    extras[..2].copy_from_slice(&scale);
                    extras[2..4].copy_from_slice(&minimum);
                    if ty == GgmlType::Q5_1 {
                        extras[4..8].copy_from_slice(&fifth_bits(&unit.quants));
                    }
                }
                _ => {
                    extras[..2].copy_from_slice(&scale);
                    extras[2..4].copy_from_slice(&minimum);
                    extras[4 + j * 2..][..2].copy_from_slice(&unit.scales);
                    match ty {
                        GgmlType::Q5K => extras[20 + j * 4..][..4].copy_from_slice(&fifth_bits(&unit.quants)),
                        GgmlType::Q6K => extras[20 + j * 8..][..8].copy_from_slice(&top_two_bits(&unit.quants)),
                        _ => {}
                    }
                }
            }
        }
    }
}

fn pack_quants(ty: GgmlType, quants: &[u8; UNIT], place: &mut [u8]) {
    if ty == GgmlType::Q8_0 {
        place.copy_from_slice(quants);
        return;
    }
    for (i, byte) in place.iter_mut().enumerate() {
        *byte = quants[i] & 15 | (quants[16 + i] & 15) << 4;
    }
}

/// Bit i belongs to value i.
fn fifth_bits(quants: &[u8; UNIT]) -> [u8; 4] {
    quants.iter().enumerate().fold(0u32, |bits, (i, q)| bits | u32::from(q >> 4 & 1) << i).to_le_bytes()
}

/// Bits 2i and 2i + 1 belong to value i.
fn top_two_bits(quants: &[u8; UNIT]) -> [u8; 8] {
    quants.iter().enumerate().fold(0u64, |bits, (i, q)| bits | u64::from(q >> 4 & 3) << (2 * i)).to_le_bytes()
}
