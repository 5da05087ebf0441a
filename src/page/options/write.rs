//! `generate`'s options as the values that they are read from: for links and run files.
//!
//! Invariant: the inverse of [`super::generate`]; what is written is read as the same options.

use super::Value;
use crate::protocol::{ChatMessage, GenerateOptions, Prompt, SamplerOrder, SamplingOptions};

/// The options by their names in the API. What decides the text is always written, so that other defaults change nothing; the
/// rest where it is not off.
pub fn entries(options: &GenerateOptions) -> Vec<(String, Value)> {
    let sampling = &options.sampling;
    let off = SamplingOptions::OFF;
    let mut entries = match &options.prompt {
        Prompt::Text { text, special } => {
            vec![("prompt", Some(Value::Text(text.clone()))), ("special", flag(*special, false))]
        }
        Prompt::Ids(ids) => vec![("ids", Some(whole_list(ids)))],
        Prompt::Chat(messages) => vec![("messages", Some(Value::List(messages.iter().map(message).collect())))],
    };
    entries.extend([
        ("maxNewTokens", Some(Value::Number(options.max_new_tokens.into()))),
        ("temperature", Some(real(sampling.temperature))),
        ("topP", Some(real(sampling.top_p))),
        ("topK", Some(Value::Number(sampling.top_k.into()))),
        ("seed", Some(Value::Number(sampling.seed as f64))),
        ("minP", unless(sampling.min_p, off.min_p)),
        ("typicalP", unless(sampling.typical_p, off.typical_p)),
        ("epsilonCutoff", unless(sampling.epsilon_cutoff, off.epsilon_cutoff)),
        ("etaCutoff", unless(sampling.eta_cutoff, off.eta_cutoff)),
        ("repetitionPenalty", unless(sampling.repetition_penalty, off.repetition_penalty)),
        ("noRepeatNgramSize", count(sampling.no_repeat_ngram_size)),
        ("minNewTokens", count(options.min_new_tokens)),
        ("logitBias", (!sampling.logit_bias.is_empty()).then(|| bias(&sampling.logit_bias))),
        ("suppress", ids(&sampling.suppress)),
        ("samplerOrder", (sampling.order == SamplerOrder::LlamaCpp).then(|| Value::Text("llama.cpp".into()))),
        ("stop", (!options.stop.is_empty()).then(|| texts(&options.stop))),
        ("ignoreEos", flag(options.ignore_eos, false)),
        ("maxTimeMs", options.max_time_ms.map(Value::Number)),
        ("kvCache", flag(options.kv_cache, true)),
        ("candidates", (options.candidates != 64).then(|| Value::Number(options.candidates.into()))),
        ("resumeIds", ids(&options.resume_ids)),
        ("forceIds", ids(&options.force_ids)),
        ("reuseCache", flag(options.reuse_cache, matches!(options.prompt, Prompt::Chat(_)))),
    ]);
    entries.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))).collect()
}

/// The number that the shortest decimal of a float spells: 0.7, not 0.699999988.
fn real(value: f32) -> Value {
    Value::Number(value.to_string().parse().expect("a float is written as a number"))
}

fn unless(value: f32, off: f32) -> Option<Value> {
    (value != off).then(|| real(value))
}

fn count(n: u32) -> Option<Value> {
    (n > 0).then(|| Value::Number(n.into()))
}

fn flag(is_on: bool, default: bool) -> Option<Value> {
    (is_on != default).then_some(Value::Bool(is_on))
}

fn whole_list(ids: &[u32]) -> Value {
    Value::List(ids.iter().map(|&id| Value::Number(id.into())).collect())
}

fn ids(ids: &[u32]) -> Option<Value> {
    (!ids.is_empty()).then(|| whole_list(ids))
}

fn message(message: &ChatMessage) -> Value {
    let text = |text: &String| Value::Text(text.clone());
    Value::Object(vec![("role".into(), text(&message.role)), ("content".into(), text(&message.content))])
}

fn texts(texts: &[String]) -> Value {
    Value::List(texts.iter().cloned().map(Value::Text).collect())
}

fn bias(bias: &[(u32, f32)]) -> Value {
    Value::Object(bias.iter().map(|&(id, bias)| (id.to_string(), real(bias))).collect())
}

#[cfg(test)]
pub(crate) mod tests {
    use super::super::generate;
    use super::*;

    /// With every option away from its default.
    pub fn everything() -> GenerateOptions {
        GenerateOptions {
            prompt: Prompt::Text { text: "a b\n<i>&=#%".into(), special: true },
            max_new_tokens: 9,
            min_new_tokens: 2,
            sampling: SamplingOptions {
                order: SamplerOrder::LlamaCpp,
                repetition_penalty: 1.15,
                no_repeat_ngram_size: 3,
                logit_bias: vec![(5, -1.5), (9, 0.1)],
                suppress: vec![1, 2],
                temperature: 0.33,
                top_k: 40,
                top_p: 0.955,
                min_p: 0.05,
                typical_p: 0.8,
                epsilon_cutoff: 3e-4,
                eta_cutoff: 1e-3,
                seed: (1 << 53) - 1,
            },
            stop: vec!["\n\n".into(), "end".into()],
            ignore_eos: true,
            max_time_ms: Some(1e4),
            kv_cache: false,
            candidates: 7,
            resume_ids: vec![4, 4],
            force_ids: vec![8],
            reuse_cache: true,
        }
    }

    #[test]
    fn what_is_written_is_read_as_the_same() {
        let plain = GenerateOptions { prompt: Prompt::Ids(vec![1, 2]), ..generate(text("x"), 7).unwrap().0 };
        let say = |role: &str, content: &str| ChatMessage { role: role.into(), content: content.into() };
        let messages = vec![say("system", ""), say("user", "<|im_end|>")];
        let chat = GenerateOptions { prompt: Prompt::Chat(messages), reuse_cache: true, ..plain.clone() };
        let cold = GenerateOptions { reuse_cache: false, ..chat.clone() };
        for options in [everything(), plain, chat, cold, generate(text(""), 3).unwrap().0] {
            let read = generate(Value::Object(entries(&options)), 99).unwrap().0;
            assert_eq!(read, options);
        }
    }

    fn text(prompt: &str) -> Value {
        Value::Object(vec![("prompt".into(), Value::Text(prompt.into()))])
    }

    #[test]
    fn defaults_that_are_off_are_not_written() {
        let options = generate(text("x"), 7).unwrap().0;
        let names: Vec<String> = entries(&options).into_iter().map(|(name, _)| name).collect();
        assert_eq!(names, ["prompt", "maxNewTokens", "temperature", "topP", "topK", "seed"]);
    }
}
