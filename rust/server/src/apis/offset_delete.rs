//! `OffsetDelete` (docs/protocol.md §12.4).

use rota_core::request::{OffsetDelete, OffsetDeleteTopic, Request};
use rota_security::acl::Operation;
use rota_wire::requests::{OffsetDeleteBody, TopicRef};

use super::{
    context::{Context, Outcome},
    unknown_topics::{Named, Refused},
};
use crate::client::reply::Beside;

/// Refuses topics and partitions that do not exist. The coordinator gets the request in any case, since an error of the
/// group comes first.
pub fn handle(context: &mut Context<'_>) -> Outcome {
    let body = OffsetDeleteBody::read(context.version(), context.body())?;
    let whole = Request::OffsetDelete(OffsetDelete { group_id: Some(body.group_id), topics: &[] });
    if let Some(refused) = context.refuse_group(Operation::Delete, body.group_id, &whole) {
        return Ok(refused);
    }
    let access = context.access();
    let mut refused = Refused::default();
    let mut kept: Vec<(&str, Vec<i32>)> = Vec::new();
    for (name, range) in &body.topics {
        let partitions = &body.partitions[range.clone()];
        let named = Named::find(context.node.topics(), TopicRef::Name(name));
        let mut named = named.readable(&access, partitions.len());
        // The answer only has names.
        named.topic_id = 0;
        let (known, unknown): (Vec<i32>, Vec<i32>) =
            partitions.iter().partition(|index| (0..named.partitions).contains(index));
        if !unknown.is_empty() || (partitions.is_empty() && named.partitions == 0) {
            refused.add(&named, unknown.into_iter());
        }
        if !known.is_empty() {
            kept.push((name, known));
        }
    }
    let topics: Vec<OffsetDeleteTopic<'_>> =
        kept.iter().map(|(name, partitions)| OffsetDeleteTopic { name, partitions }).collect();
    let request = OffsetDelete { group_id: Some(body.group_id), topics: &topics };
    let beside = Beside::Refused(refused.topics);
    Ok(context.submit(body.group_id, beside, Request::OffsetDelete(request)))
}
