//! `DescribeGroups` (docs/protocol.md §12.1).

use std::rc::Rc;

use rota_core::request::{DescribeGroup, ListGroups, Request};
use rota_wire::{answers, requests::DescribeGroupsBody};

use super::{
    Handled,
    context::{Context, Outcome},
};
use crate::client::reply::Reply;

/// The authorized operations on a group, as bits: READ, DELETE, DESCRIBE, `DESCRIBE_CONFIGS`, `ALTER_CONFIGS`. There is
/// no authorization.
pub const GROUP_OPERATIONS: i32 = 1 << 3 | 1 << 6 | 1 << 8 | 1 << 10 | 1 << 11;

/// Submits one request per group. Answers are in request order.
pub fn handle(context: &mut Context<'_>) -> Outcome {
    let body = DescribeGroupsBody::read(context.version(), context.body())?;
    let operations = if body.include_authorized_operations { GROUP_OPERATIONS } else { answers::OPERATIONS_NOT_ASKED };
    let Some(fan_out) = context.fan_out(body.group_ids.len(), operations) else { return Ok(Handled::Answered) };
    fan_out.borrow_mut().beside_newer(context.node.newer_groups(&ListGroups::ALL));
    for (index, group_id) in body.group_ids.iter().enumerate() {
        let request = DescribeGroup { version: context.version(), group_id: Some(group_id) };
        let reply = Reply::Part(Rc::clone(&fan_out), index);
        context.submit_part(group_id, reply, Request::DescribeGroup(request));
        if fan_out.borrow().is_too_large() {
            return Ok(Handled::Close);
        }
    }
    Ok(context.handled())
}
