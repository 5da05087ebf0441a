//! Where a model comes from: the offered one, a local file by button or drop, a URL. Where it is to run, and how far its loading
//! is.
//!
//! Invariant: says what the reader chose; loads nothing itself.

use super::dom::{self, TextCell, by_id, on};
use super::download::Download;
use super::kept_view::KeptView;
use super::words::bytes;
use super::{about, options};
use crate::clock::now_ms;
use crate::error::Result;
use crate::protocol::{LoadOptions, LoadPhase, LoadProgress, ModelInfo};
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use wasm_bindgen::JsCast;
use web_sys::{
    Blob, DragEvent, Event, File, FileList, HtmlButtonElement, HtmlElement, HtmlInputElement, HtmlProgressElement,
    HtmlSelectElement,
};

/// What the page offers, relative to itself; `cargo xtask model` puts it there.
const DEFAULT_URL: &str = "models/SmolLM2-135M-Instruct.Q4_1.gguf";

pub enum ModelSource {
    Url(String),
    /// One file, or all parts of a split model, by their names.
    Files(Vec<(String, Blob)>),
}

impl ModelSource {
    /// The model that the page offers.
    pub fn offered() -> Self {
        ModelSource::Url(DEFAULT_URL.into())
    }

    /// None when nothing was chosen.
    fn chosen(files: Option<FileList>) -> Option<Self> {
        let files = files?;
        let file = |file: File| (file.name(), file.unchecked_into());
        let files: Vec<(String, Blob)> = (0..files.length()).filter_map(|i| files.get(i)).map(file).collect();
        (!files.is_empty()).then_some(ModelSource::Files(files))
    }
}

pub struct Picker {
    panel: HtmlElement,
    toggle: HtmlElement,
    toggle_text: TextCell,
    url: HtmlInputElement,
    buttons: [HtmlButtonElement; 2],
    file: HtmlInputElement,
    backend: HtmlSelectElement,
    loading: HtmlElement,
    bar: HtmlProgressElement,
    progress_text: TextCell,
    download: Cell<Download>,
    kept: Rc<KeptView>,
    /// Name of the file that was last chosen: what a model calls itself is often obscure.
    file_name: RefCell<String>,
}

impl Picker {
    /// `choose` is called with every choice of the reader.
    pub fn new(choose: impl Fn(ModelSource) + 'static) -> Rc<Self> {
        let choose = Rc::new(choose);
        let this = Rc::new(Self {
            panel: by_id("picker"),
            toggle: by_id("model"),
            toggle_text: TextCell::of_id("model"),
            url: by_id("model-url"),
            buttons: [by_id("load-default"), by_id("load")],
            file: by_id("model-file"),
            backend: by_id("load-backend"),
            loading: by_id("loading"),
            bar: by_id("progress"),
            progress_text: TextCell::of_id("progress-text"),
            download: Cell::default(),
            kept: KeptView::new(choose.clone()),
            file_name: RefCell::default(),
        });
        let picker = Rc::clone(&this);
        on(&this.toggle, "click", move |_: Event| picker.set_open(picker.panel.hidden()));
        this.listen(&choose);
        listen_for_drops(choose);
        this
    }

    fn listen(self: &Rc<Self>, choose: &Rc<impl Fn(ModelSource) + 'static>) {
        let chosen = Rc::clone(choose);
        on(&self.buttons[0], "click", move |_: Event| chosen(ModelSource::offered()));
        let (picker, chosen) = (Rc::clone(self), Rc::clone(choose));
        on(&by_id::<HtmlElement>("url-form"), "submit", move |event: Event| {
            event.prevent_default();
            chosen(ModelSource::Url(picker.url.value()));
        });
        let (picker, chosen) = (Rc::clone(self), Rc::clone(choose));
        on(&self.file, "change", move |_: Event| {
            if let Some(source) = ModelSource::chosen(picker.file.files()) {
                chosen(source);
            }
            // So that the same file can be chosen again.
            picker.file.set_value("");
        });
    }

    pub fn set_url(&self, url: &str) {
        self.url.set_value(url);
    }

    /// What the next load is to be asked for: the choice of where it runs.
    pub fn options(&self) -> Result<LoadOptions> {
        options::load_on(&self.backend.value())
    }

    /// Chooses where the next model is to run. Refused where [`options::load_on`] refuses it.
    pub fn set_backend(&self, backend: &str) -> Result<()> {
        options::load_on(backend)?;
        self.backend.set_value(backend);
        Ok(())
    }

    pub fn set_open(&self, is_open: bool) {
        self.panel.set_hidden(!is_open);
        dom::set(&self.toggle, "aria-expanded", if is_open { "true" } else { "false" });
    }

    /// A load of this file begins.
    pub fn begin(&self, name: &str) {
        self.set_open(true);
        name.clone_into(&mut self.file_name.borrow_mut());
        self.download.set(Download::default());
        self.loading.set_hidden(false);
        self.bar.remove_attribute("value").expect("the attribute is a valid name");
        self.progress_text.set(&format!("Asking for {name}"));
        self.set_enabled(false);
    }

    /// Phase, how much of how much, and how fast. Without a total the bar stays indeterminate.
    pub fn progress(&self, progress: &LoadProgress) {
        let received = progress.received;
        match progress.total {
            Some(total) if total > 0 => {
                self.bar.set_max(total as f64);
                self.bar.set_value(received.min(total) as f64);
            }
            _ => self.bar.remove_attribute("value").expect("the attribute is a valid name"),
        }
        let mut download = self.download.get();
        let rate = (progress.phase == LoadPhase::Download).then(|| download.bytes_per_s(received, now_ms())).flatten();
        self.download.set(download);
        self.progress_text.set(&about::loading(progress, rate));
    }

    /// Loading ended: with a model, the panel makes room.
    pub fn end(&self, model: Option<&ModelInfo>) {
        self.loading.set_hidden(true);
        self.set_enabled(true);
        self.set_open(model.is_none());
        self.kept.refresh();
        self.show(model);
    }

    /// Says which model is there.
    pub fn show(&self, model: Option<&ModelInfo>) {
        let Some(model) = model else {
            return self.toggle_text.set("No model yet");
        };
        let name = model_name(&self.file_name.borrow(), model);
        self.toggle_text.set(&format!("{name} · {} · {}", model.quantization, bytes(model.bytes)));
    }

    fn set_enabled(&self, is_enabled: bool) {
        for button in &self.buttons {
            button.set_disabled(!is_enabled);
        }
        self.file.set_disabled(!is_enabled);
        self.backend.set_disabled(!is_enabled);
    }
}

/// The file's name without its ending and its quantization, which is shown beside it.
fn model_name(file_name: &str, model: &ModelInfo) -> String {
    let stem = file_name.strip_suffix(".gguf").unwrap_or(file_name);
    let name =
        stem.strip_suffix(model.quantization.as_str()).map_or(stem, |name| name.trim_end_matches(['.', '-', '_']));
    if name.is_empty() { model.name.clone() } else { name.to_owned() }
}

/// A file may be dropped anywhere on the page.
fn listen_for_drops(choose: Rc<impl Fn(ModelSource) + 'static>) {
    let veil: HtmlElement = by_id("drop");
    let has_file = |event: &DragEvent| {
        event
            .data_transfer()
            .is_some_and(|data| data.types().iter().any(|kind| kind.as_string().as_deref() == Some("Files")))
    };
    let shown = veil.clone();
    on(&dom::window(), "dragover", move |event: DragEvent| {
        if has_file(&event) {
            event.prevent_default();
            shown.set_hidden(false);
        }
    });
    let left = veil.clone();
    on(&dom::window(), "dragleave", move |event: DragEvent| {
        // Leaving the window has no target to enter.
        if event.related_target().is_none() {
            left.set_hidden(true);
        }
    });
    on(&dom::window(), "drop", move |event: DragEvent| {
        veil.set_hidden(true);
        if has_file(&event) {
            event.prevent_default();
            if let Some(source) = ModelSource::chosen(event.data_transfer().and_then(|data| data.files())) {
                choose(source);
            }
        }
    });
}
