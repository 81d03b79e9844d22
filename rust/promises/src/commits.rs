//! Committed offsets: they rarely go back, and who commits usually owns the partition.

use std::{collections::HashMap, sync::Arc};

use serde::{Deserialize, Serialize};

use crate::{
    columns::Row,
    finding::{At, Found},
    owners::named,
    recent::Recent,
    version::{TopicPartition, Version},
};

/// A record of a committed offset.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(crate) struct Commit {
    pub group: Arc<str>,
    topic: Arc<str>,
    partition: i32,
    /// `None`: a tombstone.
    committed: Option<i64>,
    offset: i64,
    at_ms: Option<i64>,
}

impl Commit {
    pub(crate) fn of_row(row: &Row<'_>) -> Commit {
        Commit {
            group: row.group.unwrap_or_default().into(),
            topic: row.topic.unwrap_or_default().into(),
            partition: row.topic_partition.unwrap_or_default(),
            committed: row.committed,
            offset: row.offset.unwrap_or_default(),
            at_ms: row.at_ms,
        }
    }
}

/// The last committed offsets of a group.
#[derive(Debug, Default, Deserialize, Serialize)]
pub(crate) struct Committed {
    last: HashMap<Arc<str>, HashMap<i32, Last>>,
}

/// A partition's committed offset, `None` after a tombstone, and the offset of that record.
type Last = (Option<i64>, i64);

impl Committed {
    /// An offset became durable.
    pub(crate) fn of_commit(&mut self, commit: &Commit, found: &mut Found) {
        let of_topic = match self.last.get_mut(&commit.topic) {
            Some(known) => known,
            None => self.last.entry(Arc::clone(&commit.topic)).or_default(),
        };
        let before = of_topic.get(&commit.partition).copied();
        if before.is_some_and(|(_, offset)| commit.offset < offset) {
            return; // its append ended after that of a later one
        }
        of_topic.insert(commit.partition, (commit.committed, commit.offset));
        let (Some((Some(earlier), first_offset)), Some(committed)) = (before, commit.committed) else { return };
        if committed < earlier {
            let at = At {
                group: Some(Arc::clone(&commit.group)),
                generation: None,
                offset: commit.offset,
                at_ms: commit.at_ms,
            };
            let witness = format!("{}-{}: {committed} after {earlier}", commit.topic, commit.partition);
            found.push(at.since(first_offset, "offset went back", Vec::new(), witness));
        }
    }
}

/// Whose partitions are, by generation.
#[derive(Debug, Default, Deserialize, Serialize)]
pub(crate) struct Owners {
    generations: Recent<i32, Owned>,
}

#[derive(Debug, Default, Deserialize, Serialize)]
struct Owned {
    /// Of the record that says so.
    offset: i64,
    owners: HashMap<TopicPartition, Vec<Arc<str>>>,
}

/// A partition of a commit, its owner, and the offset of the record that says so.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(crate) struct Foreign(TopicPartition, Arc<str>, i64);

impl Owners {
    pub(crate) fn of_version(&mut self, version: &Version, kept: usize) {
        let mut owned = Owned { offset: version.offset, owners: HashMap::new() };
        for member in &version.members {
            for place in &member.places {
                owned.owners.entry(place.clone()).or_default().push(Arc::clone(&member.name));
            }
        }
        self.generations.insert(version.generation.unwrap_or_default(), owned, kept);
    }

    /// Returns the partitions in the rows of a commit that belong to other members.
    pub(crate) fn foreign(&self, generation: i32, member: &str, rows: &[Row<'_>]) -> Vec<Foreign> {
        let Some(owned) = self.generations.get(&generation) else { return Vec::new() };
        let mut foreign = Vec::new();
        for row in rows.iter().filter(|row| row.kind == Some("commit")) {
            let place = (Arc::from(row.topic.unwrap_or_default()), row.topic_partition.unwrap_or_default());
            for owner in owned.owners.get(&place).into_iter().flatten().filter(|owner| ***owner != *member) {
                foreign.push(Foreign(place.clone(), Arc::clone(owner), owned.offset));
            }
        }
        foreign
    }
}

/// The commit was accepted.
pub(crate) fn of_foreign(at: &At, member: &str, foreign: &[Foreign], found: &mut Found) {
    for Foreign(place, owner, offset) in foreign {
        let members = vec![member.into(), Arc::clone(owner)];
        found.push(at.since(*offset, "zombie commit", members, format!("{} of {owner}", named(place))));
    }
}
