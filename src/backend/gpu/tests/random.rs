//! Repeatable random numbers, and random tensors in every format.
//!
//! Invariant: the same everywhere, natively and in the browser.

use crate::backend::gpu::matrix::Order;
use crate::model::TensorRef;
use crate::quant::{self, GgmlType};
use half::{bf16, f16};

/// SplitMix64 (Steele, Lea and Flood 2014).
pub struct Random(pub u64);

impl Random {
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }

    pub fn below(&mut self, n: usize) -> usize {
        (self.bits() % n as u64) as usize
    }

    /// Between -1 and 1.
    pub fn float(&mut self) -> f32 {
        (self.bits() >> 40) as f32 / (1 << 23) as f32 - 1.0
    }

    /// `n` of up to `size`.
    pub fn floats(&mut self, n: usize, size: f32) -> Vec<f32> {
        (0..n).map(|_| self.float() * size).collect()
    }
}

/// Tensors of one format and width.
pub struct Tensors {
    pub file: Vec<u8>,
    pub refs: Vec<TensorRef>,
}

impl Tensors {
    /// One for each of `n_rows`, with rows of `n_cols`. Any bits, but scales such that values are up to about `size`.
    pub fn new(random: &mut Random, ty: GgmlType, n_rows: &[usize], n_cols: usize, size: f32) -> Self {
        let mut file = vec![0xff; 7];
        let mut refs = Vec::new();
        for &n_rows in n_rows {
            let start = file.len();
            for _ in 0..n_rows * n_cols / ty.block_len() {
                push_block(random, ty, size, &mut file);
            }
            refs.push(TensorRef { name: "random".into(), ty, n_rows, n_cols, bytes: start..file.len() });
        }
        Self { file, refs }
    }

    /// The rows of all together, in this order.
    pub fn rows(&self, order: Order) -> Vec<Vec<f32>> {
        let rows_of = |tensor: &TensorRef| {
            let bytes = self.file[tensor.bytes.clone()].chunks_exact(tensor.ty.row_bytes(tensor.n_cols));
            let row = |bytes| {
                let mut row = vec![0.0; tensor.n_cols];
                quant::dequantize_row(tensor.ty, bytes, &mut row).unwrap();
                row
            };
            bytes.map(row).collect::<Vec<_>>()
        };
        let tensors: Vec<_> = self.refs.iter().map(rows_of).collect();
        match order {
            Order::Stacked => tensors.concat(),
            Order::Alternating => {
                (0..tensors[0].len()).flat_map(|i| tensors.iter().map(move |rows| rows[i].clone())).collect()
            }
        }
    }
}

fn push_block(random: &mut Random, ty: GgmlType, size: f32, file: &mut Vec<u8>) {
    let start = file.len();
    file.extend((0..ty.block_bytes()).map(|_| random.bits() as u8));
    let block = &mut file[start..];
    match ty {
        GgmlType::F32 => block.copy_from_slice(&(random.float() * size).to_le_bytes()),
        GgmlType::BF16 => block.copy_from_slice(&bf16::from_f32(random.float() * size).to_le_bytes()),
        _ => {
            // Where a half lies, and the largest number that it scales.
            let halves: &[(usize, f32)] = match ty {
                GgmlType::F16 => &[(0, 1.0)],
                GgmlType::Q4_0 => &[(0, 8.0)],
                GgmlType::Q4_1 => &[(0, 15.0), (2, 1.0)],
                GgmlType::Q5_0 => &[(0, 16.0)],
                GgmlType::Q5_1 => &[(0, 31.0), (2, 1.0)],
                GgmlType::Q8_0 => &[(0, 128.0)],
                GgmlType::Q4K => &[(0, 63.0 * 15.0), (2, 63.0)],
                GgmlType::Q5K => &[(0, 63.0 * 31.0), (2, 63.0)],
                GgmlType::Q6K => &[(208, 128.0 * 32.0)],
                _ => panic!("{} has no shader", ty.name()),
            };
            for &(at, largest) in halves {
                let scale = f16::from_f32(random.float() * size / largest);
                block[at..][..2].copy_from_slice(&scale.to_le_bytes());
            }
        }
    }
}
