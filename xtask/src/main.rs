//! `cargo xtask`: builds, serves and tests Nucleus, installing the pinned tools that it lacks.
//!
//! Invariant: knows programs, files and exit codes; never what is inside the model or the page.

mod bench;
mod build_folder;
mod dist;
mod fuzz;
mod gemma;
mod model;
mod serve;
mod test;
mod tools;

use std::path::Path;
use std::process::{Command, ExitCode};

use anyhow::{Context, Result, bail, ensure};

const USAGE: &str = "\
cargo xtask serve [--port N]   get the model, build, and serve the page (port 8080)
cargo xtask test [STAGE]       every check, or one stage: fmt, clippy, native, fuzz, wasm, fast, dist, e2e, firefox
cargo xtask bench cpu [OPTION] measure the CPU engine in the browser: kernels, and whole models, with --peers beside other engines
cargo xtask bench gpu [MODEL]  measure the GPU engine natively, by default on the default model
cargo xtask bench perplexity [OPTION]   both engines beside a scalar reference on a fixed text, in every format
cargo xtask dist               build dist/, a folder that any static host can serve
cargo xtask model [FORMAT]     get the default model into www/models/, or make it there in another format (Q8_0, Q4_K_M)
cargo xtask model gemma        get Gemma 3 270M, which some tests run on where it is there
Tools that are missing are installed, after a line that says which and why.";

fn main() -> ExitCode {
    match dispatch() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn dispatch() -> Result<()> {
    // Every path in this crate is relative to the repository's root.
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask/ lies in the repository");
    std::env::set_current_dir(root).with_context(|| format!("cannot enter {}", root.display()))?;

    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments[..] {
        ["model"] => model::ensure(),
        ["model", "gemma"] => gemma::ensure(),
        ["model", format] => model::ensure_format(format).map(drop),
        ["bench", "cpu", ref options @ ..] => bench::cpu::measure(options),
        ["bench", "perplexity", ref options @ ..] => bench::perplexity::measure(options),
        ["bench", "gpu"] => bench::gpu(None),
        ["bench", "gpu", file] => bench::gpu(Some(file)),
        ["dist"] => dist::build(),
        ["serve"] => serve::serve(8080),
        ["serve", "--port", port] => serve::serve(port.parse().context("--port takes a number from 0 to 65535")?),
        ["test"] => test::test(None),
        ["test", stage] => test::test(Some(stage)),
        ["help" | "--help" | "-h"] => {
            println!("{USAGE}");
            Ok(())
        }
        _ => bail!("`{}` is not a command; there are:\n{USAGE}", arguments.join(" ")),
    }
}

/// Shows a command line, runs it, and fails unless it exits with 0.
fn run(command: &mut Command) -> Result<()> {
    let line = show(command);
    let status = command.status().with_context(|| format!("cannot start `{line}`"))?;
    ensure!(status.success(), "`{line}` failed: {status}");
    Ok(())
}

/// Prints a command as one would type it, and returns that line.
fn show(command: &Command) -> String {
    let words: Vec<_> =
        std::iter::once(command.get_program()).chain(command.get_args()).map(|word| word.to_string_lossy()).collect();
    let line = words.join(" ");
    println!("$ {line}");
    line
}
