//! Model files kept for the next visit, in the browser's private file system: how they lie there, and what is known of each.
//!
//! A file is two: `KEY.data`, its bytes, and `KEY.record`, a [`Record`] that says what they are worth. Whoever writes holds both
//! open, which the browser allows only one at a time; whoever reads trusts no byte that the record's hash does not cover.
//!
//! Invariant: knows files and their records, not HTTP and not GGUF. The engine writes, the page lists and deletes.

#[cfg(target_arch = "wasm32")]
mod folder;

#[cfg(target_arch = "wasm32")]
pub use folder::{Folder, storage};

use serde::{Deserialize, Serialize};

/// The folder's name; another layout of records takes another name.
pub const FOLDER: &str = "nucleus-models-1";

/// What a kept file is: all of it, or its first bytes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// Where it came from, without a fragment.
    pub url: String,
    /// Bytes that are known to be good, from the first on.
    pub bytes: u64,
    /// Of these bytes, lower-case hex.
    pub sha256: String,
    /// They are the whole file.
    pub is_complete: bool,
    /// Which version of the file they are of, where the server says so.
    pub version: Option<Version>,
    /// Milliseconds since 1970.
    pub saved_at: f64,
}

/// Which file a server sends under an address: the same validator, the same bytes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Version {
    /// A strong ETag, or the date of the last change.
    pub validator: String,
    /// Bytes of the whole file.
    pub total: Option<u64>,
}

impl Record {
    pub fn to_bytes(&self) -> Vec<u8> {
        postcard::to_stdvec(self).expect("plain data encodes")
    }

    /// None for what is no record, such as one whose writing was cut short.
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        postcard::from_bytes(bytes).ok()
    }
}

/// The file names of `url`, without their endings: FNV-1a, 64 bits. Records name their URL, so a collision only costs a download.
pub fn key(url: &str) -> String {
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    for byte in without_fragment(url).bytes() {
        hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    }
    format!("{hash:016x}")
}

/// The part of a URL that a server sees.
pub fn without_fragment(url: &str) -> &str {
    url.split('#').next().unwrap_or(url)
}

pub fn data_name(key: &str) -> String {
    format!("{key}.data")
}

pub fn record_name(key: &str) -> String {
    format!("{key}.record")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record() -> Record {
        Record {
            url: "https://host/a.gguf".into(),
            bytes: 98_400_000,
            sha256: "ab".repeat(32),
            is_complete: false,
            version: Some(Version { validator: "\"x\"".into(), total: Some(200_000_000) }),
            saved_at: 1.7e12,
        }
    }

    #[test]
    fn a_record_is_read_as_it_was_written_and_not_at_all_when_cut() {
        let bytes = record().to_bytes();
        assert_eq!(Record::from_bytes(&bytes), Some(record()));
        for end in 0..bytes.len() {
            assert_eq!(Record::from_bytes(&bytes[..end]), None, "cut at {end}");
        }
        assert_eq!(Record::from_bytes(b"<!DOCTYPE html>"), None);
    }

    #[test]
    fn a_key_is_the_address_without_its_fragment() {
        assert_eq!(key("https://host/a.gguf#x"), key("https://host/a.gguf"));
        assert_ne!(key("https://host/a.gguf"), key("https://host/a.gguf?v=2"));
        assert_eq!(key(""), "cbf29ce484222325", "FNV-1a's offset basis");
        assert_eq!(key("a"), "af63dc4c8601ec8c", "FNV-1a's own test vector");
    }
}
