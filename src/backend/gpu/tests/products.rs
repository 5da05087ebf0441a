//! matvec and matmul, with every epilogue.
//!
//! Invariant: what is compared is whole buffers, so that a value written to a wrong place fails too.

use super::random::{Random, Tensors};
use super::{Bench, Pass, ROWS, TOKENS, UNITS, assert_near, n_cols, padded, twins};
use crate::backend::gpu::MAX_GROUPS;
use crate::backend::gpu::layout::{FORMATS, UNIT};
use crate::backend::gpu::matrix::{Order, Part};
use crate::backend::gpu::record::{Groups, Step};
use crate::backend::gpu::shader::{Epilogue, Heads, Kernel, Matrix, Norm, Turns, stride};
use crate::model::Activation;
use crate::model::TensorRef;
use crate::quant::GgmlType;
use wgpu::Buffer;

const EPS: f32 = 1e-5;

/// What is made of a product, by which twin.
#[derive(Debug, Clone, Copy)]
enum Finish {
    /// After so many values of a row that is so much longer.
    Store {
        first: usize,
    },
    Add,
    Glu(Activation),
    Gated(Activation),
    /// Whether Q, K and V are there; and how many of a head's values are rotated.
    Qkv {
        parts: [bool; 3],
        heads: Heads,
        rope_dim: usize,
    },
}

const HEADS: Heads = Heads { n_heads: 6, n_kv_heads: 2, head_dim: 6 };
const FINISHES: [Finish; 5] = [
    Finish::Store { first: 0 },
    Finish::Add,
    Finish::Glu(Activation::Silu),
    Finish::Gated(Activation::Gelu),
    Finish::Qkv { parts: [true; 3], heads: HEADS, rope_dim: 6 },
];

/// A product to be compared.
#[derive(Debug, Clone, Copy)]
struct Product {
    ty: GgmlType,
    /// Of each matrix, unless the epilogue says.
    n_rows: usize,
    n_cols: usize,
    finish: Finish,
    /// Size of the values of x.
    x_size: f32,
    /// Rows in one binding, if not as many as there are.
    rows_in_part: Option<usize>,
}

/// The shader that computes it.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Shader {
    MatVec { norm: bool },
    MatMul,
}

impl Product {
    fn new(ty: GgmlType, n_rows: usize, units: usize, finish: Finish) -> Self {
        Self { ty, n_rows, n_cols: n_cols(ty, units), finish, x_size: 0.1, rows_in_part: None }
    }

    /// Computes it for the last (mat-vec) or all of `n` tokens, and its twin.
    async fn check(self, bench: &mut Bench, random: &mut Random, shader: Shader, n: usize) {
        let Self { ty, n_cols, finish, x_size, .. } = self;
        let what = format!("{self:?}, {shader:?}, {n} tokens");
        let (rows, order) = self.rows();
        let tensors = Tensors::new(random, ty, &rows, n_cols, 1.0);
        let weights = tensors.rows(order);
        let matrix = bench.upload(&tensors, order, self.rows_in_part);
        let x: Vec<Vec<f32>> = (0..n).map(|_| random.floats(n_cols, x_size)).collect();
        // A row too far would be seen.
        let x_buffer = bench.buffer(&[padded(&x).as_slice(), &vec![f32::NAN; stride(n_cols)]].concat());
        let norm_weight = random.floats(n_cols, 0.3);
        let norm_buffer = bench.buffer(&padded(std::slice::from_ref(&norm_weight)));

        let mut pass = Pass::new(n);
        pass.first = 5;
        let (epilogue, sizes) = self.epilogue(n, pass.first);
        if let Finish::Qkv { rope_dim, .. } = finish {
            pass.turns =
                (0..n * (rope_dim / 2 + 3)).map(|_| random.float() * 9.0).map(|a| [a.cos(), a.sin()]).collect();
        }
        let before: Vec<Vec<f32>> = sizes.into_iter().map(|size| random.floats(size, 2.0)).collect();
        let out: Vec<Buffer> = before.iter().map(|values| bench.buffer(values)).collect();

        let norm = matches!(shader, Shader::MatVec { norm: true });
        let step = |part| self.step(part, shader, epilogue, [&x_buffer, &norm_buffer], &out);
        bench.run(&pass, matrix.parts.iter().map(step).collect()).await;

        let first = if shader == Shader::MatMul { 0 } else { n - 1 };
        let inputs: Vec<Vec<f64>> =
            x[first..]
                .iter()
                .map(|x| {
                    if norm { twins::rms_norm(x, &norm_weight, EPS) } else { x.iter().map(|x| f64::from(*x)).collect() }
                })
                .collect();
        let mut expected = before.clone();
        for (token, y) in (first..).zip(twins::matmul(&weights, &inputs)) {
            self.finish(&y, token, &pass, &mut expected);
        }
        for ((buffer, expected), before) in out.iter().zip(&expected).zip(&before) {
            let found = bench.read(buffer).await;
            if expected != before {
                assert_near(&found, expected, before, &what);
            } else {
                assert!(found == *before, "{what}: wrote to a buffer that has no rows here");
            }
        }
    }

    /// Rows of each tensor, and how they are joined.
    fn rows(&self) -> (Vec<usize>, Order) {
        match self.finish {
            Finish::Glu(_) => (vec![self.n_rows; 2], Order::Alternating),
            Finish::Qkv { .. } => (self.qkv_rows().into_iter().filter(|n_rows| *n_rows > 0).collect(), Order::Stacked),
            _ => (vec![self.n_rows], Order::Stacked),
        }
    }

    /// Rows of Q, K and V in the matrix.
    fn qkv_rows(&self) -> [usize; 3] {
        let Finish::Qkv { parts, heads, .. } = self.finish else { panic!("{self:?} has no Q, K, V") };
        let n_heads = [heads.n_heads, heads.n_kv_heads, heads.n_kv_heads];
        std::array::from_fn(|i| if parts[i] { n_heads[i] * heads.head_dim } else { 0 })
    }

    fn step<'a>(
        &self,
        part: &'a Part,
        shader: Shader,
        epilogue: Epilogue,
        [x, norm_weight]: [&'a Buffer; 2],
        out: &'a [Buffer],
    ) -> Step<'a> {
        let matrix = part.matrix;
        let mut buffers = vec![&part.quants, &part.extras, x];
        let kernel = match shader {
            Shader::MatMul => Kernel::MatMul { matrix, epilogue },
            Shader::MatVec { norm: false } => Kernel::MatVec { matrix, norm: None, epilogue },
            Shader::MatVec { norm: true } => {
                buffers.push(norm_weight);
                Kernel::MatVec { matrix, norm: Some(Norm::new(self.n_cols, EPS)), epilogue }
            }
        };
        buffers.extend(out);
        Step { kernel, buffers }
    }

    /// The epilogue, and values in each of its buffers.
    fn epilogue(&self, n: usize, first: usize) -> (Epilogue, Vec<usize>) {
        let stride = stride(self.n_rows);
        let out = vec![n * stride + 1];
        match self.finish {
            Finish::Store { first } => {
                (Epilogue::Store { stride: stride + first, first }, vec![n * (stride + first) + 1])
            }
            Finish::Add => (Epilogue::Add { stride }, out),
            Finish::Glu(activation) => (Epilogue::Glu { stride, activation }, out),
            Finish::Gated(activation) => (Epilogue::Gated { stride, activation }, out),
            Finish::Qkv { heads, rope_dim, .. } => {
                let [q_rows, k_rows, _] = self.qkv_rows();
                let kv = (first + n + 1) * heads.n_kv_heads * heads.head_dim;
                let turns = Turns { pairs: rope_dim / 2, per_token: rope_dim / 2 + 3, first: 2 };
                (Epilogue::Qkv { q_rows, k_rows, heads, turns }, vec![n * q_stride(heads) + 2, kv, kv])
            }
        }
    }

    /// The epilogue's twin for one token.
    fn finish(&self, y: &[f64], token: usize, pass: &Pass, out: &mut [Vec<f32>]) {
        let row = token * stride(self.n_rows);
        match self.finish {
            Finish::Store { first } => twins::store(y, &mut out[0][row + (token + 1) * first..]),
            Finish::Add => twins::add(y, &mut out[0][row..]),
            Finish::Glu(activation) => twins::glu(activation, y, &mut out[0][row..]),
            Finish::Gated(activation) => twins::gated(activation, y, &mut out[0][row..]),
            Finish::Qkv { heads, rope_dim, .. } => {
                let [q_rows, k_rows, v_rows] = self.qkv_rows();
                let turns = &pass.turns[token * (rope_dim / 2 + 3) + 2..][..rope_dim / 2];
                let kv_row = (pass.first + token) * heads.n_kv_heads * heads.head_dim;
                let [q, keys, values] = out else { panic!("three outputs") };
                let q = &mut q[token * q_stride(heads)..][..q_rows];
                twins::qkv(
                    y,
                    turns,
                    heads.head_dim,
                    [q, &mut keys[kv_row..][..k_rows], &mut values[kv_row..][..v_rows]],
                );
            }
        }
    }
}

fn q_stride(heads: Heads) -> usize {
    stride(heads.n_heads * heads.head_dim)
}

/// In the browser the software adapter compiles for a second or two a shader: there each format meets one of the five epilogues,
/// and the other tests take every second case.
const FINISHES_EACH: usize = if cfg!(target_arch = "wasm32") { 1 } else { FINISHES.len() };
const STEP: usize = if cfg!(target_arch = "wasm32") { 2 } else { 1 };

/// Every format with epilogues in turn, with `shader`; the shapes take turns, differently for each format.
async fn check_formats(shader: Shader) {
    let mut bench = Bench::open().await;
    let mut random = Random(1);
    for (f, (ty, _)) in FORMATS.into_iter().enumerate() {
        for (e, finish) in FINISHES.into_iter().enumerate() {
            if (f + e) % FINISHES.len() >= FINISHES_EACH {
                continue;
            }
            let turn = f + 5 * e;
            let product = Product {
                // Around the root of `EPS`, and to either side.
                x_size: [0.1, 3e-3, 1.0][turn % 3],
                ..Product::new(ty, ROWS[(turn + e) % ROWS.len()], UNITS[turn % UNITS.len()], finish)
            };
            for n in [TOKENS[turn % TOKENS.len()], TOKENS[(turn + 3) % TOKENS.len()]] {
                product.check(&mut bench, &mut random, shader, n).await;
            }
        }
    }
}

#[cfg_attr(target_arch = "wasm32", wasm_bindgen_test::wasm_bindgen_test)]
#[cfg_attr(not(target_arch = "wasm32"), pollster::test)]
async fn matvec() {
    check_formats(Shader::MatVec { norm: false }).await;
}

#[cfg_attr(target_arch = "wasm32", wasm_bindgen_test::wasm_bindgen_test)]
#[cfg_attr(not(target_arch = "wasm32"), pollster::test)]
async fn matvec_with_norm() {
    check_formats(Shader::MatVec { norm: true }).await;
}

#[cfg_attr(target_arch = "wasm32", wasm_bindgen_test::wasm_bindgen_test)]
#[cfg_attr(not(target_arch = "wasm32"), pollster::test)]
async fn matmul() {
    check_formats(Shader::MatMul).await;
}

/// The shapes and numbers of tokens for themselves.
#[cfg_attr(target_arch = "wasm32", wasm_bindgen_test::wasm_bindgen_test)]
#[cfg_attr(not(target_arch = "wasm32"), pollster::test)]
async fn products_of_every_shape() {
    let mut bench = Bench::open().await;
    let mut random = Random(2);
    for (n_rows, units) in ROWS.into_iter().zip(UNITS).step_by(STEP) {
        let product = Product::new(GgmlType::Q8_0, n_rows, units, Finish::Store { first: 64 });
        for n in [1, 33] {
            product.check(&mut bench, &mut random, Shader::MatVec { norm: true }, n).await;
        }
        for n in TOKENS {
            product.check(&mut bench, &mut random, Shader::MatMul, n).await;
        }
    }
}

/// Q, K and V in one matrix, in two, in three; heads rotated in part or not at all.
#[cfg_attr(target_arch = "wasm32", wasm_bindgen_test::wasm_bindgen_test)]
#[cfg_attr(not(target_arch = "wasm32"), pollster::test)]
async fn qkv() {
    let mut bench = Bench::open().await;
    let mut random = Random(3);
    let heads = |n_heads, n_kv_heads, head_dim| Heads { n_heads, n_kv_heads, head_dim };
    let shapes = [(heads(6, 2, 6), 4), (heads(3, 3, 16), 16), (heads(8, 1, 4), 2), (heads(5, 5, 10), 0)];
    let all = [[1, 1, 1], [1, 1, 0], [0, 1, 1], [1, 0, 0], [0, 1, 0], [0, 0, 1]];
    for (i, parts) in all.into_iter().enumerate().step_by(STEP) {
        let (heads, rope_dim) = shapes[i % shapes.len()];
        let finish = Finish::Qkv { parts: parts.map(|part| part == 1), heads, rope_dim };
        let product = Product::new(GgmlType::Q4_1, 0, 3, finish);
        for n in [1, 33] {
            product.check(&mut bench, &mut random, Shader::MatVec { norm: true }, n).await;
            product.check(&mut bench, &mut random, Shader::MatMul, n).await;
        }
    }
}

/// Each activation behind each way to gate.
#[cfg_attr(target_arch = "wasm32", wasm_bindgen_test::wasm_bindgen_test)]
#[cfg_attr(not(target_arch = "wasm32"), pollster::test)]
async fn activations() {
    let mut bench = Bench::open().await;
    let mut random = Random(15);
    for finish in [Finish::Glu(Activation::Gelu), Finish::Gated(Activation::Silu)] {
        let product = Product { x_size: 1.0, ..Product::new(GgmlType::F32, 33, 2, finish) };
        product.check(&mut bench, &mut random, Shader::MatVec { norm: true }, 2).await;
    }
}

/// A matrix larger than a binding: some rows in each of several buffers.
#[cfg_attr(target_arch = "wasm32", wasm_bindgen_test::wasm_bindgen_test)]
#[cfg_attr(not(target_arch = "wasm32"), pollster::test)]
async fn products_in_parts() {
    let mut bench = Bench::open().await;
    let mut random = Random(4);
    let formats = [GgmlType::Q4_0, GgmlType::Q5K, GgmlType::Q8_0, GgmlType::F32, GgmlType::Q6K];
    for (finish, ty) in FINISHES.into_iter().zip(formats).step_by(STEP) {
        let product = Product { rows_in_part: Some(24), ..Product::new(ty, 33, 3, finish) };
        product.check(&mut bench, &mut random, Shader::MatVec { norm: true }, 2).await;
        product.check(&mut bench, &mut random, Shader::MatMul, 33).await;
    }
}

/// A vocabulary that takes more workgroups than one dimension of a dispatch has: some rows over and over.
#[cfg_attr(target_arch = "wasm32", wasm_bindgen_test::wasm_bindgen_test)]
#[cfg_attr(not(target_arch = "wasm32"), pollster::test)]
async fn matvec_in_two_dimensions() {
    const PERIOD: usize = 1021;
    let mut bench = Bench::open().await;
    let mut random = Random(5);
    let mut tensors = Tensors::new(&mut random, GgmlType::Q4_0, &[PERIOD], UNIT, 1.0);
    let x = random.floats(UNIT, 1.0);
    let y = twins::matvec(&tensors.rows(Order::Stacked), &x.iter().map(|x| f64::from(*x)).collect::<Vec<_>>());

    let kernel = |matrix| Kernel::MatVec { matrix, norm: None, epilogue: Epilogue::Store { stride: 0, first: 0 } };
    let is_long = |n_rows: &usize| {
        let matrix = Matrix { format: GgmlType::Q4_0, units: 1, n_rows: *n_rows, first_row: 0 };
        Groups::of(&kernel(matrix)).count(1, 1).unwrap()[1] > 1
    };
    let n_rows = (1..).map(|i| i * PERIOD).find(is_long).unwrap();
    tensors.file = tensors.file[tensors.refs[0].bytes.clone()].repeat(n_rows / PERIOD);
    tensors.refs[0] = TensorRef { n_rows, bytes: 0..tensors.file.len(), ..tensors.refs[0].clone() };
    let [part] = &bench.upload(&tensors, Order::Stacked, None).parts[..] else { panic!("it fits a binding") };
    let before = vec![-7.0; n_rows + 1];
    let (x, out) = (bench.buffer(&x), bench.buffer(&before));
    let step = Step { kernel: kernel(part.matrix), buffers: vec![&part.quants, &part.extras, &x, &out] };
    bench.run(&Pass::new(1), vec![step]).await;
    let mut expected = before.clone();
    twins::store(&y.repeat(n_rows / PERIOD), &mut expected);
    assert_near(&bench.read(&out).await, &expected, &before, &format!("{n_rows} rows"));
}

#[cfg_attr(target_arch = "wasm32", wasm_bindgen_test::wasm_bindgen_test)]
#[test]
fn rows_of_workgroups_are_short_enough() {
    for n in [1, 8, MAX_GROUPS - 1, MAX_GROUPS, MAX_GROUPS + 1, 2 * MAX_GROUPS, 2 * MAX_GROUPS + 1, 10_000_019] {
        let [x, y, z] = Groups::linear(n).count(1, 1).unwrap().map(|count| count as usize);
        assert!(x <= MAX_GROUPS && y <= MAX_GROUPS && z == 1, "{n}");
        // As many as wanted, and not a row too many.
        assert!((n..n + y).contains(&(x * y)), "{n}");
    }
}
