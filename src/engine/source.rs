//! Where a model's bytes come from: one file, or the parts of a split one, each by URL or from the reader's disk.
//!
//! Invariant: says which files, in which order, and begins each; what they hold is for `arrival` to judge.

use super::arrival::{ArrivalSink, HeadSink};
use super::mail::Mail;
use crate::error::{Error, Result, quoted};
use crate::fetch::{self, Fetched, Request, Sink};
use crate::gguf::{Gguf, part_names};
use crate::protocol::Source;
use std::rc::Rc;
use web_sys::{AbortSignal, Blob};

/// A file.
pub struct Part {
    name: String,
    place: Place,
}

enum Place {
    Url(String),
    Disk(Blob),
}

/// The files of a model, in order.
///
/// Errors: `bad-option` without a file; `bad-split` for several that are not all parts of one model, or for some of the parts.
pub fn parts(source: Source, blobs: Vec<Blob>) -> Result<Vec<Part>> {
    match source {
        Source::Url(url) => Ok(url_parts(url)),
        Source::Files(names) if names.is_empty() || names.len() != blobs.len() => {
            Err(Error::BadOption("The message holds no file.".into()))
        }
        Source::Files(names) => disk_parts(names.into_iter().zip(blobs).collect()),
    }
}

fn url_parts(url: String) -> Vec<Part> {
    let (path, query) = url.split_at(url.find(['?', '#']).unwrap_or(url.len()));
    let part = |url: String| Part { name: url.clone(), place: Place::Url(url) };
    match part_names(path) {
        Some(paths) => paths.into_iter().map(|path| part(path + query)).collect(),
        None => vec![part(url)],
    }
}

fn disk_parts(mut files: Vec<(String, Blob)>) -> Result<Vec<Part>> {
    let Some(names) = part_names(&files[0].0) else {
        if files.len() == 1 {
            return Ok(files.into_iter().map(|(name, blob)| Part { name, place: Place::Disk(blob) }).collect());
        }
        return Err(Error::BadSplit(format!(
            "Found {} files, {} among them; expected one, or all parts of one model, NAME-00001-of-00003.gguf and so on.",
            files.len(),
            quoted(&files[0].0)
        )));
    };
    let mut parts = Vec::new();
    let mut missing = Vec::new();
    for name in &names {
        match files.iter().position(|(found, _)| found == name) {
            Some(place) => {
                let (name, blob) = files.swap_remove(place);
                parts.push(Part { name, place: Place::Disk(blob) });
            }
            None => missing.push(quoted(name)),
        }
    }
    if let Some((other, _)) = files.first() {
        return Err(Error::BadSplit(format!(
            "{} is not a part of the same model as {}.",
            quoted(other),
            quoted(&names[0])
        )));
    }
    if missing.is_empty() {
        return Ok(parts);
    }
    let n_missing = missing.len();
    missing.truncate(3);
    let more = if n_missing > missing.len() { " and more" } else { "" };
    Err(Error::BadSplit(format!(
        "Of the {} parts of this model {n_missing} are missing: {}{more}. Choose all parts together.",
        names.len(),
        missing.join(", ")
    )))
}

/// How the files of a model are fetched.
#[derive(Clone, Copy)]
pub struct How<'a> {
    /// Aborted when the load is stopped.
    pub stop: &'a AbortSignal,
    /// Kept copies are read, and files are kept.
    pub cache: bool,
    /// Of the whole model, lower-case hex.
    pub sha256: Option<&'a str>,
}

/// Fetches all of a model. Of a split one the headers come first, all of them, so that whatever they rule out is refused before the
/// tensors come.
pub async fn transfer(parts: &[Part], mail: &Rc<Mail>, how: How<'_>, sink: &mut ArrivalSink<'_>) -> Result<Fetched> {
    if let [part] = parts {
        return part.fetch(how, sink).await;
    }
    let mut headers = Vec::with_capacity(parts.len());
    let how_part = How { sha256: None, ..how };
    for part in parts {
        headers.push((part.name.clone(), part.header(mail, how_part).await?));
    }
    let (whole, starts) = Gguf::join(headers)?;
    let ends = starts.iter().skip(1).copied().chain([whole.data_end()]);
    let ranges: Vec<_> = starts.iter().copied().zip(ends).collect();
    sink.expect(whole)?;
    let mut from_cache = true;
    let mut notices = Vec::new();
    for (part, (start, end)) in parts.iter().zip(ranges) {
        sink.begin_part(start as u64, end as u64);
        let fetched = part.fetch(how_part, sink).await?;
        from_cache &= fetched.from_cache;
        notices.extend(fetched.notice.filter(|notice| !notices.contains(notice)));
    }
    let sha256 = sink.sha256();
    fetch::check_sha256(&sha256, how.sha256)?;
    Ok(Fetched { sha256, from_cache, notice: (!notices.is_empty()).then(|| notices.join(" ")) })
}

/// Deletes the kept copies of files that were refused for what is in them.
pub async fn forget_refused(parts: &[Part], error: &Error) {
    for part in parts {
        if let Place::Url(url) = &part.place {
            fetch::forget_refused(url, error).await;
        }
    }
}

impl Part {
    async fn fetch(&self, how: How<'_>, sink: &mut impl Sink) -> Result<Fetched> {
        let How { stop, cache, sha256 } = how;
        match &self.place {
            Place::Url(url) => fetch::url(Request { url, stop, cache, sha256 }, sink).await,
            Place::Disk(blob) => fetch::blob(blob, sha256, sink).await,
        }
    }

    /// Its header; the transfer ends there.
    async fn header(&self, mail: &Rc<Mail>, how: How<'_>) -> Result<Gguf> {
        let mut sink = HeadSink::new(mail.clone());
        let fetched = self.fetch(how, &mut sink).await;
        match (sink.header, fetched) {
            (Some(header), _) => Ok(header),
            (None, Ok(_)) => sink.head.end(),
            (None, Err(error)) => Err(error),
        }
    }
}
