//! `cargo run --example write_tiny -- TARGET ARCHITECTURE [NAME=VALUE ...]`: a tiny model of random weights.
//!
//! Names are those of `Shape`'s fields, for example `n_heads=3 n_kv_heads=1 head_dim=20 format=Q8_0 tied=false`. It writes no sense,
//! but it loads, here and in llama.cpp.
//!
//! Invariant: words and files only; `shape` makes the bytes.

mod shape;

use shape::{Format, Shape};
use std::process::ExitCode;
use std::str::FromStr;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [target, architecture, settings @ ..] = &arguments[..] else {
        eprintln!("write_tiny: expected the target file, the architecture, and settings like n_heads=3.");
        return ExitCode::FAILURE;
    };
    match write(target, architecture, settings) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("write_tiny: {error}");
            ExitCode::FAILURE
        }
    }
}

fn write(target: &str, architecture: &str, settings: &[String]) -> Result<(), String> {
    let mut shape = Shape::of(architecture);
    for setting in settings {
        let (name, value) = setting.split_once('=').ok_or_else(|| format!("`{setting}` is no setting."))?;
        set(&mut shape, name, value)?;
    }
    let file = shape.write();
    std::fs::write(target, &file).map_err(|error| format!("{target} cannot be written: {error}."))?;
    println!("{target}: {} bytes; {shape:?}", file.len());
    Ok(())
}

fn set(shape: &mut Shape, name: &str, value: &str) -> Result<(), String> {
    match name {
        "n_layers" => shape.n_layers = parse(value)?,
        "n_embd" => shape.n_embd = parse(value)?,
        "n_ff" => shape.n_ff = parse(value)?,
        "n_heads" => shape.n_heads = parse(value)?,
        "n_kv_heads" => shape.n_kv_heads = parse(value)?,
        "head_dim" => (shape.head_dim, shape.rope_dim) = (parse(value)?, parse(value)?),
        "rope_dim" => shape.rope_dim = parse(value)?,
        "rope_base" => shape.rope_base = parse(value)?,
        "rope_scaling" => {
            let known = ["linear", "yarn"].into_iter().find(|known| *known == value);
            shape.rope_scaling = Some(known.ok_or_else(|| format!("`{value}` is neither linear nor yarn."))?);
        }
        "rope_freqs" => shape.rope_freqs = parse(value)?,
        "window" => shape.window = parse(value)?,
        "vocab_size" => shape.vocab_size = parse(value)?,
        "context_length" => shape.context_length = parse(value)?,
        "tied" => shape.tied = parse(value)?,
        "seed" => shape.seed = parse(value)?,
        "format" => {
            shape.format = match value {
                "F32" => Format::F32,
                "Q4_0" => Format::Q4_0,
                "Q8_0" => Format::Q8_0,
                _ => return Err(format!("`{value}` is none of F32, Q4_0, Q8_0.")),
            }
        }
        _ => return Err(format!("`{name}` is no field of a shape.")),
    }
    Ok(())
}

fn parse<T: FromStr>(value: &str) -> Result<T, String> {
    value.parse().map_err(|_| format!("`{value}` has the wrong type."))
}
