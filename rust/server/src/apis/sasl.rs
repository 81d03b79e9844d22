//! Answers of authentication: `SaslHandshake`, `SaslAuthenticate`, and `ILLEGAL_SASL_STATE` to other requests.

use std::rc::Rc;

use kafka_protocol::{
    messages::{
        ConsumerGroupHeartbeatResponse, DescribeClusterResponse, FetchResponse, FindCoordinatorResponse,
        HeartbeatResponse, InitProducerIdResponse, JoinGroupResponse, LeaveGroupResponse, ListGroupsResponse,
        MetadataResponse, OffsetFetchResponse, SyncGroupResponse,
    },
    protocol::StrBytes,
};
use rota_security::sasl::{ILLEGAL_SASL_STATE, Mechanism};
use rota_wire::{
    RequestHeader, discovery,
    sasl::{self, Authenticated},
    versions::{self, Api, SASL_APIS},
};

use super::Handled;
use crate::client::{Client, reply_to::ReplyTo};

const AUTHENTICATED: &str = "SaslAuthenticate request received after successful authentication";

/// Whether requests of this API authenticate a client. They are not traced.
pub fn authenticates(api: &Api) -> bool {
    SASL_APIS.contains(api)
}

/// Answers `SaslHandshake`.
pub fn handshake(client: &Rc<Client>, header: &RequestHeader<'_>, error: i16, mechanisms: &[Mechanism]) {
    let names: Vec<&str> = mechanisms.iter().map(|mechanism| mechanism.name()).collect();
    ReplyTo::of(client, header).answer(|out| sasl::handshake(out, error, &names));
}

/// Answers `SaslAuthenticate`.
pub fn authenticate(client: &Rc<Client>, header: &RequestHeader<'_>, answer: Authenticated<'_>) {
    ReplyTo::of(client, header).answer(|out| sasl::authenticate(out, header.version, answer));
}

/// Handles a request for authentication on an authenticated connection. A listener without SASL closes.
pub fn ask_again(client: &Rc<Client>, header: &RequestHeader<'_>, now_ms: u64) -> Handled {
    if !client.listener().protocol.has_sasl() {
        return Handled::Close;
    }
    if header.api.key == versions::SASL_HANDSHAKE && client.session().begin_again(now_ms) {
        return Handled::Authenticate;
    }
    if client.session().is_over(now_ms) {
        return Handled::Expired;
    }
    illegal(client, header, AUTHENTICATED);
    Handled::Answered
}

/// Answers `ILLEGAL_SASL_STATE` in the form of the request's API. An API without a field for it gets an empty answer or
/// none.
pub fn illegal(client: &Rc<Client>, header: &RequestHeader<'_>, message: &str) {
    const ERROR: i16 = ILLEGAL_SASL_STATE;
    let (to, version) = (ReplyTo::of(client, header), header.version);
    let written = match header.api.key {
        versions::SASL_HANDSHAKE => return handshake(client, header, ERROR, &[]),
        versions::SASL_AUTHENTICATE => {
            return authenticate(client, header, Authenticated { error: ERROR, message, ..Authenticated::default() });
        }
        versions::API_VERSIONS if header.api.serves(version) => {
            return to.answer(|out| discovery::api_versions(out, version, ERROR, &[], &[]));
        }
        versions::METADATA => to.encode(&MetadataResponse::default()),
        versions::FETCH if version >= 7 => to.encode(&FetchResponse::default().with_error_code(ERROR)),
        versions::OFFSET_FETCH if (2..8).contains(&version) => {
            to.encode(&OffsetFetchResponse::default().with_error_code(ERROR))
        }
        versions::FIND_COORDINATOR if version < 4 => {
            to.encode(&FindCoordinatorResponse::default().with_error_code(ERROR))
        }
        versions::JOIN_GROUP => to
            .encode(&JoinGroupResponse::default().with_error_code(ERROR).with_protocol_name(Some(StrBytes::default()))),
        versions::HEARTBEAT => to.encode(&HeartbeatResponse::default().with_error_code(ERROR)),
        versions::LEAVE_GROUP => to.encode(&LeaveGroupResponse::default().with_error_code(ERROR)),
        versions::SYNC_GROUP => to.encode(&SyncGroupResponse::default().with_error_code(ERROR)),
        versions::LIST_GROUPS => to.encode(&ListGroupsResponse::default().with_error_code(ERROR)),
        versions::INIT_PRODUCER_ID => to.encode(&InitProducerIdResponse::default().with_error_code(ERROR)),
        versions::DESCRIBE_CLUSTER => to.encode(&DescribeClusterResponse::default().with_error_code(ERROR)),
        versions::CONSUMER_GROUP_HEARTBEAT => {
            to.encode(&ConsumerGroupHeartbeatResponse::default().with_error_code(ERROR))
        }
        _ => Ok(()),
    };
    // The connection is closed with or without an answer.
    written.unwrap_or_default();
}
