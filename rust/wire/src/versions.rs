//! The served APIs and their versions (docs/protocol.md §17.3), in one table.

/// Key of `Produce`.
pub const PRODUCE: i16 = 0;
/// Key of `Fetch`.
pub const FETCH: i16 = 1;
/// Key of `ListOffsets`.
pub const LIST_OFFSETS: i16 = 2;
/// Key of `Metadata`.
pub const METADATA: i16 = 3;
/// Key of `OffsetCommit`.
pub const OFFSET_COMMIT: i16 = 8;
/// Key of `OffsetFetch`.
pub const OFFSET_FETCH: i16 = 9;
/// Key of `FindCoordinator`.
pub const FIND_COORDINATOR: i16 = 10;
/// Key of `JoinGroup`.
pub const JOIN_GROUP: i16 = 11;
/// Key of `Heartbeat`.
pub const HEARTBEAT: i16 = 12;
/// Key of `LeaveGroup`.
pub const LEAVE_GROUP: i16 = 13;
/// Key of `SyncGroup`.
pub const SYNC_GROUP: i16 = 14;
/// Key of `DescribeGroups`.
pub const DESCRIBE_GROUPS: i16 = 15;
/// Key of `ListGroups`.
pub const LIST_GROUPS: i16 = 16;
/// Key of `SaslHandshake`.
pub const SASL_HANDSHAKE: i16 = 17;
/// Key of `SaslAuthenticate`.
pub const SASL_AUTHENTICATE: i16 = 36;
/// Key of `ApiVersions`.
pub const API_VERSIONS: i16 = 18;
/// Key of `CreateTopics`.
pub const CREATE_TOPICS: i16 = 19;
/// Key of `DeleteTopics`.
pub const DELETE_TOPICS: i16 = 20;
/// Key of `DeleteRecords`.
pub const DELETE_RECORDS: i16 = 21;
/// Key of `InitProducerId`.
pub const INIT_PRODUCER_ID: i16 = 22;
/// Key of `OffsetForLeaderEpoch`.
pub const OFFSET_FOR_LEADER_EPOCH: i16 = 23;
/// Key of `AddPartitionsToTxn`.
pub const ADD_PARTITIONS_TO_TXN: i16 = 24;
/// Key of `AddOffsetsToTxn`.
pub const ADD_OFFSETS_TO_TXN: i16 = 25;
/// Key of `EndTxn`.
pub const END_TXN: i16 = 26;
/// Key of `WriteTxnMarkers`.
pub const WRITE_TXN_MARKERS: i16 = 27;
/// Key of `TxnOffsetCommit`.
pub const TXN_OFFSET_COMMIT: i16 = 28;
/// Key of `DescribeAcls`.
pub const DESCRIBE_ACLS: i16 = 29;
/// Key of `CreateAcls`.
pub const CREATE_ACLS: i16 = 30;
/// Key of `DeleteAcls`.
pub const DELETE_ACLS: i16 = 31;
/// Key of `DescribeConfigs`.
pub const DESCRIBE_CONFIGS: i16 = 32;
/// Key of `DescribeLogDirs`.
pub const DESCRIBE_LOG_DIRS: i16 = 35;
/// Key of `CreatePartitions`.
pub const CREATE_PARTITIONS: i16 = 37;
/// Key of `DeleteGroups`.
pub const DELETE_GROUPS: i16 = 42;
/// Key of `ElectLeaders`.
pub const ELECT_LEADERS: i16 = 43;
/// Key of `IncrementalAlterConfigs`.
pub const INCREMENTAL_ALTER_CONFIGS: i16 = 44;
/// Key of `ListPartitionReassignments`.
pub const LIST_PARTITION_REASSIGNMENTS: i16 = 46;
/// Key of `OffsetDelete`.
pub const OFFSET_DELETE: i16 = 47;
/// Key of `DescribeClientQuotas`.
pub const DESCRIBE_CLIENT_QUOTAS: i16 = 48;
/// Key of `DescribeUserScramCredentials`.
pub const DESCRIBE_USER_SCRAM_CREDENTIALS: i16 = 50;
/// Key of `AlterUserScramCredentials`.
pub const ALTER_USER_SCRAM_CREDENTIALS: i16 = 51;
/// Key of `DescribeCluster`.
pub const DESCRIBE_CLUSTER: i16 = 60;
/// Key of `DescribeProducers`.
pub const DESCRIBE_PRODUCERS: i16 = 61;
/// Key of `DescribeTransactions`.
pub const DESCRIBE_TRANSACTIONS: i16 = 65;
/// Key of `ListTransactions`.
pub const LIST_TRANSACTIONS: i16 = 66;
/// Key of `ConsumerGroupHeartbeat`.
pub const CONSUMER_GROUP_HEARTBEAT: i16 = 68;
/// Key of `ConsumerGroupDescribe`.
pub const CONSUMER_GROUP_DESCRIBE: i16 = 69;
/// Key of `ListConfigResources`.
pub const LIST_CONFIG_RESOURCES: i16 = 74;

/// One served API.
#[derive(Debug, PartialEq, Eq)]
pub struct Api {
    /// The API key.
    pub key: i16,
    /// The API name.
    pub name: &'static str,
    /// Lowest version advertised.
    pub min: i16,
    /// Highest version advertised and served.
    pub max: i16,
    /// Lowest version served.
    pub served_from: i16,
    /// First version in the compact layout.
    pub flexible_from: i16,
}

impl Api {
    /// Whether the server answers `version`.
    pub const fn serves(&self, version: i16) -> bool {
        self.served_from <= version && version <= self.max
    }

    /// Whether requests of `version` use the compact layout.
    pub const fn flexible(&self, version: i16) -> bool {
        version >= self.flexible_from
    }

    /// Whether the header of an answer has tagged fields. That of `ApiVersions` never has any: a client reads it before
    /// it knows the server's versions.
    pub const fn tagged_answer_header(&self, version: i16) -> bool {
        self.key != API_VERSIONS && self.flexible(version)
    }
}

/// `flexible_from` of an API without a compact layout.
const NEVER: i16 = i16::MAX;

const fn api(key: i16, name: &'static str, min: i16, max: i16, flexible_from: i16) -> Api {
    Api { key, name, min, max, served_from: min, flexible_from }
}

/// Every API, by key. `Produce` is advertised from 0 for librdkafka, and served from 3. `ConsumerGroupHeartbeat` and
/// `ConsumerGroupDescribe` are advertised even if the consumer protocol is switched off, as by Kafka: librdkafka would
/// retry for ever without them, and gets an error with them.
pub static APIS: [Api; 37] = [
    Api { served_from: 3, ..api(PRODUCE, "Produce", 0, 13, 9) },
    api(FETCH, "Fetch", 4, 18, 12),
    api(LIST_OFFSETS, "ListOffsets", 1, 10, 6),
    api(METADATA, "Metadata", 0, 13, 9),
    api(OFFSET_COMMIT, "OffsetCommit", 2, 10, 8),
    api(OFFSET_FETCH, "OffsetFetch", 1, 10, 6),
    api(FIND_COORDINATOR, "FindCoordinator", 0, 6, 3),
    api(JOIN_GROUP, "JoinGroup", 0, 9, 6),
    api(HEARTBEAT, "Heartbeat", 0, 4, 4),
    api(LEAVE_GROUP, "LeaveGroup", 0, 5, 4),
    api(SYNC_GROUP, "SyncGroup", 0, 5, 4),
    api(DESCRIBE_GROUPS, "DescribeGroups", 0, 6, 5),
    api(LIST_GROUPS, "ListGroups", 0, 5, 3),
    api(API_VERSIONS, "ApiVersions", 0, 5, 3),
    api(CREATE_TOPICS, "CreateTopics", 2, 7, 5),
    api(DELETE_TOPICS, "DeleteTopics", 1, 6, 4),
    api(DELETE_RECORDS, "DeleteRecords", 0, 2, 2),
    api(INIT_PRODUCER_ID, "InitProducerId", 0, 5, 2),
    api(OFFSET_FOR_LEADER_EPOCH, "OffsetForLeaderEpoch", 2, 4, 4),
    api(DESCRIBE_ACLS, "DescribeAcls", 1, 3, 2),
    api(CREATE_ACLS, "CreateAcls", 1, 3, 2),
    api(DELETE_ACLS, "DeleteAcls", 1, 3, 2),
    api(DESCRIBE_CONFIGS, "DescribeConfigs", 1, 4, 4),
    api(DESCRIBE_LOG_DIRS, "DescribeLogDirs", 1, 5, 2),
    api(CREATE_PARTITIONS, "CreatePartitions", 0, 3, 2),
    api(DELETE_GROUPS, "DeleteGroups", 0, 3, 2),
    api(ELECT_LEADERS, "ElectLeaders", 0, 2, 2),
    api(INCREMENTAL_ALTER_CONFIGS, "IncrementalAlterConfigs", 0, 1, 1),
    api(LIST_PARTITION_REASSIGNMENTS, "ListPartitionReassignments", 0, 0, 0),
    api(OFFSET_DELETE, "OffsetDelete", 0, 0, NEVER),
    api(DESCRIBE_CLIENT_QUOTAS, "DescribeClientQuotas", 0, 1, 1),
    api(DESCRIBE_USER_SCRAM_CREDENTIALS, "DescribeUserScramCredentials", 0, 0, 0),
    api(ALTER_USER_SCRAM_CREDENTIALS, "AlterUserScramCredentials", 0, 0, 0),
    api(DESCRIBE_CLUSTER, "DescribeCluster", 0, 2, 0),
    api(CONSUMER_GROUP_HEARTBEAT, "ConsumerGroupHeartbeat", 0, 1, 0),
    api(CONSUMER_GROUP_DESCRIBE, "ConsumerGroupDescribe", 0, 1, 0),
    api(LIST_CONFIG_RESOURCES, "ListConfigResources", 0, 1, 0),
];

/// The APIs of authentication, which only listeners with SASL advertise. Version 0 of `SaslHandshake` is followed by
/// messages without headers, and is refused.
pub static SASL_APIS: [Api; 2] =
    [api(SASL_HANDSHAKE, "SaslHandshake", 0, 1, NEVER), api(SASL_AUTHENTICATE, "SaslAuthenticate", 0, 2, 2)];

/// The APIs of transactions, by key, which every server but one of a cluster advertises (docs/transactions.md).
/// `AddPartitionsToTxn` 4 and 5 are for brokers only.
pub static TRANSACTION_APIS: [Api; 8] = [
    api(ADD_PARTITIONS_TO_TXN, "AddPartitionsToTxn", 0, 5, 3),
    api(ADD_OFFSETS_TO_TXN, "AddOffsetsToTxn", 0, 4, 3),
    api(END_TXN, "EndTxn", 0, 5, 3),
    api(WRITE_TXN_MARKERS, "WriteTxnMarkers", 1, 2, 1),
    api(TXN_OFFSET_COMMIT, "TxnOffsetCommit", 0, 6, 3),
    api(DESCRIBE_PRODUCERS, "DescribeProducers", 0, 0, 0),
    api(DESCRIBE_TRANSACTIONS, "DescribeTransactions", 0, 0, 0),
    api(LIST_TRANSACTIONS, "ListTransactions", 0, 2, 0),
];

/// Returns the API with this key; `None` if it is not served.
pub fn find(key: i16) -> Option<&'static Api> {
    let found = APIS.binary_search_by_key(&key, |api| api.key).ok().map(|index| &APIS[index]);
    found.or_else(|| SASL_APIS.iter().chain(&TRANSACTION_APIS).find(|api| api.key == key))
}
