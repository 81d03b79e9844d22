//! A group summarized in a few figures, for views of many groups.

use std::sync::Arc;

pub use crate::group::Client;
use crate::{coordinator::Coordinator, explain::Explanation, group::Group, states::State};

/// Number of equal parts of a session in a [`Slack`].
pub const SLACK_PARTS: usize = 10;

/// Members by the time left of their session, in tenths: `[0]` counts those with less than a tenth.
pub type Slack = [u32; SLACK_PARTS];

/// Member ids with the instance ids of static members.
pub type MemberIdentities = Vec<(Arc<str>, Option<Arc<str>>)>;

/// One group in a few figures.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Summary {
    /// The group id.
    pub group_id: Arc<str>,
    /// Set by the first member of an empty group, and kept when the group becomes empty again.
    pub protocol_type: Option<Arc<str>>,
    /// The chosen protocol.
    pub protocol_name: Option<Arc<str>>,
    /// Number of members.
    pub members: u32,
    /// Number of members with a parked `JoinGroup`.
    pub awaiting_join: u32,
    /// Number of members with a parked `SyncGroup`.
    pub awaiting_sync: u32,
    /// Number of pending member ids.
    pub pending: u32,
    /// Time left of running sessions.
    pub slack: Slack,
    /// Number of waits; `explanation` has the first of them.
    pub waits: u32,
    /// Explanation of the state, with the first few waits.
    pub explanation: Explanation,
}

impl Coordinator {
    /// Summarizes a group at `now_ms`, with at most `waits_max` of its waits. Returns `None` if there is no such group.
    pub fn summarize(&self, group_id: &str, now_ms: u64, waits_max: usize) -> Option<Summary> {
        if let Some(group) = self.find_consumer_group(group_id) {
            return Some(self.summarize_consumer_group(group, now_ms, waits_max));
        }
        let mut explanation = self.explain(group_id, now_ms)?;
        let group = &self.groups[self.find_group(group_id)?];
        let waits = explanation.waiting.len() as u32;
        explanation.waiting.truncate(waits_max);
        let members = || group.joined.values().map(|member| &self.members[*member]);
        Some(Summary {
            group_id: Arc::clone(&group.id),
            protocol_type: group.protocol_type.clone(),
            protocol_name: group.protocol_name.clone(),
            members: group.joined.len() as u32,
            awaiting_join: group.awaiting_join,
            awaiting_sync: members().filter(|member| member.awaits_sync()).count() as u32,
            pending: group.pending.len() as u32,
            slack: self.slack(group, now_ms),
            waits,
            explanation,
        })
    }

    /// Returns the member id and the instance id of a group's members: those of a classic group in joining order, those
    /// of a consumer group by id. Returns `None` if there is no such group.
    pub fn member_identities(&self, group_id: &str) -> Option<MemberIdentities> {
        if let Some(group) = self.find_consumer_group(group_id) {
            return Some(group.members().map(|(id, _, value)| (Arc::clone(id), value.instance_id.clone())).collect());
        }
        let group = &self.groups[self.find_group(group_id)?];
        let members = group.joined.values().map(|member| &self.members[*member]);
        Some(members.map(|member| (member.id.shared(), member.client.instance_id.clone())).collect())
    }

    /// Returns the clients of a group's members, in joining order; `None` if there is no such group.
    pub fn clients(&self, group_id: &str) -> Option<Vec<Client>> {
        let group = &self.groups[self.find_group(group_id)?];
        Some(group.joined.values().map(|member| Client::clone(&self.members[*member].client)).collect())
    }

    /// Counts classic groups by state, in the order of `State::ALL`.
    pub fn state_counts(&self) -> [u64; State::ALL.len()] {
        let mut counts = [0; State::ALL.len()];
        // The classic group of the id of a consumer group only holds its offsets.
        for (_, group) in self.group_ids.iter().filter(|(id, _)| self.find_consumer_group(id).is_none()) {
            counts[self.groups[*group].state as usize] += 1;
        }
        counts
    }

    /// Counts the running sessions of all groups by time left.
    pub fn slack_of_all(&self, now_ms: u64) -> Slack {
        let mut all = Slack::default();
        for group in self.group_ids.values() {
            let of_group = self.slack(&self.groups[*group], now_ms);
            all.iter_mut().zip(of_group).for_each(|(sum, count)| *sum += count);
        }
        for group in self.consumer_groups.values() {
            let of_group = self.slack_of_consumer_group(group, now_ms);
            all.iter_mut().zip(of_group).for_each(|(sum, count)| *sum += count);
        }
        all
    }

    /// Iterates over the durable offsets of all groups, by group, topic and partition.
    pub fn offsets(&self) -> impl Iterator<Item = (&Arc<str>, &Arc<str>, i32, i64)> {
        let groups = self.group_ids.values().map(|group| &self.groups[*group]);
        groups.flat_map(|group| {
            group.offsets.iter().map(|(topic, partition, value)| (&group.id, topic, partition, value.offset))
        })
    }

    /// Counts a group's running sessions by time left. Parked members and members without a complete join have none
    /// (§7.2).
    fn slack(&self, group: &Group, now_ms: u64) -> Slack {
        let mut slack = Slack::default();
        for member in group.joined.values().map(|member| &self.members[*member]).filter(|member| !member.is_new) {
            let Some(deadline_ms) = member.session.and_then(|session| self.purgatory.deadline(session)) else {
                continue;
            };
            let session_ms = u64::from(member.session_timeout_ms.max(1).unsigned_abs());
            let part = deadline_ms.saturating_sub(now_ms) * SLACK_PARTS as u64 / session_ms;
            slack[(part as usize).min(SLACK_PARTS - 1)] += 1;
        }
        slack
    }
}
