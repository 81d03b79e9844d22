//! `CreateTopics`, `DeleteTopics`, `CreatePartitions` and `InitProducerId`. The codes are those of Kafka 4.4.

use kafka_protocol::{
    messages::{
        CreatePartitionsRequest, CreateTopicsRequest, DeleteTopicsRequest, InitProducerIdRequest, TransactionalId,
        create_partitions_request::{CreatePartitionsAssignment, CreatePartitionsTopic},
        create_topics_request::{CreatableReplicaAssignment, CreatableTopicConfig},
        delete_topics_request::DeleteTopicState,
    },
    protocol::StrBytes,
};
use uuid::Uuid;

use crate::support::{Counted, batch, creatable, create, name, produce, table};

fn assigned(replicas: &[&[i32]]) -> Vec<CreatableReplicaAssignment> {
    let assignment = |(index, brokers): (i32, &&[i32])| {
        CreatableReplicaAssignment::default()
            .with_partition_index(index)
            .with_broker_ids(brokers.iter().map(|id| (*id).into()).collect())
    };
    (0..).zip(replicas).map(assignment).collect()
}

fn config(key: &'static str, value: &'static str) -> Vec<CreatableTopicConfig> {
    vec![CreatableTopicConfig::default().with_name(key.into()).with_value(Some(value.into()))]
}

#[test]
fn a_created_topic_has_an_id_and_its_partitions() {
    let mut topics = table(1);
    let request = CreateTopicsRequest::default().with_topics(vec![creatable("a", 3), creatable("b", -1)]);
    let response = topics.create_topics(&request, &mut Counted::default());
    let created: Vec<_> =
        response.topics.iter().map(|t| (t.error_code, t.num_partitions, t.replication_factor)).collect();
    assert_eq!(created, [(0, 3, 1), (0, 1, 1)]);
    assert_eq!(topics.topic_id("a"), Some(response.topics[0].topic_id));
    assert_eq!(topics.topic_name(response.topics[0].topic_id), Some("a"));
    assert_eq!(
        (topics.partition_count("a"), topics.partition_count("b"), topics.partition_count("c")),
        (Some(3), Some(1), None)
    );
    assert_eq!(topics.names().collect::<Vec<_>>(), ["__consumer_offsets", "a", "b", "t"]);
    assert_ne!(response.topics[0].topic_id, response.topics[1].topic_id);
}

#[test]
fn a_topic_that_is_only_validated_does_not_exist() {
    let mut topics = table(1);
    let request = CreateTopicsRequest::default().with_topics(vec![creatable("a", 3)]).with_validate_only(true);
    let response = topics.create_topics(&request, &mut Counted::default());
    assert_eq!((response.topics[0].error_code, response.topics[0].num_partitions), (0, 3));
    assert_eq!(topics.partition_count("a"), None);
}

#[test]
fn what_cannot_be_created_is_refused_as_kafka_does() {
    let mut topics = table(1);
    let with = |assignments| creatable("a", -1).with_replication_factor(-1).with_assignments(assignments);
    let gap = vec![CreatableReplicaAssignment::default().with_partition_index(1).with_broker_ids(vec![1.into()])];
    for (expected, topic) in [
        (36, creatable("t", 1)),
        (36, creatable("__consumer_offsets", 1)),
        (17, creatable("__transaction_state", 51)),
        (17, creatable("__share_group_state", 1)),
        (17, creatable("__cluster_metadata", 1)),
        (17, creatable("", 1)),
        (17, creatable(".", 1)),
        (17, creatable("..", 1)),
        (17, creatable("a b", 1)),
        (17, creatable("ä", 1)),
        (17, creatable(&"a".repeat(250), 1)),
        (37, creatable("a", 0)),
        (37, creatable("a", -2)),
        (38, creatable("a", 1).with_replication_factor(0)),
        (38, creatable("a", 1).with_replication_factor(-2)),
        (38, creatable("a", 1).with_replication_factor(3)),
        (42, creatable("a", 1).with_assignments(assigned(&[&[1]]))),
        (39, with(assigned(&[&[77]]))),
        (39, with(assigned(&[&[]]))),
        (39, with(assigned(&[&[1], &[1, 1]]))),
        (39, with(gap)),
        (40, creatable("a", 1).with_configs(config("nope", "1"))),
        (40, creatable("a", 1).with_configs(config("max.message.bytes", "-1"))),
        (40, creatable("a", 1).with_configs(config("retention.bytes", "abc"))),
        (40, creatable("a", 1).with_configs(config("cleanup.policy", "compact,nonsense"))),
        (40, creatable("a", 1).with_configs(config("message.timestamp.type", "Never"))),
    ] {
        assert_eq!(create(&mut topics, topic.clone()), expected, "{topic:?}");
    }
    assert_eq!(topics.partition_count("a"), None);
    assert_eq!(create(&mut topics, with(assigned(&[&[1], &[1]]))), 0);
    assert_eq!(topics.partition_count("a"), Some(2));
    assert_eq!(create(&mut topics, creatable(&"a".repeat(249), 1)), 0);
}

#[test]
fn names_that_differ_in_dots_and_underscores_only_collide() {
    let mut topics = table(1);
    assert_eq!(create(&mut topics, creatable("a.b", 1)), 0);
    assert_eq!(create(&mut topics, creatable("a_b", 1)), 17);
    let deletion = topics.delete_topics(&DeleteTopicsRequest::default().with_topic_names(vec![name("a.b")]), 3);
    assert_eq!(deletion.deleted, ["a.b"]);
    assert_eq!(create(&mut topics, creatable("a_b", 1)), 0);
}

#[test]
fn a_topic_named_twice_in_one_request_is_refused_once() {
    let mut topics = table(1);
    let request =
        CreateTopicsRequest::default().with_topics(vec![creatable("a", 1), creatable("b", 1), creatable("a", 2)]);
    let response = topics.create_topics(&request, &mut Counted::default());
    let answers: Vec<_> = response.topics.iter().map(|topic| (topic.name.as_str(), topic.error_code)).collect();
    assert_eq!(answers, [("a", 42), ("b", 0)]);
}

#[test]
fn the_configuration_that_was_given_is_answered() {
    let mut topics = table(1);
    let topic = creatable("a", 1).with_configs(config("cleanup.policy", "compact"));
    let request = CreateTopicsRequest::default().with_topics(vec![topic]);
    let response = topics.create_topics(&request, &mut Counted::default());
    let configs = response.topics[0].configs.clone().unwrap();
    assert_eq!((configs[0].name.as_str(), configs[0].value.as_deref()), ("cleanup.policy", Some("compact")));
}

#[test]
fn topics_are_deleted_by_name_and_by_id() {
    let mut topics = table(1);
    create(&mut topics, creatable("u", 1));
    let id = topics.topic_id("u").unwrap();
    let by_name = DeleteTopicState::default().with_name(Some(name("t")));
    let by_id = DeleteTopicState::default().with_topic_id(id);
    let strange_id = DeleteTopicState::default().with_topic_id(Uuid::from_u128(5));
    let both = DeleteTopicState::default().with_name(Some(name("t"))).with_topic_id(id);
    let neither = DeleteTopicState::default();
    let deletion = topics
        .delete_topics(&DeleteTopicsRequest::default().with_topics(vec![by_name, by_id, strange_id, both, neither]), 6);
    let codes: Vec<i16> = deletion.response.responses.iter().map(|answer| answer.error_code).collect();
    assert_eq!(codes, [0, 0, 100, 42, 42]);
    assert_eq!(deletion.response.responses[1].name, Some(name("u")));
    assert_eq!(deletion.response.responses[2].name, None);
    assert_eq!(deletion.deleted, ["t", "u"]);
    assert_eq!(topics.names().collect::<Vec<_>>(), ["__consumer_offsets"]);
    assert_eq!(topics.topic_name(id), None);
}

#[test]
fn unknown_repeated_and_internal_topics_are_not_deleted() {
    let mut topics = table(1);
    let names = ["nope", "t", "t", "__consumer_offsets", "a b"].map(name).to_vec();
    let deletion = topics.delete_topics(&DeleteTopicsRequest::default().with_topic_names(names), 5);
    let codes: Vec<i16> = deletion.response.responses.iter().map(|answer| answer.error_code).collect();
    assert_eq!(codes, [3, 42, 42, 17, 3]);
    assert_eq!(deletion.deleted, [""; 0]);
    assert_eq!(topics.partition_count("__consumer_offsets"), Some(50));
}

#[test]
fn a_topic_made_again_is_empty_and_has_another_id() {
    let mut topics = table(1);
    produce(&mut topics, batch(&[1]));
    let old = topics.topic_id("t");
    topics.delete_topics(&DeleteTopicsRequest::default().with_topic_names(vec![name("t")]), 3);
    topics.create("t", 1, &mut Counted::default()).unwrap();
    assert_ne!(topics.topic_id("t"), old);
    assert_eq!(produce(&mut topics, batch(&[1])).base_offset, 0);
}

#[test]
fn partitions_are_added_and_old_ones_keep_their_records() {
    let mut topics = table(2);
    produce(&mut topics, batch(&[1, 2]));
    let grow = |count| CreatePartitionsTopic::default().with_name(name("t")).with_count(count).with_assignments(None);
    let request = CreatePartitionsRequest::default().with_topics(vec![grow(5)]);
    assert_eq!(topics.create_partitions(&request.clone().with_validate_only(true)).results[0].error_code, 0);
    assert_eq!(topics.partition_count("t"), Some(2));
    assert_eq!(topics.create_partitions(&request).results[0].error_code, 0);
    assert_eq!(topics.partition_count("t"), Some(5));
    assert_eq!(produce(&mut topics, batch(&[3])).base_offset, 2);
}

#[test]
fn what_cannot_grow_is_refused_as_kafka_does() {
    let mut topics = table(2);
    let grow = |topic: &str, count, assigned: Option<&[&[i32]]>| {
        let assignment = |brokers: &&[i32]| {
            CreatePartitionsAssignment::default().with_broker_ids(brokers.iter().map(|id| (*id).into()).collect())
        };
        let assigned = assigned.map(|assigned| assigned.iter().map(assignment).collect());
        CreatePartitionsTopic::default().with_name(name(topic)).with_count(count).with_assignments(assigned)
    };
    for (expected, topic) in [
        (37, grow("t", 2, None)),
        (37, grow("t", 1, None)),
        (37, grow("t", i32::MIN, None)),
        (3, grow("nope", 3, None)),
        (17, grow("__consumer_offsets", 51, None)),
        (39, grow("t", 3, Some(&[&[1], &[1]]))),
        (39, grow("t", 3, Some(&[]))),
        (39, grow("t", 3, Some(&[&[77]]))),
        (0, grow("t", 3, Some(&[&[1]]))),
    ] {
        let response = topics.create_partitions(&CreatePartitionsRequest::default().with_topics(vec![topic.clone()]));
        assert_eq!(response.results[0].error_code, expected, "{topic:?}");
    }
    let twice = CreatePartitionsRequest::default().with_topics(vec![grow("t", 4, None), grow("t", 5, None)]);
    let response = topics.create_partitions(&twice);
    assert_eq!((response.results.len(), response.results[0].error_code), (1, 42));
    assert_eq!(topics.partition_count("t"), Some(3));
}

#[test]
fn producer_ids_are_fresh_and_transactions_are_refused() {
    let mut topics = table(1);
    let request = InitProducerIdRequest::default()
        .with_transactional_id(None)
        .with_producer_id((-1).into())
        .with_producer_epoch(-1);
    let first = topics.init_producer_id(&request);
    let second = topics.init_producer_id(&request);
    assert_eq!((first.error_code, first.producer_epoch), (0, 0));
    assert_eq!(second.producer_id.0, first.producer_id.0 + 1);
    let transactional = |id: &'static str| {
        let id = TransactionalId(StrBytes::from_static_str(id));
        request.clone().with_transactional_id(Some(id))
    };
    assert_eq!(topics.init_producer_id(&transactional("x")).error_code, 53);
    let empty = topics.init_producer_id(&transactional(""));
    assert_eq!((empty.error_code, empty.producer_id.0, empty.producer_epoch), (42, -1, -1));
    assert_eq!(topics.init_producer_id(&request.clone().with_producer_epoch(3)).error_code, 42);
}
