//! Results of opening a data directory.

use std::{
    error::Error,
    fmt, io,
    path::{Path, PathBuf},
};

use super::{layout::META_PROPERTIES, pass::advice};
use crate::{Damage, files::LockedHere};

/// Why a data directory cannot be opened.
#[derive(Debug)]
pub enum OpenError {
    /// It is in use.
    Locked {
        /// The directory.
        dir: PathBuf,
        /// Whether this process uses it; otherwise another one does.
        is_here: bool,
    },
    /// It has files, but neither rota nor Kafka created it.
    Strange {
        /// The directory.
        dir: PathBuf,
    },
    /// It was opened for reading, and neither rota nor Kafka created it.
    NoData {
        /// The directory.
        dir: PathBuf,
    },
    /// A file that all partitions need is damaged or missing.
    Damaged {
        /// The file.
        file: PathBuf,
        /// The damage.
        reason: String,
    },
    /// A later release wrote it, in a format that this one does not know.
    LaterFormat {
        /// The file that names its format.
        file: PathBuf,
        /// The number of that format.
        found: u64,
        /// The newest format that this release knows.
        known: u64,
    },
    /// Kafka wrote it, and rota does not repair it.
    Foreign {
        /// The directory.
        dir: PathBuf,
    },
    /// The file system failed.
    Io {
        /// The directory.
        dir: PathBuf,
        /// The error.
        error: io::Error,
    },
}

impl OpenError {
    /// Returns the error for a directory whose lock file could not be locked.
    pub fn locked(dir: &Path, error: &io::Error) -> OpenError {
        OpenError::Locked {
            dir: dir.to_owned(),
            is_here: error.get_ref().is_some_and(<dyn Error + Send + Sync>::is::<LockedHere>),
        }
    }
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            OpenError::Locked { dir, is_here: false } => {
                write!(f, "`{}` is in use by another process; stop that one or choose another directory", dir.display())
            }
            OpenError::Locked { dir, is_here: true } => {
                write!(f, "`{}` is in use by this process; stop its server or choose another directory", dir.display())
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
            OpenError::LaterFormat { file, found, known } => write!(
                f,
                "`{}` has format {found}, and this release of rota knows format {known}; use the release that wrote \
                 the data directory, or a later one",
                file.display()
            ),
            OpenError::Foreign { dir } => write!(
                f,
                "`{}` was written by Kafka, which repairs it when it starts; --take-over makes it rota's",
                dir.display()
            ),
            // The text of rota's own errors already says what to do.
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
    /// Whether nothing had to be completed.
    pub was_clean: bool,
    /// Whether Kafka wrote the directory.
    pub is_foreign: bool,
    /// Batches written again from the write-ahead files.
    pub completed_batches: u64,
    /// Those of them that the segments did not have.
    pub missing_batches: u64,
    /// Bytes of an unfinished write-ahead frame. Nothing in it was acknowledged.
    pub torn_wal_bytes: u64,
    /// Files with bytes after the last whole batch: path, remaining size and cut bytes.
    pub cut: Vec<(PathBuf, u64, u64)>,
    /// Damage of refused partitions.
    pub damage: Vec<Damage>,
    /// Write-ahead files kept under another name, because a refused partition may need them.
    pub kept: Vec<PathBuf>,
    /// What could not be read of shared files, one line each: [`Access::Salvage`].
    pub given_up: Vec<String>,
}
