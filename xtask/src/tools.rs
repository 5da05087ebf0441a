//! The programs that building and testing need, at pinned versions: found, or installed after a line that says why.
//!
//! What is found on PATH with the right version is used. Cargo tools that are not go into a folder of Nucleus's own, so
//! that another project's `wasm-bindgen` is never replaced.
//!
//! Invariant: installs only what a caller asked for, through cargo, rustup, npm and apt-get; downloads nothing itself.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail, ensure};

use crate::run;

/// Something that a command cannot work without.
#[derive(Clone, Copy, PartialEq)]
pub enum Tool {
    Rustfmt,
    Clippy,
    WasmTarget,
    /// The standard library's source, for the build with threads.
    RustSource,
    /// `wasm-bindgen` and `wasm-bindgen-test-runner`.
    WasmBindgen,
    Trunk,
    /// `node_modules/`: Playwright.
    NodePackages,
    /// `bench/node_modules/`: wllama, to measure against.
    PeerPackages,
    /// Chromium, its driver, and fonts for every script that the tests write.
    Browser,
    /// For libFuzzer, which the fuzz targets compile.
    CppCompiler,
    /// Firefox and its driver.
    Firefox,
    /// WebKitGTK's driver, its small browser, and a display for it, where they can be had.
    WebKit,
    /// A Vulkan driver, for the GPU engine natively: the machine's own, or Mesa's, which computes on the CPU. Linux only.
    Vulkan,
}

const TRUNK_VERSION: &str = "0.21.14";

/// Debian has Firefox, but not its driver.
const GECKODRIVER_VERSION: &str = "0.37.1";

/// Node.js, the oldest major version that Playwright supports.
const NODE_MAJOR: u32 = 20;

/// The names under which Chromium is installed.
pub const BROWSERS: [&str; 4] = ["chromium", "chromium-browser", "google-chrome", "chrome"];

/// The names under which Firefox is installed.
const FIREFOX: [&str; 2] = ["firefox-esr", "firefox"];

const BROWSER_PACKAGES: [&str; 5] =
    ["chromium", "chromium-driver", "fonts-dejavu-core", "fonts-noto-cjk", "fonts-noto-color-emoji"];

/// Mesa's drivers, a software one among them, and the loader that finds drivers.
const VULKAN_PACKAGES: [&str; 2] = ["mesa-vulkan-drivers", "libvulkan1"];

/// Where Vulkan's loader looks for the files that name drivers, on Linux.
const VULKAN_DRIVERS: [&str; 3] = ["/etc/vulkan/icd.d", "/usr/local/share/vulkan/icd.d", "/usr/share/vulkan/icd.d"];

/// What may name such files instead, the second one in older loaders.
const VULKAN_VARIABLES: [&str; 2] = ["VK_DRIVER_FILES", "VK_ICD_FILENAMES"];

/// Installed tools, and the PATH on which they are found.
pub struct Tools {
    path: OsString,
}

impl Tools {
    /// Finds or installs each of `needed`.
    pub fn ensure(needed: &[Tool]) -> Result<Self> {
        let tools = Self { path: search_path()? };
        for tool in needed {
            match tool {
                Tool::Rustfmt => rustup_component("rustfmt", "fmt")?,
                Tool::Clippy => rustup_component("clippy", "clippy")?,
                Tool::WasmTarget => wasm_target()?,
                Tool::RustSource => rust_source()?,
                Tool::WasmBindgen => {
                    let version = locked_version(&fs::read_to_string("Cargo.lock")?, "wasm-bindgen")?;
                    let why = "wraps compiled wasm in JavaScript modules and runs the browser tests";
                    let programs = ["wasm-bindgen", "wasm-bindgen-test-runner"];
                    tools.cargo_tool("wasm-bindgen-cli", &version, &programs, why)?;
                }
                Tool::Trunk => tools.cargo_tool("trunk", TRUNK_VERSION, &["trunk"], "builds the page")?,
                Tool::NodePackages => {
                    tools.node_packages(".", "Playwright drives the browser, axe-core checks accessibility")?
                }
                Tool::PeerPackages => tools.node_packages("bench", "wllama, to measure against")?,
                Tool::Browser => tools.browser()?,
                Tool::CppCompiler => cpp_compiler()?,
                Tool::Firefox => tools.firefox()?,
                Tool::WebKit => tools.webkit(),
                Tool::Vulkan => vulkan()?,
            }
        }
        match fs::remove_dir_all(INSTALL_TARGET) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error.into()),
            _ => Ok(tools),
        }
    }

    /// A command whose program, and whose children's programs, are looked up among the installed tools first.
    pub fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        command.env("PATH", &self.path);
        command
    }

    /// The full path of the first of `programs` that is installed.
    pub fn find(&self, programs: &[&str]) -> Result<PathBuf> {
        let folders: Vec<_> = std::env::split_paths(&self.path).collect();
        let mut candidates = programs.iter().flat_map(|program| folders.iter().map(move |folder| folder.join(program)));
        candidates.find(|path| path.is_file()).with_context(|| format!("none of {} is on PATH", programs.join(", ")))
    }

    fn cargo_tool(&self, package: &str, version: &str, programs: &[&str], why: &str) -> Result<()> {
        let up_to_date = |program: &&str| {
            probe(&mut self.command(program)).is_some_and(|line| line.split_whitespace().any(|word| word == version))
        };
        if programs.iter().all(up_to_date) {
            return Ok(());
        }
        let folder = tool_folder();
        println!(
            "xtask: installing {package} {version} into {} ({why}); it is compiled, which takes minutes, once",
            folder.display()
        );
        let mut cargo = Command::new("cargo");
        cargo.args(["install", "--locked", "--force", "--version", version, "--root"]).arg(&folder).arg(package);
        // The default release profile takes twice as long to compile. Trunk copies files and starts programs, geckodriver passes
        // messages on: these are not optimised at all. wasm-bindgen reads 40 MB of a test's wasm, in 3 s at level 1 and 12 s at
        // level 0.
        // One target folder for all, so that they share what they can.
        cargo.envs([
            ("CARGO_TARGET_DIR", INSTALL_TARGET),
            ("CARGO_PROFILE_RELEASE_OPT_LEVEL", if package == "wasm-bindgen-cli" { "1" } else { "0" }),
            ("CARGO_PROFILE_RELEASE_LTO", "off"),
            ("CARGO_PROFILE_RELEASE_CODEGEN_UNITS", "16"),
            ("CARGO_PROFILE_RELEASE_DEBUG", "0"),
        ]);
        if package == "trunk" {
            // Its default features are a TLS client for downloads that never happen: all its tools are on PATH.
            cargo.arg("--no-default-features");
        }
        run(&mut cargo).with_context(|| format!("cannot install {package}: put version {version} on PATH yourself"))
    }

    /// What the package.json in `folder` names, at the versions of its lockfile.
    fn node_packages(&self, folder: &str, why: &str) -> Result<()> {
        if self.node_major().is_none() || probe(&mut self.command("npm")).is_none() {
            apt_install(&["nodejs", "npm"], "Node.js, for what drives a browser")?;
        }
        let major = self.node_major().context("`node --version` does not answer after the installation")?;
        ensure!(major >= NODE_MAJOR, "Node.js is at version {major}, expected {NODE_MAJOR} or newer: install it");

        // npm writes the second file last, when the folder matches the first.
        let folder = Path::new(folder);
        let modified = |path| fs::metadata(folder.join(path)).and_then(|metadata| metadata.modified());
        let installed = modified("node_modules/.package-lock.json");
        if installed.is_ok_and(|installed| modified("package-lock.json").is_ok_and(|locked| locked <= installed)) {
            return Ok(());
        }
        println!(
            "xtask: installing the pinned Node.js packages into {} ({why})",
            folder.join("node_modules").display()
        );
        run(self.command("npm").args(["ci", "--ignore-scripts"]).current_dir(folder))
    }

    fn browser(&self) -> Result<()> {
        if self.find(&BROWSERS).is_ok() && self.find(&["chromedriver"]).is_ok() {
            return Ok(());
        }
        apt_install(&BROWSER_PACKAGES, "Chromium, its driver and fonts, for the tests in a real browser")
    }

    fn firefox(&self) -> Result<()> {
        if self.find(&FIREFOX).is_err() {
            apt_install(&["firefox-esr"], "Firefox, for the tests in a second browser")?;
        }
        self.cargo_tool("geckodriver", GECKODRIVER_VERSION, &["geckodriver"], "drives Firefox")
    }

    /// Tests do without where it cannot be installed, and say so: not every system has packages of it.
    fn webkit(&self) {
        if self.find(&["WebKitWebDriver"]).is_ok() && self.find(&["xvfb-run"]).is_ok() {
            return;
        }
        let why = "WebKit, for the tests in a third browser";
        if let Err(error) = apt_install(&["webkit2gtk-driver", "xvfb", "xauth"], why) {
            println!("xtask: there is no WebKit: {error:#}");
        }
    }

    fn node_major(&self) -> Option<u32> {
        probe(&mut self.command("node"))?.trim_start_matches('v').split('.').next()?.parse().ok()
    }
}

/// What `command --version` prints first, or None where it does not run.
pub fn probe(command: &mut Command) -> Option<String> {
    let output =
        command.arg("--version").stderr(Stdio::null()).output().ok().filter(|output| output.status.success())?;
    String::from_utf8_lossy(&output.stdout).lines().next().map(str::to_owned)
}

/// Installs Debian packages, or says in words what is missing where this machine or user cannot.
pub fn apt_install(packages: &[&str], why: &str) -> Result<()> {
    let list = packages.join(" ");
    let root = Command::new("id").arg("-u").output().is_ok_and(|output| output.stdout.trim_ascii() == b"0");
    if probe(&mut Command::new("apt-get")).is_none() {
        bail!("missing: {why}. Install what Debian calls {list}");
    }
    ensure!(root, "missing: {why}. Run `sudo apt-get install {list}`");
    println!("xtask: installing {list} with apt-get: {why}");
    run(Command::new("apt-get").arg("update"))?;
    run(Command::new("apt-get")
        .args(["install", "--yes", "--no-install-recommends"])
        .args(packages)
        .env("DEBIAN_FRONTEND", "noninteractive"))
}

/// Where `cargo install` compiles; removed when the tools are in place.
const INSTALL_TARGET: &str = "target/tool-build";

/// Where tools that `cargo install` builds go: outside the clone, so that the next clone finds them.
fn tool_folder() -> PathBuf {
    match std::env::home_dir() {
        Some(home) => home.join(".cache/nucleus/tools"),
        None => PathBuf::from("target/tools"),
    }
}

fn search_path() -> Result<OsString> {
    let root = std::env::current_dir()?;
    let own = root.join(tool_folder()).join("bin");
    let inherited = std::env::var_os("PATH").unwrap_or_default();
    Ok(std::env::join_paths(std::iter::once(own).chain(std::env::split_paths(&inherited)))?)
}

/// The version of `package` that the text of a Cargo.lock fixes.
fn locked_version(lock: &str, package: &str) -> Result<String> {
    let name = format!("name = \"{package}\"");
    let mut lines = lock.lines().skip_while(|line| *line != name).skip(1);
    let version = lines.next().and_then(|line| line.strip_prefix("version = \"")?.strip_suffix('"'));
    version.map(str::to_owned).with_context(|| format!("Cargo.lock does not name {package}"))
}

fn rustup_component(component: &str, subcommand: &str) -> Result<()> {
    if probe(Command::new("cargo").arg(subcommand)).is_some() {
        return Ok(());
    }
    println!("xtask: adding the Rust component {component} (cargo {subcommand})");
    run(Command::new("rustup").args(["component", "add", component]))
}

fn wasm_target() -> Result<()> {
    let why = "the page and the engine are wasm";
    toolchain_part("lib/rustlib/wasm32-unknown-unknown/lib", "target", "wasm32-unknown-unknown", why)
}

fn rust_source() -> Result<()> {
    let why = "the engine with threads builds its own standard library";
    toolchain_part("lib/rustlib/src/rust/library", "component", "rust-src", why)
}

/// A target or component of the toolchain, which is there iff `folder` is below the compiler's own.
fn toolchain_part(folder: &str, kind: &str, name: &str, why: &str) -> Result<()> {
    let output = Command::new("rustc").args(["--print", "sysroot"]).output().context("cannot start rustc")?;
    let sysroot = String::from_utf8(output.stdout).context("rustc printed a sysroot that is not UTF-8")?;
    if Path::new(sysroot.trim()).join(folder).is_dir() {
        return Ok(());
    }
    println!("xtask: adding the Rust {kind} {name} ({why})");
    run(Command::new("rustup").args([kind, "add", name]))
        .with_context(|| format!("cannot add the {kind}: install the toolchain that rust-toolchain.toml names"))
}

fn cpp_compiler() -> Result<()> {
    if probe(&mut Command::new("c++")).is_some() {
        return Ok(());
    }
    apt_install(&["g++"], "a C++ compiler, for libFuzzer")
}

fn vulkan() -> Result<()> {
    // Elsewhere the system brings a GPU interface of its own (Metal), or its vendor's driver does.
    let is_named = VULKAN_VARIABLES.iter().any(|variable| std::env::var_os(variable).is_some());
    if !cfg!(target_os = "linux") || is_named || VULKAN_DRIVERS.iter().any(|folder| names_a_driver(Path::new(folder))) {
        return Ok(());
    }
    apt_install(&VULKAN_PACKAGES, "a Vulkan driver, here one in software, for the native tests of the GPU engine")
}

/// Whether a JSON file lies in `folder`; a folder that is not there has none.
fn names_a_driver(folder: &Path) -> bool {
    let is_json = |entry: std::io::Result<fs::DirEntry>| {
        entry.is_ok_and(|entry| entry.path().extension() == Some("json".as_ref()))
    };
    fs::read_dir(folder).is_ok_and(|mut entries| entries.any(is_json))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn locked_version_takes_the_exact_name() {
        let lock =
            "[[package]]\nname = \"a-cli\"\nversion = \"9.0.0\"\n\n[[package]]\nname = \"a\"\nversion = \"1.2.3\"\n";
        assert_eq!(locked_version(lock, "a").unwrap(), "1.2.3");
        assert!(locked_version(lock, "b").is_err());
    }

    /// The peer that is measured against goes through the one `wasm-bindgen` that is installed.
    #[test]
    fn the_peer_is_locked_to_the_same_wasm_bindgen() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        let version = |lock| locked_version(&fs::read_to_string(root.join(lock)).unwrap(), "wasm-bindgen").unwrap();
        assert_eq!(version("bench/candle-peer/Cargo.lock"), version("Cargo.lock"));
    }

    #[test]
    fn a_program_that_does_not_exist_answers_nothing() {
        assert_eq!(probe(&mut Command::new("no-such-program-here")), None);
    }

    #[test]
    fn a_folder_names_a_driver_iff_it_holds_json() {
        assert!(!names_a_driver(Path::new("no/such/folder")));
        let folder = std::env::temp_dir().join(format!("nucleus-xtask-{}", std::process::id()));
        fs::create_dir(&folder).unwrap();
        fs::write(folder.join("readme.txt"), "").unwrap();
        let before = names_a_driver(&folder);
        fs::write(folder.join("a_driver.json"), "{}").unwrap();
        let after = names_a_driver(&folder);
        fs::remove_dir_all(&folder).unwrap();
        assert_eq!((before, after), (false, true));
    }
}
