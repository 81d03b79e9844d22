//! `ConsumerGroupDescribe` (docs/consumer-protocol.md).

use std::rc::Rc;

use rota_core::request::{ConsumerGroupDescribe, Request};
use rota_security::acl::{Operation, ResourceType};
use rota_wire::{answers, consumer_groups::DescribeBody};

use super::{
    Handled,
    context::{Context, Outcome},
    describe_groups::GROUP_OPERATIONS,
};
use crate::client::reply::Reply;

/// Submits one request per group that the client may describe.
pub fn handle(context: &mut Context<'_>) -> Outcome {
    let body = DescribeBody::read(context.body())?;
    let operations = if body.include_authorized_operations { GROUP_OPERATIONS } else { answers::OPERATIONS_NOT_ASKED };
    let Some(fan_out) = context.fan_out(body.group_ids.len(), operations) else { return Ok(Handled::Answered) };
    // Without the protocol nothing is described, and the coordinator's error says so whatever the client may do.
    let is_off = !context.node.settings().consumer_groups().enabled;
    let access = context.access();
    let allowed = |group_id: &&str| is_off || access.allows(Operation::Describe, ResourceType::Group, group_id);
    let (allowed, refused): (Vec<&str>, Vec<&str>) = body.group_ids.iter().copied().partition(allowed);
    // As Kafka, refused groups come first.
    for (index, group_id) in refused.iter().chain(&allowed).enumerate() {
        let reply = Reply::Part(Rc::clone(&fan_out), index);
        let request = Request::ConsumerGroupDescribe(ConsumerGroupDescribe { group_id });
        if index < refused.len() {
            context.refuse_part(reply, &request);
        } else {
            context.submit_part(group_id, reply, request);
        }
        if fan_out.borrow().is_too_large() {
            return Ok(Handled::Close);
        }
    }
    Ok(context.handled())
}
