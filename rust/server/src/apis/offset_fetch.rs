//! `OffsetFetch` (docs/protocol.md §11).

use std::rc::Rc;

use rota_core::{
    error::ErrorCode,
    request::{FetchTopic, Request},
};
use rota_security::acl::{Operation, ResourceType};
use rota_wire::{
    RequestHeader, WireError,
    answers::{self, AskedTopic, FetchIds},
    requests::{FetchGroupBody, OffsetFetchBody, TOPIC_IDS_SINCE, TopicRef},
    versions,
};
use tokio::sync::oneshot;
use uuid::Uuid;

use super::{
    Handled,
    context::{Context, Outcome},
};
use crate::{
    client::{
        access::Access,
        reply::{Beside, FetchAccess, Reply},
    },
    node::Node,
    topics::Topics,
};

/// The first version with several groups: one ticket per group, answers in request order.
const GROUPS_SINCE: i16 = 8;

/// Submits the request to the coordinator of each group that the client may describe.
pub fn handle(context: &mut Context<'_>) -> Outcome {
    let version = context.version();
    let body = OffsetFetchBody::read(version, context.body())?;
    let access = context.access();
    if version < GROUPS_SINCE {
        let Some(group) = body.groups.first() else { return Ok(Handled::Close) };
        return Ok(fetch_of_one(context, &access, &body, group));
    }
    let Some(fan_out) = context.fan_out(body.groups.len(), answers::OPERATIONS_NOT_ASKED) else {
        return Ok(Handled::Answered);
    };
    for (index, group) in body.groups.iter().enumerate() {
        let (names, ids) = if version >= TOPIC_IDS_SINCE {
            asked_by_id(context.node.topics(), &access, &body, group)
        } else {
            (Vec::new(), FetchIds::default())
        };
        let by_id: Vec<FetchTopic<'_>> = (names.iter().zip(&ids.asked))
            .map(|((name, partitions), id)| FetchTopic { name, topic_id: *id, partitions })
            .collect();
        let (topics, refused, reply) = if version >= TOPIC_IDS_SINCE {
            let topics = group.topics.as_ref().map(|_| by_id);
            (topics, Vec::new(), Reply::PartById(Rc::clone(&fan_out), index, ids))
        } else {
            let (topics, refused) = asked_by_name(&access, &body, group);
            (topics, refused, Reply::Part(Rc::clone(&fan_out), index))
        };
        let request = body.request_of(group, topics.as_deref());
        if access.allows(Operation::Describe, ResourceType::Group, group.group_id) {
            context.submit_part(group.group_id, restricted(reply, &access, group, refused), request);
        } else {
            context.refuse_part(reply, &request);
        }
        if fan_out.borrow().is_too_large() {
            return Ok(Handled::Close);
        }
    }
    Ok(context.handled())
}

/// Asks the engine whether this node still has the groups of the request; `None`: another request, or the node has none.
pub fn confirm(node: &Node, frame: &[u8]) -> Result<Option<oneshot::Receiver<()>>, WireError> {
    let (header, body) = RequestHeader::read(frame)?;
    if header.api.key != versions::OFFSET_FETCH {
        return Ok(None);
    }
    let body = OffsetFetchBody::read(header.version, body)?;
    Ok(node.confirm(body.groups.iter().map(|group| group.group_id)))
}

/// Submits a request of a version with one group.
fn fetch_of_one(
    context: &mut Context<'_>,
    access: &Access,
    body: &OffsetFetchBody<'_>,
    group: &FetchGroupBody<'_>,
) -> Handled {
    let (topics, refused) = asked_by_name(access, body, group);
    let beside = match &topics {
        Some(topics) if context.version() == 1 => Beside::Asked(
            topics.iter().map(|topic| -> AskedTopic { (topic.name.into(), topic.partitions.to_vec()) }).collect(),
        ),
        _ => Beside::Nothing,
    };
    let request = Request::OffsetFetch(body.request(group.group_id, topics.as_deref()));
    if !access.allows(Operation::Describe, ResourceType::Group, group.group_id) {
        return context.refuse(beside, &request, ErrorCode::GroupAuthorizationFailed);
    }
    let reply = Reply::Whole(context.reply_to(), beside);
    context.submit_whole(group.group_id, restricted(reply, access, group, refused), request)
}

/// Returns the reply path with what the client may see.
fn restricted(reply: Reply, access: &Access, group: &FetchGroupBody<'_>, refused: Vec<AskedTopic>) -> Reply {
    if access.is_open() {
        return reply;
    }
    let of_all = group.topics.is_none().then(|| access.clone());
    Reply::Fetched(Box::new(reply), FetchAccess { refused, of_all })
}

/// Returns the topics of one group that the client may describe, in the core's type, and the others.
fn asked_by_name<'r>(
    access: &Access,
    body: &'r OffsetFetchBody<'_>,
    group: &'r FetchGroupBody<'_>,
) -> (Option<Vec<FetchTopic<'r>>>, Vec<AskedTopic>) {
    let Some(topics) = &group.topics else { return (None, Vec::new()) };
    let asked = topics.iter().filter_map(|(topic, range)| match topic {
        TopicRef::Name(name) => Some(FetchTopic { name, topic_id: 0, partitions: &body.partitions[range.clone()] }),
        TopicRef::Id(_) => None,
    });
    let (allowed, refused) =
        access.split_topics(Operation::Describe, asked.collect(), |topic| (topic.name, topic.partitions.len()));
    (Some(allowed), refused.into_iter().map(|topic| (topic.name.into(), topic.partitions.to_vec())).collect())
}

/// Returns the existing topics of one group of a version 10 fetch that the client may describe, by name, and the ids of
/// all that it names.
fn asked_by_id<'r>(
    topics: &Topics,
    access: &Access,
    body: &'r OffsetFetchBody<'_>,
    group: &FetchGroupBody<'_>,
) -> (Vec<(String, &'r [i32])>, FetchIds) {
    let (mut names, mut ids) = (Vec::new(), FetchIds::default());
    for (topic, range) in group.topics.iter().flatten() {
        let TopicRef::Id(id) = *topic else { continue };
        let partitions = &body.partitions[range.clone()];
        let Some(name) = topics.topic_name(Uuid::from_u128(id)) else {
            ids.refused.push((id, partitions.to_vec(), ErrorCode::UnknownTopicId));
            continue;
        };
        if access.allows_counted(Operation::Describe, ResourceType::Topic, name, partitions.len()) {
            names.push((name.to_owned(), partitions));
            ids.asked.push(id);
        } else {
            ids.refused.push((id, partitions.to_vec(), ErrorCode::TopicAuthorizationFailed));
        }
    }
    (names, ids)
}
