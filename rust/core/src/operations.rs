//! Operations with a deadline, and the keys that watch them (docs/protocol.md §16.2).

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::{
    effects::AppendId,
    group::{GroupHandle, MemberHandle, OwnedProtocol},
    request::{Entropy, JoinGroup, Protocol, Ticket},
};

/// Every kind of deadline (S19).
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Operation {
    /// A member's session expires (§7.3).
    Session(MemberHandle),
    /// A new member has not completed its first join (§4.7).
    NewMember(MemberHandle),
    /// A pending member id expires (§4.6).
    Pending(Box<(GroupHandle, Arc<str>)>),
    /// The initial delay, or its extension, ends (§5.3).
    InitialDelay(GroupHandle),
    /// The join phase ends with the members that have joined (§5.4).
    Join(GroupHandle),
    /// Removes members whose `SyncGroup` is missing (§6.5).
    Sync(GroupHandle),
    /// An append times out for waiting requests (§10.3).
    Append(AppendId),
    /// A fetch that waits for commits in flight times out (§11.3).
    StableFetch(Box<WaitingFetch>),
    /// A request to a group that is being deleted times out (§12.3).
    AfterDeletion(Box<Deferred>),
    /// The cleaner starts or continues (§13).
    Cleaner,
    /// The session of a consumer-group member expires: group and member id.
    ConsumerSession(Box<(Arc<str>, Arc<str>)>),
    /// A consumer-group member has not revoked its partitions in time: group id, member id and member epoch.
    ConsumerRebalance(Box<(Arc<str>, Arc<str>, i32)>),
    /// A request that waits for an append of its consumer group times out.
    ConsumerWait(Box<(Arc<str>, Ticket)>),
    /// A classic member of a consumer group must have joined again: group and member.
    ConsumerJoin(Box<(Arc<str>, Arc<str>)>),
    /// A classic member of a consumer group must have sent `SyncGroup`: group and member.
    ConsumerSync(Box<(Arc<str>, Arc<str>)>),
    /// The topic patterns of a consumer group are resolved.
    ConsumerPatterns(Box<Arc<str>>),
}

impl Operation {
    /// The names of all variants, as in the vocabulary.
    pub const NAMES: [&'static str; 16] = [
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
        "ConsumerJoin",
        "ConsumerSync",
        "ConsumerPatterns",
    ];

    /// Returns the name of the variant.
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
            Operation::ConsumerJoin(_) => 13,
            Operation::ConsumerSync(_) => 14,
            Operation::ConsumerPatterns(_) => 15,
        };
        Operation::NAMES[at]
    }
}

/// A fetch that waits for an append.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct WaitingFetch {
    /// The ticket to answer.
    pub ticket: Ticket,
    /// The group of the request.
    pub group_id: Arc<str>,
    /// Requested topics; `None`: all.
    pub topics: Option<Vec<WantedTopic>>,
}

/// A topic of a fetch: its name, its id (0 if requested by name), and partitions.
pub type WantedTopic = (Arc<str>, u128, Vec<i32>);

/// A key that watches an operation besides its deadline.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum WatchKey {
    /// The result of an append.
    Append(AppendId),
}

/// A request that waits for the deletion of its group to complete (§12.3).
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Deferred {
    /// The ticket to answer.
    pub ticket: Ticket,
    /// The group that is being deleted.
    pub group_id: Arc<str>,
    /// The deferred request.
    pub asked: Asked,
}

/// The content of a deferred request.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Asked {
    /// A `JoinGroup`.
    Join(Box<DeferredJoin>),
    /// A `DeleteGroups`.
    DeleteGroup,
    /// An `OffsetDelete` with its partitions by topic.
    OffsetDelete(Vec<(Arc<str>, Vec<i32>)>),
}

/// A `JoinGroup` that owns its strings.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct DeferredJoin {
    /// The request version.
    pub version: i16,
    /// Random bits for a new member id.
    pub entropy: u128,
    /// The member id; empty on the first join.
    pub member_id: Arc<str>,
    /// `group.instance.id` of a static member.
    pub instance_id: Option<Arc<str>>,
    /// `client.id`.
    pub client_id: Arc<str>,
    /// Host in Kafka's notation: `/127.0.0.1`.
    pub client_host: Arc<str>,
    /// `session.timeout.ms`, in milliseconds.
    pub session_timeout_ms: i32,
    /// `rebalance.timeout.ms`, in milliseconds.
    pub rebalance_timeout_ms: i32,
    /// The protocol type, such as `consumer`.
    pub protocol_type: Arc<str>,
    /// The offered protocols, in order of preference.
    pub protocols: Vec<OwnedProtocol>,
    /// Reason for the join.
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
    /// Borrows the offered protocols.
    pub(crate) fn offers(&self) -> Vec<Protocol<'_>> {
        let offers = self.protocols.iter();
        offers.map(|offer| Protocol { name: &offer.name, metadata: &offer.metadata }).collect()
    }

    /// Borrows the request.
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
