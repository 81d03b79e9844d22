//! A classic group as data: what a consumer group becomes, and what it was (docs/consumer-protocol.md §16, §17).

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

pub use super::image::{CONSUMER, ClassicImage};
use super::{
    group::{ConsumerGroup, Current, MemberState},
    partitions::PartitionSet,
    topics::Topics,
};
use crate::{
    embedded::{self, Assignment, EmbeddedError, Subscription, TopicPartitions},
    group::Member,
    records::{ClassicMemberValue, ConsumerRecord, CurrentValue, Record, SubscriptionValue},
};

/// A list of partitions as the embedded protocol has it: by topic name. Topics that are gone are left out.
pub fn named(partitions: impl Iterator<Item = (u128, i32)>, topics: &Topics) -> Vec<TopicPartitions> {
    let mut by_name: BTreeMap<&Arc<str>, Vec<i32>> = BTreeMap::new();
    for (topic_id, partition) in partitions {
        if let Some(name) = topics.name_of(topic_id) {
            by_name.entry(name).or_default().push(partition);
        }
    }
    by_name.into_iter().map(|(name, partitions)| TopicPartitions { topic: name.to_string(), partitions }).collect()
}

/// The inverse: partitions of topics that exist.
pub fn identified(partitions: &[TopicPartitions], topics: &Topics) -> PartitionSet {
    let known = partitions.iter().filter_map(|named| Some((topics.get(&named.topic)?.topic_id, &named.partitions)));
    known.flat_map(|(topic_id, partitions)| partitions.iter().map(move |partition| (topic_id, *partition))).collect()
}

impl ClassicMemberValue {
    /// The subscription in the metadata of the first protocol.
    pub fn subscription(&self) -> Result<Subscription, EmbeddedError> {
        let missing = EmbeddedError::Truncated { field: "protocols" };
        self.protocols.first().map_or(Err(missing), |(_, metadata)| embedded::decode_subscription(metadata))
    }

    /// The name of the first protocol.
    pub fn protocol_name(&self) -> &str {
        self.protocols.first().map_or("", |(name, _)| name)
    }

    /// An assignment for this member, in the version of its subscription.
    pub fn encode(&self, partitions: Vec<TopicPartitions>) -> Result<Vec<u8>, EmbeddedError> {
        let version = self.subscription()?.version;
        embedded::encode_assignment(&Assignment { version, partitions, user_data: None })
    }
}

/// A member of a classic group as a member of a consumer group.
pub struct UpgradedMember {
    /// Its id.
    pub id: Arc<str>,
    /// Its subscription.
    pub subscription: SubscriptionValue,
    /// What it owns, which is its target, too.
    pub assigned: PartitionSet,
    /// What it reports besides, and has to give up.
    pub pending: PartitionSet,
}

impl UpgradedMember {
    /// Record 8 of a member of a group of this generation.
    pub fn current(&self, generation: i32) -> CurrentValue {
        let granted = |partitions: &PartitionSet| partitions.iter().map(|partition| (*partition, generation)).collect();
        let state = if self.pending.is_empty() { MemberState::Stable } else { MemberState::Unrevoked };
        let (assigned, pending) = (granted(&self.assigned), granted(&self.pending));
        Current { epoch: generation, previous_epoch: generation, state, assigned, pending }.value()
    }
}

/// Converts the members of a classic group (docs/consumer-protocol.md §16.2).
///
/// # Errors
/// The metadata or the assignment of a member is not of the consumer embedded protocol.
pub fn upgrade_members(image: &ClassicImage, topics: &Topics) -> Result<Vec<UpgradedMember>, EmbeddedError> {
    let mut members: Vec<&Member> = image.members.iter().collect();
    members.sort_unstable_by(|one, other| one.id.cmp(&other.id));
    let upgraded: Result<_, EmbeddedError> =
        members.iter().map(|member| upgrade_member(member, image, topics)).collect();
    let mut upgraded: Vec<UpgradedMember> = upgraded?;
    keep_first(&mut upgraded);
    // A rebalance without a plan empties assignments: their members have what they report.
    for (_, new) in members.iter().zip(&mut upgraded).filter(|(member, _)| member.assignment.is_empty()) {
        std::mem::swap(&mut new.assigned, &mut new.pending);
    }
    Ok(upgraded)
}

fn upgrade_member(member: &Member, image: &ClassicImage, topics: &Topics) -> Result<UpgradedMember, EmbeddedError> {
    let offered = member.protocols.iter();
    let chosen = image.protocol_name.as_deref().and_then(|name| member.metadata(name));
    let metadata = chosen.or_else(|| offered.clone().next().map(|offer| &offer.metadata));
    let told = embedded::decode_subscription(metadata.map_or(&[], |metadata| metadata))?;
    let subscription = SubscriptionValue {
        instance_id: member.client.instance_id.clone(),
        rack_id: told.rack.map(Arc::from),
        client_id: Arc::clone(&member.client.id),
        client_host: Arc::clone(&member.client.host),
        topic_names: sorted(&told.topics),
        topic_regex: Some("".into()),
        rebalance_timeout_ms: member.rebalance_timeout_ms,
        server_assignor: None,
        classic: Some(ClassicMemberValue {
            session_timeout_ms: member.session_timeout_ms,
            protocols: offered.map(|offer| (Arc::clone(&offer.name), Arc::clone(&offer.metadata))).collect(),
        }),
    };
    let assigned = match &*member.assignment {
        [] => PartitionSet::new(),
        bytes => identified(&embedded::decode_assignment(bytes)?.partitions, topics),
    };
    let pending = identified(&told.owned_partitions, topics);
    Ok(UpgradedMember { id: member.id.shared(), subscription, assigned, pending })
}

/// Leaves a partition that several members claim to the first of them; reports come behind assignments.
/// INVARIANT: C1, no partition twice.
fn keep_first(members: &mut [UpgradedMember]) {
    let mut taken = PartitionSet::new();
    for member in &mut *members {
        member.assigned.retain(|partition| taken.insert(*partition));
    }
    for member in members {
        member.pending.retain(|partition| taken.insert(*partition));
    }
}

/// Names in ascending order, each once.
pub fn sorted(names: &[String]) -> Vec<Arc<str>> {
    names.iter().map(String::as_str).collect::<BTreeSet<&str>>().into_iter().map(Arc::from).collect()
}

impl ConsumerGroup {
    /// The members that a classic group does not take over.
    pub fn members_without(&self, image: &ClassicImage) -> BTreeSet<Arc<str>> {
        let kept: BTreeSet<Arc<str>> = image.members.iter().map(|member| member.id.shared()).collect();
        self.members().map(|(id, ..)| Arc::clone(id)).filter(|id| !kept.contains(id)).collect()
    }

    /// Whether the records of this many members were too large for one batch.
    pub fn is_too_large_to_downgrade(&self, members: usize) -> bool {
        self.too_many_to_downgrade.is_some_and(|too_many| members >= too_many)
    }

    /// Whether every member but these speaks the classic protocol.
    pub fn is_classic_without(&self, members: &BTreeSet<Arc<str>>) -> bool {
        self.members().all(|(id, _, value)| value.classic.is_some() || members.contains(id))
    }

    /// The tombstones of everything that the log has of the group (docs/consumer-protocol.md §14.3), and then the classic group.
    pub fn tombstones_and(&self, image: &ClassicImage, wall_ms: i64) -> Vec<Record> {
        let ids: Vec<Arc<str>> = self.members().map(|(id, ..)| Arc::clone(id)).collect();
        let all = |record: fn(Arc<str>) -> ConsumerRecord| ids.iter().map(move |id| record(Arc::clone(id)));
        let patterns = self.patterns().map(|pattern| ConsumerRecord::Pattern(Arc::clone(pattern), None));
        let mut records: Vec<ConsumerRecord> = all(|id| ConsumerRecord::Current(id, None)).collect();
        records.extend(all(|id| ConsumerRecord::Target(id, None)));
        records.push(ConsumerRecord::TargetEpoch(None));
        records.extend(all(|id| ConsumerRecord::Member(id, None)));
        records.extend(patterns);
        records.extend([ConsumerRecord::Metadata(None), ConsumerRecord::Epoch(None)]);
        let own = |about| Record::Consumer { group_id: Arc::clone(&self.id), about };
        let mut records: Vec<Record> = records.into_iter().map(own).collect();
        records.push(Record::Group { group_id: Arc::clone(&self.id), value: Some(image.value(wall_ms)) });
        records
    }
}
