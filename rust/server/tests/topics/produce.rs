//! Produce. The codes are those of Kafka 4.4.

use bytes::Bytes;
use kafka_protocol::messages::{TransactionalId, create_topics_request::CreatableTopicConfig};
use rota_server::topics::TopicSettings;
use uuid::Uuid;

use crate::support::{
    NOW_MS, batch, batch_of, creatable, create, fetch, fetch_request, keyed_batch, list, produce, produce_request,
    produce_to, table, table_with,
};

/// `bytes` changed at one place; the checksum made to fit if the change is behind it.
fn changed(bytes: &Bytes, at: usize, value: &[u8]) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    bytes[at..at + value.len()].copy_from_slice(value);
    if at > 20 {
        let crc = crc32c::crc32c(&bytes[21..]);
        bytes[17..21].copy_from_slice(&crc.to_be_bytes());
    }
    bytes
}

#[test]
fn records_get_the_next_offsets_of_their_partition() {
    let mut topics = table(2);
    assert_eq!(produce(&mut topics, batch(&[1, 2, 3])).base_offset, 0);
    let second = produce(&mut topics, batch(&[4]));
    assert_eq!((second.base_offset, second.log_append_time_ms, second.log_start_offset), (3, -1, 0));
    assert_eq!(produce_to(&mut topics, 1, batch(&[5])).base_offset, 0);
}

#[test]
fn of_a_partition_that_is_named_several_times_the_last_batch_is_stored() {
    let mut topics = table(2);
    let mut request = produce_request("t", 0, batch(&[1]));
    let others = [produce_request("t", 1, batch(&[2])), produce_request("t", 0, batch(&[3, 4]))];
    let others = others.map(|mut other| other.topic_data.remove(0).partition_data.remove(0));
    request.topic_data[0].partition_data.extend(others);
    let mut outcome = topics.produce(&request, 9, NOW_MS);
    let offsets = outcome.response.responses.remove(0).partition_responses;
    let offsets: Vec<_> = offsets.iter().map(|answer| (answer.index, answer.error_code, answer.base_offset)).collect();
    assert_eq!(offsets, [(1, 0, 0), (0, 0, 0)]);
    assert_eq!(list(&topics, -1, 9).2, 2);
    // The topic may be named several times, too.
    let again = produce_request("t", 0, batch(&[5]));
    request.topic_data.extend(again.topic_data);
    let outcome = topics.produce(&request, 9, NOW_MS);
    let named = outcome.response.responses.iter().map(|topic| &topic.partition_responses);
    let named: Vec<Vec<_>> = named.map(|all| all.iter().map(|one| (one.index, one.base_offset)).collect()).collect();
    assert_eq!(named, [vec![(1, 1)], vec![(0, 2)]]);
}

#[test]
fn what_cannot_be_stored_is_refused_as_kafka_does() {
    let good = batch(&[1]);
    let idempotent = batch_of(Some((1, 0, 0)), &[1]);
    let mut older_format = good.to_vec();
    older_format[16] = 1;
    let cases: Vec<(i16, &str, Vec<u8>)> = vec![
        (87, "nothing", vec![]),
        (87, "two batches", [&good[..], &good[..]].concat()),
        (87, "message format 1", older_format),
        (2, "message format 3", changed(&good, 16, &[3])),
        (2, "checksum", changed(&good, 17, &[1, 2, 3, 4])),
        (87, "half a header", good[..30].to_vec()),
        (87, "cut", good[..good.len() - 1].to_vec()),
        (2, "negative length", changed(&good, 8, &(-1_i32).to_be_bytes())),
        (10, "too large", batch(&vec![1; 100_000]).to_vec()),
        (53, "transactional", changed(&idempotent, 21, &[0, 16])),
        (87, "control", changed(&good, 21, &[0, 32])),
        (87, "no records", changed(&good, 57, &0_i32.to_be_bytes())),
        (87, "fewer records than offsets", changed(&good, 23, &5_i32.to_be_bytes())),
        (87, "base offset 5", changed(&good, 0, &5_i64.to_be_bytes())),
        (87, "bad record", changed(&good, 61, &[0xff; 8])),
        (76, "codec 7", changed(&good, 21, &[0, 7])),
        (87, "no sequence", changed(&idempotent, 53, &(-1_i32).to_be_bytes())),
        (87, "no epoch", changed(&idempotent, 51, &(-1_i16).to_be_bytes())),
    ];
    let mut topics = table(1);
    for (expected, what, bytes) in cases {
        let answer = produce(&mut topics, bytes);
        assert_eq!((answer.error_code, answer.base_offset), (expected, -1), "{what}: {:?}", answer.error_message);
        assert!(answer.error_message.is_some_and(|message| !message.is_empty()), "{what}");
    }
    assert_eq!(produce(&mut topics, good).base_offset, 0, "nothing of it was stored");
}

#[test]
fn a_piece_of_a_second_batch_is_ignored() {
    let mut topics = table(1);
    assert_eq!(produce(&mut topics, [&batch(&[1])[..], b"xyz"].concat()).error_code, 0);
    let read = fetch(&topics, &fetch_request(&[(0, 0)])).records.unwrap();
    assert_eq!(read.len(), batch(&[1]).len());
}

#[test]
fn topics_and_partitions_that_do_not_exist_are_not_created() {
    let mut topics = table(1);
    assert_eq!(produce_to(&mut topics, 1, batch(&[1])).error_code, 3);
    assert_eq!(produce_to(&mut topics, -1, batch(&[1])).error_code, 3);
    for (expected, topic) in [(3, "nope"), (17, "__consumer_offsets")] {
        let outcome = topics.produce(&produce_request(topic, 0, batch(&[1])), 9, NOW_MS);
        assert_eq!(outcome.response.responses[0].partition_responses[0].error_code, expected);
    }
    assert_eq!(topics.partition_count("nope"), None);
}

#[test]
fn topics_are_found_by_id_from_version_13_on() {
    let mut topics = table(1);
    let mut request = produce_request("", 0, batch(&[1]));
    request.topic_data[0].topic_id = topics.topic_id("t").unwrap();
    assert_eq!(topics.produce(&request, 13, NOW_MS).response.responses[0].partition_responses[0].error_code, 0);
    request.topic_data[0].topic_id = Uuid::from_u128(9);
    assert_eq!(topics.produce(&request, 13, NOW_MS).response.responses[0].partition_responses[0].error_code, 100);
}

#[test]
fn acks_are_minus_one_zero_or_one() {
    for (acks, expected) in [(-1, 0), (0, 0), (1, 0), (2, 21), (-2, 21)] {
        let outcome = table(1).produce(&produce_request("t", 0, batch(&[1])).with_acks(acks), 9, NOW_MS);
        assert_eq!(outcome.response.responses[0].partition_responses[0].error_code, expected, "{acks}");
        assert_eq!(outcome.has_error, expected != 0);
    }
}

#[test]
fn a_transactional_id_is_refused_at_once() {
    let request = produce_request("t", 0, batch(&[1])).with_transactional_id(Some(TransactionalId("x".into())));
    assert_eq!(table(1).produce(&request, 9, NOW_MS).response.responses[0].partition_responses[0].error_code, 53);
}

#[test]
fn zstd_needs_version_7() {
    let zstd = changed(&batch(&[1]), 21, &[0, 4]);
    for (version, expected) in [(6, 76), (7, 0)] {
        let outcome = table(1).produce(&produce_request("t", 0, zstd.clone()), version, NOW_MS);
        assert_eq!(outcome.response.responses[0].partition_responses[0].error_code, expected);
    }
}

#[test]
fn a_repeated_batch_is_answered_with_where_it_is() {
    let mut topics = table(1);
    let send = |topics: &mut _, epoch, sequence, count: usize| {
        let answer = produce(topics, batch_of(Some((7, epoch, sequence)), &vec![1; count]));
        (answer.error_code, answer.base_offset)
    };
    assert_eq!(send(&mut topics, 0, 3, 1), (0, 0), "an unknown producer may begin anywhere");
    assert_eq!(send(&mut topics, 0, 3, 1), (0, 0), "repeated");
    assert_eq!(send(&mut topics, 0, 4, 2), (0, 1));
    assert_eq!(send(&mut topics, 0, 7, 1), (45, -1), "a gap");
    assert_eq!(send(&mut topics, 0, 2, 1), (45, -1), "older than all that is known");
    assert_eq!(send(&mut topics, 0, 4, 1), (45, -1), "not the same batch");
    assert_eq!(send(&mut topics, 0, 3, 1), (0, 0), "still known");
    assert_eq!(send(&mut topics, 1, 5, 1), (45, -1), "a new epoch begins with 0");
    assert_eq!(send(&mut topics, 1, 0, 1), (0, 3));
    assert_eq!(send(&mut topics, 0, 6, 1), (47, -1), "the old epoch is over");
    assert_eq!(list(&topics, -1, 9).2, 4, "what was repeated or refused is not stored");
}

#[test]
fn five_batches_of_a_producer_are_remembered() {
    let mut topics = table(1);
    for sequence in 0..7 {
        produce(&mut topics, batch_of(Some((7, 0, sequence)), &[1]));
    }
    assert_eq!(produce(&mut topics, batch_of(Some((7, 0, 1)), &[1])).error_code, 45);
    for sequence in 2..7 {
        let answer = produce(&mut topics, batch_of(Some((7, 0, sequence)), &[1]));
        assert_eq!((answer.error_code, answer.base_offset), (0, i64::from(sequence)));
    }
}

#[test]
fn sequence_numbers_go_round() {
    let mut topics = table(1);
    assert_eq!(produce(&mut topics, batch_of(Some((7, 0, i32::MAX - 1)), &[1, 1])).error_code, 0);
    assert_eq!(produce(&mut topics, batch_of(Some((7, 0, 0)), &[1])).error_code, 0);
}

#[test]
fn producers_are_told_apart_and_so_are_partitions() {
    let mut topics = table(2);
    for (partition, producer) in [(0, 7), (0, 8), (1, 7)] {
        let answer = produce_to(&mut topics, partition, batch_of(Some((producer, 0, 0)), &[1]));
        assert_eq!(answer.error_code, 0);
    }
    assert_eq!(produce(&mut topics, batch_of(Some((8, 0, 1)), &[1])).base_offset, 2);
}

#[test]
fn a_topic_may_have_its_own_limit_and_timestamps() {
    let mut topics = table(1);
    let config = |key: &'static str, value: &'static str| {
        CreatableTopicConfig::default().with_name(key.into()).with_value(Some(value.into()))
    };
    let configs = vec![config("max.message.bytes", "80"), config("message.timestamp.type", "LogAppendTime")];
    assert_eq!(create(&mut topics, creatable("own", 1).with_configs(configs)), 0);
    let outcome = topics.produce(&produce_request("own", 0, batch(&[1, 2, 3])), 9, NOW_MS);
    assert_eq!(outcome.response.responses[0].partition_responses[0].error_code, 10);
    let outcome = topics.produce(&produce_request("own", 0, batch(&[1])), 9, NOW_MS);
    assert_eq!(outcome.response.responses[0].partition_responses[0].log_append_time_ms, NOW_MS);
}

#[test]
fn retention_by_bytes_moves_the_first_offset() {
    let settings = TopicSettings { retention_bytes: Some(1_000), ..TopicSettings::default() };
    let mut topics = table_with(settings, 1);
    let starts: Vec<i64> = (0..40).map(|at| produce(&mut topics, batch(&[at])).log_start_offset).collect();
    assert!(starts[39] > 20 && starts.is_sorted());
    assert_eq!(list(&topics, -2, 9).2, starts[39]);
    assert_eq!(fetch(&topics, &fetch_request(&[(0, 0)])).error_code, 1);
}

#[test]
fn a_topic_whose_policy_is_not_to_delete_keeps_every_message() {
    let settings = TopicSettings { retention_bytes: Some(1_000), ..TopicSettings::default() };
    for (policy, is_kept) in [("compact", true), ("", true), ("delete", false), ("compact, delete", false)] {
        let mut topics = table_with(settings.clone(), 1);
        let config = |name: &'static str, value: &'static str| {
            CreatableTopicConfig::default().with_name(name.into()).with_value(Some(value.into()))
        };
        let configs = vec![config("cleanup.policy", policy), config("retention.bytes", "500")];
        assert_eq!(create(&mut topics, creatable("kept", 1).with_configs(configs)), 0);
        let starts =
            (0..40).map(|_| topics.produce(&produce_request("kept", 0, keyed_batch(&[Some(b"key")])), 9, NOW_MS));
        let starts: Vec<i64> =
            starts.map(|outcome| outcome.response.responses[0].partition_responses[0].log_start_offset).collect();
        assert_eq!(starts[39] == 0, is_kept, "{policy}");
    }
}

#[test]
fn a_compacted_topic_names_the_records_without_keys() {
    let mut topics = table(1);
    let policy =
        CreatableTopicConfig::default().with_name("cleanup.policy".into()).with_value(Some("delete,compact".into()));
    assert_eq!(create(&mut topics, creatable("compacted", 1).with_configs(vec![policy])), 0);
    let mut answer = |keys: &[Option<&[u8]>]| {
        let outcome = topics.produce(&produce_request("compacted", 0, keyed_batch(keys)), 9, NOW_MS);
        outcome.response.responses[0].partition_responses[0].clone()
    };
    assert_eq!(answer(&[Some(b"k"), Some(b"")]).error_code, 0);
    let refused = answer(&[Some(b"k"), None, None]);
    assert_eq!((refused.error_code, refused.base_offset, refused.log_start_offset), (87, -1, 0));
    let named: Vec<i32> = refused.record_errors.iter().map(|error| error.batch_index).collect();
    assert_eq!(named, [1, 2]);
    assert_eq!(answer(&[Some(b"k")]).base_offset, 2, "nothing of the refused batch is stored");
}

#[test]
fn an_answer_without_records_has_none_that_lack_keys() {
    let mut topics = table(1);
    let policy = CreatableTopicConfig::default().with_name("cleanup.policy".into()).with_value(Some("compact".into()));
    assert_eq!(create(&mut topics, creatable("compacted", 1).with_configs(vec![policy])), 0);
    for (version, count) in [(7, 0), (8, 2)] {
        let outcome = topics.produce(&produce_request("compacted", 0, keyed_batch(&[None, None])), version, NOW_MS);
        let refused = &outcome.response.responses[0].partition_responses[0];
        assert_eq!((refused.error_code, refused.record_errors.len()), (87, count), "{version}");
    }
}
