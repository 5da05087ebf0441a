//! The release build: Trunk compiles both wasm binaries and lays everything into `dist/`; the engine's fast build, which Trunk has
//! no words for, joins it there; and all but the page itself moves into the build's own folder.
//!
//! Invariant: models are never copied into `dist/`.

use std::fs;
use std::io::{self, Write};
use std::path::Path;

use anyhow::{Context, Result};
use flate2::Compression;
use flate2::write::GzEncoder;

use crate::tools::{Tool, Tools};
use crate::{build_folder, run};

/// The folder that any static host can serve.
pub const FOLDER: &str = "dist";

/// What the build needs.
pub const TOOLS: [Tool; 4] = [Tool::WasmTarget, Tool::RustSource, Tool::WasmBindgen, Tool::Trunk];

/// The engine's fast build: relaxed SIMD, and threads on shared memory. The standard library is built with it, for its own is
/// not made for threads.
pub mod fast {
    use std::process::Command;

    /// `-Zbuild-std` is not stable; this lets the pinned stable compiler take it.
    const ENVIRONMENT: [(&str, &str); 3] = [
        ("RUSTC_BOOTSTRAP", "1"),
        (
            "RUSTFLAGS",
            "-Ctarget-feature=+simd128,+relaxed-simd,+atomics,+bulk-memory,+mutable-globals \
             -Clink-arg=--shared-memory -Clink-arg=--import-memory -Clink-arg=--max-memory=4294967296 \
             -Clink-arg=--export=__heap_base -Clink-arg=--export=__wasm_init_tls -Clink-arg=--export=__tls_size \
             -Clink-arg=--export=__tls_align -Clink-arg=--export=__tls_base",
        ),
        // Of its own, so that the two builds do not take turns in throwing each other out.
        ("CARGO_TARGET_DIR", "target/fast"),
    ];

    /// Lets `cargo build` or `cargo test` for wasm32 make the fast build.
    pub fn set_up(cargo: &mut Command) -> &mut Command {
        cargo.envs(ENVIRONMENT).arg("-Zbuild-std=std,panic_abort")
    }
}

/// Finds or installs the tools, builds, and prints how large the wasm is.
pub fn build() -> Result<()> {
    build_with(&Tools::ensure(&TOOLS)?)
}

/// Builds with tools that are there already.
pub fn build_with(tools: &Tools) -> Result<()> {
    // Trunk takes NO_COLOR for a flag that is `true` or `false`, and refuses the usual `1`.
    // A failure in words: with a backtrace set by RUST_BACKTRACE, cargo's own message is far up.
    run(tools.command("trunk").arg("build").env_remove("NO_COLOR").env("RUST_LIB_BACKTRACE", "0"))?;
    build_fast_engine(tools)?;
    println!("{:<20}{:>12}{:>12}", "", "bytes", "gzip -9");
    for file in ["page_bg.wasm", "engine_bg.wasm", "engine_fast_bg.wasm"] {
        let path = Path::new(FOLDER).join(file);
        let bytes = fs::read(&path).with_context(|| format!("the build left no {}", path.display()))?;
        println!("{file:<20}{:>12}{:>12}", bytes.len(), gzip_length(&bytes)?);
    }
    build_folder::move_into(Path::new(FOLDER))
}

fn build_fast_engine(tools: &Tools) -> Result<()> {
    let mut cargo = tools.command("cargo");
    cargo.args(["build", "--target=wasm32-unknown-unknown", "--profile=engine", "--bin=engine"]);
    run(fast::set_up(&mut cargo).args(["--no-default-features", "--features=engine"]))?;
    let mut bindgen = tools.command("wasm-bindgen");
    bindgen.args(["--target=web", "--no-typescript", "--out-name=engine_fast", "--out-dir", FOLDER]);
    run(bindgen.arg("target/fast/wasm32-unknown-unknown/engine/engine.wasm"))
}

/// How long `bytes` are once a host has compressed them for the way.
fn gzip_length(bytes: &[u8]) -> io::Result<usize> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(bytes)?;
    Ok(encoder.finish()?.len())
}
