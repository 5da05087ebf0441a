//! What is kept in this browser, in words.
//!
//! Invariant: pure; from records to strings.

use super::words::{bytes, count, shortened};
use crate::kept::Record;
use crate::protocol::Source;

/// All of it in one line. `quota`: what the browser would let this page store, where it says.
pub fn summary(records: &[Record], quota: Option<u64>) -> String {
    if records.is_empty() {
        return "Nothing is kept in this browser".to_owned();
    }
    let total = records.iter().map(|record| record.bytes).sum();
    let of = quota.map_or(String::new(), |quota| format!(" of {} that it allows", bytes(quota)));
    format!("Kept in this browser: {}, {}{of}", count(records.len() as u64, "file"), bytes(total))
}

/// One file: how much of it, and since when. `date` is the day in words.
pub fn describe(record: &Record, date: &str) -> String {
    let amount = match record.version.as_ref().and_then(|version| version.total) {
        _ if record.is_complete => bytes(record.bytes),
        Some(total) => format!("the first {} of {}", bytes(record.bytes), bytes(total)),
        None => format!("the first {}", bytes(record.bytes)),
    };
    format!("{amount} · {date}")
}

/// The file's own name.
pub fn name(record: &Record) -> String {
    shortened(Source::Url(record.url.clone()).file_name())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kept::Version;

    fn record(bytes: u64, is_complete: bool) -> Record {
        let version = Some(Version { validator: "\"x\"".into(), total: Some(98_000_000) });
        let url = "https://host/a/model.gguf?download=true".into();
        Record { url, bytes, sha256: String::new(), is_complete, version, saved_at: 0.0 }
    }

    #[test]
    fn what_is_kept_is_named_counted_and_added_up() {
        let records = [record(98_000_000, true), record(49_000_000, false)];
        let said = |quota| summary(&records, quota).replace('\u{a0}', " ");
        assert_eq!(said(None), "Kept in this browser: 2 files, 147 MB");
        assert_eq!(said(Some(12_000_000_000)), "Kept in this browser: 2 files, 147 MB of 12.00 GB that it allows");
        assert_eq!(summary(&[], Some(1)), "Nothing is kept in this browser");
        assert_eq!(name(&records[0]), "model.gguf");
        assert_eq!(describe(&records[0], "today").replace('\u{a0}', " "), "98 MB · today");
        assert_eq!(describe(&records[1], "today").replace('\u{a0}', " "), "the first 49 MB of 98 MB · today");
    }
}
