//! The CPU engine in headless Chromium: its kernels, then whole models, side by side with other engines where asked.
//!
//! Invariant: measures nothing itself; without `--peers` it neither installs nor builds anything of another engine.

use anyhow::{Context, Result, bail, ensure};

use crate::tools::{BROWSERS, Tool, Tools};
use crate::{dist, model, run, test};

const USAGE: &str = "\
cargo xtask bench cpu [kernels | models] [OPTION...]   by default both
  --peers             wllama and candle beside Nucleus
  --formats A,B       the default model in these formats, made from it where they are missing (default: Q4_1)
  --runs N            runs of each engine, in turn, whose median counts (default: 3)
  --tokens N          new tokens a run (default: 100)";

/// The engines that are measured, as bench/run.mjs names them.
const OWN: [&str; 3] = ["nucleus-1t", "nucleus-2t", "nucleus-baseline"];
const PEERS: [&str; 3] = ["wllama-1t", "wllama-2t", "candle-1t"];

/// What the command line asks for.
#[derive(Debug, PartialEq)]
struct Options {
    kernels: bool,
    models: bool,
    peers: bool,
    formats: Vec<String>,
    runs: u32,
    tokens: u32,
}

/// Measures what `arguments` ask for.
pub fn measure(arguments: &[&str]) -> Result<()> {
    let options = Options::parse(arguments)?;
    let tools = Tools::ensure(&options.tools())?;
    if options.kernels {
        kernels(&tools)?;
    }
    if options.models {
        models(&tools, &options)?;
    }
    Ok(())
}

impl Options {
    fn parse(arguments: &[&str]) -> Result<Self> {
        let formats = vec!["Q4_1".to_owned()];
        let mut options = Self { kernels: true, models: true, peers: false, formats, runs: 3, tokens: 100 };
        let mut words = arguments.iter();
        while let Some(&word) = words.next() {
            let mut value = || words.next().with_context(|| format!("{word} takes a value:\n{USAGE}"));
            match word {
                "kernels" => options.models = false,
                "models" => options.kernels = false,
                "--peers" => options.peers = true,
                "--formats" => options.formats = value()?.split(',').map(str::to_owned).collect(),
                "--runs" => options.runs = positive(word, value()?)?,
                "--tokens" => options.tokens = positive(word, value()?)?,
                _ => bail!("`{word}` is not an option; there are:\n{USAGE}"),
            }
        }
        ensure!(options.kernels || options.models, "`kernels` or `models`, or neither for both:\n{USAGE}");
        Ok(options)
    }

    fn tools(&self) -> Vec<Tool> {
        let mut tools = [&dist::TOOLS[..], &[Tool::Browser]].concat();
        if self.models {
            tools.push(Tool::NodePackages);
            if self.peers {
                tools.push(Tool::PeerPackages);
            }
        }
        tools
    }
}

pub fn positive(option: &str, value: &str) -> Result<u32> {
    let number = value.parse().ok().filter(|&number| number > 0);
    number.with_context(|| format!("{option} takes a number from 1 on, found `{value}`"))
}

/// The test that measures, compiled as the engine's fast build is, in the profile for that.
fn kernels(tools: &Tools) -> Result<()> {
    println!(
        "xtask: building the kernels as in the engine's fast build, in a test that measures them; minutes at first"
    );
    let mut cargo = tools.command("cargo");
    cargo.arg("test");
    dist::fast::set_up(&mut cargo).args(["--lib", "--profile=bench", "--no-default-features", "--features=engine"]);
    let runner = ["backend::cpu::bench", "--", "--include-ignored", "--nocapture"];
    run(test::in_browser(tools, &mut cargo)?.args(runner))
}

fn models(tools: &Tools, options: &Options) -> Result<()> {
    let files = options.formats.iter().map(|format| model::ensure_format(format)).collect::<Result<Vec<_>>>()?;
    dist::build_with(tools)?;
    let mut cases = OWN.to_vec();
    if options.peers {
        build_candle(tools)?;
        cases.extend(PEERS);
    }
    let mut node = tools.command("node");
    node.args(["bench/run.mjs", "--cases", &cases.join(",")]);
    node.args(["--runs", &options.runs.to_string(), "--tokens", &options.tokens.to_string()]).args(files);
    run(node.env("CHROMIUM", tools.find(&BROWSERS)?))
}

/// candle in wasm, as its user would build it: stable flags, simd128.
fn build_candle(tools: &Tools) -> Result<()> {
    const TARGET: &str = "target/candle-peer";
    println!("xtask: building candle for wasm, to measure against; minutes at first");
    let mut cargo = tools.command("cargo");
    cargo.args(["build", "--locked", "--release", "--target=wasm32-unknown-unknown", "--target-dir", TARGET]);
    run(cargo.args(["--manifest-path", "bench/candle-peer/Cargo.toml"]))?;
    let mut bindgen = tools.command("wasm-bindgen");
    bindgen.args(["--target=web", "--no-typescript", "--out-dir"]).arg(format!("{TARGET}/pkg"));
    run(bindgen.arg(format!("{TARGET}/wasm32-unknown-unknown/release/candle_peer.wasm")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn by_default_both_parts_are_measured_without_peers() {
        let options = Options::parse(&[]).unwrap();
        assert!(options.kernels && options.models && !options.peers);
        assert_eq!((options.runs, options.tokens), (3, 100));
        assert_eq!(options.formats, ["Q4_1"]);
    }

    #[test]
    fn options_are_taken_in_any_order() {
        let options = Options::parse(&["--tokens", "20", "models", "--peers", "--formats", "Q8_0,Q4_0"]).unwrap();
        assert!(!options.kernels && options.models && options.peers);
        assert_eq!((options.runs, options.tokens), (3, 20));
        assert_eq!(options.formats, ["Q8_0", "Q4_0"]);
    }

    #[test]
    fn what_is_not_understood_is_refused_by_name() {
        let refusals: [(&[&str], &str); 5] = [
            (&["--peer"], "--peer"),
            (&["--runs"], "--runs"),
            (&["--runs", "0"], "--runs"),
            (&["--tokens", "many"], "many"),
            (&["kernels", "models"], "kernels"),
        ];
        for (arguments, name) in refusals {
            let message = format!("{:#}", Options::parse(arguments).unwrap_err());
            assert!(message.contains(name), "{message}");
        }
    }

    /// A peer's packages are another project's code: only who asks for them gets them.
    #[test]
    fn peers_are_installed_only_when_asked_for() {
        let needs = |arguments: &[&str]| Options::parse(arguments).unwrap().tools().contains(&Tool::PeerPackages);
        assert!(needs(&["--peers"]));
        assert!(!needs(&[]) && !needs(&["kernels", "--peers"]));
    }
}
