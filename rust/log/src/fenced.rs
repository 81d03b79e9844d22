//! The log behind `__consumer_offsets`, as the server sees it.

use std::{fmt, sync::Arc};

use crate::store::Damage;

/// The log's name for one append, counted up from 0 over all partitions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LogAppendId(pub u64);

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

/// A durable record, where it lies.
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

/// Why the log refuses or failed. `code()` is the Kafka error that the coordinator maps on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LogError {
    /// There is no such partition.
    UnknownPartition {
        /// As asked.
        partition: i32,
    },
    /// Nobody opened the partition in this run.
    NotOpen {
        /// As asked.
        partition: i32,
    },
    /// A newer epoch has opened the partition.
    Fenced {
        /// The newest epoch.
        current_epoch: i32,
        /// The caller's.
        epoch: i32,
    },
    /// The caller's epoch was never opened.
    UnknownEpoch {
        /// The newest epoch.
        current_epoch: i32,
        /// The caller's.
        epoch: i32,
    },
    /// An append without records.
    Empty,
    /// More bytes of keys and values than one batch may have.
    TooLarge {
        /// Of the append.
        batch_bytes: usize,
        /// The limit.
        limit_bytes: usize,
    },
    /// Bytes of the partition are not what was written; it is not served until that is mended.
    Damaged(Box<Damage>),
    /// The store stopped after a failure: what it had been asked to make durable may be or not, and only a new start,
    /// which reads what is there, can tell.
    Stopped {
        /// What failed, and what to do.
        reason: Arc<str>,
    },
    /// The store was opened to be read only.
    ReadOnly,
    /// The store below failed, or a test asked for it: a Kafka error code.
    Failed {
        /// Kafka's number.
        code: i16,
    },
}

impl LogError {
    /// Kafka's number for it: 3 `UNKNOWN_TOPIC_OR_PARTITION`, 6 `NOT_LEADER_OR_FOLLOWER`, 10 `MESSAGE_TOO_LARGE`,
    /// 56 `KAFKA_STORAGE_ERROR`, 87 `INVALID_RECORD`, or that of the failure.
    pub fn code(&self) -> i16 {
        match self {
            LogError::UnknownPartition { .. } => 3,
            LogError::NotOpen { .. } | LogError::Fenced { .. } | LogError::UnknownEpoch { .. } => 6,
            LogError::TooLarge { .. } => 10,
            LogError::Damaged(_) | LogError::Stopped { .. } | LogError::ReadOnly => 56,
            LogError::Empty => 87,
            LogError::Failed { code } => *code,
        }
    }
}

impl fmt::Display for LogError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LogError::UnknownPartition { partition } => write!(f, "the log has no partition {partition}"),
            LogError::NotOpen { partition } => write!(f, "partition {partition} was not opened"),
            LogError::Fenced { current_epoch, epoch } => {
                write!(f, "epoch {epoch} is fenced: epoch {current_epoch} has opened the partition")
            }
            LogError::UnknownEpoch { current_epoch, epoch } => {
                write!(f, "epoch {epoch} was never opened, the newest is {current_epoch}")
            }
            LogError::Empty => write!(f, "an append needs at least one record"),
            LogError::TooLarge { batch_bytes, limit_bytes } => {
                write!(f, "the append has {batch_bytes} bytes of keys and values, the limit is {limit_bytes}")
            }
            LogError::Damaged(damage) => write!(f, "{damage}"),
            LogError::Stopped { reason } => write!(f, "the log has stopped: {reason}"),
            LogError::ReadOnly => write!(f, "the data directory was opened to be read only"),
            LogError::Failed { code } => write!(f, "the append failed with Kafka error {code}"),
        }
    }
}

impl std::error::Error for LogError {}

/// How one append ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Completion {
    /// Whose.
    pub partition: i32,
    /// Which.
    pub append_id: LogAppendId,
    /// The offset of its first record once it is durable.
    pub result: Result<i64, LogError>,
}

/// Partitions of records, each written by whoever opened it under the newest epoch.
///
/// An append is durable no earlier than the `flush` after it, and is told by a [`Completion`]. Completions of one
/// partition come in the order of its appends; nothing is promised across partitions. Every append that was given an
/// id gets exactly one completion, unless the log crashes before.
pub trait FencedLog {
    /// Takes over `partition`: from here on older epochs are refused and their appends that are not yet durable never
    /// will be. Opening again under the same epoch changes nothing. Gives the offset that the next record will have.
    /// Errors: `UnknownPartition`, `Fenced`.
    fn open(&mut self, partition: i32, epoch: i32) -> Result<i64, LogError>;

    /// Queues `records` as one batch with wall time `timestamp_ms`. What is wrong with it is told by its completion.
    fn append(&mut self, partition: i32, epoch: i32, timestamp_ms: i64, records: Vec<LogRecord>) -> LogAppendId;

    /// Makes everything appended so far durable, in all partitions at once. Returns without waiting.
    fn flush(&mut self);

    /// Takes the completions that have arrived since the last call.
    fn completions(&mut self) -> Vec<Completion>;

    /// Durable records of `partition` from offset `from` on, at most `records_max`. Empty: there are no more.
    /// Errors: `UnknownPartition`.
    fn read(&self, partition: i32, from: i64, records_max: usize) -> Result<Vec<StoredRecord>, LogError>;
}
