//! `ConsumerGroupDescribe` (docs/consumer-protocol.md).

use std::rc::Rc;

use rota_core::request::{ConsumerGroupDescribe, Request};
use rota_wire::{answers, consumer_groups::DescribeBody};

use super::{
    Handled,
    context::{Context, Outcome},
    describe_groups::GROUP_OPERATIONS,
};
use crate::client::reply::Reply;

/// Submits one request per group. Answers are in request order.
pub fn handle(context: &mut Context<'_>) -> Outcome {
    let body = DescribeBody::read(context.body())?;
    let operations = if body.include_authorized_operations { GROUP_OPERATIONS } else { answers::OPERATIONS_NOT_ASKED };
    let Some(fan_out) = context.fan_out(body.group_ids.len(), operations) else { return Ok(Handled::Answered) };
    for (index, group_id) in body.group_ids.iter().enumerate() {
        let reply = Reply::Part(Rc::clone(&fan_out), index);
        context.submit_part(group_id, reply, Request::ConsumerGroupDescribe(ConsumerGroupDescribe { group_id }));
        if fan_out.borrow().is_too_large() {
            return Ok(Handled::Close);
        }
    }
    Ok(context.handled())
}
