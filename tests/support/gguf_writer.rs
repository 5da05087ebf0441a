//! Writes GGUF files for tests: sound by default, each field open to be made wrong.

/// Value type numbers of GGUF.
pub mod ty {
    pub const U8: u32 = 0;
    pub const U32: u32 = 4;
    pub const I32: u32 = 5;
    pub const F32: u32 = 6;
    pub const BOOL: u32 = 7;
    pub const STRING: u32 = 8;
    pub const ARRAY: u32 = 9;
    pub const U64: u32 = 10;
    pub const F64: u32 = 12;
}

/// A length field.
#[derive(Clone, Copy)]
pub enum Length {
    Actual,
    Stated(u64),
    /// One more than the bytes that follow it in the file.
    RemainingPlusOne,
}

pub struct Text {
    pub length: Length,
    pub bytes: Vec<u8>,
}

impl Text {
    pub fn new(bytes: impl AsRef<[u8]>) -> Self {
        Self { length: Length::Actual, bytes: bytes.as_ref().to_vec() }
    }
}

pub enum Payload {
    Bytes(Vec<u8>),
    Text(Text),
}

pub struct Entry {
    pub key: Text,
    pub ty: u32,
    pub value: Payload,
}

impl Entry {
    pub fn new(key: impl AsRef<[u8]>, ty: u32, value: impl AsRef<[u8]>) -> Self {
        Self { key: Text::new(key), ty, value: Payload::Bytes(value.as_ref().to_vec()) }
    }
}

pub struct Tensor {
    pub name: Text,
    pub n_dims: Option<u32>,
    pub dims: Vec<u64>,
    pub ty: u32,
    /// Default: after the tensor before it.
    pub offset: Option<u64>,
    /// Bytes written for it, whatever the fields above say.
    pub n_bytes: usize,
}

pub struct GgufFile {
    pub magic: Vec<u8>,
    pub version: u32,
    pub n_tensors: Option<u64>,
    pub n_entries: Option<u64>,
    pub entries: Vec<Entry>,
    pub tensors: Vec<Tensor>,
    pub alignment: usize,
    /// Bytes left out at the end.
    pub cut: usize,
}

const F32: (u32, usize, usize) = (0, 1, 4);
const Q8_0: (u32, usize, usize) = (8, 32, 34);

impl GgufFile {
    /// A llama model of one layer: n_embd 32, 4 heads, 2 KV heads, n_ff 64, vocabulary 40, every optional tensor present.
    pub fn tiny_llama() -> Self {
        let mut file = Self {
            magic: b"GGUF".to_vec(),
            version: 3,
            n_tensors: None,
            n_entries: None,
            entries: Vec::new(),
            tensors: Vec::new(),
            alignment: 32,
            cut: 0,
        };
        file.set_string("general.architecture", "llama");
        file.set_string("general.name", "tiny");
        for (key, value) in [
            ("llama.context_length", 512),
            ("llama.embedding_length", 32),
            ("llama.block_count", 1),
            ("llama.feed_forward_length", 64),
            ("llama.attention.head_count", 4),
            ("llama.attention.head_count_kv", 2),
            ("llama.rope.dimension_count", 8),
            ("llama.vocab_size", 40),
        ] {
            file.set_u32(key, value);
        }
        file.set_f32("llama.attention.layer_norm_rms_epsilon", 1e-5);
        file.set_f32("llama.rope.freq_base", 10_000.0);
        file.set("test.flag", ty::BOOL, [1]);

        for (name, dims, format) in [
            ("token_embd.weight", &[32, 40][..], Q8_0),
            ("output_norm.weight", &[32], F32),
            ("output.weight", &[32, 40], Q8_0),
            ("rope_freqs.weight", &[4], F32),
            ("blk.0.attn_norm.weight", &[32], F32),
            ("blk.0.attn_q.weight", &[32, 32], Q8_0),
            ("blk.0.attn_k.weight", &[32, 16], Q8_0),
            ("blk.0.attn_v.weight", &[32, 16], Q8_0),
            ("blk.0.attn_output.weight", &[32, 32], Q8_0),
            ("blk.0.ffn_norm.weight", &[32], F32),
            ("blk.0.ffn_gate.weight", &[32, 64], Q8_0),
            ("blk.0.ffn_up.weight", &[32, 64], Q8_0),
            ("blk.0.ffn_down.weight", &[64, 32], Q8_0),
        ] {
            file.push_tensor(name, dims, format);
        }
        file
    }

    fn push_tensor(&mut self, name: &str, dims: &[u64], (ty, block_len, block_bytes): (u32, usize, usize)) {
        let n_elements: usize = dims.iter().map(|&dim| dim as usize).product();
        self.tensors.push(Tensor {
            name: Text::new(name),
            n_dims: None,
            dims: dims.to_vec(),
            ty,
            offset: None,
            n_bytes: n_elements / block_len * block_bytes,
        });
    }

    pub fn push_f32_tensor(&mut self, name: &str, dims: &[u64]) {
        self.push_tensor(name, dims, F32);
    }

    /// As many rows in the embedding and the output.
    pub fn set_vocab_size(&mut self, n: usize) {
        self.set_u32("llama.vocab_size", n as u32);
        for name in ["token_embd.weight", "output.weight"] {
            let tensor = self.tensor(name);
            tensor.dims[1] = n as u64;
            tensor.n_bytes = n * Q8_0.2;
        }
    }

    pub fn entry(&mut self, key: &str) -> &mut Entry {
        self.entries.iter_mut().find(|entry| entry.key.bytes == key.as_bytes()).expect("the file has this key")
    }

    pub fn tensor(&mut self, name: &str) -> &mut Tensor {
        self.tensors.iter_mut().find(|tensor| tensor.name.bytes == name.as_bytes()).expect("the file has this tensor")
    }

    pub fn remove(&mut self, key: &str) {
        self.entries.retain(|entry| entry.key.bytes != key.as_bytes());
    }

    pub fn remove_tensor(&mut self, name: &str) {
        self.tensors.retain(|tensor| tensor.name.bytes != name.as_bytes());
    }

    /// Replaces the entry, or adds it.
    pub fn set(&mut self, key: &str, ty: u32, value: impl AsRef<[u8]>) {
        self.remove(key);
        self.entries.push(Entry::new(key, ty, value));
    }

    pub fn set_u32(&mut self, key: &str, value: u32) {
        self.set(key, ty::U32, value.to_le_bytes());
    }

    pub fn set_f32(&mut self, key: &str, value: f32) {
        self.set(key, ty::F32, value.to_le_bytes());
    }

    pub fn set_string(&mut self, key: &str, value: &str) {
        self.remove(key);
        self.entries.push(Entry { key: Text::new(key), ty: ty::STRING, value: Payload::Text(Text::new(value)) });
    }

    pub fn bytes(&self) -> Vec<u8> {
        let mut out = self.magic.clone();
        // Where a length field waits for the size of the file.
        let mut remaining_fields = Vec::new();
        let mut text = |out: &mut Vec<u8>, text: &Text| {
            let length = match text.length {
                Length::Actual => text.bytes.len() as u64,
                Length::Stated(length) => length,
                Length::RemainingPlusOne => {
                    remaining_fields.push(out.len());
                    0
                }
            };
            out.extend(length.to_le_bytes());
            out.extend_from_slice(&text.bytes);
        };
        out.extend(self.version.to_le_bytes());
        out.extend(self.n_tensors.unwrap_or(self.tensors.len() as u64).to_le_bytes());
        out.extend(self.n_entries.unwrap_or(self.entries.len() as u64).to_le_bytes());
        for entry in &self.entries {
            text(&mut out, &entry.key);
            out.extend(entry.ty.to_le_bytes());
            match &entry.value {
                Payload::Bytes(bytes) => out.extend_from_slice(bytes),
                Payload::Text(value) => text(&mut out, value),
            }
        }
        let mut next_offset = 0;
        for tensor in &self.tensors {
            text(&mut out, &tensor.name);
            out.extend(tensor.n_dims.unwrap_or(tensor.dims.len() as u32).to_le_bytes());
            out.extend(tensor.dims.iter().flat_map(|dim| dim.to_le_bytes()));
            out.extend(tensor.ty.to_le_bytes());
            out.extend(tensor.offset.unwrap_or(next_offset as u64).to_le_bytes());
            next_offset += tensor.n_bytes.next_multiple_of(self.alignment);
        }
        for tensor in &self.tensors {
            out.resize(out.len().next_multiple_of(self.alignment), 0);
            out.resize(out.len() + tensor.n_bytes, 0x5a);
        }
        for field in remaining_fields {
            let length = (out.len() - (field + 8) + 1) as u64;
            out[field..field + 8].copy_from_slice(&length.to_le_bytes());
        }
        out.truncate(out.len().saturating_sub(self.cut));
        out
    }
}

/// The payload of an array: element type, stated length, elements.
pub fn array(element_ty: u32, len: u64, elements: impl AsRef<[u8]>) -> Vec<u8> {
    [&element_ty.to_le_bytes()[..], &len.to_le_bytes(), elements.as_ref()].concat()
}
