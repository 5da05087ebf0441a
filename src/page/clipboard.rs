//! Text for the clipboard, which a browser may refuse or not have at all: on a page that is not secure there is none.
//!
//! Invariant: a refusal is an answer, never an exception.

use super::dom;
use js_sys::Reflect;
use wasm_bindgen::JsCast;
use wasm_bindgen_futures::JsFuture;
use web_sys::Clipboard;

/// Whether the clipboard took `text`.
pub async fn copy(text: &str) -> bool {
    let clipboard = Reflect::get(&dom::window().navigator(), &"clipboard".into()).ok();
    match clipboard.and_then(|clipboard| clipboard.dyn_into::<Clipboard>().ok()) {
        Some(clipboard) => JsFuture::from(clipboard.write_text(text)).await.is_ok(),
        None => false,
    }
}
