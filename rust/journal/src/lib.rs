//! The journal of a coordinator: every event that it was told of, with all that came of it (docs/journal.md).
//!
//! | item | what it is |
//! |---|---|
//! | [`Event`] | what a coordinator can be told; [`Event::apply`] tells it |
//! | [`Outcome`], [`Recorder`] | what came of it: a sink that notes everything and passes it on |
//! | [`write_entries`], [`Entry`] | bytes of the journal, written and read |
//! | [`Replay`] | folds a journal through a fresh coordinator and compares every answer and digest |
//!
//! No IO: where entries are kept is the server's affair.
#![forbid(unsafe_code)]

/// The topic of a journal; its partitions are those of `__consumer_offsets`.
pub const JOURNAL_TOPIC: &str = "__rota_journal";

mod entry;
mod event;
pub mod owned;
mod recorder;
mod replay;
#[cfg(test)]
mod tests;

pub use entry::{Entry, EntryError, VERSION, write_entries, write_mark};
pub use event::{Event, Firing, OwnedEffect, OwnedEvent, Subject};
pub use recorder::{Outcome, Recorder};
pub use replay::{Difference, Replay, Tally};
