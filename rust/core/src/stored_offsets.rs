//! The durable offsets of a group, in as little memory as most of them need.
//!
//! Most commits have no metadata and no expiry, and the topic id of the other partitions of their topic. A start loads
//! millions, so what they do not have takes no room.

use std::{collections::BTreeMap, ops::Bound, sync::Arc};

use serde::{Deserialize, Serialize};

use crate::records::OffsetValue;

/// By topic and partition, as plain data.
type Values = BTreeMap<Arc<str>, BTreeMap<i32, OffsetValue>>;

/// The offsets of a group by topic and partition. A topic has at least one.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(from = "Values", into = "Values")]
pub struct StoredOffsets(BTreeMap<Arc<str>, Box<TopicOffsets>>);

/// The offsets of one topic.
#[derive(Clone, Debug)]
pub struct TopicOffsets {
    /// The topic id of the first one that was stored.
    topic_id: u128,
    partitions: BTreeMap<i32, Stored>,
}

#[derive(Clone, Debug)]
struct Stored {
    offset: i64,
    commit_timestamp_ms: i64,
    leader_epoch: i32,
    rest: Option<Box<Rest>>,
}

/// What few offsets have.
#[derive(Clone, Debug)]
struct Rest {
    metadata: Arc<str>,
    expire_timestamp_ms: Option<i64>,
    topic_id: u128,
}

/// A durable offset; the fields of [`OffsetValue`].
#[derive(Clone, Copy, Debug)]
pub struct StoredOffset<'a> {
    pub offset: i64,
    pub leader_epoch: i32,
    pub commit_timestamp_ms: i64,
    pub topic_id: u128,
    rest: Option<&'a Rest>,
}

impl<'a> StoredOffset<'a> {
    /// "" if none.
    pub fn metadata(&self) -> &'a str {
        self.rest.map_or("", |rest| &rest.metadata)
    }

    /// Expiry in wall milliseconds; set if the commit carried a retention time.
    pub fn expire_timestamp_ms(&self) -> Option<i64> {
        self.rest.and_then(|rest| rest.expire_timestamp_ms)
    }

    /// The same as a record has it.
    pub fn to_value(self) -> OffsetValue {
        OffsetValue {
            offset: self.offset,
            leader_epoch: self.leader_epoch,
            metadata: self.rest.map_or_else(Arc::default, |rest| Arc::clone(&rest.metadata)),
            commit_timestamp_ms: self.commit_timestamp_ms,
            expire_timestamp_ms: self.expire_timestamp_ms(),
            topic_id: self.topic_id,
        }
    }
}

impl Stored {
    #[inline]
    fn of(value: OffsetValue, topic_id: u128) -> Stored {
        let OffsetValue { offset, leader_epoch, commit_timestamp_ms, .. } = value;
        let is_usual = value.metadata.is_empty() && value.expire_timestamp_ms.is_none() && value.topic_id == topic_id;
        let rest = (!is_usual).then(|| {
            let OffsetValue { metadata, expire_timestamp_ms, topic_id, .. } = value;
            Box::new(Rest { metadata, expire_timestamp_ms, topic_id })
        });
        Stored { offset, commit_timestamp_ms, leader_epoch, rest }
    }
}

impl TopicOffsets {
    fn show<'a>(&self, stored: &'a Stored) -> StoredOffset<'a> {
        let rest = stored.rest.as_deref();
        StoredOffset {
            offset: stored.offset,
            leader_epoch: stored.leader_epoch,
            commit_timestamp_ms: stored.commit_timestamp_ms,
            topic_id: rest.map_or(self.topic_id, |rest| rest.topic_id),
            rest,
        }
    }

    /// The offset of a partition.
    pub fn get(&self, partition: i32) -> Option<StoredOffset<'_>> {
        self.partitions.get(&partition).map(|stored| self.show(stored))
    }

    /// All, by partition.
    pub fn iter(&self) -> impl Iterator<Item = (i32, StoredOffset<'_>)> {
        self.behind(None)
    }

    /// From behind a partition on, or all.
    fn behind(&self, partition: Option<i32>) -> impl Iterator<Item = (i32, StoredOffset<'_>)> {
        let first = partition.map_or(Bound::Unbounded, Bound::Excluded);
        self.partitions.range((first, Bound::Unbounded)).map(|(partition, stored)| (*partition, self.show(stored)))
    }
}

impl StoredOffsets {
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.0.values().map(|topic| topic.partitions.len()).sum()
    }

    /// How many topics have one.
    pub fn topic_count(&self) -> usize {
        self.0.len()
    }

    /// The offsets of a topic.
    pub fn topic(&self, topic: &str) -> Option<&TopicOffsets> {
        self.0.get(topic).map(|topic| &**topic)
    }

    /// The offsets of all topics, by name.
    pub fn topics(&self) -> impl Iterator<Item = (&Arc<str>, &TopicOffsets)> {
        self.0.iter().map(|(name, topic)| (name, &**topic))
    }

    /// The offset of a partition.
    pub fn get(&self, topic: &str, partition: i32) -> Option<StoredOffset<'_>> {
        self.topic(topic)?.get(partition)
    }

    /// All, by topic and partition.
    pub fn iter(&self) -> impl Iterator<Item = (&Arc<str>, i32, StoredOffset<'_>)> {
        self.behind(None)
    }

    /// From behind a place on, or all.
    pub fn behind<'a>(
        &'a self,
        place: Option<&'a (Arc<str>, i32)>,
    ) -> impl Iterator<Item = (&'a Arc<str>, i32, StoredOffset<'a>)> {
        let first = place.map_or(Bound::Unbounded, |(topic, _)| Bound::Included(topic));
        self.0.range::<Arc<str>, _>((first, Bound::Unbounded)).flat_map(move |(name, topic)| {
            let begun = place.filter(|(begun, _)| begun == name).map(|(_, partition)| *partition);
            topic.behind(begun).map(move |(partition, stored)| (name, partition, stored))
        })
    }

    /// Sets one.
    #[inline]
    pub fn put(&mut self, topic: &str, partition: i32, value: OffsetValue) {
        if let Some(known) = self.0.get_mut(topic) {
            let stored = Stored::of(value, known.topic_id);
            known.partitions.insert(partition, stored);
        } else {
            let topic_id = value.topic_id;
            let partitions = BTreeMap::from([(partition, Stored::of(value, topic_id))]);
            self.0.insert(topic.into(), Box::new(TopicOffsets { topic_id, partitions }));
        }
    }

    /// Removes one.
    pub fn remove(&mut self, topic: &str, partition: i32) {
        let Some(known) = self.0.get_mut(topic) else { return };
        known.partitions.remove(&partition);
        if known.partitions.is_empty() {
            self.0.remove(topic);
        }
    }

    /// Removes those of topics, and returns their places.
    pub fn remove_topics(&mut self, is_one: impl Fn(&Arc<str>) -> bool) -> impl Iterator<Item = (Arc<str>, i32)> {
        self.0
            .extract_if(.., move |name, _| is_one(name))
            .flat_map(|(name, topic)| topic.partitions.into_keys().map(move |partition| (Arc::clone(&name), partition)))
    }
}

impl From<StoredOffsets> for Values {
    fn from(stored: StoredOffsets) -> Values {
        let values = |topic: &TopicOffsets| topic.iter().map(|(at, stored)| (at, stored.to_value())).collect();
        stored.topics().map(|(name, topic)| (Arc::clone(name), values(topic))).collect()
    }
}

impl From<Values> for StoredOffsets {
    fn from(values: Values) -> StoredOffsets {
        let mut stored = StoredOffsets::default();
        for (topic, partitions) in values {
            for (partition, value) in partitions {
                stored.put(&topic, partition, value);
            }
        }
        stored
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(offset: i64, metadata: &str, expire_timestamp_ms: Option<i64>, topic_id: u128) -> OffsetValue {
        let metadata = metadata.into();
        OffsetValue { offset, leader_epoch: 3, metadata, commit_timestamp_ms: 7, expire_timestamp_ms, topic_id }
    }

    #[test]
    fn an_offset_is_what_was_stored_whatever_it_has() {
        let all = [
            ("a", 0, value(1, "", None, 5)),
            ("a", 1, value(2, "", None, 6)),
            ("a", 2, value(3, "m", None, 5)),
            ("a", 3, value(4, "", Some(9), 0)),
            ("b", -1, value(i64::MIN, "", Some(0), u128::MAX)),
        ];
        let mut stored = StoredOffsets::default();
        for (topic, partition, value) in all.clone() {
            stored.put(topic, partition, value);
        }
        let shown = |stored: &StoredOffsets| -> Vec<_> {
            stored.iter().map(|(topic, partition, each)| (topic.to_string(), partition, each.to_value())).collect()
        };
        let expected: Vec<_> = all.iter().map(|(topic, at, value)| (topic.to_string(), *at, value.clone())).collect();
        assert_eq!(shown(&stored), expected);
        assert_eq!((stored.count(), stored.topic_count()), (5, 2));
        let copy: StoredOffsets = postcard::from_bytes(&postcard::to_allocvec(&stored).unwrap()).unwrap();
        assert_eq!(shown(&copy), expected);

        // The first one gave the topic its id: the others keep theirs when it goes, or changes.
        stored.remove("a", 0);
        assert_eq!(shown(&stored), expected[1..]);
        stored.put("a", 1, value(2, "", None, 5));
        stored.put("a", 2, value(3, "m", None, 6));
        assert_eq!(stored.get("a", 1).map(|each| each.topic_id), Some(5));
        assert_eq!(stored.get("a", 2).map(|each| (each.topic_id, each.metadata())), Some((6, "m")));
    }

    #[test]
    fn a_topic_goes_with_its_last_offset() {
        let mut stored = StoredOffsets::default();
        stored.put("a", 0, value(1, "", None, 5));
        stored.put("b", 0, value(1, "", None, 5));
        stored.remove("a", 1);
        stored.remove("c", 0);
        assert_eq!(stored.topic_count(), 2);
        stored.remove("a", 0);
        assert!(stored.topic("a").is_none());
        let removed: Vec<_> = stored.remove_topics(|name| **name == *"b").collect();
        assert_eq!(removed, [("b".into(), 0)]);
        assert!(stored.is_empty());
    }

    #[test]
    fn a_walk_goes_on_behind_the_place_where_it_stopped() {
        let mut stored = StoredOffsets::default();
        let places: Vec<(Arc<str>, i32)> = vec![("a".into(), 1), ("a".into(), 4), ("b".into(), 0), ("c".into(), 2)];
        for (topic, partition) in &places {
            stored.put(topic, *partition, value(1, "", None, 0));
        }
        let behind = |place: Option<&(Arc<str>, i32)>| -> Vec<_> {
            stored.behind(place).map(|(topic, partition, _)| (Arc::clone(topic), partition)).collect()
        };
        assert_eq!(behind(None), places);
        for (index, place) in places.iter().enumerate() {
            assert_eq!(behind(Some(place)), places[index + 1..]);
        }
        assert_eq!(behind(Some(&("aa".into(), 9))), places[2..]);
    }
}
