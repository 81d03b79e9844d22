//! The TCP server around the coordinator: listener, connections, topics, control.
//!
//! A server has one or several nodes, and clients take each of them for a broker. One thread runs everything of a
//! node, so nothing on the path of a heartbeat, join or sync is locked: a connection's task reads a frame, [`dispatch`] finds its handler, the group APIs ([`groups`]) hand a request with a ticket to the coordinator
//! of the group's partition, and the answer to that ticket is written straight into the connection's buffer
//! ([`tickets`]), now or when the coordinator comes to it. One timer task sleeps until the earliest deadline. What a
//! start finds in the log is read by threads of their own ([`loaders`]).
//!
//! The nodes share little ([`commons`]): who owns which partition, the topic table, the clock, the log. Clients are
//! sent straight to the node that owns what they ask about, and a partition can be handed over ([`handover`]).
//!
//! [`Server`] is the handle: it starts the threads, and controls them by orders that are carried out between two
//! requests. Limits are in `docs/limits.md`.

mod clock;
mod commons;
mod connection;
mod controls;
mod data;
mod describing;
mod disk_log;
mod dispatch;
mod entropy;
mod error;
mod fetching;
mod groups;
mod handover;
mod heartbeats;
mod journal;
mod listening;
mod loaders;
mod members;
mod newer_groups;
mod node;
mod offsets_log;
mod owners;
mod place;
mod server;
pub mod settings;
mod shared;
mod sight;
mod tally;
mod tickets;
mod time;
mod topic_apis;
pub mod topics;
pub mod trace;
mod wake;

pub use controls::{InjectionId, MemberName};
pub use data::{DataConfig, Health, StartReport, report_lines};
pub use error::ServerError;
pub use journal::{JournalConfig, JournalHealth};
pub use rota_log::store::Durability;
pub use server::{Server, ServerConfig};
pub use settings::{SettingError, Settings};
pub use sight::{Census, GroupSight};
pub use tally::Tally;
