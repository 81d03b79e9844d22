//! The records of `__consumer_offsets` (docs/protocol.md §14). `record_bytes` encodes and decodes them.

use std::{fmt, sync::Arc};

use serde::{Deserialize, Serialize, Serializer};

pub use crate::consumer_records::{
    ClassicMemberValue, ConsumerRecord, CurrentValue, EpochValue, EpochedIndexes, PatternValue, SubscriptionValue,
    TargetEpochValue, TopicIndexes,
};

/// Serializes bytes; as hexadecimal in human-readable formats.
pub fn serialized_bytes<S: Serializer>(bytes: &impl AsRef<[u8]>, serializer: S) -> Result<S::Ok, S::Error> {
    let bytes = bytes.as_ref();
    if serializer.is_human_readable() {
        serializer.collect_str(&Hexadecimal(bytes))
    } else {
        serializer.serialize_bytes(bytes)
    }
}

struct Hexadecimal<'a>(&'a [u8]);

impl fmt::Display for Hexadecimal<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(out, "{byte:02x}"))
    }
}

/// One record to append or to replay.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Record {
    /// The latest offset of (group, topic, partition); `None` is a tombstone.
    Offset {
        /// The group id.
        group_id: Arc<str>,
        /// The topic name.
        topic: Arc<str>,
        /// The partition index.
        partition: i32,
        /// `None` is a tombstone.
        value: Option<OffsetValue>,
    },
    /// A whole group; `None` is a tombstone.
    Group {
        /// The group id.
        group_id: Arc<str>,
        /// `None` is a tombstone.
        value: Option<GroupValue>,
    },
    /// A record of another type: kept, but not interpreted.
    Unknown {
        /// The key bytes.
        key: Box<[u8]>,
        /// The value bytes; `None` is a tombstone.
        value: Option<Box<[u8]>>,
    },
    /// A record of a consumer group.
    Consumer {
        /// The group id.
        group_id: Arc<str>,
        /// The content.
        about: ConsumerRecord,
    },
}

/// What an append is to transactions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum TransactionBatch {
    /// Offsets that the next marker of the producer decides about.
    Offsets {
        /// The producer id.
        producer_id: i64,
        /// The producer's epoch.
        producer_epoch: i16,
    },
    /// The marker that ends the producer's transaction. It has no records.
    End(EndTransaction),
}

/// The end of a producer's transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct EndTransaction {
    /// The producer id.
    pub producer_id: i64,
    /// The producer's epoch from now on.
    pub producer_epoch: i16,
    /// The epoch of the transaction coordinator.
    pub coordinator_epoch: i32,
    /// Whether the transaction is committed; otherwise it is aborted.
    pub is_commit: bool,
}

/// A committed offset.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct OffsetValue {
    /// The offset as committed; any value is allowed.
    pub offset: i64,
    /// The leader epoch; -1: none.
    pub leader_epoch: i32,
    /// Metadata of the client; "" if none.
    pub metadata: Arc<str>,
    /// Commit time in wall milliseconds.
    pub commit_timestamp_ms: i64,
    /// Expiry in wall milliseconds; set if the commit carried a retention time.
    pub expire_timestamp_ms: Option<i64>,
    /// The topic id; 0 if unknown.
    pub topic_id: u128,
}

/// A group as one record.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct GroupValue {
    /// The protocol type; "" if none.
    pub protocol_type: Arc<str>,
    /// The generation.
    pub generation: i32,
    /// The chosen protocol.
    pub protocol_name: Option<Arc<str>>,
    /// The leader's member id.
    pub leader: Option<Arc<str>>,
    /// Time when the group entered its state, in wall milliseconds; -1 in records before version 2.
    pub state_timestamp_ms: i64,
    /// Members in joining order.
    pub members: Vec<MemberValue>,
}

/// One member inside a group record.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct MemberValue {
    /// The member id.
    pub member_id: Arc<str>,
    /// `group.instance.id` of a static member.
    pub instance_id: Option<Arc<str>>,
    /// `client.id` of the first join.
    pub client_id: Arc<str>,
    /// Host of the first join.
    pub client_host: Arc<str>,
    /// `rebalance.timeout.ms`, in milliseconds.
    pub rebalance_timeout_ms: i32,
    /// `session.timeout.ms`, in milliseconds.
    pub session_timeout_ms: i32,
    /// Metadata for the chosen protocol.
    #[serde(serialize_with = "serialized_bytes")]
    pub subscription: Arc<[u8]>,
    /// The assignment that the leader sent for this member.
    #[serde(serialize_with = "serialized_bytes")]
    pub assignment: Arc<[u8]>,
}

/// Why bytes cannot be decoded as a record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RecordError {
    /// The bytes end inside a field.
    Truncated {
        /// Name of the field.
        field: &'static str,
    },
    /// A length or string that no writer produces.
    Malformed {
        /// Name of the field.
        field: &'static str,
    },
    /// A value version that this decoder does not know.
    UnsupportedVersion {
        /// `offset` or `group`.
        record: &'static str,
        /// The version in the record.
        version: i16,
    },
}

impl std::fmt::Display for RecordError {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            RecordError::Truncated { field } => write!(formatter, "the record ends inside its {field}"),
            RecordError::Malformed { field } => write!(formatter, "the record's {field} is not what a writer produces"),
            RecordError::UnsupportedVersion { record, version } => {
                write!(formatter, "{record} value version {version} is not known")
            }
        }
    }
}

impl std::error::Error for RecordError {}

#[cfg(test)]
mod tests {
    use super::Hexadecimal;

    #[test]
    fn bytes_are_written_two_digits_each() {
        assert_eq!(Hexadecimal(&[0, 0xab, 7]).to_string(), "00ab07");
    }
}
