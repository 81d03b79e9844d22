//! State shared by the tasks of one event loop: the node, the connections, and their memory.

use std::{
    cell::{Cell, RefCell},
    collections::HashMap,
    rc::Rc,
    sync::Arc,
    time::{Duration, Instant},
};

use rota_cluster::Session;
use tokio::sync::{Notify, Semaphore};

use super::{connection::Connection, handshake::STEPS_PER_PASS, listening_orders::ListeningOrders};
use crate::{
    base::refusals::Refusal,
    client::{Client, Ending, MemberKey},
    faults::FaultId,
    node::{Node, shared_state::SharedState},
};

/// Maximum bytes of one read, and of one client's requests before others have their turn.
const READ_BYTES: usize = 16 * 1024;

/// Maximum bytes in the buffers of all connections. Beyond it, the connection with the largest buffers is closed.
pub const HELD_BYTES_MAX: usize = 1024 * 1024 * 1024;

/// The state of one event loop. It never leaves its thread, so it needs no lock.
pub struct EventLoop {
    /// The node's state.
    pub node: RefCell<Node>,
    /// The read buffer.
    pub scratch: RefCell<Box<[u8]>>,
    /// `socket.request.max.bytes`.
    pub request_max_bytes: usize,
    /// The state shared by all nodes.
    pub shared: Arc<SharedState>,
    /// Of the node of a cluster.
    session: Option<Arc<Session>>,
    connections: RefCell<HashMap<u64, Rc<Connection>>>,
    held_bytes: Cell<usize>,
    emptied: Notify,
    /// The turns of TLS handshakes.
    pub handshakes: Semaphore,
    /// Orders to start and stop listening.
    pub listening: ListeningOrders,
    started: Instant,
}

impl EventLoop {
    /// Creates the event loop of a node.
    pub fn new(shared: &Arc<SharedState>, node: Node) -> Rc<EventLoop> {
        Rc::new(EventLoop {
            request_max_bytes: shared.settings().request_max_bytes(),
            shared: Arc::clone(shared),
            node: RefCell::new(node),
            scratch: RefCell::new(vec![0; READ_BYTES].into()),
            session: shared.cluster().map(|cluster| Arc::clone(cluster.session())),
            connections: RefCell::default(),
            held_bytes: Cell::new(0),
            emptied: Notify::new(),
            handshakes: Semaphore::new(STEPS_PER_PASS),
            listening: ListeningOrders::default(),
            started: Instant::now(),
        })
    }

    /// On a node of a cluster, follows what its host has left, and unloads everything if the session is over. The caller
    /// has taken the bytes of its requests.
    pub fn check_session(&self) {
        if let Some(session) = &self.session
            && !session.is_valid()
        {
            self.node.borrow_mut().check_session();
        }
    }

    /// Returns the number of open connections.
    pub fn connection_count(&self) -> usize {
        self.connections.borrow().len()
    }

    /// Adds a connection.
    pub fn remember(&self, connection: &Rc<Connection>) {
        self.connections.borrow_mut().insert(connection.id, Rc::clone(connection));
    }

    /// Handles the panic of a request's handler: counts it and closes the client's connection. The panic message is on
    /// standard error; this adds what it means.
    pub fn panicked(&self, client: &Client) {
        self.shared.request_panicked();
        let host = client.host();
        let handled = self.node.try_borrow().ok().and_then(|node| node.api_name());
        let what = handled.map_or_else(|| "a request".to_owned(), |api| format!("a request of {api}"));
        eprintln!("rota: {what} from {host} caused the panic above and its connection is closed: a bug in rota.");
    }

    /// Records that a connection is closed because of its security.
    pub fn refused(&self, client: &Client, refusal: Refusal) {
        self.shared.refusals().record(refusal, client.host().trim_start_matches('/'));
    }

    /// Removes a connection whose task has ended.
    pub fn forget(&self, connection: &Connection) {
        self.connections.borrow_mut().remove(&connection.id);
        if self.connection_count() == 0 {
            self.emptied.notify_one();
        }
        let held = self.held_bytes.get();
        self.held_bytes.set(held.saturating_sub(connection.held_bytes.take()));
    }

    /// Records that `connection` has `bytes` in its buffers. If all connections together exceed the limit, closes the
    /// one with the most; ordinary requests never reach that.
    pub fn hold(&self, connection: &Connection, bytes: usize) {
        let before = connection.held_bytes.replace(bytes);
        let held = (self.held_bytes.get() + bytes).saturating_sub(before);
        self.held_bytes.set(held);
        if bytes > before && held > HELD_BYTES_MAX {
            let connections = self.connections.borrow();
            if let Some(largest) = connections.values().max_by_key(|connection| connection.held_bytes.get()) {
                largest.client.end(Ending::Now);
            }
        }
    }

    /// Pauses or resumes the connections of `member`.
    pub fn pause(&self, member: &MemberKey, paused: bool) {
        for connection in self.connections.borrow().values() {
            connection.client.pause_if(member, paused);
        }
    }

    /// Wakes the task of every connection.
    pub fn wake_all(&self) {
        self.connections.borrow().values().for_each(|connection| connection.client.notify().notify());
    }

    /// Whether a network fault still delays answers.
    pub fn fault_lasts(&self, fault: FaultId) -> bool {
        self.shared.controls().fault_lasts(fault)
    }

    /// Ends every connection.
    pub fn end_all(&self, ending: Ending) {
        for connection in self.connections.borrow().values() {
            connection.client.end(ending);
        }
    }

    /// Waits until no connection is open.
    pub async fn emptied(&self) {
        while self.connection_count() > 0 {
            self.emptied.notified().await;
        }
    }

    /// Closes idle connections repeatedly: each at most two pauses after `max_idle_ms`.
    pub async fn sweep_idle(self: Rc<EventLoop>, max_idle_ms: u64) {
        let pause = Duration::from_millis((max_idle_ms / 8).clamp(50, 60_000));
        loop {
            tokio::time::sleep(pause).await;
            self.close_idle(self.started.elapsed().as_millis() as u64, max_idle_ms);
        }
    }

    /// Closes connections without movement for `max_idle_ms`. A waiting request does not count as idle while its client
    /// is connected. Movement since the last check counts as now, so that no request reads a clock.
    pub(crate) fn close_idle(&self, now_ms: u64, max_idle_ms: u64) {
        for connection in self.connections.borrow().values() {
            if connection.has_moved.take() {
                connection.active_ms.set(now_ms);
            }
            // The task of a connection whose answer is there may not have written it yet.
            let client = &connection.client;
            let waits = (client.is_parked() || client.is_awaiting()) && !client.is_gone();
            if !waits && now_ms.saturating_sub(connection.active_ms.get()) > max_idle_ms {
                connection.client.end(Ending::Now);
            }
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::{base::owners::FIRST_NODE, node::shared_state::tests::in_memory};

    pub(crate) fn of_a_new_node() -> Rc<EventLoop> {
        let shared = Arc::new(in_memory());
        EventLoop::new(&shared, Node::new(&shared, FIRST_NODE))
    }

    fn accepted(event_loop: &EventLoop, id: u64) -> Rc<Connection> {
        let address = ([127, 0, 0, 1], 1).into();
        let connection = Rc::new(Connection::new(id, Client::new(address, address, Arc::default(), None)));
        event_loop.remember(&connection);
        connection
    }

    #[test]
    fn when_all_connections_hold_too_much_the_one_that_holds_most_is_closed() {
        let event_loop = of_a_new_node();
        let [most, less] = [1, 2].map(|id| accepted(&event_loop, id));
        event_loop.hold(&most, HELD_BYTES_MAX - 1_000);
        event_loop.hold(&less, 1_000);
        assert_eq!((most.client.ending(), less.client.ending()), (Ending::No, Ending::No));
        event_loop.hold(&less, 1_001);
        assert_eq!((most.client.ending(), less.client.ending()), (Ending::Now, Ending::No));
    }

    #[test]
    fn a_connection_is_not_idle_while_its_answer_is_not_yet_written() {
        let event_loop = of_a_new_node();
        let connection = accepted(&event_loop, 1);
        event_loop.close_idle(0, 1_000);
        connection.client.set_awaiting(true);
        event_loop.close_idle(5_000, 1_000);
        assert_eq!(connection.client.ending(), Ending::No);
        connection.client.set_awaiting(false);
        event_loop.close_idle(6_000, 1_000);
        assert_eq!(connection.client.ending(), Ending::Now);
    }

    #[test]
    fn a_connection_that_moved_is_not_idle_however_late_somebody_looks() {
        let event_loop = of_a_new_node();
        let connection = accepted(&event_loop, 1);
        let ending_at = |now_ms| {
            event_loop.close_idle(now_ms, 1_000);
            connection.client.ending()
        };
        assert_eq!(ending_at(5_000), Ending::No, "accepted in a stall before the first look");
        assert_eq!(ending_at(6_000), Ending::No);
        connection.has_moved.set(true);
        assert_eq!(ending_at(60_000), Ending::No, "it moved in a stall");
        assert_eq!(ending_at(61_000), Ending::No);
        assert_eq!(ending_at(61_001), Ending::Now);
    }
}
