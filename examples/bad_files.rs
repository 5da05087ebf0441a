//! Writes every file that the tests of refusals know, for the page to refuse: `cargo run --example bad_files -- FOLDER`.
//!
//! `files.bin` holds their bytes, `index.json` says of each its row in HARDENING.md, what is wrong with it, the kind of its refusal,
//! and its parts: a range of `files.bin`, or a number of zeros, since some files are hundreds of megabytes of them.
//!
//! Invariant: has no cases of its own but the cuts; the lists are the tests'.

// The lists are used here without their tests.
#[allow(dead_code)]
#[path = "../tests/tokenizer/file.rs"]
mod file;
#[allow(dead_code)]
#[path = "../tests/support/gguf_cases.rs"]
mod gguf_cases;
#[path = "../tests/support/gguf_writer.rs"]
mod gguf_writer;
#[cfg(test)]
#[path = "../tests/support/refusal.rs"]
mod refusal;
#[path = "../tests/tokenizer/refusals.rs"]
mod refusals;

use gguf_cases::REFUSED;
use gguf_writer::GgufFile;
use refusals::{REFUSALS, VOCAB_SIZE, good};
use serde_json::{Value, json};
use std::ops::Range;
use std::path::Path;

const TINY: &[u8] = include_bytes!("../tests/fixtures/tiny/llama-q4_1.gguf");

/// A run of zeros that is worth a part of its own.
const ZEROS: usize = 1 << 16;

fn main() -> std::io::Result<()> {
    let folder = std::env::args().nth(1).expect("the folder to write to");
    let mut files = Files::default();
    for case in REFUSED {
        let mut file = GgufFile::tiny_llama();
        (case.edit)(&mut file);
        files.add(json!(case.row), case.what, case.kind, &file.bytes());
    }
    // What the following are made from has nothing else that could be refused.
    files.add(json!(null), "a sound vocabulary", "accepted", &good().bytes(VOCAB_SIZE));
    for (what, change, _) in REFUSALS {
        let mut file = good();
        change(&mut file);
        files.add(json!("20 to 22"), what, "bad-tokenizer", &file.bytes(VOCAB_SIZE));
    }
    let whole = files.store(TINY);
    for n in (0..64).chain((64..8000).step_by(97)).chain((8000..TINY.len()).step_by(29_989)).chain([TINY.len() - 1]) {
        files.index(
            json!(1),
            &format!("a file cut after {n} bytes"),
            "truncated",
            vec![part(whole.start..whole.start + n)],
        );
    }
    files.write(Path::new(&folder))
}

#[derive(Default)]
struct Files {
    bytes: Vec<u8>,
    index: Vec<Value>,
}

impl Files {
    fn add(&mut self, row: Value, what: &str, kind: &str, file: &[u8]) {
        let mut parts = Vec::new();
        let mut start = self.bytes.len();
        for run in file.chunk_by(|a, b| (*a == 0) == (*b == 0)) {
            if run[0] == 0 && run.len() >= ZEROS {
                parts.extend([part(start..self.bytes.len()), json!({ "zeros": run.len() })]);
                start = self.bytes.len();
            } else {
                self.store(run);
            }
        }
        parts.push(part(start..self.bytes.len()));
        self.index(row, what, kind, parts);
    }

    fn store(&mut self, bytes: &[u8]) -> Range<usize> {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(bytes);
        start..self.bytes.len()
    }

    fn index(&mut self, row: Value, what: &str, kind: &str, parts: Vec<Value>) {
        self.index.push(json!({ "row": row, "what": what, "kind": kind, "parts": parts }));
    }

    fn write(&self, folder: &Path) -> std::io::Result<()> {
        std::fs::create_dir_all(folder)?;
        std::fs::write(folder.join("files.bin"), &self.bytes)?;
        std::fs::write(folder.join("index.json"), serde_json::to_vec(&self.index)?)?;
        println!("{} bad files in {}", self.index.len(), folder.display());
        Ok(())
    }
}

fn part(range: Range<usize>) -> Value {
    json!({ "bytes": [range.start, range.end] })
}
