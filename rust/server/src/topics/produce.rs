//! Produce: one record batch for each partition, checked and stored as it came.

use std::sync::Arc;

use kafka_protocol::{
    messages::{
        ProduceRequest, ProduceResponse,
        produce_response::{PartitionProduceResponse, TopicProduceResponse},
    },
    protocol::StrBytes,
};
use rota_core::error::ErrorCode;
use rota_log::{Batch, BatchError, Compression};

use super::{LEADER_EPOCH, Topics, producers::AppendedAt};

/// What every transactional request is refused with: there are no transactions here, and with this error clients give
/// up at once instead of trying again.
pub const TRANSACTIONS_REFUSED: ErrorCode = ErrorCode::TransactionalIdAuthorizationFailed;

/// From this version on topics are named by id.
const BY_ID_SINCE: i16 = 13;
/// Before this version zstd is not to be stored.
const ZSTD_SINCE: i16 = 7;

/// What Produce did.
#[derive(Clone, Debug, PartialEq)]
pub struct ProduceOutcome {
    /// The answer, which with acks 0 nobody wants.
    pub response: ProduceResponse,
    /// Whether any partition has an error: with acks 0 Kafka closes the connection then.
    pub has_error: bool,
}

/// Why a batch was not stored.
struct Refusal {
    code: ErrorCode,
    message: String,
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
        Refusal { code, message: error.to_string() }
    }
}

fn refuse<T>(code: ErrorCode, message: impl Into<String>) -> Result<T, Refusal> {
    Err(Refusal { code, message: message.into() })
}

/// Where a batch is now.
struct Stored {
    at: AppendedAt,
    first_offset: i64,
    append_time_ms: i64,
}

impl Topics {
    /// Versions 3–13. Each partition stands for itself. Repeated batches of idempotent producers are answered with
    /// where they are. Compressed records are not looked into. Whoever waits for data of a partition is woken.
    pub fn produce(&mut self, request: &ProduceRequest, version: i16, now_ms: i64) -> ProduceOutcome {
        let mut outcome = ProduceOutcome { response: ProduceResponse::default(), has_error: false };
        for asked in &request.topic_data {
            let mut answer =
                TopicProduceResponse::default().with_name(asked.name.clone()).with_topic_id(asked.topic_id);
            let found = self.asked(version >= BY_ID_SINCE, &asked.name, asked.topic_id);
            let found = found.map(|(name, _)| name.to_owned());
            for data in &asked.partition_data {
                let stored = match &found {
                    Ok(name) => {
                        let records = data.records.as_deref().unwrap_or_default();
                        check_request(request)
                            .and_then(|()| check_batch(records, version))
                            .and_then(|batch| self.store(name, data.index, &batch, now_ms))
                    }
                    Err(code) => refuse(*code, "there is no such topic"),
                };
                outcome.has_error |= stored.is_err();
                answer.partition_responses.push(partition_answer(data.index, stored));
            }
            outcome.response.responses.push(answer);
        }
        outcome
    }

    fn store(&mut self, name: &str, index: i32, batch: &Batch<'_>, now_ms: i64) -> Result<Stored, Refusal> {
        let (message_max_bytes, log_bytes_max) = (self.settings.message_max_bytes, self.settings.log_bytes_max);
        let retention_bytes = self.settings.retention_bytes;
        let log_bytes = self.log_bytes();
        let unknown = || Refusal {
            code: ErrorCode::UnknownTopicOrPartition,
            message: format!("topic `{name}` has no partition {index}"),
        };
        let table = Arc::clone(&self.table);
        let topic = table.topic(name).ok_or_else(unknown)?;
        if topic.internal {
            return refuse(ErrorCode::InvalidTopicException, format!("`{name}` cannot be written to"));
        }
        let message_max_bytes = topic.configs.message_max_bytes.unwrap_or(message_max_bytes);
        let retention_bytes = topic.configs.retention_bytes.or(retention_bytes);
        let append_time_ms = topic.configs.append_time.then_some(now_ms);
        match self.led(topic, index) {
            Ok(_epoch) => {}
            Err(ErrorCode::UnknownTopicOrPartition) => return Err(unknown()),
            Err(error) => return refuse(error, format!("another node leads partition {index} of `{name}`")),
        }
        let partition = self.data.entry((topic.id, index)).or_default();
        let size_bytes = batch.bytes().len();
        if size_bytes > message_max_bytes {
            let message = format!("the batch has {size_bytes} bytes, the limit is {message_max_bytes}");
            return refuse(ErrorCode::MessageTooLarge, message);
        }
        batch.validate()?;
        check_client_batch(batch)?;
        let header = batch.header();
        if header.is_idempotent() {
            match partition.producers.check(header) {
                Ok(None) => {}
                Ok(Some(at)) => {
                    let first_offset = partition.log.first_offset();
                    return Ok(Stored { at, first_offset, append_time_ms: at.max_timestamp_ms });
                }
                Err(code) => return refuse(code, out_of_order(code, batch)),
            }
        }
        if log_bytes.saturating_add(size_bytes as u64) > log_bytes_max {
            let message = format!("all topics together may hold {log_bytes_max} bytes: delete topics or set retention");
            return refuse(ErrorCode::KafkaStorageError, message);
        }
        let before_bytes = partition.log.size_bytes();
        let base_offset = partition.log.append(batch, LEADER_EPOCH, append_time_ms)?;
        if let Some(limit_bytes) = retention_bytes {
            partition.log.trim_to_bytes(limit_bytes);
        }
        let at = AppendedAt { base_offset, max_timestamp_ms: append_time_ms.unwrap_or(header.max_timestamp_ms) };
        if header.is_idempotent() {
            partition.producers.appended(header, at);
        }
        let (after_bytes, first_offset) = (partition.log.size_bytes(), partition.log.first_offset());
        let watches = std::mem::take(&mut partition.watches);
        self.owner.count_bytes(after_bytes, before_bytes);
        self.fire(watches);
        Ok(Stored { at, first_offset, append_time_ms: append_time_ms.unwrap_or(-1) })
    }
}

fn check_request(request: &ProduceRequest) -> Result<(), Refusal> {
    if !(-1..=1).contains(&request.acks) {
        return refuse(ErrorCode::InvalidRequiredAcks, format!("acks is {}, expected -1, 0 or 1", request.acks));
    }
    if request.transactional_id.is_some() {
        return refuse(TRANSACTIONS_REFUSED, "there are no transactions here");
    }
    Ok(())
}

/// The one batch of a partition. A piece of a second one at the end is ignored, as Kafka does.
fn check_batch(records: &[u8], version: i16) -> Result<Batch<'_>, Refusal> {
    if records.is_empty() {
        return refuse(ErrorCode::InvalidRecord, "the partition has no record batch, expected one");
    }
    let (batch, rest) = Batch::split(records)?;
    if !rest.is_empty() && !matches!(Batch::split(rest), Err(BatchError::Truncated { .. })) {
        return refuse(ErrorCode::InvalidRecord, "the partition has more than one record batch, expected one");
    }
    if version < ZSTD_SINCE && batch.header().compression()? == Compression::Zstd {
        let message = format!("zstd needs Produce version {ZSTD_SINCE} or later, this is {version}");
        return refuse(ErrorCode::UnsupportedCompressionType, message);
    }
    Ok(batch)
}

/// What a client may not write although it is a batch.
fn check_client_batch(batch: &Batch<'_>) -> Result<(), Refusal> {
    let header = batch.header();
    if header.is_transactional() {
        refuse(TRANSACTIONS_REFUSED, "there are no transactions here")
    } else if header.is_control() {
        refuse(ErrorCode::InvalidRecord, "control records are not the client's to write")
    } else if header.base_offset != 0 {
        refuse(ErrorCode::InvalidRecord, format!("the base offset is {}, expected 0", header.base_offset))
    } else if header.is_idempotent() && (header.base_sequence < 0 || header.producer_epoch < 0) {
        refuse(ErrorCode::InvalidRecord, "a batch with a producer id needs an epoch and a sequence number")
    } else {
        Ok(())
    }
}

fn out_of_order(code: ErrorCode, batch: &Batch<'_>) -> String {
    let header = batch.header();
    let (producer, epoch) = (header.producer_id, header.producer_epoch);
    if code == ErrorCode::InvalidProducerEpoch {
        return format!("epoch {epoch} of producer {producer} is over: there is a newer one");
    }
    let sequence = header.base_sequence;
    format!("sequence number {sequence} of epoch {epoch} does not follow what producer {producer} has stored")
}

fn partition_answer(index: i32, stored: Result<Stored, Refusal>) -> PartitionProduceResponse {
    let answer = PartitionProduceResponse::default().with_index(index);
    match stored {
        Ok(stored) => answer
            .with_base_offset(stored.at.base_offset)
            .with_log_append_time_ms(stored.append_time_ms)
            .with_log_start_offset(stored.first_offset)
            .with_error_message(None),
        Err(refusal) => answer
            .with_error_code(refusal.code as i16)
            .with_base_offset(-1)
            .with_log_append_time_ms(-1)
            .with_log_start_offset(-1)
            .with_error_message(Some(StrBytes::from_string(refusal.message))),
    }
}
