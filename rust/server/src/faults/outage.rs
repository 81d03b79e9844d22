//! Nodes that are down: what the others tell clients about them.

use std::sync::atomic::{AtomicBool, Ordering};

use kafka_protocol::messages::MetadataResponse;
use rota_core::error::ErrorCode;

use crate::base::owners::FIRST_NODE;

/// No node leads a partition.
const NO_LEADER: i32 = -1;

/// Which nodes are down.
#[derive(Debug)]
pub struct Outages {
    down: Vec<AtomicBool>,
}

impl Outages {
    /// Of so many nodes, none of which is down.
    pub fn of(nodes: usize) -> Outages {
        Outages { down: (0..nodes).map(|_| AtomicBool::new(false)).collect() }
    }

    fn flag(&self, node_id: i32) -> Option<&AtomicBool> {
        self.down.get(usize::try_from(node_id - FIRST_NODE).ok()?)
    }

    /// Whether a node is down.
    pub fn is_down(&self, node_id: i32) -> bool {
        self.flag(node_id).is_some_and(|down| down.load(Ordering::Acquire))
    }

    /// Marks a node. Returns whether that changed anything.
    pub fn mark(&self, node_id: i32, is_down: bool) -> bool {
        self.flag(node_id).is_some_and(|down| down.swap(is_down, Ordering::AcqRel) != is_down)
    }

    /// The ids of the nodes that are down.
    pub fn ids(&self) -> Vec<i32> {
        (FIRST_NODE..).take(self.down.len()).filter(|node_id| self.is_down(*node_id)).collect()
    }
}

/// Partitions that a node leads which is down have no leader, as Kafka says of partitions with one replica.
pub fn lead_nowhere(response: &mut MetadataResponse, outages: &Outages) {
    for partition in response.topics.iter_mut().flat_map(|topic| &mut topic.partitions) {
        if outages.is_down(partition.leader_id.0) {
            partition.error_code = ErrorCode::LeaderNotAvailable.code();
            partition.leader_id = NO_LEADER.into();
            partition.offline_replicas = std::mem::take(&mut partition.isr_nodes);
        }
    }
}
