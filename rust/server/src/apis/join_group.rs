//! `JoinGroup` (docs/protocol.md §4).

use rota_core::request::Request;
use rota_wire::requests::JoinGroupBody;

use super::context::{Context, Outcome};
use crate::client::reply::Beside;

/// Submits the request to the coordinator of the group.
pub fn handle(context: &mut Context<'_>) -> Outcome {
    let body = JoinGroupBody::read(context.version(), context.body())?;
    let request = body.request(context.header().client_id, context.client().host());
    context.record_sender(request.group_id, request.member_id);
    let group_id = request.group_id.unwrap_or_default();
    Ok(context.submit(group_id, Beside::Nothing, Request::JoinGroup(request)))
}
