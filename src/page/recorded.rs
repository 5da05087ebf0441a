//! Runs from a file, which stand in for the engine while no model is loaded. `tests/e2e/record_lesson.mjs` makes the file from
//! real runs, in the shape of `window.nucleus`'s steps (`www/nucleus.d.ts`).
//!
//! Invariant: pure; a file that is not as expected is an error, never a run that only looks real.

use super::options::{self, Value};
use crate::error::{Error, Result};
use crate::protocol::{Candidate, GenerateOptions, StepMs, StepRecord};

/// What was recorded, where, and how.
#[derive(Debug, Clone, PartialEq)]
pub struct Recording {
    pub model: String,
    pub backend: String,
    /// `2026-12-02`.
    pub date: String,
    pub vocab_size: u32,
    pub kv_bytes_per_position: u64,
    pub runs: Vec<RecordedRun>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct RecordedRun {
    /// The card that it belongs to.
    pub card: String,
    pub options: GenerateOptions,
    pub steps: Vec<StepRecord>,
}

impl Recording {
    pub fn read(file: Value) -> Result<Self> {
        let mut file = Fields::of(file)?;
        Ok(Self {
            model: file.text("model")?,
            backend: file.text("backend")?,
            date: file.text("date")?,
            vocab_size: file.whole("vocabSize")?,
            kv_bytes_per_position: u64::from(file.whole("kvBytesPerPosition")?),
            runs: file.list("runs")?.into_iter().map(run).collect::<Result<_>>()?,
        })
    }

    /// The runs of a card, in their order.
    pub fn of_card(&self, card: &str) -> impl Iterator<Item = &RecordedRun> {
        self.runs.iter().filter(move |run| run.card == card)
    }
}

fn run(value: Value) -> Result<RecordedRun> {
    let mut fields = Fields::of(value)?;
    let (options, _) = options::generate(fields.take("options")?, 0)?;
    let steps = fields.list("steps")?.into_iter().map(step).collect::<Result<_>>()?;
    Ok(RecordedRun { card: fields.text("card")?, options, steps })
}

fn step(value: Value) -> Result<StepRecord> {
    let mut fields = Fields::of(value)?;
    let mut ms = Fields::of(fields.take("ms")?)?;
    let text = fields.text("text")?;
    Ok(StepRecord {
        tail: None,
        index: fields.whole("index")?,
        position: fields.whole("position")?,
        kv_length: fields.whole("kvLength")?,
        positions_computed: fields.whole("positionsComputed")?,
        id: fields.whole("id")?,
        bytes: text.clone().into_bytes(),
        text,
        rank: fields.whole("rank")?,
        p: fields.number("p")? as f32,
        surprisal_bits: fields.number("surprisalBits")? as f32,
        // None of it where the likeliest was taken.
        u: fields.number("u").ok(),
        nucleus_size: fields.whole("nucleusSize")?,
        nucleus_mass: fields.number("nucleusMass")? as f32,
        entropy_bits: fields.number("entropyBits")? as f32,
        ms: StepMs {
            total: ms.number("total")?,
            forward: ms.number("forward")?,
            sample: ms.number("sample")?,
            readback: ms.number("readback")?,
        },
        candidates: fields.list("candidates")?.into_iter().map(candidate).collect::<Result<_>>()?,
    })
}

/// The fields of a candidate in the order of `www/nucleus.d.ts`, without their names.
fn candidate(value: Value) -> Result<Candidate> {
    use Value::{Bool, Number, Text};
    let Value::List(fields) = value else { return Err(bad("a candidate")) };
    let [
        Number(id),
        Text(text),
        Number(logit),
        Number(p_raw),
        Number(p_temperature),
        Number(p_final),
        Number(sum),
        Bool(kept),
    ] = fields.as_slice()
    else {
        return Err(bad("a candidate"));
    };
    Ok(Candidate {
        id: whole("a candidate's id", *id)?,
        bytes: text.clone().into_bytes(),
        logit: *logit as f32,
        p_raw: *p_raw as f32,
        p_temperature: *p_temperature as f32,
        p_final: *p_final as f32,
        cumulative: *sum as f32,
        kept: *kept,
    })
}

struct Fields(Vec<(String, Value)>);

impl Fields {
    fn of(value: Value) -> Result<Self> {
        match value {
            Value::Object(entries) => Ok(Self(entries)),
            _ => Err(bad("a part that should have named fields")),
        }
    }

    fn take(&mut self, name: &str) -> Result<Value> {
        let found = self.0.iter().position(|(field, _)| field == name);
        found.map(|at| self.0.swap_remove(at).1).ok_or_else(|| bad(name))
    }

    fn number(&mut self, name: &str) -> Result<f64> {
        match self.take(name)? {
            Value::Number(number) if number.is_finite() => Ok(number),
            _ => Err(bad(name)),
        }
    }

    fn whole(&mut self, name: &str) -> Result<u32> {
        whole(name, self.number(name)?)
    }

    fn text(&mut self, name: &str) -> Result<String> {
        match self.take(name)? {
            Value::Text(text) => Ok(text),
            _ => Err(bad(name)),
        }
    }

    fn list(&mut self, name: &str) -> Result<Vec<Value>> {
        match self.take(name)? {
            Value::List(items) => Ok(items),
            _ => Err(bad(name)),
        }
    }
}

fn whole(name: &str, number: f64) -> Result<u32> {
    let whole = number as u32;
    if f64::from(whole) == number { Ok(whole) } else { Err(bad(name)) }
}

fn bad(name: &str) -> Error {
    Error::Network(format!("The recorded run cannot be read: {name}."))
}

#[cfg(test)]
mod tests {
    use super::super::lesson::{CARDS, LessonRun, PROMPT};
    use super::*;
    use crate::protocol::Prompt;

    fn value(json: &serde_json::Value) -> Value {
        use serde_json::Value as Json;
        match json {
            Json::Null => Value::Other("null"),
            Json::Bool(flag) => Value::Bool(*flag),
            Json::Number(number) => Value::Number(number.as_f64().expect("a number of a file")),
            Json::String(text) => Value::Text(text.clone()),
            Json::Array(items) => Value::List(items.iter().map(value).collect()),
            Json::Object(fields) => {
                Value::Object(fields.iter().map(|(name, field)| (name.clone(), value(field))).collect())
            }
        }
    }

    fn file() -> serde_json::Value {
        serde_json::from_str(include_str!("../../www/recorded_run.json")).expect("the recording is JSON")
    }

    #[test]
    fn the_recording_has_each_card_with_its_settings() {
        let recording = Recording::read(value(&file())).expect("the recording reads");
        for card in CARDS {
            let runs: Vec<&RecordedRun> = recording.of_card(card.name).collect();
            assert_eq!(runs.len(), if card.run == LessonRun::Race { 2 } else { 1 }, "{}", card.name);
            for run in &runs {
                let asked = |id| card.settings.iter().find(|(name, _)| *name == id).map(|(_, value)| *value);
                let sampling = &run.options.sampling;
                assert_eq!(asked("temperature"), Some(sampling.temperature.to_string().as_str()), "{}", card.name);
                assert_eq!(asked("top-p"), Some(sampling.top_p.to_string().as_str()), "{}", card.name);
                assert_eq!(asked("seed"), Some(sampling.seed.to_string().as_str()), "{}", card.name);
                let n_asked: usize = asked("max-tokens").unwrap_or("1").parse().expect("a number of tokens");
                assert_eq!(run.steps.len(), n_asked, "{}", card.name);
                assert_eq!(run.options.prompt, Prompt::Text { text: PROMPT.into(), special: false });
            }
        }
        let caches: Vec<bool> = recording.of_card("cache").map(|run| run.options.kv_cache).collect();
        assert_eq!(caches, [false, true]);
    }

    #[test]
    fn the_recorded_steps_are_those_of_a_real_run() {
        let recording = Recording::read(value(&file())).expect("the recording reads");
        for run in &recording.runs {
            for (index, step) in (0..).zip(&run.steps) {
                assert_eq!(step.index, index);
                let n_computed = if run.options.kv_cache && index > 0 { 1 } else { step.position };
                assert_eq!(step.positions_computed, n_computed);
                assert!(step.candidates.is_sorted_by(|a, b| a.p_raw >= b.p_raw));
                assert!(step.ms.forward > 0.0 && step.ms.total >= step.ms.forward);
            }
        }
        let [without, with_cache] = [0, 1].map(|i| recording.of_card("cache").nth(i).expect("two runs"));
        let ids = |run: &RecordedRun| run.steps.iter().map(|step| step.id).collect::<Vec<_>>();
        assert_eq!(ids(without), ids(with_cache));
    }

    #[test]
    fn a_file_that_is_damaged_is_refused_by_the_field() {
        for (field, damage) in [("position", "1.5"), ("p", "null"), ("text", "3"), ("candidates", "[1]"), ("ms", "{}")]
        {
            let mut damaged = file();
            damaged["runs"][0]["steps"][0][field] = serde_json::from_str(damage).expect("JSON");
            assert!(Recording::read(value(&damaged)).is_err(), "{field}");
        }
        assert!(Recording::read(Value::Other("null")).is_err());
    }
}
