//! Repacking at load: eight rows at a time, so that a kernel reads one stream and finds the same field of all eight side by side.
//!
//! ```text
//! block, packed    [scale f16 × 8] [minimum f16 × 8, if any] [scales of the units, if any] [units, as in `widths`]
//! scales of units  a pair a unit, so a quad for every two. Q4_K, Q5_K: scale and minimum, 6 bits, packed as a part in `widths`;
//!                  Q6_K: scales of the unit's halves, i8
//! ```
//!
//! In place and of the same size; the last `n_rows % 8` rows stay as they were.
//!
//! Invariant: moves bits; what they are worth is for `quant` to say.

use super::dot::{QUADS, VECS};
use super::widths::{Eight, Five, Four, PART, Six, Vector, Width};
use crate::quant::GgmlType;
use crate::quant::units;

/// Rows that are packed together.
pub const ROWS: usize = 8;

/// Bytes of the halves at the start of a packed block.
pub const fn halves_bytes(ty: GgmlType) -> usize {
    units::n_halves(ty) * 2 * ROWS
}

/// Bytes of a packed block before its units.
pub const fn head_bytes(ty: GgmlType) -> usize {
    halves_bytes(ty)
        + match ty {
            GgmlType::Q4K | GgmlType::Q5K => 12 * ROWS,
            GgmlType::Q6K => 16 * ROWS,
            _ => 0,
        }
}

/// Packs a matrix of rows of `row_bytes`.
pub fn pack(ty: GgmlType, bytes: &mut [u8], row_bytes: usize) {
    let block_bytes = ty.block_bytes();
    let mut rows = vec![0; row_bytes * ROWS];
    for group in bytes.chunks_exact_mut(row_bytes * ROWS) {
        rows.copy_from_slice(group);
        for (b, packed) in group.chunks_exact_mut(block_bytes * ROWS).enumerate() {
            pack_block(ty, |row| &rows[row * row_bytes + b * block_bytes..][..block_bytes], packed);
        }
    }
}

fn pack_block<'a>(ty: GgmlType, block: impl Fn(usize) -> &'a [u8], packed: &mut [u8]) {
    let (head, units) = packed.split_at_mut(head_bytes(ty));
    for row in 0..ROWS {
        for (h, half) in units::block_scales(ty, block(row)).iter().take(units::n_halves(ty)).enumerate() {
            head[(h * ROWS + row) * 2..][..2].copy_from_slice(half);
        }
    }
    let n_units = ty.block_len() / 32;
    let mut scales: [[Vector; VECS]; PART] = Default::default();
    for (j, packed) in units.chunks_exact_mut(units.len() / n_units).enumerate() {
        let mut values: [[Vector; VECS]; QUADS] = Default::default();
        for row in 0..ROWS {
            let unit = units::unit(ty, block(row), j);
            let (rows, lane) = (row / 4, row % 4 * 4);
            for (q, quad) in unit.quants.as_chunks::<4>().0.iter().enumerate() {
                values[q][rows][lane..][..4].copy_from_slice(quad);
            }
            scales[j / 2][rows][lane + j % 2 * 2..][..2].copy_from_slice(&unit.scales);
        }
        match ty {
            GgmlType::Q4_0 | GgmlType::Q4_1 | GgmlType::Q4K => Four::pack(&values, packed),
            GgmlType::Q5_0 | GgmlType::Q5_1 | GgmlType::Q5K => Five::pack(&values, packed),
            GgmlType::Q6K => Six::pack(&values, packed),
            _ => Eight::pack(&values, packed),
        }
    }
    let head = &mut head[halves_bytes(ty)..];
    match ty {
        GgmlType::Q4K | GgmlType::Q5K => Six::pack_part(scales, head),
        GgmlType::Q6K => head.copy_from_slice(scales.as_flattened().as_flattened()),
        _ => {}
    }
}

#[cfg(test)]
pub mod tests {
    use super::*;

    /// The formats that are packed.
    pub const TYPES: [GgmlType; 8] = [
        GgmlType::Q4_0,
        GgmlType::Q4_1,
        GgmlType::Q5_0,
        GgmlType::Q5_1,
        GgmlType::Q8_0,
        GgmlType::Q4K,
        GgmlType::Q5K,
        GgmlType::Q6K,
    ];

    /// Numbers below 2^24.
    pub fn random() -> impl FnMut() -> u32 {
        let mut state = 1u32;
        move || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            state >> 8
        }
    }

    /// The f16 scales and minima of a block.
    pub fn halves_mut(ty: GgmlType, block: &mut [u8]) -> impl Iterator<Item = &mut [u8; 2]> {
        let at = if ty == GgmlType::Q6K { 208 } else { 0 };
        block[at..].as_chunks_mut().0.iter_mut().take(units::n_halves(ty))
    }

    /// `len` bytes of blocks with finite halves, of both signs and subnormal ones among them.
    pub fn random_blocks(ty: GgmlType, len: usize, random: &mut impl FnMut() -> u32) -> Vec<u8> {
        let mut bytes: Vec<u8> = (0..len).map(|_| random() as u8).collect();
        for block in bytes.chunks_exact_mut(ty.block_bytes()) {
            halves_mut(ty, block).for_each(|half| half[1] &= 0xbf);
        }
        bytes
    }
}
