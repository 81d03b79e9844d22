//! The TCP server around the coordinator: listener, connections, topics, control.
//!
//! One thread runs everything of a node, so nothing on a request's path is locked: a connection's task reads a
//! frame, [`dispatch`] finds its handler, the group APIs ([`groups`]) hand a request with a ticket to the coordinator
//! of the group's partition, and the answer to that ticket is written straight into the connection's buffer
//! ([`tickets`]), now or when the coordinator comes to it. One timer task sleeps until the earliest deadline.
//!
//! [`Server`] is the handle: it starts the thread, and controls it by orders that are carried out between two
//! requests. Limits are in `docs/limits.md`.

mod clock;
mod connection;
mod describing;
mod dispatch;
mod entropy;
mod error;
mod fetching;
mod groups;
mod members;
mod node;
mod offsets_log;
mod place;
mod server;
pub mod settings;
mod shared;
mod tickets;
mod topic_apis;
pub mod topics;

pub use error::ServerError;
pub use server::{Server, ServerConfig};
pub use settings::{SettingError, Settings};
