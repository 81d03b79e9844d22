//! The TCP server around the coordinator: listener, connections, topics, control.
//!
//! A server has one or several nodes, and clients take each of them for a broker. One thread runs everything of a
//! node, so nothing on the path of a heartbeat, join or sync is locked: a connection's task reads a frame, [`apis`] finds its handler, the group APIs ([`apis::groups`]) hand a request with a ticket to the coordinator
//! of the group's partition, and the answer to that ticket is written straight into the connection's buffer
//! ([`client::reply`]), now or when the coordinator comes to it. One timer task sleeps until the earliest deadline. What a
//! start finds in the log is read by threads of their own ([`node::loaders`]).
//!
//! The nodes share little ([`node::commons`]): who owns which partition, the topic table, the clock, the log. Clients are
//! sent straight to the node that owns what they ask about, and a partition can be handed over ([`node::handover`]).
//!
//! [`Server`] is the handle: it starts the threads, and controls them by orders that are carried out between two
//! requests. Limits are in `docs/limits.md`.

mod apis;
mod base;
mod client;
mod faults;
mod log;
mod net;
mod node;
mod server;
pub mod topics;

pub use base::{
    error::ServerError,
    metrics::Tally,
    settings::{self, SettingError, Settings},
};
pub use client::trace;
pub use faults::InjectionId;
pub use log::data_dir::{DataConfig, Health, StartReport, report_lines};
pub use node::journal::{JournalConfig, JournalHealth};
pub use rota_log::store::Durability;
pub use server::{
    Server, ServerConfig,
    controls::MemberName,
    inspect::{Census, GroupSight},
};
