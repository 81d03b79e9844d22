//! The cluster as one of its nodes sees it.

use std::collections::BTreeMap;

use rota_engine::{
    HistoryId, NodeId, Part, PartitionId,
    node::{Lost, Stop},
};

use crate::notes::{ClusterSettings, NodeInfo};

/// A node of the cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeRow {
    /// The node.
    pub id: NodeId,
    /// What it says of itself.
    pub info: NodeInfo,
    /// Whether it beats.
    pub is_alive: bool,
    /// Whether an operator drains it.
    pub is_drained: bool,
}

/// A partition of `__consumer_offsets` or `__transaction_state`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PartitionRow {
    /// The owner, or the last one.
    pub owner: Option<NodeId>,
    /// Of the owner; 0 before the first one.
    pub epoch: i32,
    /// False if the owner has released the partition, or there never was one.
    pub is_held: bool,
    /// Which node the plan names.
    pub planned: Option<NodeId>,
    /// Which node answers, or will soon; `None`: none.
    pub coordinator: Option<NodeId>,
    /// Since when the planned node does not hold the partition, by this node's clock; `None`: it does.
    pub moving_since_ms: Option<u64>,
}

/// What this node does.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Standing {
    /// It has not registered with the engine yet.
    #[default]
    Joining,
    /// It is a node of the cluster.
    Member,
    /// It gives everything up.
    Leaving,
    /// It has left.
    Left,
    /// It stopped for good.
    Stopped(String),
}

/// See the module.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClusterTable {
    /// The engine as operators name it.
    pub engine: String,
    /// The engine's history; `None` before it has answered.
    pub history: Option<HistoryId>,
    /// Settings of the cluster; `None` before the engine has answered.
    pub settings: Option<ClusterSettings>,
    /// The nodes, by id.
    pub nodes: Vec<NodeRow>,
    /// The partitions as the engine numbers them: of `__consumer_offsets`, then of `__transaction_state`.
    pub partitions: Vec<PartitionRow>,
    /// The notes of all topics, by topic.
    pub topics: BTreeMap<String, Vec<u8>>,
    /// The notes with settings of groups, by the server's names of the groups.
    pub groups: BTreeMap<String, Vec<u8>>,
    /// What this node does.
    pub standing: Standing,
    /// Why the engine does not answer at present.
    pub trouble: Option<String>,
    /// What operators have to know of the engine although it answers.
    pub warning: Option<String>,
    /// Partitions that this node found damaged, with the damage.
    pub damaged: Vec<(PartitionId, String)>,
}

impl ClusterTable {
    /// The node's row.
    pub fn node(&self, id: NodeId) -> Option<&NodeRow> {
        self.nodes.iter().find(|row| row.id == id)
    }

    /// Which node answers for a partition.
    pub fn coordinator_of(&self, partition: PartitionId) -> Option<NodeId> {
        self.partitions.get(usize::try_from(partition.0).ok()?)?.coordinator
    }

    /// The partitions of `__consumer_offsets`, and those of `__transaction_state`.
    pub fn by_topic(&self) -> (&[PartitionRow], &[PartitionRow]) {
        let groups = self.settings.as_ref().map_or(0, |settings| settings.partitions.groups as usize);
        self.partitions.split_at_checked(groups).unwrap_or_default()
    }
}

/// Writes are lost.
pub(crate) const WENT_BACK: &str = "the engine went back: it lost writes that it had confirmed, as after a restore of an \
                                    older backup; accept the loss with `rota cluster accept-loss`, or stop the engine and \
                                    repair it";
/// It may have been begun by an operator: then the process joins again and says nothing.
pub(crate) const OTHER_HISTORY: &str = "the engine has another history than this process knew; if no operator has begun it \
                                        with `rota cluster accept-loss`, the engine was restored or emptied: accept the \
                                        loss, or stop the engine and repair it";

/// What an engine that went back had confirmed, for operators.
pub(crate) fn what_is_lost(lost: Lost, name: impl Fn(PartitionId) -> String) -> String {
    match lost {
        Lost::Revision { known, answered } => {
            format!("revision {}: it answered a later request at revision {}", known.0, answered.0)
        }
        Lost::Beat(counter) => format!("beat {counter} of this server"),
        Lost::Ownership { partition, mine, shown } => {
            let instead = shown.map_or_else(|| "nothing".to_owned(), owner);
            format!("that {} has {}: it has {instead}", name(partition), owner(mine))
        }
        Lost::End(partition) => format!("the end of {}, behind which this server appends", name(partition)),
    }
}

fn owner(part: Part) -> String {
    let held = if part.held { "" } else { ", released" };
    format!("node {} as its owner in epoch {}{held}", part.node.0, part.epoch.0)
}

/// Why a node stopped, for operators.
pub(crate) fn reason(stop: Stop) -> String {
    let reason = match stop {
        Stop::WentBack => WENT_BACK,
        Stop::OtherHistory(_) => OTHER_HISTORY,
        Stop::Replaced => {
            "another process has this node's id: this one joins again when that one is silent; give each server its own \
             --node-id"
        }
    };
    reason.to_owned()
}

#[cfg(test)]
mod tests {
    use rota_engine::{Epoch, Incarnation, Revision};

    use super::*;

    #[test]
    fn an_operator_reads_what_is_lost() {
        let text = |lost| what_is_lost(lost, |partition| format!("__consumer_offsets-{}", partition.0));
        let part =
            |epoch, node, held| Part { epoch: Epoch(epoch), node: NodeId(node), incarnation: Incarnation(1), held };
        let (partition, mine) = (PartitionId(3), part(5, 1, true));
        assert_eq!(
            text(Lost::Revision { known: Revision(12), answered: Revision(9) }),
            "revision 12: it answered a later request at revision 9"
        );
        assert_eq!(text(Lost::Beat(7)), "beat 7 of this server");
        assert_eq!(
            text(Lost::Ownership { partition, mine, shown: Some(part(4, 2, false)) }),
            "that __consumer_offsets-3 has node 1 as its owner in epoch 5: it has node 2 as its owner in epoch 4, released"
        );
        assert_eq!(
            text(Lost::Ownership { partition, mine, shown: None }),
            "that __consumer_offsets-3 has node 1 as its owner in epoch 5: it has nothing"
        );
        assert_eq!(text(Lost::End(partition)), "the end of __consumer_offsets-3, behind which this server appends");
    }
}
