//! The fields of a run file, and what each may hold.
//!
//! Invariant: nothing passes [`Step::into_record`] that a run could not have made: numbers are finite, probabilities are
//! probabilities, ids are in the vocabulary, bytes are few.

use super::bad;
use crate::error::Result;
use crate::protocol::{Candidate, ModelInfo, StepMs, StepRecord};
use serde::{Deserialize, Serialize};

pub const FORMAT: &str = "nucleus-run";
pub const VERSION: u32 = 1;
/// Candidates of a step that are written.
const N_CANDIDATES: usize = 12;
/// Candidates of a step that are read.
const MOST_CANDIDATES: usize = 64;
/// Bytes of one token; the longest in use have some hundred.
const MOST_TOKEN_BYTES: usize = 1024;

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct File {
    pub format: String,
    pub version: u32,
    pub app: String,
    pub model: Model,
    pub engine: Engine,
    pub options: serde_json::Value,
    pub prompt_tokens: u32,
    pub ids: Vec<u32>,
    pub steps: Vec<Step>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Model {
    pub name: String,
    pub architecture: String,
    pub quantization: String,
    pub bytes: u64,
    pub sha256: String,
    pub vocab_size: u32,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Engine {
    pub backend: String,
    pub build: String,
    pub threads: u32,
    pub adapter: Option<String>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Step {
    pub id: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    hex: Option<String>,
    rank: u32,
    p: f32,
    surprisal_bits: f32,
    entropy_bits: f32,
    u: Option<f64>,
    nucleus_size: u32,
    nucleus_mass: f32,
    positions_computed: u32,
    ms: f64,
    candidates: Vec<Listed>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Listed {
    id: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    hex: Option<String>,
    logit: f32,
    p_raw: f32,
    p_temperature: f32,
    p_final: f32,
    cumulative: f32,
    kept: bool,
}

impl Model {
    pub fn of(info: &ModelInfo) -> Model {
        Model {
            name: info.name.clone(),
            architecture: info.architecture.clone(),
            quantization: info.quantization.clone(),
            bytes: info.bytes,
            sha256: info.sha256.clone(),
            vocab_size: info.vocab_size,
        }
    }
}

impl Engine {
    pub fn of(info: &ModelInfo) -> Engine {
        Engine {
            backend: info.backend.clone(),
            build: info.build.clone(),
            threads: info.threads,
            adapter: info.adapter.clone(),
        }
    }
}

impl Step {
    /// A step with the candidates that a file keeps: the likeliest, and the chosen one if it is listed at all.
    pub fn of(step: &StepRecord) -> Step {
        let is_kept = |(place, candidate): &(usize, &Candidate)| *place < N_CANDIDATES || candidate.id == step.id;
        let listed = step.candidates.iter().enumerate().filter(is_kept);
        let (text, hex) = written(&step.bytes);
        Step {
            id: step.id,
            text,
            hex,
            rank: step.rank,
            p: step.p,
            surprisal_bits: step.surprisal_bits,
            entropy_bits: step.entropy_bits,
            u: step.u,
            nucleus_size: step.nucleus_size,
            nucleus_mass: step.nucleus_mass,
            positions_computed: step.positions_computed,
            ms: step.ms.total,
            candidates: listed.map(|(_, candidate)| Listed::of(candidate)).collect(),
        }
    }

    /// Step `index` of a run; its time is known as a whole only.
    pub fn into_record(self, index: u32, prompt_tokens: u32, vocab_size: u32) -> Result<StepRecord> {
        let place = format!("step {index}");
        let n = self.candidates.len();
        if n > MOST_CANDIDATES {
            return Err(bad(format!("In {place} are {n} candidates: expected at most {MOST_CANDIDATES}.")));
        }
        let below = |name: &str, found: u32, bound: u32| -> Result<u32> {
            if found < bound {
                return Ok(found);
            }
            Err(bad(format!("In {place} `{name}` is {found}: expected less than {bound}.")))
        };
        let share = |name: &str, p: f32| real(&place, name, p, 0.0, 1.001);
        let position = prompt_tokens + index;
        let u = self.u.map(|u| number(&place, "u", u, 0.0, 1.0)).transpose()?;
        let candidate = |listed: Listed| {
            Ok(Candidate {
                id: below("id of a candidate", listed.id, vocab_size)?,
                bytes: bytes(listed.text, listed.hex, &place)?,
                logit: real(&place, "logit", listed.logit, f32::MIN, f32::MAX)?,
                p_raw: share("pRaw", listed.p_raw)?,
                p_temperature: share("pTemperature", listed.p_temperature)?,
                p_final: share("pFinal", listed.p_final)?,
                cumulative: share("cumulative", listed.cumulative)?,
                kept: listed.kept,
            })
        };
        Ok(StepRecord {
            // The file has the candidates alone.
            tail: None,
            index,
            position,
            kv_length: position,
            positions_computed: below("positionsComputed", self.positions_computed, position.saturating_add(1))?,
            id: below("id", self.id, vocab_size)?,
            text: String::new(),
            bytes: bytes(self.text, self.hex, &place)?,
            rank: below("rank", self.rank, vocab_size)?,
            p: share("p", self.p)?,
            surprisal_bits: real(&place, "surprisalBits", self.surprisal_bits, -0.01, 1e6)?,
            u,
            candidates: self.candidates.into_iter().map(candidate).collect::<Result<_>>()?,
            nucleus_size: below("nucleusSize", self.nucleus_size, vocab_size.saturating_add(1))?,
            nucleus_mass: share("nucleusMass", self.nucleus_mass)?,
            entropy_bits: real(&place, "entropyBits", self.entropy_bits, -0.01, 64.0)?,
            ms: StepMs { total: number(&place, "ms", self.ms, 0.0, 1e9)?, ..StepMs::default() },
        })
    }
}

impl Listed {
    fn of(candidate: &Candidate) -> Listed {
        let (text, hex) = written(&candidate.bytes);
        Listed {
            id: candidate.id,
            text,
            hex,
            logit: candidate.logit,
            p_raw: candidate.p_raw,
            p_temperature: candidate.p_temperature,
            p_final: candidate.p_final,
            cumulative: candidate.cumulative,
            kept: candidate.kept,
        }
    }
}

/// A token's bytes: as text where they are whole characters, else in hexadecimal.
fn written(bytes: &[u8]) -> (Option<String>, Option<String>) {
    match std::str::from_utf8(bytes) {
        Ok(text) => (Some(text.to_owned()), None),
        Err(_) => (None, Some(bytes.iter().map(|byte| format!("{byte:02x}")).collect())),
    }
}

fn bytes(text: Option<String>, hex: Option<String>, place: &str) -> Result<Vec<u8>> {
    let pair =
        |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).ok().filter(|pair| pair.len() == 2)?, 16).ok();
    let bytes = match (text, hex) {
        (Some(text), None) => text.into_bytes(),
        (None, Some(hex)) => hex
            .as_bytes()
            .chunks(2)
            .map(pair)
            .collect::<Option<_>>()
            .ok_or_else(|| bad(format!("In {place} `hex` is none: expected pairs of digits.")))?,
        _ => return Err(bad(format!("In {place} a token has not one of `text` and `hex`: expected one of them."))),
    };
    if bytes.len() > MOST_TOKEN_BYTES {
        let n = bytes.len();
        return Err(bad(format!("In {place} a token has {n} bytes: expected at most {MOST_TOKEN_BYTES}.")));
    }
    Ok(bytes)
}

fn number(place: &str, name: &str, found: f64, least: f64, most: f64) -> Result<f64> {
    if (least..=most).contains(&found) {
        return Ok(found);
    }
    Err(bad(format!("In {place} `{name}` is {found}: expected a number from {least} to {most}.")))
}

fn real(place: &str, name: &str, found: f32, least: f32, most: f32) -> Result<f32> {
    number(place, name, found.into(), least.into(), most.into()).map(|_| found)
}
