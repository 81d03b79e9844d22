//! The errors of the protocol (docs/protocol.md §1.3) and how a failed append maps to them (§6.6).

use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};

macro_rules! error_codes {
    ($($(#[$doc:meta])* $variant:ident = $code:literal, $name:literal;)+) => {
        /// An error code of the Kafka protocol, with the protocol's name and number.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[repr(i16)]
        pub enum ErrorCode { $($(#[$doc])* $variant = $code,)+ }

        impl ErrorCode {
            /// Every code that the coordinator or the server can answer, or that a test can inject, by number.
            pub const ALL: &'static [ErrorCode] = &[$(ErrorCode::$variant,)+];

            /// The protocol's name, such as `UNKNOWN_MEMBER_ID`.
            pub const fn name(self) -> &'static str {
                match self { $(ErrorCode::$variant => $name,)+ }
            }
        }
    };
}

error_codes! {
    /// An unexpected failure inside the coordinator.
    UnknownServerError = -1, "UNKNOWN_SERVER_ERROR";
    /// Success.
    None = 0, "NONE";
    /// A fetch offset outside the log.
    OffsetOutOfRange = 1, "OFFSET_OUT_OF_RANGE";
    /// A record batch whose checksum is wrong.
    CorruptMessage = 2, "CORRUPT_MESSAGE";
    /// No such topic or partition.
    UnknownTopicOrPartition = 3, "UNKNOWN_TOPIC_OR_PARTITION";
    /// The partition has no leader at the moment.
    LeaderNotAvailable = 5, "LEADER_NOT_AVAILABLE";
    /// This node does not lead the partition.
    NotLeaderOrFollower = 6, "NOT_LEADER_OR_FOLLOWER";
    /// A wait for durability ended without an answer.
    RequestTimedOut = 7, "REQUEST_TIMED_OUT";
    /// A record or batch over the limit.
    MessageTooLarge = 10, "MESSAGE_TOO_LARGE";
    /// The metadata string of a commit is over the limit.
    OffsetMetadataTooLarge = 12, "OFFSET_METADATA_TOO_LARGE";
    /// The connection to another node broke.
    NetworkException = 13, "NETWORK_EXCEPTION";
    /// The partition is still being loaded.
    CoordinatorLoadInProgress = 14, "COORDINATOR_LOAD_IN_PROGRESS";
    /// There is no coordinator to answer.
    CoordinatorNotAvailable = 15, "COORDINATOR_NOT_AVAILABLE";
    /// This node does not own the group's partition.
    NotCoordinator = 16, "NOT_COORDINATOR";
    /// A topic name that is not allowed.
    InvalidTopicException = 17, "INVALID_TOPIC_EXCEPTION";
    /// A batch of records over the limit.
    RecordListTooLarge = 18, "RECORD_LIST_TOO_LARGE";
    /// Too few replicas before the append.
    NotEnoughReplicas = 19, "NOT_ENOUGH_REPLICAS";
    /// Too few replicas after the append.
    NotEnoughReplicasAfterAppend = 20, "NOT_ENOUGH_REPLICAS_AFTER_APPEND";
    /// `acks` is not -1, 0 or 1.
    InvalidRequiredAcks = 21, "INVALID_REQUIRED_ACKS";
    /// Not the group's current generation.
    IllegalGeneration = 22, "ILLEGAL_GENERATION";
    /// The protocol type or names do not fit the group's.
    InconsistentGroupProtocol = 23, "INCONSISTENT_GROUP_PROTOCOL";
    /// A group id that this request may not carry.
    InvalidGroupId = 24, "INVALID_GROUP_ID";
    /// Not a member of the group.
    UnknownMemberId = 25, "UNKNOWN_MEMBER_ID";
    /// The session timeout is outside the broker's bounds.
    InvalidSessionTimeout = 26, "INVALID_SESSION_TIMEOUT";
    /// The group is rebalancing: join again.
    RebalanceInProgress = 27, "REBALANCE_IN_PROGRESS";
    /// An offset commit too large to store.
    InvalidCommitOffsetSize = 28, "INVALID_COMMIT_OFFSET_SIZE";
    /// The client may not use the topic.
    TopicAuthorizationFailed = 29, "TOPIC_AUTHORIZATION_FAILED";
    /// The client may not use the group.
    GroupAuthorizationFailed = 30, "GROUP_AUTHORIZATION_FAILED";
    /// The client may not do this at all.
    ClusterAuthorizationFailed = 31, "CLUSTER_AUTHORIZATION_FAILED";
    /// A timestamp that is not allowed.
    InvalidTimestamp = 32, "INVALID_TIMESTAMP";
    /// A version that this server does not speak.
    UnsupportedVersion = 35, "UNSUPPORTED_VERSION";
    /// The topic exists already.
    TopicAlreadyExists = 36, "TOPIC_ALREADY_EXISTS";
    /// A partition count that is not allowed.
    InvalidPartitions = 37, "INVALID_PARTITIONS";
    /// A replication factor that is not allowed.
    InvalidReplicationFactor = 38, "INVALID_REPLICATION_FACTOR";
    /// An assignment of replicas that is not allowed.
    InvalidReplicaAssignment = 39, "INVALID_REPLICA_ASSIGNMENT";
    /// A configuration that is not allowed.
    InvalidConfig = 40, "INVALID_CONFIG";
    /// A change of topics on a server that cannot make it at present; clients ask again.
    NotController = 41, "NOT_CONTROLLER";
    /// A request that makes no sense.
    InvalidRequest = 42, "INVALID_REQUEST";
    /// A record format that this server does not store.
    UnsupportedForMessageFormat = 43, "UNSUPPORTED_FOR_MESSAGE_FORMAT";
    /// An idempotent producer skipped a sequence number.
    OutOfOrderSequenceNumber = 45, "OUT_OF_ORDER_SEQUENCE_NUMBER";
    /// An idempotent producer repeated an old sequence number.
    DuplicateSequenceNumber = 46, "DUPLICATE_SEQUENCE_NUMBER";
    /// An idempotent producer with an old epoch.
    InvalidProducerEpoch = 47, "INVALID_PRODUCER_EPOCH";
    /// A request or a batch that does not fit the state of its transaction.
    InvalidTxnState = 48, "INVALID_TXN_STATE";
    /// A producer id that does not belong to the transactional id.
    InvalidProducerIdMapping = 49, "INVALID_PRODUCER_ID_MAPPING";
    /// The transaction is being ended: try again.
    ConcurrentTransactions = 51, "CONCURRENT_TRANSACTIONS";
    /// A marker of a coordinator that has lost the transaction.
    TransactionCoordinatorFenced = 52, "TRANSACTION_COORDINATOR_FENCED";
    /// The transactional id may not be used.
    TransactionalIdAuthorizationFailed = 53, "TRANSACTIONAL_ID_AUTHORIZATION_FAILED";
    /// The disk failed.
    KafkaStorageError = 56, "KAFKA_STORAGE_ERROR";
    /// A producer id that the partition has never seen.
    UnknownProducerId = 59, "UNKNOWN_PRODUCER_ID";
    /// The group has members.
    NonEmptyGroup = 68, "NON_EMPTY_GROUP";
    /// No such group.
    GroupIdNotFound = 69, "GROUP_ID_NOT_FOUND";
    /// No such fetch session.
    FetchSessionIdNotFound = 70, "FETCH_SESSION_ID_NOT_FOUND";
    /// A fetch session at another epoch.
    InvalidFetchSessionEpoch = 71, "INVALID_FETCH_SESSION_EPOCH";
    /// The leader epoch of the client is old.
    FencedLeaderEpoch = 74, "FENCED_LEADER_EPOCH";
    /// The leader epoch of the client is not known yet.
    UnknownLeaderEpoch = 75, "UNKNOWN_LEADER_EPOCH";
    /// A compression that the request's version may not carry.
    UnsupportedCompressionType = 76, "UNSUPPORTED_COMPRESSION_TYPE";
    /// Join again with the member id in this answer.
    MemberIdRequired = 79, "MEMBER_ID_REQUIRED";
    /// The group is full.
    GroupMaxSizeReached = 81, "GROUP_MAX_SIZE_REACHED";
    /// Another member has this group instance id now.
    FencedInstanceId = 82, "FENCED_INSTANCE_ID";
    /// The group consumes the topic whose offsets were to be deleted.
    GroupSubscribedToTopic = 86, "GROUP_SUBSCRIBED_TO_TOPIC";
    /// A record that the server refuses.
    InvalidRecord = 87, "INVALID_RECORD";
    /// An offset of this partition is being committed.
    UnstableOffsetCommit = 88, "UNSTABLE_OFFSET_COMMIT";
    /// A newer producer has the transactional id.
    ProducerFenced = 90, "PRODUCER_FENCED";
    /// No topic has this id.
    UnknownTopicId = 100, "UNKNOWN_TOPIC_ID";
    /// No such transactional id.
    TransactionalIdNotFound = 105, "TRANSACTIONAL_ID_NOT_FOUND";
    /// The member epoch is not the one that the coordinator has.
    FencedMemberEpoch = 110, "FENCED_MEMBER_EPOCH";
    /// Another member has this group instance id and has not left.
    UnreleasedInstanceId = 111, "UNRELEASED_INSTANCE_ID";
    /// The server has no assignor of this name.
    UnsupportedAssignor = 112, "UNSUPPORTED_ASSIGNOR";
    /// An offset request with an old member epoch.
    StaleMemberEpoch = 113, "STALE_MEMBER_EPOCH";
    /// The transaction cannot go on and must be aborted.
    TransactionAbortable = 120, "TRANSACTION_ABORTABLE";
    /// A topic pattern that the server cannot use.
    InvalidRegularExpression = 128, "INVALID_REGULAR_EXPRESSION";
}

/// Serializes as the number, or as the name in human-readable formats.
impl Serialize for ErrorCode {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if serializer.is_human_readable() {
            serializer.serialize_str(self.name())
        } else {
            serializer.serialize_i16(self.code())
        }
    }
}

impl<'de> Deserialize<'de> for ErrorCode {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<ErrorCode, D::Error> {
        let code = i16::deserialize(deserializer)?;
        ErrorCode::from_code(code).ok_or_else(|| D::Error::custom(format!("unknown error code {code}")))
    }
}

impl ErrorCode {
    /// Returns the number on the wire.
    pub const fn code(self) -> i16 {
        self as i16
    }

    /// Returns the error with this number; `None` if the server does not use it.
    pub fn from_code(code: i16) -> Option<ErrorCode> {
        ErrorCode::ALL.iter().copied().find(|error| error.code() == code)
    }

    /// Maps the error of a failed append of a *group* record to the answer's error (§6.6).
    #[must_use]
    pub fn for_group_append(self) -> ErrorCode {
        match self {
            ErrorCode::UnknownTopicOrPartition | ErrorCode::NotEnoughReplicas | ErrorCode::RequestTimedOut => {
                ErrorCode::CoordinatorNotAvailable
            }
            ErrorCode::NotLeaderOrFollower | ErrorCode::KafkaStorageError => ErrorCode::NotCoordinator,
            ErrorCode::MessageTooLarge | ErrorCode::RecordListTooLarge => ErrorCode::UnknownServerError,
            other => other,
        }
    }

    /// Maps the error of a failed append of *offset* records, or of any other write, to the answer's error (§6.6).
    #[must_use]
    pub fn for_offset_append(self) -> ErrorCode {
        match self {
            ErrorCode::NetworkException => ErrorCode::CoordinatorLoadInProgress,
            other => other.for_group_append(),
        }
    }

    /// Maps the error of a failed append to the answer of an `OffsetFetch` that waited for it (§11.3).
    #[must_use]
    pub fn for_stable_fetch(self) -> ErrorCode {
        match self.for_offset_append() {
            ErrorCode::CoordinatorNotAvailable => ErrorCode::NotCoordinator,
            other => other,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_is_found_by_its_number() {
        assert_eq!([ErrorCode::UnknownServerError, ErrorCode::UnknownMemberId].map(ErrorCode::code), [-1, 25]);
        for error in ErrorCode::ALL {
            assert_eq!(ErrorCode::from_code(error.code()), Some(*error));
        }
        assert_eq!(ErrorCode::from_code(-2), None);
    }
}
