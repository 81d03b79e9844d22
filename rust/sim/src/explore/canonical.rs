//! The whole state up to what no rule reads, to decide whether two states are the same.
//!
//! Every struct is taken apart by name, so that a new field does not compile until this file says what it means.
//! Member ids, appends and assignments are numbered in the order in which they come up, groups and members in their own
//! order, generations are counted from the present one, and deadlines from now: a state that differs in names, slots or
//! the time of day only is the same state. Left out are numbers that only say how often something happened, where
//! something lies in memory, what `explain` tells, and to whom an answer goes.

use std::{
    collections::BTreeMap,
    hash::{Hash, Hasher},
    mem::discriminant,
    sync::Arc,
};

use rota_core::{
    AppendId, Coordinator, Record, Ticket,
    inspect::{
        Append, Asked, Assigning, Client, Deferred, DeferredJoin, Group, GroupHandle, Inside, Member, MemberHandle,
        Operation, OwnedProtocol, Parked, PendingMember, Purpose, RecordKey, Replacement, WaitingFetch, WatchKey,
    },
    records::{GroupValue, MemberValue, OffsetValue},
};

/// Generations from here on are all alike: 0 and 1 differ from them because one less means something else.
const GENERATIONS_ALIKE_FROM: i32 = 2;

/// What came up in a state, in the order in which it did.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Names {
    /// Member ids: members in joining order, pending ids, then those that only appends and records know.
    pub member_ids: Vec<Arc<str>>,
    /// Bytes that a leader gave a member.
    pub assignments: Vec<Arc<[u8]>>,
    /// Offsets that were committed.
    pub offsets: Vec<i64>,
    /// The requests that wait for an answer, once for each place that would answer them, with their member, if any.
    pub waiting: Vec<(Ticket, Option<Arc<str>>)>,
    /// The earliest deadline, monotonic milliseconds.
    pub next_deadline_ms: Option<u64>,
    /// Nothing is on its way to the log, or waits to be sent again.
    pub settled: bool,
}

fn number<T: ?Sized + PartialEq>(known: &mut Vec<Arc<T>>, thing: &Arc<T>) -> usize {
    known.iter().position(|other| other == thing).unwrap_or_else(|| {
        known.push(Arc::clone(thing));
        known.len() - 1
    })
}

/// A state on its way into a hasher.
pub struct Canonical<'a, H> {
    core: Inside<'a>,
    ages: bool,
    generation: i32,
    names: Names,
    into: &'a mut H,
}

/// Writes the state into a hasher. Two states that write the same are the same but for names and the time of day.
///
/// With `ages`, so is how old groups and commits are and when the cleaner comes; without, the caller sees to it that the
/// cleaner never comes.
pub fn canonical<'a, H: Hasher>(coordinator: &'a Coordinator, ages: bool, into: &'a mut H) -> Canonical<'a, H> {
    debug_assert!(coordinator.inspect().consumer_groups.is_empty(), "consumer groups have another form");
    let mut state = without_deadlines(coordinator, ages, into);
    state.deadlines();
    state
}

/// The same without deadlines and without consumer groups, whose records count by their kind only.
pub fn without_deadlines<'a, H: Hasher>(coordinator: &'a Coordinator, ages: bool, into: &'a mut H) -> Canonical<'a, H> {
    let core = coordinator.inspect();
    let Inside {
        phase,
        clock: _,
        group_ids,
        groups,
        members: _,
        purgatory: _,
        appends,
        early_completions,
        unsaved,
        consumer_groups: _,
        cleaner,
    } = core;
    let mut state = Canonical { core, ages, generation: 0, names: Names::default(), into };
    state.put(phase as u8);
    for (group_id, handle) in group_ids {
        state.put(&**group_id);
        state.group(&groups[*handle]);
    }
    state.put(appends.len());
    for (append_id, append) in appends {
        state.append(*append_id, append);
        state.put(early_completions.get(append_id));
    }
    state.put(unsaved.len());
    for (key, record) in unsaved {
        debug_assert!(RecordKey::of(record) == *key);
        state.record(record);
    }
    if ages {
        state.put(cleaner.at.as_ref().map(|place| (&place.group_id, &place.after)));
    }
    state.names.settled = appends.is_empty() && unsaved.is_empty();
    state
}

impl<H: Hasher> Canonical<'_, H> {
    /// What came up.
    pub fn into_names(self) -> Names {
        self.names
    }

    /// Adds a record that lies outside, such as in the log.
    pub fn record(&mut self, record: &Record) {
        match record {
            Record::Offset { group_id, topic, partition, value } => {
                self.put((0_u8, group_id, topic, partition, value.is_some()));
                if let Some(value) = value {
                    self.offset(value);
                }
            }
            Record::Group { group_id, value } => {
                self.put((1_u8, group_id, value.is_some()));
                if let Some(value) = value {
                    self.group_value(value);
                }
            }
            Record::Unknown { key, value } => self.put((2_u8, key, value)),
            Record::Consumer { group_id, about } => self.put((3_u8, group_id, discriminant(about))),
        }
    }

    /// Adds something that lies outside and has no names in it.
    pub fn put(&mut self, what: impl Hash) {
        what.hash(self.into);
    }

    fn member_id(&mut self, id: &Arc<str>) {
        let number = number(&mut self.names.member_ids, id);
        self.put(number);
    }

    fn assignment(&mut self, bytes: &Arc<[u8]>) {
        let number = if bytes.is_empty() { usize::MAX } else { number(&mut self.names.assignments, bytes) };
        self.put(number);
    }

    fn member(&mut self, handle: MemberHandle) {
        let member = self.core.members.get(handle).map(|member| member.id.shared());
        self.put(member.is_some());
        if let Some(id) = member {
            self.member_id(&id);
        }
    }

    fn group_of(&mut self, handle: GroupHandle) {
        let id = self.core.groups.get(handle).map(|group| &group.id);
        self.put(id);
    }

    fn append_id(&mut self, append_id: AppendId) {
        let place = self.core.appends.keys().position(|other| *other == append_id);
        self.put(place);
    }

    fn waits(&mut self, ticket: Option<Ticket>, member: Option<&Arc<str>>) {
        self.put(ticket.is_some());
        self.names.waiting.extend(ticket.map(|ticket| (ticket, member.cloned())));
    }

    /// Of a record: nothing reads it but a load, which makes it the present one. So what counts is whether it is the
    /// present one, or the one beside it, and what it would be itself; not how long ago it was.
    fn generation(&mut self, generation: i32) {
        let ahead = generation.saturating_sub(self.generation);
        self.put((
            generation.min(GENERATIONS_ALIKE_FROM),
            ahead.clamp(-GENERATIONS_ALIKE_FROM, GENERATIONS_ALIKE_FROM),
        ));
    }

    fn wall(&mut self, wall_ms: Option<i64>) {
        if self.ages {
            let now_ms = self.core.clock.wall_ms;
            self.put(wall_ms.map(|wall_ms| wall_ms.saturating_sub(now_ms)));
        }
    }

    fn group(&mut self, group: &Group) {
        let Group {
            id: _,
            state,
            since_ms: _,
            state_timestamp_ms,
            generation,
            protocol_type,
            protocol_name,
            leader,
            members_by_id: _,
            joined,
            instances: _,
            pending,
            support: _,
            awaiting_join: _,
            owing_sync: _,
            initial,
            new_member_added,
            join_deadline: _,
            sync_deadline: _,
            join_held,
            durable,
            creating,
            deleting,
            assigning,
            subscribed_topics,
            offsets,
            rebalances: _,
        } = group;
        self.generation = *generation;
        self.put((*state as u8, (*generation).min(GENERATIONS_ALIKE_FROM), protocol_type, protocol_name));
        self.wall(*state_timestamp_ms);
        self.put(joined.len());
        for handle in joined.values() {
            let member = &self.core.members[*handle];
            self.one_member(member);
        }
        self.put(leader.is_some());
        if let Some(leader) = leader {
            self.member(*leader);
        }
        self.pending(pending);
        self.put(initial.map(|initial| (initial.delay_ms, initial.remaining_ms)));
        self.put((new_member_added, join_held, durable, subscribed_topics));
        for append_id in [*creating, *deleting] {
            self.put(append_id.is_some());
            if let Some(append_id) = append_id {
                self.append_id(append_id);
            }
        }
        self.put(assigning.is_some());
        if let Some(Assigning { append_id, plan }) = assigning {
            self.append_id(*append_id);
            for (member, bytes) in plan {
                self.member(*member);
                self.assignment(bytes);
            }
        }
        for (topic, partition, value) in offsets.iter() {
            self.put((topic, partition));
            self.offset(&value.to_value());
        }
    }

    fn pending(&mut self, pending: &BTreeMap<Arc<str>, PendingMember>) {
        let mut waiting: Vec<_> = pending.iter().collect();
        waiting.sort_by_key(|(_, pending)| self.core.purgatory.deadline(pending.expiry));
        self.put(waiting.len());
        for (id, PendingMember { slot: _, expiry: _ }) in waiting {
            self.member_id(id);
        }
    }

    fn one_member(&mut self, member: &Member) {
        let Member {
            id,
            group: _,
            session: _,
            session_timeout_ms,
            rebalance_timeout_ms,
            owes_sync,
            is_new,
            parked,
            client,
            protocols,
            assignment,
        } = member;
        let Client { id: _, host: _, instance_id } = &**client;
        let id = &id.shared();
        self.member_id(id);
        self.put((instance_id, session_timeout_ms, rebalance_timeout_ms, owes_sync, is_new));
        self.protocols(protocols);
        self.assignment(assignment);
        let (join, version, sync) = match *parked {
            Some(Parked::Join { ticket, version }) => (Some(ticket), Some(version), None),
            Some(Parked::Sync { ticket }) => (None, None, Some(ticket)),
            None => (None, None, None),
        };
        self.put(version);
        self.waits(join, Some(id));
        self.waits(sync, Some(id));
    }

    fn protocols(&mut self, protocols: &[OwnedProtocol]) {
        for OwnedProtocol { name, metadata } in protocols {
            self.put((name, metadata));
        }
    }

    fn offset(&mut self, value: &OffsetValue) {
        let OffsetValue { offset, leader_epoch, metadata, commit_timestamp_ms, expire_timestamp_ms, topic_id } = value;
        let known = &mut self.names.offsets;
        let number = known.iter().position(|other| other == offset).unwrap_or_else(|| {
            known.push(*offset);
            known.len() - 1
        });
        self.put((number, leader_epoch, metadata, topic_id));
        self.wall(Some(*commit_timestamp_ms));
        self.wall(*expire_timestamp_ms);
    }

    fn group_value(&mut self, value: &GroupValue) {
        let GroupValue { protocol_type, generation, protocol_name, leader, state_timestamp_ms, members } = value;
        self.generation(*generation);
        self.put((protocol_type, protocol_name, leader.is_some(), members.len()));
        if let Some(leader) = leader {
            self.member_id(leader);
        }
        self.wall(Some(*state_timestamp_ms));
        for member in members {
            let MemberValue {
                member_id,
                instance_id,
                client_id: _,
                client_host: _,
                rebalance_timeout_ms,
                session_timeout_ms,
                subscription,
                assignment,
            } = member;
            self.member_id(member_id);
            self.put((instance_id, rebalance_timeout_ms, session_timeout_ms, subscription));
            self.assignment(assignment);
        }
    }

    fn append(&mut self, append_id: AppendId, append: &Append) {
        let Append { group_id, purpose, records, deadline } = append;
        self.append_id(append_id);
        self.put((group_id, deadline.is_some(), records.len()));
        for record in records {
            self.record(record);
        }
        match purpose {
            Purpose::NewGroup(group) => {
                self.put(0_u8);
                self.group_of(*group);
            }
            Purpose::Assignment(group) => {
                self.put(1_u8);
                self.group_of(*group);
            }
            Purpose::Replacement(replacement) => {
                self.put(2_u8);
                self.replacement(replacement);
            }
            Purpose::Abandoned(group) => {
                self.put(3_u8);
                self.group_of(*group);
            }
            Purpose::Commit(ticket, topics) => {
                self.put((4_u8, topics));
                self.waits(*ticket, None);
            }
            Purpose::Delete(group, ticket) => {
                self.put(5_u8);
                self.group_of(*group);
                self.waits(*ticket, None);
            }
            Purpose::OffsetDelete(ticket, topics) => {
                self.put((6_u8, topics));
                self.waits(*ticket, None);
            }
            Purpose::Retention(groups) => {
                self.put(7_u8);
                for group in groups {
                    self.group_of(*group);
                }
            }
            Purpose::Unattended => self.put(8_u8),
            Purpose::Consumer => self.put(9_u8),
            // No transaction is explored.
            Purpose::Transactional(_) => self.put(10_u8),
            Purpose::Marker(..) => self.put(11_u8),
        }
    }

    fn replacement(&mut self, replacement: &Replacement) {
        let Replacement { member, member_id, predecessor, leader_id, session_deadline_ms } = replacement;
        self.member(*member);
        self.member_id(member_id);
        self.one_member(predecessor);
        self.member_id(leader_id);
        let now_ms = self.core.clock.mono_ms;
        self.put(session_deadline_ms.saturating_sub(now_ms));
    }

    fn deferred(&mut self, deferred: &Deferred) {
        let Deferred { ticket, group_id, asked } = deferred;
        self.waits(Some(*ticket), None);
        self.put(group_id);
        match asked {
            Asked::Join(join) => {
                let DeferredJoin {
                    version,
                    entropy: _,
                    member_id,
                    instance_id,
                    client_id: _,
                    client_host: _,
                    session_timeout_ms,
                    rebalance_timeout_ms,
                    protocol_type,
                    protocols,
                    reason: _,
                } = &**join;
                self.put((0_u8, version, instance_id, session_timeout_ms, rebalance_timeout_ms, protocol_type));
                self.put(member_id.is_empty());
                if !member_id.is_empty() {
                    self.member_id(member_id);
                }
                self.protocols(protocols);
            }
            Asked::DeleteGroup => self.put(1_u8),
            Asked::OffsetDelete(topics) => self.put((2_u8, topics)),
        }
    }

    /// Everything that is armed, in the order in which it would fire: that order is part of the state.
    fn deadlines(&mut self) {
        let now_ms = self.core.clock.mono_ms;
        for (deadline_ms, keys, operation) in self.core.purgatory.in_firing_order() {
            if matches!(operation, Operation::Cleaner) && !self.ages {
                continue;
            }
            self.names.next_deadline_ms.get_or_insert(deadline_ms);
            self.put(deadline_ms.saturating_sub(now_ms));
            for WatchKey::Append(append_id) in keys {
                self.append_id(*append_id);
            }
            match operation {
                Operation::Session(member) => {
                    self.put(0_u8);
                    self.member(*member);
                }
                Operation::NewMember(member) => {
                    self.put(1_u8);
                    self.member(*member);
                }
                Operation::Pending(pending) => {
                    let (group, id) = &**pending;
                    self.put(2_u8);
                    self.group_of(*group);
                    self.member_id(id);
                }
                Operation::InitialDelay(group) => {
                    self.put(3_u8);
                    self.group_of(*group);
                }
                Operation::Join(group) => {
                    self.put(4_u8);
                    self.group_of(*group);
                }
                Operation::Sync(group) => {
                    self.put(5_u8);
                    self.group_of(*group);
                }
                Operation::Append(append_id) => {
                    self.put(6_u8);
                    self.append_id(*append_id);
                }
                Operation::StableFetch(fetch) => {
                    let WaitingFetch { ticket, group_id, topics } = &**fetch;
                    self.put((7_u8, group_id, topics));
                    self.waits(Some(*ticket), None);
                }
                Operation::AfterDeletion(deferred) => {
                    self.put(8_u8);
                    self.deferred(deferred);
                }
                Operation::Cleaner => self.put(9_u8),
                Operation::ConsumerSession(name) => self.put((10_u8, name)),
                Operation::ConsumerRebalance(name) => self.put((11_u8, name)),
                Operation::ConsumerWait(wait) => self.put((12_u8, wait)),
                Operation::ConsumerJoin(name) => self.put((13_u8, name)),
                Operation::ConsumerSync(name) => self.put((14_u8, name)),
                Operation::ConsumerPatterns(group_id) => self.put((15_u8, group_id)),
            }
        }
    }
}
