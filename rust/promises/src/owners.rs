//! S12: a partition has one owner, who subscribes to its topic.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::Arc,
};

use crate::{
    finding::Found,
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
