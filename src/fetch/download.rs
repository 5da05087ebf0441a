//! A download that survives what networks do: a lost connection is tried again, and gone on with where that is safe.
//!
//! Invariant: bytes of two versions of a file never meet; after a fixed number of tries it ends, saying how far it came.

use super::answer::{Asked, Verdict};
use super::connection::{Connection, Lost, PATIENCE_MS, answer, is_offline, is_own_site, pause};
use super::source::{Request, Sink};
use super::transfer::Transfer;
use crate::error::{Error, Result};
use crate::kept::{Folder, Version};
use crate::protocol::LoadPhase;

/// Milliseconds before each new try.
const WAITS: [u32; 4] = [500, 1000, 2000, 4000];

/// Bytes read from the store at a time.
const PIECE: u64 = 4 << 20;

/// Fetches the file into `transfer`.
pub async fn download<S: Sink>(request: &Request<'_>, transfer: &mut Transfer<'_, S>) -> Result<()> {
    let mut download = Download { request, total: None, may_resume: true };
    let mut waits = WAITS.iter();
    loop {
        let why = match download.attempt(transfer).await {
            Ok(()) => return Ok(()),
            Err(Trouble::Over(error)) => return Err(error),
            Err(Trouble::Again(why)) => why,
        };
        let Some(&wait) = waits.next() else { return Err(download.gave_up(transfer.received(), &why).await) };
        transfer.sink.phase(LoadPhase::Retry);
        pause(wait, request.stop).await;
        if request.stop.aborted() {
            return Err(stopped());
        }
    }
}

enum Trouble {
    /// It will not get better.
    Over(Error),
    /// It may; why this try failed.
    Again(String),
}

impl From<Error> for Trouble {
    fn from(error: Error) -> Self {
        Trouble::Over(error)
    }
}

struct Download<'a> {
    request: &'a Request<'a>,
    total: Option<u64>,
    /// What is at hand may be gone on with; not after the server has said otherwise.
    may_resume: bool,
}

impl Download<'_> {
    /// One request, and its answer to the end.
    async fn attempt<S: Sink>(&mut self, transfer: &mut Transfer<'_, S>) -> Result<(), Trouble> {
        let url = self.request.url;
        let part = if self.may_resume { part_at_hand(transfer) } else { None };
        let is_conditional = is_own_site(url);
        let asked = part.as_ref().map(|(at, version)| Asked { at: *at, version, is_conditional });
        let mut connection = Connection::new(self.request.stop);
        let response = match connection.ask(url, asked, transfer.entry.is_some()).await {
            Ok(response) => response,
            Err(lost) => return Err(self.not_reached(lost, transfer.received()).await),
        };
        transfer.sink.phase(LoadPhase::Download);
        match answer(&response).judge(asked) {
            Verdict::Whole { total, version } => {
                (self.total, self.may_resume) = (total, true);
                // Another site's server may compress what it sends and not show that.
                transfer.begin(total, is_own_site(url), version).await?;
            }
            Verdict::Rest { total } => {
                self.total = total;
                if let Some((at, version)) = part.filter(|&(at, _)| at != transfer.received()) {
                    self.take_stored(at, version, transfer).await?;
                }
            }
            Verdict::Anew => {
                self.may_resume = false;
                return Err(Trouble::Again("the server did not send the missing rest of the file".into()));
            }
            Verdict::Later => return Err(Trouble::Again(format!("the server answered {}", response.status()))),
            Verdict::Refused => {
                let (status, text) = (response.status(), response.status_text());
                let error = format!("{url} answered {status} {text}; expected 200 and a GGUF file.");
                return Err(Error::HttpStatus(error.replace(" ;", ";")).into());
            }
        }
        while let Some(chunk) = connection.read().await.map_err(in_between)? {
            transfer.take(&chunk).await?;
        }
        match self.total {
            Some(total) if total > transfer.received() => Err(Trouble::Again("it ended too early".into())),
            _ => Ok(()),
        }
    }

    /// Gives the sink what the store has of the file: the server sends the rest.
    async fn take_stored<S: Sink>(
        &mut self,
        n_bytes: u64,
        version: Version,
        transfer: &mut Transfer<'_, S>,
    ) -> Result<(), Trouble> {
        let unreadable = || Trouble::Again("the stored part of the file could not be read".into());
        let expected = transfer.entry.as_ref().and_then(|entry| entry.partial()).ok_or_else(unreadable)?.sha256;
        transfer.sink.phase(LoadPhase::Cache);
        transfer.begin_stored(version)?;
        while transfer.received() < n_bytes {
            let (at, n) = (transfer.received(), PIECE.min(n_bytes - transfer.received()));
            let piece = transfer.entry.as_ref().and_then(|entry| entry.read(at, n as u32).ok());
            let Some(piece) = piece.filter(|piece| piece.length() > 0) else { break };
            match transfer.take_stored(&piece) {
                Err(error @ (Error::Cancelled(_) | Error::TooLarge(_))) => return Err(error.into()),
                // What the sink says of broken bytes is not said of the file.
                Err(_) => break,
                Ok(()) => {}
            }
            // Stop is heard in between.
            pause(0, self.request.stop).await;
        }
        if transfer.received() == n_bytes && transfer.hash.hex() == expected {
            transfer.sink.phase(LoadPhase::Download);
            return Ok(());
        }
        self.may_resume = false;
        Err(unreadable())
    }

    /// The server did not even answer.
    async fn not_reached(&self, lost: Lost, received: u64) -> Trouble {
        let url = self.request.url;
        match lost {
            // Something has come before: the connection may come back.
            lost if received > 0 => in_between(lost),
            Lost::Stopped => Trouble::Over(stopped()),
            Lost::Silent => Trouble::Over(Error::Network(format!(
                "{url} did not answer within {} seconds. The server may be out of reach.",
                PATIENCE_MS / 1e3
            ))),
            Lost::Broken(_) if is_offline() => Trouble::Over(Error::Network(offline(url).await)),
            Lost::Broken(why) => Trouble::Over(Error::Network(format!(
                "{url} could not be fetched ({why}). The server may be out of reach, or not allow other sites to read the \
                 file (CORS): then download it and open it from this device."
            ))),
        }
    }

    async fn gave_up(&self, received: u64, why: &str) -> Error {
        if is_offline() {
            return Error::Network(offline(self.request.url).await);
        }
        let of = self.total.map_or_else(String::new, |total| format!(" of {total}"));
        Error::Network(format!(
            "{}: {received}{of} bytes arrived in {} tries, the last of which failed because {why}. Load it again: if the \
             server allows it, what arrived is kept and not fetched twice.",
            self.request.url,
            WAITS.len() + 1
        ))
    }
}

/// How much of which version is there to be gone on with: from this load, or from an earlier one.
fn part_at_hand<S: Sink>(transfer: &Transfer<'_, S>) -> Option<(u64, Version)> {
    if transfer.received() > 0 {
        return transfer.version.clone().map(|version| (transfer.received(), version));
    }
    let record = transfer.entry.as_ref()?.partial()?;
    Some((record.bytes, record.version?))
}

fn in_between(lost: Lost) -> Trouble {
    match lost {
        Lost::Stopped => Trouble::Over(stopped()),
        Lost::Silent => Trouble::Again(format!("nothing came for {} seconds", PATIENCE_MS / 1e3)),
        Lost::Broken(why) => Trouble::Again(format!("the connection was lost ({why})")),
    }
}

fn stopped() -> Error {
    Error::Cancelled("Loading was stopped.".into())
}

/// That there is no network, and what can be loaded without one.
async fn offline(url: &str) -> String {
    let kept = match Folder::open().await {
        Some(folder) => folder.list().await,
        None => Vec::new(),
    };
    let urls: Vec<String> = kept.into_iter().filter(|record| record.is_complete).map(|record| record.url).collect();
    let there = match urls.as_slice() {
        [] => "No file is kept in this browser yet; a local file can be opened.".to_owned(),
        urls => format!("Kept in this browser, and to be had without a network: {}.", urls.join(", ")),
    };
    format!("{url} could not be fetched: this browser is offline. {there}")
}
