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

mod admin;
mod appends;
pub mod canonical;
pub mod config;
pub mod controls;
pub mod coordinator;
mod deletes;
pub mod effects;
pub mod embedded;
pub mod error;
pub mod explain;
mod gate;
mod group;
mod heartbeat;
mod ids;
pub mod invariants;
mod java_hash;
mod join;
mod joining_order;
mod leave;
mod member_id;
pub mod messages;
mod offsets;
pub mod operations;
mod pages;
pub mod projection;
pub mod purgatory;
mod rebalance;
mod record_bytes;
pub mod records;
mod references;
mod replay;
pub mod request;
pub mod response;
mod retention;
mod sessions;
mod slots;
pub mod snapshot;
pub mod states;
mod statics;
pub mod summary;
mod sync;
mod vote;
pub mod wheel;

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
