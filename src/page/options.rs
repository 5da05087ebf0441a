//! The options of `window.nucleus`, from JavaScript values to protocol structs.
//!
//! Nothing is ignored: an unknown name, a wrong type and a number out of range are `bad-option`; an option of the API that is
//! not there yet is `unsupported-option`. The page's own form goes through here too.
//!
//! Invariant: pure; it sees [`Value`]s, so that every rule is tested natively.

mod messages;
mod sampling;
mod write;

pub use messages::read as messages;
pub use write::entries;

use crate::error::{Error, Result};
use crate::protocol::{BackendChoice, GenerateOptions, LoadOptions, MAX_THREADS, Prompt};

/// A JavaScript value, as far as options need it.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    Bool(bool),
    Number(f64),
    Text(String),
    List(Vec<Value>),
    /// Own enumerable properties whose value is not `undefined`.
    Object(Vec<(String, Value)>),
    Function,
    /// Anything else, by what it is called in a message: `null`, `undefined`, `a bigint`.
    Other(&'static str),
}

/// How the page paces a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pace {
    Frame,
    Free,
}

/// `generate`'s options; `seed` fills in where none was given.
pub fn generate(options: Value, seed: u64) -> Result<(GenerateOptions, Pace)> {
    let mut fields = Fields::of("generate", options)?;
    let pace = match fields.choice("pace", &["frame", "free"])? {
        Some("free") => Pace::Free,
        _ => Pace::Frame,
    };
    let special = fields.flag("special")?;
    let prompt = match (fields.text("prompt")?, fields.ids("ids")?, fields.take("messages")) {
        (Some(text), None, None) => Prompt::Text { text, special: special.unwrap_or(false) },
        (None, Some(_), None) if special == Some(true) => {
            return Err(bad("special", "it is about text, and `ids` was given"));
        }
        (None, None, Some(_)) if special == Some(true) => {
            return Err(bad("special", "what messages say is never a control token"));
        }
        (None, Some(ids), None) => Prompt::Ids(ids),
        (None, None, Some(messages)) => Prompt::Chat(messages::read(messages)?),
        (None, None, None) => {
            return Err(Error::BadOption(
                "None of `prompt`, `ids` and `messages` was given: expected one of them.".into(),
            ));
        }
        _ => {
            return Err(Error::BadOption(
                "More than one of `prompt`, `ids` and `messages` was given: expected one of them.".into(),
            ));
        }
    };
    // A conversation goes on from what the cache holds of it.
    let keeps_cache = matches!(prompt, Prompt::Chat(_));
    let options = GenerateOptions {
        prompt,
        max_new_tokens: fields.whole("maxNewTokens", 1, u32::MAX)?.unwrap_or(64),
        min_new_tokens: fields.whole("minNewTokens", 0, u32::MAX)?.unwrap_or(0),
        sampling: sampling::take(&mut fields, seed)?,
        stop: fields.texts("stop")?.unwrap_or_default(),
        ignore_eos: fields.flag("ignoreEos")?.unwrap_or(false),
        max_time_ms: fields.number("maxTimeMs", Range::Above(0.0))?,
        kv_cache: fields.flag("kvCache")?.unwrap_or(true),
        candidates: fields.whole("candidates", 0, u32::MAX)?.unwrap_or(64),
        resume_ids: fields.ids("resumeIds")?.unwrap_or_default(),
        force_ids: fields.ids("forceIds")?.unwrap_or_default(),
        reuse_cache: fields.flag("reuseCache")?.unwrap_or(keeps_cache),
    };
    fields.finish()?;
    Ok((options, pace))
}

/// `load`'s options, without `onProgress`, which is only checked to be a function.
pub fn load(options: Value) -> Result<LoadOptions> {
    let mut fields = Fields::of("load", options)?;
    let backend = match fields.choice("backend", &["auto", "webgpu", "cpu"])? {
        Some("webgpu") => BackendChoice::WebGpu,
        Some("cpu") => BackendChoice::Cpu,
        _ => BackendChoice::Auto,
    };
    let threads = fields.whole("threads", 1, MAX_THREADS)?;
    let cache = fields.flag("cache")?;
    let sha256 = fields.text("sha256")?.map(|hash| sha256_hex(&hash)).transpose()?;
    let context_length = fields.whole("contextLength", 1, u32::MAX)?;
    match fields.take("onProgress") {
        None | Some(Value::Function) => {}
        Some(other) => return Err(wrong("onProgress", &other, "a function")),
    }
    fields.finish()?;
    Ok(LoadOptions { backend, threads, context_length, cache, sha256 })
}

/// `tokenize`'s options: whether control tokens in the text are parsed.
pub fn tokenize(options: Value) -> Result<bool> {
    let mut fields = Fields::of("tokenize", options)?;
    let special = fields.flag("special")?.unwrap_or(false);
    fields.finish()?;
    Ok(special)
}

/// `load`'s options with nothing but a backend, by its name in the API: what the page's own control and its link ask for.
pub fn load_on(backend: &str) -> Result<LoadOptions> {
    load(Value::Object(vec![("backend".to_owned(), Value::Text(backend.to_owned()))]))
}

/// A list of token ids that is an argument of its own.
pub fn ids(value: Value) -> Result<Vec<u32>> {
    whole_list("ids", value)
}

/// A text that is an argument of its own.
pub fn text(name: &str, value: Value) -> Result<String> {
    match value {
        Value::Text(text) => Ok(text),
        other => Err(wrong(name, &other, "a string")),
    }
}

/// Where a number must lie.
#[derive(Debug, Clone, Copy)]
enum Range {
    Any,
    AtLeast(f64),
    Above(f64),
    /// 0 to 1, both included.
    Unit,
    /// The same without 0.
    UnitAboveZero,
    /// The same without 1.
    UnitBelowOne,
}

impl Range {
    fn holds(self, number: f64) -> bool {
        match self {
            Range::Any => true,
            Range::AtLeast(least) => number >= least,
            Range::Above(bound) => number > bound,
            Range::Unit => (0.0..=1.0).contains(&number),
            Range::UnitAboveZero => number > 0.0 && number <= 1.0,
            Range::UnitBelowOne => (0.0..1.0).contains(&number),
        }
    }

    fn expected(self) -> String {
        match self {
            Range::Any => "a finite number".to_owned(),
            Range::AtLeast(least) => format!("a number of at least {least}"),
            Range::Above(bound) => format!("a number above {bound}"),
            Range::Unit => "a number from 0 to 1".to_owned(),
            Range::UnitAboveZero => "a number above 0, at most 1".to_owned(),
            Range::UnitBelowOne => "a number from 0 to below 1".to_owned(),
        }
    }
}

/// The options not read yet; what is left at the end has an unknown name.
struct Fields {
    method: &'static str,
    entries: Vec<(String, Value)>,
}

impl Fields {
    fn of(method: &'static str, options: Value) -> Result<Self> {
        match options {
            Value::Object(entries) => Ok(Self { method, entries }),
            Value::Other("undefined") => Ok(Self { method, entries: Vec::new() }),
            other => Err(wrong(&format!("{method} options"), &other, "an object")),
        }
    }

    fn take(&mut self, name: &str) -> Option<Value> {
        let at = self.entries.iter().position(|(key, _)| key == name)?;
        Some(self.entries.swap_remove(at).1)
    }

    fn finish(mut self) -> Result<()> {
        self.entries.sort_by(|a, b| a.0.cmp(&b.0));
        match self.entries.first() {
            None => Ok(()),
            Some((name, _)) => Err(Error::BadOption(format!(
                "`{name}` is not an option of {}: see nucleus.d.ts for those that are.",
                self.method
            ))),
        }
    }

    fn text(&mut self, name: &str) -> Result<Option<String>> {
        self.take(name).map(|value| text(name, value)).transpose()
    }

    fn flag(&mut self, name: &str) -> Result<Option<bool>> {
        match self.take(name) {
            None => Ok(None),
            Some(Value::Bool(flag)) => Ok(Some(flag)),
            Some(other) => Err(wrong(name, &other, "true or false")),
        }
    }

    /// One of `known`.
    fn choice(&mut self, name: &str, known: &'static [&'static str]) -> Result<Option<&'static str>> {
        let Some(value) = self.take(name) else { return Ok(None) };
        match known.iter().find(|choice| value == Value::Text((**choice).to_owned())) {
            Some(choice) => Ok(Some(choice)),
            None => {
                let all: Vec<String> = known.iter().map(|choice| format!("'{choice}'")).collect();
                Err(wrong(name, &value, &all.join(" or ")))
            }
        }
    }

    fn number(&mut self, name: &str, range: Range) -> Result<Option<f64>> {
        self.take(name).map(|value| number(name, value, range)).transpose()
    }

    fn real(&mut self, name: &str, range: Range) -> Result<Option<f32>> {
        self.take(name).map(|value| real(name, value, range)).transpose()
    }

    fn whole(&mut self, name: &str, least: u32, most: u32) -> Result<Option<u32>> {
        self.take(name).map(|value| whole(name, &value, least, most)).transpose()
    }

    /// JavaScript's whole numbers are exact up to 2^53 - 1.
    fn seed(&mut self) -> Result<Option<u64>> {
        const MOST: f64 = 9_007_199_254_740_991.0;
        match self.take("seed") {
            None => Ok(None),
            Some(Value::Number(n)) if n.fract() == 0.0 && (0.0..=MOST).contains(&n) => Ok(Some(n as u64)),
            Some(other) => Err(wrong("seed", &other, "a whole number from 0 to 2^53 - 1")),
        }
    }

    fn ids(&mut self, name: &str) -> Result<Option<Vec<u32>>> {
        self.take(name).map(|value| whole_list(name, value)).transpose()
    }

    fn texts(&mut self, name: &str) -> Result<Option<Vec<String>>> {
        let Some(value) = self.take(name) else { return Ok(None) };
        let Value::List(items) = value else { return Err(wrong(name, &value, "a list of strings")) };
        let one = |(i, item)| match item {
            Value::Text(text) if text.is_empty() => {
                Err(bad(&format!("{name}[{i}]"), "it is empty, which would stop every run"))
            }
            item => text(&format!("{name}[{i}]"), item),
        };
        items.into_iter().enumerate().map(one).collect::<Result<_>>().map(Some)
    }
}

fn number(name: &str, value: Value, range: Range) -> Result<f64> {
    match value {
        Value::Number(number) if number.is_finite() && range.holds(number) => Ok(number),
        other => Err(wrong(name, &other, &range.expected())),
    }
}

/// A number that the engine keeps as f32; one too large for that is refused, not turned into infinity.
fn real(name: &str, value: Value, range: Range) -> Result<f32> {
    let number = number(name, value, range)?;
    if (number as f32).is_finite() {
        return Ok(number as f32);
    }
    Err(wrong(name, &Value::Number(number), "a number that fits a 32-bit float"))
}

fn whole(name: &str, value: &Value, least: u32, most: u32) -> Result<u32> {
    match *value {
        Value::Number(n) if n.fract() == 0.0 && (f64::from(least)..=f64::from(most)).contains(&n) => Ok(n as u32),
        _ => Err(wrong(name, value, &format!("a whole number from {least} to {most}"))),
    }
}

fn whole_list(name: &str, value: Value) -> Result<Vec<u32>> {
    let Value::List(items) = value else { return Err(wrong(name, &value, "a list of token ids")) };
    items.iter().enumerate().map(|(i, item)| whole(&format!("{name}[{i}]"), item, 0, u32::MAX)).collect()
}

fn sha256_hex(hash: &str) -> Result<String> {
    if hash.len() == 64 && hash.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        Ok(hash.to_ascii_lowercase())
    } else {
        Err(wrong("sha256", &Value::Text(hash.to_owned()), "64 hexadecimal digits"))
    }
}

fn bad(name: &str, why: &str) -> Error {
    Error::BadOption(format!("`{name}` cannot be used: {why}."))
}

fn wrong(name: &str, found: &Value, expected: &str) -> Error {
    let found = match found {
        Value::Bool(flag) => flag.to_string(),
        Value::Number(number) => number.to_string(),
        Value::Text(text) if text.chars().count() > 40 => format!("a string of {} characters", text.chars().count()),
        Value::Text(text) => format!("{text:?}"),
        Value::List(_) => "a list".to_owned(),
        Value::Object(_) => "an object".to_owned(),
        Value::Function => "a function".to_owned(),
        Value::Other(what) => (*what).to_owned(),
    };
    Error::BadOption(format!("`{name}` is {found}: expected {expected}."))
}

#[cfg(test)]
mod tests;
#[cfg(test)]
pub(super) use write::tests as tests_of_writing;
