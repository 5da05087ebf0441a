//! Matrices in GPU memory: repacked row by row on their way there, split by rows where one binding cannot hold them.
//!
//! Invariant: never more than one megabyte of a matrix is in memory beside the file's bytes.

use super::device::Gpu;
use super::layout::{self, Layout, UNIT};
use super::shader;
use crate::error::{Error, Result, quoted};
use crate::model::TensorRef;
use wgpu::{Buffer, BufferDescriptor, BufferUsages};

/// Bytes that are repacked at a time.
const STAGING: usize = 1 << 20;

/// Tensors of one format and width that are multiplied together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Order {
    /// All rows of the first, then all of the next.
    Stacked,
    /// Their first rows, then their second rows, and so on.
    Alternating,
}

/// A matrix, or several in one.
pub struct GpuMatrix {
    /// In GPU memory.
    pub bytes: u64,
    /// In the order of their rows; one unless the matrix is larger than a binding.
    pub parts: Vec<Part>,
}

/// Some rows, and the buffers that hold them.
pub struct Part {
    pub matrix: shader::Matrix,
    pub quants: Buffer,
    /// The same buffer again for a format without extras.
    pub extras: Buffer,
}

impl GpuMatrix {
    /// Whether these can be one matrix.
    pub fn can_join(tensors: &[&TensorRef]) -> bool {
        tensors.windows(2).all(|pair| pair[0].ty == pair[1].ty && pair[0].n_cols == pair[1].n_cols)
    }

    /// Uploads tensors of one format and width; `data` is what the file has of each.
    ///
    /// Errors: `unsupported-quantization` for a format without a shader; `too-large` for a row larger than a binding. What the
    /// device itself refuses is caught by the caller's error scopes.
    pub fn upload(gpu: &Gpu, data: &[&[u8]], tensors: &[&TensorRef], order: Order) -> Result<Self> {
        let format = tensors[0].ty;
        let layout = layout_of(tensors[0])?;
        let units = tensors[0].n_cols.div_ceil(UNIT);
        let (quant_bytes, extra_bytes) = layout.row_bytes(units);
        let n_rows: usize = tensors.iter().map(|tensor| tensor.n_rows).sum();
        let rows_in_binding =
            usize::try_from(gpu.largest_binding / quant_bytes.max(extra_bytes) as u64).unwrap_or(usize::MAX);
        // Pairs of rows stay together.
        let rows_in_part = rows_in_binding / 2 * 2;
        if rows_in_part == 0 {
            return Err(Error::TooLarge(format!("Two rows of {} exceed a GPU binding.", quoted(&tensors[0].name))));
        }
        let mut parts = Vec::new();
        let mut bytes = 0;
        for first_row in (0..n_rows).step_by(rows_in_part) {
            let matrix = shader::Matrix { format, units, n_rows: rows_in_part.min(n_rows - first_row), first_row };
            let create = |row_bytes: usize| {
                gpu.device.create_buffer(&BufferDescriptor {
                    label: Some(&tensors[0].name),
                    size: (matrix.n_rows * row_bytes) as u64,
                    usage: BufferUsages::STORAGE | BufferUsages::COPY_DST,
                    mapped_at_creation: false,
                })
            };
            let quants = create(quant_bytes);
            let extras = if extra_bytes == 0 { quants.clone() } else { create(extra_bytes) };
            bytes += (matrix.n_rows * (quant_bytes + extra_bytes)) as u64;
            let part = Part { matrix, quants, extras };
            part.write(gpu, data, tensors, order);
            parts.push(part);
        }
        Ok(Self { bytes, parts })
    }
}

/// How the GPU holds a tensor. Errors: `unsupported-quantization` for a format without a shader.
fn layout_of(tensor: &TensorRef) -> Result<Layout> {
    Layout::of(tensor.ty).ok_or_else(|| {
        Error::UnsupportedQuantization(format!(
            "{} is stored as {}, which has no GPU kernel.",
            quoted(&tensor.name),
            tensor.ty.name()
        ))
    })
}

/// Bytes that a tensor takes as a matrix. Errors: those of [`layout_of`].
pub fn matrix_bytes(tensor: &TensorRef) -> Result<u64> {
    let (quant_bytes, extra_bytes) = layout_of(tensor)?.row_bytes(tensor.n_cols.div_ceil(UNIT));
    Ok((tensor.n_rows * (quant_bytes + extra_bytes)) as u64)
}

/// Bytes that a tensor takes as a vector.
pub fn vector_bytes(tensor: &TensorRef) -> usize {
    shader::stride(tensor.n_cols) * size_of::<f32>()
}

impl Part {
    fn write(&self, gpu: &Gpu, data: &[&[u8]], tensors: &[&TensorRef], order: Order) {
        let shader::Matrix { format, units, n_rows, first_row } = self.matrix;
        let layout = Layout::of(format).expect("the matrix has been admitted");
        let (quant_bytes, extra_bytes) = layout.row_bytes(units);
        let rows_at_once = (STAGING / (quant_bytes + extra_bytes)).clamp(1, n_rows);
        let mut quants = vec![0; rows_at_once * quant_bytes];
        let mut extras = vec![0; rows_at_once * extra_bytes];
        for start in (0..n_rows).step_by(rows_at_once) {
            let n = rows_at_once.min(n_rows - start);
            quants.fill(0);
            extras.fill(0);
            for i in 0..n {
                let row = row_bytes(data, tensors, order, first_row + start + i);
                let extras = &mut extras[i * extra_bytes..][..extra_bytes];
                layout::pack_row(format, row, &mut quants[i * quant_bytes..][..quant_bytes], extras);
            }
            gpu.queue.write_buffer(&self.quants, (start * quant_bytes) as u64, &quants[..n * quant_bytes]);
            if extra_bytes > 0 {
                gpu.queue.write_buffer(&self.extras, (start * extra_bytes) as u64, &extras[..n * extra_bytes]);
            }
            // Hands the bytes over now, instead of keeping them all until the first pass.
            gpu.queue.submit([]);
        }
    }
}

/// The bytes of row `row` of all tensors together.
fn row_bytes<'a>(data: &[&'a [u8]], tensors: &[&TensorRef], order: Order, mut row: usize) -> &'a [u8] {
    let mut index = 0;
    match order {
        Order::Alternating => (index, row) = (row % tensors.len(), row / tensors.len()),
        Order::Stacked => {
            while row >= tensors[index].n_rows {
                row -= tensors[index].n_rows;
                index += 1;
            }
        }
    }
    let tensor = tensors[index];
    let n = tensor.ty.row_bytes(tensor.n_cols);
    &data[index][row * n..][..n]
}

/// Uploads the values of a vector, padded with zeros to whole units.
pub fn upload_floats(gpu: &Gpu, label: &str, mut values: Vec<f32>) -> Buffer {
    values.resize(shader::stride(values.len()), 0.0);
    let buffer = gpu.device.create_buffer(&BufferDescriptor {
        label: Some(label),
        size: size_of_val(&values[..]) as u64,
        usage: BufferUsages::STORAGE | BufferUsages::COPY_DST,
        mapped_at_creation: false,
    });
    gpu.queue.write_buffer(&buffer, 0, bytemuck::cast_slice(&values));
    buffer
}

/// The values of a vector; `data` is what the file has of it.
pub fn floats(data: &[u8]) -> Vec<f32> {
    data.as_chunks().0.iter().map(|word| f32::from_le_bytes(*word)).collect()
}
