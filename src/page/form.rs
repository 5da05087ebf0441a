//! The prompt, the sampling controls and the buttons.
//!
//! Invariant: reads and writes controls; what the values mean is decided in `options`, as for `window.nucleus`.

use super::dom::{self, by_id, on};
use super::options::{self, Value};
use super::run::RunState;
use super::words::setting;
use crate::error::Result;
use crate::protocol::{GenerateOptions, Prompt};
use web_sys::{Event, HtmlButtonElement, HtmlElement, HtmlInputElement, HtmlSelectElement, HtmlTextAreaElement};

pub struct Form {
    prompt: HtmlTextAreaElement,
    stop_strings: HtmlTextAreaElement,
    seed: HtmlInputElement,
    seed_is_new: HtmlInputElement,
    kv_cache: HtmlInputElement,
    /// The other number fields, by the option they set.
    numbers: [(&'static str, HtmlInputElement); 9],
    sampler_order: HtmlSelectElement,
    /// Ids, separated by commas.
    suppress: HtmlInputElement,
    pub generate: HtmlButtonElement,
    pub step: HtmlButtonElement,
    pub stop: HtmlButtonElement,
    pub exercise: HtmlButtonElement,
    pub race: HtmlButtonElement,
}

/// What the buttons depend on.
#[derive(Debug, Clone, Copy)]
pub struct Situation {
    pub has_model: bool,
    pub is_loading: bool,
    pub run: RunState,
    pub is_exercise: bool,
    /// Why the mode that is chosen cannot be used.
    pub chat_refusal: Option<&'static str>,
}

impl Form {
    pub fn new() -> Self {
        let this = Self {
            prompt: by_id("prompt"),
            stop_strings: by_id("stop-strings"),
            seed: by_id("seed"),
            seed_is_new: by_id("seed-new"),
            kv_cache: by_id("kv-cache"),
            numbers: [
                ("temperature", by_id("temperature")),
                ("topP", by_id("top-p")),
                ("topK", by_id("top-k")),
                ("maxNewTokens", by_id("max-tokens")),
                ("minP", by_id("min-p")),
                ("repetitionPenalty", by_id("repetition-penalty")),
                ("typicalP", by_id("typical-p")),
                ("noRepeatNgramSize", by_id("no-repeat-ngram")),
                ("minNewTokens", by_id("min-tokens")),
            ],
            sampler_order: by_id("sampler-order"),
            suppress: by_id("suppress"),
            generate: by_id("generate"),
            step: by_id("step"),
            stop: by_id("stop"),
            exercise: by_id("exercise"),
            race: by_id("race-both"),
        };
        // Sliders say their value beside them; "off" where it is one.
        for (id, off) in [
            ("temperature", None),
            ("top-p", Some(1.0)),
            ("min-p", Some(0.0)),
            ("repetition-penalty", Some(1.0)),
            ("typical-p", Some(1.0)),
        ] {
            let slider: HtmlInputElement = by_id(id);
            let output: HtmlElement = by_id(&format!("{id}-value"));
            let show = move |slider: &HtmlInputElement| {
                let value = slider.value_as_number() as f32;
                let text = match off {
                    Some(off) if value == off => "off".to_owned(),
                    _ if id == "temperature" && value == 0.0 => "0 greedy".to_owned(),
                    _ => setting(value),
                };
                output.set_text_content(Some(&text));
            };
            show(&slider);
            let shown = slider.clone();
            on(&slider, "input", move |_: Event| show(&shown));
        }
        this
    }

    /// What a run is to be started with. A new seed is drawn when one is wanted each time, and shown.
    pub fn options(&self) -> Result<GenerateOptions> {
        if self.seed_is_new.checked() {
            self.seed.set_value(&random_seed().to_string());
        }
        self.read()
    }

    /// True when the form still asks for the run that `running` describes. The cache switch has already reached it.
    pub fn still_asks_for(&self, running: &GenerateOptions) -> bool {
        let asked = self.read().map(|mut asked| {
            asked.kv_cache = running.kv_cache;
            if let Prompt::Chat(_) = running.prompt {
                // What was said has left the form.
                (asked.prompt, asked.reuse_cache) = (running.prompt.clone(), running.reuse_cache);
            }
            if self.seed_is_new.checked() {
                asked.sampling.seed = running.sampling.seed;
            }
            asked
        });
        asked.is_ok_and(|asked| asked == *running)
    }

    /// Sets the controls of these options; those that have none are let be. What a control could not be set to by hand it takes all
    /// the same, so that a run is restored exactly.
    pub fn fill(&self, entries: &[(String, Value)]) {
        for (name, value) in entries {
            let number = self.numbers.iter().find(|(known, _)| known == name).map(|(_, input)| input);
            match (name.as_str(), value) {
                ("prompt", Value::Text(text)) => self.prompt.set_value(text),
                ("seed", Value::Number(seed)) => {
                    self.seed.set_value(&seed.to_string());
                    self.seed_is_new.set_checked(false);
                }
                ("samplerOrder", Value::Text(order)) => self.sampler_order.set_value(order),
                ("suppress", Value::List(ids)) => self.suppress.set_value(&joined(ids, ", ")),
                ("stop", Value::List(texts)) => self.stop_strings.set_value(&joined(texts, "\n")),
                ("kvCache", Value::Bool(is_on)) => self.kv_cache.set_checked(*is_on),
                (_, Value::Number(value)) => {
                    if let Some(input) = number {
                        set_number(input, *value);
                    }
                }
                _ => {}
            }
        }
    }

    /// What the controls say, with the seed that is shown.
    pub fn read(&self) -> Result<GenerateOptions> {
        let mut entries: Vec<(String, Value)> =
            self.numbers.iter().map(|(name, input)| ((*name).into(), number(input))).collect();
        entries.push(("prompt".into(), Value::Text(self.prompt.value())));
        entries.push(("seed".into(), number(&self.seed)));
        entries.push(("samplerOrder".into(), Value::Text(self.sampler_order.value())));
        let suppress = self.suppress.value();
        let suppress = suppress.split(',').filter(|id| !id.trim().is_empty()).map(parsed);
        entries.push(("suppress".into(), Value::List(suppress.collect())));
        entries.push(("kvCache".into(), Value::Bool(self.kv_cache.checked())));
        let stop = self.stop_strings.value();
        let stop = stop.lines().filter(|line| !line.is_empty()).map(|line| Value::Text(line.replace("\\n", "\n")));
        entries.push(("stop".into(), Value::List(stop.collect())));
        options::generate(Value::Object(entries), 0).map(|(options, _)| options)
    }

    /// Enables what can be used and says why the rest cannot.
    pub fn refresh(&self, now: Situation) {
        let is_free = now.has_model && !now.is_loading && !now.is_exercise;
        let why_not = match now {
            Situation { is_loading: true, .. } => "The model is loading",
            Situation { has_model: false, .. } => "Load a model first",
            Situation { is_exercise: true, .. } => "Both modes are being measured",
            _ => "A run is in progress",
        };
        let set = |button: &HtmlButtonElement, is_enabled: bool, why_not: &str| {
            button.set_disabled(!is_enabled);
            dom::set_if(button, "title", why_not, !is_enabled);
        };
        let (can_write, why_not_write) = (now.chat_refusal.is_none(), now.chat_refusal.unwrap_or(why_not));
        set(&self.generate, is_free && can_write && now.run != RunState::Running, why_not_write);
        set(&self.step, is_free && can_write && now.run != RunState::Running, why_not_write);
        set(&self.stop, now.run != RunState::Idle || now.is_exercise || now.is_loading, "Nothing is running");
        set(&self.exercise, is_free && now.run == RunState::Idle, why_not);
        set(&self.race, is_free && now.run == RunState::Idle, why_not);
    }

    pub fn kv_cache(&self) -> &HtmlInputElement {
        &self.kv_cache
    }
}

/// The text that a run shows before its first token; empty for ids until they are decoded, and for a conversation, which stands by
/// itself.
pub fn prompt_text(prompt: &Prompt) -> &str {
    match prompt {
        Prompt::Text { text, .. } => text,
        Prompt::Ids(_) | Prompt::Chat(_) => "",
    }
}

/// 32 random bits: short enough to read and type.
pub fn random_seed() -> u64 {
    (js_sys::Math::random() * 4_294_967_296.0) as u64
}

/// A slider has steps and an end; a value beside them makes it finer and longer.
fn set_number(input: &HtmlInputElement, value: f64) {
    let text = value.to_string();
    if input.max().parse().is_ok_and(|most: f64| most < value) {
        input.set_max(&text);
    }
    input.set_value(&text);
    if input.value().parse() != Ok(value) {
        input.set_step("any");
        input.set_value(&text);
    }
    let changed = Event::new("input").expect("the name is valid");
    input.dispatch_event(&changed).expect("the event is new");
}

/// One text of many, as the reader would write them in one field.
fn joined(items: &[Value], separator: &str) -> String {
    let one = |item: &Value| match item {
        Value::Text(text) => text.replace('\n', "\\n"),
        Value::Number(number) => number.to_string(),
        _ => String::new(),
    };
    items.iter().map(one).collect::<Vec<_>>().join(separator)
}

fn number(input: &HtmlInputElement) -> Value {
    parsed(&input.value())
}

/// The number that a text spells.
fn parsed(text: &str) -> Value {
    match text.trim() {
        "" => Value::Other("not filled in"),
        text => text.parse().map_or_else(|_| Value::Text(text.to_owned()), Value::Number),
    }
}
