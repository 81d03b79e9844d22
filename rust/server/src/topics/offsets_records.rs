//! The records of a partition of `__consumer_offsets` as clients read them. The log of the groups has the records; batches
//! are made of them for each read.

use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use rota_core::error::ErrorCode;
use rota_log::{
    BatchKind, EndMarker, FencedLog, LogError, LogRecord, RecordInPlace, TimestampedOffset, TransactionIndex, batches,
    encode_append, rewrite_header,
};

use crate::log::offsets_log::SharedLog;

/// The log does not keep the epochs of batches; readers take this for "not known".
const NO_LEADER_EPOCH: i32 = -1;
/// Bytes of batches that are looked through at once for transactions, about those of a read of the log; and how often for one
/// request.
const FOLLOWED_BYTES: usize = 1 << 18;
const FOLLOWED_SLICES: usize = 8;
/// Bytes of records that one lookup by time visits.
const LOOKUP_BYTES_MAX: usize = 16 << 20;
/// No batch is smaller.
const BATCH_BYTES_MIN: usize = 61;

/// See the module.
#[derive(Debug)]
pub(super) struct OffsetsRecords {
    log: Arc<SharedLog>,
    partition: i32,
    /// The end of the records whose transactions are known.
    pub followed: i64,
}

impl OffsetsRecords {
    pub fn new(log: &Arc<SharedLog>, partition: i32) -> OffsetsRecords {
        OffsetsRecords { log: Arc::clone(log), partition, followed: 0 }
    }

    /// Returns the end of the durable records.
    pub fn next_offset(&self) -> i64 {
        self.log.end(self.partition).unwrap_or(0)
    }

    /// Returns the bytes of the durable records.
    pub fn size_bytes(&self) -> u64 {
        self.log.size_bytes(self.partition)
    }

    /// Checks that the end of the records is known. Errors: `KafkaStorageError`.
    pub fn check_readable(&self) -> Result<(), ErrorCode> {
        self.log.end(self.partition).map(|_| ()).map_err(|_| ErrorCode::KafkaStorageError)
    }

    /// Whether the transactions of all durable records are known.
    pub fn is_followed(&self) -> bool {
        self.followed >= self.next_offset()
    }

    /// Reads whole batches, as `PartitionLog::read` does. Errors: `KafkaStorageError`.
    pub fn read(&self, from: i64, max_bytes: usize, at_least_one: bool) -> Result<Bytes, ErrorCode> {
        if max_bytes < BATCH_BYTES_MIN && !at_least_one {
            return Ok(Bytes::new());
        }
        let read = self.slice(from, max_bytes, at_least_one);
        read.map(|(bytes, _)| bytes).map_err(|_| ErrorCode::KafkaStorageError)
    }

    /// Returns the first record at or after a time, or an earlier one if that is too far to look for. Errors:
    /// `KafkaStorageError`.
    pub fn offset_for_timestamp(
        &self,
        at_ms: i64,
        bytes_left: &mut usize,
    ) -> Result<Option<TimestampedOffset>, ErrorCode> {
        let mut found = None;
        self.each(bytes_left, |record, is_last_visited| {
            if record.timestamp_ms >= at_ms || is_last_visited {
                found = Some(record);
            }
            found.is_none()
        })?;
        Ok(found)
    }

    /// Returns the first record with the greatest timestamp among those that are not too far to look for. Errors:
    /// `KafkaStorageError`.
    pub fn offset_of_max_timestamp(&self, bytes_left: &mut usize) -> Result<Option<TimestampedOffset>, ErrorCode> {
        let mut newest: Option<TimestampedOffset> = None;
        self.each(bytes_left, |record, _| {
            if newest.is_none_or(|newest| record.timestamp_ms > newest.timestamp_ms) {
                newest = Some(record);
            }
            true
        })?;
        Ok(newest)
    }

    /// Looks for transactions in the records that came since, some of them at a time.
    pub fn follow(&mut self, transactions: &mut TransactionIndex) -> Result<(), ErrorCode> {
        for _ in 0..FOLLOWED_SLICES {
            let read = self.slice(self.followed, FOLLOWED_BYTES, true);
            let (bytes, next) = read.map_err(|_| ErrorCode::KafkaStorageError)?;
            if next == self.followed {
                break;
            }
            for batch in batches(&bytes).flatten() {
                let marker = EndMarker::read(&batch).ok().flatten();
                let _aborted = transactions.observe(batch.header(), marker.as_ref());
            }
            self.followed = next;
        }
        Ok(())
    }

    /// Visits records in order while `visit` returns true, and at most `LOOKUP_BYTES_MAX` and `bytes_left` bytes. `visit` also
    /// gets whether no more can be visited.
    fn each(
        &self,
        bytes_left: &mut usize,
        mut visit: impl FnMut(TimestampedOffset, bool) -> bool,
    ) -> Result<(), ErrorCode> {
        let mut here_left = LOOKUP_BYTES_MAX.min(*bytes_left);
        let (mut next, mut goes_on) = (0, true);
        while goes_on {
            let visit = &mut |record: RecordInPlace<'_>| {
                if !goes_on {
                    return;
                }
                let RecordInPlace { offset, timestamp_ms, key, value, .. } = record;
                let bytes = key.len() + value.map_or(0, <[u8]>::len);
                let is_last = bytes > here_left;
                here_left = here_left.saturating_sub(bytes);
                *bytes_left = bytes_left.saturating_sub(bytes);
                let record = TimestampedOffset { offset, timestamp_ms, leader_epoch: NO_LEADER_EPOCH };
                goes_on = visit(record, is_last) && !is_last;
            };
            let after = self.log.read(self.partition, next, visit).map_err(|_| ErrorCode::KafkaStorageError)?;
            goes_on = goes_on && after != next;
            next = after;
        }
        Ok(())
    }

    /// Reads batches from `from` on, and returns the offset after them.
    fn slice(&self, from: i64, max_bytes: usize, at_least_one: bool) -> Result<(Bytes, i64), LogError> {
        let mut made = Batches::new(from, max_bytes, at_least_one);
        let mut next = from;
        // Compaction may have left nothing in a whole slice of the log.
        while made.is_empty() {
            let after = self.log.read(self.partition, next, &mut |record| made.add(record))?;
            if after == next {
                break;
            }
            next = after;
        }
        Ok(made.finish(next))
    }
}

/// Batches in the making.
struct Batches {
    made: BytesMut,
    max_bytes: usize,
    at_least_one: bool,
    is_full: bool,
    /// The offset after the batches.
    end: i64,
    /// What the current batch has in common, and its first offset.
    of: (BatchKind, i64, i64),
    records: Vec<LogRecord>,
}

impl Batches {
    fn new(from: i64, max_bytes: usize, at_least_one: bool) -> Batches {
        let of = (BatchKind::Plain, 0, from);
        Batches { made: BytesMut::new(), max_bytes, at_least_one, is_full: false, end: from, of, records: Vec::new() }
    }

    fn is_empty(&self) -> bool {
        self.made.is_empty() && self.records.is_empty() && !self.is_full
    }

    /// Adds a record to the current batch if it was appended with it, as far as one can see.
    fn add(&mut self, record: RecordInPlace<'_>) {
        let RecordInPlace { offset, timestamp_ms, kind, key, value } = record;
        let (of_kind, of_time_ms, base_offset) = self.of;
        let is_next = offset == base_offset + self.records.len() as i64;
        if kind.is_marker() || !is_next || (kind, timestamp_ms) != (of_kind, of_time_ms) {
            self.flush();
            self.of = (kind, timestamp_ms, offset);
        }
        if self.is_full {
            return;
        }
        if let BatchKind::Marker(marker) = kind {
            self.write(&marker.batch(timestamp_ms), offset, offset + 1);
        } else {
            self.records.push(LogRecord { key: key.to_vec(), value: value.map(<[u8]>::to_vec) });
        }
    }

    fn flush(&mut self) {
        let records = std::mem::take(&mut self.records);
        if !records.is_empty() {
            let (kind, timestamp_ms, base_offset) = self.of;
            self.write(&encode_append(kind, timestamp_ms, &records), base_offset, base_offset + records.len() as i64);
        }
    }

    fn write(&mut self, batch: &[u8], base_offset: i64, end: i64) {
        let must_be_there = self.at_least_one && self.made.is_empty();
        self.is_full |= self.made.len() + batch.len() > self.max_bytes && !must_be_there;
        if !self.is_full {
            let at = self.made.len();
            self.made.extend_from_slice(batch);
            rewrite_header(&mut self.made[at..], base_offset, NO_LEADER_EPOCH);
            self.end = end;
        }
    }

    /// Returns the batches, and the offset after them; `next` is the offset after all records that were added.
    fn finish(mut self, next: i64) -> (Bytes, i64) {
        self.flush();
        let end = if self.is_full { self.end } else { next };
        (self.made.freeze(), end)
    }
}

#[cfg(test)]
mod tests {
    use rota_log::{Append, Completions, FaultyLog, MemoryLog};

    use super::*;

    const PRODUCER: BatchKind = BatchKind::Transactional { producer_id: 7, producer_epoch: 0 };

    fn marker(is_commit: bool) -> BatchKind {
        BatchKind::Marker(EndMarker { producer_id: 7, producer_epoch: 0, coordinator_epoch: 0, is_commit })
    }

    /// A partition with appends of so many records.
    fn log(appends: &[(BatchKind, usize)]) -> Arc<SharedLog> {
        let log = Arc::new(FaultyLog::new(Arc::new(MemoryLog::new(1, 1 << 20)), || 0));
        let completions = Completions::new(|| ());
        log.open(0, 0, &completions);
        for (id, (kind, count)) in appends.iter().enumerate() {
            let record = |at| LogRecord { key: format!("{id}.{at}").into_bytes(), value: Some(b"v".to_vec()) };
            let (id, timestamp_ms, batch) = (id as u64, 100 + id as i64, (0..*count).map(record).collect());
            log.append(Append { partition: 0, epoch: 0, id, timestamp_ms, kind: *kind, batch }, &completions);
        }
        log
    }

    /// Base offset, number of records, producer and whether it is a marker, of each batch.
    fn shapes(bytes: &Bytes) -> Vec<(i64, i32, i64, bool)> {
        let all = batches(bytes).map(Result::unwrap);
        all.map(|batch| {
            batch.validate().unwrap();
            let header = *batch.header();
            (header.base_offset, header.record_count, header.producer_id, header.is_control())
        })
        .collect()
    }

    #[test]
    fn batches_are_those_that_were_appended() {
        let records = OffsetsRecords::new(&log(&[(BatchKind::Plain, 2), (PRODUCER, 1), (marker(true), 0)]), 0);
        assert_eq!(records.next_offset(), 4);
        let all = [(0, 2, -1, false), (2, 1, 7, false), (3, 1, 7, true)];
        assert_eq!(shapes(&records.read(0, 1 << 20, false).unwrap()), all);
        assert_eq!(shapes(&records.read(1, 1 << 20, false).unwrap())[0], (1, 1, -1, false), "from within a batch");
        assert_eq!(records.read(4, 1 << 20, true).unwrap().len(), 0);
    }

    #[test]
    fn no_more_bytes_than_asked_for_are_read_but_one_batch() {
        let records = OffsetsRecords::new(&log(&[(BatchKind::Plain, 1), (BatchKind::Plain, 1)]), 0);
        let one = records.read(0, 0, true).unwrap();
        assert_eq!(shapes(&one), [(0, 1, -1, false)]);
        assert_eq!(records.read(0, one.len() - 1, false).unwrap().len(), 0);
        assert_eq!(records.read(0, one.len(), false).unwrap(), one);
        assert_eq!(shapes(&records.read(0, one.len() * 2, false).unwrap()).len(), 2);
    }

    #[test]
    fn times_are_found() {
        let records = OffsetsRecords::new(&log(&[(BatchKind::Plain, 2), (BatchKind::Plain, 2)]), 0);
        let at = |offset, timestamp_ms| Some(TimestampedOffset { offset, timestamp_ms, leader_epoch: -1 });
        for (asked_ms, found) in [(0, at(0, 100)), (100, at(0, 100)), (101, at(2, 101)), (102, None)] {
            assert_eq!(records.offset_for_timestamp(asked_ms, &mut 1_000), Ok(found));
        }
        assert_eq!(records.offset_of_max_timestamp(&mut 1_000), Ok(at(2, 101)));
        assert_eq!(records.offset_for_timestamp(101, &mut 5), Ok(at(1, 100)), "an earlier one, not none");
    }

    #[test]
    fn readers_come_to_the_end_whatever_compaction_takes() {
        for last in [marker(true), marker(false)] {
            let mut appends = vec![(BatchKind::Plain, 1); 1_022];
            appends.extend([(PRODUCER, 1), (last, 0)]);
            let mut records = OffsetsRecords::new(&log(&appends), 0);
            records.follow(&mut TransactionIndex::default()).unwrap();
            assert_eq!((records.followed, records.is_followed()), (1_024, true));
        }
    }

    #[test]
    fn transactions_are_followed() {
        for (appends, first_open, aborted) in [
            (vec![(BatchKind::Plain, 2), (PRODUCER, 1), (BatchKind::Plain, 1)], Some(2), 0),
            (vec![(PRODUCER, 1), (marker(true), 0)], None, 0),
            (vec![(PRODUCER, 1), (marker(false), 0)], None, 1),
        ] {
            let mut records = OffsetsRecords::new(&log(&appends), 0);
            let mut transactions = TransactionIndex::default();
            records.follow(&mut transactions).unwrap();
            assert_eq!(records.followed, records.next_offset());
            assert_eq!((transactions.first_open(), transactions.aborted().len()), (first_open, aborted));
        }
    }
}
