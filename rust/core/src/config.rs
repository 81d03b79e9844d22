//! The settings of the coordinator, under Kafka's names and with Kafka's defaults.

use serde::{Deserialize, Serialize};

/// Time that a new member has for its first join, whatever its session timeout, in milliseconds (docs/protocol.md
/// §4.7).
pub const NEW_MEMBER_JOIN_TIMEOUT_MS: u64 = 300_000;

/// Settings of one coordinator partition.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Config {
    /// `group.min.session.timeout.ms`, in milliseconds.
    pub group_min_session_timeout_ms: i32,
    /// `group.max.session.timeout.ms`, in milliseconds.
    pub group_max_session_timeout_ms: i32,
    /// `group.initial.rebalance.delay.ms`, in milliseconds.
    pub group_initial_rebalance_delay_ms: u32,
    /// `group.max.size`, in members.
    pub group_max_size: u32,
    /// `offset.metadata.max.bytes`, in UTF-16 code units.
    pub offset_metadata_max_bytes: u32,
    /// `offsets.commit.timeout.ms`, in milliseconds.
    pub offsets_commit_timeout_ms: u32,
    /// `offsets.retention.minutes`, in minutes.
    pub offsets_retention_minutes: u32,
    /// `offsets.retention.check.interval.ms`, in milliseconds.
    pub offsets_retention_check_interval_ms: u64,
    /// Limit of pending member ids per group (S24). Kafka has no such setting.
    pub group_max_pending_members: u32,
    /// Number of rebalances per group that `explain` remembers. Kafka has no such setting.
    pub rebalance_history: u32,
}

impl Default for Config {
    fn default() -> Config {
        Config {
            group_min_session_timeout_ms: 6_000,
            group_max_session_timeout_ms: 1_800_000,
            group_initial_rebalance_delay_ms: 3_000,
            group_max_size: i32::MAX as u32,
            offset_metadata_max_bytes: 4_096,
            offsets_commit_timeout_ms: 5_000,
            offsets_retention_minutes: 10_080,
            offsets_retention_check_interval_ms: 600_000,
            group_max_pending_members: 100_000,
            rebalance_history: 32,
        }
    }
}
