//! URL or local file -> bytes, in pieces as they arrive.
//!
//! Invariant: knows HTTP and Blobs, not GGUF; keeps no bytes. Runs in a worker only.

use crate::error::{Error, Result};
use js_sys::Uint8Array;
use wasm_bindgen::{JsCast, JsValue};
use wasm_bindgen_futures::JsFuture;
use web_sys::{AbortSignal, Blob, ReadableStreamDefaultReader, RequestInit, Response, WorkerGlobalScope};

/// Bytes read from a local file at a time.
const SLICE: f64 = 8e6;

/// Takes a file's bytes in order, as they arrive. An error ends the transfer with it.
pub trait Sink {
    /// The file begins with its first byte; what came before is void. `total`: its bytes, if known.
    fn begin(&mut self, total: Option<u64>) -> Result<()>;

    /// The next bytes.
    fn take(&mut self, chunk: &Uint8Array) -> Result<()>;
}

/// Fetches `url`. Errors: `http-status`, `network`, `cancelled` by `signal`, `truncated` when it ends early, or the sink's.
pub async fn url(url: &str, signal: &AbortSignal, sink: &mut impl Sink) -> Result<()> {
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
    sink.begin(total)?;
    let mut received = 0;
    if let Some(body) = response.body() {
        let reader: ReadableStreamDefaultReader = body.get_reader().unchecked_into();
        loop {
            let chunk = JsFuture::from(reader.read()).await.map_err(failed)?;
            let value = js_sys::Reflect::get(&chunk, &"value".into()).unwrap_or(JsValue::UNDEFINED);
            let Some(chunk) = value.dyn_ref::<Uint8Array>() else { break };
            received += u64::from(chunk.length());
            if let Err(error) = sink.take(chunk) {
                // The transfer is over either way; how the stream takes the news changes nothing.
                drop(reader.cancel());
                return Err(error);
            }
        }
    }
    match total {
        Some(total) if total > received => {
            Err(Error::Truncated(format!("{url} ended after {received} of {total} bytes.")))
        }
        _ => Ok(()),
    }
}

/// Reads a local file. Errors: `network` when the browser cannot read it, or the sink's.
pub async fn blob(blob: &Blob, sink: &mut impl Sink) -> Result<()> {
    let unreadable =
        |_| Error::Network("The browser could not read the file. It may have been moved or changed.".into());
    let size = blob.size();
    sink.begin(Some(size as u64))?;
    let mut at = 0.0;
    while at < size {
        let end = (at + SLICE).min(size);
        let slice = blob.slice_with_f64_and_f64(at, end).map_err(unreadable)?;
        let buffer = JsFuture::from(slice.array_buffer()).await.map_err(unreadable)?;
        sink.take(&Uint8Array::new(&buffer))?;
        at = end;
    }
    Ok(())
}

/// The body's length, if the header speaks of the bytes that will arrive: not of compressed ones.
fn content_length(response: &Response) -> Option<u64> {
    let header = |name: &str| response.headers().get(name).ok().flatten();
    match header("content-encoding").as_deref() {
        None | Some("identity") => header("content-length")?.parse().ok(),
        Some(_) => None,
    }
}
