//! A group in a few figures, for whoever looks at many of them.

use std::sync::Arc;

pub use crate::group::Client;
use crate::{coordinator::Coordinator, explain::Explanation, group::Group, states::State};

/// Into how many equal parts a session is divided where slack is counted.
pub const SLACK_PARTS: usize = 10;

/// By how much of their session members have left, in tenths: `[0]` counts those with less than a tenth.
pub type Slack = [u32; SLACK_PARTS];

/// One group in a few figures.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Summary {
    /// The group.
    pub group_id: Arc<str>,
    /// From the first member of a member-less group; kept when the group empties.
    pub protocol_type: Option<Arc<str>>,
    /// The chosen protocol.
    pub protocol_name: Option<Arc<str>>,
    /// How many members it has.
    pub members: u32,
    /// How many of them have a parked `JoinGroup`.
    pub awaiting_join: u32,
    /// How many of them have a parked `SyncGroup`.
    pub awaiting_sync: u32,
    /// How many ids were handed out that have not joined.
    pub pending: u32,
    /// How far the members that have a running session are from its end.
    pub slack: Slack,
    /// How many things it waits for; `explanation` has the first of them.
    pub waits: u32,
    /// What it is doing, with the first few waits.
    pub explanation: Explanation,
}

impl Coordinator {
    /// A group in a few figures at `now_ms`, with at most `waits_max` of its waits. `None`: no such group.
    pub fn summarize(&self, group_id: &str, now_ms: u64, waits_max: usize) -> Option<Summary> {
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

    /// Who joined the members of a group, in joining order. `None`: no such group.
    pub fn clients(&self, group_id: &str) -> Option<Vec<Client>> {
        let group = &self.groups[self.find_group(group_id)?];
        Some(group.joined.values().map(|member| Client::clone(&self.members[*member].client)).collect())
    }

    /// How many groups are in each state, in the order of `State::ALL`.
    pub fn state_counts(&self) -> [u64; State::ALL.len()] {
        let mut counts = [0; State::ALL.len()];
        for group in self.group_ids.values() {
            counts[self.groups[*group].state as usize] += 1;
        }
        counts
    }

    /// How far the members of all groups that have a running session are from its end.
    pub fn slack_of_all(&self, now_ms: u64) -> Slack {
        let mut all = Slack::default();
        for group in self.group_ids.values() {
            let of_group = self.slack(&self.groups[*group], now_ms);
            all.iter_mut().zip(of_group).for_each(|(sum, count)| *sum += count);
        }
        all
    }

    /// The durable offsets of all groups, by group, topic and partition.
    pub fn offsets(&self) -> impl Iterator<Item = (&Arc<str>, &Arc<str>, i32, i64)> {
        let groups = self.group_ids.values().map(|group| &self.groups[*group]);
        groups.flat_map(|group| {
            let topics = group.offsets.iter();
            topics.flat_map(move |(topic, partitions)| {
                partitions.iter().map(move |(partition, value)| (&group.id, topic, *partition, value.offset))
            })
        })
    }

    /// A member that is parked, or has never seen a join phase complete, has no session that runs (§7.2).
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
