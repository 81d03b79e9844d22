//! `ListOffsets`.

use kafka_protocol::messages::{ListOffsetsRequest, list_offsets_request::ListOffsetsTopic};
use rota_security::acl::Operation;

use super::context::{Context, Outcome};
use crate::topics::{CONSUMER_OFFSETS, list_offsets};

/// Answers from the topics of this node.
pub fn handle(context: &mut Context<'_>) -> Outcome {
    let mut request: ListOffsetsRequest = context.decode()?;
    let version = context.version();
    let asked = std::mem::take(&mut request.topics);
    let count = |topic: &ListOffsetsTopic| topic.partitions.len();
    let (allowed, refused) =
        context.access().split_topics(Operation::Describe, asked, |topic| (topic.name.as_str(), count(topic)));
    request.topics = allowed;
    let is_offsets = |topic: &&ListOffsetsTopic| topic.name.as_str() == CONSUMER_OFFSETS;
    let partitions = request.topics.iter().filter(is_offsets).flat_map(|topic| &topic.partitions);
    let partitions = partitions.map(|partition| partition.partition_index).collect();
    context.node.follow_offsets(partitions);
    let mut response = context.node.topics().list_offsets(&request, version);
    response.topics.extend(refused.iter().map(list_offsets::refused));
    Ok(context.answer(&response))
}
