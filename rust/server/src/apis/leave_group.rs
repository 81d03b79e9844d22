//! `LeaveGroup` (docs/protocol.md §8).

use rota_core::request::Request;
use rota_security::acl::Operation;
use rota_wire::requests::LeaveGroupBody;

use super::context::{Context, Outcome};
use crate::client::reply::Beside;

/// Submits the request to the coordinator of the group.
pub fn handle(context: &mut Context<'_>) -> Outcome {
    let body = LeaveGroupBody::read(context.version(), context.body())?;
    let request = body.request();
    let group_id = request.group_id.unwrap_or_default();
    let request = Request::LeaveGroup(request);
    if let Some(refused) = context.refuse_group(Operation::Read, group_id, &request) {
        return Ok(refused);
    }
    Ok(context.submit(group_id, Beside::Nothing, request))
}
