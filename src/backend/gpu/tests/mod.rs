//! Every kernel against its scalar twin, in every format and in awkward shapes, and every shader's text against naga.
//!
//! Buffers, keys and dispatches are made by the code that ships; only the twins (`twins.rs`) compute differently.
//!
//! Invariant: assumes no workgroup or tile size; how a kernel is dispatched is asked of `record`.

mod attention;
mod heads;
mod products;
mod random;
mod rows;
#[cfg(not(target_arch = "wasm32"))]
mod shaders;
mod top;
mod twins;

use super::BATCH;
use super::device::Gpu;
use super::layout::{Layout, UNIT};
use super::matrix::{GpuMatrix, Order};
use super::pipelines::Pipelines;
use super::record::{Dispatch, Step};
use super::run::dispatch;
use super::shader::stride;
use crate::quant::GgmlType;
use bytemuck::{NoUninit, Pod};
use random::Tensors;
use wgpu::{Buffer, BufferDescriptor, BufferUsages};

/// Normalised mean square error that a kernel may show: what f32 rounds off a sum of thousands (2^-24 each term, a few times that
/// in `exp`), here 1e-14 as a rule and 7e-12 at worst. One wrong value in a thousand leaves 1e-3.
const MAX_NMSE: f64 = 1e-10;

/// Odd shapes, odd passes.
const ROWS: [usize; 6] = [1, 2, 3, 7, 33, 65];
const UNITS: [usize; 6] = [130, 1, 18, 2, 65, 3];
const TOKENS: [usize; 8] = [1, 2, 31, 32, 33, 65, 127, 128];

/// Values in a row of `units` units, or of a few more for large blocks. Plain floats leave a part of the last unit empty.
fn n_cols(ty: GgmlType, units: usize) -> usize {
    if ty.block_len() == 1 { units * UNIT - 14 } else { (units * UNIT).next_multiple_of(ty.block_len()) }
}

/// Rows one after the other, each padded with zeros to whole units.
fn padded(rows: &[Vec<f32>]) -> Vec<f32> {
    let pad = |row: &Vec<f32>| [row.as_slice(), &vec![0.0; stride(row.len()) - row.len()]].concat();
    rows.iter().flat_map(pad).collect()
}

/// A device on which kernels run one by one.
struct Bench {
    gpu: Gpu,
    pipelines: Pipelines,
}

/// What `params.wgsl` holds.
struct Pass {
    /// One a token.
    ids: Vec<u32>,
    /// Positions in the cache before them.
    first: usize,
    n_splits: usize,
    inverse_temperature: f32,
    /// `[token][rotation][pair]`: cosine and sine.
    turns: Vec<[f32; 2]>,
}

impl Pass {
    /// `n` tokens at the start, nothing rotated.
    fn new(n: usize) -> Self {
        Self { ids: vec![0; n], first: 0, n_splits: 1, inverse_temperature: 1.0, turns: Vec::new() }
    }

    fn words(&self) -> Vec<u32> {
        let Self { ids, first, n_splits, inverse_temperature, turns } = self;
        let mut words = vec![ids.len() as u32, *first as u32, *n_splits as u32, inverse_temperature.to_bits()];
        words.extend(ids);
        words.resize(4 + BATCH, 0);
        words.extend(turns.as_flattened().iter().map(|turn| turn.to_bits()));
        // The array of turns must not be empty.
        words.resize(words.len() + 2, 0);
        words
    }
}

impl Bench {
    async fn open() -> Self {
        Self { gpu: Gpu::open().await.unwrap(), pipelines: Pipelines::default() }
    }

    /// A storage buffer with these contents.
    fn buffer<T: NoUninit>(&self, contents: &[T]) -> Buffer {
        let usage = BufferUsages::STORAGE | BufferUsages::COPY_SRC | BufferUsages::COPY_DST;
        let buffer = self.create(size_of_val(contents) as u64, usage);
        self.gpu.queue.write_buffer(&buffer, 0, bytemuck::cast_slice(contents));
        buffer
    }

    fn create(&self, size: u64, usage: BufferUsages) -> Buffer {
        self.gpu.device.create_buffer(&BufferDescriptor { label: None, size, usage, mapped_at_creation: false })
    }

    /// Joins the tensors in a matrix, with so many rows in each binding if not all in one.
    fn upload(&mut self, tensors: &Tensors, order: Order, rows_in_part: Option<usize>) -> GpuMatrix {
        let refs: Vec<_> = tensors.refs.iter().collect();
        let largest = self.gpu.largest_binding;
        if let Some(n) = rows_in_part {
            let (quant_bytes, extra_bytes) = Layout::of(refs[0].ty).unwrap().row_bytes(refs[0].n_cols.div_ceil(UNIT));
            self.gpu.largest_binding = (n * quant_bytes.max(extra_bytes)) as u64;
        }
        let data: Vec<&[u8]> = refs.iter().map(|tensor| &tensors.file[tensor.bytes.clone()]).collect();
        let matrix = GpuMatrix::upload(&self.gpu, &data, &refs, order).unwrap();
        self.gpu.largest_binding = largest;
        let n_rows: usize = refs.iter().map(|tensor| tensor.n_rows).sum();
        assert_eq!(matrix.parts.len(), rows_in_part.map_or(1, |n| n_rows.div_ceil(n)));
        matrix
    }

    /// Runs the steps of a pass in order.
    async fn run(&mut self, pass: &Pass, steps: Vec<Step<'_>>) {
        let gpu = &self.gpu;
        self.pipelines.compile(gpu, steps.iter().map(|step| &step.kernel), |_, _| {}).await.unwrap();
        let params = self.buffer(&pass.words());
        let scopes = gpu.scopes();
        let dispatches: Vec<Dispatch> = steps.into_iter().map(|step| self.pipelines.bind(gpu, &params, step)).collect();
        let mut encoder = gpu.device.create_command_encoder(&Default::default());
        dispatch(&mut encoder.begin_compute_pass(&Default::default()), &dispatches, pass.ids.len(), pass.n_splits);
        gpu.queue.submit([encoder.finish()]);
        scopes.end().await.unwrap();
    }

    async fn read<T: Pod>(&self, buffer: &Buffer) -> Vec<T> {
        let copy = self.create(buffer.size(), BufferUsages::MAP_READ | BufferUsages::COPY_DST);
        let mut encoder = self.gpu.device.create_command_encoder(&Default::default());
        encoder.copy_buffer_to_buffer(buffer, 0, &copy, 0, buffer.size());
        self.gpu.queue.submit([encoder.finish()]);
        self.gpu.read(&copy, bytemuck::pod_collect_to_vec).await.unwrap()
    }
}

/// Demands that a kernel changed exactly those values of a buffer that its twin changed, and to nearly the same.
#[track_caller]
fn assert_near(found: &[f32], expected: &[f32], before: &[f32], what: &str) {
    assert_eq!(found.len(), expected.len(), "{what}");
    let (mut error, mut norm) = (0.0, 0.0);
    for (i, ((found, expected), before)) in found.iter().zip(expected).zip(before).enumerate() {
        if expected.to_bits() == before.to_bits() {
            assert_eq!(found.to_bits(), before.to_bits(), "{what}: wrote {found} to value {i}, which is not its own");
        } else {
            error += (f64::from(*found) - f64::from(*expected)).powi(2);
            norm += f64::from(*expected).powi(2);
        }
    }
    assert!(norm > 0.0, "{what}: the twin changed nothing");
    let nmse = error / norm;
    // Written so that NaN fails.
    assert!(nmse <= MAX_NMSE, "{what}: normalised mean square error {nmse:.1e}");
}
