//! What a run is asked for: prompt, limits, and the decoding chain.
//!
//! Invariant: see `protocol`.

use serde::{Deserialize, Serialize};

/// The whole of a run. Defaults as in `www/nucleus.d.ts`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct GenerateOptions {
    pub prompt: Prompt,
    pub max_new_tokens: u32,
    /// Ends of sequence are forbidden until the text has this many tokens.
    pub min_new_tokens: u32,
    pub sampling: SamplingOptions,
    pub stop: Vec<String>,
    pub ignore_eos: bool,
    pub max_time_ms: Option<f64>,
    pub kv_cache: bool,
    /// How many candidates a step reports.
    pub candidates: u32,
    /// Text that is there already: the run goes on after it, as the run that wrote it would have. No steps are made for it.
    pub resume_ids: Vec<u32>,
    /// Tokens to take instead of drawing, one per step, before drawing begins.
    pub force_ids: Vec<u32>,
    /// Keeps what the KV cache holds from the run before, as far as its ids are this run's too.
    pub reuse_cache: bool,
}

impl GenerateOptions {
    /// Whether the token of step `index` is forced, not drawn.
    pub fn is_forced(&self, index: u32) -> bool {
        let index = usize::try_from(index).unwrap_or(usize::MAX);
        index.checked_sub(self.resume_ids.len()).is_some_and(|at| at < self.force_ids.len())
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Prompt {
    Text {
        text: String,
        special: bool,
    },
    Ids(Vec<u32>),
    /// Rendered by the file's own chat template; the assistant's next turn is what the run writes.
    Chat(Vec<ChatMessage>),
}

/// One turn of a conversation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChatMessage {
    /// One of [`ChatMessage::ROLES`].
    pub role: String,
    pub content: String,
}

impl ChatMessage {
    pub const ROLES: [&str; 4] = ["system", "user", "assistant", "tool"];
}

/// The decoding chain: processors of logits, filters, temperature (SEMANTICS.md, "Sampling"). Semantics are those of transformers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SamplingOptions {
    pub order: SamplerOrder,
    /// Negative logits are multiplied, others divided, once per distinct token of prompt and text; 1 is off.
    pub repetition_penalty: f32,
    /// Forbids a token that would end a run of so many tokens which is in prompt and text already; 0 is off.
    pub no_repeat_ngram_size: u32,
    /// Added to the logits of these tokens.
    pub logit_bias: Vec<(u32, f32)>,
    /// Tokens that are forbidden.
    pub suppress: Vec<u32>,
    /// 0 is greedy, in both orders: the best token after the processors, no filter asked.
    pub temperature: f32,
    /// Keeps the k best, ties with the k-th included; 0 is off.
    pub top_k: u32,
    /// Keeps a token iff the mass strictly above it is below this; 1 is off, 0 keeps one.
    pub top_p: f32,
    /// Keeps p >= min_p * p_max; 0 is off.
    pub min_p: f32,
    /// Keeps the tokens whose surprisal is nearest to the entropy, up to this mass; 1 is off.
    pub typical_p: f32,
    /// Keeps p >= this; 0 is off.
    pub epsilon_cutoff: f32,
    /// Keeps p >= this, or >= sqrt(this) e^-entropy where that is less; 0 is off.
    pub eta_cutoff: f32,
    pub seed: u64,
}

impl SamplingOptions {
    /// Nothing is changed and nothing cut: draws from the model's own distribution.
    pub const OFF: SamplingOptions = SamplingOptions {
        order: SamplerOrder::HuggingFace,
        repetition_penalty: 1.0,
        no_repeat_ngram_size: 0,
        logit_bias: Vec::new(),
        suppress: Vec::new(),
        temperature: 1.0,
        top_k: 0,
        top_p: 1.0,
        min_p: 0.0,
        typical_p: 1.0,
        epsilon_cutoff: 0.0,
        eta_cutoff: 0.0,
        seed: 0,
    };
}

/// What comes after the processors of logits, and in which order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum SamplerOrder {
    /// Temperature, top-k, top-p, min-p, typical-p, epsilon, eta.
    HuggingFace,
    /// Top-k, typical-p, top-p, min-p, epsilon, eta, temperature last.
    LlamaCpp,
}
