//! The state of one partition of `__consumer_offsets`, and what finds groups and members in it.

use std::{collections::BTreeMap, sync::Arc};

use serde::{Deserialize, Serialize};

use crate::{
    config::Config,
    consumer_group::{config::ConsumerConfig, group::ConsumerGroup, topics::Topics},
    effects::AppendId,
    error::ErrorCode,
    group::{Group, GroupHandle, Member, MemberHandle},
    ids,
    in_flight::{Append, RecordKey},
    operations::{Operation, WatchKey},
    purgatory::{OpId, Purgatory},
    records::Record,
    request::Now,
    slots::Slots,
};

/// One committed log entry, as `replay` takes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogEntry {
    /// Its offset in the partition.
    pub offset: u64,
    /// Wall milliseconds.
    pub timestamp_ms: i64,
    /// What it says.
    pub record: Record,
}

/// What the coordinator can do at the moment (docs/protocol.md §3, §15).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Phase {
    /// From `new` to `loaded`.
    Loading,
    /// Answers requests.
    Active,
    /// Loading failed: `NOT_COORDINATOR` until a new incarnation.
    Failed,
    /// Ownership is lost.
    Unloaded,
}

/// When a coordinator checks its own invariants.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum SelfCheck {
    /// Only when it is asked to.
    #[default]
    Never,
    /// After every event, as long as what it touched is small; what is large once in so many events that a check takes
    /// bounded time of each.
    Sampled,
    /// After every event.
    EveryEvent,
}

/// The cleaner's timer, and how far its run has come.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Cleaner {
    /// When it goes on; none while the coordinator is not active.
    pub deadline: Option<OpId>,
    /// Where it goes on; none between runs.
    pub at: Option<Place>,
}

/// A group, and the offset of it behind which the run goes on; none: from its first.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Place {
    /// The group.
    pub group_id: Arc<str>,
    /// The last offset that was looked at.
    pub after: Option<(Arc<str>, i32)>,
}

/// The coordinator of one partition of `__consumer_offsets`.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Coordinator {
    pub(crate) config: Config,
    pub(crate) partition: u32,
    pub(crate) epoch: u32,
    pub(crate) phase: Phase,
    pub(crate) groups: Slots<Group>,
    pub(crate) group_ids: BTreeMap<Arc<str>, GroupHandle>,
    pub(crate) members: Slots<Member>,
    pub(crate) purgatory: Purgatory<WatchKey, Operation>,
    pub(crate) appends: BTreeMap<AppendId, Append>,
    /// Ends that came before those of older appends.
    pub(crate) early_ends: BTreeMap<AppendId, Option<ErrorCode>>,
    /// Records that nobody waited for and whose append failed: they go before the next append.
    pub(crate) unsaved: BTreeMap<RecordKey, Record>,
    /// Groups of the consumer protocol. Their offsets are in `groups`.
    pub(crate) consumer_groups: BTreeMap<Arc<str>, ConsumerGroup>,
    /// Settings of theirs.
    pub(crate) consumer: ConsumerConfig,
    /// The topics of the cluster; none while no one has said so.
    pub(crate) topics: Topics,
    pub(crate) next_append: AppendId,
    pub(crate) cleaner: Cleaner,
    pub(crate) clock: Now,
    pub(crate) self_check: SelfCheck,
    /// The group whose offset was set last: that of the next one mostly is the same.
    #[serde(skip)]
    pub(crate) last_set: Option<GroupHandle>,
    /// Events since something large was checked.
    #[serde(skip)]
    pub(crate) unchecked: usize,
}

impl Coordinator {
    /// Starts loading: until `loaded`, every request gets the gate's answer (§3).
    pub fn new(config: Config, partition: u32, epoch: u32) -> Coordinator {
        Coordinator {
            config,
            partition,
            epoch,
            phase: Phase::Loading,
            groups: Slots::default(),
            group_ids: BTreeMap::new(),
            members: Slots::default(),
            purgatory: Purgatory::new(0),
            appends: BTreeMap::new(),
            early_ends: BTreeMap::new(),
            unsaved: BTreeMap::new(),
            consumer_groups: BTreeMap::new(),
            consumer: ConsumerConfig::default(),
            topics: Topics::default(),
            next_append: AppendId(0),
            cleaner: Cleaner::default(),
            clock: Now { mono_ms: 0, wall_ms: 0 },
            self_check: if cfg!(debug_assertions) { SelfCheck::EveryEvent } else { SelfCheck::Never },
            last_set: None,
            unchecked: 0,
        }
    }

    /// The partition of `__consumer_offsets` that it owns.
    pub fn partition(&self) -> u32 {
        self.partition
    }

    /// The epoch of its ownership.
    pub fn epoch(&self) -> u32 {
        self.epoch
    }

    /// When it checks its invariants; it panics if one is broken. By default in debug builds: after every event.
    pub fn check_itself(&mut self, when: SelfCheck) {
        self.self_check = when;
    }

    /// The latest time that an event brought along; the monotonic part is 0 before the first.
    pub fn now(&self) -> Now {
        self.clock
    }

    /// What it can do at the moment.
    pub fn phase(&self) -> Phase {
        self.phase
    }

    /// The group that an append in flight is about; "" if it is about several. `None`: it is not in flight.
    pub fn append_group(&self, append_id: AppendId) -> Option<&str> {
        self.appends.get(&append_id).map(|append| &*append.group_id)
    }

    /// When `advance` has something to do, in monotonic milliseconds: a lower bound, never late.
    pub fn next_deadline(&self) -> Option<u64> {
        self.purgatory.next_deadline()
    }

    /// Ids of all groups, sorted.
    pub fn group_ids(&self) -> Vec<Arc<str>> {
        self.group_ids.keys().cloned().collect()
    }

    /// How many durable offsets all groups have.
    pub fn offset_count(&self) -> usize {
        let groups = self.group_ids.values().map(|group| &self.groups[*group]);
        groups.flat_map(|group| group.offsets.values()).map(BTreeMap::len).sum()
    }

    /// How many members all groups have.
    pub fn member_count(&self) -> usize {
        self.group_ids.values().map(|group| self.groups[*group].joined.len()).sum()
    }

    /// Ids of all members of all groups, by group and joining order.
    pub fn member_ids(&self) -> impl Iterator<Item = &str> {
        let groups = self.group_ids.values().map(|group| &self.groups[*group]);
        groups.flat_map(|group| group.joined.values().map(|member| &*self.members[*member].id))
    }

    /// A number for a member that finds it without its name; stale numbers are unknown members.
    pub fn member_handle(&self, group_id: &str, member_id: &str) -> Option<u64> {
        self.find_member(group_id, member_id).map(MemberHandle::to_bits)
    }

    /// The same coordinator as it was before it loaded anything.
    pub(crate) fn without_state(&self) -> Coordinator {
        let new = Coordinator::new(self.config.clone(), self.partition, self.epoch);
        Coordinator { clock: self.clock, consumer: self.consumer.clone(), ..new }
    }

    /// The time never goes back, whatever the caller's clock does.
    #[inline]
    pub(crate) fn observe(&mut self, now: Now) -> Now {
        self.clock = Now { mono_ms: now.mono_ms.max(self.clock.mono_ms), wall_ms: now.wall_ms };
        self.clock
    }

    /// The group with this id.
    pub(crate) fn find_group(&self, group_id: &str) -> Option<GroupHandle> {
        self.group_ids.get(group_id).copied()
    }

    /// The member in the slot that an id names, if it is the one with this id.
    fn hinted(&self, member_id: &str) -> Option<(MemberHandle, &Member)> {
        let hinted = ids::hinted_slot(member_id.as_bytes()).and_then(|slot| self.members.at(slot));
        hinted.filter(|(_, member)| member.id.as_bytes() == member_id.as_bytes())
    }

    /// The member with this id: by the slot that the id names, else by the group's table. The whole id is compared, so
    /// a forged hint is just unknown (§4.5).
    pub(crate) fn find_member(&self, group_id: &str, member_id: &str) -> Option<MemberHandle> {
        match self.hinted(member_id) {
            Some((handle, member)) if *self.groups[member.group].id == *group_id => Some(handle),
            _ => self.groups[self.find_group(group_id)?].strangers.get(member_id).copied(),
        }
    }

    /// The same, of a group that is known.
    pub(crate) fn member_of(&self, group: GroupHandle, member_id: &str) -> Option<MemberHandle> {
        match self.hinted(member_id) {
            Some((handle, member)) if member.group == group => Some(handle),
            _ => self.groups[group].strangers.get(member_id).copied(),
        }
    }
}
