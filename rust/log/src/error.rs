//! Errors of a log.

use std::{fmt, path::PathBuf, sync::Arc};

/// Bytes that differ from what was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damage {
    /// The damaged file.
    pub file: PathBuf,
    /// Position in the file in bytes.
    pub position: u64,
    /// The offset expected at that position.
    pub offset: i64,
    /// The difference found.
    pub reason: String,
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Damage { file, position, offset, reason } = self;
        write!(f, "`{}` is damaged at byte {position}, offset {offset}: {reason}; ", file.display())?;
        write!(
            f,
            "restore the partition's directory from a copy, or give up what cannot be read with `rota log repair`"
        )
    }
}

/// Why the log refuses an operation or fails. `code()` is the Kafka error that the coordinator maps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LogError {
    /// The partition does not exist.
    UnknownPartition {
        /// The requested partition.
        partition: i32,
    },
    /// No epoch has opened the partition since the start.
    NotOpen {
        /// The requested partition.
        partition: i32,
    },
    /// A newer epoch has opened the partition.
    Fenced {
        /// The newest epoch.
        current_epoch: i32,
        /// The caller's epoch.
        epoch: i32,
    },
    /// The caller's epoch was never opened.
    UnknownEpoch {
        /// The newest epoch.
        current_epoch: i32,
        /// The caller's epoch.
        epoch: i32,
    },
    /// An append without records.
    Empty,
    /// Keys and values exceed the size limit of a batch.
    TooLarge {
        /// Size of the append in bytes.
        batch_bytes: usize,
        /// The limit in bytes.
        limit_bytes: usize,
    },
    /// Bytes of the partition are damaged. It is not served until they are repaired.
    Damaged(Box<Damage>),
    /// The store stopped after a failure. Operations in flight may be durable or not; the next start finds out.
    Stopped {
        /// The failure, and what to do.
        reason: Arc<str>,
    },
    /// The store was opened read-only.
    ReadOnly,
    /// The store cannot write at the moment, as on a full disk. Nothing of the append is stored; the next append tries
    /// again.
    Storage {
        /// The failure, its place, and what to do.
        reason: Arc<str>,
    },
    /// A test injected this Kafka error code.
    Failed {
        /// The Kafka error code.
        code: i16,
    },
}

impl LogError {
    /// Returns the Kafka error code: 3 `UNKNOWN_TOPIC_OR_PARTITION`, 6 `NOT_LEADER_OR_FOLLOWER`, 10
    /// `MESSAGE_TOO_LARGE`, 56 `KAFKA_STORAGE_ERROR`, 87 `INVALID_RECORD`, or an injected code.
    pub fn code(&self) -> i16 {
        match self {
            LogError::UnknownPartition { .. } => 3,
            LogError::NotOpen { .. } | LogError::Fenced { .. } | LogError::UnknownEpoch { .. } => 6,
            LogError::TooLarge { .. } => 10,
            LogError::Damaged(_) | LogError::Stopped { .. } | LogError::Storage { .. } | LogError::ReadOnly => 56,
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
            LogError::Storage { reason } => write!(f, "{reason}"),
            LogError::ReadOnly => write!(f, "the data directory was opened to be read only"),
            LogError::Failed { code } => write!(f, "the append failed with Kafka error {code}"),
        }
    }
}

impl std::error::Error for LogError {}
