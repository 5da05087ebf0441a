//! embed, rms_norm and add_norm: what fills the rows of X.
//!
//! Invariant: rows past the pass's tokens must stay as they are.

use super::random::{Random, Tensors};
use super::{Bench, Pass, ROWS, TOKENS, UNITS, assert_near, n_cols, padded, twins};
use crate::backend::gpu::BATCH;
use crate::backend::gpu::layout::FORMATS;
use crate::backend::gpu::matrix::Order;
use crate::backend::gpu::record::Step;
use crate::backend::gpu::shader::{Kernel, Norm, stride};
use crate::model::TensorRef;

#[cfg_attr(target_arch = "wasm32", wasm_bindgen_test::wasm_bindgen_test)]
#[cfg_attr(not(target_arch = "wasm32"), pollster::test)]
async fn embed() {
    let mut bench = Bench::open().await;
    let mut random = Random(6);
    for (f, (ty, _)) in FORMATS.into_iter().enumerate() {
        for (i, rows_in_part) in [None, None, Some(24)].into_iter().enumerate() {
            let n_rows = if rows_in_part.is_some() { 65 } else { ROWS[(f + 3 * i) % ROWS.len()] };
            let table = Tensors::new(&mut random, ty, &[n_rows], n_cols(ty, UNITS[(f + i) % UNITS.len()]), 1.0);
            let scale = [1.0, 25.298_222][f % 2];
            check_embed(&mut bench, &mut random, &table, rows_in_part, TOKENS[(f + i) % TOKENS.len()], scale).await;
        }
        // Scales below the smallest normal half (6e-5), as small weights have them.
        let size = if ty.block_len() == 256 { 2e-2 } else { 5e-5 };
        let table = Tensors::new(&mut random, ty, &[7], n_cols(ty, 3), size);
        check_embed(&mut bench, &mut random, &table, None, 7, 1.0).await;
    }
}

/// Rows of `table` for `n` random ids, times `scale`.
async fn check_embed(
    bench: &mut Bench,
    random: &mut Random,
    table: &Tensors,
    rows_in_part: Option<usize>,
    n: usize,
    scale: f32,
) {
    let TensorRef { ty, n_rows, n_cols, .. } = table.refs[0];
    let matrix = bench.upload(table, Order::Stacked, rows_in_part);
    let mut pass = Pass::new(n);
    pass.ids.fill_with(|| random.below(n_rows) as u32);
    pass.ids[n - 1] = n_rows as u32 - 1;
    let before = random.floats(BATCH * stride(n_cols), 1.0);
    let x = bench.buffer(&before);
    let steps = matrix.parts.iter().map(|part| Step {
        kernel: Kernel::Embed { matrix: part.matrix, scale: scale.into() },
        buffers: vec![&part.quants, &part.extras, &x],
    });
    bench.run(&pass, steps.collect()).await;
    let mut expected = padded(&twins::embed(&table.rows(Order::Stacked), &pass.ids, scale));
    expected.extend(&before[expected.len()..]);
    let what = format!("{} {n_rows}x{n_cols} in parts of {rows_in_part:?}, {n} tokens", ty.name());
    assert_near(&bench.read(&x).await, &expected, &before, &what);
}

#[cfg_attr(target_arch = "wasm32", wasm_bindgen_test::wasm_bindgen_test)]
#[cfg_attr(not(target_arch = "wasm32"), pollster::test)]
async fn rms_norm() {
    let mut bench = Bench::open().await;
    let mut random = Random(7);
    for (width, size, eps, n) in
        [(1, 1.0, 1e-5, 1), (50, 1e-3, 1e-5, 2), (64, 1e-4, 1e-6, 33), (576, 30.0, 1e-5, 127), (4160, 1.0, 1e-6, 128)]
    {
        let x: Vec<Vec<f32>> = (0..n).map(|_| random.floats(width, size)).collect();
        let weight = random.floats(width, 2.0);
        let before = random.floats(BATCH * stride(width), 1.0);
        let normed = bench.buffer(&before);
        let buffers = [bench.buffer(&padded(&x)), bench.buffer(&padded(std::slice::from_ref(&weight)))];
        let kernel = Kernel::RmsNorm(Norm::new(width, eps));
        bench.run(&Pass::new(n), vec![Step { kernel, buffers: vec![&buffers[0], &buffers[1], &normed] }]).await;
        let rows: Vec<Vec<f32>> =
            x.iter().map(|x| twins::rms_norm(x, &weight, eps).into_iter().map(|x| x as f32).collect()).collect();
        let mut expected = padded(&rows);
        expected.extend(&before[expected.len()..]);
        assert_near(&bench.read(&normed).await, &expected, &before, &format!("width {width}, {n} tokens"));
    }
}

/// Of all tokens, and of the last alone.
#[cfg_attr(target_arch = "wasm32", wasm_bindgen_test::wasm_bindgen_test)]
#[cfg_attr(not(target_arch = "wasm32"), pollster::test)]
async fn add_norm() {
    let mut bench = Bench::open().await;
    let mut random = Random(8);
    for (width, eps, n, last) in
        [(1, 1e-5, 1, true), (50, 1e-6, 33, true), (64, 1e-5, 2, false), (640, 1e-6, 127, false), (4160, 1e-6, 5, true)]
    {
        let delta: Vec<Vec<f32>> = (0..n).map(|_| random.floats(width, 0.5)).collect();
        let weight = random.floats(width, 2.0);
        let before = random.floats(BATCH * stride(width), 1.0);
        let x = bench.buffer(&before);
        let buffers = [bench.buffer(&padded(&delta)), bench.buffer(&padded(std::slice::from_ref(&weight)))];
        let kernel = Kernel::AddNorm { norm: Norm::new(width, eps), last };
        bench.run(&Pass::new(n), vec![Step { kernel, buffers: vec![&buffers[0], &buffers[1], &x] }]).await;
        let mut expected = before.clone();
        for token in if last { n - 1..n } else { 0..n } {
            twins::add_norm(&delta[token], &weight, eps, &mut expected[token * stride(width)..]);
        }
        assert_near(&bench.read(&x).await, &expected, &before, &format!("width {width}, {n} tokens, last {last}"));
    }
}
