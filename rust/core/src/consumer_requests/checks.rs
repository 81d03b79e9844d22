//! What is refused of a `ConsumerGroupHeartbeat` before any group is looked at, in the order of Kafka 4.4
//! (docs/consumer-protocol.md §3.2).

use crate::{
    consumer_group::config::{ASSIGNORS, ConsumerConfig},
    error::ErrorCode,
    request::ConsumerGroupHeartbeat,
};

/// The member leaves for good.
pub const LEAVE: i32 = -1;
/// A static member leaves and will be back.
pub const LEAVE_STATIC: i32 = -2;
/// The member joins.
pub const JOIN: i32 = 0;
/// A timeout that the request does not change.
const UNCHANGED: i32 = -1;

/// From this version on the client makes its member id.
const FIRST_VERSION_WITH_MEMBER_ID: i16 = 1;

/// An error code and the message beside it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The code.
    pub error: ErrorCode,
    /// What it says to people.
    pub message: Option<String>,
}

impl Refusal {
    /// A refusal with a message.
    pub fn new(error: ErrorCode, message: impl Into<String>) -> Refusal {
        Refusal { error, message: Some(message.into()) }
    }
}

impl From<ErrorCode> for Refusal {
    fn from(error: ErrorCode) -> Refusal {
        Refusal { error, message: None }
    }
}

fn is_blank(text: &str) -> bool {
    text.trim().is_empty()
}

/// The first check that the request fails.
pub fn check(config: &ConsumerConfig, request: &ConsumerGroupHeartbeat<'_>) -> Result<(), Refusal> {
    if !config.enabled {
        return Err(ErrorCode::UnsupportedVersion.into());
    }
    let joins = request.member_epoch == JOIN;
    let needs_member_id =
        request.version >= FIRST_VERSION_WITH_MEMBER_ID || request.member_epoch > JOIN || request.member_epoch == LEAVE;
    let has_subscription = request.subscribed_topic_names.is_some() || request.subscribed_topic_regex.is_some();
    let rules = [
        (needs_member_id && is_blank(request.member_id), "MemberId can't be empty."),
        (is_blank(request.group_id), "GroupId can't be empty."),
        (request.instance_id.is_some_and(is_blank), "InstanceId can't be empty."),
        (request.rack_id.is_some_and(is_blank), "RackId can't be empty."),
        (joins && request.rebalance_timeout_ms == UNCHANGED, "RebalanceTimeoutMs must be provided in first request."),
        (
            joins && !request.topic_partitions.is_some_and(<[_]>::is_empty),
            "TopicPartitions must be empty when (re-)joining.",
        ),
        (
            joins && !has_subscription,
            "Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when (re-)joining.",
        ),
        (request.member_epoch == LEAVE_STATIC && request.instance_id.is_none(), "InstanceId can't be null."),
        (request.member_epoch < LEAVE_STATIC, "MemberEpoch is invalid."),
    ];
    if let Some((_, message)) = rules.into_iter().find(|(broken, _)| *broken) {
        return Err(Refusal::new(ErrorCode::InvalidRequest, message));
    }
    if let Some(assignor) = request.server_assignor.filter(|assignor| !ASSIGNORS.contains(assignor)) {
        let supported = ASSIGNORS.join(", ");
        let message = format!("ServerAssignor {assignor} is not supported. Supported assignors: {supported}.");
        return Err(Refusal::new(ErrorCode::UnsupportedAssignor, message));
    }
    Ok(())
}

/// Whether the request says everything that a member can say: its answer then has the assignment.
pub fn is_full(request: &ConsumerGroupHeartbeat<'_>) -> bool {
    let subscribes = request.subscribed_topic_names.is_some() || request.subscribed_topic_regex.is_some();
    request.member_epoch == JOIN
        || request.rebalance_timeout_ms != UNCHANGED && request.topic_partitions.is_some() && subscribes
}
