//! `OffsetFetch` (docs/protocol.md §11).

use std::rc::Rc;

use rota_core::request::{FetchTopic, Request};
use rota_wire::{
    answers::{self, AskedTopic, FetchIds},
    requests::{FetchGroupBody, OffsetFetchBody, TOPIC_IDS_SINCE, TopicRef},
};
use uuid::Uuid;

use super::{
    Handled,
    context::{Context, Outcome},
};
use crate::{
    client::reply::{Beside, Reply},
    topics::Topics,
};

/// The first version with several groups: one ticket per group, answers in request order.
const GROUPS_SINCE: i16 = 8;

/// Submits the request to the coordinator of each group.
pub fn handle(context: &mut Context<'_>) -> Outcome {
    let version = context.version();
    let body = OffsetFetchBody::read(version, context.body())?;
    if version < GROUPS_SINCE {
        let Some(group) = body.groups.first() else { return Ok(Handled::Close) };
        let topics = asked_by_name(&body, group);
        let beside = match &topics {
            Some(topics) if version == 1 => Beside::Asked(
                topics.iter().map(|topic| -> AskedTopic { (topic.name.into(), topic.partitions.to_vec()) }).collect(),
            ),
            _ => Beside::Nothing,
        };
        let request = Request::OffsetFetch(body.request(group.group_id, topics.as_deref()));
        return Ok(context.submit(group.group_id, beside, request));
    }
    let Some(fan_out) = context.fan_out(body.groups.len(), answers::OPERATIONS_NOT_ASKED) else {
        return Ok(Handled::Answered);
    };
    for (index, group) in body.groups.iter().enumerate() {
        let (names, ids) = if version >= TOPIC_IDS_SINCE {
            asked_by_id(context.node.topics(), &body, group)
        } else {
            (Vec::new(), FetchIds::default())
        };
        let by_id: Vec<FetchTopic<'_>> = (names.iter().zip(&ids.asked))
            .map(|((name, partitions), id)| FetchTopic { name, topic_id: *id, partitions })
            .collect();
        let (topics, reply) = if version >= TOPIC_IDS_SINCE {
            let topics = group.topics.as_ref().map(|_| by_id);
            (topics, Reply::PartById(Rc::clone(&fan_out), index, ids))
        } else {
            (asked_by_name(&body, group), Reply::Part(Rc::clone(&fan_out), index))
        };
        let request = body.request_of(group, topics.as_deref());
        context.submit_part(group.group_id, reply, request);
        if fan_out.borrow().is_too_large() {
            return Ok(Handled::Close);
        }
    }
    Ok(context.handled())
}

/// Returns the topics of one group, in the core's type.
fn asked_by_name<'r>(body: &'r OffsetFetchBody<'_>, group: &'r FetchGroupBody<'_>) -> Option<Vec<FetchTopic<'r>>> {
    let asked = group.topics.as_ref()?.iter().filter_map(|(topic, range)| match topic {
        TopicRef::Name(name) => Some(FetchTopic { name, topic_id: 0, partitions: &body.partitions[range.clone()] }),
        TopicRef::Id(_) => None,
    });
    Some(asked.collect())
}

/// Returns the existing topics of one group of a version 10 fetch, by name, and the ids of all that it names.
fn asked_by_id<'r>(
    topics: &Topics,
    body: &'r OffsetFetchBody<'_>,
    group: &FetchGroupBody<'_>,
) -> (Vec<(String, &'r [i32])>, FetchIds) {
    let (mut names, mut ids) = (Vec::new(), FetchIds::default());
    for (topic, range) in group.topics.iter().flatten() {
        let TopicRef::Id(id) = *topic else { continue };
        let partitions = &body.partitions[range.clone()];
        match topics.topic_name(Uuid::from_u128(id)) {
            Some(name) => {
                names.push((name.to_owned(), partitions));
                ids.asked.push(id);
            }
            None => ids.unknown.push((id, partitions.to_vec())),
        }
    }
    (names, ids)
}
