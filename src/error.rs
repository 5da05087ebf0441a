//! The one error type. Every refusal has a stable `kind` (HARDENING.md lists them) and a sentence that says what was found
//! and what was expected. Only `page/` turns it into words on screen.
//!
//! Invariant: an `Error` crosses the worker boundary unchanged, so it holds text only.

use serde::{Deserialize, Serialize};

pub type Result<T, E = Error> = std::result::Result<T, E>;

/// One line per variant: the name in Rust and the stable kind that JavaScript sees. The payload is the whole sentence.
macro_rules! errors {
    ($($variant:ident = $kind:literal,)*) => {
        #[derive(Debug, Clone, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
        pub enum Error {
            $(#[error("{0}")] $variant(String),)*
        }

        impl Error {
            /// The stable, kebab-case name of the variant, for programs.
            pub fn kind(&self) -> &'static str {
                match self {
                    $(Error::$variant(_) => $kind,)*
                }
            }

            /// One error of every kind.
            #[cfg(test)]
            pub fn of_every_kind(sentence: &str) -> Vec<Error> {
                vec![$(Error::$variant(sentence.to_owned()),)*]
            }
        }
    };
}

errors! {
    // The file (gguf/)
    Truncated = "truncated",
    NotGguf = "not-gguf",
    UnsupportedVersion = "unsupported-version",
    WrongEndian = "wrong-endian",
    CountTooLarge = "count-too-large",
    StringTooLong = "string-too-long",
    BadKey = "bad-key",
    DuplicateKey = "duplicate-key",
    BadType = "bad-type",
    BadValue = "bad-value",
    ArrayTooLong = "array-too-long",
    NestedTooDeep = "nested-too-deep",
    BadAlignment = "bad-alignment",
    BadName = "bad-name",
    DuplicateTensor = "duplicate-tensor",
    BadDims = "bad-dims",
    DimTooLarge = "dim-too-large",
    ShapeOverflow = "shape-overflow",
    UnsupportedQuantization = "unsupported-quantization",
    BlockMismatch = "block-mismatch",
    OffsetMisaligned = "offset-misaligned",
    OffsetOutOfRange = "offset-out-of-range",
    OverlappingTensors = "overlapping-tensors",
    BadSplit = "bad-split",
    // What the file says (model/, tokenizer/)
    MissingMetadata = "missing-metadata",
    MissingTensor = "missing-tensor",
    UnsupportedArchitecture = "unsupported-architecture",
    BadHyperparameter = "bad-hyperparameter",
    ShapeMismatch = "shape-mismatch",
    BadTokenizer = "bad-tokenizer",
    NoChatTemplate = "no-chat-template",
    TemplateRefused = "template-refused",
    TooLarge = "too-large",
    // Where the file comes from (fetch/)
    Network = "network",
    HttpStatus = "http-status",
    HashMismatch = "hash-mismatch",
    // Calls (protocol, generate/, sampling/, backend/)
    BadOption = "bad-option",
    UnsupportedOption = "unsupported-option",
    NoModel = "no-model",
    Busy = "busy",
    EmptyPrompt = "empty-prompt",
    PromptTooLong = "prompt-too-long",
    BadToken = "bad-token",
    NonFiniteLogits = "non-finite-logits",
    Cancelled = "cancelled",
    Backend = "backend",
    DeviceLost = "device-lost",
    EngineFailed = "engine-failed",
    // What a reader brings and asks for (page/)
    BadRunFile = "bad-run-file",
    NoText = "no-text",
    OtherModel = "other-model",
    BranchesFull = "branches-full",
    PageFailed = "page-failed",
}

/// Text from a file as it may stand in a sentence: at most 64 characters, those counted that an escape takes; control characters
/// are escaped. A file's strings may be a hundred megabytes long.
pub fn quoted(text: impl AsRef<[u8]>) -> String {
    let bytes = text.as_ref();
    const MAX_CHARS: usize = 64;
    // Four bytes a character at most, so a longer prefix shows nothing more.
    let text = String::from_utf8_lossy(&bytes[..bytes.len().min(4 * MAX_CHARS + 4)]);
    let mut shown = String::from("`");
    let mut n_shown = 0;
    for escaped in text.chars().map(char::escape_debug) {
        n_shown += escaped.len();
        if n_shown > MAX_CHARS {
            shown.push('…');
            break;
        }
        shown.extend(escaped);
    }
    shown + "`"
}

#[cfg(test)]
mod tests {
    use super::quoted;
    #[cfg(target_arch = "wasm32")]
    use wasm_bindgen_test::wasm_bindgen_test as test;

    #[test]
    fn what_is_quoted_stays_short() {
        assert_eq!(quoted("llama"), "`llama`");
        assert_eq!(quoted(b"a\0\xff\n"), "`a\\0\u{fffd}\\n`");
        assert_eq!(quoted("é".repeat(64)), format!("`{}`", "é".repeat(64)));
        assert_eq!(quoted("é".repeat(65)), format!("`{}…`", "é".repeat(64)));
        // Found by fuzzing: each of them takes six characters.
        assert_eq!(quoted("\u{13}".repeat(64)), format!("`{}…`", "\\u{13}".repeat(10)));
    }
}
