//! The list of candidates: a fixed number of rows whose nodes are reused, so that a step changes text and widths only.
//!
//! Invariant: shows one step; keeps none.

use super::dom::{self, TextCell, append, by_id, create};
use super::ladder::{N_PLACES, Place, arrange, is_kept, shown_probabilities};
use super::sentence::{bar_heading, candidate_label};
use super::stage::RunInfo;
use super::words::{percent, spelt};
use crate::protocol::StepRecord;
use std::cell::Cell;
use web_sys::{Element, HtmlElement};

pub struct CandidateList {
    rows: Vec<Row>,
    heading: TextCell,
}

/// A place of the list: either a candidate or a line between candidates.
struct Row {
    item: HtmlElement,
    token: TextCell,
    bar: HtmlElement,
    raw: TextCell,
    p: TextCell,
    last: TextCell,
    sum: TextCell,
    line: TextCell,
    /// What a screen reader hears instead of the cells.
    label: TextCell,
    last_class: Cell<&'static str>,
}

/// What a row shows of one candidate.
struct Shown<'a> {
    id: u32,
    bytes: &'a [u8],
    p_raw: Option<f32>,
    p: f32,
    p_final: f32,
    sum: Option<f32>,
    is_kept: bool,
    is_chosen: bool,
}

impl CandidateList {
    pub fn new() -> Self {
        let list: Element = by_id("candidates");
        Self { rows: (0..N_PLACES).map(|_| Row::new(&list)).collect(), heading: TextCell::of_id("bar-head") }
    }

    pub fn show(&self, step: &StepRecord, run: &RunInfo) {
        let sampling = &run.options.sampling;
        self.heading.set(&bar_heading(sampling));
        let probabilities = shown_probabilities(step, sampling);
        let longest = probabilities.iter().map(|&(p, _)| p).fold(step.p, f32::max);
        for (row, place) in self.rows.iter().zip(arrange(step, sampling, run.vocab_size)) {
            match place {
                Place::Candidate(at) => {
                    let candidate = &step.candidates[at];
                    let (p, sum) = probabilities[at];
                    let shown = Shown {
                        id: candidate.id,
                        bytes: &candidate.bytes,
                        p_raw: Some(candidate.p_raw),
                        p,
                        p_final: candidate.p_final,
                        sum: Some(sum),
                        is_kept: candidate.kept,
                        is_chosen: candidate.id == step.id,
                    };
                    row.show(&shown, longest);
                }
                Place::Chosen => {
                    // Not reported among the candidates: its probability as drawn is undone to what the bars show.
                    let is_kept = is_kept(step);
                    let p = if is_kept { step.p * step.nucleus_mass } else { step.p };
                    row.show(
                        &Shown {
                            id: step.id,
                            bytes: &step.bytes,
                            p_raw: None,
                            p,
                            p_final: step.p,
                            sum: None,
                            is_kept,
                            is_chosen: true,
                        },
                        longest,
                    );
                }
                Place::Gap(text) => row.show_line(&text, "row line"),
                Place::Cut(text) => row.show_line(&text, "row line cut-line"),
                Place::Empty => row.clear(),
            }
        }
    }

    pub fn clear(&self) {
        for row in &self.rows {
            row.clear();
        }
    }
}

impl Row {
    fn new(list: &Element) -> Self {
        let item: HtmlElement = create("li", "row");
        let cell = |class: &str| {
            let cell: HtmlElement = create("span", class);
            dom::set(&cell, "aria-hidden", "true");
            append(&item, &cell);
            cell
        };
        let token = TextCell::new(&cell("token"));
        let track = cell("track");
        let bar: HtmlElement = create("i", "fill");
        append(&track, &bar);
        let number = |class: &str| TextCell::new(&cell(class));
        let (raw, p) = (number("number raw"), number("number"));
        let (last, sum) = (number("number"), number("number sum"));
        let line: HtmlElement = create("span", "line-text");
        append(&item, &line);
        let label: HtmlElement = create("span", "sr");
        append(&item, &label);
        append(list, &item);
        let (line, label) = (TextCell::new(&line), TextCell::new(&label));
        Self { item, token, bar, raw, p, last, sum, line, label, last_class: Cell::new("row") }
    }

    fn show(&self, shown: &Shown, longest: f32) {
        self.set_class(match (shown.is_kept, shown.is_chosen) {
            (true, false) => "row kept",
            (true, true) => "row kept chosen",
            (false, false) => "row cut",
            (false, true) => "row cut chosen",
        });
        let token = spelt(shown.bytes);
        dom::set(&self.item, "data-id", &shown.id.to_string());
        dom::set(&self.item, "title", &token);
        dom::style(&self.bar, "transform", &format!("scaleX({:.4})", (shown.p / longest).clamp(0.004, 1.0)));
        self.raw.set(&shown.p_raw.map_or(String::new(), percent));
        self.p.set(&percent(shown.p));
        self.last.set(&if shown.is_kept { percent(shown.p_final) } else { "cut".to_owned() });
        self.sum.set(&shown.sum.map_or(String::new(), |sum| format!("{:.3}", sum.min(1.0))));
        self.label.set(&candidate_label(&token, shown.p, shown.sum, shown.is_kept, shown.is_chosen));
        self.token.set(&token);
        self.line.set("");
    }

    fn show_line(&self, text: &str, class: &'static str) {
        self.blank(class);
        self.line.set(text);
    }

    fn clear(&self) {
        self.blank("row");
        self.line.set("");
    }

    fn blank(&self, class: &'static str) {
        self.set_class(class);
        dom::set_if(&self.item, "data-id", "", false);
        dom::set_if(&self.item, "title", "", false);
        dom::style(&self.bar, "transform", "scaleX(0)");
        for cell in [&self.token, &self.raw, &self.p, &self.last, &self.sum, &self.label] {
            cell.set("");
        }
    }

    fn set_class(&self, class: &'static str) {
        if self.last_class.replace(class) != class {
            self.item.set_class_name(class);
        }
    }
}
