//! The tensor directory: names, shapes, formats, and where the data lies.
//!
//! Sizes are u64 until they are known to lie inside the file, so that every build refuses the same files.
//!
//! Invariant: reads no tensor data and knows no tensor by name.

use super::reader::Reader;
use crate::error::{Error, Result, quoted};
use crate::quant::GgmlType;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::ops::Range;

/// A tensor of the file.
#[derive(Debug, Clone, PartialEq)]
pub struct TensorInfo {
    pub name: String,
    pub ty: GgmlType,
    /// 1 to 4 sizes, none zero, in ggml's `ne` order: `dims[0]` is the row length, a whole number of blocks of `ty`.
    pub dims: Vec<usize>,
    /// Bytes from the start of the file.
    pub bytes: Range<usize>,
}

impl TensorInfo {
    pub fn n_elements(&self) -> usize {
        self.dims.iter().product()
    }

    pub fn row_len(&self) -> usize {
        self.dims[0]
    }

    pub fn n_rows(&self) -> usize {
        self.dims[1..].iter().product()
    }
}

const MAX_NAME_BYTES: usize = 64;
const MAX_DIMS: u32 = 4;
/// Kernels index with 32-bit signed integers.
const MAX_DIM: u64 = i32::MAX as u64;
/// Elements of a tensor, and its bytes: counted in 32 bits in the browser.
const MAX_TENSOR_SIZE: u64 = u32::MAX as u64;

/// Name length, one byte of name, dimension count, one dimension, type, offset.
pub(super) const MIN_ENTRY_BYTES: u64 = 8 + 1 + 4 + 8 + 4 + 8;

/// A directory entry whose place in the file is not validated yet.
pub(super) struct DirectoryEntry {
    name: String,
    ty: GgmlType,
    dims: Vec<usize>,
    n_bytes: u64,
    /// From the start of the data section, bytes.
    offset: u64,
}

/// Reads `n_entries` entries, each of them valid by itself.
pub(super) fn read(reader: &mut Reader, n_entries: u64) -> Result<Vec<DirectoryEntry>> {
    let mut entries = Vec::new();
    for _ in 0..n_entries {
        entries.push(read_entry(reader)?);
    }
    Ok(entries)
}

/// Name -> place in `entries`.
pub(super) fn index(entries: &[DirectoryEntry]) -> Result<BTreeMap<String, usize>> {
    let mut index = BTreeMap::new();
    for (i, entry) in entries.iter().enumerate() {
        match index.entry(entry.name.clone()) {
            Entry::Vacant(vacant) => vacant.insert(i),
            Entry::Occupied(_) => {
                return Err(Error::DuplicateTensor(format!(
                    "Found the tensor `{}` twice; expected each name once.",
                    entry.name
                )));
            }
        };
    }
    Ok(index)
}

/// Puts each entry in its place, once all of them are known to be aligned, inside the file, and apart from each other.
pub(super) fn lay_out(
    entries: Vec<DirectoryEntry>,
    data_start: u64,
    alignment: u64,
    file_bytes: u64,
) -> Result<Vec<TensorInfo>> {
    // Where the data section ends when writers leave no gaps. At most MAX_ENTRIES times MAX_TENSOR_SIZE: cannot wrap.
    let packed_bytes: u64 = entries.iter().map(|entry| entry.n_bytes.next_multiple_of(alignment)).sum();
    let mut tensors = Vec::with_capacity(entries.len());
    for entry in entries {
        if !entry.offset.is_multiple_of(alignment) {
            return Err(Error::OffsetMisaligned(format!(
                "The data of `{}` is at offset {}; expected a multiple of {alignment}.",
                entry.name, entry.offset
            )));
        }
        let end = entry.offset.checked_add(entry.n_bytes);
        let file_end = end.and_then(|end| end.checked_add(data_start)).filter(|&end| end <= file_bytes);
        let Some(file_end) = file_end else {
            // An offset that a whole file would have had is right, and the file was cut.
            return Err(if end.is_some_and(|end| end <= packed_bytes) {
                Error::Truncated(format!(
                    "The file ends inside the tensor `{}`: found {file_bytes} bytes, expected at least {}.",
                    entry.name,
                    data_start + entry.offset + entry.n_bytes
                ))
            } else {
                Error::OffsetOutOfRange(format!(
                    "The data of `{}` is {} bytes at offset {}; expected it inside the {} bytes of the data section.",
                    entry.name,
                    entry.n_bytes,
                    entry.offset,
                    file_bytes.saturating_sub(data_start)
                ))
            });
        };
        // A file that is still coming may be longer than memory: then nothing of it past that can be computed with.
        let in_memory = |position: u64| {
            usize::try_from(position).map_err(|_| {
                Error::TooLarge(format!(
                    "`{}` ends at byte {position}; this engine has an address space of 4 GiB.",
                    entry.name
                ))
            })
        };
        let bytes = in_memory(file_end - entry.n_bytes)?..in_memory(file_end)?;
        tensors.push(TensorInfo { name: entry.name, ty: entry.ty, dims: entry.dims, bytes });
    }
    check_overlaps(&tensors)?;
    Ok(tensors)
}

fn check_overlaps(tensors: &[TensorInfo]) -> Result<()> {
    let mut by_start: Vec<&TensorInfo> = tensors.iter().collect();
    by_start.sort_unstable_by_key(|tensor| tensor.bytes.start);
    match by_start.windows(2).find(|pair| pair[0].bytes.end > pair[1].bytes.start) {
        None => Ok(()),
        Some(pair) => Err(Error::OverlappingTensors(format!(
            "The tensors `{}` and `{}` lie at bytes {:?} and {:?}; expected them apart.",
            pair[0].name, pair[1].name, pair[0].bytes, pair[1].bytes
        ))),
    }
}

fn read_entry(reader: &mut Reader) -> Result<DirectoryEntry> {
    let name = checked_name(reader.string("a tensor name")?)?;
    let dims = read_dims(reader, name)?;
    let ty = checked_type(reader.u32("a tensor type")?, name)?;
    let n_bytes = checked_bytes(ty, &dims, name)?;
    let offset = reader.u64("a tensor offset")?;
    Ok(DirectoryEntry { name: name.to_owned(), ty, dims, n_bytes, offset })
}

fn checked_name(bytes: &[u8]) -> Result<&str> {
    if bytes.is_empty() || bytes.len() > MAX_NAME_BYTES {
        return Err(Error::BadName(format!(
            "Found a tensor name of {} bytes, {}; expected 1 to {MAX_NAME_BYTES}.",
            bytes.len(),
            quoted(bytes)
        )));
    }
    match std::str::from_utf8(bytes) {
        Ok(name) if !name.contains(char::is_control) => Ok(name),
        _ => Err(Error::BadName(format!(
            "Found the tensor name {}; expected UTF-8 without control characters.",
            quoted(bytes)
        ))),
    }
}

fn read_dims(reader: &mut Reader, name: &str) -> Result<Vec<usize>> {
    let n_dims = reader.u32("the dimensions of a tensor")?;
    if !(1..=MAX_DIMS).contains(&n_dims) {
        return Err(Error::BadDims(format!("`{name}` has {n_dims} dimensions; expected 1 to {MAX_DIMS}.")));
    }
    let mut dims = Vec::new();
    for _ in 0..n_dims {
        let dim = reader.u64("the dimensions of a tensor")?;
        if dim == 0 {
            return Err(Error::BadDims(format!("`{name}` has a dimension of size 0; expected at least 1.")));
        }
        match usize::try_from(dim) {
            Ok(size) if dim <= MAX_DIM => dims.push(size),
            _ => {
                return Err(Error::DimTooLarge(format!(
                    "`{name}` has a dimension of size {dim}; expected at most {MAX_DIM}."
                )));
            }
        }
    }
    Ok(dims)
}

fn checked_type(number: u32, name: &str) -> Result<GgmlType> {
    GgmlType::from_number(number).ok_or_else(|| match GgmlType::unsupported_name(number) {
        Some(format) => Error::UnsupportedQuantization(format!(
            "`{name}` is stored as {format}, which this engine cannot compute with; expected one it can, such as Q4_1."
        )),
        None => Error::BadType(format!("`{name}` has tensor type {number}; expected a type that ggml defines.")),
    })
}

/// Bytes of a tensor, once its shape is known to be whole blocks and to fit 32 bits.
fn checked_bytes(ty: GgmlType, dims: &[usize], name: &str) -> Result<u64> {
    let overflow = |size: &str| {
        Error::ShapeOverflow(format!(
            "`{name}` has shape {dims:?}, {size}; expected at most {MAX_TENSOR_SIZE} of either."
        ))
    };
    let n_elements = dims
        .iter()
        .try_fold(1u64, |product, &dim| product.checked_mul(dim as u64))
        .filter(|&n| n <= MAX_TENSOR_SIZE)
        .ok_or_else(|| overflow("too many elements"))?;
    if !dims[0].is_multiple_of(ty.block_len()) {
        return Err(Error::BlockMismatch(format!(
            "`{name}` has rows of {} values; expected whole blocks of {} for {}.",
            dims[0],
            ty.block_len(),
            ty.name()
        )));
    }
    // 32-bit counts times a block of a few hundred bytes: cannot wrap.
    let n_bytes = n_elements / ty.block_len() as u64 * ty.block_bytes() as u64;
    if n_bytes > MAX_TENSOR_SIZE { Err(overflow("too many bytes")) } else { Ok(n_bytes) }
}
