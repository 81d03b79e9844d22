//! The fields of the answers, for traces.

use crate::{
    schema::{Field, Kind},
    schemas::{ASSIGNMENT, BOOL, BYTES, INT8, INT16, INT32, INT32S, INT64, STR, SUBSCRIPTION, UUID, transactions},
    versions,
};

static PRODUCE_RECORD_ERRORS: [Field; 2] =
    [Field::new("batch_index", INT32).from(8), Field::new("batch_index_error_message", STR).from(8).nullable(8)];
static PRODUCE_PARTITION_RESPONSES: [Field; 7] = [
    Field::new("index", INT32),
    Field::new("error_code", INT16),
    Field::new("base_offset", INT64),
    Field::new("log_append_time_ms", INT64).hidden(),
    Field::new("log_start_offset", INT64).from(5).hidden(),
    Field::new("record_errors", Kind::Array(&Kind::Struct(&PRODUCE_RECORD_ERRORS))).from(8).hidden(),
    Field::new("error_message", STR).from(8).nullable(8),
];
static PRODUCE_RESPONSES: [Field; 3] = [
    Field::new("name", STR).to(12),
    Field::new("topic_id", UUID).from(13),
    Field::new("partition_responses", Kind::Array(&Kind::Struct(&PRODUCE_PARTITION_RESPONSES))),
];
static PRODUCE: [Field; 2] =
    [Field::new("responses", Kind::Array(&Kind::Struct(&PRODUCE_RESPONSES))), Field::new("throttle_time_ms", INT32)];
static FETCH_ABORTED_TRANSACTIONS: [Field; 2] = [Field::new("producer_id", INT64), Field::new("first_offset", INT64)];
static FETCH_PARTITIONS: [Field; 8] = [
    Field::new("partition_index", INT32),
    Field::new("error_code", INT16),
    Field::new("high_watermark", INT64),
    Field::new("last_stable_offset", INT64).hidden(),
    Field::new("log_start_offset", INT64).from(5).hidden(),
    Field::new("aborted_transactions", Kind::Array(&Kind::Struct(&FETCH_ABORTED_TRANSACTIONS))).nullable(4).hidden(),
    Field::new("preferred_read_replica", INT32).from(11).hidden(),
    Field::new("records", BYTES).nullable(0),
];
static FETCH_RESPONSES: [Field; 3] = [
    Field::new("topic", STR).to(12),
    Field::new("topic_id", UUID).from(13),
    Field::new("partitions", Kind::Array(&Kind::Struct(&FETCH_PARTITIONS))),
];
static FETCH: [Field; 4] = [
    Field::new("throttle_time_ms", INT32),
    Field::new("error_code", INT16).from(7),
    Field::new("session_id", INT32).from(7),
    Field::new("responses", Kind::Array(&Kind::Struct(&FETCH_RESPONSES))),
];
static LIST_OFFSETS_PARTITIONS: [Field; 5] = [
    Field::new("partition_index", INT32),
    Field::new("error_code", INT16),
    Field::new("timestamp", INT64),
    Field::new("offset", INT64),
    Field::new("leader_epoch", INT32).from(4),
];
static LIST_OFFSETS_TOPICS: [Field; 2] =
    [Field::new("name", STR), Field::new("partitions", Kind::Array(&Kind::Struct(&LIST_OFFSETS_PARTITIONS)))];
static LIST_OFFSETS: [Field; 2] = [
    Field::new("throttle_time_ms", INT32).from(2),
    Field::new("topics", Kind::Array(&Kind::Struct(&LIST_OFFSETS_TOPICS))),
];
static METADATA_BROKERS: [Field; 4] = [
    Field::new("node_id", INT32),
    Field::new("host", STR),
    Field::new("port", INT32),
    Field::new("rack", STR).from(1).nullable(1),
];
static METADATA_PARTITIONS: [Field; 7] = [
    Field::new("error_code", INT16),
    Field::new("partition_index", INT32),
    Field::new("leader_id", INT32),
    Field::new("leader_epoch", INT32).from(7),
    Field::new("replica_nodes", Kind::Array(&INT32S)),
    Field::new("isr_nodes", Kind::Array(&INT32S)),
    Field::new("offline_replicas", Kind::Array(&INT32S)).from(5),
];
static METADATA_TOPICS: [Field; 6] = [
    Field::new("error_code", INT16),
    Field::new("name", STR).nullable(12),
    Field::new("topic_id", UUID).from(10).hidden(),
    Field::new("is_internal", BOOL).from(1).hidden(),
    Field::new("partitions", Kind::Array(&Kind::Struct(&METADATA_PARTITIONS))).counted(),
    Field::new("topic_authorized_operations", INT32).from(8).hidden(),
];
static METADATA: [Field; 7] = [
    Field::new("throttle_time_ms", INT32).from(3),
    Field::new("brokers", Kind::Array(&Kind::Struct(&METADATA_BROKERS))),
    Field::new("cluster_id", STR).from(2).nullable(2),
    Field::new("controller_id", INT32).from(1),
    Field::new("topics", Kind::Array(&Kind::Struct(&METADATA_TOPICS))),
    Field::new("cluster_authorized_operations", INT32).from(8).to(10).hidden(),
    Field::new("error_code", INT16).from(13),
];
static OFFSET_COMMIT_PARTITIONS: [Field; 2] = [Field::new("partition_index", INT32), Field::new("error_code", INT16)];
static OFFSET_COMMIT_TOPICS: [Field; 3] = [
    Field::new("name", STR).to(9),
    Field::new("topic_id", UUID).from(10),
    Field::new("partitions", Kind::Array(&Kind::Struct(&OFFSET_COMMIT_PARTITIONS))),
];
static OFFSET_COMMIT: [Field; 2] = [
    Field::new("throttle_time_ms", INT32).from(3),
    Field::new("topics", Kind::Array(&Kind::Struct(&OFFSET_COMMIT_TOPICS))),
];
static OFFSET_FETCH_PARTITIONS: [Field; 5] = [
    Field::new("partition_index", INT32).to(7),
    Field::new("committed_offset", INT64).to(7),
    Field::new("committed_leader_epoch", INT32).from(5).to(7),
    Field::new("metadata", STR).to(7).nullable(0),
    Field::new("error_code", INT16).to(7),
];
static OFFSET_FETCH_TOPICS: [Field; 2] = [
    Field::new("name", STR).to(7),
    Field::new("partitions", Kind::Array(&Kind::Struct(&OFFSET_FETCH_PARTITIONS))).to(7),
];
static OFFSET_FETCH_GROUPS_TOPICS_PARTITIONS: [Field; 5] = [
    Field::new("partition_index", INT32).from(8),
    Field::new("committed_offset", INT64).from(8),
    Field::new("committed_leader_epoch", INT32).from(8),
    Field::new("metadata", STR).from(8).nullable(8),
    Field::new("error_code", INT16).from(8),
];
static OFFSET_FETCH_GROUPS_TOPICS: [Field; 3] = [
    Field::new("name", STR).from(8).to(9),
    Field::new("topic_id", UUID).from(10),
    Field::new("partitions", Kind::Array(&Kind::Struct(&OFFSET_FETCH_GROUPS_TOPICS_PARTITIONS))).from(8),
];
static OFFSET_FETCH_GROUPS: [Field; 3] = [
    Field::new("group_id", STR).from(8),
    Field::new("topics", Kind::Array(&Kind::Struct(&OFFSET_FETCH_GROUPS_TOPICS))).from(8),
    Field::new("error_code", INT16).from(8),
];
static OFFSET_FETCH: [Field; 4] = [
    Field::new("throttle_time_ms", INT32).from(3),
    Field::new("topics", Kind::Array(&Kind::Struct(&OFFSET_FETCH_TOPICS))).to(7),
    Field::new("error_code", INT16).from(2).to(7),
    Field::new("groups", Kind::Array(&Kind::Struct(&OFFSET_FETCH_GROUPS))).from(8),
];
static FIND_COORDINATOR_COORDINATORS: [Field; 6] = [
    Field::new("key", STR).from(4),
    Field::new("node_id", INT32).from(4),
    Field::new("host", STR).from(4),
    Field::new("port", INT32).from(4),
    Field::new("error_code", INT16).from(4),
    Field::new("error_message", STR).from(4).nullable(4),
];
static FIND_COORDINATOR: [Field; 7] = [
    Field::new("throttle_time_ms", INT32).from(1),
    Field::new("error_code", INT16).to(3),
    Field::new("error_message", STR).from(1).to(3).nullable(1),
    Field::new("node_id", INT32).to(3),
    Field::new("host", STR).to(3),
    Field::new("port", INT32).to(3),
    Field::new("coordinators", Kind::Array(&Kind::Struct(&FIND_COORDINATOR_COORDINATORS))).from(4),
];
static JOIN_GROUP_MEMBERS: [Field; 3] = [
    Field::new("member_id", STR),
    Field::new("group_instance_id", STR).from(5).nullable(5),
    Field::new("metadata", SUBSCRIPTION),
];
static JOIN_GROUP: [Field; 9] = [
    Field::new("throttle_time_ms", INT32).from(2),
    Field::new("error_code", INT16),
    Field::new("generation_id", INT32),
    Field::new("protocol_type", STR).from(7).nullable(7),
    Field::new("protocol_name", STR).nullable(7),
    Field::new("leader", STR),
    Field::new("skip_assignment", BOOL).from(9),
    Field::new("member_id", STR),
    Field::new("members", Kind::Array(&Kind::Struct(&JOIN_GROUP_MEMBERS))),
];
static HEARTBEAT: [Field; 2] = [Field::new("throttle_time_ms", INT32).from(1), Field::new("error_code", INT16)];
static LEAVE_GROUP_MEMBERS: [Field; 3] = [
    Field::new("member_id", STR).from(3),
    Field::new("group_instance_id", STR).from(3).nullable(3),
    Field::new("error_code", INT16).from(3),
];
static LEAVE_GROUP: [Field; 3] = [
    Field::new("throttle_time_ms", INT32).from(1),
    Field::new("error_code", INT16),
    Field::new("members", Kind::Array(&Kind::Struct(&LEAVE_GROUP_MEMBERS))).from(3),
];
static SYNC_GROUP: [Field; 5] = [
    Field::new("throttle_time_ms", INT32).from(1),
    Field::new("error_code", INT16),
    Field::new("protocol_type", STR).from(5).nullable(5),
    Field::new("protocol_name", STR).from(5).nullable(5),
    Field::new("assignment", ASSIGNMENT),
];
static DESCRIBE_GROUPS_MEMBERS: [Field; 6] = [
    Field::new("member_id", STR),
    Field::new("group_instance_id", STR).from(4).nullable(4),
    Field::new("client_id", STR),
    Field::new("client_host", STR),
    Field::new("member_metadata", SUBSCRIPTION),
    Field::new("member_assignment", ASSIGNMENT),
];
static DESCRIBE_GROUPS_GROUPS: [Field; 8] = [
    Field::new("error_code", INT16),
    Field::new("error_message", STR).from(6).nullable(6),
    Field::new("group_id", STR),
    Field::new("group_state", STR),
    Field::new("protocol_type", STR),
    Field::new("protocol_data", STR),
    Field::new("members", Kind::Array(&Kind::Struct(&DESCRIBE_GROUPS_MEMBERS))),
    Field::new("authorized_operations", INT32).from(3).hidden(),
];
static DESCRIBE_GROUPS: [Field; 2] = [
    Field::new("throttle_time_ms", INT32).from(1),
    Field::new("groups", Kind::Array(&Kind::Struct(&DESCRIBE_GROUPS_GROUPS))),
];
static LIST_GROUPS_GROUPS: [Field; 4] = [
    Field::new("group_id", STR),
    Field::new("protocol_type", STR),
    Field::new("group_state", STR).from(4),
    Field::new("group_type", STR).from(5),
];
static LIST_GROUPS: [Field; 3] = [
    Field::new("throttle_time_ms", INT32).from(1),
    Field::new("error_code", INT16),
    Field::new("groups", Kind::Array(&Kind::Struct(&LIST_GROUPS_GROUPS))),
];
static API_VERSIONS_API_KEYS: [Field; 3] =
    [Field::new("api_key", INT16), Field::new("min_version", INT16), Field::new("max_version", INT16)];
static API_VERSIONS: [Field; 3] = [
    Field::new("error_code", INT16),
    Field::new("api_keys", Kind::Array(&Kind::Struct(&API_VERSIONS_API_KEYS))).counted(),
    Field::new("throttle_time_ms", INT32).from(1),
];
static CREATE_TOPICS_CONFIGS: [Field; 5] = [
    Field::new("name", STR).from(5),
    Field::new("value", STR).from(5).nullable(5),
    Field::new("read_only", BOOL).from(5),
    Field::new("config_source", INT8).from(5),
    Field::new("is_sensitive", BOOL).from(5),
];
static CREATE_TOPICS_TOPICS: [Field; 7] = [
    Field::new("name", STR),
    Field::new("topic_id", UUID).from(7),
    Field::new("error_code", INT16),
    Field::new("error_message", STR).nullable(0),
    Field::new("num_partitions", INT32).from(5),
    Field::new("replication_factor", INT16).from(5),
    Field::new("configs", Kind::Array(&Kind::Struct(&CREATE_TOPICS_CONFIGS))).from(5).nullable(5).hidden(),
];
static CREATE_TOPICS: [Field; 2] =
    [Field::new("throttle_time_ms", INT32), Field::new("topics", Kind::Array(&Kind::Struct(&CREATE_TOPICS_TOPICS)))];
static DELETE_TOPICS_RESPONSES: [Field; 4] = [
    Field::new("name", STR).nullable(6),
    Field::new("topic_id", UUID).from(6),
    Field::new("error_code", INT16),
    Field::new("error_message", STR).from(5).nullable(5),
];
static DELETE_TOPICS: [Field; 2] = [
    Field::new("throttle_time_ms", INT32),
    Field::new("responses", Kind::Array(&Kind::Struct(&DELETE_TOPICS_RESPONSES))),
];
static INIT_PRODUCER_ID: [Field; 6] = [
    Field::new("throttle_time_ms", INT32),
    Field::new("error_code", INT16),
    Field::new("producer_id", INT64),
    Field::new("producer_epoch", INT16),
    Field::new("ongoing_txn_producer_id", INT64).from(6),
    Field::new("ongoing_txn_producer_epoch", INT16).from(6),
];
static DELETE_RECORDS_PARTITIONS: [Field; 3] =
    [Field::new("partition_index", INT32), Field::new("low_watermark", INT64), Field::new("error_code", INT16)];
static DELETE_RECORDS_TOPICS: [Field; 2] =
    [Field::new("name", STR), Field::new("partitions", Kind::Array(&Kind::Struct(&DELETE_RECORDS_PARTITIONS)))];
static DELETE_RECORDS: [Field; 2] =
    [Field::new("throttle_time_ms", INT32), Field::new("topics", Kind::Array(&Kind::Struct(&DELETE_RECORDS_TOPICS)))];
static OFFSET_FOR_LEADER_EPOCH_PARTITIONS: [Field; 4] = [
    Field::new("error_code", INT16),
    Field::new("partition", INT32),
    Field::new("leader_epoch", INT32),
    Field::new("end_offset", INT64),
];
static OFFSET_FOR_LEADER_EPOCH_TOPICS: [Field; 2] = [
    Field::new("topic", STR),
    Field::new("partitions", Kind::Array(&Kind::Struct(&OFFSET_FOR_LEADER_EPOCH_PARTITIONS))),
];
static OFFSET_FOR_LEADER_EPOCH: [Field; 2] = [
    Field::new("throttle_time_ms", INT32),
    Field::new("topics", Kind::Array(&Kind::Struct(&OFFSET_FOR_LEADER_EPOCH_TOPICS))),
];
static DESCRIBE_CONFIGS_SYNONYMS: [Field; 3] =
    [Field::new("name", STR), Field::new("value", STR).nullable(0), Field::new("source", INT8)];
static DESCRIBE_CONFIGS_CONFIGS: [Field; 8] = [
    Field::new("name", STR),
    Field::new("value", STR).nullable(0),
    Field::new("read_only", BOOL),
    Field::new("config_source", INT8),
    Field::new("is_sensitive", BOOL),
    Field::new("synonyms", Kind::Array(&Kind::Struct(&DESCRIBE_CONFIGS_SYNONYMS))),
    Field::new("config_type", INT8).from(3),
    Field::new("documentation", STR).from(3).nullable(0),
];
static DESCRIBE_CONFIGS_RESULTS: [Field; 5] = [
    Field::new("error_code", INT16),
    Field::new("error_message", STR).nullable(0),
    Field::new("resource_type", INT8),
    Field::new("resource_name", STR),
    Field::new("configs", Kind::Array(&Kind::Struct(&DESCRIBE_CONFIGS_CONFIGS))).counted(),
];
static DESCRIBE_LOG_DIRS_PARTITIONS: [Field; 4] = [
    Field::new("partition_index", INT32),
    Field::new("partition_size", INT64),
    Field::new("offset_lag", INT64).hidden(),
    Field::new("is_future_key", BOOL).hidden(),
];
static DESCRIBE_LOG_DIRS_TOPICS: [Field; 2] =
    [Field::new("name", STR), Field::new("partitions", Kind::Array(&Kind::Struct(&DESCRIBE_LOG_DIRS_PARTITIONS)))];
static DESCRIBE_LOG_DIRS_RESULTS: [Field; 6] = [
    Field::new("error_code", INT16),
    Field::new("log_dir", STR),
    Field::new("topics", Kind::Array(&Kind::Struct(&DESCRIBE_LOG_DIRS_TOPICS))).counted(),
    Field::new("total_bytes", INT64).from(4).hidden(),
    Field::new("usable_bytes", INT64).from(4).hidden(),
    Field::new("is_cordoned", BOOL).from(5).hidden(),
];
static DESCRIBE_LOG_DIRS: [Field; 3] = [
    Field::new("throttle_time_ms", INT32),
    Field::new("error_code", INT16).from(3),
    Field::new("results", Kind::Array(&Kind::Struct(&DESCRIBE_LOG_DIRS_RESULTS))),
];
static ELECT_LEADERS_PARTITIONS: [Field; 3] =
    [Field::new("partition_id", INT32), Field::new("error_code", INT16), Field::new("error_message", STR).nullable(0)];
static ELECT_LEADERS_RESULTS: [Field; 2] =
    [Field::new("topic", STR), Field::new("partition_result", Kind::Array(&Kind::Struct(&ELECT_LEADERS_PARTITIONS)))];
static ELECT_LEADERS: [Field; 3] = [
    Field::new("throttle_time_ms", INT32),
    Field::new("error_code", INT16).from(1),
    Field::new("replica_election_results", Kind::Array(&Kind::Struct(&ELECT_LEADERS_RESULTS))),
];
static LIST_PARTITION_REASSIGNMENTS_PARTITIONS: [Field; 4] = [
    Field::new("partition_index", INT32),
    Field::new("replicas", Kind::Array(&INT32S)),
    Field::new("adding_replicas", Kind::Array(&INT32S)),
    Field::new("removing_replicas", Kind::Array(&INT32S)),
];
static LIST_PARTITION_REASSIGNMENTS_TOPICS: [Field; 2] = [
    Field::new("name", STR),
    Field::new("partitions", Kind::Array(&Kind::Struct(&LIST_PARTITION_REASSIGNMENTS_PARTITIONS))),
];
static LIST_PARTITION_REASSIGNMENTS: [Field; 4] = [
    Field::new("throttle_time_ms", INT32),
    Field::new("error_code", INT16),
    Field::new("error_message", STR).nullable(0),
    Field::new("topics", Kind::Array(&Kind::Struct(&LIST_PARTITION_REASSIGNMENTS_TOPICS))),
];
static LIST_CONFIG_RESOURCES_RESOURCES: [Field; 2] =
    [Field::new("resource_name", STR), Field::new("resource_type", INT8).from(1)];
static LIST_CONFIG_RESOURCES: [Field; 3] = [
    Field::new("throttle_time_ms", INT32),
    Field::new("error_code", INT16),
    Field::new("config_resources", Kind::Array(&Kind::Struct(&LIST_CONFIG_RESOURCES_RESOURCES))),
];
static ACL: [Field; 4] = [
    Field::new("principal", STR),
    Field::new("host", STR),
    Field::new("operation", INT8),
    Field::new("permission_type", INT8),
];
static DESCRIBE_ACLS_RESOURCES: [Field; 4] = [
    Field::new("resource_type", INT8),
    Field::new("resource_name", STR),
    Field::new("pattern_type", INT8),
    Field::new("acls", Kind::Array(&Kind::Struct(&ACL))),
];
static DESCRIBE_ACLS: [Field; 4] = [
    Field::new("throttle_time_ms", INT32),
    Field::new("error_code", INT16),
    Field::new("error_message", STR).nullable(0),
    Field::new("resources", Kind::Array(&Kind::Struct(&DESCRIBE_ACLS_RESOURCES))),
];
static CREATE_ACLS_RESULTS: [Field; 2] =
    [Field::new("error_code", INT16), Field::new("error_message", STR).nullable(0)];
static CREATE_ACLS: [Field; 2] =
    [Field::new("throttle_time_ms", INT32), Field::new("results", Kind::Array(&Kind::Struct(&CREATE_ACLS_RESULTS)))];
static DELETE_ACLS_MATCHING: [Field; 9] = [
    Field::new("error_code", INT16),
    Field::new("error_message", STR).nullable(0),
    Field::new("resource_type", INT8),
    Field::new("resource_name", STR),
    Field::new("pattern_type", INT8),
    Field::new("principal", STR),
    Field::new("host", STR),
    Field::new("operation", INT8),
    Field::new("permission_type", INT8),
];
static DELETE_ACLS_RESULTS: [Field; 3] = [
    Field::new("error_code", INT16),
    Field::new("error_message", STR).nullable(0),
    Field::new("matching_acls", Kind::Array(&Kind::Struct(&DELETE_ACLS_MATCHING))),
];
static DELETE_ACLS: [Field; 2] = [
    Field::new("throttle_time_ms", INT32),
    Field::new("filter_results", Kind::Array(&Kind::Struct(&DELETE_ACLS_RESULTS))),
];
static CLIENT_QUOTA_ENTITY: [Field; 2] = [Field::new("entity_type", STR), Field::new("entity_name", STR).nullable(0)];
static CLIENT_QUOTA_VALUE: [Field; 2] = [Field::new("key", STR), Field::new("value", INT64)];
static CLIENT_QUOTA: [Field; 2] = [
    Field::new("entity", Kind::Array(&Kind::Struct(&CLIENT_QUOTA_ENTITY))),
    Field::new("values", Kind::Array(&Kind::Struct(&CLIENT_QUOTA_VALUE))),
];
static DESCRIBE_CLIENT_QUOTAS: [Field; 4] = [
    Field::new("throttle_time_ms", INT32),
    Field::new("error_code", INT16),
    Field::new("error_message", STR).nullable(0),
    Field::new("entries", Kind::Array(&Kind::Struct(&CLIENT_QUOTA))).nullable(0),
];
static CREDENTIAL_INFO: [Field; 2] = [Field::new("mechanism", INT8), Field::new("iterations", INT32)];
static DESCRIBE_USER_SCRAM_CREDENTIALS_RESULTS: [Field; 4] = [
    Field::new("user", STR),
    Field::new("error_code", INT16),
    Field::new("error_message", STR).nullable(0),
    Field::new("credential_infos", Kind::Array(&Kind::Struct(&CREDENTIAL_INFO))),
];
static DESCRIBE_USER_SCRAM_CREDENTIALS: [Field; 4] = [
    Field::new("throttle_time_ms", INT32),
    Field::new("error_code", INT16),
    Field::new("error_message", STR).nullable(0),
    Field::new("results", Kind::Array(&Kind::Struct(&DESCRIBE_USER_SCRAM_CREDENTIALS_RESULTS))),
];
static ALTER_USER_SCRAM_CREDENTIALS_RESULTS: [Field; 3] =
    [Field::new("user", STR), Field::new("error_code", INT16), Field::new("error_message", STR).nullable(0)];
static ALTER_USER_SCRAM_CREDENTIALS: [Field; 2] = [
    Field::new("throttle_time_ms", INT32),
    Field::new("results", Kind::Array(&Kind::Struct(&ALTER_USER_SCRAM_CREDENTIALS_RESULTS))),
];
static INCREMENTAL_ALTER_CONFIGS_RESPONSES: [Field; 4] = [
    Field::new("error_code", INT16),
    Field::new("error_message", STR).nullable(0),
    Field::new("resource_type", INT8),
    Field::new("resource_name", STR),
];
static INCREMENTAL_ALTER_CONFIGS: [Field; 2] = [
    Field::new("throttle_time_ms", INT32),
    Field::new("responses", Kind::Array(&Kind::Struct(&INCREMENTAL_ALTER_CONFIGS_RESPONSES))),
];
static DESCRIBE_CONFIGS: [Field; 2] = [
    Field::new("throttle_time_ms", INT32),
    Field::new("results", Kind::Array(&Kind::Struct(&DESCRIBE_CONFIGS_RESULTS))),
];
static CREATE_PARTITIONS_RESULTS: [Field; 3] =
    [Field::new("name", STR), Field::new("error_code", INT16), Field::new("error_message", STR).nullable(0)];
static CREATE_PARTITIONS: [Field; 2] = [
    Field::new("throttle_time_ms", INT32),
    Field::new("results", Kind::Array(&Kind::Struct(&CREATE_PARTITIONS_RESULTS))),
];
static DELETE_GROUPS_RESULTS: [Field; 3] = [
    Field::new("group_id", STR),
    Field::new("error_code", INT16),
    Field::new("error_message", STR).from(3).nullable(3),
];
static DELETE_GROUPS: [Field; 2] =
    [Field::new("throttle_time_ms", INT32), Field::new("results", Kind::Array(&Kind::Struct(&DELETE_GROUPS_RESULTS)))];
static OFFSET_DELETE_PARTITIONS: [Field; 2] = [Field::new("partition_index", INT32), Field::new("error_code", INT16)];
static OFFSET_DELETE_TOPICS: [Field; 2] =
    [Field::new("name", STR), Field::new("partitions", Kind::Array(&Kind::Struct(&OFFSET_DELETE_PARTITIONS)))];
static OFFSET_DELETE: [Field; 3] = [
    Field::new("error_code", INT16),
    Field::new("throttle_time_ms", INT32),
    Field::new("topics", Kind::Array(&Kind::Struct(&OFFSET_DELETE_TOPICS))),
];
static DESCRIBE_CLUSTER_BROKERS: [Field; 5] = [
    Field::new("broker_id", INT32),
    Field::new("host", STR),
    Field::new("port", INT32),
    Field::new("rack", STR).nullable(0),
    Field::new("is_fenced", BOOL).from(2),
];
static DESCRIBE_CLUSTER: [Field; 8] = [
    Field::new("throttle_time_ms", INT32),
    Field::new("error_code", INT16),
    Field::new("error_message", STR).nullable(0),
    Field::new("endpoint_type", INT8).from(1),
    Field::new("cluster_id", STR),
    Field::new("controller_id", INT32),
    Field::new("brokers", Kind::Array(&Kind::Struct(&DESCRIBE_CLUSTER_BROKERS))),
    Field::new("cluster_authorized_operations", INT32).hidden(),
];
static CONSUMER_GROUP_HEARTBEAT_TOPIC_PARTITIONS: [Field; 2] =
    [Field::new("topic_id", UUID), Field::new("partitions", Kind::Array(&INT32S))];
static CONSUMER_GROUP_HEARTBEAT_ASSIGNMENT: [Field; 1] =
    [Field::new("topic_partitions", Kind::Array(&Kind::Struct(&CONSUMER_GROUP_HEARTBEAT_TOPIC_PARTITIONS)))];
static CONSUMER_GROUP_HEARTBEAT: [Field; 7] = [
    Field::new("throttle_time_ms", INT32),
    Field::new("error_code", INT16),
    Field::new("error_message", STR).nullable(0),
    Field::new("member_id", STR).nullable(0),
    Field::new("member_epoch", INT32),
    Field::new("heartbeat_interval_ms", INT32),
    Field::new("assignment", Kind::Struct(&CONSUMER_GROUP_HEARTBEAT_ASSIGNMENT)).nullable(0),
];

static CONSUMER_GROUP_DESCRIBE_TOPIC_PARTITIONS: [Field; 3] =
    [Field::new("topic_id", UUID), Field::new("topic_name", STR), Field::new("partitions", Kind::Array(&INT32S))];
static CONSUMER_GROUP_DESCRIBE_ASSIGNMENT: [Field; 1] =
    [Field::new("topic_partitions", Kind::Array(&Kind::Struct(&CONSUMER_GROUP_DESCRIBE_TOPIC_PARTITIONS)))];
static CONSUMER_GROUP_DESCRIBE_MEMBERS: [Field; 11] = [
    Field::new("member_id", STR),
    Field::new("instance_id", STR).nullable(0),
    Field::new("rack_id", STR).nullable(0),
    Field::new("member_epoch", INT32),
    Field::new("client_id", STR),
    Field::new("client_host", STR),
    Field::new("subscribed_topic_names", Kind::Array(&Kind::Str)),
    Field::new("subscribed_topic_regex", STR).nullable(0),
    Field::new("assignment", Kind::Struct(&CONSUMER_GROUP_DESCRIBE_ASSIGNMENT)),
    Field::new("target_assignment", Kind::Struct(&CONSUMER_GROUP_DESCRIBE_ASSIGNMENT)),
    Field::new("member_type", INT8).from(1),
];
static CONSUMER_GROUP_DESCRIBE_GROUPS: [Field; 9] = [
    Field::new("error_code", INT16),
    Field::new("error_message", STR).nullable(0),
    Field::new("group_id", STR),
    Field::new("group_state", STR),
    Field::new("group_epoch", INT32),
    Field::new("assignment_epoch", INT32),
    Field::new("assignor_name", STR),
    Field::new("members", Kind::Array(&Kind::Struct(&CONSUMER_GROUP_DESCRIBE_MEMBERS))),
    Field::new("authorized_operations", INT32).hidden(),
];
static CONSUMER_GROUP_DESCRIBE: [Field; 2] = [
    Field::new("throttle_time_ms", INT32),
    Field::new("groups", Kind::Array(&Kind::Struct(&CONSUMER_GROUP_DESCRIBE_GROUPS))),
];

/// The fields of an answer.
pub(crate) fn answer(api_key: i16) -> Option<&'static [Field]> {
    match api_key {
        versions::PRODUCE => Some(&PRODUCE),
        versions::FETCH => Some(&FETCH),
        versions::LIST_OFFSETS => Some(&LIST_OFFSETS),
        versions::METADATA => Some(&METADATA),
        versions::OFFSET_COMMIT => Some(&OFFSET_COMMIT),
        versions::OFFSET_FETCH => Some(&OFFSET_FETCH),
        versions::FIND_COORDINATOR => Some(&FIND_COORDINATOR),
        versions::JOIN_GROUP => Some(&JOIN_GROUP),
        versions::HEARTBEAT => Some(&HEARTBEAT),
        versions::LEAVE_GROUP => Some(&LEAVE_GROUP),
        versions::SYNC_GROUP => Some(&SYNC_GROUP),
        versions::DESCRIBE_GROUPS => Some(&DESCRIBE_GROUPS),
        versions::LIST_GROUPS => Some(&LIST_GROUPS),
        versions::API_VERSIONS => Some(&API_VERSIONS),
        versions::CREATE_TOPICS => Some(&CREATE_TOPICS),
        versions::DELETE_TOPICS => Some(&DELETE_TOPICS),
        versions::DELETE_RECORDS => Some(&DELETE_RECORDS),
        versions::INIT_PRODUCER_ID => Some(&INIT_PRODUCER_ID),
        versions::ADD_PARTITIONS_TO_TXN => Some(&transactions::ADD_PARTITIONS_TO_TXN_ANSWER),
        versions::ADD_OFFSETS_TO_TXN => Some(&transactions::ADD_OFFSETS_TO_TXN_ANSWER),
        versions::END_TXN => Some(&transactions::END_TXN_ANSWER),
        versions::WRITE_TXN_MARKERS => Some(&transactions::WRITE_TXN_MARKERS_ANSWER),
        versions::TXN_OFFSET_COMMIT => Some(&transactions::TXN_OFFSET_COMMIT_ANSWER),
        versions::DESCRIBE_PRODUCERS => Some(&transactions::DESCRIBE_PRODUCERS_ANSWER),
        versions::DESCRIBE_TRANSACTIONS => Some(&transactions::DESCRIBE_TRANSACTIONS_ANSWER),
        versions::LIST_TRANSACTIONS => Some(&transactions::LIST_TRANSACTIONS_ANSWER),
        versions::OFFSET_FOR_LEADER_EPOCH => Some(&OFFSET_FOR_LEADER_EPOCH),
        versions::DESCRIBE_CONFIGS => Some(&DESCRIBE_CONFIGS),
        versions::DESCRIBE_LOG_DIRS => Some(&DESCRIBE_LOG_DIRS),
        versions::ELECT_LEADERS => Some(&ELECT_LEADERS),
        versions::LIST_PARTITION_REASSIGNMENTS => Some(&LIST_PARTITION_REASSIGNMENTS),
        versions::LIST_CONFIG_RESOURCES => Some(&LIST_CONFIG_RESOURCES),
        versions::DESCRIBE_ACLS => Some(&DESCRIBE_ACLS),
        versions::CREATE_ACLS => Some(&CREATE_ACLS),
        versions::DELETE_ACLS => Some(&DELETE_ACLS),
        versions::DESCRIBE_CLIENT_QUOTAS => Some(&DESCRIBE_CLIENT_QUOTAS),
        versions::DESCRIBE_USER_SCRAM_CREDENTIALS => Some(&DESCRIBE_USER_SCRAM_CREDENTIALS),
        versions::ALTER_USER_SCRAM_CREDENTIALS => Some(&ALTER_USER_SCRAM_CREDENTIALS),
        versions::INCREMENTAL_ALTER_CONFIGS => Some(&INCREMENTAL_ALTER_CONFIGS),
        versions::CREATE_PARTITIONS => Some(&CREATE_PARTITIONS),
        versions::DELETE_GROUPS => Some(&DELETE_GROUPS),
        versions::OFFSET_DELETE => Some(&OFFSET_DELETE),
        versions::DESCRIBE_CLUSTER => Some(&DESCRIBE_CLUSTER),
        versions::CONSUMER_GROUP_HEARTBEAT => Some(&CONSUMER_GROUP_HEARTBEAT),
        versions::CONSUMER_GROUP_DESCRIBE => Some(&CONSUMER_GROUP_DESCRIBE),
        _ => None,
    }
}
