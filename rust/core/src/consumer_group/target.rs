//! The target assignment: which member is to own which partitions (docs/consumer-protocol.md §7).

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use rota_assign::{
    Scratch,
    names::{Assignor, Group, Member, Topic},
};

use super::{
    config::ASSIGNORS,
    group::ConsumerGroup,
    partitions::{Partition, by_topic},
    topics::{TopicMetadata, Topics},
};
use crate::{
    error::ErrorCode,
    records::{ConsumerRecord, TargetEpochValue},
    request::Now,
};

/// Of an assignor's plan all members have one generation: that of the last target.
const ANY_GENERATION: i32 = 0;

impl ConsumerGroup {
    /// The assignor that most members name; of several the first in the list of assignors, and so if no member names one.
    pub fn preferred_assignor(&self) -> &'static str {
        let subscriptions = self.members().map(|(_, _, subscription)| subscription);
        let mut votes = [0; ASSIGNORS.len()];
        for name in subscriptions.filter_map(|subscription| subscription.server_assignor.as_deref()) {
            if let Some(at) = ASSIGNORS.iter().position(|assignor| *assignor == name) {
                votes[at] += 1;
            }
        }
        let most = votes.iter().copied().max().unwrap_or(0);
        votes.iter().position(|count| *count == most).map_or(ASSIGNORS[0], |at| ASSIGNORS[at])
    }

    /// The hash of the metadata of the topics that members subscribe to.
    pub fn subscribed_hash(&self, topics: &Topics) -> i64 {
        topics.hash(self.topic_names().iter())
    }

    /// Whether there is reason for a new target, and the last one is old enough (docs/consumer-protocol.md §7.1).
    pub fn is_target_due(&self, now: Now, interval_ms: i32) -> bool {
        let age_ms = now.wall_ms.saturating_sub(self.target_timestamp_ms());
        // A clock that was put back counts as a long time (departure D26).
        let is_old_enough = self.target_timestamp_ms() == 0 || age_ms < 0 || age_ms >= i64::from(interval_ms);
        self.epoch() > self.target_epoch() && is_old_enough
    }

    /// The records of a new target, for the members as they are now: one for each member whose part changes or that has
    /// none yet, and that of the epoch. INVARIANT: C7.
    pub fn compute_target(&self, topics: &Topics, wall_ms: i64) -> Result<Vec<ConsumerRecord>, ErrorCode> {
        let plan = self.plan(topics).ok_or(ErrorCode::UnknownServerError)?;
        let mut records = Vec::new();
        for ((id, member, _), part) in self.members().zip(plan) {
            if member.target.as_ref().is_none_or(|target| !target.iter().eq(&part)) {
                records.push(ConsumerRecord::Target(Arc::clone(id), Some(by_topic(part.into_iter()))));
            }
        }
        records
            .push(ConsumerRecord::TargetEpoch(Some(TargetEpochValue { epoch: self.epoch(), timestamp_ms: wall_ms })));
        Ok(records)
    }

    /// What each member is to have, in the order of the members; ascending.
    fn plan(&self, topics: &Topics) -> Option<Vec<Vec<Partition>>> {
        let names: BTreeSet<Arc<str>> = self.topic_names();
        // Assignors take topics in the order of their names: here that of their ids (docs/consumer-protocol.md §21).
        let known: BTreeMap<&str, (&TopicMetadata, String)> = (names.iter())
            .filter_map(|name| topics.get(name))
            .map(|topic| (&*topic.name, (topic, format!("{:032x}", topic.topic_id))))
            .collect();
        let key = |name: &str| known.get(name).map(|(_, key)| &**key);
        let assignor = match self.preferred_assignor() {
            "range" => Assignor::ServerRange,
            _ => Assignor::Uniform,
        };
        let topic_ids: Vec<u128> = known.values().map(|(topic, _)| topic.topic_id).collect();
        let described: Vec<Topic<'_>> = (known.values())
            .map(|(topic, key)| Topic { name: key, partitions: i64::from(topic.partitions), racks: Vec::new() })
            .collect();
        let mut by_id: Vec<(u128, &str)> = known.values().map(|(topic, key)| (topic.topic_id, &**key)).collect();
        by_id.sort_unstable();
        let members: Vec<_> = self.members().collect();
        let mut offered: Vec<Member<'_>> = Vec::with_capacity(members.len());
        for (id, member, subscription) in &members {
            // Most members subscribe to what the one before them does.
            let before = offered.last().zip(members.get(offered.len().wrapping_sub(1)));
            let same = before.filter(|(_, (_, _, other))| self.subscribed(subscription).eq(self.subscribed(other)));
            let subscribed = if let Some((before, _)) = same {
                before.topics.clone()
            } else {
                let ordered: BTreeSet<&str> = self.subscribed(subscription).filter_map(|name| key(name)).collect();
                ordered.into_iter().collect()
            };
            offered.push(Member {
                id,
                // `uniform` takes members by their ids (docs/consumer-protocol.md §21).
                instance_id: subscription.instance_id.as_deref().filter(|_| assignor == Assignor::ServerRange),
                topics: subscribed,
                owned: owned(member.target.iter().flatten(), &by_id),
                generation: ANY_GENERATION,
                rack: None,
                user_data: None,
            });
        }
        let group = Group::new(&offered, &described, assignor).ok()?;
        let owners = group.assign(assignor, &mut Scratch::default()).ok()?;
        let mut plan = vec![Vec::new(); members.len()];
        let mut owners = owners.into_iter();
        for place in &group.topics {
            for (index, owner) in (0..described[*place].partitions).zip(&mut owners) {
                if let Some(member) = group.members.get(owner as usize) {
                    plan[*member].push((topic_ids[*place], index as i32));
                }
            }
        }
        Some(plan)
    }
}

/// Partitions, which ascend, by the keys of their topics; those of topics without a key are left out. `keys` ascend.
fn owned<'a, 'k>(target: impl Iterator<Item = &'a Partition>, keys: &[(u128, &'k str)]) -> Vec<(&'k str, i32)> {
    let mut keys = keys.iter().peekable();
    let mut found = Vec::new();
    for &(topic_id, index) in target {
        while keys.next_if(|(known, _)| *known < topic_id).is_some() {}
        found.extend(keys.peek().filter(|(known, _)| *known == topic_id).map(|(_, key)| (*key, index)));
    }
    found
}
