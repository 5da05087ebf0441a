//! The text: the prompt, then one chip per token.
//!
//! A chip is a button that shows its step. One of them at a time is in the tab order (roving tabindex); arrow keys go along.
//!
//! Invariant: appends only; a frame costs as much as it has new tokens, however long the text is.

use super::dom::{self, append, by_id, create};
use super::flow::Flow;
use super::marks::Marks;
use super::what_if::Verdict;
use super::words::spell;
use crate::protocol::StepRecord;
use gloo_timers::callback::Timeout;
use std::borrow::Borrow;
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use wasm_bindgen::JsCast;
use web_sys::{Element, HtmlElement, KeyboardEvent, MouseEvent};

pub struct Output {
    panel: HtmlElement,
    /// Holds the chips of the current run; replaced as a whole by the next.
    text: RefCell<Flow>,
    chips: RefCell<Vec<HtmlElement>>,
    /// The end was in view when the last chips came.
    is_following: Cell<bool>,
    /// The panel's width for which the blocks of the text end with their lines.
    width: Cell<i32>,
    current: Cell<Option<usize>>,
    marks: RefCell<Marks>,
    marking: RefCell<Option<Timeout>>,
    empty: HtmlElement,
}

/// Surprisal at which a chip has its full shade.
const FULL_SHADE_BITS: f32 = 10.0;
/// How near to its end the panel must be scrolled to go on following it, CSS pixels.
const NEAR_END: i32 = 48;

impl Output {
    /// `pick` is called with the index of a chip that the reader chose.
    pub fn new(pick: impl Fn(usize) + 'static) -> Rc<Self> {
        let panel: HtmlElement = by_id("output");
        let text = Flow::new();
        append(&panel, text.root());
        let this = Rc::new(Self {
            width: Cell::new(panel.client_width()),
            panel,
            text: RefCell::new(text),
            chips: RefCell::default(),
            is_following: Cell::new(true),
            current: Cell::new(None),
            marks: RefCell::default(),
            marking: RefCell::default(),
            empty: by_id("output-empty"),
        });
        let pick = Rc::new(pick);
        let (output, picked) = (Rc::clone(&this), Rc::clone(&pick));
        dom::on(&this.panel, "click", move |event: MouseEvent| {
            if let Some(index) = output.index_of(event.target()) {
                picked(index);
            }
        });
        let output = Rc::clone(&this);
        dom::on(&this.panel, "keydown", move |event: KeyboardEvent| {
            if let Some(index) = output.index_of(event.target()).and_then(|at| output.key_target(at, &event)) {
                event.prevent_default();
                pick(index);
                output.focus(index);
            }
        });
        let output = Rc::clone(&this);
        dom::on_resize(&this.panel, move || {
            let width = output.panel.client_width();
            if output.width.replace(width) != width {
                output.text.borrow().join();
            }
        });
        this
    }

    /// Starts a run: the prompt, no chips.
    pub fn begin(&self, prompt: &str) {
        self.empty.set_hidden(true);
        let text = Flow::new();
        self.text.borrow().root().replace_with_with_node_1(text.root()).expect("the old text is in the document");
        *self.text.borrow_mut() = text;
        self.chips.borrow_mut().clear();
        self.current.set(None);
        self.marks.borrow_mut().clear();
        self.is_following.set(true);
        self.set_prompt(prompt);
    }

    /// Puts the prompt before the chips; for a prompt of ids its text comes later than the run's start.
    pub fn set_prompt(&self, prompt: &str) {
        self.text.borrow_mut().set_prompt(prompt);
    }

    /// Appends one chip per step. Called before a frame's other writes, since it reads the layout; [`Output::follow`] comes last.
    pub fn extend(&self, steps: &[impl Borrow<StepRecord>]) {
        let n_below = self.panel.scroll_height() - self.panel.scroll_top() - self.panel.client_height();
        self.is_following.set(n_below < NEAR_END);
        let mut text = self.text.borrow_mut();
        let mut chips = self.chips.borrow_mut();
        let marks = self.marks.borrow();
        text.close_lines(&chips);
        for step in steps.iter().map(Borrow::borrow) {
            let chip = chip(chips.len(), step);
            if marks.is_common(chips.len()) {
                dom::set(&chip, "data-common", "");
            }
            if marks.is_fork(chips.len()) {
                dom::set(&chip, "data-fork", "");
            }
            text.append(&chip);
            if step.bytes.contains(&b'\n') {
                text.append(&create::<Element>("br", ""));
            }
            chips.push(chip);
        }
    }

    /// Keeps the end in view if it was. The layout that this needs is the frame's own when nothing is written after it.
    pub fn follow(&self) {
        if self.is_following.get() {
            self.panel.set_scroll_top(self.panel.scroll_height());
        }
    }

    /// Marks the chip whose step is shown, and puts it in the tab order.
    pub fn mark(&self, index: usize) {
        let chips = self.chips.borrow();
        if let Some(old) = self.current.replace(Some(index)).and_then(|old| chips.get(old)) {
            dom::set_if(old, "aria-current", "", false);
            old.set_tab_index(-1);
        }
        if let Some(chip) = chips.get(index) {
            dom::set(chip, "aria-current", "true");
            chip.set_tab_index(0);
        }
    }

    /// Marks what would have come at a step with other settings; by shape, since colour is surprisal.
    pub fn set_verdict(&self, index: usize, verdict: Option<Verdict>) {
        let (name, title) = match verdict {
            None | Some(Verdict::Same) => ("", ""),
            Some(Verdict::Other(_)) => ("other", "The same u would have drawn another token"),
            Some(Verdict::Unknown) => ("unknown", "Not known from what was kept"),
        };
        if let Some(chip) = self.chips.borrow().get(index) {
            dom::set_if(chip, "data-what-if", name, !name.is_empty());
            dom::set_if(chip, "title", title, !name.is_empty());
        }
    }

    /// Marks the text that a branch has from the one that it left, and the tokens at which branches left, so many in a task that
    /// none takes long.
    pub fn mark_branches(self: &Rc<Self>, n_common: usize, forks: &[usize]) {
        self.marks.borrow_mut().set(n_common, forks);
        self.mark_slice();
    }

    fn mark_slice(self: &Rc<Self>) {
        const N_A_TASK: usize = 256;
        let mut marks = self.marks.borrow_mut();
        for _ in 0..N_A_TASK {
            let Some(index) = marks.take() else { return };
            if let Some(chip) = self.chips.borrow().get(index) {
                dom::set_if(chip, "data-common", "", marks.is_common(index));
                dom::set_if(chip, "data-fork", "", marks.is_fork(index));
            }
        }
        if !marks.is_done() {
            let output = Rc::clone(self);
            *self.marking.borrow_mut() = Some(Timeout::new(0, move || output.mark_slice()));
        }
    }

    fn focus(&self, index: usize) {
        let chip = self.chips.borrow().get(index).cloned();
        if let Some(chip) = chip {
            chip.focus().expect("a chip can have the focus");
        }
    }

    fn index_of(&self, target: Option<web_sys::EventTarget>) -> Option<usize> {
        let chip = target?.dyn_into::<Element>().ok()?.closest("[data-index]").ok()??;
        chip.get_attribute("data-index")?.parse().ok()
    }

    /// The chip that a key chooses, from the one at `at`.
    fn key_target(&self, at: usize, event: &KeyboardEvent) -> Option<usize> {
        let last = self.chips.borrow().len().checked_sub(1)?;
        if event.ctrl_key() || event.meta_key() || event.alt_key() {
            return None;
        }
        match event.key().as_str() {
            "Enter" | " " => Some(at),
            "ArrowRight" | "ArrowDown" => Some((at + 1).min(last)),
            "ArrowLeft" | "ArrowUp" => Some(at.saturating_sub(1)),
            "Home" => Some(0),
            "End" => Some(last),
            _ => None,
        }
    }
}

/// A button by role: a real one has a layout of its own inside, and its text cannot be selected.
fn chip(index: usize, step: &StepRecord) -> HtmlElement {
    let chip: HtmlElement = create("span", "chip");
    dom::set(&chip, "role", "button");
    dom::set(&chip, "data-index", &index.to_string());
    chip.set_tab_index(-1);
    let shade = (step.surprisal_bits / FULL_SHADE_BITS).clamp(0.0, 1.0);
    dom::style(&chip, "--shade", &format!("{shade:.3}"));
    for glyphs in spell(&step.bytes) {
        if glyphs.is_mark {
            let mark: HtmlElement = create("i", "");
            mark.set_text_content(Some(&glyphs.text));
            append(&chip, &mark);
        } else {
            append(&chip, &dom::document().create_text_node(&glyphs.text));
        }
    }
    chip
}
