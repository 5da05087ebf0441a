//! A model in several files, as `gguf-split` of llama.cpp writes them: `NAME-00001-of-00003.gguf` and so on. The first part holds the
//! metadata; each has a directory of its own tensors, and says which part it is.
//!
//! Joined, the parts count as one file in which each begins where the one before it ends.
//!
//! Invariant: names and directories only; fetches nothing.

use super::{Gguf, Metadata};
use crate::error::{Error, Result, quoted};
use std::collections::btree_map::Entry;

const NO: &str = "split.no";
const COUNT: &str = "split.count";
const N_TENSORS: &str = "split.tensors.count";
/// More than any model has, and few enough to list.
const MAX_PARTS: u32 = 999;

/// Which part of how many a file says it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SplitNo {
    /// From 0.
    pub no: u64,
    pub count: u64,
}

impl SplitNo {
    /// None for a file that is whole. Errors: `bad-split` for a part without a number, or with one past the count.
    pub fn of(metadata: &Metadata) -> Result<Option<Self>> {
        let number = |key| metadata.unsigned(key).map_err(|error| Error::BadSplit(error.to_string()));
        match (number(NO)?, number(COUNT)?) {
            (_, None | Some(0 | 1)) => Ok(None),
            (Some(no), Some(count)) if no < count => Ok(Some(Self { no, count })),
            (no, Some(count)) => Err(Error::BadSplit(match no {
                Some(no) => format!("`{NO}` is {no}; expected a number below {count}, the `{COUNT}`."),
                None => format!("`{COUNT}` is {count}, but the file has no `{NO}` that says which part it is."),
            })),
        }
    }
}

/// The names of all parts of the model of which `name` names one; none for a name that is no part's, or the only part's.
pub fn part_names(name: &str) -> Option<Vec<String>> {
    let (rest, count) = name.strip_suffix(".gguf")?.rsplit_once("-of-")?;
    let (stem, no) = rest.rsplit_once('-')?;
    let number = |digits: &str| {
        (digits.len() == 5 && digits.bytes().all(|byte| byte.is_ascii_digit())).then(|| digits.parse::<u32>().ok())?
    };
    let (no, count) = (number(no)?, number(count)?);
    ((1..=count).contains(&no) && (2..=MAX_PARTS).contains(&count))
        .then(|| (1..=count).map(|no| format!("{stem}-{no:05}-of-{count:05}.gguf")).collect())
}

impl Gguf {
    /// Joins all parts of a model, each with its name. Returns the whole, and where in it each part begins.
    ///
    /// Errors: `bad-split` when a file is no part, or another one than its name says, or the parts do not hold as many tensors
    /// as they should, or one twice; `too-large`.
    pub fn join(parts: Vec<(String, Gguf)>) -> Result<(Gguf, Vec<usize>)> {
        let n_parts = parts.len() as u64;
        let mut starts = Vec::with_capacity(parts.len());
        let mut whole: Option<Gguf> = None;
        let mut next_start = 0usize;
        for (no, (name, part)) in (0..).zip(parts) {
            check_no(&name, SplitNo::of(&part.metadata)?, SplitNo { no, count: n_parts })?;
            starts.push(next_start);
            let end = next_start.checked_add(part.data_end());
            match &mut whole {
                None => whole = Some(part),
                Some(whole) => whole.append(part, next_start)?,
            }
            next_start = end.ok_or_else(|| {
                Error::TooLarge(format!("The parts up to {} exceed an address space of 4 GiB.", quoted(&name)))
            })?;
        }
        let whole = whole.ok_or_else(|| Error::BadSplit("There are no parts to join.".into()))?;
        match whole.metadata.unsigned(N_TENSORS).map_err(|error| Error::BadSplit(error.to_string()))? {
            Some(expected) if expected != whole.tensors.len() as u64 => Err(Error::BadSplit(format!(
                "The {n_parts} parts hold {} tensors; expected {expected}, as the first part says.",
                whole.tensors.len()
            ))),
            _ => Ok((whole, starts)),
        }
    }

    /// Adds the tensors of a part that begins at byte `start` of the whole.
    fn append(&mut self, part: Gguf, start: usize) -> Result<()> {
        for mut tensor in part.tensors {
            let (Some(from), Some(to)) = (start.checked_add(tensor.bytes.start), start.checked_add(tensor.bytes.end))
            else {
                return Err(Error::TooLarge(format!("`{}` lies past an address space of 4 GiB.", tensor.name)));
            };
            tensor.bytes = from..to;
            match self.index.entry(tensor.name.clone()) {
                Entry::Vacant(vacant) => vacant.insert(self.tensors.len()),
                Entry::Occupied(_) => {
                    return Err(Error::BadSplit(format!(
                        "Two parts hold the tensor `{}`; expected parts of one model, which hold each tensor once.",
                        tensor.name
                    )));
                }
            };
            self.tensors.push(tensor);
        }
        Ok(())
    }
}

fn check_no(name: &str, found: Option<SplitNo>, expected: SplitNo) -> Result<()> {
    let SplitNo { no, count } = expected;
    match found {
        Some(found) if found == expected => Ok(()),
        Some(found) => Err(Error::BadSplit(format!(
            "{} says that it is part {} of {}; expected part {} of {count}.",
            quoted(name),
            found.no + 1,
            found.count,
            no + 1
        ))),
        None => Err(Error::BadSplit(format!(
            "{} is a whole file by its metadata; expected part {} of {count}.",
            quoted(name),
            no + 1
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_names_all_of_them() {
        let names = part_names("a-b-00002-of-00003.gguf").unwrap();
        assert_eq!(names, ["a-b-00001-of-00003.gguf", "a-b-00002-of-00003.gguf", "a-b-00003-of-00003.gguf"]);
        assert_eq!(part_names("https://host/x/y-00010-of-00010.gguf").unwrap().len(), 10);
        for name in [
            "a.gguf",
            "a-00001-of-00001.gguf",
            "a-00000-of-00002.gguf",
            "a-00003-of-00002.gguf",
            "a-1-of-2.gguf",
            "a-00001-of-00002.bin",
            "a-00001-of-99999.gguf",
            "a-0000é-of-00002.gguf",
            "a-+0001-of-00002.gguf",
        ] {
            assert_eq!(part_names(name), None, "{name}");
        }
    }
}
