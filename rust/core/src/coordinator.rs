//! The state of one partition of `__consumer_offsets`, and the lookup of groups and members.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use serde::{Deserialize, Serialize};

use crate::{
    config::Config,
    consumer_group::{
        config::{ConsumerConfig, GroupSettings},
        group::ConsumerGroup,
        table::GroupTable,
        topics::Topics,
    },
    effects::AppendId,
    error::ErrorCode,
    group::{Group, GroupHandle, Member, MemberHandle},
    ids,
    in_flight::{Append, RecordKey},
    operations::{Operation, WatchKey},
    pending_offsets::PendingOffsets,
    purgatory::{OpId, Purgatory},
    records::Record,
    request::Now,
    slots::Slots,
};

/// One committed log entry, the argument of `replay`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogEntry {
    /// The offset in the partition of `__consumer_offsets`.
    pub offset: u64,
    /// Append time in wall milliseconds.
    pub timestamp_ms: i64,
    /// The decoded record.
    pub record: Record,
}

/// The life cycle of a coordinator (docs/protocol.md §3, §15).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Phase {
    /// Replays the log, from `new` to `loaded`.
    Loading,
    /// Answers requests.
    Active,
    /// Loading failed: `NOT_COORDINATOR` until a new incarnation.
    Failed,
    /// The node has lost ownership of the partition.
    Unloaded,
}

/// When a coordinator checks its own invariants.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum SelfCheck {
    /// Only when the caller calls `check_invariants`.
    #[default]
    Never,
    /// After every event, as long as what it touched is small. Large groups are checked once in so many events that the
    /// cost per event is bounded.
    Sampled,
    /// After every event.
    EveryEvent,
}

/// The cleaner's timer, and the progress of its run.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Cleaner {
    /// Deadline of the next step; `None` while the coordinator is not active.
    pub deadline: Option<OpId>,
    /// Position of the next step; `None` between runs.
    pub at: Option<Place>,
}

/// A group, and the last offset of it that the run has checked; `None` before the first.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Place {
    /// The group id.
    pub group_id: Arc<str>,
    /// Topic and partition of the last offset that was checked.
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
    /// Results of appends that arrived before those of older appends. Completions apply in append order.
    pub(crate) early_completions: BTreeMap<AppendId, Option<ErrorCode>>,
    /// Records that the log may lack because an append failed. They go before the next append.
    pub(crate) unsaved: BTreeMap<RecordKey, Record>,
    /// Groups of the consumer protocol. Their offsets are in `groups`.
    pub(crate) consumer_groups: GroupTable,
    /// Settings of the consumer protocol.
    pub(crate) consumer: ConsumerConfig,
    /// Settings of single groups. They outlive their groups.
    pub(crate) group_settings: BTreeMap<Arc<str>, GroupSettings>,
    /// The topics of the cluster; empty until the caller reports them.
    pub(crate) topics: Topics,
    /// Offsets of open transactions. A snapshot has them at its end.
    #[serde(skip)]
    pub(crate) pending_offsets: PendingOffsets,
    pub(crate) next_append: AppendId,
    pub(crate) cleaner: Cleaner,
    pub(crate) clock: Now,
    pub(crate) self_check: SelfCheck,
    /// The group whose offset was set last. The next offset mostly belongs to the same group.
    #[serde(skip)]
    pub(crate) last_set: Option<GroupHandle>,
    /// Events since the last check of something large.
    #[serde(skip)]
    pub(crate) unchecked: usize,
}

impl Coordinator {
    /// Creates a coordinator that is loading. Until `loaded`, every request gets the gate's answer (§3).
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
            early_completions: BTreeMap::new(),
            unsaved: BTreeMap::new(),
            consumer_groups: GroupTable::default(),
            consumer: ConsumerConfig::default(),
            group_settings: BTreeMap::new(),
            topics: Topics::default(),
            pending_offsets: PendingOffsets::default(),
            next_append: AppendId(0),
            cleaner: Cleaner::default(),
            clock: Now { mono_ms: 0, wall_ms: 0 },
            self_check: if cfg!(debug_assertions) { SelfCheck::EveryEvent } else { SelfCheck::Never },
            last_set: None,
            unchecked: 0,
        }
    }

    /// Returns the partition of `__consumer_offsets` that this coordinator owns.
    pub fn partition(&self) -> u32 {
        self.partition
    }

    /// Returns the epoch of its ownership.
    pub fn epoch(&self) -> u32 {
        self.epoch
    }

    /// Sets when the coordinator checks its invariants. It panics if one is broken. The default in debug builds is
    /// every event.
    pub fn check_itself(&mut self, when: SelfCheck) {
        self.self_check = when;
    }

    /// Returns the latest time of an event. Its monotonic part is 0 before the first event.
    pub fn now(&self) -> Now {
        self.clock
    }

    /// Returns the phase of the life cycle.
    pub fn phase(&self) -> Phase {
        self.phase
    }

    /// Returns the group id of an append in flight, "" for an append about several groups, `None` if it is not in
    /// flight.
    pub fn append_group(&self, append_id: AppendId) -> Option<&str> {
        self.appends.get(&append_id).map(|append| &*append.group_id)
    }

    /// Returns when to call `advance` next, in monotonic milliseconds. This is a lower bound: no deadline is earlier.
    pub fn next_deadline(&self) -> Option<u64> {
        self.purgatory.next_deadline()
    }

    /// Returns the ids of all groups, sorted.
    pub fn group_ids(&self) -> Vec<Arc<str>> {
        let consumer_groups = self.consumer_groups.iter().filter(|(_, group)| !group.is_gone()).map(|(id, _)| id);
        let ids: BTreeSet<&Arc<str>> = self.group_ids.keys().chain(consumer_groups).collect();
        ids.into_iter().cloned().collect()
    }

    /// Counts the durable offsets of all groups.
    pub fn offset_count(&self) -> usize {
        let groups = self.group_ids.values().map(|group| &self.groups[*group]);
        groups.map(|group| group.offsets.count()).sum()
    }

    /// Counts the members of all groups.
    pub fn member_count(&self) -> usize {
        let of_consumer_groups: usize = self.consumer_groups.values().map(ConsumerGroup::size).sum();
        self.group_ids.values().map(|group| self.groups[*group].joined.len()).sum::<usize>() + of_consumer_groups
    }

    /// Iterates over the ids of all members: those of classic groups by group and joining order, then the others by
    /// group and id.
    pub fn member_ids(&self) -> impl Iterator<Item = &str> {
        let groups = self.group_ids.values().map(|group| &self.groups[*group]);
        let classic = groups.flat_map(|group| group.joined.values().map(|member| &*self.members[*member].id));
        classic.chain(self.consumer_groups.values().flat_map(|group| group.members().map(|(id, ..)| &**id)))
    }

    /// Returns a number that identifies a member in later calls without its name. The number of a removed member is
    /// stale, and its calls get `UNKNOWN_MEMBER_ID`.
    pub fn member_handle(&self, group_id: &str, member_id: &str) -> Option<u64> {
        self.find_member(group_id, member_id).map(MemberHandle::to_bits)
    }

    /// Returns a new coordinator of the same partition, epoch, settings and time, without groups.
    pub(crate) fn without_state(&self) -> Coordinator {
        let new = Coordinator::new(self.config.clone(), self.partition, self.epoch);
        let (consumer, group_settings) = (self.consumer.clone(), self.group_settings.clone());
        Coordinator { clock: self.clock, consumer, group_settings, ..new }
    }

    /// Records the time of an event. The monotonic time never goes back, whatever the caller's clock does.
    #[inline]
    pub(crate) fn observe(&mut self, now: Now) -> Now {
        self.clock = Now { mono_ms: now.mono_ms.max(self.clock.mono_ms), wall_ms: now.wall_ms };
        self.clock
    }

    /// Finds a group by id.
    pub(crate) fn find_group(&self, group_id: &str) -> Option<GroupHandle> {
        self.group_ids.get(group_id).copied()
    }

    /// Finds the member in the slot that an id names, if the whole id matches.
    fn hinted(&self, member_id: &str) -> Option<(MemberHandle, &Member)> {
        let hinted = ids::hinted_slot(member_id.as_bytes()).and_then(|slot| self.members.at(slot));
        hinted.filter(|(_, member)| member.id.as_bytes() == member_id.as_bytes())
    }

    /// Finds a member by the slot that its id names, or by the group's table. The whole id is compared, so a forged
    /// hint is an unknown member (§4.5).
    pub(crate) fn find_member(&self, group_id: &str, member_id: &str) -> Option<MemberHandle> {
        match self.hinted(member_id) {
            Some((handle, member)) if *self.groups[member.group].id == *group_id => Some(handle),
            _ => self.groups[self.find_group(group_id)?].members_by_id.get(member_id).copied(),
        }
    }

    /// Finds a member of a known group, like `find_member`.
    pub(crate) fn member_of(&self, group: GroupHandle, member_id: &str) -> Option<MemberHandle> {
        match self.hinted(member_id) {
            Some((handle, member)) if member.group == group => Some(handle),
            _ => self.groups[group].members_by_id.get(member_id).copied(),
        }
    }
}
