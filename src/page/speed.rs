//! The figures of the last run, and the picture of what the KV cache saves.
//!
//! Invariant: shows `race` figures; measures nothing itself but when a step arrived.

use super::agreement::Agreement;
use super::dom::{self, TextCell, append, append_svg_text, by_id, create_svg};
use super::inspector::fact;
use super::race::{LiveRate, Race, Trace, axis_end, slot, speed_up, used_cache};
use super::speed_up_plot::SpeedUpPlot;
use super::stage::RunInfo;
use super::words::{bytes, count, grouped, milliseconds, rate};
use crate::protocol::{RunResult, StepRecord};
use std::cell::{Cell, RefCell};
use web_sys::{HtmlElement, SvgElement};

pub struct SpeedView {
    live: RefCell<LiveRate>,
    live_text: TextCell,
    race: RefCell<Race>,
    agreement: RefCell<Agreement>,
    kv_bytes_per_position: Cell<u64>,
    /// The run in progress goes on from a text that is there already: it is a run of neither mode.
    is_branch: Cell<bool>,
    modes: [ModeRow; 2],
    facts: [TextCell; 4],
    pair: [TextCell; 4],
    speed_ups: SpeedUpPlot,
    ratio: TextCell,
    ratio_note: TextCell,
    plot: Plot,
    drawn_ms: Cell<f64>,
}

struct ModeRow {
    tokens_per_s: TextCell,
    run: TextCell,
}

struct Plot {
    svg: SvgElement,
    curves: [SvgElement; 2],
    names: [SvgElement; 2],
    y_texts: [TextCell; 3],
    x_texts: [TextCell; 3],
    empty: HtmlElement,
}

/// The chart follows a run at this rhythm, not at every frame.
const REDRAW_MS: f64 = 200.0;
/// Points of one curve at most: a long run is averaged down, so a redraw costs the same at any length.
const N_POINTS: usize = 200;

impl SpeedView {
    pub fn new() -> Self {
        let mode = |name: &str| ModeRow {
            tokens_per_s: TextCell::of_id(&format!("decode-{name}")),
            run: TextCell::of_id(&format!("run-{name}")),
        };
        let (facts, pair) = (by_id("last-run"), by_id("pair"));
        Self {
            live: RefCell::default(),
            live_text: TextCell::of_id("tokens-per-second"),
            race: RefCell::default(),
            agreement: RefCell::default(),
            kv_bytes_per_position: Cell::new(0),
            is_branch: Cell::new(false),
            modes: [mode("on"), mode("off")],
            facts: ["first token", "prefill", "decode", "KV cache"].map(|name| fact(&facts, name)),
            pair: ["positions computed", "bytes cached", "same tokens", "largest logit difference"]
                .map(|name| fact(&pair, name)),
            speed_ups: SpeedUpPlot::new("speed-up-plot"),
            ratio: TextCell::of_id("speed-up"),
            ratio_note: TextCell::of_id("speed-up-note"),
            plot: Plot::new(),
            drawn_ms: Cell::new(0.0),
        }
    }

    /// A run with or without the cache begins: its figures replace those of the last one of its kind. Those of a branch replace
    /// none: it takes over a text, and most of its cache.
    pub fn begin(&self, run: &RunInfo) {
        let kv_cache = run.options.kv_cache;
        self.is_branch.set(run.branch_at.is_some() || !run.options.resume_ids.is_empty());
        self.live.borrow_mut().clear();
        self.live_text.set("–");
        for fact in &self.facts {
            fact.set("–");
        }
        if self.is_branch.get() {
            return;
        }
        self.agreement.borrow_mut().begin(kv_cache, &run.options.prompt);
        self.kv_bytes_per_position.set(run.kv_bytes_per_position);
        self.race.borrow_mut().begin(kv_cache);
        self.modes[slot(kv_cache)].tokens_per_s.set("–");
        self.modes[slot(kv_cache)].run.set("running");
        self.draw();
    }

    /// Forgets what was measured: the runs to come are not to be compared with it.
    pub fn forget(&self) {
        self.race.borrow_mut().clear();
        self.agreement.borrow_mut().clear();
        self.set_rows("–", "not run yet");
        self.draw();
    }

    /// A step arrived, at `now_ms` on the page's clock.
    pub fn arrive(&self, now_ms: f64) {
        self.live.borrow_mut().arrive(now_ms);
    }

    /// Shows the steps of one frame. `is_paused`: the reader goes step by step, so there is no rate to show.
    pub fn extend(&self, steps: &[StepRecord], run: &RunInfo, is_paused: bool, now_ms: f64) {
        let is_branch = self.is_branch.get();
        for step in steps.iter().filter(|_| !is_branch) {
            self.race.borrow_mut().push(step);
            self.agreement.borrow_mut().push(step);
        }
        let live = self.live.borrow().tokens_per_s().filter(|_| !is_paused);
        self.live_text.set(&live.map_or("–".to_owned(), rate));
        if let Some(step) = steps.last() {
            let is_cached = used_cache(step).unwrap_or(run.options.kv_cache);
            let cached = if is_cached { u64::from(step.kv_length) * run.kv_bytes_per_position } else { 0 };
            self.facts[3].set(&if cached > 0 { bytes(cached) } else { "off".to_owned() });
        }
        if is_branch {
            return;
        }
        if self.race.borrow().is_mixed() {
            self.set_rows("–", "switched midway");
        }
        if now_ms - self.drawn_ms.get() > REDRAW_MS {
            self.drawn_ms.set(now_ms);
            self.draw();
        }
    }

    /// The run ended; `was_paused`: it waited for the reader, so its wall time says nothing.
    pub fn end(&self, result: Option<&RunResult>, kv_cache: bool, was_paused: bool) {
        let row = &self.modes[slot(kv_cache)];
        if let Some(result) = result {
            let decode = if was_paused { f64::NAN } else { result.decode_tokens_per_s };
            self.facts[0].set(&milliseconds(result.ttft_ms));
            self.facts[1].set(&format!("{} tokens/s", rate(result.prefill_tokens_per_s)));
            self.facts[2].set(&if was_paused { "by hand".to_owned() } else { format!("{} tokens/s", rate(decode)) });
            self.live_text.set(&rate(decode));
            // The whole run's speed is no mode's speed when the switch was moved.
            if !self.is_branch.get() && !self.race.borrow().is_mixed() {
                let by_hand = if was_paused { ", by hand" } else { "" };
                row.tokens_per_s.set(&rate(decode));
                row.run.set(&format!(
                    "{} + {}{by_hand}",
                    grouped(result.prompt_tokens.into()),
                    count(result.new_tokens.into(), "token")
                ));
            }
        } else if !self.is_branch.get() {
            row.run.set("did not finish");
        }
        self.draw();
    }

    /// All steps of a recorded run were shown: its speed is that of the steps, on the machine that recorded them.
    pub fn end_recorded(&self, kv_cache: bool) {
        let row = &self.modes[slot(kv_cache)];
        let tokens_per_s = self.race.borrow().traces()[slot(kv_cache)].tokens_per_s();
        row.tokens_per_s.set(&tokens_per_s.map_or("–".to_owned(), rate));
        row.run.set("recorded");
        self.live_text.set("–");
        self.draw();
    }

    /// Of the last run in this mode: tokens of its prompt, and milliseconds of each decode step.
    pub fn measured(&self, kv_cache: bool) -> (u32, Vec<f64>) {
        let race = self.race.borrow();
        let trace = &race.traces()[slot(kv_cache)];
        (trace.n_prompt, trace.unbroken_ms())
    }

    fn set_rows(&self, tokens_per_s: &str, run: &str) {
        for row in &self.modes {
            row.tokens_per_s.set(tokens_per_s);
            row.run.set(run);
        }
    }

    /// What both runs took, and whether they wrote the same.
    fn draw_pair(&self, race: &Race) {
        let [on, off] = race.works();
        let both = |on: String, off: String| format!("{on} / {off}");
        self.pair[0].set(&both(grouped(on.n_computed), grouped(off.n_computed)));
        let cached = |n_cached: u32| bytes(u64::from(n_cached) * self.kv_bytes_per_position.get());
        self.pair[1].set(&both(cached(on.n_cached), cached(off.n_cached)));
        match self.agreement.borrow().found() {
            Some(found) => {
                self.pair[2].set(&format!("{} of {}", grouped(found.n_same as u64), grouped(found.n_compared as u64)));
                let largest = if found.largest == 0.0 { "0".to_owned() } else { format!("{:.1e}", found.largest) };
                self.pair[3].set(&largest);
            }
            None => {
                self.pair[2].set("–");
                self.pair[3].set("–");
            }
        }
    }

    fn draw(&self) {
        let race = self.race.borrow();
        self.plot.draw(race.traces());
        self.speed_ups.draw(&race.speed_ups());
        self.draw_pair(&race);
        let [with_cache, without] = race.traces();
        match speed_up(with_cache, without) {
            Some(found) => {
                self.ratio.set(&format!("{:.1}×", found.ratio));
                self.ratio_note.set(&format!(
                    "as fast with the cache, over the same {} after a prompt of {}.",
                    count(found.n_steps as u64, "decode step"),
                    count(found.n_prompt.into(), "token")
                ));
            }
            None => {
                self.ratio.set("–");
                let both = !with_cache.steps.is_empty() && !without.steps.is_empty();
                self.ratio_note.set(&if both && with_cache.n_prompt == without.n_prompt {
                    "Not comparable yet: no step was computed in both modes. Run one of them again.".to_owned()
                } else if both {
                    let lengths = (grouped(with_cache.n_prompt.into()), grouped(without.n_prompt.into()));
                    format!(
                        "Not comparable: the prompts have {} and {} tokens. Run both on the same one.",
                        lengths.0, lengths.1
                    )
                } else {
                    "Run both modes on prompts of the same length to compare them.".to_owned()
                });
            }
        }
    }
}

// The plot's own units: it scales as a whole, text included.
const W: f64 = 400.0;
const H: f64 = 140.0;
const LEFT: f64 = 40.0;
const RIGHT: f64 = W - 62.0;
const TOP: f64 = 22.0;
const BOTTOM: f64 = H - 30.0;

impl Plot {
    fn new() -> Self {
        let svg: SvgElement = by_id("plot");
        dom::set(&svg, "viewBox", &format!("0 0 {W} {H}"));
        let text = |x: f64, y: f64, anchor: &str, class: &str| append_svg_text(&svg, x, y, anchor, class);
        let level = |i: f64| BOTTOM - i / 2.0 * (BOTTOM - TOP);
        for i in [0.0, 1.0, 2.0] {
            let y = format!("{}", level(i));
            let line = create_svg("line", &[("class", "grid"), ("y1", &y), ("y2", &y)]);
            dom::set(&line, "x1", &format!("{LEFT}"));
            dom::set(&line, "x2", &format!("{RIGHT}"));
            append(&svg, &line);
        }
        text(0.0, 10.0, "start", "").set_text_content(Some("ms per token"));
        text((LEFT + RIGHT) / 2.0, H - 2.0, "middle", "").set_text_content(Some("position in the sequence, tokens"));
        let y_texts = [0.0, 1.0, 2.0].map(|i| TextCell::new(&text(LEFT - 6.0, level(i) + 4.0, "end", "")));
        let x_texts = [(LEFT, "start"), ((LEFT + RIGHT) / 2.0, "middle"), (RIGHT, "end")]
            .map(|(x, anchor)| TextCell::new(&text(x, BOTTOM + 14.0, anchor, "")));
        let curves = ["curve on", "curve off"].map(|class| {
            let curve = create_svg("path", &[("class", class)]);
            append(&svg, &curve);
            curve
        });
        let names = [("cache on", "name on"), ("cache off", "name off")].map(|(name, class)| {
            let text = text(RIGHT + 6.0, 0.0, "start", class);
            text.set_text_content(Some(name));
            dom::set(&text, "visibility", "hidden");
            text
        });
        Self { svg, curves, names, y_texts, x_texts, empty: by_id("plot-empty") }
    }

    fn draw(&self, traces: &[Trace; 2]) {
        let curves = [0, 1].map(|i| traces[i].stretches(N_POINTS));
        let all = || curves.iter().flatten().flatten();
        self.empty.set_hidden(all().next().is_some());
        dom::set_if(&self.svg, "class", "plot bare", all().next().is_none());
        if all().next().is_none() {
            return;
        }
        dom::set(&self.svg, "class", "plot");
        let x_end = axis_end(all().map(|&(x, _)| x).fold(10.0, f64::max));
        let y_end = axis_end(all().map(|&(_, y)| y).fold(0.0, f64::max));
        let x_of = |x: f64| LEFT + x / x_end * (RIGHT - LEFT);
        let y_of = |y: f64| BOTTOM - y / y_end * (BOTTOM - TOP);
        for (i, text) in self.y_texts.iter().enumerate() {
            text.set(&tick(y_end * i as f64 / 2.0));
        }
        for (i, text) in self.x_texts.iter().enumerate() {
            text.set(&tick(x_end * i as f64 / 2.0));
        }
        let mut ends = [None; 2];
        for (i, stretches) in curves.iter().enumerate() {
            let path: String = stretches
                .iter()
                .flat_map(|points| points.iter().enumerate())
                .map(|(k, &(x, y))| format!("{}{:.1} {:.1}", if k == 0 { "M" } else { "L" }, x_of(x), y_of(y)))
                .collect();
            dom::set(&self.curves[i], "d", if path.is_empty() { "M0 0" } else { &path });
            ends[i] = stretches.last().and_then(|points| points.last()).map(|&(_, y)| y_of(y) + 4.0);
        }
        // Names at the curves' ends, pushed apart where the curves meet.
        if let [Some(on), Some(off)] = &mut ends
            && (*on - *off).abs() < 14.0
        {
            let middle = ((*on + *off) / 2.0).clamp(TOP + 4.0, BOTTOM - 3.0);
            (*off, *on) = if off <= on { (middle - 7.0, middle + 7.0) } else { (middle + 7.0, middle - 7.0) };
        }
        for (name, end) in self.names.iter().zip(ends) {
            dom::set(name, "visibility", if end.is_some() { "visible" } else { "hidden" });
            dom::set(name, "y", &format!("{:.1}", end.unwrap_or(0.0)));
        }
        dom::set(&self.svg, "aria-label", &summary(traces));
    }
}

fn tick(value: f64) -> String {
    if value == 0.0 || value >= 10.0 { format!("{value:.0}") } else { format!("{value:.1}") }
}

/// The chart in words, for those who do not see it.
fn summary(traces: &[Trace; 2]) -> String {
    let curve = |name: &str, trace: &Trace| match (trace.steps.first(), trace.steps.last()) {
        (Some(first), Some(last)) => format!(
            "{name}: {} at position {}, {} at position {}. ",
            milliseconds(first.1),
            trace.n_prompt + first.0,
            milliseconds(last.1),
            trace.n_prompt + last.0
        ),
        _ => String::new(),
    };
    format!(
        "Milliseconds per token against position. {}{}",
        curve("Cache on", &traces[0]),
        curve("Cache off", &traces[1])
    )
}
