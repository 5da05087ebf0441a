//! The list of branches under the text: one line each, in the order of the tree.
//!
//! Invariant: shows a tree; changes none. Its lines are built when a branch begins, ends or is selected, never in between.

use super::branches::{Branch, Branches, Line};
use super::dom::{self, TextCell, append, by_id, create};
use super::words::count;
use wasm_bindgen::JsCast;
use web_sys::{Element, Event, HtmlElement};

/// Steps that a line is indented at most: a phone is narrow.
const MOST_DEPTH: usize = 4;

pub struct BranchView {
    panel: HtmlElement,
    list: HtmlElement,
    note: TextCell,
}

impl BranchView {
    pub fn new() -> Self {
        Self { panel: by_id("branches"), list: by_id("branch-list"), note: TextCell::of_id("branch-note") }
    }

    pub fn show(&self, branches: &Branches) {
        // A text that nothing has left is no tree.
        self.panel.set_hidden(branches.all().len() < 2);
        let has_focus = dom::document().active_element().is_some_and(|element| self.list.contains(Some(&element)));
        self.list.set_text_content(None);
        for index in branches.order() {
            let branch = &branches.all()[index];
            let is_shown = index == branches.shown();
            let button = line(index, branch, is_shown);
            let item: Element = create("li", "");
            append(&item, &button);
            append(&self.list, &item);
            if is_shown && has_focus {
                button.focus().expect("a button can have the focus");
            }
        }
        self.note.set(&branches.all().get(branches.shown()).map_or(String::new(), note));
    }
}

/// Calls `select` with the branch whose line was chosen.
pub fn on_select(select: impl Fn(usize) + 'static) {
    dom::on(&by_id::<HtmlElement>("branch-list"), "click", move |event: Event| {
        let button =
            event.target().and_then(|target| target.dyn_into::<Element>().ok()?.closest("[data-branch]").ok()?);
        if let Some(branch) = button.and_then(|button| button.get_attribute("data-branch")?.parse().ok()) {
            select(branch);
        }
    });
}

fn line(index: usize, branch: &Branch, is_shown: bool) -> HtmlElement {
    let Line { place, token, text, figures } = branch.line();
    let button: HtmlElement = create("button", "branch");
    dom::set(&button, "type", "button");
    dom::set(&button, "data-branch", &index.to_string());
    dom::set_if(&button, "aria-current", "true", is_shown);
    dom::style(&button, "--depth", &branch.depth.min(MOST_DEPTH).to_string());
    for (class, text) in [("place", place), ("taken", token), ("after", text), ("figures", figures)] {
        let cell: HtmlElement = create("span", class);
        cell.set_text_content(Some(&text));
        append(&button, &cell);
        // So that a screen reader hears words, not one long one.
        append(&button, &dom::document().create_text_node(" "));
    }
    button
}

/// What the branch on screen took over, and what it had to compute.
fn note(branch: &Branch) -> String {
    match branch.reuse() {
        None if branch.parent.is_none() => "Select a line to see its text.".to_owned(),
        None => String::new(),
        Some((0, n_computed)) => {
            format!("No cached token was reused: {} computed.", count(n_computed.into(), "position"))
        }
        Some((n_reused, n_computed)) => format!(
            "{} reused, {} computed.",
            count(n_reused.into(), "cached token"),
            count(n_computed.into(), "position")
        ),
    }
}
