//! Links: the settings of the page as name and text pairs, and back.
//!
//! A link is foreign input: names that are none of ours are somebody else's and ignored, what is ours is judged by
//! [`options::generate`] as every call is.
//!
//! Invariant: pure; pairs in, values out. How pairs stand in an address, and what is done with them, is `app::link`'s.

use super::options::{self, Value, entries};
use crate::error::{Error, Result};
use crate::protocol::GenerateOptions;

/// Characters of a link that are looked at: as many as servers and chats let through.
pub const MOST_CHARS: usize = 16_000;

/// How a setting stands in a link.
#[derive(Clone, Copy)]
enum Kind {
    Text,
    Number,
    Flag,
    /// Numbers, separated by commas.
    Ids,
    /// One pair for each.
    Texts,
}

/// What the form can show, and so restore.
const SETTINGS: [(&str, Kind); 15] = [
    ("prompt", Kind::Text),
    ("maxNewTokens", Kind::Number),
    ("temperature", Kind::Number),
    ("topP", Kind::Number),
    ("topK", Kind::Number),
    ("seed", Kind::Number),
    ("minP", Kind::Number),
    ("typicalP", Kind::Number),
    ("repetitionPenalty", Kind::Number),
    ("noRepeatNgramSize", Kind::Number),
    ("minNewTokens", Kind::Number),
    ("samplerOrder", Kind::Text),
    ("suppress", Kind::Ids),
    ("stop", Kind::Texts),
    ("kvCache", Kind::Flag),
];

/// The pairs of a link that restores these settings.
pub fn pairs(options: &GenerateOptions) -> Vec<(String, String)> {
    let known = |name: &str| SETTINGS.iter().any(|(known, _)| *known == name);
    let of_entry = |(name, value): (String, Value)| match value {
        Value::List(items) if name == "stop" => items.iter().map(|item| (name.clone(), written(item))).collect(),
        value => vec![(name, written(&value))],
    };
    entries(options).into_iter().filter(|(name, _)| known(name)).flat_map(of_entry).collect()
}

/// The settings that a link names, checked: `bad-option` for one that cannot be used, and for a link that is too long.
pub fn settings(pairs: &[(String, String)]) -> Result<Vec<(String, Value)>> {
    let n_chars: usize = pairs.iter().map(|(name, text)| name.chars().count() + text.chars().count()).sum();
    if n_chars > MOST_CHARS {
        return Err(Error::BadOption(format!(
            "The link has {n_chars} characters: expected at most {MOST_CHARS}. None of its settings was taken."
        )));
    }
    let mut found = Vec::new();
    for (name, kind) in SETTINGS {
        let mut texts = pairs.iter().filter(|(given, _)| given == name).map(|(_, text)| text);
        let value = match kind {
            Kind::Texts => {
                let texts: Vec<Value> = texts.cloned().map(Value::Text).collect();
                (!texts.is_empty()).then_some(Value::List(texts))
            }
            // The last one counts: the fragment comes after the query.
            kind => texts.next_back().map(|text| read(text, kind)),
        };
        found.extend(value.map(|value| (name.to_owned(), value)));
    }
    let mut asked = found.clone();
    if !asked.iter().any(|(name, _)| name == "prompt") {
        asked.push(("prompt".into(), Value::Text(String::new())));
    }
    options::generate(Value::Object(asked), 0)?;
    Ok(found)
}

fn written(value: &Value) -> String {
    match value {
        Value::Text(text) => text.clone(),
        Value::Number(number) => number.to_string(),
        Value::Bool(is_on) => u8::from(*is_on).to_string(),
        Value::List(items) => items.iter().map(written).collect::<Vec<_>>().join(","),
        Value::Object(_) | Value::Function | Value::Other(_) => String::new(),
    }
}

/// What is no number stays a text, which is then refused by its name.
fn read(text: &str, kind: Kind) -> Value {
    let number = |text: &str| text.trim().parse().map_or_else(|_| Value::Text(text.to_owned()), Value::Number);
    match (kind, text) {
        (Kind::Number, text) => number(text),
        (Kind::Flag, "1" | "true") => Value::Bool(true),
        (Kind::Flag, "0" | "false") => Value::Bool(false),
        (Kind::Ids, text) => Value::List(text.split(',').map(number).collect()),
        (_, text) => Value::Text(text.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::page::options::tests_of_writing::everything;
    use crate::protocol::{Prompt, SamplingOptions};

    fn prompt_text(options: &GenerateOptions) -> String {
        match &options.prompt {
            Prompt::Text { text, .. } => text.clone(),
            Prompt::Ids(_) | Prompt::Chat(_) => String::new(),
        }
    }

    fn of(pairs: &[(&str, &str)]) -> Result<Vec<(String, Value)>> {
        let pairs: Vec<_> = pairs.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())).collect();
        settings(&pairs)
    }

    #[test]
    fn a_link_restores_what_the_form_shows() {
        let options = everything();
        let restored = options::generate(Value::Object(settings(&pairs(&options)).unwrap()), 0).unwrap().0;
        let sampling = SamplingOptions {
            logit_bias: Vec::new(),
            epsilon_cutoff: 0.0,
            eta_cutoff: 0.0,
            ..options.sampling.clone()
        };
        assert_eq!((prompt_text(&restored), restored.sampling), (prompt_text(&options), sampling));
        assert_eq!((restored.stop, restored.kv_cache), (options.stop, false));
        assert_eq!((restored.max_new_tokens, restored.min_new_tokens), (9, 2));
        assert!(restored.force_ids.is_empty() && restored.resume_ids.is_empty());
    }

    #[test]
    fn bad_settings_are_refused_by_name() {
        for (name, text) in [
            ("temperature", "-1"),
            ("temperature", "warm"),
            ("temperature", ""),
            ("topP", "NaN"),
            ("topP", "1e999"),
            ("maxNewTokens", "0"),
            ("maxNewTokens", "1.5"),
            ("maxNewTokens", "99999999999"),
            ("seed", "18446744073709551616"),
            ("suppress", "1,x"),
            ("suppress", "1,-2"),
            ("samplerOrder", "<script>"),
            ("kvCache", "maybe"),
            ("stop", ""),
        ] {
            let error = of(&[(name, text)]).unwrap_err();
            assert!(error.kind() == "bad-option" && error.to_string().contains(name), "{name}={text}: {error}");
        }
    }

    #[test]
    fn other_names_and_other_texts_are_let_be() {
        assert_eq!(of(&[("utm_source", "x"), ("model", "y"), ("build", "fast")]), Ok(Vec::new()));
        let prompt = "<img src=x onerror=alert(1)>".to_owned();
        assert_eq!(of(&[("prompt", &prompt)]), Ok(vec![("prompt".into(), Value::Text(prompt))]));
        let last = of(&[("topK", "3"), ("topK", "5")]).unwrap();
        assert_eq!(last, [("topK".into(), Value::Number(5.0))]);
    }

    #[test]
    fn a_link_that_is_too_long_is_refused_whole() {
        let error = of(&[("topK", "3"), ("prompt", &"é".repeat(MOST_CHARS))]).unwrap_err();
        assert_eq!(error.kind(), "bad-option");
        assert!(error.to_string().len() < 200 && of(&[("prompt", &"é".repeat(MOST_CHARS - 6))]).is_ok());
    }
}
