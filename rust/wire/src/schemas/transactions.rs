//! Requests and answers of transactions.

use super::{BOOL, INT8, INT16, INT32, INT32S, INT64, INT64S, STR, STRS, UUID};
use crate::schema::{Field, Kind};

pub(crate) static ADD_PARTITIONS_TO_TXN: [Field; 5] = [
    Field::new("transactions", Kind::Array(&Kind::Struct(&ADD_PARTITIONS_TO_TXN_TRANSACTION))).from(4),
    Field::new("transactional_id", STR).to(3),
    Field::new("producer_id", INT64).to(3),
    Field::new("producer_epoch", INT16).to(3),
    Field::new("topics", Kind::Array(&Kind::Struct(&ADD_PARTITIONS_TO_TXN_TOPIC))).to(3),
];
static ADD_PARTITIONS_TO_TXN_TRANSACTION: [Field; 5] = [
    Field::new("transactional_id", STR),
    Field::new("producer_id", INT64),
    Field::new("producer_epoch", INT16),
    Field::new("verify_only", BOOL),
    Field::new("topics", Kind::Array(&Kind::Struct(&ADD_PARTITIONS_TO_TXN_TOPIC))),
];
static ADD_PARTITIONS_TO_TXN_TOPIC: [Field; 2] =
    [Field::new("name", STR), Field::new("partitions", Kind::Array(&INT32S))];

pub(crate) static ADD_PARTITIONS_TO_TXN_ANSWER: [Field; 4] = [
    Field::new("throttle_time_ms", INT32),
    Field::new("error_code", INT16).from(4),
    Field::new("results_by_transaction", Kind::Array(&Kind::Struct(&ADD_PARTITIONS_TO_TXN_TRANSACTION_RESULT))).from(4),
    Field::new("results_by_topic", Kind::Array(&Kind::Struct(&ADD_PARTITIONS_TO_TXN_RESULT))).to(3),
];
static ADD_PARTITIONS_TO_TXN_TRANSACTION_RESULT: [Field; 2] = [
    Field::new("transactional_id", STR),
    Field::new("topic_results", Kind::Array(&Kind::Struct(&ADD_PARTITIONS_TO_TXN_RESULT))),
];
static ADD_PARTITIONS_TO_TXN_RESULT: [Field; 2] = [
    Field::new("name", STR),
    Field::new("results_by_partition", Kind::Array(&Kind::Struct(&ADD_PARTITIONS_TO_TXN_PARTITION_RESULT))),
];
static ADD_PARTITIONS_TO_TXN_PARTITION_RESULT: [Field; 2] =
    [Field::new("partition_index", INT32), Field::new("partition_error_code", INT16)];

pub(crate) static ADD_OFFSETS_TO_TXN: [Field; 4] = [
    Field::new("transactional_id", STR),
    Field::new("producer_id", INT64),
    Field::new("producer_epoch", INT16),
    Field::new("group_id", STR),
];
pub(crate) static ADD_OFFSETS_TO_TXN_ANSWER: [Field; 2] =
    [Field::new("throttle_time_ms", INT32), Field::new("error_code", INT16)];

pub(crate) static END_TXN: [Field; 4] = [
    Field::new("transactional_id", STR),
    Field::new("producer_id", INT64),
    Field::new("producer_epoch", INT16),
    Field::new("committed", BOOL),
];
pub(crate) static END_TXN_ANSWER: [Field; 4] = [
    Field::new("throttle_time_ms", INT32),
    Field::new("error_code", INT16),
    Field::new("producer_id", INT64).from(5),
    Field::new("producer_epoch", INT16).from(5),
];

pub(crate) static WRITE_TXN_MARKERS: [Field; 1] =
    [Field::new("markers", Kind::Array(&Kind::Struct(&WRITE_TXN_MARKERS_MARKER)))];
static WRITE_TXN_MARKERS_MARKER: [Field; 6] = [
    Field::new("producer_id", INT64),
    Field::new("producer_epoch", INT16),
    Field::new("transaction_result", BOOL),
    Field::new("topics", Kind::Array(&Kind::Struct(&WRITE_TXN_MARKERS_TOPIC))),
    Field::new("coordinator_epoch", INT32),
    Field::new("transaction_version", INT8).from(2),
];
static WRITE_TXN_MARKERS_TOPIC: [Field; 2] =
    [Field::new("name", STR), Field::new("partition_indexes", Kind::Array(&INT32S))];
pub(crate) static WRITE_TXN_MARKERS_ANSWER: [Field; 1] =
    [Field::new("markers", Kind::Array(&Kind::Struct(&WRITE_TXN_MARKERS_RESULT)))];
static WRITE_TXN_MARKERS_RESULT: [Field; 2] = [
    Field::new("producer_id", INT64),
    Field::new("topics", Kind::Array(&Kind::Struct(&WRITE_TXN_MARKERS_TOPIC_RESULT))),
];
static WRITE_TXN_MARKERS_TOPIC_RESULT: [Field; 2] =
    [Field::new("name", STR), Field::new("partitions", Kind::Array(&Kind::Struct(&PARTITION_RESULT)))];
static PARTITION_RESULT: [Field; 2] = [Field::new("partition_index", INT32), Field::new("error_code", INT16)];

pub(crate) static TXN_OFFSET_COMMIT: [Field; 8] = [
    Field::new("transactional_id", STR),
    Field::new("group_id", STR),
    Field::new("producer_id", INT64),
    Field::new("producer_epoch", INT16),
    Field::new("generation_id_or_member_epoch", INT32).from(3),
    Field::new("member_id", STR).from(3),
    Field::new("group_instance_id", STR).from(3).nullable(3),
    Field::new("topics", Kind::Array(&Kind::Struct(&TXN_OFFSET_COMMIT_TOPIC))),
];
static TXN_OFFSET_COMMIT_TOPIC: [Field; 3] = [
    Field::new("name", STR).to(5),
    Field::new("topic_id", UUID).from(6),
    Field::new("partitions", Kind::Array(&Kind::Struct(&TXN_OFFSET_COMMIT_PARTITION))),
];
static TXN_OFFSET_COMMIT_PARTITION: [Field; 4] = [
    Field::new("partition_index", INT32),
    Field::new("committed_offset", INT64),
    Field::new("committed_leader_epoch", INT32).from(2),
    Field::new("committed_metadata", STR).nullable(0),
];
pub(crate) static TXN_OFFSET_COMMIT_ANSWER: [Field; 2] = [
    Field::new("throttle_time_ms", INT32),
    Field::new("topics", Kind::Array(&Kind::Struct(&TXN_OFFSET_COMMIT_TOPIC_RESULT))),
];
static TXN_OFFSET_COMMIT_TOPIC_RESULT: [Field; 3] = [
    Field::new("name", STR).to(5),
    Field::new("topic_id", UUID).from(6),
    Field::new("partitions", Kind::Array(&Kind::Struct(&PARTITION_RESULT))),
];

pub(crate) static DESCRIBE_PRODUCERS: [Field; 1] =
    [Field::new("topics", Kind::Array(&Kind::Struct(&WRITE_TXN_MARKERS_TOPIC)))];
pub(crate) static DESCRIBE_PRODUCERS_ANSWER: [Field; 2] = [
    Field::new("throttle_time_ms", INT32),
    Field::new("topics", Kind::Array(&Kind::Struct(&DESCRIBE_PRODUCERS_TOPIC))),
];
static DESCRIBE_PRODUCERS_TOPIC: [Field; 2] =
    [Field::new("name", STR), Field::new("partitions", Kind::Array(&Kind::Struct(&DESCRIBE_PRODUCERS_PARTITION)))];
static DESCRIBE_PRODUCERS_PARTITION: [Field; 4] = [
    Field::new("partition_index", INT32),
    Field::new("error_code", INT16),
    Field::new("error_message", STR).nullable(0),
    Field::new("active_producers", Kind::Array(&Kind::Struct(&DESCRIBE_PRODUCERS_PRODUCER))),
];
static DESCRIBE_PRODUCERS_PRODUCER: [Field; 6] = [
    Field::new("producer_id", INT64),
    Field::new("producer_epoch", INT32),
    Field::new("last_sequence", INT32),
    Field::new("last_timestamp", INT64),
    Field::new("coordinator_epoch", INT32),
    Field::new("current_txn_start_offset", INT64),
];

pub(crate) static DESCRIBE_TRANSACTIONS: [Field; 1] = [Field::new("transactional_ids", Kind::Array(&STRS))];
pub(crate) static DESCRIBE_TRANSACTIONS_ANSWER: [Field; 2] = [
    Field::new("throttle_time_ms", INT32),
    Field::new("transaction_states", Kind::Array(&Kind::Struct(&DESCRIBE_TRANSACTIONS_STATE))),
];
static DESCRIBE_TRANSACTIONS_STATE: [Field; 8] = [
    Field::new("error_code", INT16),
    Field::new("transactional_id", STR),
    Field::new("transaction_state", STR),
    Field::new("transaction_timeout_ms", INT32),
    Field::new("transaction_start_time_ms", INT64),
    Field::new("producer_id", INT64),
    Field::new("producer_epoch", INT16),
    Field::new("topics", Kind::Array(&Kind::Struct(&DESCRIBE_TRANSACTIONS_TOPIC))),
];
static DESCRIBE_TRANSACTIONS_TOPIC: [Field; 2] =
    [Field::new("topic", STR), Field::new("partitions", Kind::Array(&INT32S))];

pub(crate) static LIST_TRANSACTIONS: [Field; 4] = [
    Field::new("state_filters", Kind::Array(&STRS)),
    Field::new("producer_id_filters", Kind::Array(&INT64S)),
    Field::new("duration_filter", INT64).from(1),
    Field::new("transactional_id_pattern", STR).from(2).nullable(2),
];
pub(crate) static LIST_TRANSACTIONS_ANSWER: [Field; 4] = [
    Field::new("throttle_time_ms", INT32),
    Field::new("error_code", INT16),
    Field::new("unknown_state_filters", Kind::Array(&STRS)),
    Field::new("transaction_states", Kind::Array(&Kind::Struct(&LIST_TRANSACTIONS_STATE))),
];
static LIST_TRANSACTIONS_STATE: [Field; 3] =
    [Field::new("transactional_id", STR), Field::new("producer_id", INT64), Field::new("transaction_state", STR)];
