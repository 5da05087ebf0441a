//! Bytes of tokens -> the text of the run.
//!
//! Invariant: what it releases is final. Nothing is taken back, and all that was released is the text.

use super::stop::StopStrings;
use crate::tokenizer::Utf8Stream;

pub(super) struct TextStream {
    decoder: Utf8Stream,
    stop: StopStrings,
    text: String,
}

impl TextStream {
    pub fn new(stop: &[String]) -> TextStream {
        TextStream { decoder: Utf8Stream::default(), stop: StopStrings::new(stop), text: String::new() }
    }

    /// Adds a token's bytes. Returns the text this releases: whole characters, nothing that could still become a stop
    /// string, and nothing from a stop string on.
    pub fn push(&mut self, bytes: &[u8]) -> String {
        let characters = self.decoder.push(bytes);
        let released = self.stop.push(&characters);
        self.text += &released;
        released
    }

    /// The text has ended: releases what is held back, unless a stop string ended it. Further calls release nothing.
    pub fn finish(&mut self) -> String {
        let rest = self.decoder.flush();
        let mut released = self.stop.push(&rest);
        released += &self.stop.finish();
        self.text += &released;
        released
    }

    /// Whether a stop string has ended the text.
    pub fn is_stopped(&self) -> bool {
        self.stop.is_stopped()
    }

    /// All that was released.
    pub fn take(&mut self) -> String {
        std::mem::take(&mut self.text)
    }
}
