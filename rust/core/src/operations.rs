//! What has a deadline, and what is watched (docs/protocol.md §16.2).

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::{
    effects::AppendId,
    group::{GroupHandle, MemberHandle, OwnedProtocol},
    request::{Entropy, JoinGroup, Protocol, Ticket},
};

/// Every deadline that the coordinator knows (S19).
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Operation {
    /// A member's session ends (§7.3).
    Session(MemberHandle),
    /// A new member's first join must have ended (§4.7).
    NewMember(MemberHandle),
    /// An id that was handed out is dropped (§4.6).
    Pending(Box<(GroupHandle, Arc<str>)>),
    /// The initial delay, or one of its extensions, is over (§5.3).
    InitialDelay(GroupHandle),
    /// The join phase ends with whoever is there (§5.4).
    Join(GroupHandle),
    /// Who has not sent `SyncGroup` by now is removed (§6.5).
    Sync(GroupHandle),
    /// Whoever waits for this append is told that it takes too long (§10.3).
    Append(AppendId),
    /// A fetch that waits for commits in flight is given up (§11.3).
    StableFetch(Box<WaitingFetch>),
    /// A request to a group that is being deleted is given up (§12.3).
    AfterDeletion(Box<Deferred>),
    /// The cleaner begins, or goes on (§13).
    Cleaner,
    /// The session of a member of a consumer group ends: group and member.
    ConsumerSession(Box<(Arc<str>, Arc<str>)>),
    /// A member of a consumer group must have given its partitions up: group, member, and its epoch.
    ConsumerRebalance(Box<(Arc<str>, Arc<str>, i32)>),
    /// A request that waits for an append of its consumer group is given up.
    ConsumerWait(Box<(Arc<str>, Ticket)>),
}

impl Operation {
    /// The names of all of them, as the vocabulary has them.
    pub const NAMES: [&'static str; 13] = [
        "Session",
        "NewMember",
        "Pending",
        "InitialDelay",
        "Join",
        "Sync",
        "Append",
        "StableFetch",
        "AfterDeletion",
        "Cleaner",
        "ConsumerSession",
        "ConsumerRebalance",
        "ConsumerWait",
    ];

    /// Its name.
    pub fn name(&self) -> &'static str {
        let at = match self {
            Operation::Session(_) => 0,
            Operation::NewMember(_) => 1,
            Operation::Pending(..) => 2,
            Operation::InitialDelay(_) => 3,
            Operation::Join(_) => 4,
            Operation::Sync(_) => 5,
            Operation::Append(_) => 6,
            Operation::StableFetch(_) => 7,
            Operation::AfterDeletion(_) => 8,
            Operation::Cleaner => 9,
            Operation::ConsumerSession(_) => 10,
            Operation::ConsumerRebalance(_) => 11,
            Operation::ConsumerWait(_) => 12,
        };
        Operation::NAMES[at]
    }
}

/// A fetch that waits for an append.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct WaitingFetch {
    /// Whom to answer.
    pub ticket: Ticket,
    /// The group asked about.
    pub group_id: Arc<str>,
    /// What was asked for; `None` is everything.
    pub topics: Option<Vec<WantedTopic>>,
}

/// A topic of a fetch: its name, the id that it was asked by (0: by name), partitions.
pub type WantedTopic = (Arc<str>, u128, Vec<i32>);

/// What an operation can watch besides its deadline.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum WatchKey {
    /// The end of an append.
    Append(AppendId),
}

/// A request that waits until the deletion of its group has ended, one way or the other (§12.3).
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Deferred {
    /// Whom to answer.
    pub ticket: Ticket,
    /// The group that is being deleted.
    pub group_id: Arc<str>,
    /// What was asked.
    pub asked: Asked,
}

/// What a request asked that has to wait.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Asked {
    /// `JoinGroup`.
    Join(Box<DeferredJoin>),
    /// `DeleteGroup`.
    DeleteGroup,
    /// `OffsetDelete`, with the partitions by topic.
    OffsetDelete(Vec<(Arc<str>, Vec<i32>)>),
}

/// A `JoinGroup` with strings of its own.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct DeferredJoin {
    /// Of the request.
    pub version: i16,
    /// The bits that the new member id is made of.
    pub entropy: u128,
    /// Empty on the first join.
    pub member_id: Arc<str>,
    /// Static members only.
    pub instance_id: Option<Arc<str>>,
    /// `client.id`
    pub client_id: Arc<str>,
    /// As `/127.0.0.1`.
    pub client_host: Arc<str>,
    /// How long the member may be silent.
    pub session_timeout_ms: i32,
    /// How long a rebalance waits for the member.
    pub rebalance_timeout_ms: i32,
    /// Such as `consumer`.
    pub protocol_type: Arc<str>,
    /// In order of preference.
    pub protocols: Vec<OwnedProtocol>,
    /// Why the client joins.
    pub reason: Option<Arc<str>>,
}

impl DeferredJoin {
    pub(crate) fn new(entropy: Entropy, request: &JoinGroup<'_>) -> DeferredJoin {
        let owned =
            |protocol: &Protocol<'_>| OwnedProtocol { name: protocol.name.into(), metadata: protocol.metadata.into() };
        DeferredJoin {
            version: request.version,
            entropy: entropy.0,
            member_id: request.member_id.into(),
            instance_id: request.instance_id.map(Arc::from),
            client_id: request.client_id.into(),
            client_host: request.client_host.into(),
            session_timeout_ms: request.session_timeout_ms,
            rebalance_timeout_ms: request.rebalance_timeout_ms,
            protocol_type: request.protocol_type.into(),
            protocols: request.protocols.iter().map(owned).collect(),
            reason: request.reason.map(Arc::from),
        }
    }
    /// What it offers, as in a request.
    pub(crate) fn offers(&self) -> Vec<Protocol<'_>> {
        let offers = self.protocols.iter();
        offers.map(|offer| Protocol { name: &offer.name, metadata: &offer.metadata }).collect()
    }

    /// The request again.
    pub(crate) fn request<'a>(&'a self, group_id: &'a str, offers: &'a [Protocol<'a>]) -> JoinGroup<'a> {
        JoinGroup {
            version: self.version,
            group_id: Some(group_id),
            member_id: &self.member_id,
            instance_id: self.instance_id.as_deref(),
            client_id: &self.client_id,
            client_host: &self.client_host,
            session_timeout_ms: self.session_timeout_ms,
            rebalance_timeout_ms: self.rebalance_timeout_ms,
            protocol_type: &self.protocol_type,
            protocols: offers,
            reason: self.reason.as_deref(),
        }
    }
}
