//! C7: a target gives each partition to one member, and leaves none of a topic out (docs/consumer-protocol.md §7.2).
//!
//! The number of partitions of a topic is at least what the records show. The assignors of brokers are `uniform` and
//! `range`; if a member names another one, its plans are its own.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::Arc,
};

use serde::{Deserialize, Serialize};

use crate::{consumers::ConsumerRecord, finding::Found, owners::named, version::TopicPartition};

/// The assignors whose plans are complete and disjoint.
const ASSIGNORS: [&str; 2] = ["uniform", "range"];

/// The target of a consumer group, and what is known of its topics.
#[derive(Debug, Default, Deserialize, Serialize)]
pub(crate) struct Targets {
    of_members: HashMap<Arc<str>, Vec<TopicPartition>>,
    /// Who is to have a partition.
    wanted: HashMap<TopicPartition, Vec<Arc<str>>>,
    /// Partitions that more than one member is to have.
    twice: BTreeSet<TopicPartition>,
    /// Of each topic with a target how many of its partitions have one.
    covered: BTreeMap<Arc<str>, usize>,
    /// How many partitions a topic has at least.
    sizes: HashMap<Arc<str>, usize>,
    /// Members that name another assignor.
    own: BTreeSet<Arc<str>>,
    /// Whether the next target is what the leader of a classic group made of it.
    is_converted: bool,
}

impl Targets {
    pub(crate) fn of_classic_end(&mut self) {
        self.is_converted = true;
    }

    /// A member names its assignor, or is gone.
    pub(crate) fn of_member(&mut self, record: &ConsumerRecord) {
        self.own.remove(&record.member);
        if record.assignor.as_deref().is_some_and(|name| !ASSIGNORS.contains(&name)) {
            self.own.insert(Arc::clone(&record.member));
        }
    }

    /// Partitions in a record exist.
    pub(crate) fn see(&mut self, record: &ConsumerRecord) {
        for ((topic, index), _) in record.assigned.iter().chain(&record.pending) {
            let size = usize::try_from(*index).map_or(0, |index| index + 1);
            match self.sizes.get_mut(topic) {
                Some(known) => *known = size.max(*known),
                None => drop(self.sizes.insert(Arc::clone(topic), size)),
            }
        }
    }

    /// A member is to have other partitions; after a tombstone none.
    pub(crate) fn of_target(&mut self, record: &ConsumerRecord) {
        self.see(record);
        let member = &record.member;
        for place in self.of_members.remove(member).unwrap_or_default() {
            let Some(members) = self.wanted.get_mut(&place) else { continue };
            members.retain(|other| other != member);
            if members.len() < 2 {
                self.twice.remove(&place);
            }
            if members.is_empty() {
                self.wanted.remove(&place);
                let left = self.covered.get_mut(&place.0).map(|count| {
                    *count -= 1;
                    *count
                });
                if left == Some(0) {
                    self.covered.remove(&place.0);
                }
            }
        }
        let target: BTreeSet<&TopicPartition> = record.assigned.iter().map(|(place, _)| place).collect();
        for place in &target {
            let members = self.wanted.entry((*place).clone()).or_default();
            if members.is_empty() {
                *self.covered.entry(Arc::clone(&place.0)).or_default() += 1;
            } else {
                self.twice.insert((*place).clone());
            }
            members.push(Arc::clone(member));
        }
        if !target.is_empty() {
            self.of_members.insert(Arc::clone(member), target.into_iter().cloned().collect());
        }
    }

    /// The target is written. `is_whole`: that of every member is known.
    pub(crate) fn of_epoch(&mut self, record: &ConsumerRecord, is_whole: bool, found: &mut Found) {
        if std::mem::take(&mut self.is_converted) || !self.own.is_empty() {
            return;
        }
        let at = record.at();
        for place in &self.twice {
            found.push(at.finding("target of two", self.wanted[place].clone(), named(place)));
        }
        for (topic, covered) in self.covered.iter().filter(|_| is_whole) {
            let size = self.sizes.get(topic).copied().unwrap_or_default();
            if *covered < size {
                let witness = format!("{covered} of {size} partitions of {topic} have a target");
                found.push(at.finding("target incomplete", Vec::new(), witness));
            }
        }
    }
}
