//! What loads and what runs it, in words: the progress line, the engine's name, the outcome of its self-test.
//!
//! Invariant: pure; from what the engine reports to strings.

use super::words::{bytes, count, milliseconds, parameters, power_of_ten, shortened};
use crate::protocol::{LoadPhase, LoadProgress, ModelInfo};

/// How far a load is. `bytes_per_s`: the download's speed, where one is known.
pub fn loading(progress: &LoadProgress, bytes_per_s: Option<f64>) -> String {
    let LoadProgress { phase, received, total } = *progress;
    let of = |total: Option<String>| total.map_or(String::new(), |total| format!(" of {total}"));
    let amount = || format!("{}{}", bytes(received), of(total.map(bytes)));
    match phase {
        LoadPhase::Download => {
            let rate = bytes_per_s.map_or(String::new(), |rate| format!(", {}/s", bytes(rate as u64)));
            format!("Downloading: {}{rate}", amount())
        }
        LoadPhase::Cache => format!("Reading the kept copy: {}", amount()),
        LoadPhase::Retry => format!("The connection was lost at {}. Trying again", amount()),
        LoadPhase::Parse => "Reading the file's header".to_owned(),
        LoadPhase::Upload => format!("Preparing the weights: {}", amount()),
        LoadPhase::Compile => {
            format!("Compiling GPU programs, {received}{}", of(total.map(|total| total.to_string())))
        }
        LoadPhase::SelfTest => "Checking the GPU against the CPU engine".to_owned(),
    }
}

/// What runs the model: the GPU by its name, or the CPU with its threads.
pub fn engine(model: &ModelInfo) -> String {
    match &model.adapter {
        Some(adapter) if is_on_gpu(model) => format!("WebGPU · {}", shortened(adapter)),
        _ if is_on_gpu(model) => "WebGPU".to_owned(),
        _ => format!("CPU · {}", count(model.threads.into(), "thread")),
    }
}

/// How the GPU did against the CPU engine. None when it was not tried, and none when it passed but does not run the model: that
/// would praise what is not there.
pub fn self_test(model: &ModelInfo) -> Option<String> {
    let test = model.self_test.filter(|test| !test.passed || is_on_gpu(model))?;
    let (error, tolerance) = (power_of_ten(test.error), power_of_ten(test.tolerance));
    let over = count(test.n_tokens.into(), "token");
    Some(if test.passed {
        format!(
            "Self-test passed: over {over} the GPU's logits agree with the CPU engine's to {error} \
             ({tolerance} is allowed)."
        )
    } else if !test.error.is_finite() {
        format!("Self-test failed: over {over} the GPU computed logits that are no numbers, so the CPU engine runs.")
    } else if test.error > test.tolerance {
        format!(
            "Self-test failed: over {over} the GPU's logits differ from the CPU engine's by {error} \
             ({tolerance} is allowed), so the CPU engine runs."
        )
    } else {
        format!(
            "Self-test failed: after {over} the GPU and the CPU engine disagree on the likeliest next ones, \
             so the CPU engine runs."
        )
    })
}

/// The build, the model as its file describes it, and what the self-test's figure means.
pub fn details(model: &ModelInfo) -> String {
    let test = model.self_test.map_or(String::new(), |test| {
        format!(
            " The self-test took {}; its figure is the mean square of the difference between the two engines' logits, \
             as a share of that of the logits.",
            milliseconds(test.ms)
        )
    });
    let refusal = model
        .backend_refusal
        .as_ref()
        .map_or(String::new(), |said| format!(" Asked for a GPU, the browser said: {}", shortened(said)));
    format!(
        "Build: {}. The model, “{}”: {} parameters, {} layers, context of {}, {} of memory.{test}{refusal}",
        model.build,
        shortened(&model.name),
        parameters(model.parameters),
        model.layers,
        count(model.context_length.into(), "token"),
        bytes(model.memory_bytes)
    )
}

fn is_on_gpu(model: &ModelInfo) -> bool {
    model.backend == "webgpu"
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use crate::protocol::SelfTest;

    /// A model that passed its self-test and runs on the GPU.
    pub fn on_gpu() -> ModelInfo {
        let test = SelfTest { error: 3.4e-10, tolerance: 1e-6, same_top: true, passed: true, n_tokens: 12, ms: 48.0 };
        ModelInfo {
            name: "SmolLM2".into(),
            architecture: "llama".into(),
            quantization: "Q8_0".into(),
            parameters: 134_515_008,
            bytes: 144_000_000,
            vocab_size: 49_152,
            context_length: 4096,
            layers: 30,
            embedding: 576,
            heads: 9,
            kv_heads: 3,
            backend: "webgpu".into(),
            backend_reason: "The GPU holds the model.".into(),
            backend_refusal: None,
            adapter: Some("NVIDIA H200".into()),
            self_test: Some(test),
            build: "simd128".into(),
            threads: 1,
            memory_bytes: 200_000_000,
            memory_needs: Default::default(),
            kv_bytes_per_position: 1,
            load_ms: 1.0,
            has_chat_template: true,
            sha256: String::new(),
            from_cache: false,
            cache_notice: None,
        }
    }

    fn on_cpu(test: Option<SelfTest>) -> ModelInfo {
        ModelInfo { backend: "cpu".into(), adapter: None, self_test: test, ..on_gpu() }
    }

    #[test]
    fn every_phase_of_loading_has_words() {
        let plain = |phase, received, total, rate| {
            loading(&LoadProgress { phase, received, total }, rate).replace('\u{a0}', " ")
        };
        assert_eq!(plain(LoadPhase::Download, 49_000_000, Some(98_000_000), None), "Downloading: 49 MB of 98 MB");
        assert_eq!(plain(LoadPhase::Download, 49_000_000, None, Some(12e6)), "Downloading: 49 MB, 12 MB/s");
        assert_eq!(
            plain(LoadPhase::Cache, 9_900_000, Some(98_000_000), None),
            "Reading the kept copy: 9.9 MB of 98 MB"
        );
        let lost = plain(LoadPhase::Retry, 49_000_000, Some(98_000_000), None);
        assert_eq!(lost, "The connection was lost at 49 MB of 98 MB. Trying again");
        assert_eq!(plain(LoadPhase::Parse, 0, None, None), "Reading the file's header");
        assert_eq!(
            plain(LoadPhase::Upload, 49_000_000, Some(98_000_000), None),
            "Preparing the weights: 49 MB of 98 MB"
        );
        assert_eq!(plain(LoadPhase::Compile, 7, Some(21), None), "Compiling GPU programs, 7 of 21");
        assert_eq!(plain(LoadPhase::SelfTest, 1, Some(2), None), "Checking the GPU against the CPU engine");
    }

    #[test]
    fn the_engine_goes_by_the_name_of_its_device() {
        assert_eq!(engine(&on_gpu()), "WebGPU · NVIDIA H200");
        assert_eq!(engine(&ModelInfo { adapter: None, ..on_gpu() }), "WebGPU");
        assert_eq!(engine(&on_cpu(None)), "CPU · 1 thread");
        assert_eq!(engine(&ModelInfo { threads: 4, ..on_cpu(None) }), "CPU · 4 threads");
        let long = engine(&ModelInfo { adapter: Some("x".repeat(1 << 20)), ..on_gpu() });
        assert!(long.len() < 400, "{} bytes", long.len());
    }

    #[test]
    fn a_self_test_says_how_near_the_engines_are() {
        let passed = on_gpu().self_test.expect("it has one");
        let said = self_test(&on_gpu()).expect("it was tested");
        assert_eq!(
            said,
            "Self-test passed: over 12 tokens the GPU's logits agree with the CPU engine's to 3·10⁻¹⁰ \
             (1·10⁻⁶ is allowed)."
        );
        assert_eq!(self_test(&on_cpu(None)), None, "not tried");
        assert_eq!(self_test(&on_cpu(Some(passed))), None, "passed once, but the CPU runs");

        let failed = |error, same_top| {
            let test = SelfTest { error, same_top, passed: false, ..passed };
            self_test(&on_cpu(Some(test))).expect("a failure is always said")
        };
        for (said, why) in [
            (failed(0.02, false), "differ from the CPU engine's by 2·10⁻² (1·10⁻⁶ is allowed)"),
            (failed(f64::NAN, false), "computed logits that are no numbers"),
            (failed(3e-10, false), "disagree on the likeliest next one"),
        ] {
            assert!(said.starts_with("Self-test failed:") && said.ends_with("so the CPU engine runs."), "{said}");
            assert!(said.contains(why), "{said}");
        }
    }

    #[test]
    fn details_name_build_and_model_and_explain_the_figure() {
        let said = details(&on_gpu()).replace('\u{a0}', " ");
        for part in ["simd128", "“SmolLM2”", "135 M parameters", "30 layers", "4,096 tokens", "200 MB", "48.0 ms"] {
            assert!(said.contains(part), "{part}: {said}");
        }
        assert!(!details(&on_cpu(None)).contains("self-test"), "none was made");
        let refused = ModelInfo { backend_refusal: Some("no adapter <b>".into()), ..on_cpu(None) };
        assert!(details(&refused).ends_with("the browser said: no adapter <b>"), "{}", details(&refused));
    }
}
