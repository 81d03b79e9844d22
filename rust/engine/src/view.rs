//! The small keys that every node watches: who there is, who lives, who owns what.

use std::collections::BTreeMap;

use crate::ids::{Directory, Epoch, HistoryId, Incarnation, NodeId, PartitionId, Revision};

/// What every request is compared with first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Meta {
    /// Of the engine's content.
    pub history: HistoryId,
    /// What nodes may write.
    pub format: u32,
}

/// A node that was started at least once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Registration {
    /// Whose id it is, for ever.
    pub directory: Directory,
    /// The process that runs, or ran last.
    pub incarnation: Incarnation,
}

/// A sign of life.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Beat {
    /// Who beats.
    pub incarnation: Incarnation,
    /// Grows with each beat of the incarnation.
    pub counter: u64,
}

/// Who owns a partition: the routing, and the fence.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Part {
    /// Of the ownership.
    pub epoch: Epoch,
    /// The owner, or the last one.
    pub node: NodeId,
    /// Its process.
    pub incarnation: Incarnation,
    /// False after a release.
    pub held: bool,
}

/// What an owner shows with each write: the [`Part`] that its claim wrote.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Token {
    /// Of the ownership.
    pub epoch: Epoch,
    /// The owner.
    pub node: NodeId,
    /// Its process.
    pub incarnation: Incarnation,
    /// The revision of the claim.
    pub claimed: Revision,
}

impl Token {
    /// What the engine has while the token is valid. Compared by value: revisions are given out again after a restore.
    pub fn part(&self) -> Part {
        Part { epoch: self.epoch, node: self.node, incarnation: self.incarnation, held: true }
    }
}

/// A whole image of the small keys, at one revision.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct View {
    /// Of the image.
    pub revision: Revision,
    /// Of the engine's content.
    pub meta: Meta,
    /// Nodes that were started.
    pub nodes: BTreeMap<NodeId, Registration>,
    /// The last beat of each node.
    pub beats: BTreeMap<NodeId, Beat>,
    /// Partitions that had an owner.
    pub parts: BTreeMap<PartitionId, Part>,
    /// Small keys beside the protocol: addresses, the plan, topics, settings.
    pub notes: BTreeMap<String, Vec<u8>>,
}
