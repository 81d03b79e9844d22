//! `OffsetForLeaderEpoch`.

use kafka_protocol::messages::{OffsetForLeaderEpochRequest, offset_for_leader_epoch_request::OffsetForLeaderTopic};
use rota_security::acl::Operation;

use super::context::{Context, Outcome};
use crate::topics::leader_epoch;

/// Answers from the topics of this node.
pub fn handle(context: &mut Context<'_>) -> Outcome {
    let mut request: OffsetForLeaderEpochRequest = context.decode()?;
    let asked = std::mem::take(&mut request.topics);
    let count = |topic: &OffsetForLeaderTopic| topic.partitions.len();
    let (allowed, refused) =
        context.access().split_topics(Operation::Describe, asked, |topic| (topic.topic.as_str(), count(topic)));
    request.topics = allowed;
    let mut response = context.node.topics().offset_for_leader_epoch(&request);
    response.topics.extend(refused.iter().map(leader_epoch::refused));
    Ok(context.answer(&response))
}
