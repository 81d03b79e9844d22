//! The log under `__consumer_offsets`, in memory or in a data directory.

pub mod acls;
pub mod cluster;
pub mod data_dir;
pub mod group_configs;
pub mod newer_groups;
pub mod node_file;
pub mod notes;
pub mod offsets_log;
pub mod users;

/// The topic of committed offsets, which always exists.
pub const CONSUMER_OFFSETS: &str = "__consumer_offsets";

/// The topic of transactional ids, which the first of them creates.
pub const TRANSACTION_STATE: &str = "__transaction_state";
