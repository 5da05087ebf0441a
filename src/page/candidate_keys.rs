//! Taking a candidate: a click on its row, or arrow keys and Enter.
//!
//! Each row gets a button over its whole width. The list itself is what Tab reaches, and arrow keys go from button to button, so
//! that fifteen rows are one stop.
//!
//! Invariant: adds to the rows that `candidates` has made, and writes nothing else.

use super::dom::{self, append, by_id, create};
use wasm_bindgen::JsCast;
use web_sys::{Element, Event, HtmlElement, KeyboardEvent};

/// Calls `take` with the id of the candidate whose row was chosen. Style hides the buttons of rows that hold no candidate, and
/// of the chosen one.
pub fn on_take(take: impl Fn(u32) + 'static) {
    let list: HtmlElement = by_id("candidates");
    let rows = list.children();
    for (i, row) in (0..rows.length()).filter_map(|i| Some((i, rows.item(i)?))) {
        let button: HtmlElement = create("button", "take");
        dom::set(&button, "type", "button");
        button.set_tab_index(-1);
        let name = format!("candidate-{i}");
        if let Ok(Some(label)) = row.query_selector(".sr") {
            label.set_id(&name);
            dom::set(&button, "aria-labelledby", &name);
        }
        append(&row, &button);
    }
    list.set_tab_index(0);
    dom::set(&list, "aria-describedby", "take-help");
    dom::on(&list, "click", move |event: Event| {
        let row = element(&event).and_then(|element| element.closest("[data-id]:not(.chosen)").ok()?);
        if let Some(id) = row.and_then(|row| row.get_attribute("data-id")?.parse().ok()) {
            take(id);
        }
    });
    let all = list.clone();
    dom::on(&list, "keydown", move |event: KeyboardEvent| {
        if let Some(button) = neighbour(&all, &event) {
            event.prevent_default();
            button.focus().expect("a shown button can have the focus");
        }
    });
}

fn element(event: &Event) -> Option<Element> {
    event.target()?.dyn_into().ok()
}

/// The button that a key goes to, from the one that has the focus, or from the list.
fn neighbour(list: &HtmlElement, event: &KeyboardEvent) -> Option<HtmlElement> {
    let found = list.query_selector_all("[data-id]:not(.chosen) > .take").ok()?;
    let buttons: Vec<HtmlElement> = (0..found.length()).filter_map(|i| found.item(i)?.dyn_into().ok()).collect();
    let last = buttons.len().checked_sub(1)?;
    let focused = element(event);
    let at = buttons.iter().position(|button| focused.as_ref() == Some(button.as_ref()));
    let to = match event.key().as_str() {
        "ArrowDown" => at.map_or(0, |at| (at + 1).min(last)),
        "ArrowUp" => at.map_or(last, |at| at.saturating_sub(1)),
        "Home" => 0,
        "End" => last,
        _ => return None,
    };
    buttons.get(to).cloned()
}
