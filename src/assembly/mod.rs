//! A file that comes in pieces: its header is read as soon as it is there, then each tensor's bytes go to a place of their own.
//!
//! Invariant: of the file nothing is kept but the header until it has been read, and tensors until they are handed over.

mod head;
mod rooms;

pub use head::Head;
pub use rooms::Rooms;
