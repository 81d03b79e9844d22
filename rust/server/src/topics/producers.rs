//! The last five batches of each idempotent producer of a partition: they distinguish a repeated batch from a new one,
//! and a new one from a gap.

use std::collections::{HashMap, VecDeque};

use rota_core::error::ErrorCode;
use rota_log::BatchHeader;

use super::settings::PRODUCERS_PER_PARTITION_MAX;

/// Batches remembered per producer: as many as it may have in flight.
const BATCHES_REMEMBERED: usize = 5;

#[derive(Clone, Copy, Debug)]
struct Appended {
    first_sequence: i32,
    last_sequence: i32,
    place: AppendedAt,
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
    /// Batches of `epoch`, oldest first; never empty.
    batches: VecDeque<Appended>,
    /// The number of the partition's last append of this producer.
    last_append: u64,
}

/// The producers of a partition. Without any it owns no heap memory.
#[derive(Clone, Debug, Default)]
pub(super) struct Producers {
    by_id: HashMap<i64, Producer>,
    appends: u64,
}

impl Producers {
    /// Checks a batch of an idempotent producer. Returns its position if it is a repetition. An unknown producer may
    /// start with any sequence number. Errors: `InvalidProducerEpoch`, `OutOfOrderSequenceNumber`.
    pub fn check(&self, header: &BatchHeader) -> Result<Option<AppendedAt>, ErrorCode> {
        let Some(producer) = self.by_id.get(&header.producer_id) else { return Ok(None) };
        if header.producer_epoch < producer.epoch {
            return Err(ErrorCode::InvalidProducerEpoch);
        }
        let (first, last) = (header.base_sequence, header.last_sequence());
        if header.producer_epoch > producer.epoch {
            return if first == 0 { Ok(None) } else { Err(ErrorCode::OutOfOrderSequenceNumber) };
        }
        let repeated =
            producer.batches.iter().find(|known| (known.first_sequence, known.last_sequence) == (first, last));
        if let Some(known) = repeated {
            return Ok(Some(known.place));
        }
        let expected = producer.batches.back().map_or(0, |known| known.last_sequence.checked_add(1).unwrap_or(0));
        if first == expected { Ok(None) } else { Err(ErrorCode::OutOfOrderSequenceNumber) }
    }

    /// Forgets the least recent eighth of the producers. Forgetting one at a time would search all of them for each new
    /// producer id of a client that invents ids.
    fn forget_silent(&mut self) {
        let mut appends: Vec<u64> = self.by_id.values().map(|producer| producer.last_append).collect();
        let forgotten = (appends.len() / 8).max(1);
        let (_, newest_forgotten, _) = appends.select_nth_unstable(forgotten - 1);
        self.by_id.retain(|_, producer| producer.last_append > *newest_forgotten);
    }

    /// Records a stored batch that passed `check`.
    pub fn appended(&mut self, header: &BatchHeader, place: AppendedAt) {
        self.appends += 1;
        if self.by_id.len() >= PRODUCERS_PER_PARTITION_MAX && !self.by_id.contains_key(&header.producer_id) {
            self.forget_silent();
        }
        let epoch = header.producer_epoch;
        let fresh = || Producer { epoch, batches: VecDeque::with_capacity(BATCHES_REMEMBERED), last_append: 0 };
        let producer = self.by_id.entry(header.producer_id).or_insert_with(fresh);
        if producer.epoch != epoch {
            producer.epoch = epoch;
            producer.batches.clear();
        }
        if producer.batches.len() == BATCHES_REMEMBERED {
            producer.batches.pop_front();
        }
        let (first_sequence, last_sequence) = (header.base_sequence, header.last_sequence());
        producer.batches.push_back(Appended { first_sequence, last_sequence, place });
        producer.last_append = self.appends;
    }
}
