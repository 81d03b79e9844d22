//! The coordinator of transactions as one deterministic state machine.
//!
//! # Theory of operation
//!
//! A transactional id belongs to one partition of `__transaction_state`. The log of that partition is the truth, and the
//! state here is what its records say. A transaction is decided by one record, `PrepareCommit` or `PrepareAbort`. After
//! this record is durable the coordinator answers the producer, and writes a [`Marker`] into every [`Participant`]; after
//! the last marker it writes `CompleteCommit` or `CompleteAbort`.
//!
//! A [`Coordinator`] is one such partition: `(state, now, event) -> (state', effects)`. The host carries the effects out:
//! it appends records, sends markers and answers clients. Every request about an id is one step, and at most one record
//! of an id is in flight.
//!
//! The crate has no IO, clock, threads, randomness or dependence on hash order: times and new producer ids are
//! arguments. `docs/transactions.md` states the rules; comments cite its sections as §3.
#![forbid(unsafe_code)]

// Layers, lowest first. A module imports from its own layer and from the layers above it in this list; a test checks
// this.

// Names and numbers.
pub mod error;
pub mod marker;
pub mod record_error;
pub mod state;
pub mod verdict;

// One transactional id: its content, its changes, its records.
mod reader;
pub mod record;
pub mod transaction;

// What a coordinator is asked and what it does.
pub mod messages;

// The coordinator.
pub mod coordinator;

pub use coordinator::{Config, Coordinator};
pub use error::{Api, Error};
pub use marker::{CONSUMER_OFFSETS, Marker, Participant, TransactionVersion};
pub use messages::{Answer, AppendFailure, AppendId, Effect, Event, MarkerId, Marking, Request, Ticket};
pub use record_error::RecordError;
pub use state::{State, TRANSITIONS};
pub use transaction::{Producer, Transaction};
pub use verdict::Verdict;
