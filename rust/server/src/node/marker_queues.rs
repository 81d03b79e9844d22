//! Markers of transactions that wait for the threads of the nodes that write them.

use std::{
    fmt, mem,
    sync::{Mutex, PoisonError},
};

use rota_txn::Marker;

use crate::client::marker_reply::MarkerDone;

/// A marker for one partition.
pub struct MarkerOrder {
    /// The topic.
    pub topic: String,
    /// The partition.
    pub partition: i32,
    /// The marker.
    pub marker: Marker,
    /// Receives the result.
    pub done: MarkerDone,
}

impl fmt::Debug for MarkerOrder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "MarkerOrder({}-{}: {:?})", self.topic, self.partition, self.marker)
    }
}

/// The markers left for each node, by its place.
#[derive(Debug)]
pub struct MarkerQueues(Vec<Mutex<Vec<MarkerOrder>>>);

impl MarkerQueues {
    /// Creates the queues of so many nodes.
    pub fn of(nodes: usize) -> MarkerQueues {
        MarkerQueues((0..nodes).map(|_| Mutex::default()).collect())
    }

    /// Leaves a marker for the node at a place.
    pub fn leave(&self, place: usize, order: MarkerOrder) {
        self.0[place].lock().unwrap_or_else(PoisonError::into_inner).push(order);
    }

    /// Takes the markers left for the node at a place.
    pub fn take(&self, place: usize) -> Vec<MarkerOrder> {
        mem::take(&mut *self.0[place].lock().unwrap_or_else(PoisonError::into_inner))
    }
}
