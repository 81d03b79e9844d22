//! Listening sockets, connections and what the tasks of one event loop share.

pub mod connection;
pub mod listening;
pub mod shared;
