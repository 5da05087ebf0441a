//! finish_qkv: what becomes of Q, K and V after their products.
//!
//! Invariant: what a kernel must not write is compared too.

use super::random::Random;
use super::{Bench, Pass, assert_near, twins};
use crate::backend::gpu::record::Step;
use crate::backend::gpu::shader::{Heads, Kernel, Turns, stride};
use crate::model::Pairing;

/// One layer's heads: biased or not, normalised or not, rotated in full, in part or not at all.
#[cfg_attr(target_arch = "wasm32", wasm_bindgen_test::wasm_bindgen_test)]
#[cfg_attr(not(target_arch = "wasm32"), pollster::test)]
async fn finish_qkv() {
    let mut bench = Bench::open().await;
    let mut random = Random(16);
    let heads = |n_heads, n_kv_heads, head_dim| Heads { n_heads, n_kv_heads, head_dim };
    for (heads, pairs, pairing, norm_eps, n) in [
        (heads(6, 2, 16), 8, Pairing::HalfSplit, None, 1),
        (heads(4, 1, 256), 128, Pairing::HalfSplit, Some(1e-6), 33),
        (heads(3, 3, 24), 8, Pairing::HalfSplit, Some(1e-5), 2),
        (heads(2, 1, 100), 50, Pairing::Interleaved, Some(1e-5), 128),
        (heads(5, 5, 4), 0, Pairing::HalfSplit, None, 7),
    ] {
        check(&mut bench, &mut random, heads, pairs, pairing, norm_eps, n).await;
    }
}

async fn check(
    bench: &mut Bench,
    random: &mut Random,
    heads: Heads,
    pairs: usize,
    pairing: Pairing,
    norm_eps: Option<f32>,
    n: usize,
) {
    let Heads { n_heads, n_kv_heads, head_dim } = heads;
    let (n_all, first) = (n_heads + 2 * n_kv_heads, 5);
    let turns = Turns { pairs, per_token: pairs + 3, first: 2 };
    let mut pass = Pass::new(n);
    pass.first = first;
    pass.turns = (0..n * turns.per_token).map(|_| random.float() * 9.0).map(|a| [a.cos(), a.sin()]).collect();

    let qkv = random.floats(n * stride(n_all * head_dim), 1.0);
    let bias = random.floats(n_all * head_dim, 0.5);
    let norms = random.floats(2 * head_dim, 2.0);
    let extras = [bias.as_slice(), norms.as_slice()].concat();
    let before = [
        random.floats(n * stride(n_heads * head_dim) + 1, 1.0),
        random.floats((first + n + 1) * n_kv_heads * head_dim, 1.0),
        random.floats((first + n + 1) * n_kv_heads * head_dim, 1.0),
    ];
    let (qkv_buffer, extras_buffer) = (bench.buffer(&qkv), bench.buffer(&extras));
    let out = before.each_ref().map(|values| bench.buffer(values));
    let kernel = Kernel::FinishQkv { heads, turns, pairing, norm_eps: norm_eps.map(Into::into) };
    let buffers = vec![&qkv_buffer, &extras_buffer, &out[0], &out[1], &out[2]];
    bench.run(&pass, vec![Step { kernel, buffers }]).await;

    let mut expected = before.clone();
    for token in 0..n {
        let turned = &pass.turns[token * turns.per_token + turns.first..][..pairs];
        for head in 0..n_all {
            let y = &qkv[token * stride(n_all * head_dim) + head * head_dim..][..head_dim];
            let bias = &bias[head * head_dim..][..head_dim];
            let position = (first + token) * n_kv_heads * head_dim;
            let norm = |which: usize| norm_eps.map(|eps| (&norms[which * head_dim..][..head_dim], eps));
            let (kind, at, norm, turned) = if head < n_heads {
                (0, token * stride(n_heads * head_dim) + head * head_dim, norm(0), turned)
            } else if head < n_heads + n_kv_heads {
                (1, position + (head - n_heads) * head_dim, norm(1), turned)
            } else {
                (2, position + (head - n_heads - n_kv_heads) * head_dim, None, &[][..])
            };
            twins::store(&twins::finish_qkv(y, bias, norm, pairing, turned), &mut expected[kind][at..]);
        }
    }
    for ((buffer, expected), before) in out.iter().zip(&expected).zip(&before) {
        let what = format!("{heads:?}, {pairs} pairs, {pairing:?}, {n} tokens");
        assert_near(&bench.read(buffer).await, expected, before, &what);
    }
}
