//! The fenced log in memory. An append completes during the call. Compaction runs as the log grows.

use std::{
    collections::{HashMap, HashSet},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use crate::{
    completions::Completions,
    error::LogError,
    fenced::{Append, Completion, FencedLog, LogRecord, Operation, RecordInPlace, StoredRecord, check_size},
    transaction::{BatchKind, EndMarker},
};

#[derive(Debug, Default)]
struct Partition {
    epoch: Option<i32>,
    next_offset: i64,
    /// Sorted by offset, with gaps after compaction.
    records: Vec<StoredRecord>,
    /// Records after the last compaction.
    compacted: usize,
}

/// Minimum size of a partition for compaction, in records. Compaction also needs twice the records of the last one.
const COMPACT_RECORDS_MIN: usize = 1_024;

/// Maximum records visited by one read.
pub const SLICE_RECORDS: usize = 500;

impl Partition {
    fn check(&self, partition: i32, epoch: i32) -> Result<(), LogError> {
        match self.epoch {
            None => Err(LogError::NotOpen { partition }),
            Some(current_epoch) if epoch < current_epoch => Err(LogError::Fenced { current_epoch, epoch }),
            Some(current_epoch) if epoch > current_epoch => Err(LogError::UnknownEpoch { current_epoch, epoch }),
            Some(_) => Ok(()),
        }
    }

    fn store(&mut self, kind: BatchKind, mut records: Vec<LogRecord>, timestamp_ms: i64, epoch: i32) -> i64 {
        let batch_base_offset = self.next_offset;
        if kind.is_marker() {
            records.push(LogRecord { key: Vec::new(), value: None });
        }
        self.next_offset += records.len() as i64;
        self.records.extend(records.into_iter().zip(batch_base_offset..).map(|(record, offset)| StoredRecord {
            offset,
            timestamp_ms,
            epoch,
            batch_base_offset,
            kind,
            record,
        }));
        if self.records.len() >= COMPACT_RECORDS_MIN.max(self.compacted * 2) {
            self.compact();
        }
        batch_base_offset
    }

    /// Keeps the newest record of each key, without tombstones, before the first open transaction. A committed record
    /// becomes a plain one: its own position counts, not that of the marker. The last record always stays, as in Kafka: readers
    /// come to the end by it.
    fn compact(&mut self) {
        let last_offset = self.next_offset - 1;
        self.decide(last_offset);
        let open = self.records.iter().position(|stored| matches!(stored.kind, BatchKind::Transactional { .. }));
        let undecided = self.records.split_off(open.unwrap_or(self.records.len()));
        self.keep_newest(last_offset);
        self.records.extend(undecided);
        self.compacted = self.records.len();
    }

    /// Applies the markers to the records before them, and removes the markers and aborted records that are before
    /// every open transaction.
    fn decide(&mut self, last_offset: i64) {
        let mut open: HashMap<i64, Vec<usize>> = HashMap::new();
        let mut aborted = HashSet::new();
        for at in 0..self.records.len() {
            match self.records[at].kind {
                BatchKind::Plain => {}
                BatchKind::Transactional { producer_id, .. } => open.entry(producer_id).or_default().push(at),
                BatchKind::Marker(EndMarker { producer_id, is_commit, .. }) => {
                    for decided in open.remove(&producer_id).unwrap_or_default() {
                        self.records[decided].kind = BatchKind::Plain;
                        if !is_commit {
                            aborted.insert(decided);
                        }
                    }
                }
            }
        }
        let first_open = open.values().filter_map(|records| records.first()).min().copied();
        let mut at = 0..;
        self.records.retain(|stored| {
            let at = at.next().unwrap_or(0);
            let is_over = stored.kind.is_marker() && first_open.is_none_or(|first| at < first);
            stored.offset == last_offset || !is_over && !aborted.contains(&at)
        });
    }

    fn keep_newest(&mut self, last_offset: i64) {
        let key = |at: u32| &self.records[at as usize].record.key;
        let mut by_key: Vec<u32> = (0..self.records.len() as u32).collect();
        by_key.sort_by(|one, other| key(*one).cmp(key(*other)));
        let mut is_newest = vec![false; by_key.len()];
        for same in by_key.chunk_by(|one, other| key(*one) == key(*other)) {
            // The sort is stable, so the last record of a key is the newest.
            is_newest[same[same.len() - 1] as usize] = true;
        }
        let mut newest = is_newest.into_iter();
        self.records.retain(|stored| {
            let is_newest = newest.next() == Some(true);
            stored.offset == last_offset || is_newest && stored.record.value.is_some()
        });
    }
}

/// A fenced log in memory. Deterministic: the same calls give the same completions in the same order.
#[derive(Debug)]
pub struct MemoryLog {
    partitions: Vec<Mutex<Partition>>,
    batch_bytes_max: usize,
}

impl MemoryLog {
    /// Creates an empty log of `partitions` partitions. Appends above `batch_bytes_max` bytes of keys and values fail.
    pub fn new(partitions: u32, batch_bytes_max: usize) -> MemoryLog {
        MemoryLog { partitions: (0..partitions).map(|_| Mutex::default()).collect(), batch_bytes_max }
    }

    fn partition(&self, partition: i32) -> Result<MutexGuard<'_, Partition>, LogError> {
        let found = usize::try_from(partition).ok().and_then(|at| self.partitions.get(at));
        let found = found.ok_or(LogError::UnknownPartition { partition })?;
        Ok(found.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn take_over(&self, partition: i32, epoch: i32) -> Result<i64, LogError> {
        let mut found = self.partition(partition)?;
        match found.epoch {
            Some(current_epoch) if epoch < current_epoch => Err(LogError::Fenced { current_epoch, epoch }),
            _ => {
                found.epoch = Some(epoch);
                Ok(found.next_offset)
            }
        }
    }

    fn store(&self, append: Append<Vec<LogRecord>>) -> Result<i64, LogError> {
        let Append { partition, epoch, timestamp_ms, kind, batch, .. } = append;
        let mut found = self.partition(partition)?;
        found.check(partition, epoch)?;
        check_size(kind, &batch, self.batch_bytes_max)?;
        Ok(found.store(kind, batch, timestamp_ms, epoch))
    }
}

impl FencedLog<Vec<LogRecord>> for MemoryLog {
    fn open(&self, partition: i32, epoch: i32, to: &Arc<Completions>) {
        let result = self.take_over(partition, epoch);
        to.put([Completion { partition, epoch, operation: Operation::Open, result }]);
    }

    fn append(&self, append: Append<Vec<LogRecord>>, to: &Arc<Completions>) {
        let Append { partition, epoch, id, .. } = append;
        let result = self.store(append);
        to.put([Completion { partition, epoch, operation: Operation::Append(id), result }]);
    }

    fn read(&self, partition: i32, from: i64, visit: &mut dyn FnMut(RecordInPlace<'_>)) -> Result<i64, LogError> {
        let found = self.partition(partition)?;
        let at = found.records.partition_point(|stored| stored.offset < from);
        let slice = &found.records[at..found.records.len().min(at + SLICE_RECORDS)];
        for stored in slice {
            let (key, value) = (stored.record.key.as_slice(), stored.record.value.as_deref());
            let StoredRecord { offset, timestamp_ms, kind, .. } = *stored;
            visit(RecordInPlace { offset, timestamp_ms, kind, key, value });
        }
        Ok(slice.last().map_or(from, |last| last.offset + 1))
    }

    fn end(&self, partition: i32) -> Result<i64, LogError> {
        Ok(self.partition(partition)?.next_offset)
    }

    /// Keys and values only.
    fn size_bytes(&self, partition: i32) -> u64 {
        let bytes = |stored: &StoredRecord| stored.record.key.len() + stored.record.value.as_ref().map_or(0, Vec::len);
        self.partition(partition).map_or(0, |found| found.records.iter().map(bytes).sum::<usize>() as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_partition_that_is_written_for_ever_keeps_the_newest_record_of_each_key() {
        let (log, completions) = (MemoryLog::new(1, 1_000), Completions::new(|| ()));
        log.open(0, 0, &completions);
        completions.take();
        let key = |n: usize| vec![(n % 10) as u8];
        let rounds = COMPACT_RECORDS_MIN * 5;
        for n in 0..rounds {
            let value = (n % 10 != 3).then(|| n.to_string().into_bytes());
            let batch = vec![LogRecord { key: key(n), value }];
            log.append(
                Append { partition: 0, epoch: 0, id: 0, timestamp_ms: 0, kind: BatchKind::Plain, batch },
                &completions,
            );
            assert_eq!(completions.take().pop().unwrap().result, Ok(n as i64), "offsets go on");
        }
        let (mut records, mut from) = (Vec::new(), 0);
        loop {
            let mut visit = |record: RecordInPlace<'_>| {
                records.push((record.offset, record.key.to_vec(), record.value.map(<[u8]>::to_vec)));
            };
            match log.read(0, from, &mut visit).unwrap() {
                next if next == from => break,
                next => from = next,
            }
        }
        assert!(records.len() < 2 * COMPACT_RECORDS_MIN, "{} records are kept", records.len());
        assert!(records.is_sorted_by(|one, next| one.0 < next.0));
        for n in rounds - 10..rounds {
            let newest = records.iter().rev().find(|(_, found, _)| *found == key(n));
            let value = newest.and_then(|(_, _, value)| value.clone());
            assert_eq!(value, (n % 10 != 3).then(|| n.to_string().into_bytes()));
        }
    }
}
