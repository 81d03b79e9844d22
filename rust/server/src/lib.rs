//! The TCP server of the coordinator: listeners, connections, topics, controls.
//!
//! A server has one or several nodes, which clients treat as brokers. One thread runs everything of a node, so the path
//! of a heartbeat, join or sync takes no lock. The nodes share little ([`node::shared_state`]): partition owners, the
//! topic table, the clock and the log.
//!
//! The folders are layers, highest first. A file imports its own folder and folders below it, and files do not import
//! each other in a circle; `tests/checks/test_modules.py` checks this. A folder's files implement methods of the types
//! in its `mod.rs`.
//!
//! | folder | what is there |
//! |---|---|
//! | `server/` | the handle [`Server`]: starts the threads, and controls them by orders between two requests |
//! | `net/` | sockets and event loops: listening, accepting, the task of each connection, the thread of each node |
//! | `apis/` | one request, one file, registered in one table; each handler gets a [`apis::context::Context`] |
//! | `node/` | the state of one node behind few methods: coordinators, tickets, loading and handover, the journal |
//! | `faults/` | faults that a test injects |
//! | `client/` | the reply path to a client: the destination of answers, and the trace |
//! | `topics/` | the topic table and messages, without connections |
//! | `transactions/` | the coordinators of transactions, which all nodes share, and their log |
//! | `peers/` | what a server of a cluster asks the other ones |
//! | `log/` | the log under `__consumer_offsets`, and the data directory |
//! | `base/` | time, random bits, settings, errors, addresses, partition owners, metrics |
//!
//! A connection's task reads a frame (`net/channel.rs`), [`apis`] finds its handler, and the handler submits a request
//! to the coordinator of the group's partition ([`node::Node::submit`]). The answer to its ticket is written to the
//! client's buffer ([`client::reply`]), at once or later. Most heartbeats take the fast path, [`node::heartbeats`]. One
//! timer task per node sleeps until the earliest deadline.
//!
//! A new API is a file in `apis/` and a line in its table. A new log under `__consumer_offsets` is created in `log/`,
//! where `SharedState` gets it. `docs/limits.md` lists the limits.

// Layers, lowest first.
mod base;

mod log;

mod peers;

pub mod topics;

mod transactions;

mod client;

mod faults;

mod node;

mod apis;

mod net;

mod server;

pub use base::{
    between_servers::{Password, PeerAccess},
    entropy::RandomBits,
    error::ServerError,
    listeners::{Listener, SecurityProtocol},
    metrics::Metrics,
    names,
    settings::{self, SettingError, Settings},
};
pub use client::trace;
pub use faults::{FaultId, InjectionId, PauseId};
pub use log::cluster::{Cluster, ConnectTo, EngineConfig};
pub use log::data_dir::{DataConfig, Health, StartReport, report_lines};
pub use node::journal::{JournalConfig, JournalHealth};
pub use rota_log::store::Durability;
pub use rota_security::acl;
pub use server::{
    Server, ServerConfig,
    controls::MemberName,
    inspect::{GroupDetails, GroupTotals, GroupView, HeldBy},
    listeners::OpenListener,
    messages::{Message, NewMessage},
};
