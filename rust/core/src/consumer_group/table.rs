//! The groups of a coordinator by id, each with a stamp that changes whenever the group may.

use std::{collections::BTreeMap, ops::Deref, sync::Arc};

use serde::{Deserialize, Serialize};

use super::{
    group::ConsumerGroup,
    stamp::{Stamp, Stamps},
};

/// Consumer groups by id. They are read as in a map. Each access that may change a group gives it a new [`Stamp`].
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct GroupTable {
    by_id: BTreeMap<Arc<str>, ConsumerGroup>,
    /// Not part of the state: stamps only say what has not changed.
    #[serde(skip)]
    stamps: Stamps,
}

impl Deref for GroupTable {
    type Target = BTreeMap<Arc<str>, ConsumerGroup>;

    fn deref(&self) -> &Self::Target {
        &self.by_id
    }
}

impl GroupTable {
    /// The stamp of a group; `None`: nothing has changed it since it was deserialized.
    pub fn stamp(&self, group: &ConsumerGroup) -> Option<Stamp> {
        self.stamps.at(group.place?)
    }

    /// Whether the group that had this stamp cannot have changed since.
    #[inline]
    pub fn holds(&self, stamp: Stamp) -> bool {
        self.stamps.at(stamp.place) == Some(stamp)
    }

    /// Gives all groups new stamps.
    pub fn renew_all(&mut self) {
        self.by_id.values_mut().for_each(|group| self.stamps.renew(&mut group.place));
    }

    /// A group, to be changed.
    pub fn get_mut(&mut self, group_id: &str) -> Option<&mut ConsumerGroup> {
        let group = self.by_id.get_mut(group_id)?;
        self.stamps.renew(&mut group.place);
        Some(group)
    }

    /// A group, to be changed. It is created if there is none.
    pub fn get_or_create(&mut self, group_id: &Arc<str>) -> &mut ConsumerGroup {
        let group = self.by_id.entry(Arc::clone(group_id)).or_insert_with(|| ConsumerGroup::new(Arc::clone(group_id)));
        self.stamps.renew(&mut group.place);
        group
    }

    /// All groups, to be changed.
    pub fn values_mut(&mut self) -> impl Iterator<Item = &mut ConsumerGroup> {
        self.renew_all();
        self.by_id.values_mut()
    }

    /// Adds a group, or replaces it.
    pub fn insert(&mut self, group_id: Arc<str>, mut group: ConsumerGroup) {
        self.remove(&group_id);
        self.stamps.renew(&mut group.place);
        self.by_id.insert(group_id, group);
    }

    /// Removes a group.
    pub fn remove(&mut self, group_id: &str) -> Option<ConsumerGroup> {
        self.remove_entry(group_id).map(|(_, group)| group)
    }

    /// Removes a group, with its id.
    pub fn remove_entry(&mut self, group_id: &str) -> Option<(Arc<str>, ConsumerGroup)> {
        let (group_id, mut group) = self.by_id.remove_entry(group_id)?;
        self.stamps.release(&mut group.place);
        Some((group_id, group))
    }

    /// Removes all groups.
    pub fn take(&mut self) -> BTreeMap<Arc<str>, ConsumerGroup> {
        self.by_id.values_mut().for_each(|group| self.stamps.release(&mut group.place));
        std::mem::take(&mut self.by_id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> (GroupTable, [Arc<str>; 2]) {
        let ids: [Arc<str>; 2] = ["a".into(), "b".into()];
        let mut table = GroupTable::default();
        for id in &ids {
            table.insert(Arc::clone(id), ConsumerGroup::new(Arc::clone(id)));
        }
        (table, ids)
    }

    #[test]
    fn a_stamp_holds_until_its_group_may_change() {
        type Change = fn(&mut GroupTable);
        let changes: [Change; 7] = [
            |table| assert!(table.get_mut("a").is_some()),
            |table| assert_eq!(&*table.get_or_create(&"a".into()).id, "a"),
            |table| assert_eq!(table.values_mut().count(), 2),
            |table| table.insert("a".into(), ConsumerGroup::new("a".into())),
            |table| assert!(table.remove("a").is_some()),
            |table| assert_eq!(table.take().len(), 2),
            GroupTable::renew_all,
        ];
        for (at, change) in changes.into_iter().enumerate() {
            let (mut table, _) = table();
            let stamp = table.stamp(&table["a"]).unwrap();
            assert!(table.holds(stamp));
            change(&mut table);
            assert!(!table.holds(stamp), "change {at}");
        }
    }

    #[test]
    fn a_stamp_outlives_changes_of_other_groups() {
        let (mut table, _) = table();
        let stamp = table.stamp(&table["a"]).unwrap();
        table.get_mut("b");
        table.remove("b");
        table.insert("c".into(), ConsumerGroup::new("c".into()));
        assert!(table.holds(stamp));
    }

    #[test]
    fn a_group_in_the_place_of_another_has_another_stamp() {
        let (mut table, _) = table();
        let stamp = table.stamp(&table["a"]).unwrap();
        let group = table.remove("a").unwrap();
        assert_eq!(table.stamp(&group), None);
        table.insert("a".into(), group);
        let again = table.stamp(&table["a"]).unwrap();
        assert_eq!(again.place, stamp.place);
        assert!(table.holds(again) && !table.holds(stamp));
        assert_eq!(table.stamps.places(), 2, "places are used again");
    }
}
