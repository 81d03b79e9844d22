//! Explains what a group is doing, what it waits for, and why it rebalanced.

use std::sync::Arc;

use crate::{
    coordinator::Coordinator,
    effects::AppendId,
    group::{Group, Member},
    states::State,
};

pub use crate::history::{Cause, Departed, Departure, Rebalance};

/// Kafka recommends a heartbeat interval of at most a third of the session timeout. A member silent for half of it has
/// missed one.
const SILENT_PART: u64 = 2;

/// What delays the next step of a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Waiting {
    /// The initial delay gives other members time to join (§5.3).
    InitialDelay,
    /// This member has not joined the new generation.
    Rejoin(Arc<str>),
    /// This member id is pending and has not joined.
    Pending(Arc<str>),
    /// The leader has not sent the assignment.
    LeaderSync(Arc<str>),
    /// This member has not sent SyncGroup.
    Sync(Arc<str>),
    /// The log has not made the group's record durable.
    Append,
    /// The next target assignment of a consumer group is not due yet (docs/consumer-protocol.md §7).
    Target,
    /// This member has not given up partitions that are not in its target.
    Revoke(Arc<str>),
    /// This member waits for partitions of its target that other members hold.
    Release(Arc<str>),
    /// This member has not sent a heartbeat since the target changed.
    Reconcile(Arc<str>),
    /// This static member is away, and its partitions are kept for it.
    Return(Arc<str>),
}

impl Waiting {
    /// The names of all variants, as in the vocabulary.
    pub const NAMES: [&'static str; 11] = [
        "InitialDelay",
        "Rejoin",
        "Pending",
        "LeaderSync",
        "Sync",
        "Append",
        "Target",
        "Revoke",
        "Release",
        "Reconcile",
        "Return",
    ];
}

/// One wait, and its latest end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wait {
    /// The event that the group waits for.
    pub what: Waiting,
    /// End of the wait in monotonic milliseconds. For a member that sends heartbeats this is the end of the phase; for
    /// a silent one, the end of its session if that comes first.
    pub until_ms: u64,
    /// Whether the member sent a request since the phase began and within the last half of its session timeout.
    pub heartbeats: bool,
    /// Whether it is a static member. A static member stays in the group when a join phase ends without it.
    pub is_static: bool,
}

impl Wait {
    /// A wait that is not for a member.
    pub(crate) fn plain(what: Waiting, until_ms: u64) -> Wait {
        Wait { what, until_ms, heartbeats: false, is_static: false }
    }
}

/// The protocol of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum GroupProtocol {
    /// `JoinGroup` and `SyncGroup` (docs/protocol.md).
    Classic,
    /// `ConsumerGroupHeartbeat` (docs/consumer-protocol.md).
    Consumer,
}

impl GroupProtocol {
    /// Returns the name, which is also that of the group type.
    pub const fn name(self) -> &'static str {
        match self {
            GroupProtocol::Classic => "classic",
            GroupProtocol::Consumer => "consumer",
        }
    }
}

/// The state of a group, its waits and its recent rebalances.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Explanation {
    /// The group's protocol.
    pub protocol: GroupProtocol,
    /// Name of the group's state in its protocol.
    pub state: &'static str,
    /// Its generation, or the group epoch of a consumer group.
    pub generation: i32,
    /// The epoch of a consumer group's target assignment.
    pub target_epoch: Option<i32>,
    /// Start of this state in monotonic milliseconds.
    pub since_ms: u64,
    /// What the group waits for; empty if nothing delays it.
    pub waiting: Vec<Wait>,
    /// The last rebalances, oldest first.
    pub rebalances: Vec<Rebalance>,
}

impl Coordinator {
    /// Explains what a group is doing at `now_ms`, what it waits for and until when, and why it rebalanced lately.
    /// Returns `None` if there is no such group.
    pub fn explain(&self, group_id: &str, now_ms: u64) -> Option<Explanation> {
        if let Some(group) = self.find_consumer_group(group_id) {
            // The classic group of the same id only holds its offsets.
            return Some(self.explain_consumer_group(group, now_ms));
        }
        let group = &self.groups[self.find_group(group_id)?];
        Some(Explanation {
            protocol: GroupProtocol::Classic,
            state: group.state.name(),
            generation: group.generation,
            target_epoch: None,
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

    pub(crate) fn wait_for_append(&self, append_id: AppendId) -> Option<Wait> {
        let deadline = self.appends.get(&append_id)?.deadline?;
        Some(Wait::plain(Waiting::Append, self.purgatory.deadline(deadline)?))
    }

    /// Returns the waits of a join phase. A member or pending id is waited for until its own deadline or that of the
    /// phase, whichever is earlier.
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
        // The deadline of a new member is not that of its session (§4.7), so it does not show the time of the last
        // request.
        let heartbeats = session_ends
            .filter(|_| !member.is_new)
            .is_some_and(|ends| is_heard(ends, member.session_timeout_ms, group.since_ms, now_ms));
        let until_ms = match session_ends {
            Some(session_ends) if !heartbeats => session_ends.min(phase_ends),
            _ => phase_ends,
        };
        Wait { what, until_ms, heartbeats, is_static: member.client.instance_id.is_some() }
    }
}

/// Whether a member whose session ends at `ends_ms` sent a request after `since_ms` and within the last half of its
/// session timeout.
pub(crate) fn is_heard(ends_ms: u64, session_timeout_ms: i32, since_ms: u64, now_ms: u64) -> bool {
    let timeout_ms = u64::from(session_timeout_ms.max(0).unsigned_abs());
    let recent = |heard_ms: u64| heard_ms > since_ms && now_ms.saturating_sub(heard_ms) <= timeout_ms / SILENT_PART;
    ends_ms.checked_sub(timeout_ms).is_some_and(recent)
}
