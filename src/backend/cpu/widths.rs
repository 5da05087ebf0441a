//! How the stored integers of eight rows are packed, by their width: each 32-bit lane belongs to one row, so that products add up
//! without ever crossing lanes.
//!
//! A unit is 32 values of each row: eight *quads* of four. A *vector* is 16 bytes, four rows of a quad, `[row][value]`; each quad has
//! two, for rows 0 to 3 and 4 to 7. All widths take exactly as many bytes as in the file:
//!
//! ```text
//! 4 bits   4 × 2 vectors   quad q in the low nibbles, quad q + 4 in the high ones
//! 5 bits   as 4 bits, then 2 vectors: bit 4 of quads 0, 1, 4, 5 at bits 4 to 7, of quads 2, 3, 6, 7 at bits 0 to 3
//! 6 bits   as 4 bits, then 2 × 2 vectors: bits 4 and 5 of quads 0, 1, 4, 5 at bits 4, 6, 0, 2; of quads 2, 3, 6, 7 likewise
//! 8 bits   8 × 2 vectors   bytes
//! ```
//!
//! So a *part*, quads 2p, 2p + 1, 2p + 4 and 2p + 5, is unpacked alike for p = 0 and 1: a loop of two. The high bits stand where one
//! 16-bit shift brings them to bit 4; what that carries over from the next byte is masked off.
//!
//! Invariant: places bits; knows no scales.

use super::dot::{HALF, QUADS, Quad, Steps, TakeQuad, Unit, VECS};
use super::simd::I16x8;
use std::marker::PhantomData;

/// Values of four rows, four of each, `[row][value]`.
pub type Vector = [u8; 16];

/// What the unpacking needs, made once for a matrix (see `I16x8::constant`): the bits of every byte to keep.
#[derive(Clone, Copy)]
pub struct Masks {
    nibble: I16x8,
    /// Bit 4.
    fifth: I16x8,
    /// Bits 4 and 5.
    high: I16x8,
    steps: Steps,
}

impl Masks {
    pub fn new() -> Self {
        let mask = |byte: u8| I16x8::constant(i16::from_le_bytes([byte; 2]));
        Self { nibble: mask(0x0f), fifth: mask(0x10), high: mask(0x30), steps: Steps::new() }
    }
}

/// A width of stored integers.
pub trait Width {
    /// Bytes of a unit of eight rows.
    const UNIT_BYTES: usize;

    /// Packs a unit; the reverse of `part`.
    fn pack(values: &[[Vector; VECS]; QUADS], unit: &mut [u8]);

    /// Part `p` of a unit.
    fn part(unit: &[u8], masks: Masks, p: usize) -> Part;
}

/// Quads 2p, 2p + 1, 2p + 4, 2p + 5.
pub type Part = [[I16x8; VECS]; PART];

/// Quads in a part.
pub const PART: usize = 4;

/// The quads of a part.
const fn quads(p: usize) -> [usize; PART] {
    [2 * p, 2 * p + 1, 2 * p + HALF, 2 * p + 1 + HALF]
}

pub struct Four;
pub struct Five;
pub struct Six;
pub struct Eight;

/// A unit of eight packed rows.
pub struct Packed<'a, W> {
    unit: &'a [u8],
    masks: Masks,
    width: PhantomData<W>,
}

impl<'a, W: Width> Packed<'a, W> {
    #[inline(always)]
    pub fn new(unit: &'a [u8], masks: Masks) -> Self {
        Self { unit, masks, width: PhantomData }
    }
}

impl<W: Width> Unit for Packed<'_, W> {
    #[inline(always)]
    fn give_quads(&self, to: &mut impl TakeQuad) {
        for p in self.masks.steps.to::<2>() {
            let [a, b, c, d] = W::part(self.unit, self.masks, p).map(|quad| quad.map(Quad::new));
            to.take_quad(0, 2 * p, a);
            to.take_quad(0, 2 * p + 1, b);
            to.take_quad(1, 2 * p, c);
            to.take_quad(1, 2 * p + 1, d);
        }
    }
}

/// Vector `v`, for both fours of rows.
#[inline(always)]
fn vectors(bytes: &[u8], v: usize) -> [I16x8; VECS] {
    let bytes = bytes.as_chunks::<16>().0;
    [I16x8::from_bytes(&bytes[VECS * v]), I16x8::from_bytes(&bytes[VECS * v + 1])]
}

/// The low four bits of a part.
#[inline(always)]
fn nibbles(bytes: &[u8], masks: Masks, p: usize) -> Part {
    let [a, b] = [vectors(bytes, 2 * p), vectors(bytes, 2 * p + 1)];
    let (low, high) = (|v: I16x8| v.and(masks.nibble), |v: I16x8| v.shr(4).and(masks.nibble));
    [a.map(low), b.map(low), a.map(high), b.map(high)]
}

#[inline(always)]
fn or(a: Part, b: Part) -> Part {
    std::array::from_fn(|k| std::array::from_fn(|rows| a[k][rows].or(b[k][rows])))
}

/// The bits above the nibbles of a part, two of each value.
#[inline(always)]
fn pairs_of_bits(bits: [I16x8; VECS], masks: Masks) -> Part {
    let at_bit_4 = [|v: I16x8| v, |v: I16x8| v.shr(2), |v: I16x8| v.shl(4), |v: I16x8| v.shl(2)];
    at_bit_4.map(|shift| bits.map(|v| shift(v).and(masks.high)))
}

/// Fills a vector for both fours of rows, each byte made by `byte(rows, i)`.
fn put(vectors: &mut [u8], byte: impl Fn(usize, usize) -> u8) {
    for (rows, vector) in vectors.as_chunks_mut::<16>().0.iter_mut().enumerate() {
        *vector = std::array::from_fn(|i| byte(rows, i));
    }
}

/// The low four bits of a part, in two vectors.
fn put_nibbles(part: [[Vector; VECS]; PART], packed: &mut [u8]) {
    for (k, vectors) in packed.chunks_exact_mut(VECS * 16).enumerate() {
        put(vectors, |rows, i| part[k][rows][i] & 15 | part[k + 2][rows][i] << 4);
    }
}

impl Width for Four {
    const UNIT_BYTES: usize = 8 * 16;

    fn pack(values: &[[Vector; VECS]; QUADS], unit: &mut [u8]) {
        for (p, low) in unit.chunks_exact_mut(4 * 16).enumerate() {
            put_nibbles(quads(p).map(|q| values[q]), low);
        }
    }

    #[inline(always)]
    fn part(unit: &[u8], masks: Masks, p: usize) -> Part {
        nibbles(unit, masks, p)
    }
}

impl Width for Five {
    const UNIT_BYTES: usize = (8 + 2) * 16;

    fn pack(values: &[[Vector; VECS]; QUADS], unit: &mut [u8]) {
        let (low, high) = unit.split_at_mut(Four::UNIT_BYTES);
        Four::pack(values, low);
        put(high, |rows, i| {
            let bits = |p: usize| (0..PART).map(|k| values[quads(p)[k]][rows][i] >> 4 << k).sum::<u8>();
            bits(0) << 4 | bits(1)
        });
    }

    #[inline(always)]
    fn part(unit: &[u8], masks: Masks, p: usize) -> Part {
        let bits = vectors(unit, 4).map(|v| v.shl(4 * p as u32));
        let fifth = std::array::from_fn(|k| bits.map(|v| v.shr(k as u32).and(masks.fifth)));
        or(nibbles(unit, masks, p), fifth)
    }
}

impl Width for Six {
    const UNIT_BYTES: usize = (8 + 4) * 16;

    fn pack(values: &[[Vector; VECS]; QUADS], unit: &mut [u8]) {
        let (low, high) = unit.split_at_mut(Four::UNIT_BYTES);
        for (p, (low, high)) in low.chunks_exact_mut(4 * 16).zip(high.chunks_exact_mut(2 * 16)).enumerate() {
            Self::put_part(quads(p).map(|q| values[q]), low, high);
        }
    }

    #[inline(always)]
    fn part(unit: &[u8], masks: Masks, p: usize) -> Part {
        or(nibbles(unit, masks, p), pairs_of_bits(vectors(unit, 4 + p), masks))
    }
}

impl Six {
    /// Packs a part that stands alone.
    pub fn pack_part(part: [[Vector; VECS]; PART], packed: &mut [u8]) {
        let (low, high) = packed.split_at_mut(4 * 16);
        Self::put_part(part, low, high);
    }

    /// A part that stands alone.
    #[inline(always)]
    pub fn lone_part(packed: &[u8], masks: Masks) -> Part {
        or(nibbles(packed, masks, 0), pairs_of_bits(vectors(packed, 2), masks))
    }

    fn put_part(part: [[Vector; VECS]; PART], low: &mut [u8], high: &mut [u8]) {
        put_nibbles(part, low);
        put(high, |rows, i| (0..PART).map(|k| part[k][rows][i] >> 4 << ((4 + 2 * k) % 8)).sum());
    }
}

impl Width for Eight {
    const UNIT_BYTES: usize = 16 * 16;

    fn pack(values: &[[Vector; VECS]; QUADS], unit: &mut [u8]) {
        unit.copy_from_slice(values.as_flattened().as_flattened());
    }

    #[inline(always)]
    fn part(unit: &[u8], _masks: Masks, p: usize) -> Part {
        quads(p).map(|q| vectors(unit, q))
    }
}

impl Eight {
    /// A part that stands alone.
    #[inline(always)]
    pub fn lone_part(packed: &[u8]) -> Part {
        std::array::from_fn(|k| vectors(packed, k))
    }
}
