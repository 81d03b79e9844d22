//! The log under the coordinators, over the engine: one more [`FencedLog`].

use std::{
    collections::BTreeMap,
    fmt,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
};

use rota_engine::{Epoch, PartitionId};
use rota_log::{
    Append, Completion, Completions, Damage, FencedLog, LogError, LogRecord, Operation, RecordInPlace, encode_append,
};
use tokio::sync::mpsc::UnboundedSender;

use crate::{
    batches,
    messages::{AppendOrder, Message},
};

/// An engine's entry has at most so many bytes.
pub(crate) const ENTRY_BYTES_MAX: usize = 900 << 10;

/// While so many bytes wait for the engine, appends are refused at the door.
const WAITING_BYTES_MAX: usize = 4 << 20;

/// Bytes of batches that one read visits, unless a part is larger.
const SLICE_BYTES: usize = 256 << 10;

/// The Kafka error of an append that is refused because too much waits: the coordinator is not available.
const REQUEST_TIMED_OUT: i16 = 7;

/// The content of a partition as the engine had it when its owner loaded it.
#[derive(Debug)]
pub(crate) struct Loaded {
    pub epoch: Epoch,
    /// The first offset that the partition had at the end.
    pub end: i64,
    /// Chunks of the snapshot, then entries: each has whole batches, and the offset of the first one.
    pub parts: Vec<(i64, Vec<u8>)>,
}

/// What host and log share.
#[derive(Debug, Default)]
pub(crate) struct Shelf {
    loaded: Mutex<BTreeMap<PartitionId, Arc<Loaded>>>,
    /// Bytes of appends that have not ended.
    pub waiting_bytes: AtomicUsize,
}

impl Shelf {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<PartitionId, Arc<Loaded>>> {
        self.loaded.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn put(&self, partition: PartitionId, loaded: Loaded) {
        self.lock().insert(partition, Arc::new(loaded));
    }

    pub fn remove(&self, partition: PartitionId) {
        self.lock().remove(&partition);
    }

    pub fn of(&self, partition: PartitionId) -> Option<Arc<Loaded>> {
        self.lock().get(&partition).cloned()
    }
}

/// See the module. An open completes when the host has loaded the partition under the epoch of its claim; it cannot take
/// a partition from another node. A read shows what was there at the open.
pub struct ClusterLog {
    pub(crate) shelf: Arc<Shelf>,
    pub(crate) host: UnboundedSender<Message>,
    pub(crate) partitions: u32,
    pub(crate) batch_bytes_max: usize,
}

impl fmt::Debug for ClusterLog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ClusterLog({} bytes wait)", self.shelf.waiting_bytes.load(Ordering::Relaxed))
    }
}

impl ClusterLog {
    fn order(&self, append: &Append<Vec<LogRecord>>, to: &Arc<Completions>) -> Result<AppendOrder, LogError> {
        let Append { partition, epoch, id, timestamp_ms, kind, batch } = append;
        if u32::try_from(*partition).map_or(true, |partition| partition >= self.partitions) {
            return Err(LogError::UnknownPartition { partition: *partition });
        }
        if batch.is_empty() != kind.is_marker() {
            return Err(LogError::Empty);
        }
        let limit_bytes = self.batch_bytes_max.min(ENTRY_BYTES_MAX);
        let bytes = Vec::from(encode_append(*kind, *timestamp_ms, batch));
        if bytes.len() > limit_bytes {
            return Err(LogError::TooLarge { batch_bytes: bytes.len(), limit_bytes });
        }
        if self.shelf.waiting_bytes.fetch_add(bytes.len(), Ordering::Relaxed) > WAITING_BYTES_MAX {
            self.shelf.waiting_bytes.fetch_sub(bytes.len(), Ordering::Relaxed);
            return Err(LogError::Failed { code: REQUEST_TIMED_OUT });
        }
        // A marker takes an offset.
        let count = batch.len().max(1) as i64;
        let (partition, epoch) = (PartitionId(*partition), Epoch(*epoch));
        Ok(AppendOrder { partition, epoch, id: *id, count, bytes, to: Arc::clone(to) })
    }
}

impl FencedLog<Vec<LogRecord>> for ClusterLog {
    fn open(&self, partition: i32, epoch: i32, to: &Arc<Completions>) {
        let message = Message::Open(PartitionId(partition), Epoch(epoch), Arc::clone(to));
        if self.host.send(message).is_err() {
            let result = Err(LogError::NotOpen { partition });
            to.put([Completion { partition, epoch, operation: Operation::Open, result }]);
        }
    }

    fn append(&self, append: Append<Vec<LogRecord>>, to: &Arc<Completions>) {
        let sent = self.order(&append, to).and_then(|order| {
            let ended = LogError::NotOpen { partition: append.partition };
            self.host.send(Message::Append(order)).map_err(|_| ended)
        });
        if let Err(error) = sent {
            to.put([append.completion(Err(error))]);
        }
    }

    fn read(&self, partition: i32, from: i64, visit: &mut dyn FnMut(RecordInPlace<'_>)) -> Result<i64, LogError> {
        let loaded = self.shelf.of(PartitionId(partition)).ok_or(LogError::NotOpen { partition })?;
        let parts = &loaded.parts;
        // The part that has `from`, or the first one after it: compaction leaves gaps.
        let first = parts.partition_point(|(base_offset, _)| *base_offset <= from).saturating_sub(1);
        let (mut next, mut visited_bytes) = (from, 0);
        for (_, bytes) in &parts[first..] {
            // A part that only has earlier records does not count: a read that returns `from` is at the end.
            if next > from && visited_bytes + bytes.len() > SLICE_BYTES {
                break;
            }
            next = batches::visit(bytes, next, visit).map_err(|(offset, error)| {
                let file = format!("partition {partition} in the engine").into();
                LogError::Damaged(Box::new(Damage { file, position: 0, offset, reason: error.to_string() }))
            })?;
            visited_bytes += if next > from { bytes.len() } else { 0 };
        }
        if next == from {
            // It was read to its end, by the load that it was kept for.
            self.shelf.remove(PartitionId(partition));
        }
        Ok(next)
    }

    /// The engine has the records, and nothing here keeps their number.
    fn end(&self, partition: i32) -> Result<i64, LogError> {
        Err(LogError::NotOpen { partition })
    }
}
