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
    /// Of a life before this offset nothing is remembered.
    lives_from: i64,
}

impl Group {
    /// Whether a record of generation 0 begins a life: the log has no other generation that is alive.
    pub(crate) fn may_begin(&self) -> bool {
        self.last.is_none_or(|(generation, _)| generation.is_none_or(|generation| generation == 0))
    }

    /// Forgets the life of a classic group before records that are missing, by which it may have ended and begun anew.
    fn live_from(&mut self, lives_from: i64) {
        if self.lives_from < lives_from {
            self.lives_from = lives_from;
            self.last = None;
            self.generations.end();
            self.committed = Committed::default();
        }
    }

    /// A whole state behind missing records has the group. It is the one of before unless its generation was later then.
    fn is_held(&mut self, lives_from: i64, generation: Option<i32>) {
        let is_another = |generation: &i32| self.generations.has_later(*generation);
        match generation.filter(is_another) {
            Some(generation) => {
                self.live_from(lives_from);
                self.generations.begin(generation, lives_from);
            }
            None => self.lives_from = lives_from,
        }
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
    /// Records before this offset are missing that may have ended a classic group.
    lives_from: i64,
}

impl Groups {
    /// Returns a group, which is new if nothing is remembered of it.
    pub(crate) fn get(&mut self, name: &str) -> (&Arc<str>, &mut Group) {
        let (lives_from, known) = (self.lives_from, self.known);
        let (name, group) = self.remembered(name);
        group.live_from(lives_from);
        group.consumers.know(known);
        (name, group)
    }

    /// A whole state has the group, in this generation if it is a classic one.
    pub(crate) fn is_held(&mut self, name: &str, generation: Option<i32>) {
        let lives_from = self.lives_from;
        let (_, group) = self.remembered(name);
        if group.lives_from < lives_from {
            group.is_held(lives_from, generation);
        }
    }

    fn remembered(&mut self, name: &str) -> (&Arc<str>, &mut Group) {
        if self.all.get(self.last).is_none_or(|(last, _)| **last != *name) {
            self.last = match self.index.get(name) {
                Some(index) => *index,
                None => self.insert(name.into(), Group::default()),
            };
        }
        let (name, group) = &mut self.all[self.last];
        (name, group)
    }

    /// Records of consumer groups are missing, or those of other groups than were found since.
    pub(crate) fn know(&mut self, known: Known) {
        self.known = known;
    }

    /// Records before this offset are missing that may have ended classic groups.
    pub(crate) fn live_from(&mut self, lives_from: i64) {
        self.lives_from = lives_from;
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
