//! The fuzz targets of `fuzz/`, for a fixed number of inputs each; `cargo fuzz run TARGET` is for longer hunts.
//!
//! Built without a sanitizer: what is fuzzed is safe Rust, whose faults are panics, which end a run by themselves.
//!
//! Invariant: knows how the targets are built and run; what they check is theirs.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};

use crate::run;
use crate::tools::Tools;

/// The targets, with as many inputs as they take in ten seconds or so.
const TARGETS: [(&str, u32); 4] = [("gguf", 100_000), ("model", 150_000), ("tokenizer", 3_000), ("chat", 20_000)];

/// What `cargo fuzz` passes, too: counters on every edge, and what is compared with what.
const RUSTFLAGS: &str = "-Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
    -Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table \
    -Cllvm-args=-sanitizer-coverage-trace-compares --cfg=fuzzing";

/// Builds the targets and runs each from its seeds, always in the same way.
pub fn run_all(tools: &Tools) -> Result<()> {
    let host = host()?;
    // With a target named, even if it is this machine, the flags leave build scripts alone.
    let mut build = tools.command("cargo");
    build.args(["build", "--locked", "--release", "--manifest-path=fuzz/Cargo.toml", "--target", &host]);
    run(build.env("RUSTFLAGS", RUSTFLAGS))?;
    for (target, n_inputs) in TARGETS {
        let artifacts = format!("fuzz/artifacts/{target}/");
        fs::create_dir_all(&artifacts).with_context(|| format!("cannot make {artifacts}"))?;
        // What it finds worth keeping goes into the first folder: nothing that a later run should start from.
        let found = Path::new("fuzz/target/found").join(target);
        if found.exists() {
            fs::remove_dir_all(&found)?;
        }
        fs::create_dir_all(&found)?;
        let mut fuzzer = Command::new(format!("fuzz/target/{host}/release/{target}"));
        fuzzer.args([format!("-runs={n_inputs}"), format!("-artifact_prefix={artifacts}")]);
        fuzzer.args(["-seed=1", "-timeout=10", "-rss_limit_mb=1024", "-len_control=0", "-verbosity=0"]);
        // It says a lot, of which only a failure is of interest.
        let log = found.with_extension("log");
        fuzzer.arg(found).arg(format!("fuzz/seeds/{target}")).stderr(fs::File::create(&log)?);
        run(&mut fuzzer).with_context(|| fs::read_to_string(&log).unwrap_or_default())?;
        println!("{target}: {n_inputs} inputs, none of which it fails on");
    }
    Ok(())
}

/// The triple of this machine.
fn host() -> Result<String> {
    let output = Command::new("rustc").arg("-vV").output().context("cannot start rustc")?;
    let printed = String::from_utf8(output.stdout).context("rustc printed what is not UTF-8")?;
    let line = printed.lines().find_map(|line| line.strip_prefix("host: "));
    line.map(str::to_owned).context("`rustc -vV` names no host")
}
