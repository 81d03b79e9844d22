//! How a partition of `__consumer_offsets` goes from one node to another: the old one unloads it, the new one fences
//! the older epoch, replays what is durable and goes on (docs/protocol.md §15).
//!
//! Replaying is done in slices, between which the node serves everybody else; meanwhile the gate answers for the
//! partition (§3).

use std::{rc::Rc, sync::mpsc::SyncSender};

use rota_core::{
    coordinator::{Coordinator, LogEntry},
    records::Record,
};
use rota_log::{LogError, StoredRecord};
use tokio::sync::Notify;

use crate::{
    error::ServerError,
    members::{MemberKey, Voice},
    node::Node,
    owners::Owner,
    shared::Shared,
};

/// Records that are replayed before others have their turn.
const SLICE_RECORDS: usize = 500;

/// A partition that is being loaded.
#[derive(Debug)]
pub struct Loading {
    epoch: u32,
    /// The offset of the next record to replay.
    next: i64,
    /// Where the log ended when it was opened: nothing of older epochs comes behind it.
    end: i64,
    /// Topics that went meanwhile.
    pub(crate) deleted: Vec<String>,
    /// Is told when loading goes on after it was held.
    resumed: Rc<Notify>,
}

impl Loading {
    /// Of the incarnation that is being loaded.
    pub fn epoch(&self) -> u32 {
        self.epoch
    }
}

/// How loading stands.
#[derive(Debug)]
pub enum Progress {
    /// There is more to replay.
    More,
    /// It stands still until this is told.
    Held(Rc<Notify>),
    /// The partition is loaded, or is not this node's any more.
    Over,
    /// The log cannot be read.
    Failed(ServerError),
}

/// What a node gives away with a partition.
#[derive(Debug)]
pub struct Given {
    /// Its epoch there.
    pub epoch: u32,
    /// Who speaks for its members.
    pub voices: Vec<(MemberKey, Voice)>,
}

impl Node {
    /// Gives up a partition: whoever is parked is answered `NOT_COORDINATOR`, and so is whoever comes. `None`: this
    /// node does not own it.
    pub fn give_up(&mut self, partition: u32) -> Option<Given> {
        // What has become durable by now is told; the rest never is.
        self.settle();
        let epoch = self.coordinator(partition)?.epoch();
        self.on_partition(partition, |coordinator, now, sink| coordinator.unload(now, sink));
        self.effects.log.forget(partition);
        self.loading.remove(&partition);
        self.coordinators[partition as usize] = None;
        let partitions = self.partitions();
        let voices = self.members.take(|group_id| rota_core::partition_for(group_id, partitions) == partition);
        Some(Given { epoch, voices })
    }

    /// Takes a partition over under a new epoch and begins to load it; an empty one is loaded at once.
    pub fn take_over(&mut self, partition: u32, epoch: u32, voices: Vec<(MemberKey, Voice)>) -> Result<(), LogError> {
        let end = self.commons.log.open(partition, epoch)?;
        let loading = Loading { epoch, next: 0, end, deleted: Vec::new(), resumed: Rc::default() };
        self.coordinators[partition as usize] = Some(Coordinator::new(self.settings.coordinator(), partition, epoch));
        self.loading.insert(partition, loading);
        self.members.put(voices);
        self.commons.owners.set(partition, Owner { node_id: self.place.node_id, epoch });
        if end == 0 && !self.loads_held {
            self.finish_loading(partition);
        }
        Ok(())
    }

    /// Replays the next slice of a partition that this node has taken over under `epoch`.
    pub fn load_slice(&mut self, partition: u32, epoch: u32) -> Progress {
        let Some(loading) = self.loading.get_mut(&partition).filter(|loading| loading.epoch == epoch) else {
            return Progress::Over;
        };
        if self.loads_held {
            return Progress::Held(Rc::clone(&loading.resumed));
        }
        let (from, end) = (loading.next, loading.end);
        let read = self.commons.log.read(partition, from, SLICE_RECORDS);
        let slice: Vec<StoredRecord> = match read {
            Ok(slice) => slice.into_iter().filter(|stored| stored.offset < end).collect(),
            Err(error) => return self.fail_loading(partition, from, &error.to_string()),
        };
        let Some(last) = slice.last() else {
            self.finish_loading(partition);
            return Progress::Over;
        };
        loading.next = last.offset + 1;
        for stored in slice {
            if let Err(reason) = self.replay(partition, &stored) {
                return self.fail_loading(partition, stored.offset, &reason);
            }
        }
        Progress::More
    }

    fn replay(&mut self, partition: u32, stored: &StoredRecord) -> Result<(), String> {
        let record = Record::decode(&stored.record.key, stored.record.value.as_deref());
        let record = record.map_err(|error| error.to_string())?;
        let entry = LogEntry { offset: stored.offset as u64, timestamp_ms: stored.timestamp_ms, record };
        if let Some(coordinator) = self.coordinators[partition as usize].as_mut() {
            coordinator.replay(&entry);
        }
        Ok(())
    }

    fn finish_loading(&mut self, partition: u32) {
        let Some(loading) = self.loading.remove(&partition) else { return };
        let deleted: Vec<&str> = loading.deleted.iter().map(String::as_str).collect();
        self.on_partition(partition, |coordinator, now, sink| {
            coordinator.loaded(now, sink);
            if !deleted.is_empty() {
                coordinator.topics_deleted(&deleted, now, sink);
            }
        });
    }

    fn fail_loading(&mut self, partition: u32, offset: i64, reason: &str) -> Progress {
        self.loading.remove(&partition);
        if let Some(coordinator) = self.coordinators[partition as usize].as_mut() {
            coordinator.load_failed();
        }
        Progress::Failed(ServerError::LoadFailed { partition, offset, reason: reason.to_owned() })
    }

    /// From now on loading stands still: the gate answers for partitions that are taken over.
    pub fn hold_loads(&mut self) {
        self.loads_held = true;
    }

    /// Loading goes on.
    pub fn release_loads(&mut self) {
        self.loads_held = false;
        self.loading.values().for_each(|loading| loading.resumed.notify_one());
    }
}

/// Loads a partition that the node has taken over, slice by slice, and reports how it ended.
pub async fn load(shared: Rc<Shared>, partition: u32, epoch: u32, report: Option<SyncSender<Result<(), ServerError>>>) {
    let ended = loop {
        let progress = shared.node.borrow_mut().load_slice(partition, epoch);
        match progress {
            Progress::More => tokio::task::yield_now().await,
            Progress::Held(resumed) => resumed.notified().await,
            Progress::Over => break Ok(()),
            Progress::Failed(error) => break Err(error),
        }
    };
    // Whoever asked may not wait for it.
    let _nobody = report.map(|report| report.send(ended));
}
