//! The protocol by which several nodes share partitions over a replicated engine. The log is the lock.
//!
//! # Theory of operation
//!
//! An engine is a linearizable store with conditional writes. [`requests`] states every request a node sends to it: what
//! it compares, what it writes and what it answers, as code on a [`Store`]. [`memory`] is an engine for tests, with
//! faults on demand.
//!
//! A [`Node`] is the node's side as one state machine: `(state, now, event) -> (state', commands)`. It beats, claims
//! partitions, loads them, appends with one append outstanding for each partition, takes snapshots and releases. The host
//! carries its commands out: it sends requests, folds entries into its coordinators, and answers clients.
//!
//! Two rules hold everything up. A write takes effect only if the engine still has the partition's owner that the writer
//! names, so no clock decides who may write. A read is answered only until a TTL after the last answered beat was sent, so
//! a successor that waited for a TTL of silence is alone.
//!
//! The crate has no IO, clock, threads, randomness or dependence on hash order: times, nonces and incarnations are
//! arguments. `docs/engine-protocol.md` states the rules; comments cite its sections as §4.2.
#![forbid(unsafe_code)]

// Layers, lowest first. A module imports from its own layer and from the layers above it in this list; a test checks
// this.

// Names, numbers and what an engine keeps.
pub mod entry;
pub mod ids;
pub mod view;

// The engine: its content, and what each request does with it.
pub mod store;

pub mod requests;

pub mod memory;

// The node's side.
pub mod node;

pub use entry::{Chunk, ChunkKey, Entry, Prev, SnapshotHead, checksum};
pub use ids::{CallId, Directory, Epoch, HistoryId, Incarnation, NodeId, Nonce, PartitionId, Revision, Ticket};
pub use memory::Memory;
pub use node::{Command, Config, Event, Node};
pub use requests::{Answer, Body, Outcome, Request};
pub use store::{Log, Store};
pub use view::{Beat, Meta, Part, Registration, Token, View};
