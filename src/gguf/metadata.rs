//! The key-value pairs of a file, and typed access to them.
//!
//! Invariant: knows no key by meaning.

use super::reader::Reader;
use super::value::{Array, Decoder, Value};
use crate::error::{Error, Result, quoted};
use std::collections::BTreeMap;

const MAX_KEY_BYTES: usize = 65_535;

/// The metadata of a file. The typed getters return `None` for a key that is absent, and `bad-type` or `bad-value`,
/// which name the key, for a value that is not as asked for.
#[derive(Debug, Clone, PartialEq)]
pub struct Metadata {
    entries: BTreeMap<String, Value>,
}

impl Metadata {
    pub fn get(&self, key: &str) -> Option<&Value> {
        self.entries.get(key)
    }

    /// An integer of any type that is not negative.
    pub fn unsigned(&self, key: &str) -> Result<Option<u64>> {
        let Some(integer) = self.typed(key, "an integer", Value::as_integer)? else { return Ok(None) };
        match u64::try_from(integer) {
            Ok(unsigned) => Ok(Some(unsigned)),
            Err(_) => Err(Error::BadValue(format!("`{key}` is {integer}; expected an integer that is not negative."))),
        }
    }

    pub fn float(&self, key: &str) -> Result<Option<f64>> {
        self.typed(key, "f32 or f64", |value| match *value {
            Value::F32(v) => Some(v.into()),
            Value::F64(v) => Some(v),
            _ => None,
        })
    }

    pub fn boolean(&self, key: &str) -> Result<Option<bool>> {
        self.typed(key, "bool", |value| match *value {
            Value::Bool(v) => Some(v),
            _ => None,
        })
    }

    pub fn string(&self, key: &str) -> Result<Option<&str>> {
        self.typed(key, "string", |value| match value {
            Value::String(v) => Some(v.as_str()),
            _ => None,
        })
    }

    pub fn strings(&self, key: &str) -> Result<Option<&[String]>> {
        self.typed(key, "array of string", |value| match value {
            Value::Array(Array::String(v)) => Some(v.as_slice()),
            _ => None,
        })
    }

    /// An array of any integer type; an i128 holds them all.
    pub fn integers(&self, key: &str) -> Result<Option<impl ExactSizeIterator<Item = i128>>> {
        let array = self.typed(key, "array of integers", |value| match value {
            Value::Array(array) if array.is_integer() => Some(array),
            _ => None,
        })?;
        Ok(array.map(|array| {
            (0..array.len()).map(|i| array.integer(i).expect("the array is of integers and i is below its length"))
        }))
    }

    /// An array of f32.
    pub fn floats(&self, key: &str) -> Result<Option<&[f32]>> {
        self.typed(key, "array of f32", |value| match value {
            Value::Array(Array::F32(v)) => Some(v.as_slice()),
            _ => None,
        })
    }

    fn typed<'a, T>(
        &'a self,
        key: &str,
        expected: &str,
        pick: impl FnOnce(&'a Value) -> Option<T>,
    ) -> Result<Option<T>> {
        let Some(value) = self.get(key) else { return Ok(None) };
        match pick(value) {
            Some(picked) => Ok(Some(picked)),
            None => Err(Error::BadType(format!("`{key}` has type {}; expected {expected}.", value.type_name()))),
        }
    }

    /// Key length, one byte of key, type, one byte of value.
    pub(super) const MIN_ENTRY_BYTES: u64 = 8 + 1 + 4 + 1;

    pub(super) fn read(reader: &mut Reader, n_entries: u64) -> Result<Self> {
        let mut decoder = Decoder::new(reader);
        let mut entries = BTreeMap::new();
        for _ in 0..n_entries {
            let key = checked_key(decoder.string_bytes("a metadata key")?)?;
            if entries.contains_key(key) {
                return Err(Error::DuplicateKey(format!(
                    "Found the metadata key {} twice; expected each key once.",
                    quoted(key)
                )));
            }
            let value = decoder.value(&quoted(key))?;
            entries.insert(key.to_owned(), value);
        }
        Ok(Self { entries })
    }
}

/// Control characters are refused because a NUL would end the key for readers written in C, which would then see
/// another one.
fn checked_key(bytes: &[u8]) -> Result<&str> {
    let found = || quoted(bytes);
    if bytes.is_empty() || bytes.len() > MAX_KEY_BYTES {
        return Err(Error::BadKey(format!(
            "Found a metadata key of {} bytes, {}; expected 1 to {MAX_KEY_BYTES}.",
            bytes.len(),
            found()
        )));
    }
    match std::str::from_utf8(bytes) {
        Ok(key) if !key.contains(char::is_control) => Ok(key),
        _ => Err(Error::BadKey(format!(
            "Found the metadata key {}; expected UTF-8 without control characters.",
            found()
        ))),
    }
}
