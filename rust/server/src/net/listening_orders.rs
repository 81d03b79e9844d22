//! The orders that stop and start the listening of a node.

use std::{cell::RefCell, net::TcpListener as StdListener};

use tokio::{net::TcpListener, sync::Notify};

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

    /// Waits for an order.
    pub async fn given(&self) {
        self.given.notified().await;
    }

    /// Follows the last order.
    pub fn follow(&self, listener: &mut Option<TcpListener>) {
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
