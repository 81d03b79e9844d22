//! `ListGroups` (docs/protocol.md §12.2).

use std::rc::Rc;

use rota_core::request::Request;
use rota_wire::{answers, requests::ListGroupsBody};

use super::{
    Handled,
    context::{Context, Outcome},
};
use crate::client::reply::Reply;

/// Submits the request to every partition.
pub fn handle(context: &mut Context<'_>) -> Outcome {
    let body = ListGroupsBody::read(context.version(), context.body())?;
    let partitions = context.node.partitions();
    let parts = context.fan_out(partitions as usize, answers::OPERATIONS_NOT_ASKED);
    let Some(fan_out) = parts else { return Ok(Handled::Answered) };
    let request = body.request();
    fan_out.borrow_mut().beside_newer(context.node.newer_groups(&request));
    fan_out.borrow_mut().beside_consumer(context.node.consumer_group_ids());
    for partition in 0..partitions {
        let reply = Reply::Part(Rc::clone(&fan_out), partition as usize);
        context.node.submit(partition, reply, Request::ListGroups(request));
    }
    Ok(context.handled())
}
