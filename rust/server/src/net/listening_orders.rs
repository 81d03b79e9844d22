//! Orders that start and stop the listening of a node.

use std::{
    cell::RefCell,
    io,
    net::{Shutdown, TcpListener as StdListener},
};

use socket2::SockRef;
use tokio::{net::TcpListener, sync::Notify};

use super::listening::Bound;

/// Makes sockets that this thread polls.
pub fn polled(bound: Vec<Bound<StdListener>>) -> io::Result<Vec<Bound<TcpListener>>> {
    let one = |Bound { listener, socket }| Ok(Bound { listener, socket: TcpListener::from_std(socket)? });
    bound.into_iter().map(one).collect()
}

/// The sockets that a node listens on.
#[derive(Debug)]
pub struct Sockets(pub Vec<Bound<TcpListener>>);

impl Drop for Sockets {
    /// Ends the listening also if a copy of this process has a descriptor, which closing would leave open.
    fn drop(&mut self) {
        for Bound { socket, .. } in &self.0 {
            // Not all systems can.
            let _closed = SockRef::from(socket).shutdown(Shutdown::Both);
        }
    }
}

/// The listening state of a node.
#[derive(Debug)]
pub enum Listening {
    /// Connections are refused.
    Nowhere,
    /// The node listens on these sockets.
    On(Vec<Bound<StdListener>>),
}

/// The last order, until the accepting task has followed it.
#[derive(Debug, Default)]
pub struct ListeningOrders {
    order: RefCell<Option<Listening>>,
    given: Notify,
    followed: Notify,
}

impl ListeningOrders {
    /// Gives an order, replacing one that was not followed yet.
    pub fn send(&self, order: Listening) {
        self.order.replace(Some(order));
        self.given.notify_one();
    }

    /// Waits until the last order was followed.
    pub async fn settled(&self) {
        while self.order.borrow().is_some() {
            self.followed.notified().await;
        }
    }

    /// Waits for an order.
    pub async fn given(&self) {
        self.given.notified().await;
    }

    /// Follows the last order.
    pub fn follow(&self, sockets: &mut Sockets) {
        if let Some(order) = self.order.take() {
            *sockets = Sockets(match order {
                Listening::Nowhere => Vec::new(),
                // A socket bound on this machine can be polled on it.
                Listening::On(bound) => polled(bound).unwrap_or_default(),
            });
            self.followed.notify_one();
        }
    }
}
