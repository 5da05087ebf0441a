//! What the page's address asks for.
//!
//! Invariant: fills in the controls and presses Load, as a reader would; reads no model itself.

use super::App;
use crate::page::dom;
use crate::page::picker::ModelSource;
use std::rc::Rc;
use wasm_bindgen_futures::spawn_local;
use web_sys::UrlSearchParams;

/// What the engine's worker starts with. `?build=fast` and `?build=baseline` ask for one of the engine's builds; otherwise the
/// script takes the best that this browser runs.
pub(super) fn engine_script() -> String {
    let search = dom::window().location().search().unwrap_or_default();
    let build = UrlSearchParams::new_with_str(&search).ok().and_then(|link| link.get("build"));
    match build.as_deref() {
        Some(build @ ("fast" | "baseline")) => format!("./engine_loader.js?build={build}"),
        _ => "./engine_loader.js".to_owned(),
    }
}

impl App {
    /// `?model=URL&backend=auto&prompt=TEXT&autoload=1`. A backend that does not exist is said, and then nothing loads by itself.
    pub(super) fn follow_link(self: &Rc<Self>) {
        let search = dom::window().location().search().unwrap_or_default();
        let Ok(link) = UrlSearchParams::new_with_str(&search) else { return };
        if let Some(prompt) = link.get("prompt") {
            self.form.set_prompt(&prompt);
        }
        let model = link.get("model");
        if let Some(url) = &model {
            self.picker.set_url(url);
        }
        if let Some(backend) = link.get("backend")
            && let Err(error) = self.picker.set_backend(&backend)
        {
            return self.stage.fail(&error);
        }
        if link.get("autoload").as_deref() == Some("1") {
            let source = model.map_or_else(ModelSource::offered, ModelSource::Url);
            let app = Rc::clone(self);
            spawn_local(async move { app.load_shown(source).await });
        }
    }
}
