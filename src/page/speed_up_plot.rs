//! The speed-up at each length, as a curve with the lengths at which it reaches five and ten.
//!
//! Invariant: draws the figures it is given; keeps none.

use super::dom::{self, TextCell, append, append_svg_text, by_id, create_svg};
use super::race::axis_end;
use super::report::{TARGETS, reaches};
use super::words::count;
use web_sys::SvgElement;

pub struct SpeedUpPlot {
    svg: SvgElement,
    curve: SvgElement,
    /// A line across, and what it says, for each target.
    targets: [(SvgElement, SvgElement, TextCell); TARGETS.len()],
    y_texts: [TextCell; 2],
    x_texts: [TextCell; 3],
}

// The plot's own units: it scales as a whole, text included.
const W: f64 = 400.0;
const H: f64 = 140.0;
const LEFT: f64 = 40.0;
const RIGHT: f64 = W - 70.0;
const TOP: f64 = 22.0;
const BOTTOM: f64 = H - 30.0;
/// Points of the curve at most.
const N_POINTS: usize = 200;

impl SpeedUpPlot {
    /// In the SVG element of index.html with this id.
    pub fn new(id: &str) -> Self {
        let svg: SvgElement = by_id(id);
        dom::set(&svg, "viewBox", &format!("0 0 {W} {H}"));
        let text = |x: f64, y: f64, anchor: &str| append_svg_text(&svg, x, y, anchor, "");
        let across = |class: &str, y: f64| {
            let line = create_svg("line", &[("class", class)]);
            dom::set(&line, "x1", &format!("{LEFT}"));
            dom::set(&line, "x2", &format!("{RIGHT}"));
            append(&svg, &line);
            move_line(&line, y);
            line
        };
        across("grid", TOP);
        across("grid", BOTTOM);
        text(0.0, 10.0, "start").set_text_content(Some("times as fast with the cache"));
        text((LEFT + RIGHT) / 2.0, H - 2.0, "middle")
            .set_text_content(Some("length: decode steps after the first token"));
        let targets = TARGETS.map(|_| {
            let (line, name) = (across("target", BOTTOM), text(RIGHT + 6.0, 0.0, "start"));
            let cell = TextCell::new(&name);
            (line, name, cell)
        });
        let y_texts = [BOTTOM, TOP].map(|y| TextCell::new(&text(LEFT - 6.0, y + 4.0, "end")));
        let x_texts = [(LEFT, "start"), ((LEFT + RIGHT) / 2.0, "middle"), (RIGHT, "end")]
            .map(|(x, anchor)| TextCell::new(&text(x, BOTTOM + 14.0, anchor)));
        let curve = create_svg("path", &[("class", "curve ratio")]);
        append(&svg, &curve);
        let this = Self { svg, curve, targets, y_texts, x_texts };
        this.draw(&[]);
        this
    }

    /// The speed-up over the first n decode steps, for each n.
    pub fn draw(&self, speed_ups: &[f64]) {
        let y_end = axis_end(speed_ups.iter().copied().fold(TARGETS[1], f64::max));
        let x_end = axis_end((speed_ups.len() as f64).max(10.0));
        let x_of = |n: usize| LEFT + n as f64 / x_end * (RIGHT - LEFT);
        let y_of = |ratio: f64| BOTTOM - ratio / y_end * (BOTTOM - TOP);
        self.y_texts[0].set("0");
        // Where the top of the axis is a target, the target's own line says so.
        self.y_texts[1].set(&format!("{y_end:.0}"));
        for (i, text) in self.x_texts.iter().enumerate() {
            text.set(&format!("{:.0}", x_end * i as f64 / 2.0));
        }
        let stride = speed_ups.len().div_ceil(N_POINTS).max(1);
        let shown = speed_ups.iter().enumerate().filter(|(i, _)| i % stride == 0 || i + 1 == speed_ups.len());
        let path: String = shown
            .map(|(i, &ratio)| format!("{}{:.1} {:.1}", if i == 0 { "M" } else { "L" }, x_of(i + 1), y_of(ratio)))
            .collect();
        dom::set(&self.curve, "d", if path.is_empty() { "M0 0" } else { &path });
        for (target, (line, name, cell)) in TARGETS.into_iter().zip(&self.targets) {
            move_line(line, y_of(target));
            // On a high axis the lines come near each other; their names keep a line's height apart.
            let y = if target == TARGETS[0] { y_of(target).max(y_of(TARGETS[1]) + 12.0) } else { y_of(target) };
            dom::set(name, "y", &format!("{:.1}", y + 4.0));
            cell.set(&match reaches(speed_ups, target) {
                Some(n) => format!("{target}× at {n}"),
                None => format!("{target}×: no"),
            });
            if speed_ups.is_empty() {
                cell.set(&format!("{target}×"));
            }
        }
        dom::set(&self.svg, "aria-label", &summary(speed_ups));
    }
}

fn move_line(line: &SvgElement, y: f64) {
    dom::set(line, "y1", &format!("{y:.1}"));
    dom::set(line, "y2", &format!("{y:.1}"));
}

/// The chart in words, for those who do not see it.
fn summary(speed_ups: &[f64]) -> String {
    let Some(last) = speed_ups.last() else {
        return "The speed-up at each length: nothing to compare yet".to_owned();
    };
    let targets = TARGETS.map(|target| match reaches(speed_ups, target) {
        Some(n) => format!("reaches {target} times at {}", count(n as u64, "decode step")),
        None => format!("does not reach {target} times"),
    });
    let n = count(speed_ups.len() as u64, "decode step");
    format!("The speed-up with the cache: {last:.1} times after {n}; it {} and {}.", targets[0], targets[1])
}
