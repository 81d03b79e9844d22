//! Every answer, with and without errors, can be written in every version.

use bytes::BytesMut;
use kafka_protocol::{
    messages::{
        CreatePartitionsRequest, CreateTopicsRequest, DeleteTopicsRequest, InitProducerIdRequest, MetadataRequest,
        TransactionalId, create_partitions_request::CreatePartitionsTopic, delete_topics_request::DeleteTopicState,
        metadata_request::MetadataRequestTopic,
    },
    protocol::Encodable,
};
use uuid::Uuid;

use crate::support::{
    Counted, NOW_MS, batch, cluster, creatable, fetch_request, list_request, name, produce, produce_request, table,
};

fn written(response: &impl Encodable, version: i16) {
    let mut out = BytesMut::new();
    response.encode(&mut out, version).unwrap_or_else(|error| panic!("version {version}: {error}"));
    assert_eq!(out.len(), response.compute_size(version).unwrap());
}

#[test]
fn metadata_in_versions_0_to_13() {
    for version in 0..=13 {
        let mut topics = table(2);
        let by_name = |topic: &str| MetadataRequestTopic::default().with_name(Some(name(topic)));
        let request = MetadataRequest::default()
            .with_topics(Some(vec![by_name("t"), by_name("a b"), by_name("new")]))
            .with_include_topic_authorized_operations(true)
            .with_include_cluster_authorized_operations(true);
        written(&topics.metadata(&request, version, &cluster(), &mut Counted::default()), version);
        if version >= 12 {
            let unknown = MetadataRequestTopic::default().with_topic_id(Uuid::from_u128(1)).with_name(None);
            let request = MetadataRequest::default().with_topics(Some(vec![unknown]));
            written(&topics.metadata(&request, version, &cluster(), &mut Counted::default()), version);
        }
    }
}

#[test]
fn create_topics_in_versions_2_to_7() {
    for version in 2..=7 {
        let request = CreateTopicsRequest::default().with_topics(vec![creatable("a", 1), creatable("t", 1)]);
        written(&table(1).create_topics(&request, &mut Counted::default()), version);
    }
}

#[test]
fn delete_topics_in_versions_1_to_6() {
    for version in 1..=6 {
        let by_id = DeleteTopicState::default().with_topic_id(Uuid::from_u128(7));
        let by_name = DeleteTopicState::default().with_name(Some(name("t")));
        let request = DeleteTopicsRequest::default()
            .with_topic_names(vec![name("t"), name("nope")])
            .with_topics(vec![by_id, by_name]);
        let deletion = table(1).delete_topics(&request, version);
        assert_eq!(deletion.deleted, ["t"]);
        written(&deletion.response, version);
    }
}

#[test]
fn create_partitions_in_versions_0_to_3() {
    for version in 0..=3 {
        let grow = |topic: &str| CreatePartitionsTopic::default().with_name(name(topic)).with_count(2);
        let request = CreatePartitionsRequest::default()
            .with_topics(vec![grow("t").with_assignments(None), grow("nope").with_assignments(None)]);
        written(&table(1).create_partitions(&request), version);
    }
}

#[test]
fn produce_in_versions_3_to_13() {
    for version in 3..=13 {
        let mut topics = table(1);
        let mut request = produce_request("t", 0, batch(&[1]));
        request.topic_data[0].topic_id = topics.topic_id("t").unwrap();
        let outcome = topics.produce(&request, version, NOW_MS);
        assert!(!outcome.has_error);
        written(&outcome.response, version);
        let outcome = topics.produce(&produce_request("t", 0, b"junk".as_slice()), version, NOW_MS);
        assert!(outcome.has_error);
        written(&outcome.response, version);
    }
}

#[test]
fn fetch_in_versions_4_to_18() {
    for version in 4..=18 {
        let mut topics = table(2);
        produce(&mut topics, batch(&[1]));
        let mut request = fetch_request(&[(0, 0), (1, 9), (7, 0)]);
        request.topics[0].topic_id = topics.topic_id("t").unwrap();
        let outcome = topics.fetch(&request, version);
        assert!(outcome.bytes > 0);
        written(&outcome.response, version);
        if version >= 7 {
            written(&topics.fetch(&request.with_session_epoch(4), version).response, version);
        }
    }
}

#[test]
fn list_offsets_in_versions_1_to_10() {
    for version in 1..=10 {
        written(&table(1).list_offsets(&list_request(&[(0, -1), (9, -1)]), version), version);
    }
}

#[test]
fn init_producer_id_in_versions_0_to_5() {
    for version in 0..=5 {
        let request = InitProducerIdRequest::default().with_transactional_id(None);
        written(&table(1).init_producer_id(&request), version);
        let request = request.with_transactional_id(Some(TransactionalId("x".into())));
        written(&table(1).init_producer_id(&request), version);
    }
}
