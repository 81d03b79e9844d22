//! Where a node listens: the task that accepts its connections, and the orders that stop and start it.

use std::{
    cell::RefCell,
    io,
    net::{SocketAddr, TcpListener as StdListener},
    rc::Rc,
    time::Duration,
};

use tokio::{
    net::{TcpListener, TcpStream},
    select,
    sync::Notify,
};

use super::{
    connection::{Channel, Connection},
    event_loop::EventLoop,
};
use crate::client::Client;

/// How long to wait before accepting again after an error, such as too many open files.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Where a node is to listen from now on.
#[derive(Debug)]
pub enum Listening {
    /// Connections are refused.
    Nowhere,
    /// There.
    On(StdListener),
}

/// The last order, until the task that accepts connections has followed it.
#[derive(Debug, Default)]
pub struct ListeningOrders {
    order: RefCell<Option<Listening>>,
    given: Notify,
    followed: Notify,
}

impl ListeningOrders {
    /// Gives an order, over one that has not been followed yet.
    pub fn send(&self, order: Listening) {
        self.order.replace(Some(order));
        self.given.notify_one();
    }

    /// Waits until the last order has been followed.
    pub async fn settled(&self) {
        while self.order.borrow().is_some() {
            self.followed.notified().await;
        }
    }

    fn follow(&self, listener: &mut Option<TcpListener>) {
        if let Some(order) = self.order.take() {
            *listener = match order {
                Listening::Nowhere => None,
                // A socket that was bound on this machine can be watched on it.
                Listening::On(bound) => TcpListener::from_std(bound).ok(),
            };
            self.followed.notify_one();
        }
    }
}

/// Accepts connections for as long as the node lives, where it listens.
pub async fn accept(event_loop: Rc<EventLoop>, listener: TcpListener) {
    let mut listener = Some(listener);
    let max_connections = event_loop.shared.settings.max_connections();
    let mut id = 0;
    loop {
        let accepted = select! {
            biased;
            () = event_loop.listening.given.notified() => None,
            accepted = next(listener.as_ref()) => Some(accepted),
        };
        match accepted {
            None => event_loop.listening.follow(&mut listener),
            Some(Ok(_)) if event_loop.connection_count() >= max_connections => {}
            Some(Ok((stream, peer))) => {
                id += 1;
                admit(&event_loop, id, stream, peer);
            }
            Some(Err(_)) => tokio::time::sleep(ACCEPT_PAUSE).await,
        }
    }
}

/// The next connection; never one while the node does not listen.
async fn next(listener: Option<&TcpListener>) -> io::Result<(TcpStream, SocketAddr)> {
    match listener {
        Some(listener) => listener.accept().await,
        None => std::future::pending().await,
    }
}

fn admit(event_loop: &Rc<EventLoop>, id: u64, stream: TcpStream, peer: SocketAddr) {
    // Without it answers are late, not wrong.
    let _late = stream.set_nodelay(true);
    let Ok(local) = stream.local_addr() else { return };
    let trace = event_loop.shared.trace.as_ref().map(|trace| trace.of(event_loop.node.borrow().place(), id, peer));
    let connection = Rc::new(Connection::new(id, Client::new(peer, local, trace)));
    event_loop.remember(&connection);
    tokio::task::spawn_local(Channel::new(Rc::clone(event_loop), connection, stream).serve());
}
