//! The records of one partition: in memory, in the segments of the store, or in the log of the groups.

use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use rota_core::error::ErrorCode;
use rota_log::{EndMarker, LogError, PartitionLog, TimestampedOffset, TransactionIndex, batches, store::Slice};

use super::{
    disk::{OnDisk, SCAN_BYTES},
    offsets_records::OffsetsRecords,
    producers::{AppendedAt, Producers},
    settings::PRODUCERS_READ_BYTES,
};

/// The records of a partition.
#[derive(Debug)]
pub(super) enum Records {
    Memory(PartitionLog),
    Disk(DiskRecords),
    Offsets(OffsetsRecords),
}

impl Default for Records {
    fn default() -> Records {
        Records::Memory(PartitionLog::default())
    }
}

/// A partition in the store. Readers see durable records only.
#[derive(Debug)]
pub(super) struct DiskRecords {
    pub on_disk: OnDisk,
    /// The next offset if all batches in flight succeed.
    pub next_offset: i64,
    /// Whether its producers were read since the start.
    pub knows_producers: bool,
    /// Number of batches in flight.
    pub in_flight: u64,
    /// The offset of the oldest batch in flight. Readers may see it before its end is handled here.
    pub settled_offset: i64,
    /// Why nothing more is appended: a batch failed, and those in flight behind it fail, too.
    pub stopped: Option<Arc<str>>,
    /// Whether only a restart helps.
    is_stopped_for_good: bool,
    /// Whether the partition has had transactions, and so has files about them.
    pub has_transactions: bool,
}

impl DiskRecords {
    pub fn new(on_disk: OnDisk) -> DiskRecords {
        let next_offset = on_disk.view.next_offset();
        DiskRecords {
            on_disk,
            next_offset,
            knows_producers: false,
            in_flight: 0,
            settled_offset: next_offset,
            stopped: None,
            is_stopped_for_good: false,
            has_transactions: false,
        }
    }

    /// Handles the completion of a batch. After one that was not stored, the store refuses those in flight behind it,
    /// and batches are accepted again once none is in flight. The state of `producers` assumed the failed batch, so it
    /// is read again.
    pub fn ended(&mut self, result: &Result<i64, LogError>, producers: &mut Producers) {
        self.in_flight = self.in_flight.saturating_sub(1);
        match result {
            Err(error) if self.is_stopped_for_good || is_passing(error) => {
                self.stopped.get_or_insert_with(|| error.to_string().into());
            }
            Err(error) => self.stop_for_good(error),
            Ok(_) => {}
        }
        if self.in_flight == 0 && self.stopped.is_some() && !self.is_stopped_for_good {
            self.stopped = None;
            self.next_offset = self.on_disk.view.next_offset();
            self.knows_producers = false;
            *producers = Producers::default();
        }
    }

    /// Takes no appends until the next start.
    pub fn stop_for_good(&mut self, error: &LogError) {
        self.stopped = Some(error.to_string().into());
        self.is_stopped_for_good = true;
    }

    /// Checks that appends are possible.
    pub fn check_writable(&self) -> Result<(), String> {
        match &self.stopped {
            Some(reason) if self.is_stopped_for_good => Err(format!("no appends until the server restarts: {reason}")),
            Some(reason) => Err(format!("no appends at the moment: {reason}")),
            None => Ok(()),
        }
    }

    /// Reads the state of idempotent producers from the newest batches. After an error, `producers` stays as it was, and the
    /// next batch of a producer reads again: without the state, a repetition would be stored.
    pub fn read_producers(
        &mut self,
        producers: &mut Producers,
        transactions: &TransactionIndex,
    ) -> Result<(), LogError> {
        let mut read = Producers::default();
        self.read_newest(&mut read)?;
        read.adopt(transactions);
        (*producers, self.knows_producers) = (read, true);
        Ok(())
    }

    fn read_newest(&self, producers: &mut Producers) -> Result<(), LogError> {
        let view = &self.on_disk.view;
        let mut left_bytes = PRODUCERS_READ_BYTES;
        let segments = view.segments();
        let recent =
            segments.iter().rev().take_while(|segment| segment_fits(segment.readable_bytes(), &mut left_bytes));
        let Some(oldest) = recent.last().or(segments.last()) else { return Ok(()) };
        let mut from = oldest.base_offset;
        loop {
            // Damage refuses this producer for now, and no reader.
            let slice = view.read_within(from, SCAN_BYTES, true)?;
            for batch in slice.batches().flatten() {
                let header = batch.header();
                if let Ok(Some(marker)) = EndMarker::read(&batch) {
                    producers.ended(&marker, header.max_timestamp_ms);
                } else if header.is_idempotent() && !header.is_control() {
                    let at = AppendedAt { base_offset: header.base_offset, max_timestamp_ms: header.max_timestamp_ms };
                    producers.appended(header, at);
                }
            }
            if slice.next_offset == from {
                return Ok(());
            }
            from = slice.next_offset;
        }
    }
}

/// Whether nothing of the append is stored, and a later one may succeed.
fn is_passing(error: &LogError) -> bool {
    matches!(error, LogError::Storage { .. } | LogError::TooLarge { .. } | LogError::Empty | LogError::Failed { .. })
}

/// Subtracts a segment's size from the bytes that may be read.
fn segment_fits(bytes: u64, left_bytes: &mut u64) -> bool {
    let fits = bytes <= *left_bytes;
    *left_bytes = left_bytes.saturating_sub(bytes);
    fits
}

impl Records {
    pub fn first_offset(&self) -> i64 {
        match self {
            Records::Memory(log) => log.first_offset(),
            Records::Disk(disk) => disk.on_disk.view.first_offset(),
            // Compaction only leaves gaps.
            Records::Offsets(_) => 0,
        }
    }

    /// Returns the epochs of the batches on disk with their first offsets, oldest first; `None` unless `leader_epoch` is
    /// the newest: a server of a cluster leads in epoch 0 what was taken over from Kafka before.
    pub fn epochs(&self, leader_epoch: i32) -> Option<&[(i32, i64)]> {
        let Records::Disk(disk) = self else { return None };
        let epochs = &disk.on_disk.epochs;
        epochs.last().is_some_and(|(newest, _)| *newest == leader_epoch).then_some(epochs)
    }

    /// Returns the end of the readable records.
    pub fn next_offset(&self) -> i64 {
        match self {
            Records::Memory(log) => log.next_offset(),
            Records::Disk(disk) => disk.on_disk.view.next_offset(),
            Records::Offsets(records) => records.next_offset(),
        }
    }

    /// Returns the end of the records whose transactions are known.
    pub fn settled_offset(&self) -> i64 {
        match self {
            Records::Disk(disk) if disk.in_flight > 0 => disk.settled_offset.min(self.next_offset()),
            Records::Offsets(records) => records.followed,
            _ => self.next_offset(),
        }
    }

    /// Whether it is known which durable records are those of open transactions.
    pub fn is_followed(&self) -> bool {
        !matches!(self, Records::Offsets(records) if !records.is_followed())
    }

    /// Keeps the records from `first_open` on, the first offset of the oldest open transaction.
    pub fn keep_open(&mut self, first_open: Option<i64>) {
        match self {
            Records::Memory(log) => log.keep_open(first_open),
            Records::Disk(disk) => disk.on_disk.view.keep_open(first_open),
            Records::Offsets(_) => {}
        }
    }

    /// Returns the bytes of the records: of the segments, or of what is held in memory.
    pub fn size_bytes(&self) -> u64 {
        match self {
            Records::Memory(log) => log.size_bytes(),
            Records::Disk(disk) => disk.on_disk.view.size_bytes(),
            Records::Offsets(records) => records.size_bytes(),
        }
    }

    /// Returns the approximate memory of records that are nowhere else, in bytes.
    pub fn memory_bytes(&self) -> u64 {
        match self {
            Records::Memory(log) => log.memory_bytes(),
            Records::Disk(_) | Records::Offsets(_) => 0,
        }
    }

    /// Checks that what is known of the partition is true: of one that was refused at the start the end is not known.
    /// Errors: `KafkaStorageError`.
    pub fn check_readable(&self) -> Result<(), ErrorCode> {
        match self {
            Records::Disk(disk) if disk.on_disk.view.refusal().is_some() => Err(ErrorCode::KafkaStorageError),
            Records::Offsets(records) => records.check_readable(),
            Records::Disk(_) | Records::Memory(_) => Ok(()),
        }
    }

    /// Reads whole batches from `from` on, like [`PartitionLog::read`]. Errors: `KafkaStorageError`.
    pub fn read(&self, from: i64, max_bytes: usize, at_least_one: bool) -> Result<Slice, ErrorCode> {
        match self {
            Records::Memory(log) => {
                let chunks = log.read(from, max_bytes, at_least_one);
                let next_offset = chunks.last().map_or(from, |last| end_of(last, from));
                Ok(Slice { bytes: joined(chunks), next_offset })
            }
            Records::Disk(disk) => {
                let read = disk.on_disk.view.read_within(from, max_bytes, at_least_one);
                read.map_err(|_| ErrorCode::KafkaStorageError)
            }
            Records::Offsets(records) => {
                let bytes = records.read(from, max_bytes, at_least_one)?;
                let next_offset = end_of(&bytes, from);
                Ok(Slice { bytes, next_offset })
            }
        }
    }

    /// Like [`PartitionLog::offset_for_timestamp`]. Errors: `KafkaStorageError`.
    pub fn offset_for_timestamp(
        &self,
        at_ms: i64,
        bytes_left: &mut usize,
    ) -> Result<Option<TimestampedOffset>, ErrorCode> {
        match self {
            Records::Memory(log) => Ok(log.offset_for_timestamp(at_ms, bytes_left)),
            Records::Disk(disk) => {
                let found = disk.on_disk.view.offset_for_timestamp(at_ms, bytes_left);
                found.map_err(|_| ErrorCode::KafkaStorageError)
            }
            Records::Offsets(records) => records.offset_for_timestamp(at_ms, bytes_left),
        }
    }

    /// Like [`PartitionLog::offset_of_max_timestamp`]. Errors: `KafkaStorageError`.
    pub fn offset_of_max_timestamp(&self, bytes_left: &mut usize) -> Result<Option<TimestampedOffset>, ErrorCode> {
        match self {
            Records::Memory(log) => Ok(log.offset_of_max_timestamp(bytes_left)),
            Records::Disk(disk) => {
                let found = disk.on_disk.view.offset_of_max_timestamp(bytes_left);
                found.map_err(|_| ErrorCode::KafkaStorageError)
            }
            Records::Offsets(records) => records.offset_of_max_timestamp(bytes_left),
        }
    }
}

/// Returns the offset after these batches; `from` if there are none.
fn end_of(records: &Bytes, from: i64) -> i64 {
    let last = batches(records).flatten().last();
    last.map_or(from, |batch| batch.header().last_offset().saturating_add(1))
}

/// Joins chunks into one; a single chunk is not copied.
fn joined(mut chunks: Vec<Bytes>) -> Bytes {
    if chunks.len() <= 1 {
        return chunks.pop().unwrap_or_default();
    }
    let mut all = BytesMut::with_capacity(chunks.iter().map(Bytes::len).sum());
    for chunk in chunks {
        all.extend_from_slice(&chunk);
    }
    all.freeze()
}
