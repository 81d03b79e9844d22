//! Nodes that are down, and the answers of the other nodes about them.

use std::sync::atomic::{AtomicBool, Ordering};

use kafka_protocol::messages::MetadataResponse;
use rota_core::error::ErrorCode;

/// The leader id of a partition without a leader.
const NO_LEADER: i32 = -1;

/// The nodes that are down.
#[derive(Debug)]
pub struct Outages {
    first_node: i32,
    down: Vec<AtomicBool>,
}

impl Outages {
    /// Creates the state of `nodes` running nodes with ids from `first_node` on.
    pub fn of(first_node: i32, nodes: usize) -> Outages {
        Outages { first_node, down: (0..nodes).map(|_| AtomicBool::new(false)).collect() }
    }

    fn flag(&self, node_id: i32) -> Option<&AtomicBool> {
        self.down.get(usize::try_from(node_id.checked_sub(self.first_node)?).ok()?)
    }

    /// Whether a node is down.
    pub fn is_down(&self, node_id: i32) -> bool {
        self.flag(node_id).is_some_and(|down| down.load(Ordering::Acquire))
    }

    /// Marks a node as down or running. Returns whether that changed anything.
    pub fn mark(&self, node_id: i32, is_down: bool) -> bool {
        self.flag(node_id).is_some_and(|down| down.swap(is_down, Ordering::AcqRel) != is_down)
    }

    /// Returns the ids of the nodes that are down.
    pub fn ids(&self) -> Vec<i32> {
        (self.first_node..).take(self.down.len()).filter(|node_id| self.is_down(*node_id)).collect()
    }
}

/// Removes leaders that are down from a Metadata answer, as Kafka does for partitions with one replica.
pub fn clear_leaders(response: &mut MetadataResponse, is_down: impl Fn(i32) -> bool) {
    for partition in response.topics.iter_mut().flat_map(|topic| &mut topic.partitions) {
        if is_down(partition.leader_id.0) {
            partition.error_code = ErrorCode::LeaderNotAvailable.code();
            partition.leader_id = NO_LEADER.into();
            partition.offline_replicas = std::mem::take(&mut partition.isr_nodes);
        }
    }
}
