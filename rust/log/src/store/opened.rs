//! How opening a data directory ended.

use std::{fmt, io, path::PathBuf};

use super::{layout::META_PROPERTIES, pass::advice};
use crate::Damage;

/// Why a data directory cannot be opened.
#[derive(Debug)]
pub enum OpenError {
    /// Another process has it.
    Locked {
        /// The directory.
        dir: PathBuf,
    },
    /// It has files in it, but was made neither by us nor by Kafka.
    Strange {
        /// The directory.
        dir: PathBuf,
    },
    /// It was to be read, and neither we nor Kafka have made it.
    NoData {
        /// The directory.
        dir: PathBuf,
    },
    /// A file that all partitions need is not what was written, or is missing.
    Damaged {
        /// The file.
        file: PathBuf,
        /// What is wrong.
        reason: String,
    },
    /// Kafka wrote it: it is not mended here.
    Foreign {
        /// The directory.
        dir: PathBuf,
    },
    /// The file system failed.
    Io {
        /// The directory.
        dir: PathBuf,
        /// How.
        error: io::Error,
    },
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            OpenError::Locked { dir } => {
                write!(f, "`{}` is in use by another process; stop that one or choose another directory", dir.display())
            }
            OpenError::Strange { dir } => write!(
                f,
                "`{}` has files in it but no `{META_PROPERTIES}`; choose an empty directory or one that rota or Kafka \
                 wrote",
                dir.display()
            ),
            OpenError::NoData { dir } => write!(
                f,
                "`{}` is not a data directory: it has no `{META_PROPERTIES}`; give the directory of `rota serve --data`, \
                 or one of Kafka's `log.dirs`",
                dir.display()
            ),
            OpenError::Damaged { file, reason } => write!(
                f,
                "`{}` is damaged: {reason}; restore the data directory from a copy, or give up what the file had with \
                 `rota log recover --give-up`",
                file.display()
            ),
            OpenError::Foreign { dir } => write!(
                f,
                "`{}` was written by Kafka, which mends it when it starts; --take-over makes it rota's",
                dir.display()
            ),
            // The text of an error of ours says what to do.
            OpenError::Io { dir, error } if error.kind() == io::ErrorKind::Other => {
                write!(f, "`{}` cannot be opened: {error}", dir.display())
            }
            OpenError::Io { dir, error } => {
                write!(f, "`{}` cannot be opened: {error}; {}", dir.display(), advice(error))
            }
        }
    }
}

impl std::error::Error for OpenError {}

/// What opening found and did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Nothing had to be completed.
    pub was_clean: bool,
    /// Kafka wrote the directory.
    pub is_foreign: bool,
    /// Batches that were written again from the write-ahead files.
    pub completed_batches: u64,
    /// A write-ahead frame that was being written when the process ended: nobody was told of it.
    pub torn_wal_bytes: u64,
    /// Files that ended in something else than a whole batch: what remains of them, and how many bytes were cut.
    pub cut: Vec<(PathBuf, u64, u64)>,
    /// Partitions that are refused.
    pub damage: Vec<Damage>,
    /// Write-ahead files that are kept under another name, because a refused partition may still need them.
    pub kept: Vec<PathBuf>,
    /// What was not there to be read of files that all partitions share, one line each: [`Access::Salvage`].
    pub given_up: Vec<String>,
}
