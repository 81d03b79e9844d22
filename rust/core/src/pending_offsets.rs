//! Offsets of open transactions (docs/protocol.md §10.4): not visible until the marker of their transaction decides.
//!
//! Everything here is durable. Records and markers come in the order of the log, during operation and during a load.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use serde::{Deserialize, Serialize};

use crate::records::OffsetValue;

/// A partition of a topic.
pub type Place = (Arc<str>, i32);

/// The pending offsets of one partition of a topic, by producer id.
type ByProducer = BTreeMap<i64, PendingOffset>;

/// An offset of an open transaction.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PendingOffset {
    /// The position of its record among all pending ones.
    pub order: u64,
    /// The offset.
    pub value: OffsetValue,
    /// Whether the group has an offset from a later record. Then a commit changes nothing.
    pub is_superseded: bool,
}

/// An open transaction with offsets.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OpenTransaction {
    /// The epoch of its producer.
    pub producer_epoch: i16,
    /// The groups that have offsets of it, or had.
    pub groups: BTreeSet<Arc<str>>,
}

/// A pending offset whose transaction has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decided {
    /// The group.
    pub group_id: Arc<str>,
    /// The topic and partition.
    pub place: Place,
    /// The offset.
    pub offset: PendingOffset,
}

/// All pending offsets of a coordinator. Without any it owns no heap memory.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PendingOffsets {
    by_group: BTreeMap<Arc<str>, BTreeMap<Place, ByProducer>>,
    open: BTreeMap<i64, OpenTransaction>,
    next_order: u64,
}

impl PendingOffsets {
    /// Whether no transaction with offsets is open.
    pub fn is_empty(&self) -> bool {
        self.open.is_empty()
    }

    /// Returns the open transactions by producer id.
    pub fn open(&self) -> &BTreeMap<i64, OpenTransaction> {
        &self.open
    }

    /// Adds the offset of a record. It replaces that of the same transaction for the same partition.
    pub fn add(
        &mut self,
        (producer_id, producer_epoch): (i64, i16),
        group_id: &Arc<str>,
        place: Place,
        value: OffsetValue,
    ) {
        let opened = || OpenTransaction { producer_epoch, groups: BTreeSet::new() };
        let transaction = self.open.entry(producer_id).or_insert_with(opened);
        transaction.producer_epoch = producer_epoch;
        transaction.groups.insert(Arc::clone(group_id));
        let offset = PendingOffset { order: self.next_order, value, is_superseded: false };
        self.next_order += 1;
        let places = self.by_group.entry(Arc::clone(group_id)).or_default();
        places.entry(place).or_default().insert(producer_id, offset);
    }

    /// A later record of no transaction sets a partition's offset, or removes it.
    #[cold]
    pub fn overwrite(&mut self, group_id: &str, topic: &str, partition: i32, is_set: bool) {
        if is_set {
            self.supersede(group_id, topic, partition, u64::MAX);
        } else {
            self.drop_place(group_id, topic, partition);
        }
    }

    /// The group got an offset from a later record than the pending ones before `order`: they change nothing any more.
    pub fn supersede(&mut self, group_id: &str, topic: &str, partition: i32, order: u64) {
        // A key with borrowed parts cannot be looked up, and a transaction has few partitions.
        let Some(places) = self.by_group.get_mut(group_id) else { return };
        let key = (Arc::from(topic), partition);
        for offset in places.get_mut(&key).into_iter().flat_map(BTreeMap::values_mut) {
            offset.is_superseded |= offset.order < order;
        }
    }

    /// A tombstone drops the pending offsets of a partition.
    pub fn drop_place(&mut self, group_id: &str, topic: &str, partition: i32) {
        let Some(places) = self.by_group.get_mut(group_id) else { return };
        places.remove(&(Arc::from(topic), partition));
        if places.is_empty() {
            self.by_group.remove(group_id);
        }
    }

    /// Ends a transaction. Returns its offsets in the order of their records.
    pub fn end(&mut self, producer_id: i64) -> Vec<Decided> {
        let Some(transaction) = self.open.remove(&producer_id) else { return Vec::new() };
        let mut decided = Vec::new();
        for group_id in transaction.groups {
            let Some(places) = self.by_group.get_mut(&group_id) else { continue };
            places.retain(|place, offsets| {
                let offset = offsets.remove(&producer_id);
                let group_id = Arc::clone(&group_id);
                decided.extend(offset.map(|offset| Decided { group_id, place: place.clone(), offset }));
                !offsets.is_empty()
            });
            if places.is_empty() {
                self.by_group.remove(&group_id);
            }
        }
        decided.sort_unstable_by_key(|decided| decided.offset.order);
        decided
    }

    /// Whether a partition has an offset of an open transaction.
    pub fn is_unstable(&self, group_id: &str, topic: &str, partition: i32) -> bool {
        let places = self.by_group.get(group_id);
        places.is_some_and(|places| places.contains_key(&(Arc::from(topic), partition)))
    }

    /// Whether a group has offsets of open transactions.
    pub fn has_group(&self, group_id: &str) -> bool {
        self.by_group.contains_key(group_id)
    }

    /// Iterates over the partitions of a group that have offsets of open transactions.
    pub fn places(&self, group_id: &str) -> impl Iterator<Item = &Place> {
        self.by_group.get(group_id).into_iter().flat_map(BTreeMap::keys)
    }

    /// Iterates over the partitions of a group that have offsets of open transactions, each with a producer id.
    pub fn of_group(&self, group_id: &str) -> impl Iterator<Item = (&Place, i64)> {
        let places = self.by_group.get(group_id).into_iter().flatten();
        places.flat_map(|(place, offsets)| offsets.keys().map(move |producer_id| (place, *producer_id)))
    }

    /// Iterates over all partitions that have offsets of open transactions: group, topic and partition, producer ids.
    pub fn all(&self) -> impl Iterator<Item = (&Arc<str>, &Place, &ByProducer)> {
        let places = |(group_id, places)| Self::each(group_id, places);
        self.by_group.iter().flat_map(places)
    }

    fn each<'a>(
        group_id: &'a Arc<str>,
        places: &'a BTreeMap<Place, ByProducer>,
    ) -> impl Iterator<Item = (&'a Arc<str>, &'a Place, &'a ByProducer)> {
        places.iter().map(move |(place, offsets)| (group_id, place, offsets))
    }

    /// Returns what does not fit together; `None` if everything does.
    pub fn broken(&self) -> Option<String> {
        for (group_id, place, offsets) in self.all() {
            if offsets.is_empty() {
                return Some(format!("{group_id} has {place:?} without a producer"));
            }
            for (producer_id, offset) in offsets {
                let knows = |open: &OpenTransaction| open.groups.contains(group_id);
                if !self.open.get(producer_id).is_some_and(knows) {
                    return Some(format!(
                        "{place:?} of {group_id} names producer {producer_id}, which has no transaction"
                    ));
                }
                if offset.order >= self.next_order {
                    return Some(format!("{place:?} of {group_id} has the order {} of a later record", offset.order));
                }
            }
        }
        let empty = self.by_group.iter().find(|(_, places)| places.is_empty());
        empty.map(|(group_id, _)| format!("{group_id} has no partition"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(offset: i64) -> OffsetValue {
        OffsetValue {
            offset,
            leader_epoch: -1,
            metadata: "".into(),
            commit_timestamp_ms: 0,
            expire_timestamp_ms: None,
            topic_id: 0,
        }
    }

    fn group() -> Arc<str> {
        "g".into()
    }

    fn place(partition: i32) -> Place {
        ("t".into(), partition)
    }

    fn ended(pending: &mut PendingOffsets, producer_id: i64) -> Vec<(i32, i64, bool)> {
        assert_eq!(pending.broken(), None);
        let decided = pending.end(producer_id);
        assert_eq!(pending.broken(), None);
        decided.iter().map(|one| (one.place.1, one.offset.value.offset, one.offset.is_superseded)).collect()
    }

    #[test]
    fn a_transaction_has_one_offset_for_a_partition_in_the_order_of_the_last_records() {
        let mut pending = PendingOffsets::default();
        pending.add((7, 0), &group(), place(0), value(1));
        pending.add((7, 0), &group(), place(1), value(2));
        pending.add((7, 0), &group(), place(0), value(3));
        assert!(pending.is_unstable("g", "t", 0) && pending.has_group("g") && !pending.is_unstable("g", "t", 2));
        assert_eq!(pending.of_group("g").collect::<Vec<_>>(), [(&place(0), 7), (&place(1), 7)]);
        assert_eq!(ended(&mut pending, 7), [(1, 2, false), (0, 3, false)]);
        assert!(pending.is_empty() && !pending.has_group("g"));
        assert_eq!(ended(&mut pending, 7), []);
    }

    #[test]
    fn a_later_record_supersedes_only_what_is_before_it() {
        let mut pending = PendingOffsets::default();
        pending.add((7, 0), &group(), place(0), value(5));
        pending.add((8, 0), &group(), place(0), value(7));
        pending.supersede("g", "t", 0, 1);
        assert_eq!(ended(&mut pending, 8), [(0, 7, false)]);
        assert_eq!(ended(&mut pending, 7), [(0, 5, true)]);
        pending.add((7, 0), &group(), place(0), value(9));
        pending.supersede("g", "t", 0, u64::MAX);
        assert_eq!(ended(&mut pending, 7), [(0, 9, true)]);
    }

    #[test]
    fn a_tombstone_drops_the_offsets_of_its_partition_but_the_transaction_stays_open() {
        let mut pending = PendingOffsets::default();
        pending.add((7, 0), &group(), place(0), value(5));
        pending.add((7, 0), &group(), place(1), value(6));
        pending.drop_place("g", "t", 0);
        assert_eq!(pending.places("g").collect::<Vec<_>>(), [&place(1)]);
        pending.drop_place("g", "t", 1);
        assert!(!pending.has_group("g") && !pending.is_empty());
        assert_eq!(ended(&mut pending, 7), []);
    }
}
