//! Sockets and event loops: listening, accepting, the tasks of connections, and a node's thread.
//!
//! A connection's task reads frames, hands each request to [`crate::apis`], and writes what gathers in its
//! [`Client`](crate::client::Client). What protects a stream, such as TLS, belongs here, between the socket and the
//! task.

pub mod accept;
pub mod channel;
pub mod connection;
mod disturbed;
pub mod event_loop;
pub mod listening;
pub mod listening_orders;
pub mod loading;
pub mod node_thread;
