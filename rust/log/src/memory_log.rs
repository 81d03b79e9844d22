//! The fenced log in memory. Its completions can be held back, reordered across partitions and failed on demand:
//! otherwise the code that runs while an append is in flight would never run. It is compacted as it grows.

use std::collections::VecDeque;

use crate::fenced::{Completion, FencedLog, LogAppendId, LogError, LogRecord, StoredRecord};

/// One append that is not yet durable.
#[derive(Clone, Debug)]
struct Pending {
    append_id: LogAppendId,
    partition: i32,
    epoch: i32,
    timestamp_ms: i64,
    flushed: bool,
    records: Result<Vec<LogRecord>, LogError>,
}

#[derive(Clone, Debug, Default)]
struct Partition {
    epoch: Option<i32>,
    next_offset: i64,
    /// By offset, with gaps where compaction took something away.
    records: Vec<StoredRecord>,
    /// How many records the last compaction left.
    compacted: usize,
}

/// A partition is compacted when it has grown to this, and to twice what the last compaction left.
const COMPACT_RECORDS_MIN: usize = 1_024;

impl Partition {
    fn store(&mut self, records: Vec<LogRecord>, timestamp_ms: i64, epoch: i32) -> i64 {
        let batch_base_offset = self.next_offset;
        self.next_offset += records.len() as i64;
        self.records.extend(records.into_iter().zip(batch_base_offset..).map(|(record, offset)| StoredRecord {
            offset,
            timestamp_ms,
            epoch,
            batch_base_offset,
            record,
        }));
        if self.records.len() >= COMPACT_RECORDS_MIN.max(self.compacted * 2) {
            self.compact();
        }
        batch_base_offset
    }

    /// Keeps the newest record of each key, and of those only what is no tombstone.
    fn compact(&mut self) {
        let key = |at: u32| &self.records[at as usize].record.key;
        let mut by_key: Vec<u32> = (0..self.records.len() as u32).collect();
        by_key.sort_by(|one, other| key(*one).cmp(key(*other)));
        let mut is_newest = vec![false; by_key.len()];
        for same in by_key.chunk_by(|one, other| key(*one) == key(*other)) {
            // The sort is stable: of those with one key, the last is the newest.
            is_newest[same[same.len() - 1] as usize] = true;
        }
        let mut newest = is_newest.into_iter();
        self.records.retain(|stored| newest.next() == Some(true) && stored.record.value.is_some());
        self.compacted = self.records.len();
    }
}

/// See the module. Deterministic: the same calls give the same completions in the same order.
#[derive(Clone, Debug)]
pub struct MemoryLog {
    partitions: Vec<Partition>,
    batch_bytes_max: usize,
    next_append_id: u64,
    /// In the order of their appends.
    pending: VecDeque<Pending>,
    completed: Vec<Completion>,
    held: bool,
    /// What the next appends to end will fail with, and how many of them.
    failures: VecDeque<(LogError, u64)>,
    /// `Some`: the state of the generator that picks which partition's oldest append ends next.
    reorder: Option<u64>,
}

impl MemoryLog {
    /// An empty log of `partitions` partitions; appends above `batch_bytes_max` bytes of keys and values fail.
    pub fn new(partitions: u32, batch_bytes_max: usize) -> MemoryLog {
        MemoryLog {
            partitions: (0..partitions).map(|_| Partition::default()).collect(),
            batch_bytes_max,
            next_append_id: 0,
            pending: VecDeque::new(),
            completed: Vec::new(),
            held: false,
            failures: VecDeque::new(),
            reorder: None,
        }
    }

    /// From here on nothing becomes durable until it is released.
    pub fn hold(&mut self) {
        self.held = true;
    }

    /// Whether appends are held back.
    pub fn is_held(&self) -> bool {
        self.held
    }

    /// Ends up to `n` flushed appends that are held back, oldest first (see [`MemoryLog::reorder`]); later ones stay
    /// held. Gives how many.
    pub fn release(&mut self, n: usize) -> usize {
        (0..n).take_while(|_| self.end_next(None)).count()
    }

    /// As [`MemoryLog::release`], of one partition only.
    pub fn release_partition(&mut self, partition: i32, n: usize) -> usize {
        (0..n).take_while(|_| self.end_next(Some(partition))).count()
    }

    /// Stops holding and ends everything that was held back. Gives how many.
    pub fn release_all(&mut self) -> usize {
        self.held = false;
        self.release(usize::MAX)
    }

    /// The next `times` appends to end do so with `error` and are not stored; asked again, after those.
    pub fn fail_next(&mut self, error: LogError, times: u64) {
        if times > 0 {
            self.failures.push_back((error, times));
        }
    }

    /// `Some(seed)`: appends of different partitions end in an order drawn from `seed`, those of one partition in
    /// theirs. `None`: all in the order of their appends.
    pub fn reorder(&mut self, seed: Option<u64>) {
        self.reorder = seed;
    }

    /// Appends that have no completion yet, flushed or not.
    pub fn pending(&self) -> usize {
        self.pending.len()
    }

    /// Whether there are completions to take.
    pub fn has_completions(&self) -> bool {
        !self.completed.is_empty()
    }

    /// Power is lost: the oldest `survivors` flushed appends are durable though nobody was told, the others are gone,
    /// and so are completions that were not taken. Partitions have to be opened again under newer epochs.
    pub fn crash(&mut self, survivors: usize) {
        self.release(survivors);
        self.pending.clear();
        self.completed.clear();
        self.failures.clear();
        self.held = false;
    }

    /// Ends the next flushed append (of `only`, if given). False: there is none.
    fn end_next(&mut self, only: Option<i32>) -> bool {
        let Some(at) = self.pick(only) else { return false };
        let Some(pending) = self.pending.remove(at) else { return false };
        let (partition, append_id) = (pending.partition, pending.append_id);
        let result = self.end(pending);
        self.completed.push(Completion { partition, append_id, result });
        true
    }

    /// Which pending append ends next: never one behind another of its partition.
    fn pick(&mut self, only: Option<i32>) -> Option<usize> {
        if let (Some(state), None) = (self.reorder.as_mut(), only) {
            let mut heads: Vec<(i32, usize)> = Vec::new();
            for (at, pending) in self.pending.iter().enumerate().filter(|(_, pending)| pending.flushed) {
                if heads.iter().all(|(partition, _)| *partition != pending.partition) {
                    heads.push((pending.partition, at));
                }
            }
            if heads.is_empty() {
                return None;
            }
            return Some(heads[(next_random(state) % heads.len() as u64) as usize].1);
        }
        self.pending.iter().position(|pending| pending.flushed && only.is_none_or(|only| only == pending.partition))
    }

    fn end(&mut self, pending: Pending) -> Result<i64, LogError> {
        let records = pending.records?;
        if let Some((error, times)) = self.failures.front_mut() {
            let error = error.clone();
            *times -= 1;
            if *times == 0 {
                self.failures.pop_front();
            }
            return Err(error);
        }
        let Pending { epoch, timestamp_ms, .. } = pending;
        let partition = &mut self.partitions[pending.partition as usize];
        Ok(partition.store(records, timestamp_ms, epoch))
    }

    fn check(&self, partition: i32, epoch: i32, records: &[LogRecord]) -> Result<(), LogError> {
        match self.partition(partition)?.epoch {
            None => return Err(LogError::NotOpen { partition }),
            Some(current_epoch) if epoch < current_epoch => return Err(LogError::Fenced { current_epoch, epoch }),
            Some(current_epoch) if epoch > current_epoch => {
                return Err(LogError::UnknownEpoch { current_epoch, epoch });
            }
            Some(_) => {}
        }
        if records.is_empty() {
            return Err(LogError::Empty);
        }
        let batch_bytes =
            records.iter().map(|record| record.key.len() + record.value.as_ref().map_or(0, Vec::len)).sum();
        if batch_bytes > self.batch_bytes_max {
            return Err(LogError::TooLarge { batch_bytes, limit_bytes: self.batch_bytes_max });
        }
        Ok(())
    }

    fn partition(&self, partition: i32) -> Result<&Partition, LogError> {
        usize::try_from(partition)
            .ok()
            .and_then(|at| self.partitions.get(at))
            .ok_or(LogError::UnknownPartition { partition })
    }
}

impl FencedLog for MemoryLog {
    fn open(&mut self, partition: i32, epoch: i32) -> Result<i64, LogError> {
        let next_offset = self.partition(partition)?.next_offset;
        let opened = &mut self.partitions[partition as usize].epoch;
        match *opened {
            Some(current_epoch) if epoch < current_epoch => return Err(LogError::Fenced { current_epoch, epoch }),
            _ => *opened = Some(epoch),
        }
        for pending in self.pending.iter_mut().filter(|pending| pending.partition == partition) {
            if pending.epoch < epoch && pending.records.is_ok() {
                pending.records = Err(LogError::Fenced { current_epoch: epoch, epoch: pending.epoch });
            }
        }
        Ok(next_offset)
    }

    fn append(&mut self, partition: i32, epoch: i32, timestamp_ms: i64, records: Vec<LogRecord>) -> LogAppendId {
        let append_id = LogAppendId(self.next_append_id);
        self.next_append_id += 1;
        let records = self.check(partition, epoch, &records).map(|()| records);
        self.pending.push_back(Pending { append_id, partition, epoch, timestamp_ms, flushed: false, records });
        append_id
    }

    fn flush(&mut self) {
        for pending in self.pending.iter_mut().rev().take_while(|pending| !pending.flushed) {
            pending.flushed = true;
        }
        if !self.held {
            self.release(usize::MAX);
        }
    }

    fn completions(&mut self) -> Vec<Completion> {
        std::mem::take(&mut self.completed)
    }

    fn read(&self, partition: i32, from: i64, records_max: usize) -> Result<Vec<StoredRecord>, LogError> {
        let records = &self.partition(partition)?.records;
        let from = records.partition_point(|stored| stored.offset < from);
        Ok(records[from..].iter().take(records_max).cloned().collect())
    }
}

/// Splitmix64: small, well mixed, the same everywhere.
fn next_random(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut mixed = *state;
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_partition_that_is_written_for_ever_keeps_the_newest_record_of_each_key() {
        let mut log = MemoryLog::new(1, 1_000);
        log.open(0, 0).unwrap();
        let key = |n: usize| vec![(n % 10) as u8];
        let rounds = COMPACT_RECORDS_MIN * 5;
        for n in 0..rounds {
            let value = (n % 10 != 3).then(|| n.to_string().into_bytes());
            log.append(0, 0, 0, vec![LogRecord { key: key(n), value }]);
            log.flush();
            assert_eq!(log.completions().pop().unwrap().result, Ok(n as i64), "offsets go on");
        }
        let records = log.read(0, 0, usize::MAX).unwrap();
        assert!(records.len() < 2 * COMPACT_RECORDS_MIN, "{} records are kept", records.len());
        assert!(records.is_sorted_by(|one, next| one.offset < next.offset));
        for n in rounds - 10..rounds {
            let newest = records.iter().rev().find(|stored| stored.record.key == key(n));
            let value = newest.and_then(|stored| stored.record.value.clone());
            assert_eq!(value, (n % 10 != 3).then(|| n.to_string().into_bytes()));
        }
        assert_eq!(log.read(0, rounds as i64 - 1, 5).unwrap().len(), 1);
    }
}
