//! What the records of consumer groups say: key types 3 to 8 and 16 of `__consumer_offsets` (docs/protocol.md §14).

use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// What a record of a consumer group says. `None` is a tombstone.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum ConsumerRecord {
    /// Key type 3: the group epoch.
    Epoch(Option<EpochValue>),
    /// Key type 4: topic metadata of older versions. Only its tombstone is written; a value is kept as bytes.
    Metadata(Option<Box<[u8]>>),
    /// Key type 5: a member and its subscription.
    Member(Arc<str>, Option<Box<SubscriptionValue>>),
    /// Key type 6: the epoch of the target assignment.
    TargetEpoch(Option<TargetEpochValue>),
    /// Key type 7: the target assignment of a member.
    Target(Arc<str>, Option<Vec<TopicIndexes>>),
    /// Key type 8: the current assignment of a member.
    Current(Arc<str>, Option<Box<CurrentValue>>),
    /// Key type 16: the topics that a pattern matches.
    Pattern(Arc<str>, Option<Box<PatternValue>>),
}

/// Partitions of one topic, by its id.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct TopicIndexes {
    /// The topic.
    pub topic_id: u128,
    /// Its partitions.
    pub partitions: Vec<i32>,
}

/// The value of key type 3.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct EpochValue {
    /// The group epoch.
    pub epoch: i32,
    /// Over the metadata of the subscribed topics; 0: none.
    pub metadata_hash: i64,
}

/// The value of key type 6.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct TargetEpochValue {
    /// The group epoch for which the target was computed.
    pub epoch: i32,
    /// When, wall milliseconds; 0: unknown.
    pub timestamp_ms: i64,
}

/// The value of key type 5.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct SubscriptionValue {
    /// Static members only.
    pub instance_id: Option<Arc<str>>,
    /// `client.rack`
    pub rack_id: Option<Arc<str>>,
    /// `client.id`
    pub client_id: Arc<str>,
    /// As `/127.0.0.1`.
    pub client_host: Arc<str>,
    /// Sorted, without repetition.
    pub topic_names: Vec<Arc<str>>,
    /// `None` or "": no pattern.
    pub topic_regex: Option<Arc<str>>,
    /// How long the member may take to give partitions up.
    pub rebalance_timeout_ms: i32,
    /// The assignor that the member names.
    pub server_assignor: Option<Arc<str>>,
    /// Of a member that uses the classic protocol.
    pub classic: Option<ClassicMemberValue>,
}

/// What a classic member of a consumer group has besides.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ClassicMemberValue {
    /// Its session timeout.
    pub session_timeout_ms: i32,
    /// (name, metadata), in order of preference.
    pub protocols: Vec<(Arc<str>, Arc<[u8]>)>,
}

/// The value of key type 16.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct PatternValue {
    /// The topics, sorted.
    pub topics: Vec<Arc<str>>,
    /// The version of the cluster's metadata that was searched; rota writes 0.
    pub version: i64,
    /// When it was searched, wall milliseconds.
    pub timestamp_ms: i64,
}

/// The value of key type 8.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct CurrentValue {
    /// The member epoch.
    pub epoch: i32,
    /// The member epoch before it.
    pub previous_epoch: i32,
    /// 0: stable, 1: has partitions to revoke, 2: waits for partitions of others.
    pub state: i8,
    /// What the member owns.
    pub assigned: Vec<EpochedIndexes>,
    /// What it has to give up first.
    pub pending_revocation: Vec<EpochedIndexes>,
}

/// Partitions of one topic with the member epochs at which they were granted.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct EpochedIndexes {
    /// The topic.
    pub topic_id: u128,
    /// Its partitions.
    pub partitions: Vec<i32>,
    /// Parallel to `partitions`; empty in records of older writers, which stands for the member epoch.
    pub epochs: Vec<i32>,
}
