//! Sockets and event loops: listening, accepting, the tasks of connections, and a node's thread.
//!
//! A connection's task reads frames, passes each request to [`crate::apis`], and writes the answers in its
//! [`Client`](crate::client::Client). The [`transport`](self::transport) between socket and task is plain or TLS.

pub mod accept;
mod authenticate;
pub mod channel;
pub mod connection;
mod disturbed;
pub mod event_loop;
mod handshake;
pub mod listening;
pub mod listening_orders;
pub mod loading;
pub mod node_thread;
mod tls_stream;
mod transport;
