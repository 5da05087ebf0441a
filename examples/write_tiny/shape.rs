//! A random model of any family and shape, as the bytes of a GGUF file.
//!
//! Invariant: the same shape gives the same bytes, everywhere.

use half::f16;

/// How matrices are stored; vectors are F32.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    F32,
    Q4_0,
    Q8_0,
}

/// A model to be made.
#[derive(Debug, Clone)]
pub struct Shape {
    /// As `general.architecture` spells it.
    pub architecture: String,
    pub n_layers: usize,
    pub n_embd: usize,
    pub n_ff: usize,
    pub n_heads: usize,
    pub n_kv_heads: usize,
    pub head_dim: usize,
    pub rope_dim: usize,
    pub rope_base: f32,
    /// With a factor of 4, over a quarter of the context.
    pub rope_scaling: Option<&'static str>,
    pub rope_freqs: bool,
    /// Only Gemma 3 knows it.
    pub window: usize,
    pub vocab_size: usize,
    pub context_length: usize,
    pub tied: bool,
    pub format: Format,
    pub seed: u64,
}

impl Shape {
    /// A small model of a family.
    pub fn of(architecture: &str) -> Self {
        Self {
            architecture: architecture.into(),
            n_layers: 3,
            n_embd: 64,
            n_ff: 96,
            n_heads: 4,
            n_kv_heads: 2,
            head_dim: 16,
            rope_dim: 16,
            rope_base: 10_000.0,
            rope_scaling: None,
            rope_freqs: false,
            window: 8,
            vocab_size: 300,
            context_length: 512,
            tied: true,
            format: Format::F32,
            seed: 1,
        }
    }

    /// The file.
    pub fn write(&self) -> Vec<u8> {
        let entries = self.entries();
        let tensors = self.tensors();
        let mut out = b"GGUF".to_vec();
        out.extend(3u32.to_le_bytes());
        out.extend((tensors.len() as u64).to_le_bytes());
        out.extend((entries.len() as u64).to_le_bytes());
        out.extend(entries.concat());
        let mut offset = 0;
        for tensor in &tensors {
            out.extend(text(&tensor.name));
            out.extend((tensor.dims.len() as u32).to_le_bytes());
            out.extend(tensor.dims.iter().flat_map(|dim| (*dim as u64).to_le_bytes()));
            out.extend(tensor.format.number().to_le_bytes());
            out.extend((offset as u64).to_le_bytes());
            offset += tensor.n_bytes().next_multiple_of(ALIGNMENT);
        }
        let mut random = Random(self.seed);
        for tensor in &tensors {
            out.resize(out.len().next_multiple_of(ALIGNMENT), 0);
            tensor.write(&mut random, &mut out);
        }
        out
    }

    fn entries(&self) -> Vec<Vec<u8>> {
        let own = |suffix: &str| format!("{}.{suffix}", self.architecture);
        let mut entries = vec![
            entry("general.architecture", STRING, text(&self.architecture)),
            entry("general.name", STRING, text(&format!("random {}", self.architecture))),
            entry(&own("attention.layer_norm_rms_epsilon"), FLOAT, 1e-6_f32.to_le_bytes()),
            entry(&own("rope.freq_base"), FLOAT, self.rope_base.to_le_bytes()),
        ];
        let mut integer = |suffix: &str, value: usize| {
            entries.push(entry(&own(suffix), INTEGER, (value as u32).to_le_bytes()));
        };
        integer("context_length", self.context_length);
        integer("embedding_length", self.n_embd);
        integer("block_count", self.n_layers);
        integer("feed_forward_length", self.n_ff);
        integer("attention.head_count", self.n_heads);
        integer("attention.head_count_kv", self.n_kv_heads);
        integer("attention.key_length", self.head_dim);
        integer("attention.value_length", self.head_dim);
        integer("rope.dimension_count", self.rope_dim);
        if self.architecture == "gemma3" {
            integer("attention.sliding_window", self.window);
        }
        if let Some(scaling) = self.rope_scaling {
            integer("rope.scaling.original_context_length", self.context_length / 4);
            entries.push(entry(&own("rope.scaling.type"), STRING, text(scaling)));
            entries.push(entry(&own("rope.scaling.factor"), FLOAT, 4.0_f32.to_le_bytes()));
        }
        entries.extend(self.vocabulary());
        entries
    }

    /// Each byte a token, one merge, then tokens of no meaning; the last one ends a text.
    fn vocabulary(&self) -> Vec<Vec<u8>> {
        assert!(self.vocab_size > 257, "room for all bytes, a merge and an end");
        let is_shown = |byte: u32| matches!(byte, 33..=126 | 161..=172 | 174..=255);
        let mut hidden = (256..).filter_map(char::from_u32);
        let mut tokens: Vec<String> = (0..256)
            .map(|byte| if is_shown(byte) { char::from_u32(byte) } else { hidden.next() })
            .map(|char| char.expect("these are characters").into())
            .collect();
        tokens.push("th".into());
        tokens.extend((257..self.vocab_size).map(|id| format!("<{id}>")));
        let texts =
            |texts: &[String]| array(STRING, texts.len(), &texts.iter().flat_map(|t| text(t)).collect::<Vec<_>>());
        let last = self.vocab_size - 1;
        let types: Vec<u8> = (0..=last).flat_map(|id| if id == last { 3u32 } else { 1 }.to_le_bytes()).collect();
        vec![
            entry("tokenizer.ggml.model", STRING, text("gpt2")),
            entry("tokenizer.ggml.pre", STRING, text("gpt-2")),
            entry("tokenizer.ggml.tokens", ARRAY, texts(&tokens)),
            entry("tokenizer.ggml.token_type", ARRAY, array(5, self.vocab_size, &types)),
            entry("tokenizer.ggml.merges", ARRAY, texts(&["t h".into()])),
            entry("tokenizer.ggml.eos_token_id", INTEGER, (last as u32).to_le_bytes()),
        ]
    }

    fn tensors(&self) -> Vec<Tensor> {
        let &Self { n_embd, n_ff, vocab_size, format, .. } = self;
        let (q_width, kv_width) = (self.n_heads * self.head_dim, self.n_kv_heads * self.head_dim);
        let matrix = |name: String, n_rows, n_cols| Tensor { name, dims: vec![n_cols, n_rows], format, around: 0.0 };
        let vector = |name: String, n, around| Tensor { name, dims: vec![n], format: Format::F32, around };
        let mut tensors = vec![
            matrix("token_embd.weight".into(), vocab_size, n_embd),
            vector("output_norm.weight".into(), n_embd, 1.0),
        ];
        if !self.tied {
            tensors.push(matrix("output.weight".into(), vocab_size, n_embd));
        }
        if self.rope_freqs {
            tensors.push(vector("rope_freqs.weight".into(), self.rope_dim / 2, 2.0));
        }
        for i in 0..self.n_layers {
            let name = |role: &str| format!("blk.{i}.{role}");
            for (role, n_rows, n_cols) in [
                ("attn_q", q_width, n_embd),
                ("attn_k", kv_width, n_embd),
                ("attn_v", kv_width, n_embd),
                ("attn_output", n_embd, q_width),
                ("ffn_gate", n_ff, n_embd),
                ("ffn_up", n_ff, n_embd),
                ("ffn_down", n_embd, n_ff),
            ] {
                tensors.push(matrix(name(&format!("{role}.weight")), n_rows, n_cols));
            }
            let mut norms = vec![("attn_norm", n_embd), ("ffn_norm", n_embd)];
            if self.architecture == "gemma3" {
                norms.extend([("post_attention_norm", n_embd), ("post_ffw_norm", n_embd)]);
            }
            if ["gemma3", "qwen3"].contains(&self.architecture.as_str()) {
                norms.extend([("attn_q_norm", self.head_dim), ("attn_k_norm", self.head_dim)]);
            }
            tensors.extend(norms.into_iter().map(|(role, n)| vector(name(&format!("{role}.weight")), n, 1.0)));
            if self.architecture == "qwen2" {
                let biases = [("attn_q", q_width), ("attn_k", kv_width), ("attn_v", kv_width)];
                tensors.extend(biases.map(|(role, n)| vector(name(&format!("{role}.bias")), n, 0.0)));
            }
        }
        tensors
    }
}

const ALIGNMENT: usize = 32;
/// Value types of GGUF.
const INTEGER: u32 = 4;
const FLOAT: u32 = 6;
const STRING: u32 = 8;
const ARRAY: u32 = 9;

fn text(text: &str) -> Vec<u8> {
    [&(text.len() as u64).to_le_bytes()[..], text.as_bytes()].concat()
}

fn entry(key: &str, ty: u32, value: impl AsRef<[u8]>) -> Vec<u8> {
    [&text(key)[..], &ty.to_le_bytes(), value.as_ref()].concat()
}

fn array(ty: u32, len: usize, elements: &[u8]) -> Vec<u8> {
    [&ty.to_le_bytes()[..], &(len as u64).to_le_bytes(), elements].concat()
}

struct Tensor {
    name: String,
    dims: Vec<usize>,
    format: Format,
    /// The middle of its values: those of a norm are near 1.
    around: f32,
}

impl Format {
    /// GGML's number.
    fn number(self) -> u32 {
        match self {
            Self::F32 => 0,
            Self::Q4_0 => 2,
            Self::Q8_0 => 8,
        }
    }
}

impl Tensor {
    fn n_bytes(&self) -> usize {
        let n: usize = self.dims.iter().product();
        match self.format {
            Format::F32 => n * 4,
            Format::Q4_0 => n / 32 * 18,
            Format::Q8_0 => n / 32 * 34,
        }
    }

    /// Random values of such a size that a product with the matrix is about as large as what it multiplies; random blocks, where
    /// values are quantized.
    fn write(&self, random: &mut Random, out: &mut Vec<u8>) {
        let n: usize = self.dims.iter().product();
        assert!(self.format == Format::F32 || self.dims[0].is_multiple_of(32), "{} has broken blocks", self.name);
        // Of values spread evenly over -1 to 1.
        let size = if self.dims.len() == 2 { (3.0 / self.dims[0] as f32).sqrt() } else { 0.5 };
        match self.format {
            Format::F32 => out.extend((0..n).flat_map(|_| (self.around + size * random.float()).to_le_bytes())),
            Format::Q4_0 => {
                for _ in 0..n / 32 {
                    out.extend(f16::from_f32(size / 8.0 * (1.0 + 0.5 * random.float())).to_le_bytes());
                    out.extend((0..16).map(|_| random.byte()));
                }
            }
            Format::Q8_0 => {
                for _ in 0..n / 32 {
                    out.extend(f16::from_f32(size / 128.0 * (1.0 + 0.5 * random.float())).to_le_bytes());
                    out.extend((0..32).map(|_| random.byte()));
                }
            }
        }
    }
}

/// SplitMix64 (Steele et al. 2014).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }

    fn byte(&mut self) -> u8 {
        (self.next() >> 56) as u8
    }

    /// -1 to 1.
    fn float(&mut self) -> f32 {
        (self.next() >> 40) as f32 / (1u32 << 23) as f32 - 1.0
    }
}
