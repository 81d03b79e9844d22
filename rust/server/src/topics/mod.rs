//! The topic table and its APIs: Metadata, `CreateTopics`, `DeleteTopics`, `CreatePartitions`, Produce, Fetch,
//! `ListOffsets` and `InitProducerId`.
//!
//! One [`Topics`] belongs to one node's thread: it has the data of the partitions that the node leads, and a snapshot
//! of the table that all nodes share ([`TopicTable`]). What another node leads is refused with
//! `NOT_LEADER_OR_FOLLOWER`. Nothing here does IO, reads a clock or draws random numbers: wall time comes in as
//! `now_ms`, the bits of new topic ids through [`Entropy`]. Messages are kafka-protocol's, decoded and encoded
//! by the caller in the `version` that is passed along.
//!
//! | call | versions | returns |
//! |---|---|---|
//! | `Topics::new(settings, &mut entropy)` | | the topics of a server's only node: `__consumer_offsets` |
//! | `Topics::of_node(table, node_id)` | | the topics of one of several nodes |
//! | `catch_up()`, `take_deleted()` | | nothing: it takes the newest snapshot; the names that other nodes have deleted |
//! | `create(name, partitions, &mut entropy)` | | the new topic's id; for callers without a request |
//! | `metadata(&request, version, &cluster, &mut entropy)` | 0–13 | `MetadataResponse`; may create topics |
//! | `create_topics(&request, &mut entropy)` | 2–7 | `CreateTopicsResponse` |
//! | `delete_topics(&request, version)` | 1–6 | [`Deletion`]: the response and the names that are gone, for `Coordinator::topics_deleted` |
//! | `log_dir()`, `sizes(asked)` | | for `DescribeLogDirs` |
//! | `delete_records(&request)` | 0–2 | `DeleteRecordsResponse` |
//! | `create_partitions(&request)` | 0–3 | `CreatePartitionsResponse` |
//! | `produce(&request, version, now_ms)` | 3–13 | [`ProduceOutcome`]; with acks 0 nothing is written, and the connection is closed if `has_error`, as Kafka does |
//! | `fetch(&request, version)` | 4–18 | [`FetchOutcome`]: answer it at once if `outcome.is_complete(&request)`, else wait |
//! | `watch(&request, version, &notify)` / `unwatch(id)` | 4–18 | the id of a watch, which calls `notify.notify_one()` when a partition of the request gets data, and a last time when one is deleted |
//! | `take_unread(&mut request, version)` | 4–18 | what a Fetch that waits gets errors for; the request keeps the rest |
//! | `write_marker(name, partition, marker, now_ms)` | | [`MarkerOutcome`]: a durable marker, an error, or an append in flight |
//! | `describe_producers(&request)` | 0 | `DescribeProducersResponse` |
//! | `list_offsets(&request, version)` | 1–10 | `ListOffsetsResponse` |
//! | `offset_for_leader_epoch(&request)` | 2–4 | `OffsetForLeaderEpochResponse` |
//! | `config_rows(name, broker)` | | the topic's settings, for `DescribeConfigs` |
//! | `init_producer_id(&request)` | 0–5 | `InitProducerIdResponse` |
//! | `partition_count(name)`, `topic_id(name)`, `topic_name(id)`, `names()` | | the facts that the offset APIs check |
//! | `log_end(name, partition)` | | the end offset of a partition that the node leads and can read |
//!
//! To wait for data: `fetch`; if it is not complete, `take_unread`, and `fetch` again if `changes()` is another number by
//! then. `watch` with a `Notify` of the connection, and wait for the notification or `max_wait_ms`. `fetch` again if the
//! time is up or `may_be_complete(&request, version, &seen)`, where `seen` is what the last fetch has seen; else wait
//! again, after another `watch` if not `is_watching(id)`. `unwatch` at the end.
//!
//! Fetches are always answered in full with session id 0 ("no session"), which every client accepts.
//! `__consumer_offsets` is listed and read like another topic; clients may not produce to it or delete it.

use std::{collections::HashMap, sync::Arc};

use bytes::Bytes;
use kafka_protocol::{
    messages::{FetchRequest, fetch_request::FetchTopic},
    protocol::StrBytes,
};
use rota_core::error::ErrorCode;
use rota_log::{LogError, TransactionIndex};
use uuid::Uuid;

use self::{
    disk::{KAFKAS_OWN, OnDisk},
    name::metric_name,
    offsets_records::OffsetsRecords,
    partition_data::{DiskRecords, Records},
    produce::Appends,
    producers::Producers,
    snapshot::{Table, Topic},
    table::Change,
};
use crate::{
    base::{
        owners::{FIRST_NODE, Owners},
        topic_settings::{PARTITIONS_MAX, PARTITIONS_PER_TOPIC_MAX},
    },
    log::offsets_log::SharedLog,
};

mod alter_configs;
mod claims;
pub(crate) mod configs;
mod create_on_disk;
mod create_partitions;
mod create_topics;
pub mod delete_records;
mod delete_topics;
mod describe_producers;
mod disk;
#[cfg(test)]
mod disk_reads;
mod fetch;
mod init_producer_id;
mod keys;
pub mod leader_epoch;
pub mod list_offsets;
mod log_dirs;
mod markers;
pub mod metadata;
mod name;
mod offsets_records;
mod partition_data;
mod produce;
mod producers;
mod refusal;
pub(crate) mod retention;
mod shared;
mod snapshot;
mod starts;
mod table;
mod transactions;
mod verify;
mod waiting;
mod watches;

pub use crate::base::place::{Cluster, Node};
pub use crate::{base::topic_settings as settings, log::CONSUMER_OFFSETS};
pub use delete_topics::Deletion;
pub use describe_producers::refused as refuse_describe_producers;
pub use fetch::FetchOutcome;
pub use markers::{MarkerOutcome, error_of};
pub use name::{NameError, check_name};
pub use produce::{AppendToken, ProduceOutcome};
pub use settings::TopicSettings;
pub use shared::{Image, SharedTopics, leaders_in_note};
pub use table::TopicTable;
pub use verify::{SECOND_PROTOCOL_SINCE, Served, TRANSACTIONS_REFUSED, Verify, error_of_verdict, must_ask};
pub use waiting::{Seen, Unread};
pub use watches::WatchId;

pub use configs::ConfigRow;

use self::{
    configs::{BrokerValue, TopicConfigs},
    watches::{Watch, WatchCounts},
};

/// The first leader epoch of user topics. They have no other, unless Kafka wrote their messages, or the last run did not
/// sync them.
const LEADER_EPOCH: i32 = 0;

/// The leader of a partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Leader {
    node_id: i32,
    epoch: i32,
}

/// The source of random bits for new ids.
pub trait Entropy {
    /// Returns 128 random bits.
    fn draw(&mut self) -> u128;
}

impl Entropy for crate::base::entropy::RandomBits {
    fn draw(&mut self) -> u128 {
        crate::base::entropy::RandomBits::draw(self)
    }
}

/// Why a topic cannot be created or changed: the protocol error and its message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TopicError {
    /// The protocol error.
    pub code: ErrorCode,
    /// What is wrong in the request, and what was expected.
    pub message: String,
}

impl TopicError {
    fn new(code: ErrorCode, message: impl Into<String>) -> TopicError {
        TopicError { code, message: message.into() }
    }
}

impl std::fmt::Display for TopicError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.code.name(), self.message)
    }
}

impl std::error::Error for TopicError {}

#[derive(Debug, Default)]
struct Partition {
    log: Records,
    /// As of all batches, also those in flight.
    producers: Producers,
    /// As of the durable batches.
    transactions: TransactionIndex,
    /// Watches of waiting fetches.
    watches: Vec<WatchId>,
    /// Bytes of batches that readers have got since the start.
    arrived_bytes: u64,
}

/// The topics of a node.
#[derive(Debug)]
pub struct Topics {
    settings: TopicSettings,
    node_id: i32,
    owner: Arc<TopicTable>,
    /// The newest snapshot known to this node, and its version.
    table: Arc<Table>,
    version: u64,
    /// The kind of change while the owner is locked.
    changed: Change,
    /// Topics deleted by other nodes.
    deleted: Vec<String>,
    /// Data of the partitions that this node leads, once used.
    data: HashMap<(Uuid, i32), Partition>,
    /// The state of each partition that has no data yet.
    untouched: Partition,
    watches: HashMap<WatchId, Watch>,
    watch_counts: WatchCounts,
    /// Number of times that watches of a partition were due.
    changes: u64,
    /// Topics that the change under way has removed from the table.
    removed: Vec<Arc<Topic>>,
    /// Batches in flight to the disk.
    appends: Appends,
}

impl Topics {
    /// Creates the topics of a single node, with `__consumer_offsets` only.
    pub fn new(settings: TopicSettings, entropy: &mut impl Entropy) -> Topics {
        let owners = Owners::new(settings.offsets_partitions, 1);
        Topics::of_node(TopicTable::new(settings, owners, Vec::new(), entropy), FIRST_NODE)
    }

    /// Creates the topics of one of several nodes.
    pub fn of_node(owner: Arc<TopicTable>, node_id: i32) -> Topics {
        let mut topics = Topics {
            settings: owner.settings.clone(),
            node_id,
            owner,
            table: Arc::default(),
            version: 0,
            changed: Change::None,
            deleted: Vec::new(),
            data: HashMap::new(),
            untouched: Partition::default(),
            watches: HashMap::new(),
            watch_counts: WatchCounts::default(),
            changes: 0,
            removed: Vec::new(),
            appends: Appends::default(),
        };
        topics.catch_up();
        topics.find_on_disk();
        topics
    }

    /// Lets clients read `__consumer_offsets`, whose records are in the log of the groups.
    pub fn serve_offsets(&mut self, log: &Arc<SharedLog>) {
        let Some(topic) = self.table.topic(CONSUMER_OFFSETS) else { return };
        let partitions = (0..topic.leaders.len() as i32).map(|index| {
            let log = Records::Offsets(OffsetsRecords::new(log, index));
            ((topic.id, index), Partition { log, ..Partition::default() })
        });
        self.data.extend(partitions.collect::<Vec<_>>());
    }

    /// Looks for transactions in a partition of `__consumer_offsets` that a client reads. `is_over`: whether the groups are
    /// sure that a producer has no open transaction there.
    pub fn follow_offsets(&mut self, index: i32, is_over: impl Fn(i64) -> bool) {
        let Some(id) = self.topic_id(CONSUMER_OFFSETS) else { return };
        let Some(partition) = self.data.get_mut(&(id, index)) else { return };
        let Partition { log: Records::Offsets(records), transactions, .. } = partition else { return };
        // A reader sees that it cannot be read.
        let _unreadable = records.follow(transactions);
        if !records.is_followed() || transactions.first_open().is_none() {
            return;
        }
        // Compaction may remove a marker before it is seen here.
        let open = transactions.producers().filter(|(_, producer)| producer.first_offset.is_some());
        let over: Vec<i64> = open.map(|(producer_id, _)| producer_id).filter(|id| is_over(*id)).collect();
        for producer_id in over {
            transactions.close(producer_id);
        }
    }

    /// Returns the partitions of `__consumer_offsets` that a Fetch names.
    pub fn fetched_offsets(&self, request: &FetchRequest) -> Vec<i32> {
        let is_named = |topic: &FetchTopic| {
            let name =
                if topic.topic_id.is_nil() { Some(topic.topic.as_str()) } else { self.topic_name(topic.topic_id) };
            name == Some(CONSUMER_OFFSETS)
        };
        let partitions = request.topics.iter().filter(|topic| is_named(topic)).flat_map(|topic| &topic.partitions);
        partitions.map(|partition| partition.partition).collect()
    }

    /// Wakes the fetches that wait for records of a partition of `__consumer_offsets`.
    pub fn wake_offsets_readers(&mut self, index: i32) {
        if self.watches.is_empty() {
            self.changes += 1;
        } else if let Some(id) = self.topic_id(CONSUMER_OFFSETS) {
            self.wake((id, index));
        }
    }

    /// Adds the partitions on disk that this node leads.
    fn find_on_disk(&mut self) {
        let Some(disk) = &self.owner.disk else { return };
        let mut found = disk.all();
        found.retain(|(place, _)| {
            let leader = self.table.name_by_id.get(&place.0).and_then(|name| self.table.topic(name));
            leader.and_then(|topic| topic.leaders.get(place.1 as usize)) == Some(&self.node_id)
        });
        self.add_from_disk(found);
    }

    /// Adds partitions on disk, with their transactions.
    fn add_from_disk(&mut self, found: Vec<((Uuid, i32), OnDisk)>) {
        let Some(disk) = &self.owner.disk else { return };
        let transactions = disk.transactions(found.iter().map(|(_, on_disk)| on_disk.handle).collect());
        // A store that is closed answers nothing.
        let closed = || Err(LogError::Stopped { reason: "it was closed".into() });
        let transactions = transactions.into_iter().chain(std::iter::repeat_with(closed));
        for ((place, on_disk), transactions) in found.into_iter().zip(transactions) {
            let mut records = DiskRecords::new(on_disk);
            let transactions = transactions.unwrap_or_else(|error| {
                let topic = self.table.name_by_id.get(&place.0).map_or("", StrBytes::as_str);
                disk.refuse(&records.on_disk, &format!("{topic}-{}", place.1), &error);
                None
            });
            let refusal = records.on_disk.view.refusal();
            // A marker or a transaction of a refused partition must not say on disk that these are its first ones.
            records.has_transactions = transactions.is_some() || refusal.is_some();
            if let Some(refusal) = refusal {
                records.stop_for_good(&refusal);
            }
            if let Some(transactions) = &transactions {
                records.on_disk.view.keep_open(transactions.first_open());
                disk.complete_aborted(&records.on_disk, transactions);
            }
            let (log, transactions) = (Records::Disk(records), transactions.unwrap_or_default());
            let watches = self.data.remove(&place).map(|before| before.watches).unwrap_or_default();
            self.data.insert(place, Partition { log, transactions, watches, ..Partition::default() });
        }
    }

    /// Creates a topic; `partitions` -1 is `num.partitions`. Errors: `InvalidTopicException`, `TopicAlreadyExists`,
    /// `InvalidPartitions`; `NotController` on a server that cannot change topics at present.
    pub fn create(&mut self, name: &str, partitions: i32, entropy: &mut impl Entropy) -> Result<Uuid, TopicError> {
        self.changing(|topics| topics.create_in_change(name, partitions, entropy))
    }

    fn create_in_change(
        &mut self,
        name: &str,
        partitions: i32,
        entropy: &mut impl Entropy,
    ) -> Result<Uuid, TopicError> {
        self.check_known()?;
        self.check_new_name(name)?;
        let partitions = self.check_new_partitions(partitions)?;
        Ok(self.insert(name, partitions, None, TopicConfigs::default(), entropy))
    }

    /// Returns the number of partitions of `name`; `None` if the topic does not exist.
    pub fn partition_count(&self, name: &str) -> Option<i32> {
        self.topic(name).map(|topic| topic.leaders.len() as i32)
    }

    /// Returns false on a node of a cluster that the engine has not answered yet: whether a topic exists is not known.
    pub fn is_known(&self) -> bool {
        self.owner.is_known()
    }

    /// Refuses a change while the topics are not known. Clients ask again, also for topics that they want to delete.
    pub fn check_known(&self) -> Result<(), TopicError> {
        if self.is_known() {
            return Ok(());
        }
        Err(TopicError::new(ErrorCode::NotController, "this server has not joined the cluster yet"))
    }

    /// Returns the version of the snapshot of this node.
    pub fn version(&self) -> u64 {
        self.version
    }

    /// Returns the id of topic `name`.
    pub fn topic_id(&self, name: &str) -> Option<Uuid> {
        self.topic(name).map(|topic| topic.id)
    }

    /// Returns the name of the topic with this id.
    pub fn topic_name(&self, id: Uuid) -> Option<&str> {
        self.table.name_by_id.get(&id).map(StrBytes::as_str)
    }

    /// Iterates over all topics by name, with `__consumer_offsets`.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.table.by_name.keys().map(StrBytes::as_str)
    }

    /// Returns the next offset of a partition; `None` if this node does not lead it, or cannot read it.
    pub fn log_end(&self, name: &str, index: i32) -> Option<i64> {
        let (partition, _epoch) = self.partition(self.topic(name)?, index).ok()?;
        Some(partition.log.next_offset())
    }

    /// Returns the id of the node that leads a partition; `None` if it does not exist.
    pub fn leader_id(&self, name: &str, index: i32) -> Option<i32> {
        Some(self.leader(self.topic(name)?, index)?.node_id)
    }

    /// Reads whole batches of a partition that this node leads, from the one with offset `from` on, or the first offset if that
    /// is later; empty at the end. Returns that offset, too. Errors: `UnknownTopicOrPartition`, `NotLeaderOrFollower`,
    /// `KafkaStorageError`.
    pub fn read(&self, name: &str, index: i32, from: i64, max_bytes: usize) -> Result<(i64, Bytes), ErrorCode> {
        let topic = self.topic(name).ok_or(ErrorCode::UnknownTopicOrPartition)?;
        let (partition, _epoch) = self.partition(topic, index)?;
        let from = from.max(partition.log.first_offset());
        partition.log.read(from, max_bytes, true).map(|slice| (from, slice.bytes))
    }

    /// Returns the settings of a topic, with defaults of the broker. Errors: `InvalidTopicException`,
    /// `UnknownTopicOrPartition`.
    pub fn config_rows(&self, name: &str, broker: BrokerValue<'_>) -> Result<Vec<ConfigRow>, TopicError> {
        check_name(name).map_err(|why| TopicError::new(ErrorCode::InvalidTopicException, why.to_string()))?;
        let unknown = || TopicError::new(ErrorCode::UnknownTopicOrPartition, format!("there is no topic `{name}`"));
        Ok(self.topic(name).ok_or_else(unknown)?.configs.rows(broker))
    }

    fn topic(&self, name: &str) -> Option<&Topic> {
        self.table.topic(name)
    }

    /// Returns the leader of a partition; `None` if it does not exist.
    fn leader(&self, topic: &Topic, index: i32) -> Option<Leader> {
        let at = usize::try_from(index).ok()?;
        let node_id = *topic.leaders.get(at)?;
        if topic.internal {
            // The owner of its coordinator.
            let owner = self.owner.owners.of(index as u32)?;
            return Some(Leader { node_id: owner.node_id, epoch: owner.epoch as i32 });
        }
        Some(Leader { node_id, epoch: self.owner.leader_epoch(topic.id, index) })
    }

    /// Returns the leader epoch of a partition that this node leads. Errors: `UnknownTopicOrPartition`,
    /// `NotLeaderOrFollower`.
    fn led(&self, topic: &Topic, index: i32) -> Result<i32, ErrorCode> {
        match self.leader(topic, index) {
            None => Err(ErrorCode::UnknownTopicOrPartition),
            Some(leader) if leader.node_id == self.node_id => Ok(leader.epoch),
            Some(_) => Err(ErrorCode::NotLeaderOrFollower),
        }
    }

    /// Returns a partition that this node leads, with its leader epoch. Errors: those of `led`; `KafkaStorageError` if
    /// it cannot be read, because then neither its ends nor its epochs are known.
    fn partition(&self, topic: &Topic, index: i32) -> Result<(&Partition, i32), ErrorCode> {
        let epoch = self.led(topic, index)?;
        if topic.internal && self.owner.shared().is_some() {
            // The engine of the cluster has the records.
            return Err(ErrorCode::InvalidTopicException);
        }
        let partition = self.data.get(&(topic.id, index)).unwrap_or(&self.untouched);
        partition.log.check_readable()?;
        Ok((partition, epoch))
    }

    /// Returns the topic of a request, by id or name.
    fn asked<'t>(&'t self, by_id: bool, name: &'t str, id: Uuid) -> Result<(&'t str, &'t Topic), ErrorCode> {
        let (name, unknown) = if by_id {
            (self.topic_name(id).ok_or(ErrorCode::UnknownTopicId)?, ErrorCode::UnknownTopicId)
        } else {
            (name, ErrorCode::UnknownTopicOrPartition)
        };
        self.topic(name).map(|topic| (name, topic)).ok_or(unknown)
    }

    fn check_new_name(&self, name: &str) -> Result<(), TopicError> {
        check_name(name).map_err(|why| TopicError::new(ErrorCode::InvalidTopicException, why.to_string()))?;
        if self.topic(name).is_some() {
            return Err(TopicError::new(ErrorCode::TopicAlreadyExists, format!("topic `{name}` already exists")));
        }
        if KAFKAS_OWN.contains(&name) {
            let message = format!("`{name}` is Kafka's own topic, which no client can create");
            return Err(TopicError::new(ErrorCode::InvalidTopicException, message));
        }
        match self.table.name_by_metric_name.get(&metric_name(name)) {
            Some(other) => Err(TopicError::new(
                ErrorCode::InvalidTopicException,
                format!(
                    "topic `{name}` differs from topic `{other}` in `.` and `_` only, which metrics cannot tell apart"
                ),
            )),
            None => Ok(()),
        }
    }

    /// Returns the number of partitions of a new topic. Checks the limits before any allocation.
    fn check_new_partitions(&self, asked: i32) -> Result<usize, TopicError> {
        let count = if asked == -1 { self.settings.num_partitions } else { asked };
        if count < 1 {
            let message =
                format!("a topic cannot have {count} partitions: give a positive number, or -1 for the default");
            return Err(TopicError::new(ErrorCode::InvalidPartitions, message));
        }
        self.check_partition_limits(count, count as usize)
    }

    fn check_partition_limits(&self, count: i32, added: usize) -> Result<usize, TopicError> {
        let left = PARTITIONS_MAX.saturating_sub(self.table.partition_total);
        let message = if count > PARTITIONS_PER_TOPIC_MAX {
            format!("a topic cannot have {count} partitions here, the limit is {PARTITIONS_PER_TOPIC_MAX}")
        } else if added > left {
            format!("{added} more partitions would be too many, the limit for all topics is {PARTITIONS_MAX}")
        } else {
            return Ok(added);
        };
        Err(TopicError::new(ErrorCode::InvalidPartitions, message))
    }

    /// Adds a checked topic, led by `leaders` or, by default, by the nodes in turn.
    fn insert(
        &mut self,
        name: &str,
        partitions: usize,
        leaders: Option<Vec<i32>>,
        configs: TopicConfigs,
        entropy: &mut impl Entropy,
    ) -> Uuid {
        let mut id = uuid::Builder::from_random_bytes(entropy.draw().to_be_bytes()).into_uuid();
        while self.table.name_by_id.contains_key(&id) {
            id = Uuid::from_u128(id.as_u128().wrapping_add(1));
        }
        let node_ids = self.owner.owners.node_ids();
        let table = self.table_mut(Change::Added);
        let leaders = leaders.unwrap_or_else(|| table.next_leaders(partitions, &node_ids));
        table.insert(name, Topic { id, internal: false, configs, leaders });
        id
    }

    /// Removes a topic from the table. Its data goes once that is stored.
    fn remove(&mut self, name: &str) {
        let removed = self.table_mut(Change::Removed).remove(name);
        self.removed.extend(removed);
    }

    /// Drops this node's data of a deleted topic, and wakes fetches that wait for it.
    fn drop_data(&mut self, topic: &Topic) {
        self.changes += 1;
        for index in 0..topic.leaders.len() as i32 {
            if let Some(partition) = self.data.remove(&(topic.id, index)) {
                self.owner.count_bytes(0, partition.memory_bytes());
                self.end_watches(partition.watches);
            }
        }
    }
}

/// Refuses changes of `__consumer_offsets`: its number of partitions determines the partition of a group.
fn refuse_internal(name: &str) -> Result<(), TopicError> {
    if name == CONSUMER_OFFSETS {
        let message = format!("`{CONSUMER_OFFSETS}` belongs to the group coordinator and cannot be changed");
        return Err(TopicError::new(ErrorCode::InvalidTopicException, message));
    }
    Ok(())
}

/// Returns the first position and number of occurrences of each name.
fn occurrences<'a>(names: impl Iterator<Item = &'a str>) -> HashMap<&'a str, (usize, usize)> {
    let mut found: HashMap<&str, (usize, usize)> = HashMap::new();
    for (at, name) in names.enumerate() {
        found.entry(name).or_insert((at, 0)).1 += 1;
    }
    found
}
