//! `ElectLeaders`: each partition has one replica, which leads it, so there is nothing to elect.

use kafka_protocol::{
    messages::{
        ElectLeadersRequest, ElectLeadersResponse, TopicName,
        elect_leaders_request::TopicPartitions,
        elect_leaders_response::{PartitionResult, ReplicaElectionResult},
    },
    protocol::StrBytes,
};
use rota_core::error::ErrorCode;
use rota_security::acl::Operation;
use rota_wire::WireError;

use super::{
    acls::NOT_ALLOWED,
    context::{Context, Outcome},
};
use crate::topics::{Topics, check_name, settings::PARTITIONS_MAX};

/// Kafka's error of a partition whose leader is the one that an election would choose.
const ELECTION_NOT_NEEDED: i16 = 84;
const UNKNOWN: i16 = ErrorCode::UnknownTopicOrPartition as i16;
/// The types of elections: of the preferred replica, and of any.
const ELECTION_TYPES: [i8; 2] = [0, 1];
/// The first version whose answer has an error of its own.
const ERROR_SINCE: i16 = 1;

/// An error with its message, which many partitions share.
type Answer = (i16, StrBytes);

/// Answers each partition that its leader stays, at any node.
pub fn handle(context: &mut Context<'_>) -> Outcome {
    let request: ElectLeadersRequest = context.decode()?;
    let asked = request.topic_partitions.as_deref().unwrap_or_default();
    if asked.iter().map(|topic| topic.partitions.len()).sum::<usize>() > PARTITIONS_MAX {
        return Err(WireError::TooManyElements { field: "partitions" });
    }
    let refused = refusal(context, request.election_type);
    let topics = context.node.topics();
    let response = match &refused {
        None if request.topic_partitions.is_none() => every_topic(topics),
        _ => each(asked, topics, refused.as_ref()),
    };
    // Before that version only the partitions have errors.
    let whole = refused.filter(|_| context.version() >= ERROR_SINCE).map_or(ErrorCode::None.code(), |(code, _)| code);
    Ok(context.answer(&response.with_error_code(whole)))
}

/// Why the whole request is refused.
fn refusal(context: &mut Context<'_>, election_type: i8) -> Option<Answer> {
    if !context.access().allows_on_cluster(Operation::Alter) {
        return Some((NOT_ALLOWED.0, StrBytes::from_static_str(NOT_ALLOWED.1)));
    }
    if !ELECTION_TYPES.contains(&election_type) {
        let message = format!("Unknown election type {election_type}");
        return Some((ErrorCode::InvalidRequest.code(), StrBytes::from_string(message)));
    }
    let unknown = context.node.topics().check_known().err()?;
    Some((unknown.code.code(), StrBytes::from_string(unknown.message)))
}

/// Answers partitions of a topic that has `count`; `None`: it does not exist. A name that cannot exist may be long, and is
/// left out of the message, which every partition has.
fn of_topic(name: &str, count: Option<i32>) -> Answer {
    match count {
        Some(_) => (ELECTION_NOT_NEEDED, StrBytes::from_static_str("Leader election not needed for topic partition.")),
        None if check_name(name).is_err() => (UNKNOWN, StrBytes::from_static_str("No such topic")),
        None => (UNKNOWN, StrBytes::from_string(format!("No such topic as {name}"))),
    }
}

/// As Kafka answers a request for all partitions: with those that needed an election, none.
fn every_topic(topics: &Topics) -> ElectLeadersResponse {
    let result =
        |name: &str| ReplicaElectionResult::default().with_topic(TopicName(StrBytes::from_string(name.to_owned())));
    ElectLeadersResponse::default().with_replica_election_results(topics.names().map(result).collect())
}

fn each(asked: &[TopicPartitions], topics: &Topics, refused: Option<&Answer>) -> ElectLeadersResponse {
    let results = asked.iter().map(|topic| {
        let (name, count) = (topic.topic.as_str(), topics.partition_count(&topic.topic));
        let every = refused.cloned().unwrap_or_else(|| of_topic(name, count));
        let partition = |index: &i32| {
            let is_missing = refused.is_none() && count.is_some_and(|count| !(0..count).contains(index));
            let missing = || (UNKNOWN, StrBytes::from_string(format!("No such partition as {name}-{index}")));
            let (code, message) = if is_missing { missing() } else { every.clone() };
            PartitionResult::default().with_partition_id(*index).with_error_code(code).with_error_message(Some(message))
        };
        ReplicaElectionResult::default()
            .with_topic(topic.topic.clone())
            .with_partition_result(topic.partitions.iter().map(partition).collect())
    });
    ElectLeadersResponse::default().with_replica_election_results(results.collect())
}
