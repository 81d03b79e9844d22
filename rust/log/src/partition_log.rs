//! One partition of a user topic in memory: stored batches with assigned offsets.

use std::collections::VecDeque;

use bytes::{Bytes, BytesMut};

use crate::batch::{Batch, BatchError, BatchHeader, rewrite_header, stamp_append_time};

/// Maximum bytes that a lookup by time decompresses of one batch. A larger batch is found at the precision of the
/// batch.
const LOOKUP_PAYLOAD_BYTES_MAX: usize = 64 << 20;

/// Memory of a batch beside its bytes: its place in the log, and the head of its allocation.
const BATCH_MEMORY_BYTES: u64 = 128;

/// The result of a lookup by time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimestampedOffset {
    /// The record's offset.
    pub offset: i64,
    /// The record's timestamp in wall milliseconds.
    pub timestamp_ms: i64,
    /// The epoch of the leader that stored the record.
    pub leader_epoch: i32,
}

#[derive(Clone, Debug)]
struct Stored {
    bytes: Bytes,
    base_offset: i64,
    last_offset: i64,
    /// The greatest timestamp of this and all earlier batches, for binary search by time.
    running_max_timestamp_ms: i64,
}

impl Stored {
    fn batch(&self) -> Batch<'_> {
        Batch::split(&self.bytes).expect("what was stored is a batch").0
    }
}

/// A partition in memory. An empty one owns no heap memory.
#[derive(Clone, Debug, Default)]
pub struct PartitionLog {
    batches: VecDeque<Stored>,
    first_offset: i64,
    next_offset: i64,
    size_bytes: u64,
    /// The first offset of the oldest open transaction.
    first_open: Option<i64>,
}

impl PartitionLog {
    /// Stores a copy of `batch` with the next offsets. Returns the first of them. With `append_time_ms`, every record
    /// gets this timestamp. The caller has validated the batch; this function only checks that it has records. Errors:
    /// `BadRecordCount`, also if the offsets are used up.
    pub fn append(
        &mut self,
        batch: &Batch<'_>,
        leader_epoch: i32,
        append_time_ms: Option<i64>,
    ) -> Result<i64, BatchError> {
        let header = batch.header();
        let base_offset = self.next_offset;
        let count = i64::from(header.last_offset_delta).checked_add(1).filter(|count| *count > 0);
        let Some(next_offset) = count.and_then(|count| base_offset.checked_add(count)) else {
            let (record_count, last_offset_delta) = (header.record_count, header.last_offset_delta);
            return Err(BatchError::BadRecordCount { record_count, last_offset_delta });
        };
        let mut bytes = BytesMut::from(batch.bytes());
        rewrite_header(&mut bytes, base_offset, leader_epoch);
        if let Some(now_ms) = append_time_ms {
            stamp_append_time(&mut bytes, now_ms);
        }
        let max_timestamp_ms = append_time_ms.unwrap_or(header.max_timestamp_ms);
        let before = self.batches.back().map_or(i64::MIN, |stored| stored.running_max_timestamp_ms);
        self.size_bytes += bytes.len() as u64;
        self.batches.push_back(Stored {
            bytes: bytes.freeze(),
            base_offset,
            last_offset: next_offset - 1,
            running_max_timestamp_ms: before.max(max_timestamp_ms),
        });
        self.next_offset = next_offset;
        Ok(base_offset)
    }

    /// Returns the oldest readable offset, or the next one if there is none.
    pub fn first_offset(&self) -> i64 {
        self.first_offset
    }

    /// Returns the offset of the next record.
    pub fn next_offset(&self) -> i64 {
        self.next_offset
    }

    /// Returns the size of all batches in bytes.
    pub fn size_bytes(&self) -> u64 {
        self.size_bytes
    }

    /// Returns the approximate memory of the log in bytes.
    pub fn memory_bytes(&self) -> u64 {
        self.size_bytes + self.batches.len() as u64 * BATCH_MEMORY_BYTES
    }

    /// Returns the approximate memory that a batch of `size_bytes` adds.
    pub fn batch_memory_bytes(size_bytes: usize) -> u64 {
        size_bytes as u64 + BATCH_MEMORY_BYTES
    }

    /// Returns the number of batches.
    pub fn batch_count(&self) -> usize {
        self.batches.len()
    }

    /// Reads whole batches from the one with `from_offset`, at most `max_bytes`, but always the first one if
    /// `at_least_one`. Copies nothing. Returns none outside of the log's offsets.
    pub fn read(&self, from_offset: i64, max_bytes: usize, at_least_one: bool) -> Vec<Bytes> {
        if from_offset < self.first_offset {
            return Vec::new();
        }
        let start = self.batches.partition_point(|stored| stored.last_offset < from_offset);
        let mut left_bytes = max_bytes;
        let mut chunks = Vec::new();
        for stored in self.batches.range(start..) {
            match left_bytes.checked_sub(stored.bytes.len()) {
                Some(left) => left_bytes = left,
                None if at_least_one && chunks.is_empty() => left_bytes = 0,
                None => break,
            }
            chunks.push(stored.bytes.clone());
        }
        chunks
    }

    /// Finds the first record with a timestamp of at least `timestamp_ms`. Subtracts the bytes of decompressed records
    /// from `bytes_left`. Once these are used up, and for a batch that cannot be decompressed, the result is the
    /// batch's first offset and greatest timestamp.
    pub fn offset_for_timestamp(&self, timestamp_ms: i64, bytes_left: &mut usize) -> Option<TimestampedOffset> {
        let at = self.batches.partition_point(|stored| stored.running_max_timestamp_ms < timestamp_ms);
        // A batch may claim a later timestamp than its records have. Then a later batch has the result.
        self.batches.range(at..).find_map(|stored| find_record(stored, timestamp_ms, self.first_offset, bytes_left))
    }

    /// Finds the first record with the greatest timestamp; `bytes_left` as for [`PartitionLog::offset_for_timestamp`].
    pub fn offset_of_max_timestamp(&self, bytes_left: &mut usize) -> Option<TimestampedOffset> {
        let max_timestamp_ms = self.batches.back()?.running_max_timestamp_ms;
        let at = self.batches.partition_point(|stored| stored.running_max_timestamp_ms < max_timestamp_ms);
        let stored = self.batches.get(at)?;
        let found = find_record(stored, max_timestamp_ms, self.first_offset, bytes_left);
        found.or_else(|| Some(whole_batch(stored.batch().header(), self.first_offset)))
    }

    /// Keeps the records from `first_open` on, the first offset of the oldest open transaction. `None`: none is open.
    pub fn keep_open(&mut self, first_open: Option<i64>) {
        self.first_open = first_open;
    }

    /// Drops the oldest batches as long as at least `limit_bytes` remain, once the size exceeds the limit by an eighth of
    /// it, so that this does not happen at every append. The newest batch stays, and so do open transactions. Returns
    /// whether any were dropped.
    pub fn trim_to_bytes(&mut self, limit_bytes: u64) -> bool {
        if self.size_bytes <= limit_bytes.saturating_add(limit_bytes / 8) {
            return false;
        }
        let before = self.batches.len();
        while self.batches.len() > 1 {
            let is_past_limit = |oldest: &Stored| self.size_bytes - oldest.bytes.len() as u64 >= limit_bytes;
            let is_decided = |oldest: &Stored| self.first_open.is_none_or(|first| oldest.last_offset < first);
            if !self.batches.front().is_some_and(|oldest| is_past_limit(oldest) && is_decided(oldest)) {
                break;
            }
            let Some(gone) = self.batches.pop_front() else { break };
            self.size_bytes -= gone.bytes.len() as u64;
            self.first_offset = self.first_offset.max(gone.last_offset + 1);
        }
        let dropped = self.batches.len() < before;
        if dropped {
            self.rank_by_time();
        }
        dropped
    }

    /// Deletes the records below `offset`, which is at most the next offset; also those of open transactions. A batch
    /// that has later records, too, stays whole.
    pub fn delete_below(&mut self, offset: i64) {
        self.first_offset = self.first_offset.max(offset.min(self.next_offset));
        let count = self.batches.partition_point(|stored| stored.last_offset < self.first_offset);
        self.size_bytes -= self.batches.drain(..count).map(|gone| gone.bytes.len() as u64).sum::<u64>();
        self.rank_by_time();
    }

    /// Corrects the running maxima after the first batches were dropped. From the first correct one on, all are.
    fn rank_by_time(&mut self) {
        let mut running_max_timestamp_ms = i64::MIN;
        for stored in &mut self.batches {
            running_max_timestamp_ms = running_max_timestamp_ms.max(stored.batch().header().max_timestamp_ms);
            if stored.running_max_timestamp_ms == running_max_timestamp_ms {
                break;
            }
            stored.running_max_timestamp_ms = running_max_timestamp_ms;
        }
    }
}

/// Returns the first offset of a batch at or after `first_offset`, with its greatest timestamp.
pub(crate) fn whole_batch(header: &BatchHeader, first_offset: i64) -> TimestampedOffset {
    TimestampedOffset {
        offset: header.base_offset.max(first_offset),
        timestamp_ms: header.max_timestamp_ms,
        leader_epoch: header.leader_epoch,
    }
}

/// Finds the first record of `stored` at or after `timestamp_ms` and `first_offset`.
fn find_record(
    stored: &Stored,
    timestamp_ms: i64,
    first_offset: i64,
    bytes_left: &mut usize,
) -> Option<TimestampedOffset> {
    let batch = stored.batch();
    debug_assert_eq!(batch.header().base_offset, stored.base_offset);
    find_in_batch(&batch, timestamp_ms, first_offset, bytes_left)
}

/// Finds the first record of `batch` at or after `timestamp_ms` and `first_offset`; `bytes_left` as for
/// [`PartitionLog::offset_for_timestamp`].
pub(crate) fn find_in_batch(
    batch: &Batch<'_>,
    timestamp_ms: i64,
    first_offset: i64,
    bytes_left: &mut usize,
) -> Option<TimestampedOffset> {
    let header = batch.header();
    if header.max_timestamp_ms < timestamp_ms || header.last_offset() < first_offset {
        return None;
    }
    let whole = || Some(whole_batch(header, first_offset));
    if header.is_log_append_time() {
        return whole();
    }
    let limit_bytes = LOOKUP_PAYLOAD_BYTES_MAX.min(*bytes_left);
    let payload = if limit_bytes > 0 { batch.payload(limit_bytes).ok() } else { None };
    *bytes_left = bytes_left.saturating_sub(payload.as_ref().map_or(limit_bytes, |payload| payload.len()));
    let Some(payload) = payload else { return whole() };
    for record in batch.records_in(&payload) {
        let Ok(record) = record else { return whole() };
        if batch.timestamp_ms(&record) >= timestamp_ms && batch.offset(&record) >= first_offset {
            return Some(TimestampedOffset {
                offset: batch.offset(&record).clamp(header.base_offset, header.last_offset()),
                timestamp_ms: batch.timestamp_ms(&record),
                leader_epoch: header.leader_epoch,
            });
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::BatchWriter;

    /// A running maximum that no batch has: a trim that works on a batch replaces it.
    const UNTOUCHED: i64 = 77;

    fn append(log: &mut PartitionLog, timestamp_ms: i64) {
        let mut writer = BatchWriter::default();
        writer.push(timestamp_ms, None, Some(b"0123456789"));
        log.append(&Batch::split(&writer.finish()).unwrap().0, 0, None).unwrap();
    }

    fn filled(count: i64) -> PartitionLog {
        let mut log = PartitionLog::default();
        (0..count).for_each(|at| append(&mut log, 1_000 + at));
        log
    }

    #[test]
    fn a_trim_that_an_open_transaction_prevents_works_on_no_batch() {
        let mut log = filled(100);
        log.keep_open(Some(0));
        log.batches.iter_mut().for_each(|stored| stored.running_max_timestamp_ms = UNTOUCHED);
        assert!(!log.trim_to_bytes(log.size_bytes() / 2));
        assert!(log.batches.iter().all(|stored| stored.running_max_timestamp_ms == UNTOUCHED));
        log.keep_open(None);
        assert!(log.trim_to_bytes(log.size_bytes() / 2));
    }

    #[test]
    fn a_trim_of_batches_in_the_order_of_their_time_works_on_one_that_stays() {
        let mut log = filled(100);
        log.batches.iter_mut().skip(51).for_each(|stored| stored.running_max_timestamp_ms = UNTOUCHED);
        assert!(log.trim_to_bytes(log.size_bytes() / 2));
        assert_eq!((log.batches.len(), log.batches[0].running_max_timestamp_ms), (50, 1_050));
        assert!(log.batches.iter().skip(1).all(|stored| stored.running_max_timestamp_ms == UNTOUCHED));
    }
}
