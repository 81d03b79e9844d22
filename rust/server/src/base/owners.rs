//! The owners of the partitions of `__consumer_offsets`, shared by all nodes.

use std::sync::{
    Arc, PoisonError, RwLock,
    atomic::{AtomicU64, Ordering},
};

/// The id of the first node. The others count up from it.
pub const FIRST_NODE: i32 = 1;

/// The node id of a partition that no node owns.
pub const NO_NODE: i32 = -1;

/// Maximum nodes of a server.
pub const NODES_MAX: u32 = 1_000;

/// The owner of a partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Owner {
    /// The node id.
    pub node_id: i32,
    /// Number of handovers of the partition.
    pub epoch: u32,
}

/// The owners of all partitions. Reads take no lock; the node that takes a partition over writes.
#[derive(Debug)]
pub struct Owners {
    nodes: u32,
    /// The nodes that may lead partitions of topics, ascending.
    node_ids: RwLock<Arc<[i32]>>,
    /// The node id in the upper bits, the epoch in the lower.
    slots: Box<[AtomicU64]>,
}

impl Owners {
    /// Assigns partitions to the nodes in turn.
    pub fn new(partitions: u32, nodes: u32) -> Arc<Owners> {
        let node_of = |partition: u32| Owner { node_id: FIRST_NODE + (partition % nodes) as i32, epoch: 0 };
        let slots = (0..partitions).map(|partition| AtomicU64::new(packed(node_of(partition)))).collect();
        let node_ids = RwLock::new((FIRST_NODE..).take(nodes as usize).collect());
        Arc::new(Owners { nodes, node_ids, slots })
    }

    /// The partitions of a cluster of several servers, as this server knows before it has joined: without owners.
    pub fn of_cluster(partitions: u32, node_id: i32) -> Arc<Owners> {
        let none = Owner { node_id: NO_NODE, epoch: 0 };
        let slots = (0..partitions).map(|_| AtomicU64::new(packed(none))).collect();
        Arc::new(Owners { nodes: 1, node_ids: RwLock::new(Arc::new([node_id])), slots })
    }

    /// Sets the nodes that may lead partitions of topics.
    pub fn set_node_ids(&self, node_ids: Arc<[i32]>) {
        *self.node_ids.write().unwrap_or_else(PoisonError::into_inner) = node_ids;
    }

    /// Returns the number of nodes.
    pub fn nodes(&self) -> u32 {
        self.nodes
    }

    /// Returns the ids of all nodes, ascending; never empty.
    pub fn node_ids(&self) -> Arc<[i32]> {
        Arc::clone(&self.node_ids.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Returns the number of partitions.
    pub fn partitions(&self) -> u32 {
        self.slots.len() as u32
    }

    /// Returns the owner of `partition`; `None` if it does not exist.
    pub fn of(&self, partition: u32) -> Option<Owner> {
        let slot = self.slots.get(partition as usize)?.load(Ordering::Acquire);
        Some(Owner { node_id: (slot >> 32) as i32, epoch: slot as u32 })
    }

    /// Sets the owner of `partition`.
    pub fn set(&self, partition: u32, owner: Owner) {
        if let Some(slot) = self.slots.get(partition as usize) {
            slot.store(packed(owner), Ordering::Release);
        }
    }
}

fn packed(owner: Owner) -> u64 {
    (owner.node_id as u64) << 32 | u64::from(owner.epoch)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn partitions_go_round_the_nodes_until_they_are_handed_over() {
        let owners = Owners::new(5, 2);
        let nodes: Vec<_> = (0..5).filter_map(|partition| owners.of(partition)).map(|owner| owner.node_id).collect();
        assert_eq!(nodes, [1, 2, 1, 2, 1]);
        owners.set(4, Owner { node_id: 2, epoch: 7 });
        assert_eq!(owners.of(4), Some(Owner { node_id: 2, epoch: 7 }));
        assert_eq!((owners.of(5), owners.nodes(), owners.partitions()), (None, 2, 5));
    }
}
