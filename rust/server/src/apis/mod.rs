//! From an API key to its handler. One table.

pub mod describing;
pub mod fetching;
pub mod groups;
pub mod topic_apis;

use std::{ops::RangeInclusive, rc::Rc};

use kafka_protocol::{
    messages::{ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse},
    protocol::StrBytes,
};
use rota_core::error::ErrorCode;
use rota_wire::{
    RequestHeader, WireError, Writer,
    discovery::{self, ApiVersionsBody, FindCoordinatorBody, FoundCoordinator},
    versions,
    write::begin_answer,
};

use crate::{apis::fetching::FetchWait, client::reply::Address, faults, net::connection::Connection, node::Node};

/// What became of a request.
pub enum Handled {
    /// Its answer is in the connection's buffer, or it has none.
    Answered,
    /// It waits for its answer.
    Parked,
    /// It waits for data.
    Fetch(Box<FetchWait>),
    /// It is not looked at while its member is paused.
    Paused,
    /// The connection is to be closed.
    Close,
}

impl Handled {
    /// Of a request that was handed to coordinators.
    pub fn after(connection: &Connection) -> Handled {
        if connection.parked.get() { Handled::Parked } else { Handled::Answered }
    }
}

/// Handles one request of `connection`: its header, and the body behind it.
pub type Handler = fn(&mut Node, &Rc<Connection>, &RequestHeader<'_>, &[u8]) -> Result<Handled, WireError>;

/// Every API that is served, by key.
static HANDLERS: [(i16, Handler); 24] = [
    (versions::PRODUCE, topic_apis::produce),
    (versions::FETCH, fetching::fetch),
    (versions::LIST_OFFSETS, topic_apis::list_offsets),
    (versions::METADATA, topic_apis::metadata),
    (versions::OFFSET_COMMIT, groups::offset_commit),
    (versions::OFFSET_FETCH, groups::offset_fetch),
    (versions::FIND_COORDINATOR, find_coordinator),
    (versions::JOIN_GROUP, groups::join_group),
    (versions::HEARTBEAT, groups::heartbeat),
    (versions::LEAVE_GROUP, groups::leave_group),
    (versions::SYNC_GROUP, groups::sync_group),
    (versions::DESCRIBE_GROUPS, groups::describe_groups),
    (versions::LIST_GROUPS, groups::list_groups),
    (versions::API_VERSIONS, api_versions),
    (versions::CREATE_TOPICS, topic_apis::create_topics),
    (versions::DELETE_TOPICS, topic_apis::delete_topics),
    (versions::INIT_PRODUCER_ID, topic_apis::init_producer_id),
    (versions::OFFSET_FOR_LEADER_EPOCH, topic_apis::offset_for_leader_epoch),
    (versions::DESCRIBE_CONFIGS, describing::describe_configs),
    (versions::CREATE_PARTITIONS, topic_apis::create_partitions),
    (versions::DELETE_GROUPS, groups::delete_groups),
    (versions::OFFSET_DELETE, groups::offset_delete),
    (versions::DESCRIBE_CLUSTER, describing::describe_cluster),
    (versions::CONSUMER_GROUP_HEARTBEAT, consumer_group_heartbeat),
];

/// These do not look at the topic table: what other nodes have done to it can wait for another request.
const KNOW_NO_TOPICS: RangeInclusive<i16> = versions::JOIN_GROUP..=versions::SYNC_GROUP;

/// Handles the request in `frame`. An error closes the connection: there is no answer to what cannot be read.
pub fn handle(node: &mut Node, connection: &Rc<Connection>, frame: &[u8]) -> Result<Handled, WireError> {
    let Some(trace) = &connection.trace else { return route(node, connection, frame) };
    if let Ok((header, body)) = RequestHeader::read(frame) {
        trace.request(&header, body);
    }
    let handled = route(node, connection, frame);
    match handled {
        Ok(Handled::Close) => trace.closed(None),
        Err(error) => trace.closed(Some(error)),
        // It will come here again.
        Ok(Handled::Paused) => trace.paused(),
        Ok(_) => {}
    }
    handled
}

fn route(node: &mut Node, connection: &Rc<Connection>, frame: &[u8]) -> Result<Handled, WireError> {
    let (header, body) = RequestHeader::read(frame)?;
    if !KNOW_NO_TOPICS.contains(&header.api.key) {
        node.catch_up();
    }
    if faults::pauses(node, connection, &header, body)? {
        return Ok(Handled::Paused);
    }
    let Ok(index) = HANDLERS.binary_search_by_key(&header.api.key, |(key, _)| *key) else { return Ok(Handled::Close) };
    node.handling.begin(header.api.key);
    let handled = HANDLERS[index].1(node, connection, &header, body);
    node.handling.end();
    handled
}

const UNSUPPORTED_VERSION_LAYOUT: i16 = 0;
const UNSUPPORTED_VERSION: i16 = 35;
const INVALID_REQUEST: i16 = 42;
const TRANSACTIONAL_ID_AUTHORIZATION_FAILED: i16 = 53;
const REBOOTSTRAP_REQUIRED: i16 = 129;

/// `ApiVersions` (docs/protocol.md §17.3). A version that is not served is answered in the layout of version 0.
fn api_versions(
    node: &mut Node,
    connection: &Rc<Connection>,
    header: &RequestHeader<'_>,
    body: &[u8],
) -> Result<Handled, WireError> {
    if !header.api.serves(header.version) {
        let out = &mut *connection.out.borrow_mut();
        let start = begin_answer(out, header.correlation_id, false);
        discovery::api_versions_unsupported(&mut Writer::new(out, header.api.flexible(UNSUPPORTED_VERSION_LAYOUT)));
        connection.end_answer(out, start);
        return Ok(Handled::Answered);
    }
    let body = ApiVersionsBody::read(header.version, body)?;
    let error = if body.names_valid_software() { check_cluster(node, &body) } else { INVALID_REQUEST };
    Address::of(connection, header).answer(|out| discovery::api_versions(out, header.version, error));
    Ok(Handled::Answered)
}

/// A client that names the cluster and node it means is told if it has reached another one; naming only one of the
/// two makes no sense.
fn check_cluster(node: &Node, body: &ApiVersionsBody<'_>) -> i16 {
    let place = &node.place;
    match (body.cluster_id, body.node_id) {
        (None, -1) => 0,
        (None, _) | (Some(_), -1) => INVALID_REQUEST,
        (Some(cluster_id), node_id) if cluster_id == place.cluster_id && node_id == place.node_id => 0,
        _ => REBOOTSTRAP_REQUIRED,
    }
}

const KEY_TYPE_GROUP: i8 = 0;
const KEY_TYPE_TRANSACTION: i8 = 1;

/// What a transactional client is told. Every client takes error 53 as final; with any other it would ask again.
const NO_TRANSACTIONS: &str = "this server has no transactions: configure the producer without a transactional id";

const BAD_KEY_TYPE: &str = "this server coordinates consumer groups only: key type 0";

/// `FindCoordinator` (docs/protocol.md §19): the node that owns the group's partition, as things are now.
fn find_coordinator(
    node: &mut Node,
    connection: &Rc<Connection>,
    header: &RequestHeader<'_>,
    body: &[u8],
) -> Result<Handled, WireError> {
    let body = FindCoordinatorBody::read(header.version, body)?;
    let refused = |error, message| FoundCoordinator { error, message: Some(message), node_id: -1, host: "", port: -1 };
    let host = node.place.host_for(connection);
    let find = |key: &str| match body.key_type {
        KEY_TYPE_GROUP if node.injected(key).is_some() => {
            let error = node.injected(key).unwrap_or(ErrorCode::None);
            refused(error.code(), error.name())
        }
        KEY_TYPE_GROUP => {
            let node_id = node.owner_of(node.partition_of(key));
            let port = i32::from(node.place.port_of(node_id));
            FoundCoordinator { error: 0, message: None, node_id, host: &host, port }
        }
        KEY_TYPE_TRANSACTION => refused(TRANSACTIONAL_ID_AUTHORIZATION_FAILED, NO_TRANSACTIONS),
        _ => refused(INVALID_REQUEST, BAD_KEY_TYPE),
    };
    Address::of(connection, header).answer(|out| discovery::find_coordinator(out, header.version, &body.keys, find));
    Ok(Handled::Answered)
}

const NO_CONSUMER_PROTOCOL: &str = "this server has the classic group protocol only: set group.protocol=classic";

/// `ConsumerGroupHeartbeat`: a Kafka whose newer consumer protocol is switched off answers the same.
fn consumer_group_heartbeat(
    _node: &mut Node,
    connection: &Rc<Connection>,
    header: &RequestHeader<'_>,
    body: &[u8],
) -> Result<Handled, WireError> {
    let _refused: ConsumerGroupHeartbeatRequest = topic_apis::decode(header, body)?;
    let response = ConsumerGroupHeartbeatResponse::default()
        .with_error_code(UNSUPPORTED_VERSION)
        .with_error_message(Some(StrBytes::from_static_str(NO_CONSUMER_PROTOCOL)));
    Ok(topic_apis::answer(connection, header, &response))
}

#[cfg(test)]
mod tests {
    use rota_wire::versions::APIS;

    use super::HANDLERS;

    #[test]
    fn every_api_that_is_advertised_has_a_handler_and_no_other() {
        let advertised: Vec<i16> = APIS.iter().map(|api| api.key).collect();
        let handled: Vec<i16> = HANDLERS.iter().map(|(key, _)| *key).collect();
        assert_eq!(handled, advertised);
        assert!(handled.is_sorted());
    }
}
