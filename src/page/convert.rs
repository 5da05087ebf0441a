//! Protocol structs as the JavaScript objects of API.md, and JavaScript values as [`Value`]s.
//!
//! Invariant: shapes only; what an option may be is decided in `options`.

use super::options::Value;
use crate::error::Error;
use crate::protocol::{
    Diagnostics, GpuDiagnostics, LoadPhase, LoadProgress, MemoryNeeds, ModelInfo, RunResult, SelfTest, StepRecord,
    TokenPiece,
};
use crate::tail::Tail;
use js_sys::{Array, Float32Array, Object, Reflect, Uint8Array, Uint32Array};
use wasm_bindgen::{JsCast, prelude::*};

/// Sets one property; a plain object takes any.
pub fn put(object: &Object, name: &str, value: impl Into<JsValue>) {
    Reflect::set(object, &JsValue::from_str(name), &value.into()).expect("a plain object takes properties");
}

/// An `Error` with the stable `kind`.
pub fn error(error: &Error) -> JsValue {
    let object = js_sys::Error::new(&error.to_string());
    put(&object, "kind", error.kind());
    object.into()
}

/// The built-in functions through which a caller's own code runs (a Proxy, a getter, an iterator) and may throw.
#[wasm_bindgen]
extern "C" {
    #[wasm_bindgen(catch, js_namespace = Array, js_name = isArray)]
    fn is_array(js: &JsValue) -> Result<bool, JsValue>;
    #[wasm_bindgen(catch, js_namespace = Array, js_name = from)]
    fn to_array(js: &JsValue) -> Result<Array, JsValue>;
    #[wasm_bindgen(catch, js_namespace = Object, js_name = keys)]
    fn keys(object: &Object) -> Result<Array, JsValue>;
}

/// Reads a value, three levels deep: options hold nothing deeper than a list of messages. What throws when it is read reads as such.
pub fn value(js: &JsValue) -> Value {
    nested(js, 3)
}

/// Reads what `JSON.parse` made of a file of our own.
pub fn file(js: &JsValue) -> Value {
    nested(js, 8)
}

fn nested(js: &JsValue, depth: u32) -> Value {
    if let Some(flag) = js.as_bool() {
        return Value::Bool(flag);
    }
    if let Some(number) = js.as_f64() {
        return Value::Number(number);
    }
    if let Some(text) = js.as_string() {
        return Value::Text(text);
    }
    if js.is_undefined() {
        return Value::Other("undefined");
    }
    if js.is_null() {
        return Value::Other("null");
    }
    if js.is_function() {
        return Value::Function;
    }
    let is_typed_array = js_sys::ArrayBuffer::is_view(js) && !js.is_instance_of::<js_sys::DataView>();
    let Ok(is_array) = is_array(js) else { return Value::Other("an object that throws") };
    if is_array || is_typed_array {
        if depth == 0 {
            return Value::Other("a list inside a list");
        }
        return match to_array(js) {
            Ok(items) => Value::List(items.iter().map(|item| nested(&item, depth - 1)).collect()),
            Err(_) => Value::Other("a list that throws"),
        };
    }
    if !js.is_object() {
        return Value::Other("a symbol or bigint");
    }
    // Not `dyn_ref`: an object of a frame, or of what drives the browser, is of another `Object`.
    let object: &Object = js.unchecked_ref();
    if depth == 0 {
        return Value::Other("an object inside an object");
    }
    let Ok(keys) = keys(object) else { return Value::Other("an object that throws") };
    let property = |key: JsValue| {
        let name = key.as_string().unwrap_or_default();
        match Reflect::get(object, &key) {
            Ok(property) => (name, nested(&property, depth - 1)),
            Err(_) => (name, Value::Other("a property that throws")),
        }
    };
    Value::Object(keys.iter().map(property).filter(|(_, value)| *value != Value::Other("undefined")).collect())
}

pub fn progress(progress: &LoadProgress) -> Object {
    let object = Object::new();
    let phase = match progress.phase {
        LoadPhase::Download => "download",
        LoadPhase::Cache => "cache",
        LoadPhase::Retry => "retry",
        LoadPhase::Parse => "parse",
        LoadPhase::Upload => "upload",
        LoadPhase::Compile => "compile",
        LoadPhase::SelfTest => "self-test",
    };
    put(&object, "phase", phase);
    put(&object, "received", progress.received as f64);
    put(&object, "total", progress.total.map_or(JsValue::NULL, |total| JsValue::from_f64(total as f64)));
    object
}

pub fn model_info(info: &ModelInfo) -> Object {
    let object = Object::new();
    put(&object, "name", &info.name);
    put(&object, "architecture", &info.architecture);
    put(&object, "quantization", &info.quantization);
    put(&object, "parameters", info.parameters as f64);
    put(&object, "bytes", info.bytes as f64);
    put(&object, "vocabSize", info.vocab_size);
    put(&object, "contextLength", info.context_length);
    put(&object, "layers", info.layers);
    put(&object, "embedding", info.embedding);
    put(&object, "heads", info.heads);
    put(&object, "kvHeads", info.kv_heads);
    put(&object, "backend", &info.backend);
    put(&object, "backendReason", &info.backend_reason);
    put(&object, "backendRefusal", info.backend_refusal.as_ref().map_or(JsValue::NULL, JsValue::from));
    put(&object, "build", &info.build);
    put(&object, "threads", info.threads);
    put(&object, "adapter", info.adapter.as_ref().map_or(JsValue::NULL, JsValue::from));
    put(&object, "selfTest", info.self_test.as_ref().map_or(JsValue::NULL, |test| self_test(test).into()));
    put(&object, "memoryBytes", info.memory_bytes as f64);
    put(&object, "memoryNeeds", memory_needs(&info.memory_needs));
    put(&object, "loadMs", info.load_ms);
    put(&object, "hasChatTemplate", info.has_chat_template);
    put(&object, "sha256", &info.sha256);
    put(&object, "fromCache", info.from_cache);
    put(&object, "cacheNotice", info.cache_notice.as_deref().map_or(JsValue::NULL, JsValue::from_str));
    object
}

fn memory_needs(needs: &MemoryNeeds) -> Object {
    let object = Object::new();
    put(&object, "weights", needs.weights as f64);
    put(&object, "cache", needs.cache as f64);
    put(&object, "work", needs.work as f64);
    put(&object, "tokenizer", needs.tokenizer as f64);
    put(&object, "gpu", needs.gpu as f64);
    object
}

fn self_test(test: &SelfTest) -> Object {
    let object = Object::new();
    put(&object, "error", test.error);
    put(&object, "tolerance", test.tolerance);
    put(&object, "sameTop", test.same_top);
    put(&object, "passed", test.passed);
    put(&object, "nTokens", test.n_tokens);
    put(&object, "ms", test.ms);
    object
}

pub fn tokens(pieces: &[TokenPiece]) -> Array {
    let token = |piece: &TokenPiece| {
        let object = Object::new();
        put(&object, "id", piece.id);
        put(&object, "text", String::from_utf8_lossy(&piece.bytes).as_ref());
        put(&object, "bytes", Uint8Array::from(piece.bytes.as_slice()));
        object
    };
    pieces.iter().map(token).collect()
}

pub fn result(result: &RunResult) -> Object {
    let object = Object::new();
    put(&object, "text", &result.text);
    put(&object, "ids", result.ids.iter().map(|&id| JsValue::from(id)).collect::<Array>());
    put(&object, "stopReason", result.stop_reason.as_str());
    put(&object, "promptTokens", result.prompt_tokens);
    put(&object, "newTokens", result.new_tokens);
    put(&object, "reusedTokens", result.reused_tokens);
    put(&object, "seed", result.seed as f64);
    put(&object, "ttftMs", result.ttft_ms);
    put(&object, "prefillMs", result.prefill_ms);
    put(&object, "prefillTokensPerS", result.prefill_tokens_per_s);
    put(&object, "decodeMs", result.decode_ms);
    put(&object, "decodeTokensPerS", result.decode_tokens_per_s);
    object
}

pub fn diagnostics(diagnostics: &Diagnostics) -> Object {
    let object = Object::new();
    put(&object, "version", &diagnostics.version);
    put(&object, "build", &diagnostics.build);
    put(&object, "backend", &diagnostics.backend);
    put(&object, "memoryBytes", diagnostics.memory_bytes as f64);
    put(&object, "model", diagnostics.model.as_ref().map_or(JsValue::NULL, |info| model_info(info).into()));
    put(&object, "gpu", diagnostics.gpu.as_ref().map_or(JsValue::NULL, |found| gpu(found).into()));
    let last_error = diagnostics.last_error.as_ref().map(|(kind, message)| {
        let object = Object::new();
        put(&object, "kind", kind);
        put(&object, "message", message);
        object
    });
    put(&object, "lastError", last_error.map_or(JsValue::NULL, Into::into));
    object
}

fn gpu(gpu: &GpuDiagnostics) -> Object {
    let limits = Object::new();
    for (name, limit) in &gpu.limits {
        put(&limits, name, *limit as f64);
    }
    let object = Object::new();
    put(&object, "adapter", &gpu.adapter);
    put(&object, "software", gpu.software);
    put(&object, "features", gpu.features.iter().map(JsValue::from).collect::<Array>());
    put(&object, "limits", limits);
    put(&object, "bufferBytes", gpu.buffer_bytes as f64);
    put(&object, "pipelines", gpu.pipelines);
    put(&object, "compileMs", gpu.compile_ms);
    put(&object, "dispatchesPerToken", gpu.dispatches_per_token);
    put(&object, "selfTest", gpu.self_test.as_ref().map_or(JsValue::NULL, |test| self_test(test).into()));
    put(&object, "failure", gpu.failure.as_ref().map_or(JsValue::NULL, JsValue::from));
    object
}

/// The setters that a step's 64 candidates need, as direct property writes: no name crosses the boundary.
#[wasm_bindgen]
extern "C" {
    #[wasm_bindgen(extends = Object)]
    type JsCandidate;
    #[wasm_bindgen(method, setter, structural)]
    fn set_id(this: &JsCandidate, id: u32);
    #[wasm_bindgen(method, setter, structural)]
    fn set_text(this: &JsCandidate, text: &str);
    #[wasm_bindgen(method, setter, structural)]
    fn set_logit(this: &JsCandidate, logit: f32);
    #[wasm_bindgen(method, setter, structural, js_name = pRaw)]
    fn set_p_raw(this: &JsCandidate, p: f32);
    #[wasm_bindgen(method, setter, structural, js_name = pTemperature)]
    fn set_p_temperature(this: &JsCandidate, p: f32);
    #[wasm_bindgen(method, setter, structural, js_name = pFinal)]
    fn set_p_final(this: &JsCandidate, p: f32);
    #[wasm_bindgen(method, setter, structural)]
    fn set_cumulative(this: &JsCandidate, sum: f32);
    #[wasm_bindgen(method, setter, structural)]
    fn set_kept(this: &JsCandidate, kept: bool);
}

pub fn step(step: &StepRecord) -> Object {
    let candidates: Array = step
        .candidates
        .iter()
        .map(|candidate| {
            let object: JsCandidate = Object::new().unchecked_into();
            object.set_id(candidate.id);
            object.set_text(&String::from_utf8_lossy(&candidate.bytes));
            object.set_logit(candidate.logit);
            object.set_p_raw(candidate.p_raw);
            object.set_p_temperature(candidate.p_temperature);
            object.set_p_final(candidate.p_final);
            object.set_cumulative(candidate.cumulative);
            object.set_kept(candidate.kept);
            object
        })
        .collect();
    let ms = Object::new();
    put(&ms, "total", step.ms.total);
    put(&ms, "forward", step.ms.forward);
    put(&ms, "sample", step.ms.sample);
    put(&ms, "readback", step.ms.readback);
    let object = Object::new();
    put(&object, "index", step.index);
    put(&object, "position", step.position);
    put(&object, "kvLength", step.kv_length);
    put(&object, "positionsComputed", step.positions_computed);
    put(&object, "id", step.id);
    put(&object, "text", &step.text);
    put(&object, "bytes", Uint8Array::from(step.bytes.as_slice()));
    put(&object, "rank", step.rank);
    put(&object, "p", step.p);
    put(&object, "surprisalBits", step.surprisal_bits);
    put(&object, "u", step.u.map_or(JsValue::NULL, JsValue::from_f64));
    put(&object, "candidates", candidates);
    put(&object, "nucleusSize", step.nucleus_size);
    put(&object, "nucleusMass", step.nucleus_mass);
    put(&object, "entropyBits", step.entropy_bits);
    put(&object, "tail", step.tail.as_ref().map_or(JsValue::NULL, |found| tail(found).into()));
    put(&object, "ms", ms);
    object
}

fn tail(tail: &Tail) -> Object {
    let (logits, counts): (Vec<f32>, Vec<u32>) = tail.levels().unzip();
    let object = Object::new();
    put(&object, "logits", Float32Array::from(logits.as_slice()));
    put(&object, "counts", Uint32Array::from(counts.as_slice()));
    put(&object, "unknown", tail.n_unknown);
    object
}
