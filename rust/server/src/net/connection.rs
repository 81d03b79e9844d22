//! A connection as its event loop keeps it. Its task, which has the socket, is in `channel.rs`.

use std::{cell::Cell, rc::Rc};

use crate::client::Client;

/// See the module.
#[derive(Debug)]
pub struct Connection {
    /// Its client, as all layers below see it.
    pub client: Rc<Client>,
    /// Counted up from 1.
    pub id: u64,
    /// Bytes have moved since idle connections were looked for last; only that look has a clock.
    pub has_moved: Cell<bool>,
    /// Bytes in its buffers, and of a fetch that waits.
    pub held_bytes: Cell<usize>,
    /// The look for idle ones that last found it moved, in real milliseconds since the start.
    pub active_ms: Cell<u64>,
}

impl Connection {
    /// A connection that has just been accepted.
    pub fn new(id: u64, client: Rc<Client>) -> Connection {
        Connection { client, id, has_moved: Cell::new(true), held_bytes: Cell::new(0), active_ms: Cell::new(0) }
    }
}
