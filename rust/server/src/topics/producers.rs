//! The last five batches of each idempotent producer of a partition: they distinguish a repeated batch from a new one,
//! and a new one from a gap. And the open transaction and the last marker of each transactional one: they fence older
//! epochs of the producer and of the coordinator (docs/transactions.md §10).

use std::collections::{HashMap, VecDeque};

use rota_core::error::ErrorCode;
use rota_log::{BatchHeader, EndMarker, TransactionIndex, TransactionalProducer};

use super::settings::PRODUCERS_PER_PARTITION_MAX;

/// Memory of a producer: itself, its batches, and its place in the map.
const PRODUCER_MEMORY_BYTES: u64 = 256;

/// Batches remembered per producer: as many as it may have in flight.
const BATCHES_REMEMBERED: usize = 5;

#[derive(Clone, Copy, Debug)]
struct Appended {
    first_sequence: i32,
    last_sequence: i32,
    place: AppendedAt,
}

/// Returns the sequence number after `last`; -1 is the one before the first.
fn next_after(last: i32) -> i32 {
    last.checked_add(1).unwrap_or(0)
}

/// The position of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct AppendedAt {
    pub base_offset: i64,
    pub max_timestamp_ms: i64,
}

#[derive(Clone, Debug)]
struct Producer {
    epoch: i16,
    /// Batches of `epoch`, oldest first; empty only after a marker.
    batches: VecDeque<Appended>,
    /// Where the sequence of `epoch` goes on, if `batches` is empty.
    next_sequence: i32,
    /// The first offset of the open transaction.
    open: Option<i64>,
    /// The epoch of the coordinator of the last marker; -1: none.
    coordinator_epoch: i32,
    /// Time of the last batch or marker in wall milliseconds.
    last_timestamp_ms: i64,
    /// The number of the partition's last append of this producer.
    last_append: u64,
}

/// A producer as `DescribeProducers` shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Described {
    pub producer_id: i64,
    pub epoch: i16,
    /// -1: unknown.
    pub last_sequence: i32,
    pub last_timestamp_ms: i64,
    pub coordinator_epoch: i32,
    pub open: Option<i64>,
}

/// The producers of a partition. Without any it owns no heap memory.
#[derive(Clone, Debug, Default)]
pub(super) struct Producers {
    by_id: HashMap<i64, Producer>,
    appends: u64,
}

impl Producers {
    /// Checks a batch of an idempotent producer. Returns its position if it is a repetition. Each epoch starts with sequence
    /// number 0, but an unknown producer may start with any: its batches may have been deleted. By the second protocol
    /// of transactions, where each transaction has an epoch of its own, it starts with 0, too. Errors:
    /// `InvalidProducerEpoch`, `InvalidTxnState`, `OutOfOrderSequenceNumber`.
    pub fn check(&self, header: &BatchHeader, is_second_protocol: bool) -> Result<Option<AppendedAt>, ErrorCode> {
        let next_is = |sequence: i32| {
            if header.base_sequence == sequence { Ok(None) } else { Err(ErrorCode::OutOfOrderSequenceNumber) }
        };
        let Some(producer) = self.by_id.get(&header.producer_id) else {
            let starts_at_0 = is_second_protocol && header.is_transactional();
            return if starts_at_0 { next_is(0) } else { Ok(None) };
        };
        if header.producer_epoch < producer.epoch {
            return Err(ErrorCode::InvalidProducerEpoch);
        }
        if producer.open.is_some() && !header.is_transactional() {
            return Err(ErrorCode::InvalidTxnState);
        }
        if header.producer_epoch > producer.epoch {
            return next_is(0);
        }
        let sent = (header.base_sequence, header.last_sequence());
        let repeated = producer.batches.iter().find(|known| (known.first_sequence, known.last_sequence) == sent);
        if let Some(known) = repeated {
            return Ok(Some(known.place));
        }
        next_is(producer.batches.back().map_or(producer.next_sequence, |newest| next_after(newest.last_sequence)))
    }

    /// Returns the approximate memory of the producers in bytes.
    pub fn memory_bytes(&self) -> u64 {
        self.by_id.len() as u64 * PRODUCER_MEMORY_BYTES
    }

    /// Whether this epoch of a producer has an open transaction.
    pub fn has_open(&self, producer_id: i64, epoch: i16) -> bool {
        self.by_id.get(&producer_id).is_some_and(|producer| producer.open.is_some() && producer.epoch == epoch)
    }

    /// Checks a marker. One of an unknown producer, and a repeated one, are let through. A marker of the second protocol
    /// must have a greater epoch than the data that it decides about. Errors: `InvalidProducerEpoch`,
    /// `TransactionCoordinatorFenced`.
    pub fn check_marker(&self, marker: &EndMarker, is_second_protocol: bool) -> Result<(), ErrorCode> {
        let Some(producer) = self.by_id.get(&marker.producer_id) else { return Ok(()) };
        let is_strict = is_second_protocol && producer.open.is_some();
        if marker.producer_epoch < producer.epoch || is_strict && marker.producer_epoch == producer.epoch {
            return Err(ErrorCode::InvalidProducerEpoch);
        }
        if marker.coordinator_epoch < producer.coordinator_epoch {
            return Err(ErrorCode::TransactionCoordinatorFenced);
        }
        Ok(())
    }

    /// Records a stored marker.
    pub fn ended(&mut self, marker: &EndMarker, timestamp_ms: i64) {
        self.appends += 1;
        let last_append = self.appends;
        let producer = self.entry(marker.producer_id, marker.producer_epoch);
        producer.open = None;
        producer.coordinator_epoch = producer.coordinator_epoch.max(marker.coordinator_epoch);
        (producer.last_append, producer.last_timestamp_ms) = (last_append, timestamp_ms);
    }

    /// Adds what the index of transactions knows of producers whose batches were not read.
    pub fn adopt(&mut self, index: &TransactionIndex) {
        // Kafka's snapshots have producers without transactions, too. No index follows their batches.
        let has_begun = |known: &TransactionalProducer| known.first_offset.is_some() || known.coordinator_epoch >= 0;
        for (producer_id, known) in index.producers().filter(|(_, known)| has_begun(known)) {
            let producer = self.entry(producer_id, known.epoch);
            producer.open = known.first_offset;
            if producer.epoch == known.epoch {
                producer.next_sequence = next_after(known.last_sequence);
            }
            producer.coordinator_epoch = producer.coordinator_epoch.max(known.coordinator_epoch);
            producer.last_timestamp_ms = producer.last_timestamp_ms.max(known.last_timestamp_ms);
        }
    }

    /// Returns the producers by id.
    pub fn described(&self) -> Vec<Described> {
        let described = |(producer_id, producer): (&i64, &Producer)| Described {
            producer_id: *producer_id,
            epoch: producer.epoch,
            last_sequence: producer.batches.back().map_or(producer.next_sequence - 1, |newest| newest.last_sequence),
            last_timestamp_ms: producer.last_timestamp_ms,
            coordinator_epoch: producer.coordinator_epoch,
            open: producer.open,
        };
        let mut all: Vec<Described> = self.by_id.iter().map(described).collect();
        all.sort_unstable_by_key(|described| described.producer_id);
        all
    }

    /// Returns a producer at `epoch` or a newer one; a new epoch forgets the batches of the older one.
    fn entry(&mut self, producer_id: i64, epoch: i16) -> &mut Producer {
        if self.by_id.len() >= PRODUCERS_PER_PARTITION_MAX && !self.by_id.contains_key(&producer_id) {
            self.forget_silent();
        }
        let fresh = || Producer {
            epoch,
            batches: VecDeque::with_capacity(BATCHES_REMEMBERED),
            next_sequence: 0,
            open: None,
            coordinator_epoch: -1,
            last_timestamp_ms: -1,
            last_append: 0,
        };
        let producer = self.by_id.entry(producer_id).or_insert_with(fresh);
        if producer.epoch < epoch {
            producer.epoch = epoch;
            producer.batches.clear();
            producer.next_sequence = 0;
        }
        producer
    }

    /// Forgets the least recent eighth of the producers. Forgetting one at a time would search all of them for each new
    /// producer id of a client that invents ids.
    fn forget_silent(&mut self) {
        let idle = self.by_id.values().filter(|producer| producer.open.is_none());
        let mut appends: Vec<u64> = idle.map(|producer| producer.last_append).collect();
        if appends.is_empty() {
            return;
        }
        let forgotten = (appends.len() / 8).max(1);
        let (_, newest_forgotten, _) = appends.select_nth_unstable(forgotten - 1);
        self.by_id.retain(|_, producer| producer.open.is_some() || producer.last_append > *newest_forgotten);
    }

    /// Records a stored batch that passed `check`.
    pub fn appended(&mut self, header: &BatchHeader, place: AppendedAt) {
        self.appends += 1;
        let last_append = self.appends;
        let producer = self.entry(header.producer_id, header.producer_epoch);
        if header.is_transactional() {
            producer.open.get_or_insert(place.base_offset);
        }
        if producer.batches.len() == BATCHES_REMEMBERED {
            producer.batches.pop_front();
        }
        let (first_sequence, last_sequence) = (header.base_sequence, header.last_sequence());
        producer.batches.push_back(Appended { first_sequence, last_sequence, place });
        producer.last_append = last_append;
        producer.last_timestamp_ms = place.max_timestamp_ms;
    }
}

#[cfg(test)]
mod tests {
    use rota_log::{Batch, BatchWriter};

    use super::*;

    const ID: i64 = 7;
    const OUT_OF_ORDER: Result<Option<AppendedAt>, ErrorCode> = Err(ErrorCode::OutOfOrderSequenceNumber);

    /// The header of a batch of a transaction with one record.
    fn header(epoch: i16, sequence: i32) -> BatchHeader {
        let mut writer = BatchWriter::default();
        (writer.producer, writer.is_transactional) = (Some((ID, epoch, sequence)), true);
        writer.push(0, None, None);
        *Batch::split(&writer.finish()).unwrap().0.header()
    }

    fn append(producers: &mut Producers, epoch: i16, sequence: i32) {
        let header = header(epoch, sequence);
        assert_eq!(producers.check(&header, false), Ok(None), "epoch {epoch}, sequence number {sequence}");
        producers.appended(&header, AppendedAt { base_offset: 0, max_timestamp_ms: 0 });
    }

    fn end(epoch: i16) -> EndMarker {
        EndMarker { producer_id: ID, producer_epoch: epoch, coordinator_epoch: 0, is_commit: false }
    }

    #[test]
    fn a_new_epoch_of_a_transactional_producer_starts_with_sequence_number_0() {
        for raised_by_marker in [false, true] {
            for is_second_protocol in [false, true] {
                let mut producers = Producers::default();
                append(&mut producers, 0, 5);
                if raised_by_marker {
                    producers.ended(&end(1), 0);
                }
                assert_eq!(producers.check(&header(1, 6), is_second_protocol), OUT_OF_ORDER);
                assert_eq!(producers.check(&header(1, 1), is_second_protocol), OUT_OF_ORDER);
                assert_eq!(producers.check(&header(1, 0), is_second_protocol), Ok(None));
            }
        }
    }

    #[test]
    fn a_marker_of_the_same_epoch_does_not_change_the_sequence() {
        let mut producers = Producers::default();
        append(&mut producers, 0, 5);
        producers.ended(&end(0), 0);
        assert_eq!(producers.check(&header(0, 0), false), OUT_OF_ORDER);
        append(&mut producers, 0, 6);
    }

    #[test]
    fn an_index_says_nothing_of_a_producer_that_was_never_in_a_transaction() {
        // Its row looks like one of a transaction whose marker is gone.
        let mut index = TransactionIndex::default();
        index.observe(&header(0, 5), None);
        index.close(ID);
        let mut producers = Producers::default();
        producers.adopt(&index);
        append(&mut producers, 1, 77);
    }

    #[test]
    fn the_sequence_goes_on_where_the_index_of_transactions_says() {
        for (marker, next) in [(None, 6), (Some(0), 6), (Some(1), 0)] {
            let mut index = TransactionIndex::default();
            index.observe(&header(0, 5), None);
            if let Some(epoch) = marker {
                let bytes = end(epoch).batch(0);
                index.observe(Batch::split(&bytes).unwrap().0.header(), Some(&end(epoch)));
            }
            let mut producers = Producers::default();
            producers.adopt(&index);
            let epoch = marker.unwrap_or(0);
            assert_eq!(producers.described()[0].last_sequence, next - 1);
            assert_eq!(producers.check(&header(epoch, next + 1), false), OUT_OF_ORDER, "{marker:?}");
            append(&mut producers, epoch, next);
        }
    }
}
