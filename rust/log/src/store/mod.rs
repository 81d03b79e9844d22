//! Partitions in Kafka's layout on disk, whose appends become durable together.
//!
//! A [`Store`] is single-threaded and looks at a clock only to time syncs: [`Store::pass`] makes what waits durable, [`Store::next_task`]
//! gives the work to be done beside it. `SegmentLog` runs it on threads of its own.
//!
//! What is where. Appends go to the write-ahead file that all partitions share, which is synced once a pass, and in
//! the same pass to the segments, which are not. When the write-ahead file has grown to `wal_bytes`, a new one is begun
//! and a checkpoint syncs the segments that were written meanwhile, says so in `rota.checkpoint` and removes the old
//! one. So after a crash: segments up to the checkpoint, and from there on what the write-ahead file has.
//!
//! INVARIANT: S26. An outcome is given after the sync of the frame that it is in.

mod ahead;
mod checkpoint;
mod compaction;
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
mod view;
mod wal;

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use crate::{Histogram, files::Files};

pub use ahead::{Ahead, ahead};
pub use checkpoint::Task;
pub use layout::is_topic;
pub use mend::{recover, repair};
pub use opened::{OpenError, Report};
pub use pass::{Command, Outcome, PartitionHandle};
pub use repair::{Loss, Repaired};
pub use view::{PAYLOAD_BYTES_MAX, PartitionView, Slice};

use partition::Partition;
use wal::Wal;

/// When an append is durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// When the device has it: nothing that was acknowledged is lost when the power is.
    Fsync,
    /// When the operating system has it: nothing is lost when the process dies.
    Os,
}

/// What may be done with a data directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Ours is written, one that Kafka wrote is only read.
    Own,
    /// One that Kafka wrote becomes ours.
    Adopt,
    /// Ours is written; what damaged files that all partitions share do not tell any more is given up.
    Salvage,
    /// Nothing is changed: what a start would complete is completed in memory. Another process may write it meanwhile.
    Read,
    /// Found to be Kafka's, and only read.
    ReadForeign,
}

impl Access {
    fn is_read_only(self) -> bool {
        matches!(self, Access::Read | Access::ReadForeign)
    }

    /// Whether what a crash left is completed from the write-ahead files.
    fn recovers(self) -> bool {
        self != Access::ReadForeign
    }
}

/// How a store works.
#[derive(Clone, Debug)]
pub struct StoreOptions {
    /// When an append is durable.
    pub durability: Durability,
    /// A segment ends before it has more bytes; a batch of more has one of its own.
    pub segment_bytes: u64,
    /// Largest batch.
    pub batch_bytes_max: usize,
    /// A checkpoint begins when the write-ahead file, or what no checkpoint has synced, has so many bytes.
    pub wal_bytes: u64,
    /// The write-ahead file gets its blocks by so many bytes.
    pub wal_reserve_bytes: u64,
    /// For `meta.properties` of a new directory.
    pub cluster_id: String,
    /// What may be done with the directory.
    pub access: Access,
    /// Topics of which the newest record of each key is kept.
    pub compacted_topics: Vec<String>,
    /// How long a tombstone is kept after compaction has met it.
    pub delete_retention_ms: i64,
    /// A partition is compacted when at least this share of its older bytes, in percent, is new since the last time.
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
            compacted_topics: vec!["__consumer_offsets".to_owned()],
            delete_retention_ms: 86_400_000,
            cleanable_percent_min: 50,
        }
    }
}

/// See the module.
#[derive(Debug)]
pub struct Store {
    files: Arc<dyn Files>,
    dir: PathBuf,
    options: StoreOptions,
    /// By handle; `None` was deleted.
    partitions: Vec<Option<Partition>>,
    names: pass::Names,
    wal: Wal,
    /// Whether names in the data directory itself changed since the last checkpoint.
    names_changed: bool,
    syncs: Histogram,
    /// Bytes written to segments since the last checkpoint, where that is not the write-ahead file's size.
    unsynced_bytes: u64,
    /// Directories of deleted partitions that are still there.
    leftovers: Vec<PathBuf>,
    stopped: Option<Arc<str>>,
    /// Where writes fail now and why, the oldest first. `None`: what all partitions share.
    failing: Vec<(Option<PartitionHandle>, Arc<str>)>,
    /// Writes that failed since the start, and why the last one did.
    failures: (u64, Option<Arc<str>>),
    in_task: bool,
    compactions: u64,
    last_compaction_error: Option<String>,
    _lock: Option<LockGuard>,
}

/// Keeps the lock and does not show it.
struct LockGuard(#[expect(dead_code, reason = "it is held, not looked at")] crate::files::Lock);

impl std::fmt::Debug for LockGuard {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "LockGuard")
    }
}

/// A partition of a store, as its readers know it.
#[derive(Clone, Debug)]
pub struct PartitionInfo {
    /// Its name in commands.
    pub handle: PartitionHandle,
    /// Its topic.
    pub topic: String,
    /// Its number.
    pub partition: i32,
    /// Of its topic; 0 if nobody knows.
    pub topic_id: u128,
    /// The newest epoch.
    pub epoch: Option<i32>,
    /// Its records.
    pub view: Arc<PartitionView>,
}

impl Store {
    /// The partition `number` of `topic`.
    pub fn handle(&self, topic: &str, number: i32) -> Option<PartitionHandle> {
        self.names.get(&(topic.to_owned(), number)).copied()
    }

    /// All partitions, by handle.
    pub fn partitions(&self) -> Vec<PartitionInfo> {
        let info = |(handle, partition): (u32, &Option<Partition>)| {
            partition.as_ref().map(|partition| PartitionInfo {
                handle: PartitionHandle(handle),
                topic: partition.topic.clone(),
                partition: partition.number,
                topic_id: partition.topic_id,
                epoch: partition.epoch(),
                view: Arc::clone(&partition.view),
            })
        };
        (0..).zip(&self.partitions).filter_map(info).collect()
    }

    /// What readers see of a partition.
    pub fn view(&self, handle: PartitionHandle) -> Option<Arc<PartitionView>> {
        self.partitions.get(handle.0 as usize)?.as_ref().map(|partition| Arc::clone(&partition.view))
    }

    /// Whether nothing is ever written.
    pub fn is_read_only(&self) -> bool {
        self.options.access.is_read_only()
    }

    /// Why nothing is accepted any more, if that is so.
    pub fn stopped(&self) -> Option<Arc<str>> {
        self.stopped.clone()
    }

    /// Syncs of the write-ahead file for passes so far, and how long they took.
    pub fn syncs(&self) -> &Histogram {
        &self.syncs
    }

    /// Compactions that were finished.
    pub fn compactions(&self) -> u64 {
        self.compactions
    }

    /// Why the last compaction that was given up was.
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

    /// Forgets a partition whose deletion is durable. Files that cannot be removed now have to go before the next
    /// checkpoint, which takes the deletion out of the write-ahead file.
    fn remove_files(&mut self, handle: PartitionHandle) {
        let Some(partition) = self.forget(handle) else { return };
        partition.view.refuse(crate::LogError::UnknownPartition { partition: partition.number });
        if wipe(self.files.as_ref(), &partition.dir).is_err() {
            self.leftovers.push(partition.dir);
        }
        self.names_changed = true;
    }

    /// What a deletion left behind is not a new partition's.
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
