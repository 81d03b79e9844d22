//! The partitions whose data each waiting Fetch waits for.

use std::sync::Arc;

use kafka_protocol::messages::FetchRequest;
use tokio::sync::Notify;
use uuid::Uuid;

use super::{Topics, refusal::BY_ID_SINCE};

/// Identifies one watch; never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WatchId(u64);

/// The notification of a watch, and the number of partitions that hold its id.
#[derive(Debug)]
pub(super) struct Watch {
    notify: Arc<Notify>,
    partitions: usize,
}

/// Numbers about the watches of a node.
#[derive(Debug, Default)]
pub(super) struct WatchCounts {
    /// The id of the next watch.
    next: u64,
    /// Ids in partitions, counted per partition.
    held: usize,
    /// Those of watches that have not ended.
    active: usize,
}

impl Topics {
    /// Notifies `notify` whenever a partition of the request gets data, until `unwatch`; or once and no more, when one is
    /// deleted.
    pub fn watch(&mut self, request: &FetchRequest, version: i16, notify: &Arc<Notify>) -> WatchId {
        let id = WatchId(self.watch_counts.next);
        self.watch_counts.next += 1;
        let mut partitions = 0;
        let table = Arc::clone(&self.table);
        for asked in &request.topics {
            let found = self.asked(version >= BY_ID_SINCE, &asked.topic, asked.topic_id);
            let Some(topic) = found.ok().and_then(|(name, _)| table.topic(name)) else { continue };
            for wanted in &asked.partitions {
                if self.led(topic, wanted.partition).is_err() {
                    continue;
                }
                let partition = self.data.entry((topic.id, wanted.partition)).or_default();
                // A repeated partition is already watched, so a watch costs no more than its partitions.
                if partition.watches.last() != Some(&id) {
                    partition.watches.push(id);
                    partitions += 1;
                }
            }
        }
        self.watch_counts.held += partitions;
        self.watch_counts.active += partitions;
        self.watches.insert(id, Watch { notify: Arc::clone(notify), partitions });
        id
    }

    /// Ends a watch; no effect if it has ended. Its partitions may keep its id for a while: to look for it in each would cost
    /// as much as all other watches of them.
    pub fn unwatch(&mut self, id: WatchId) {
        self.end_watch(id);
        // Each id that goes here was counted once before, and each partition is passed for one that goes.
        if self.watch_counts.held > 2 * self.watch_counts.active + self.data.len() {
            let watches = &self.watches;
            for partition in self.data.values_mut() {
                partition.watches.retain(|id| watches.contains_key(id));
                partition.watches.shrink_to(2 * partition.watches.len());
            }
            self.watch_counts.held = self.watch_counts.active;
        }
    }

    fn end_watch(&mut self, id: WatchId) -> Option<Watch> {
        let watch = self.watches.remove(&id)?;
        self.watch_counts.active -= watch.partitions;
        Some(watch)
    }

    /// Whether a watch has not ended.
    pub fn is_watching(&self, id: WatchId) -> bool {
        self.watches.contains_key(&id)
    }

    /// Returns a number that changes whenever a watch could have been notified.
    pub fn changes(&self) -> u64 {
        self.changes
    }

    /// Returns the number of active watches.
    pub fn watching(&self) -> usize {
        self.watches.len()
    }

    /// Returns the number of watched partitions, counted per watch.
    pub fn watched_partitions(&self) -> usize {
        self.watch_counts.active
    }

    /// Returns the number of ids of watches in all partitions, with those of watches that have ended.
    pub fn held_watch_ids(&self) -> usize {
        self.watch_counts.held
    }

    /// Notifies the watches of a partition.
    pub(super) fn wake(&mut self, place: (Uuid, i32)) {
        self.changes += 1;
        if self.watch_counts.held == 0 {
            return;
        }
        let Some(partition) = self.data.get_mut(&place) else { return };
        let (watches, before) = (&self.watches, partition.watches.len());
        partition.watches.retain(|id| watches.get(id).map(|watch| watch.notify.notify_one()).is_some());
        self.watch_counts.held -= before - partition.watches.len();
    }

    /// Notifies and ends the watches of a partition that is gone.
    pub(super) fn end_watches(&mut self, ids: Vec<WatchId>) {
        self.watch_counts.held -= ids.len();
        for id in ids {
            if let Some(watch) = self.end_watch(id) {
                watch.notify.notify_one();
            }
        }
    }
}
