//! `DescribeGroups` (docs/protocol.md §12.1).

use std::rc::Rc;

use rota_core::request::{DescribeGroup, ListGroups, Request};
use rota_security::acl::{Operation, ResourceType};
use rota_wire::{answers, requests::DescribeGroupsBody};

use super::{
    Handled,
    context::{Context, Outcome},
};
use crate::client::reply::Reply;

/// All authorized operations on a group, as bits: READ, DELETE, DESCRIBE, `DESCRIBE_CONFIGS`, `ALTER_CONFIGS`.
pub const GROUP_OPERATIONS: i32 = 1 << 3 | 1 << 6 | 1 << 8 | 1 << 10 | 1 << 11;

/// Submits one request per group that the client may describe.
pub fn handle(context: &mut Context<'_>) -> Outcome {
    let body = DescribeGroupsBody::read(context.version(), context.body())?;
    let operations = if body.include_authorized_operations { GROUP_OPERATIONS } else { answers::OPERATIONS_NOT_ASKED };
    let Some(fan_out) = context.fan_out(body.group_ids.len(), operations) else { return Ok(Handled::Answered) };
    fan_out.borrow_mut().beside_newer(context.node.newer_groups(&ListGroups::ALL));
    let access = context.access();
    let allowed = |group_id: &&str| access.allows(Operation::Describe, ResourceType::Group, group_id);
    let (allowed, refused): (Vec<&str>, Vec<&str>) = body.group_ids.iter().copied().partition(allowed);
    // As Kafka, refused groups come first.
    for (index, group_id) in refused.iter().chain(&allowed).enumerate() {
        let request = DescribeGroup { version: context.version(), group_id: Some(group_id) };
        let reply = Reply::Part(Rc::clone(&fan_out), index);
        let request = Request::DescribeGroup(request);
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
