//! `SyncGroup` (docs/protocol.md §6).

use rota_core::request::Request;
use rota_wire::requests::SyncGroupBody;

use super::context::{Context, Outcome};
use crate::client::reply::Beside;

/// Submits the request to the coordinator of the group.
pub fn handle(context: &mut Context<'_>) -> Outcome {
    let body = SyncGroupBody::read(context.version(), context.body())?;
    let request = body.request();
    context.record_sender(request.group_id, request.member_id);
    let group_id = request.group_id.unwrap_or_default();
    Ok(context.submit(group_id, Beside::Nothing, Request::SyncGroup(request)))
}
