//! Two bars: all of the probability with the threshold that cuts it, and below it the kept part stretched to its full width
//! with the draw u on it. The wedge between them is the renormalisation.
//!
//! Everything moves by `transform` or inside the picture, so a step shifts no layout, and the labels carry their own anchor
//! from left to right with their position: they never leave the chart.
//!
//! Invariant: shows one step; keeps none.

use super::dom::{self, TextCell, append, by_id, create, create_svg};
use super::ladder::{Filter, filter_name, first_filter, shown_probabilities};
use super::stage::RunInfo;
use super::words::{percent, spelt};
use crate::protocol::{SamplerOrder, StepRecord};
use std::cell::Cell;
use web_sys::{Element, HtmlElement, SvgElement};

/// Kept tokens drawn one by one; the rest of the nucleus is one block.
const N_SEGMENTS: usize = 24;
/// Width of the picture in its own units; it stretches to the panel.
const WIDTH: f64 = 1000.0;

pub struct CumulativeBars {
    chart: Element,
    caption: TextCell,
    all: Bar,
    kept: Bar,
    wedge: SvgElement,
    threshold: Marker,
    draw: Marker,
}

/// One bar: a segment per kept token, one for the other kept ones; what is left of it is cut.
struct Bar {
    segments: Vec<Segment>,
    rest: Segment,
}

/// A piece of a bar, written to the document only when it changes: most of them are empty most of the time.
struct Segment {
    rect: SvgElement,
    last: Cell<Option<(f64, f64, &'static str)>>,
}

/// A label and a tick at a place between 0 and 1.
struct Marker {
    slider: HtmlElement,
    anchor: HtmlElement,
    text: TextCell,
}

impl CumulativeBars {
    pub fn new() -> Self {
        let chart: Element = by_id("cumulative");
        let threshold = Marker::new(&chart, "above");
        let svg =
            create_svg("svg", &[("viewBox", "0 0 1000 44"), ("preserveAspectRatio", "none"), ("aria-hidden", "true")]);
        append(&chart, &svg);
        let draw = Marker::new(&chart, "below");
        let pattern = create_svg(
            "pattern",
            &[("id", "hatch"), ("width", "12"), ("height", "6"), ("patternUnits", "userSpaceOnUse")],
        );
        append(&pattern, &create_svg("path", &[("d", "M0 6 L12 0"), ("class", "hatch")]));
        append(&svg, &pattern);
        append(
            &svg,
            &create_svg("rect", &[("class", "frame"), ("width", "1000"), ("height", "14"), ("fill", "url(#hatch)")]),
        );
        let wedge = create_svg("path", &[("class", "wedge")]);
        append(&svg, &wedge);
        append(&svg, &create_svg("rect", &[("class", "frame"), ("width", "1000"), ("height", "14"), ("y", "30")]));
        let (all, kept) = (Bar::new(&svg, "0"), Bar::new(&svg, "30"));
        let caption: HtmlElement = create("span", "stretch");
        append(&chart, &caption);
        let caption = TextCell::new(&caption);
        Self { chart, caption, all, kept, wedge, threshold, draw }
    }

    pub fn show(&self, step: &StepRecord, run: &RunInfo) {
        let sampling = &run.options.sampling;
        let probabilities = shown_probabilities(step, sampling);
        let kept: Vec<usize> =
            (0..step.candidates.len()).filter(|&at| step.candidates[at].kept).take(N_SEGMENTS).collect();
        let chosen = kept.iter().position(|&at| step.candidates[at].id == step.id);
        let mass = match sampling.temperature {
            0.0 => step.candidates.first().map_or(1.0, |best| best.p_raw),
            _ => step.nucleus_mass.min(1.0),
        };
        self.all.draw(kept.iter().map(|&at| probabilities[at].0), mass, chosen);
        self.kept.draw(kept.iter().map(|&at| step.candidates[at].p_final), 1.0, chosen);
        let x = f64::from(mass) * WIDTH;
        dom::set(&self.wedge, "d", &format!("M0 14 H{x:.1} L{WIDTH} 30 H0 Z"));

        // top-p looks at the mass that top-k left: the running sum is in those terms, the bar in those of the whole.
        let scale =
            step.candidates.first().map_or(1.0, |best| best.p_temperature / best.cumulative.max(f32::MIN_POSITIVE));
        let filter = first_filter(step, sampling).filter(|_| step.nucleus_size < run.vocab_size);
        let (at, name) = match filter {
            // In llama.cpp's order it looked before the temperature, which the bar shows.
            Some(Filter::TopP) if sampling.order == SamplerOrder::HuggingFace => {
                (sampling.top_p * scale, filter_name(Filter::TopP, sampling))
            }
            Some(filter) => (mass, filter_name(filter, sampling)),
            None => (1.0, "nothing is cut".to_owned()),
        };
        self.threshold.show(f64::from(at), &format!("{name} ▾"), "▾ ", &name);
        self.caption
            .set(&format!("above: all, {} cut off · below: the kept, stretched", percent((1.0 - mass).max(0.0))));
        match step.u {
            Some(u) => self.draw.show(u, &format!("u = {u:.4} ▴"), "▴ ", &format!("u = {u:.4}")),
            None => self.draw.show(0.0, "", "", "no draw: the token was not left to chance"),
        }
        let u = step.u.map_or("no draw".to_owned(), |u| format!("the draw u = {u:.4}"));
        let label = format!(
            "{} of the probability is kept ({name}), {} is cut off; stretched to its full width, {u} falls on {}",
            percent(mass),
            percent((1.0 - mass).max(0.0)),
            spelt(&step.bytes)
        );
        dom::set(&self.chart, "aria-label", &label);
    }

    pub fn clear(&self) {
        self.all.draw(std::iter::empty(), 0.0, None);
        self.kept.draw(std::iter::empty(), 0.0, None);
        dom::set(&self.wedge, "d", "M0 14 H0");
        self.threshold.show(1.0, "", "", "");
        self.draw.show(0.0, "", "", "");
        self.caption.set("above: all tokens · below: the kept ones, stretched");
        dom::set(&self.chart, "aria-label", "No step yet");
    }
}

impl Bar {
    fn new(svg: &SvgElement, y: &str) -> Self {
        let rest = Segment::new(svg, y);
        Self { segments: (0..N_SEGMENTS).map(|_| Segment::new(svg, y)).collect(), rest }
    }

    /// Draws kept tokens of these probabilities from the left; `end` is where the last kept one ends.
    fn draw(&self, mut probabilities: impl Iterator<Item = f32>, end: f32, chosen: Option<usize>) {
        let mut x = 0.0;
        for (i, segment) in self.segments.iter().enumerate() {
            let width = probabilities.next().map_or(0.0, f64::from) * WIDTH;
            // A hair of paper between neighbours, where there is room for it.
            let gap = if width > 4.0 { 1.5 } else { 0.0 };
            segment.draw(x, width - gap, if chosen == Some(i) { "chosen" } else { "kept" });
            x += width;
        }
        self.rest.draw(x, (f64::from(end) * WIDTH - x).max(0.0), "rest");
    }
}

impl Segment {
    fn new(svg: &SvgElement, y: &str) -> Self {
        let rect = create_svg("rect", &[("y", y), ("height", "14"), ("width", "0")]);
        append(svg, &rect);
        Self { rect, last: Cell::new(None) }
    }

    fn draw(&self, x: f64, width: f64, class: &'static str) {
        // Where nothing is stays where it was.
        let now = if width > 0.0 { (x, width, class) } else { (0.0, 0.0, class) };
        if self.last.replace(Some(now)) != Some(now) {
            dom::set(&self.rect, "x", &format!("{:.2}", now.0));
            dom::set(&self.rect, "width", &format!("{:.2}", now.1));
            dom::set(&self.rect, "class", class);
        }
    }
}

impl Marker {
    fn new(chart: &Element, class: &str) -> Self {
        let slider: HtmlElement = create("div", &format!("marker {class}"));
        let anchor: HtmlElement = create("span", "");
        dom::set(&slider, "aria-hidden", "true");
        append(&slider, &anchor);
        append(chart, &slider);
        let text = TextCell::new(&anchor);
        Self { slider, anchor, text }
    }

    /// Shows the tick at `at`: to the right of its label in the right half, to the left of it in the left half.
    fn show(&self, at: f64, tick_right: &str, tick_left: &str, label: &str) {
        let at = at.clamp(0.0, 1.0);
        dom::style(&self.slider, "transform", &format!("translateX({:.2}%)", at * 100.0));
        if at > 0.5 && !tick_right.is_empty() {
            dom::style(&self.anchor, "transform", "translateX(calc(-100% + 0.3em))");
            self.text.set(tick_right);
        } else {
            dom::style(&self.anchor, "transform", if tick_left.is_empty() { "none" } else { "translateX(-0.3em)" });
            self.text.set(&format!("{tick_left}{label}"));
        }
    }
}
