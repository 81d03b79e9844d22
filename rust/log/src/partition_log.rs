//! One partition of a user topic in memory: batches as they came, with their offsets assigned.

use std::collections::VecDeque;

use bytes::{Bytes, BytesMut};

use crate::batch::{Batch, BatchError, rewrite_header, stamp_append_time};

/// Most bytes that a look-up by time decompresses of one batch; beyond, it answers at the precision of the batch.
const LOOKUP_PAYLOAD_BYTES_MAX: usize = 64 << 20;

/// A record found by its time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimestampedOffset {
    /// Of the record.
    pub offset: i64,
    /// Of the record, wall milliseconds.
    pub timestamp_ms: i64,
    /// Of the leader that stored it.
    pub leader_epoch: i32,
}

#[derive(Clone, Debug)]
struct Stored {
    bytes: Bytes,
    base_offset: i64,
    last_offset: i64,
    /// The greatest timestamp of this batch and of all before it, so that look-ups by time can search by halves.
    running_max_timestamp_ms: i64,
}

impl Stored {
    fn batch(&self) -> Batch<'_> {
        Batch::split(&self.bytes).expect("what was stored is a batch").0
    }
}

/// See the module. An empty one owns no heap memory.
#[derive(Clone, Debug, Default)]
pub struct PartitionLog {
    batches: VecDeque<Stored>,
    first_offset: i64,
    next_offset: i64,
    size_bytes: u64,
}

impl PartitionLog {
    /// Stores a copy of `batch`, whose offsets become the next ones; gives the first of them. `append_time_ms`: the
    /// records' timestamps become this one. The caller has validated the batch: here it is only required to have
    /// records. Errors: `BadRecordCount`, also when the offsets are used up.
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

    /// The oldest offset that can be read, or the next one to be assigned if there is none.
    pub fn first_offset(&self) -> i64 {
        self.first_offset
    }

    /// The offset that the next record will have.
    pub fn next_offset(&self) -> i64 {
        self.next_offset
    }

    /// Of all batches.
    pub fn size_bytes(&self) -> u64 {
        self.size_bytes
    }

    /// How many batches.
    pub fn batch_count(&self) -> usize {
        self.batches.len()
    }

    /// Whole batches from the one that holds `from_offset` on, at most `max_bytes` of them, but the first one whatever
    /// its size if `at_least_one`. Nothing is copied. Empty outside of the log's offsets.
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

    /// The first record whose timestamp is `timestamp_ms` or later. Batches that cannot be decompressed answer with
    /// their first offset and their greatest timestamp, and so do all once `bytes_left` is used up, from which the
    /// bytes of the records that are looked at are taken.
    pub fn offset_for_timestamp(&self, timestamp_ms: i64, bytes_left: &mut usize) -> Option<TimestampedOffset> {
        let at = self.batches.partition_point(|stored| stored.running_max_timestamp_ms < timestamp_ms);
        // A batch may claim a later timestamp than any of its records has: then a later batch answers.
        self.batches.range(at..).find_map(|stored| find_record(stored, timestamp_ms, bytes_left))
    }

    /// The first record among those with the greatest timestamp of all; `bytes_left` as for
    /// [`PartitionLog::offset_for_timestamp`].
    pub fn offset_of_max_timestamp(&self, bytes_left: &mut usize) -> Option<TimestampedOffset> {
        let max_timestamp_ms = self.batches.back()?.running_max_timestamp_ms;
        let at = self.batches.partition_point(|stored| stored.running_max_timestamp_ms < max_timestamp_ms);
        let stored = self.batches.get(at)?;
        find_record(stored, max_timestamp_ms, bytes_left).or_else(|| Some(whole_batch(&stored.batch())))
    }

    /// Drops the oldest batches once there are more than `limit_bytes` bytes, down to seven eighths of it so that it
    /// does not happen at every append; the newest batch stays. Gives whether any went.
    pub fn trim_to_bytes(&mut self, limit_bytes: u64) -> bool {
        if self.size_bytes <= limit_bytes {
            return false;
        }
        let target_bytes = limit_bytes - limit_bytes / 8;
        let before = self.batches.len();
        while self.size_bytes > target_bytes && self.batches.len() > 1 {
            let Some(gone) = self.batches.pop_front() else { break };
            self.size_bytes -= gone.bytes.len() as u64;
            self.first_offset = gone.last_offset + 1;
        }
        let mut running_max_timestamp_ms = i64::MIN;
        for stored in &mut self.batches {
            running_max_timestamp_ms = running_max_timestamp_ms.max(stored.batch().header().max_timestamp_ms);
            stored.running_max_timestamp_ms = running_max_timestamp_ms;
        }
        self.batches.len() < before
    }
}

fn whole_batch(batch: &Batch<'_>) -> TimestampedOffset {
    let header = batch.header();
    TimestampedOffset {
        offset: header.base_offset,
        timestamp_ms: header.max_timestamp_ms,
        leader_epoch: header.leader_epoch,
    }
}

/// The first record of `stored` at or after `timestamp_ms`.
fn find_record(stored: &Stored, timestamp_ms: i64, bytes_left: &mut usize) -> Option<TimestampedOffset> {
    let batch = stored.batch();
    debug_assert_eq!(batch.header().base_offset, stored.base_offset);
    find_in_batch(&batch, timestamp_ms, bytes_left)
}

/// The first record of `batch` at or after `timestamp_ms`; `bytes_left` as for [`PartitionLog::offset_for_timestamp`].
pub(crate) fn find_in_batch(batch: &Batch<'_>, timestamp_ms: i64, bytes_left: &mut usize) -> Option<TimestampedOffset> {
    let header = batch.header();
    if header.max_timestamp_ms < timestamp_ms {
        return None;
    }
    if header.is_log_append_time() {
        return Some(whole_batch(batch));
    }
    let limit_bytes = LOOKUP_PAYLOAD_BYTES_MAX.min(*bytes_left);
    let payload = if limit_bytes > 0 { batch.payload(limit_bytes).ok() } else { None };
    *bytes_left = bytes_left.saturating_sub(payload.as_ref().map_or(limit_bytes, |payload| payload.len()));
    let Some(payload) = payload else { return Some(whole_batch(batch)) };
    for record in batch.records_in(&payload) {
        let Ok(record) = record else { return Some(whole_batch(batch)) };
        if batch.timestamp_ms(&record) >= timestamp_ms {
            return Some(TimestampedOffset {
                offset: batch.offset(&record).clamp(header.base_offset, header.last_offset()),
                timestamp_ms: batch.timestamp_ms(&record),
                leader_epoch: header.leader_epoch,
            });
        }
    }
    None
}
