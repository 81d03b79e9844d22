//! `Heartbeat` (docs/protocol.md §7). Most heartbeats do not come here: the task of the connection answers them from the
//! bytes that it has read ([`crate::node::heartbeats`]).

use rota_core::request::Request;
use rota_wire::requests::read_heartbeat;

use super::context::{Context, Outcome};
use crate::client::reply::Beside;

/// Submits it to the coordinator of the group.
pub fn handle(context: &mut Context<'_>) -> Outcome {
    let request = read_heartbeat(context.version(), context.body())?;
    // It never waits, so in real time a pause may learn of the connection with the member's next request.
    if context.node.clock().is_virtual() {
        context.heard(request.group_id, request.member_id);
    }
    let group_id = request.group_id.unwrap_or_default();
    Ok(context.submit(group_id, Beside::Nothing, Request::Heartbeat(request)))
}
