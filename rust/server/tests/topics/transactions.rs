//! Transactions in a partition: who may write, what readers of committed records see, markers (docs/transactions.md §10).

use std::cell::Cell;

use bytes::Bytes;
use kafka_protocol::{
    messages::{DescribeProducersRequest, describe_producers_request::TopicRequest, fetch_response::PartitionData},
    protocol::StrBytes,
};
use rota_core::ErrorCode;
use rota_log::{Batch, BatchWriter, batches};
use rota_server::topics::{MarkerOutcome, Served, TopicSettings, Topics, Verify};
use rota_txn::{Marker, TransactionVersion, Verdict};

use super::support::*;

const NONE: i16 = 0;
const FENCED: i16 = 47;
const INVALID_TXN_STATE: i16 = 48;
const OUT_OF_ORDER: i16 = 45;
const A: i64 = 100;
const B: i64 = 101;
const READ_COMMITTED: i8 = 1;

/// One record of a transaction, or of an idempotent producer.
fn record(producer_id: i64, epoch: i16, sequence: i32, is_transactional: bool) -> Bytes {
    let mut writer = BatchWriter::default();
    writer.producer = Some((producer_id, epoch, sequence));
    writer.is_transactional = is_transactional;
    writer.push(NOW_MS, None, Some(b"value"));
    writer.finish()
}

fn first_protocol<'v>(verify: &'v Verify<'v>) -> Served<'v> {
    Served { verify, has_second_protocol: false, asks_others: false, not_added: None }
}

fn produce_as(topics: &mut Topics, verdict: Verdict, version: i16, records: Bytes) -> i16 {
    let id = StrBytes::from_static_str("pay");
    let request = produce_request("t", 0, records).with_transactional_id(Some(id.into()));
    let verify = |id: &str, _: i64, _: i16, topic: &str, partition: i32| {
        assert_eq!((id, topic, partition), ("pay", "t", 0));
        verdict
    };
    let outcome = topics.produce_verified(&request, version, Some(first_protocol(&verify)), NOW_MS);
    outcome.response.responses[0].partition_responses[0].error_code
}

/// Produces one verified record.
fn write(topics: &mut Topics, producer_id: i64, epoch: i16, sequence: i32) -> i16 {
    produce_as(topics, Verdict::Verified, 9, record(producer_id, epoch, sequence, true))
}

fn end_as(topics: &mut Topics, marker: Marker) -> Result<(), ErrorCode> {
    match topics.write_marker("t", 0, &marker, NOW_MS) {
        MarkerOutcome::Ended(result) => result,
        MarkerOutcome::InFlight(_) => panic!("in memory, nothing is in flight"),
    }
}

fn marker(producer_id: i64, producer_epoch: i16, is_commit: bool) -> Marker {
    let transaction_version = TransactionVersion::V1;
    Marker { producer_id, producer_epoch, coordinator_epoch: 3, is_commit, transaction_version }
}

fn end(topics: &mut Topics, producer_id: i64, is_commit: bool) {
    assert_eq!(end_as(topics, marker(producer_id, 0, is_commit)), Ok(()));
}

fn fetched(topics: &Topics, from: i64, isolation_level: i8) -> PartitionData {
    fetch(topics, &fetch_request(&[(0, from)]).with_isolation_level(isolation_level))
}

/// Offsets of the batches, the last stable offset, and the aborted transactions of a reader of committed records.
fn committed(topics: &Topics, from: i64) -> (Vec<i64>, i64, Vec<(i64, i64)>) {
    let answer = fetched(topics, from, READ_COMMITTED);
    assert_eq!(answer.error_code, NONE);
    let records = answer.records.unwrap();
    let offsets = batches(&records).map(|batch| batch.unwrap().header().base_offset).collect();
    let aborted = answer.aborted_transactions.unwrap();
    let aborted = aborted.iter().map(|aborted| (aborted.producer_id.0, aborted.first_offset)).collect();
    (offsets, answer.last_stable_offset, aborted)
}

fn latest(topics: &Topics, timestamp: i64) -> i64 {
    let request = list_request(&[(0, timestamp)]).with_isolation_level(READ_COMMITTED);
    topics.list_offsets(&request, 7).topics[0].partitions[0].offset
}

/// The session that was recorded from Kafka 4.4.0: offset 0 plain, 1 and 2 of A, 3 of B, 4 plain.
fn session() -> Topics {
    let mut topics = table(1);
    assert_eq!(produce(&mut topics, batch(&[NOW_MS])).error_code, NONE);
    for (producer, sequence) in [(A, 0), (A, 1), (B, 0)] {
        assert_eq!(write(&mut topics, producer, 0, sequence), NONE);
    }
    assert_eq!(produce(&mut topics, batch(&[NOW_MS + 5])).error_code, NONE);
    topics
}

#[test]
fn a_reader_of_committed_records_sees_what_kafka_shows() {
    let mut topics = session();
    assert_eq!(committed(&topics, 0), (vec![0], 1, vec![]));
    assert_eq!(committed(&topics, 3), (vec![], 1, vec![]), "above the last stable offset");
    let all = fetched(&topics, 0, 0);
    assert_eq!((all.high_watermark, all.last_stable_offset, all.aborted_transactions), (5, 1, None));
    assert_eq!((latest(&topics, -1), latest(&topics, -3), latest(&topics, NOW_MS + 1)), (1, -1, -1));
    end(&mut topics, A, false);
    assert_eq!(committed(&topics, 0), (vec![0, 1, 2], 3, vec![(A, 1)]));
    end(&mut topics, B, true);
    assert_eq!(committed(&topics, 0), (vec![0, 1, 2, 3, 4, 5, 6], 7, vec![(A, 1)]));
    assert_eq!(committed(&topics, 5), (vec![5, 6], 7, vec![(A, 1)]));
    assert_eq!(committed(&topics, 6), (vec![6], 7, vec![]));
    assert_eq!((latest(&topics, -1), latest(&topics, -3), latest(&topics, NOW_MS + 1)), (7, 4, 4));
    let records = fetched(&topics, 5, 0).records.unwrap();
    let (abort, _) = Batch::split(&records).unwrap();
    assert!(abort.header().is_control() && abort.header().leader_epoch == 0);
}

#[test]
fn a_batch_of_a_transaction_is_stored_only_if_the_coordinator_agrees() {
    let cases = [
        (Verdict::NotAdded, 9, INVALID_TXN_STATE),
        (Verdict::NotAdded, 10, INVALID_TXN_STATE),
        (Verdict::NotAdded, 11, 120),
        (Verdict::Concurrent, 11, 19),
        (Verdict::Loading, 9, 19),
        (Verdict::NotCoordinator, 9, 19),
        (Verdict::UnknownMapping, 9, 49),
        (Verdict::WrongEpoch, 9, FENCED),
        (Verdict::Verified, 12, 35),
        (Verdict::Verified, 11, NONE),
    ];
    let mut topics = table(1);
    for (verdict, version, expected) in cases {
        let answered = produce_as(&mut topics, verdict, version, record(A, 0, 0, true));
        assert_eq!(answered, expected, "{verdict:?} v{version}");
        assert_eq!(topics.log_end("t", 0), Some(i64::from(expected == NONE)));
    }
}

#[test]
fn the_coordinator_is_asked_once_for_a_transaction_and_again_for_the_next() {
    let mut topics = table(1);
    let asked = Cell::new(0);
    let request = |sequence| {
        let id = StrBytes::from_static_str("pay");
        produce_request("t", 0, record(A, 0, sequence, true)).with_transactional_id(Some(id.into()))
    };
    let verify = |_: &str, _: i64, _: i16, _: &str, _: i32| {
        asked.set(asked.get() + 1);
        Verdict::Verified
    };
    for (sequence, expected) in [(0, 1), (1, 1), (2, 1)] {
        assert!(!topics.produce_verified(&request(sequence), 9, Some(first_protocol(&verify)), NOW_MS).has_error);
        assert_eq!(asked.get(), expected);
    }
    end(&mut topics, A, true);
    assert!(
        !topics.produce_verified(&request(3), 9, Some(first_protocol(&verify)), NOW_MS).has_error,
        "sequences go on"
    );
    assert_eq!(asked.get(), 2);
}

#[test]
fn without_transactions_every_batch_of_one_is_refused_and_nothing_is_stored() {
    let mut topics = table(1);
    assert_eq!(produce(&mut topics, record(A, 0, 0, true)).error_code, 53);
    let verify = |_: &str, _: i64, _: i16, _: &str, _: i32| Verdict::Verified;
    let without_id = produce_request("t", 0, record(A, 0, 0, true));
    let outcome = topics.produce_verified(&without_id, 9, Some(first_protocol(&verify)), NOW_MS);
    assert_eq!(outcome.response.responses[0].partition_responses[0].error_code, 53);
    assert_eq!(topics.log_end("t", 0), Some(0));
}

#[test]
fn a_marker_fences_older_epochs_and_older_coordinators() {
    let mut topics = table(1);
    assert_eq!(end_as(&mut topics, marker(A, 0, true)), Ok(()), "of an unknown producer");
    assert_eq!(write(&mut topics, A, 0, 0), NONE);
    let older = Marker { coordinator_epoch: 2, ..marker(A, 0, true) };
    assert_eq!(end_as(&mut topics, older), Err(ErrorCode::TransactionCoordinatorFenced));
    assert_eq!(committed(&topics, 0).1, 1, "the transaction is open");
    assert_eq!(end_as(&mut topics, marker(A, 2, false)), Ok(()));
    assert_eq!(end_as(&mut topics, marker(A, 2, false)), Ok(()), "repeated");
    assert_eq!(end_as(&mut topics, marker(A, 1, false)), Err(ErrorCode::InvalidProducerEpoch));
    assert_eq!(write(&mut topics, A, 1, 0), FENCED);
    assert_eq!(write(&mut topics, A, 3, 0), NONE);
    assert_eq!(write(&mut topics, A, 2, 0), FENCED);
    assert_eq!(topics.log_end("t", 0), Some(5), "four markers or records before, and one more");
    let second = Marker { transaction_version: TransactionVersion::V2, ..marker(A, 3, true) };
    assert_eq!(end_as(&mut topics, second), Err(ErrorCode::InvalidProducerEpoch), "its epoch must be greater");
    assert_eq!(end_as(&mut topics, Marker { producer_epoch: 4, ..second }), Ok(()));
    assert_eq!(topics.write_marker("t", 7, &second, 0), MarkerOutcome::Ended(Err(ErrorCode::UnknownTopicOrPartition)));
    assert_eq!(topics.write_marker("u", 0, &second, 0), MarkerOutcome::Ended(Err(ErrorCode::UnknownTopicOrPartition)));
}

#[test]
fn sequences_repeat_and_go_on_within_and_after_a_transaction() {
    let mut topics = table(1);
    assert_eq!(write(&mut topics, A, 0, 0), NONE);
    assert_eq!(write(&mut topics, A, 0, 0), NONE, "the same batch again");
    assert_eq!(topics.log_end("t", 0), Some(1));
    assert_eq!(write(&mut topics, A, 0, 2), OUT_OF_ORDER);
    assert_eq!(produce(&mut topics, record(A, 0, 1, false)).error_code, INVALID_TXN_STATE, "a plain batch");
    end(&mut topics, A, true);
    assert_eq!(write(&mut topics, A, 0, 0), NONE, "the same batch again, after the end");
    assert_eq!((topics.log_end("t", 0), committed(&topics, 0).1), (Some(2), 2), "it does not begin a transaction");
    assert_eq!(produce(&mut topics, record(A, 0, 1, false)).error_code, NONE);
    assert_eq!(write(&mut topics, A, 1, 17), OUT_OF_ORDER, "a new epoch begins with 0");
    assert_eq!(write(&mut topics, A, 1, 0), NONE);
    assert_eq!(committed(&topics, 0).1, 3);
}

#[test]
fn the_limit_of_bytes_keeps_open_transactions_and_does_not_stop_markers() {
    let settings = TopicSettings { retention_bytes: Some(400), log_bytes_max: 3_000, ..TopicSettings::default() };
    let mut topics = table_with(settings, 1);
    assert_eq!(write(&mut topics, A, 0, 0), NONE);
    let mut stored = 0;
    while produce(&mut topics, batch(&[NOW_MS])).error_code == NONE {
        stored += 1;
    }
    assert!(stored > 5, "the open transaction keeps {stored} batches after it");
    assert_eq!(fetched(&topics, 0, 0).log_start_offset, 0);
    end(&mut topics, A, true);
    assert_eq!(committed(&topics, 0).1, stored + 2);
}

#[test]
fn producers_are_described_with_their_open_transaction() {
    let mut topics = session();
    end(&mut topics, A, true);
    let asked = TopicRequest::default().with_name(name("t")).with_partition_indexes(vec![0, 9, 0]);
    let answer = topics.describe_producers(&DescribeProducersRequest::default().with_topics(vec![asked]));
    let partitions = &answer.topics[0].partitions;
    assert_eq!(partitions.len(), 2, "what is named twice is answered once");
    assert_eq!((partitions[0].error_code, partitions[1].error_code), (NONE, 3));
    let shown: Vec<_> = partitions[0]
        .active_producers
        .iter()
        .map(|state| {
            let (last, coordinator) = (state.last_sequence, state.coordinator_epoch);
            (state.producer_id.0, state.producer_epoch, last, coordinator, state.current_txn_start_offset)
        })
        .collect();
    assert_eq!(shown, [(A, 0, 1, 3, -1), (B, 0, 0, -1, 3)]);
}
