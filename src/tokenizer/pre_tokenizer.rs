//! How text is cut before BPE: one row per `tokenizer.ggml.pre` that this engine knows.
//!
//! Invariant: data only; `bpe` compiles the regexes.

/// A pre-tokenizer. The name fixes more than the regexes: two flags that the file itself does not carry.
pub(super) struct PreTokenizer {
    /// The names in `tokenizer.ggml.pre` that mean this one.
    names: &'static [&'static str],
    /// Applied one after the other, each to the pieces that the one before left; gaps between matches are pieces too.
    pub(super) regexes: &'static [&'static str],
    /// A word that is itself a piece is that piece, whatever the merges would make of it.
    pub(super) ignore_merges: bool,
    /// Whether the text starts with BOS where the file is silent.
    pub(super) add_bos: bool,
}

const GPT_2: &str = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+";

// The models' own files write the contractions as `(?i:'s|...)`. Spelled out as llama.cpp does, they leave alone letters
// that only case folding makes equal, such as U+017F.
const LLAMA_3: &str = r"(?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";
const QWEN_2: &str = r"(?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";

/// Mistral's. llama.cpp writes the classes of upper and lower case letters as letters that are not `a-z` and not `A-Z`.
const TEKKEN: &str = r"[^\r\n\p{L}\p{N}]?((?=[\p{L}])([^a-z]))*((?=[\p{L}])([^A-Z]))+|[^\r\n\p{L}\p{N}]?((?=[\p{L}])([^a-z]))+((?=[\p{L}])([^A-Z]))*|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+";

/// What llama.cpp falls back to.
const DEFAULT: [&str; 4] = [
    r"[\p{P}\$\+<=>\^~\|]+",
    r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)",
    r"\p{N}+",
    r"[0-9][0-9][0-9]",
];

/// Names, regexes and flags as in llama.cpp (src/llama-vocab.cpp, `LLAMA_VOCAB_PRE_TYPE_*`).
const PRE_TOKENIZERS: [PreTokenizer; 6] = [
    PreTokenizer { names: &["gpt-2", "phi-2"], regexes: &[GPT_2], ignore_merges: false, add_bos: false },
    PreTokenizer {
        names: &["smollm", "refact", "starcoder"],
        regexes: &[r"\p{N}", GPT_2],
        ignore_merges: false,
        add_bos: false,
    },
    PreTokenizer { names: &["qwen2", "deepseek-r1-qwen"], regexes: &[QWEN_2], ignore_merges: false, add_bos: false },
    PreTokenizer {
        names: &["llama-bpe", "llama3", "llama-v3"],
        regexes: &[LLAMA_3],
        ignore_merges: true,
        add_bos: true,
    },
    PreTokenizer { names: &["tekken"], regexes: &[TEKKEN], ignore_merges: true, add_bos: true },
    PreTokenizer { names: &["default"], regexes: &DEFAULT, ignore_merges: false, add_bos: false },
];

impl PreTokenizer {
    pub(super) fn by_name(name: &str) -> Option<&'static Self> {
        PRE_TOKENIZERS.iter().find(|row| row.names.contains(&name))
    }

    /// Every name there is, for a refusal.
    pub(super) fn known_names() -> String {
        PRE_TOKENIZERS.iter().flat_map(|row| row.names).copied().collect::<Vec<_>>().join(", ")
    }
}
