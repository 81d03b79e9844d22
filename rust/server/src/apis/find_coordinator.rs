//! `FindCoordinator` (docs/protocol.md §19).

use std::collections::HashMap;

use rota_core::error::ErrorCode;
use rota_engine::PartitionId;
use rota_security::acl::{Operation, ResourceType};
use rota_wire::discovery::{self, FindCoordinatorBody, FoundCoordinator};

use super::context::{Context, Outcome};
use crate::base::place::Node;

const INVALID_REQUEST: i16 = 42;

const KEY_TYPE_GROUP: i8 = 0;
const KEY_TYPE_TRANSACTION: i8 = 1;

/// The message for a transactional client. Clients treat error 53 as final; after any other they would retry.
const NO_TRANSACTIONS: &str = "this server has no transactions: configure the producer without a transactional id";

const NODE_IS_DOWN: &str = "the node that coordinates the group is down";
const TRANSACTIONS_NODE_IS_DOWN: &str = "the node that coordinates the transactional id is down";

const NO_SERVER: &str = "no server of the cluster coordinates the group at present";

const NO_SERVER_OF_TRANSACTIONS: &str = "no server of the cluster coordinates the transactional id at present";

const GROUP_REFUSED: &str = "Group authorization failed.";
const TRANSACTION_REFUSED: &str = "Transactional Id authorization failed.";

const BAD_KEY_TYPE: &str = "this server coordinates consumer groups only: key type 0";

/// Answers with the current owner of the group's partition.
pub fn handle(context: &mut Context<'_>) -> Outcome {
    let version = context.version();
    let body = FindCoordinatorBody::read(version, context.body())?;
    let refused = |error, message| FoundCoordinator { error, message: Some(message), node_id: -1, host: "", port: -1 };
    // From version 4 on, as Kafka, without a message.
    let (group_refused, transaction_refused) =
        if version < 4 { (GROUP_REFUSED, TRANSACTION_REFUSED) } else { ("", "") };
    let access = context.access();
    let (host, listener, node) = (context.host(), context.client().listener(), &*context.node);
    // Found before the answer is written, which borrows their hosts.
    let nodes: HashMap<&str, Option<Node>> = match node.cluster() {
        Some(cluster) => {
            let (listener, reached_ip) = (context.client().listener(), context.client().reached_ip());
            let partition = |key| match body.key_type {
                KEY_TYPE_GROUP => PartitionId(node.partition_of(key).cast_signed()),
                _ => cluster.partitions().of_transactions(node.all_transactions().partition_of(key)),
            };
            let find = |key| (key, cluster.coordinator(partition(key), listener, reached_ip));
            let is_found = body.key_type == KEY_TYPE_GROUP || node.serves_transactions();
            body.keys.iter().copied().filter(|_| is_found).map(find).collect()
        }
        _ => HashMap::new(),
    };
    let found = |key: &str| {
        let Node { id, host, port } = nodes.get(key)?.as_ref()?;
        Some(FoundCoordinator { error: 0, message: None, node_id: *id, host, port: *port })
    };
    let find = |key: &str| match body.key_type {
        KEY_TYPE_GROUP if !access.allows(Operation::Describe, ResourceType::Group, key) => {
            refused(ErrorCode::GroupAuthorizationFailed.code(), group_refused)
        }
        KEY_TYPE_GROUP if node.injected(key).is_some() => {
            let error = node.injected(key).unwrap_or(ErrorCode::None);
            refused(error.code(), error.name())
        }
        KEY_TYPE_GROUP if node.outages().is_down(node.owner_of(node.partition_of(key))) => {
            refused(ErrorCode::CoordinatorNotAvailable.code(), NODE_IS_DOWN)
        }
        KEY_TYPE_GROUP if node.cluster().is_some() => {
            found(key).unwrap_or_else(|| refused(ErrorCode::CoordinatorNotAvailable.code(), NO_SERVER))
        }
        KEY_TYPE_GROUP => {
            let node_id = node.owner_of(node.partition_of(key));
            let port = i32::from(listener.port_of(node_id));
            FoundCoordinator { error: 0, message: None, node_id, host: &host, port }
        }
        KEY_TYPE_TRANSACTION if !node.serves_transactions() => {
            refused(ErrorCode::TransactionalIdAuthorizationFailed.code(), NO_TRANSACTIONS)
        }
        KEY_TYPE_TRANSACTION if !access.allows(Operation::Describe, ResourceType::TransactionalId, key) => {
            refused(ErrorCode::TransactionalIdAuthorizationFailed.code(), transaction_refused)
        }
        KEY_TYPE_TRANSACTION if node.cluster().is_some() => {
            found(key).unwrap_or_else(|| refused(ErrorCode::CoordinatorNotAvailable.code(), NO_SERVER_OF_TRANSACTIONS))
        }
        KEY_TYPE_TRANSACTION if node.outages().is_down(node.transaction_owner(key)) => {
            refused(ErrorCode::CoordinatorNotAvailable.code(), TRANSACTIONS_NODE_IS_DOWN)
        }
        KEY_TYPE_TRANSACTION => {
            let node_id = node.transaction_owner(key);
            let port = i32::from(listener.port_of(node_id));
            FoundCoordinator { error: 0, message: None, node_id, host: &host, port }
        }
        _ => refused(INVALID_REQUEST, BAD_KEY_TYPE),
    };
    Ok(context.write(|out| discovery::find_coordinator(out, version, &body.keys, find)))
}
