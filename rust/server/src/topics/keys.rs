//! Topics with `cleanup.policy=compact` take records with keys only, as in Kafka.

use std::borrow::Cow;

use rota_core::error::ErrorCode;
use rota_log::Batch;

use super::refusal::{RecordErrors, Refusal};

/// Maximum bytes of the decompressed records of one batch.
const PAYLOAD_BYTES_MAX: usize = 64 << 20;
/// Maximum bytes of all decompressed records of one request: they keep the thread for about a quarter of a second.
const PAYLOADS_BYTES_MAX: usize = 128 << 20;
/// Maximum records without a key in one answer.
const ERRORS_MAX: usize = 1_000;
/// The first version whose answer has such records.
const ERRORS_SINCE: i16 = 8;
/// Errors in the message of the batch.
const SHOWN: usize = 3;

/// What one request may still use.
pub(super) struct Left {
    payload_bytes: usize,
    errors: usize,
}

impl Left {
    pub(super) fn of(version: i16) -> Left {
        Left { payload_bytes: PAYLOADS_BYTES_MAX, errors: if version >= ERRORS_SINCE { ERRORS_MAX } else { 0 } }
    }
}

/// Checks that every record of a batch has a key. `first_offset`: that of the partition. Errors: `InvalidRecord`.
pub(super) fn check_keys(
    batch: &Batch<'_>,
    (name, index): (&str, i32),
    first_offset: i64,
    left: &mut Left,
) -> Result<(), Refusal> {
    // What a batch took that cannot be decompressed is not known: then nothing is left.
    let left_bytes = std::mem::take(&mut left.payload_bytes);
    let payload = batch.payload(left_bytes.min(PAYLOAD_BYTES_MAX))?;
    let records = batch.records_in(&payload);
    left.payload_bytes = left_bytes;
    // The records of an uncompressed batch were checked.
    if let Cow::Owned(bytes) = &payload {
        left.payload_bytes -= bytes.len();
        records.clone().check_all()?;
    }
    let (mut count, mut indices) = (0_usize, Vec::new());
    for (at, record) in (0..).zip(records) {
        if record?.key.is_none() {
            count += 1;
            if indices.len() < left.errors.max(SHOWN) {
                indices.push(at);
            }
        }
    }
    if count == 0 {
        return Ok(());
    }
    let message = format!("Compacted topic cannot accept message without key in topic partition {name}-{index}");
    let shown = |at: &i32| format!("RecordError(batchIndex={at}, message='{message}')");
    let first: Vec<String> = indices.iter().take(SHOWN).map(shown).collect();
    let whole = format!(
        "One or more records have been rejected due to {count} record errors in total, and only showing the first three \
         errors at most: [{}]",
        first.join(", ")
    );
    indices.truncate(left.errors);
    left.errors -= indices.len();
    let records = Some(Box::new(RecordErrors { indices, message, first_offset }));
    Err(Refusal { records, ..Refusal::new(ErrorCode::InvalidRecord, whole) })
}
