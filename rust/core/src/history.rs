//! The rebalances that a group remembers.

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
