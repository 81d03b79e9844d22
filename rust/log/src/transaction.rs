//! Batches of transactions, and the control batches that end them.

use bytes::Bytes;

use crate::{
    batch::{Batch, BatchError},
    writer::BatchWriter,
};

/// The types of control records in the key of a marker.
const ABORT: i16 = 0;
const COMMIT: i16 = 1;
/// Maximum bytes of a control record. Kafka's have 17.
const CONTROL_BYTES_MAX: usize = 1 << 10;

/// What a batch is to transactions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BatchKind {
    /// Not part of a transaction.
    #[default]
    Plain,
    /// Records of the producer's open transaction. The next marker of the producer decides about them.
    Transactional {
        /// The producer id.
        producer_id: i64,
        /// The producer's epoch.
        producer_epoch: i16,
    },
    /// A control batch that ends the producer's transaction. It has one offset and no records of its own.
    Marker(EndMarker),
}

impl BatchKind {
    /// Whether the batch ends a transaction.
    pub fn is_marker(self) -> bool {
        matches!(self, BatchKind::Marker(_))
    }
}

/// The end of a producer's transaction in one partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EndMarker {
    /// The producer id.
    pub producer_id: i64,
    /// The epoch of the producer from now on. Batches of older epochs are refused after the marker.
    pub producer_epoch: i16,
    /// The epoch of the transaction coordinator that decided. Markers of older coordinators are refused after it.
    pub coordinator_epoch: i32,
    /// Whether the transaction is committed; otherwise it is aborted.
    pub is_commit: bool,
}

impl EndMarker {
    /// Returns the control batch, like Kafka's byte for byte.
    pub fn batch(&self, timestamp_ms: i64) -> Bytes {
        let EndMarker { producer_id, producer_epoch, coordinator_epoch, is_commit } = *self;
        let kind = if is_commit { COMMIT } else { ABORT };
        let mut writer = BatchWriter::default();
        writer.producer = Some((producer_id, producer_epoch, -1));
        writer.is_transactional = true;
        writer.is_control = true;
        let key = [0_i16.to_be_bytes(), kind.to_be_bytes()].concat();
        let value = [&0_i16.to_be_bytes()[..], &coordinator_epoch.to_be_bytes()].concat();
        writer.push(timestamp_ms, Some(&key), Some(&value));
        writer.finish()
    }

    /// Reads the marker of a batch; `None` if it is not one: data, or a control batch of another type. Errors:
    /// `BadRecord`, and those of the payload.
    pub fn read(batch: &Batch<'_>) -> Result<Option<EndMarker>, BatchError> {
        let header = batch.header();
        if !header.is_control() {
            return Ok(None);
        }
        let payload = batch.payload(CONTROL_BYTES_MAX)?;
        let Some(record) = batch.records_in(&payload).next().transpose()? else { return Ok(None) };
        let bad = |field| BatchError::BadRecord { index: 0, field };
        // Version i16, type i16. Later versions only add fields.
        let key = record.key.and_then(|key| key.get(2..)).and_then(|rest| rest.first_chunk());
        let is_commit = match i16::from_be_bytes(*key.ok_or_else(|| bad("key"))?) {
            ABORT => false,
            COMMIT => true,
            _ => return Ok(None),
        };
        // Version i16, coordinator epoch i32.
        let value = record.value.and_then(|value| value.get(2..)).and_then(|rest| rest.first_chunk());
        let coordinator_epoch = i32::from_be_bytes(*value.ok_or_else(|| bad("value"))?);
        let (producer_id, producer_epoch) = (header.producer_id, header.producer_epoch);
        Ok(Some(EndMarker { producer_id, producer_epoch, coordinator_epoch, is_commit }))
    }
}
