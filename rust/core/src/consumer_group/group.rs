//! A consumer group: the fold of its records, and what is not in them (docs/consumer-protocol.md §1).

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    sync::Arc,
};

use serde::{Deserialize, Serialize};

use super::{
    counts::Counts,
    partitions::{Granted, Partition, PartitionSet, by_topic, granted_of, set_of, with_epochs},
    waiting::{Later, OnEnd, Waiting, Write},
};
use crate::{
    history::Rebalance,
    purgatory::OpId,
    records::{ConsumerRecord, CurrentValue, EpochValue, PatternValue, SubscriptionValue, TargetEpochValue},
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
    /// Until when a classic member has to join again.
    pub join: Option<OpId>,
    /// Until when a classic member has to send `SyncGroup`.
    pub sync: Option<OpId>,
}

impl ConsumerMember {
    fn is_forgotten(&self) -> bool {
        self.subscription.is_none() && self.target.is_none() && self.current.is_none()
    }

    /// Whether it speaks the classic protocol.
    pub fn is_classic(&self) -> bool {
        self.subscription.as_ref().is_some_and(|value| value.classic.is_some())
    }

    /// Its deadlines, which it does not have any more.
    pub fn take_deadlines(&mut self) -> impl Iterator<Item = OpId> + use<> {
        let deadlines = [self.session.take(), self.rebalance.take(), self.join.take(), self.sync.take()];
        deadlines.into_iter().flatten()
    }

    /// Its member epoch.
    pub fn epoch(&self) -> i32 {
        self.current.as_ref().map_or(0, |current| current.epoch)
    }

    /// Whether it owns what the target of `target_epoch` gives it. One without a record is at epoch 0, which a group is
    /// at only if it was converted before its first generation.
    pub fn is_reconciled(&self, target_epoch: i32) -> bool {
        let reconciled = |current: &Current| current.state == MemberState::Stable && current.epoch == target_epoch;
        self.current.as_ref().map_or(target_epoch == 0, reconciled)
    }
}

/// The state of a group.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum GroupState {
    /// It has no members.
    #[default]
    Empty,
    /// The target is older than the group epoch.
    Assigning,
    /// Some member does not own its part of the target yet.
    Reconciling,
    /// All do.
    Stable,
}

impl GroupState {
    /// All states, in declaration order.
    pub const ALL: [GroupState; 4] =
        [GroupState::Empty, GroupState::Assigning, GroupState::Reconciling, GroupState::Stable];

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

/// The durable state of a group, without what an append in flight would change, and its history since the load.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct GroupHistory {
    /// The state.
    pub state: GroupState,
    /// The group epoch.
    pub epoch: i32,
    /// The epoch of the target assignment.
    pub target_epoch: i32,
    /// Start of the state in monotonic milliseconds.
    pub since_ms: u64,
    /// The last rebalances, oldest first.
    pub rebalances: VecDeque<Rebalance>,
}

/// A group.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ConsumerGroup {
    /// Its id.
    pub id: Arc<str>,
    /// The place of its stamp in the table of groups.
    #[serde(skip)]
    pub(super) place: Option<u32>,
    epoch: Option<EpochValue>,
    target: Option<TargetEpochValue>,
    members: BTreeMap<Arc<str>, ConsumerMember>,
    /// Static members by instance id.
    instances: BTreeMap<Arc<str>, Arc<str>>,
    /// Who holds a partition.
    owners: BTreeMap<Partition, Arc<str>>,
    /// Resolved patterns.
    pub(super) patterns: BTreeMap<Arc<str>, PatternValue>,
    /// How many members have a pattern.
    pub(super) pattern_members: BTreeMap<Arc<str>, usize>,
    #[serde(skip)]
    pub(super) counts: Counts,
    /// Whether there are topics that the patterns have not been compared with. Not in the log: true after a load.
    pub topics_are_new: bool,
    /// The topics that patterns may match; `None`: all. Not in the log: the caller sets it before a resolution.
    pub visible: Option<BTreeSet<Arc<str>>>,
    /// The deadline of the next resolution, from its arming to its end.
    pub resolution: Option<OpId>,
    /// Until when the metadata hash needs no check, monotonic milliseconds. Not in the log: 0 after a load.
    pub metadata_until_ms: u64,
    /// The append in flight.
    pub write: Option<Write>,
    /// What waits for its end, in order of arrival.
    pub waiting: VecDeque<Waiting>,
    /// Its durable state, and its recent rebalances.
    pub history: GroupHistory,
    /// With this many members the group cannot become a classic group: one batch would be larger than the log accepts.
    /// Not in the log: `None` after a load.
    pub too_many_to_downgrade: Option<usize>,
}

impl ConsumerGroup {
    /// A group without records.
    pub fn new(id: Arc<str>) -> ConsumerGroup {
        ConsumerGroup {
            id,
            place: None,
            epoch: None,
            target: None,
            members: BTreeMap::new(),
            instances: BTreeMap::new(),
            owners: BTreeMap::new(),
            patterns: BTreeMap::new(),
            pattern_members: BTreeMap::new(),
            counts: Counts::default(),
            topics_are_new: true,
            visible: None,
            resolution: None,
            metadata_until_ms: 0,
            write: None,
            waiting: VecDeque::new(),
            history: GroupHistory::default(),
            too_many_to_downgrade: None,
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

    /// Whether a member leaves with the append in flight, which makes a classic group of the others.
    pub fn is_leaving(&self, member_id: &str) -> bool {
        let end = self.write.as_ref().map(|write| &write.end);
        matches!(end, Some(OnEnd::Downgraded(image, _)) if image.members.iter().all(|member| *member.id != *member_id))
    }

    /// Whether the end of a member's time to give partitions up waits for the append in flight.
    pub fn is_revocation_over(&self, member_id: &str) -> bool {
        let is_its_end =
            |waiting: &Waiting| matches!(&waiting.what, Later::RebalanceEnded(id, _) if **id == *member_id);
        self.waiting.iter().any(is_its_end)
    }

    /// All deadlines of the group, which has none any more.
    pub fn take_deadlines(&mut self) -> Vec<OpId> {
        let of_members = self.members.values_mut().flat_map(ConsumerMember::take_deadlines);
        of_members.chain(self.resolution.take()).collect()
    }

    /// All members with their subscriptions, by id.
    pub fn members(&self) -> impl Iterator<Item = (&Arc<str>, &ConsumerMember, &SubscriptionValue)> {
        self.members.iter().filter_map(|(id, member)| Some((id, member, member.subscription.as_deref()?)))
    }

    /// How many member ids it knows: as many as members or more.
    pub fn ids(&self) -> usize {
        self.members.len()
    }

    /// How many members it has.
    pub fn size(&self) -> usize {
        self.members().count()
    }

    /// Whether it has no members.
    pub fn is_empty(&self) -> bool {
        self.members().next().is_none()
    }

    /// The state without the append in flight; `None`: the log has no group yet. A group that this append converts is a
    /// consumer group already.
    pub fn durable_state(&self) -> Option<GroupState> {
        let undo = match &self.write {
            Some(Write { end: OnEnd::Upgraded(_), .. }) => return Some(self.state()),
            Some(write) => write.undo.as_slice(),
            None => &[],
        };
        // The last record that undoes an epoch has its durable value.
        let mut has_epoch = [self.epoch.is_some(), self.target.is_some()];
        for record in undo {
            match record {
                ConsumerRecord::Epoch(value) => has_epoch[0] = value.is_some(),
                ConsumerRecord::TargetEpoch(value) => has_epoch[1] = value.is_some(),
                _ => {}
            }
        }
        // A group without epochs, which wrote only members, is not Empty.
        let exists = has_epoch.contains(&true) || self.history.state != GroupState::Empty;
        exists.then_some(self.history.state)
    }

    /// Whether no record of it is left.
    pub fn is_gone(&self) -> bool {
        self.epoch.is_none() && self.target.is_none() && self.members.is_empty() && self.patterns.is_empty()
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
        if self.is_empty() {
            GroupState::Empty
        } else if self.epoch() > self.target_epoch() {
            GroupState::Assigning
        } else if self.late() == 0 {
            GroupState::Stable
        } else {
            GroupState::Reconciling
        }
    }

    /// Folds a record into the group, and returns the record that undoes it.
    pub fn apply(&mut self, record: &ConsumerRecord) -> ConsumerRecord {
        match record {
            ConsumerRecord::Epoch(value) => ConsumerRecord::Epoch(std::mem::replace(&mut self.epoch, *value)),
            ConsumerRecord::TargetEpoch(value) => {
                self.counts.retargeted();
                ConsumerRecord::TargetEpoch(std::mem::replace(&mut self.target, *value))
            }
            // It changes no state.
            ConsumerRecord::Metadata(_) => ConsumerRecord::Metadata(None),
            ConsumerRecord::Pattern(pattern, Some(value)) => {
                let before = self.patterns.insert(Arc::clone(pattern), (**value).clone());
                ConsumerRecord::Pattern(Arc::clone(pattern), before.map(Box::new))
            }
            ConsumerRecord::Pattern(pattern, None) => {
                ConsumerRecord::Pattern(Arc::clone(pattern), self.patterns.remove(pattern).map(Box::new))
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
        let target_epoch = self.target_epoch();
        let member = self.members.entry(Arc::clone(id)).or_default();
        let was_late = member.is_late(target_epoch);
        let result = change(member);
        self.counts.changed(was_late, member.is_late(target_epoch));
        if member.is_forgotten() {
            self.members.remove(id);
        }
        result
    }

    fn apply_member(&mut self, id: &Arc<str>, value: Option<&SubscriptionValue>) -> Option<Box<SubscriptionValue>> {
        let before =
            self.change(id, |member| std::mem::replace(&mut member.subscription, value.cloned().map(Box::new)));
        self.counts.resubscribed(before.as_deref(), value);
        if let Some(pattern) = before.as_deref().and_then(ConsumerGroup::pattern_of) {
            self.count_pattern(pattern, |count| count.saturating_sub(1));
        }
        if let Some(pattern) = value.and_then(ConsumerGroup::pattern_of) {
            self.count_pattern(pattern, |count| count + 1);
        }
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

    /// INVARIANT: C1. In a compacted log an older record may name a partition that a later one gave to another member:
    /// the later record wins.
    fn apply_current(&mut self, id: &Arc<str>, current: Option<Current>) -> Option<Current> {
        let mut held: Vec<Partition> =
            current.iter().flat_map(Current::held).map(|(partition, _)| *partition).collect();
        held.sort_unstable();
        let before = self.change(id, |member| std::mem::replace(&mut member.current, current));
        for (partition, _) in before.iter().flat_map(Current::held) {
            if held.binary_search(partition).is_err() && self.owners.get(partition) == Some(id) {
                self.owners.remove(partition);
            }
        }
        // The id of the table of members: that of the record would be one more copy.
        let owner = self.members.get_key_value(id).map_or(id, |(owner, _)| owner);
        for partition in held {
            if self.owners.get(&partition) != Some(owner) {
                self.owners.insert(partition, Arc::clone(owner));
            }
        }
        before
    }

    fn count_pattern(&mut self, pattern: &Arc<str>, counted: impl FnOnce(usize) -> usize) {
        match counted(self.pattern_members.get(pattern).copied().unwrap_or(0)) {
            0 => drop(self.pattern_members.remove(pattern)),
            count => drop(self.pattern_members.insert(Arc::clone(pattern), count)),
        }
    }

    /// Ends a load: forgets members without a subscription and patterns without a member, which only a damaged log leaves
    /// behind.
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
        for pattern in self.unused_patterns() {
            self.patterns.remove(&pattern);
        }
        // INVARIANT: C1, also for records of a batch that was stored, and reported as failed.
        for (id, member) in &mut self.members {
            if let Some(current) = &mut member.current {
                current.assigned.retain(|partition, _| self.owners.get(partition) == Some(id));
                current.pending.retain(|partition, _| self.owners.get(partition) == Some(id));
            }
        }
    }
}
