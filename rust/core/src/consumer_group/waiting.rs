//! What a consumer group keeps while its append is in flight (docs/consumer-protocol.md §4.4).

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::image::ClassicImage;
use crate::{
    effects::AppendId,
    error::ErrorCode,
    history::Trigger,
    operations::{DeferredJoin, Operation},
    purgatory::OpId,
    records::{ConsumerRecord, TopicIndexes},
    request::{ConsumerGroupHeartbeat, LeaveGroup, LeaveIdentity, SyncGroup, Ticket, TopicPartitions},
};

/// An append in flight.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Write {
    /// Its name.
    pub append_id: AppendId,
    /// What undoes its records, in the order in which that is to happen.
    pub undo: Vec<ConsumerRecord>,
    /// What its end does to the classic group of the same id.
    pub end: OnEnd,
    /// The answer to send when it is durable; `None` if no request waits or the wait has timed out.
    pub answer: Option<Owed>,
    /// What its new group epoch is for; `None`: it has none.
    pub trigger: Option<Trigger>,
    /// The join and sync deadlines of classic members that the step has cancelled. They run again if the append fails.
    pub cancelled: Vec<Operation>,
}

/// What the end of an append does besides.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub enum OnEnd {
    /// Nothing.
    #[default]
    Nothing,
    /// When it is durable, a classic group without members ends.
    EndsClassic,
    /// If it fails, this classic group returns.
    Upgraded(Box<ClassicImage>),
    /// When it is durable, this classic group takes the place of the consumer group. It rebalances for this reason, or
    /// not at all.
    Downgraded(Box<ClassicImage>, Option<Trigger>),
}

impl OnEnd {
    /// Why a group that becomes a classic group rebalances.
    pub fn trigger(&self) -> Option<&Trigger> {
        match self {
            OnEnd::Downgraded(_, trigger) => trigger.as_ref(),
            OnEnd::Nothing | OnEnd::EndsClassic | OnEnd::Upgraded(_) => None,
        }
    }
}

/// An answer that waits for an append.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Owed {
    /// To a `ConsumerGroupHeartbeat`.
    Heartbeat(Box<Reply>),
    /// To a `DeleteGroups`.
    Delete(Ticket),
    /// To a `JoinGroup`.
    Join(Box<JoinReply>),
    /// To a `LeaveGroup`.
    Leave(Box<LeaveReply>),
}

/// The answer to a `JoinGroup` of a classic member.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct JoinReply {
    /// The request.
    pub ticket: Ticket,
    /// The sender.
    pub member_id: Arc<str>,
    /// Its member epoch.
    pub generation: i32,
    /// The first protocol of its list.
    pub protocol_name: Arc<str>,
}

/// The answer to a `LeaveGroup`.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct LeaveReply {
    /// The request.
    pub ticket: Ticket,
    /// Its version.
    pub version: i16,
    /// (member id, instance id, error), in the order of the request.
    pub members: Vec<(Arc<str>, Option<Arc<str>>, ErrorCode)>,
}

/// The answer to a successful heartbeat.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Reply {
    /// The request.
    pub ticket: Ticket,
    /// The sender.
    pub member_id: Arc<str>,
    /// Its epoch now.
    pub epoch: i32,
    /// When it is to heartbeat again.
    pub heartbeat_interval_ms: i32,
    /// What it owns; `None`: no change.
    pub assignment: Option<Vec<TopicIndexes>>,
}

/// What waits for the end of an append.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Waiting {
    /// When a request is answered that it took too long; timers have none.
    pub deadline: Option<OpId>,
    /// What it is.
    pub what: Later,
}

/// What can wait.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Later {
    /// A `ConsumerGroupHeartbeat`.
    Heartbeat(Ticket, u128, Box<DeferredHeartbeat>),
    /// A `ConsumerGroupDescribe`.
    Describe(Ticket),
    /// A `DeleteGroups`.
    Delete(Ticket),
    /// A classic `JoinGroup`.
    Join(Ticket, Box<DeferredJoin>),
    /// A classic `SyncGroup`.
    Sync(Ticket, Box<DeferredSync>),
    /// A classic `LeaveGroup`.
    Leave(Ticket, Box<DeferredLeave>),
    /// A member's session has ended.
    SessionEnded(Arc<str>),
    /// A member of this epoch has not given its partitions up in time.
    RebalanceEnded(Arc<str>, i32),
    /// A classic member has not joined again in time.
    JoinEnded(Arc<str>),
    /// A classic member has not sent `SyncGroup` in time.
    SyncEnded(Arc<str>),
    /// The patterns are to be resolved.
    ResolutionDue,
}

impl Later {
    /// The request that waits; timers are none.
    pub fn ticket(&self) -> Option<Ticket> {
        match self {
            Later::Heartbeat(ticket, ..)
            | Later::Describe(ticket)
            | Later::Delete(ticket)
            | Later::Join(ticket, _)
            | Later::Sync(ticket, _)
            | Later::Leave(ticket, _) => Some(*ticket),
            Later::SessionEnded(_)
            | Later::RebalanceEnded(..)
            | Later::JoinEnded(_)
            | Later::SyncEnded(_)
            | Later::ResolutionDue => None,
        }
    }
}

/// A `SyncGroup` that owns its strings. A consumer group has no leader, so there is no plan.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the fields are those of the request")]
pub struct DeferredSync {
    pub version: i16,
    pub generation: i32,
    pub member_id: Arc<str>,
    pub instance_id: Option<Arc<str>>,
    pub protocol_type: Option<Arc<str>>,
    pub protocol_name: Option<Arc<str>>,
}

impl DeferredSync {
    /// A copy of the request.
    pub fn new(request: &SyncGroup<'_>) -> DeferredSync {
        DeferredSync {
            version: request.version,
            generation: request.generation,
            member_id: request.member_id.into(),
            instance_id: request.instance_id.map(Arc::from),
            protocol_type: request.protocol_type.map(Arc::from),
            protocol_name: request.protocol_name.map(Arc::from),
        }
    }

    /// The request again.
    pub fn request<'a>(&'a self, group_id: &'a str) -> SyncGroup<'a> {
        SyncGroup {
            version: self.version,
            group_id: Some(group_id),
            generation: self.generation,
            member_id: &self.member_id,
            instance_id: self.instance_id.as_deref(),
            protocol_type: self.protocol_type.as_deref(),
            protocol_name: self.protocol_name.as_deref(),
            assignments: &[],
        }
    }
}

/// A member as a `LeaveGroup` names it: member id, instance id, reason.
type DeferredIdentity = (Arc<str>, Option<Arc<str>>, Option<Arc<str>>);

/// A `LeaveGroup` that owns its strings.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the fields are those of the request")]
pub struct DeferredLeave {
    pub version: i16,
    pub members: Vec<DeferredIdentity>,
}

impl DeferredLeave {
    /// A copy of the request.
    pub fn new(request: &LeaveGroup<'_>) -> DeferredLeave {
        let owned = |identity: &LeaveIdentity<'_>| {
            let (instance_id, reason) = (identity.instance_id.map(Arc::from), identity.reason.map(Arc::from));
            (identity.member_id.into(), instance_id, reason)
        };
        DeferredLeave { version: request.version, members: request.members.iter().map(owned).collect() }
    }

    /// The members again.
    pub fn identities(&self) -> Vec<LeaveIdentity<'_>> {
        fn lent((member_id, instance_id, reason): &DeferredIdentity) -> LeaveIdentity<'_> {
            LeaveIdentity { member_id, instance_id: instance_id.as_deref(), reason: reason.as_deref() }
        }
        self.members.iter().map(lent).collect()
    }
}

/// A `ConsumerGroupHeartbeat` that owns its strings.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the fields are those of the request")]
pub struct DeferredHeartbeat {
    pub version: i16,
    pub member_id: Arc<str>,
    pub member_epoch: i32,
    pub instance_id: Option<Arc<str>>,
    pub rack_id: Option<Arc<str>>,
    pub rebalance_timeout_ms: i32,
    pub subscribed_topic_names: Option<Vec<Arc<str>>>,
    pub subscribed_topic_regex: Option<Arc<str>>,
    pub server_assignor: Option<Arc<str>>,
    pub topic_partitions: Option<Vec<TopicIndexes>>,
    pub client_id: Arc<str>,
    pub client_host: Arc<str>,
}

impl DeferredHeartbeat {
    /// A copy of the request.
    pub fn new(request: &ConsumerGroupHeartbeat<'_>) -> DeferredHeartbeat {
        let owned = |topic: &TopicPartitions<'_>| TopicIndexes {
            topic_id: topic.topic_id,
            partitions: topic.partitions.to_vec(),
        };
        DeferredHeartbeat {
            version: request.version,
            member_id: request.member_id.into(),
            member_epoch: request.member_epoch,
            instance_id: request.instance_id.map(Arc::from),
            rack_id: request.rack_id.map(Arc::from),
            rebalance_timeout_ms: request.rebalance_timeout_ms,
            subscribed_topic_names: request
                .subscribed_topic_names
                .map(|names| names.iter().map(|name| Arc::from(*name)).collect()),
            subscribed_topic_regex: request.subscribed_topic_regex.map(Arc::from),
            server_assignor: request.server_assignor.map(Arc::from),
            topic_partitions: request.topic_partitions.map(|topics| topics.iter().map(owned).collect()),
            client_id: request.client_id.into(),
            client_host: request.client_host.into(),
        }
    }

    /// Lends the request again.
    pub fn with<R>(&self, group_id: &str, ask: impl FnOnce(&ConsumerGroupHeartbeat<'_>) -> R) -> R {
        let names: Option<Vec<&str>> =
            self.subscribed_topic_names.as_ref().map(|names| names.iter().map(|name| &**name).collect());
        let topics: Option<Vec<TopicPartitions<'_>>> = self.topic_partitions.as_ref().map(|topics| {
            topics
                .iter()
                .map(|topic| TopicPartitions { topic_id: topic.topic_id, partitions: &topic.partitions })
                .collect()
        });
        ask(&ConsumerGroupHeartbeat {
            version: self.version,
            group_id,
            member_id: &self.member_id,
            member_epoch: self.member_epoch,
            instance_id: self.instance_id.as_deref(),
            rack_id: self.rack_id.as_deref(),
            rebalance_timeout_ms: self.rebalance_timeout_ms,
            subscribed_topic_names: names.as_deref(),
            subscribed_topic_regex: self.subscribed_topic_regex.as_deref(),
            server_assignor: self.server_assignor.as_deref(),
            topic_partitions: topics.as_deref(),
            client_id: &self.client_id,
            client_host: &self.client_host,
        })
    }
}
