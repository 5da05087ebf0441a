//! The refusals of HARDENING.md, rows 1 to 19, each as one edit of a sound file.

use super::gguf_writer::{Entry, GgufFile, Length, Payload, Text, array, ty};

pub type Edit = fn(&mut GgufFile);

pub struct Case {
    /// Row of the table in HARDENING.md, or the row that it is nearest to.
    pub row: u32,
    pub what: &'static str,
    pub kind: &'static str,
    pub edit: Edit,
}

const fn case(row: u32, what: &'static str, kind: &'static str, edit: Edit) -> Case {
    Case { row, what, kind, edit }
}

const ALIGNMENT: &str = "general.alignment";
const ARCHITECTURE: &str = "general.architecture";
const HEADS: &str = "llama.attention.head_count";
const KV_HEADS: &str = "llama.attention.head_count_kv";
const HEAD_DIM: &str = "llama.attention.key_length";
const LAYERS: &str = "llama.block_count";
const CONTEXT: &str = "llama.context_length";
const EPS: &str = "llama.attention.layer_norm_rms_epsilon";
const ROPE_BASE: &str = "llama.rope.freq_base";
const ROPE_DIM: &str = "llama.rope.dimension_count";
const SCALING: &str = "llama.rope.scaling.type";
const FACTOR: &str = "llama.rope.scaling.factor";

const EMBEDDING: &str = "token_embd.weight";
const OUTPUT: &str = "output.weight";
const ROPE_FREQS: &str = "rope_freqs.weight";
const Q: &str = "blk.0.attn_q.weight";
const K: &str = "blk.0.attn_k.weight";
const V: &str = "blk.0.attn_v.weight";
const DOWN: &str = "blk.0.ffn_down.weight";
const NORM: &str = "blk.0.attn_norm.weight";

const Q4_K: u32 = 12;
const U64_MAX: u64 = u64::MAX;

#[rustfmt::skip]
pub const REFUSED: &[Case] = &[
    case(1, "0 bytes", "truncated", |f| f.cut = f.bytes().len()),
    case(1, "3 bytes", "truncated", |f| f.cut = f.bytes().len() - 3),
    case(1, "the last tensor one byte short", "truncated", |f| f.cut = 1),
    case(1, "data cut before its last tensors begin", "truncated", |f| f.cut = 4096),

    case(2, "FUGG", "not-gguf", |f| f.magic = b"FUGG".to_vec()),
    case(2, "an HTML page", "not-gguf", |f| f.magic = b"<!DOCTYPE html>".to_vec()),
    case(2, "gzip", "not-gguf", |f| f.magic = b"\x1f\x8b\x08\0".to_vec()),
    case(2, "zip", "not-gguf", |f| f.magic = b"PK\x03\x04".to_vec()),
    case(2, "JSON", "not-gguf", |f| f.magic = b"{\"error\":404}".to_vec()),
    case(2, "safetensors", "not-gguf", |f| f.magic = b"\x40\0\0\0\0\0\0\0{".to_vec()),
    case(2, "zeros", "not-gguf", |f| f.magic = vec![0; 4]),

    case(3, "version 0", "unsupported-version", |f| f.version = 0),
    case(3, "version 1", "unsupported-version", |f| f.version = 1),
    case(3, "version 4", "unsupported-version", |f| f.version = 4),
    case(3, "version 3, big-endian", "wrong-endian", |f| f.version = 0x0300_0000),
    case(3, "version 2, big-endian", "wrong-endian", |f| f.version = 0x0200_0000),

    case(4, "2^63 tensors", "count-too-large", |f| f.n_tensors = Some(1 << 63)),
    case(4, "2^64-1 tensors", "count-too-large", |f| f.n_tensors = Some(U64_MAX)),
    case(4, "2^32+1 tensors", "count-too-large", |f| f.n_tensors = Some((1 << 32) + 1)),
    case(4, "just more tensors than the bytes can hold", "count-too-large", |f| f.n_tensors = Some(f.bytes().len() as u64 / 33 + 1)),
    case(4, "2^63 entries", "count-too-large", |f| f.n_entries = Some(1 << 63)),
    case(4, "2^64-1 entries", "count-too-large", |f| f.n_entries = Some(U64_MAX)),
    case(4, "2^32+1 entries", "count-too-large", |f| f.n_entries = Some((1 << 32) + 1)),
    case(4, "just more entries than the bytes can hold", "count-too-large", |f| f.n_entries = Some(f.bytes().len() as u64 / 14 + 1)),

    case(5, "a key of 2^64-1 bytes", "string-too-long", |f| f.entries[3].key.length = Length::Stated(U64_MAX)),
    case(5, "a key of 2^32+4 bytes", "string-too-long", |f| f.entries[3].key.length = Length::Stated((1 << 32) + 4)),
    case(5, "a key one byte longer than the rest", "truncated", |f| f.entries[3].key.length = Length::RemainingPlusOne),
    case(5, "a string of 2^64-1 bytes", "string-too-long", |f| name_length(f, Length::Stated(U64_MAX))),
    case(5, "a string of 2^32+4 bytes", "string-too-long", |f| name_length(f, Length::Stated((1 << 32) + 4))),
    case(5, "a string one byte longer than the rest", "truncated", |f| name_length(f, Length::RemainingPlusOne)),
    case(5, "a tensor name of 2^64-1 bytes", "string-too-long", |f| f.tensor(Q).name.length = Length::Stated(U64_MAX)),
    case(5, "a tensor name of 2^32+4 bytes", "string-too-long", |f| f.tensor(Q).name.length = Length::Stated((1 << 32) + 4)),
    case(5, "a tensor name one byte longer than the rest", "truncated", |f| f.tensor(Q).name.length = Length::RemainingPlusOne),
    case(5, "an element of 2^64-1 bytes", "string-too-long", |f| f.set("test", ty::ARRAY, array(ty::STRING, 1, U64_MAX.to_le_bytes()))),
    case(5, "a string that is not UTF-8", "bad-value", |f| f.entry("general.name").value = Payload::Text(Text::new(b"\xff"))),

    case(6, "an empty key", "bad-key", |f| f.entries[3].key = Text::new("")),
    case(6, "a key of 65,536 bytes", "bad-key", |f| f.entries[3].key = Text::new([b'a'; 65_536])),
    case(6, "a key that is not UTF-8", "bad-key", |f| f.entries[3].key = Text::new(b"a\xff")),
    case(6, "a key twice", "duplicate-key", |f| f.entries.push(Entry::new(HEADS, ty::U32, [4, 0, 0, 0]))),
    case(6, "a beside a\\0", "bad-key", |f| { f.set("a", ty::U8, [1]); f.set("a\0", ty::U8, [1]); }),

    case(7, "value type 13", "bad-type", |f| f.entry("test.flag").ty = 13),
    case(7, "value type 2^32-1", "bad-type", |f| f.entry("test.flag").ty = u32::MAX),
    case(7, "element type 13", "bad-type", |f| f.set("test", ty::ARRAY, array(13, 1, [0]))),
    case(7, "element type 2^32-1", "bad-type", |f| f.set("test", ty::ARRAY, array(u32::MAX, 0, []))),
    case(7, "bool 2", "bad-value", |f| f.set("test.flag", ty::BOOL, [2])),
    case(7, "bool 2 in an array", "bad-value", |f| f.set("test", ty::ARRAY, array(ty::BOOL, 2, [1, 2]))),

    case(8, "an array of 2^63 u8", "array-too-long", |f| f.set("test", ty::ARRAY, array(ty::U8, 1 << 63, []))),
    case(8, "an array of 2^32 u8", "array-too-long", |f| f.set("test", ty::ARRAY, array(ty::U8, 1 << 32, []))),
    case(8, "an array of 2^61 u64, 2^64 bytes", "array-too-long", |f| f.set("test", ty::ARRAY, array(ty::U64, 1 << 61, []))),
    case(8, "an array of 2^32 strings", "array-too-long", |f| f.set("test", ty::ARRAY, array(ty::STRING, 1 << 32, []))),
    case(8, "an array of 200 million u8, all present", "array-too-long", |f| f.set("test", ty::ARRAY, array(ty::U8, 200_000_000, vec![0; 200_000_000]))),
    case(8, "two arrays of 100 million u8", "array-too-long", |f| for key in ["a", "b"] { f.set(key, ty::ARRAY, array(ty::U8, 100_000_000, vec![0; 100_000_000])); }),
    case(8, "more elements than bytes are left", "truncated", |f| f.set("test", ty::ARRAY, array(ty::STRING, 1_000_000, []))),
    case(8, "arrays nested 64 deep", "nested-too-deep", |f| f.set("test", ty::ARRAY, nested(64))),
    case(8, "arrays nested 10,000 deep", "nested-too-deep", |f| f.set("test", ty::ARRAY, nested(10_000))),

    case(9, "alignment 0", "bad-alignment", |f| f.set_u32(ALIGNMENT, 0)),
    case(9, "alignment 13", "bad-alignment", |f| f.set_u32(ALIGNMENT, 13)),
    case(9, "alignment 2^31", "bad-alignment", |f| f.set_u32(ALIGNMENT, 1 << 31)),
    case(9, "alignment -32 as u32", "bad-alignment", |f| f.set_u32(ALIGNMENT, -32i32 as u32)),
    case(9, "alignment -32", "bad-alignment", |f| f.set(ALIGNMENT, ty::I32, (-32i32).to_le_bytes())),
    case(9, "alignment as i32", "bad-alignment", |f| f.set(ALIGNMENT, ty::I32, 32i32.to_le_bytes())),
    case(9, "alignment as u64", "bad-alignment", |f| f.set(ALIGNMENT, ty::U64, 32u64.to_le_bytes())),

    case(10, "an empty tensor name", "bad-name", |f| f.tensor(Q).name = Text::new("")),
    case(10, "a tensor name of 65 bytes", "bad-name", |f| f.tensor(Q).name = Text::new([b'a'; 65])),
    case(10, "a tensor name that is not UTF-8", "bad-name", |f| f.tensor(Q).name = Text::new(b"a\xc3")),
    case(10, "a tensor name with a NUL", "bad-name", |f| f.tensor(Q).name = Text::new("a\0")),
    case(10, "a tensor twice", "duplicate-tensor", |f| f.tensor(Q).name = Text::new(K)),

    case(11, "0 dimensions", "bad-dims", |f| f.tensor(Q).n_dims = Some(0)),
    case(11, "5 dimensions", "bad-dims", |f| f.tensor(Q).dims = vec![32, 1, 1, 1, 1]),
    case(11, "2^32-1 dimensions", "bad-dims", |f| f.tensor(Q).n_dims = Some(u32::MAX)),
    case(11, "a dimension of 0", "bad-dims", |f| f.tensor(Q).dims = vec![32, 0]),
    case(11, "a row of 0", "bad-dims", |f| f.tensor(Q).dims = vec![0, 32]),
    case(11, "a dimension of 2^32+64", "dim-too-large", |f| f.tensor(Q).dims = vec![32, (1 << 32) + 64]),
    case(11, "a dimension of 2^63", "dim-too-large", |f| f.tensor(Q).dims = vec![1 << 63]),
    case(11, "a product of 2^32", "shape-overflow", |f| f.tensor(Q).dims = vec![1 << 16, 1 << 16]),
    case(11, "a product of 2^64", "shape-overflow", |f| f.tensor(Q).dims = vec![1 << 16; 4]),
    case(11, "a product of 2^64+2^44", "shape-overflow", |f| f.tensor(Q).dims = vec![1 << 24, (1 << 20) + 1, 1 << 20]),
    case(11, "2^30 elements of 4 bytes", "shape-overflow", |f| f.tensor(NORM).dims = vec![1 << 30]),

    case(12, "tensor type 99", "bad-type", |f| f.tensor(Q).ty = 99),
    case(12, "tensor type 2^32-1", "bad-type", |f| f.tensor(Q).ty = u32::MAX),
    case(12, "tensor type 4, withdrawn from ggml", "bad-type", |f| f.tensor(Q).ty = 4),
    case(12, "IQ2_XXS", "unsupported-quantization", |f| f.tensor(Q).ty = 16),
    case(12, "MXFP4", "unsupported-quantization", |f| f.tensor(Q).ty = 39),

    case(13, "Q8_0 rows of 33", "block-mismatch", |f| f.tensor(Q).dims = vec![33, 32]),
    case(13, "Q4_K rows of 896", "block-mismatch", |f| { f.tensor(Q).ty = Q4_K; f.tensor(Q).dims = vec![896, 2] }),
    case(13, "Q4_K rows of 128, whole blocks in all", "block-mismatch", |f| { f.tensor(Q).ty = Q4_K; f.tensor(Q).dims = vec![128, 2] }),

    case(14, "a misaligned offset", "offset-misaligned", |f| f.tensor(Q).offset = Some(16)),
    case(14, "an offset past the end", "offset-out-of-range", |f| f.tensor(Q).offset = Some(1 << 20)),
    case(14, "an offset at the end", "offset-out-of-range", |f| f.tensor(Q).offset = Some(data_bytes(f))),
    case(14, "an offset of 2^64-32", "offset-out-of-range", |f| f.tensor(Q).offset = Some(U64_MAX - 31)),
    case(14, "an offset of 2^32+32", "offset-out-of-range", |f| f.tensor(Q).offset = Some((1 << 32) + 32)),
    case(14, "two tensors in one place", "overlapping-tensors", |f| f.tensor(K).offset = Some(0)),
    case(14, "a tensor that runs into the next", "overlapping-tensors", |f| f.tensor(K).dims = vec![32, 32]),

    case(15, "no architecture", "missing-metadata", |f| f.remove(ARCHITECTURE)),
    case(15, "an architecture that is no string", "unsupported-architecture", |f| f.set_u32(ARCHITECTURE, 1)),
    case(15, "an unknown architecture", "unsupported-architecture", |f| f.set_string(ARCHITECTURE, "mamba")),
    case(15, "an architecture of a megabyte", "unsupported-architecture", |f| f.set_string(ARCHITECTURE, &"\u{1}".repeat(1 << 20))),
    case(15, "an architecture that is a prefix", "unsupported-architecture", |f| f.set_string(ARCHITECTURE, "llama4")),

    case(16, "no heads", "missing-metadata", |f| f.remove(HEADS)),
    case(16, "0 heads", "bad-hyperparameter", |f| f.set_u32(HEADS, 0)),
    case(16, "0 KV heads", "bad-hyperparameter", |f| f.set_u32(KV_HEADS, 0)),
    case(16, "more KV heads than heads", "bad-hyperparameter", |f| f.set_u32(KV_HEADS, 8)),
    case(16, "KV heads that do not divide heads", "bad-hyperparameter", |f| f.set_u32(KV_HEADS, 3)),
    case(16, "heads that do not divide the embedding", "bad-hyperparameter", |f| { f.set_u32(HEADS, 3); f.set_u32(KV_HEADS, 1) }),
    case(16, "heads too wide together", "bad-hyperparameter", |f| { f.set_u32(HEADS, 1024); f.set_u32("llama.attention.key_length", 1024) }),
    case(16, "2^32+4 heads", "bad-hyperparameter", |f| f.set(HEADS, ty::U64, ((1u64 << 32) + 4).to_le_bytes())),
    case(16, "heads as a string", "bad-hyperparameter", |f| f.set_string(HEADS, "4")),
    case(16, "heads for each layer", "bad-hyperparameter", |f| f.set(HEADS, ty::ARRAY, array(ty::U32, 1, [4, 0, 0, 0]))),
    case(16, "V heads of another width", "bad-hyperparameter", |f| { f.set_u32(HEAD_DIM, 8); f.set_u32("llama.attention.value_length", 16) }),

    case(17, "0 layers", "bad-hyperparameter", |f| f.set_u32(LAYERS, 0)),
    case(17, "2^32-1 layers", "bad-hyperparameter", |f| f.set_u32(LAYERS, u32::MAX)),
    case(17, "-1 layers", "bad-hyperparameter", |f| f.set(LAYERS, ty::I32, (-1i32).to_le_bytes())),
    case(17, "context 0", "bad-hyperparameter", |f| f.set_u32(CONTEXT, 0)),
    case(17, "context 2^32-1", "bad-hyperparameter", |f| f.set_u32(CONTEXT, u32::MAX)),
    case(17, "context -1", "bad-hyperparameter", |f| f.set(CONTEXT, ty::I32, (-1i32).to_le_bytes())),
    case(17, "no context", "missing-metadata", |f| f.remove(CONTEXT)),
    case(17, "eps 0", "bad-hyperparameter", |f| f.set_f32(EPS, 0.0)),
    case(17, "eps NaN", "bad-hyperparameter", |f| f.set_f32(EPS, f32::NAN)),
    case(17, "eps -1", "bad-hyperparameter", |f| f.set_f32(EPS, -1.0)),
    case(17, "eps inf", "bad-hyperparameter", |f| f.set_f32(EPS, f32::INFINITY)),
    case(17, "layers NaN", "bad-hyperparameter", |f| f.set_f32(LAYERS, f32::NAN)),
    case(17, "layers inf", "bad-hyperparameter", |f| f.set_f32(LAYERS, f32::INFINITY)),
    case(17, "context NaN", "bad-hyperparameter", |f| f.set_f32(CONTEXT, f32::NAN)),
    case(17, "context inf", "bad-hyperparameter", |f| f.set_f32(CONTEXT, f32::INFINITY)),
    case(17, "eps 2^32-1", "bad-hyperparameter", |f| f.set_f32(EPS, u32::MAX as f32)),
    case(17, "eps -inf, as f64", "bad-hyperparameter", |f| f.set(EPS, ty::F64, f64::NEG_INFINITY.to_le_bytes())),
    case(17, "rope base 2^32-1, as an integer", "bad-hyperparameter", |f| f.set_u32(ROPE_BASE, u32::MAX)),
    case(17, "eps as an integer", "bad-hyperparameter", |f| f.set_u32(EPS, 1)),
    case(17, "no eps", "missing-metadata", |f| f.remove(EPS)),
    case(17, "rope base 0", "bad-hyperparameter", |f| f.set_f32(ROPE_BASE, 0.0)),
    case(17, "rope base NaN", "bad-hyperparameter", |f| f.set_f32(ROPE_BASE, f32::NAN)),
    case(17, "rope base -1", "bad-hyperparameter", |f| f.set_f32(ROPE_BASE, -1.0)),
    case(17, "rope base inf", "bad-hyperparameter", |f| f.set_f32(ROPE_BASE, f32::INFINITY)),
    case(17, "an odd number of rotated values", "bad-hyperparameter", |f| f.set_u32(ROPE_DIM, 7)),
    case(17, "more rotated values than a head has", "bad-hyperparameter", |f| f.set_u32(ROPE_DIM, 16)),
    case(17, "rope scaling by longrope", "bad-hyperparameter", |f| f.set_string(SCALING, "longrope")),
    case(17, "yarn of no context", "bad-hyperparameter", |f| { yarn(f); f.set_u32("llama.rope.scaling.original_context_length", 0) }),
    case(17, "yarn with a ramp of half strength", "bad-hyperparameter", |f| { yarn(f); f.set_f32("llama.rope.scaling.yarn_ext_factor", 0.5) }),
    case(17, "yarn with a beta of NaN", "bad-hyperparameter", |f| { yarn(f); f.set_f32("llama.rope.scaling.yarn_beta_fast", f32::NAN) }),
    case(17, "a cap on the logits", "bad-hyperparameter", |f| f.set_f32("llama.final_logit_softcapping", 30.0)),
    case(17, "rope scaling by NaN", "bad-hyperparameter", |f| { f.set_string(SCALING, "linear"); f.set_f32(FACTOR, f32::NAN) }),
    case(17, "rope scaling by -4, under its old key", "bad-hyperparameter", |f| f.set_f32("llama.rope.scale_linear", -4.0)),
    case(17, "a mixture of experts", "bad-hyperparameter", |f| f.set_u32("llama.expert_count", 8)),
    case(17, "more layers than the file has", "missing-tensor", |f| f.set_u32(LAYERS, 2)),
    case(17, "fewer layers than the file has", "bad-hyperparameter", |f| f.push_f32_tensor("blk.1.attn_norm.weight", &[32])),

    case(18, "an embedding of another width", "shape-mismatch", |f| f.set_u32("llama.embedding_length", 64)),
    case(18, "a vocabulary of another size", "shape-mismatch", |f| f.set_u32("llama.vocab_size", 41)),
    case(18, "a transposed matrix", "shape-mismatch", |f| f.tensor(DOWN).dims = vec![32, 64]),
    case(18, "a matrix with a third dimension", "shape-mismatch", |f| f.tensor(Q).dims = vec![32, 16, 2]),
    case(18, "heads of another width", "shape-mismatch", |f| f.set_u32(HEAD_DIM, 16)),
    case(18, "a feed-forward layer of another width", "shape-mismatch", |f| f.set_u32("llama.feed_forward_length", 32)),
    case(18, "rope factors one too few", "shape-mismatch", |f| f.tensor(ROPE_FREQS).dims = vec![3]),
    case(18, "rope factors for half the rotated values", "shape-mismatch", |f| f.set_u32(ROPE_DIM, 4)),
    case(18, "a norm of another length", "shape-mismatch", |f| f.tensor(NORM).dims = vec![16]),
    case(18, "a norm in F16", "unsupported-quantization", |f| f.tensor(NORM).ty = 1),
    case(18, "no embedding", "missing-tensor", |f| f.remove_tensor(EMBEDDING)),
    case(18, "no Q", "missing-tensor", |f| f.remove_tensor(Q)),
    case(18, "no final norm", "missing-tensor", |f| f.remove_tensor("output_norm.weight")),
    case(18, "a bias", "unsupported-architecture", |f| f.push_f32_tensor("blk.0.attn_q.bias", &[32])),
    case(18, "a bias outside the layers", "unsupported-architecture", |f| f.push_f32_tensor("output.bias", &[40])),
    case(18, "rope factors of a kind that llama 3 does not use", "unsupported-architecture", |f| f.push_f32_tensor("rope_factors_long.weight", &[4])),
    case(18, "a Q norm", "unsupported-architecture", |f| f.push_f32_tensor("blk.0.attn_q_norm.weight", &[8])),

    case(19, "output rows too few", "shape-mismatch", |f| f.tensor(OUTPUT).dims = vec![32, 39]),
    case(19, "output transposed", "shape-mismatch", |f| { f.tensor(OUTPUT).ty = 0; f.tensor(OUTPUT).n_bytes = 32 * 40 * 4; f.tensor(OUTPUT).dims = vec![40, 32] }),
    case(19, "output in a format that is not supported", "unsupported-quantization", |f| f.tensor(OUTPUT).ty = 23),
    case(19, "output past the end", "offset-out-of-range", |f| f.tensor(OUTPUT).offset = Some(1 << 20)),
];

/// Edits after which the file must still load.
pub const SOUND: &[(&str, Edit)] = &[
    ("nothing", |_| {}),
    ("version 2", |f| f.version = 2),
    ("heads as u64", |f| f.set(HEADS, ty::U64, 4u64.to_le_bytes())),
    ("no KV heads, which are then as many as heads", |f| {
        f.remove(KV_HEADS);
        for name in [K, V] {
            f.tensor(name).dims = vec![32, 32];
            f.tensor(name).n_bytes *= 2;
        }
    }),
    ("heads as i32", |f| f.set(HEADS, ty::I32, 4i32.to_le_bytes())),
    ("alignment 64", |f| {
        f.set_u32(ALIGNMENT, 64);
        f.alignment = 64;
    }),
    ("arrays nested 4 deep", |f| f.set("test", ty::ARRAY, nested(4))),
    ("an empty array", |f| f.set("test", ty::ARRAY, array(ty::STRING, 0, []))),
    ("a vocabulary of one piece", |f| f.set_vocab_size(1)),
    ("rope scaling none", |f| f.set_string(SCALING, "none")),
    ("rope scaling by yarn", yarn),
    ("a cap of 0 on the logits, which is none", |f| f.set_f32("llama.final_logit_softcapping", 0.0)),
    ("a tensor of no role", |f| f.push_f32_tensor("blk.0.attn_rot_embd.weight", &[3])),
    ("a norm with a second dimension of 1", |f| f.tensor(NORM).dims = vec![32, 1]),
    ("no output, which ties it to the embedding", |f| f.remove_tensor(OUTPUT)),
    ("no rope factors", |f| f.remove_tensor(ROPE_FREQS)),
    ("a gap in the data", |f| {
        // Its bytes are still written, ahead of the tensors that follow.
        let at = f.tensors.iter().position(|tensor| tensor.name.bytes == ROPE_FREQS.as_bytes()).expect("it has them");
        f.tensors[at - 1].n_bytes += f.tensors.remove(at).n_bytes;
    }),
];

fn yarn(file: &mut GgufFile) {
    file.set_string(SCALING, "yarn");
    file.set_f32(FACTOR, 4.0);
}

fn name_length(file: &mut GgufFile, length: Length) {
    file.entry("general.name").value = Payload::Text(Text { length, bytes: b"tiny".to_vec() });
}

/// The payload of an array in an array ..., `depth` in all, the innermost of two u8.
fn nested(depth: usize) -> Vec<u8> {
    let mut payload = array(ty::ARRAY, 1, []).repeat(depth - 1);
    payload.extend(array(ty::U8, 2, [1, 2]));
    payload
}

/// Bytes of the data section, rounded up to the alignment.
fn data_bytes(file: &GgufFile) -> u64 {
    file.tensors.iter().map(|tensor| tensor.n_bytes.next_multiple_of(file.alignment) as u64).sum()
}
