//! What the page's address asks for, and the address that asks for what the page shows.
//!
//! Settings stand in the query, which API.md fixes, or in the fragment, which a browser sends to no server. Links that the page
//! makes use the fragment: a prompt is the reader's own.
//!
//! Invariant: fills in the controls and presses Load, as a reader would; reads no model itself.

use super::App;
use crate::error::{Error, Result};
use crate::page::clipboard;
use crate::page::dom::{self, on};
use crate::page::picker::ModelSource;
use crate::page::share;
use std::rc::Rc;
use wasm_bindgen_futures::spawn_local;
use web_sys::UrlSearchParams;

/// What the engine's worker starts with. `?build=fast` and `?build=baseline` ask for one of the engine's builds; otherwise the
/// script takes the best that this browser runs.
pub(super) fn engine_script() -> String {
    let search = dom::window().location().search().unwrap_or_default();
    let build = UrlSearchParams::new_with_str(&search).ok().and_then(|link| link.get("build"));
    match build.as_deref() {
        Some(build @ ("fast" | "baseline")) => dom::build_file(&format!("engine_loader.js?build={build}")),
        _ => dom::build_file("engine_loader.js"),
    }
}

impl App {
    /// `?model=URL&backend=auto&prompt=TEXT&autoload=1` and the settings of [`share`]. What cannot be used is said, and then nothing
    /// loads by itself.
    pub(super) fn follow_link(self: &Rc<Self>) {
        match failure_before() {
            // The page has begun anew: it keeps what the reader has set, and does not load what may have failed.
            Some(said) => self.stage.fail(&Error::PageFailed(said)),
            None => {
                if let Err(error) = self.follow(&pairs()) {
                    self.stage.fail(&error);
                }
            }
        }
        let app = Rc::clone(self);
        // A link of this page, pasted into its own address bar, loads nothing anew.
        on(&dom::window(), "hashchange", move |_: web_sys::Event| {
            if let Err(error) = app.follow(&pairs()) {
                app.stage.fail(&error);
            }
        });
    }

    fn follow(self: &Rc<Self>, pairs: &[(String, String)]) -> Result<()> {
        let named = |name: &str| pairs.iter().rev().find(|(given, _)| given == name).map(|(_, text)| text.as_str());
        self.form.fill(&share::settings(pairs)?);
        if let Some(url) = named("model") {
            self.picker.set_url(url);
        }
        if let Some(backend) = named("backend") {
            self.picker.set_backend(backend)?;
        }
        if named("autoload") == Some("1") && self.model.borrow().is_none() {
            let source = named("model").map_or_else(ModelSource::offered, |url| ModelSource::Url(url.to_owned()));
            let app = Rc::clone(self);
            spawn_local(async move { app.load_shown(source).await });
        }
        Ok(())
    }

    /// Copies a link to the prompt and the settings of the form. Where the clipboard is not to be had, the address bar shows it.
    pub(super) async fn copy_link(&self) -> Result<()> {
        let fragment = UrlSearchParams::new().expect("no pairs are valid");
        for (name, text) in share::pairs(&self.form.read()?) {
            fragment.append(&name, &text);
        }
        let fragment = format!("#{}", String::from(fragment.to_string()));
        if fragment.chars().count() > share::MOST_CHARS {
            return Err(Error::BadOption("The prompt is too long for a link: save the run as a file instead.".into()));
        }
        let location = dom::window().location();
        let page = location.href().unwrap_or_default();
        let page = page.split('#').next().unwrap_or_default();
        // Those of the link that opened this page would be read as well.
        let (path, query) = page.split_once('?').unwrap_or((page, ""));
        let link = format!("{path}{}{fragment}", self.query_of_link(query));
        let said = if clipboard::copy(&link).await {
            "Link copied. It holds the prompt and the settings, not the text; with the same model it writes the same."
        } else {
            let history = dom::window().history().expect("a window has a history");
            // A browser refuses when it is asked too often.
            history
                .replace_state_with_url(&wasm_bindgen::JsValue::NULL, "", Some(&link))
                .map_err(|_| Error::PageFailed("The browser let the link neither be copied nor be shown.".into()))?;
            "The clipboard is not to be had here: copy the link from the address bar."
        };
        self.stage.say(said);
        Ok(())
    }

    /// What a link says of the model: where it came from, if that was an address.
    fn query_of_link(&self, query: &str) -> String {
        let Ok(old) = UrlSearchParams::new_with_str(query) else { return String::new() };
        let kept: Vec<String> = ["model", "backend", "build"]
            .into_iter()
            .filter_map(|name| {
                let pair = UrlSearchParams::new().ok()?;
                pair.append(name, &old.get(name)?);
                Some(String::from(pair.to_string()))
            })
            .collect();
        if kept.is_empty() { String::new() } else { format!("?{}", kept.join("&")) }
    }
}

/// What the wasm before this one panicked with; `www/page_loader.js` hands it on.
fn failure_before() -> Option<String> {
    let nucleus = dom::window().get("nucleus")?;
    let said = js_sys::Reflect::get(&nucleus, &"failureBefore".into()).ok()?.as_string()?;
    Some(format!("The page has begun anew, without a model. {said}"))
}

/// Of the query, then of the fragment.
fn pairs() -> Vec<(String, String)> {
    let location = dom::window().location();
    let parts = [location.search(), location.hash()].map(Result::unwrap_or_default);
    let parsed = |part: &String| UrlSearchParams::new_with_str(part.trim_start_matches(['?', '#'])).ok();
    parts.iter().filter_map(parsed).flat_map(|link| entries(&link)).collect()
}

fn entries(link: &UrlSearchParams) -> Vec<(String, String)> {
    let text = |pair: &js_sys::Array, i| pair.get(i).as_string().unwrap_or_default();
    js_sys::Array::from(link)
        .iter()
        .map(|pair| js_sys::Array::from(&pair))
        .map(|pair| (text(&pair, 0), text(&pair, 1)))
        .collect()
}
