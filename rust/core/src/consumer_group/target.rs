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
    partitions::{PartitionSet, by_topic},
    topics::{TopicMetadata, Topics},
};
use crate::{
    error::ErrorCode,
    records::{ConsumerRecord, SubscriptionValue, TargetEpochValue},
};

/// Of an assignor's plan all members have one generation: that of the last target.
const ANY_GENERATION: i32 = 0;

impl ConsumerGroup {
    /// The assignor that most members name, with the subscription of `changed` in place of its stored one; of several the
    /// first in the list of assignors, and so if no member names one.
    pub fn preferred_assignor(&self, changed: Option<(&str, &SubscriptionValue)>) -> &'static str {
        let others = self.members().filter(|(id, ..)| changed.is_none_or(|(changed, _)| ***id != *changed));
        let subscriptions = others.map(|(_, _, subscription)| subscription).chain(changed.map(|(_, value)| value));
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

    /// The records of a new target, for the members as they are now: one for each member whose part changes or that has
    /// none yet, and that of the epoch. INVARIANT: C7.
    pub fn compute_target(&self, topics: &Topics, wall_ms: i64) -> Result<Vec<ConsumerRecord>, ErrorCode> {
        let plan = self.plan(topics).ok_or(ErrorCode::UnknownServerError)?;
        let mut records = Vec::new();
        for (id, member, _) in self.members() {
            let part = plan.get(id).cloned().unwrap_or_default();
            if member.target.as_ref() != Some(&part) {
                records.push(ConsumerRecord::Target(Arc::clone(id), Some(by_topic(part.into_iter()))));
            }
        }
        records
            .push(ConsumerRecord::TargetEpoch(Some(TargetEpochValue { epoch: self.epoch(), timestamp_ms: wall_ms })));
        Ok(records)
    }

    fn plan(&self, topics: &Topics) -> Option<BTreeMap<Arc<str>, PartitionSet>> {
        let names: BTreeSet<Arc<str>> = self.topic_names();
        // Assignors take topics in the order of their names: here that of their ids (docs/consumer-protocol.md §21).
        let known: BTreeMap<&str, (&TopicMetadata, String)> = (names.iter())
            .filter_map(|name| topics.get(name))
            .map(|topic| (&*topic.name, (topic, format!("{:032x}", topic.topic_id))))
            .collect();
        let key = |name: &str| known.get(name).map(|(_, key)| &**key);
        let assignor = match self.preferred_assignor(None) {
            "range" => Assignor::ServerRange,
            _ => Assignor::Uniform,
        };
        let topic_ids: Vec<u128> = known.values().map(|(topic, _)| topic.topic_id).collect();
        let described: Vec<Topic<'_>> = (known.values())
            .map(|(topic, key)| Topic { name: key, partitions: i64::from(topic.partitions), racks: Vec::new() })
            .collect();
        let members: Vec<_> = self.members().collect();
        let offered: Vec<Member<'_>> = members
            .iter()
            .map(|(id, member, subscription)| Member {
                id,
                // `uniform` takes members by their ids (docs/consumer-protocol.md §21).
                instance_id: subscription.instance_id.as_deref().filter(|_| assignor == Assignor::ServerRange),
                topics: self
                    .subscribed(subscription)
                    .filter_map(|name| key(name))
                    .collect::<BTreeSet<_>>()
                    .into_iter()
                    .collect(),
                owned: (member.target.iter().flatten())
                    .filter_map(|(topic_id, index)| Some((key(topics.name_of(*topic_id)?)?, *index)))
                    .collect(),
                generation: ANY_GENERATION,
                rack: None,
                user_data: None,
            })
            .collect();
        let group = Group::new(&offered, &described, assignor).ok()?;
        let owners = group.assign(assignor, &mut Scratch::default()).ok()?;
        let mut plan: BTreeMap<Arc<str>, PartitionSet> = BTreeMap::new();
        for (number, owner) in (0..).zip(owners) {
            let Some(place) = group.members.get(owner as usize) else { continue };
            let (topic, index) = group.locate(number);
            let partition = (topic_ids[group.topics[topic]], index as i32);
            plan.entry(Arc::clone(members[*place].0)).or_default().insert(partition);
        }
        Some(plan)
    }
}
