//! `DeleteGroups` (docs/protocol.md §12.3).

use std::{collections::HashSet, rc::Rc};

use rota_core::request::{DeleteGroup, Request};
use rota_security::acl::{Operation, ResourceType};
use rota_wire::{answers, requests::read_delete_groups};

use super::{
    Handled,
    context::{Context, Outcome},
};
use crate::client::reply::Reply;

/// Submits one request per group, without repetitions. Answers are in the order of first mention.
pub fn handle(context: &mut Context<'_>) -> Outcome {
    let mut group_ids = read_delete_groups(context.version(), context.body())?;
    let mut named = HashSet::new();
    group_ids.retain(|group_id| named.insert(*group_id));
    let parts = context.fan_out(group_ids.len(), answers::OPERATIONS_NOT_ASKED);
    let Some(fan_out) = parts else { return Ok(Handled::Answered) };
    let access = context.access();
    for (index, group_id) in group_ids.iter().enumerate() {
        let request = DeleteGroup { group_id: Some(group_id) };
        let reply = Reply::Part(Rc::clone(&fan_out), index);
        let request = Request::DeleteGroup(request);
        if access.allows(Operation::Delete, ResourceType::Group, group_id) {
            context.submit_part(group_id, reply, request);
        } else {
            context.refuse_part(reply, &request);
        }
    }
    Ok(context.handled())
}
