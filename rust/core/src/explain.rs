//! What a group is doing, what it waits for, and why it rebalanced.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

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
    /// A member was refused because the group is full, and removed by that.
    RefusedOverCapacity,
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
    pub state: crate::states::State,
    /// Its generation.
    pub generation: i32,
    /// Since when it is in this state, monotonic milliseconds.
    pub since_ms: u64,
    /// What it waits for; empty while nothing is missing.
    pub waiting: Vec<Wait>,
    /// The last rebalances, oldest first.
    pub rebalances: Vec<Rebalance>,
}
