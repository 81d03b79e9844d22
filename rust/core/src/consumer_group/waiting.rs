//! What a consumer group keeps while its append is in flight (docs/consumer-protocol.md §4.4).

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::{
    effects::AppendId,
    operations::DeferredJoin,
    purgatory::OpId,
    records::{ConsumerRecord, TopicIndexes},
    request::{ConsumerGroupHeartbeat, Ticket, TopicPartitions},
};

/// An append in flight.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Write {
    /// Its name.
    pub append_id: AppendId,
    /// What undoes its records, in the order in which that is to happen.
    pub undo: Vec<ConsumerRecord>,
    /// Whether it ends a classic group without members.
    pub ends_classic: bool,
    /// The answer to send when it is durable; `None` if no request waits or the wait has timed out.
    pub answer: Option<Owed>,
}

/// An answer that waits for an append.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Owed {
    /// To a `ConsumerGroupHeartbeat`.
    Heartbeat(Box<Reply>),
    /// To a `DeleteGroups`.
    Delete(Ticket),
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
    /// A classic `JoinGroup`, for a group that is ending.
    Join(Ticket, Box<DeferredJoin>),
    /// A member's session has ended.
    SessionEnded(Arc<str>),
    /// A member of this epoch has not given its partitions up in time.
    RebalanceEnded(Arc<str>, i32),
}

impl Later {
    /// The request that waits; timers are none.
    pub fn ticket(&self) -> Option<Ticket> {
        match self {
            Later::Heartbeat(ticket, ..) | Later::Describe(ticket) | Later::Delete(ticket) | Later::Join(ticket, _) => {
                Some(*ticket)
            }
            Later::SessionEnded(_) | Later::RebalanceEnded(..) => None,
        }
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
