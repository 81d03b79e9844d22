//! `ConsumerGroupHeartbeat` (docs/consumer-protocol.md).

use rota_core::{ErrorCode, request::Request, response::ConsumerHeartbeatAnswer};
use rota_security::acl::{Operation, ResourceType};
use rota_wire::consumer_groups::{self, HeartbeatBody};

use super::context::{Context, Outcome};
use crate::client::reply::Beside;

const SWITCHED_OFF: &str = "the consumer protocol is switched off: set group.protocol=classic, or start the server with \
                            group.coordinator.rebalance.protocols=classic,consumer";

/// Submits the request to the coordinator of the group.
pub fn handle(context: &mut Context<'_>) -> Outcome {
    let body = HeartbeatBody::read(context.version(), context.body())?;
    if !context.node.settings().consumer_groups().enabled {
        return Ok(context.write(|out| consumer_groups::heartbeat(out, &switched_off())));
    }
    if let Some(error) = refusal(context, &body) {
        let refused = ConsumerHeartbeatAnswer { error, error_message: None, ..switched_off() };
        return Ok(context.write(|out| consumer_groups::heartbeat(out, &refused)));
    }
    context.record_sender(Some(body.group_id()), body.member_id());
    let client_id = context.header().client_id;
    let host = context.client().host().to_owned();
    Ok(body.with(client_id, &host, |request| {
        context.submit(body.group_id(), Beside::Nothing, Request::ConsumerGroupHeartbeat(request))
    }))
}

/// Returns why the client may not send this request: because of its group, or of a topic that it names.
fn refusal(context: &mut Context<'_>, body: &HeartbeatBody<'_>) -> Option<ErrorCode> {
    let access = context.access();
    if !access.allows(Operation::Read, ResourceType::Group, body.group_id()) {
        return Some(ErrorCode::GroupAuthorizationFailed);
    }
    // Every name is checked, so that every denial is logged.
    let allowed = |name: &&&str| access.allows(Operation::Describe, ResourceType::Topic, name);
    let names = body.names();
    (names.iter().filter(allowed).count() < names.len()).then_some(ErrorCode::TopicAuthorizationFailed)
}

/// The answer of a server without the consumer protocol. Kafka's has no message.
fn switched_off() -> ConsumerHeartbeatAnswer<'static> {
    ConsumerHeartbeatAnswer {
        error: ErrorCode::UnsupportedVersion,
        error_message: Some(SWITCHED_OFF),
        member_id: None,
        member_epoch: 0,
        heartbeat_interval_ms: 0,
        assignment: None,
    }
}
