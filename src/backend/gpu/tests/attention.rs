//! attention and merge_splits.
//!
//! Invariant: what no query may see is NaN here.

use super::random::Random;
use super::{Bench, Pass, assert_near, twins};
use crate::backend::gpu::MAX_SPLITS;
use crate::backend::gpu::record::Step;
use crate::backend::gpu::shader::{Heads, Kernel, QUERIES, stride};
use std::ops::Range;

const LENGTHS: [usize; 6] = [1, 63, 64, 65, 300, 2000];

/// Each width of a head, with one to eight query heads for each of the cache's.
const HEADS: [Heads; 7] = {
    const fn heads(head_dim: usize, group: usize, n_kv_heads: usize) -> Heads {
        Heads { n_heads: group * n_kv_heads, n_kv_heads, head_dim }
    }
    [
        heads(4, 3, 3),
        heads(8, 8, 1),
        heads(48, 1, 3),
        heads(64, 3, 2),
        heads(80, 1, 2),
        heads(128, 8, 1),
        heads(256, 3, 1),
    ]
};

/// A cache and the queries over it.
struct Attention {
    heads: Heads,
    window: Option<usize>,
    /// `[token][stride]`
    q: Vec<f32>,
    /// `[position][n_kv_heads * head_dim]`
    keys: Vec<f32>,
    values: Vec<f32>,
    pass: Pass,
}

impl Attention {
    /// `n` tokens at the end of `length` positions.
    fn new(random: &mut Random, heads: Heads, length: usize, n: usize, n_splits: usize) -> Self {
        let kv_width = heads.n_kv_heads * heads.head_dim;
        // Spread the scores by 4 in some, hardly in others; more would show how f32 rounds the scores themselves.
        let size = [12.0, 1.0][length % 2];
        let mut cache = || {
            let mut cache = random.floats(length * kv_width, 1.0);
            cache.resize((length + 70) * kv_width, f32::NAN);
            cache
        };
        let (keys, values) = (cache(), cache());
        let q = random.floats(n * stride(heads.n_heads * heads.head_dim), size);
        Self { heads, window: None, q, keys, values, pass: Pass { first: length - n, n_splits, ..Pass::new(n) } }
    }

    /// Hides what lies before the window of the first query.
    fn with_window(mut self, window: usize, queries: usize) -> Self {
        self.window = Some(window);
        let first_query = if queries == 1 { self.pass.first + self.pass.ids.len() - 1 } else { self.pass.first };
        let hidden = (first_query + 1).saturating_sub(window) * self.heads.n_kv_heads * self.heads.head_dim;
        self.keys[..hidden].fill(f32::NAN);
        self.values[..hidden].fill(f32::NAN);
        self
    }

    /// Computes it with a single query or many, and its twin.
    async fn check(&self, bench: &mut Bench, queries: usize) {
        let Self { heads, window, q, keys, values, pass } = self;
        let scale = 1.0 / (heads.head_dim as f32).sqrt();
        let n = pass.ids.len();
        let width = stride(heads.n_heads * heads.head_dim);
        let before = vec![-7.0; n * width];
        let attn = bench.buffer(&before);
        let splits = bench.buffer(&vec![f32::NAN; heads.n_heads * MAX_SPLITS * (heads.head_dim + 4)]);
        let [q_buffer, keys_buffer, values_buffer] = [q, keys, values].map(|values| bench.buffer(values));
        let kernel = Kernel::Attention { heads: *heads, queries, scale: scale.into(), window: *window };
        let mut steps = vec![Step { kernel, buffers: vec![&q_buffer, &keys_buffer, &values_buffer, &attn, &splits] }];
        if queries == 1 {
            steps.push(Step { kernel: Kernel::MergeSplits(*heads), buffers: vec![&splits, &attn] });
        }
        bench.run(pass, steps).await;

        let mut expected = before.clone();
        let kv_width = heads.n_kv_heads * heads.head_dim;
        for token in if queries == 1 { n - 1..n } else { 0..n } {
            for head in 0..heads.n_heads {
                let at = token * width + head * heads.head_dim;
                let column = head / (heads.n_heads / heads.n_kv_heads) * heads.head_dim;
                let end = pass.first + token + 1;
                let range = window.map_or(0, |window| end.saturating_sub(window))..end;
                let seen = |cache| seen(cache, range.clone(), kv_width, column, heads.head_dim);
                let found = twins::attention(&q[at..][..heads.head_dim], &seen(keys), &seen(values), scale);
                twins::store(&found, &mut expected[at..]);
            }
        }
        let what = format!(
            "{heads:?}, {queries} queries, {n} tokens after {}, {} parts, {window:?}",
            pass.first, pass.n_splits
        );
        assert_near(&bench.read(&attn).await, &expected, &before, &what);
    }
}

/// `head_dim` values from `column` on, of each of these positions.
fn seen(cache: &[f32], positions: Range<usize>, kv_width: usize, column: usize, head_dim: usize) -> Vec<&[f32]> {
    let positions = cache.chunks_exact(kv_width).take(positions.end).skip(positions.start);
    positions.map(|position| &position[column..][..head_dim]).collect()
}

/// The last token of a pass, the cache in one part and in several, some of them empty.
#[cfg_attr(target_arch = "wasm32", wasm_bindgen_test::wasm_bindgen_test)]
#[cfg_attr(not(target_arch = "wasm32"), pollster::test)]
async fn attention_of_one_query() {
    let mut bench = Bench::open().await;
    let mut random = Random(11);
    for heads in HEADS {
        for (i, length) in LENGTHS.into_iter().enumerate() {
            for n_splits in [1, 2 + i, MAX_SPLITS] {
                let n = [1, 2, 33][i % 3].min(length);
                Attention::new(&mut random, heads, length, n, n_splits).check(&mut bench, 1).await;
            }
        }
    }
    for n_splits in 1..=MAX_SPLITS {
        Attention::new(&mut random, HEADS[3], 2000, 1, n_splits).check(&mut bench, 1).await;
    }
}

/// Many tokens at the end of a cache of each length.
#[cfg_attr(target_arch = "wasm32", wasm_bindgen_test::wasm_bindgen_test)]
#[cfg_attr(not(target_arch = "wasm32"), pollster::test)]
async fn attention_of_many_queries() {
    let mut bench = Bench::open().await;
    let mut random = Random(12);
    for (h, heads) in HEADS.into_iter().enumerate() {
        for (i, length) in LENGTHS.into_iter().enumerate() {
            let n = [2, 7, 8, 9, 31, 64, 127][(h + i) % 7].min(length);
            Attention::new(&mut random, heads, length, n, 1).check(&mut bench, QUERIES).await;
        }
    }
    // A long cache is one part all the same.
    Attention::new(&mut random, HEADS[0], 300, 128, 2).check(&mut bench, QUERIES).await;
}

/// Windows that fill no tile, longer than the cache, of one position; decoded in several parts, some of them empty, or prefilled.
#[cfg_attr(target_arch = "wasm32", wasm_bindgen_test::wasm_bindgen_test)]
#[cfg_attr(not(target_arch = "wasm32"), pollster::test)]
async fn attention_through_a_window() {
    let mut bench = Bench::open().await;
    let mut random = Random(14);
    for (heads, window, length, n_splits) in
        [(HEADS[3], 1, 65, 1), (HEADS[3], 100, 300, 2), (HEADS[0], 63, 2000, 8), (HEADS[6], 512, 300, 2)]
    {
        for n in [1, 31] {
            Attention::new(&mut random, heads, length, n, n_splits).with_window(window, 1).check(&mut bench, 1).await;
        }
        let many = Attention::new(&mut random, heads, length, 31, n_splits);
        many.with_window(window, QUERIES).check(&mut bench, QUERIES).await;
    }
}

#[cfg_attr(target_arch = "wasm32", wasm_bindgen_test::wasm_bindgen_test)]
#[cfg_attr(not(target_arch = "wasm32"), pollster::test)]
async fn merge_splits() {
    let mut bench = Bench::open().await;
    let mut random = Random(13);
    for (i, heads) in HEADS.into_iter().enumerate() {
        let (n, n_splits) = (1 + i, 2 + 2 * i);
        let width = stride(heads.n_heads * heads.head_dim);
        let before = random.floats(n * width, 1.0);
        let mut expected = before.clone();
        let mut contents = vec![f32::NAN; heads.n_heads * MAX_SPLITS * (heads.head_dim + 4)];
        for (head, contents) in contents.chunks_exact_mut(MAX_SPLITS * (heads.head_dim + 4)).enumerate() {
            let mut split = || twins::Split {
                sums: random.floats(heads.head_dim, 50.0),
                maximum: random.float() * 10.0,
                weight: 60.0 + random.float() * 50.0,
            };
            let splits: Vec<_> = (0..n_splits).map(|_| split()).collect();
            for (split, contents) in splits.iter().zip(contents.chunks_exact_mut(heads.head_dim + 4)) {
                contents[..heads.head_dim].copy_from_slice(&split.sums);
                contents[heads.head_dim..][..2].copy_from_slice(&[split.maximum, split.weight]);
            }
            twins::store(&twins::merge_splits(&splits), &mut expected[(n - 1) * width + head * heads.head_dim..]);
        }
        let (splits, attn) = (bench.buffer(&contents), bench.buffer(&before));
        let step = Step { kernel: Kernel::MergeSplits(heads), buffers: vec![&splits, &attn] };
        bench.run(&Pass { n_splits, ..Pass::new(n) }, vec![step]).await;
        assert_near(&bench.read(&attn).await, &expected, &before, &format!("{heads:?}, {n_splits} parts"));
    }
}
