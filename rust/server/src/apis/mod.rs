//! The APIs: one request, one file. [`HANDLERS`] is the table of all.
//!
//! A handler gets a [`Context`], which has the verbs of the node, the request, and the way back to its client. It
//! decodes the request, and either answers it or hands it to a coordinator, whose answer comes back by a ticket. A new API
//! is a file with a function `handle`, a line in the table, and its versions in `rota_wire::versions`.

mod api_versions;
mod consumer_group_describe;
mod consumer_group_heartbeat;
pub mod context;
mod create_partitions;
mod create_topics;
mod delete_groups;
mod delete_topics;
mod describe_cluster;
mod describe_configs;
mod describe_groups;
pub mod fetch;
mod find_coordinator;
mod heartbeat;
mod init_producer_id;
mod join_group;
mod leave_group;
mod list_groups;
mod list_offsets;
mod metadata;
mod offset_commit;
mod offset_delete;
mod offset_fetch;
mod offset_for_leader_epoch;
mod produce;
mod sync_group;
mod unknown_topics;

use std::{ops::RangeInclusive, rc::Rc};

use rota_wire::{RequestHeader, versions};

use self::{
    context::{Context, Outcome},
    fetch::FetchWait,
};
use crate::{client::Client, faults::Disturbance, node::Node};

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
    /// Its answer is in the connection's buffer, and a test wants the network to lose it or to be late.
    Disturbed(Disturbance),
    /// Its answer, which comes later, is to be late.
    Late(Box<Handled>, Disturbance),
    /// The connection is to be closed.
    Close,
}

/// Handles one request.
type Handler = fn(&mut Context<'_>) -> Outcome;

/// Every API that is served, by key.
static HANDLERS: [(i16, Handler); 25] = [
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
    (versions::INIT_PRODUCER_ID, init_producer_id::handle),
    (versions::OFFSET_FOR_LEADER_EPOCH, offset_for_leader_epoch::handle),
    (versions::DESCRIBE_CONFIGS, describe_configs::handle),
    (versions::CREATE_PARTITIONS, create_partitions::handle),
    (versions::DELETE_GROUPS, delete_groups::handle),
    (versions::OFFSET_DELETE, offset_delete::handle),
    (versions::DESCRIBE_CLUSTER, describe_cluster::handle),
    (versions::CONSUMER_GROUP_HEARTBEAT, consumer_group_heartbeat::handle),
    (versions::CONSUMER_GROUP_DESCRIBE, consumer_group_describe::handle),
];

/// These do not look at the topic table: what other nodes have done to it can wait for another request.
const KNOW_NO_TOPICS: RangeInclusive<i16> = versions::JOIN_GROUP..=versions::SYNC_GROUP;

/// Handles the request in `frame`. An error closes the connection: there is no answer to what cannot be read.
pub fn handle(node: &mut Node, client: &Rc<Client>, frame: &[u8]) -> Outcome {
    let Some(trace) = client.trace() else { return route(node, client, frame) };
    if let Ok((header, body)) = RequestHeader::read(frame) {
        trace.request(&header, body);
    }
    let handled = route(node, client, frame);
    match handled {
        Ok(Handled::Close) => trace.closed(None),
        Err(error) => trace.closed(Some(error)),
        // It will come here again.
        Ok(Handled::Paused) => trace.paused(),
        Ok(_) => {}
    }
    handled
}

fn route(node: &mut Node, client: &Rc<Client>, frame: &[u8]) -> Outcome {
    let (header, body) = RequestHeader::read(frame)?;
    if !KNOW_NO_TOPICS.contains(&header.api.key) {
        node.catch_up();
    }
    if let Some(member) = node.paused_sender(&header, body)? {
        client.pause_as(&member);
        return Ok(Handled::Paused);
    }
    let Ok(index) = HANDLERS.binary_search_by_key(&header.api.key, |(key, _)| *key) else { return Ok(Handled::Close) };
    node.begin_request(header.api.key);
    let handled = HANDLERS[index].1(&mut Context::new(node, client, &header, body));
    node.end_request();
    match node.disturb(header.api.key) {
        None => handled,
        Some(disturbance) => handled.map(|handled| disturbed(handled, disturbance)),
    }
}

/// What a test wants the network to do to a request that has been handled.
fn disturbed(handled: Handled, disturbance: Disturbance) -> Handled {
    match (disturbance, handled) {
        (Disturbance::Closed, _) | (_, Handled::Answered) => Handled::Disturbed(disturbance),
        (_, later) => Handled::Late(Box::new(later), disturbance),
    }
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
