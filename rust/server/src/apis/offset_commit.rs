//! `OffsetCommit` (docs/protocol.md §10).

use rota_core::{
    error::ErrorCode,
    request::{CommitTopic, Request},
};
use rota_security::acl::{Operation, ResourceType};
use rota_wire::{
    answers,
    requests::{CommitTopicBody, OffsetCommitBody, TopicRef},
};

use super::{
    Handled,
    context::{Context, Outcome},
    unknown_topics::refuse_unknown,
};
use crate::client::reply::Beside;

/// Refuses topics and partitions that do not exist, and submits the others to the coordinator, if any.
pub fn handle(context: &mut Context<'_>) -> Outcome {
    let body = OffsetCommitBody::read(context.version(), context.body())?;
    if let Some(refused) = refuse_forbidden(context, &body) {
        return Ok(refused);
    }
    context.record_sender(Some(body.group_id), body.member_id());
    let access = context.access();
    let (refused, kept) = refuse_unknown(context.node.topics(), &access, &body.topics, &body.partitions);
    let topics: Vec<CommitTopic<'_>> =
        kept.iter().map(|kept| CommitTopic { name: &kept.0, topic_id: kept.1, partitions: &kept.2 }).collect();
    if topics.is_empty() {
        let version = context.version();
        return Ok(context.write(|out| answers::offset_commit(out, version, &refused, &[])));
    }
    let request = Request::OffsetCommit(body.request(&topics));
    Ok(context.submit(body.group_id, Beside::Refused(refused), request))
}

/// Refuses every partition if the client may not read the group.
fn refuse_forbidden(context: &mut Context<'_>, body: &OffsetCommitBody<'_>) -> Option<Handled> {
    if context.access().allows(Operation::Read, ResourceType::Group, body.group_id) {
        return None;
    }
    let partitions = |topic: &CommitTopicBody<'_>| body.partitions[topic.partitions.clone()].to_vec();
    let named = |topic: &CommitTopicBody<'_>| match topic.topic {
        TopicRef::Name(name) => (name.to_owned(), 0),
        TopicRef::Id(id) => (String::new(), id),
    };
    let topics: Vec<_> = body.topics.iter().map(|topic| (named(topic), partitions(topic))).collect();
    let topics: Vec<CommitTopic<'_>> = topics
        .iter()
        .map(|((name, topic_id), partitions)| CommitTopic { name, topic_id: *topic_id, partitions })
        .collect();
    let request = Request::OffsetCommit(body.request(&topics));
    Some(context.refuse(Beside::Nothing, &request, ErrorCode::GroupAuthorizationFailed))
}
