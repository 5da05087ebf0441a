//! A sound file, its metadata and tensors changed: what configuration and weights make of it.

#![no_main]

use arbitrary::Arbitrary;
use libfuzzer_sys::fuzz_target;
use nucleus_fuzz::gguf_writer::{Entry, GgufFile, Length, Payload, Text, array, ty};

fuzz_target!(|changes: Changes| {
    let mut file = GgufFile::tiny_llama();
    if let Some(architecture) = changes.architecture {
        rename(&mut file, ARCHITECTURES[usize::from(architecture) % ARCHITECTURES.len()]);
    }
    for edit in changes.edits {
        edit.apply(&mut file);
    }
    let bytes = file.bytes();
    let Some((config, weights)) = nucleus_fuzz::model(&bytes) else { return };
    // What the engines rely on.
    assert!(config.n_heads.is_multiple_of(config.n_kv_heads));
    assert!(config.rope_dim.is_multiple_of(2) && config.rope_dim <= config.head_dim);
    assert!(config.norm_eps > 0.0 && config.rope_base.is_finite());
    assert_eq!(weights.layers.len(), config.n_layers);
    assert_eq!((weights.token_embd.n_rows, weights.token_embd.n_cols), (config.vocab_size, config.n_embd));
    assert!(weights.token_embd.bytes.end <= bytes.len());
});

#[derive(Arbitrary, Debug)]
struct Changes<'a> {
    architecture: Option<u8>,
    edits: Vec<Edit<'a>>,
}

/// Entries and tensors are chosen by number, which wraps around.
#[derive(Arbitrary, Debug)]
enum Edit<'a> {
    Set { suffix: u8, value: Value<'a> },
    SetAny { key: &'a [u8], value: Value<'a> },
    RemoveEntry { at: u8 },
    KeyLength { at: u8, length: u64 },
    Tensor { at: u8, change: TensorChange<'a> },
    RemoveTensor { at: u8 },
    AddTensor { name: &'a str, dims: [u8; 2] },
    Counts { n_entries: Option<u64>, n_tensors: Option<u64> },
    Version(u32),
    Cut(u16),
}

#[derive(Arbitrary, Debug)]
enum Value<'a> {
    Integer { ty: u8, bits: u64 },
    Small(u8),
    Float(f32),
    Flag(u8),
    Text(&'a str),
    Elements { ty: u8, length: Option<u64>, bytes: &'a [u8] },
}

#[derive(Arbitrary, Debug)]
enum TensorChange<'a> {
    Name(&'a [u8]),
    /// A layer that the file may not have.
    Layer(u8),
    Dims(Vec<u64>),
    SmallDims(Vec<u8>),
    NDims(u32),
    Type(u8),
    Offset(u64),
    NBytes(u16),
}

/// Names that the keys of a file may begin with.
const ARCHITECTURES: [&str; 6] = ["llama", "qwen2", "qwen3", "gemma3", "phi3", "mistral3"];

/// How the keys of a model end.
const SUFFIXES: [&str; 24] = [
    "context_length",
    "embedding_length",
    "block_count",
    "feed_forward_length",
    "attention.head_count",
    "attention.head_count_kv",
    "attention.key_length",
    "attention.value_length",
    "attention.layer_norm_rms_epsilon",
    "attention.sliding_window",
    "attention.scale",
    "attention.causal",
    "rope.dimension_count",
    "rope.freq_base",
    "rope.freq_base_swa",
    "rope.scaling.type",
    "rope.scaling.factor",
    "rope.scaling.original_context_length",
    "rope.scale_linear",
    "vocab_size",
    "expert_count",
    "logit_scale",
    "final_logit_softcapping",
    "attn_logit_softcapping",
];

fn prefix(file: &GgufFile) -> &'static str {
    let is_used = |name: &&&str| file.entries.iter().any(|entry| entry.key.bytes.starts_with(name.as_bytes()));
    ARCHITECTURES.iter().find(is_used).copied().unwrap_or_default()
}

/// The same model, said to be of another family.
fn rename(file: &mut GgufFile, architecture: &str) {
    for entry in &mut file.entries {
        if let Some(suffix) = entry.key.bytes.strip_prefix(b"llama.") {
            entry.key.bytes = [architecture.as_bytes(), b".", suffix].concat();
        }
    }
    file.set_string("general.architecture", architecture);
}

impl Edit<'_> {
    fn apply(self, file: &mut GgufFile) {
        let (n_entries, n_tensors) = (file.entries.len(), file.tensors.len());
        match self {
            Edit::Set { suffix, value } => {
                let key = match SUFFIXES.get(usize::from(suffix)) {
                    Some(suffix) => format!("{}.{suffix}", prefix(file)),
                    None => {
                        ["general.alignment", "general.name", "general.architecture"][usize::from(suffix) % 3].into()
                    }
                };
                file.remove(&key);
                file.entries.push(value.entry(key.as_bytes()));
            }
            Edit::SetAny { key, value } => file.entries.push(value.entry(key)),
            Edit::RemoveEntry { at } if n_entries > 0 => drop(file.entries.remove(usize::from(at) % n_entries)),
            Edit::KeyLength { at, length } if n_entries > 0 => {
                file.entries[usize::from(at) % n_entries].key.length = Length::Stated(length);
            }
            Edit::Tensor { at, change } if n_tensors > 0 => change.apply(file, usize::from(at) % n_tensors),
            Edit::RemoveTensor { at } if n_tensors > 0 => drop(file.tensors.remove(usize::from(at) % n_tensors)),
            Edit::AddTensor { name, dims } => file.push_f32_tensor(name, &dims.map(u64::from)),
            Edit::Counts { n_entries, n_tensors } => (file.n_entries, file.n_tensors) = (n_entries, n_tensors),
            Edit::Version(version) => file.version = version,
            Edit::Cut(n) => file.cut = usize::from(n) % 64,
            _ => {}
        }
    }
}

impl Value<'_> {
    fn entry(self, key: &[u8]) -> Entry {
        match self {
            Value::Integer { ty, bits } => {
                // U8, I8, U16, I16, U32, I32, and the two of 8 bytes.
                let (ty, n) = [(0, 1), (1, 1), (2, 2), (3, 2), (4, 4), (5, 4), (10, 8), (11, 8)][usize::from(ty) % 8];
                Entry::new(key, ty, &bits.to_le_bytes()[..n])
            }
            Value::Small(n) => Entry::new(key, ty::U32, u32::from(n).to_le_bytes()),
            Value::Float(value) => Entry::new(key, ty::F32, value.to_le_bytes()),
            Value::Flag(value) => Entry::new(key, ty::BOOL, [value]),
            Value::Text(text) => Entry { key: Text::new(key), ty: ty::STRING, value: Payload::Text(Text::new(text)) },
            Value::Elements { ty: element, length, bytes } => {
                let length = length.unwrap_or(bytes.len() as u64);
                Entry::new(key, ty::ARRAY, array(u32::from(element % 14), length, bytes))
            }
        }
    }
}

impl TensorChange<'_> {
    fn apply(self, file: &mut GgufFile, at: usize) {
        let tensor = &mut file.tensors[at];
        match self {
            TensorChange::Name(name) => tensor.name = Text::new(name),
            TensorChange::Layer(layer) => {
                let name = String::from_utf8_lossy(&tensor.name.bytes).replacen(".0.", &format!(".{layer}."), 1);
                tensor.name = Text::new(name);
            }
            TensorChange::Dims(dims) => tensor.dims = dims,
            TensorChange::SmallDims(dims) => tensor.dims = dims.into_iter().map(u64::from).collect(),
            TensorChange::NDims(n) => tensor.n_dims = Some(n),
            TensorChange::Type(number) => tensor.ty = u32::from(number % 48),
            TensorChange::Offset(offset) => tensor.offset = Some(offset),
            TensorChange::NBytes(n) => tensor.n_bytes = usize::from(n),
        }
    }
}
