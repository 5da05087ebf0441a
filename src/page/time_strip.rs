//! Where the time of the last tokens went: a strip with one bar per token, newest at the right, and the averages in numbers.
//!
//! A frame moves what is drawn to the left and adds the new bars, so its cost does not grow with the run; all bars are drawn
//! again only when the scale or the theme changes. The strip's own drawing comes after what it measures.
//!
//! Invariant: shows times that are measured elsewhere; its canvas has a fixed size, so nothing moves while it draws.

use super::dom::{self, TextCell, append, by_id, create};
use super::race::axis_end;
use super::time_share::{N_SHOWN, PARTS, Parts, TimeShare, parts};
use super::words::milliseconds;
use crate::clock::now_ms;
use crate::protocol::StepRecord;
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::{Rc, Weak};
use wasm_bindgen::JsCast;
use web_sys::{CanvasRenderingContext2d, Element, HtmlCanvasElement, HtmlElement};

pub struct TimeStrip {
    canvas: HtmlCanvasElement,
    context: CanvasRenderingContext2d,
    share: RefCell<TimeShare>,
    /// When the tokens arrived that are not painted yet.
    arrivals_ms: RefCell<VecDeque<f64>>,
    /// Swatches of the legend: the canvas takes its colours from them.
    swatches: [HtmlElement; PARTS.len()],
    colours: RefCell<Vec<String>>,
    means: [TextCell; PARTS.len()],
    scale_text: TextCell,
    /// Milliseconds that the strip is high.
    scale_ms: Cell<f64>,
    told_ms: Cell<f64>,
}

// Pixels of the canvas; the page scales it as a whole.
const BAR: f64 = 8.0;
const GAP: f64 = 2.0;
const W: f64 = BAR * N_SHOWN as f64;
const H: f64 = 160.0;
/// The numbers follow at this rhythm: faster could not be read.
const TELL_MS: f64 = 250.0;

impl TimeStrip {
    pub fn new() -> Rc<Self> {
        let canvas: HtmlCanvasElement = by_id("time-strip");
        canvas.set_width(W as u32);
        canvas.set_height(H as u32);
        let context = canvas.get_context("2d").ok().flatten().expect("a canvas that was not used has a 2d context");
        let legend: Element = by_id("time-means");
        let (swatches, means): (Vec<HtmlElement>, Vec<TextCell>) =
            PARTS.iter().map(|part| entry(&legend, part)).unzip();
        let this = Rc::new_cyclic(|weak: &Weak<Self>| {
            redraw_on_theme(weak.clone());
            Self {
                canvas,
                context: context.unchecked_into(),
                share: RefCell::default(),
                arrivals_ms: RefCell::default(),
                swatches: swatches.try_into().expect("one swatch per part"),
                colours: RefCell::default(),
                means: means.try_into().unwrap_or_else(|_| unreachable!("one mean per part")),
                scale_text: TextCell::of_id("time-scale"),
                scale_ms: Cell::new(1.0),
                told_ms: Cell::new(0.0),
            }
        });
        this.take_colours();
        this
    }

    /// A run begins.
    pub fn begin(&self) {
        self.share.borrow_mut().clear();
        self.arrivals_ms.borrow_mut().clear();
        self.draw_all();
        self.tell();
    }

    /// A token has come from the engine.
    pub fn arrive(&self, now_ms: f64) {
        self.arrivals_ms.borrow_mut().push_back(now_ms);
    }

    /// Tokens were painted in the frame that began at `frame_ms` and has just done its work.
    pub fn extend(&self, steps: &[Rc<StepRecord>], frame_ms: f64) {
        let painting_ms = (now_ms() - frame_ms) / steps.len().max(1) as f64;
        let mut n_new = 0;
        for step in steps {
            let arrived_ms = self.arrivals_ms.borrow_mut().pop_front();
            // The first token's time is the prompt's: it would dwarf all others.
            if let Some(arrived_ms) = arrived_ms.filter(|_| step.index > 0) {
                self.share.borrow_mut().push(parts(step.ms, arrived_ms, frame_ms, painting_ms));
                n_new += 1;
            }
        }
        let scale_ms = axis_end(self.share.borrow().typical_most() * 1.15);
        let fits = scale_ms <= self.scale_ms.get() && scale_ms > self.scale_ms.get() / 2.5;
        if fits {
            self.draw_new(n_new);
        } else {
            self.scale_ms.set(scale_ms);
            self.draw_all();
        }
        if frame_ms - self.told_ms.get() > TELL_MS {
            self.told_ms.set(frame_ms);
            self.tell();
        }
    }

    /// The run ended: the numbers are those of its last tokens.
    pub fn end(&self) {
        self.tell();
    }

    fn draw_new(&self, n_new: usize) {
        let width = BAR * n_new as f64;
        let context = &self.context;
        // Copying the canvas onto itself replaces what was there.
        context.set_global_composite_operation("copy").expect("the operation exists");
        context.draw_image_with_html_canvas_element(&self.canvas, -width, 0.0).expect("the canvas has a size");
        context.set_global_composite_operation("source-over").expect("the operation exists");
        self.draw_bars(n_new);
    }

    fn draw_all(&self) {
        self.context.clear_rect(0.0, 0.0, W, H);
        self.scale_text.set(&milliseconds(self.scale_ms.get()));
        self.draw_bars(N_SHOWN);
    }

    /// Draws the newest `n_most` bars.
    fn draw_bars(&self, n_most: usize) {
        let share = self.share.borrow();
        let colours = self.colours.borrow();
        for (from_right, parts) in (1..).zip(share.tokens().iter().rev().take(n_most)) {
            let x = W - BAR * f64::from(from_right);
            let mut bottom = H;
            for (ms, colour) in parts.iter().zip(colours.iter()) {
                let height = ms / self.scale_ms.get() * H;
                self.context.set_fill_style_str(colour);
                self.context.fill_rect(x, bottom - height, BAR - GAP, height);
                bottom -= height;
            }
        }
    }

    /// A canvas knows no custom properties: it takes the colours that the legend has in this theme.
    fn take_colours(&self) {
        let colour = |swatch: &HtmlElement| {
            let style = dom::window().get_computed_style(swatch).ok().flatten().expect("an element has a style");
            style.get_property_value("color").expect("every element has a colour")
        };
        *self.colours.borrow_mut() = self.swatches.iter().map(colour).collect();
    }

    /// The averages, and the strip in words.
    fn tell(&self) {
        let share = self.share.borrow();
        let means = share.means();
        for (i, cell) in self.means.iter().enumerate() {
            cell.set(&means.map_or("–".to_owned(), |means: Parts| milliseconds(means[i])));
        }
        let label = means.map_or("Where the time of each token goes: no tokens yet".to_owned(), |means| {
            let parts: Vec<String> =
                PARTS.iter().zip(means).map(|(part, ms)| format!("{part} {}", milliseconds(ms))).collect();
            format!("Mean time of the last {} tokens: {}", share.tokens().len(), parts.join(", "))
        });
        dom::set(&self.canvas, "aria-label", &label);
    }
}

/// A part in the legend: its swatch, its name, its mean.
fn entry(legend: &Element, part: &str) -> (HtmlElement, TextCell) {
    let (group, term, value): (HtmlElement, HtmlElement, HtmlElement) =
        (create("div", ""), create("dt", ""), create("dd", ""));
    let swatch: HtmlElement = create("i", part);
    append(&term, &swatch);
    append(&term, &dom::document().create_text_node(part));
    append(&group, &term);
    append(&group, &value);
    append(legend, &group);
    let cell = TextCell::new(&value);
    cell.set("–");
    (swatch, cell)
}

fn redraw_on_theme(strip: Weak<TimeStrip>) {
    let dark = dom::window().match_media("(prefers-color-scheme: dark)").ok().flatten();
    let dark = dark.expect("the query is well formed");
    dom::on(&dark, "change", move |_: web_sys::Event| {
        if let Some(strip) = strip.upgrade() {
            strip.take_colours();
            strip.draw_all();
        }
    });
}
