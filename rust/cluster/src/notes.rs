//! The notes of a cluster: their names and their content as text.

use std::{collections::BTreeMap, fmt::Write as _};

use rota_engine::{HistoryId, NodeId, PartitionId, View};

/// Settings that all nodes of a cluster share. The first node writes them.
pub const CLUSTER: &str = "cluster";
/// How the note of the settings begins until an import has ended. No server joins then.
pub const IMPORTING: &[u8] = b"importing=";
/// Which node each partition should have.
pub const PLAN: &str = "plan";
/// Before the id of a node: [`NodeInfo`].
const NODE: &str = "node/";
/// Before the id of a node that should own nothing.
const DRAINED: &str = "drained/";
/// Before the name of a topic. The server says what its note has.
const TOPIC: &str = "topic/";
/// Before the name under which the server keeps the settings of a group.
const GROUP: &str = "group/";
/// Before the id of a node that does not serve what it should: [`Unserved`] of each partition.
const UNSERVED: &str = "unserved/";
/// Before the number of a partition that an operator has placed.
const PIN: &str = "pin/";
/// The histories that operators have begun, in order.
pub const HISTORIES: &str = "histories";
/// The first producer id that no server has taken.
pub const PRODUCER_IDS: &str = "producer-ids";
/// The first producer id of this history: lost ones gave those below.
pub const FIRST_PRODUCER_ID: &str = "first-producer-id";
/// The setting of the number of partitions of `__consumer_offsets`.
pub const OFFSETS_PARTITIONS: &str = "offsets.topic.num.partitions";
/// The setting of the number of partitions of `__transaction_state`.
pub const TRANSACTION_PARTITIONS: &str = "transaction.state.log.num.partitions";

/// The name of a node's note.
pub fn node(id: NodeId) -> String {
    format!("{NODE}{}", id.0)
}

/// The name of the note that drains a node.
pub fn drained(id: NodeId) -> String {
    format!("{DRAINED}{}", id.0)
}

/// The name of a topic's note.
pub fn topic(name: &str) -> String {
    format!("{TOPIC}{name}")
}

/// The notes of all topics, by topic.
pub fn topics(view: &View) -> BTreeMap<String, Vec<u8>> {
    after(TOPIC, view)
}

/// The name of the note with the settings of a group.
pub fn group(name: &str) -> String {
    format!("{GROUP}{name}")
}

/// The notes with settings of groups, by the server's names of the groups.
pub fn groups(view: &View) -> BTreeMap<String, Vec<u8>> {
    after(GROUP, view)
}

/// The notes whose names begin so, by the rest of the name.
fn after(prefix: &str, view: &View) -> BTreeMap<String, Vec<u8>> {
    let found = |(name, note): (&String, &Vec<u8>)| Some((name.strip_prefix(prefix)?.to_owned(), note.clone()));
    view.notes.iter().filter_map(found).collect()
}

/// The name of the note that places a partition.
pub fn pin(partition: PartitionId) -> String {
    format!("{PIN}{}", partition.0)
}

/// The partitions that the nodes of a cluster share. In the engine, those of `__transaction_state` have the numbers after
/// those of `__consumer_offsets`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Partitions {
    /// Number of partitions of `__consumer_offsets`.
    pub groups: u32,
    /// Number of partitions of `__transaction_state`; 0: a version of rota without them began the cluster.
    pub transactions: u32,
}

impl Partitions {
    /// Number of all partitions.
    pub const fn count(self) -> u32 {
        self.groups + self.transactions
    }

    /// All partitions as the engine numbers them.
    pub fn all(self) -> impl Iterator<Item = PartitionId> {
        (0..self.count() as i32).map(PartitionId)
    }

    /// A partition of `__transaction_state` as the engine numbers it.
    pub const fn of_transactions(self, partition: u32) -> PartitionId {
        PartitionId((self.groups + partition) as i32)
    }

    /// The number in `__transaction_state` of a partition of the engine; `None`: it is one of `__consumer_offsets`.
    pub fn in_transactions(self, partition: PartitionId) -> Option<u32> {
        u32::try_from(partition.0).ok()?.checked_sub(self.groups)
    }

    /// A partition as operators name it, such as `partition 3 of __consumer_offsets`.
    pub fn name(self, partition: PartitionId) -> String {
        match self.in_transactions(partition) {
            None => format!("partition {} of __consumer_offsets", partition.0),
            Some(number) => format!("partition {number} of __transaction_state"),
        }
    }
}

/// Settings that all nodes of a cluster share.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusterSettings {
    /// The cluster id that clients see.
    pub id: String,
    /// The partitions.
    pub partitions: Partitions,
    /// So long a node is silent before others take its partitions over.
    pub ttl_ms: u64,
}

impl ClusterSettings {
    /// As a note.
    pub fn written(&self) -> Vec<u8> {
        let ClusterSettings { id, partitions: Partitions { groups, transactions }, ttl_ms } = self;
        let partitions = format!("{OFFSETS_PARTITIONS}={groups}\n{TRANSACTION_PARTITIONS}={transactions}\n");
        format!("id={id}\n{partitions}ttl.ms={ttl_ms}\n").into()
    }

    /// From a note; `None` if it is none.
    pub fn read(note: &[u8]) -> Option<ClusterSettings> {
        let fields = fields(note)?;
        let field = |name: &str| fields.iter().find(|(known, _)| known == name).map(|(_, value)| value.clone());
        Some(ClusterSettings {
            id: field("id")?,
            partitions: Partitions {
                groups: field(OFFSETS_PARTITIONS)?.parse().ok()?,
                transactions: field(TRANSACTION_PARTITIONS).map_or(Some(0), |count| count.parse().ok())?,
            },
            ttl_ms: field("ttl.ms")?.parse().ok()?,
        })
    }
}

/// Whether a node wants partitions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum NodeState {
    /// It does.
    #[default]
    Serving,
    /// It stops, and gives its partitions up.
    Leaving,
    /// It has stopped and owns nothing.
    Left,
}

impl NodeState {
    /// All states with their names.
    const NAMES: [(NodeState, &'static str); 3] =
        [(NodeState::Serving, "serving"), (NodeState::Leaving, "leaving"), (NodeState::Left, "left")];

    /// The name.
    pub fn name(self) -> &'static str {
        NodeState::NAMES.iter().find(|(state, _)| *state == self).map_or("", |(_, name)| name)
    }
}

/// A node's address for the clients of one listener.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Address {
    /// The listener's name, such as `EXTERNAL`.
    pub listener: String,
    /// Host name or address.
    pub host: String,
    /// The port.
    pub port: u16,
}

/// What a node says of itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeInfo {
    /// Addresses, one for each listener.
    pub addresses: Vec<Address>,
    /// Version of rota.
    pub version: String,
    /// Whether it wants partitions.
    pub state: NodeState,
    /// When its process began, in milliseconds since 1970 by its own clock, for operators; 0: it did not say.
    pub started_ms: u64,
}

impl NodeInfo {
    /// As a note.
    pub fn written(&self) -> Vec<u8> {
        let NodeInfo { version, state, started_ms, addresses } = self;
        let mut text = format!("version={version}\nstate={}\nstarted.ms={started_ms}\n", state.name());
        for Address { listener, host, port } in addresses {
            let _always = writeln!(text, "listener={listener} {port} {host}");
        }
        text.into()
    }

    /// From a note; `None` if it is none.
    pub fn read(note: &[u8]) -> Option<NodeInfo> {
        let mut info = NodeInfo::default();
        for (name, value) in fields(note)? {
            match name.as_str() {
                "version" => info.version = value,
                "state" => info.state = NodeState::NAMES.iter().find(|(_, name)| *name == value)?.0,
                "started.ms" => info.started_ms = value.parse().ok()?,
                "listener" => {
                    let mut parts = value.splitn(3, ' ');
                    let (listener, port, host) = (parts.next()?, parts.next()?, parts.next()?);
                    let port = port.parse().ok()?;
                    info.addresses.push(Address { listener: listener.to_owned(), host: host.to_owned(), port });
                }
                // Of a later version.
                _ => {}
            }
        }
        Some(info)
    }
}

fn fields(note: &[u8]) -> Option<Vec<(String, String)>> {
    let text = std::str::from_utf8(note).ok()?;
    text.lines().map(|line| line.split_once('=').map(|(name, value)| (name.to_owned(), value.to_owned()))).collect()
}

/// Which node each partition should have, by partition.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan(pub Vec<Option<NodeId>>);

impl Plan {
    /// As a note.
    pub fn written(&self) -> Vec<u8> {
        let ids: Vec<String> = self.0.iter().map(|node| node.map_or(-1, |node| node.0).to_string()).collect();
        ids.join(",").into()
    }

    /// From a note; `None` if it is none.
    pub fn read(note: &[u8]) -> Option<Plan> {
        let text = std::str::from_utf8(note).ok()?;
        let id = |id: &str| id.parse::<i32>().ok().map(|id| (id >= 0).then_some(NodeId(id)));
        text.split(',').map(id).collect::<Option<Vec<_>>>().map(Plan)
    }

    /// The plan in a view.
    pub fn of(view: &View) -> Plan {
        view.notes.get(PLAN).and_then(|note| Plan::read(note)).unwrap_or_default()
    }

    /// The planned node of a partition.
    pub fn node_of(&self, partition: PartitionId) -> Option<NodeId> {
        self.0.get(usize::try_from(partition.0).ok()?).copied().flatten()
    }
}

/// What the nodes say of themselves.
pub fn nodes(view: &View) -> BTreeMap<NodeId, NodeInfo> {
    let info = |(name, note): (&String, &Vec<u8>)| {
        let id = name.strip_prefix(NODE)?.parse().ok()?;
        Some((NodeId(id), NodeInfo::read(note)?))
    };
    view.notes.iter().filter_map(info).collect()
}

/// A partition that its planned node has not served for long.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unserved {
    /// Since when, in milliseconds since 1970 by the node's own clock, for operators.
    pub since_ms: u64,
    /// What the node does instead.
    pub reason: String,
}

/// The name of the note with what a node does not serve.
pub fn unserved_by(id: NodeId) -> String {
    format!("{UNSERVED}{}", id.0)
}

/// A note of partitions that a node does not serve; `None`: there is none.
pub fn unserved_written(unserved: &BTreeMap<PartitionId, Unserved>) -> Option<Vec<u8>> {
    let line = |(partition, of): (&PartitionId, &Unserved)| format!("{}={} {}\n", partition.0, of.since_ms, of.reason);
    (!unserved.is_empty()).then(|| unserved.iter().map(line).collect::<String>().into())
}

/// The partitions that their planned nodes do not serve, as these say.
pub fn unserved(view: &View) -> BTreeMap<PartitionId, (NodeId, Unserved)> {
    let plan = Plan::of(view);
    let of_node = |(name, note): (&String, &Vec<u8>)| {
        let id = NodeId(name.strip_prefix(UNSERVED)?.parse().ok()?);
        let lines = fields(note)?.into_iter();
        let found = lines.filter_map(|(partition, said)| {
            let (since_ms, reason) = said.split_once(' ')?;
            let said = Unserved { since_ms: since_ms.parse().ok()?, reason: reason.to_owned() };
            Some((PartitionId(partition.parse().ok()?), (id, said)))
        });
        Some(found.collect::<Vec<_>>())
    };
    let said = view.notes.iter().filter_map(of_node).flatten();
    // The plan may have given it to another node since.
    said.filter(|(partition, (id, _))| plan.node_of(*partition) == Some(*id)).collect()
}

/// The histories that operators have begun, in order. One that an operator is about to begin may be the last.
pub fn begun(view: &View) -> Vec<HistoryId> {
    let text = view.notes.get(HISTORIES).and_then(|note| std::str::from_utf8(note).ok());
    let id = |word: &str| u128::from_str_radix(word, 16).ok().map(HistoryId);
    text.unwrap_or_default().split(',').filter_map(id).collect()
}

/// The note of the histories that operators have begun, with one more.
pub fn with_history(view: &View, begin: HistoryId) -> Vec<u8> {
    let all = begun(view).into_iter().chain([begin]);
    let words: Vec<String> = all.map(|history| format!("{:032x}", history.0)).collect();
    words.join(",").into()
}

/// The first producer id of this history. No history was lost before the first one.
pub fn first_producer_id(view: &View) -> i64 {
    view.notes.get(FIRST_PRODUCER_ID).and_then(|note| std::str::from_utf8(note).ok()?.parse().ok()).unwrap_or(0)
}

/// The first producer id that no server has taken, in its note; `None`: the note cannot be read.
pub fn free_producer_id(note: &[u8]) -> Option<i64> {
    std::str::from_utf8(note).ok()?.split(' ').next()?.parse().ok()
}

/// Whether an operator drains the node.
pub fn is_drained(view: &View, id: NodeId) -> bool {
    view.notes.contains_key(&drained(id))
}

/// Where operators have placed partitions.
pub fn pins(view: &View) -> BTreeMap<PartitionId, NodeId> {
    let pin = |(name, note): (&String, &Vec<u8>)| {
        let partition = name.strip_prefix(PIN)?.parse().ok()?;
        Some((PartitionId(partition), NodeId(std::str::from_utf8(note).ok()?.parse().ok()?)))
    };
    view.notes.iter().filter_map(pin).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notes_are_read_as_they_were_written() {
        let partitions = Partitions { groups: 16, transactions: 8 };
        let settings = ClusterSettings { id: "abc".to_owned(), partitions, ttl_ms: 5_000 };
        assert_eq!(ClusterSettings::read(&settings.written()), Some(settings));
        let older = ClusterSettings::read(b"id=abc\noffsets.topic.num.partitions=16\nttl.ms=5000\n").unwrap();
        assert_eq!(older.partitions, Partitions { groups: 16, transactions: 0 });
        let addresses = vec![Address { listener: "PLAINTEXT".to_owned(), host: "::1".to_owned(), port: 9092 }];
        let info = NodeInfo { addresses, version: "1.2".to_owned(), state: NodeState::Leaving, started_ms: 7 };
        assert_eq!(NodeInfo::read(&info.written()), Some(info));
        let plan = Plan(vec![Some(NodeId(1)), None, Some(NodeId(30))]);
        assert_eq!(plan.written(), b"1,-1,30");
        assert_eq!(Plan::read(&plan.written()), Some(plan));
    }

    #[test]
    fn what_is_not_served_is_of_the_node_that_should() {
        let mut view = rota_engine::Store::new(HistoryId(1)).view;
        let said = |reason: &str| Unserved { since_ms: 7, reason: reason.to_owned() };
        let of_two = [(PartitionId(0), said("claims = it")), (PartitionId(1), said("gives it up"))].into();
        view.notes.insert(unserved_by(NodeId(2)), unserved_written(&of_two).unwrap());
        view.notes.insert(PLAN.to_owned(), Plan(vec![Some(NodeId(2)), Some(NodeId(1))]).written());
        assert_eq!(unserved(&view), [(PartitionId(0), (NodeId(2), said("claims = it")))].into());
        assert_eq!(unserved_written(&BTreeMap::new()), None);
    }

    #[test]
    fn partitions_of_transactions_come_after_those_of_groups() {
        let partitions = Partitions { groups: 4, transactions: 2 };
        assert_eq!(partitions.all().last(), Some(PartitionId(5)));
        assert_eq!(partitions.of_transactions(1), PartitionId(5));
        assert_eq!(partitions.in_transactions(PartitionId(5)), Some(1));
        assert_eq!(partitions.in_transactions(PartitionId(3)), None);
        assert_eq!(partitions.name(PartitionId(3)), "partition 3 of __consumer_offsets");
        assert_eq!(partitions.name(PartitionId(4)), "partition 0 of __transaction_state");
    }

    #[test]
    fn what_is_no_note_is_not_read() {
        assert_eq!(ClusterSettings::read(b"id=a\nttl.ms=x\n"), None);
        assert_eq!(NodeInfo::read(b"state=asleep\n"), None);
        assert_eq!(NodeInfo::read(b"listener=PLAINTEXT\n"), None);
        assert_eq!(Plan::read(b"1,,2"), None);
        assert_eq!(Plan::read(b"\xff"), None);
    }
}
