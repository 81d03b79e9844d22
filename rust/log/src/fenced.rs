//! The interface of the log under the coordinators and topics: partitions of records, each written by the newest epoch
//! that opened it.

use crate::{completions::Completions, error::LogError, transaction::BatchKind};

use std::sync::Arc;

/// A record to append.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogRecord {
    /// The key; never null in `__consumer_offsets`.
    pub key: Vec<u8>,
    /// The value; `None` is a tombstone.
    pub value: Option<Vec<u8>>,
}

/// A durable record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredRecord {
    /// The offset in the partition.
    pub offset: i64,
    /// Append time in wall milliseconds.
    pub timestamp_ms: i64,
    /// The epoch of the append.
    pub epoch: i32,
    /// The first offset of the append. An append is durable as a whole or not at all.
    pub batch_base_offset: i64,
    /// What its batch is to transactions.
    pub kind: BatchKind,
    /// Key and value.
    pub record: LogRecord,
}

/// A durable record that borrows from its storage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordInPlace<'a> {
    /// The offset in the partition.
    pub offset: i64,
    /// Append time in wall milliseconds.
    pub timestamp_ms: i64,
    /// What its batch is to transactions.
    pub kind: BatchKind,
    /// The key; never null in `__consumer_offsets`, empty for a marker.
    pub key: &'a [u8],
    /// The value; `None` is a tombstone.
    pub value: Option<&'a [u8]>,
}

/// The records of one append, stored as a whole or not at all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Append<B> {
    /// The partition.
    pub partition: i32,
    /// The writer's epoch. The log refuses any but the newest that opened the partition.
    pub epoch: i32,
    /// The caller's id of the append, unique within partition and epoch. The [`Completion`] repeats it.
    pub id: u64,
    /// Append time in wall milliseconds, for batches without timestamps of their own.
    pub timestamp_ms: i64,
    /// What the batch is to transactions. A marker has no records.
    pub kind: BatchKind,
    /// The records.
    pub batch: B,
}

/// The operation of a [`Completion`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Operation {
    /// An open, [`FencedLog::open`].
    Open,
    /// An append, by the caller's id.
    Append(u64),
}

/// The result of an operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Completion {
    /// The partition of the operation.
    pub partition: i32,
    /// The epoch of the operation.
    pub epoch: i32,
    /// The operation.
    pub operation: Operation,
    /// The offset of the first record of an append, or the next offset after an open.
    pub result: Result<i64, LogError>,
}

impl<B> Append<B> {
    /// Returns the completion of this append.
    pub fn completion(&self, result: Result<i64, LogError>) -> Completion {
        Completion { partition: self.partition, epoch: self.epoch, operation: Operation::Append(self.id), result }
    }
}

/// A log of partitions with epochs. `B` is the content of an append: encoded bytes, or records.
///
/// No call blocks. [`FencedLog::open`] and [`FencedLog::append`] give exactly one [`Completion`] each, unless the
/// process ends before. It may arrive during the call or later from another thread. Success means durable. Failure
/// usually means that nothing was stored, but not always ([`LogError::Stopped`], a lost connection): then a read under
/// a newer epoch shows what was stored.
///
/// **Order.** Appends of one partition are stored in the order of the calls. Their completions may arrive in any order.
/// The coordinator applies them in append order (INVARIANT S31, docs/protocol.md §10.3); no layer between it and the
/// log reorders them.
pub trait FencedLog<B> {
    /// Opens `partition` under `epoch`. From now on the log refuses appends of older epochs, including those in flight
    /// that are not stored. Opening again under the same epoch changes nothing. Errors: `UnknownPartition`, `Fenced`,
    /// and those of the store.
    fn open(&self, partition: i32, epoch: i32, to: &Arc<Completions>);

    /// Stores `append` after all earlier ones of its partition. Errors: `UnknownPartition`, `NotOpen`, `Fenced`,
    /// `UnknownEpoch`, `Empty`, `TooLarge`, and those of the store.
    fn append(&self, append: Append<B>, to: &Arc<Completions>);

    /// Visits durable records of `partition` in place, and markers, from offset `from`: a slice that takes about a millisecond.
    /// Returns the next offset to read; `from` itself at the end. `visit` must not call the log. Errors:
    /// `UnknownPartition`, `Damaged`.
    fn read(&self, partition: i32, from: i64, visit: &mut dyn FnMut(RecordInPlace<'_>)) -> Result<i64, LogError>;

    /// Returns the offset after the last durable record of `partition`. Errors: `UnknownPartition`, `Damaged`; `NotOpen`: the
    /// log does not know it.
    fn end(&self, partition: i32) -> Result<i64, LogError>;

    /// Returns the bytes of the durable records of `partition`; 0 if the log does not know them.
    fn size_bytes(&self, partition: i32) -> u64;
}

/// Returns the bytes of keys and values in `records`, which limits such as `message.max.bytes` apply to. Errors:
/// `Empty` (also a marker with records), `TooLarge`.
pub(crate) fn check_size(kind: BatchKind, records: &[LogRecord], limit_bytes: usize) -> Result<(), LogError> {
    if records.is_empty() != kind.is_marker() {
        return Err(LogError::Empty);
    }
    let batch_bytes = records.iter().map(|record| record.key.len() + record.value.as_ref().map_or(0, Vec::len)).sum();
    if batch_bytes > limit_bytes {
        return Err(LogError::TooLarge { batch_bytes, limit_bytes });
    }
    Ok(())
}
