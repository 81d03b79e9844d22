//! What requests read from the disk and write to it.

use std::{
    path::Path,
    sync::{Arc, atomic::Ordering},
    thread,
};

use bytes::Bytes;
use kafka_protocol::{
    messages::{
        DeleteRecordsRequest, DeleteTopicsRequest, DescribeProducersRequest, FetchRequest, ListOffsetsRequest,
        OffsetForLeaderEpochRequest, ProduceRequest, TopicName,
        delete_records_request::{DeleteRecordsPartition, DeleteRecordsTopic},
        describe_producers_request::TopicRequest,
        fetch_request::{FetchPartition, FetchTopic},
        list_offsets_request::{ListOffsetsPartition, ListOffsetsTopic},
        offset_for_leader_epoch_request::{OffsetForLeaderPartition, OffsetForLeaderTopic},
        produce_request::{PartitionProduceData, TopicProduceData},
    },
    protocol::StrBytes,
};
use rota_core::error::ErrorCode;
use rota_log::{BatchWriter, LogError, batches, store::Durability};
use rota_txn::{Marker, TransactionVersion};

use super::{
    AppendToken, MarkerOutcome, TopicSettings, TopicTable, Topics, partition_data::Records, verify::Transaction,
};
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
    let config = DataConfig { files: Arc::new(files.clone()), ..DataConfig::at(dir.to_owned()) };
    open_with(&config, segment_bytes, TopicSettings::default())
}

fn open_with(config: &DataConfig, segment_bytes: &str, topic_settings: TopicSettings) -> Topics {
    let mut settings = Settings::default();
    settings.set("offsets.topic.segment.bytes", segment_bytes).unwrap();
    let data = DataDir::open(config, &mut settings, "c").unwrap();
    let mut random = RandomBits::default();
    let owners = Owners::new(4, 1);
    let table = TopicTable::in_data_dir(&data, topic_settings, owners, Vec::new(), &mut random).unwrap();
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
    let outcome = topics.produce(&produce_request(records), 9, 0);
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

/// A Produce of one batch to partition 0.
fn produce_request(records: Bytes) -> ProduceRequest {
    let data = PartitionProduceData::default().with_records(Some(records));
    let asked = TopicProduceData::default().with_name(name()).with_partition_data(vec![data]);
    ProduceRequest::default().with_acks(-1).with_topic_data(vec![asked])
}

/// The epoch and the end of a leader epoch of partition 0, with the error.
fn epoch_end(topics: &Topics, leader_epoch: i32) -> (i16, i32, i64) {
    let asked = OffsetForLeaderPartition::default().with_current_leader_epoch(-1).with_leader_epoch(leader_epoch);
    let asked = OffsetForLeaderTopic::default().with_topic(name()).with_partitions(vec![asked]);
    let response = topics.offset_for_leader_epoch(&OffsetForLeaderEpochRequest::default().with_topics(vec![asked]));
    let answer = &response.topics[0].partitions[0];
    (answer.error_code, answer.leader_epoch, answer.end_offset)
}

/// The error and the low watermark of a deletion below `offset` in partition 0.
fn delete_below(topics: &mut Topics, offset: i64) -> (i16, i64) {
    let asked = DeleteRecordsTopic::default()
        .with_name(name())
        .with_partitions(vec![DeleteRecordsPartition::default().with_offset(offset)]);
    let response = topics.delete_records(&DeleteRecordsRequest::default().with_topics(vec![asked]));
    let answer = &response.topics[0].partitions[0];
    (answer.error_code, answer.low_watermark)
}

#[test]
fn every_request_about_a_partition_that_the_start_refused_gets_an_error() {
    let dir = tempfile::tempdir().unwrap();
    let mut topics = open(dir.path(), &CountedFiles::default(), "104857600");
    for _ in 0..10 {
        produce(&mut topics, batch(0, 1_000));
    }
    drop(topics);
    let segment = dir.path().join("t-0/00000000000000000000.log");
    let file = std::fs::OpenOptions::new().write(true).open(segment).unwrap();
    file.set_len(file.metadata().unwrap().len() / 2).unwrap();
    let mut topics = open(dir.path(), &CountedFiles::default(), "104857600");
    let error = ErrorCode::KafkaStorageError.code();

    for current_leader_epoch in [-1, 0, 1] {
        let mut request = fetch_request(1, 1 << 20).with_max_wait_ms(500);
        request.topics[0].partitions[0].current_leader_epoch = current_leader_epoch;
        let outcome = topics.fetch(&request, 12);
        assert_eq!(outcome.response.responses[0].partitions[0].error_code, error, "{current_leader_epoch}");
        assert!(outcome.is_complete(&request), "it does not wait");
    }
    for timestamp_ms in [-1, -2, -3, 0] {
        let partition = ListOffsetsPartition::default().with_current_leader_epoch(-1).with_timestamp(timestamp_ms);
        let asked = ListOffsetsTopic::default().with_name(name()).with_partitions(vec![partition]);
        let response = topics.list_offsets(&ListOffsetsRequest::default().with_topics(vec![asked]), 7);
        assert_eq!(response.topics[0].partitions[0].error_code, error, "{timestamp_ms}");
    }
    assert_eq!([-1, 0, 1].map(|epoch| epoch_end(&topics, epoch)), [(error, -1, -1); 3]);
    assert_eq!([-1, 0, 5].map(|offset| delete_below(&mut topics, offset)), [(error, -1); 3]);
    let asked = TopicRequest::default().with_name(name()).with_partition_indexes(vec![0]);
    let described = topics.describe_producers(&DescribeProducersRequest::default().with_topics(vec![asked]));
    assert_eq!(described.topics[0].partitions[0].error_code, error);
    let outcome = topics.produce(&produce_request(batch(0, 1)), 9, 0);
    assert_eq!(outcome.response.responses[0].partition_responses[0].error_code, error);
    let transaction_version = TransactionVersion::V1;
    let marker =
        Marker { producer_id: 7, producer_epoch: 0, coordinator_epoch: 0, is_commit: true, transaction_version };
    let written = topics.write_marker("t", 0, &marker, 0);
    assert_eq!(written, MarkerOutcome::Ended(Err(ErrorCode::KafkaStorageError)));
    assert_eq!(topics.log_end("t", 0), None, "a lag would be wrong");
    assert_eq!(topics.read("t", 0, 0, 1), Err(ErrorCode::KafkaStorageError));
}

/// The error and the number of batches of a fetch of partition 0.
fn fetched(topics: &Topics, from: i64, leader_epoch: i32) -> (i16, usize) {
    let mut request = fetch_request(1, 1 << 20);
    (request.topics[0].partitions[0].fetch_offset, request.topics[0].partitions[0].current_leader_epoch) =
        (from, leader_epoch);
    let answer = topics.fetch(&request, 12).response.responses.remove(0).partitions.remove(0);
    (answer.error_code, batches(&answer.records.unwrap_or_default()).count())
}

#[test]
fn a_damaged_batch_is_an_error_for_those_who_read_it() {
    let dir = tempfile::tempdir().unwrap();
    let mut topics = open(dir.path(), &CountedFiles::default(), "104857600");
    for _ in 0..4 {
        produce(&mut topics, batch(0, 1_000));
    }
    let segment = dir.path().join("t-0/00000000000000000000.log");
    let mut bytes = std::fs::read(&segment).unwrap();
    let at = bytes.len() / 4 + 500;
    bytes[at] ^= 1;
    std::fs::write(&segment, bytes).unwrap();
    let damaged = (ErrorCode::KafkaStorageError.code(), 0);
    let read = |topics: &Topics| [0, 1, 2, 3, 4].map(|from| fetched(topics, from, -1));
    assert_eq!(read(&topics), [(0, 1), damaged, (0, 2), (0, 1), (0, 0)]);
    produce(&mut topics, batch(0, 1));
    assert_eq!((offset_at(&topics, -1), offset_at(&topics, -2), epoch_end(&topics, 0)), (5, 0, (0, 0, 5)));
    assert_eq!(fetched(&topics, 4, -1), (0, 1));
}

/// A copy of a directory with files and directories of files.
fn copied(dir: &Path) -> tempfile::TempDir {
    let copy = tempfile::tempdir().unwrap();
    for entry in std::fs::read_dir(dir).unwrap().map(Result::unwrap) {
        let to = copy.path().join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            std::fs::create_dir(&to).unwrap();
            for file in std::fs::read_dir(entry.path()).unwrap().map(Result::unwrap) {
                std::fs::copy(file.path(), to.join(file.file_name())).unwrap();
            }
        } else {
            std::fs::copy(entry.path(), to).unwrap();
        }
    }
    copy
}

#[test]
fn offsets_that_a_power_failure_took_are_given_again_under_a_later_leader_epoch() {
    let dir = tempfile::tempdir().unwrap();
    let config = |dir: &Path| DataConfig { durability: Durability::Os, ..DataConfig::at(dir.to_owned()) };
    let opened = |dir: &Path| open_with(&config(dir), "104857600", TopicSettings::default());
    let mut topics = opened(dir.path());
    for _ in 0..4 {
        produce(&mut topics, batch(0, 1_000));
    }
    let after = copied(dir.path());
    drop(topics);
    let segment = after.path().join("t-0/00000000000000000000.log");
    let file = std::fs::OpenOptions::new().write(true).open(segment).unwrap();
    file.set_len(file.metadata().unwrap().len() / 2).unwrap();
    let mut topics = opened(after.path());
    for _ in 0..4 {
        produce(&mut topics, batch(0, 1));
    }
    // A consumer that has read to offset 4 sees that its records of epoch 0 end before.
    let ends = |topics: &Topics| [0, 1, 2].map(|epoch| epoch_end(topics, epoch));
    assert_eq!(ends(&topics), [(0, 0, 2), (0, 1, 6), (0, -1, -1)]);
    let fenced = (ErrorCode::FencedLeaderEpoch.code(), 0);
    let unknown = (ErrorCode::UnknownLeaderEpoch.code(), 0);
    assert_eq!([0, 1, 2].map(|epoch| fetched(&topics, 5, epoch)), [fenced, (0, 1), unknown]);

    // The epoch is durable when the server has started: another failure at once takes it no more.
    drop(topics);
    let topics = opened(after.path());
    let again = copied(after.path());
    drop(topics);
    let topics = opened(again.path());
    assert_eq!(ends(&topics), [(0, 0, 2), (0, 1, 6), (0, 1, 6)]);
    assert_eq!(epoch_end(&topics, 3), (0, 3, 6));
    drop(topics);
    // Each start replaces an epoch without records.
    let epochs = std::fs::read_to_string(again.path().join("t-0/leader-epoch-checkpoint")).unwrap();
    assert_eq!(epochs, "0\n3\n0 0\n1 2\n3 6\n");
}

#[test]
fn a_directory_whose_records_are_synced_keeps_its_leader_epoch() {
    let dir = tempfile::tempdir().unwrap();
    let mut topics = open(dir.path(), &CountedFiles::default(), "104857600");
    produce(&mut topics, batch(0, 1));
    let killed = copied(dir.path());
    drop(topics);
    for dir in [dir.path(), killed.path()] {
        let topics = open(dir, &CountedFiles::default(), "104857600");
        assert_eq!(epoch_end(&topics, 0), (0, 0, 1));
    }
}

#[test]
fn records_expire_also_when_all_of_them_do() {
    let (dir, settings) = (tempfile::tempdir().unwrap(), TopicSettings::default());
    let settings = || TopicSettings { retention_ms: Some(1_000), ..settings.clone() };
    let config = DataConfig::at(dir.path().to_owned());
    let mut topics = open_with(&config, "104857600", settings());
    produce(&mut topics, batch(5, 1));
    produce(&mut topics, batch(90, 1));
    drop(topics);
    // After a start no times are known.
    let mut topics = open_with(&config, "104857600", settings());
    let ends = |topics: &Topics| (offset_at(topics, -2), offset_at(topics, -1));
    topics.owner.drop_expired(1_090);
    topics.owner.drop_expired(1_090);
    assert_eq!(ends(&topics), (0, 2));
    let until = std::time::Instant::now() + std::time::Duration::from_mins(1);
    while ends(&topics) != (2, 2) {
        assert!(std::time::Instant::now() < until, "{:?}", ends(&topics));
        topics.owner.drop_expired(1_091);
        thread::yield_now();
    }
    assert_eq!((fetched(&topics, 2, -1), fetched(&topics, 0, -1).0), ((0, 0), ErrorCode::OffsetOutOfRange.code()));
    produce(&mut topics, batch(2_000, 1));
    drop(topics);
    let topics = open_with(&config, "104857600", settings());
    assert_eq!(ends(&topics), (2, 3));
    let segments = std::fs::read_dir(dir.path().join("t-0")).unwrap().map(|entry| entry.unwrap().file_name());
    assert_eq!(segments.filter(|name| name.to_string_lossy().ends_with(".log")).count(), 1);
}
