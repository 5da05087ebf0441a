//! The decoding chain's part of `generate`'s options.
//!
//! Invariant: pure; ranges only. What depends on the model, such as ids past its vocabulary, is refused by the engine.

use super::{Fields, Range, Value, bad, real, wrong};
use crate::error::Result;
use crate::protocol::{SamplerOrder, SamplingOptions};

/// Takes them out of `fields`; `seed` fills in where none was given.
pub(super) fn take(fields: &mut Fields, seed: u64) -> Result<SamplingOptions> {
    let order = match fields.choice("samplerOrder", &["hf", "llama.cpp"])? {
        Some("llama.cpp") => SamplerOrder::LlamaCpp,
        _ => SamplerOrder::HuggingFace,
    };
    Ok(SamplingOptions {
        order,
        repetition_penalty: fields.real("repetitionPenalty", Range::Above(0.0))?.unwrap_or(1.0),
        no_repeat_ngram_size: fields.whole("noRepeatNgramSize", 0, u32::MAX)?.unwrap_or(0),
        logit_bias: fields.take("logitBias").map(logit_bias).transpose()?.unwrap_or_default(),
        suppress: fields.ids("suppress")?.unwrap_or_default(),
        temperature: fields.real("temperature", Range::AtLeast(0.0))?.unwrap_or(0.7),
        top_k: fields.whole("topK", 0, u32::MAX)?.unwrap_or(0),
        top_p: fields.real("topP", Range::Unit)?.unwrap_or(0.9),
        min_p: fields.real("minP", Range::Unit)?.unwrap_or(0.0),
        typical_p: fields.real("typicalP", Range::UnitAboveZero)?.unwrap_or(1.0),
        epsilon_cutoff: fields.real("epsilonCutoff", Range::UnitBelowOne)?.unwrap_or(0.0),
        eta_cutoff: fields.real("etaCutoff", Range::UnitBelowOne)?.unwrap_or(0.0),
        seed: fields.seed()?.unwrap_or(seed),
    })
}

/// An object whose keys are token ids.
fn logit_bias(value: Value) -> Result<Vec<(u32, f32)>> {
    let Value::Object(entries) = value else {
        return Err(wrong("logitBias", &value, "an object from token ids to numbers"));
    };
    let one = |(key, value): (String, Value)| {
        // Written as JavaScript writes a number, so that no two keys name the same token.
        let id = key.parse::<u32>().ok().filter(|id| id.to_string() == key);
        let id = id.ok_or_else(|| bad("logitBias", &format!("its key {key:?} is no token id")))?;
        Ok((id, real(&format!("logitBias[{key}]"), value, Range::Any)?))
    };
    entries.into_iter().map(one).collect()
}
