//! What is remembered of the groups of one partition.

use std::{collections::HashMap, sync::Arc};

use serde::{Deserialize, Serialize};

use crate::{
    answers::Answers,
    commits::{Committed, Owners},
    consumers::{Consumers, Known},
    finding::Found,
    generations::Generations,
    owners, returns,
    rounds::Storm,
    shape,
    version::Version,
};

/// All that is remembered of a group.
#[derive(Debug, Default, Deserialize, Serialize)]
pub(crate) struct Group {
    /// Whether there was a record of the newer protocol. From then on only the promises of both protocols hold: its
    /// classic members have epochs for generations, and no leader.
    pub is_newer: bool,
    /// The last record: its generation and offset.
    last: Option<(Option<i32>, i64)>,
    generations: Generations,
    members: returns::Members,
    pub owners: Owners,
    pub committed: Committed,
    pub consumers: Consumers,
    pub storm: Storm,
    pub answers: Answers,
}

impl Group {
    /// Whether a record of generation 0 begins a life: the log has no other generation that is alive.
    pub(crate) fn may_begin(&self) -> bool {
        self.last.is_none_or(|(generation, _)| generation.is_none_or(|generation| generation == 0))
    }

    /// Records are missing, by which a classic group may have ended and begun anew.
    fn forget(&mut self) {
        self.last = None;
        self.generations.end();
        self.committed = Committed::default();
    }

    /// A record of the group became durable.
    pub(crate) fn of_version(&mut self, version: &Version, is_journal: bool, found: &mut Found) {
        let last = self.last;
        if last.is_some_and(|(_, offset)| version.offset < offset) {
            // Its append ended after that of a later one.
            if version.generation.is_some() {
                of_one_record(version, false, true, found);
            }
            return;
        }
        self.last = Some((version.generation, version.offset));
        if version.generation.is_none() {
            self.generations.end();
        } else {
            let before = last.and_then(|(generation, _)| generation);
            of_one_record(version, before.is_some() && before != version.generation, before.is_some(), found);
            self.generations.of_version(version, found);
            if is_journal {
                self.owners.of_version(version, found.extent.generations());
            }
        }
        let answers = &self.answers;
        self.members.of_version(version, |member| !is_journal || answers.members.was_told(member), found);
    }
}

fn of_one_record(version: &Version, begins: bool, was_classic: bool, found: &mut Found) {
    owners::of_version(version, begins, found);
    shape::of_version(version, was_classic, found);
}

/// The groups of one partition.
#[derive(Debug, Default)]
pub(crate) struct Groups {
    index: HashMap<Arc<str>, usize>,
    all: Vec<(Arc<str>, Group)>,
    last: usize,
    known: Known,
    forgets: bool,
}

impl Groups {
    /// `forgets`: what was remembered of a classic group counts no more where records are missing. A log that is read
    /// at once needs that not: compaction never leaves a record and takes a later tombstone of the group.
    pub(crate) fn new(forgets: bool) -> Groups {
        Groups { forgets, ..Groups::default() }
    }

    /// Returns a group, which is new if nothing is remembered of it.
    pub(crate) fn get(&mut self, name: &str) -> (&Arc<str>, &mut Group) {
        if self.all.get(self.last).is_none_or(|(last, _)| **last != *name) {
            self.last = match self.index.get(name) {
                Some(index) => *index,
                None => self.insert(name.into(), Group::default()),
            };
        }
        let (name, group) = &mut self.all[self.last];
        if self.forgets && group.consumers.lacks(self.known) {
            group.forget();
        }
        group.consumers.know(self.known);
        (name, group)
    }

    /// Records of consumer groups are missing, or those of other groups than were found since.
    pub(crate) fn know(&mut self, known: Known) {
        self.known = known;
    }

    pub(crate) fn insert(&mut self, name: Arc<str>, group: Group) -> usize {
        let index = self.all.len();
        self.index.insert(Arc::clone(&name), index);
        self.all.push((name, group));
        index
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&Arc<str>, &Group)> {
        self.all.iter().map(|(name, group)| (name, group))
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = (&Arc<str>, &mut Group)> {
        self.all.iter_mut().map(|(name, group)| (&*name, group))
    }
}
