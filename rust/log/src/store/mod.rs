//! Partitions in Kafka's layout on disk, with group commit.
//!
//! A [`Store`] is single-threaded and reads a clock only for timing syncs. [`Store::pass`] makes commands durable;
//! [`Store::next_task`] returns background work. `SegmentLog` runs it on its own threads.
//!
//! Appends go to the write-ahead file that all partitions share, which each pass syncs, and in the same pass to the
//! segments without a sync. Once the write-ahead file has `wal_bytes`, a new one begins. A checkpoint then syncs the
//! segments written meanwhile, records this in `rota.checkpoint` and removes the old file. So after a crash, segments
//! are valid up to the checkpoint, and the write-ahead files have the rest.
//!
//! INVARIANT: S26. A command has its outcome after the sync of its frame.

mod adopt;
mod ahead;
mod checkpoint;
mod compaction;
mod found;
mod layout;
mod lives;
mod mend;
mod open;
mod opened;
mod partition;
mod pass;
mod repair;
mod rewrite;
mod scan;
mod segment;
mod side_files;
mod times;
mod view;
mod wal;

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use crate::{Histogram, files::Files};

pub use ahead::{Ahead, ahead};
pub use checkpoint::Task;
pub use compaction::compact_batches;
pub use layout::is_topic;
pub use mend::{recover, repair};
pub use opened::{OpenError, Report};
pub use pass::{Command, Outcome, PartitionHandle};
pub use repair::{Loss, Repaired};
pub use side_files::SideFile;
pub use view::{PAYLOAD_BYTES_MAX, PartitionView, Slice, records_in_place};

use partition::Partition;
use segment::{Segment, Walk};
use wal::Wal;

/// When an append counts as durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// After a sync to the device: a power failure loses no acknowledged append.
    Fsync,
    /// After the write to the operating system: only a failure of the machine can lose acknowledged appends.
    Os,
}

/// How a data directory is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Writes a directory of rota; only reads one of Kafka.
    Own,
    /// Takes over a directory of Kafka.
    Adopt,
    /// Writes a directory of rota, and gives up what damaged shared files no longer have.
    Salvage,
    /// Changes nothing: recovery happens in memory. Another process may write the directory meanwhile.
    Read,
    /// A directory of Kafka, only read.
    ReadForeign,
}

impl Access {
    fn is_read_only(self) -> bool {
        matches!(self, Access::Read | Access::ReadForeign)
    }

    /// Whether opening completes the segments from the write-ahead files.
    fn recovers(self) -> bool {
        self != Access::ReadForeign
    }
}

/// Options of a store.
#[derive(Clone, Debug)]
pub struct StoreOptions {
    /// When an append counts as durable.
    pub durability: Durability,
    /// Maximum size of a segment in bytes. A larger batch gets its own segment.
    pub segment_bytes: u64,
    /// Maximum size of a batch in bytes.
    pub batch_bytes_max: usize,
    /// A checkpoint begins once the write-ahead file, or the unsynced bytes of segments, reach this size in bytes.
    pub wal_bytes: u64,
    /// Bytes by which the write-ahead file allocates blocks.
    pub wal_reserve_bytes: u64,
    /// The cluster id for `meta.properties` of a new directory.
    pub cluster_id: String,
    /// How the directory is opened.
    pub access: Access,
    /// Whether a start after a run with [`Durability::Os`] begins a new epoch in each partition outside of
    /// `compacted_topics`. A power failure may have taken records, whose offsets are given again: readers that were beyond
    /// them see it by the epoch, as in Kafka, where each new leader has its own.
    pub raises_epochs: bool,
    /// Topics that keep the newest record of each key.
    pub compacted_topics: Vec<String>,
    /// Time that a tombstone stays after the first compaction that reads it, in milliseconds.
    pub delete_retention_ms: i64,
    /// Maximum keys of one compaction, unless one segment alone has more.
    pub compaction_keys_max: usize,
    /// Compaction needs at least this share of new bytes in the older segments, in percent.
    pub cleanable_percent_min: u64,
}

impl Default for StoreOptions {
    fn default() -> Self {
        StoreOptions {
            durability: Durability::Fsync,
            segment_bytes: 100 << 20,
            batch_bytes_max: 1_048_588,
            wal_bytes: 32 << 20,
            wal_reserve_bytes: 1 << 20,
            cluster_id: "rota".to_owned(),
            access: Access::Own,
            raises_epochs: false,
            compacted_topics: vec!["__consumer_offsets".to_owned()],
            delete_retention_ms: 86_400_000,
            compaction_keys_max: 2_000_000,
            cleanable_percent_min: 50,
        }
    }
}

/// An open data directory.
#[derive(Debug)]
pub struct Store {
    files: Arc<dyn Files>,
    dir: PathBuf,
    options: StoreOptions,
    /// By handle; `None` after a deletion.
    partitions: Vec<Option<Partition>>,
    names: pass::Names,
    wal: Wal,
    /// Whether names in the data directory itself changed since the last checkpoint.
    names_changed: bool,
    syncs: Histogram,
    /// Bytes written to segments since the last checkpoint, if that differs from the write-ahead file's size.
    unsynced_bytes: u64,
    /// Whether segments can go after a checkpoint, however little was written.
    checkpoint_due: bool,
    /// Remaining directories of deleted partitions.
    leftovers: Vec<PathBuf>,
    stopped: Option<Arc<str>>,
    /// Current write failures with their reasons, oldest first; `None`: of what all partitions share.
    failing: Vec<(Option<PartitionHandle>, Arc<str>)>,
    /// Number of failed writes since the start, and the reason of the last.
    failures: (u64, Option<Arc<str>>),
    in_task: bool,
    compactions: u64,
    last_compaction_error: Option<String>,
    _lock: Option<LockGuard>,
}

/// Holds the lock; hidden from `Debug`.
struct LockGuard(#[expect(dead_code, reason = "it is held, not looked at")] crate::files::Lock);

impl std::fmt::Debug for LockGuard {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "LockGuard")
    }
}

/// A partition of a store, for its readers.
#[derive(Clone, Debug)]
pub struct PartitionInfo {
    /// The handle for commands.
    pub handle: PartitionHandle,
    /// The topic.
    pub topic: String,
    /// The partition number.
    pub partition: i32,
    /// The topic id; 0 if unknown.
    pub topic_id: u128,
    /// The newest epoch; `None` before the first.
    pub epoch: Option<i32>,
    /// Epochs with their first offsets, oldest first.
    pub epochs: Vec<(i32, i64)>,
    /// The readable records.
    pub view: Arc<PartitionView>,
}

impl Store {
    /// Returns the handle of partition `number` of `topic`.
    pub fn handle(&self, topic: &str, number: i32) -> Option<PartitionHandle> {
        self.names.get(&(topic.to_owned(), number)).copied()
    }

    /// Returns all partitions, by handle.
    pub fn partitions(&self) -> Vec<PartitionInfo> {
        let info = |(handle, partition): (u32, &Option<Partition>)| {
            partition.as_ref().map(|partition| PartitionInfo {
                handle: PartitionHandle(handle),
                topic: partition.topic.clone(),
                partition: partition.number,
                topic_id: partition.topic_id,
                epoch: partition.epoch(),
                epochs: partition.epochs.clone(),
                view: Arc::clone(&partition.view),
            })
        };
        (0..).zip(&self.partitions).filter_map(info).collect()
    }

    /// Returns the reader's view of a partition.
    pub fn view(&self, handle: PartitionHandle) -> Option<Arc<PartitionView>> {
        self.partitions.get(handle.0 as usize)?.as_ref().map(|partition| Arc::clone(&partition.view))
    }

    /// Whether the store never writes.
    pub fn is_read_only(&self) -> bool {
        self.options.access.is_read_only()
    }

    /// Returns why the store accepts nothing any more; `None` while it works.
    pub fn stopped(&self) -> Option<Arc<str>> {
        self.stopped.clone()
    }

    /// Returns the durations of the write-ahead file's syncs in passes.
    pub fn syncs(&self) -> &Histogram {
        &self.syncs
    }

    /// Returns the number of finished compactions.
    pub fn compactions(&self) -> u64 {
        self.compactions
    }

    /// Returns the error of the last abandoned compaction.
    pub fn last_compaction_error(&self) -> Option<&str> {
        self.last_compaction_error.as_deref()
    }

    fn partition_dir(&self, topic: &str, number: i32) -> PathBuf {
        self.dir.join(layout::partition_name(topic, number))
    }

    fn add(&mut self, partition: Partition) -> PartitionHandle {
        let handle = PartitionHandle(self.partitions.len() as u32);
        self.names.insert((partition.topic.clone(), partition.number), handle);
        self.partitions.push(Some(partition));
        handle
    }

    fn names_changed_nowhere(&self) -> bool {
        let changed =
            self.partitions.iter().flatten().any(|partition| partition.names_changed || partition.epochs_changed);
        !changed && !self.names_changed && self.partitions.iter().flatten().all(|partition| partition.dirty.is_empty())
    }

    /// Begins a new epoch in partitions of topics that are not compacted, if the options say so. The caller makes that
    /// durable. Returns whether there are any.
    fn raise_epochs(&mut self) -> bool {
        if !self.options.raises_epochs {
            return false;
        }
        let compacted = &self.options.compacted_topics;
        let of_topics = self
            .partitions
            .iter_mut()
            .flatten()
            .filter(|partition| partition.refused.is_none() && !compacted.contains(&partition.topic));
        let mut is_raised = false;
        for partition in of_topics {
            // A power failure may have taken what says which ones there were.
            let epoch = partition.epoch().or_else(|| newest_epoch(&partition.segments)).unwrap_or(0);
            partition.begin_epoch(epoch.saturating_add(1), partition.next_offset);
            is_raised = true;
        }
        is_raised
    }

    /// Removes the files of a partition whose deletion is durable. Remaining files must be removed before the next
    /// checkpoint, which drops the deletion from the write-ahead file.
    fn remove_files(&mut self, handle: PartitionHandle) {
        let Some(partition) = self.forget(handle) else { return };
        partition.view.refuse(crate::LogError::UnknownPartition { partition: partition.number });
        if wipe(self.files.as_ref(), &partition.dir).is_err() {
            self.leftovers.push(partition.dir);
        }
        self.names_changed = true;
    }

    /// Removes the leftovers of a deleted partition in `dir`.
    fn clear(&mut self, dir: &Path) -> std::io::Result<()> {
        wipe(self.files.as_ref(), dir)?;
        self.leftovers.retain(|leftover| leftover != dir);
        Ok(())
    }

    fn forget(&mut self, handle: PartitionHandle) -> Option<Partition> {
        let partition = self.partitions[handle.0 as usize].take()?;
        self.failing.retain(|(place, _)| *place != Some(handle));
        self.names.remove(&(partition.topic.clone(), partition.number));
        Some(partition)
    }
}

/// Returns the epoch of the last batch; `None` if there is none.
fn newest_epoch(segments: &[Arc<Segment>]) -> Option<i32> {
    let newest = segments.iter().rfind(|segment| segment.readable_bytes() > 0)?;
    let (mut walk, mut epoch) = (Walk::new(newest, 0, newest.readable_bytes()), None);
    while let Ok(Some((_, batch))) = walk.next(false) {
        epoch = Some(batch.header().leader_epoch.max(0));
    }
    epoch
}

/// Removes a partition's directory.
fn wipe(files: &dyn Files, dir: &Path) -> std::io::Result<()> {
    let entries = match files.list(dir) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        entries => entries?,
    };
    for entry in entries {
        files.remove(&dir.join(entry.name))?;
    }
    files.remove_dir(dir)
}
