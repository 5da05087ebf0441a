//! How the stored integers of eight rows are packed, by their width: each lane belongs to one row, so that products add up without
//! ever crossing lanes.
//!
//! A unit is 32 values of each row, 16 pairs. A *word* is 16 bits for every row and side of the pair: 32 bytes, `[row][side]`. All
//! widths take exactly as many bytes as in the file:
//!
//! ```text
//! 4 bits   4 words   pairs 4w .. 4w + 3, lowest bits first
//! 5 bits   5 words   bits 1 to 15: pairs 3w .. 3w + 2;   bit 0: bit 4 - w of pair 15
//! 6 bits   6 words   two halves of 3 words and 8 pairs: bits 0 to 5 and 10 to 15: pairs 2w, 2w + 1;   bits 6 to 9: of words 0 and 1
//!                    the low bits of pairs 6 and 7; of word 2 the high bits of pair 6, then those of pair 7
//! 8 bits   16 pairs  bytes, `[row][side]`
//! ```
//!
//! Invariant: places bits and multiplies integers; knows no scales.

use super::pack::ROWS;
use super::simd::{I16x8, I32x4};

/// Vectors that eight rows take: four rows each.
pub const VECS: usize = 2;

/// Pairs in a unit.
pub const PAIRS: usize = 16;

/// Values `[pair][row][side]` of a unit of eight rows.
pub type Pairs<T> = [[T; 2 * ROWS]; PAIRS];

/// One vector of a pair for each four rows.
pub type Wide = [I16x8; VECS];

/// A width of stored integers.
pub trait Width {
    /// Bytes of a unit of eight rows.
    const UNIT_BYTES: usize;
    /// Whether the halves of a unit have scales of their own.
    const HALVES: bool = false;

    /// The masks, made once for a matrix (see `I16x8::constant`).
    type Masks: Copy;
    fn masks() -> Self::Masks;

    /// Packs a unit; the reverse of `widen`.
    fn pack(values: &Pairs<u8>, unit: &mut [u8]);

    /// The pairs of a unit as 16-bit integers.
    fn widen(unit: &[u8], masks: Self::Masks) -> [Wide; PAIRS];

    /// Dot products of each row with the same 32 activations: of the two halves if `HALVES`, else one and nothing.
    fn dot(unit: &[u8], masks: Self::Masks, steps: Steps, x: &[i16; 32]) -> [[I32x4; VECS]; 2];
}

pub struct Four;
pub struct Five;
pub struct Six;
pub struct Eight;

/// For loops that must stay loops. Unrolled, a unit's products are put in order row by row; all its activations are kept for that,
/// and V8 has no more than sixteen registers: spilling them takes a seventh of the time.
#[derive(Clone, Copy)]
pub struct Steps(usize);

impl Steps {
    const MAX: usize = 8;

    pub fn new() -> Self {
        Self(std::hint::black_box(Self::MAX))
    }

    /// 0 to `N` - 1, unknown to the compiler.
    #[inline(always)]
    fn to<const N: usize>(self) -> std::ops::Range<usize> {
        const { assert!(N <= Self::MAX) };
        0..self.0.min(N)
    }
}

/// A sum of products. Starting from nothing spares the addition to zero.
#[derive(Clone, Copy)]
pub struct Sum(Option<I32x4>);

impl Sum {
    pub const NONE: [Self; VECS] = [Self(None); VECS];
    const ZERO: [Self; VECS] = [Self(Some(I32x4::ZERO)); VECS];

    #[inline(always)]
    pub fn add(sums: &mut [Self; VECS], w: Wide, x: I16x8) {
        for (sum, w) in sums.iter_mut().zip(w) {
            let products = w.dot_pairs(x);
            *sum = Self(Some(sum.0.map_or(products, |sum| sum.add(products))));
        }
    }

    /// The sums of values that stood `N` bits too high: exact, since each product is a multiple of 2^N.
    #[inline(always)]
    pub fn down<const N: u32>(sums: [Self; VECS]) -> [I32x4; VECS] {
        sums.map(|sum| sum.0.map_or(I32x4::ZERO, I32x4::shr::<N>))
    }
}

#[inline(always)]
fn total(a: [I32x4; VECS], b: [I32x4; VECS]) -> [I32x4; VECS] {
    [a[0].add(b[0]), a[1].add(b[1])]
}

#[inline(always)]
fn word(unit: &[u8], w: usize) -> Wide {
    let [a, b] = unit.as_chunks::<32>().0[w].as_chunks::<16>().0 else { unreachable!("32 bytes are twice 16") };
    [I16x8::from_bytes(a), I16x8::from_bytes(b)]
}

/// A pair of activations for every row.
#[inline(always)]
pub fn activations(x: &[i16; 32], pair: usize) -> I16x8 {
    I16x8::splat_pair(&x.as_chunks::<2>().0[pair])
}

/// Writes words, each lane made by `lane(word, lane)`.
fn put(unit: &mut [u8], lane: impl Fn(usize, usize) -> u16) {
    for (w, word) in unit.as_chunks_mut::<32>().0.iter_mut().enumerate() {
        for (i, bytes) in word.as_chunks_mut::<2>().0.iter_mut().enumerate() {
            *bytes = lane(w, i).to_le_bytes();
        }
    }
}

impl Width for Four {
    const UNIT_BYTES: usize = 4 * 32;

    /// Of bits 0 to 3, 4 to 7 and 8 to 11.
    type Masks = [I16x8; 3];
    fn masks() -> Self::Masks {
        [0x000f, 0x00f0, 0x0f00].map(I16x8::constant)
    }

    fn pack(values: &Pairs<u8>, unit: &mut [u8]) {
        put(unit, |w, i| (0..4).map(|p| u16::from(values[4 * w + p][i]) << (4 * p)).sum());
    }

    #[inline(always)]
    fn widen(unit: &[u8], [low, ..]: Self::Masks) -> [Wide; PAIRS] {
        std::array::from_fn(|pair| {
            word(unit, pair / 4).map(|w| match pair % 4 {
                0 => w.and(low),
                1 => w.shr::<4>().and(low),
                2 => w.shr::<8>().and(low),
                _ => w.shr::<12>(),
            })
        })
    }

    /// Bits 4 to 11 are multiplied where they stand, and the sums shifted: at most 8 · 15 · 2^8 · 32767 < 2^31.
    #[inline(always)]
    fn dot(unit: &[u8], masks: Self::Masks, steps: Steps, x: &[i16; 32]) -> [[I32x4; VECS]; 2] {
        let [mut at_0, mut at_4, mut at_8] = [Sum::ZERO; 3];
        for w in steps.to::<4>() {
            let v = word(unit, w);
            Sum::add(&mut at_0, v.map(|v| v.and(masks[0])), activations(x, 4 * w));
            Sum::add(&mut at_4, v.map(|v| v.and(masks[1])), activations(x, 4 * w + 1));
            Sum::add(&mut at_8, v.map(|v| v.and(masks[2])), activations(x, 4 * w + 2));
            Sum::add(&mut at_0, v.map(|v| v.shr::<12>()), activations(x, 4 * w + 3));
        }
        let sum = total(Sum::down::<0>(at_0), total(Sum::down::<4>(at_4), Sum::down::<8>(at_8)));
        [sum, [I32x4::ZERO; VECS]]
    }
}

impl Width for Five {
    const UNIT_BYTES: usize = 5 * 32;

    /// Of bit 0, bits 1 to 5 and bits 6 to 10.
    type Masks = [I16x8; 3];
    fn masks() -> Self::Masks {
        [0x0001, 0x003e, 0x07c0].map(I16x8::constant)
    }

    fn pack(values: &Pairs<u8>, unit: &mut [u8]) {
        put(unit, |w, i| {
            let three: u16 = (0..3).map(|p| u16::from(values[3 * w + p][i]) << (5 * p + 1)).sum();
            three | u16::from(values[15][i] >> (4 - w) & 1)
        });
    }

    #[inline(always)]
    fn widen(unit: &[u8], masks: Self::Masks) -> [Wide; PAIRS] {
        let mut pairs = [[I16x8::ZERO; VECS]; PAIRS];
        for w in 0..5 {
            let v = word(unit, w);
            pairs[3 * w] = v.map(|v| v.and(masks[1]).shr::<1>());
            pairs[3 * w + 1] = v.map(|v| v.and(masks[2]).shr::<6>());
            pairs[3 * w + 2] = v.map(|v| v.shr::<11>());
            pairs[15] = append_bit(pairs[15], v, masks);
        }
        pairs
    }

    /// Bits 1 to 10 are multiplied where they stand: at most 10 · 31 · 2^6 · 32767 < 2^31.
    #[inline(always)]
    fn dot(unit: &[u8], masks: Self::Masks, steps: Steps, x: &[i16; 32]) -> [[I32x4; VECS]; 2] {
        let [mut at_0, mut at_1, mut at_6] = [Sum::ZERO; 3];
        let mut last = [I16x8::ZERO; VECS];
        for w in steps.to::<5>() {
            let v = word(unit, w);
            Sum::add(&mut at_1, v.map(|v| v.and(masks[1])), activations(x, 3 * w));
            Sum::add(&mut at_6, v.map(|v| v.and(masks[2])), activations(x, 3 * w + 1));
            Sum::add(&mut at_0, v.map(|v| v.shr::<11>()), activations(x, 3 * w + 2));
            last = append_bit(last, v, masks);
        }
        Sum::add(&mut at_0, last, activations(x, 15));
        let sum = total(Sum::down::<0>(at_0), total(Sum::down::<1>(at_1), Sum::down::<6>(at_6)));
        [sum, [I32x4::ZERO; VECS]]
    }
}

/// `bits`, and the lowest bit of each lane of `word` behind them: pair 15 after five words.
#[inline(always)]
fn append_bit(bits: Wide, word: Wide, [low, ..]: [I16x8; 3]) -> Wide {
    [0, 1].map(|i| bits[i].shl::<1>().or(word[i].and(low)))
}

impl Width for Six {
    const UNIT_BYTES: usize = 6 * 32;
    const HALVES: bool = true;

    /// Of bits 0 to 5, bits 6 to 9, and bits 10 and 11.
    type Masks = [I16x8; 3];
    fn masks() -> Self::Masks {
        [0x003f, 0x03c0, 0x0c00].map(I16x8::constant)
    }

    fn pack(values: &Pairs<u8>, unit: &mut [u8]) {
        for (values, words) in values.as_chunks().0.iter().zip(unit.as_chunks_mut().0) {
            Self::pack_half(values, words);
        }
    }

    #[inline(always)]
    fn widen(unit: &[u8], masks: Self::Masks) -> [Wide; PAIRS] {
        let [a, b] = unit.as_chunks().0 else { unreachable!("a unit has two halves") };
        let halves = [Self::widen_half(a, masks), Self::widen_half(b, masks)];
        std::array::from_fn(|pair| halves[pair / 8][pair % 8])
    }

    /// Pairs 6 and 7 of a half are multiplied 6 bits too high: at most 4 · 63 · 2^6 · 32767 < 2^31.
    #[inline(always)]
    fn dot(unit: &[u8], masks: Self::Masks, steps: Steps, x: &[i16; 32]) -> [[I32x4; VECS]; 2] {
        [0, 1].map(|half| {
            let words = &unit[half * 96..][..96];
            let [mut at_0, mut at_6] = [Sum::ZERO; 2];
            for w in steps.to::<3>() {
                let v = word(words, w);
                Sum::add(&mut at_0, v.map(|v| v.and(masks[0])), activations(x, half * 8 + 2 * w));
                Sum::add(&mut at_0, v.map(|v| v.shr::<10>()), activations(x, half * 8 + 2 * w + 1));
            }
            for last in [0, 1] {
                Sum::add(&mut at_6, last_of_six(words, last, masks), activations(x, half * 8 + 6 + last));
            }
            total(Sum::down::<0>(at_0), Sum::down::<6>(at_6))
        })
    }
}

impl Six {
    pub fn pack_half(values: &[[u8; 2 * ROWS]; 8], words: &mut [u8; 96]) {
        put(words, |w, i| {
            let value = |pair: usize| u16::from(values[pair][i]);
            let middle = if w == 2 { value(6) >> 4 | value(7) >> 4 << 2 } else { value(6 + w) & 15 };
            value(w * 2) | middle << 6 | value(w * 2 + 1) << 10
        });
    }

    #[inline(always)]
    pub fn widen_half(words: &[u8; 96], masks: [I16x8; 3]) -> [Wide; 8] {
        std::array::from_fn(|pair| match pair {
            6.. => last_of_six(words, pair - 6, masks).map(I16x8::shr::<6>),
            _ => word(words, pair / 2).map(|w| if pair % 2 == 0 { w.and(masks[0]) } else { w.shr::<10>() }),
        })
    }
}

/// Pair 6 or 7 (`last` 0 or 1) of a half, 6 bits too high.
#[inline(always)]
fn last_of_six(words: &[u8], last: usize, masks: [I16x8; 3]) -> Wide {
    let [low, high] = [word(words, last), word(words, 2)];
    [0, 1].map(|i| {
        let high = if last == 0 { high[i].shl::<4>() } else { high[i].shl::<2>() };
        low[i].and(masks[1]).or(high.and(masks[2]))
    })
}

impl Width for Eight {
    const UNIT_BYTES: usize = PAIRS * 2 * ROWS;

    type Masks = ();
    fn masks() -> Self::Masks {}

    fn pack(values: &Pairs<u8>, unit: &mut [u8]) {
        unit.copy_from_slice(values.as_flattened());
    }

    #[inline(always)]
    fn widen(unit: &[u8], _: Self::Masks) -> [Wide; PAIRS] {
        std::array::from_fn(|pair| Self::widen_pair(unit, pair))
    }

    #[inline(always)]
    fn dot(unit: &[u8], _: Self::Masks, steps: Steps, x: &[i16; 32]) -> [[I32x4; VECS]; 2] {
        let mut sums = Sum::ZERO;
        for step in steps.to::<4>() {
            for pair in 4 * step..4 * step + 4 {
                Sum::add(&mut sums, Self::widen_pair(unit, pair), activations(x, pair));
            }
        }
        [Sum::down::<0>(sums), [I32x4::ZERO; VECS]]
    }
}

impl Eight {
    #[inline(always)]
    pub fn widen_pair(unit: &[u8], pair: usize) -> Wide {
        let bytes = unit.as_chunks::<8>().0;
        [I16x8::widen_i8(&bytes[2 * pair]), I16x8::widen_i8(&bytes[2 * pair + 1])]
    }
}
