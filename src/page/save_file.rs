//! Text that the reader saves as a file.
//!
//! Invariant: the text goes to the browser's download and nowhere else.

use super::dom;
use crate::error::{Error, Result};
use js_sys::Array;
use wasm_bindgen::JsValue;
use web_sys::{Blob, BlobPropertyBag, HtmlAnchorElement, Url};

/// Offers `text` as a download called `name`.
pub fn save_text(name: &str, media_type: &str, text: &str) -> Result<()> {
    save_parts(name, media_type, &Array::of1(&text.into()))
}

/// The same for a text in parts, which are strings.
pub fn save_parts(name: &str, media_type: &str, parts: &Array) -> Result<()> {
    let failed = |_: JsValue| Error::PageFailed("The browser could not make a file.".into());
    let options = BlobPropertyBag::new();
    options.set_type(media_type);
    let blob = Blob::new_with_str_sequence_and_options(parts, &options).map_err(failed)?;
    let url = Url::create_object_url_with_blob(&blob).map_err(failed)?;
    let link: HtmlAnchorElement = dom::create("a", "");
    link.set_href(&url);
    link.set_download(name);
    link.click();
    // The click has taken the Blob; its address is not needed any more.
    Url::revoke_object_url(&url).map_err(failed)
}
