//! Every check, stage by stage, stopping at the first that fails.
//!
//! Invariant: a stage passes only when its runner exited with 0; the counts are what the runners printed.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use crate::serve::Server;
use crate::tools::{BROWSERS, Tool, Tools};
use crate::{dist, fuzz, model, run, show};

/// One part of the checks, in the order in which they run: what is quick to fail comes first.
#[derive(Clone, Copy, PartialEq)]
enum Stage {
    Fmt,
    Clippy,
    Native,
    Fuzz,
    Wasm,
    Fast,
    Dist,
    EndToEnd,
    Firefox,
}

const STAGES: [Stage; 9] = [
    Stage::Fmt,
    Stage::Clippy,
    Stage::Native,
    Stage::Fuzz,
    Stage::Wasm,
    Stage::Fast,
    Stage::Dist,
    Stage::EndToEnd,
    Stage::Firefox,
];

/// For wasm-bindgen-test-runner. Its own limits are 20 s for all tests of one file and 5 s for the driver to start; a
/// test runs in a worker, as the engine does, unless its file configures something else.
const WASM_TEST_SETTINGS: [(&str, &str); 3] = [
    ("WASM_BINDGEN_TEST_TIMEOUT", "600"),
    ("WASM_BINDGEN_TEST_DRIVER_TIMEOUT", "60"),
    ("WASM_BINDGEN_USE_DEDICATED_WORKER", "1"),
];

/// Runs all stages, or the one named.
pub fn test(stage: Option<&str>) -> Result<()> {
    let stages = match stage {
        None => STAGES.to_vec(),
        // The browser opens what was built last.
        Some("e2e") => vec![Stage::Dist, Stage::EndToEnd],
        Some("firefox") => vec![Stage::Dist, Stage::Firefox],
        Some(name) => {
            let stage = STAGES.into_iter().find(|stage| stage.name() == name);
            let names = STAGES.map(Stage::name).join(", ");
            vec![stage.with_context(|| format!("`{name}` is not a stage; there are: {names}"))?]
        }
    };
    let mut report = Report::default();
    let outcome = run_stages(&stages, &mut report);
    report.print();
    outcome
}

fn run_stages(stages: &[Stage], report: &mut Report) -> Result<()> {
    let mut needed = Vec::new();
    for tool in stages.iter().flat_map(|stage| stage.tools()) {
        if !needed.contains(tool) {
            needed.push(*tool);
        }
    }
    let tools = report.time("tools", |_| Tools::ensure(&needed))?;
    if stages.iter().any(|stage| stage.needs_model()) {
        report.time("model", |_| model::ensure())?;
    }
    for stage in stages {
        report.time(stage.name(), |counts| stage.run(&tools, counts))?;
    }
    Ok(())
}

impl Stage {
    fn name(self) -> &'static str {
        match self {
            Stage::Fmt => "fmt",
            Stage::Clippy => "clippy",
            Stage::Native => "native",
            Stage::Fuzz => "fuzz",
            Stage::Wasm => "wasm",
            Stage::Fast => "fast",
            Stage::Dist => "dist",
            Stage::EndToEnd => "e2e",
            Stage::Firefox => "firefox",
        }
    }

    fn tools(self) -> &'static [Tool] {
        match self {
            Stage::Fmt => &[Tool::Rustfmt],
            Stage::Clippy => &[Tool::Clippy, Tool::WasmTarget],
            Stage::Native => &[Tool::Vulkan],
            Stage::Fuzz => &[Tool::CppCompiler],
            Stage::Wasm => &[Tool::WasmTarget, Tool::WasmBindgen, Tool::Browser],
            Stage::Fast => &[Tool::WasmTarget, Tool::RustSource, Tool::WasmBindgen, Tool::Browser],
            Stage::Dist => &dist::TOOLS,
            Stage::EndToEnd => &[Tool::NodePackages, Tool::Browser],
            Stage::Firefox => {
                &[Tool::WasmTarget, Tool::WasmBindgen, Tool::NodePackages, Tool::Browser, Tool::Firefox, Tool::WebKit]
            }
        }
    }

    fn needs_model(self) -> bool {
        matches!(self, Stage::Native | Stage::EndToEnd | Stage::Firefox)
    }

    fn run(self, tools: &Tools, counts: &mut Counts) -> Result<()> {
        match self {
            Stage::Fmt => fmt(tools),
            Stage::Clippy => clippy(tools),
            Stage::Native => run_counted(tools.command("cargo").args(["test", "--workspace"]), counts),
            Stage::Fuzz => fuzz::run_all(tools),
            Stage::Wasm => wasm(tools, counts, tools.command("cargo").args(["test", "--lib", "--tests"])),
            Stage::Fast => fast(tools, counts),
            Stage::Dist => dist::build_with(tools),
            Stage::EndToEnd => end_to_end(tools, counts),
            Stage::Firefox => firefox(tools, counts),
        }
    }
}

fn fmt(tools: &Tools) -> Result<()> {
    run(tools.command("cargo").args(["fmt", "--all", "--check"]))?;
    run(tools.command("cargo").args(["fmt", "--manifest-path=fuzz/Cargo.toml", "--check"]))
}

/// The host with everything, wasm32 with everything, and each wasm binary with only the half that it is built with.
fn clippy(tools: &Tools) -> Result<()> {
    const WASM: &str = "--target=wasm32-unknown-unknown";
    let selections: [&[&str]; 4] = [
        &["--workspace", "--all-targets"],
        &[WASM, "--lib", "--bins", "--tests"],
        &[WASM, "--bin=page", "--no-default-features", "--features=page"],
        &[WASM, "--bin=engine", "--no-default-features", "--features=engine"],
    ];
    for selection in selections {
        run(tools.command("cargo").arg("clippy").args(selection).args(["--", "--deny=warnings"]))?;
    }
    Ok(())
}

/// All tests that are marked `wasm_bindgen_test`, in headless Chromium as webdriver.json sets it up; the runner passes
/// over the others.
fn wasm(tools: &Tools, counts: &mut Counts, cargo_test: &mut Command) -> Result<()> {
    run_counted(in_browser(tools, cargo_test)?, counts)
}

/// Lets `cargo test` run its tests in headless Chromium.
pub fn in_browser<'a>(tools: &Tools, cargo_test: &'a mut Command) -> Result<&'a mut Command> {
    cargo_test.arg("--target=wasm32-unknown-unknown");
    Ok(cargo_test.envs(WASM_TEST_SETTINGS).env("CHROMEDRIVER", tools.find(&["chromedriver"])?))
}

/// What the engine's fast build computes in another way: the library's own tests, kernels and their twins among them, and the
/// tiny models.
fn fast(tools: &Tools, counts: &mut Counts) -> Result<()> {
    let mut cargo = tools.command("cargo");
    cargo.arg("test");
    wasm(tools, counts, dist::fast::set_up(&mut cargo).args(["--lib", "--test=tiny_models"]))
}

/// `tests/e2e/*.test.mjs` in a real browser, and what can be tested of `bench/`; against `dist/` as `cargo xtask serve` serves it.
fn end_to_end(tools: &Tools, counts: &mut Counts) -> Result<()> {
    // What the page must refuse, from the lists of the Rust tests.
    run(tools.command("cargo").args(["run", "--example=bad_files", "--", "target/bad_files"]))?;
    let server = Server::start(0)?;
    let mut command = tools.command("node");
    // One file at a time: the tests measure speed, and two browsers on few cores would measure each other.
    command.args(["--test", "--test-concurrency=1", "--test-reporter=spec"]);
    command.args(files_in("tests/e2e", ".test.mjs")?).args(files_in("bench", ".test.mjs")?);
    command.env("BASE_URL", server.address).env("CHROMIUM", tools.find(&BROWSERS)?);
    run_counted(&mut command, counts)
}

/// Tests whose names hold one of these need a GPU. Firefox has no software one, as Chromium has.
const GPU_TESTS: [&str; 3] = ["gpu", "prefill_decode_and_truncation_agree", "forward_refuses_what_does_not_fit"];

/// The library's wasm tests and the tiny models in Firefox, as the wasm stage has built them. Then the page in it and, where there is one, in WebKit, beside Chromium.
fn firefox(tools: &Tools, counts: &mut Counts) -> Result<()> {
    let mut cargo = tools.command("cargo");
    cargo.args(["test", "--target=wasm32-unknown-unknown", "--lib", "--test=tiny_models"]);
    cargo.arg("--").args(GPU_TESTS.iter().flat_map(|name| ["--skip", name]));
    cargo.envs(WASM_TEST_SETTINGS).env("GECKODRIVER", tools.find(&["geckodriver"])?);
    run_counted(&mut cargo, counts)?;
    let server = Server::start(0)?;
    let mut node = tools.command("node");
    node.args(["--test", "--test-reporter=spec"]).args(files_in("tests/browsers", ".test.mjs")?);
    run_counted(node.env("BASE_URL", server.address).env("CHROMIUM", tools.find(&BROWSERS)?), counts)
}

/// The files of `folder` whose names end with `ending`, in order.
fn files_in(folder: &str, ending: &str) -> Result<Vec<PathBuf>> {
    let entries = fs::read_dir(folder).with_context(|| format!("cannot list {folder}"))?;
    let mut files = entries.map(|entry| Ok(entry?.path())).collect::<Result<Vec<_>>>()?;
    files.retain(|path| path.is_file() && path.to_string_lossy().ends_with(ending));
    files.sort();
    ensure!(!files.is_empty(), "no file in {folder} ends with {ending}");
    Ok(files)
}

/// Like [`run`], adding what the test runner prints about passed and failed tests to `counts`.
fn run_counted(command: &mut Command, counts: &mut Counts) -> Result<()> {
    let line = show(command);
    let mut child = command.stdout(Stdio::piped()).spawn().with_context(|| format!("cannot start `{line}`"))?;
    let output = child.stdout.take().expect("stdout is piped");
    for printed in BufReader::new(output).split(b'\n') {
        let printed = printed?;
        let printed = String::from_utf8_lossy(&printed);
        println!("{printed}");
        counts.add_line(&printed);
    }
    let status = child.wait()?;
    ensure!(status.success(), "`{line}` failed: {status}");
    Ok(())
}

/// How many tests the runners reported.
#[derive(Debug, Default, PartialEq)]
struct Counts {
    passed: u64,
    failed: u64,
    skipped: u64,
}

impl Counts {
    /// Reads a summary line of libtest and wasm-bindgen-test (`test result: ok. 3 passed; 0 failed; 1 ignored; ..`), or
    /// of node's spec reporter (`ℹ pass 3`); other lines count nothing.
    fn add_line(&mut self, line: &str) {
        if let Some(summary) = line.trim_start().strip_prefix("test result: ") {
            for part in summary.split([';', '.']) {
                if let Some((count, what)) = part.trim().split_once(' ') {
                    self.add(what, count);
                }
            }
        } else if let Some((what, count)) = line.strip_prefix("ℹ ").and_then(|summary| summary.split_once(' ')) {
            self.add(what, count);
        }
    }

    fn add(&mut self, what: &str, count: &str) {
        let total = match what {
            "passed" | "pass" => &mut self.passed,
            "failed" | "fail" | "cancelled" => &mut self.failed,
            "ignored" | "skipped" | "todo" => &mut self.skipped,
            _ => return,
        };
        *total += count.parse::<u64>().unwrap_or(0);
    }
}

#[derive(Default)]
struct Report {
    counts: Counts,
    rows: Vec<(&'static str, Duration, bool)>,
}

impl Report {
    /// Runs one row of the table; an error names it.
    fn time<T>(&mut self, name: &'static str, work: impl FnOnce(&mut Counts) -> Result<T>) -> Result<T> {
        println!("\n== {name}");
        let start = Instant::now();
        let outcome = work(&mut self.counts);
        self.rows.push((name, start.elapsed(), outcome.is_ok()));
        outcome.with_context(|| format!("stage {name} failed"))
    }

    fn print(&self) {
        println!();
        for (name, duration, passed) in &self.rows {
            println!("{name:<8}{:>8.1} s  {}", duration.as_secs_f64(), if *passed { "ok" } else { "FAILED" });
        }
        let Counts { passed, failed, skipped } = self.counts;
        println!("{passed} passed, {failed} failed, {skipped} skipped");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_add_up_over_runners() {
        let mut counts = Counts::default();
        counts
            .add_line("test result: ok. 3 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.01s");
        counts.add_line("test result: FAILED. 2 passed; 4 failed; 0 ignored; 0 filtered out");
        counts.add_line("ℹ pass 5");
        counts.add_line("ℹ fail 1");
        counts.add_line("ℹ skipped 2");
        counts.add_line("ℹ duration_ms 99.5");
        counts.add_line("I passed 7 cars");
        assert_eq!(counts, Counts { passed: 10, failed: 5, skipped: 3 });
    }

    #[test]
    fn every_stage_has_a_name_of_its_own() {
        for (index, stage) in STAGES.iter().enumerate() {
            assert!(STAGES[..index].iter().all(|other| other.name() != stage.name()));
        }
    }
}
