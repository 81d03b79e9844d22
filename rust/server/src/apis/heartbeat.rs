//! `Heartbeat` (docs/protocol.md §7). Most heartbeats bypass this handler: the connection's task answers them on the
//! fast path ([`crate::node::heartbeats`]).

use rota_core::request::Request;
use rota_security::acl::Operation;
use rota_wire::requests::read_heartbeat;

use super::context::{Context, Outcome};
use crate::client::reply::Beside;

/// Submits the request to the coordinator of the group.
pub fn handle(context: &mut Context<'_>) -> Outcome {
    let request = read_heartbeat(context.version(), context.body())?;
    let (group_id, member_id) = (request.group_id.unwrap_or_default(), request.member_id);
    let request = Request::Heartbeat(request);
    if let Some(refused) = context.refuse_group(Operation::Read, group_id, &request) {
        return Ok(refused);
    }
    // A heartbeat never waits. In real time, a pause may find the connection at the member's next request.
    if context.node.clock().is_virtual() {
        context.record_sender(Some(group_id), member_id);
    }
    Ok(context.submit(group_id, Beside::Nothing, request))
}
