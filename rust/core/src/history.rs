//! The rebalances that a group remembers.

use std::{collections::VecDeque, sync::Arc};

use serde::{Deserialize, Serialize};

use crate::request::Now;

/// Why a rebalance began (docs/protocol.md §5.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Cause {
    /// A member joined.
    MemberJoined,
    /// A member rejoined with other protocols or another subscription.
    MetadataChanged,
    /// The leader rejoined a Stable group.
    LeaderRejoined,
    /// A member left.
    MemberLeft,
    /// A pending member id left before it joined.
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
    /// Loading found more members than the group may have.
    OverCapacity,
    /// A test requested it.
    Requested,
    /// A member of a consumer group changed its subscription, or the assignor that most members prefer.
    SubscriptionChanged,
    /// Topics that a consumer group subscribes to were created, changed or deleted.
    TopicsChanged,
    /// The topics of a new pattern of a member of a consumer group were looked up.
    PatternResolved,
    /// A member of a consumer group did not give partitions up in time.
    RevocationExpired,
    /// A classic member of a consumer group did not join again in time.
    RejoinExpired,
    /// A member of the consumer protocol joined a classic group, which became a consumer group.
    Upgraded,
    /// The last member of the consumer protocol went, and the group became a classic group.
    Downgraded,
    /// A classic group could not be stored as a consumer group, and stayed a classic group.
    UpgradeFailed,
}

impl Cause {
    /// All causes, in declaration order.
    pub const ALL: [Cause; 20] = [
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
        Cause::SubscriptionChanged,
        Cause::TopicsChanged,
        Cause::PatternResolved,
        Cause::RevocationExpired,
        Cause::RejoinExpired,
        Cause::Upgraded,
        Cause::Downgraded,
        Cause::UpgradeFailed,
    ];

    /// Returns the name, as in the vocabulary.
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
            Cause::SubscriptionChanged => "SubscriptionChanged",
            Cause::TopicsChanged => "TopicsChanged",
            Cause::PatternResolved => "PatternResolved",
            Cause::RevocationExpired => "RevocationExpired",
            Cause::RejoinExpired => "RejoinExpired",
            Cause::Upgraded => "Upgraded",
            Cause::Downgraded => "Downgraded",
            Cause::UpgradeFailed => "UpgradeFailed",
        }
    }
}

/// How a member left the group during a rebalance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Departed {
    /// It left, or an administrator removed it.
    Left,
    /// A pending member id left before it joined.
    PendingLeft,
    /// It was silent for its session timeout.
    SessionExpired,
    /// A new member did not finish its first join in time.
    NewMemberExpired,
    /// A pending member id did not join in time.
    PendingExpired,
    /// It did not rejoin within the rebalance timeout.
    RejoinExpired,
    /// It did not send SyncGroup within the rebalance timeout.
    SyncExpired,
}

impl Departed {
    /// All variants, in declaration order.
    pub const ALL: [Departed; 7] = [
        Departed::Left,
        Departed::PendingLeft,
        Departed::SessionExpired,
        Departed::NewMemberExpired,
        Departed::PendingExpired,
        Departed::RejoinExpired,
        Departed::SyncExpired,
    ];

    /// Returns the name, as in the vocabulary.
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

/// A member that left during a rebalance, and therefore began no other rebalance.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Departure {
    /// The member id, or the pending member id.
    pub member_id: Arc<str>,
    /// The kind of departure.
    pub how: Departed,
    /// The reason in the request; "" if none.
    pub reason: Arc<str>,
    /// Time in monotonic milliseconds.
    pub at_ms: u64,
}

/// One rebalance. In a consumer group it begins with a new group epoch, which is the generation; its join phase ends
/// with the target assignment of that epoch.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rebalance {
    /// The cause.
    pub cause: Cause,
    /// The member whose event began the rebalance; "" if none.
    pub member_id: Arc<str>,
    /// The reason in the client's request; "" if none.
    pub reason: Arc<str>,
    /// The generation that it ended.
    pub from_generation: i32,
    /// The generation after the join phase; `None` until it completes.
    pub to_generation: Option<i32>,
    /// Start in monotonic milliseconds.
    pub began_ms: u64,
    /// Start in wall milliseconds.
    pub began_wall_ms: i64,
    /// End of the join phase in monotonic milliseconds.
    pub joined_ms: Option<u64>,
    /// Time when the group became Stable or Empty, in monotonic milliseconds.
    pub settled_ms: Option<u64>,
    /// Departures during the rebalance, the last `rebalance_history` of them, oldest first. Snapshots leave them out,
    /// so that the format of earlier journals stays.
    #[serde(skip)]
    pub departures: Vec<Departure>,
}

impl Rebalance {
    /// A rebalance that begins now.
    pub(crate) fn beginning(now: Now, trigger: &Trigger, from_generation: i32) -> Rebalance {
        Rebalance {
            cause: trigger.cause,
            member_id: Arc::clone(&trigger.member_id),
            reason: Arc::clone(&trigger.reason),
            from_generation,
            to_generation: None,
            began_ms: now.mono_ms,
            began_wall_ms: now.wall_ms,
            joined_ms: None,
            settled_ms: None,
            departures: Vec::new(),
        }
    }

    /// The same as one that is over at once.
    pub(crate) fn settled(self, generation: i32) -> Rebalance {
        let at_ms = Some(self.began_ms);
        Rebalance { to_generation: Some(generation), joined_ms: at_ms, settled_ms: at_ms, ..self }
    }
}

/// The group is settled: the last rebalance is over, if it is not yet.
pub(crate) fn settle_last(rebalances: &mut VecDeque<Rebalance>, now_ms: u64, generation: i32) {
    if let Some(last) = rebalances.back_mut().filter(|last| last.settled_ms.is_none()) {
        last.to_generation.get_or_insert(generation);
        last.joined_ms.get_or_insert(now_ms);
        last.settled_ms = Some(now_ms);
    }
}

/// What begins a rebalance.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Trigger {
    /// The cause.
    pub cause: Cause,
    /// The member; "" if none.
    pub member_id: Arc<str>,
    /// The reason; "" if none.
    pub reason: Arc<str>,
}

/// The longest reason that is kept, in characters: that of Kafka's client, which cuts longer ones.
const REASON_MAX_CHARS: usize = 255;

/// What is kept of a client's reason.
pub(crate) fn kept_reason(reason: &str) -> Arc<str> {
    let end = reason.char_indices().nth(REASON_MAX_CHARS).map_or(reason.len(), |(at, _)| at);
    reason[..end].into()
}

impl Trigger {
    /// An event without a reason.
    pub fn new(cause: Cause, member_id: &Arc<str>) -> Trigger {
        Trigger { cause, member_id: Arc::clone(member_id), reason: "".into() }
    }
}

/// Adds a rebalance; the last `kept` are kept.
pub(crate) fn remember(rebalances: &mut VecDeque<Rebalance>, kept: u32, rebalance: Rebalance) {
    while rebalances.len() >= kept.max(1) as usize {
        rebalances.pop_front();
    }
    rebalances.push_back(rebalance);
}
