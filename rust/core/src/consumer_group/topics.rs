//! The topics of the cluster as far as consumer groups need them, and the hash that stands for them in a group's record.

use std::{
    collections::BTreeMap,
    sync::{Arc, OnceLock},
};

use serde::{Deserialize, Serialize};
use twox_hash::XxHash3_64;

/// One topic.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TopicMetadata {
    /// Its name.
    pub name: Arc<str>,
    /// Its id, never 0.
    pub topic_id: u128,
    /// How many partitions it has.
    pub partitions: i32,
    /// The racks of each partition's replicas; empty: no rack is known.
    pub racks: Vec<Vec<Arc<str>>>,
}

impl TopicMetadata {
    /// The 64 bits that Kafka 4.4 computes of a topic.
    fn hash(&self) -> u64 {
        let mut bytes = vec![0];
        bytes.extend_from_slice(&((self.topic_id >> 64) as u64).to_le_bytes());
        bytes.extend_from_slice(&(self.topic_id as u64).to_le_bytes());
        put_text(&mut bytes, &self.name);
        bytes.extend_from_slice(&self.partitions.to_le_bytes());
        for partition in 0..self.partitions {
            bytes.extend_from_slice(&partition.to_le_bytes());
            let mut racks: Vec<&Arc<str>> = self.racks.get(partition as usize).into_iter().flatten().collect();
            racks.sort_unstable();
            for rack in racks {
                bytes.extend_from_slice(&(rack.encode_utf16().count() as i32).to_le_bytes());
                put_text(&mut bytes, rack);
            }
        }
        XxHash3_64::oneshot(&bytes)
    }
}

/// UTF-16 units, and how many there are.
fn put_text(bytes: &mut Vec<u8>, text: &str) {
    let mut units = 0_i32;
    for unit in text.encode_utf16() {
        bytes.extend_from_slice(&unit.to_le_bytes());
        units += 1;
    }
    bytes.extend_from_slice(&units.to_le_bytes());
}

/// A topic with its hash, which each new member of a group would compute again.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(transparent)]
struct Hashed {
    metadata: TopicMetadata,
    /// Not part of the state: it is computed when it is needed first.
    #[serde(skip)]
    hash: OnceLock<u64>,
}

impl Hashed {
    fn hash(&self) -> u64 {
        *self.hash.get_or_init(|| self.metadata.hash())
    }
}

/// All topics.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Topics {
    by_name: BTreeMap<Arc<str>, Hashed>,
    names: BTreeMap<u128, Arc<str>>,
}

impl Topics {
    /// Adds a topic, or replaces the one of that name.
    pub fn insert(&mut self, topic: TopicMetadata) {
        self.remove(&Arc::clone(&topic.name));
        self.names.insert(topic.topic_id, Arc::clone(&topic.name));
        let name = Arc::clone(&topic.name);
        self.by_name.insert(name, Hashed { metadata: topic, hash: OnceLock::new() });
    }

    /// Removes the topic of this name.
    pub fn remove(&mut self, name: &str) {
        if let Some(topic) = self.by_name.remove(name) {
            self.names.remove(&topic.metadata.topic_id);
        }
    }

    /// The topic of this name.
    pub fn get(&self, name: &str) -> Option<&TopicMetadata> {
        self.by_name.get(name).map(|topic| &topic.metadata)
    }

    /// This name, in the memory of the topic's own name if there is such a topic: names that share it compare quickly.
    pub fn shared(&self, name: &str) -> Arc<str> {
        self.by_name.get_key_value(name).map_or_else(|| name.into(), |(known, _)| Arc::clone(known))
    }

    /// All names, in ascending order.
    pub fn names(&self) -> impl Iterator<Item = &Arc<str>> {
        self.by_name.keys()
    }

    /// The name of the topic with this id.
    pub fn name_of(&self, topic_id: u128) -> Option<&Arc<str>> {
        self.names.get(&topic_id)
    }

    /// The hash over those of these topics that exist; 0: none does. `names` ascend.
    pub fn hash<'n>(&self, names: impl Iterator<Item = &'n Arc<str>>) -> i64 {
        let hashes: Vec<u8> =
            names.filter_map(|name| self.by_name.get(name)).flat_map(|topic| topic.hash().to_le_bytes()).collect();
        if hashes.is_empty() { 0 } else { XxHash3_64::oneshot(&hashes) as i64 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn topic(name: &str, topic_id: u128, partitions: i32, rack: Option<&str>) -> TopicMetadata {
        let racks = rack.map_or(Vec::new(), |rack| vec![vec![Arc::from(rack)]; partitions as usize]);
        TopicMetadata { name: name.into(), topic_id, partitions, racks }
    }

    fn hashed(topics: &[TopicMetadata]) -> u64 {
        let mut all = Topics::default();
        for topic in topics {
            all.insert(topic.clone());
        }
        let mut names: Vec<&Arc<str>> = topics.iter().map(|topic| &topic.name).collect();
        names.sort_unstable();
        all.hash(names.into_iter()) as u64
    }

    /// Computed by Kafka 4.4.0.
    #[test]
    fn a_hash_is_the_one_that_kafka_computes() {
        let foo = topic("foo", 0x41e6_3963_960e_4f5a_a555_261d_966e_b747, 6, None);
        let bar = topic("bar", 0x5643_c67b_9b8a_4831_ae7c_ee94_b419_636d, 3, None);
        let one = |rack| topic("one", 0x4562_01a8_f0cb_4641_b126_eec8_1ce0_02d7, 1, rack);
        assert_eq!(foo.hash(), 0xf7e6_82ed_5e2d_966c);
        assert_eq!(hashed(std::slice::from_ref(&foo)), 0xb23e_a205_ad04_c976);
        assert_eq!(hashed(&[foo, bar]), 0xe154_de40_86e0_27c3);
        assert_eq!(hashed(&[one(None)]), 0xcd67_8b47_627e_f587);
        assert_eq!(hashed(&[one(Some("rk1"))]), 0xf093_1fdb_da62_74f2);
        assert_eq!(hashed(&[]), 0);
    }

    #[test]
    fn a_topic_that_is_replaced_has_the_hash_of_the_new_one() {
        let mut topics = Topics::default();
        let names = ["one".into()];
        let mut hash_with = |partitions| {
            topics.insert(topic("one", 1, partitions, None));
            assert_eq!(topics.hash(names.iter()), topics.hash(names.iter()));
            topics.hash(names.iter())
        };
        assert_ne!(hash_with(1), hash_with(2));
        assert_eq!(hash_with(2) as u64, hashed(&[topic("one", 1, 2, None)]));
    }

    #[test]
    fn hashes_are_not_serialized() {
        let mut topics = Topics::default();
        topics.insert(topic("one", 1, 1, Some("rk1")));
        let before = postcard::to_allocvec(&topics).unwrap();
        let hash = topics.hash([Arc::from("one")].iter());
        assert_eq!(postcard::to_allocvec(&topics).unwrap(), before);
        let again: Topics = postcard::from_bytes(&before).unwrap();
        assert_eq!(again.hash([Arc::from("one")].iter()), hash);
    }

    #[test]
    fn the_order_of_replicas_does_not_change_a_hash() {
        let replicated = |racks: &[&str]| {
            let racks = vec![racks.iter().map(|rack| Arc::from(*rack)).collect()];
            TopicMetadata { racks, ..topic("one", 1, 1, None) }.hash()
        };
        assert_eq!(replicated(&["b", "a", "c"]), replicated(&["a", "b", "c"]));
        assert_ne!(replicated(&["a", "b"]), replicated(&["a", "b", "b"]));
        assert_ne!(replicated(&["a", "b"]), replicated(&["ab"]));
    }
}
