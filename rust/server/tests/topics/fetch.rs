//! Fetch: what is read, when waiting makes sense, and who is woken.

use std::{
    future::Future,
    pin::pin,
    sync::Arc,
    task::{Context, Poll, Waker},
};

use kafka_protocol::messages::{DeleteTopicsRequest, FetchRequest, fetch_request::FetchTopic};
use rota_core::error::ErrorCode;
use rota_log::batches;
use rota_server::topics::{Unread, settings::FETCH_BYTES_MAX};
use tokio::sync::Notify;
use uuid::Uuid;

use crate::support::{batch, fetch, fetch_request, name, produce, produce_to, table};

/// Takes the notification if there is one.
fn told(notify: &Notify) -> bool {
    pin!(notify.notified()).poll(&mut Context::from_waker(Waker::noop())) == Poll::Ready(())
}

fn bytes_of(topics: &rota_server::topics::Topics, request: &FetchRequest) -> Vec<usize> {
    let outcome = topics.fetch(request, 12);
    let bytes: Vec<usize> = outcome.response.responses[0]
        .partitions
        .iter()
        .map(|p| p.records.as_ref().map_or(0, bytes::Bytes::len))
        .collect();
    assert_eq!(outcome.bytes, bytes.iter().sum::<usize>());
    bytes
}

#[test]
fn records_come_back_as_whole_batches_with_their_offsets() {
    let mut topics = table(1);
    produce(&mut topics, batch(&[1, 2]));
    produce(&mut topics, batch(&[3]));
    let answer = fetch(&topics, &fetch_request(&[(0, 1)]));
    let offsets: Vec<i64> =
        batches(&answer.records.unwrap()).map(|batch| batch.unwrap().header().base_offset).collect();
    assert_eq!(offsets, [0, 2]);
    assert_eq!((answer.high_watermark, answer.last_stable_offset, answer.log_start_offset), (3, 3, 0));
    assert_eq!((answer.preferred_read_replica.0, answer.aborted_transactions), (-1, None));
}

#[test]
fn an_answer_holds_a_limited_number_of_bytes_whatever_is_asked_for() {
    let mut topics = table(1);
    let one = batch(&[1; 50].repeat(1_000));
    for _ in 0..=FETCH_BYTES_MAX / one.len() {
        assert_eq!(produce(&mut topics, one.clone()).error_code, 0);
    }
    let greedy = |bytes| {
        let mut request = fetch_request(&[(0, 0)]).with_max_bytes(bytes);
        request.topics[0].partitions[0].partition_max_bytes = bytes;
        bytes_of(&topics, &request)
    };
    assert_eq!(greedy(i32::MAX), [FETCH_BYTES_MAX / one.len() * one.len()]);
    assert_eq!(greedy(3 * one.len() as i32), [3 * one.len()]);
}

#[test]
fn read_committed_lists_no_aborted_transactions() {
    let answer = fetch(&table(1), &fetch_request(&[(0, 0)]).with_isolation_level(1));
    assert_eq!(answer.aborted_transactions, Some(vec![]));
}

#[test]
fn offsets_outside_of_the_log_are_out_of_range() {
    let mut topics = table(1);
    produce(&mut topics, batch(&[1]));
    for (offset, expected) in [(-1, 1), (0, 0), (1, 0), (2, 1), (i64::MAX, 1), (i64::MIN, 1)] {
        let answer = fetch(&topics, &fetch_request(&[(0, offset)]));
        assert_eq!(answer.error_code, expected, "{offset}");
        assert_eq!(answer.high_watermark, if expected == 0 { 1 } else { -1 });
        assert!(answer.records.is_some());
    }
}

#[test]
fn leader_epochs_are_compared() {
    for (epoch, expected) in [(-1, 0), (0, 0), (1, 75), (-2, 74)] {
        let mut request = fetch_request(&[(0, 0)]);
        request.topics[0].partitions[0].current_leader_epoch = epoch;
        assert_eq!(fetch(&table(1), &request).error_code, expected, "{epoch}");
    }
}

#[test]
fn bytes_are_shared_in_request_order_and_the_first_batch_always_comes() {
    let mut topics = table(3);
    for partition in [1, 2, 1] {
        produce_to(&mut topics, partition, batch(&[1]));
    }
    let one = batch(&[1]).len();
    let wanted = [(0, 0), (1, 0), (2, 0)];
    let limited = |max_bytes: usize| fetch_request(&wanted).with_max_bytes(max_bytes as i32);
    assert_eq!(bytes_of(&topics, &fetch_request(&wanted)), [0, 2 * one, one]);
    assert_eq!(bytes_of(&topics, &limited(0)), [0, one, 0]);
    assert_eq!(bytes_of(&topics, &limited(3 * one - 1)), [0, 2 * one, 0]);
    assert_eq!(bytes_of(&topics, &limited(2 * one - 1)), [0, one, 0]);
    let mut small = fetch_request(&wanted);
    for partition in &mut small.topics[0].partitions {
        partition.partition_max_bytes = 1;
    }
    assert_eq!(bytes_of(&topics, &small), [0, one, 0]);
    assert_eq!(bytes_of(&topics, &limited(0).with_max_bytes(i32::MIN)), [0, one, 0]);
}

#[test]
fn topics_are_found_by_id_from_version_13_on() {
    let topics = table(1);
    let mut request = fetch_request(&[(0, 0)]);
    request.topics[0].topic = name("");
    request.topics[0].topic_id = topics.topic_id("t").unwrap();
    assert_eq!(topics.fetch(&request, 13).response.responses[0].partitions[0].error_code, 0);
    assert_eq!(topics.fetch(&request, 12).response.responses[0].partitions[0].error_code, 3);
    request.topics[0].topic_id = Uuid::from_u128(9);
    assert_eq!(topics.fetch(&request, 13).response.responses[0].partitions[0].error_code, 100);
}

#[test]
fn there_are_no_sessions_to_continue() {
    let topics = table(1);
    for (id, epoch, expected) in [(0, -1, 0), (0, 0, 0), (5, -1, 0), (5, 0, 0), (5, 3, 70), (0, 1, 70)] {
        let request = fetch_request(&[(0, 0)]).with_session_id(id).with_session_epoch(epoch);
        let outcome = topics.fetch(&request, 12);
        assert_eq!((outcome.response.error_code, outcome.response.session_id), (expected, 0), "{id} {epoch}");
        assert_eq!(outcome.is_complete(&request), expected != 0);
    }
}

#[test]
fn waiting_makes_sense_while_there_is_too_little() {
    let mut topics = table(1);
    let one = batch(&[1]).len() as i32;
    let complete =
        |topics: &rota_server::topics::Topics, request: &FetchRequest| topics.fetch(request, 12).is_complete(request);
    let request = fetch_request(&[(0, 0)]);
    assert!(!complete(&topics, &request));
    assert!(complete(&topics, &request.clone().with_min_bytes(0)));
    assert!(complete(&topics, &request.clone().with_max_wait_ms(0)));
    assert!(complete(&topics, &fetch_request(&[])), "nothing to wait for");
    assert!(complete(&topics, &fetch_request(&[(9, 0)])), "only what does not exist");
    assert!(!complete(&topics, &fetch_request(&[(0, 0), (9, 0)])), "an unknown partition beside a known one waits");
    assert!(complete(&topics, &fetch_request(&[(0, 5)])), "out of range");
    produce(&mut topics, batch(&[1]));
    assert!(complete(&topics, &request));
    assert!(!complete(&topics, &request.clone().with_min_bytes(one + 1)));
    produce(&mut topics, batch(&[1]));
    assert!(complete(&topics, &request.with_min_bytes(one + 1)));
}

#[test]
fn what_a_limit_cuts_off_counts_as_data() {
    let mut topics = table(2);
    let one = batch(&[1; 50].repeat(300));
    let seventh = 7 * 50 * 300;
    for _ in 0..10 {
        produce(&mut topics, one.clone());
    }
    let limit = 3 * one.len() + 1;
    let limited = |min_bytes: usize, max_bytes: usize, wanted: &[(i32, i64)]| {
        let mut request = fetch_request(wanted).with_min_bytes(min_bytes as i32).with_max_bytes(max_bytes as i32);
        request.topics[0].partitions[0].partition_max_bytes = limit as i32;
        let outcome = topics.fetch(&request, 12);
        (outcome.bytes / one.len(), outcome.is_complete(&request))
    };
    assert_eq!(limited(limit, 1 << 20, &[(0, 0)]), (3, true));
    assert_eq!(limited(limit + 1, 1 << 20, &[(0, 0)]), (3, false));
    assert_eq!(limited(limit, 1 << 20, &[(0, seventh)]), (3, false), "that is all there is");
    assert_eq!(limited(2 * limit, limit, &[(0, 0)]), (3, true), "no answer has more than its limit");
    assert_eq!(limited(limit, limit, &[(0, seventh), (1, 0)]), (3, false));
}

#[test]
fn a_watch_is_told_of_its_own_partitions_until_it_ends() {
    let mut topics = table(3);
    let (here, there) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let watch = topics.watch(&fetch_request(&[(0, 0), (1, 0), (1, 0), (9, 0)]), 12, &here);
    topics.watch(&fetch_request(&[(2, 0)]), 12, &there);
    assert_eq!(topics.watching(), 2);
    for partition in [1, 1, 0] {
        produce_to(&mut topics, partition, batch(&[1]));
        assert_eq!((told(&here), told(&there)), (true, false));
    }
    topics.unwatch(watch);
    assert_eq!((topics.watching(), topics.is_watching(watch)), (1, false));
    produce_to(&mut topics, 0, batch(&[1]));
    assert!(!told(&here), "it has the answer");
    produce_to(&mut topics, 2, b"not a batch".as_slice());
    assert!(!told(&there), "nothing was stored");
    produce_to(&mut topics, 2, batch(&[1]));
    assert!(told(&there));
}

#[test]
fn partitions_keep_only_so_many_ids_of_watches_that_ended() {
    let mut topics = table(3);
    let notify = Arc::new(Notify::new());
    let request = fetch_request(&[(0, 0), (1, 0)]);
    topics.watch(&request, 12, &notify);
    for _ in 0..1_000 {
        let watch = topics.watch(&request, 12, &notify);
        topics.unwatch(watch);
        assert!(topics.held_watch_ids() <= 64, "{}", topics.held_watch_ids());
    }
    assert_eq!(topics.watched_partitions(), 2);
    produce_to(&mut topics, 1, batch(&[1]));
    assert!(told(&notify));
}

#[test]
fn a_partition_that_is_named_many_times_is_watched_once() {
    let mut topics = table(2);
    let notify = Arc::new(Notify::new());
    let named: Vec<(i32, i64)> = (0..3_000).map(|at| (i32::from(at >= 1_000), 0)).collect();
    let watch = topics.watch(&fetch_request(&named), 12, &notify);
    assert_eq!(topics.watched_partitions(), 2);
    topics.unwatch(watch);
    produce(&mut topics, batch(&[1]));
    assert_eq!((told(&notify), topics.watched_partitions()), (false, 0));
}

#[test]
fn what_a_fetch_says_last_of_a_partition_counts() {
    let mut topics = table(2);
    produce(&mut topics, batch(&[1]));
    produce(&mut topics, batch(&[2]));
    let mut request = fetch_request(&[(0, 0), (1, 0), (0, 1), (9, 0), (9, 1)]);
    let again = request.topics[0].clone();
    request.topics.push(again);
    let response = topics.fetch(&request, 12).response;
    assert_eq!(response.responses.len(), 1);
    let answers = &response.responses[0].partitions;
    assert_eq!(answers.iter().map(|answer| answer.partition_index).collect::<Vec<_>>(), [0, 1, 9]);
    let batches: Vec<_> = batches(answers[0].records.as_ref().unwrap()).map(Result::unwrap).collect();
    assert_eq!(batches.iter().map(|batch| batch.header().base_offset).collect::<Vec<_>>(), [1]);
}

#[test]
fn a_fetch_that_waits_keeps_each_partition_that_can_be_read_once() {
    let mut topics = table(2);
    produce(&mut topics, batch(&[1]));
    let mut request = fetch_request(&[(0, 0); 1_000]);
    request.topics[0].partitions.extend(fetch_request(&[(1, 0), (9, 0), (9, 1), (0, 1)]).topics.remove(0).partitions);
    let again = request.topics[0].clone();
    let mut unknown = fetch_request(&[(0, 0), (1, 0)]).topics.remove(0).with_topic(name("u"));
    let nothing = FetchTopic::default().with_topic(name("v"));
    unknown.partitions[0].unknown_tagged_fields.insert(1_000, bytes::Bytes::from_static(b"x"));
    request.topics[0].partitions[0].unknown_tagged_fields.insert(1_000, bytes::Bytes::from_static(b"x"));
    request.topics.extend([unknown, again, nothing]);
    let before = topics.fetch(&request, 12).response;
    let unread = topics.take_unread(&mut request, 12);
    assert_eq!(request.topics, fetch_request(&[(0, 1), (1, 0)]).topics);
    let mut after = topics.fetch(&request, 12).response;
    for unread in &unread {
        unread.add_to(&mut after);
    }
    assert_eq!(after, before);
    let [few, many] = [1, 1_000].map(|count| {
        let refused = fetch_request(&vec![(0, 0); count]).topics.remove(0);
        Unread::all(&refused, ErrorCode::TopicAuthorizationFailed).size_bytes()
    });
    assert!((999 * 6..999 * 9).contains(&(many - few)), "{few} {many}");
}

#[test]
fn a_watch_that_ended_is_not_told() {
    let mut topics = table(2);
    let notify = Arc::new(Notify::new());
    let watch = topics.watch(&fetch_request(&[(0, 0), (1, 0)]), 12, &notify);
    topics.unwatch(watch);
    topics.unwatch(watch);
    produce(&mut topics, batch(&[1]));
    assert_eq!((told(&notify), topics.watching()), (false, 0));
}

#[test]
fn deleting_a_topic_tells_who_waits_for_it() {
    let mut topics = table(2);
    let notify = Arc::new(Notify::new());
    let request = fetch_request(&[(0, 0), (1, 0)]);
    topics.watch(&request, 12, &notify);
    topics.delete_topics(&DeleteTopicsRequest::default().with_topic_names(vec![name("t")]), 3);
    assert_eq!((told(&notify), topics.watching()), (true, 0));
    assert!(topics.fetch(&request, 12).is_complete(&request));
}

#[test]
fn committed_offsets_read_as_empty() {
    let mut request = fetch_request(&[(0, 0)]);
    request.topics[0].topic = name("__consumer_offsets");
    let answer = fetch(&table(1), &request);
    assert_eq!((answer.error_code, answer.high_watermark), (0, 0));
}
