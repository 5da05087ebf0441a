//! Quantized matrix times quantized activations, for the formats that `pack` repacks.
//!
//! A kernel handles eight rows (one packed group). A token alone is multiplied straight from the packed bytes. For more of them
//! the group is unpacked once, into a [`Panel`], over which tiles of tokens run, their sums in registers. For each unit and row
//! both take the same exact integer dot product and scale it alike, as does the scalar twin in `scalar`: all three give the
//! same bits.
//!
//! Invariant: reads packed weights and quantized activations; allocates nothing.

use super::activations::Activations;
use super::dot::{HALF, Quad, Steps, TakeQuad, Unit, VECS, dot};
use super::formats::{Constants, Format, Head, Q4_0, Q4_1, Q4K, Q5_0, Q5_1, Q5K, Q6K, Q8_0, Worth};
use super::pack::ROWS;
use super::pool::Strip;
use super::scalar;
use super::simd::F32x4;
use super::widths::{Packed, Width};
use crate::error::Result;
use crate::quant::{GgmlType, dequantize_row, units};

/// Tokens in a tile: with two vectors of rows for each, their sums fill half of the sixteen registers of x86-64.
const TILE: usize = 4;

/// Groups that a token alone reads in turn, far apart: a processor fetches ahead no more than a few lines of each stream of
/// memory that it sees, too few for one stream to arrive as fast as the memory could give it.
const STREAMS: usize = 8;

/// Room for eight rows, unpacked.
pub struct Panel(Vec<PanelUnit>);

#[derive(Clone, Copy)]
struct PanelUnit {
    /// Integers, the zero point still in: `[half][quad][rows]`.
    quads: [[[Quad; VECS]; HALF]; 2],
    worth: Worth,
}

impl TakeQuad for PanelUnit {
    #[inline(always)]
    fn take_quad(&mut self, half: usize, q: usize, weights: [Quad; VECS]) {
        self.quads[half][q] = weights;
    }
}

/// A unit of a panel.
struct Unpacked<'a>(&'a [[[Quad; VECS]; HALF]; 2], Steps);

impl Unit for Unpacked<'_> {
    #[inline(always)]
    fn give_quads(&self, to: &mut impl TakeQuad) {
        let Self([first, second], steps) = self;
        for q in steps.to::<HALF>() {
            to.take_quad(0, q, first[q]);
        }
        for q in steps.to::<HALF>() {
            to.take_quad(1, q, second[q]);
        }
    }
}

/// Calls a function generic over `Format` for a type that has units.
macro_rules! for_format {
    ($ty:expr, $function:ident($($argument:expr),*)) => {
        match $ty {
            GgmlType::Q4_0 => $function::<Q4_0>($($argument),*),
            GgmlType::Q4_1 => $function::<Q4_1>($($argument),*),
            GgmlType::Q5_0 => $function::<Q5_0>($($argument),*),
            GgmlType::Q5_1 => $function::<Q5_1>($($argument),*),
            GgmlType::Q8_0 => $function::<Q8_0>($($argument),*),
            GgmlType::Q4K => $function::<Q4K>($($argument),*),
            GgmlType::Q5K => $function::<Q5K>($($argument),*),
            GgmlType::Q6K => $function::<Q6K>($($argument),*),
            _ => unreachable!("only formats with units are packed"),
        }
    };
}

impl Panel {
    /// For rows of at most `max_cols` values.
    pub fn new(max_cols: usize) -> Self {
        let unit = PanelUnit { quads: [[[Quad::ZERO; VECS]; HALF]; 2], worth: Worth::NOTHING };
        Self(vec![unit; max_cols.div_ceil(32)])
    }

    /// The values of one row of packed `weights`, `n_rows` rows; `ty` has units.
    pub fn row(&mut self, ty: GgmlType, weights: &[u8], n_rows: usize, row: usize, out: &mut [f32]) -> Result<()> {
        let row_bytes = weights.len() / n_rows;
        let Some(group) = weights.chunks_exact(row_bytes * ROWS).nth(row / ROWS) else {
            return dequantize_row(ty, &weights[row * row_bytes..][..row_bytes], out);
        };
        let units = &mut self.0[..out.len() / 32];
        for_format!(ty, unpack(group, units));
        for (unit, out) in units.iter().zip(out.as_chunks_mut::<32>().0) {
            let (scales, minimum) = unit.worth.of_row(row % ROWS);
            for (q, out) in out.as_chunks_mut::<4>().0.iter_mut().enumerate() {
                let integers = unit.quads[q / HALF][q % HALF][row % ROWS / 4].to_array()[row % 4];
                *out = integers.map(|i| f32::from(i - units::zero_point(ty) as i16) * scales[q / HALF] + minimum);
            }
        }
        Ok(())
    }
}

/// A product: out = W·x, or out += W·x with `add`, for some rows of W.
pub struct Product<'a> {
    /// Packed, `n_rows` rows as long as the activations' rows, from the start of a group.
    pub weights: &'a [u8],
    pub n_rows: usize,
    pub x: &'a Activations,
    /// `[token][n_rows]`
    pub out: Strip<'a, f32>,
    pub add: bool,
    pub panel: &'a mut Panel,
}

impl Product<'_> {
    /// Computes it; `ty` has units.
    pub fn compute(self, ty: GgmlType) {
        for_format!(ty, rows(self));
    }
}

// Not inlined: one function of all formats would be more than V8's register allocator does well.
#[inline(never)]
fn rows<F: Format>(Product { weights, n_rows, x, mut out, add, panel }: Product) {
    let constants = Constants::new();
    let row_bytes = weights.len() / n_rows;
    let (n_groups, group_bytes) = (n_rows / ROWS, row_bytes * ROWS);
    let group = |g: usize| &weights[g * group_bytes..][..group_bytes];
    let mut store = |g: usize, token: usize, acc: [F32x4; VECS]| {
        let out = &mut out.row(token)[g * ROWS..][..ROWS];
        for (out, acc) in out.as_chunks_mut().0.iter_mut().zip(acc) {
            if add { acc.add(F32x4::load(out)).store(out) } else { acc.store(out) }
        }
    };
    if x.len() == 1 {
        // As many streams as there are groups for, of the same length: the last one may lack a group.
        let apart = n_groups.div_ceil(STREAMS);
        for first in 0..apart {
            let groups = (first..n_groups).step_by(apart);
            let products = from_packed::<F, STREAMS>(groups.clone().map(group), x, 0, &constants);
            groups.zip(products).for_each(|(g, acc)| store(g, 0, acc));
        }
    } else {
        let panel = &mut panel.0[..row_bytes / F::TYPE.block_bytes() * F::UNITS];
        // A panel pays from the first full tile on.
        let n_tiled = x.len() / TILE * TILE;
        for g in 0..n_groups {
            if n_tiled > 0 {
                unpack::<F>(group(g), panel);
            }
            for first in (0..n_tiled).step_by(TILE) {
                for (t, acc) in tile::<F>(panel, x, first).into_iter().enumerate() {
                    store(g, first + t, acc);
                }
            }
            for token in n_tiled..x.len() {
                let [acc] = from_packed::<F, 1>([group(g)], x, token, &constants);
                store(g, token, acc);
            }
        }
    }
    let done = n_groups * ROWS;
    for (row, bytes) in (done..n_rows).zip(weights[done * row_bytes..].chunks_exact(row_bytes)) {
        for token in 0..x.len() {
            let value = scalar::dot(F::TYPE, bytes, x, token);
            let out = &mut out.row(token)[row];
            *out = if add { value + *out } else { value };
        }
    }
}

/// The products of at most `N` groups of eight rows with one token, block by block in turn.
#[inline(always)]
fn from_packed<'a, F: Format, const N: usize>(
    groups: impl IntoIterator<Item = &'a [u8]>,
    x: &Activations,
    token: usize,
    constants: &Constants,
) -> [[F32x4; VECS]; N] {
    let (mut streams, mut n_streams): ([&[u8]; N], _) = ([&[]; N], 0);
    for (stream, group) in streams.iter_mut().zip(groups) {
        *stream = group;
        n_streams += 1;
    }
    let mut acc = [[F32x4::ZERO; VECS]; N];
    for b in 0..streams[0].len() / F::BLOCK {
        for (acc, group) in acc.iter_mut().zip(streams).take(n_streams) {
            let block = &group[b * F::BLOCK..][..F::BLOCK];
            let head = Head::new::<F>(block, constants);
            for (j, unit) in block[F::HEAD..].chunks_exact(F::Width::UNIT_BYTES).enumerate() {
                let x = x.block(b * F::UNITS + j, token);
                let unit = Packed::<F::Width>::new(unit, constants.masks);
                let [dots] = dot(F::INTEGERS, &unit, [&x.operand]);
                head.worth::<F>(j).add::<F>(acc, dots, x);
            }
        }
    }
    acc
}

fn unpack<F: Format>(group: &[u8], panel: &mut [PanelUnit]) {
    let constants = &Constants::new();
    for (block, panel) in group.chunks_exact(F::BLOCK).zip(panel.chunks_exact_mut(F::UNITS)) {
        let head = Head::new::<F>(block, constants);
        let units = block[F::HEAD..].chunks_exact(F::Width::UNIT_BYTES);
        for (j, (unit, panel)) in units.zip(panel).enumerate() {
            let unit = Packed::<F::Width>::new(unit, constants.masks);
            unit.give_quads(panel);
            panel.worth = head.worth::<F>(j);
        }
    }
}

/// The products of eight rows with the tokens of a tile.
fn tile<F: Format>(panel: &[PanelUnit], x: &Activations, first: usize) -> [[F32x4; VECS]; TILE] {
    let mut acc = [[F32x4::ZERO; VECS]; TILE];
    let steps = Steps::new();
    for (column, unit) in panel.iter().enumerate() {
        let x = x.tile::<TILE>(column, first);
        let dots = dot(F::INTEGERS, &Unpacked(&unit.quads, steps), x.each_ref().map(|x| &x.operand));
        for ((acc, dots), x) in acc.iter_mut().zip(dots).zip(x) {
            unit.worth.add::<F>(acc, dots, x);
        }
    }
    acc
}

#[cfg(test)]
mod tests {
    use super::super::pack;
    use super::super::pack::tests::{TYPES, halves_mut, random, random_blocks};
    use super::super::pool::Pool;
    use super::*;

    /// Odd shapes too: rows that do not fill a group, tokens that do not fill a tile.
    #[cfg_attr(target_arch = "wasm32", wasm_bindgen_test::wasm_bindgen_test)]
    #[cfg_attr(not(target_arch = "wasm32"), test)]
    fn matmul_equals_scalar_dot_to_the_bit() {
        let mut random = random();
        for ty in TYPES {
            for (n_rows, n_blocks, n) in [(1, 1, 1), (8, 1, 1), (11, 3, 3), (16, 2, 16), (25, 5, 33)] {
                let (n_cols, row_bytes) = (n_blocks * ty.block_len(), n_blocks * ty.block_bytes());
                let raw = random_blocks(ty, n_rows * row_bytes, &mut random);
                let mut x: Vec<f32> = (0..n * n_cols).map(|_| random() as f32 / 8e6 - 1.0).collect();
                // Every third row has a wide block, where it is long enough for one.
                for row in x.chunks_exact_mut(n_cols).step_by(3) {
                    row[random() as usize % n_cols] = -50.0;
                }
                let mut activations = Activations::new(n, n_cols);
                activations.quantize(&x, n, &mut Pool::alone());

                let mut packed = raw.clone();
                pack::pack(ty, &mut packed, row_bytes);
                let product = |add| {
                    let mut out = vec![0.5; n * n_rows];
                    let panel = &mut Panel::new(n_cols);
                    let strip = Strip::whole(&mut out, n_rows);
                    Product { weights: &packed, n_rows, x: &activations, out: strip, add, panel }.compute(ty);
                    out
                };
                let (out, sum) = (product(false), product(true));

                for t in 0..n {
                    for r in 0..n_rows {
                        let twin = scalar::dot(ty, &raw[r * row_bytes..][..row_bytes], &activations, t);
                        let at = t * n_rows + r;
                        assert_eq!(out[at], twin, "{} row {r} of {n_rows}, token {t} of {n}", ty.name());
                        assert_eq!(sum[at], twin + 0.5, "{} added", ty.name());
                    }
                }
            }
        }
    }

    #[cfg_attr(target_arch = "wasm32", wasm_bindgen_test::wasm_bindgen_test)]
    #[cfg_attr(not(target_arch = "wasm32"), test)]
    fn a_packed_row_has_the_values_of_the_file() {
        let mut random = random();
        let n_rows = 11;
        for ty in TYPES {
            let n_cols = 2 * ty.block_len();
            let row_bytes = ty.row_bytes(n_cols);
            let raw = random_blocks(ty, n_rows * row_bytes, &mut random);
            let mut packed = raw.clone();
            pack::pack(ty, &mut packed, row_bytes);
            let (mut expected, mut found) = (vec![0.0; n_cols], vec![0.0; n_cols]);
            for (row, bytes) in raw.chunks_exact(row_bytes).enumerate() {
                dequantize_row(ty, bytes, &mut expected).unwrap();
                Panel::new(n_cols).row(ty, &packed, n_rows, row, &mut found).unwrap();
                assert_eq!(found, expected, "{} row {row}", ty.name());
            }
        }
    }

    /// The largest integers that there are do not overflow.
    #[cfg_attr(target_arch = "wasm32", wasm_bindgen_test::wasm_bindgen_test)]
    #[cfg_attr(not(target_arch = "wasm32"), test)]
    fn the_largest_products_fit() {
        const N_COLS: usize = 1024;
        for ty in TYPES {
            for byte in [0xff, 0x80, 0x7f] {
                let mut raw = vec![byte; ty.block_bytes()];
                for block in raw.chunks_exact_mut(ty.block_bytes()) {
                    halves_mut(ty, block).for_each(|half| *half = [0, 0x3c]);
                }
                let row = raw[..ty.block_bytes()].repeat(N_COLS / ty.block_len());
                let mut packed = row.repeat(8);
                pack::pack(ty, &mut packed, row.len());
                let mut weights = vec![0.0; N_COLS];
                dequantize_row(ty, &row, &mut weights).unwrap();
                // All values alike; and one block of them by itself, which makes it wide.
                for (n, n_values) in [(1, N_COLS), (4, N_COLS), (1, 32), (4, 32)] {
                    let mut x = vec![0.0; n * N_COLS];
                    x.chunks_exact_mut(N_COLS).for_each(|row| row[..n_values].fill(-1.0));
                    let mut activations = Activations::new(n, N_COLS);
                    activations.quantize(&x, n, &mut Pool::alone());
                    let (mut out, panel) = (vec![0.0; n * 8], &mut Panel::new(N_COLS));
                    let strip = Strip::whole(&mut out, 8);
                    Product { weights: &packed, n_rows: 8, x: &activations, out: strip, add: false, panel }.compute(ty);
                    let weights = &weights[..n_values];
                    let exact = -weights.iter().map(|&w| f64::from(w)).sum::<f64>();
                    let size: f64 = weights.iter().map(|&w| f64::from(w.abs())).sum();
                    for &got in &out {
                        assert!((f64::from(got) - exact).abs() <= 1e-5 * size, "{}: {got}, {exact}", ty.name());
                    }
                }
            }
        }
    }

    /// The quantized product stays near the float one.
    #[cfg_attr(target_arch = "wasm32", wasm_bindgen_test::wasm_bindgen_test)]
    #[cfg_attr(not(target_arch = "wasm32"), test)]
    fn scalar_dot_is_near_the_float_product() {
        let mut random = random();
        let n_cols = 512;
        let x: Vec<f32> = (0..n_cols).map(|i| (i as f32 * 0.37).sin()).collect();
        let mut activations = Activations::new(1, n_cols);
        activations.quantize(&x, 1, &mut Pool::alone());
        for ty in TYPES {
            let row = random_blocks(ty, ty.row_bytes(n_cols), &mut random);
            let mut weights = vec![0.0; n_cols];
            dequantize_row(ty, &row, &mut weights).unwrap();
            let exact: f64 = weights.iter().zip(&x).map(|(w, x)| f64::from(*w) * f64::from(*x)).sum();
            let size: f64 = weights.iter().zip(&x).map(|(w, x)| f64::from((w * x).abs())).sum();
            let got = f64::from(scalar::dot(ty, &row, &activations, 0));
            assert!((got - exact).abs() < 2e-3 * size, "{}: {got}, exactly {exact}", ty.name());
        }
    }
}
