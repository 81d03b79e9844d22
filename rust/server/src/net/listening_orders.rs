//! Orders that start and stop the listening of a node.

use std::{cell::RefCell, net::TcpListener as StdListener};

use tokio::{net::TcpListener, sync::Notify};

/// The listening state of a node.
#[derive(Debug)]
pub enum Listening {
    /// Connections are refused.
    Nowhere,
    /// The node listens on this socket.
    On(StdListener),
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
    pub fn follow(&self, listener: &mut Option<TcpListener>) {
        if let Some(order) = self.order.take() {
            *listener = match order {
                Listening::Nowhere => None,
                // A socket bound on this machine can be polled on it.
                Listening::On(bound) => TcpListener::from_std(bound).ok(),
            };
            self.followed.notify_one();
        }
    }
}
