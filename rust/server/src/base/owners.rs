//! Which node coordinates which partition of `__consumer_offsets`, as every node sees it.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

/// The id of the first node; the others count up from it.
pub const FIRST_NODE: i32 = 1;

/// Nodes that a server may have.
pub const NODES_MAX: u32 = 1_000;

/// Who coordinates a partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Owner {
    /// The node.
    pub node_id: i32,
    /// How often the partition has been handed over.
    pub epoch: u32,
}

/// The owners of all partitions. Read without a lock; written by the node that takes a partition over.
#[derive(Debug)]
pub struct Owners {
    nodes: u32,
    /// The node's id above the epoch.
    slots: Box<[AtomicU64]>,
}

impl Owners {
    /// Partitions go round the nodes.
    pub fn new(partitions: u32, nodes: u32) -> Arc<Owners> {
        let node_of = |partition: u32| Owner { node_id: FIRST_NODE + (partition % nodes) as i32, epoch: 0 };
        let slots = (0..partitions).map(|partition| AtomicU64::new(packed(node_of(partition)))).collect();
        Arc::new(Owners { nodes, slots })
    }

    /// How many nodes there are.
    pub fn nodes(&self) -> u32 {
        self.nodes
    }

    /// The ids of all nodes.
    pub fn node_ids(&self) -> impl Iterator<Item = i32> {
        (0..self.nodes).map(|at| FIRST_NODE + at as i32)
    }

    /// How many partitions there are.
    pub fn partitions(&self) -> u32 {
        self.slots.len() as u32
    }

    /// Who coordinates `partition`; `None`: there is no such partition.
    pub fn of(&self, partition: u32) -> Option<Owner> {
        let slot = self.slots.get(partition as usize)?.load(Ordering::Acquire);
        Some(Owner { node_id: (slot >> 32) as i32, epoch: slot as u32 })
    }

    /// From now on `owner` coordinates `partition`.
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
