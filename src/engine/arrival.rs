//! A model's bytes as they arrive: the header judged as soon as it is there, the tensors each to its room.
//!
//! Invariant: takes bytes when they come and waits for nothing; whoever builds the model looks here for what has come.

use super::device;
use super::load::{Opened, Progress};
use super::mail::Mail;
use crate::assembly::{Head, Rooms};
use crate::error::{Error, Result};
use crate::fetch::{self, Sink};
use crate::gguf::{Gguf, SplitNo};
use crate::model::TensorId;
use crate::protocol::{LoadOptions, LoadPhase};
use js_sys::Uint8Array;
use sha2::{Digest, Sha256};
use std::cell::RefCell;
use std::rc::Rc;

/// Bytes that are copied out of a piece at a time: hashed and put in their place while they are in the processor's cache.
const WINDOW: usize = 1 << 16;

/// What has come of a model.
pub struct Arrival {
    mail: Rc<Mail>,
    name: String,
    options: LoadOptions,
    progress: Progress,
    /// Of all parts of a split model; that of a single file, `fetch` knows.
    hasher: Option<Sha256>,
    /// Until the header is there.
    head: Option<Head>,
    /// From then on.
    rooms: Option<Rooms>,
    opened: Option<Opened>,
    /// Where the file in progress begins in the whole; 0 unless the model is split.
    start: u64,
    /// Where its last tensor ends in the whole, if it is one of several: the next file begins there.
    end: Option<u64>,
    /// Bytes of it so far.
    position: u64,
    /// Bytes of all files, if known.
    total: Option<u64>,
    is_split: bool,
    /// How often the file began; more than once if the transfer had to start anew.
    n_beginnings: u32,
    is_complete: bool,
    /// Why the model cannot be built: ends the transfer.
    failure: Option<Error>,
}

impl Arrival {
    pub fn new(id: u32, name: String, options: LoadOptions, mail: Rc<Mail>) -> Self {
        Self {
            mail,
            name,
            options,
            progress: Progress::new(id, LoadPhase::Download),
            hasher: None,
            head: None,
            rooms: None,
            opened: None,
            start: 0,
            end: None,
            position: 0,
            total: None,
            is_split: false,
            n_beginnings: 0,
            is_complete: false,
            failure: None,
        }
    }

    /// What the header says, once; none before it is there.
    pub fn take_opened(&mut self) -> Option<Opened> {
        self.opened.take()
    }

    /// The bytes of these tensors, once; none before they are there.
    pub fn hand_over(&mut self, ids: &[TensorId]) -> Option<Vec<Vec<u8>>> {
        self.rooms.as_mut().and_then(|rooms| rooms.hand_over(ids))
    }

    /// Whether everything has come, and is what was expected.
    pub fn is_complete(&self) -> bool {
        self.is_complete
    }

    /// How often the file began: what was built of an earlier beginning is void.
    pub fn n_beginnings(&self) -> u32 {
        self.n_beginnings
    }

    /// The next piece will be refused with this.
    pub fn fail(&mut self, error: Error) {
        self.failure = Some(error);
    }

    pub fn failure(&mut self) -> Option<Error> {
        self.failure.take()
    }

    /// The transfer has ended. Errors: `truncated`; those of a header that came with the last byte.
    pub fn complete(&mut self) -> Result<()> {
        if let Some(head) = &self.head {
            let header = head.end()?;
            self.open(header)?;
        }
        self.rooms.as_ref().expect("the header is there").end(self.n_bytes())?;
        self.is_complete = true;
        Ok(())
    }

    /// Bytes of all files so far.
    pub fn n_bytes(&self) -> u64 {
        self.start + self.position
    }

    fn place(&mut self, bytes: &[u8]) -> Result<()> {
        if let Some(hasher) = &mut self.hasher {
            hasher.update(bytes);
        }
        let at = self.start + self.position;
        let rest = self.end.map_or(u64::MAX, |end| end - at);
        let bytes = &bytes[..bytes.len().min(usize::try_from(rest).unwrap_or(usize::MAX))];
        self.position += bytes.len() as u64;
        match (&mut self.rooms, &mut self.head) {
            (Some(rooms), _) => rooms.take(at, bytes),
            (None, Some(head)) => match head.take(bytes)? {
                Some(header) => self.open(header),
                None => Ok(()),
            },
            (None, None) => unreachable!("a file begins before its bytes come"),
        }
    }

    /// The header of a whole file is there: judges it, makes room for the tensors, and puts what has come of them there.
    fn open(&mut self, header: Gguf) -> Result<()> {
        if let Some(SplitNo { no, count }) = SplitNo::of(&header.metadata)? {
            return Err(Error::BadSplit(format!(
                "This is part {} of {count} of a split model; expected its parts by their names, such as \
                 NAME-{:05}-of-{count:05}.gguf, all of them.",
                no + 1,
                no + 1
            )));
        }
        self.expect(header)?;
        let head = self.head.take().expect("it held the header");
        self.rooms.as_mut().expect("just made").take(0, head.bytes())
    }

    /// The file in progress begins, or begins anew.
    fn begin(&mut self, total: Option<u64>, is_certain: bool) -> Result<()> {
        if self.is_split {
            // Of a part, tensors may have been handed over; the parts before it will not come again.
            if self.position > 0 {
                return Err(Error::Network(
                    "A part of the model had to start anew on its way; load the model again.".into(),
                ));
            }
            return Ok(());
        }
        self.n_beginnings += 1;
        (self.position, self.total) = (0, total);
        self.progress.restart();
        (self.head, self.rooms, self.opened) = (Some(Head::new(total.filter(|_| is_certain))), None, None);
        Ok(())
    }

    fn take(&mut self, bytes: &[u8]) -> Result<()> {
        self.place(bytes)?;
        // Past what was announced, nothing is known of the total.
        self.total = self.total.filter(|&total| total >= self.n_bytes());
        Ok(())
    }

    /// Judges the header of everything that is to come, and makes room for it.
    fn expect(&mut self, header: Gguf) -> Result<()> {
        let opened = Opened::new(header, &self.name, &self.options, &device::budget())?;
        self.rooms = Some(Rooms::new(&opened.plan)?);
        self.opened = Some(opened);
        self.progress.passed(LoadPhase::Parse);
        Ok(())
    }
}

/// The way into an [`Arrival`] that others look at meanwhile.
pub struct ArrivalSink<'a> {
    arrival: &'a RefCell<Arrival>,
    window: Vec<u8>,
}

impl<'a> ArrivalSink<'a> {
    pub fn new(arrival: &'a RefCell<Arrival>) -> Self {
        Self { arrival, window: vec![0; WINDOW] }
    }

    /// The model comes in parts, whose headers, joined, are `whole`.
    pub fn expect(&mut self, whole: Gguf) -> Result<()> {
        let mut arrival = self.arrival.borrow_mut();
        arrival.total = Some(whole.data_end() as u64);
        (arrival.is_split, arrival.n_beginnings) = (true, 1);
        arrival.hasher = Some(Sha256::new());
        arrival.expect(whole)
    }

    /// The next part begins at byte `start` of the whole, and the one after it at byte `end`.
    pub fn begin_part(&mut self, start: u64, end: u64) {
        let mut arrival = self.arrival.borrow_mut();
        (arrival.start, arrival.end, arrival.position) = (start, Some(end), 0);
    }

    /// Of all parts that have come, lower-case hex.
    pub fn sha256(&self) -> String {
        fetch::hex(self.arrival.borrow().hasher.as_ref().expect("the model is split"))
    }
}

impl Sink for ArrivalSink<'_> {
    fn begin(&mut self, total: Option<u64>, is_certain: bool) -> Result<()> {
        self.arrival.borrow_mut().begin(total, is_certain)
    }

    fn take(&mut self, chunk: &Uint8Array) -> Result<()> {
        let mut arrival = self.arrival.borrow_mut();
        if arrival.mail.stopped() {
            return Err(stopped());
        }
        if let Some(error) = &arrival.failure {
            return Err(error.clone());
        }
        let n = chunk.length();
        for start in (0..n).step_by(WINDOW) {
            let end = n.min(start + WINDOW as u32);
            let window = &mut self.window[..(end - start) as usize];
            chunk.subarray(start, end).copy_to(window);
            arrival.take(window)?;
        }
        let (n_bytes, total) = (arrival.n_bytes(), arrival.total);
        arrival.progress.reached(n_bytes, total);
        Ok(())
    }

    fn phase(&mut self, phase: LoadPhase) {
        let mut arrival = self.arrival.borrow_mut();
        let (n_bytes, total) = (arrival.n_bytes(), arrival.total);
        arrival.progress.enter(phase, n_bytes, total);
    }
}

/// Takes the header of a file, and no more.
pub struct HeadSink {
    mail: Rc<Mail>,
    pub head: Head,
    pub header: Option<Gguf>,
}

impl HeadSink {
    pub fn new(mail: Rc<Mail>) -> Self {
        Self { mail, head: Head::default(), header: None }
    }
}

impl Sink for HeadSink {
    fn begin(&mut self, total: Option<u64>, is_certain: bool) -> Result<()> {
        self.head = Head::new(total.filter(|_| is_certain));
        Ok(())
    }

    fn take(&mut self, chunk: &Uint8Array) -> Result<()> {
        if self.mail.stopped() {
            return Err(stopped());
        }
        self.header = self.head.take(&chunk.to_vec())?;
        match self.header {
            Some(_) => Err(Error::Cancelled("The header is there, and no more was wanted.".into())),
            None => Ok(()),
        }
    }
}

/// What a load that was stopped ends with.
pub fn stopped() -> Error {
    Error::Cancelled("Loading was stopped.".into())
}
