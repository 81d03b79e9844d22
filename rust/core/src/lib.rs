//! The consumer-group coordinator as one deterministic state machine.
//!
//! # Theory of operation
//!
//! A [`Coordinator`] owns one partition of `__consumer_offsets`: its groups, members, offsets and deadlines. It is a
//! fold: `(state, now, event) -> (state', effects)`. The events are [`submit`](Coordinator::submit) (a request
//! arrives), [`advance`](Coordinator::advance) (time passes), [`appended`](Coordinator::appended) (an append succeeds
//! or fails), [`topics_deleted`](Coordinator::topics_deleted) and [`unload`](Coordinator::unload). Effects go to a
//! [`Sink`]: appends, and exactly one answer per ticket.
//!
//! The core has no IO, clock, threads, randomness or dependence on hash order. The same events give the same effects
//! and the same digest on every platform. What an answer promises is durable before the answer is sent.
//!
//! `docs/protocol.md` states the rules; comments cite its sections as §5.4. Each request has one file: `join`, `sync`,
//! `heartbeat`, `leave`, `offsets`, `transactions`, `deletes`, `admin`. `retention` has what only time causes. They share `rebalance`
//! (the join phase), `sessions` (expiry), `statics` (static membership) and `appends` (appends in flight).
#![forbid(unsafe_code)]

// Unit tests share the scene of tests/, which names the crate.
#[cfg(test)]
extern crate self as rota_core;

// Layers, lowest first. A module imports from its own layer and from the layers above it in this list; a test checks
// this. Methods of `Coordinator` are in the file of their subject, not of their caller.

// Names, numbers and records of the protocol and the log.
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

// Data structures without knowledge of groups.
mod joining_order;
mod member_id;
mod pages;
mod pending_offsets;
pub mod purgatory;
mod slots;
mod stored_offsets;
pub mod wheel;

// The state, and the effects of an event.
pub mod consumer_group;
pub mod coordinator;
pub mod effects;
mod group;
mod history;
mod in_flight;
pub mod operations;

// Shared by several requests.
mod rebalance;
mod sessions;
mod vote;

// One request, one file.
mod admin;
pub mod consumer_requests;
mod deletes;
mod heartbeat;
mod join;
mod leave;
mod offsets;
mod statics;
mod sync;
mod transactions;

// Events: requests, time, and results of appends.
mod appends;
pub mod controls;
mod events;
mod gate;
mod replay;
mod retention;

// Views of the state.
mod consumer_invariants;
pub mod consumer_view;
mod digest;
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
pub use effects::{AppendId, Receipt, Sink};
pub use error::ErrorCode;
pub use heartbeat::{PREFETCHED, prefetch};
pub use invariants::Violation;
pub use java_hash::{partition_for, partition_of_bytes};
pub use projection::Projection;
pub use record_bytes::OffsetRecord;
pub use records::Record;
pub use request::{Entropy, Now, Request, Ticket};
pub use response::Answer;
pub use snapshot::{RestoreError, SNAPSHOT_FORMAT};
pub use states::State;
