//! What the options accept and refuse.
//!
//! Invariant: native; values in, structs or errors out.

use super::Value::{Bool, Function, List, Number, Object, Other, Text};
use super::*;
use crate::protocol::{SamplerOrder, SamplingOptions};

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
    let sampling = SamplingOptions { temperature: 0.7, top_p: 0.9, seed: 7, ..SamplingOptions::OFF };
    assert_eq!(options.sampling, sampling);
    assert_eq!((options.max_new_tokens, options.candidates, options.kv_cache), (64, 64, true));
    assert_eq!(options.prompt, Prompt::Text { text: "hi".into(), special: false });
    assert_eq!(pace, Pace::Frame);
}

#[test]
fn messages_are_read_and_bad_ones_refused_by_place() {
    let say = |role: &str| object(&[("role", text_of(role)), ("content", text_of("hi"))]);
    let asked = |items: Vec<Value>| generate(object(&[("messages", List(items))]), 0).map(|(options, _)| options);
    let options = asked(vec![say("system"), say("user")]).unwrap();
    let Prompt::Chat(messages) = options.prompt else { panic!("{:?}", options.prompt) };
    assert_eq!((messages[0].role.as_str(), messages[1].content.as_str()), ("system", "hi"));
    assert!(options.reuse_cache, "a conversation keeps its cache");
    let cold = object(&[("messages", List(vec![say("user")])), ("reuseCache", Bool(false))]);
    assert!(!generate(cold, 0).unwrap().0.reuse_cache);

    refused(asked(vec![]), "bad-option", "messages");
    refused(asked(vec![say("user"), text_of("hi")]), "bad-option", "messages[1]");
    refused(asked(vec![say("narrator")]), "bad-option", "messages[0].role");
    refused(asked(vec![object(&[("role", text_of("user"))])]), "bad-option", "messages[0].content");
    let named = object(&[("role", text_of("user")), ("content", text_of("hi")), ("name", text_of("x"))]);
    refused(asked(vec![named]), "bad-option", "name");
    refused(with("messages", List(vec![say("user")])), "bad-option", "messages");
    let special = object(&[("messages", List(vec![say("user")])), ("special", Bool(true))]);
    refused(generate(special, 0).map(|o| o.0), "bad-option", "special");
}

#[test]
fn the_whole_chain_is_read() {
    let all = object(&[
        ("prompt", text_of("hi")),
        ("samplerOrder", text_of("llama.cpp")),
        ("repetitionPenalty", Number(1.5)),
        ("noRepeatNgramSize", Number(3.0)),
        ("logitBias", object(&[("5", Number(-1.5)), ("4294967295", Number(2.0))])),
        ("suppress", List(vec![Number(7.0), Number(0.0)])),
        ("temperature", Number(0.5)),
        ("topK", Number(40.0)),
        ("topP", Number(0.75)),
        ("minP", Number(0.25)),
        ("typicalP", Number(0.5)),
        ("epsilonCutoff", Number(0.125)),
        ("etaCutoff", Number(0.0625)),
        ("minNewTokens", Number(5.0)),
        ("seed", Number(11.0)),
    ]);
    let (options, _) = generate(all, 7).expect("all of these are there");
    let expected = SamplingOptions {
        order: SamplerOrder::LlamaCpp,
        repetition_penalty: 1.5,
        no_repeat_ngram_size: 3,
        logit_bias: vec![(5, -1.5), (u32::MAX, 2.0)],
        suppress: vec![7, 0],
        temperature: 0.5,
        top_k: 40,
        top_p: 0.75,
        min_p: 0.25,
        typical_p: 0.5,
        epsilon_cutoff: 0.125,
        eta_cutoff: 0.0625,
        seed: 11,
    };
    assert_eq!((options.sampling, options.min_new_tokens), (expected, 5));
}

#[test]
fn values_that_turn_an_option_off_are_the_defaults() {
    let defaults = with("maxNewTokens", Number(64.0)).expect("a prompt is enough");
    let off = [
        ("repetitionPenalty", Number(1.0)),
        ("topK", Number(0.0)),
        ("minP", Number(0.0)),
        ("typicalP", Number(1.0)),
        ("epsilonCutoff", Number(0.0)),
        ("etaCutoff", Number(0.0)),
        ("noRepeatNgramSize", Number(0.0)),
        ("minNewTokens", Number(0.0)),
        ("logitBias", Object(Vec::new())),
        ("suppress", List(Vec::new())),
        ("samplerOrder", text_of("hf")),
    ];
    for (name, value) in off {
        assert_eq!(with(name, value).as_ref(), Ok(&defaults), "{name}");
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
        ("samplerOrder", Number(1.0)),
        ("typicalP", Number(0.0)),
        ("typicalP", Number(1.01)),
        ("typicalP", Number(f64::NAN)),
        ("epsilonCutoff", Number(1.0)),
        ("epsilonCutoff", Number(-0.1)),
        ("etaCutoff", Number(1.0)),
        ("etaCutoff", text_of("0.1")),
        ("noRepeatNgramSize", Number(-1.0)),
        ("noRepeatNgramSize", Number(2.5)),
        ("minNewTokens", Number(-1.0)),
        ("minNewTokens", Number(1.5)),
        ("logitBias", List(vec![Number(1.0)])),
        ("logitBias", object(&[("x", Number(1.0))])),
        ("logitBias", object(&[("-1", Number(1.0))])),
        ("logitBias", object(&[("05", Number(1.0))])),
        ("logitBias", object(&[("1.5", Number(1.0))])),
        ("logitBias", object(&[("4294967296", Number(1.0))])),
        ("logitBias[5]", object(&[("5", Number(f64::INFINITY))])),
        ("logitBias[5]", object(&[("5", Number(1e300))])),
        ("logitBias[5]", object(&[("5", text_of("1"))])),
        ("suppress", Number(1.0)),
        ("suppress[1]", List(vec![Number(1.0), Number(-1.0)])),
        ("forceIds", List(vec![Number(1.0), Number(0.5)])),
        ("special", Number(1.0)),
        ("temprature", Number(0.7)),
    ];
    for (name, value) in bad {
        // What is named may be an item of the option.
        let option = name.split('[').next().expect("the first part is always there");
        refused(with(option, value), "bad-option", name);
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
    let (backend, cache) = (BackendChoice::Cpu, Some(false));
    assert_eq!(options, LoadOptions { backend, threads: Some(16), context_length, cache, sha256 });
    assert_eq!(load(Other("undefined")), Ok(LoadOptions::default()));
    let kind = |name: &str, value: Value| load(object(&[(name, value)])).expect_err(name).kind();
    assert_eq!(kind("cache", Number(1.0)), "bad-option");
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
