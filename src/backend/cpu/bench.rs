//! Measures the kernels in the browser, on one thread, against a plain read of the same bytes: `cargo xtask bench cpu kernels`.
//!
//! Samples are taken in turn and the fastest of each counts: other work on the machine can only slow one down.
//!
//! Invariant: an ignored test, so that nothing else waits for it; measures, and asserts only that something was measured.

use super::activations::Activations;
use super::matmul::{Panel, Product};
use super::pack;
use super::pack::tests::{TYPES, halves_mut, random, random_blocks};
use super::pool::{Pool, Strip};
use crate::clock::now_ms;
use crate::quant::GgmlType;
use std::hint::black_box;
use wasm_bindgen_test::{console_log, wasm_bindgen_test};

/// Values in a row: SmolLM2's widest, and a whole number of blocks of every format.
const N_COLS: usize = 1536;

/// Rows of a matrix that stays in a core's own cache.
const CACHED_ROWS: usize = 576;

/// Bytes of a matrix that no cache holds.
const STREAMED_BYTES: usize = 60_000_000;

/// Tokens of a prefill pass.
const TOKENS: usize = 32;

const SAMPLES: usize = 7;

/// A sample repeats its work until it has taken this long; browsers round their clocks to 0.1 ms.
const SAMPLE_MS: f64 = 8.0;

/// A kernel is used for so long before it is measured: a browser compiles well only what has run for a while, and beside it.
const WARM_UP_MS: f64 = 1000.0;

#[wasm_bindgen_test]
#[ignore = "measures"]
fn kernels() {
    console_log!("One thread; GB/s of weights, G/s of multiply-adds; `read` is a plain read of the same bytes.\n");
    console_log!("| format | weights | read GB/s | 1 token GB/s | of read | 1 token G/s | 32 tokens G/s |");
    console_log!("|---|---|---|---|---|---|---|");
    for ty in TYPES {
        let row_bytes = ty.row_bytes(N_COLS);
        for n_rows in [CACHED_ROWS, STREAMED_BYTES / row_bytes / pack::ROWS * pack::ROWS] {
            console_log!("{}", Matrix::random(ty, n_rows).measure());
        }
    }
}

struct Matrix {
    ty: GgmlType,
    n_rows: usize,
    packed: Vec<u8>,
}

impl Matrix {
    fn random(ty: GgmlType, n_rows: usize) -> Self {
        let mut packed = random_blocks(ty, n_rows * ty.row_bytes(N_COLS), &mut random());
        // Scales of the size that a model's have: a processor takes a hundred cycles for a subnormal one.
        for block in packed.chunks_exact_mut(ty.block_bytes()) {
            halves_mut(ty, block).for_each(|half| half[1] = half[1] & 0x83 | 0x24);
        }
        pack::pack(ty, &mut packed, ty.row_bytes(N_COLS));
        Self { ty, n_rows, packed }
    }

    /// A row of the table. The activations have no wide blocks, which would cost twice as much each.
    fn measure(&self) -> String {
        let x: Vec<f32> = (0..TOKENS * N_COLS).map(|i| (i as f32 * 0.37).sin()).collect();
        let [mut one, mut many] = [1, TOKENS].map(|n| {
            let mut activations = Activations::new(n, N_COLS);
            activations.quantize(&x[..n * N_COLS], n, &mut Pool::alone());
            (activations, vec![0.0; n * self.n_rows])
        });
        let panel = &mut Panel::new(N_COLS);
        let (mut read, mut one_ms, mut many_ms) = (f64::MAX, f64::MAX, f64::MAX);
        sample_ms(WARM_UP_MS, || self.multiply(&mut one, panel));
        sample_ms(WARM_UP_MS, || self.multiply(&mut many, panel));
        for _ in 0..SAMPLES {
            // Whichever is faster, and that is not the same everywhere.
            read = read.min(sample_ms(SAMPLE_MS, || read_all::<1>(&self.packed)));
            read = read.min(sample_ms(SAMPLE_MS, || read_all::<8>(&self.packed)));
            one_ms = one_ms.min(sample_ms(SAMPLE_MS, || self.multiply(&mut one, panel)));
            many_ms = many_ms.min(sample_ms(SAMPLE_MS, || self.multiply(&mut many, panel)));
        }
        assert!(read > 0.0 && one_ms > 0.0 && many_ms > 0.0, "the clock stands still");
        let (bytes, products) = (self.packed.len() as f64, (self.n_rows * N_COLS) as f64);
        let giga = |count: f64, ms: f64| count / ms / 1e6;
        format!(
            "| {} | {:.1} MB | {:.1} | {:.1} | {:.2} | {:.1} | {:.1} |",
            self.ty.name(),
            bytes / 1e6,
            giga(bytes, read),
            giga(bytes, one_ms),
            read / one_ms,
            giga(products, one_ms),
            giga(products * TOKENS as f64, many_ms)
        )
    }

    fn multiply(&self, (x, out): &mut (Activations, Vec<f32>), panel: &mut Panel) {
        let (weights, n_rows) = (black_box(&self.packed[..]), self.n_rows);
        Product { weights, n_rows, x, out: Strip::whole(out, n_rows), add: false, panel }.compute(self.ty);
        black_box(out);
    }
}

/// Adds up all bytes, as words, with `STREAMS` places of memory in turn.
fn read_all<const STREAMS: usize>(bytes: &[u8]) {
    let lines = black_box(bytes).as_chunks::<64>().0;
    let apart = lines.len() / STREAMS;
    let mut sums = [0u64; 8];
    for i in 0..apart {
        for stream in 0..STREAMS {
            for (sum, word) in sums.iter_mut().zip(lines[stream * apart + i].as_chunks().0) {
                *sum = sum.wrapping_add(u64::from_le_bytes(*word));
            }
        }
    }
    black_box(sums);
}

/// How long one call of `work` takes, on average over at least `least_ms`.
fn sample_ms(least_ms: f64, mut work: impl FnMut()) -> f64 {
    let start = now_ms();
    for n in 1.. {
        work();
        let passed = now_ms() - start;
        if passed >= least_ms {
            return passed / f64::from(n);
        }
    }
    unreachable!("a sample ends")
}
