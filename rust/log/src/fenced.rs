//! The log behind the coordinators and the topics, as its users see it: partitions of records, each written by the
//! newest epoch that opened it.

use crate::{completions::Completions, error::LogError};

use std::sync::Arc;

/// A record to append. A `value` of `None` is a tombstone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogRecord {
    /// Never null in `__consumer_offsets`.
    pub key: Vec<u8>,
    /// `None` is a tombstone.
    pub value: Option<Vec<u8>>,
}

/// A durable record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredRecord {
    /// Its place in the partition.
    pub offset: i64,
    /// Wall milliseconds, from the append.
    pub timestamp_ms: i64,
    /// Under which epoch it was appended.
    pub epoch: i32,
    /// Where its append began: an append is durable as a whole or not at all.
    pub batch_base_offset: i64,
    /// What it says.
    pub record: LogRecord,
}

/// A durable record, borrowed from where it is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordInPlace<'a> {
    /// Its place in the partition.
    pub offset: i64,
    /// Wall milliseconds, from the append.
    pub timestamp_ms: i64,
    /// Never null in `__consumer_offsets`.
    pub key: &'a [u8],
    /// `None` is a tombstone.
    pub value: Option<&'a [u8]>,
}

/// What one append stores, as a whole or not at all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Append<B> {
    /// Where to.
    pub partition: i32,
    /// The writer's. An append of another epoch than the newest that opened the partition is refused.
    pub epoch: i32,
    /// The caller's name for the append, unique within its partition and epoch. The log only repeats it in the
    /// [`Completion`].
    pub id: u64,
    /// Wall milliseconds, for batches that do not carry timestamps of their own.
    pub timestamp_ms: i64,
    /// The records.
    pub batch: B,
}

/// What a [`Completion`] completes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Operation {
    /// [`FencedLog::open`].
    Open,
    /// The append that its caller gave this id.
    Append(u64),
}

/// How an operation ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Completion {
    /// As asked.
    pub partition: i32,
    /// As asked.
    pub epoch: i32,
    /// Which operation.
    pub operation: Operation,
    /// Of an append the offset of its first record; of an open the offset that the next record will have.
    pub result: Result<i64, LogError>,
}

impl<B> Append<B> {
    /// Its completion.
    pub fn completion(&self, result: Result<i64, LogError>) -> Completion {
        Completion { partition: self.partition, epoch: self.epoch, operation: Operation::Append(self.id), result }
    }
}

/// Partitions of records. `B` is what one append stores: encoded bytes, or records.
///
/// No call waits. [`FencedLog::open`] and [`FencedLog::append`] end with exactly one [`Completion`], unless the process
/// ends before; it may be there when the call returns, or come from another thread. A success is durable. A failure
/// usually means that nothing was stored, but not always ([`LogError::Stopped`], a lost connection): only reading the
/// partition again under a newer epoch tells.
///
/// **Order.** Appends of one partition are stored in the order of the calls. Completions may come in any order, also
/// those of one partition: the coordinator applies them in the order of its appends (INVARIANT S31,
/// docs/protocol.md §10.3), and no layer between it and the log orders them.
pub trait FencedLog<B> {
    /// Takes over `partition`: from here on appends of older epochs are refused, also those that were called before
    /// and are not stored yet. To open again under the same epoch changes nothing. Errors: `UnknownPartition`,
    /// `Fenced`, and those of the store.
    fn open(&self, partition: i32, epoch: i32, to: &Arc<Completions>);

    /// Stores `append` behind all earlier ones of its partition. Errors: `UnknownPartition`, `NotOpen`, `Fenced`,
    /// `UnknownEpoch`, `Empty`, `TooLarge`, and those of the store.
    fn append(&self, append: Append<B>, to: &Arc<Completions>);

    /// Visits durable records of `partition` from offset `from` on where they are stored: a slice of them, which takes
    /// about a millisecond. Returns the offset to go on at; `from` itself: there are no more. `visit` does not call
    /// the log. Errors: `UnknownPartition`, `Damaged`.
    fn read(&self, partition: i32, from: i64, visit: &mut dyn FnMut(RecordInPlace<'_>)) -> Result<i64, LogError>;
}

/// Bytes of keys and values in `records`, which a limit such as `message.max.bytes` applies to. Errors: `Empty`,
/// `TooLarge`.
pub(crate) fn check_size(records: &[LogRecord], limit_bytes: usize) -> Result<(), LogError> {
    if records.is_empty() {
        return Err(LogError::Empty);
    }
    let batch_bytes = records.iter().map(|record| record.key.len() + record.value.as_ref().map_or(0, Vec::len)).sum();
    if batch_bytes > limit_bytes {
        return Err(LogError::TooLarge { batch_bytes, limit_bytes });
    }
    Ok(())
}
