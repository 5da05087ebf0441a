//! `cargo run --example requantize -- SOURCE FORMAT TARGET`: the same model in another format.
//!
//! SOURCE is a GGUF file that this engine can read, TARGET is written anew, and FORMAT is one of the names that the message
//! lists when it is none of them. What the source has lost is not recovered: requantizing Q4_1 to Q8_0 gives the text of Q4_1.
//!
//! Invariant: files and words only; `convert` makes the new file out of the old one's bytes.

mod convert;

use convert::{Recipe, requantize};
use nucleus::gguf::Gguf;
use std::collections::BTreeMap;
use std::error::Error;
use std::fs;
use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [source, format, target] = &arguments[..] else {
        eprintln!(
            "requantize: found {} arguments; expected three, the source file, the format and the target file.",
            arguments.len()
        );
        return ExitCode::FAILURE;
    };
    match run(source, format, target) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("requantize: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(source: &str, format: &str, target: &str) -> Result<(), Box<dyn Error>> {
    let recipe = Recipe::named(format)?;
    let file = fs::read(source).map_err(|error| format!("The source {source} cannot be read: {error}."))?;
    let made = requantize(&file, recipe)?;
    fs::write(target, &made).map_err(|error| format!("The target {target} cannot be written: {error}."))?;
    println!("{target}: {} bytes; {} before", made.len(), file.len());
    print_types(&Gguf::parse(&made)?);
    Ok(())
}

/// What became of the tensors: a format that does not fit a row has been replaced, and one sees it here.
fn print_types(gguf: &Gguf) {
    let mut counts = BTreeMap::<_, usize>::new();
    for tensor in &gguf.tensors {
        *counts.entry((tensor.ty.name(), tensor.row_len())).or_default() += 1;
    }
    for ((ty, row_len), count) in counts {
        println!("{ty:<8}{count:>4} tensors with rows of {row_len} values");
    }
}
