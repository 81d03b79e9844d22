//! S26: what was acknowledged had become durable.

use std::{collections::HashMap, sync::Arc};

use serde::{Deserialize, Serialize};

use crate::{
    columns::Row,
    commits::Commit,
    consumers::{ConsumerRecord, consumer_records},
    finding::{At, Found},
    version::{Version, is_of_version, versions},
};

/// Records in flight, and members that were answered too early.
#[derive(Debug, Deserialize, Serialize)]
pub(crate) struct Append {
    pub group: Option<Arc<str>>,
    pub versions: Vec<Version>,
    pub commits: Vec<Commit>,
    pub consumers: Vec<ConsumerRecord>,
    /// Of the group's record in it, if that has members.
    pub generation: Option<i32>,
    /// Groups in it that had a record of the newer protocol before it began.
    pub of_newer: Vec<Arc<str>>,
    told_offset: Option<i64>,
    told: Vec<Arc<str>>,
}

impl Append {
    /// The append of an entry's row, with the records among all rows of the entry.
    fn new(row: &Row<'_>, rows: &[Row<'_>]) -> Append {
        let of_append = |other: &&Row<'_>| other.append_id == row.append_id;
        let records: Vec<Row<'_>> = rows.iter().filter(of_append).copied().collect();
        let of_versions: Vec<Row<'_>> =
            records.iter().filter(|row| is_of_version(row.kind.unwrap_or_default())).copied().collect();
        let versions = versions(&of_versions);
        let commits = records.iter().filter(|row| row.kind == Some("offset") && row.group.is_some());
        Append {
            group: row.group.map(Arc::from),
            generation: versions.iter().rev().find(|version| version.count > 0).and_then(|version| version.generation),
            versions,
            commits: commits.map(Commit::of_row).collect(),
            consumers: consumer_records(&records),
            of_newer: Vec::new(),
            told_offset: None,
            told: Vec::new(),
        }
    }

    /// Returns the groups that it is about.
    pub(crate) fn groups(&self) -> impl Iterator<Item = &Arc<str>> {
        let of_records = self.versions.iter().map(|version| &version.group);
        let of_consumers = self.consumers.iter().map(|record| &record.group);
        let of_commits = self.commits.iter().map(|commit| &commit.group);
        self.group.iter().chain(of_records).chain(of_consumers).chain(of_commits)
    }

    /// It is durable now; the answer with its assignment may have come before.
    pub(crate) fn of_told(&self, row: &Row<'_>, found: &mut Found) {
        if let Some(told_offset) = self.told_offset {
            let at = At {
                group: self.group.clone(),
                generation: self.generation,
                offset: row.offset.unwrap_or_default(),
                at_ms: row.at_ms,
            };
            let witness = format!("told at {told_offset}, durable at {}", at.offset);
            found.push(at.since(told_offset, "told before durable", self.told.clone(), witness));
        }
    }
}

/// The appends of a partition that have not ended.
#[derive(Debug, Default, Deserialize, Serialize)]
pub(crate) struct Appends {
    in_flight: HashMap<i64, Append>,
}

impl Appends {
    pub(crate) fn begin(&mut self, row: &Row<'_>, rows: &[Row<'_>]) -> &mut Append {
        let append = Append::new(row, rows);
        self.in_flight.entry(row.append_id.unwrap_or_default()).insert_entry(append).into_mut()
    }

    pub(crate) fn end(&mut self, row: &Row<'_>) -> Option<Append> {
        self.in_flight.remove(&row.append_id.unwrap_or_default())
    }

    /// Returns the groups that appends in flight are about.
    pub(crate) fn groups(&self) -> impl Iterator<Item = &Arc<str>> {
        self.in_flight.values().flat_map(Append::groups)
    }

    /// Returns the records of a consumer group that are on their way to the log.
    pub(crate) fn of_consumers(&self, group: &str) -> impl Iterator<Item = &ConsumerRecord> {
        self.in_flight.values().flat_map(|append| &append.consumers).filter(move |record| *record.group == *group)
    }

    /// A SyncGroup of this group and generation was answered.
    pub(crate) fn told(&mut self, at: &At, member: &Arc<str>) {
        for append in self.in_flight.values_mut() {
            if append.group == at.group && append.generation.is_some() && append.generation == at.generation {
                append.told_offset.get_or_insert(at.offset);
                append.told.push(Arc::clone(member));
            }
        }
    }

    pub(crate) fn clear(&mut self) {
        self.in_flight.clear();
    }
}

/// A commit was answered NONE by the entry that appends it.
pub(crate) fn of_commit(at: &At, member: &str, rows: &[Row<'_>], found: &mut Found) {
    if rows.iter().any(|row| row.kind == Some("append")) {
        let witness = String::from("a commit was acknowledged at once");
        found.push(at.finding("told before durable", vec![member.into()], witness));
    }
}
