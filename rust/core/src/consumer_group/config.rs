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
    /// What groups may set themselves.
    pub bounds: Bounds,
    /// `group.consumer.migration.policy`
    pub migration: Migration,
}

impl Default for ConsumerConfig {
    fn default() -> ConsumerConfig {
        ConsumerConfig {
            enabled: false,
            session_timeout_ms: 45_000,
            heartbeat_interval_ms: 5_000,
            assignment_interval_ms: 1_000,
            max_size: i32::MAX as u32,
            bounds: Bounds::default(),
            migration: Migration::Bidirectional,
        }
    }
}

impl ConsumerConfig {
    /// What applies to a group with these settings: a value beyond the bounds counts as the bound.
    pub fn of_group(&self, own: Option<&GroupSettings>) -> Timing {
        let own = own.copied().unwrap_or_default();
        let clamped = |own: Option<i32>, bounds: Range, of_broker: i32| {
            own.map_or(of_broker, |value| value.min(bounds.max).max(bounds.min))
        };
        let Bounds { session_timeout_ms, heartbeat_interval_ms, assignment_interval_ms } = self.bounds;
        Timing {
            session_timeout_ms: clamped(own.session_timeout_ms, session_timeout_ms, self.session_timeout_ms),
            heartbeat_interval_ms: clamped(
                own.heartbeat_interval_ms,
                heartbeat_interval_ms,
                self.heartbeat_interval_ms,
            ),
            assignment_interval_ms: clamped(
                own.assignment_interval_ms,
                assignment_interval_ms,
                self.assignment_interval_ms,
            ),
        }
    }
}

/// The least and the greatest value that a group may set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Range {
    /// The least.
    pub min: i32,
    /// The greatest.
    pub max: i32,
}

/// The bounds of a group's own settings, from the `.min.` and `.max.` settings of the broker.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bounds {
    /// Of `consumer.session.timeout.ms`.
    pub session_timeout_ms: Range,
    /// Of `consumer.heartbeat.interval.ms`.
    pub heartbeat_interval_ms: Range,
    /// Of `consumer.assignment.interval.ms`.
    pub assignment_interval_ms: Range,
}

impl Default for Bounds {
    fn default() -> Bounds {
        Bounds {
            session_timeout_ms: Range { min: 45_000, max: 60_000 },
            heartbeat_interval_ms: Range { min: 5_000, max: 15_000 },
            assignment_interval_ms: Range { min: 0, max: 15_000 },
        }
    }
}

/// A group's own settings; `None`: the broker's applies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct GroupSettings {
    /// `consumer.session.timeout.ms`
    pub session_timeout_ms: Option<i32>,
    /// `consumer.heartbeat.interval.ms`
    pub heartbeat_interval_ms: Option<i32>,
    /// `consumer.assignment.interval.ms`
    pub assignment_interval_ms: Option<i32>,
}

impl GroupSettings {
    /// The name of the assignment interval.
    pub const ASSIGNMENT_INTERVAL: &'static str = "consumer.assignment.interval.ms";
    /// The name of the heartbeat interval.
    pub const HEARTBEAT_INTERVAL: &'static str = "consumer.heartbeat.interval.ms";
    /// The name of the session timeout.
    pub const SESSION_TIMEOUT: &'static str = "consumer.session.timeout.ms";
    /// The names of the settings. The broker's setting that applies without one has `group.` before it.
    pub const NAMES: [&'static str; 3] =
        [GroupSettings::ASSIGNMENT_INTERVAL, GroupSettings::HEARTBEAT_INTERVAL, GroupSettings::SESSION_TIMEOUT];

    /// The value of the setting with this name; `None`: there is no such setting.
    pub fn value_mut(&mut self, name: &str) -> Option<&mut Option<i32>> {
        match name {
            GroupSettings::ASSIGNMENT_INTERVAL => Some(&mut self.assignment_interval_ms),
            GroupSettings::HEARTBEAT_INTERVAL => Some(&mut self.heartbeat_interval_ms),
            GroupSettings::SESSION_TIMEOUT => Some(&mut self.session_timeout_ms),
            _ => None,
        }
    }
}

/// The timing of one group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timing {
    /// How long a member may be silent.
    pub session_timeout_ms: i32,
    /// How often a member is to heartbeat.
    pub heartbeat_interval_ms: i32,
    /// How long a target stands at least.
    pub assignment_interval_ms: i32,
}

/// Which groups with members may change their protocol. Groups without members always may.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Migration {
    /// Classic groups may become consumer groups, and the other way round.
    Bidirectional,
    /// Classic groups may become consumer groups.
    Upgrade,
    /// Consumer groups may become classic groups.
    Downgrade,
    /// None may, and classic members may not join a consumer group.
    Disabled,
}

impl Migration {
    /// All policies with their names.
    pub const NAMES: [(&'static str, Migration); 4] = [
        ("bidirectional", Migration::Bidirectional),
        ("upgrade", Migration::Upgrade),
        ("downgrade", Migration::Downgrade),
        ("disabled", Migration::Disabled),
    ];

    /// Whether a classic group with members may become a consumer group.
    pub fn upgrades(self) -> bool {
        matches!(self, Migration::Bidirectional | Migration::Upgrade)
    }

    /// Whether a consumer group with members may become a classic group.
    pub fn downgrades(self) -> bool {
        matches!(self, Migration::Bidirectional | Migration::Downgrade)
    }
}
