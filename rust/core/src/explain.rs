//! What a group is doing, what it waits for, and why it rebalanced.

use std::sync::Arc;

use crate::{
    coordinator::Coordinator,
    effects::AppendId,
    group::{Group, Member},
    states::State,
};

pub use crate::history::{Cause, Departed, Departure, Rebalance};

/// Kafka advises a heartbeat interval of at most a third of the session timeout: a member that was not heard for half of it
/// has missed one.
const SILENT_PART: u64 = 2;

/// What keeps a group from going on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Waiting {
    /// The initial delay gives other members time to join (§5.3).
    InitialDelay,
    /// This member has not joined the new round.
    Rejoin(Arc<str>),
    /// This id was handed out and has not joined.
    Pending(Arc<str>),
    /// The leader has not sent its plan.
    LeaderSync(Arc<str>),
    /// This member has not sent SyncGroup.
    Sync(Arc<str>),
    /// The log has not made the group's record durable.
    Append,
}

impl Waiting {
    /// The names of all of them, as the vocabulary has them.
    pub const NAMES: [&'static str; 6] = ["InitialDelay", "Rejoin", "Pending", "LeaderSync", "Sync", "Append"];
}

/// One thing waited for, and until when at the latest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wait {
    /// What.
    pub what: Waiting,
    /// Monotonic milliseconds at which the coordinator stops waiting for it: for a member that heartbeats the end of the
    /// phase, for a silent one the end of its session if that comes first.
    pub until_ms: u64,
    /// Whether the member has been heard since the phase began, and within the last half of its session timeout.
    pub heartbeats: bool,
    /// Whether it is a static member, which stays in the group when a join phase ends without it.
    pub is_static: bool,
}

impl Wait {
    /// A wait for no member in particular.
    fn plain(what: Waiting, until_ms: u64) -> Wait {
        Wait { what, until_ms, heartbeats: false, is_static: false }
    }
}

/// The answer to "what is this group doing".
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Explanation {
    /// The group's state.
    pub state: State,
    /// Its generation.
    pub generation: i32,
    /// Since when it is in this state, monotonic milliseconds.
    pub since_ms: u64,
    /// What it waits for; empty while nothing is missing.
    pub waiting: Vec<Wait>,
    /// The last rebalances, oldest first.
    pub rebalances: Vec<Rebalance>,
}

impl Coordinator {
    /// What a group is doing at `now_ms`, whom it waits for and until when, and why it rebalanced lately. `None`: no such
    /// group.
    pub fn explain(&self, group_id: &str, now_ms: u64) -> Option<Explanation> {
        if self.find_consumer_group(group_id).is_some() {
            // Its classic group only has its offsets.
            return None;
        }
        let group = &self.groups[self.find_group(group_id)?];
        Some(Explanation {
            state: group.state,
            generation: group.generation,
            since_ms: group.since_ms,
            waiting: self.waits(group, now_ms),
            rebalances: group.rebalances.iter().cloned().collect(),
        })
    }

    fn waits(&self, group: &Group, now_ms: u64) -> Vec<Wait> {
        if let Some(append_id) = group.deleting.or(group.creating.filter(|_| group.join_held)) {
            return self.wait_for_append(append_id).into_iter().collect();
        }
        match group.state {
            State::PreparingRebalance => self.waits_of_join(group, now_ms),
            State::CompletingRebalance => self.waits_of_sync(group, now_ms),
            State::Empty | State::Stable | State::Dead => Vec::new(),
        }
    }

    fn wait_for_append(&self, append_id: AppendId) -> Option<Wait> {
        let deadline = self.appends.get(&append_id)?.deadline?;
        Some(Wait::plain(Waiting::Append, self.purgatory.deadline(deadline)?))
    }

    /// A member or id is waited for until its own deadline or the phase's, whichever comes first.
    fn waits_of_join(&self, group: &Group, now_ms: u64) -> Vec<Wait> {
        let phase_ends = group.join_deadline.and_then(|deadline| self.purgatory.deadline(deadline)).unwrap_or(u64::MAX);
        if group.initial.is_some() {
            return vec![Wait::plain(Waiting::InitialDelay, phase_ends)];
        }
        let absent = group.joined.values().map(|member| &self.members[*member]).filter(|member| !member.awaits_join());
        let rejoins = absent.map(|member| {
            let what = Waiting::Rejoin(member.id.shared());
            self.wait_for_member(group, member, what, phase_ends, now_ms)
        });
        let pending = group.pending.iter().map(|(member_id, pending)| {
            let expires = self.purgatory.deadline(pending.expiry).unwrap_or(phase_ends);
            Wait::plain(Waiting::Pending(Arc::clone(member_id)), expires.min(phase_ends))
        });
        rejoins.chain(pending).collect()
    }

    fn waits_of_sync(&self, group: &Group, now_ms: u64) -> Vec<Wait> {
        if let Some(assigning) = &group.assigning {
            return self.wait_for_append(assigning.append_id).into_iter().collect();
        }
        let phase_ends = group.sync_deadline.and_then(|deadline| self.purgatory.deadline(deadline)).unwrap_or(u64::MAX);
        let late = group.joined.values().filter(|member| self.members[**member].owes_sync);
        late.map(|handle| {
            let member = &self.members[*handle];
            let id = member.id.shared();
            let leads = group.leader == Some(*handle);
            let what = if leads { Waiting::LeaderSync(id) } else { Waiting::Sync(id) };
            self.wait_for_member(group, member, what, phase_ends, now_ms)
        })
        .collect()
    }

    fn wait_for_member(&self, group: &Group, member: &Member, what: Waiting, phase_ends: u64, now_ms: u64) -> Wait {
        let session_ends = member.session.and_then(|session| self.purgatory.deadline(session));
        let timeout_ms = u64::from(member.session_timeout_ms.max(0).unsigned_abs());
        // A new member's deadline is not that of its session (§4.7), so it does not show when it was heard.
        let heard_ms = session_ends.filter(|_| !member.is_new).and_then(|ends| ends.checked_sub(timeout_ms));
        let heartbeats = heard_ms.is_some_and(|heard_ms| {
            heard_ms > group.since_ms && now_ms.saturating_sub(heard_ms) <= timeout_ms / SILENT_PART
        });
        let until_ms = match session_ends {
            Some(session_ends) if !heartbeats => session_ends.min(phase_ends),
            _ => phase_ends,
        };
        Wait { what, until_ms, heartbeats, is_static: member.client.instance_id.is_some() }
    }
}
