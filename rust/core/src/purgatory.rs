//! The purgatory: operations that wait for a condition or for their deadline (`docs/protocol.md` §16).
//!
//! An operation is registered under any number of keys. Code that changes something under a key asks [`Purgatory::check`]
//! which operations wait there, tests them, and [`completes`](Purgatory::complete) those that are done. An operation
//! that is not completed expires at its deadline. It leaves the purgatory once, with its deadline and watches: the
//! first caller gets it. There are no callbacks and no threads.
use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

pub use crate::wheel::Due;
use crate::wheel::{TimerId, Wheel};

/// Identifies one operation of a purgatory. The id is stale after the operation completed or expired.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct OpId(TimerId);

impl OpId {
    /// Returns the id as a number, never zero.
    pub const fn number(self) -> u64 {
        self.0.number()
    }

    /// Returns the id with this [`number`](Self::number); `None` if no id has it.
    pub const fn from_number(number: u64) -> Option<Self> {
        match TimerId::from_number(number) {
            Some(id) => Some(Self(id)),
            None => None,
        }
    }
}

/// An operation and its watches. Without watches it takes no memory for them.
#[derive(Clone, Debug, Serialize, Deserialize)]
enum Watched<K, T> {
    /// An operation with a deadline only, as most have.
    ByNobody(T),
    ByKeys(Box<Watch<K, T>>),
}

impl<K, T> Watched<K, T> {
    fn operation(&self) -> &T {
        match self {
            Watched::ByNobody(operation) => operation,
            Watched::ByKeys(watch) => &watch.operation,
        }
    }

    fn operation_mut(&mut self) -> &mut T {
        match self {
            Watched::ByNobody(operation) => operation,
            Watched::ByKeys(watch) => &mut watch.operation,
        }
    }

    fn watch(&self) -> Option<&Watch<K, T>> {
        match self {
            Watched::ByNobody(_) => None,
            Watched::ByKeys(watch) => Some(watch),
        }
    }

    fn keys(&self) -> &[K] {
        self.watch().map_or(&[], |watch| &watch.keys)
    }
}

/// An operation with watches.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Watch<K, T> {
    operation: T,
    /// The position in the watching order.
    watching: u64,
    keys: Vec<K>,
}

/// Operations of type `T`, each with a deadline and watched under keys of type `K`.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(try_from = "Stored<K, T>")]
#[serde(bound(serialize = "K: Serialize, T: Serialize"))]
#[serde(bound(deserialize = "K: Ord + Clone + Deserialize<'de>, T: Deserialize<'de>"))]
pub struct Purgatory<K: Ord + Clone, T> {
    wheel: Wheel<Watched<K, T>>,
    /// The last position given in the watching order.
    watchings: u64,
    /// Operations by key, in watching order. A key without operations is absent.
    #[serde(skip)]
    watchers: BTreeMap<K, BTreeMap<u64, OpId>>,
}

impl<K: Ord + Clone, T> Purgatory<K, T> {
    /// Creates an empty purgatory at time `now_ms`.
    pub fn new(now_ms: u64) -> Self {
        Self { wheel: Wheel::new(now_ms), watchings: 0, watchers: BTreeMap::new() }
    }

    /// Returns the time of the last advance in milliseconds.
    pub fn now_ms(&self) -> u64 {
        self.wheel.now_ms()
    }

    /// Counts the waiting operations.
    pub fn len(&self) -> usize {
        self.wheel.len()
    }

    /// Whether no operation waits.
    pub fn is_empty(&self) -> bool {
        self.wheel.is_empty()
    }

    /// Adds an `operation` that waits until `deadline_ms`, watched under `keys`. A repeated key counts once.
    ///
    /// An operation without keys only has its deadline. Its id can rearm or cancel it.
    pub fn watch(&mut self, deadline_ms: u64, keys: &[K], operation: T) -> OpId {
        if keys.is_empty() {
            return OpId(self.wheel.arm(deadline_ms, Watched::ByNobody(operation)));
        }
        self.watchings += 1;
        let watching = self.watchings;
        let watch = Box::new(Watch { operation, watching, keys: keys.to_vec() });
        let id = OpId(self.wheel.arm(deadline_ms, Watched::ByKeys(watch)));
        for key in keys {
            self.watchers.entry(key.clone()).or_default().insert(watching, id);
        }
        id
    }

    /// Returns the operations registered under `key`, in the order of registration. The caller tests them and completes
    /// those that are done.
    pub fn check(&self, key: &K) -> Vec<OpId> {
        self.watchers.get(key).map_or_else(Vec::new, |operations| operations.values().copied().collect())
    }

    /// Counts the operations that `key` watches.
    pub fn watched(&self, key: &K) -> usize {
        self.watchers.get(key).map_or(0, BTreeMap::len)
    }

    /// Returns a waiting operation; `None` if it is gone.
    pub fn get(&self, id: OpId) -> Option<&T> {
        self.wheel.get(id.0).map(Watched::operation)
    }

    /// Returns a waiting operation mutably; `None` if it is gone.
    pub fn get_mut(&mut self, id: OpId) -> Option<&mut T> {
        self.wheel.get_mut(id.0).map(Watched::operation_mut)
    }

    /// Returns an operation's deadline in milliseconds; `None` if it is gone.
    pub fn deadline(&self, id: OpId) -> Option<u64> {
        self.wheel.deadline(id.0)
    }

    /// Iterates over every operation with its deadline, in an arbitrary but deterministic order.
    pub fn iter(&self) -> impl Iterator<Item = (OpId, u64, &T)> {
        self.wheel.iter().map(|(id, deadline_ms, watched)| (OpId(id), deadline_ms, watched.operation()))
    }

    /// Iterates over every operation with its deadline and keys, in expiry order.
    pub fn in_firing_order(&self) -> impl Iterator<Item = (u64, &[K], &T)> {
        let firing = self.wheel.in_firing_order().into_iter();
        firing.map(|(deadline_ms, watched)| (deadline_ms, watched.keys(), watched.operation()))
    }

    /// Sets a new deadline in O(1), without allocation. Returns false if the operation is gone.
    pub fn rearm(&mut self, id: OpId, deadline_ms: u64) -> bool {
        self.wheel.rearm(id.0, deadline_ms)
    }

    /// Removes an operation with its deadline and watches. Returns `None` if it was completed before or expired.
    pub fn complete(&mut self, id: OpId) -> Option<T> {
        let watched = self.wheel.cancel(id.0)?;
        Some(self.unwatch(watched))
    }

    /// Advances to `now_ms` and finds the expired operations, by (deadline, arming order); see [`Wheel::advance`].
    pub fn advance(&mut self, now_ms: u64) -> Due {
        self.wheel.advance(now_ms)
    }

    /// Removes the next expired operation with its watches. Skips operations completed or rearmed since.
    pub fn take_expired(&mut self, due: &mut Due) -> Option<(OpId, u64, T)> {
        let (id, deadline_ms, watched) = self.wheel.take_due(due)?;
        Some((OpId(id), deadline_ms, self.unwatch(watched)))
    }

    /// Returns when to advance next, in milliseconds: at or before every deadline. `None` if nothing waits.
    pub fn next_deadline(&self) -> Option<u64> {
        self.wheel.next_deadline()
    }

    fn unwatch(&mut self, watched: Watched<K, T>) -> T {
        let watch = match watched {
            Watched::ByNobody(operation) => return operation,
            Watched::ByKeys(watch) => *watch,
        };
        for key in &watch.keys {
            if let Some(operations) = self.watchers.get_mut(key) {
                operations.remove(&watch.watching);
                if operations.is_empty() {
                    self.watchers.remove(key);
                }
            }
        }
        watch.operation
    }
}

/// The serialized form: without watchers, which are rebuilt from each operation's keys.
#[derive(Deserialize)]
struct Stored<K, T> {
    wheel: Wheel<Watched<K, T>>,
    watchings: u64,
}

impl<K: Ord + Clone, T> TryFrom<Stored<K, T>> for Purgatory<K, T> {
    type Error = &'static str;

    fn try_from(stored: Stored<K, T>) -> Result<Self, Self::Error> {
        let Stored { wheel, watchings } = stored;
        if watchings > u64::MAX / 2 {
            return Err("the purgatory's watching number is out of range");
        }
        let mut watchers: BTreeMap<K, BTreeMap<u64, OpId>> = BTreeMap::new();
        for (id, _, watched) in wheel.iter() {
            let Some(watch) = watched.watch() else { continue };
            if watch.watching > watchings {
                return Err("an operation of the purgatory was watched after the last watching");
            }
            for key in &watch.keys {
                let before = watchers.entry(key.clone()).or_default().insert(watch.watching, OpId(id));
                if before.is_some_and(|other| other != OpId(id)) {
                    return Err("two operations of the purgatory have one watching number");
                }
            }
        }
        Ok(Self { wheel, watchings, watchers })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::operations::{Operation, WatchKey};

    /// What docs/benchmarks.md says that a timer carries.
    #[test]
    fn an_operation_that_nothing_watches_takes_no_room_for_that() {
        assert_eq!(size_of::<Option<Watched<WatchKey, Operation>>>(), size_of::<Operation>());
    }
}
