//! What the options accept and refuse.
//!
//! Invariant: native; values in, structs or errors out.

use super::Value::{Bool, Function, List, Number, Object, Other, Text};
use super::*;

fn text_of(text: &str) -> Value {
    Text(text.to_owned())
}

fn object(entries: &[(&str, Value)]) -> Value {
    Object(entries.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect())
}

/// `generate` with a prompt and one more option.
fn with(name: &str, value: Value) -> Result<GenerateOptions> {
    generate(object(&[("prompt", text_of("hi")), (name, value)]), 7).map(|(options, _)| options)
}

#[track_caller]
fn refused(result: Result<GenerateOptions>, kind: &str, name: &str) {
    let error = result.expect_err(name);
    assert_eq!(error.kind(), kind, "{error}");
    assert!(error.to_string().contains(name), "{error} names {name}");
}

#[test]
fn defaults_are_the_documented_ones() {
    let (options, pace) = generate(object(&[("prompt", text_of("hi"))]), 7).expect("a prompt is enough");
    let sampling =
        SamplingOptions { repetition_penalty: 1.0, temperature: 0.7, top_k: 0, top_p: 0.9, min_p: 0.0, seed: 7 };
    assert_eq!(options.sampling, sampling);
    assert_eq!((options.max_new_tokens, options.candidates, options.kv_cache), (64, 64, true));
    assert_eq!(options.prompt, Prompt::Text { text: "hi".into(), special: false });
    assert_eq!(pace, Pace::Frame);
}

#[test]
fn options_that_are_not_there_yet_are_refused_by_name() {
    let message = object(&[("role", text_of("user")), ("content", text_of("hi"))]);
    refused(generate(object(&[("messages", List(vec![message]))]), 0).map(|o| o.0), "unsupported-option", "messages");
    let late = [
        ("typicalP", Number(0.9)),
        ("epsilonCutoff", Number(0.1)),
        ("etaCutoff", Number(0.1)),
        ("noRepeatNgramSize", Number(2.0)),
        ("minNewTokens", Number(5.0)),
        ("logitBias", object(&[("5", Number(1.0))])),
        ("suppress", List(vec![Number(1.0)])),
        ("samplerOrder", text_of("llama.cpp")),
    ];
    for (name, value) in late {
        refused(with(name, value), "unsupported-option", name);
    }
}

#[test]
fn values_that_turn_a_missing_option_off_are_fine() {
    let off = [
        ("typicalP", Number(1.0)),
        ("epsilonCutoff", Number(0.0)),
        ("noRepeatNgramSize", Number(0.0)),
        ("logitBias", Object(Vec::new())),
        ("suppress", List(Vec::new())),
        ("samplerOrder", text_of("hf")),
    ];
    for (name, value) in off {
        assert!(with(name, value).is_ok(), "{name}");
    }
}

#[test]
fn bad_values_are_refused_by_name() {
    let bad = [
        ("temperature", Number(f64::NAN)),
        ("temperature", Number(-0.1)),
        ("temperature", Number(1e300)),
        ("temperature", text_of("0.7")),
        ("topP", Number(1.1)),
        ("topK", Number(-1.0)),
        ("topK", Number(1.5)),
        ("topK", Number(4_294_967_296.0)),
        ("minP", Number(f64::INFINITY)),
        ("repetitionPenalty", Number(0.0)),
        ("maxNewTokens", Number(0.0)),
        ("seed", Number(-1.0)),
        ("seed", Number(1e16)),
        ("seed", Other("null")),
        ("stop", text_of("x")),
        ("stop", List(vec![text_of("")])),
        ("ignoreEos", Number(1.0)),
        ("maxTimeMs", Number(0.0)),
        ("kvCache", text_of("yes")),
        ("candidates", Number(-1.0)),
        ("pace", text_of("fast")),
        ("samplerOrder", text_of("vllm")),
        ("forceIds", List(vec![Number(1.0), Number(0.5)])),
        ("special", Number(1.0)),
        ("temprature", Number(0.7)),
    ];
    for (name, value) in bad {
        refused(with(name, value), "bad-option", name);
    }
}

#[test]
fn exactly_one_prompt() {
    let ids = || ("ids", List(vec![Number(1.0), Number(2.0)]));
    let both = generate(object(&[("prompt", text_of("hi")), ids()]), 0).map(|o| o.0);
    refused(both, "bad-option", "prompt");
    refused(generate(Object(Vec::new()), 0).map(|o| o.0), "bad-option", "prompt");
    refused(generate(Other("undefined"), 0).map(|o| o.0), "bad-option", "prompt");
    refused(generate(text_of("hi"), 0).map(|o| o.0), "bad-option", "generate options");
    let special = generate(object(&[ids(), ("special", Bool(true))]), 0).map(|o| o.0);
    refused(special, "bad-option", "special");
    let (options, _) = generate(object(&[ids()]), 0).expect("ids are enough");
    assert_eq!(options.prompt, Prompt::Ids(vec![1, 2]));
}

#[test]
fn load_options() {
    let hash = "A".repeat(64);
    let fine = object(&[
        ("backend", text_of("cpu")),
        ("threads", Number(16.0)),
        ("cache", Bool(false)),
        ("contextLength", Number(512.0)),
        ("sha256", text_of(&hash)),
        ("onProgress", Function),
    ]);
    let options = load(fine).expect("all of these are there");
    let (context_length, sha256) = (Some(512), Some("a".repeat(64)));
    assert_eq!(options, LoadOptions { backend: BackendChoice::Cpu, threads: Some(16), context_length, sha256 });
    assert_eq!(load(Other("undefined")), Ok(LoadOptions::default()));
    let kind = |name: &str, value: Value| load(object(&[(name, value)])).expect_err(name).kind();
    assert_eq!(kind("cache", Bool(true)), "unsupported-option");
    for n_threads in [0.0, 1.5, 17.0] {
        assert_eq!(kind("threads", Number(n_threads)), "bad-option");
    }
    assert_eq!(kind("backend", text_of("cuda")), "bad-option");
    assert_eq!(kind("contextLength", Number(0.0)), "bad-option");
    assert_eq!(kind("sha256", text_of("abc")), "bad-option");
    assert_eq!(kind("onProgress", Number(1.0)), "bad-option");
    assert_eq!(kind("layers", Number(1.0)), "bad-option");
}

#[test]
fn a_backend_is_named_as_in_the_api() {
    let asked = |backend| load_on(backend).map(|options| options.backend);
    assert_eq!(LoadOptions::default().backend, BackendChoice::Auto, "what is asked for by default");
    assert_eq!(asked("auto"), Ok(BackendChoice::Auto));
    assert_eq!(asked("webgpu"), Ok(BackendChoice::WebGpu));
    assert_eq!(asked("cpu"), Ok(BackendChoice::Cpu));
    for unknown in ["", "CPU", "gpu"] {
        let error = asked(unknown).expect_err(unknown);
        assert_eq!(error.kind(), "bad-option", "{error}");
        assert!(error.to_string().contains("expected 'auto' or 'webgpu' or 'cpu'"), "{error}");
    }
}
