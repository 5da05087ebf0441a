//! URL or local file -> bytes, with honest progress.
//!
//! Invariant: knows HTTP and Blobs, not GGUF; the caller says after the first bytes whether to go on. Runs in a worker only.

use crate::error::{Error, Result};
use js_sys::Uint8Array;
use wasm_bindgen::{JsCast, JsValue};
use wasm_bindgen_futures::JsFuture;
use web_sys::{AbortSignal, Blob, ReadableStreamDefaultReader, RequestInit, Response, WorkerGlobalScope};

/// Bytes read from a local file at a time.
const SLICE: f64 = 8e6;

/// Looks on while bytes arrive.
pub trait Observer {
    /// `bytes` is all that has arrived, `total` what is expected, if known. An error ends the transfer with it.
    fn arrived(&mut self, bytes: &[u8], total: Option<u64>) -> Result<()>;
}

/// Fetches `url`. Errors: `http-status`, `network`, `cancelled` by `signal`, `truncated` when it ends early, `too-large`, or the
/// observer's.
pub async fn url(url: &str, signal: &AbortSignal, observer: &mut impl Observer) -> Result<Vec<u8>> {
    let failed = |error: JsValue| {
        if signal.aborted() {
            return Error::Cancelled("Loading was stopped.".into());
        }
        let reason = error.dyn_ref::<js_sys::Error>().map_or_else(String::new, |error| String::from(error.message()));
        Error::Network(format!(
            "{url} could not be fetched ({reason}). The server may be out of reach, or not allow other sites to read the file (CORS)."
        ))
    };
    let scope: WorkerGlobalScope = js_sys::global().unchecked_into();
    let options = RequestInit::new();
    options.set_signal(Some(signal));
    let request = scope.fetch_with_str_and_init(url, &options);
    let response: Response = JsFuture::from(request).await.map_err(failed)?.unchecked_into();
    if !response.ok() {
        let (status, text) = (response.status(), response.status_text());
        return Err(Error::HttpStatus(format!("{url} answered {status} {text}; expected 200 and a GGUF file.")));
    }
    let total = content_length(&response);
    let mut bytes = Vec::new();
    if let Some(body) = response.body() {
        let reader: ReadableStreamDefaultReader = body.get_reader().unchecked_into();
        loop {
            let chunk = JsFuture::from(reader.read()).await.map_err(failed)?;
            let value = js_sys::Reflect::get(&chunk, &"value".into()).unwrap_or(JsValue::UNDEFINED);
            let Some(value) = value.dyn_ref::<Uint8Array>() else { break };
            append(&mut bytes, value)?;
            // Past what was announced, nothing is known of the total.
            let total = total.filter(|&total| total >= bytes.len() as u64);
            if let Err(error) = observer.arrived(&bytes, total) {
                // The transfer is over either way; how the stream takes the news changes nothing.
                drop(reader.cancel());
                return Err(error);
            }
            // All the room at once, but only for a file that the observer has let pass.
            reserve(&mut bytes, total.unwrap_or(0))?;
        }
    }
    match total {
        Some(total) if total > bytes.len() as u64 => {
            let got = bytes.len();
            Err(Error::Truncated(format!("{url} ended after {got} of {total} bytes.")))
        }
        _ => Ok(bytes),
    }
}

/// Reads a local file. Errors: `network` when the browser cannot read it, `too-large`, or the observer's.
pub async fn blob(blob: &Blob, observer: &mut impl Observer) -> Result<Vec<u8>> {
    let unreadable =
        |_| Error::Network("The browser could not read the file. It may have been moved or changed.".into());
    let size = blob.size();
    let mut bytes = Vec::new();
    let mut at = 0.0;
    while at < size {
        let end = (at + SLICE).min(size);
        let slice = blob.slice_with_f64_and_f64(at, end).map_err(unreadable)?;
        let buffer = JsFuture::from(slice.array_buffer()).await.map_err(unreadable)?;
        append(&mut bytes, &Uint8Array::new(&buffer))?;
        observer.arrived(&bytes, Some(size as u64))?;
        reserve(&mut bytes, size as u64)?;
        at = end;
    }
    Ok(bytes)
}

/// The body's length, if the header speaks of the bytes that will arrive: not of compressed ones.
fn content_length(response: &Response) -> Option<u64> {
    let header = |name: &str| response.headers().get(name).ok().flatten();
    match header("content-encoding").as_deref() {
        None | Some("identity") => header("content-length")?.parse().ok(),
        Some(_) => None,
    }
}

fn too_large(n: u64) -> Error {
    Error::TooLarge(format!("The file has {n} bytes; there is no memory for them in this browser."))
}

/// Room for `total` bytes in all.
fn reserve(bytes: &mut Vec<u8>, total: u64) -> Result<()> {
    let n = usize::try_from(total).map_err(|_| too_large(total))?;
    bytes.try_reserve_exact(n.saturating_sub(bytes.len())).map_err(|_| too_large(total))
}

fn append(bytes: &mut Vec<u8>, chunk: &Uint8Array) -> Result<()> {
    let (start, n) = (bytes.len(), chunk.length() as usize);
    bytes.try_reserve(n).map_err(|_| too_large((start + n) as u64))?;
    bytes.resize(start + n, 0);
    chunk.copy_to(&mut bytes[start..]);
    Ok(())
}
