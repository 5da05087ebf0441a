//! Benchmarks: builds what measures, in release, and runs it.
//!
//! Invariant: measures nothing itself.

pub mod cpu;
pub mod perplexity;

use std::path::Path;
use std::process::Command;

use anyhow::Result;

use crate::tools::{Tool, Tools};
use crate::{model, run};

/// The GPU engine, natively: a model file, or the default model.
pub fn gpu(file: Option<&str>) -> Result<()> {
    Tools::ensure(&[Tool::Vulkan])?;
    let file = match file {
        Some(file) => file.to_owned(),
        None => {
            model::ensure()?;
            Path::new(model::FOLDER).join(model::FILE).to_string_lossy().into_owned()
        }
    };
    run(Command::new("cargo").args(["run", "--quiet", "--release", "--example", "bench_gpu", "--", &file]))
}
