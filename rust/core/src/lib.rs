//! The consumer-group coordinator as one deterministic state machine.
//!
//! # Theory of operation
//!
//! A [`Coordinator`] owns one partition of `__consumer_offsets`: its groups, their members, their offsets, their
//! deadlines. It is a fold: `(state, now, event) -> (state', effects)`. Events are [`submit`](Coordinator::submit) (a
//! request came), [`advance`](Coordinator::advance) (time passed), [`appended`](Coordinator::appended) (the log made
//! something durable, or did not), [`topics_deleted`](Coordinator::topics_deleted) and
//! [`unload`](Coordinator::unload); effects go to a [`Sink`]: answers, each ticket exactly once, and appends.
//!
//! No IO, no clock, no thread, no randomness, no dependence on hash order: the same events give the same effects and
//! the same digest on every platform. What an answer promises is durable before it is told.
//!
//! The rules are in `docs/protocol.md`; a comment such as §5.4 is a section of it. One request, one file: [`join`],
//! [`sync`], [`heartbeat`], [`leave`], [`offsets`], [`deletes`], [`admin`]; what nobody asks for but time is in
//! [`retention`]; what they share is in [`rebalance`] (the join phase),
//! [`sessions`] (who is alive), [`statics`] (static membership) and [`appends`] (what is in flight).
#![forbid(unsafe_code)]

// Tests in here set the scene of those in tests/, which name the crate.
#[cfg(test)]
extern crate self as rota_core;

// Layers, the lowest first: a module imports from its own layer and from those above it in this list
// (tests hold it). Methods of `Coordinator` are in the file of what they handle, whoever calls them.

// What the protocol and the log have: names, numbers, records.
pub mod config;
mod consumer_record_bytes;
mod consumer_records;
pub mod error;
mod ids;
mod java_hash;
pub mod messages;
mod record_bytes;
pub mod records;
pub mod request;
pub mod response;
pub mod states;

// Structures that know nothing of groups.
mod joining_order;
mod member_id;
mod pages;
pub mod purgatory;
mod slots;
pub mod wheel;

// The state, and what an event does to the outside.
pub mod consumer_group;
pub mod coordinator;
pub mod effects;
mod group;
mod history;
mod in_flight;
pub mod operations;

// What several requests share.
mod rebalance;
mod sessions;
mod vote;

// One request, one file.
mod admin;
pub mod consumer;
mod deletes;
mod heartbeat;
mod join;
mod leave;
mod offsets;
mod statics;
mod sync;

// Events: requests, time, and what the log has done.
mod appends;
pub mod controls;
mod events;
mod gate;
mod replay;
mod retention;

// Views of the state.
mod consumer_invariants;
pub mod explain;
pub mod inspect;
pub mod invariants;
pub mod projection;
mod references;
pub mod snapshot;
pub mod summary;

pub use rota_assign::embedded;

pub use config::Config;
pub use coordinator::{Coordinator, LogEntry, Phase, SelfCheck};
pub use effects::{AppendId, Sink};
pub use error::ErrorCode;
pub use heartbeat::{PREFETCHED, prefetch};
pub use invariants::Violation;
pub use java_hash::{partition_for, partition_of_bytes};
pub use projection::Projection;
pub use record_bytes::OffsetRecord;
pub use records::Record;
pub use request::{Entropy, Now, Request, Ticket};
pub use response::Answer;
pub use snapshot::RestoreError;
pub use states::State;
