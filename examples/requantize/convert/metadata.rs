//! The key-value pairs of a GGUF file as bytes, so that they are copied without being understood.
//!
//! Invariant: `Gguf::parse` has accepted the file before anything here reads it; lengths are trusted for that reason only.

use std::borrow::Cow;

/// Value type numbers of GGUF that are not one number of fixed size.
const STRING: u32 = 8;
const ARRAY: u32 = 9;
const U32: u32 = 4;

pub struct Entry<'a> {
    key: &'a [u8],
    /// Type number and value, as they lie in the file.
    value: Cow<'a, [u8]>,
}

/// All entries of `file`, a valid GGUF file, in its order.
pub fn entries(file: &[u8]) -> Vec<Entry<'_>> {
    // Magic, version, tensor count.
    let mut rest = &file[4 + 4 + 8..];
    let n_entries = take_u64(&mut rest);
    (0..n_entries)
        .map(|_| {
            let key = take_string(&mut rest);
            let value = rest;
            let ty = take_u32(&mut rest);
            skip_value(&mut rest, ty);
            Entry { key, value: Cow::Borrowed(&value[..value.len() - rest.len()]) }
        })
        .collect()
}

/// Replaces the value of `key` in its place, or adds the entry at the end.
pub fn set_u32(entries: &mut Vec<Entry>, key: &'static str, value: u32) {
    let value = Cow::Owned([U32.to_le_bytes(), value.to_le_bytes()].concat());
    match entries.iter_mut().find(|entry| entry.key == key.as_bytes()) {
        Some(entry) => entry.value = value,
        None => entries.push(Entry { key: key.as_bytes(), value }),
    }
}

pub fn write(entries: &[Entry], out: &mut Vec<u8>) {
    for entry in entries {
        write_string(entry.key, out);
        out.extend_from_slice(&entry.value);
    }
}

/// A u64 length and as many bytes.
pub fn write_string(bytes: &[u8], out: &mut Vec<u8>) {
    out.extend((bytes.len() as u64).to_le_bytes());
    out.extend_from_slice(bytes);
}

fn skip_value(rest: &mut &[u8], ty: u32) {
    match ty {
        STRING => {
            take_string(rest);
        }
        ARRAY => {
            let element_ty = take_u32(rest);
            for _ in 0..take_u64(rest) {
                skip_value(rest, element_ty);
            }
        }
        _ => {
            let n_bytes = match ty {
                0 | 1 | 7 => 1,
                2 | 3 => 2,
                4..=6 => 4,
                10..=12 => 8,
                _ => unreachable!("a parsed file has no value of type {ty}"),
            };
            take(rest, n_bytes);
        }
    }
}

fn take_string<'a>(rest: &mut &'a [u8]) -> &'a [u8] {
    let n_bytes = take_u64(rest);
    take(rest, n_bytes)
}

fn take_u32(rest: &mut &[u8]) -> u32 {
    u32::from_le_bytes(take(rest, 4).try_into().expect("take returns the length it was asked for"))
}

fn take_u64(rest: &mut &[u8]) -> u64 {
    u64::from_le_bytes(take(rest, 8).try_into().expect("take returns the length it was asked for"))
}

fn take<'a>(rest: &mut &'a [u8], n_bytes: u64) -> &'a [u8] {
    let n_bytes = usize::try_from(n_bytes).expect("a parsed file lies in memory with all its lengths");
    rest.split_off(..n_bytes).expect("a parsed file holds all its metadata")
}
