//! A run as a JSON file: settings, what ran them, every token and the likeliest candidates of each step.
//!
//! ```text
//! { "format": "nucleus-run", "version": 1, "app": "0.1.0",
//!   "model":  { "name", "architecture", "quantization", "bytes", "sha256", "vocabSize" },
//!   "engine": { "backend", "build", "threads", "adapter" },
//!   "options": what `nucleus.generate` takes, "stopReason", "promptTokens",
//!   "ids": [..], "steps": [{ "text" or "hex", p, u, .., "candidates": [..] }] }
//! ```
//!
//! A file that is opened is foreign input. Its size is limited before it is read, every field has its type and its range, an unknown
//! one is refused, and its settings go through [`options::generate`]; the refusal is always `bad-run-file`.
//!
//! Invariant: pure; text in it is text, whatever it spells.

mod reader;
mod schema;

pub use reader::Reader;

use super::options::{self, Value, entries};
use super::words::shortened;
use crate::error::{Error, Result};
use crate::protocol::{GenerateOptions, ModelInfo, StepRecord};
use schema::{Engine, File, Model, Step};
use serde::Serialize;
use serde_json::Value as Json;
use std::rc::Rc;

/// Bytes of a file that is looked into: some 8,000 steps.
pub const MOST_BYTES: usize = 16 << 20;
/// Steps of a run: more than any context that this page loads by itself.
const MOST_STEPS: usize = 32_768;

/// A run that was made somewhere.
#[derive(Debug, Clone, PartialEq)]
pub struct RunFile {
    pub model: Model,
    pub engine: Engine,
    /// As a run of its own from an empty cache: what it resumed from is forced.
    pub options: GenerateOptions,
    pub prompt_tokens: u32,
    pub steps: Vec<Rc<StepRecord>>,
}

impl RunFile {
    /// The run of `options` that `model` made on this page; `steps` are all of its text's, those before a branch included.
    pub fn of(model: &ModelInfo, options: &GenerateOptions, steps: &[Rc<StepRecord>]) -> RunFile {
        RunFile {
            model: Model::of(model),
            engine: Engine::of(model),
            options: from_nothing(options),
            prompt_tokens: steps.first().map_or(0, |step| step.position - step.index),
            steps: steps.to_vec(),
        }
    }

    /// The file's text, in parts that take a millisecond or two each to write.
    pub fn parts(&self) -> impl Iterator<Item = String> {
        const N_STEPS: usize = 32;
        let file = File {
            format: schema::FORMAT.into(),
            version: schema::VERSION,
            app: env!("CARGO_PKG_VERSION").into(),
            model: self.model.clone(),
            engine: self.engine.clone(),
            options: json(&Value::Object(entries(&self.options))),
            prompt_tokens: self.prompt_tokens,
            ids: self.steps.iter().map(|step| step.id).collect(),
            steps: Vec::new(),
        };
        // The steps are its last field.
        let head = written(&file).trim_end_matches("]}").to_owned();
        let steps = self.steps.chunks(N_STEPS).enumerate().map(|(i, steps)| {
            let list = written(&steps.iter().map(|step| Step::of(step)).collect::<Vec<_>>());
            let comma = if i == 0 { "" } else { "," };
            format!("{comma}{}", &list[1..list.len() - 1])
        });
        std::iter::once(head).chain(steps).chain(std::iter::once("]}".to_owned()))
    }

    /// What a file says beside its steps, and the ids that these must have.
    fn without_steps(file: File) -> Result<(RunFile, Vec<u32>)> {
        check_head(&file)?;
        let options = options::generate(value(file.options), 0).map_err(|error| bad(error.to_string()))?.0;
        let run = RunFile {
            model: file.model,
            engine: file.engine,
            options: from_nothing(&options),
            prompt_tokens: file.prompt_tokens,
            steps: Vec::new(),
        };
        Ok((run, file.ids))
    }

    /// Who made it, in words.
    pub fn maker(&self) -> String {
        let on = if self.engine.backend == "webgpu" { "WebGPU" } else { "the CPU engine" };
        format!("{} ({}) on {on}, build {}", shortened(&self.model.name), self.model.quantization, self.engine.build)
    }

    /// How many of the first tokens were given, not drawn.
    pub fn n_given(&self) -> usize {
        self.options.force_ids.len()
    }

    /// What is not as it was, so that differences are to be expected; empty when all of it is.
    pub fn differences(&self, model: &ModelInfo) -> Vec<String> {
        let now = (Model::of(model), Engine::of(model));
        let mut found = Vec::new();
        if self.model.sha256 != now.0.sha256 {
            found.push("another model file".to_owned());
        }
        if self.engine.backend != now.1.backend {
            found.push(format!("{} instead of {}", now.1.backend, self.engine.backend));
        } else if self.engine.build != now.1.build {
            found.push("another build of the engine".to_owned());
        }
        found
    }
}

/// A file of this size is not even read.
pub fn too_long(n_bytes: f64) -> Error {
    bad(format!("It has {n_bytes} bytes: expected at most {MOST_BYTES}."))
}

/// The same text as one run: the tokens that it resumed from are forced, and no cache is shared.
fn from_nothing(options: &GenerateOptions) -> GenerateOptions {
    let force_ids = [&options.resume_ids[..], &options.force_ids].concat();
    GenerateOptions { force_ids, resume_ids: Vec::new(), reuse_cache: false, ..options.clone() }
}

fn check_head(file: &File) -> Result<()> {
    if file.format != schema::FORMAT || file.version != schema::VERSION {
        let (format, version) = (shortened(&file.format), file.version);
        return Err(bad(format!(
            "Its format is {format:?}, version {version}: expected {:?}, version {}.",
            schema::FORMAT,
            schema::VERSION
        )));
    }
    let is_hash = |text: &str| text.len() == 64 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    if !is_hash(&file.model.sha256) {
        return Err(bad("`sha256` of its model is none: expected 64 hexadecimal digits.".into()));
    }
    for text in [&file.model.name, &file.model.quantization, &file.model.architecture, &file.engine.build] {
        if text.chars().count() > 400 {
            return Err(bad(format!("A name in it has {} characters: expected at most 400.", text.chars().count())));
        }
    }
    if file.model.vocab_size == 0 || file.model.vocab_size > 1 << 24 {
        return Err(bad(format!("Its vocabulary has {} tokens: expected 1 to 2^24.", file.model.vocab_size)));
    }
    if file.prompt_tokens == 0 || file.prompt_tokens > 1 << 24 {
        return Err(bad(format!("Its prompt has {} tokens: expected 1 to 2^24.", file.prompt_tokens)));
    }
    Ok(())
}

fn written(value: &impl Serialize) -> String {
    serde_json::to_string(value).expect("plain data is written")
}

fn bad(sentence: String) -> Error {
    Error::BadRunFile(sentence)
}

fn json(value: &Value) -> Json {
    match value {
        Value::Bool(flag) => Json::Bool(*flag),
        // Whole numbers as such: JSON's 7.0 is not how a reader writes 7.
        Value::Number(number) if number.fract() == 0.0 && number.abs() < 2f64.powi(53) => Json::from(*number as i64),
        Value::Number(number) => Json::from(*number),
        Value::Text(text) => Json::String(text.clone()),
        Value::List(items) => items.iter().map(json).collect(),
        Value::Object(entries) => entries.iter().map(|(name, value)| (name.clone(), json(value))).collect(),
        Value::Function | Value::Other(_) => Json::Null,
    }
}

fn value(json: Json) -> Value {
    match json {
        Json::Null => Value::Other("null"),
        Json::Bool(flag) => Value::Bool(flag),
        Json::Number(number) => number.as_f64().map_or(Value::Other("no number"), Value::Number),
        Json::String(text) => Value::Text(text),
        Json::Array(items) => Value::List(items.into_iter().map(value).collect()),
        Json::Object(entries) => Value::Object(entries.into_iter().map(|(name, json)| (name, value(json))).collect()),
    }
}

#[cfg(test)]
mod tests;
