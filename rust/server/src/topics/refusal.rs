//! Why Produce does not store a batch.

use rota_core::error::ErrorCode;
use rota_log::{BatchError, LogError};

/// The first version that names topics by id.
pub(super) const BY_ID_SINCE: i16 = 13;

/// Why a batch was not stored.
pub(super) struct Refusal {
    pub code: ErrorCode,
    pub message: String,
    /// What is wrong with single records.
    pub records: Option<Box<RecordErrors>>,
}

/// The records that kept their batch from being stored.
pub(super) struct RecordErrors {
    /// Their places in the batch.
    pub indices: Vec<i32>,
    pub message: String,
    /// The first offset of the partition.
    pub first_offset: i64,
}

impl From<BatchError> for Refusal {
    fn from(error: BatchError) -> Refusal {
        let code = match error {
            BatchError::UnsupportedMagic { magic: 0 | 1 }
            | BatchError::Truncated { .. }
            | BatchError::BadRecordCount { .. }
            | BatchError::BadRecord { .. }
            | BatchError::BadCompression { .. }
            | BatchError::TooLargeDecompressed { .. } => ErrorCode::InvalidRecord,
            BatchError::UnsupportedMagic { .. } | BatchError::BadLength { .. } | BatchError::BadChecksum { .. } => {
                ErrorCode::CorruptMessage
            }
            BatchError::UnknownCompression { .. } => ErrorCode::UnsupportedCompressionType,
        };
        Refusal::new(code, error.to_string())
    }
}

pub(super) fn refuse<T>(code: ErrorCode, message: impl Into<String>) -> Result<T, Refusal> {
    Err(Refusal::new(code, message.into()))
}

impl Refusal {
    pub(super) fn new(code: ErrorCode, message: String) -> Refusal {
        Refusal { code, message, records: None }
    }

    pub(super) fn of_log(error: &LogError) -> Refusal {
        let code = ErrorCode::from_code(error.code()).unwrap_or(ErrorCode::KafkaStorageError);
        Refusal::new(code, error.to_string())
    }
}
