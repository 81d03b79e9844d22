//! Metadata.

use kafka_protocol::messages::{MetadataRequest, metadata_request::MetadataRequestTopic};
use rota_server::topics::{TopicSettings, Topics};
use uuid::Uuid;

use crate::support::{Counted, cluster, name, table, table_with, topic_of};

fn asked(names: &[&str]) -> MetadataRequest {
    let topic = |topic: &&str| MetadataRequestTopic::default().with_name(Some(name(topic)));
    MetadataRequest::default()
        .with_topics(Some(names.iter().map(topic).collect()))
        .with_allow_auto_topic_creation(false)
}

/// (error, name) of each topic.
fn answers(topics: &mut Topics, request: &MetadataRequest, version: i16) -> Vec<(i16, Option<String>)> {
    let response = topics.metadata(request, version, &cluster(), &mut Counted::default());
    response.topics.iter().map(|topic| (topic.error_code, topic.name.as_ref().map(|name| name.to_string()))).collect()
}

fn named(code: i16, name: &str) -> (i16, Option<String>) {
    (code, Some(name.to_owned()))
}

#[test]
fn all_topics_come_with_their_partitions_and_the_internal_one_is_marked() {
    let mut topics = table(3);
    let everything = MetadataRequest::default().with_topics(None);
    let response = topics.metadata(&everything, 12, &cluster(), &mut Counted::default());
    assert_eq!((response.brokers.len(), response.controller_id.0, response.cluster_id.as_deref()), (1, 1, Some("c")));
    let offsets = topic_of(&response, "__consumer_offsets").unwrap();
    assert!(offsets.is_internal);
    assert_eq!(offsets.partitions.len(), 50);
    let plain = topic_of(&response, "t").unwrap();
    assert!(!plain.is_internal);
    assert_eq!(Some(plain.topic_id), topics.topic_id("t"));
    let partitions: Vec<_> =
        plain.partitions.iter().map(|p| (p.partition_index, p.leader_id.0, p.leader_epoch, p.isr_nodes[0].0)).collect();
    assert_eq!(partitions, [(0, 1, 0, 1), (1, 1, 0, 1), (2, 1, 0, 1)]);
}

#[test]
fn no_topics_means_all_in_version_0_and_none_later() {
    let mut topics = table(1);
    assert_eq!(answers(&mut topics, &asked(&[]), 0).len(), 2);
    assert_eq!(answers(&mut topics, &asked(&[]), 1).len(), 0);
}

#[test]
fn unknown_and_invalid_names_have_their_errors_and_repeated_ones_one_answer() {
    let mut topics = table(1);
    let found = answers(&mut topics, &asked(&["t", "nope", "a b", "", "t", "nope"]), 9);
    assert_eq!(found, [named(0, "t"), named(3, "nope"), named(17, "a b"), named(17, "")]);
}

#[test]
fn a_topic_is_created_only_if_both_the_request_and_the_settings_allow_it() {
    let mut topics = table_with(TopicSettings { num_partitions: 4, ..TopicSettings::default() }, 1);
    assert_eq!(answers(&mut topics, &asked(&["new"]), 12), [named(3, "new")]);
    let allowed = asked(&["new", "b d"]).with_allow_auto_topic_creation(true);
    assert_eq!(answers(&mut topics, &allowed, 12), [named(0, "new"), named(17, "b d")]);
    assert_eq!(topics.partition_count("new"), Some(4));
    assert_eq!(answers(&mut topics, &asked(&["old"]), 3), [named(0, "old")], "before version 4 it is always allowed");
    let kafkas = asked(&["__transaction_state"]).with_allow_auto_topic_creation(true);
    assert_eq!(answers(&mut topics, &kafkas, 12), [named(17, "__transaction_state")]);
    let mut strict = table_with(TopicSettings { auto_create_topics: false, ..TopicSettings::default() }, 1);
    assert_eq!(answers(&mut strict, &asked(&["new"]).with_allow_auto_topic_creation(true), 12), [named(3, "new")]);
}

#[test]
fn all_topics_of_a_request_are_created_by_one_change() {
    let mut topics = table(1);
    let before = topics.version();
    let allowed = asked(&["a", "b", "t", "b d", "c", "a"]).with_allow_auto_topic_creation(true);
    let found = answers(&mut topics, &allowed, 12);
    assert_eq!(found, [named(0, "a"), named(0, "b"), named(0, "t"), named(17, "b d"), named(0, "c")]);
    assert_eq!(topics.version(), before + 1);
    answers(&mut topics, &allowed, 12);
    assert_eq!(topics.version(), before + 1);
}

#[test]
fn topics_are_found_by_id_from_version_12_on() {
    let mut topics = table(1);
    let by_id = |id| MetadataRequestTopic::default().with_topic_id(id).with_name(None);
    let known = topics.topic_id("t").unwrap();
    let request = MetadataRequest::default().with_topics(Some(vec![by_id(known), by_id(Uuid::from_u128(9))]));
    assert_eq!(answers(&mut topics, &request, 12), [named(0, "t"), (100, None)]);
    assert_eq!(answers(&mut topics, &request, 11), [named(42, ""), named(42, "")]);
    let nameless = MetadataRequest::default().with_topics(Some(vec![MetadataRequestTopic::default().with_name(None)]));
    assert_eq!(answers(&mut topics, &nameless, 12), [named(42, "")]);
}

#[test]
fn operations_are_listed_only_when_asked_for() {
    let mut topics = table(1);
    let request = asked(&["t"]);
    let plain = topics.metadata(&request, 8, &cluster(), &mut Counted::default());
    assert_eq!(plain.topics[0].topic_authorized_operations, i32::MIN);
    assert_eq!(plain.cluster_authorized_operations, i32::MIN);
    let request =
        request.with_include_topic_authorized_operations(true).with_include_cluster_authorized_operations(true);
    let listed = topics.metadata(&request, 8, &cluster(), &mut Counted::default());
    assert_eq!(listed.topics[0].topic_authorized_operations, 3_576);
    assert_eq!(listed.cluster_authorized_operations, 8_096);
}
