//! The settings of consumer groups, under Kafka's names and with Kafka's defaults (docs/consumer-protocol.md §20).

use serde::{Deserialize, Serialize};

/// Server assignors, the default one first.
pub const ASSIGNORS: [&str; 2] = ["uniform", "range"];

/// Settings of all consumer groups of a coordinator.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConsumerConfig {
    /// Whether `group.coordinator.rebalance.protocols` has `consumer`.
    pub enabled: bool,
    /// `group.consumer.session.timeout.ms`
    pub session_timeout_ms: i32,
    /// `group.consumer.heartbeat.interval.ms`
    pub heartbeat_interval_ms: i32,
    /// `group.consumer.assignment.interval.ms`
    pub assignment_interval_ms: i32,
    /// `group.consumer.max.size`
    pub max_size: u32,
}

impl Default for ConsumerConfig {
    fn default() -> ConsumerConfig {
        ConsumerConfig {
            enabled: false,
            session_timeout_ms: 45_000,
            heartbeat_interval_ms: 5_000,
            assignment_interval_ms: 1_000,
            max_size: i32::MAX as u32,
        }
    }
}
