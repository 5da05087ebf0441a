//! Runs in pairs: the same text without the KV cache and with it. The race does it once, with the settings of the form; the
//! exercise several times, with its own.
//!
//! Invariant: starts its runs as the controls do, through [`App::run`]; what the figures mean is decided in `race` and `report`.

use super::App;
use crate::error::{Error, Result};
use crate::page::dom::{self, TextCell, by_id, on};
use crate::page::form::prompt_text;
use crate::page::options::Pace;
use crate::page::report::{Fact, Report, TARGETS, reaches};
use crate::page::run::Start;
use crate::page::save_file::save_text;
use crate::page::speed_up_plot::SpeedUpPlot;
use crate::page::words::{count, rate};
use crate::protocol::{GenerateOptions, ModelInfo, RunResult, StopReason};
use futures_channel::oneshot;
use std::cell::RefCell;
use std::rc::Rc;

use wasm_bindgen_futures::spawn_local;
use web_sys::{Event, HtmlButtonElement, HtmlSelectElement};

/// The exercise's result and its files.
pub struct ExerciseView {
    n_runs: HtmlSelectElement,
    text: TextCell,
    plot: SpeedUpPlot,
    json: HtmlButtonElement,
    csv: HtmlButtonElement,
    report: RefCell<Option<Report>>,
}

/// What the status line says while both modes are measured: without the cache, and with it.
const MESSAGES: [&str; 2] = [
    "Measuring without the cache: every token computes all positions again.",
    "Measuring the same tokens with the cache.",
];

impl ExerciseView {
    pub fn new() -> Self {
        Self {
            n_runs: by_id("exercise-runs"),
            text: TextCell::of_id("exercise-result"),
            plot: SpeedUpPlot::new("exercise-plot"),
            json: by_id("exercise-json"),
            csv: by_id("exercise-csv"),
            report: RefCell::default(),
        }
    }

    fn show(&self, report: Report) {
        let speed_ups = report.speed_ups();
        self.plot.draw(&speed_ups);
        self.text.set(&result_text(&report, &speed_ups));
        for button in [&self.json, &self.csv] {
            button.set_disabled(false);
            dom::set_if(button, "title", "", false);
        }
        *self.report.borrow_mut() = Some(report);
    }
}

fn result_text(report: &Report, speed_ups: &[f64]) -> String {
    let Some(last) = speed_ups.last() else { return "No decode step was measured.".to_owned() };
    let targets = TARGETS.map(|target| match reaches(speed_ups, target) {
        Some(n) => format!("{target}× from {} on", count(n as u64, "decode step")),
        None => format!("{target}× not within this length"),
    });
    format!(
        "{last:.1}× as fast with the cache after {}: {} against {} tokens/s. {}; {}. Medians of {}.",
        count(speed_ups.len() as u64, "decode step"),
        rate(report.tokens_per_s(0)),
        rate(report.tokens_per_s(1)),
        targets[0],
        targets[1],
        count(report.runs[0].len() as u64, "run")
    )
}

impl App {
    pub(super) fn listen_for_exercise(self: &Rc<Self>) {
        let app = Rc::clone(self);
        on(&self.form.exercise, "click", move |_: Event| {
            let app = Rc::clone(&app);
            spawn_local(async move { app.measure_shown(app.exercise()).await });
        });
        let app = Rc::clone(self);
        on(&self.form.race, "click", move |_: Event| app.race_shown());
        let app = Rc::clone(self);
        on(&self.exercise_view.json, "click", move |_: Event| {
            app.save_report("nucleus-exercise.json", "application/json", Report::to_json);
        });
        let app = Rc::clone(self);
        on(&self.exercise_view.csv, "click", move |_: Event| {
            app.save_report("nucleus-exercise.csv", "text/csv", Report::to_csv);
        });
    }

    fn save_report(&self, name: &str, media_type: &str, text: fn(&Report) -> String) {
        if let Some(report) = self.exercise_view.report.borrow().as_ref()
            && let Err(error) = save_text(name, media_type, &text(report))
        {
            self.stage.fail(&error);
        }
    }

    pub(super) fn race_shown(self: &Rc<Self>) {
        let app = Rc::clone(self);
        spawn_local(async move { app.measure_shown(app.race()).await });
    }

    /// Measures both modes and says how that ended.
    async fn measure_shown(self: &Rc<Self>, measuring: impl Future<Output = Result<String>>) {
        self.is_exercise.set(true);
        self.is_exercise_cancelled.set(false);
        self.refresh();
        let outcome = measuring.await;
        self.is_exercise.set(false);
        self.refresh();
        match outcome {
            Ok(text) => self.stage.say(&text),
            Err(error) => self.stage.fail(&error),
        }
    }

    /// The form's run, in both modes. A paused run is ended first.
    async fn race(self: &Rc<Self>) -> Result<String> {
        let options = self.form.options()?;
        self.stop_run().await?;
        let Some([without, with_cache]) = self.pair(options).await? else {
            return Ok("The race was stopped. What was measured stays below.".into());
        };
        Ok(format!(
            "The race is over. {}; the curves are under “What the KV cache saves”.",
            same(&without, &with_cache)
        ))
    }

    /// The lesson's exercise: the prompt and seed of the form, 100 tokens at temperature 0.7, some times without and with the
    /// cache in turn.
    async fn exercise(self: &Rc<Self>) -> Result<String> {
        let mut options = self.form.options()?;
        options.max_new_tokens = 100;
        options.sampling.temperature = 0.7;
        options.ignore_eos = true;
        options.stop.clear();
        let n_runs: u32 = self.exercise_view.n_runs.value().parse().unwrap_or(1);
        let about = self.model.borrow().as_ref().map(|model| about(model, &options)).unwrap_or_default();
        let mut report = Report { about, same_text: true, ..Report::default() };
        let mut texts = None;
        for _ in 0..n_runs {
            let Some([without, with_cache]) = self.pair(options.clone()).await? else {
                return Ok("The exercise was stopped. What was measured stays below.".into());
            };
            for (slot, kv_cache) in [(0, true), (1, false)] {
                let (n_prompt, step_ms) = self.stage.speed.measured(kv_cache);
                report.n_prompt = n_prompt;
                report.runs[slot].push(step_ms);
            }
            report.same_text &= without.ids == with_cache.ids;
            texts = Some(same(&without, &with_cache));
        }
        self.exercise_view.show(report);
        Ok(format!("The exercise is done. {}; the result is under “The exercise”.", texts.unwrap_or_default()))
    }

    /// The same run without the cache and with it; both go unpaced, so that the figures are the engine's. None when it was
    /// stopped.
    async fn pair(self: &Rc<Self>, mut options: GenerateOptions) -> Result<Option<[RunResult; 2]>> {
        let mut results = Vec::new();
        for (kv_cache, message) in [false, true].into_iter().zip(MESSAGES) {
            options.kv_cache = kv_cache;
            let run = self.run(options.clone(), Start::Paced(Pace::Free), message, None)?;
            let ended = || Error::EngineFailed("The run was dropped without an answer.".into());
            let result = run.await.map_err(|oneshot::Canceled| ended())??;
            if result.stop_reason == StopReason::Cancelled || self.is_exercise_cancelled.get() {
                return Ok(None);
            }
            results.push(result);
        }
        Ok(results.try_into().ok())
    }
}

fn same(without: &RunResult, with_cache: &RunResult) -> &'static str {
    if without.ids == with_cache.ids { "Both wrote the same text" } else { "Rounding made the texts differ" }
}

/// What the figures belong to.
fn about(model: &ModelInfo, options: &GenerateOptions) -> Vec<(&'static str, Fact)> {
    let navigator = dom::window().navigator();
    let text = |text: &str| Fact::Text(text.to_owned());
    let sampling = &options.sampling;
    // Settings are f32; as they were asked for, not with the digits of the nearest f64.
    let setting = |value: f32| Fact::Number(value.to_string().parse().unwrap_or(f64::from(value)));
    vec![
        ("date", Fact::Text(dom::iso_now())),
        ("version", text(env!("CARGO_PKG_VERSION"))),
        ("userAgent", Fact::Text(navigator.user_agent().unwrap_or_default())),
        ("hardwareConcurrency", Fact::Number(navigator.hardware_concurrency())),
        ("crossOriginIsolated", Fact::Flag(dom::is_isolated())),
        ("backend", text(&model.backend)),
        ("adapter", text(model.adapter.as_deref().unwrap_or("none"))),
        ("build", text(&model.build)),
        ("threads", Fact::Number(model.threads.into())),
        ("model", text(&model.name)),
        ("quantization", text(&model.quantization)),
        ("modelBytes", Fact::Number(model.bytes as f64)),
        ("modelSha256", text(&model.sha256)),
        ("prompt", text(prompt_text(&options.prompt))),
        ("maxNewTokens", Fact::Number(options.max_new_tokens.into())),
        ("temperature", setting(sampling.temperature)),
        ("topP", setting(sampling.top_p)),
        ("topK", Fact::Number(sampling.top_k.into())),
        ("minP", setting(sampling.min_p)),
        ("repetitionPenalty", setting(sampling.repetition_penalty)),
        ("seed", Fact::Number(sampling.seed as f64)),
    ]
}
