//! Requests and answers of transactions, in the versions of clients.

use super::{BOOL, INT16, INT32, INT32S, INT64, INT64S, STRS};
use crate::schema::{Field, Kind};

pub(crate) static ADD_PARTITIONS_TO_TXN: [Field; 4] = [
    Field::new("transactional_id", Kind::Str),
    Field::new("producer_id", INT64),
    Field::new("producer_epoch", INT16),
    Field::new("topics", Kind::Array(&Kind::Struct(&ADD_PARTITIONS_TO_TXN_TOPIC))),
];
static ADD_PARTITIONS_TO_TXN_TOPIC: [Field; 2] =
    [Field::new("name", Kind::Str), Field::new("partitions", Kind::Array(&INT32S))];

pub(crate) static ADD_PARTITIONS_TO_TXN_ANSWER: [Field; 2] = [
    Field::new("throttle_time_ms", INT32),
    Field::new("results_by_topic", Kind::Array(&Kind::Struct(&ADD_PARTITIONS_TO_TXN_RESULT))),
];
static ADD_PARTITIONS_TO_TXN_RESULT: [Field; 2] = [
    Field::new("name", Kind::Str),
    Field::new("results_by_partition", Kind::Array(&Kind::Struct(&ADD_PARTITIONS_TO_TXN_PARTITION_RESULT))),
];
static ADD_PARTITIONS_TO_TXN_PARTITION_RESULT: [Field; 2] =
    [Field::new("partition_index", INT32), Field::new("partition_error_code", INT16)];

pub(crate) static ADD_OFFSETS_TO_TXN: [Field; 4] = [
    Field::new("transactional_id", Kind::Str),
    Field::new("producer_id", INT64),
    Field::new("producer_epoch", INT16),
    Field::new("group_id", Kind::Str),
];
pub(crate) static ADD_OFFSETS_TO_TXN_ANSWER: [Field; 2] =
    [Field::new("throttle_time_ms", INT32), Field::new("error_code", INT16)];

pub(crate) static END_TXN: [Field; 4] = [
    Field::new("transactional_id", Kind::Str),
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

pub(crate) static DESCRIBE_TRANSACTIONS: [Field; 1] = [Field::new("transactional_ids", Kind::Array(&STRS))];
pub(crate) static DESCRIBE_TRANSACTIONS_ANSWER: [Field; 2] = [
    Field::new("throttle_time_ms", INT32),
    Field::new("transaction_states", Kind::Array(&Kind::Struct(&DESCRIBE_TRANSACTIONS_STATE))),
];
static DESCRIBE_TRANSACTIONS_STATE: [Field; 8] = [
    Field::new("error_code", INT16),
    Field::new("transactional_id", Kind::Str),
    Field::new("transaction_state", Kind::Str),
    Field::new("transaction_timeout_ms", INT32),
    Field::new("transaction_start_time_ms", INT64),
    Field::new("producer_id", INT64),
    Field::new("producer_epoch", INT16),
    Field::new("topics", Kind::Array(&Kind::Struct(&DESCRIBE_TRANSACTIONS_TOPIC))),
];
static DESCRIBE_TRANSACTIONS_TOPIC: [Field; 2] =
    [Field::new("topic", Kind::Str), Field::new("partitions", Kind::Array(&INT32S))];

pub(crate) static LIST_TRANSACTIONS: [Field; 3] = [
    Field::new("state_filters", Kind::Array(&STRS)),
    Field::new("producer_id_filters", Kind::Array(&INT64S)),
    Field::new("duration_filter", INT64).from(1),
];
pub(crate) static LIST_TRANSACTIONS_ANSWER: [Field; 4] = [
    Field::new("throttle_time_ms", INT32),
    Field::new("error_code", INT16),
    Field::new("unknown_state_filters", Kind::Array(&STRS)),
    Field::new("transaction_states", Kind::Array(&Kind::Struct(&LIST_TRANSACTIONS_STATE))),
];
static LIST_TRANSACTIONS_STATE: [Field; 3] = [
    Field::new("transactional_id", Kind::Str),
    Field::new("producer_id", INT64),
    Field::new("transaction_state", Kind::Str),
];
