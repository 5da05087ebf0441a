//! Public models that a reader may choose from: where they are, how large, under which licence.
//!
//! Addresses and sizes are as published in December 2026; the files are not ours.
//!
//! Invariant: pure data and its words; nothing here loads anything.

use super::words::bytes;

/// A GGUF file that anyone can fetch.
pub struct KnownModel {
    pub name: &'static str,
    pub url: &'static str,
    /// About.
    pub bytes: u64,
    pub license: &'static str,
}

impl KnownModel {
    pub fn describe(&self) -> String {
        format!("{} · about {} · {}", self.name, bytes(self.bytes), self.license)
    }
}

/// The smallest first.
pub const KNOWN: [KnownModel; 6] = [
    KnownModel {
        name: "SmolLM2 135M Instruct, Q4_K_M",
        url: "https://huggingface.co/bartowski/SmolLM2-135M-Instruct-GGUF/resolve/main/SmolLM2-135M-Instruct-Q4_K_M.gguf",
        bytes: 105_000_000,
        license: "Apache-2.0",
    },
    KnownModel {
        name: "Gemma 3 270M it, Q8_0",
        url: "https://huggingface.co/ggml-org/gemma-3-270m-it-GGUF/resolve/main/gemma-3-270m-it-Q8_0.gguf",
        bytes: 292_000_000,
        license: "Gemma terms",
    },
    KnownModel {
        name: "SmolLM2 360M Instruct, Q8_0",
        url: "https://huggingface.co/HuggingFaceTB/SmolLM2-360M-Instruct-GGUF/resolve/main/smollm2-360m-instruct-q8_0.gguf",
        bytes: 386_000_000,
        license: "Apache-2.0",
    },
    KnownModel {
        name: "Qwen2.5 0.5B Instruct, Q4_K_M",
        url: "https://huggingface.co/Qwen/Qwen2.5-0.5B-Instruct-GGUF/resolve/main/qwen2.5-0.5b-instruct-q4_k_m.gguf",
        bytes: 491_000_000,
        license: "Apache-2.0",
    },
    KnownModel {
        name: "Qwen3 0.6B, Q8_0",
        url: "https://huggingface.co/Qwen/Qwen3-0.6B-GGUF/resolve/main/Qwen3-0.6B-Q8_0.gguf",
        bytes: 639_000_000,
        license: "Apache-2.0",
    },
    KnownModel {
        name: "Gemma 3 1B it, Q4_K_M",
        url: "https://huggingface.co/ggml-org/gemma-3-1b-it-GGUF/resolve/main/gemma-3-1b-it-Q4_K_M.gguf",
        bytes: 806_000_000,
        license: "Gemma terms",
    },
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_models_are_files_of_one_hub_the_smallest_first() {
        for model in &KNOWN {
            assert!(model.url.starts_with("https://huggingface.co/") && model.url.ends_with(".gguf"), "{}", model.url);
            assert!(model.url.contains("/resolve/main/"), "{}", model.url);
        }
        assert!(KNOWN.is_sorted_by(|a, b| a.bytes < b.bytes));
        assert_eq!(
            KNOWN[0].describe().replace('\u{a0}', " "),
            "SmolLM2 135M Instruct, Q4_K_M · about 105 MB · Apache-2.0"
        );
    }
}
