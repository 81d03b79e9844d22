//! What an operator asks of a cluster, as changes of notes. Nodes follow the notes by themselves.

use std::fmt;

use rota_engine::{HistoryId, NodeId, PartitionId, View, requests::PutNote};

use crate::notes::{self, ClusterSettings, NodeState};

/// More producer ids than a cluster gives between a backup and its restore.
const SKIPPED_PRODUCER_IDS: i64 = 1 << 40;

/// A topic whose partitions nodes own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Topic {
    /// `__consumer_offsets`.
    Groups,
    /// `__transaction_state`.
    Transactions,
}

impl Topic {
    fn name(self) -> &'static str {
        match self {
            Topic::Groups => "__consumer_offsets",
            Topic::Transactions => "__transaction_state",
        }
    }
}

/// A partition as an operator names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Placed {
    /// The topic.
    pub topic: Topic,
    /// The number in the topic.
    pub partition: i32,
}

/// Why a change is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refused {
    /// The cluster has no such node. The nodes that it has.
    UnknownNode(NodeId, Vec<NodeId>),
    /// The topic has no such partition. The number of its partitions.
    UnknownPartition(Placed, u32),
    /// The change cannot be.
    Impossible(String),
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refused::UnknownNode(node, known) if known.is_empty() => {
                write!(f, "there is no node {}; no server has joined the cluster", node.0)
            }
            Refused::UnknownNode(node, known) => {
                let known: Vec<String> = known.iter().map(|node| node.0.to_string()).collect();
                write!(f, "there is no node {}; the cluster has {}", node.0, known.join(", "))
            }
            Refused::UnknownPartition(Placed { topic, partition }, 0) => {
                write!(f, "there is no partition {partition}; {} has none in this cluster", topic.name())
            }
            Refused::UnknownPartition(Placed { topic, partition }, partitions) => {
                write!(f, "there is no partition {partition}; {} has 0 to {}", topic.name(), partitions - 1)
            }
            Refused::Impossible(why) => f.write_str(why),
        }
    }
}

/// Writes a note over what the view has; nothing if it has that already.
fn change(view: &View, name: String, value: Option<Vec<u8>>) -> Option<PutNote> {
    let seen = view.notes.get(&name).cloned();
    (seen != value).then_some(PutNote { name, seen, value })
}

fn known(view: &View, node: NodeId) -> Result<(), Refused> {
    let nodes = notes::nodes(view);
    if nodes.contains_key(&node) {
        return Ok(());
    }
    Err(Refused::UnknownNode(node, nodes.into_keys().collect()))
}

/// The node gives its partitions up, and gets no new ones.
pub fn drain(view: &View, node: NodeId) -> Result<Vec<PutNote>, Refused> {
    known(view, node)?;
    let infos = notes::nodes(view);
    let serves = |other: &NodeId| infos[other].state == NodeState::Serving && !notes::is_drained(view, *other);
    if !infos.keys().any(|other| *other != node && serves(other)) {
        let id = node.0;
        return Err(Refused::Impossible(format!(
            "node {id} cannot be drained: no other node could take its partitions; start one, or undrain one"
        )));
    }
    Ok(change(view, notes::drained(node), Some(b"drained".to_vec())).into_iter().collect())
}

/// The node gets partitions again.
pub fn undrain(view: &View, node: NodeId) -> Result<Vec<PutNote>, Refused> {
    known(view, node)?;
    Ok(change(view, notes::drained(node), None).into_iter().collect())
}

/// Returns the partition as the engine numbers it.
fn numbered(view: &View, placed: Placed) -> Result<PartitionId, Refused> {
    let settings = view.notes.get(notes::CLUSTER).and_then(|note| ClusterSettings::read(note));
    let partitions = settings.map(|settings| settings.partitions).unwrap_or_default();
    let count = match placed.topic {
        Topic::Groups => partitions.groups,
        Topic::Transactions => partitions.transactions,
    };
    match (u32::try_from(placed.partition), placed.topic) {
        (Ok(number), Topic::Groups) if number < count => Ok(PartitionId(placed.partition)),
        (Ok(number), Topic::Transactions) if number < count => Ok(partitions.of_transactions(number)),
        _ => Err(Refused::UnknownPartition(placed, count)),
    }
}

/// The node has the partition for as long as it lives and is not drained, until [`unpin`].
pub fn pin(view: &View, placed: Placed, node: NodeId) -> Result<Vec<PutNote>, Refused> {
    let partition = numbered(view, placed)?;
    known(view, node)?;
    if notes::is_drained(view, node) {
        let id = node.0;
        return Err(Refused::Impossible(format!("node {id} is drained: undrain it first")));
    }
    Ok(change(view, notes::pin(partition), Some(node.0.to_string().into())).into_iter().collect())
}

/// The planner places the partition again.
pub fn unpin(view: &View, placed: Placed) -> Result<Vec<PutNote>, Refused> {
    let partition = numbered(view, placed)?;
    Ok(change(view, notes::pin(partition), None).into_iter().collect())
}

/// The cluster does not know the node any more. The caller has made sure that the node is silent: one that lives
/// introduces itself again.
pub fn forget(view: &View, node: NodeId) -> Result<Vec<PutNote>, Refused> {
    known(view, node)?;
    let holds = view.parts.values().filter(|part| part.held && part.node == node).count();
    if holds > 0 {
        let id = node.0;
        return Err(Refused::Impossible(format!(
            "node {id} owns {holds} partitions: others take them over after the TTL, if one runs; then try again"
        )));
    }
    let pins = notes::pins(view).into_iter().filter(|(_, pinned)| *pinned == node);
    let pins = pins.filter_map(|(partition, _)| change(view, notes::pin(partition), None));
    let about = [notes::drained(node), notes::unserved_by(node)];
    let about = about.into_iter().filter_map(|name| change(view, name, None));
    // Last, so that a change that was interrupted can be made again.
    Ok(pins.chain(about).chain(change(view, notes::node(node), None)).collect())
}

/// Names a history that is about to begin, so that processes know it for one that an operator began: the note is written
/// before the history begins.
pub fn announce(view: &View, begin: HistoryId) -> PutNote {
    let (name, seen) = (notes::HISTORIES.to_owned(), view.notes.get(notes::HISTORIES).cloned());
    PutNote { name, seen, value: Some(notes::with_history(view, begin)) }
}

/// What an operator writes before the history `begin` begins.
pub fn before_history(view: &View, begin: HistoryId) -> Vec<PutNote> {
    skip_producer_ids(view, begin).into_iter().flatten().chain([announce(view, begin)]).collect()
}

/// Skips the producer ids that servers may have given since the copy that the engine went back to. Messages on their disks
/// have those: the batches of another producer with such an id would be taken for repetitions. `None`: the note cannot be
/// read, and no server gives ids.
fn skip_producer_ids(view: &View, begin: HistoryId) -> Option<[PutNote; 2]> {
    let put = |name: &str, value: String| {
        let (name, seen) = (name.to_owned(), view.notes.get(name).cloned());
        PutNote { name, seen, value: Some(value.into()) }
    };
    let free = view.notes.get(notes::PRODUCER_IDS).map_or(Some(0), |note| notes::free_producer_id(note))?;
    let first = free.checked_add(SKIPPED_PRODUCER_IDS)?;
    // With the history, no other operator writes the same: to the engine, a note that is there already is written.
    let ids = put(notes::PRODUCER_IDS, format!("{first} {:032x}", begin.0));
    Some([ids, put(notes::FIRST_PRODUCER_ID, first.to_string())])
}

#[cfg(test)]
mod tests {
    use rota_engine::{Epoch, Incarnation, Part, Store};

    use super::*;
    use crate::notes::{NodeInfo, Partitions};

    const PARTITIONS: Partitions = Partitions { groups: 4, transactions: 2 };

    fn view(nodes: &[(i32, NodeState)]) -> View {
        let mut view = Store::new(HistoryId(1)).view;
        let settings = ClusterSettings { id: "c".to_owned(), partitions: PARTITIONS, ttl_ms: 5_000 };
        view.notes.insert(notes::CLUSTER.to_owned(), settings.written());
        for (id, state) in nodes {
            let info = NodeInfo { state: *state, ..NodeInfo::default() };
            view.notes.insert(notes::node(NodeId(*id)), info.written());
        }
        view
    }

    fn carried_out(mut view: View, puts: Vec<PutNote>) -> View {
        for put in puts {
            assert_eq!(view.notes.get(&put.name), put.seen.as_ref());
            match put.value {
                Some(value) => view.notes.insert(put.name, value),
                None => view.notes.remove(&put.name),
            };
        }
        view
    }

    const SERVING: NodeState = NodeState::Serving;

    #[test]
    fn a_node_is_drained_once_and_undrained() {
        let before = view(&[(1, SERVING), (2, SERVING)]);
        let after = carried_out(before.clone(), drain(&before, NodeId(2)).unwrap());
        assert!(notes::is_drained(&after, NodeId(2)));
        assert_eq!(drain(&after, NodeId(2)), Ok(Vec::new()));
        assert_eq!(carried_out(after.clone(), undrain(&after, NodeId(2)).unwrap()), before);
        assert_eq!(undrain(&before, NodeId(2)), Ok(Vec::new()));
    }

    #[test]
    fn the_last_node_that_serves_is_not_drained() {
        let two = view(&[(1, SERVING), (2, NodeState::Left)]);
        assert!(matches!(drain(&two, NodeId(1)), Err(Refused::Impossible(_))));
        let both = view(&[(1, SERVING), (2, SERVING)]);
        let one = carried_out(both.clone(), drain(&both, NodeId(2)).unwrap());
        assert!(matches!(drain(&one, NodeId(1)), Err(Refused::Impossible(_))));
    }

    fn of(topic: Topic, partition: i32) -> Placed {
        Placed { topic, partition }
    }

    #[test]
    fn a_partition_is_placed_on_a_node_that_takes_partitions() {
        let before = view(&[(1, SERVING), (2, SERVING)]);
        for (topic, last, number) in [(Topic::Groups, 3, 3), (Topic::Transactions, 1, 5)] {
            let after = carried_out(before.clone(), pin(&before, of(topic, last), NodeId(2)).unwrap());
            assert_eq!(notes::pins(&after), [(PartitionId(number), NodeId(2))].into());
            assert_eq!(carried_out(after.clone(), unpin(&after, of(topic, last)).unwrap()), before);
            for unknown in [last + 1, -1].map(|partition| of(topic, partition)) {
                let refused = Refused::UnknownPartition(unknown, last as u32 + 1);
                assert_eq!(pin(&before, unknown, NodeId(2)), Err(refused.clone()));
                assert_eq!(unpin(&before, unknown), Err(refused));
            }
        }
        let drained = carried_out(before.clone(), drain(&before, NodeId(2)).unwrap());
        assert!(matches!(pin(&drained, of(Topic::Groups, 3), NodeId(2)), Err(Refused::Impossible(_))));
    }

    #[test]
    fn an_unknown_partition_is_named_with_those_of_its_topic() {
        let unknown = Refused::UnknownPartition(of(Topic::Transactions, 2), 2).to_string();
        assert_eq!(unknown, "there is no partition 2; __transaction_state has 0 to 1");
        // A cluster that an earlier version began.
        let none = Refused::UnknownPartition(of(Topic::Transactions, 0), 0).to_string();
        assert_eq!(none, "there is no partition 0; __transaction_state has none in this cluster");
    }

    #[test]
    fn what_is_said_about_a_node_is_forgotten_with_it() {
        let before = view(&[(1, SERVING), (2, SERVING)]);
        let pinned = carried_out(before.clone(), pin(&before, of(Topic::Groups, 3), NodeId(2)).unwrap());
        let drained = carried_out(pinned.clone(), drain(&pinned, NodeId(2)).unwrap());
        let after = carried_out(drained.clone(), forget(&drained, NodeId(2)).unwrap());
        assert_eq!(after, view(&[(1, SERVING)]));
    }

    #[test]
    fn an_owner_and_a_node_that_is_not_there_are_not_forgotten() {
        let mut before = view(&[(1, SERVING), (2, SERVING)]);
        let mut part = Part { epoch: Epoch(1), node: NodeId(2), incarnation: Incarnation(1), held: true };
        before.parts.insert(PartitionId(0), part);
        assert!(matches!(forget(&before, NodeId(2)), Err(Refused::Impossible(_))));
        part.held = false;
        before.parts.insert(PartitionId(0), part);
        assert!(forget(&before, NodeId(2)).is_ok());
        let unknown = Refused::UnknownNode(NodeId(3), vec![NodeId(1), NodeId(2)]);
        assert_eq!(forget(&before, NodeId(3)), Err(unknown.clone()));
        assert_eq!(unknown.to_string(), "there is no node 3; the cluster has 1, 2");
        let unknown = Refused::UnknownNode(NodeId(3), Vec::new());
        assert_eq!(unknown.to_string(), "there is no node 3; no server has joined the cluster");
    }
}
