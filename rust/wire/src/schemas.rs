//! Schemas of the requests that the `kafka-protocol` crate decodes, as [`crate::schema`] needs them: order, shape and
//! versions of the fields.

use crate::{
    schema::{Field, Kind},
    versions,
};

pub(crate) mod answers;
pub(crate) mod groups;
mod transactions;

const BOOL: Kind = Kind::Bool;
const INT8: Kind = Kind::Fixed(1);
const INT16: Kind = Kind::Fixed(2);
const INT32: Kind = Kind::Fixed(4);
const INT64: Kind = Kind::Fixed(8);
const UUID: Kind = Kind::Fixed(16);
const STR: Kind = Kind::Str;
const BYTES: Kind = Kind::Bytes;
const SUBSCRIPTION: Kind = Kind::Subscription;
const ASSIGNMENT: Kind = Kind::Assignment;
static INT8S: Kind = INT8;
static INT32S: Kind = INT32;
static INT64S: Kind = INT64;
static STRS: Kind = STR;

static PRODUCE: [Field; 4] = [
    Field::new("transactional_id", Kind::Str).nullable(3),
    Field::new("acks", INT16),
    Field::new("timeout_ms", INT32),
    Field::new("topic_data", Kind::Array(&Kind::Struct(&PRODUCE_TOPIC))),
];
static PRODUCE_TOPIC: [Field; 3] = [
    Field::new("name", Kind::Str).to(12),
    Field::new("topic_id", UUID).from(13),
    Field::new("partition_data", Kind::Array(&Kind::Struct(&PRODUCE_PARTITION))),
];
static PRODUCE_PARTITION: [Field; 2] = [Field::new("index", INT32), Field::new("records", Kind::Bytes).nullable(0)];

static FETCH: [Field; 12] = [
    Field::new("cluster_id", Kind::Str).from(12).nullable(12).tagged(0).hidden(),
    Field::new("replica_id", INT32).to(14).hidden(),
    Field::new("replica_state", Kind::Struct(&FETCH_REPLICA_STATE)).from(15).tagged(1).hidden(),
    Field::new("max_wait_ms", INT32),
    Field::new("min_bytes", INT32).hidden(),
    Field::new("max_bytes", INT32).hidden(),
    Field::new("isolation_level", INT8).hidden(),
    Field::new("session_id", INT32).from(7),
    Field::new("session_epoch", INT32).from(7),
    Field::new("topics", Kind::Array(&Kind::Struct(&FETCH_TOPIC))),
    Field::new("forgotten_topics_data", Kind::Array(&Kind::Struct(&FETCH_FORGOTTEN))).from(7).hidden(),
    Field::new("rack_id", Kind::Str).from(11).hidden(),
];
static FETCH_REPLICA_STATE: [Field; 2] = [Field::new("replica_id", INT32), Field::new("replica_epoch", INT64)];
static FETCH_TOPIC: [Field; 3] = [
    Field::new("topic", Kind::Str).to(12),
    Field::new("topic_id", UUID).from(13),
    Field::new("partitions", Kind::Array(&Kind::Struct(&FETCH_PARTITION))),
];
static FETCH_PARTITION: [Field; 8] = [
    Field::new("partition", INT32),
    Field::new("current_leader_epoch", INT32).from(9).hidden(),
    Field::new("fetch_offset", INT64),
    Field::new("last_fetched_epoch", INT32).from(12).hidden(),
    Field::new("log_start_offset", INT64).from(5).hidden(),
    Field::new("partition_max_bytes", INT32).hidden(),
    Field::new("replica_directory_id", UUID).from(17).tagged(0).hidden(),
    Field::new("high_watermark", INT64).from(18).tagged(1).hidden(),
];
static FETCH_FORGOTTEN: [Field; 3] = [
    Field::new("topic", Kind::Str).to(12),
    Field::new("topic_id", UUID).from(13),
    Field::new("partitions", Kind::Array(&INT32S)),
];

static LIST_OFFSETS: [Field; 4] = [
    Field::new("replica_id", INT32),
    Field::new("isolation_level", INT8).from(2),
    Field::new("topics", Kind::Array(&Kind::Struct(&LIST_OFFSETS_TOPIC))),
    Field::new("timeout_ms", INT32).from(10),
];
static LIST_OFFSETS_TOPIC: [Field; 2] =
    [Field::new("name", Kind::Str), Field::new("partitions", Kind::Array(&Kind::Struct(&LIST_OFFSETS_PARTITION)))];
static LIST_OFFSETS_PARTITION: [Field; 3] = [
    Field::new("partition_index", INT32),
    Field::new("current_leader_epoch", INT32).from(4),
    Field::new("timestamp", INT64),
];

static METADATA: [Field; 4] = [
    Field::new("topics", Kind::Array(&Kind::Struct(&METADATA_TOPIC))).nullable(1),
    Field::new("allow_auto_topic_creation", BOOL).from(4),
    Field::new("include_cluster_authorized_operations", BOOL).from(8).to(10),
    Field::new("include_topic_authorized_operations", BOOL).from(8),
];
static METADATA_TOPIC: [Field; 2] = [Field::new("topic_id", UUID).from(10), Field::new("name", Kind::Str).nullable(10)];

static CREATE_TOPICS: [Field; 3] = [
    Field::new("topics", Kind::Array(&Kind::Struct(&CREATE_TOPICS_TOPIC))),
    Field::new("timeout_ms", INT32),
    Field::new("validate_only", BOOL).from(1),
];
static CREATE_TOPICS_TOPIC: [Field; 5] = [
    Field::new("name", Kind::Str),
    Field::new("num_partitions", INT32),
    Field::new("replication_factor", INT16),
    Field::new("assignments", Kind::Array(&Kind::Struct(&CREATE_TOPICS_ASSIGNMENT))),
    Field::new("configs", Kind::Array(&Kind::Struct(&CREATE_TOPICS_CONFIG))),
];
static CREATE_TOPICS_ASSIGNMENT: [Field; 2] =
    [Field::new("partition_index", INT32), Field::new("broker_ids", Kind::Array(&INT32S))];
static CREATE_TOPICS_CONFIG: [Field; 2] = [Field::new("name", Kind::Str), Field::new("value", Kind::Str).nullable(0)];

static DELETE_TOPICS: [Field; 3] = [
    Field::new("topics", Kind::Array(&Kind::Struct(&DELETE_TOPICS_TOPIC))).from(6),
    Field::new("topic_names", Kind::Array(&STRS)).to(5),
    Field::new("timeout_ms", INT32),
];
static DELETE_TOPICS_TOPIC: [Field; 2] = [Field::new("name", Kind::Str).nullable(6), Field::new("topic_id", UUID)];

static CREATE_PARTITIONS: [Field; 3] = [
    Field::new("topics", Kind::Array(&Kind::Struct(&CREATE_PARTITIONS_TOPIC))),
    Field::new("timeout_ms", INT32),
    Field::new("validate_only", BOOL),
];
static CREATE_PARTITIONS_TOPIC: [Field; 3] = [
    Field::new("name", Kind::Str),
    Field::new("count", INT32),
    Field::new("assignments", Kind::Array(&Kind::Struct(&CREATE_PARTITIONS_ASSIGNMENT))).nullable(0),
];
static CREATE_PARTITIONS_ASSIGNMENT: [Field; 1] = [Field::new("broker_ids", Kind::Array(&INT32S))];

static DELETE_RECORDS: [Field; 2] =
    [Field::new("topics", Kind::Array(&Kind::Struct(&DELETE_RECORDS_TOPIC))), Field::new("timeout_ms", INT32)];
static DELETE_RECORDS_TOPIC: [Field; 2] =
    [Field::new("name", Kind::Str), Field::new("partitions", Kind::Array(&Kind::Struct(&DELETE_RECORDS_PARTITION)))];
static DELETE_RECORDS_PARTITION: [Field; 2] = [Field::new("partition_index", INT32), Field::new("offset", INT64)];

static OFFSET_FOR_LEADER_EPOCH: [Field; 2] = [
    Field::new("replica_id", INT32).from(3),
    Field::new("topics", Kind::Array(&Kind::Struct(&OFFSET_FOR_LEADER_EPOCH_TOPIC))),
];
static OFFSET_FOR_LEADER_EPOCH_TOPIC: [Field; 2] = [
    Field::new("topic", Kind::Str),
    Field::new("partitions", Kind::Array(&Kind::Struct(&OFFSET_FOR_LEADER_EPOCH_PARTITION))),
];
static OFFSET_FOR_LEADER_EPOCH_PARTITION: [Field; 3] =
    [Field::new("partition", INT32), Field::new("current_leader_epoch", INT32), Field::new("leader_epoch", INT32)];

static INCREMENTAL_ALTER_CONFIGS: [Field; 2] = [
    Field::new("resources", Kind::Array(&Kind::Struct(&INCREMENTAL_ALTER_CONFIGS_RESOURCE))),
    Field::new("validate_only", BOOL),
];
static INCREMENTAL_ALTER_CONFIGS_RESOURCE: [Field; 3] = [
    Field::new("resource_type", INT8),
    Field::new("resource_name", Kind::Str),
    Field::new("configs", Kind::Array(&Kind::Struct(&INCREMENTAL_ALTER_CONFIGS_CONFIG))),
];
static INCREMENTAL_ALTER_CONFIGS_CONFIG: [Field; 3] =
    [Field::new("name", Kind::Str), Field::new("config_operation", INT8), Field::new("value", Kind::Str).nullable(0)];
static DESCRIBE_CONFIGS: [Field; 3] = [
    Field::new("resources", Kind::Array(&Kind::Struct(&DESCRIBE_CONFIGS_RESOURCE))),
    Field::new("include_synonyms", BOOL),
    Field::new("include_documentation", BOOL).from(3),
];
static DESCRIBE_CONFIGS_RESOURCE: [Field; 3] = [
    Field::new("resource_type", INT8),
    Field::new("resource_name", Kind::Str),
    Field::new("configuration_keys", Kind::Array(&STRS)).nullable(0),
];

static DESCRIBE_LOG_DIRS: [Field; 1] =
    [Field::new("topics", Kind::Array(&Kind::Struct(&TOPIC_PARTITIONS))).nullable(0)];
static ELECT_LEADERS: [Field; 3] = [
    Field::new("election_type", INT8).from(1),
    Field::new("topic_partitions", Kind::Array(&Kind::Struct(&TOPIC_PARTITIONS))).nullable(0),
    Field::new("timeout_ms", INT32),
];
static TOPIC_PARTITIONS: [Field; 2] = [Field::new("topic", Kind::Str), Field::new("partitions", Kind::Array(&INT32S))];
static LIST_PARTITION_REASSIGNMENTS: [Field; 2] = [
    Field::new("timeout_ms", INT32),
    Field::new("topics", Kind::Array(&Kind::Struct(&LIST_PARTITION_REASSIGNMENTS_TOPIC))).nullable(0),
];
static LIST_PARTITION_REASSIGNMENTS_TOPIC: [Field; 2] =
    [Field::new("name", Kind::Str), Field::new("partition_indexes", Kind::Array(&INT32S))];
static LIST_CONFIG_RESOURCES: [Field; 1] = [Field::new("resource_types", Kind::Array(&INT8S)).from(1)];

static DESCRIBE_ACLS: [Field; 7] = [
    Field::new("resource_type_filter", INT8),
    Field::new("resource_name_filter", Kind::Str).nullable(0),
    Field::new("pattern_type_filter", INT8),
    Field::new("principal_filter", Kind::Str).nullable(0),
    Field::new("host_filter", Kind::Str).nullable(0),
    Field::new("operation", INT8),
    Field::new("permission_type", INT8),
];
static CREATE_ACLS: [Field; 1] = [Field::new("creations", Kind::Array(&Kind::Struct(&CREATE_ACLS_CREATION)))];
static CREATE_ACLS_CREATION: [Field; 7] = [
    Field::new("resource_type", INT8),
    Field::new("resource_name", Kind::Str),
    Field::new("resource_pattern_type", INT8),
    Field::new("principal", Kind::Str),
    Field::new("host", Kind::Str),
    Field::new("operation", INT8),
    Field::new("permission_type", INT8),
];
static DELETE_ACLS: [Field; 1] = [Field::new("filters", Kind::Array(&Kind::Struct(&DESCRIBE_ACLS)))];

static DESCRIBE_CLIENT_QUOTAS: [Field; 2] = [
    Field::new("components", Kind::Array(&Kind::Struct(&DESCRIBE_CLIENT_QUOTAS_COMPONENT))),
    Field::new("strict", BOOL),
];
static DESCRIBE_CLIENT_QUOTAS_COMPONENT: [Field; 3] =
    [Field::new("entity_type", Kind::Str), Field::new("match_type", INT8), Field::new("match", Kind::Str).nullable(0)];
static DESCRIBE_USER_SCRAM_CREDENTIALS: [Field; 1] =
    [Field::new("users", Kind::Array(&Kind::Struct(&DESCRIBE_USER_SCRAM_CREDENTIALS_USER))).nullable(0)];
static DESCRIBE_USER_SCRAM_CREDENTIALS_USER: [Field; 1] = [Field::new("name", Kind::Str)];
static ALTER_USER_SCRAM_CREDENTIALS: [Field; 2] = [
    Field::new("deletions", Kind::Array(&Kind::Struct(&ALTER_USER_SCRAM_CREDENTIALS_DELETION))),
    Field::new("upsertions", Kind::Array(&Kind::Struct(&ALTER_USER_SCRAM_CREDENTIALS_UPSERTION))),
];
static ALTER_USER_SCRAM_CREDENTIALS_DELETION: [Field; 2] =
    [Field::new("name", Kind::Str), Field::new("mechanism", INT8)];
// A client that knows the salted password can log in.
static ALTER_USER_SCRAM_CREDENTIALS_UPSERTION: [Field; 5] = [
    Field::new("name", Kind::Str),
    Field::new("mechanism", INT8),
    Field::new("iterations", INT32),
    Field::new("salt", Kind::Bytes).hidden(),
    Field::new("salted_password", Kind::Bytes).hidden(),
];

static DESCRIBE_CLUSTER: [Field; 3] = [
    Field::new("include_cluster_authorized_operations", BOOL),
    Field::new("endpoint_type", INT8).from(1),
    Field::new("include_fenced_brokers", BOOL).from(2),
];

static INIT_PRODUCER_ID: [Field; 4] = [
    Field::new("transactional_id", Kind::Str).nullable(0),
    Field::new("transaction_timeout_ms", INT32),
    Field::new("producer_id", INT64).from(3),
    Field::new("producer_epoch", INT16).from(3),
];

static CONSUMER_GROUP_HEARTBEAT: [Field; 10] = [
    Field::new("group_id", Kind::Str),
    Field::new("member_id", Kind::Str),
    Field::new("member_epoch", INT32),
    Field::new("instance_id", Kind::Str).nullable(0),
    Field::new("rack_id", Kind::Str).nullable(0),
    Field::new("rebalance_timeout_ms", INT32),
    Field::new("subscribed_topic_names", Kind::Array(&STRS)).nullable(0),
    Field::new("subscribed_topic_regex", Kind::Str).from(1).nullable(1),
    Field::new("server_assignor", Kind::Str).nullable(0),
    Field::new("topic_partitions", Kind::Array(&Kind::Struct(&CONSUMER_GROUP_HEARTBEAT_TOPIC))).nullable(0),
];
static CONSUMER_GROUP_HEARTBEAT_TOPIC: [Field; 2] =
    [Field::new("topic_id", UUID), Field::new("partitions", Kind::Array(&INT32S))];

static CONSUMER_GROUP_DESCRIBE: [Field; 2] =
    [Field::new("group_ids", Kind::Array(&STRS)), Field::new("include_authorized_operations", BOOL)];

/// The schema of a request that `kafka-protocol` decodes.
pub(crate) fn schema(api_key: i16) -> Option<&'static [Field]> {
    match api_key {
        versions::PRODUCE => Some(&PRODUCE),
        versions::FETCH => Some(&FETCH),
        versions::LIST_OFFSETS => Some(&LIST_OFFSETS),
        versions::METADATA => Some(&METADATA),
        versions::CREATE_TOPICS => Some(&CREATE_TOPICS),
        versions::DELETE_TOPICS => Some(&DELETE_TOPICS),
        versions::DELETE_RECORDS => Some(&DELETE_RECORDS),
        versions::CREATE_PARTITIONS => Some(&CREATE_PARTITIONS),
        versions::OFFSET_FOR_LEADER_EPOCH => Some(&OFFSET_FOR_LEADER_EPOCH),
        versions::DESCRIBE_ACLS => Some(&DESCRIBE_ACLS),
        versions::CREATE_ACLS => Some(&CREATE_ACLS),
        versions::DELETE_ACLS => Some(&DELETE_ACLS),
        versions::DESCRIBE_CONFIGS => Some(&DESCRIBE_CONFIGS),
        versions::DESCRIBE_LOG_DIRS => Some(&DESCRIBE_LOG_DIRS),
        versions::ELECT_LEADERS => Some(&ELECT_LEADERS),
        versions::LIST_PARTITION_REASSIGNMENTS => Some(&LIST_PARTITION_REASSIGNMENTS),
        versions::LIST_CONFIG_RESOURCES => Some(&LIST_CONFIG_RESOURCES),
        versions::INCREMENTAL_ALTER_CONFIGS => Some(&INCREMENTAL_ALTER_CONFIGS),
        versions::DESCRIBE_CLIENT_QUOTAS => Some(&DESCRIBE_CLIENT_QUOTAS),
        versions::DESCRIBE_USER_SCRAM_CREDENTIALS => Some(&DESCRIBE_USER_SCRAM_CREDENTIALS),
        versions::ALTER_USER_SCRAM_CREDENTIALS => Some(&ALTER_USER_SCRAM_CREDENTIALS),
        versions::DESCRIBE_CLUSTER => Some(&DESCRIBE_CLUSTER),
        versions::CONSUMER_GROUP_HEARTBEAT => Some(&CONSUMER_GROUP_HEARTBEAT),
        versions::CONSUMER_GROUP_DESCRIBE => Some(&CONSUMER_GROUP_DESCRIBE),
        versions::INIT_PRODUCER_ID => Some(&INIT_PRODUCER_ID),
        versions::ADD_PARTITIONS_TO_TXN => Some(&transactions::ADD_PARTITIONS_TO_TXN),
        versions::ADD_OFFSETS_TO_TXN => Some(&transactions::ADD_OFFSETS_TO_TXN),
        versions::END_TXN => Some(&transactions::END_TXN),
        versions::WRITE_TXN_MARKERS => Some(&transactions::WRITE_TXN_MARKERS),
        versions::TXN_OFFSET_COMMIT => Some(&transactions::TXN_OFFSET_COMMIT),
        versions::DESCRIBE_PRODUCERS => Some(&transactions::DESCRIBE_PRODUCERS),
        versions::DESCRIBE_TRANSACTIONS => Some(&transactions::DESCRIBE_TRANSACTIONS),
        versions::LIST_TRANSACTIONS => Some(&transactions::LIST_TRANSACTIONS),
        _ => None,
    }
}
