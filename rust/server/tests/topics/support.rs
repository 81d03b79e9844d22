//! A table with one topic, batches, and the shortest way through each request.

use bytes::Bytes;
use kafka_protocol::{
    messages::{
        CreateTopicsRequest, FetchRequest, ListOffsetsRequest, MetadataResponse, ProduceRequest, TopicName,
        create_topics_request::CreatableTopic,
        fetch_request::{FetchPartition, FetchTopic},
        fetch_response::PartitionData,
        list_offsets_request::{ListOffsetsPartition, ListOffsetsTopic},
        metadata_response::MetadataResponseTopic,
        produce_request::{PartitionProduceData, TopicProduceData},
        produce_response::PartitionProduceResponse,
    },
    protocol::StrBytes,
};
use rota_log::BatchWriter;
use rota_server::topics::{Cluster, Entropy, Node, TopicSettings, Topics};

/// Wall time of every produce request, milliseconds.
pub const NOW_MS: i64 = 1_700_000_000_000;

/// Bits that count up.
#[derive(Default)]
pub struct Counted(u128);

impl Entropy for Counted {
    fn draw(&mut self) -> u128 {
        self.0 += 1;
        self.0 << 96 | self.0
    }
}

pub fn name(name: &str) -> TopicName {
    TopicName(StrBytes::from_string(name.to_owned()))
}

/// A table with topic `t` of `partitions` partitions.
pub fn table(partitions: i32) -> Topics {
    table_with(TopicSettings::default(), partitions)
}

pub fn table_with(settings: TopicSettings, partitions: i32) -> Topics {
    let mut topics = Topics::new(settings, &mut Counted::default());
    topics.create("t", partitions, &mut Counted(1_000)).unwrap();
    topics
}

pub fn cluster() -> Cluster {
    Cluster { id: Some("c".to_owned()), nodes: vec![Node { id: 1, host: "h".to_owned(), port: 9_092 }] }
}

pub fn topic_of<'r>(response: &'r MetadataResponse, name: &str) -> Option<&'r MetadataResponseTopic> {
    response.topics.iter().find(|topic| topic.name.as_ref().is_some_and(|found| found.as_str() == name))
}

pub fn creatable(topic: &str, partitions: i32) -> CreatableTopic {
    CreatableTopic::default().with_name(name(topic)).with_num_partitions(partitions).with_replication_factor(1)
}

/// The error code of creating one topic.
pub fn create(topics: &mut Topics, topic: CreatableTopic) -> i16 {
    let request = CreateTopicsRequest::default().with_topics(vec![topic]);
    topics.create_topics(&request, &mut Counted(2_000)).topics[0].error_code
}

/// One record for each timestamp.
pub fn batch(timestamps_ms: &[i64]) -> Bytes {
    batch_of(None, timestamps_ms)
}

/// One record for each timestamp, from (producer id, epoch, base sequence).
pub fn batch_of(producer: Option<(i64, i16, i32)>, timestamps_ms: &[i64]) -> Bytes {
    let mut writer = BatchWriter::default();
    writer.producer = producer;
    for timestamp_ms in timestamps_ms {
        writer.push(*timestamp_ms, None, Some(b"value"));
    }
    writer.finish()
}

/// One record for each key.
pub fn keyed_batch(keys: &[Option<&[u8]>]) -> Bytes {
    let mut writer = BatchWriter::default();
    for key in keys {
        writer.push(1, *key, Some(b"value"));
    }
    writer.finish()
}

pub fn produce_request(topic: &str, partition: i32, records: impl Into<Bytes>) -> ProduceRequest {
    let data = PartitionProduceData::default().with_index(partition).with_records(Some(records.into()));
    let topic = TopicProduceData::default().with_name(name(topic)).with_partition_data(vec![data]);
    ProduceRequest::default().with_acks(-1).with_topic_data(vec![topic])
}

/// Produces to partition 0 of `t`.
pub fn produce(topics: &mut Topics, records: impl Into<Bytes>) -> PartitionProduceResponse {
    produce_to(topics, 0, records)
}

pub fn produce_to(topics: &mut Topics, partition: i32, records: impl Into<Bytes>) -> PartitionProduceResponse {
    let outcome = topics.produce(&produce_request("t", partition, records), 9, NOW_MS);
    let answer = outcome.response.responses[0].partition_responses[0].clone();
    assert_eq!(outcome.has_error, answer.error_code != 0);
    answer
}

/// Fetches (partition, offset) pairs of `t`.
pub fn fetch_request(wanted: &[(i32, i64)]) -> FetchRequest {
    let partition = |(partition, offset): &(i32, i64)| {
        FetchPartition::default()
            .with_partition(*partition)
            .with_fetch_offset(*offset)
            .with_current_leader_epoch(-1)
            .with_partition_max_bytes(1 << 20)
    };
    let topic = FetchTopic::default().with_topic(name("t")).with_partitions(wanted.iter().map(partition).collect());
    FetchRequest::default()
        .with_max_wait_ms(500)
        .with_min_bytes(1)
        .with_max_bytes(1 << 20)
        .with_session_epoch(-1)
        .with_topics(vec![topic])
}

/// The first partition's answer.
pub fn fetch(topics: &Topics, request: &FetchRequest) -> PartitionData {
    topics.fetch(request, 12).response.responses[0].partitions[0].clone()
}

pub fn list_request(wanted: &[(i32, i64)]) -> ListOffsetsRequest {
    let partition = |(partition, timestamp): &(i32, i64)| {
        ListOffsetsPartition::default()
            .with_partition_index(*partition)
            .with_current_leader_epoch(-1)
            .with_timestamp(*timestamp)
    };
    let topic =
        ListOffsetsTopic::default().with_name(name("t")).with_partitions(wanted.iter().map(partition).collect());
    ListOffsetsRequest::default().with_topics(vec![topic])
}

/// (error, timestamp, offset, epoch) of one look-up in partition 0 of `t`.
pub fn list(topics: &Topics, timestamp: i64, version: i16) -> (i16, i64, i64, i32) {
    let response = topics.list_offsets(&list_request(&[(0, timestamp)]), version);
    let found = &response.topics[0].partitions[0];
    (found.error_code, found.timestamp, found.offset, found.leader_epoch)
}
