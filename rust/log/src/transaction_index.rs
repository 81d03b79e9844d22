//! The transactions of one partition of a topic, in the order of its log: which are open, and which were aborted.
//!
//! A reader of committed records reads up to the last stable offset, and skips the records of aborted transactions. The
//! files beside the segments are Kafka's: a `.txnindex` with the transactions whose abort marker is in the segment, and a
//! `.snapshot` with the producers before an offset.

use std::collections::BTreeMap;

use crate::{batch::BatchHeader, transaction::EndMarker};

/// Bytes of a row of a `.txnindex`: version i16, producer id, first offset, last offset, last stable offset.
const ROW_BYTES: usize = 34;
const ROW_VERSION: i16 = 0;
const SNAPSHOT_VERSION: i16 = 1;
/// The checksum of a snapshot covers what follows it.
const SNAPSHOT_SUMMED_AT: usize = 6;
/// Bytes of a producer in a snapshot.
const PRODUCER_BYTES: usize = 46;
/// Maximum producers without an open transaction. The least recent ones are forgotten, an eighth at a time.
const PRODUCERS_MAX: usize = 10_000;

/// An aborted transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AbortedTransaction {
    /// The producer id.
    pub producer_id: i64,
    /// The offset of its first record.
    pub first_offset: i64,
    /// The offset of its marker.
    pub last_offset: i64,
    /// The last stable offset after the marker.
    pub last_stable_offset: i64,
}

/// A producer that has written transactions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TransactionalProducer {
    /// The newest epoch of a batch or a marker.
    pub epoch: i16,
    /// The epoch of the coordinator of the last marker; -1: none.
    pub coordinator_epoch: i32,
    /// The first offset of the open transaction; `None`: none is open.
    pub first_offset: Option<i64>,
    /// The last sequence number of `epoch`; -1: none.
    pub last_sequence: i32,
    /// The offset of the last record or marker.
    pub last_offset: i64,
    /// `last_offset` minus the first offset of its batch.
    pub last_offset_delta: i32,
    /// Time of the last batch in wall milliseconds.
    pub last_timestamp_ms: i64,
}

/// The transactions of a partition. Without any it owns no heap memory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TransactionIndex {
    producers: BTreeMap<i64, TransactionalProducer>,
    /// Producers of open transactions by first offset.
    open: BTreeMap<i64, i64>,
    /// In the order of their markers.
    aborted: Vec<AbortedTransaction>,
}

impl TransactionIndex {
    /// Adds a durable batch; `header` has its offsets. Batches come in the order of the log. Returns the transaction that
    /// it aborts.
    pub fn observe(&mut self, header: &BatchHeader, marker: Option<&EndMarker>) -> Option<AbortedTransaction> {
        match marker {
            Some(marker) => self.end(header, marker),
            None if header.is_transactional() && !header.is_control() => {
                self.begin_or_continue(header);
                None
            }
            None => None,
        }
    }

    fn begin_or_continue(&mut self, header: &BatchHeader) {
        let producer = self.producer(header.producer_id);
        producer.epoch = header.producer_epoch;
        producer.last_sequence = header.last_sequence();
        producer.last_offset = header.last_offset();
        producer.last_offset_delta = header.last_offset_delta;
        producer.last_timestamp_ms = header.max_timestamp_ms;
        if producer.first_offset.is_none() {
            producer.first_offset = Some(header.base_offset);
            self.open.insert(header.base_offset, header.producer_id);
        }
    }

    fn end(&mut self, header: &BatchHeader, marker: &EndMarker) -> Option<AbortedTransaction> {
        let producer = self.producer(marker.producer_id);
        if marker.producer_epoch > producer.epoch {
            producer.epoch = marker.producer_epoch;
            producer.last_sequence = -1;
        }
        producer.coordinator_epoch = producer.coordinator_epoch.max(marker.coordinator_epoch);
        producer.last_offset = header.base_offset;
        producer.last_offset_delta = 0;
        producer.last_timestamp_ms = header.max_timestamp_ms;
        let first_offset = producer.first_offset.take()?;
        self.open.remove(&first_offset);
        if marker.is_commit {
            return None;
        }
        let last_offset = header.base_offset;
        let aborted = AbortedTransaction {
            producer_id: marker.producer_id,
            first_offset,
            last_offset,
            last_stable_offset: self.last_stable_offset(last_offset.saturating_add(1)),
        };
        self.aborted.push(aborted);
        Some(aborted)
    }

    fn producer(&mut self, producer_id: i64) -> &mut TransactionalProducer {
        if !self.producers.contains_key(&producer_id) && self.producers.len() >= PRODUCERS_MAX + self.open.len() {
            self.forget_silent();
        }
        self.producers.entry(producer_id).or_insert(TransactionalProducer {
            epoch: -1,
            coordinator_epoch: -1,
            first_offset: None,
            last_sequence: -1,
            last_offset: -1,
            last_offset_delta: 0,
            last_timestamp_ms: -1,
        })
    }

    fn forget_silent(&mut self) {
        let idle = self.producers.values().filter(|producer| producer.first_offset.is_none());
        let mut last: Vec<i64> = idle.map(|producer| producer.last_offset).collect();
        let at = (last.len() / 8).min(last.len().saturating_sub(1));
        if last.is_empty() {
            return;
        }
        let (_, newest_forgotten, _) = last.select_nth_unstable(at);
        let newest_forgotten = *newest_forgotten;
        self.producers.retain(|_, producer| producer.first_offset.is_some() || producer.last_offset > newest_forgotten);
    }

    /// Returns the offset below which every transaction is decided, in a log that ends at `end`.
    pub fn last_stable_offset(&self, end: i64) -> i64 {
        self.first_open().map_or(end, |first| first.min(end))
    }

    /// Returns the first offset of the oldest open transaction.
    pub fn first_open(&self) -> Option<i64> {
        self.open.keys().next().copied()
    }

    /// Returns the aborted transactions that a reader of the offsets from `from` and below `end` must skip, in the order
    /// of their markers.
    pub fn aborted_within(&self, from: i64, end: i64) -> Vec<AbortedTransaction> {
        let mut within = Vec::new();
        let at = self.aborted.partition_point(|aborted| aborted.last_offset < from);
        for aborted in &self.aborted[at..] {
            if aborted.first_offset < end {
                within.push(*aborted);
            }
            // Later ones begin there or above.
            if aborted.last_stable_offset >= end {
                break;
            }
        }
        within
    }

    /// Returns all aborted transactions, in the order of their markers.
    pub fn aborted(&self) -> &[AbortedTransaction] {
        &self.aborted
    }

    /// Iterates over the producers by id.
    pub fn producers(&self) -> impl Iterator<Item = (i64, &TransactionalProducer)> {
        self.producers.iter().map(|(id, producer)| (*id, producer))
    }

    /// Ends a producer's transaction whose marker is not in the log any more.
    pub fn close(&mut self, producer_id: i64) {
        let producer = self.producers.get_mut(&producer_id);
        if let Some(first_offset) = producer.and_then(|producer| producer.first_offset.take()) {
            self.open.remove(&first_offset);
        }
    }

    /// Forgets transactions that ended below the first offset of the log.
    pub fn forget_below(&mut self, first_offset: i64) {
        let gone = self.aborted.partition_point(|aborted| aborted.last_offset < first_offset);
        self.aborted.drain(..gone);
    }

    /// Returns the content of a `.snapshot` of the current producers.
    pub fn snapshot(&self) -> Vec<u8> {
        let mut summed = (self.producers.len() as i32).to_be_bytes().to_vec();
        for (producer_id, producer) in &self.producers {
            summed.extend(producer_id.to_be_bytes());
            summed.extend(producer.epoch.to_be_bytes());
            summed.extend(producer.last_sequence.to_be_bytes());
            summed.extend(producer.last_offset.to_be_bytes());
            summed.extend(producer.last_offset_delta.to_be_bytes());
            summed.extend(producer.last_timestamp_ms.to_be_bytes());
            summed.extend(producer.coordinator_epoch.to_be_bytes());
            summed.extend(producer.first_offset.unwrap_or(-1).to_be_bytes());
        }
        let mut bytes = SNAPSHOT_VERSION.to_be_bytes().to_vec();
        bytes.extend(crc32c::crc32c(&summed).to_be_bytes());
        bytes.extend(summed);
        bytes
    }

    /// Reads a `.snapshot`; `None` if it is damaged. Producers without a transaction are among them if Kafka wrote it.
    pub fn of_snapshot(bytes: &[u8]) -> Option<TransactionIndex> {
        let mut fields = Fields { rest: bytes };
        if fields.i16()? != SNAPSHOT_VERSION || fields.i32()? as u32 != crc32c::crc32c(bytes.get(SNAPSHOT_SUMMED_AT..)?)
        {
            return None;
        }
        let count = usize::try_from(fields.i32()?).ok()?;
        if fields.rest.len() != count.checked_mul(PRODUCER_BYTES)? {
            return None;
        }
        let mut index = TransactionIndex::default();
        for _ in 0..count {
            let producer_id = fields.i64()?;
            let producer = TransactionalProducer {
                epoch: fields.i16()?,
                last_sequence: fields.i32()?,
                last_offset: fields.i64()?,
                last_offset_delta: fields.i32()?,
                last_timestamp_ms: fields.i64()?,
                coordinator_epoch: fields.i32()?,
                first_offset: Some(fields.i64()?).filter(|first| *first >= 0),
            };
            if let Some(first_offset) = producer.first_offset {
                index.open.insert(first_offset, producer_id);
            }
            index.producers.insert(producer_id, producer);
        }
        Some(index)
    }

    /// Adds the rows of a `.txnindex` whose markers are below `end`, after those of older segments. Returns false if the
    /// bytes are damaged.
    #[must_use]
    pub fn add_rows(&mut self, bytes: &[u8], end: i64) -> bool {
        let mut fields = Fields { rest: bytes };
        let mut newest = self.aborted.last().map_or(-1, |aborted| aborted.last_offset);
        while !fields.rest.is_empty() {
            let Some(row) = fields.row().filter(|row| row.last_offset > newest && row.first_offset < row.last_offset)
            else {
                return false;
            };
            newest = row.last_offset;
            if row.last_offset < end {
                self.aborted.push(row);
            }
        }
        true
    }
}

impl AbortedTransaction {
    /// Returns the row of a `.txnindex`.
    pub fn row(&self) -> [u8; ROW_BYTES] {
        let mut row = [0; ROW_BYTES];
        row[..2].copy_from_slice(&ROW_VERSION.to_be_bytes());
        let fields = [self.producer_id, self.first_offset, self.last_offset, self.last_stable_offset];
        for (at, field) in fields.iter().enumerate() {
            row[2 + at * 8..10 + at * 8].copy_from_slice(&field.to_be_bytes());
        }
        row
    }
}

/// Reads fields from the front; `None` at the end of the bytes.
struct Fields<'a> {
    rest: &'a [u8],
}

impl Fields<'_> {
    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (field, rest) = self.rest.split_first_chunk::<N>()?;
        self.rest = rest;
        Some(*field)
    }

    fn i16(&mut self) -> Option<i16> {
        self.take().map(i16::from_be_bytes)
    }

    fn i32(&mut self) -> Option<i32> {
        self.take().map(i32::from_be_bytes)
    }

    fn i64(&mut self) -> Option<i64> {
        self.take().map(i64::from_be_bytes)
    }

    fn row(&mut self) -> Option<AbortedTransaction> {
        let version = self.i16()?;
        let (producer_id, first_offset, last_offset) = (self.i64()?, self.i64()?, self.i64()?);
        let last_stable_offset = self.i64()?;
        let row = AbortedTransaction { producer_id, first_offset, last_offset, last_stable_offset };
        (version == ROW_VERSION).then_some(row)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Batch, BatchKind, BatchWriter};

    /// A batch with these offsets, and its marker.
    fn batch(kind: BatchKind, base_offset: i64, count: i32) -> (BatchHeader, Option<EndMarker>) {
        let bytes = match kind {
            BatchKind::Marker(marker) => marker.batch(0),
            kind => {
                let mut writer = BatchWriter::default();
                if let BatchKind::Transactional { producer_id, producer_epoch } = kind {
                    writer.producer = Some((producer_id, producer_epoch, 0));
                    writer.is_transactional = true;
                }
                (0..count).for_each(|_| writer.push(0, None, None));
                writer.finish()
            }
        };
        let (batch, _) = Batch::split(&bytes).unwrap();
        (BatchHeader { base_offset, ..*batch.header() }, EndMarker::read(&batch).unwrap())
    }

    fn data(producer_id: i64) -> BatchKind {
        BatchKind::Transactional { producer_id, producer_epoch: 0 }
    }

    fn end(producer_id: i64, is_commit: bool) -> BatchKind {
        BatchKind::Marker(EndMarker { producer_id, producer_epoch: 0, coordinator_epoch: 0, is_commit })
    }

    /// Batches with consecutive offsets.
    fn index(batches: &[(BatchKind, i32)]) -> TransactionIndex {
        let (mut index, mut next) = (TransactionIndex::default(), 0);
        for (kind, count) in batches {
            let (header, marker) = batch(*kind, next, *count);
            index.observe(&header, marker.as_ref());
            next += i64::from(*count);
        }
        index
    }

    const A: i64 = 10;
    const B: i64 = 11;

    /// The session with Kafka 4.4.0 in which A aborts before B commits.
    fn recorded(batches: usize) -> TransactionIndex {
        let plain = BatchKind::Plain;
        let all = [(plain, 1), (data(A), 2), (data(B), 1), (plain, 1), (end(A, false), 1), (end(B, true), 1)];
        index(&all[..batches])
    }

    fn firsts(index: &TransactionIndex, from: i64, end: i64) -> Vec<(i64, i64)> {
        index.aborted_within(from, end).iter().map(|aborted| (aborted.producer_id, aborted.first_offset)).collect()
    }

    #[test]
    fn a_reader_of_committed_records_sees_what_kafka_shows() {
        assert_eq!(recorded(4).last_stable_offset(5), 1);
        assert_eq!(firsts(&recorded(4), 0, 1), []);
        let aborted = recorded(5);
        assert_eq!(aborted.last_stable_offset(6), 3);
        assert_eq!(firsts(&aborted, 0, 3), [(A, 1)]);
        let committed = recorded(6);
        assert_eq!(committed.last_stable_offset(7), 7);
        for from in 0..=5 {
            assert_eq!(firsts(&committed, from, 7), [(A, 1)], "from {from}: the marker is offset 5");
        }
        assert_eq!(firsts(&committed, 6, 7), []);
        assert_eq!(firsts(&committed, 0, 1), [], "nothing of it was returned");
    }

    #[test]
    fn the_aborted_transactions_of_a_range_are_those_that_a_search_of_all_finds() {
        let mut batches = Vec::new();
        // Transactions of five producers that overlap in every way.
        for step in 0..400_i64 {
            let producer = step * step % 5;
            let kind = if step * 7 % 3 == 0 { end(producer, step % 2 == 0) } else { data(producer) };
            batches.push((kind, 1));
        }
        let index = index(&batches);
        assert!(index.aborted().len() > 20);
        for from in (0..400).step_by(7) {
            for end in (from..=400).step_by(11) {
                let naive: Vec<_> = index
                    .aborted()
                    .iter()
                    .filter(|aborted| aborted.last_offset >= from && aborted.first_offset < end)
                    .copied()
                    .collect();
                assert_eq!(index.aborted_within(from, end), naive, "{from}..{end}");
            }
        }
    }

    /// As Kafka 4.4.0 has stored it.
    #[test]
    fn a_row_has_the_bytes_of_kafka_and_reads_back() {
        let aborted = AbortedTransaction { producer_id: 88, first_offset: 0, last_offset: 2, last_stable_offset: 1 };
        let mut row = vec![0, 0];
        for field in [0x58_i64, 0, 2, 1] {
            row.extend(field.to_be_bytes());
        }
        assert_eq!(aborted.row().to_vec(), row);
        let mut index = TransactionIndex::default();
        assert!(index.add_rows(&row, 3));
        assert_eq!(index.aborted(), [aborted]);
        for (bytes, end) in [(&row[..33], 3), (&row, 3), (&[&[0, 1], &row[2..]].concat(), 3)] {
            assert!(!index.clone().add_rows(bytes, end), "truncated, repeated, of another version");
        }
        let mut below = TransactionIndex::default();
        assert!(below.add_rows(&row, 2));
        assert_eq!(below.aborted(), [], "its marker is not below the end");
    }

    #[test]
    fn a_snapshot_reads_back_and_a_damaged_one_does_not() {
        let index = recorded(5);
        let bytes = index.snapshot();
        let mut read = TransactionIndex::of_snapshot(&bytes).unwrap();
        assert_eq!((read.first_open(), read.producers().count()), (Some(3), 2));
        read.aborted = index.aborted.clone();
        assert_eq!(read, index);
        for at in 0..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[at] ^= 1;
            assert_eq!(TransactionIndex::of_snapshot(&damaged), None, "byte {at}");
            assert_eq!(TransactionIndex::of_snapshot(&bytes[..at]), None, "{at} bytes");
        }
    }

    #[test]
    fn silent_producers_are_forgotten_but_not_those_with_an_open_transaction() {
        let mut index = TransactionIndex::default();
        for id in 0..(PRODUCERS_MAX as i64 * 2) {
            let (header, _) = batch(data(id), id * 2, 1);
            index.observe(&header, None);
            if id > 0 {
                let (header, marker) = batch(end(id, true), id * 2 + 1, 1);
                index.observe(&header, marker.as_ref());
            }
        }
        assert!(index.producers().count() <= PRODUCERS_MAX + 1);
        assert_eq!(index.first_open(), Some(0));
        assert!(
            index.producers().any(|(id, _)| id == 0)
                && index.producers().any(|(id, _)| id == PRODUCERS_MAX as i64 * 2 - 1)
        );
    }
}
