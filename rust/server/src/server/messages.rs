//! Reads and writes topics for tests, without a client: produce, read, add partitions.

use std::sync::mpsc::sync_channel;

use bytes::Bytes;
use kafka_protocol::{
    messages::{
        CreatePartitionsRequest, ProduceRequest, TopicName,
        create_partitions_request::CreatePartitionsTopic,
        produce_request::{PartitionProduceData, TopicProduceData},
        produce_response::PartitionProduceResponse,
    },
    protocol::StrBytes,
};
use rota_core::error::ErrorCode;
use rota_log::{BatchWriter, Header, RecordView, batches};

use super::Server;
use crate::{
    base::{error::ServerError, names::Hint},
    node::Node,
    topics::CONSUMER_OFFSETS,
};

/// The last version of Produce that names topics.
const PRODUCE_BY_NAME: i16 = 12;
const ACKS_ALL: i16 = -1;

/// Approximate bytes of records per batch. Larger input is split into several batches.
const BATCH_BYTES: usize = 256 << 10;

/// Bytes that one order to a node reads.
const READ_BYTES: usize = 1 << 20;

/// Maximum decompressed bytes of the records of one batch.
const DECOMPRESSED_BYTES_MAX: usize = 256 << 20;

/// Key, value and headers; `None` is null.
pub type NewMessage = (Option<Vec<u8>>, Option<Vec<u8>>, Vec<Header>);

/// One message of a topic.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// The partition index.
    pub partition: i32,
    /// The offset in the partition.
    pub offset: i64,
    /// Milliseconds since the Unix epoch, of the kind in the topic's `message.timestamp.type`.
    pub timestamp_ms: i64,
    /// The key; `None` is null.
    pub key: Option<Vec<u8>>,
    /// The value; `None` is null.
    pub value: Option<Vec<u8>>,
    /// The headers in their order.
    pub headers: Vec<Header>,
}

/// Returns the headers of a record. Bytes in a name that are no UTF-8 are replaced, as Kafka's client does.
fn headers_of(record: &RecordView<'_>) -> Vec<Header> {
    let header =
        |(name, value): (&[u8], Option<&[u8]>)| (String::from_utf8_lossy(name).into_owned(), value.map(<[u8]>::to_vec));
    record.headers().map(header).collect()
}

/// Decodes the messages of batches from offset `from` on. Returns them with the next offset. Errors: undecodable bytes.
fn decoded(partition: i32, bytes: &[u8], from: i64) -> Result<(Vec<Message>, i64), String> {
    let (mut messages, mut next) = (Vec::new(), from);
    for batch in batches(bytes) {
        let batch = batch.map_err(|error| error.to_string())?;
        next = batch.header().last_offset() + 1;
        if batch.header().is_control() {
            continue;
        }
        let payload = batch.payload(DECOMPRESSED_BYTES_MAX).map_err(|error| error.to_string())?;
        for record in batch.records_in(&payload) {
            let record = record.map_err(|error| error.to_string())?;
            let offset = batch.offset(&record);
            if offset >= from {
                messages.push(Message {
                    partition,
                    offset,
                    timestamp_ms: batch.timestamp_ms(&record),
                    key: record.key.map(<[u8]>::to_vec),
                    value: record.value.map(<[u8]>::to_vec),
                    headers: headers_of(&record),
                });
            }
        }
    }
    Ok((messages, next))
}

/// What a batch has of a record and of a header besides their bytes, at most, where none is longer than a batch.
const RECORD_BYTES: usize = 28;
const HEADER_BYTES: usize = 10;

/// Returns how many bytes a record takes in a batch at most.
fn size_bytes((key, value, headers): &NewMessage) -> usize {
    let bytes = |part: &Option<Vec<u8>>| part.as_ref().map_or(0, Vec::len);
    let of_headers: usize = headers.iter().map(|(name, value)| HEADER_BYTES + name.len() + bytes(value)).sum();
    RECORD_BYTES + bytes(key) + bytes(value) + of_headers
}

/// Splits records into batches below the size limit.
fn batched(records: Vec<NewMessage>) -> Vec<Vec<NewMessage>> {
    let (mut batches, mut bytes) = (Vec::<Vec<NewMessage>>::new(), 0);
    for record in records {
        let size = size_bytes(&record);
        match batches.last_mut() {
            Some(batch) if bytes + size <= BATCH_BYTES => {
                batch.push(record);
                bytes += size;
            }
            _ => {
                batches.push(vec![record]);
                bytes = size;
            }
        }
    }
    batches
}

/// Creates a Produce of one batch.
fn produce_request(topic: &str, partition: i32, records: &[NewMessage], now_ms: i64) -> ProduceRequest {
    let mut batch = BatchWriter::default();
    for (key, value, headers) in records {
        batch.push_with_headers(now_ms, key.as_deref(), value.as_deref(), headers);
    }
    let data = PartitionProduceData::default().with_index(partition).with_records(Some(batch.finish()));
    let topic = TopicProduceData::default()
        .with_name(TopicName(StrBytes::from_string(topic.to_owned())))
        .with_partition_data(vec![data]);
    ProduceRequest::default().with_acks(ACKS_ALL).with_topic_data(vec![topic])
}

/// Returns the name of a protocol error with its message.
pub(super) fn reason(code: i16, message: Option<&StrBytes>) -> String {
    let name = ErrorCode::from_code(code).map_or("an unknown error", ErrorCode::name);
    message.map_or_else(|| name.to_owned(), |message| format!("{name}: {message}"))
}

impl Server {
    /// Returns the number of partitions of a topic. Errors: `UnknownTopic`.
    pub fn partition_count(&self, topic: &str) -> Result<i32, ServerError> {
        let name = topic.to_owned();
        let found = self.ask(0, move |node| {
            node.catch_up();
            let names: Vec<String> = node.topics().names().map(str::to_owned).collect();
            node.topics().partition_count(&name).ok_or(names)
        })?;
        found.map_err(|names| {
            let names = names.iter().map(String::as_str).filter(|name| *name != CONSUMER_OFFSETS);
            ServerError::UnknownTopic { topic: topic.to_owned(), hint: Hint::new(topic, names) }
        })
    }

    /// Returns the index of the node that leads a partition. Errors: `UnknownTopic`, `UnknownTopicPartition`.
    pub(super) fn leader_place(&self, topic: &str, partition: i32) -> Result<usize, ServerError> {
        let partitions = self.partition_count(topic)?;
        let name = topic.to_owned();
        let leader = self.ask(0, move |node| node.topics().leader_id(&name, partition))?;
        let topic = topic.to_owned();
        leader.map(|node_id| self.shared.place_of(node_id)).ok_or(ServerError::UnknownTopicPartition {
            topic,
            partition,
            partitions,
        })
    }

    /// Appends messages to a partition, like a producer with `acks=all`. Returns their offsets once they are durable.
    /// Errors: `UnknownTopic`, `UnknownTopicPartition`, `NotProduced`.
    pub fn produce(&self, topic: &str, partition: i32, records: Vec<NewMessage>) -> Result<Vec<i64>, ServerError> {
        let at = self.leader_place(topic, partition)?;
        let mut offsets = Vec::with_capacity(records.len());
        for batch in batched(records) {
            let (count, name) = (batch.len() as i64, topic.to_owned());
            let (reply, answer) = sync_channel(1);
            self.ask(at, move |node| {
                node.catch_up();
                let now_ms = node.clock().now().wall_ms;
                let request = produce_request(&name, partition, &batch, now_ms);
                let outcome = node.topics_mut().0.produce(&request, PRODUCE_BY_NAME, now_ms);
                node.tell_when_durable(reply, outcome);
            })?;
            let response = self.answered(&answer)?;
            let answer = response.responses.first().and_then(|topic| topic.partition_responses.first());
            let PartitionProduceResponse { error_code, error_message, base_offset, .. } =
                answer.cloned().unwrap_or_default();
            if error_code != 0 {
                let reason = reason(error_code, error_message.as_ref());
                return Err(ServerError::NotProduced { topic: topic.to_owned(), partition, reason });
            }
            offsets.extend(base_offset..base_offset + count);
        }
        Ok(offsets)
    }

    /// Returns every message of a topic, by partition and offset. Errors: `UnknownTopic`, `Unreadable`.
    pub fn messages(&self, topic: &str) -> Result<Vec<Message>, ServerError> {
        let mut messages = Vec::new();
        for partition in 0..self.partition_count(topic)? {
            let at = self.leader_place(topic, partition)?;
            let mut from = 0;
            loop {
                let name = topic.to_owned();
                let read = self.ask(at, move |node| read(node, &name, partition, from))?;
                // A batch may begin with records that were deleted.
                let found = read.and_then(|(first, bytes)| decoded(partition, &bytes, first)).map_err(|reason| {
                    ServerError::Unreadable { topic: topic.to_owned(), partition, offset: from, reason }
                })?;
                messages.extend(found.0);
                if found.1 == from {
                    break;
                }
                from = found.1;
            }
        }
        Ok(messages)
    }

    /// Adds partitions to a topic. Returns its number of partitions. Errors: `UnknownTopic`, `Refused`.
    pub fn add_partitions(&self, topic: &str, added: i32) -> Result<i32, ServerError> {
        let total = self.partition_count(topic)?.saturating_add(added);
        let asked = CreatePartitionsTopic::default()
            .with_name(TopicName(StrBytes::from_string(topic.to_owned())))
            .with_count(total)
            .with_assignments(None);
        let request = CreatePartitionsRequest::default().with_topics(vec![asked]);
        let response = self.ask(0, move |node| node.topics_mut().0.create_partitions(&request))?;
        match response.results.first() {
            Some(result) if result.error_code != 0 => {
                let reason = reason(result.error_code, result.error_message.as_ref());
                Err(ServerError::Refused { what: format!("cannot add partitions to topic `{topic}`"), reason })
            }
            _ => Ok(total),
        }
    }
}

/// Reads whole batches of a partition that this node leads, from the one with offset `from` on. Returns the first offset that
/// counts, too.
fn read(node: &mut Node, topic: &str, partition: i32, from: i64) -> Result<(i64, Bytes), String> {
    node.catch_up();
    node.topics().read(topic, partition, from, READ_BYTES).map_err(|error| error.name().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(bytes: usize) -> NewMessage {
        (None, Some(vec![0; bytes]), Vec::new())
    }

    #[test]
    fn records_are_split_where_a_batch_would_be_too_large() {
        let sizes = |records: Vec<NewMessage>| batched(records).iter().map(Vec::len).collect::<Vec<_>>();
        assert_eq!(sizes(Vec::new()), [0; 0]);
        assert_eq!(sizes(vec![value(1); 1_000]), [1_000]);
        assert_eq!(sizes(vec![value(BATCH_BYTES / 2 - RECORD_BYTES); 5]), [2, 2, 1]);
        assert_eq!(
            sizes(vec![(None, None, Vec::new()); BATCH_BYTES / RECORD_BYTES + 1]),
            [BATCH_BYTES / RECORD_BYTES, 1]
        );
        let headers = vec![(String::new(), None); BATCH_BYTES / HEADER_BYTES / 2];
        assert_eq!(sizes(vec![(None, None, headers); 3]), [1; 3]);
        assert_eq!(sizes(vec![value(2 * BATCH_BYTES), value(1)]), [1, 1]);
        let headed = (None, None, vec![("name".to_owned(), Some(vec![0; BATCH_BYTES / 2]))]);
        assert_eq!(sizes(vec![headed; 5]), [1; 5]);
    }

    #[test]
    fn messages_before_the_offset_that_was_asked_for_are_left_out() {
        let mut batch = BatchWriter::default();
        batch.base_offset = 5;
        for at in 0..3 {
            batch.push(1_000 + at, Some(b"k"), None);
        }
        let bytes = batch.finish();
        let (found, next) = decoded(2, &bytes, 6).unwrap();
        assert_eq!(next, 8);
        assert_eq!(found.iter().map(|message| message.offset).collect::<Vec<_>>(), [6, 7]);
        let Message { partition, timestamp_ms, key, value, .. } = &found[0];
        assert_eq!((*partition, *timestamp_ms, key.as_deref(), value.as_deref()), (2, 1_001, Some(&b"k"[..]), None));
        assert!(decoded(2, &bytes[..bytes.len() - 1], 0).is_err());
    }
}
