//! The APIs: one request, one file. [`HANDLERS`] is the table of all.
//!
//! A handler gets a [`Context`] with the node's methods, the request and the reply path to its client. It decodes the
//! request and either answers it or submits it to a coordinator, whose answer arrives by a ticket. A new API is a file
//! with a function `handle`, a line in the table, and its versions in `rota_wire::versions`.

mod acls;
mod add_offsets_to_txn;
mod add_partitions_to_txn;
mod admit_partitions;
mod alter_user_scram_credentials;
pub mod api_versions;
mod consumer_group_describe;
mod consumer_group_heartbeat;
pub mod context;
mod create_acls;
mod create_partitions;
mod create_topics;
mod delete_acls;
mod delete_groups;
mod delete_records;
mod delete_topics;
mod describe_acls;
mod describe_client_quotas;
mod describe_cluster;
mod describe_configs;
mod describe_groups;
mod describe_log_dirs;
mod describe_producers;
mod describe_transactions;
mod describe_user_scram_credentials;
mod elect_leaders;
mod end_txn;
pub mod fetch;
mod find_coordinator;
mod heartbeat;
mod incremental_alter_configs;
mod init_producer_id;
mod join_group;
mod leave_group;
mod list_config_resources;
mod list_groups;
mod list_offsets;
mod list_partition_reassignments;
mod list_transactions;
mod metadata;
mod offset_commit;
mod offset_delete;
mod offset_fetch;
mod offset_for_leader_epoch;
mod produce;
pub mod sasl;
mod sync_group;
mod txn_offset_commit;
mod unknown_topics;
mod write_txn_markers;

use std::{ops::RangeInclusive, rc::Rc};

use rota_wire::{RequestHeader, versions};
use tokio::sync::oneshot;

use self::{
    context::{Context, Outcome},
    fetch::FetchWait,
};
use crate::{client::Client, faults::Disturbance, node::Node};

/// The state of a request after its handler.
pub enum Handled {
    /// The answer is in the connection's buffer, or the request has none.
    Answered,
    /// The request waits for its answer.
    Parked,
    /// The request waits for data.
    Fetch(Box<FetchWait>),
    /// The request's member is paused; it will be handled again.
    Paused,
    /// The request waits until the engine has confirmed what it reads; it will be handled again.
    Unconfirmed(oneshot::Receiver<()>),
    /// The answer is in the connection's buffer. A test makes the network drop or delay it.
    Disturbed(Disturbance),
    /// The answer comes later, and a test delays it.
    Late(Box<Handled>, Disturbance),
    /// The client authenticates again. The request is part of that, and is not handled so far.
    Authenticate,
    /// The client has not authenticated again in time: the connection must be closed.
    Expired,
    /// The connection must be closed.
    Close,
}

/// Handles one request.
type Handler = fn(&mut Context<'_>) -> Outcome;

/// Every served API, by key.
static HANDLERS: [(i16, Handler); 37] = [
    (versions::PRODUCE, produce::handle),
    (versions::FETCH, fetch::handle),
    (versions::LIST_OFFSETS, list_offsets::handle),
    (versions::METADATA, metadata::handle),
    (versions::OFFSET_COMMIT, offset_commit::handle),
    (versions::OFFSET_FETCH, offset_fetch::handle),
    (versions::FIND_COORDINATOR, find_coordinator::handle),
    (versions::JOIN_GROUP, join_group::handle),
    (versions::HEARTBEAT, heartbeat::handle),
    (versions::LEAVE_GROUP, leave_group::handle),
    (versions::SYNC_GROUP, sync_group::handle),
    (versions::DESCRIBE_GROUPS, describe_groups::handle),
    (versions::LIST_GROUPS, list_groups::handle),
    (versions::API_VERSIONS, api_versions::handle),
    (versions::CREATE_TOPICS, create_topics::handle),
    (versions::DELETE_TOPICS, delete_topics::handle),
    (versions::DELETE_RECORDS, delete_records::handle),
    (versions::INIT_PRODUCER_ID, init_producer_id::handle),
    (versions::OFFSET_FOR_LEADER_EPOCH, offset_for_leader_epoch::handle),
    (versions::DESCRIBE_ACLS, describe_acls::handle),
    (versions::CREATE_ACLS, create_acls::handle),
    (versions::DELETE_ACLS, delete_acls::handle),
    (versions::DESCRIBE_CONFIGS, describe_configs::handle),
    (versions::DESCRIBE_LOG_DIRS, describe_log_dirs::handle),
    (versions::CREATE_PARTITIONS, create_partitions::handle),
    (versions::DELETE_GROUPS, delete_groups::handle),
    (versions::ELECT_LEADERS, elect_leaders::handle),
    (versions::INCREMENTAL_ALTER_CONFIGS, incremental_alter_configs::handle),
    (versions::LIST_PARTITION_REASSIGNMENTS, list_partition_reassignments::handle),
    (versions::OFFSET_DELETE, offset_delete::handle),
    (versions::DESCRIBE_CLIENT_QUOTAS, describe_client_quotas::handle),
    (versions::DESCRIBE_USER_SCRAM_CREDENTIALS, describe_user_scram_credentials::handle),
    (versions::ALTER_USER_SCRAM_CREDENTIALS, alter_user_scram_credentials::handle),
    (versions::DESCRIBE_CLUSTER, describe_cluster::handle),
    (versions::CONSUMER_GROUP_HEARTBEAT, consumer_group_heartbeat::handle),
    (versions::CONSUMER_GROUP_DESCRIBE, consumer_group_describe::handle),
    (versions::LIST_CONFIG_RESOURCES, list_config_resources::handle),
];

/// The APIs of transactions, by key, where they are served.
static TRANSACTION_HANDLERS: [(i16, Handler); 8] = [
    (versions::ADD_PARTITIONS_TO_TXN, add_partitions_to_txn::handle),
    (versions::ADD_OFFSETS_TO_TXN, add_offsets_to_txn::handle),
    (versions::END_TXN, end_txn::handle),
    (versions::WRITE_TXN_MARKERS, write_txn_markers::handle),
    (versions::TXN_OFFSET_COMMIT, txn_offset_commit::handle),
    (versions::DESCRIBE_PRODUCERS, describe_producers::handle),
    (versions::DESCRIBE_TRANSACTIONS, describe_transactions::handle),
    (versions::LIST_TRANSACTIONS, list_transactions::handle),
];

/// Returns the handler of an API; `None` if the server does not serve it.
fn handler_of(node: &Node, key: i16) -> Option<Handler> {
    let find = |handlers: &[(i16, Handler)]| {
        handlers.binary_search_by_key(&key, |(key, _)| *key).ok().map(|index| handlers[index].1)
    };
    find(&HANDLERS).or_else(|| find(&TRANSACTION_HANDLERS).filter(|_| node.serves_transactions()))
}

/// APIs that do not use the topic table, and so need not read changes of other nodes first.
const KNOW_NO_TOPICS: RangeInclusive<i16> = versions::JOIN_GROUP..=versions::SYNC_GROUP;

/// Handles the request in `frame`. An error closes the connection: undecodable bytes get no answer.
pub fn handle(node: &mut Node, client: &Rc<Client>, frame: &[u8]) -> Outcome {
    if node.cluster().is_some_and(|cluster| cluster.fences_reads())
        && !client.take_confirmed()
        && let Some(confirmed) = offset_fetch::confirm(node, frame)?
    {
        return Ok(Handled::Unconfirmed(confirmed));
    }
    let Some(trace) = client.trace() else { return route(node, client, frame) };
    // The requests of authentication have passwords in them.
    if let Ok((header, body)) = RequestHeader::read(frame)
        && !sasl::authenticates(header.api)
    {
        trace.request(&header, body);
    }
    let handled = route(node, client, frame);
    match handled {
        Ok(Handled::Close | Handled::Expired) => trace.closed(None),
        Err(error) => trace.closed(Some(error)),
        // The request will be handled again.
        Ok(Handled::Paused) => trace.paused(),
        Ok(_) => {}
    }
    handled
}

fn route(node: &mut Node, client: &Rc<Client>, frame: &[u8]) -> Outcome {
    let (header, body) = RequestHeader::read(frame)?;
    if sasl::authenticates(header.api) {
        return Ok(sasl::ask_again(client, &header, node.now_ms()));
    }
    if client.session().has_end() && client.session().is_over(node.now_ms()) {
        return Ok(Handled::Expired);
    }
    if !KNOW_NO_TOPICS.contains(&header.api.key) {
        node.catch_up();
    }
    if let Some(member) = node.paused_sender(&header, body)? {
        client.pause_as(&member);
        return Ok(Handled::Paused);
    }
    let Some(handle) = handler_of(node, header.api.key) else { return Ok(Handled::Close) };
    node.begin_request(header.api.key);
    let answer_start = client.out_bytes();
    let handled = handle(&mut Context::new(node, client, &header, body));
    node.end_request();
    node.keep_repeatable(client, frame, answer_start);
    match node.disturb(header.api.key) {
        None => handled,
        Some(disturbance) => handled.map(|handled| disturbed(handled, disturbance)),
    }
}

/// Applies a network fault of a test to a handled request.
fn disturbed(handled: Handled, disturbance: Disturbance) -> Handled {
    match (disturbance, handled) {
        (Disturbance::Closed, _) | (_, Handled::Answered) => Handled::Disturbed(disturbance),
        (_, later) => Handled::Late(Box::new(later), disturbance),
    }
}

#[cfg(test)]
mod tests {
    use rota_wire::versions::{APIS, Api, TRANSACTION_APIS};

    use super::{HANDLERS, Handler, TRANSACTION_HANDLERS};

    #[test]
    fn every_api_that_is_advertised_has_a_handler_and_no_other() {
        let check = |apis: &[Api], handlers: &[(i16, Handler)]| {
            let advertised: Vec<i16> = apis.iter().map(|api| api.key).collect();
            let handled: Vec<i16> = handlers.iter().map(|(key, _)| *key).collect();
            assert_eq!(handled, advertised);
            assert!(handled.is_sorted());
        };
        check(&APIS, &HANDLERS);
        check(&TRANSACTION_APIS, &TRANSACTION_HANDLERS);
    }
}
