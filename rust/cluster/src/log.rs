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
    /// The first offset that the partition had at the end.
    pub end: i64,
    /// Chunks of the snapshot, then entries: each has whole batches, and the offset of the first one.
    pub parts: Vec<(i64, Vec<u8>)>,
}

/// Partitions are dealt to so many lanes, each with one call of appends at a time.
pub(crate) const LANES: usize = 2;

/// The lane of a partition.
pub(crate) fn lane_of(partition: PartitionId) -> usize {
    partition.0.unsigned_abs() as usize % LANES
}

/// What host and log share.
#[derive(Debug, Default)]
pub(crate) struct Shelf {
    content: Mutex<Content>,
    /// Appends that the host has yet to take, by lane.
    orders: [Mutex<Orders>; LANES],
    /// Bytes of appends that have not ended.
    pub waiting_bytes: AtomicUsize,
}

/// Appends of a lane.
#[derive(Debug, Default)]
struct Orders {
    waiting: Vec<AppendOrder>,
    /// Whether the host takes them without being woken: the lane is busy, and they wait for its call in any case.
    is_attended: bool,
}

/// A node may load a partition again while the serving thread still reads what the load before has found.
#[derive(Debug, Default)]
struct Content {
    loaded: BTreeMap<(PartitionId, Epoch), Arc<Loaded>>,
    /// Under which epoch each partition was opened last: reads are of this one.
    opened: BTreeMap<PartitionId, Epoch>,
}

impl Shelf {
    fn lock(&self) -> MutexGuard<'_, Content> {
        self.content.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn orders(&self, lane: usize) -> MutexGuard<'_, Orders> {
        self.orders[lane].lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Leaves an append to the host. Returns whether it has to be woken.
    fn leave(&self, order: AppendOrder) -> bool {
        let mut orders = self.orders(lane_of(order.partition));
        orders.waiting.push(order);
        orders.waiting.len() == 1 && !orders.is_attended
    }

    /// The host takes the appends of a lane. The next one wakes it.
    pub fn take_orders(&self, lane: usize) -> Vec<AppendOrder> {
        let mut orders = self.orders(lane);
        orders.is_attended = false;
        std::mem::take(&mut orders.waiting)
    }

    /// The host takes the next appends of a lane without being woken.
    pub fn attend(&self, lane: usize) {
        self.orders(lane).is_attended = true;
    }

    /// Refuses the appends that wait: no host takes them.
    pub fn refuse_orders(&self) {
        for lane in 0..LANES {
            for order in self.take_orders(lane) {
                self.waiting_bytes.fetch_sub(order.bytes.len(), Ordering::Relaxed);
                let result = Err(LogError::NotOpen { partition: order.partition.0 });
                let (to, completion) = order.completion(result);
                to.put([completion]);
            }
        }
    }

    pub fn put(&self, partition: PartitionId, epoch: Epoch, loaded: Loaded) {
        self.lock().loaded.insert((partition, epoch), Arc::new(loaded));
    }

    pub fn remove(&self, partition: PartitionId, epoch: Epoch) {
        self.lock().loaded.remove(&(partition, epoch));
    }

    /// The end of what a node has loaded under an epoch.
    pub fn end(&self, partition: PartitionId, epoch: Epoch) -> Option<i64> {
        Some(self.lock().loaded.get(&(partition, epoch))?.end)
    }

    fn open(&self, partition: PartitionId, epoch: Epoch) {
        self.lock().opened.insert(partition, epoch);
    }

    fn opened(&self, partition: PartitionId) -> Option<Arc<Loaded>> {
        let content = self.lock();
        let epoch = content.opened.get(&partition)?;
        content.loaded.get(&(partition, *epoch)).cloned()
    }

    /// It was read to its end, by the load that it was kept for.
    fn was_read(&self, partition: PartitionId) {
        let mut content = self.lock();
        if let Some(epoch) = content.opened.get(&partition).copied() {
            content.loaded.remove(&(partition, epoch));
        }
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
        self.shelf.open(PartitionId(partition), Epoch(epoch));
        let message = Message::Open(PartitionId(partition), Epoch(epoch), Arc::clone(to));
        if self.host.send(message).is_err() {
            let result = Err(LogError::NotOpen { partition });
            to.put([Completion { partition, epoch, operation: Operation::Open, result }]);
        }
    }

    fn append(&self, append: Append<Vec<LogRecord>>, to: &Arc<Completions>) {
        match self.order(&append, to) {
            Err(error) => to.put([append.completion(Err(error))]),
            // A host that has ended takes nothing.
            Ok(order) => {
                if self.shelf.leave(order) && self.host.send(Message::Appends).is_err() {
                    self.shelf.refuse_orders();
                }
            }
        }
    }

    fn read(&self, partition: i32, from: i64, visit: &mut dyn FnMut(RecordInPlace<'_>)) -> Result<i64, LogError> {
        let loaded = self.shelf.opened(PartitionId(partition)).ok_or(LogError::NotOpen { partition })?;
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
            self.shelf.was_read(PartitionId(partition));
        }
        Ok(next)
    }

    /// The engine has the records, and nothing here keeps their number.
    fn end(&self, partition: i32) -> Result<i64, LogError> {
        Err(LogError::NotOpen { partition })
    }

    fn size_bytes(&self, _partition: i32) -> u64 {
        0
    }
}

#[cfg(test)]
mod tests {
    use rota_log::{BatchKind, encode_append};
    use tokio::sync::mpsc::unbounded_channel;

    use super::*;

    const P: PartitionId = PartitionId(3);

    fn log() -> (ClusterLog, Arc<Completions>) {
        let (host, _messages) = unbounded_channel();
        let log = ClusterLog { shelf: Arc::default(), host, partitions: 4, batch_bytes_max: 1 << 20 };
        (log, Completions::new(|| ()))
    }

    fn one(value: &str) -> Loaded {
        let record = LogRecord { key: b"k".to_vec(), value: Some(value.as_bytes().to_vec()) };
        Loaded { end: 1, parts: vec![(0, Vec::from(encode_append(BatchKind::Plain, 0, &[record])))] }
    }

    /// The values of a slice, and the offset after it.
    fn slice(log: &ClusterLog, from: i64) -> Result<(Vec<String>, i64), LogError> {
        let mut values = Vec::new();
        let visit = &mut |record: RecordInPlace<'_>| {
            values.push(String::from_utf8_lossy(record.value.unwrap_or_default()).into_owned());
        };
        let next = log.read(P.0, from, visit)?;
        Ok((values, next))
    }

    #[test]
    fn what_is_loaded_again_waits_until_it_is_opened() {
        let (log, to) = log();
        log.shelf.put(P, Epoch(5), one("old"));
        assert!(slice(&log, 0).is_err(), "it was not opened");
        log.open(P.0, 5, &to);
        assert_eq!(slice(&log, 0).unwrap(), (vec!["old".to_owned()], 1));
        // The node has lost the partition, and has it again.
        log.shelf.put(P, Epoch(6), one("new"));
        assert_eq!(slice(&log, 1).unwrap(), (Vec::new(), 1), "the load of epoch 5 ends");
        log.open(P.0, 6, &to);
        assert_eq!(slice(&log, 0).unwrap(), (vec!["new".to_owned()], 1));
        assert_eq!(slice(&log, 1).unwrap(), (Vec::new(), 1));
        assert!(matches!(slice(&log, 0), Err(LogError::NotOpen { partition: 3 })), "it was read");
    }

    #[test]
    fn what_a_node_has_lost_is_gone_and_nothing_else() {
        let (log, to) = log();
        log.shelf.put(P, Epoch(5), one("old"));
        log.shelf.put(P, Epoch(6), one("new"));
        log.shelf.remove(P, Epoch(5));
        assert_eq!((log.shelf.end(P, Epoch(5)), log.shelf.end(P, Epoch(6))), (None, Some(1)));
        log.open(P.0, 5, &to);
        assert!(slice(&log, 0).is_err());
        log.open(P.0, 6, &to);
        assert_eq!(slice(&log, 0).unwrap().0, ["new"]);
    }
}
