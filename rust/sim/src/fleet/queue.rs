//! Events by time, then by the order of scheduling.

use std::{cmp::Reverse, collections::BinaryHeap};

struct Entry<T> {
    at_ms: u64,
    order: u64,
    what: T,
}

impl<T> Entry<T> {
    fn key(&self) -> Reverse<(u64, u64)> {
        Reverse((self.at_ms, self.order))
    }
}

impl<T> PartialEq for Entry<T> {
    fn eq(&self, other: &Entry<T>) -> bool {
        self.key() == other.key()
    }
}

impl<T> Eq for Entry<T> {}

impl<T> PartialOrd for Entry<T> {
    fn partial_cmp(&self, other: &Entry<T>) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl<T> Ord for Entry<T> {
    fn cmp(&self, other: &Entry<T>) -> std::cmp::Ordering {
        self.key().cmp(&other.key())
    }
}

/// A queue in virtual time.
pub struct Queue<T> {
    heap: BinaryHeap<Entry<T>>,
    decided: u64,
}

impl<T> Default for Queue<T> {
    fn default() -> Queue<T> {
        Queue { heap: BinaryHeap::new(), decided: 0 }
    }
}

impl<T> Queue<T> {
    /// Schedules an event, after earlier ones of the same time.
    pub fn push(&mut self, at_ms: u64, what: T) {
        self.heap.push(Entry { at_ms, order: self.decided, what });
        self.decided += 1;
    }

    /// Takes the next event, with its time, if it is not after `end_ms`.
    pub fn pop_until(&mut self, end_ms: u64) -> Option<(u64, T)> {
        if self.heap.peek()?.at_ms > end_ms {
            return None;
        }
        self.heap.pop().map(|entry| (entry.at_ms, entry.what))
    }
}
