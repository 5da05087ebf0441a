//! A run file, read piece by piece: a long one would hold the page up.
//!
//! JSON is read whole or not at all, so the text is cut first: where its list of steps begins, and where each step ends. Then
//! what is around the list is read as a file without steps, and each step by itself.
//!
//! Invariant: judges nothing; what is cut where no step ends is refused by the one that reads it.

use super::schema::{File, Step};
use super::{MOST_BYTES, MOST_STEPS, RunFile, bad, too_long};
use crate::error::{Error, Result};
use crate::protocol::StepRecord;
use std::ops::Range;
use std::rc::Rc;

pub struct Reader {
    text: String,
    cutter: Cutter,
    head: Option<Head>,
    steps: Vec<Rc<StepRecord>>,
}

/// What is around the steps.
struct Head {
    run: RunFile,
    ids: Vec<u32>,
}

impl Reader {
    /// Errors: `bad-run-file` for a text that is too long.
    pub fn new(text: String) -> Result<Self> {
        if text.len() > MOST_BYTES {
            return Err(too_long(text.len() as f64));
        }
        Ok(Self { text, cutter: Cutter::default(), head: None, steps: Vec::new() })
    }

    /// Reads on for about `n_bytes`. Returns the run when all is read.
    ///
    /// Errors: `bad-run-file`, with what was found and what was expected.
    pub fn read_on(&mut self, n_bytes: usize) -> Result<Option<RunFile>> {
        let Some(head) = &mut self.head else {
            // Looking for commas is many times faster than reading numbers.
            if self.cutter.cut(self.text.as_bytes(), n_bytes.saturating_mul(8))? {
                self.head = Some(self.read_head()?);
            }
            return Ok(None);
        };
        let mut n_read = 0;
        while let Some(place) = self.cutter.steps.get(self.steps.len()) {
            if n_read > n_bytes {
                return Ok(None);
            }
            n_read += place.len();
            let index = self.steps.len();
            let step: Step = serde_json::from_str(&self.text[place.clone()])
                .map_err(|error| bad(format!("It is no run file: step {index}: {error}")))?;
            if step.id != head.ids[index] {
                return Err(bad(format!("Step {index} has the token {}, `ids` has {}.", step.id, head.ids[index])));
            }
            let index = u32::try_from(index).expect("there are few steps");
            let record = step.into_record(index, head.run.prompt_tokens, head.run.model.vocab_size)?;
            self.steps.push(Rc::new(record));
        }
        let run = self.head.take().map(|head| RunFile { steps: std::mem::take(&mut self.steps), ..head.run });
        Ok(run)
    }

    fn read_head(&self) -> Result<Head> {
        let no_run_file = |error: serde_json::Error| bad(format!("It is no run file: {error}"));
        let file: File = match &self.cutter.list {
            Some(list) if list.end == OPEN => {
                return Err(bad("It is no run file: it ends in the middle of its steps.".into()));
            }
            Some(list) => serde_json::from_str(&[&self.text[..list.start], &self.text[list.end..]].concat()),
            None => serde_json::from_str(&self.text),
        }
        .map_err(no_run_file)?;
        // A file may spell `steps` in a way that the cutter does not know; nobody does.
        if !file.steps.is_empty() {
            return Err(bad("It is no run file: its steps are named in another way.".into()));
        }
        let (n_ids, n_steps) = (file.ids.len(), self.cutter.steps.len());
        if n_ids != n_steps {
            return Err(bad(format!("It has {n_ids} ids and {n_steps} steps: expected as many.")));
        }
        let (run, ids) = RunFile::without_steps(file)?;
        Ok(Head { run, ids })
    }
}

/// The end of a list that has not ended.
const OPEN: usize = usize::MAX;

/// Finds the list of steps, which is the value of `steps` in the outermost object, and the steps in it.
#[derive(Default)]
struct Cutter {
    at: usize,
    depth: usize,
    is_in_string: bool,
    is_escaped: bool,
    /// Where the last string began; at depth 1 before a list that is its name.
    last_string: usize,
    /// Between its brackets.
    list: Option<Range<usize>>,
    steps: Vec<Range<usize>>,
    /// Where the next step begins.
    from: usize,
}

impl Cutter {
    /// Goes on for `n_bytes`; true at the end of `text`.
    fn cut(&mut self, text: &[u8], n_bytes: usize) -> Result<bool> {
        let end = self.at.saturating_add(n_bytes).min(text.len());
        for (at, &byte) in text.iter().enumerate().take(end).skip(self.at) {
            if self.is_in_string {
                self.is_in_string = byte != b'"' || self.is_escaped;
                self.is_escaped = byte == b'\\' && !self.is_escaped;
                continue;
            }
            match byte {
                b'"' => (self.is_in_string, self.last_string) = (true, at),
                b'[' | b'{' => {
                    if byte == b'[' && self.depth == 1 && text[self.last_string..at].starts_with(b"\"steps\"") {
                        self.list = Some(at + 1..OPEN);
                        (self.from, self.depth) = (at + 1, 2);
                        self.steps.clear();
                    } else {
                        self.depth += 1;
                    }
                }
                b']' | b'}' => {
                    self.depth = self.depth.saturating_sub(1);
                    if self.depth == 1 && self.is_open() {
                        let is_empty = text[self.from..at].iter().all(u8::is_ascii_whitespace);
                        if !(self.steps.is_empty() && is_empty) {
                            self.end_step(at)?;
                        }
                        self.list = self.list.take().map(|list| list.start..at);
                    }
                }
                b',' if self.depth == 2 && self.is_open() => self.end_step(at)?,
                _ => {}
            }
        }
        self.at = end;
        Ok(end == text.len())
    }

    fn is_open(&self) -> bool {
        self.list.as_ref().is_some_and(|list| list.end == OPEN)
    }

    fn end_step(&mut self, at: usize) -> Result<(), Error> {
        if self.steps.len() == MOST_STEPS {
            return Err(bad(format!("It has more than {MOST_STEPS} steps.")));
        }
        self.steps.push(self.from..at);
        self.from = at + 1;
        Ok(())
    }
}
