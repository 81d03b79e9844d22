//! `OffsetCommit` (docs/protocol.md §10).

use std::borrow::Cow;

use rota_core::{
    request::{CommitPartition, CommitTopic, Request},
    response::CommittedTopic,
};
use rota_wire::{answers, requests::OffsetCommitBody};

use super::{
    context::{Context, Outcome},
    unknown_topics::{Named, Refused},
};
use crate::{client::reply::Beside, topics::Topics};

/// Refuses topics and partitions that do not exist, and submits the others to the coordinator, if any.
pub fn handle(context: &mut Context<'_>) -> Outcome {
    let body = OffsetCommitBody::read(context.version(), context.body())?;
    context.record_sender(Some(body.group_id), body.member_id());
    let (refused, kept) = refuse_unknown(context.node.topics(), &body);
    let topics: Vec<CommitTopic<'_>> =
        kept.iter().map(|kept| CommitTopic { name: &kept.0, topic_id: kept.1, partitions: &kept.2 }).collect();
    if topics.is_empty() {
        let version = context.version();
        return Ok(context.write(|out| answers::offset_commit(out, version, &refused, &[])));
    }
    let request = Request::OffsetCommit(body.request(&topics));
    Ok(context.submit(body.group_id, Beside::Refused(refused), request))
}

/// A topic's name and id, and the offsets to store.
type KeptTopic<'a> = (Cow<'a, str>, u128, Vec<CommitPartition<'a>>);

/// Splits a commit into refused partitions and those for the coordinator.
fn refuse_unknown<'a>(topics: &Topics, body: &OffsetCommitBody<'a>) -> (Vec<CommittedTopic>, Vec<KeptTopic<'a>>) {
    let mut refused = Refused::default();
    let mut kept = Vec::with_capacity(body.topics.len());
    for topic in &body.topics {
        let partitions = &body.partitions[topic.partitions.clone()];
        let named = Named::find(topics, topic.topic);
        let (known, unknown): (Vec<CommitPartition<'_>>, Vec<CommitPartition<'_>>) =
            partitions.iter().partition(|partition| (0..named.partitions).contains(&partition.index));
        if !unknown.is_empty() || (partitions.is_empty() && named.partitions == 0) {
            refused.add(&named, unknown.iter().map(|partition| partition.index));
        }
        if !known.is_empty() {
            kept.push((named.name, named.topic_id, known));
        }
    }
    (refused.topics, kept)
}
