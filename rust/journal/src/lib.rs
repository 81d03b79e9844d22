//! The journal of a coordinator: every event with its effects (docs/journal.md).
//!
//! | item | what it is |
//! |---|---|
//! | [`Event`] | an event of a coordinator; [`Event::apply`] applies it |
//! | [`Outcome`], [`Recorder`] | the effects of an event: a sink that records them and passes them on |
//! | [`write_entries`], [`Entry`] | encode and decode entries |
//! | [`Replay`] | folds a journal through a fresh coordinator and compares every answer and digest |
//!
//! The crate has no IO: the server stores the entries.
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
pub use replay::{Difference, Replay, ReplayCounts};
