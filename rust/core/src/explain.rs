//! What a group is doing, what it waits for, and why it rebalanced.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::{
    effects::AppendId,
    group::{Group, Member},
    request::Now,
    states::State,
};

/// Kafka advises a heartbeat interval of at most a third of the session timeout: a member that was not heard for half of it
/// has missed one.
const SILENT_PART: u64 = 2;

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

/// How a member went while a rebalance was running.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Departed {
    /// It left, or an administrator removed it.
    Left,
    /// An id that was handed out but never joined left.
    PendingLeft,
    /// It was silent for its session timeout.
    SessionExpired,
    /// A new member did not finish its first join in time.
    NewMemberExpired,
    /// An id that was handed out did not join in time.
    PendingExpired,
    /// It did not rejoin within the rebalance timeout.
    RejoinExpired,
    /// It did not send SyncGroup within the rebalance timeout.
    SyncExpired,
}

impl Departed {
    /// All of them, by name.
    pub const ALL: [Departed; 7] = [
        Departed::Left,
        Departed::PendingLeft,
        Departed::SessionExpired,
        Departed::NewMemberExpired,
        Departed::PendingExpired,
        Departed::RejoinExpired,
        Departed::SyncExpired,
    ];

    /// The name, as the vocabulary has it.
    pub const fn name(self) -> &'static str {
        match self {
            Departed::Left => "Left",
            Departed::PendingLeft => "PendingLeft",
            Departed::SessionExpired => "SessionExpired",
            Departed::NewMemberExpired => "NewMemberExpired",
            Departed::PendingExpired => "PendingExpired",
            Departed::RejoinExpired => "RejoinExpired",
            Departed::SyncExpired => "SyncExpired",
        }
    }
}

/// A member that went while a rebalance was running, and therefore began no other one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Departure {
    /// The member, or the id that was handed out.
    pub member_id: Arc<str>,
    /// How it went.
    pub how: Departed,
    /// The reason that the request gave, or "".
    pub reason: Arc<str>,
    /// Monotonic milliseconds.
    pub at_ms: u64,
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
    /// The members that went while it ran, the last `rebalance_history` of them, oldest first. Snapshots leave them out:
    /// their form is that of journals written before.
    #[serde(skip)]
    pub departures: Vec<Departure>,
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

impl crate::Coordinator {
    /// What a group is doing at `now_ms`, whom it waits for and until when, and why it rebalanced lately. `None`: no such
    /// group.
    pub fn explain(&self, group_id: &str, now_ms: u64) -> Option<Explanation> {
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

impl Group {
    /// Adds a member that went to the history of the latest rebalance, of which it keeps the last `kept` departures.
    pub(crate) fn note_departure(&mut self, now: Now, kept: u32, member_id: Arc<str>, how: Departed, reason: &str) {
        let Some(rebalance) = self.rebalances.back_mut() else { return };
        if rebalance.departures.len() >= kept.max(1) as usize {
            rebalance.departures.remove(0);
        }
        rebalance.departures.push(Departure { member_id, how, reason: reason.into(), at_ms: now.mono_ms });
    }
}
