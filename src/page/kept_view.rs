//! The files kept in this browser, as a list with a way to load and to delete each, and as `nucleus.cache`; and the list of
//! known models to choose from.
//!
//! Invariant: reads and deletes whole entries only; what they hold is the engine's to judge.

use super::convert::{self, put};
use super::dom::{self, TextCell, append, by_id, create, on, set};
use super::kept_words::{describe, name, summary};
use super::picker::ModelSource;
use super::sources::KNOWN;
use crate::error::Error;
use crate::kept::{Folder, Record, key, storage};
use js_sys::{Array, Date, Object, Promise};
use std::rc::Rc;
use wasm_bindgen::{JsCast, prelude::*};
use wasm_bindgen_futures::{JsFuture, future_to_promise, spawn_local};
use web_sys::{Event, HtmlButtonElement, HtmlElement, StorageEstimate, Url};

type Choose = Rc<dyn Fn(ModelSource)>;

pub struct KeptView {
    summary_text: TextCell,
    summary: HtmlElement,
    list: HtmlElement,
    clear: HtmlButtonElement,
    choose: Choose,
}

impl KeptView {
    /// `choose` is called with what the reader wants loaded.
    pub fn new(choose: Choose) -> Rc<Self> {
        let this = Rc::new(Self {
            summary_text: TextCell::of_id("kept-summary"),
            summary: by_id("kept-summary"),
            list: by_id("kept-list"),
            clear: by_id("kept-clear"),
            choose,
        });
        let view = Rc::clone(&this);
        on(&this.clear, "click", move |_: Event| view.delete(None));
        this.list_known_models();
        this.refresh();
        this
    }

    /// Shows what is kept now.
    pub fn refresh(self: &Rc<Self>) {
        let view = Rc::clone(self);
        spawn_local(async move {
            let (records, quota) = (records().await, quota().await);
            view.summary_text.set(&summary(&records, quota));
            view.clear.set_disabled(records.is_empty());
            view.list.set_text_content(None);
            for record in records {
                view.append_kept(record);
            }
        });
    }

    fn append_kept(self: &Rc<Self>, record: Record) {
        let name = name(&record);
        let date = Date::new(&JsValue::from_f64(record.saved_at)).to_locale_date_string("default", &JsValue::UNDEFINED);
        let item: HtmlElement = create("li", "");
        let text: HtmlElement = create("span", "");
        text.set_text_content(Some(&format!("{name} · {}", describe(&record, &String::from(date)))));
        set(&text, "title", &record.url);
        append(&item, &text);
        let url = record.url.clone();
        let choose = Rc::clone(&self.choose);
        append(&item, &button("Load", &format!("Load {name}"), move || choose(ModelSource::Url(url.clone()))));
        let view = Rc::clone(self);
        append(&item, &button("Delete", &format!("Delete {name}"), move || view.delete(Some(record.url.clone()))));
        append(&self.list, &item);
    }

    fn list_known_models(&self) {
        let list: HtmlElement = by_id("source-list");
        for model in &KNOWN {
            let item: HtmlElement = create("li", "");
            let text: HtmlElement = create("span", "");
            text.set_text_content(Some(&model.describe()));
            set(&text, "title", model.url);
            append(&item, &text);
            let choose = Rc::clone(&self.choose);
            append(
                &item,
                &button("Load", &format!("Load {}", model.name), move || {
                    choose(ModelSource::Url(model.url.to_owned()))
                }),
            );
            append(&list, &item);
        }
    }

    /// Deletes one file, or all.
    fn delete(self: &Rc<Self>, url: Option<String>) {
        // The button that was pressed goes away.
        self.summary.focus().expect("an element takes the focus");
        let view = Rc::clone(self);
        spawn_local(async move {
            delete(url.as_deref()).await;
            view.refresh();
        });
    }
}

/// Makes `nucleus.cache`.
pub fn install(nucleus: &Object) {
    let cache = Object::new();
    let list = || async { Ok(records().await.iter().map(entry).collect::<Array>().into()) };
    method(&cache, "list", move |_| future_to_promise(list()));
    method(&cache, "delete", |url: JsValue| {
        future_to_promise(async move {
            let url = url.as_string().and_then(|url| absolute(&url));
            let bad = || convert::error(&Error::BadOption("`url` is no address: expected that of a kept file.".into()));
            Ok(JsValue::from_bool(delete(Some(&url.ok_or_else(bad)?)).await > 0))
        })
    });
    method(&cache, "clear", |_| future_to_promise(async { Ok(JsValue::from_f64(f64::from(delete(None).await))) }));
    put(nucleus, "cache", cache);
}

fn method(object: &Object, name: &str, call: impl Fn(JsValue) -> Promise + 'static) {
    put(object, name, Closure::<dyn Fn(JsValue) -> Promise>::new(call).into_js_value());
}

/// A record as the JavaScript API has it.
fn entry(record: &Record) -> Object {
    let object = Object::new();
    put(&object, "url", &record.url);
    put(&object, "bytes", record.bytes as f64);
    put(&object, "complete", record.is_complete);
    put(&object, "sha256", &record.sha256);
    put(&object, "savedAt", record.saved_at);
    object
}

async fn records() -> Vec<Record> {
    match Folder::open().await {
        Some(folder) => folder.list().await,
        None => Vec::new(),
    }
}

/// Deletes the file of this address, or all; says how many went. One that is being written just now stays.
async fn delete(url: Option<&str>) -> u32 {
    let Some(folder) = Folder::open().await else { return 0 };
    let mut n_deleted = 0;
    for record in folder.list().await {
        if url.is_none_or(|url| url == record.url) && folder.remove(&key(&record.url)).await {
            n_deleted += 1;
        }
    }
    n_deleted
}

/// Bytes that the browser allows this page.
async fn quota() -> Option<u64> {
    let estimate = JsFuture::from(storage()?.estimate().ok()?).await.ok()?;
    estimate.unchecked_into::<StorageEstimate>().get_quota().map(|quota| quota as u64)
}

/// As the engine's records name it.
fn absolute(url: &str) -> Option<String> {
    let base = dom::document().base_uri().ok().flatten().unwrap_or_default();
    let url = Url::new_with_base(url.trim(), &base).ok()?.href();
    Some(crate::kept::without_fragment(&url).to_owned())
}

fn button(text: &str, label: &str, press: impl Fn() + 'static) -> HtmlButtonElement {
    let button: HtmlButtonElement = create("button", "");
    button.set_type("button");
    button.set_text_content(Some(text));
    set(&button, "aria-label", label);
    on(&button, "click", move |_: Event| press());
    button
}
