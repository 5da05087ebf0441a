//! Files as they are written, and as nobody would write them.

use super::*;
use crate::page::about::tests::on_gpu;
use crate::page::ladder::tests::step;
use crate::page::options::tests_of_writing::everything;

fn model() -> ModelInfo {
    ModelInfo {
        name: "SmolLM2 <b>".into(),
        quantization: "Q4_1".into(),
        bytes: 98_000_000,
        backend: "cpu".into(),
        adapter: None,
        sha256: "0123456789abcdef".repeat(4),
        ..on_gpu()
    }
}

/// Steps as a run makes them, one of them of half a character.
fn steps(n: u32) -> Vec<Rc<StepRecord>> {
    let one = |index| StepRecord { index, position: 5 + index, kv_length: 5 + index, ..step(20, 4, index) };
    let mut steps: Vec<StepRecord> = (0..n).map(one).collect();
    steps[1].bytes = vec![0xe2, 0x80];
    steps[1].candidates[2].bytes = vec![0xff];
    steps[2].u = None;
    steps.into_iter().map(Rc::new).collect()
}

fn json_of(file: &RunFile) -> String {
    file.parts().collect()
}

/// Reads in pieces of so many bytes.
fn read_in_pieces(text: &str, n_bytes: usize) -> Result<RunFile> {
    let mut reader = Reader::new(text.to_owned())?;
    loop {
        if let Some(run) = reader.read_on(n_bytes)? {
            return Ok(run);
        }
    }
}

fn read(text: &str) -> Result<RunFile> {
    read_in_pieces(text, MOST_BYTES)
}

/// The run as a file keeps it: a dozen candidates, and the time as a whole.
fn kept(file: &RunFile) -> RunFile {
    let steps = file.steps.iter().map(|step| {
        let mut step = StepRecord::clone(step);
        let id = step.id;
        let mut place = 0..;
        step.candidates.retain(|candidate| place.next() < Some(12) || candidate.id == id);
        Rc::new(step)
    });
    RunFile { steps: steps.collect(), ..file.clone() }
}

fn file() -> RunFile {
    RunFile::of(&model(), &everything(), &steps(4))
}

fn refusal(text: &str) -> String {
    let error = read(text).expect_err(text.get(..200).unwrap_or(text));
    assert_eq!(error.kind(), "bad-run-file");
    assert!(error.to_string().len() < 600, "{error}");
    error.to_string()
}

#[test]
fn a_file_is_read_as_it_was_written() {
    let file = file();
    let found = read(&json_of(&file)).unwrap();
    assert_eq!(found, kept(&file));
    assert_eq!(found.options.force_ids, [4, 4, 8], "what it resumed from is forced");
    assert!(found.options.resume_ids.is_empty() && !found.options.reuse_cache);
    assert_eq!((found.prompt_tokens, found.n_given(), found.steps[0].candidates.len()), (5, 3, 12));
    assert_eq!(read(&json_of(&found)).unwrap(), found);
}

#[test]
fn numbers_come_back_to_the_bit() {
    let mut step = StepRecord::clone(&steps(3)[0]);
    step.p = 0.1 + f32::EPSILON;
    step.candidates[0].logit = -1.234_567_9e-7;
    step.u = Some(0.1 + 0.2);
    step.ms.total = 109.75500000268221;
    let step = Rc::new(step);
    let found = read(&json_of(&RunFile::of(&model(), &everything(), &[Rc::clone(&step)]))).unwrap();
    let first = &found.steps[0];
    assert_eq!((first.p, first.u, first.ms), (step.p, step.u, step.ms));
    assert_eq!(first.candidates[0].logit, step.candidates[0].logit);
}

#[test]
fn a_chosen_token_beyond_the_likeliest_is_kept() {
    let file = RunFile::of(&model(), &everything(), &[Rc::new(step(20, 20, 17))]);
    let found = read(&json_of(&file)).unwrap();
    let ids: Vec<u32> = found.steps[0].candidates.iter().map(|candidate| candidate.id).collect();
    assert_eq!(ids, [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 17]);
}

#[test]
fn what_is_no_run_file_is_refused_in_words() {
    for text in ["", "null", "[]", "{}", "GGUF", "<!DOCTYPE html>", "{\"format\":\"nucleus-run\"}", "\u{feff}{}"] {
        assert!(refusal(text).starts_with("It is no run file: "), "{text}");
    }
    let deep = "[".repeat(100_000);
    refusal(&deep);
    refusal(&json_of(&file()).replace("\"options\":{", &format!("\"options\":{{\"ids\":{deep}")));
    let long = " ".repeat(MOST_BYTES + 1);
    assert!(refusal(&long).contains("expected at most 16777216"));
    let whole = json_of(&file());
    for n in [1, 50, 300, whole.len() / 2, whole.len() - 1] {
        refusal(&whole[..n]);
    }
}

#[test]
fn a_file_is_read_alike_in_pieces_of_any_size() {
    let whole = json_of(&RunFile::of(&model(), &everything(), &steps(100)));
    // As another program may write it: the steps first, with blanks, and text that looks like the end of a step.
    let (head, list) = whole.split_once(",\"steps\":").expect("it has steps");
    let list =
        list.strip_suffix("]}").expect("it ends with them").replace("\"text\":\"t7\"", "\"text\":\"],[{\\\"\\\\\"");
    let other = format!("{{ \"steps\" : {} ] , {}}}", list.replace("},{", "} ,\n {"), &head[1..]);
    let found = read(&other).unwrap();
    assert_eq!(found.steps[7].bytes, b"],[{\"\\");
    assert_eq!(found.steps.len(), 100);
    for n_bytes in [1, 7, 1000, 100_000] {
        assert_eq!(read_in_pieces(&other, n_bytes), Ok(found.clone()), "{n_bytes}");
        assert_eq!(read_in_pieces(&whole, n_bytes), read(&whole), "{n_bytes}");
    }
}

#[test]
fn steps_that_are_none_are_refused() {
    let whole = json_of(&file());
    let (head, steps) = whole.split_once("\"steps\":[").expect("it has steps");
    for list in ["", "{}", ",", "null", "{},", "[]", "[[[]]]", "\"{\"", "1,2,3,4", "{}{}"] {
        refusal(&format!("{head}\"steps\":[{list}]}}"));
    }
    refusal(&format!("{head}\"steps\":[{steps} ]"));
    refusal(&format!("{head}\"steps\":{{}}}}"));
    refusal(&format!("{head}\"steps\":[],\"steps\":[{steps}"));
    refusal(&format!("{head}\"st\\u0065ps\":[{steps}"));
    refusal(&format!("{head}\"steps\":[{},{steps}", ",".repeat(MOST_STEPS)));
    refusal(&format!("{{\"steps\":[{}", "[".repeat(100_000)));
    let empty = format!("{}\"steps\":[ ]}}", head.replace("\"ids\":[0,1,2,3]", "\"ids\":[]"));
    assert_eq!(read(&empty).unwrap().steps.len(), 0);
}

#[test]
fn every_field_has_its_range() {
    let whole = json_of(&file());
    for (from, to, named) in [
        ("nucleus-run", "other", "format"),
        ("\"version\":1", "\"version\":2", "version"),
        ("\"app\"", "\"more\":1,\"app\"", "more"),
        ("0123456789abcdef0123", "xyz", "sha256"),
        ("\"vocabSize\":49152", "\"vocabSize\":3", "expected less than 3"),
        ("\"vocabSize\":49152", "\"vocabSize\":4294967295", "vocabulary"),
        ("\"promptTokens\":5", "\"promptTokens\":4294967295", "prompt"),
        ("\"promptTokens\":5", "\"promptTokens\":-1", "no run file"),
        ("\"temperature\":0.33", "\"temperature\":-3", "temperature"),
        ("\"temperature\":0.33", "\"constructor\":{},\"temperature\":1", "constructor"),
        ("\"ids\":[0,1,2,3]", "\"ids\":[0,1,2]", "3 ids and 4 steps"),
        ("\"ids\":[0,1,2,3]", "\"ids\":[0,1,2,4]", "Step 3"),
        ("\"hex\":\"e280\"", "\"hex\":\"e28\"", "hex"),
        ("\"hex\":\"e280\"", "\"hex\":\"é1\"", "hex"),
        ("\"pRaw\":0.001", "\"pRaw\":1e30", "pRaw"),
        ("\"pRaw\":0.001", "\"pRaw\":-1", "pRaw"),
        ("\"pRaw\":0.001", "\"pRaw\":null", "no run file"),
        ("\"u\":0.5", "\"u\":1.5", "`u`"),
        ("\"rank\":0", "\"rank\":49152", "rank"),
        ("\"entropyBits\":9.0", "\"entropyBits\":1e9", "entropyBits"),
        ("\"ms\":0.0", "\"ms\":-1", "`ms`"),
        ("\"positionsComputed\":1", "\"positionsComputed\":4000000000", "positionsComputed"),
    ] {
        let changed = whole.replacen(from, to, 1);
        assert_ne!(changed, whole, "{from}");
        let said = refusal(&changed);
        assert!(said.contains(named), "{from} -> {to}: {said}");
    }
    let long = whole.replacen("\"text\":\"t0\"", &format!("\"text\":\"{}\"", "x".repeat(1025)), 1);
    assert!(refusal(&long).contains("1025 bytes"));
    let long = whole.replacen("SmolLM2", &"x".repeat(500), 1);
    assert!(refusal(&long).contains("name"));
}

#[test]
fn what_is_not_as_it_was_is_said() {
    let file = file();
    assert!(file.differences(&model()).is_empty());
    let other = ModelInfo { sha256: "0".repeat(64), backend: "webgpu".into(), build: "x".into(), ..model() };
    assert_eq!(file.differences(&other), ["another model file", "webgpu instead of cpu"]);
    let build = ModelInfo { build: "x".into(), ..model() };
    assert_eq!(file.differences(&build), ["another build of the engine"]);
    assert_eq!(file.maker(), "SmolLM2 <b> (Q4_1) on the CPU engine, build simd128");
}
