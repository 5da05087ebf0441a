//! Metadata -> [`ModelConfig`]. Every number is checked here once; later code relies on it.

/// A supported model family (`general.architecture`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Architecture {
    Llama,
}

/// How positions are stretched beyond the length the model was trained on.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum RopeScaling {
    None,
    /// Positions divided by `factor`.
    Linear {
        factor: f32,
    },
}

/// Hyperparameters of a model, validated: no zero, every product that later code forms fits `usize`.
#[derive(Debug, Clone, PartialEq)]
pub struct ModelConfig {
    pub architecture: Architecture,
    /// `general.name`, or empty.
    pub name: String,
    pub n_layers: usize,
    /// Width of the residual stream.
    pub n_embd: usize,
    /// Width of the feed-forward layer.
    pub n_ff: usize,
    pub n_heads: usize,
    pub n_kv_heads: usize,
    /// Width of one head of Q, K and V; `n_embd / n_heads` unless the file says otherwise.
    pub head_dim: usize,
    /// How many of a head's values are rotated (the first ones); even, at most `head_dim`.
    pub rope_dim: usize,
    pub rope_base: f32,
    pub rope_scaling: RopeScaling,
    pub norm_eps: f32,
    /// The context the model was trained for.
    pub context_length: usize,
    pub vocab_size: usize,
}
