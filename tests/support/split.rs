//! Splits a model into files, as `gguf-split` of llama.cpp does: the first has the metadata, each has some of the tensors.

use super::metadata;
use nucleus::gguf::{Gguf, TensorInfo};

const U16: u32 = 2;
const I32: u32 = 5;
const ALIGNMENT: usize = 32;

/// `file`, a sound GGUF file of the usual alignment, in `n` parts.
pub fn split(file: &[u8], n: usize) -> Vec<Vec<u8>> {
    let gguf = Gguf::parse(file).unwrap();
    let mut tensors = gguf.tensors.clone();
    tensors.sort_by_key(|tensor| tensor.bytes.start);
    let per_part = tensors.len().div_ceil(n);
    let parts = tensors.chunks(per_part).enumerate();
    parts.map(|(no, part)| write(file, part, no, n, tensors.len())).collect()
}

/// The name of part `no`, from 0.
pub fn name(stem: &str, no: usize, n: usize) -> String {
    format!("{stem}-{:05}-of-{n:05}.gguf", no + 1)
}

fn write(file: &[u8], tensors: &[TensorInfo], no: usize, n: usize, n_tensors: usize) -> Vec<u8> {
    let entries = if no == 0 { metadata::entries(file) } else { Vec::new() };
    let mut out = b"GGUF".to_vec();
    out.extend(3_u32.to_le_bytes());
    out.extend((tensors.len() as u64).to_le_bytes());
    out.extend((entries.len() as u64 + 3).to_le_bytes());
    metadata::write(&entries, &mut out);
    let mut entry = |key: &str, ty: u32, value: &[u8]| {
        metadata::write_string(key.as_bytes(), &mut out);
        out.extend(ty.to_le_bytes());
        out.extend_from_slice(value);
    };
    entry("split.no", U16, &(no as u16).to_le_bytes());
    entry("split.count", U16, &(n as u16).to_le_bytes());
    entry("split.tensors.count", I32, &(n_tensors as i32).to_le_bytes());
    let mut offset = 0;
    for tensor in tensors {
        metadata::write_string(tensor.name.as_bytes(), &mut out);
        out.extend((tensor.dims.len() as u32).to_le_bytes());
        out.extend(tensor.dims.iter().flat_map(|&dim| (dim as u64).to_le_bytes()));
        out.extend(tensor.ty.number().to_le_bytes());
        out.extend((offset as u64).to_le_bytes());
        offset += tensor.bytes.len().next_multiple_of(ALIGNMENT);
    }
    for tensor in tensors {
        out.resize(out.len().next_multiple_of(ALIGNMENT), 0);
        out.extend_from_slice(&file[tensor.bytes.clone()]);
    }
    out.resize(out.len().next_multiple_of(ALIGNMENT), 0);
    out
}
