//! The perplexity of a fixed text in every format, each engine beside the scalar reference.
//!
//! Invariant: measures nothing itself; the models are made from the default one, so what that has lost is in every figure.

use anyhow::{Context, Result, bail};

use super::cpu::positive;
use crate::tools::{Tool, Tools};
use crate::{model, run};

const USAGE: &str = "\
cargo xtask bench perplexity [OPTION...]
  --formats A,B       the default model in these formats, made from it where they are missing (default: all)
  --tokens N          tokens of the text (default: 192)";

/// All that `examples/requantize` writes.
const FORMATS: [&str; 14] =
    ["F32", "F16", "BF16", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "Q2_K", "Q3_K", "Q4_K", "Q5_K", "Q6_K", "Q4_K_M"];

/// Prints the table; fails when an engine is too far from the reference.
pub fn measure(arguments: &[&str]) -> Result<()> {
    let (formats, n_tokens) = parse(arguments)?;
    // Without a GPU the table says so.
    let tools = Tools::ensure(&[Tool::Vulkan]).or_else(|error| {
        println!("xtask: the CPU engine only: {error:#}");
        Tools::ensure(&[])
    })?;
    let files = formats.iter().map(|format| model::ensure_format(format)).collect::<Result<Vec<_>>>()?;
    let mut cargo = tools.command("cargo");
    // The dev profile is optimised, and the tests have built the library in it already.
    cargo.args(["run", "--quiet", "--package", "nucleus", "--example", "perplexity", "--", &n_tokens.to_string()]);
    run(cargo.args(files))
}

fn parse<'a>(arguments: &[&'a str]) -> Result<(Vec<&'a str>, u32)> {
    let (mut formats, mut n_tokens) = (FORMATS.to_vec(), 192);
    let mut words = arguments.iter();
    while let Some(&word) = words.next() {
        let mut value = || words.next().with_context(|| format!("{word} takes a value:\n{USAGE}"));
        match word {
            "--formats" => formats = value()?.split(',').collect(),
            "--tokens" => n_tokens = positive(word, value()?)?,
            _ => bail!("`{word}` is not an option; there are:\n{USAGE}"),
        }
    }
    Ok((formats, n_tokens))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn by_default_every_format_is_measured() {
        assert_eq!(parse(&[]).unwrap(), (FORMATS.to_vec(), 192));
        assert_eq!(parse(&["--tokens", "64", "--formats", "Q4_1,F16"]).unwrap(), (vec!["Q4_1", "F16"], 64));
    }

    #[test]
    fn what_is_not_understood_is_refused_by_name() {
        for (arguments, name) in [(&["--format", "F16"][..], "--format"), (&["--tokens", "0"], "--tokens")] {
            let message = format!("{:#}", parse(arguments).unwrap_err());
            assert!(message.contains(name), "{message}");
        }
    }
}
