//! What requests read from the disk and write to it.

use std::{
    path::Path,
    sync::{Arc, atomic::Ordering},
    thread,
};

use bytes::Bytes;
use kafka_protocol::{
    messages::{
        DeleteTopicsRequest, FetchRequest, ListOffsetsRequest, ProduceRequest, TopicName,
        fetch_request::{FetchPartition, FetchTopic},
        list_offsets_request::{ListOffsetsPartition, ListOffsetsTopic},
        produce_request::{PartitionProduceData, TopicProduceData},
    },
    protocol::StrBytes,
};
use rota_log::{BatchWriter, LogError};

use super::{AppendToken, TopicSettings, TopicTable, Topics, partition_data::Records, verify::Transaction};
use crate::{
    base::{
        counted_files::{Action, CountedFiles},
        entropy::RandomBits,
        owners::{FIRST_NODE, Owners},
        settings::Settings,
    },
    log::data_dir::{DataConfig, DataDir},
};

const BATCH_BYTES: usize = 300 << 10;

fn name() -> TopicName {
    TopicName(StrBytes::from_static_str("t"))
}

/// The topics of a data directory, with topic `t` of one partition.
fn open(dir: &Path, files: &CountedFiles, segment_bytes: &str) -> Topics {
    let mut settings = Settings::default();
    settings.set("offsets.topic.segment.bytes", segment_bytes).unwrap();
    let config = DataConfig { files: Arc::new(files.clone()), ..DataConfig::at(dir.to_owned()) };
    let data = DataDir::open(&config, &mut settings, "c").unwrap();
    let mut random = RandomBits::default();
    let owners = Owners::new(4, 1);
    let table = TopicTable::in_data_dir(&data, TopicSettings::default(), owners, Vec::new(), &mut random).unwrap();
    let mut topics = Topics::of_node(table, FIRST_NODE);
    if topics.partition_count("t").is_none() {
        topics.create("t", 1, &mut random).unwrap();
    }
    topics
}

/// A batch of one record with a value of so many bytes.
fn batch(timestamp_ms: i64, value_bytes: usize) -> Bytes {
    let mut writer = BatchWriter::default();
    writer.push(timestamp_ms, None, Some(&vec![7; value_bytes]));
    writer.finish()
}

/// Produces a batch to partition 0, and waits until it is durable.
fn produce(topics: &mut Topics, records: Bytes) {
    let tokens = begin(topics, records);
    let outcomes = ended(topics, tokens.len());
    assert!(outcomes.iter().all(Result::is_ok), "{outcomes:?}");
}

/// Begins to produce a batch to partition 0. Returns what is in flight.
fn begin(topics: &mut Topics, records: Bytes) -> Vec<AppendToken> {
    let data = PartitionProduceData::default().with_records(Some(records));
    let asked = TopicProduceData::default().with_name(name()).with_partition_data(vec![data]);
    let outcome = topics.produce(&ProduceRequest::default().with_acks(-1).with_topic_data(vec![asked]), 9, 0);
    let answer = &outcome.response.responses[0].partition_responses[0];
    assert_eq!((answer.error_code, &answer.error_message), (0, &None));
    outcome.waiting.into_keys().collect()
}

/// Waits for the outcomes of so many batches.
fn ended(topics: &mut Topics, count: usize) -> Vec<Result<i64, LogError>> {
    let mut outcomes = Vec::new();
    while outcomes.len() < count {
        outcomes.extend(topics.produced().into_iter().map(|(_, outcome)| outcome));
        thread::yield_now();
    }
    outcomes
}

/// Fetches partition 0 so many times, with one limit for the partition and the answer.
fn fetch_request(times: usize, max_bytes: i32) -> FetchRequest {
    let partition = FetchPartition::default().with_current_leader_epoch(-1).with_partition_max_bytes(max_bytes);
    let topic = FetchTopic::default().with_topic(name()).with_partitions(vec![partition; times]);
    FetchRequest::default()
        .with_max_wait_ms(500)
        .with_min_bytes(1)
        .with_max_bytes(max_bytes)
        .with_session_epoch(-1)
        .with_topics(vec![topic])
}

#[test]
fn a_fetch_is_complete_when_its_limit_cuts_a_batch_off() {
    let dir = tempfile::tempdir().unwrap();
    let mut topics = open(dir.path(), &CountedFiles::default(), "104857600");
    for _ in 0..10 {
        produce(&mut topics, batch(0, BATCH_BYTES));
    }
    let request = fetch_request(1, 1 << 20).with_min_bytes(1 << 20);
    let outcome = topics.fetch(&request, 12);
    assert!(outcome.bytes < 1 << 20 && outcome.is_complete(&request), "{}", outcome.bytes);
    let at_the_end = |offset| {
        let mut request = request.clone();
        request.topics[0].partitions[0].fetch_offset = offset;
        topics.fetch(&request, 12).is_complete(&request)
    };
    assert!(!at_the_end(8), "two batches are all there is");
}

#[test]
fn a_fetch_is_complete_at_the_end_of_a_segment() {
    let dir = tempfile::tempdir().unwrap();
    let mut topics = open(dir.path(), &CountedFiles::default(), "4096");
    for _ in 0..3 {
        produce(&mut topics, batch(0, 3_000));
    }
    let request = fetch_request(1, 1 << 20).with_min_bytes(8_000);
    let outcome = topics.fetch(&request, 12);
    assert!(outcome.bytes < 4_096 && outcome.is_complete(&request), "{}", outcome.bytes);
}

#[test]
fn a_partition_that_is_named_many_times_is_read_and_answered_once() {
    let (dir, files) = (tempfile::tempdir().unwrap(), CountedFiles::default());
    let mut topics = open(dir.path(), &files, "104857600");
    produce(&mut topics, batch(0, BATCH_BYTES));
    files.restart();
    let outcome = topics.fetch(&fetch_request(1_000, 1), 12);
    let answers = &outcome.response.responses[0].partitions;
    assert_eq!((answers.len(), outcome.bytes / BATCH_BYTES), (1, 1));
    let read_bytes: usize = files.sizes(Action::Read, ".log").iter().sum();
    assert!(read_bytes < 2 * BATCH_BYTES, "{read_bytes}");
}

#[test]
fn a_batch_that_does_not_fit_is_not_read() {
    let (dir, files) = (tempfile::tempdir().unwrap(), CountedFiles::default());
    let mut topics = open(dir.path(), &files, "104857600");
    produce(&mut topics, batch(0, BATCH_BYTES));
    let (partition, _) = topics.partition(topics.topic("t").unwrap(), 0).unwrap();
    for (max_bytes, reads) in [(0, 0), (60, 0), (61, 1), (BATCH_BYTES, 1)] {
        files.restart();
        let slice = partition.log.read(0, max_bytes, false).unwrap();
        assert_eq!((slice.bytes.len(), slice.next_offset), (0, 0));
        let sizes = files.sizes(Action::Read, ".log");
        assert_eq!(sizes, vec![61; reads], "{max_bytes}");
    }
    assert!(partition.log.read(0, 2 * BATCH_BYTES, false).unwrap().bytes.len() > BATCH_BYTES);
}

/// The offset of partition 0 at a time.
fn offset_at(topics: &Topics, timestamp_ms: i64) -> i64 {
    let partition = ListOffsetsPartition::default().with_current_leader_epoch(-1).with_timestamp(timestamp_ms);
    let asked = ListOffsetsTopic::default().with_name(name()).with_partitions(vec![partition]);
    let response = topics.list_offsets(&ListOffsetsRequest::default().with_topics(vec![asked]), 7);
    response.topics[0].partitions[0].offset
}

#[test]
fn finished_segments_of_a_running_server_are_not_read_for_their_times() {
    const MAX_TIMESTAMP: i64 = -3;
    let (dir, files) = (tempfile::tempdir().unwrap(), CountedFiles::default());
    let mut topics = open(dir.path(), &files, "4096");
    // Segments with one batch each.
    for timestamp_ms in [5, 90, 7, 8] {
        produce(&mut topics, batch(timestamp_ms, 3_000));
    }
    for (timestamp_ms, offset, segments) in [(8, 1, 1), (91, -1, 1), (MAX_TIMESTAMP, 1, 2)] {
        files.restart();
        assert_eq!(offset_at(&topics, timestamp_ms), offset, "{timestamp_ms}");
        // The newest one is read if nothing is found before.
        assert_eq!(files.sizes(Action::Read, ".log").len(), segments, "{timestamp_ms}");
    }
}

#[test]
fn a_look_up_by_time_reads_no_more_than_it_may() {
    let (dir, files) = (tempfile::tempdir().unwrap(), CountedFiles::default());
    let mut topics = open(dir.path(), &files, "4096");
    for timestamp_ms in [5, 6, 7, 90] {
        produce(&mut topics, batch(timestamp_ms, 3_000));
    }
    drop(topics);
    // After a start no times are known.
    let topics = open(dir.path(), &files, "4096");
    let (partition, _) = topics.partition(topics.topic("t").unwrap(), 0).unwrap();
    let one = partition.log.read(0, 1, true).unwrap().bytes.len();
    files.restart();
    let sought = |bytes_left: usize| {
        let mut left = bytes_left;
        let found = partition.log.offset_for_timestamp(90, &mut left).unwrap();
        (found.map(|found| found.offset), left)
    };
    assert_eq!(sought(0), (Some(0), 0));
    assert_eq!(files.sizes(Action::Read, ".log"), [61]);
    assert_eq!(sought(2 * one), (Some(2), 0), "the first batch that may not be read");
    assert_eq!(sought(0), (Some(2), 0), "what was read is known");
    assert_eq!(sought(usize::MAX).0, Some(3));
    let newest = |bytes_left: usize| {
        let found = partition.log.offset_of_max_timestamp(&mut { bytes_left }).unwrap();
        found.map(|found| (found.offset, found.timestamp_ms))
    };
    assert_eq!((newest(one), newest(usize::MAX)), (Some((3, 90)), Some((3, 90))));
}

#[test]
fn the_partitions_that_a_request_begins_are_created_together() {
    let (dir, files) = (tempfile::tempdir().unwrap(), CountedFiles::default());
    let mut topics = open(dir.path(), &files, "104857600");
    topics.create("u", 100, &mut RandomBits::default()).unwrap();
    let data = |index| PartitionProduceData::default().with_index(index).with_records(Some(batch(0, 1)));
    let refused = PartitionProduceData::default().with_index(0).with_records(Some(Bytes::from_static(b"no batch")));
    let asked = |name: &'static str, data| {
        TopicProduceData::default().with_name(TopicName(StrBytes::from_static_str(name))).with_partition_data(data)
    };
    let topic_data = vec![asked("t", vec![refused]), asked("u", (0..101).map(data).collect())];
    let request = ProduceRequest::default().with_acks(-1).with_topic_data(topic_data);
    files.restart();
    let transaction = Transaction { version: 9, transactional_id: None, served: None };
    topics.create_all_on_disk(&request, transaction);
    assert!(files.sizes(Action::Sync, "rota.wal").len() <= 3);
    let on_disk = |name: &str| {
        let partitions = 0..topics.partition_count(name).unwrap();
        partitions
            .filter(|index| {
                matches!(topics.partition(topics.topic(name).unwrap(), *index).unwrap().0.log, Records::Disk(_))
            })
            .count()
    };
    assert_eq!((on_disk("t"), on_disk("u")), (0, 100));
    let waiting = topics.produce(&request, 9, 0).waiting.len();
    assert_eq!(waiting, 100);
}

#[test]
fn a_batch_queued_behind_one_that_a_full_disk_refused_is_refused_too_and_later_ones_are_stored() {
    let (dir, files) = (tempfile::tempdir().unwrap(), CountedFiles::default());
    let mut topics = open(dir.path(), &files, "104857600");
    produce(&mut topics, batch(0, 1));

    let held = files.writing.lock().unwrap();
    files.restart();
    files.full.store(1, Ordering::SeqCst);
    begin(&mut topics, batch(0, BATCH_BYTES));
    // The next batch is in another pass.
    while files.sizes(Action::Write, "t-0").is_empty() {
        thread::yield_now();
    }
    begin(&mut topics, batch(0, 1));
    drop(held);
    let outcomes = ended(&mut topics, 2);
    assert!(outcomes.iter().all(|outcome| matches!(outcome, Err(LogError::Storage { .. }))), "{outcomes:?}");
    assert_eq!(topics.log_end("t", 0), Some(1));
    begin(&mut topics, batch(0, 1));
    assert_eq!(ended(&mut topics, 1), [Ok(1)]);
}

#[test]
fn the_topics_that_a_request_deletes_are_deleted_together() {
    const TOPICS: usize = 30;
    let (dir, files) = (tempfile::tempdir().unwrap(), CountedFiles::default());
    let mut topics = open(dir.path(), &files, "104857600");
    let names: Vec<TopicName> = (0..TOPICS).map(|at| TopicName(StrBytes::from_string(format!("u{at}")))).collect();
    for name in &names {
        topics.create(name, 2, &mut RandomBits::default()).unwrap();
    }
    let data = |index| PartitionProduceData::default().with_index(index).with_records(Some(batch(0, 1)));
    let asked = |name: &TopicName| {
        TopicProduceData::default().with_name(name.clone()).with_partition_data(vec![data(0), data(1)])
    };
    let topic_data = names.iter().map(asked).collect();
    topics.produce(&ProduceRequest::default().with_acks(-1).with_topic_data(topic_data), 9, 0);
    assert!(ended(&mut topics, 2 * TOPICS).iter().all(Result::is_ok));
    assert!(dir.path().join("u7-1").exists());
    files.restart();
    let deletion = topics.delete_topics(&DeleteTopicsRequest::default().with_topic_names(names), 3);
    assert!(deletion.response.responses.iter().all(|answer| answer.error_code == 0));
    assert_eq!(files.sizes(Action::Sync, "rota.wal").len(), 1);
    assert!(!dir.path().join("u7-1").exists());
    assert!(topics.owner.disk.as_ref().unwrap().all().is_empty());
}
