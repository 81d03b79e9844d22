//! Why a log refuses or fails.

use std::{fmt, path::PathBuf, sync::Arc};

/// Bytes that are not what was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damage {
    /// Where they are.
    pub file: PathBuf,
    /// Byte of the file.
    pub position: u64,
    /// The offset that was expected there.
    pub offset: i64,
    /// What is wrong.
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
    /// The store cannot write at the moment. Nothing of the append is stored; the next one is tried again.
    Storage {
        /// What failed, where, and what to do.
        reason: Arc<str>,
    },
    /// A test asked for it: a Kafka error code.
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
