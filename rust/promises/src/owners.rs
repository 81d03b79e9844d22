//! S12: a partition has one owner, who subscribes to its topic.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::Arc,
};

use serde::{Deserialize, Serialize};

use crate::{
    columns::Row,
    finding::{At, Found},
    version::{TopicPartition, Version},
};

/// `begins`: the record is the first of its generation for certain. A static member may return with another
/// subscription, and its assignment stays as it was until the next generation (docs/protocol.md §9.3).
pub(crate) fn of_version(version: &Version, begins: bool, found: &mut Found) {
    let at = version.at();
    let mut owners: HashMap<&TopicPartition, &Arc<str>> = HashMap::new();
    let mut twice: BTreeMap<&TopicPartition, BTreeSet<&Arc<str>>> = BTreeMap::new();
    for member in &version.members {
        for place in &member.places {
            let first = *owners.entry(place).or_insert(&member.name);
            if *first != member.name {
                twice.entry(place).or_default().extend([first, &member.name]);
            }
        }
        if member.topics.is_empty() || !(begins || member.instance.is_none()) {
            continue;
        }
        let strange = member.places.iter().filter(|(topic, _)| !member.topics.contains(topic)).min();
        if let Some(place) = strange {
            found.push(at.finding("not subscribed", vec![Arc::clone(&member.name)], named(place)));
        }
    }
    for (place, members) in twice {
        found.push(at.finding("two owners", members.into_iter().cloned().collect(), named(place)));
    }
}

/// `orders-0`.
pub(crate) fn named((topic, partition): &TopicPartition) -> String {
    format!("{topic}-{partition}")
}

/// The partitions that members of the newer protocol hold.
#[derive(Debug, Default, Deserialize, Serialize)]
pub(crate) struct Holders {
    held: BTreeMap<Arc<str>, Vec<TopicPartition>>,
    /// Members, and since which offset they hold it.
    holders: HashMap<TopicPartition, Vec<(Arc<str>, i64)>>,
}

impl Holders {
    /// The rows of one record: what a member holds from now on.
    pub(crate) fn of_rows(&mut self, group: &Arc<str>, rows: &[Row<'_>], found: &mut Found) {
        let row = &rows[0];
        let member: Arc<str> = row.member.unwrap_or_default().into();
        let places: BTreeSet<TopicPartition> = rows
            .iter()
            .filter(|row| row.kind == Some("consumer_assigned"))
            .map(|row| (row.topic.unwrap_or_default().into(), row.topic_partition.unwrap_or_default()))
            .collect();
        for place in self.held.remove(&member).unwrap_or_default() {
            if let Some(holders) = self.holders.get_mut(&place) {
                holders.retain(|(holder, _)| *holder != member);
                if holders.is_empty() {
                    self.holders.remove(&place);
                }
            }
        }
        let at = At {
            group: Some(Arc::clone(group)),
            generation: row.generation,
            offset: row.offset.unwrap_or_default(),
            at_ms: row.at_ms,
        };
        for place in &places {
            let holders = self.holders.entry(place.clone()).or_default();
            for (other, offset) in &*holders {
                let members = vec![Arc::clone(other), Arc::clone(&member)];
                found.push(at.since(*offset, "held by two", members, named(place)));
            }
            holders.push((Arc::clone(&member), at.offset));
        }
        if !places.is_empty() {
            self.held.insert(member, places.into_iter().collect());
        }
    }
}
