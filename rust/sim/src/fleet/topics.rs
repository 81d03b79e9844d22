//! Topics that grow, are created and deleted, and what each node knows of them.
//!
//! A node learns late what became of a topic. What it learns it tells its coordinators as a server does: first that a topic
//! is gone, also if another one has its name by now, then what there is.

use std::{collections::BTreeMap, sync::Arc};

use rota_core::{
    ErrorCode, Phase,
    consumer_group::{config::Migration, topics::TopicMetadata},
};
use rota_journal::Event;
use rota_member::{Partition, Request};

use super::{Fleet, Happening, Planted, faults::Kind, promises::Deletion, protocols::SUFFIX};

/// The topics of the cluster.
#[derive(Default)]
pub struct Topics {
    /// Those that exist.
    pub by_name: BTreeMap<Arc<str>, rota_member::TopicMetadata>,
    ids: BTreeMap<Arc<str>, u128>,
    /// The names of all topics that ever were.
    names: BTreeMap<u128, Arc<str>>,
    /// When each name's topic was created, grew or was deleted last.
    pub changed_ms: BTreeMap<Arc<str>, u64>,
    /// Deleted topics that will be created again, with their sizes.
    returning: BTreeMap<Arc<str>, i32>,
}

/// What a node or coordinator knows of topics: their ids and sizes.
pub type Known = BTreeMap<Arc<str>, (u128, i32)>;

/// The id of a topic; 0 if it is not known.
pub fn id_in(known: &Known, name: &str) -> u128 {
    known.get(name).map_or(0, |(id, _)| *id)
}

impl Topics {
    pub fn new(topics: &BTreeMap<Arc<str>, rota_member::TopicMetadata>) -> Topics {
        let mut all = Topics::default();
        for (name, topic) in topics {
            all.add(name, topic.partitions);
        }
        all
    }

    fn add(&mut self, name: &Arc<str>, partitions: i32) {
        let id = self.names.len() as u128 + 1;
        self.by_name.insert(name.clone(), rota_member::TopicMetadata { partitions, racks: Vec::new() });
        self.ids.insert(name.clone(), id);
        self.names.insert(id, name.clone());
    }

    fn remove(&mut self, name: &str) {
        self.by_name.remove(name);
        self.ids.remove(name);
    }

    /// Returns the id of a topic; 0: there is none.
    pub fn id(&self, name: &str) -> u128 {
        self.ids.get(name).copied().unwrap_or(0)
    }

    /// Returns the name of a topic that exists or existed.
    pub fn name(&self, id: u128) -> Option<&Arc<str>> {
        self.names.get(&id)
    }

    /// Whether a partition exists.
    pub fn has(&self, partition: &Partition) -> bool {
        self.by_name.get(&partition.topic).is_some_and(|topic| partition.index < topic.partitions)
    }

    fn known(&self, name: &Arc<str>) -> Option<(u128, i32)> {
        Some((self.id(name), self.by_name.get(name)?.partitions))
    }

    /// Returns what a node knows that has just looked.
    pub fn all_known(&self) -> Known {
        self.by_name.iter().map(|(name, topic)| (name.clone(), (self.id(name), topic.partitions))).collect()
    }

    /// Returns the names of topics that exist, by id.
    pub fn names_of(&self, ids: &[u128]) -> BTreeMap<u128, Arc<str>> {
        let named = self.ids.iter().filter(|(_, id)| ids.contains(id));
        named.map(|(name, id)| (*id, name.clone())).collect()
    }
}

impl Fleet {
    /// Configures a coordinator that begins to load, and informs it of all topics.
    pub(super) fn prepare(&mut self, node: usize, partition: usize) {
        if !self.shape.is_newer() {
            return;
        }
        let mut config = self.shape.consumer_config();
        if self.planted == Some(Planted::PolicyIgnored) {
            config.migration = Migration::Bidirectional;
        }
        self.tell(node, partition, &Event::Configured { config: &config });
        let topics = self.topics.all_known();
        self.inform(node, partition, &topics);
    }

    fn inform(&mut self, node: usize, partition: usize, topics: &Known) {
        let metadata = |(name, (topic_id, partitions)): (&Arc<str>, &(u128, i32))| TopicMetadata {
            name: name.clone(),
            topic_id: *topic_id,
            partitions: *partitions,
            racks: Vec::new(),
        };
        let told: Vec<TopicMetadata> = topics.iter().map(metadata).collect();
        self.nodes[node].topics[partition].extend(topics.iter().map(|(name, of)| (name.clone(), *of)));
        self.tell(node, partition, &Event::TopicsChanged { topics: &told });
    }

    /// Nodes learn of a change of a topic: each at another time.
    fn topic_changed(&mut self, name: &Arc<str>) {
        self.topics.changed_ms.insert(name.clone(), self.now_ms);
        if !self.shape.is_newer() || self.planted == Some(Planted::TopicsUnheard) {
            return;
        }
        for node in 0..self.nodes.len() {
            let at_ms = self.now_ms + self.dice.below(400) as u64;
            self.queue.push(at_ms, Happening::Topic { node, name: name.clone() });
        }
    }

    /// A node learns what a topic is now.
    pub(super) fn learn_topic(&mut self, node: usize, name: &Arc<str>) {
        let now = self.topics.known(name);
        let known = &mut self.nodes[node].known;
        let before = match now {
            Some(now) => known.insert(name.clone(), now),
            None => known.remove(name),
        };
        let is_gone = before.is_some_and(|(id, _)| now.is_none_or(|(now, _)| now != id));
        for partition in 0..self.owners.len() {
            if self.nodes[node].cores[partition].phase() == Phase::Unloaded {
                continue;
            }
            if is_gone {
                self.forget_topic(node, partition, name);
            }
            if let Some(now) = now {
                self.inform(node, partition, &BTreeMap::from([(name.clone(), now)]));
            }
        }
    }

    /// Informs a coordinator that a topic is gone. One that loads has no offsets yet, and is informed again.
    fn forget_topic(&mut self, node: usize, partition: usize, name: &Arc<str>) {
        let core = &self.nodes[node].cores[partition];
        if core.phase() == Phase::Loading {
            self.nodes[node].deleted[partition].push(name.clone());
        } else if core.phase() == Phase::Active && core.epoch() == self.logs[partition].epoch {
            let log = &self.logs[partition];
            let (epoch, next) = (log.epoch, log.next_number());
            let ended = log.in_flight.keys().next().copied().unwrap_or(next);
            for group in &self.shape.groups {
                if self.shape.partition_of(&group.id) == partition {
                    self.promises.topic_deleted(&group.id, name, Deletion { epoch, ended, next });
                }
            }
        }
        if self.planted == Some(Planted::DeletionUnheard) {
            return;
        }
        if self.planted == Some(Planted::OffsetsStay) {
            // It hears that the topic has no partitions any more.
            let id = id_in(&self.nodes[node].topics[partition], name);
            return self.inform(node, partition, &BTreeMap::from([(name.clone(), (id, 0))]));
        }
        self.nodes[node].topics[partition].remove(name);
        self.tell(node, partition, &Event::TopicsDeleted { topics: &[name] });
    }

    /// Informs a coordinator that has just loaded of what was deleted meanwhile.
    pub(super) fn forget_topics(&mut self, node: usize, partition: usize) {
        for name in std::mem::take(&mut self.nodes[node].deleted[partition]) {
            let known = self.nodes[node].topics[partition].get(&name).copied();
            self.forget_topic(node, partition, &name);
            // Another topic may have the name by now.
            if let Some(now) = known {
                self.inform(node, partition, &BTreeMap::from([(name.clone(), now)]));
            }
        }
    }

    /// Takes what a node does not know out of a commit, and returns the answers for that.
    pub(super) fn refuse_unknown(&self, node: usize, body: &mut Request) -> Vec<(Partition, ErrorCode)> {
        let Request::OffsetCommit { offsets, .. } = body else { return Vec::new() };
        if !Kind::Deletion.is_in(&self.shape) {
            return Vec::new();
        }
        let known = &self.nodes[node].known;
        let is_unknown = |partition: &Partition| {
            known.get(&partition.topic).is_none_or(|(_, partitions)| partition.index >= *partitions)
        };
        let refused = offsets.extract_if(.., |(partition, _)| is_unknown(partition));
        refused.map(|(partition, _)| (partition, ErrorCode::UnknownTopicOrPartition)).collect()
    }

    /// Gives a topic more partitions.
    pub(super) fn grow(&mut self, at: usize) {
        let place = at % self.topics.by_name.len();
        if let Some((name, topic)) = self.topics.by_name.iter_mut().nth(place) {
            topic.partitions += 1 + (at / 7 % 2) as i32;
            let name = name.clone();
            self.topic_changed(&name);
        }
        self.effective(Kind::Growth);
    }

    /// Creates a topic whose name begins like that of another.
    pub(super) fn create_topic(&mut self, at: usize) {
        let place = at % self.topics.by_name.len();
        let Some(name) = self.topics.by_name.keys().nth(place) else { return };
        let name: Arc<str> = format!("{name}{SUFFIX}").into();
        if self.topics.by_name.contains_key(&name) {
            return;
        }
        self.topics.add(&name, 1 + (at / 7 % 3) as i32);
        self.effective(Kind::Creation);
        self.topic_changed(&name);
    }

    /// Deletes a topic. That of all groups is created again, others only sometimes; and one topic always exists.
    pub(super) fn delete_topic(&mut self, at: usize, for_ms: u64) {
        let count = self.topics.by_name.len();
        let Some(name) = self.topics.by_name.keys().nth(at % count).cloned().filter(|_| count > 1) else { return };
        let is_of_all = self.shape.groups.iter().all(|group| group.topics.first() == Some(&name));
        if is_of_all || at / 7 % 2 == 1 {
            self.topics.returning.insert(name.clone(), 1 + (at / 14 % 4) as i32);
            // Some before all nodes have learnt that it is gone.
            let gone_ms = if for_ms.is_multiple_of(3) { for_ms % 400 } else { for_ms };
            self.queue.push(self.now_ms + gone_ms, Happening::Recreate { name: name.clone() });
        }
        if self.ledgers.iter().any(|ledger| ledger.held().any(|hold| hold.partition.topic == name)) {
            self.effective(Kind::Deletion);
        }
        self.topics.remove(&name);
        self.promises.vanished.insert(name.clone());
        self.topic_changed(&name);
    }

    /// Creates a deleted topic again, under a new id.
    pub(super) fn recreate_topic(&mut self, name: &Arc<str>) {
        let Some(partitions) = self.topics.returning.remove(name) else { return };
        if !self.topics.by_name.contains_key(name) {
            self.topics.add(name, partitions);
            self.topic_changed(name);
        }
    }

    /// Creates all topics again that were to come back.
    pub(super) fn recreate_topics(&mut self) {
        let names: Vec<Arc<str>> = self.topics.returning.keys().cloned().collect();
        for name in names {
            self.recreate_topic(&name);
        }
    }
}
