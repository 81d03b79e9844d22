//! A connection of an event loop. Its task, in `channel.rs`, has the socket.

use std::{cell::Cell, rc::Rc};

use crate::client::Client;

/// An open connection.
#[derive(Debug)]
pub struct Connection {
    /// The client.
    pub client: Rc<Client>,
    /// The connection number, from 1.
    pub id: u64,
    /// Whether bytes have moved since the last check for idle connections. Only that check reads a clock.
    pub has_moved: Cell<bool>,
    /// Bytes in the connection's buffers and of a waiting fetch.
    pub held_bytes: Cell<usize>,
    /// Time of the last check that found movement, in real milliseconds since the start.
    pub active_ms: Cell<u64>,
}

impl Connection {
    /// Creates the state of an accepted connection.
    pub fn new(id: u64, client: Rc<Client>) -> Connection {
        Connection { client, id, has_moved: Cell::new(true), held_bytes: Cell::new(0), active_ms: Cell::new(0) }
    }
}
