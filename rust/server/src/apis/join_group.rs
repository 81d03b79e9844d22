//! `JoinGroup` (docs/protocol.md §4).

use rota_core::request::Request;
use rota_security::acl::Operation;
use rota_wire::requests::JoinGroupBody;

use super::context::{Context, Outcome};
use crate::client::reply::Beside;

/// Submits the request to the coordinator of the group.
pub fn handle(context: &mut Context<'_>) -> Outcome {
    let body = JoinGroupBody::read(context.version(), context.body())?;
    let request = body.request(context.header().client_id, context.client().host());
    let (group_id, member_id) = (request.group_id.unwrap_or_default(), request.member_id);
    let request = Request::JoinGroup(request);
    if let Some(refused) = context.refuse_group(Operation::Read, group_id, &request) {
        return Ok(refused);
    }
    context.record_sender(Some(group_id), member_id);
    Ok(context.submit(group_id, Beside::Nothing, request))
}
