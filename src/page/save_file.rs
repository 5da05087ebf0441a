//! Text that the reader saves as a file.
//!
//! Invariant: the text goes to the browser's download and nowhere else.

use super::dom;
use js_sys::Array;
use web_sys::{Blob, BlobPropertyBag, HtmlAnchorElement, Url};

/// Offers `text` as a download called `name`.
pub fn save_text(name: &str, media_type: &str, text: &str) {
    let options = BlobPropertyBag::new();
    options.set_type(media_type);
    let blob = Blob::new_with_str_sequence_and_options(&Array::of1(&text.into()), &options)
        .expect("a string is a part of a Blob");
    let url = Url::create_object_url_with_blob(&blob).expect("a Blob has an address");
    let link: HtmlAnchorElement = dom::create("a", "");
    link.set_href(&url);
    link.set_download(name);
    link.click();
    // The click has taken the Blob; its address is not needed any more.
    Url::revoke_object_url(&url).expect("the address was just made");
}
