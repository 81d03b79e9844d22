//! The topic table: one owner for all nodes, which publishes immutable snapshots.
//!
//! A node changes the table under the owner's lock and publishes the result. Other nodes read the version without a
//! lock, and take a new snapshot at their next request about topics.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    mem,
    sync::{
        Arc, Mutex, OnceLock, PoisonError,
        atomic::{AtomicI64, AtomicU64, Ordering},
    },
};

use rota_core::error::ErrorCode;
use rota_log::{LogError, store::Command};
use tokio::sync::Notify;
use uuid::Uuid;

use super::{
    CONSUMER_OFFSETS, Entropy, LEADER_EPOCH, TopicError, Topics,
    claims::Claims,
    configs::TopicConfigs,
    disk::{Found, TopicDisk},
    partition_data::DiskRecords,
    settings::TopicSettings,
    shared::SharedTopics,
    snapshot::{Table, Topic},
};
use crate::{
    base::{
        error::ServerError,
        owners::{FIRST_NODE, Owners},
    },
    log::{
        data_dir::DataDir,
        node_file::{Home, NODE_FILE},
    },
};

/// The owner of the table, and other state shared by all nodes' topics.
#[derive(Debug)]
pub struct TopicTable {
    pub(super) settings: TopicSettings,
    pub(super) owners: Arc<Owners>,
    published: Mutex<Arc<Table>>,
    /// Number of publications.
    version: AtomicU64,
    /// Bytes of records on all nodes.
    pub(super) log_bytes: AtomicU64,
    next_producer_id: AtomicI64,
    wakers: Vec<Arc<Notify>>,
    /// Leader epochs above 0, of partitions whose messages Kafka wrote.
    epochs: HashMap<(Uuid, i32), i32>,
    /// Topics on disk; `None`: in memory.
    pub(super) disk: Option<TopicDisk>,
    /// Messages on the disk of a node of a cluster; `None`: they are in memory, or the server is alone.
    pub(super) claims: OnceLock<Claims>,
    /// The topics of a cluster of several servers; empty: this server has its own.
    shared: OnceLock<SharedTopics>,
}

impl TopicTable {
    /// A table with `__consumer_offsets` only. Deleting topics notifies every waker, so that nodes drop their waits.
    pub fn new(
        settings: TopicSettings,
        owners: Arc<Owners>,
        wakers: Vec<Arc<Notify>>,
        entropy: &mut impl Entropy,
    ) -> Arc<TopicTable> {
        let id = random_id(entropy);
        TopicTable::with(settings, owners, wakers, entropy, id, Vec::new(), None)
    }

    /// A table of a server that is a node of a cluster, with `__consumer_offsets` only: the others arrive. `data`: where
    /// its messages are, and where that directory was used before. Errors: `BadData`.
    pub fn of_cluster(
        settings: TopicSettings,
        owners: Arc<Owners>,
        wakers: &[Arc<Notify>],
        entropy: &mut impl Entropy,
        data: Option<(&DataDir, Option<Home>)>,
        node_id: i32,
    ) -> Result<Arc<TopicTable>, ServerError> {
        let disk = data.as_ref().map(|(data, _)| TopicDisk::new(data)).transpose()?;
        // The same id on all servers.
        let id = Uuid::from_bytes(*b"__consumer_offse");
        let table = TopicTable::with(settings, owners, wakers.to_vec(), entropy, id, Vec::new(), disk);
        if let Some((data, home)) = data {
            let claims = Claims::find(Arc::clone(&data.store), data.text_file(NODE_FILE), node_id, home);
            let _first = table.claims.set(claims);
        }
        Ok(table)
    }

    /// Makes topics those of a cluster, once.
    pub fn share(&self, topics: SharedTopics) {
        // A second one would not be the cluster's.
        let _once = self.shared.set(topics);
    }

    /// Returns the topics of the cluster; `None`: this server has its own.
    pub fn shared(&self) -> Option<&SharedTopics> {
        self.shared.get()
    }

    /// Returns false on a node of a cluster that the engine has not answered yet: whether a topic exists is not known.
    pub fn is_known(&self) -> bool {
        self.shared().is_none_or(SharedTopics::is_known)
    }

    /// Reads the table of a data directory. Errors: `BadData`.
    pub fn in_data_dir(
        data: &DataDir,
        settings: TopicSettings,
        owners: Arc<Owners>,
        wakers: Vec<Arc<Notify>>,
        entropy: &mut impl Entropy,
    ) -> Result<Arc<TopicTable>, ServerError> {
        let disk = TopicDisk::new(data)?;
        let found = disk.find(owners.nodes()).map_err(|reason| data.bad(&reason))?;
        let id = Uuid::from_u128(data.offsets_id);
        Ok(TopicTable::with(settings, owners, wakers, entropy, id, found, Some(disk)))
    }

    fn with(
        settings: TopicSettings,
        owners: Arc<Owners>,
        wakers: Vec<Arc<Notify>>,
        entropy: &mut impl Entropy,
        id: Uuid,
        found: Vec<Found>,
        disk: Option<TopicDisk>,
    ) -> Arc<TopicTable> {
        // Producer ids start at random, so that a producer that outlives a server does not meet its old id.
        let next_producer_id = AtomicI64::new((entropy.draw() >> 82) as i64);
        let mut table = Table::default();
        let leaders = table.next_leaders(owners.partitions() as usize, &owners.node_ids());
        let topic = Topic { id, internal: true, configs: TopicConfigs::of_consumer_offsets(), leaders };
        table.insert(CONSUMER_OFFSETS, topic);
        table.next_leader = table.next_leader.wrapping_add(found.len() as u32);
        for Found { name, topic } in found {
            table.insert(&name, topic);
        }
        Arc::new(TopicTable {
            epochs: disk.as_ref().map(TopicDisk::later_epochs).unwrap_or_default(),
            settings,
            owners,
            published: Mutex::new(Arc::new(table)),
            version: AtomicU64::new(1),
            log_bytes: AtomicU64::new(0),
            next_producer_id,
            wakers,
            disk,
            claims: OnceLock::new(),
            shared: OnceLock::new(),
        })
    }

    /// Returns the newest snapshot.
    pub(super) fn published(&self) -> Arc<Table> {
        Arc::clone(&self.published.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Returns a new producer id; `None`: the engine of the cluster has not given more yet.
    pub(super) fn new_producer_id(&self) -> Option<i64> {
        match self.shared.get() {
            Some(shared) => shared.new_producer_id(),
            None => Some(self.next_producer_id.fetch_add(1, Ordering::Relaxed)),
        }
    }

    /// Returns the id of the node that leads a partition; `None` if it does not exist.
    pub(crate) fn leader_id(&self, name: &str, index: i32) -> Option<i32> {
        let published = self.published();
        published.topic(name)?.leaders.get(usize::try_from(index).ok()?).copied()
    }

    /// Returns the leader epoch of a partition of a user topic.
    pub(super) fn leader_epoch(&self, id: Uuid, index: i32) -> i32 {
        self.epochs.get(&(id, index)).copied().unwrap_or(LEADER_EPOCH)
    }

    /// The waker of a node; `None` if there is no such node.
    pub(super) fn waker(&self, node_id: i32) -> Option<Arc<Notify>> {
        let at = if self.shared.get().is_some() { 0 } else { (node_id - FIRST_NODE) as usize };
        self.wakers.get(at).cloned()
    }

    /// Calls `act` while the topic exists and cannot be deleted; `None` if it does not exist.
    pub(super) fn while_there<R>(&self, id: Uuid, act: impl FnOnce() -> R) -> Option<R> {
        let published = self.published.lock().unwrap_or_else(PoisonError::into_inner);
        published.name_by_id.contains_key(&id).then(act)
    }

    /// Calls `act` with the topics, which cannot be deleted meanwhile.
    pub(super) fn while_published<R>(&self, act: impl FnOnce(&Table) -> R) -> R {
        act(&self.published.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Drops the oldest segments of a partition beyond `limit_bytes`.
    pub(super) fn trim(&self, records: &DiskRecords, limit_bytes: u64) {
        let partition = records.on_disk.handle;
        if let Some(disk) = &self.disk {
            disk.submit(Command::Trim { partition, limit_bytes, below: 0 }, |_| ());
        }
    }

    /// Adds and subtracts bytes of all records.
    pub(super) fn count_bytes(&self, added: u64, removed: u64) {
        self.log_bytes.fetch_add(added, Ordering::Relaxed);
        self.log_bytes.fetch_sub(removed, Ordering::Relaxed);
    }
}

/// Returns the id of a new topic.
fn random_id(entropy: &mut impl Entropy) -> Uuid {
    uuid::Builder::from_random_bytes(entropy.draw().to_be_bytes()).into_uuid()
}

/// The result of a change of the table, which becomes a refusal if the table cannot be stored.
pub(super) trait Refusable {
    /// Turns the result into a refusal.
    fn refused(self, error: &TopicError) -> Self;

    /// Notes the deleted topics whose files remain, and why. They are in no table any more.
    fn left_on_disk(self, _left: &BTreeMap<Uuid, LogError>) -> Self
    where
        Self: Sized,
    {
        self
    }
}

impl Topics {
    /// Takes the newest snapshot, and drops the data of deleted topics.
    pub fn catch_up(&mut self) {
        if self.owner.version.load(Ordering::Acquire) != self.version {
            let owner = Arc::clone(&self.owner);
            let published = owner.published.lock().unwrap_or_else(PoisonError::into_inner);
            let version = owner.version.load(Ordering::Acquire);
            self.adopt(&published, version);
        }
    }

    /// Returns the names of topics that other nodes deleted since the last call.
    pub fn take_deleted(&mut self) -> Vec<String> {
        mem::take(&mut self.deleted)
    }

    /// Takes the topics that the cluster has, if they are newer than this server's last change.
    pub fn follow_cluster(&mut self) {
        let owner = Arc::clone(&self.owner);
        let Some(shared) = owner.shared.get() else { return };
        let mut published = owner.published.lock().unwrap_or_else(PoisonError::into_inner);
        self.adopt(&published, owner.version.load(Ordering::Acquire));
        let Some((table, home)) = shared.take(&self.table) else { return };
        let before = Arc::clone(&self.table);
        if let Some(table) = table {
            *published = Arc::new(table);
            let version = owner.version.fetch_add(1, Ordering::AcqRel) + 1;
            self.adopt(&published, version);
        }
        drop(published);
        if let (Some(disk), Some(claims), Some(home)) = (&owner.disk, owner.claims.get(), home) {
            let may_be_lost = claims.is_used_at(home);
            claims.disown(disk, &self.gone_since(&before), may_be_lost);
        }
        self.claim_from_disk();
    }

    /// On a node of a cluster, takes the partitions on disk that topics of this node claim.
    fn claim_from_disk(&mut self) {
        let owner = Arc::clone(&self.owner);
        if let (Some(disk), Some(claims)) = (&owner.disk, owner.claims.get()) {
            let claimed = claims.claim(&self.table);
            if !claimed.is_empty() {
                disk.add(&claimed);
                self.add_from_disk(claimed);
            }
        }
    }

    fn adopt(&mut self, published: &Arc<Table>, version: u64) {
        if version == self.version {
            return;
        }
        self.version = version;
        let before = mem::replace(&mut self.table, Arc::clone(published));
        for (name, topic) in &before.by_name {
            if !self.table.name_by_id.contains_key(&topic.id) {
                self.deleted.push(name.to_string());
                self.drop_data(topic);
            }
        }
    }

    /// Changes the table under the owner's lock, and publishes it.
    pub(super) fn changing<R: Refusable>(&mut self, change: impl FnOnce(&mut Topics) -> R) -> R {
        let owner = Arc::clone(&self.owner);
        let mut published = owner.published.lock().unwrap_or_else(PoisonError::into_inner);
        self.adopt(&published, owner.version.load(Ordering::Acquire));
        // A change that cannot be stored is undone.
        let is_kept = owner.disk.is_some() || owner.shared.get().is_some();
        let before = is_kept.then(|| Arc::clone(&self.table));
        // A snapshot that no other node holds is changed in place, while the lock prevents reads.
        *published = Arc::default();
        self.changed = Change::None;
        let mut result = change(self);
        if let Some(before) = before.filter(|_| self.changed != Change::None) {
            let saved = match (owner.shared.get(), &owner.disk) {
                (Some(shared), _) => shared.save(&before, &self.table),
                (None, Some(disk)) => disk.save(&self.table).map_err(|error| error.to_string()),
                (None, None) => Ok(()),
            };
            match (saved, &owner.disk) {
                (Ok(()), Some(disk)) if self.changed == Change::Removed => {
                    result = result.left_on_disk(&disk.delete(&self.gone_since(&before)));
                }
                (Ok(()), _) => {}
                (Err(error), _) => {
                    self.table = before;
                    self.removed.clear();
                    self.changed = Change::None;
                    let message = format!("the topic table cannot be written: {error}");
                    // Clients send a change again that another server, or this one later, can make.
                    let is_shared = owner.shared.get().is_some();
                    let code = if is_shared { ErrorCode::NotController } else { ErrorCode::KafkaStorageError };
                    result = result.refused(&TopicError::new(code, message));
                }
            }
        }
        for topic in std::mem::take(&mut self.removed) {
            self.drop_data(&topic);
        }
        *published = Arc::clone(&self.table);
        if self.changed != Change::None {
            self.version = owner.version.fetch_add(1, Ordering::AcqRel) + 1;
        }
        drop(published);
        if self.changed == Change::Added {
            self.claim_from_disk();
        }
        if self.changed == Change::Removed {
            owner.wakers.iter().for_each(|waker| waker.notify_one());
        }
        result
    }

    /// Returns the topics that were in the table `before` and are no longer.
    fn gone_since(&self, before: &Table) -> HashSet<Uuid> {
        let ids = before.by_name.values().map(|topic| topic.id);
        ids.filter(|id| !self.table.name_by_id.contains_key(id)).collect()
    }

    /// Returns the table, to be changed.
    pub(super) fn table_mut(&mut self, change: Change) -> &mut Table {
        self.changed = self.changed.max(change);
        Arc::make_mut(&mut self.table)
    }
}

/// The kind of change since the owner was locked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Change {
    None,
    Altered,
    Added,
    Removed,
}

#[cfg(test)]
mod tests {
    use kafka_protocol::messages::create_partitions_request::CreatePartitionsTopic;
    use kafka_protocol::{
        messages::{CreatePartitionsRequest, DeleteTopicsRequest, TopicName},
        protocol::StrBytes,
    };

    use super::*;
    use crate::{
        base::{entropy::RandomBits, settings::Settings},
        log::data_dir::DataConfig,
    };

    fn nodes(count: u32) -> Vec<Topics> {
        let owners = Owners::new(50, count);
        let owner = TopicTable::new(TopicSettings::default(), owners, Vec::new(), &mut RandomBits::default());
        (FIRST_NODE..).take(count as usize).map(|node_id| Topics::of_node(Arc::clone(&owner), node_id)).collect()
    }

    fn delete(topics: &mut Topics, name: &str) {
        let name = TopicName(StrBytes::from_string(name.to_owned()));
        let request = DeleteTopicsRequest::default().with_topic_names(vec![name]);
        assert_eq!(topics.delete_topics(&request, 3).deleted.len(), 1);
    }

    #[test]
    fn topics_with_kafkas_own_names_are_left_out_at_the_start() {
        let dir = tempfile::tempdir().unwrap();
        let data = DataDir::open(&DataConfig::at(dir.path().to_owned()), &mut Settings::default(), "c").unwrap();
        let mut table = Table::default();
        for (id, name) in [(1, "t"), (2, "__transaction_state")] {
            let (id, configs) = (Uuid::from_u128(id), TopicConfigs::default());
            table.insert(name, Topic { id, internal: false, configs, leaders: vec![1; 51] });
        }
        TopicDisk::new(&data).unwrap().save(&table).unwrap();
        let (owners, mut random) = (Owners::new(50, 1), RandomBits::default());
        let owner = TopicTable::in_data_dir(&data, TopicSettings::default(), owners, Vec::new(), &mut random).unwrap();
        assert_eq!(Topics::of_node(owner, FIRST_NODE).names().collect::<Vec<_>>(), [CONSUMER_OFFSETS, "t"]);
    }

    #[test]
    fn a_snapshot_that_a_node_holds_does_not_change_under_it() {
        let mut nodes = nodes(2);
        nodes[0].create("t", 3, &mut RandomBits::default()).unwrap();
        nodes[1].catch_up();
        let seen = Arc::clone(&nodes[1].table);
        delete(&mut nodes[0], "t");
        assert!(seen.topic("t").is_some());
        assert_eq!(nodes[1].partition_count("t"), Some(3));
        nodes[1].catch_up();
        assert_eq!((nodes[1].partition_count("t"), nodes[1].take_deleted()), (None, vec!["t".to_owned()]));
        assert!(nodes[1].take_deleted().is_empty());
    }

    #[test]
    fn a_change_is_made_to_the_newest_table_whoever_makes_it() {
        let mut nodes = nodes(3);
        for (at, name) in ["a", "b", "c"].iter().enumerate() {
            nodes[at].create(name, 1, &mut RandomBits::default()).unwrap();
        }
        assert!(nodes[0].create("b", 1, &mut RandomBits::default()).is_err(), "another node has it");
        for node in &mut nodes {
            node.catch_up();
            assert_eq!(node.names().collect::<Vec<_>>(), [CONSUMER_OFFSETS, "a", "b", "c"]);
            assert_eq!(node.table.partition_total, 53);
        }
    }

    #[test]
    fn a_topic_that_was_deleted_and_made_again_is_another_one_with_none_of_its_data() {
        let mut nodes = nodes(2);
        let old = nodes[0].create("t", 2, &mut RandomBits::default()).unwrap();
        nodes[1].catch_up();
        nodes[1].data.insert((old, 1), super::super::Partition::default());
        delete(&mut nodes[0], "t");
        let new = nodes[0].create("t", 2, &mut RandomBits::default()).unwrap();
        assert_ne!(old, new);
        nodes[1].catch_up();
        assert!(nodes[1].data.is_empty());
        assert_eq!(nodes[1].take_deleted(), ["t"]);
    }

    #[test]
    fn partitions_go_round_the_nodes_and_so_do_those_that_are_added() {
        let mut nodes = nodes(3);
        let leaders = |topics: &Topics, name: &str| topics.table.topic(name).unwrap().leaders.clone();
        nodes[0].create("a", 4, &mut RandomBits::default()).unwrap();
        nodes[0].create("b", 4, &mut RandomBits::default()).unwrap();
        assert_eq!((leaders(&nodes[0], "a"), leaders(&nodes[0], "b")), (vec![2, 3, 1, 2], vec![3, 1, 2, 3]));
        let name = TopicName(StrBytes::from_static_str("a"));
        let grown = CreatePartitionsTopic::default().with_name(name).with_count(6).with_assignments(None);
        nodes[0].create_partitions(&CreatePartitionsRequest::default().with_topics(vec![grown]));
        assert_eq!(leaders(&nodes[0], "a"), [2, 3, 1, 2, 3, 1]);
    }

    #[test]
    fn the_only_node_changes_its_table_in_place() {
        let mut node = nodes(1).remove(0);
        node.create("a", 1, &mut RandomBits::default()).unwrap();
        let before = Arc::as_ptr(&node.table);
        node.create("b", 1, &mut RandomBits::default()).unwrap();
        assert_eq!(before, Arc::as_ptr(&node.table), "the table is not copied");
    }
}
