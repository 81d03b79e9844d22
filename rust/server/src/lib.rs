//! The TCP server around the coordinator: listeners, connections, topics, controls.
//!
//! A server has one or several nodes, and clients take each of them for a broker. One thread runs everything of a node,
//! so nothing on the path of a heartbeat, join or sync is locked. The nodes share little
//! ([`node::shared_state`]): who owns which partition, the topic table, the clock, the log.
//!
//! The folders are layers, the highest first. A file imports its own folder and folders below it, and no files import
//! each other in a circle; a folder's files have methods of what its `mod.rs` defines. `tests/checks/test_modules.py`
//! holds that.
//!
//! | folder | what is there |
//! |---|---|
//! | `server/` | the handle [`Server`]: it starts the threads, and controls them by orders that are carried out between two requests |
//! | `net/` | sockets and event loops: listening, accepting, the task of each connection, the thread of each node |
//! | `apis/` | one request, one file, registered in one table; each handler gets a [`apis::context::Context`] |
//! | `node/` | the state of one node behind a few verbs: coordinators, tickets, loading and handing over, the journal |
//! | `faults/` | what a test makes a server do to its clients |
//! | `client/` | the way back to a client: where answers go, and who is shown them |
//! | `topics/` | the topic table and messages, without connections |
//! | `log/` | the log under `__consumer_offsets`, and the data directory |
//! | `base/` | time, random bits, settings, errors, addresses, partition owners, metrics |
//!
//! The way of a request: a connection's task reads a frame (`net/channel.rs`), [`apis`] finds its handler, the handler
//! submits a request to the coordinator of the group's partition ([`node::Node::submit`]), and the answer to its ticket is
//! written straight into the client's buffer ([`client::reply`]), now or when the coordinator comes to it. Most heartbeats
//! take a shorter way, [`node::heartbeats`]. One timer task of each node sleeps until the earliest deadline.
//!
//! A new API is a file in `apis/` and a line in its table. A new log under `__consumer_offsets` is made in `log/`, where
//! `SharedState` gets it from. Limits are in `docs/limits.md`.

// Layers, the lowest first.
mod base;

mod log;

pub mod topics;

mod client;

mod faults;

mod node;

mod apis;

mod net;

mod server;

pub use base::{
    error::ServerError,
    metrics::Tally,
    names,
    settings::{self, SettingError, Settings},
};
pub use client::trace;
pub use faults::{FaultId, InjectionId};
pub use log::data_dir::{DataConfig, Health, StartReport, report_lines};
pub use node::journal::{JournalConfig, JournalHealth};
pub use rota_log::store::Durability;
pub use server::{
    Server, ServerConfig,
    controls::MemberName,
    inspect::{Census, GroupSight},
    messages::{KeyValue, Message},
};
