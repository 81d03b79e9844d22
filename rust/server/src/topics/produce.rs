//! Produce: one record batch per partition, validated and stored unchanged.

use std::{
    collections::{BTreeMap, HashMap},
    sync::{Arc, Mutex, PoisonError, atomic::Ordering},
};

use kafka_protocol::{
    messages::{
        ProduceRequest, ProduceResponse,
        produce_response::{BatchIndexAndErrorMessage, PartitionProduceResponse, TopicProduceResponse},
    },
    protocol::StrBytes,
};
use rota_core::error::ErrorCode;
use rota_log::{Batch, BatchError, Compression, EndMarker, LogError, PartitionLog, stamp_append_time, store::Command};
use tokio::sync::Notify;
use uuid::Uuid;

use super::{
    LEADER_EPOCH, Partition, Topic, TopicTable, Topics,
    disk::{KAFKAS_OWN, OnDisk},
    keys::{Left, check_keys},
    partition_data::{DiskRecords, Records},
    producers::AppendedAt,
    refusal::{BY_ID_SINCE, RecordErrors, Refusal, refuse},
    transactions::WrittenBatch,
    verify::{SECOND_PROTOCOL_SINCE, Served, TRANSACTIONS_REFUSED, Transaction},
};

/// The first version that may store zstd.
const ZSTD_SINCE: i16 = 7;
/// The result of a Produce.
#[derive(Clone, Debug, PartialEq)]
pub struct ProduceOutcome {
    /// The answer; not sent with acks 0.
    pub response: ProduceResponse,
    /// Whether any partition has an error. Then Kafka closes a connection with acks 0.
    pub has_error: bool,
    /// Batches in flight to the disk, with topic and partition in the response.
    pub waiting: BTreeMap<AppendToken, (usize, usize)>,
}

impl ProduceOutcome {
    /// Handles the completion of an append, if it belongs to this answer.
    pub fn ended(&mut self, token: AppendToken, result: &Result<i64, LogError>) {
        let Some((topic, partition)) = self.waiting.remove(&token) else { return };
        let answer = &mut self.response.responses[topic].partition_responses[partition];
        match result {
            Ok(base_offset) => answer.base_offset = *base_offset,
            Err(error) => {
                *answer = partition_answer(answer.index, Err(Refusal::of_log(error)));
                self.has_error = true;
            }
        }
    }
}

/// Identifies one batch in flight to the disk; never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AppendToken(u64);

#[cfg(test)]
impl AppendToken {
    pub(crate) fn of(number: u64) -> AppendToken {
        AppendToken(number)
    }
}

/// The completion of an append, with its partition and its batch.
type Ended = (AppendToken, (Uuid, i32), WrittenBatch, Result<i64, LogError>);

/// See [`Topics::produced`].
#[derive(Debug, Default)]
pub(super) struct Appends {
    next: u64,
    ended: Arc<Mutex<Vec<Ended>>>,
}

/// The position of a batch.
struct Stored {
    at: AppendedAt,
    first_offset: i64,
    append_time_ms: i64,
    /// The append in flight.
    token: Option<AppendToken>,
}

impl Topics {
    /// Handles versions 3–13. Partitions succeed or fail independently. Of a partition that is named several times the last
    /// batch counts, and it is answered once, as in Kafka. Repeated batches of idempotent producers are answered with their
    /// offsets. Compressed records are decoded for compacted topics only. Refuses batches of transactions. Wakes fetches
    /// that wait for data.
    pub fn produce(&mut self, request: &ProduceRequest, version: i16, now_ms: i64) -> ProduceOutcome {
        self.produce_verified(request, version, None, now_ms)
    }

    /// Like [`Topics::produce`] with batches of transactions: their coordinator is asked before they are stored.
    pub fn produce_verified(
        &mut self,
        request: &ProduceRequest,
        version: i16,
        served: Option<Served<'_>>,
        now_ms: i64,
    ) -> ProduceOutcome {
        let transactional_id = request.transactional_id.as_ref().map(|id| id.as_str());
        let transaction = Transaction { version, transactional_id, served };
        let mut outcome =
            ProduceOutcome { response: ProduceResponse::default(), has_error: false, waiting: BTreeMap::new() };
        self.create_all_on_disk(request, transaction);
        let (mut mentions, mut left) = (Mentions::of(request), Left::of(version));
        for (asked_at, asked) in request.topic_data.iter().enumerate() {
            let topic_at = outcome.response.responses.len();
            let mut answer =
                TopicProduceResponse::default().with_name(asked.name.clone()).with_topic_id(asked.topic_id);
            let found = self.asked(version >= BY_ID_SINCE, &asked.name, asked.topic_id);
            let found = found.map(|(name, _)| name.to_owned());
            for data in &asked.partition_data {
                if mentions.is_named_later(asked_at, data.index) {
                    continue;
                }
                let stored = match &found {
                    Ok(name) => {
                        let records = data.records.as_deref().unwrap_or_default();
                        check_request(request, transaction)
                            .and_then(|()| check_batch(records, version))
                            .and_then(|batch| self.store((name, data.index), &batch, transaction, now_ms, &mut left))
                    }
                    Err(code) => refuse(*code, "there is no such topic"),
                };
                outcome.has_error |= stored.is_err();
                if let Ok(Stored { token: Some(token), .. }) = &stored {
                    outcome.waiting.insert(*token, (topic_at, answer.partition_responses.len()));
                }
                answer.partition_responses.push(partition_answer(data.index, stored));
            }
            if !answer.partition_responses.is_empty() || asked.partition_data.is_empty() {
                outcome.response.responses.push(answer);
            }
        }
        outcome
    }

    fn store(
        &mut self,
        (name, index): (&str, i32),
        batch: &Batch<'_>,
        transaction: Transaction<'_>,
        now_ms: i64,
        left: &mut Left,
    ) -> Result<Stored, Refusal> {
        let table = Arc::clone(&self.table);
        let topic = table.topic(name).ok_or_else(|| no_partition(name, index))?;
        self.check_new_batch((name, topic), index, batch, transaction)?;
        let retention_bytes = topic.configs.retention_bytes.or(self.settings.retention_bytes);
        let append_time_ms = topic.configs.append_time.then_some(now_ms);
        let (place, header) = ((topic.id, index), batch.header());
        self.prepare_disk(name, place, header.is_transactional())?;
        let partition = self.data.entry(place).or_default();
        if let Records::Disk(disk) = &partition.log
            && let Err(message) = disk.check_writable()
        {
            return refuse(ErrorCode::KafkaStorageError, message);
        }
        if header.is_idempotent() {
            partition.know_producers()?;
        }
        if header.is_transactional() && !partition.producers.has_open(header.producer_id, header.producer_epoch) {
            transaction.verify(header, name, index)?;
        }
        if topic.configs.is_compacted() {
            check_keys(batch, (name, index), partition.log.first_offset(), left)?;
        }
        if let Some(stored) = partition.repeated(batch, transaction.is_second_protocol())? {
            return Ok(stored);
        }
        self.append(place, batch, retention_bytes, append_time_ms)
    }

    /// Checks what does not depend on the records that are there.
    pub(super) fn check_new_batch(
        &self,
        (name, topic): (&str, &Topic),
        index: i32,
        batch: &Batch<'_>,
        transaction: Transaction<'_>,
    ) -> Result<(), Refusal> {
        if KAFKAS_OWN.contains(&name) {
            return refuse(ErrorCode::InvalidTopicException, format!("`{name}` cannot be written to"));
        }
        match self.led(topic, index) {
            Ok(_epoch) => {}
            Err(ErrorCode::UnknownTopicOrPartition) => return Err(no_partition(name, index)),
            Err(error) => return refuse(error, format!("another node leads partition {index} of `{name}`")),
        }
        let message_max_bytes = topic.configs.message_max_bytes.unwrap_or(self.settings.message_max_bytes);
        let size_bytes = batch.bytes().len();
        if size_bytes > message_max_bytes {
            let message = format!("the batch has {size_bytes} bytes, the limit is {message_max_bytes}");
            return refuse(ErrorCode::MessageTooLarge, message);
        }
        batch.validate()?;
        check_client_batch(batch, transaction)
    }

    /// Appends a checked batch.
    fn append(
        &mut self,
        place: (Uuid, i32),
        batch: &Batch<'_>,
        retention_bytes: Option<u64>,
        append_time_ms: Option<i64>,
    ) -> Result<Stored, Refusal> {
        let (partition, header) = (self.data.entry(place).or_default(), batch.header());
        let before_bytes = partition.memory_bytes();
        let max_timestamp_ms = append_time_ms.unwrap_or(header.max_timestamp_ms);
        let (base_offset, token) = match &mut partition.log {
            Records::Disk(disk) => {
                let owner = Arc::clone(&self.owner);
                let waker = owner.waker(self.node_id);
                let (base_offset, token) = self.appends.begin(&owner, waker, disk, place, batch, append_time_ms)?;
                if let Some(limit_bytes) = retention_bytes.filter(|limit_bytes| *limit_bytes < u64::MAX) {
                    owner.trim(disk, limit_bytes);
                }
                (base_offset, Some(token))
            }
            Records::Offsets(_) => return refuse(ErrorCode::InvalidTopicException, "only groups write to this topic"),
            Records::Memory(log) => {
                let kept_bytes = self.owner.log_bytes.load(Ordering::Relaxed);
                let left_bytes = self.settings.log_bytes_max.saturating_sub(kept_bytes);
                (keep(log, batch, append_time_ms, retention_bytes, left_bytes)?, None)
            }
        };
        let at = AppendedAt { base_offset, max_timestamp_ms };
        if header.is_idempotent() {
            partition.producers.appended(header, at);
        }
        let first_offset = partition.log.first_offset();
        if token.is_none() {
            self.owner.count_bytes(partition.memory_bytes(), before_bytes);
            partition.observe(&WrittenBatch::of(batch, None).at(base_offset), None);
            self.wake(place);
        }
        Ok(Stored { at, first_offset, append_time_ms: append_time_ms.unwrap_or(-1), token })
    }

    /// Returns the batches that became durable or failed since the last call, and wakes fetches that wait for their
    /// data.
    pub fn produced(&mut self) -> Vec<(AppendToken, Result<i64, LogError>)> {
        let ended = std::mem::take(&mut *self.appends.ended.lock().unwrap_or_else(PoisonError::into_inner));
        let owner = Arc::clone(&self.owner);
        let take = |(token, place, batch, result): Ended| {
            if let Some(partition) = self.data.get_mut(&place) {
                if let Ok(base_offset) = &result {
                    partition.observe(&batch.at(*base_offset), owner.disk.as_ref());
                }
                if let Records::Disk(disk) = &mut partition.log {
                    if let Ok(base_offset) = &result {
                        disk.settled_offset = batch.at(*base_offset).header.last_offset() + 1;
                    }
                    disk.ended(&result, &mut partition.producers);
                }
                self.wake(place);
            }
            (token, result)
        };
        ended.into_iter().map(take).collect()
    }
}

/// Partitions by the name and id of their topic, with the number of mentions that are still to come.
#[derive(Default)]
struct Mentions {
    /// The first entry of the request with the same topic, by entry. A name can be as long as a request and have as many
    /// partitions, so it is hashed once.
    topics: Vec<usize>,
    counts: HashMap<(usize, i32), usize>,
}

impl Mentions {
    /// Counts the mentions of each partition; empty if each is named once, as in nearly all requests.
    fn of(request: &ProduceRequest) -> Mentions {
        let count = request.topic_data.iter().map(|asked| asked.partition_data.len()).sum::<usize>();
        if count <= 1 {
            return Mentions::default();
        }
        let mut first_of = HashMap::with_capacity(request.topic_data.len());
        let named = request.topic_data.iter().map(|asked| (asked.name.as_str(), asked.topic_id));
        let topics: Vec<usize> = named.enumerate().map(|(at, topic)| *first_of.entry(topic).or_insert(at)).collect();
        let mut counts = HashMap::with_capacity(count);
        for (topic, asked) in topics.iter().zip(&request.topic_data) {
            for data in &asked.partition_data {
                *counts.entry((*topic, data.index)).or_default() += 1;
            }
        }
        if counts.len() == count { Mentions::default() } else { Mentions { topics, counts } }
    }

    /// Counts one mention of a partition, of an entry of the request. Returns whether it comes again.
    fn is_named_later(&mut self, asked_at: usize, index: i32) -> bool {
        let topic = self.topics.get(asked_at);
        let Some(left) = topic.and_then(|topic| self.counts.get_mut(&(*topic, index))) else { return false };
        *left -= 1;
        *left > 0
    }
}

impl Partition {
    /// Returns the approximate memory of what is nowhere else, in bytes.
    pub(super) fn memory_bytes(&self) -> u64 {
        let is_in_memory = matches!(self.log, Records::Memory(_));
        self.log.memory_bytes() + if is_in_memory { self.producers.memory_bytes() } else { 0 }
    }

    /// Returns the position of a repeated batch of an idempotent producer; `None`: the batch is new.
    fn repeated(&mut self, batch: &Batch<'_>, is_second_protocol: bool) -> Result<Option<Stored>, Refusal> {
        if !batch.header().is_idempotent() {
            return Ok(None);
        }
        match self.producers.check(batch.header(), is_second_protocol) {
            Ok(None) => Ok(None),
            // Its first copy may still fail.
            Ok(Some(at)) if at.base_offset >= self.log.next_offset() => {
                refuse(ErrorCode::RequestTimedOut, "the same batch is being stored")
            }
            Ok(Some(at)) => {
                let first_offset = self.log.first_offset();
                Ok(Some(Stored { at, first_offset, append_time_ms: at.max_timestamp_ms, token: None }))
            }
            Err(code) => refuse(code, out_of_order(code, batch)),
        }
    }

    /// Reads the state of producers before the start.
    pub(super) fn know_producers(&mut self) -> Result<(), Refusal> {
        match &mut self.log {
            Records::Disk(disk) if !disk.knows_producers => {
                let read = disk.read_producers(&mut self.producers, &self.transactions);
                read.map_err(|error| Refusal::of_log(&error))
            }
            _ => Ok(()),
        }
    }
}

impl Appends {
    /// Passes a batch to the store. Returns its offset and token.
    pub(super) fn begin(
        &mut self,
        owner: &TopicTable,
        waker: Option<Arc<Notify>>,
        disk: &mut DiskRecords,
        place: (Uuid, i32),
        batch: &Batch<'_>,
        append_time_ms: Option<i64>,
    ) -> Result<(i64, AppendToken), Refusal> {
        let Some(store) = &owner.disk else { return refuse(ErrorCode::KafkaStorageError, "there is no disk") };
        let header = batch.header();
        let count = i64::from(header.last_offset_delta).checked_add(1).filter(|count| *count > 0);
        let base_offset = disk.next_offset;
        let Some(next_offset) = count.and_then(|count| base_offset.checked_add(count)) else {
            return refuse(ErrorCode::InvalidRecord, "the batch has no records");
        };
        if disk.in_flight == 0 {
            disk.settled_offset = base_offset;
        }
        disk.next_offset = next_offset;
        disk.in_flight += 1;
        let mut bytes = batch.bytes().to_vec();
        if let Some(now_ms) = append_time_ms {
            stamp_append_time(&mut bytes, now_ms);
        }
        let token = AppendToken(self.next);
        self.next += 1;
        let ended = Arc::clone(&self.ended);
        let written = WrittenBatch::of(batch, EndMarker::read(batch).ok().flatten());
        // The store refuses what is queued behind a failed batch: its offset and the state of its producer assume that
        // batch.
        let OnDisk { handle: partition, epoch, .. } = disk.on_disk;
        let command = Command::AppendAt { partition, epoch, base_offset, batch: bytes };
        store.submit(command, move |result| {
            ended.lock().unwrap_or_else(PoisonError::into_inner).push((token, place, written, result));
            if let Some(waker) = waker {
                waker.notify_one();
            }
        });
        Ok((base_offset, token))
    }
}

/// Appends to a log in memory, which may grow by `left_bytes`. Returns the base offset.
fn keep(
    log: &mut PartitionLog,
    batch: &Batch<'_>,
    append_time_ms: Option<i64>,
    retention_bytes: Option<u64>,
    left_bytes: u64,
) -> Result<i64, Refusal> {
    if PartitionLog::batch_memory_bytes(batch.bytes().len()) > left_bytes {
        let message = "the topics have reached their total size limit: delete topics or set retention";
        return refuse(ErrorCode::KafkaStorageError, message);
    }
    let base_offset = log.append(batch, LEADER_EPOCH, append_time_ms)?;
    if let Some(limit_bytes) = retention_bytes {
        log.trim_to_bytes(limit_bytes);
    }
    Ok(base_offset)
}

pub(super) fn check_request(request: &ProduceRequest, transaction: Transaction<'_>) -> Result<(), Refusal> {
    if !(-1..=1).contains(&request.acks) {
        return refuse(ErrorCode::InvalidRequiredAcks, format!("acks is {}, expected -1, 0 or 1", request.acks));
    }
    if transaction.transactional_id.is_some() && transaction.served.is_none() {
        return refuse(TRANSACTIONS_REFUSED, "this server has no transactions");
    }
    Ok(())
}

/// Returns the single batch of a partition. A truncated second one is ignored, as in Kafka.
pub(super) fn check_batch(records: &[u8], version: i16) -> Result<Batch<'_>, Refusal> {
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

fn no_partition(name: &str, index: i32) -> Refusal {
    let message = format!("topic `{name}` has no partition {index}");
    Refusal::new(ErrorCode::UnknownTopicOrPartition, message)
}

/// Refuses batches that clients may not write.
fn check_client_batch(batch: &Batch<'_>, transaction: Transaction<'_>) -> Result<(), Refusal> {
    let header = batch.header();
    if header.is_transactional() && transaction.served.is_none() {
        refuse(TRANSACTIONS_REFUSED, "this server has no transactions")
    } else if header.is_transactional() && transaction.transactional_id.is_none() {
        refuse(TRANSACTIONS_REFUSED, "a batch of a transaction needs a transactional id")
    } else if header.is_transactional() && !transaction.is_served() {
        let message = format!("transactions need Produce version {} or earlier here", SECOND_PROTOCOL_SINCE - 1);
        refuse(ErrorCode::UnsupportedVersion, message)
    } else if header.is_transactional() && !header.is_idempotent() {
        refuse(ErrorCode::InvalidRecord, "a batch of a transaction needs a producer id")
    } else if header.is_control() {
        refuse(ErrorCode::InvalidRecord, "clients cannot write control records")
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
        return format!("epoch {epoch} of producer {producer} is fenced by a newer epoch");
    }
    if code == ErrorCode::InvalidTxnState {
        return format!(
            "producer {producer} has an open transaction in the partition, and this batch is not part of it"
        );
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
        Err(Refusal { code, message, records }) => answer
            .with_error_code(code as i16)
            .with_base_offset(-1)
            .with_log_append_time_ms(-1)
            .with_log_start_offset(records.as_ref().map_or(-1, |records| records.first_offset))
            .with_record_errors(records.map(|records| record_errors(*records)).unwrap_or_default())
            .with_error_message(Some(StrBytes::from_string(message))),
    }
}

fn record_errors(records: RecordErrors) -> Vec<BatchIndexAndErrorMessage> {
    let message = StrBytes::from_string(records.message);
    let error = |index| {
        BatchIndexAndErrorMessage::default()
            .with_batch_index(index)
            .with_batch_index_error_message(Some(message.clone()))
    };
    records.indices.into_iter().map(error).collect()
}

#[cfg(test)]
mod tests {
    use kafka_protocol::messages::{
        TopicName,
        produce_request::{PartitionProduceData, TopicProduceData},
    };
    use rota_log::BatchWriter;

    use super::*;
    use crate::{
        base::entropy::RandomBits,
        topics::{TopicSettings, configs::TopicConfigs},
    };

    #[test]
    fn kafkas_own_topics_are_not_written_to() {
        let mut random = RandomBits::default();
        let mut topics = Topics::new(TopicSettings::default(), &mut random);
        // Another release has shared them with the servers of its cluster.
        topics.changing(|topics| {
            let created = KAFKAS_OWN.iter().skip(1);
            let ids = created.map(|name| Ok(topics.insert(name, 1, None, TopicConfigs::default(), &mut random)));
            ids.collect::<Vec<Result<Uuid, crate::topics::TopicError>>>()
        });
        for name in KAFKAS_OWN {
            let mut writer = BatchWriter::default();
            writer.push(0, None, Some(b"v"));
            let data = PartitionProduceData::default().with_records(Some(writer.finish()));
            let name = TopicName(StrBytes::from_static_str(name));
            let asked = TopicProduceData::default().with_name(name).with_partition_data(vec![data]);
            let outcome = topics.produce(&ProduceRequest::default().with_acks(-1).with_topic_data(vec![asked]), 9, 0);
            let answer = &outcome.response.responses[0].partition_responses[0];
            assert_eq!(answer.error_code, ErrorCode::InvalidTopicException as i16);
        }
    }
}
