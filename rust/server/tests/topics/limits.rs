//! Limits hold before anything is allocated, and bytes from anywhere do no harm.

use bytes::Bytes;
use kafka_protocol::messages::{
    CreateTopicsRequest, DeleteTopicsRequest, FetchRequest, ListOffsetsRequest, MetadataRequest, ProduceRequest,
    create_topics_request::CreatableReplicaAssignment,
};
use proptest::prelude::*;
use rota_server::topics::{
    TopicSettings,
    settings::{PARTITIONS_MAX, PARTITIONS_PER_TOPIC_MAX, PRODUCERS_PER_PARTITION_MAX},
};
use rota_wire::decode_body;

use crate::support::{Counted, NOW_MS, batch, batch_of, cluster, creatable, create, name, produce, table, table_with};

#[test]
fn partitions_are_limited_per_topic_and_in_all() {
    let mut topics = table(1);
    assert_eq!(create(&mut topics, creatable("huge", i32::MAX)), 37);
    assert_eq!(create(&mut topics, creatable("huge", PARTITIONS_PER_TOPIC_MAX + 1)), 37);
    let whole = (PARTITIONS_MAX - 51) / PARTITIONS_PER_TOPIC_MAX as usize;
    for at in 0..whole {
        assert_eq!(create(&mut topics, creatable(&format!("many-{at}"), PARTITIONS_PER_TOPIC_MAX)), 0);
    }
    let rest = (PARTITIONS_MAX - 51) % PARTITIONS_PER_TOPIC_MAX as usize;
    assert_eq!(create(&mut topics, creatable("rest", rest as i32 + 1)), 37);
    assert_eq!(create(&mut topics, creatable("rest", rest as i32)), 0);
    assert_eq!(create(&mut topics, creatable("one-more", 1)), 37);
    topics.delete_topics(&DeleteTopicsRequest::default().with_topic_names(vec![name("rest")]), 3);
    assert_eq!(create(&mut topics, creatable("one-more", 1)), 0, "what is deleted no longer counts");
}

#[test]
fn manual_assignments_are_under_the_same_limit() {
    let assignments = vec![CreatableReplicaAssignment::default(); PARTITIONS_PER_TOPIC_MAX as usize + 1];
    let topic = creatable("a", -1).with_replication_factor(-1).with_assignments(assignments);
    assert_eq!(create(&mut table(1), topic), 37);
}

#[test]
fn all_topics_together_hold_a_limited_number_of_bytes() {
    // What a small batch costs beside its bytes counts, too.
    let one = batch(&[1]).len() as u64 + 128;
    let mut topics = table_with(TopicSettings { log_bytes_max: 3 * one, ..TopicSettings::default() }, 1);
    let codes: Vec<i16> = (0..4).map(|_| produce(&mut topics, batch(&[1])).error_code).collect();
    assert_eq!(codes, [0, 0, 0, 56]);
    topics.delete_topics(&DeleteTopicsRequest::default().with_topic_names(vec![name("t")]), 3);
    topics.create("t", 1, &mut Counted::default()).unwrap();
    assert_eq!(produce(&mut topics, batch(&[1])).error_code, 0);
}

#[test]
fn the_producers_that_topics_in_memory_remember_count_as_their_bytes() {
    let one = batch(&[1]).len() as u64 + 128;
    let settings = TopicSettings { log_bytes_max: 3 * (one + 256), ..TopicSettings::default() };
    let mut topics = table_with(settings, 1);
    let codes = |topics: &mut _| -> Vec<i16> {
        (0..5).map(|id| produce(topics, batch_of(Some((id, 0, 0)), &[1])).error_code).collect()
    };
    assert_eq!(codes(&mut topics), [0, 0, 0, 56, 56]);
    topics.delete_topics(&DeleteTopicsRequest::default().with_topic_names(vec![name("t")]), 3);
    topics.create("t", 1, &mut Counted::default()).unwrap();
    assert_eq!(codes(&mut topics), [0, 0, 0, 56, 56], "what is deleted no longer counts");
}

#[test]
fn the_eighth_of_the_producers_that_was_silent_for_longest_is_forgotten() {
    let mut topics = table(1);
    let many = PRODUCERS_PER_PARTITION_MAX as i64;
    for id in 0..many {
        produce(&mut topics, batch_of(Some((id, 0, 0)), &[1]));
    }
    assert_eq!(produce(&mut topics, batch_of(Some((0, 0, 1)), &[1])).error_code, 0, "0 speaks again");
    assert_eq!(produce(&mut topics, batch_of(Some((many, 0, 0)), &[1])).error_code, 0, "one more");
    assert_eq!(produce(&mut topics, batch_of(Some((0, 0, 9)), &[1])).error_code, 45, "0 is remembered");
    let eighth = many / 8;
    for (id, code) in [(eighth + 1, 45), (many - 1, 45), (many, 45), (eighth, 0), (1, 0)] {
        assert_eq!(produce(&mut topics, batch_of(Some((id, 0, 9)), &[1])).error_code, code, "producer {id}");
    }
}

#[test]
fn an_id_that_is_taken_is_not_given_again() {
    let mut topics = table(1);
    let mut ids = vec![topics.topic_id("t").unwrap()];
    for at in 0..3 {
        ids.push(topics.create(&format!("same-{at}"), 1, &mut Counted::default()).unwrap());
    }
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), 4);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_records_are_stored_or_refused(mut bytes in prop::collection::vec(any::<u8>(), 0..150), lucky in any::<bool>()) {
        if bytes.len() > 61 && lucky {
            let length = (bytes.len() - 12) as i32;
            bytes[8..12].copy_from_slice(&length.to_be_bytes());
            bytes[16] = 2;
            bytes[21] = 0;
            let crc = crc32c::crc32c(&bytes[21..]);
            bytes[17..21].copy_from_slice(&crc.to_be_bytes());
        }
        produce(&mut table(1), bytes);
    }
}

#[test]
fn any_request_that_decodes_is_answered() {
    let mut state = 11_u64;
    let mut random = |below: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % below
    };
    let mut answered = [0_u32; 6];
    for _ in 0..100_000 {
        // Small numbers, most of them zeros: counts and lengths that the rest of the bytes can cover.
        let bytes: Vec<u8> = (0..random(200)).map(|_| [0, 0, 0, 0, 1, 2, b't', 0xff][random(8) as usize]).collect();
        let bytes = Bytes::from(bytes);
        let mut topics = table(1);
        if let Ok(request) = decode_body::<MetadataRequest>(3, 8, &bytes) {
            topics.metadata(&request, 8, &cluster(), &mut Counted::default());
            answered[0] += 1;
        }
        if let Ok(request) = decode_body::<CreateTopicsRequest>(19, 4, &bytes) {
            topics.create_topics(&request, &mut Counted::default());
            answered[1] += 1;
        }
        if let Ok(request) = decode_body::<DeleteTopicsRequest>(20, 3, &bytes) {
            topics.delete_topics(&request, 3);
            answered[2] += 1;
        }
        if let Ok(request) = decode_body::<ProduceRequest>(0, 8, &bytes) {
            topics.produce(&request, 8, NOW_MS);
            answered[3] += 1;
        }
        if let Ok(request) = decode_body::<FetchRequest>(1, 11, &bytes) {
            topics.fetch(&request, 11);
            answered[4] += 1;
        }
        if let Ok(request) = decode_body::<ListOffsetsRequest>(2, 5, &bytes) {
            topics.list_offsets(&request, 5);
            answered[5] += 1;
        }
    }
    assert!(answered.iter().all(|count| *count > 100), "too few got through: {answered:?}");
}
