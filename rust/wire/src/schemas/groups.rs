//! The fields of the requests that are decoded in place, for traces.

use crate::{
    schema::{Field, Kind},
    schemas::{ASSIGNMENT, BOOL, INT8, INT32, INT32S, INT64, STR, STRS, SUBSCRIPTION, UUID},
    versions,
};

static OFFSET_COMMIT_PARTITIONS: [Field; 4] = [
    Field::new("partition_index", INT32),
    Field::new("committed_offset", INT64),
    Field::new("committed_leader_epoch", INT32).from(6),
    Field::new("committed_metadata", STR).nullable(0),
];
static OFFSET_COMMIT_TOPICS: [Field; 3] = [
    Field::new("name", STR).to(9),
    Field::new("topic_id", UUID).from(10),
    Field::new("partitions", Kind::Array(&Kind::Struct(&OFFSET_COMMIT_PARTITIONS))),
];
static OFFSET_COMMIT: [Field; 6] = [
    Field::new("group_id", STR),
    Field::new("generation_id_or_member_epoch", INT32),
    Field::new("member_id", STR),
    Field::new("group_instance_id", STR).from(7).nullable(7),
    Field::new("retention_time_ms", INT64).to(4),
    Field::new("topics", Kind::Array(&Kind::Struct(&OFFSET_COMMIT_TOPICS))),
];
static OFFSET_FETCH_TOPICS: [Field; 2] =
    [Field::new("name", STR).to(7), Field::new("partition_indexes", Kind::Array(&INT32S)).to(7)];
static OFFSET_FETCH_GROUPS_TOPICS: [Field; 3] = [
    Field::new("name", STR).from(8).to(9),
    Field::new("topic_id", UUID).from(10),
    Field::new("partition_indexes", Kind::Array(&INT32S)).from(8),
];
static OFFSET_FETCH_GROUPS: [Field; 4] = [
    Field::new("group_id", STR).from(8),
    Field::new("member_id", STR).from(9).nullable(9),
    Field::new("member_epoch", INT32).from(9),
    Field::new("topics", Kind::Array(&Kind::Struct(&OFFSET_FETCH_GROUPS_TOPICS))).from(8).nullable(8),
];
static OFFSET_FETCH: [Field; 4] = [
    Field::new("group_id", STR).to(7),
    Field::new("topics", Kind::Array(&Kind::Struct(&OFFSET_FETCH_TOPICS))).to(7).nullable(2),
    Field::new("groups", Kind::Array(&Kind::Struct(&OFFSET_FETCH_GROUPS))).from(8),
    Field::new("require_stable", BOOL).from(7),
];
static FIND_COORDINATOR: [Field; 3] = [
    Field::new("key", STR).to(3),
    Field::new("key_type", INT8).from(1),
    Field::new("coordinator_keys", Kind::Array(&STRS)).from(4),
];
static JOIN_GROUP_PROTOCOLS: [Field; 2] = [Field::new("name", STR), Field::new("metadata", SUBSCRIPTION)];
static JOIN_GROUP: [Field; 8] = [
    Field::new("group_id", STR),
    Field::new("session_timeout_ms", INT32),
    Field::new("rebalance_timeout_ms", INT32).from(1),
    Field::new("member_id", STR),
    Field::new("group_instance_id", STR).from(5).nullable(5),
    Field::new("protocol_type", STR),
    Field::new("protocols", Kind::Array(&Kind::Struct(&JOIN_GROUP_PROTOCOLS))),
    Field::new("reason", STR).from(8).nullable(8),
];
static HEARTBEAT: [Field; 4] = [
    Field::new("group_id", STR),
    Field::new("generation_id", INT32),
    Field::new("member_id", STR),
    Field::new("group_instance_id", STR).from(3).nullable(3),
];
static LEAVE_GROUP_MEMBERS: [Field; 3] = [
    Field::new("member_id", STR).from(3),
    Field::new("group_instance_id", STR).from(3).nullable(3),
    Field::new("reason", STR).from(5).nullable(5),
];
static LEAVE_GROUP: [Field; 3] = [
    Field::new("group_id", STR),
    Field::new("member_id", STR).to(2),
    Field::new("members", Kind::Array(&Kind::Struct(&LEAVE_GROUP_MEMBERS))).from(3),
];
static SYNC_GROUP_ASSIGNMENTS: [Field; 2] = [Field::new("member_id", STR), Field::new("assignment", ASSIGNMENT)];
static SYNC_GROUP: [Field; 7] = [
    Field::new("group_id", STR),
    Field::new("generation_id", INT32),
    Field::new("member_id", STR),
    Field::new("group_instance_id", STR).from(3).nullable(3),
    Field::new("protocol_type", STR).from(5).nullable(5),
    Field::new("protocol_name", STR).from(5).nullable(5),
    Field::new("assignments", Kind::Array(&Kind::Struct(&SYNC_GROUP_ASSIGNMENTS))),
];
static DESCRIBE_GROUPS: [Field; 2] =
    [Field::new("groups", Kind::Array(&STRS)), Field::new("include_authorized_operations", BOOL).from(3)];
static LIST_GROUPS: [Field; 2] =
    [Field::new("states_filter", Kind::Array(&STRS)).from(4), Field::new("types_filter", Kind::Array(&STRS)).from(5)];
static API_VERSIONS: [Field; 4] = [
    Field::new("client_software_name", STR).from(3),
    Field::new("client_software_version", STR).from(3),
    Field::new("cluster_id", STR).from(5).nullable(5),
    Field::new("node_id", INT32).from(5),
];
static DELETE_GROUPS: [Field; 1] = [Field::new("groups_names", Kind::Array(&STRS))];
static OFFSET_DELETE_PARTITIONS: [Field; 1] = [Field::new("partition_index", INT32)];
static OFFSET_DELETE_TOPICS: [Field; 2] =
    [Field::new("name", STR), Field::new("partitions", Kind::Array(&Kind::Struct(&OFFSET_DELETE_PARTITIONS)))];
static OFFSET_DELETE: [Field; 2] =
    [Field::new("group_id", STR), Field::new("topics", Kind::Array(&Kind::Struct(&OFFSET_DELETE_TOPICS)))];

/// Returns the fields of such a request.
pub(crate) fn request(api_key: i16) -> Option<&'static [Field]> {
    match api_key {
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
        versions::DELETE_GROUPS => Some(&DELETE_GROUPS),
        versions::OFFSET_DELETE => Some(&OFFSET_DELETE),
        _ => None,
    }
}
