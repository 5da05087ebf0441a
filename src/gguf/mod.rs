//! GGUF v2 and v3: bytes -> header, metadata, tensor directory, all validated before anything is allocated for it.
//!
//! ```text
//! magic u32 | version u32 | n_tensors u64 | n_entries u64 | metadata entries | tensor directory | padding | data
//! ```
//!
//! Little-endian throughout. Source: the GGUF specification in the ggml repository (docs/gguf.md).
//!
//! Invariant: knows the file format only; no model, no GPU, no DOM.

mod directory;
mod metadata;
mod reader;
mod split;
mod value;

pub use directory::TensorInfo;
pub use metadata::Metadata;
pub use split::{SplitNo, part_names};
pub use value::{Array, Value};

use crate::error::{Error, Result, quoted};
use crate::quant::GgmlType;
use reader::Reader;
use std::collections::{BTreeMap, HashMap};

const MAGIC: &[u8; 4] = b"GGUF";
/// More than the largest models have, and few enough that a directory of them stays small in memory.
const MAX_ENTRIES: u64 = 65_536;

/// What a GGUF file says about itself; the tensors' data stays in the file.
#[derive(Debug, Clone, PartialEq)]
pub struct Gguf {
    pub version: u32,
    pub metadata: Metadata,
    /// In the order of the file's directory.
    pub tensors: Vec<TensorInfo>,
    /// Tensor name -> place in `tensors`.
    index: BTreeMap<String, usize>,
}

impl Gguf {
    /// Reads and validates everything but the tensors' data; `bytes` is the whole file.
    ///
    /// On success every tensor's bytes lie inside the file, are aligned, and overlap no other tensor's. Errors: the
    /// kinds of rows 1 to 14 in the table of refusals (`truncated` to `overlapping-tensors` in [`Error`]).
    pub fn parse(bytes: &[u8]) -> Result<Self> {
        Self::read(&mut Reader::new(bytes, bytes.len() as u64))
    }

    /// The same of a file that is still coming, `bytes` so far: none while the header has not come to its end. `file_bytes`: of
    /// the whole file, where that is known; otherwise the file is taken to be long enough for all that the header says.
    ///
    /// What the bytes so far rule out is refused at once, with the error that the whole file would get.
    pub fn parse_prefix(bytes: &[u8], file_bytes: Option<u64>) -> Result<Option<Self>> {
        let file_bytes = file_bytes.unwrap_or(u64::MAX).max(bytes.len() as u64);
        let mut reader = Reader::new(bytes, file_bytes);
        match Self::read(&mut reader) {
            Err(_) if reader.is_short() => Ok(None),
            read => read.map(Some),
        }
    }

    fn read(reader: &mut Reader) -> Result<Self> {
        if reader.has(MAGIC.len() as u64) || !reader.is_short() {
            check_magic(reader.rest())?;
        }
        reader.take(MAGIC.len() as u64, "the magic number")?;
        let version = checked_version(reader.u32("the version")?)?;
        let n_tensors = checked_count(reader.u64("the tensor count")?, "tensors")?;
        let n_entries = checked_count(reader.u64("the metadata count")?, "metadata entries")?;

        let metadata = counted(reader, n_entries, Metadata::MIN_ENTRY_BYTES, "metadata entries", Metadata::read)?;
        let alignment = alignment(&metadata)?;
        let entries = counted(reader, n_tensors, directory::MIN_ENTRY_BYTES, "tensors", directory::read)?;
        let index = directory::index(&entries)?;
        let data_start = (reader.position() as u64).next_multiple_of(alignment);
        let tensors = directory::lay_out(entries, data_start, alignment, reader.file_bytes())?;
        Ok(Self { version, metadata, tensors, index })
    }

    pub fn tensor(&self, name: &str) -> Option<&TensorInfo> {
        self.index.get(name).map(|&i| &self.tensors[i])
    }

    /// Where the last tensor ends, in bytes from the start of the file.
    pub fn data_end(&self) -> usize {
        self.tensors.iter().map(|tensor| tensor.bytes.end).max().unwrap_or(0)
    }

    /// The format that takes the most bytes; none in a file without tensors.
    pub fn commonest_type(&self) -> Option<GgmlType> {
        let mut n_bytes = HashMap::<GgmlType, usize>::new();
        for tensor in &self.tensors {
            *n_bytes.entry(tensor.ty).or_default() += tensor.bytes.len();
        }
        n_bytes.into_iter().max_by_key(|(ty, n)| (*n, ty.name())).map(|(ty, _)| ty)
    }
}

/// Refuses a file that does not begin as a GGUF file does, and says what it looks like instead. The first few hundred
/// bytes are enough.
///
/// Errors: `truncated` below 4 bytes, else `not-gguf`.
pub fn check_magic(bytes: &[u8]) -> Result<()> {
    let Some(magic) = bytes.first_chunk::<4>() else {
        return Err(Error::Truncated(format!("The file has {} bytes; expected a GGUF file.", bytes.len())));
    };
    if magic == MAGIC {
        return Ok(());
    }
    let likeness = match likeness(bytes) {
        Some(likeness) => format!("looks like {likeness}"),
        None => format!("begins with {}", quoted(magic)),
    };
    Err(Error::NotGguf(format!("The file {likeness}; expected a GGUF file, which begins with `GGUF`.")))
}

/// What people most often hand in instead of a GGUF file.
fn likeness(bytes: &[u8]) -> Option<&'static str> {
    const SIGNATURES: [(&[u8], &str); 9] = [
        (b"\x1f\x8b", "a gzip archive"),
        (b"PK", "a zip archive (or a PyTorch checkpoint)"),
        (b"FUGG", "a GGUF file with its bytes swapped"),
        (b"lmgg", "a GGML file, the format before GGUF"),
        (b"fmgg", "a GGML file, the format before GGUF"),
        (b"tjgg", "a GGML file, the format before GGUF"),
        (b"version https://git-lfs", "a Git LFS pointer, not the file it points to"),
        (b"{", "JSON"),
        (b"[", "JSON"),
    ];
    let text = bytes.trim_ascii_start();
    if text.starts_with(b"<") {
        return Some("an HTML page");
    }
    // A safetensors file is a u64 length and JSON.
    if bytes.get(8) == Some(&b'{') && bytes[4..8] == [0; 4] {
        return Some("a safetensors file");
    }
    SIGNATURES.iter().find(|(start, _)| text.starts_with(start)).map(|&(_, likeness)| likeness)
}

fn checked_version(version: u32) -> Result<u32> {
    match version {
        2 | 3 => Ok(version),
        // Small numbers whose bytes came in the other order.
        _ if version != 0 && version & 0xffff == 0 => Err(Error::WrongEndian(format!(
            "Found GGUF version {version:#010x}, a big-endian file; expected a little-endian one."
        ))),
        _ => Err(Error::UnsupportedVersion(format!("Found GGUF version {version}; expected 2 or 3."))),
    }
}

fn checked_count(count: u64, what: &str) -> Result<u64> {
    if count > MAX_ENTRIES {
        return Err(Error::CountTooLarge(format!("Found a count of {count} {what}; expected at most {MAX_ENTRIES}.")));
    }
    Ok(count)
}

/// Reads `count` entries of at least `min_entry_bytes` each.
///
/// A count that the rest of the file cannot hold has two causes, and only the entries tell them apart. Where they are
/// sound up to the end of the file, the file was cut (`truncated`); where something else follows them, the count is
/// wrong (`count-too-large`). `read` allocates per entry, never by the count.
fn counted<T>(
    reader: &mut Reader,
    count: u64,
    min_entry_bytes: u64,
    what: &str,
    read: impl FnOnce(&mut Reader, u64) -> Result<T>,
) -> Result<T> {
    let most = reader.remaining() / min_entry_bytes;
    match read(reader, count) {
        Err(error) if count > most && !matches!(error, Error::Truncated(_)) => Err(Error::CountTooLarge(format!(
            "Found a count of {count} {what}; expected at most the {most} that the rest of the file can hold."
        ))),
        result => result,
    }
}

/// `general.alignment`: of the data section and of every tensor in it, bytes.
fn alignment(metadata: &Metadata) -> Result<u64> {
    const KEY: &str = "general.alignment";
    const DEFAULT: u64 = 32;
    // At least 8 by the specification, which also lets every F32 tensor be used in place.
    const ALLOWED: std::ops::RangeInclusive<u32> = 8..=65_536;
    match metadata.get(KEY) {
        None => Ok(DEFAULT),
        Some(&Value::U32(alignment)) if alignment.is_power_of_two() && ALLOWED.contains(&alignment) => {
            Ok(alignment.into())
        }
        Some(Value::U32(alignment)) => Err(Error::BadAlignment(format!(
            "`{KEY}` is {alignment}; expected a power of two from {} to {}.",
            ALLOWED.start(),
            ALLOWED.end()
        ))),
        Some(value) => Err(Error::BadAlignment(format!("`{KEY}` has type {}; expected u32.", value.type_name()))),
    }
}
