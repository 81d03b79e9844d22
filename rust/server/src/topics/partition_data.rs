//! The records of one partition of a user's topic: in memory, or in the segments of the store.

use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use rota_core::error::ErrorCode;
use rota_log::{LogError, PartitionLog, TimestampedOffset, store::PartitionView};

use super::{
    disk::OnDisk,
    producers::{AppendedAt, Producers},
    settings::PRODUCERS_READ_BYTES,
};

/// Bytes that a scan for the newest timestamp reads at a time.
const SCAN_BYTES: usize = 1 << 20;

/// See the module.
#[derive(Debug)]
pub(super) enum Records {
    Memory(PartitionLog),
    Disk(DiskRecords),
}

impl Default for Records {
    fn default() -> Records {
        Records::Memory(PartitionLog::default())
    }
}

/// A partition in the store. Readers see what is durable.
#[derive(Debug)]
pub(super) struct DiskRecords {
    pub on_disk: OnDisk,
    /// The offset that the next batch will have, if all that are on their way arrive.
    pub next_offset: i64,
    /// Whether its producers have been read back since the start.
    pub knows_producers: bool,
    /// Batches on their way.
    pub in_flight: u64,
    /// Why nothing more is appended: a batch did not become durable, and later ones must not take its place.
    pub stopped: Option<Arc<str>>,
    /// Only the next start can go on after that.
    is_stopped_for_good: bool,
}

impl DiskRecords {
    pub fn new(on_disk: OnDisk) -> DiskRecords {
        let next_offset = on_disk.view.next_offset();
        DiskRecords {
            on_disk,
            next_offset,
            knows_producers: false,
            in_flight: 0,
            stopped: None,
            is_stopped_for_good: false,
        }
    }

    /// A batch has ended. After a failed write that stored nothing, batches are taken again once none is in flight;
    /// what was known of `producers` counted on the failed batch and is read back.
    pub fn ended(&mut self, result: &Result<i64, LogError>, producers: &mut Producers) {
        self.in_flight = self.in_flight.saturating_sub(1);
        match result {
            // A later batch took the place of the failed one.
            Ok(_) => self.is_stopped_for_good |= self.stopped.is_some(),
            Err(error) => {
                self.is_stopped_for_good |= !matches!(error, LogError::Storage { .. });
                self.stopped.get_or_insert_with(|| error.to_string().into());
            }
        }
        if self.in_flight == 0 && self.stopped.is_some() && !self.is_stopped_for_good {
            self.stopped = None;
            self.next_offset = self.on_disk.view.next_offset();
            self.knows_producers = false;
            *producers = Producers::default();
        }
    }

    /// Refuses what may not be appended now.
    pub fn check_writable(&self) -> Result<(), String> {
        match &self.stopped {
            Some(reason) if self.is_stopped_for_good => {
                Err(format!("nothing is appended until the server is started again: {reason}"))
            }
            Some(reason) => Err(format!("nothing is appended at the moment: {reason}")),
            None => Ok(()),
        }
    }

    /// What the newest batches say of idempotent producers.
    pub fn read_producers(&mut self, producers: &mut Producers) -> Result<(), LogError> {
        self.knows_producers = true;
        let view = &self.on_disk.view;
        let mut left_bytes = PRODUCERS_READ_BYTES;
        let segments = view.segments();
        let recent =
            segments.iter().rev().take_while(|segment| segment_fits(segment.readable_bytes(), &mut left_bytes));
        let Some(oldest) = recent.last().or(segments.last()) else { return Ok(()) };
        let mut from = oldest.base_offset;
        loop {
            let slice = view.read_slice(from, SCAN_BYTES)?;
            for batch in slice.batches().flatten() {
                let header = batch.header();
                if header.is_idempotent() && !header.is_control() {
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

/// Takes a segment's bytes from what may be read.
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
        }
    }

    /// The end of what may be read.
    pub fn next_offset(&self) -> i64 {
        match self {
            Records::Memory(log) => log.next_offset(),
            Records::Disk(disk) => disk.on_disk.view.next_offset(),
        }
    }

    /// Of what is in memory.
    pub fn memory_bytes(&self) -> u64 {
        match self {
            Records::Memory(log) => log.size_bytes(),
            Records::Disk(_) => 0,
        }
    }

    /// Whole batches from `from` on, as [`PartitionLog::read`]. Errors: `KafkaStorageError`.
    pub fn read(&self, from: i64, max_bytes: usize, at_least_one: bool) -> Result<Bytes, ErrorCode> {
        match self {
            Records::Memory(log) => Ok(joined(log.read(from, max_bytes, at_least_one))),
            Records::Disk(disk) => {
                let slice = disk.on_disk.view.read_slice(from, max_bytes).map_err(|_| ErrorCode::KafkaStorageError)?;
                let fits = at_least_one || slice.bytes.len() <= max_bytes;
                Ok(if fits { slice.bytes } else { Bytes::new() })
            }
        }
    }

    /// As [`PartitionLog::offset_for_timestamp`]. Errors: `KafkaStorageError`.
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
        }
    }

    /// As [`PartitionLog::offset_of_max_timestamp`]. Errors: `KafkaStorageError`.
    pub fn offset_of_max_timestamp(&self, bytes_left: &mut usize) -> Result<Option<TimestampedOffset>, ErrorCode> {
        match self {
            Records::Memory(log) => Ok(log.offset_of_max_timestamp(bytes_left)),
            Records::Disk(disk) => {
                let view = &disk.on_disk.view;
                match max_timestamp(view).map_err(|_| ErrorCode::KafkaStorageError)? {
                    None => Ok(None),
                    Some(max_ms) => self.offset_for_timestamp(max_ms, bytes_left),
                }
            }
        }
    }
}

/// The greatest timestamp of all batches.
fn max_timestamp(view: &PartitionView) -> Result<Option<i64>, LogError> {
    let (mut from, mut max_ms) = (view.first_offset(), None);
    loop {
        let slice = view.read_slice(from, SCAN_BYTES)?;
        if slice.next_offset == from {
            return Ok(max_ms);
        }
        max_ms = max_ms.max(slice.batches().flatten().map(|batch| batch.header().max_timestamp_ms).max());
        from = slice.next_offset;
    }
}

/// One piece of bytes, which for one chunk is the chunk itself.
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
