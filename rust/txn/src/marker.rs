//! What the coordinator and the participants of a transaction tell each other.

/// The topic whose partitions represent groups in a transaction.
pub const CONSUMER_OFFSETS: &str = "__consumer_offsets";

/// The protocol that ended a transaction. It decides which epoch a marker carries (§5).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum TransactionVersion {
    /// The first protocol: the marker carries the epoch of the data.
    V1,
    /// KIP-890: the marker carries the next epoch, which fences all data that is still on its way.
    V2,
}

impl TransactionVersion {
    /// Returns the number on the wire, as `WriteTxnMarkers` v2 and the records have it.
    pub const fn code(self) -> i8 {
        match self {
            TransactionVersion::V1 => 1,
            TransactionVersion::V2 => 2,
        }
    }
}

/// A partition that takes part in a transaction. Groups do so as partitions of [`CONSUMER_OFFSETS`].
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Participant {
    /// The name of the topic.
    pub topic: String,
    /// The partition of the topic.
    pub partition: i32,
}

impl Participant {
    /// Names a partition of a topic.
    pub fn new(topic: impl Into<String>, partition: i32) -> Participant {
        Participant { topic: topic.into(), partition }
    }

    /// Whether the participant is a partition of groups.
    pub fn is_groups(&self) -> bool {
        self.topic == CONSUMER_OFFSETS
    }
}

/// The end of a transaction in one participant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Marker {
    /// The producer of the transaction.
    pub producer_id: i64,
    /// The epoch from which the participant accepts data after the marker.
    pub producer_epoch: i16,
    /// The epoch of the partition of `__transaction_state` that decided. A participant refuses a lower one than it has
    /// seen for this producer.
    pub coordinator_epoch: i32,
    /// Whether the transaction is committed; otherwise it is aborted.
    pub is_commit: bool,
    /// With V2, `producer_epoch` is greater than the epoch of the data; with V1 it may be equal.
    pub transaction_version: TransactionVersion,
}
