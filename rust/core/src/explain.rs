//! What a group is doing, what it waits for, and why it rebalanced.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::{effects::AppendId, group::Group, states::State};

/// Why a rebalance began (docs/protocol.md §5.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Cause {
    /// A member joined.
    MemberJoined,
    /// A member came back with other protocols or another subscription.
    MetadataChanged,
    /// The leader joined again in a Stable group.
    LeaderRejoined,
    /// A member left.
    MemberLeft,
    /// An id that was handed out but never joined left.
    PendingLeft,
    /// A member was silent for its session timeout.
    SessionExpired,
    /// A new member did not finish its first join in time.
    NewMemberExpired,
    /// Members did not send SyncGroup in time.
    SyncExpired,
    /// The assignment could not be stored.
    AssignmentNotStored,
    /// A static member was replaced by a new process.
    StaticReplaced,
    /// More members were loaded than the group may have.
    OverCapacity,
    /// A test asked for it.
    Requested,
}

impl Cause {
    /// All causes, by name.
    pub const ALL: [Cause; 12] = [
        Cause::MemberJoined,
        Cause::MetadataChanged,
        Cause::LeaderRejoined,
        Cause::MemberLeft,
        Cause::PendingLeft,
        Cause::SessionExpired,
        Cause::NewMemberExpired,
        Cause::SyncExpired,
        Cause::AssignmentNotStored,
        Cause::StaticReplaced,
        Cause::OverCapacity,
        Cause::Requested,
    ];

    /// The name, as the vocabulary has it.
    pub const fn name(self) -> &'static str {
        match self {
            Cause::MemberJoined => "MemberJoined",
            Cause::MetadataChanged => "MetadataChanged",
            Cause::LeaderRejoined => "LeaderRejoined",
            Cause::MemberLeft => "MemberLeft",
            Cause::PendingLeft => "PendingLeft",
            Cause::SessionExpired => "SessionExpired",
            Cause::NewMemberExpired => "NewMemberExpired",
            Cause::SyncExpired => "SyncExpired",
            Cause::AssignmentNotStored => "AssignmentNotStored",
            Cause::StaticReplaced => "StaticReplaced",
            Cause::OverCapacity => "OverCapacity",
            Cause::Requested => "Requested",
        }
    }
}

/// One rebalance.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rebalance {
    /// What began it.
    pub cause: Cause,
    /// Whose event that was; "" if nobody's in particular.
    pub member_id: Arc<str>,
    /// What the client said about it, "" if nothing.
    pub reason: Arc<str>,
    /// The generation that it ended.
    pub from_generation: i32,
    /// The generation that came of it, once its join phase completed.
    pub to_generation: Option<i32>,
    /// Monotonic milliseconds.
    pub began_ms: u64,
    /// Wall milliseconds.
    pub began_wall_ms: i64,
    /// When its join phase completed.
    pub joined_ms: Option<u64>,
    /// When the group was Stable, or Empty, again.
    pub settled_ms: Option<u64>,
}

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
    /// Monotonic milliseconds at which the coordinator stops waiting for it.
    pub until_ms: u64,
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

impl crate::Coordinator {
    /// What a group is doing, whom it waits for and until when, and why it rebalanced lately. `None`: no such group.
    pub fn explain(&self, group_id: &str) -> Option<Explanation> {
        let group = &self.groups[self.find_group(group_id)?];
        Some(Explanation {
            state: group.state,
            generation: group.generation,
            since_ms: group.since_ms,
            waiting: self.waits(group),
            rebalances: group.rebalances.iter().cloned().collect(),
        })
    }

    fn waits(&self, group: &Group) -> Vec<Wait> {
        if let Some(append_id) = group.deleting.or(group.creating.filter(|_| group.join_held)) {
            return self.wait_for_append(append_id).into_iter().collect();
        }
        match group.state {
            State::PreparingRebalance => self.waits_of_join(group),
            State::CompletingRebalance => self.waits_of_sync(group),
            State::Empty | State::Stable | State::Dead => Vec::new(),
        }
    }

    fn wait_for_append(&self, append_id: AppendId) -> Option<Wait> {
        let deadline = self.appends.get(&append_id)?.deadline?;
        Some(Wait { what: Waiting::Append, until_ms: self.purgatory.deadline(deadline)? })
    }

    /// A member or id is waited for until its own deadline or the phase's, whichever comes first.
    fn waits_of_join(&self, group: &Group) -> Vec<Wait> {
        let phase_ends = group.join_deadline.and_then(|deadline| self.purgatory.deadline(deadline)).unwrap_or(u64::MAX);
        if group.initial.is_some() {
            return vec![Wait { what: Waiting::InitialDelay, until_ms: phase_ends }];
        }
        let until = |deadline: Option<u64>| deadline.map_or(phase_ends, |deadline| deadline.min(phase_ends));
        let absent = group.joined.values().map(|member| &self.members[*member]).filter(|member| !member.awaits_join());
        let rejoins = absent.map(|member| Wait {
            what: Waiting::Rejoin(member.id.shared()),
            until_ms: until(member.session.and_then(|session| self.purgatory.deadline(session))),
        });
        let pending = group.pending.iter().map(|(member_id, pending)| Wait {
            what: Waiting::Pending(Arc::clone(member_id)),
            until_ms: until(self.purgatory.deadline(pending.expiry)),
        });
        rejoins.chain(pending).collect()
    }

    fn waits_of_sync(&self, group: &Group) -> Vec<Wait> {
        if let Some(assigning) = &group.assigning {
            return self.wait_for_append(assigning.append_id).into_iter().collect();
        }
        let phase_ends = group.sync_deadline.and_then(|deadline| self.purgatory.deadline(deadline)).unwrap_or(u64::MAX);
        let late = group.joined.values().filter(|member| self.members[**member].owes_sync);
        late.map(|handle| {
            let member = &self.members[*handle];
            let session = member.session.and_then(|session| self.purgatory.deadline(session));
            let id = member.id.shared();
            let leads = group.leader == Some(*handle);
            Wait {
                what: if leads { Waiting::LeaderSync(id) } else { Waiting::Sync(id) },
                until_ms: session.map_or(phase_ends, |session| session.min(phase_ends)),
            }
        })
        .collect()
    }
}
