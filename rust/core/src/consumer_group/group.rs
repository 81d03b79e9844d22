//! A consumer group: the fold of its records, and what is not in them (docs/consumer-protocol.md §1).

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    sync::Arc,
};

use serde::{Deserialize, Serialize};

use super::{
    partitions::{Granted, Partition, PartitionSet, by_topic, granted_of, set_of, with_epochs},
    waiting::{Waiting, Write},
};
use crate::{
    purgatory::OpId,
    records::{ConsumerRecord, CurrentValue, EpochValue, SubscriptionValue, TargetEpochValue},
};

/// The epochs of a group without records of them.
const FIRST_EPOCH: i32 = 1;

/// The epoch of a static member that is away.
pub const AWAY: i32 = -2;

/// How far a member is with its assignment. Numbers are those of the records.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum MemberState {
    /// It owns what its epoch says.
    Stable,
    /// It has partitions to give up first.
    Unrevoked,
    /// It waits for partitions that others hold.
    Unreleased,
    /// A state of a later version.
    Unknown(i8),
}

impl MemberState {
    fn from_code(code: i8) -> MemberState {
        match code {
            0 => MemberState::Stable,
            1 => MemberState::Unrevoked,
            2 => MemberState::Unreleased,
            other => MemberState::Unknown(other),
        }
    }

    fn code(self) -> i8 {
        match self {
            MemberState::Stable => 0,
            MemberState::Unrevoked => 1,
            MemberState::Unreleased => 2,
            MemberState::Unknown(other) => other,
        }
    }
}

/// The current assignment of a member.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Current {
    /// The member epoch.
    pub epoch: i32,
    /// The member epoch before it.
    pub previous_epoch: i32,
    /// How far it is.
    pub state: MemberState,
    /// What it owns.
    pub assigned: Granted,
    /// What it has to give up.
    pub pending: Granted,
}

impl Current {
    /// Of a member that has just joined.
    pub fn joining() -> Current {
        let (assigned, pending) = (Granted::new(), Granted::new());
        Current { epoch: 0, previous_epoch: -1, state: MemberState::Stable, assigned, pending }
    }

    /// As a record has it.
    pub fn value(&self) -> CurrentValue {
        CurrentValue {
            epoch: self.epoch,
            previous_epoch: self.previous_epoch,
            state: self.state.code(),
            assigned: with_epochs(&self.assigned),
            pending_revocation: with_epochs(&self.pending),
        }
    }

    fn of(value: &CurrentValue) -> Current {
        Current {
            epoch: value.epoch,
            previous_epoch: value.previous_epoch,
            state: MemberState::from_code(value.state),
            assigned: granted_of(&value.assigned, value.epoch),
            pending: granted_of(&value.pending_revocation, value.epoch),
        }
    }

    /// What it holds: owned, or still to be given up.
    pub fn held(&self) -> impl Iterator<Item = (&Partition, &i32)> {
        self.assigned.iter().chain(&self.pending)
    }
}

/// What is known of a member id. Records come in any order in a compacted log: each part can be missing.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct ConsumerMember {
    /// Who it is and what it subscribes to; a member without is none.
    pub subscription: Option<Box<SubscriptionValue>>,
    /// Its part of the target assignment.
    pub target: Option<PartitionSet>,
    /// Its current assignment.
    pub current: Option<Current>,
    /// When its session ends.
    pub session: Option<OpId>,
    /// Until when it may take to give partitions up.
    pub rebalance: Option<OpId>,
}

impl ConsumerMember {
    fn is_forgotten(&self) -> bool {
        self.subscription.is_none() && self.target.is_none() && self.current.is_none()
    }

    /// Its member epoch.
    pub fn epoch(&self) -> i32 {
        self.current.as_ref().map_or(0, |current| current.epoch)
    }

    /// Whether it owns what the target of `target_epoch` gives it.
    pub fn is_reconciled(&self, target_epoch: i32) -> bool {
        let reconciled = |current: &Current| current.state == MemberState::Stable && current.epoch == target_epoch;
        self.current.as_ref().is_some_and(reconciled)
    }
}

/// The state of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GroupState {
    /// It has no members.
    Empty,
    /// The target is older than the group epoch.
    Assigning,
    /// Some member does not own its part of the target yet.
    Reconciling,
    /// All do.
    Stable,
}

impl GroupState {
    /// The name on the wire.
    pub fn name(self) -> &'static str {
        match self {
            GroupState::Empty => "Empty",
            GroupState::Assigning => "Assigning",
            GroupState::Reconciling => "Reconciling",
            GroupState::Stable => "Stable",
        }
    }
}

/// A group.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ConsumerGroup {
    /// Its id.
    pub id: Arc<str>,
    epoch: Option<EpochValue>,
    target: Option<TargetEpochValue>,
    members: BTreeMap<Arc<str>, ConsumerMember>,
    /// Static members by instance id.
    instances: BTreeMap<Arc<str>, Arc<str>>,
    /// Who holds a partition.
    owners: BTreeMap<Partition, Arc<str>>,
    /// Topics by pattern, as bytes.
    patterns: BTreeMap<Arc<str>, Box<[u8]>>,
    /// Until when the metadata hash needs no check, monotonic milliseconds. Not in the log: 0 after a load.
    pub metadata_until_ms: u64,
    /// The append in flight.
    pub write: Option<Write>,
    /// What waits for its end, in order of arrival.
    pub waiting: VecDeque<Waiting>,
}

impl ConsumerGroup {
    /// A group without records.
    pub fn new(id: Arc<str>) -> ConsumerGroup {
        ConsumerGroup {
            id,
            epoch: None,
            target: None,
            members: BTreeMap::new(),
            instances: BTreeMap::new(),
            owners: BTreeMap::new(),
            patterns: BTreeMap::new(),
            metadata_until_ms: 0,
            write: None,
            waiting: VecDeque::new(),
        }
    }

    /// The group epoch.
    pub fn epoch(&self) -> i32 {
        self.epoch.map_or(FIRST_EPOCH, |value| value.epoch)
    }

    /// Over the metadata of the subscribed topics; 0: none.
    pub fn metadata_hash(&self) -> i64 {
        self.epoch.map_or(0, |value| value.metadata_hash)
    }

    /// The group epoch of the target assignment.
    pub fn target_epoch(&self) -> i32 {
        self.target.map_or(FIRST_EPOCH, |value| value.epoch)
    }

    /// When the target was computed, wall milliseconds; 0: unknown.
    pub fn target_timestamp_ms(&self) -> i64 {
        self.target.map_or(0, |value| value.timestamp_ms)
    }

    /// The member with this id.
    pub fn member(&self, member_id: &str) -> Option<&ConsumerMember> {
        self.members.get(member_id).filter(|member| member.subscription.is_some())
    }

    /// The same, with its id as the group has it.
    pub fn member_entry(&self, member_id: &str) -> Option<(&Arc<str>, &ConsumerMember)> {
        self.members.get_key_value(member_id).filter(|(_, member)| member.subscription.is_some())
    }

    /// The same, for its timers.
    pub fn member_mut(&mut self, member_id: &str) -> Option<&mut ConsumerMember> {
        self.members.get_mut(member_id)
    }

    /// All members with their subscriptions, by id.
    pub fn members(&self) -> impl Iterator<Item = (&Arc<str>, &ConsumerMember, &SubscriptionValue)> {
        self.members.iter().filter_map(|(id, member)| Some((id, member, member.subscription.as_deref()?)))
    }

    /// How many members it has.
    pub fn size(&self) -> usize {
        self.members().count()
    }

    /// Whether it has no members.
    pub fn is_empty(&self) -> bool {
        self.members().next().is_none()
    }

    /// Whether no record of it is left.
    pub fn is_gone(&self) -> bool {
        self.epoch.is_none() && self.target.is_none() && self.members.is_empty()
    }

    /// The static member of an instance id.
    pub fn instance(&self, instance_id: &str) -> Option<&Arc<str>> {
        self.instances.get(instance_id)
    }

    /// Static members by instance id.
    pub fn instances(&self) -> &BTreeMap<Arc<str>, Arc<str>> {
        &self.instances
    }

    /// Who holds which partition.
    pub fn owners(&self) -> &BTreeMap<Partition, Arc<str>> {
        &self.owners
    }

    /// Whether no member other than `member_id` holds the partition.
    pub fn is_free_for(&self, partition: Partition, member_id: &str) -> bool {
        self.owners.get(&partition).is_none_or(|owner| **owner == *member_id)
    }

    /// Patterns that were resolved.
    pub fn patterns(&self) -> impl Iterator<Item = &Arc<str>> {
        self.patterns.keys()
    }

    /// Its state.
    pub fn state(&self) -> GroupState {
        let target_epoch = self.target_epoch();
        if self.is_empty() {
            GroupState::Empty
        } else if self.epoch() > target_epoch {
            GroupState::Assigning
        } else if self.members().all(|(_, member, _)| member.is_reconciled(target_epoch)) {
            GroupState::Stable
        } else {
            GroupState::Reconciling
        }
    }

    /// The names of the topics that members subscribe to.
    pub fn topic_names(&self) -> BTreeSet<Arc<str>> {
        self.members().flat_map(|(_, _, subscription)| subscription.topic_names.iter().cloned()).collect()
    }

    /// Whether some member subscribes to the topic.
    pub fn subscribes_to(&self, topic: &str) -> bool {
        self.members().any(|(_, _, subscription)| subscription.topic_names.iter().any(|name| **name == *topic))
    }

    /// Folds a record into the group, and returns the record that undoes it.
    pub fn apply(&mut self, record: &ConsumerRecord) -> ConsumerRecord {
        match record {
            ConsumerRecord::Epoch(value) => ConsumerRecord::Epoch(std::mem::replace(&mut self.epoch, *value)),
            ConsumerRecord::TargetEpoch(value) => {
                ConsumerRecord::TargetEpoch(std::mem::replace(&mut self.target, *value))
            }
            // No state comes of it.
            ConsumerRecord::Metadata(_) => ConsumerRecord::Metadata(None),
            ConsumerRecord::Pattern(pattern, Some(value)) => {
                let before = self.patterns.insert(Arc::clone(pattern), value.clone());
                ConsumerRecord::Pattern(Arc::clone(pattern), before)
            }
            ConsumerRecord::Pattern(pattern, None) => {
                ConsumerRecord::Pattern(Arc::clone(pattern), self.patterns.remove(pattern))
            }
            ConsumerRecord::Member(id, value) => {
                let before = self.apply_member(id, value.as_deref());
                ConsumerRecord::Member(Arc::clone(id), before)
            }
            ConsumerRecord::Target(id, value) => {
                let target = value.as_deref().map(set_of);
                let before = self.change(id, |member| std::mem::replace(&mut member.target, target));
                ConsumerRecord::Target(Arc::clone(id), before.map(|before| by_topic(before.into_iter())))
            }
            ConsumerRecord::Current(id, value) => {
                let before = self.apply_current(id, value.as_deref().map(Current::of));
                ConsumerRecord::Current(Arc::clone(id), before.map(|before| Box::new(before.value())))
            }
        }
    }

    /// Changes what is known of a member id, and forgets the id if nothing is left.
    fn change<T>(&mut self, id: &Arc<str>, change: impl FnOnce(&mut ConsumerMember) -> T) -> T {
        let member = self.members.entry(Arc::clone(id)).or_default();
        let result = change(member);
        if member.is_forgotten() {
            self.members.remove(id);
        }
        result
    }

    fn apply_member(&mut self, id: &Arc<str>, value: Option<&SubscriptionValue>) -> Option<Box<SubscriptionValue>> {
        let before =
            self.change(id, |member| std::mem::replace(&mut member.subscription, value.cloned().map(Box::new)));
        if let Some(instance_id) = before.as_ref().and_then(|before| before.instance_id.as_ref())
            && self.instances.get(instance_id) == Some(id)
        {
            self.instances.remove(instance_id);
        }
        if let Some(instance_id) = value.and_then(|value| value.instance_id.as_ref()) {
            self.instances.insert(Arc::clone(instance_id), Arc::clone(id));
        }
        before
    }

    /// INVARIANT: C1. In a compacted log an older record may name a partition that a later one gave to somebody else:
    /// the later record wins.
    fn apply_current(&mut self, id: &Arc<str>, current: Option<Current>) -> Option<Current> {
        let held: Vec<Partition> = current.iter().flat_map(Current::held).map(|(partition, _)| *partition).collect();
        let before = self.change(id, |member| std::mem::replace(&mut member.current, current));
        for (partition, _) in before.iter().flat_map(Current::held) {
            if self.owners.get(partition) == Some(id) {
                self.owners.remove(partition);
            }
        }
        for partition in held {
            self.owners.insert(partition, Arc::clone(id));
        }
        before
    }

    /// Ends a load: forgets what has no subscription, which only a damaged log leaves behind.
    pub fn finish_replay(&mut self) {
        let strays: Vec<Arc<str>> = self
            .members
            .iter()
            .filter(|(_, member)| member.subscription.is_none())
            .map(|(id, _)| Arc::clone(id))
            .collect();
        for id in strays {
            self.apply_current(&id, None);
            self.members.remove(&id);
        }
    }
}
