//! Loads coordinators from the log (docs/protocol.md §15.1): one partition, or several at once on threads when a server
//! starts with data.
//!
//! A load does not touch the node until it is done: meanwhile the node answers with a coordinator that only knows that
//! it is loading (§3). So thread and time of a load do not matter. Each load holds one slice of the log at a time.

use std::{
    hint::black_box,
    io,
    num::NonZero,
    panic::{self, AssertUnwindSafe},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, JoinHandle},
};

use rota_core::{
    OffsetRecord,
    coordinator::{Coordinator, LogEntry},
    records::{Record, RecordError},
};
use rota_log::{BatchKind, FencedLog as _, RecordInPlace};
use tokio::sync::mpsc::UnboundedSender;

use super::marker_fences::MarkerFences;
use crate::log::{newer_groups::NewerGroups, offsets_log::SharedLog};

/// Maximum threads of all nodes, limited by the number of cores. Each node has at least one.
const THREADS_MAX: usize = 4;

/// More memory than most slices need. In glibc, the heap of any thread but the first grows by one page at a time, each
/// with a system call that blocks all threads. Memory that was allocated and freed at once stays with the heap, unless
/// it was mapped separately. That happens only the first time for this size, because freeing it raises the mapping
/// threshold. With a fixed `MALLOC_MMAP_THRESHOLD_` this gains nothing.
const ROOM_BYTES: usize = 1 << 20;

pub const PANICKED: &str = "loading panicked (see above): a bug in rota";

/// A partly loaded partition.
#[derive(Debug)]
pub struct PartialLoad {
    /// The coordinator being loaded.
    pub coordinator: Coordinator,
    /// The groups of protocols that the coordinator does not have.
    pub newer: NewerGroups,
    /// The last markers of producers.
    pub fences: MarkerFences,
    /// The offset of the next record to replay.
    next: i64,
    /// The end of the log when it was opened. Older epochs append nothing after it.
    end: i64,
}

/// Why a partition cannot be loaded.
#[derive(Debug, PartialEq, Eq)]
pub struct Unreadable {
    /// The offset of the damage.
    pub offset: i64,
    /// The damage.
    pub reason: String,
}

impl PartialLoad {
    /// Creates the load of a log that ends at `end`.
    pub fn new(coordinator: Coordinator, end: i64) -> PartialLoad {
        PartialLoad { coordinator, newer: NewerGroups::default(), fences: MarkerFences::default(), next: 0, end }
    }

    /// Replays the next slice. Returns false if there was none. A panic is an error like any other.
    pub fn slice(&mut self, log: &SharedLog) -> Result<bool, Unreadable> {
        let from = self.next;
        drop(black_box(Vec::<u8>::with_capacity(ROOM_BYTES)));
        let replayed = panic::catch_unwind(AssertUnwindSafe(|| self.replay_slice(log)));
        replayed.unwrap_or_else(|_| Err(Unreadable { offset: from, reason: PANICKED.to_owned() }))
    }

    fn replay_slice(&mut self, log: &SharedLog) -> Result<bool, Unreadable> {
        let (from, end) = (self.next, self.end);
        let mut refused = None;
        let read = log.read(self.coordinator.partition() as i32, from, &mut |record| {
            if record.offset < end && refused.is_none() {
                let offset = record.offset;
                refused = self.replay(record).err().map(|error| Unreadable { offset, reason: error.to_string() });
            }
        });
        self.next = read.map_err(|error| Unreadable { offset: from, reason: error.to_string() })?;
        refused.map_or(Ok(self.next > from), Err)
    }

    fn replay(&mut self, record: RecordInPlace<'_>) -> Result<(), RecordError> {
        let RecordInPlace { offset, timestamp_ms, kind, key, value } = record;
        if let BatchKind::Marker(marker) = kind {
            self.coordinator.replay_marker(marker.producer_id, marker.is_commit);
            self.fences.put(&marker);
            return Ok(());
        }
        if let Some(record) = OffsetRecord::read(key, value)? {
            match kind {
                BatchKind::Transactional { producer_id, producer_epoch } => {
                    self.coordinator.replay_pending((producer_id, producer_epoch), record);
                }
                _ => self.coordinator.replay_offset(record),
            }
            return Ok(());
        }
        let record = Record::decode(key, value)?;
        match &record {
            Record::Unknown { .. } => self.newer.replay(key, value),
            Record::Group { group_id, value: Some(_) } | Record::Consumer { group_id, .. } => {
                self.newer.is_coordinated(group_id);
            }
            _ => {}
        }
        self.coordinator.replay(&LogEntry { offset: offset as u64, timestamp_ms, record });
        Ok(())
    }
}

/// A finished load with its result.
pub type LoadResult = (PartialLoad, Result<(), Unreadable>);

/// The loading threads. Dropping this waits for their end and cancels what is not loaded.
#[derive(Debug)]
pub struct Loaders {
    closing: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

/// Returns the maximum number of threads of one among `nodes` nodes.
pub fn threads_of(nodes: usize) -> usize {
    thread::available_parallelism().map_or(1, NonZero::get).min(THREADS_MAX).div_euclid(nodes).max(1)
}

impl Loaders {
    /// Starts at most `threads_max` threads, which take the partitions with the most records first, so that no long
    /// load is left for the end.
    pub fn begin(
        threads_max: usize,
        mut loads: Vec<PartialLoad>,
        log: &Arc<SharedLog>,
        ended: &UnboundedSender<LoadResult>,
    ) -> io::Result<Loaders> {
        loads.sort_by_key(|load| load.end);
        let threads = threads_max.min(loads.len());
        let mut loaders = Loaders { closing: Arc::default(), threads: Vec::with_capacity(threads) };
        let left = Arc::new(Mutex::new(loads));
        for _ in 0..threads {
            let (left, closing) = (Arc::clone(&left), Arc::clone(&loaders.closing));
            let (log, ended) = (Arc::clone(log), ended.clone());
            let work = move || load_all(&left, &closing, &log, &ended);
            loaders.threads.push(thread::Builder::new().name("rota-load".to_owned()).spawn(work)?);
        }
        Ok(loaders)
    }
}

impl Drop for Loaders {
    fn drop(&mut self) {
        self.closing.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            // The thread catches panics.
            let _ended = thread.join();
        }
    }
}

fn take_next(left: &Mutex<Vec<PartialLoad>>) -> Option<PartialLoad> {
    left.lock().unwrap_or_else(PoisonError::into_inner).pop()
}

fn load_all(
    left: &Mutex<Vec<PartialLoad>>,
    closing: &AtomicBool,
    log: &SharedLog,
    ended: &UnboundedSender<LoadResult>,
) {
    while let Some(mut load) = take_next(left) {
        let result = loop {
            if closing.load(Ordering::Relaxed) {
                return;
            }
            match load.slice(log) {
                Ok(true) => {}
                Ok(false) => break Ok(()),
                Err(unreadable) => break Err(unreadable),
            }
        };
        // The receiver is gone if the node ends.
        let _nobody = ended.send((load, result));
    }
}

#[cfg(test)]
mod tests {
    use rota_core::{Config, effects::AppendId, records::OffsetValue};
    use rota_log::SLICE_RECORDS;
    use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

    use super::*;
    use crate::{
        base::{clock::Clock, metrics::Metrics},
        log::offsets_log::{
            OffsetsLog,
            tests::{append_raw, in_memory},
        },
    };

    const PARTITIONS: u32 = 6;

    /// Each partition has a slice and a bit of offsets of one group, and one more than the partition before.
    fn filled() -> Arc<SharedLog> {
        let log = in_memory(PARTITIONS, usize::MAX, Clock::standing());
        let mut end = OffsetsLog::new(Arc::clone(&log), Arc::default());
        for partition in 0..PARTITIONS {
            end.open(partition, 0);
            assert_eq!(end.take_completed(&mut Metrics::default()).len(), 1);
            let offset = |at: usize| Record::Offset {
                group_id: "g".into(),
                topic: "t".into(),
                partition: at as i32,
                value: Some(OffsetValue {
                    offset: 1,
                    leader_epoch: -1,
                    metadata: "".into(),
                    commit_timestamp_ms: 0,
                    expire_timestamp_ms: None,
                    topic_id: 0,
                }),
            };
            let records: Vec<Record> = (0..count_of(partition)).map(offset).collect();
            end.append(partition, 0, AppendId(0), 0, &records);
            assert_eq!(end.take_completed(&mut Metrics::default()).len(), 1);
        }
        log
    }

    fn count_of(partition: u32) -> usize {
        SLICE_RECORDS + 1 + partition as usize
    }

    fn load(partition: u32) -> PartialLoad {
        PartialLoad::new(Coordinator::new(Config::default(), partition, 0), count_of(partition) as i64)
    }

    /// The results of the loads, by partition. No load sends after this returns.
    fn received(mut loaded: UnboundedReceiver<LoadResult>) -> Vec<(u32, usize, Result<(), Unreadable>)> {
        let mut all: Vec<_> = std::iter::from_fn(|| loaded.blocking_recv())
            .map(|(load, result)| (load.coordinator.partition(), load.coordinator.offset_count(), result))
            .collect();
        all.sort_by_key(|(partition, ..)| *partition);
        all
    }

    #[test]
    fn every_partition_is_loaded_to_its_end_by_however_many_threads() {
        let log = filled();
        let expected: Vec<_> = (0..PARTITIONS).map(|partition| (partition, count_of(partition), Ok(()))).collect();
        for threads_max in [1, 2, 100] {
            let (ended, loaded) = unbounded_channel();
            let loaders = Loaders::begin(threads_max, (0..PARTITIONS).map(load).collect(), &log, &ended).unwrap();
            assert_eq!(loaders.threads.len(), threads_max.min(PARTITIONS as usize));
            drop(ended);
            assert_eq!(received(loaded), expected);
        }
    }

    #[test]
    fn what_cannot_be_read_or_panics_is_an_error_of_its_partition_alone() {
        let log = filled();
        append_raw(&log, 1, b"\0\x01\0\x01".to_vec());
        let mut loads: Vec<PartialLoad> = (0..PARTITIONS).map(load).collect();
        loads[1].end += 1;
        // As a bug would: it does not load, and panics when it is to replay.
        loads[4].coordinator.load_failed();
        let (ended, loaded) = unbounded_channel();
        let _loaders = Loaders::begin(2, loads, &log, &ended).unwrap();
        drop(ended);
        let mut received = received(loaded);
        assert_eq!(received.len(), PARTITIONS as usize);
        let (_, _, panicked) = received.remove(4);
        assert_eq!(panicked, Err(Unreadable { offset: 0, reason: PANICKED.to_owned() }));
        let (_, _, unreadable) = received.remove(1);
        assert_eq!(unreadable.map_err(|unreadable| unreadable.offset), Err(count_of(1) as i64));
        for (partition, offsets, result) in received {
            assert_eq!((offsets, result), (count_of(partition), Ok(())), "{partition}");
        }
    }

    #[test]
    fn threads_that_are_to_end_leave_what_they_have_begun() {
        let log = filled();
        let mut begun = load(0);
        assert_eq!(begun.slice(&log), Ok(true));
        let (ended, loaded) = unbounded_channel();
        let left = Mutex::new(vec![load(1), begun]);
        load_all(&left, &AtomicBool::new(true), &log, &ended);
        drop(ended);
        assert_eq!(received(loaded), []);
    }

    #[test]
    fn threads_have_ended_when_their_handle_is_dropped() {
        let log = filled();
        let (ended, loaded) = unbounded_channel();
        let loaders = Loaders::begin(2, (0..PARTITIONS).map(load).collect(), &log, &ended).unwrap();
        let closing = Arc::clone(&loaders.closing);
        drop(loaders);
        assert!(closing.load(Ordering::Relaxed), "the threads are asked to end");
        assert_eq!(Arc::strong_count(&log), 1, "no thread has it");
        drop(ended);
        for (partition, offsets, result) in received(loaded) {
            assert_eq!((offsets, result), (count_of(partition), Ok(())), "{partition} was loaded before");
        }
    }

    #[test]
    fn nodes_share_the_threads_and_each_has_one() {
        let all = threads_of(1);
        assert!((1..=THREADS_MAX).contains(&all));
        assert_eq!(threads_of(2), (all / 2).max(1));
        assert_eq!(threads_of(1_000), 1);
    }
}
