//! The records of `__consumer_offsets` (docs/protocol.md §14). Their bytes are `record_bytes`'s affair.

use std::{fmt, sync::Arc};

use serde::{Deserialize, Serialize, Serializer};

pub use crate::consumer_records::{
    ClassicMemberValue, ConsumerRecord, CurrentValue, EpochValue, EpochedIndexes, SubscriptionValue, TargetEpochValue,
    TopicIndexes,
};

/// Bytes: hexadecimal where a person reads it.
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

/// One record to append, or one that was read back.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Record {
    /// The newest offset of (group, topic, partition); `None` is a tombstone.
    Offset {
        /// The group.
        group_id: Arc<str>,
        /// The topic.
        topic: Arc<str>,
        /// The partition.
        partition: i32,
        /// `None` is a tombstone.
        value: Option<OffsetValue>,
    },
    /// A whole group; `None` is a tombstone.
    Group {
        /// The group.
        group_id: Arc<str>,
        /// `None` is a tombstone.
        value: Option<GroupValue>,
    },
    /// A record of another type: kept, never interpreted.
    Unknown {
        /// As read.
        key: Box<[u8]>,
        /// As read; `None` is a tombstone.
        value: Option<Box<[u8]>>,
    },
    /// A record of a consumer group.
    Consumer {
        /// The group.
        group_id: Arc<str>,
        /// What it says.
        about: ConsumerRecord,
    },
}

/// A committed offset.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct OffsetValue {
    /// As committed; not range-checked.
    pub offset: i64,
    /// -1: none.
    pub leader_epoch: i32,
    /// "" if none.
    pub metadata: Arc<str>,
    /// Wall milliseconds.
    pub commit_timestamp_ms: i64,
    /// Only when the commit carried a retention time.
    pub expire_timestamp_ms: Option<i64>,
    /// 0: not known.
    pub topic_id: u128,
}

/// A group as one record.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct GroupValue {
    /// "" if none.
    pub protocol_type: Arc<str>,
    /// The generation.
    pub generation: i32,
    /// The chosen protocol.
    pub protocol_name: Option<Arc<str>>,
    /// The leader's member id.
    pub leader: Option<Arc<str>>,
    /// When the group entered its state, wall milliseconds; -1 in records before version 2.
    pub state_timestamp_ms: i64,
    /// In joining order.
    pub members: Vec<MemberValue>,
}

/// One member inside a group record.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct MemberValue {
    /// The member.
    pub member_id: Arc<str>,
    /// Static members only.
    pub instance_id: Option<Arc<str>>,
    /// As it joined first.
    pub client_id: Arc<str>,
    /// As it joined first.
    pub client_host: Arc<str>,
    /// How long a rebalance waits for it.
    pub rebalance_timeout_ms: i32,
    /// How long it may be silent.
    pub session_timeout_ms: i32,
    /// Its metadata for the chosen protocol.
    #[serde(serialize_with = "serialized_bytes")]
    pub subscription: Arc<[u8]>,
    /// The leader's bytes for it.
    #[serde(serialize_with = "serialized_bytes")]
    pub assignment: Arc<[u8]>,
}

/// Why bytes are not a record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RecordError {
    /// The bytes end inside a field.
    Truncated {
        /// Which field.
        field: &'static str,
    },
    /// A length or string that no writer produces.
    Malformed {
        /// Which field.
        field: &'static str,
    },
    /// A value version that this reader does not know.
    UnsupportedVersion {
        /// `offset` or `group`.
        record: &'static str,
        /// The version found.
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
