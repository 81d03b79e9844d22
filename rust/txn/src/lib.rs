//! The coordinator of transactions as one deterministic state machine.
//!
//! # Theory of operation
//!
//! A transactional id belongs to one partition of `__transaction_state`. The log of that partition is the truth, and the
//! state here is what its records say. A transaction is decided by one record, `PrepareCommit` or `PrepareAbort`. After
//! this record is durable the coordinator answers the producer, and writes a [`Marker`] into every [`Participant`]; after
//! the last marker it writes `CompleteCommit` or `CompleteAbort`.
//!
//! The crate has no IO, clock, threads, randomness or dependence on hash order: times and new producer ids are
//! arguments. `docs/transactions.md` states the rules; comments cite its sections as §3.
#![forbid(unsafe_code)]

// Layers, lowest first. A module imports from its own layer and from the layers above it in this list; a test checks
// this.

// Names and numbers.
pub mod marker;

pub mod verdict;

pub use marker::{CONSUMER_OFFSETS, Marker, Participant, TransactionVersion};
pub use verdict::Verdict;
