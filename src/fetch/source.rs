//! Where a file comes from: the kept copy, the network, or the reader's own disk.
//!
//! Invariant: a kept copy counts only when the hash over all that was read is the one it was stored with.

use super::download::download;
use super::store::Entry;
use super::transfer::{Hash, Transfer};
use crate::error::{Error, Result};
use crate::kept::{Folder, Record, key, without_fragment};
use crate::protocol::LoadPhase;
use js_sys::Uint8Array;
use wasm_bindgen_futures::JsFuture;
use web_sys::{AbortSignal, Blob};

/// Bytes read from a file at a time.
const SLICE: f64 = 8e6;

/// Takes a file's bytes in order, as they arrive. An error ends the transfer with it.
pub trait Sink {
    /// The file begins with its first byte; what came before is void. `total`: its bytes, if known. `is_certain`: nothing may be
    /// refused for that total otherwise, since it may be that of a compressed file.
    fn begin(&mut self, total: Option<u64>, is_certain: bool) -> Result<()>;

    /// The next bytes.
    fn take(&mut self, chunk: &Uint8Array) -> Result<()>;

    /// What follows comes from elsewhere: the network, the cache; or nothing follows until a lost connection is back.
    fn phase(&mut self, _phase: LoadPhase) {}
}

/// What is to be fetched, and how.
pub struct Request<'a> {
    pub url: &'a str,
    /// Aborted when the reader stops the load.
    pub stop: &'a AbortSignal,
    /// Read the kept copy, and keep one.
    pub cache: bool,
    /// Of the file, lower-case hex.
    pub sha256: Option<&'a str>,
}

/// How a file came.
pub struct Fetched {
    /// Lower-case hex.
    pub sha256: String,
    pub from_cache: bool,
    /// What the reader should know of the cache, as sentences.
    pub notice: Option<String>,
}

/// Fetches a URL. Errors: `http-status`, `network`, `hash-mismatch`, `cancelled`, or the sink's; then nothing of the file stays
/// kept, except a part of it that can be gone on with.
pub async fn url(request: Request<'_>, sink: &mut impl Sink) -> Result<Fetched> {
    let mut notices = Vec::new();
    let mut entry = None;
    // Other schemes, such as blob:, are gone with the page.
    if request.cache && request.url.starts_with("http") {
        match Folder::open().await {
            None => notices.push("This browser keeps no files for this page: the next visit loads it again.".into()),
            Some(folder) => {
                match kept_copy(&folder, &request, sink).await? {
                    KeptCopy::Whole(sha256) => return Ok(Fetched { sha256, from_cache: true, notice: None }),
                    KeptCopy::Broken => {
                        folder.remove(&key(request.url)).await;
                        notices
                            .push("The kept copy was damaged: it was deleted, and the file was fetched again.".into());
                    }
                    KeptCopy::None => {}
                }
                entry = Entry::open(folder, request.url, request.stop).await;
                if entry.is_none() {
                    notices.push("The file was not kept: another tab is storing it, or this browser cannot.".into());
                }
            }
        }
    }
    let mut transfer = Transfer::new(sink, entry);
    transfer.notices = notices;
    let sha256 = match download(&request, &mut transfer).await {
        Ok(()) => transfer.hash.hex(),
        Err(error) => {
            match &error {
                Error::Cancelled(_) | Error::Network(_) | Error::HttpStatus(_) => transfer.interrupt().await,
                // The file is not what it should be.
                _ => transfer.discard().await,
            }
            return Err(error);
        }
    };
    if let Err(error) = check_sha256(&sha256, request.sha256) {
        transfer.discard().await;
        return Err(error);
    }
    transfer.commit().await;
    let notices = std::mem::take(&mut transfer.notices);
    Ok(Fetched { sha256, from_cache: false, notice: (!notices.is_empty()).then(|| notices.join(" ")) })
}

/// Reads a local file. Errors: `network` when the browser cannot read it, `hash-mismatch`, or the sink's.
pub async fn blob(blob: &Blob, sha256: Option<&str>, sink: &mut impl Sink) -> Result<Fetched> {
    let mut hash = Hash::default();
    sink.begin(Some(blob.size() as u64), true)?;
    let mut at = 0.0;
    while let Some(chunk) = slice(blob, at).await? {
        sink.take(&chunk)?;
        hash.update(&chunk);
        at += f64::from(chunk.length());
    }
    let found = hash.hex();
    check_sha256(&found, sha256)?;
    Ok(Fetched { sha256: found, from_cache: false, notice: None })
}

/// Deletes the kept copy of a file that was refused for what is in it.
pub async fn forget_refused(url: &str, error: &Error) {
    let may_load_otherwise = matches!(
        error,
        Error::Cancelled(_)
            | Error::BadOption(_)
            | Error::TooLarge(_)
            | Error::Backend(_)
            | Error::DeviceLost(_)
            | Error::Network(_)
            | Error::HttpStatus(_)
    );
    if !may_load_otherwise && let Some(folder) = Folder::open().await {
        folder.remove(&key(url)).await;
    }
}

enum KeptCopy {
    /// Read in full, with this hash.
    Whole(String),
    Broken,
    None,
}

/// Gives the kept copy to the sink, if there is one of what is asked for.
async fn kept_copy(folder: &Folder, request: &Request<'_>, sink: &mut impl Sink) -> Result<KeptCopy> {
    let key = key(request.url);
    let Some(record) = folder.record(&key).await else { return Ok(KeptCopy::None) };
    let is_wanted = request.sha256.is_none_or(|expected| expected.eq_ignore_ascii_case(&record.sha256));
    if !record.is_complete || record.url != without_fragment(request.url) || !is_wanted {
        return Ok(KeptCopy::None);
    }
    match folder.data(&key).await {
        Some(data) if data.size() as u64 == record.bytes => read_kept(&data, record, sink).await,
        _ => Ok(KeptCopy::Broken),
    }
}

async fn read_kept(data: &Blob, record: Record, sink: &mut impl Sink) -> Result<KeptCopy> {
    sink.phase(LoadPhase::Cache);
    let mut refused = sink.begin(Some(record.bytes), true).err();
    let mut hash = Hash::default();
    let mut at = 0.0;
    loop {
        // A copy that cannot be read is as good as broken.
        let Ok(chunk) = slice(data, at).await else { return Ok(KeptCopy::Broken) };
        let Some(chunk) = chunk else { break };
        hash.update(&chunk);
        if refused.is_none() {
            refused = sink.take(&chunk).err();
        }
        if let Some(error @ (Error::Cancelled(_) | Error::TooLarge(_))) = refused {
            return Err(error);
        }
        at += f64::from(chunk.length());
    }
    // What the sink says of broken bytes is not said of the file.
    match refused {
        _ if hash.hex() != record.sha256 => Ok(KeptCopy::Broken),
        Some(error) => Err(error),
        None => Ok(KeptCopy::Whole(record.sha256)),
    }
}

/// The next bytes of a file; none at its end.
async fn slice(blob: &Blob, at: f64) -> Result<Option<Uint8Array>> {
    let unreadable =
        |_| Error::Network("The browser could not read the file. It may have been moved or changed.".into());
    if at >= blob.size() {
        return Ok(None);
    }
    let end = (at + SLICE).min(blob.size());
    let slice = blob.slice_with_f64_and_f64(at, end).map_err(unreadable)?;
    let buffer = JsFuture::from(slice.array_buffer()).await.map_err(unreadable)?;
    Ok(Some(Uint8Array::new(&buffer)))
}

/// Errors: `hash-mismatch`.
pub fn check_sha256(found: &str, expected: Option<&str>) -> Result<()> {
    match expected {
        Some(expected) if !found.eq_ignore_ascii_case(expected) => {
            Err(Error::HashMismatch(format!("The file's SHA-256 is {found}; expected {expected}.")))
        }
        _ => Ok(()),
    }
}
