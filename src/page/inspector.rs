//! The panel about one step: the sentence, the candidates, the bars and the figures.
//!
//! Invariant: shows one step; keeps none.

use super::candidates::CandidateList;
use super::cumulative::CumulativeBars;
use super::curves_view::CurvesView;
use super::dom::{self, TextCell, append, by_id, create};
use super::sentence::{Phrase, describe};
use super::stage::RunInfo;
use super::words::{bits, count, grouped, milliseconds, percent};
use crate::protocol::StepRecord;
use web_sys::{Element, HtmlElement};

pub struct Inspector {
    sentence: HtmlElement,
    candidates: CandidateList,
    bars: CumulativeBars,
    curves: CurvesView,
    facts: [TextCell; 8],
    empty: HtmlElement,
}

impl Inspector {
    pub fn new() -> Self {
        let facts: Element = by_id("facts");
        let names =
            ["nucleus", "its mass", "entropy", "surprisal", "rank", "forward pass", "sampling", "computed this step"];
        let this = Self {
            sentence: by_id("say"),
            candidates: CandidateList::new(),
            bars: CumulativeBars::new(),
            curves: CurvesView::new(),
            facts: names.map(|name| fact(&facts, name)),
            empty: by_id("candidates-empty"),
        };
        this.bars.clear();
        this
    }

    pub fn show(&self, step: &StepRecord, run: &RunInfo) {
        self.empty.set_hidden(true);
        let is_forced = run.is_forced(step);
        self.say(&describe(step, &run.options.sampling, run.vocab_size, is_forced));
        self.candidates.show(step, run);
        self.bars.show(step, run);
        self.curves.show(step, run);
        let values = [
            count(step.nucleus_size.into(), "token"),
            percent(step.nucleus_mass.min(1.0)),
            bits(step.entropy_bits),
            bits(step.surprisal_bits),
            grouped(u64::from(step.rank) + 1),
            milliseconds(step.ms.forward),
            milliseconds(step.ms.sample),
            count(step.positions_computed.into(), "position"),
        ];
        for (fact, value) in self.facts.iter().zip(values) {
            fact.set(&value);
        }
    }

    /// Empties the list between runs; it keeps its height.
    pub fn clear(&self) {
        self.candidates.clear();
        self.bars.clear();
        self.curves.clear();
        for fact in &self.facts {
            fact.set("–");
        }
    }

    fn say(&self, phrases: &[Phrase]) {
        self.sentence.set_text_content(None);
        for phrase in phrases {
            let (tag, text) = match phrase {
                Phrase::Plain(text) => ("span", text),
                Phrase::Strong(text) => ("b", text),
                Phrase::Token(text) => ("code", text),
            };
            let element: HtmlElement = create(tag, "");
            element.set_text_content(Some(text));
            append(&self.sentence, &element);
        }
    }
}

/// Adds a named figure to a list of them.
pub fn fact(list: &Element, name: &str) -> TextCell {
    let (group, term, value): (HtmlElement, HtmlElement, HtmlElement) =
        (create("div", ""), create("dt", ""), create("dd", ""));
    term.set_text_content(Some(name));
    append(&group, &term);
    append(&group, &value);
    append(list, &group);
    dom::set(&group, "data-fact", name);
    let cell = TextCell::new(&value);
    cell.set("–");
    cell
}
