//! Views of consumer groups: what one is doing and waits for, and its members.

use std::sync::Arc;

use crate::{
    consumer_group::{
        group::{AWAY, ConsumerGroup, ConsumerMember, Current, GroupState, MemberState},
        partitions::Partition,
    },
    coordinator::Coordinator,
    explain::{Explanation, GroupProtocol, Wait, Waiting, is_heard},
    purgatory::OpId,
    records::{OffsetValue, SubscriptionValue},
    summary::{SLACK_PARTS, Slack, Summary},
};

/// A partition by the name of its topic.
pub type Place = (Arc<str>, i32);

/// One consumer group as plain data. Partitions of topics that do not exist any more are left out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConsumerView {
    /// The group id.
    pub group_id: Arc<str>,
    /// The assignor that most members name.
    pub assignor: &'static str,
    /// Members by id.
    pub members: Vec<ConsumerMemberView>,
    /// Ids of the group's appends in flight, ascending.
    pub in_flight: Vec<u64>,
    /// Durable offsets by topic and partition.
    pub offsets: Vec<(Arc<str>, i32, OffsetValue)>,
}

/// One member of a consumer group as plain data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConsumerMemberView {
    /// The member id.
    pub member_id: Arc<str>,
    /// `group.instance.id` of a static member.
    pub instance_id: Option<Arc<str>>,
    /// `client.id`.
    pub client_id: Arc<str>,
    /// The client's host.
    pub client_host: Arc<str>,
    /// `client.rack`.
    pub rack: Option<Arc<str>>,
    /// The protocol that the member speaks.
    pub protocol: GroupProtocol,
    /// The member epoch; -2 of a static member that is away.
    pub epoch: i32,
    /// The session timeout that applies to it, in milliseconds.
    pub session_timeout_ms: i32,
    /// The time that it has to give partitions up, in milliseconds.
    pub rebalance_timeout_ms: i32,
    /// End of its session in monotonic milliseconds.
    pub session_ends_ms: Option<u64>,
    /// The time until which it has to give partitions up, in monotonic milliseconds; of a classic member, to join or
    /// sync.
    pub rebalance_ends_ms: Option<u64>,
    /// The topics that it names, ascending.
    pub topics: Vec<Arc<str>>,
    /// The pattern that it subscribes to; "" if none.
    pub pattern: Arc<str>,
    /// What it owns.
    pub assigned: Vec<Place>,
    /// What it has to give up.
    pub revoking: Vec<Place>,
    /// Its part of the target assignment.
    pub target: Vec<Place>,
}

impl Coordinator {
    pub(crate) fn explain_consumer_group(&self, group: &ConsumerGroup, now_ms: u64) -> Explanation {
        let history = &group.history;
        Explanation {
            protocol: GroupProtocol::Consumer,
            state: history.state.name(),
            generation: history.epoch,
            target_epoch: Some(history.target_epoch),
            since_ms: history.since_ms,
            waiting: self.waits_of_consumer_group(group, now_ms),
            rebalances: history.rebalances.iter().cloned().collect(),
        }
    }

    /// The waits; those for members that hold others up come first.
    fn waits_of_consumer_group(&self, group: &ConsumerGroup, now_ms: u64) -> Vec<Wait> {
        if let Some(write) = &group.write {
            return self.wait_for_append(write.append_id).into_iter().collect();
        }
        let target = (group.state() == GroupState::Assigning).then(|| self.wait_for_target(group));
        let target_epoch = group.target_epoch();
        let late = group.members().filter(|(_, member, _)| !member.is_reconciled(target_epoch));
        let members = late.map(|(id, member, value)| self.wait_for_consumer(group, id, (member, value), now_ms));
        let mut waits: Vec<Wait> = target.into_iter().chain(members).collect();
        waits.sort_by_key(|wait| matches!(wait.what, Waiting::Release(_)));
        waits
    }

    /// The next heartbeat of a member computes the target once the assignment interval is over.
    fn wait_for_target(&self, group: &ConsumerGroup) -> Wait {
        let interval_ms = i64::from(self.timing_of(&group.id).assignment_interval_ms);
        // The time of a damaged record may be any number.
        let age_ms = self.clock.wall_ms.saturating_sub(group.target_timestamp_ms());
        let left_ms = if age_ms < 0 { 0 } else { interval_ms.saturating_sub(age_ms) };
        let until_ms = self.clock.mono_ms.saturating_add_signed(left_ms);
        Wait::plain(Waiting::Target, until_ms)
    }

    fn wait_for_consumer(
        &self,
        group: &ConsumerGroup,
        id: &Arc<str>,
        (member, value): (&ConsumerMember, &SubscriptionValue),
        now_ms: u64,
    ) -> Wait {
        let at = |deadline: Option<OpId>| deadline.and_then(|deadline| self.purgatory.deadline(deadline));
        let is = |state: MemberState| member.current.as_ref().is_some_and(|current| current.state == state);
        let id = Arc::clone(id);
        let (what, phase_ends) = if member.epoch() == AWAY {
            (Waiting::Return(id), None)
        } else if member.join.is_some() {
            (Waiting::Rejoin(id), at(member.join))
        } else if member.sync.is_some() {
            (Waiting::Sync(id), at(member.sync))
        } else if is(MemberState::Unrevoked) {
            (Waiting::Revoke(id), at(member.rebalance))
        } else if is(MemberState::Unreleased) && member.epoch() == group.target_epoch() {
            (Waiting::Release(id), None)
        } else {
            (Waiting::Reconcile(id), None)
        };
        let session_ends = at(member.session);
        let since_ms = phase_ends
            .map_or(group.history.since_ms, |ends| ends.saturating_sub(milliseconds(value.rebalance_timeout_ms)));
        let session_timeout_ms = self.session_timeout_of(group, value);
        let is_away = matches!(what, Waiting::Return(_));
        let heartbeats =
            !is_away && session_ends.is_some_and(|ends| is_heard(ends, session_timeout_ms, since_ms, now_ms));
        // The end of a session helps only if the group waits for that member.
        let waits_for_others = matches!(what, Waiting::Release(_));
        let silent_until = session_ends.filter(|_| !heartbeats && !waits_for_others).unwrap_or(u64::MAX);
        let until_ms = silent_until.min(phase_ends.unwrap_or(u64::MAX));
        Wait { what, until_ms, heartbeats, is_static: value.instance_id.is_some() }
    }

    fn session_timeout_of(&self, group: &ConsumerGroup, value: &SubscriptionValue) -> i32 {
        let own = value.classic.as_ref().map(|classic| classic.session_timeout_ms);
        own.unwrap_or_else(|| self.timing_of(&group.id).session_timeout_ms)
    }

    pub(crate) fn summarize_consumer_group(&self, group: &ConsumerGroup, now_ms: u64, waits_max: usize) -> Summary {
        let mut explanation = self.explain_consumer_group(group, now_ms);
        let waits = explanation.waiting.len() as u32;
        explanation.waiting.truncate(waits_max);
        Summary {
            group_id: Arc::clone(&group.id),
            protocol_type: Some("consumer".into()),
            protocol_name: Some(group.preferred_assignor().into()),
            members: group.size() as u32,
            awaiting_join: 0,
            awaiting_sync: 0,
            pending: 0,
            slack: self.slack_of_consumer_group(group, now_ms),
            waits,
            explanation,
        }
    }

    /// Counts a consumer group's running sessions by time left.
    pub(crate) fn slack_of_consumer_group(&self, group: &ConsumerGroup, now_ms: u64) -> Slack {
        let mut slack = Slack::default();
        for (_, member, value) in group.members() {
            let Some(ends_ms) = member.session.and_then(|session| self.purgatory.deadline(session)) else { continue };
            let session_ms = milliseconds(self.session_timeout_of(group, value).max(1));
            let part = ends_ms.saturating_sub(now_ms) * SLACK_PARTS as u64 / session_ms;
            slack[(part as usize).min(SLACK_PARTS - 1)] += 1;
        }
        slack
    }

    /// Counts consumer groups by state, in the order of `GroupState::ALL`.
    pub fn consumer_state_counts(&self) -> [u64; GroupState::ALL.len()] {
        let mut counts = [0; GroupState::ALL.len()];
        for group in self.consumer_groups.values().filter(|group| !group.is_gone()) {
            counts[group.history.state as usize] += 1;
        }
        counts
    }

    /// Returns a consumer group as plain data; `None` if there is no consumer group of this id.
    pub fn view_consumer_group(&self, group_id: &str) -> Option<ConsumerView> {
        let group = self.find_consumer_group(group_id)?;
        let stored = self.project(group_id);
        Some(ConsumerView {
            group_id: Arc::clone(&group.id),
            assignor: group.preferred_assignor(),
            members: group.members().map(|(id, member, value)| self.view_member(group, id, member, value)).collect(),
            in_flight: group.write.iter().map(|write| write.append_id.0).collect(),
            offsets: stored.map(|stored| stored.offsets).unwrap_or_default(),
        })
    }

    fn view_member(
        &self,
        group: &ConsumerGroup,
        id: &Arc<str>,
        member: &ConsumerMember,
        value: &SubscriptionValue,
    ) -> ConsumerMemberView {
        let at = |deadline: Option<OpId>| deadline.and_then(|deadline| self.purgatory.deadline(deadline));
        let current = member.current.clone().unwrap_or_else(Current::joining);
        ConsumerMemberView {
            member_id: Arc::clone(id),
            instance_id: value.instance_id.clone(),
            client_id: Arc::clone(&value.client_id),
            client_host: Arc::clone(&value.client_host),
            rack: value.rack_id.clone(),
            protocol: if value.classic.is_some() { GroupProtocol::Classic } else { GroupProtocol::Consumer },
            epoch: current.epoch,
            session_timeout_ms: self.session_timeout_of(group, value),
            rebalance_timeout_ms: value.rebalance_timeout_ms,
            session_ends_ms: at(member.session),
            rebalance_ends_ms: [member.rebalance, member.join, member.sync].into_iter().filter_map(at).min(),
            topics: value.topic_names.clone(),
            pattern: value.topic_regex.clone().unwrap_or_default(),
            assigned: self.places(current.assigned.into_keys()),
            revoking: self.places(current.pending.into_keys()),
            target: self.places(member.target.iter().flatten().copied()),
        }
    }

    fn places(&self, partitions: impl Iterator<Item = Partition>) -> Vec<Place> {
        let named = |(topic_id, index): Partition| Some((Arc::clone(self.topics.name_of(topic_id)?), index));
        let mut places: Vec<Place> = partitions.filter_map(named).collect();
        places.sort_unstable();
        places
    }
}

fn milliseconds(timeout_ms: i32) -> u64 {
    u64::from(timeout_ms.max(0).unsigned_abs())
}
