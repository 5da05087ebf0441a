//! The few DOM calls that every view needs, typed.
//!
//! Invariant: text goes in through text nodes only; nothing here parses HTML.

use std::cell::RefCell;
use wasm_bindgen::{JsCast, prelude::*};
use web_sys::{
    AbortController, AddEventListenerOptions, Document, Element, Event, EventTarget, HtmlElement, HtmlScriptElement,
    ResizeObserver, SvgElement, Url, Window,
};

const SVG: &str = "http://www.w3.org/2000/svg";

pub fn window() -> Window {
    web_sys::window().expect("the page runs on a main thread")
}

pub fn document() -> Document {
    window().document().expect("a main thread has a document")
}

/// Now, in ISO 8601.
pub fn iso_now() -> String {
    js_sys::Date::new_0().to_iso_string().into()
}

/// Whether the page may share memory with its workers.
pub fn is_isolated() -> bool {
    js_sys::Reflect::get(&window(), &"crossOriginIsolated".into()).is_ok_and(|flag| flag.is_truthy())
}

/// The element of index.html with this id.
pub fn by_id<T: JsCast>(id: &str) -> T {
    let element = document().get_element_by_id(id).unwrap_or_else(|| panic!("index.html has an element #{id}"));
    element.dyn_into().unwrap_or_else(|_| panic!("#{id} is of the kind that the page expects"))
}

/// The address of a file of this build, which may lie in a folder of its own: beside the script that index.html names.
pub fn build_file(name: &str) -> String {
    let loader: HtmlScriptElement = by_id("loader");
    let url = Url::new_with_base(name, &loader.src());
    url.expect("the files of a build have plain names").href()
}

/// A new element, with its classes.
pub fn create<T: JsCast>(tag: &str, class: &str) -> T {
    let element = document().create_element(tag).expect("the tag is a valid name");
    if !class.is_empty() {
        element.set_class_name(class);
    }
    element.dyn_into().expect("the tag makes this kind of element")
}

/// A new SVG element with these attributes.
pub fn create_svg(tag: &str, attributes: &[(&str, &str)]) -> SvgElement {
    let element = document().create_element_ns(Some(SVG), tag).expect("the tag is a valid name");
    for (name, value) in attributes {
        set(&element, name, value);
    }
    element.unchecked_into()
}

/// A text in a picture, in its units; `class` may be empty.
pub fn append_svg_text(picture: &SvgElement, x: f64, y: f64, anchor: &str, class: &str) -> SvgElement {
    let text = create_svg("text", &[("text-anchor", anchor), ("x", &x.to_string()), ("y", &y.to_string())]);
    set_if(&text, "class", class, !class.is_empty());
    append(picture, &text);
    text
}

pub fn append(parent: &Element, child: &web_sys::Node) {
    parent.append_child(child).expect("a new node can be appended");
}

pub fn set(element: &Element, name: &str, value: &str) {
    element.set_attribute(name, value).expect("the attribute is a valid name");
}

/// Sets or removes an attribute.
pub fn set_if(element: &Element, name: &str, value: &str, is_set: bool) {
    if is_set {
        set(element, name, value);
    } else {
        element.remove_attribute(name).expect("the attribute is a valid name");
    }
}

/// Sets a style property from script, which a Content-Security-Policy allows.
pub fn style(element: &HtmlElement, property: &str, value: &str) {
    element.style().set_property(property, value).expect("the property is a valid name");
}

thread_local! {
    /// Ends what [`on`] has begun.
    static LISTENING: AbortController = AbortController::new().expect("every browser with wasm has AbortController");
}

/// Calls `listener` for every `event` of `target`, until [`stop_listening`].
pub fn on<E: JsCast + 'static>(target: &EventTarget, event: &str, listener: impl FnMut(E) + 'static) {
    let options = AddEventListenerOptions::new();
    options.set_signal(&LISTENING.with(AbortController::signal));
    listen(target, event, listener, &options);
}

/// The same, for as long as the page lives.
pub fn on_always<E: JsCast + 'static>(target: &EventTarget, event: &str, listener: impl FnMut(E) + 'static) {
    listen(target, event, listener, &AddEventListenerOptions::new());
}

/// Ends every listener of [`on`].
pub fn stop_listening() {
    LISTENING.with(AbortController::abort);
}

fn listen<E: JsCast + 'static>(
    target: &EventTarget,
    event: &str,
    mut listener: impl FnMut(E) + 'static,
    options: &AddEventListenerOptions,
) {
    let closure = Closure::<dyn FnMut(Event)>::new(move |event: Event| listener(event.unchecked_into()));
    target
        .add_event_listener_with_callback_and_add_event_listener_options(
            event,
            closure.as_ref().unchecked_ref(),
            options,
        )
        .expect("the target takes listeners");
    closure.forget();
}

/// Calls `listener` when the size of `element` has changed, and once at first, for as long as the page lives.
pub fn on_resize(element: &Element, listener: impl FnMut() + 'static) {
    let closure = Closure::<dyn FnMut()>::new(listener);
    let observer = ResizeObserver::new(closure.as_ref().unchecked_ref()).expect("an observer takes any function");
    observer.observe(element);
    closure.forget();
}

/// Resolves in the next frame; in a hidden tab, which has none, when the tab is shown again.
pub async fn next_frame() {
    let mut wait = |resolve: js_sys::Function, _| {
        window().request_animation_frame(&resolve).expect("a window has animation frames");
    };
    // It is never rejected.
    let _ = wasm_bindgen_futures::JsFuture::from(js_sys::Promise::new(&mut wait)).await;
}

/// The text of an element, written to the document only when it changes. A change is a new text node: a browser counts
/// centred text of another length as a shift of the layout when the node is the same.
pub struct TextCell {
    element: Element,
    last: RefCell<String>,
}

impl TextCell {
    /// The text of an element that holds nothing else.
    pub fn new(element: &Element) -> Self {
        Self { element: element.clone(), last: RefCell::new(element.text_content().unwrap_or_default()) }
    }

    /// The text of the element of index.html with this id.
    pub fn of_id(id: &str) -> Self {
        Self::new(&by_id(id))
    }

    pub fn set(&self, text: &str) {
        let mut last = self.last.borrow_mut();
        if *last != text {
            self.element.set_text_content(Some(text));
            text.clone_into(&mut last);
        }
    }
}
