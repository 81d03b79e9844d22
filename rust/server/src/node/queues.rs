//! What threads leave for the threads of nodes.

use std::{
    fmt, mem,
    sync::{Arc, Mutex, PoisonError},
};

use rota_core::error::ErrorCode;
use rota_txn::{Answer, Marker};

use crate::client::caller_reply::Done;

/// A marker for one partition.
pub struct MarkerOrder {
    /// The topic.
    pub topic: String,
    /// The partition.
    pub partition: i32,
    /// The transactional id, if it is known.
    pub transactional_id: Option<Arc<str>>,
    /// The marker.
    pub marker: Marker,
    /// Receives the result.
    pub done: Done,
}

impl fmt::Debug for MarkerOrder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "MarkerOrder({}-{}: {:?})", self.topic, self.partition, self.marker)
    }
}

/// Markers that a test keeps from their leaders, with the ids of these nodes; `None`: markers are not held.
pub type HeldMarkers = Mutex<Option<Vec<(i32, MarkerOrder)>>>;

/// An answer to a question of a node, by the number of the question.
#[derive(Debug)]
pub enum Told {
    /// A coordinator's answer.
    Answered(u64, Answer),
    /// The result of one marker of the question, by its position.
    Marked(u64, usize, Result<(), ErrorCode>),
    /// Codes of the partitions of an admission; `None`: the coordinator's server did not answer.
    Admitted(u64, Option<Vec<i16>>),
}

/// What is left for each node, by its place. The thread that leaves something wakes the node.
#[derive(Debug)]
pub struct Queues<T>(Vec<Mutex<Vec<T>>>);

impl<T> Queues<T> {
    /// Creates the queues of so many nodes.
    pub fn of(nodes: usize) -> Queues<T> {
        Queues((0..nodes).map(|_| Mutex::default()).collect())
    }

    /// Leaves something for the node at a place.
    pub fn leave(&self, place: usize, what: T) {
        self.0[place].lock().unwrap_or_else(PoisonError::into_inner).push(what);
    }

    /// Takes what was left for the node at a place.
    pub fn take(&self, place: usize) -> Vec<T> {
        mem::take(&mut *self.0[place].lock().unwrap_or_else(PoisonError::into_inner))
    }
}
