//! `ApiVersions` (docs/protocol.md §17.3).

use rota_wire::{
    RequestHeader, WireError, Writer,
    discovery::{self, ApiVersionsBody, Feature},
    versions::{Api, SASL_APIS, TRANSACTION_APIS},
    write::begin_answer,
};

use super::{
    Handled,
    context::{Context, Outcome},
};
use crate::node::Node;

const UNSUPPORTED_VERSION_LAYOUT: i16 = 0;
const INVALID_REQUEST: i16 = 42;
const REBOOTSTRAP_REQUIRED: i16 = 129;

/// Answers a version that is not served in the layout of version 0.
pub fn handle(context: &mut Context<'_>) -> Outcome {
    let (header, client) = (context.header(), context.client());
    if !header.api.serves(header.version) {
        let out = &mut *client.out();
        let start = begin_answer(out, header.correlation_id, false);
        discovery::api_versions_unsupported(&mut Writer::new(out, header.api.flexible(UNSUPPORTED_VERSION_LAYOUT)));
        client.end_answer(out, start);
        return Ok(Handled::Answered);
    }
    let error = check(context.node, header.version, context.body())?;
    let mut features = vec![Feature::group_version(context.node.settings().consumer_groups().enabled.into())];
    let mut also: Vec<&'static [Api]> = Vec::new();
    if client.listener().protocol.has_sasl() {
        also.push(&SASL_APIS);
    }
    if context.node.serves_transactions() {
        also.push(&TRANSACTION_APIS);
        features.push(Feature::transaction_version(context.node.all_transactions().config().level));
    }
    Ok(context.write(|out| discovery::api_versions(out, header.version, error, &features, &also)))
}

/// Whether a request is answered with the versions, and not with an error.
pub fn is_served(node: &Node, header: &RequestHeader<'_>, body: &[u8]) -> bool {
    header.api.serves(header.version) && check(node, header.version, body) == Ok(0)
}

/// Returns the error of a request in a version that is served.
fn check(node: &Node, version: i16, body: &[u8]) -> Result<i16, WireError> {
    let body = ApiVersionsBody::read(version, body)?;
    Ok(if body.names_valid_software() { check_cluster(node, &body) } else { INVALID_REQUEST })
}

/// Checks the cluster and node that the client expects. Naming only one of the two is an invalid request. A server that
/// does not know its cluster yet believes the client.
fn check_cluster(node: &Node, body: &ApiVersionsBody<'_>) -> i16 {
    let is_here = |cluster_id| node.cluster_id().is_none_or(|own| own == cluster_id);
    match (body.cluster_id, body.node_id) {
        (None, -1) => 0,
        (None, _) | (Some(_), -1) => INVALID_REQUEST,
        (Some(cluster_id), node_id) if node_id == node.place().node_id && is_here(cluster_id) => 0,
        _ => REBOOTSTRAP_REQUIRED,
    }
}
