//! The release build: Trunk compiles both wasm binaries and lays everything into `dist/`.
//!
//! Invariant: `dist/` holds only what Trunk put there; models are never copied into it.

use std::fs;
use std::io::{self, Write};
use std::path::Path;

use anyhow::{Context, Result};
use flate2::Compression;
use flate2::write::GzEncoder;

use crate::run;
use crate::tools::{Tool, Tools};

/// The folder that any static host can serve.
pub const FOLDER: &str = "dist";

/// What the build needs.
pub const TOOLS: [Tool; 3] = [Tool::WasmTarget, Tool::WasmBindgen, Tool::Trunk];

/// Finds or installs the tools, builds, and prints how large the wasm is.
pub fn build() -> Result<()> {
    build_with(&Tools::ensure(&TOOLS)?)
}

/// Builds with tools that are there already.
pub fn build_with(tools: &Tools) -> Result<()> {
    // Trunk takes NO_COLOR for a flag that is `true` or `false`, and refuses the usual `1`.
    // A failure in words: with a backtrace set by RUST_BACKTRACE, cargo's own message is far up.
    run(tools.command("trunk").arg("build").env_remove("NO_COLOR").env("RUST_LIB_BACKTRACE", "0"))?;
    println!("{:<16}{:>12}{:>12}", "", "bytes", "gzip -9");
    for file in ["page_bg.wasm", "engine_bg.wasm"] {
        let path = Path::new(FOLDER).join(file);
        let bytes = fs::read(&path).with_context(|| format!("the build left no {}", path.display()))?;
        println!("{file:<16}{:>12}{:>12}", bytes.len(), gzip_length(&bytes)?);
    }
    Ok(())
}

/// How long `bytes` are once a host has compressed them for the way.
fn gzip_length(bytes: &[u8]) -> io::Result<usize> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(bytes)?;
    Ok(encoder.finish()?.len())
}
