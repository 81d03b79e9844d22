//! Replays the log into the state (docs/protocol.md §15.1).

use std::sync::Arc;

use crate::{
    coordinator::{Coordinator, LogEntry, Phase},
    effects::{Sink, Step},
    group::{Client, Group, GroupHandle, Member, MemberHandle, OwnedProtocol},
    history::Cause,
    member_id::MemberId,
    rebalance::subscribed_topics,
    record_bytes::OffsetRecord,
    records::{GroupValue, MemberValue, Record},
    request::Now,
    states::State,
};

impl Coordinator {
    /// Applies one committed log entry. Allowed before `loaded` only. The caller may replay in slices.
    pub fn replay(&mut self, entry: &LogEntry) {
        self.check_loading();
        match &entry.record {
            Record::Offset { group_id, topic, partition, value } => {
                self.set_offset(self.clock, group_id, topic, *partition, value.clone());
            }
            Record::Group { group_id, value: Some(value) } => self.replay_group(group_id, value),
            Record::Group { group_id, value: None } => self.replay_group_tombstone(group_id),
            Record::Consumer { group_id, about } => self.replay_consumer(group_id, about),
            // Records of other types stay in the log and have no effect here.
            Record::Unknown { .. } => {}
        }
    }

    /// Like [`Coordinator::replay`] for an offset record that borrows its names: most of a log is such records.
    pub fn replay_offset(&mut self, record: OffsetRecord<'_>) {
        self.check_loading();
        let OffsetRecord { group_id, topic, partition, value } = record;
        self.set_offset(self.clock, group_id, topic, partition, value);
    }

    pub(crate) fn check_loading(&self) {
        assert!(self.phase == Phase::Loading, "replay belongs between `new` and `loaded`");
    }

    /// Replaces a group with a group record, except for its offsets. Records of a consumer group before it are of an
    /// upgrade that was stored, and reported as failed.
    fn replay_group(&mut self, group_id: &Arc<str>, value: &GroupValue) {
        self.consumer_groups.remove(group_id);
        let handle = self.reset_group(group_id);
        let group = &mut self.groups[handle];
        group.generation = value.generation;
        group.protocol_type = (!value.protocol_type.is_empty()).then(|| Arc::clone(&value.protocol_type));
        group.state_timestamp_ms = (value.state_timestamp_ms != -1).then_some(value.state_timestamp_ms);
        if value.members.is_empty() {
            group.subscribed_topics = subscribed_topics(group, &[]);
            return;
        }
        let protocol = value.protocol_name.clone().unwrap_or_else(|| "".into());
        group.protocol_name = Some(Arc::clone(&protocol));
        group.state = State::Stable;
        for member in &value.members {
            self.replay_member(handle, member, &protocol);
        }
        let named = value.leader.as_ref().and_then(|leader| self.member_of(handle, leader));
        let group = &mut self.groups[handle];
        // INVARIANT: S3, also for a record whose leader is not among its members. One without a leader gets it in
        // `loaded`.
        let first = value.leader.as_ref().and_then(|_| group.joined.values().next().copied());
        group.leader = named.or(first);
        let states: Vec<&Member> = group.joined.values().map(|member| &self.members[*member]).collect();
        group.subscribed_topics = subscribed_topics(group, &states);
    }

    /// Adds a member of a group record. Only the chosen protocol is known after a load, so a member that rejoins with
    /// its full list differs (§15.1).
    fn replay_member(&mut self, handle: GroupHandle, value: &MemberValue, protocol: &Arc<str>) {
        let group = &self.groups[handle];
        let repeated_instance = value.instance_id.as_ref().is_some_and(|id| group.instances.contains_key(id));
        if repeated_instance || self.member_of(handle, &value.member_id).is_some() {
            return;
        }
        let last = self.groups[handle].joined.values().next_back().map(|member| &self.members[*member]);
        let client = Client::like(last, &value.client_id, &value.client_host, value.instance_id.clone());
        let offer = OwnedProtocol { name: Arc::clone(protocol), metadata: Arc::clone(&value.subscription) };
        let protocols = match last {
            Some(last) if *last.protocols == [offer.clone()] => Arc::clone(&last.protocols),
            _ => Arc::from([offer]),
        };
        self.groups[handle].count_protocols(&protocols, true);
        let rebalance_timeout_ms =
            if value.rebalance_timeout_ms == -1 { value.session_timeout_ms } else { value.rebalance_timeout_ms };
        let member = self.members.insert(Member {
            id: MemberId::from(&*value.member_id),
            group: handle,
            session: None,
            session_timeout_ms: value.session_timeout_ms,
            rebalance_timeout_ms,
            owes_sync: false,
            is_new: false,
            parked: None,
            client,
            protocols,
            assignment: Arc::clone(&value.assignment),
        });
        let group = &mut self.groups[handle];
        group.enlist(&value.member_id, member, &mut self.members);
        if let Some(instance_id) = &value.instance_id {
            group.instances.insert(Arc::clone(instance_id), member);
        }
    }

    fn replay_group_tombstone(&mut self, group_id: &Arc<str>) {
        if self.find_group(group_id).is_none() {
            return;
        }
        let handle = self.reset_group(group_id);
        if self.groups[handle].offsets.is_empty() && !self.pending_offsets.has_group(group_id) {
            self.groups.release(handle);
            self.group_ids.remove(group_id);
        }
    }

    /// Resets a group to its offsets.
    fn reset_group(&mut self, group_id: &Arc<str>) -> GroupHandle {
        let handle = self.find_or_insert_simple(self.clock, group_id);
        let members: Vec<MemberHandle> = self.groups[handle].joined.values().copied().collect();
        for member in members {
            self.members.release(member);
        }
        let offsets = std::mem::take(&mut self.groups[handle].offsets);
        self.groups[handle] = Group { offsets, ..self.simple_group(self.clock, group_id) };
        handle
    }

    /// Completes loading: every member gets a full session, and groups with too many members rebalance (§15.1).
    pub fn loaded(&mut self, now: Now, sink: &mut dyn Sink) {
        assert!(self.phase == Phase::Loading, "`loaded` ends the loading");
        self.phase = Phase::Active;
        let now = self.observe(now);
        self.purgatory.advance(now.mono_ms);
        let step = &mut Step { now, sink };
        self.consumer_groups_loaded(step);
        let handles: Vec<GroupHandle> = self.group_ids.values().copied().collect();
        for handle in &handles {
            let group = &mut self.groups[*handle];
            group.since_ms = now.mono_ms;
            if group.protocol_type.is_none() {
                group.state_timestamp_ms.get_or_insert(now.wall_ms);
            }
            let members: Vec<MemberHandle> = self.groups[*handle].joined.values().copied().collect();
            for member in members {
                self.refresh_session(now, member);
            }
        }
        self.schedule_cleaner(now);
        for handle in handles {
            let group = &mut self.groups[handle];
            // It was a consumer group, and was to rebalance (departure D24).
            let owes_rebalance = group.leader.is_none() && !group.joined.is_empty();
            if owes_rebalance {
                group.leader = group.joined.values().next().copied();
            }
            if group.joined.len() > self.config.group_max_size as usize {
                self.begin_rebalance(step, handle, Cause::OverCapacity, &"".into(), "");
            } else if owes_rebalance {
                self.begin_rebalance(step, handle, Cause::Downgraded, &"".into(), "");
            }
        }
        self.debug_check(None);
    }

    /// Fails loading: requests get `NOT_COORDINATOR` until another incarnation.
    pub fn load_failed(&mut self) {
        assert!(self.phase == Phase::Loading, "`load_failed` ends the loading");
        *self = Coordinator { phase: Phase::Failed, ..self.without_state() };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{config::Config, records::OffsetValue};

    fn offset(group_id: &str, partition: i32, offset: Option<i64>) -> LogEntry {
        let value = offset.map(|offset| OffsetValue {
            offset,
            leader_epoch: -1,
            metadata: "".into(),
            commit_timestamp_ms: 0,
            expire_timestamp_ms: None,
            topic_id: 0,
        });
        LogEntry {
            offset: 0,
            timestamp_ms: 0,
            record: Record::Offset { group_id: group_id.into(), topic: "t".into(), partition, value },
        }
    }

    /// The coordinator caches the group of the last offset; that group may be gone.
    #[test]
    fn an_offset_behind_the_end_of_its_group_is_of_a_new_group() {
        let mut core = Coordinator::new(Config::default(), 0, 0);
        let end = |id: &str| LogEntry {
            offset: 0,
            timestamp_ms: 0,
            record: Record::Group { group_id: id.into(), value: None },
        };
        core.replay(&offset("g", 0, Some(1)));
        core.replay(&offset("g", 0, None));
        core.replay(&end("g"));
        assert_eq!((core.group_ids.len(), core.offset_count()), (0, 0));
        // `h` may have the slot that `g` had.
        core.replay(&offset("h", 0, Some(2)));
        core.replay(&offset("g", 0, Some(3)));
        core.replay(&offset("g", 1, Some(4)));
        core.replay(&offset("h", 0, None));
        let count = |id: &str| core.groups[core.group_ids[id]].offsets.count();
        assert_eq!((core.group_ids.len(), count("g"), count("h")), (2, 2, 0));
    }
}
