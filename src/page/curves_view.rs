//! Draws the two curves over the whole vocabulary: probability by rank, both on log scales, and the running sum by rank with the
//! threshold and the draw on it.
//!
//! Invariant: shows one step; keeps none. Nothing is drawn while the disclosure is closed.

use super::curves::{Curves, Level, curves};
use super::dom::{self, TextCell, append, by_id, create_svg};
use super::ladder::{Filter, filters};
use super::stage::RunInfo;
use super::words::{count, grouped, percent, setting, spelt};
use crate::protocol::{SamplerOrder, StepRecord};
use std::fmt::Write;
use web_sys::{Element, SvgElement};

/// Sizes of a picture, in its own units.
const WIDTH: f64 = 300.0;
const HEIGHT: f64 = 150.0;
const LEFT: f64 = 42.0;
const RIGHT: f64 = 292.0;
const TOP: f64 = 8.0;
const BOTTOM: f64 = 122.0;
/// The least probability on the log scale, as a power of ten.
const LEAST_POWER: f64 = -16.0;
/// Points nearer than this are one.
const NEAR: f64 = 1.0;

pub struct CurvesView {
    details: Element,
    by_rank: Picture,
    sums: Picture,
    threshold: SvgElement,
    draw: SvgElement,
    captions: [TextCell; 2],
}

/// Axes, the curve's kept and cut parts, the edge of the nucleus, and the token drawn.
struct Picture {
    svg: SvgElement,
    kept: SvgElement,
    cut: SvgElement,
    edge: SvgElement,
    chosen: SvgElement,
}

impl CurvesView {
    pub fn new() -> Self {
        let powers = [0.0, -4.0, -8.0, -12.0, -16.0].map(|power| (y_of_power(power), power_text(power)));
        let shares = [1.0, 0.75, 0.5, 0.25, 0.0].map(|sum| (y_of_sum(sum), format!("{:.0} %", sum * 100.0)));
        let (by_rank, sums) = (Picture::new("rank-curve", &powers), Picture::new("sum-curve", &shares));
        let line = |class: &str| {
            let line = create_svg("path", &[("class", class)]);
            append(&sums.svg, &line);
            line
        };
        let (threshold, draw) = (line("threshold"), line("draw"));
        let captions = ["rank-caption", "sum-caption"].map(TextCell::of_id);
        Self { details: by_id("curves"), by_rank, sums, threshold, draw, captions }
    }

    pub fn show(&self, step: &StepRecord, run: &RunInfo) {
        if !self.details.has_attribute("open") {
            return;
        }
        match curves(step, &run.options) {
            Some(curves) => self.draw(step, run, &curves),
            None => {
                self.clear();
                self.captions[0].set("This step came without candidates, so there is no curve.");
            }
        }
    }

    fn draw(&self, step: &StepRecord, run: &RunInfo, curves: &Curves) {
        let n_kept = step.nucleus_size;
        let rank = step.rank.saturating_add(1);
        let (by_power, by_sum) = (|level: &Level| y_of_power(level.p.log10()), |level: &Level| y_of_sum(level.sum));
        let chosen = curves.levels.iter().find(|level| level.n_above + level.count >= rank);
        let drawn = chosen.map(|level| (f64::from(rank), by_power(level), by_sum(level)));
        self.by_rank.draw(curves, n_kept, by_power, drawn.map(|(rank, y, _)| (rank, y)));
        self.sums.draw(curves, n_kept, by_sum, drawn.map(|(rank, _, y)| (rank, y)));

        let sampling = &run.options.sampling;
        // Where another filter came before, or the temperature after, top-p looked at another sum than this.
        let is_top_p = sampling.order == SamplerOrder::HuggingFace
            && sampling.temperature > 0.0
            && filters(sampling).first() == Some(&Filter::TopP);
        let threshold = if is_top_p { horizontal(y_of_sum(sampling.top_p.into())) } else { String::new() };
        dom::set(&self.threshold, "d", &threshold);
        let target = step.u.map(|u| u * f64::from(step.nucleus_mass.min(1.0)));
        dom::set(&self.draw, "d", &target.map_or(String::new(), |sum| horizontal(y_of_sum(sum))));

        let known = match curves.n_unknown {
            0 => "Every rank to 1/16 of a logit.".to_owned(),
            n => format!(
                "The GPU reads back the best {}: the other {} share {}.",
                grouped(curves.n_known().into()),
                grouped(n.into()),
                percent(curves.unknown_mass().max(0.0) as f32)
            ),
        };
        self.captions[0].set(&format!("At temperature {}. {known}", setting(curves.temperature)));
        let crossing = step.candidates.iter().rev().find(|candidate| candidate.kept).filter(|_| is_top_p);
        let crossing = match crossing {
            Some(last) if n_kept as usize <= step.candidates.len() => {
                format!(
                    "{} crosses {}, number {}. ",
                    spelt(&last.bytes),
                    setting(sampling.top_p),
                    grouped(n_kept.into())
                )
            }
            _ => format!("{} kept. ", count(n_kept.into(), "token")),
        };
        let draw = match (step.u, target) {
            (Some(u), Some(sum)) => format!("u = {u:.4} of what is kept is {sum:.4}: {}.", spelt(&step.bytes)),
            _ => "No draw.".to_owned(),
        };
        self.captions[1].set(&format!("{crossing}{draw}"));

        let mut label = format!("Probability by rank, at temperature {}", setting(curves.temperature));
        let ranks = [1, 10, 100, 1000, 10_000, run.vocab_size];
        for (rank, p) in ranks.into_iter().filter_map(|rank| curves.p_at(rank).map(|p| (rank, p))) {
            write!(label, "; rank {}: {p:.2e}", grouped(rank.into())).expect("a string takes all");
        }
        dom::set(&self.by_rank.svg, "aria-label", &label);
        dom::set(&self.sums.svg, "aria-label", &format!("Running sum of the probability by rank. {crossing}{draw}"));
    }

    pub fn clear(&self) {
        for picture in [&self.by_rank, &self.sums] {
            for path in [&picture.kept, &picture.cut, &picture.edge] {
                dom::set(path, "d", "");
            }
            dom::set(&picture.chosen, "r", "0");
            dom::set(&picture.svg, "aria-label", "No step yet");
        }
        dom::set(&self.threshold, "d", "");
        dom::set(&self.draw, "d", "");
        self.captions.iter().for_each(|caption| caption.set(""));
    }
}

impl Picture {
    fn new(id: &str, marks: &[(f64, String)]) -> Self {
        let svg: SvgElement = by_id(id);
        dom::set(&svg, "viewBox", &format!("0 0 {WIDTH} {HEIGHT}"));
        let text = |x: f64, y: f64, anchor: &str, text: &str| {
            let (x, y) = (format!("{x:.1}"), format!("{y:.1}"));
            let element = create_svg("text", &[("x", &x), ("y", &y), ("text-anchor", anchor)]);
            element.set_text_content(Some(text));
            append(&svg, &element);
        };
        for (y, mark) in marks {
            append(&svg, &create_svg("path", &[("class", "grid"), ("d", &horizontal(*y))]));
            text(LEFT - 4.0, y + 3.5, "end", mark);
        }
        for (rank, mark) in [(1.0, "1"), (10.0, "10"), (100.0, "100"), (1e3, "1,000"), (1e4, "10⁴"), (1e5, "10⁵")] {
            text(x_of(rank), BOTTOM + 12.0, "middle", mark);
        }
        text((LEFT + RIGHT) / 2.0, HEIGHT - 4.0, "middle", "rank of the token (log scale)");
        let path = |class: &str| {
            let path = create_svg("path", &[("class", class)]);
            append(&svg, &path);
            path
        };
        let (edge, cut, kept) = (path("edge"), path("cut"), path("kept"));
        let chosen = create_svg("circle", &[("class", "chosen"), ("r", "0")]);
        append(&svg, &chosen);
        Self { svg, kept, cut, edge, chosen }
    }

    /// Draws the curve at the heights `y`, kept down to rank `n_kept`; `chosen` is rank and height of the token drawn.
    fn draw(&self, curves: &Curves, n_kept: u32, y: impl Fn(&Level) -> f64, chosen: Option<(f64, f64)>) {
        let (mut kept, mut cut) = (String::new(), String::new());
        let mut last = (f64::NEG_INFINITY, 0.0);
        for level in &curves.levels {
            let point = (x_of(f64::from(level.n_above) + f64::from(level.count.max(1))), y(level));
            let is_kept = level.n_above < n_kept;
            if is_kept != cut.is_empty() || (point.0 - last.0).abs() + (point.1 - last.1).abs() >= NEAR {
                let path = if is_kept { &mut kept } else { &mut cut };
                let command = if path.is_empty() { 'M' } else { 'L' };
                if command == 'M' && !is_kept && last.0.is_finite() {
                    write!(path, "M{:.1} {:.1}L{:.1} {:.1}", last.0, last.1, point.0, point.1)
                        .expect("a string takes all");
                } else {
                    write!(path, "{command}{:.1} {:.1}", point.0, point.1).expect("a string takes all");
                }
                last = point;
            }
        }
        dom::set(&self.kept, "d", &kept);
        dom::set(&self.cut, "d", &cut);
        let is_cut = n_kept < curves.n_known().saturating_add(curves.n_unknown);
        let x = x_of(f64::from(n_kept.max(1)));
        dom::set(&self.edge, "d", &if is_cut { format!("M{x:.1} {TOP}V{BOTTOM}") } else { String::new() });
        let (rank, y) = chosen.unwrap_or((1.0, 0.0));
        dom::set(&self.chosen, "cx", &format!("{:.1}", x_of(rank)));
        dom::set(&self.chosen, "cy", &format!("{y:.1}"));
        dom::set(&self.chosen, "r", if chosen.is_some() { "4" } else { "0" });
    }
}

/// Ranks from 1 to 200,000.
fn x_of(rank: f64) -> f64 {
    LEFT + (RIGHT - LEFT) * rank.log10() / 5.3
}

fn y_of_power(power: f64) -> f64 {
    TOP + (BOTTOM - TOP) * (power / LEAST_POWER).clamp(0.0, 1.0)
}

fn y_of_sum(sum: f64) -> f64 {
    BOTTOM - (BOTTOM - TOP) * sum.clamp(0.0, 1.0)
}

fn horizontal(y: f64) -> String {
    format!("M{LEFT} {y:.1}H{RIGHT}")
}

fn power_text(power: f64) -> String {
    if power == 0.0 { "1".to_owned() } else { super::words::power_of_ten(10f64.powf(power)).replace("1·", "") }
}
