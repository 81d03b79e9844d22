//! What the tasks of one event loop share: the node and the room that connections take up.

use std::{
    cell::{Cell, RefCell},
    collections::HashMap,
    rc::Rc,
    sync::{Arc, atomic::Ordering},
    time::{Duration, Instant},
};

use tokio::sync::Notify;

use crate::{
    net::connection::{Connection, Ending},
    node::{Node, commons::Commons, members::MemberKey},
};

/// Bytes that one read takes at most; also how much of one client is handled before others have their turn.
const READ_BYTES: usize = 16 * 1024;

/// Bytes in the buffers of all connections together. Beyond it, the connection that holds most is closed.
pub const HELD_BYTES_MAX: usize = 1024 * 1024 * 1024;

/// Everything of one event loop. No lock guards it: it never leaves its thread.
pub struct Shared {
    /// The node's state.
    pub node: RefCell<Node>,
    /// Where bytes are read to before they are handled.
    pub scratch: RefCell<Box<[u8]>>,
    /// `socket.request.max.bytes`
    pub request_max_bytes: usize,
    commons: Arc<Commons>,
    connections: RefCell<HashMap<u64, Rc<Connection>>>,
    held_bytes: Cell<usize>,
    emptied: Notify,
    started: Instant,
}

impl Shared {
    /// Around a node.
    pub fn new(node: Node) -> Rc<Shared> {
        Rc::new(Shared {
            request_max_bytes: node.settings.request_max_bytes(),
            commons: Arc::clone(&node.commons),
            node: RefCell::new(node),
            scratch: RefCell::new(vec![0; READ_BYTES].into()),
            connections: RefCell::default(),
            held_bytes: Cell::new(0),
            emptied: Notify::new(),
            started: Instant::now(),
        })
    }

    /// How many connections are open.
    pub fn connection_count(&self) -> usize {
        self.connections.borrow().len()
    }

    /// Knows a new connection.
    pub fn remember(&self, connection: &Rc<Connection>) {
        self.connections.borrow_mut().insert(connection.id, Rc::clone(connection));
    }

    /// A request of `connection` has made its handler panic. That costs nobody but its client, and it is a bug: the
    /// panic's own message is on standard error, and this says what it means.
    pub fn panicked(&self, connection: &Connection) {
        self.commons.panics.fetch_add(1, Ordering::Relaxed);
        // It may have asked the log for something and not taken it.
        self.commons.bells.iter().for_each(|bell| bell.notify_one());
        let client = &connection.client_host;
        let handled = self.node.try_borrow().ok().and_then(|node| node.handling.api_name());
        let what = handled.map_or_else(|| "a request".to_owned(), |api| format!("a request of {api}"));
        eprintln!(
            "rota: {what} from {client} has made the server panic, as above. Its connection is closed. This is a bug in rota."
        );
    }

    /// The connection's task has ended.
    pub fn forget(&self, connection: &Connection) {
        self.connections.borrow_mut().remove(&connection.id);
        if self.connection_count() == 0 {
            self.emptied.notify_one();
        }
        let held = self.held_bytes.get();
        self.held_bytes.set(held.saturating_sub(connection.held_bytes.take()));
    }

    /// `connection` has `bytes` in its buffers. When all of them hold too much, whoever holds most is closed: a
    /// client with ordinary requests is never the one.
    pub fn hold(&self, connection: &Connection, bytes: usize) {
        let before = connection.held_bytes.replace(bytes);
        let held = (self.held_bytes.get() + bytes).saturating_sub(before);
        self.held_bytes.set(held);
        if bytes > before && held > HELD_BYTES_MAX {
            let connections = self.connections.borrow();
            if let Some(largest) = connections.values().max_by_key(|connection| connection.held_bytes.get()) {
                largest.end(Ending::Now);
            }
        }
    }

    /// Pauses the connections that speak for `member`, or lets them go on.
    pub fn pause(&self, member: &MemberKey, paused: bool) {
        for connection in self.connections.borrow().values() {
            connection.pause_if(member, paused);
        }
    }

    /// Ends every connection.
    pub fn end_all(&self, ending: Ending) {
        for connection in self.connections.borrow().values() {
            connection.end(ending);
        }
    }

    /// Waits until no connection is open.
    pub async fn emptied(&self) {
        while self.connection_count() > 0 {
            self.emptied.notified().await;
        }
    }

    /// Closes idle connections, again and again: each at most two pauses after it has been idle for `max_idle_ms`.
    pub async fn sweep_idle(self: Rc<Shared>, max_idle_ms: u64) {
        let pause = Duration::from_millis((max_idle_ms / 8).clamp(50, 60_000));
        loop {
            tokio::time::sleep(pause).await;
            self.close_idle(self.started.elapsed().as_millis() as u64, max_idle_ms);
        }
    }

    /// Closes connections on which nothing has moved for `max_idle_ms`; a request that waits is not idleness, as long as
    /// its client is there. What has moved since the last look counts as moved now: nobody reads a clock for each request.
    pub(crate) fn close_idle(&self, now_ms: u64, max_idle_ms: u64) {
        for connection in self.connections.borrow().values() {
            if connection.has_moved.take() {
                connection.active_ms.set(now_ms);
            }
            let waits = connection.parked.get() && !connection.gone.get();
            if !waits && now_ms.saturating_sub(connection.active_ms.get()) > max_idle_ms {
                connection.end(Ending::Now);
            }
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::base::{clock::Clock, owners::FIRST_NODE, place::Place, settings::Settings};

    pub(crate) fn of_a_new_node() -> Rc<Shared> {
        let place = Place { cluster_id: "c".to_owned(), node_id: FIRST_NODE, host: None, ports: vec![1] };
        let commons = Arc::new(Commons::new(Settings::default(), place, Clock::standing()));
        Shared::new(Node::new(&commons, FIRST_NODE))
    }

    fn accepted(shared: &Shared, id: u64) -> Rc<Connection> {
        let address = ([127, 0, 0, 1], 1).into();
        let connection = Rc::new(Connection::new(id, address, address));
        shared.remember(&connection);
        connection
    }

    #[test]
    fn when_all_connections_hold_too_much_the_one_that_holds_most_is_closed() {
        let shared = of_a_new_node();
        let [most, less] = [1, 2].map(|id| accepted(&shared, id));
        shared.hold(&most, HELD_BYTES_MAX - 1_000);
        shared.hold(&less, 1_000);
        assert_eq!((most.ending.get(), less.ending.get()), (Ending::No, Ending::No));
        shared.hold(&less, 1_001);
        assert_eq!((most.ending.get(), less.ending.get()), (Ending::Now, Ending::No));
    }

    #[test]
    fn a_connection_that_moved_is_not_idle_however_late_somebody_looks() {
        let shared = of_a_new_node();
        let connection = accepted(&shared, 1);
        let ending_at = |now_ms| {
            shared.close_idle(now_ms, 1_000);
            connection.ending.get()
        };
        assert_eq!(ending_at(5_000), Ending::No, "accepted in a stall before the first look");
        assert_eq!(ending_at(6_000), Ending::No);
        connection.has_moved.set(true);
        assert_eq!(ending_at(60_000), Ending::No, "it moved in a stall");
        assert_eq!(ending_at(61_000), Ending::No);
        assert_eq!(ending_at(61_001), Ending::Now);
    }
}
