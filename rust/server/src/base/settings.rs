//! The settings that the server honours, under Kafka's names and with the defaults of Kafka 4.4. One table.

use std::fmt;

use rota_core::{config::Config, consumer_group::config::ConsumerConfig};

use super::{
    names::Hint,
    topic_settings::{PARTITIONS_PER_TOPIC_MAX, TopicSettings},
};

/// What a setting takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A whole number from the first to the second, both included.
    Int(i64, i64),
    /// `true` or `false`.
    Bool,
    /// Group protocols: `classic`, or `classic,consumer`.
    Protocols,
}

/// One setting.
#[derive(Debug)]
pub struct Setting {
    /// Kafka's name.
    pub name: &'static str,
    /// What it takes.
    pub kind: Kind,
    /// Kafka's default, as text.
    pub default: &'static str,
    /// What it does.
    pub effect: &'static str,
}

const INT_MAX: i64 = i32::MAX as i64;

macro_rules! settings {
    ($($constant:ident = $name:literal, $kind:expr, $default:literal, $effect:literal;)+) => {
        /// Every setting, by name.
        pub static SETTINGS: &[Setting] = &[$(
            Setting { name: $name, kind: $kind, default: $default, effect: $effect },
        )+];

        #[expect(non_camel_case_types, reason = "numbers the constants below")]
        enum Index { $($constant,)+ }
        $(const $constant: usize = Index::$constant as usize;)+
    };
}

settings! {
    AUTO_CREATE_TOPICS_ENABLE = "auto.create.topics.enable", Kind::Bool, "true",
        "whether Metadata creates the topics that it is asked about";
    CONNECTIONS_MAX_IDLE_MS = "connections.max.idle.ms", Kind::Int(-1, i64::MAX / 2), "600000",
        "a connection that is silent for so long, with no request waiting, is closed; -1: never";
    GROUP_CONSUMER_ASSIGNMENT_INTERVAL_MS = "group.consumer.assignment.interval.ms", Kind::Int(0, 15_000), "1000",
        "consumer groups: the shortest time between two target assignments of a group";
    GROUP_CONSUMER_HEARTBEAT_INTERVAL_MS = "group.consumer.heartbeat.interval.ms", Kind::Int(1, INT_MAX), "5000",
        "consumer groups: how often members are to heartbeat";
    GROUP_CONSUMER_MAX_SIZE = "group.consumer.max.size", Kind::Int(1, INT_MAX), "2147483647",
        "consumer groups: how many members a group may have";
    GROUP_CONSUMER_SESSION_TIMEOUT_MS = "group.consumer.session.timeout.ms", Kind::Int(1, INT_MAX), "45000",
        "consumer groups: how long a member may be silent";
    GROUP_COORDINATOR_REBALANCE_PROTOCOLS = "group.coordinator.rebalance.protocols", Kind::Protocols, "classic",
        "the group protocols that are served: classic, or classic,consumer";
    GROUP_INITIAL_REBALANCE_DELAY_MS = "group.initial.rebalance.delay.ms", Kind::Int(0, INT_MAX), "3000",
        "how long an empty group waits for more members";
    GROUP_MAX_SESSION_TIMEOUT_MS = "group.max.session.timeout.ms", Kind::Int(0, INT_MAX), "1800000",
        "the longest session timeout that a member may ask for";
    GROUP_MAX_SIZE = "group.max.size", Kind::Int(1, INT_MAX), "2147483647",
        "how many members a group may have";
    GROUP_MIN_SESSION_TIMEOUT_MS = "group.min.session.timeout.ms", Kind::Int(0, INT_MAX), "6000",
        "the shortest session timeout that a member may ask for";
    LOG_RETENTION_BYTES = "log.retention.bytes", Kind::Int(-1, i64::MAX / 2), "-1",
        "bytes that a partition keeps, oldest dropped first; -1: all";
    LOG_RETENTION_CHECK_INTERVAL_MS = "log.retention.check.interval.ms", Kind::Int(1, i64::MAX / 2), "300000",
        "how often messages on disk that were kept long enough are looked for";
    LOG_RETENTION_MS = "log.retention.ms", Kind::Int(-1, i64::MAX / 2), "604800000",
        "how long a finished segment of messages on disk is kept; -1: for ever";
    MAX_CONNECTIONS = "max.connections", Kind::Int(0, INT_MAX), "2147483647",
        "how many connections may be open; one more is closed at once";
    MESSAGE_MAX_BYTES = "message.max.bytes", Kind::Int(0, INT_MAX), "1048588",
        "the largest record batch that Produce takes";
    NUM_PARTITIONS = "num.partitions", Kind::Int(1, PARTITIONS_PER_TOPIC_MAX as i64), "1",
        "partitions of a topic that is created without a number";
    OFFSET_METADATA_MAX_BYTES = "offset.metadata.max.bytes", Kind::Int(0, INT_MAX), "4096",
        "how long the metadata string of a commit may be";
    OFFSETS_COMMIT_TIMEOUT_MS = "offsets.commit.timeout.ms", Kind::Int(1, INT_MAX), "5000",
        "how long a request waits for the log";
    OFFSETS_RETENTION_CHECK_INTERVAL_MS = "offsets.retention.check.interval.ms", Kind::Int(1, i64::MAX / 2), "600000",
        "how often offsets and groups that were kept long enough are looked for";
    OFFSETS_RETENTION_MINUTES = "offsets.retention.minutes", Kind::Int(1, INT_MAX), "10080",
        "how long offsets are kept that nobody uses any more";
    OFFSETS_TOPIC_NUM_PARTITIONS = "offsets.topic.num.partitions", Kind::Int(1, 10_000), "50",
        "partitions of __consumer_offsets, each with a coordinator of its own";
    OFFSETS_TOPIC_SEGMENT_BYTES = "offsets.topic.segment.bytes", Kind::Int(4_096, INT_MAX), "104857600",
        "with a data directory: a segment, of any topic, ends before it has more bytes; finished ones are compacted";
    SOCKET_REQUEST_MAX_BYTES = "socket.request.max.bytes", Kind::Int(1, INT_MAX), "104857600",
        "the largest request; a connection that announces more is closed";
}

/// Why a setting was refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SettingError {
    /// No setting has this name.
    Unknown {
        /// As given.
        name: String,
        /// The setting that was probably meant.
        hint: Hint,
    },
    /// The value is not what the setting takes.
    BadValue {
        /// The setting.
        name: &'static str,
        /// As given.
        value: String,
        /// What it takes.
        kind: Kind,
    },
    /// The lowest value that is allowed is above the highest.
    Crossed {
        /// The setting of the lowest.
        low: &'static str,
        /// Its value.
        low_value: i64,
        /// The setting of the highest.
        high: &'static str,
        /// Its value.
        high_value: i64,
    },
}

impl fmt::Display for SettingError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SettingError::Unknown { name, hint: hint @ Hint::Nearest(_) } => {
                write!(out, "unknown setting `{name}`; {hint}")
            }
            SettingError::Unknown { name, hint } => {
                write!(out, "unknown setting `{name}`; {hint}: `rota settings` lists them")
            }
            SettingError::BadValue { name, value, kind } => {
                write!(out, "`{name}` is `{value}`, expected {kind}")
            }
            SettingError::Crossed { low, low_value, high, high_value } => {
                write!(out, "`{low}` is `{low_value}`, above `{high}`, which is `{high_value}`: set both")
            }
        }
    }
}

impl std::error::Error for SettingError {}

impl fmt::Display for Kind {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Kind::Int(low, high) => write!(out, "a whole number from {low} to {high}"),
            Kind::Bool => write!(out, "`true` or `false`"),
            Kind::Protocols => write!(out, "`classic` or `classic,consumer`"),
        }
    }
}

impl Kind {
    /// The number that `text` stands for, with 1 for `true`.
    fn parse(self, text: &str) -> Option<i64> {
        let text = text.trim();
        match self {
            Kind::Int(low, high) => text.parse().ok().filter(|value| (low..=high).contains(value)),
            Kind::Bool if text.eq_ignore_ascii_case("true") => Some(1),
            Kind::Bool if text.eq_ignore_ascii_case("false") => Some(0),
            Kind::Bool => None,
            Kind::Protocols => protocols(text),
        }
    }

    fn text(self, value: i64) -> String {
        match self {
            Kind::Int(..) => value.to_string(),
            Kind::Bool => (value != 0).to_string(),
            Kind::Protocols if value == CONSUMER_PROTOCOL => "classic,consumer".to_owned(),
            Kind::Protocols => "classic".to_owned(),
        }
    }
}

/// The values of [`Kind::Protocols`].
const CLASSIC_PROTOCOL: i64 = 0;
const CONSUMER_PROTOCOL: i64 = 1;

/// A list of group protocols; `classic` must be among them, as in Kafka.
fn protocols(text: &str) -> Option<i64> {
    let mut names: Vec<String> = text.split(',').map(|name| name.trim().to_ascii_lowercase()).collect();
    names.sort_unstable();
    match names.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["classic"] => Some(CLASSIC_PROTOCOL),
        ["classic", "consumer"] => Some(CONSUMER_PROTOCOL),
        _ => None,
    }
}

/// The values of all settings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    values: Vec<i64>,
}

impl Default for Settings {
    fn default() -> Settings {
        let default = |setting: &Setting| setting.kind.parse(setting.default).unwrap_or_default();
        Settings { values: SETTINGS.iter().map(default).collect() }
    }
}

impl Settings {
    /// Sets one setting from text.
    pub fn set(&mut self, name: &str, value: &str) -> Result<(), SettingError> {
        let Some(index) = SETTINGS.iter().position(|setting| setting.name == name.trim()) else {
            let hint = Hint::new(name, SETTINGS.iter().map(|setting| setting.name));
            return Err(SettingError::Unknown { name: name.to_owned(), hint });
        };
        let Setting { name, kind, .. } = SETTINGS[index];
        let bad_value = || SettingError::BadValue { name, value: value.to_owned(), kind };
        self.values[index] = kind.parse(value).ok_or_else(bad_value)?;
        Ok(())
    }

    /// Whether the settings agree with each other.
    pub fn check(&self) -> Result<(), SettingError> {
        let (low, high) = (GROUP_MIN_SESSION_TIMEOUT_MS, GROUP_MAX_SESSION_TIMEOUT_MS);
        let (low_value, high_value) = (self.int(low), self.int(high));
        if low_value > high_value {
            let (low, high) = (SETTINGS[low].name, SETTINGS[high].name);
            return Err(SettingError::Crossed { low, low_value, high, high_value });
        }
        Ok(())
    }

    /// (name, default, value) of every setting, by name.
    pub fn rows(&self) -> Vec<(&'static str, &'static str, String)> {
        let row = |(setting, value): (&Setting, &i64)| (setting.name, setting.default, setting.kind.text(*value));
        SETTINGS.iter().zip(&self.values).map(row).collect()
    }

    /// The value of one setting, as text; `None` if there is no such setting.
    pub fn value(&self, name: &str) -> Option<String> {
        let index = SETTINGS.iter().position(|setting| setting.name == name)?;
        Some(SETTINGS[index].kind.text(self.values[index]))
    }

    fn int(&self, index: usize) -> i64 {
        self.values[index]
    }

    /// The settings of every coordinator partition.
    pub fn coordinator(&self) -> Config {
        Config {
            group_min_session_timeout_ms: self.int(GROUP_MIN_SESSION_TIMEOUT_MS) as i32,
            group_max_session_timeout_ms: self.int(GROUP_MAX_SESSION_TIMEOUT_MS) as i32,
            group_initial_rebalance_delay_ms: self.int(GROUP_INITIAL_REBALANCE_DELAY_MS) as u32,
            group_max_size: self.int(GROUP_MAX_SIZE) as u32,
            offset_metadata_max_bytes: self.int(OFFSET_METADATA_MAX_BYTES) as u32,
            offsets_commit_timeout_ms: self.int(OFFSETS_COMMIT_TIMEOUT_MS) as u32,
            offsets_retention_minutes: self.int(OFFSETS_RETENTION_MINUTES) as u32,
            offsets_retention_check_interval_ms: self.int(OFFSETS_RETENTION_CHECK_INTERVAL_MS) as u64,
            ..Config::default()
        }
    }

    /// The settings of consumer groups.
    pub fn consumer_groups(&self) -> ConsumerConfig {
        ConsumerConfig {
            enabled: self.int(GROUP_COORDINATOR_REBALANCE_PROTOCOLS) == CONSUMER_PROTOCOL,
            session_timeout_ms: self.int(GROUP_CONSUMER_SESSION_TIMEOUT_MS) as i32,
            heartbeat_interval_ms: self.int(GROUP_CONSUMER_HEARTBEAT_INTERVAL_MS) as i32,
            assignment_interval_ms: self.int(GROUP_CONSUMER_ASSIGNMENT_INTERVAL_MS) as i32,
            max_size: self.int(GROUP_CONSUMER_MAX_SIZE) as u32,
        }
    }

    /// The number that the data directory has.
    pub fn set_offsets_partitions(&mut self, partitions: u32) {
        self.values[OFFSETS_TOPIC_NUM_PARTITIONS] = i64::from(partitions);
    }

    /// `offsets.topic.segment.bytes`
    pub fn segment_bytes(&self) -> u64 {
        self.int(OFFSETS_TOPIC_SEGMENT_BYTES) as u64
    }

    /// `offsets.topic.num.partitions`
    pub fn offsets_partitions(&self) -> u32 {
        self.int(OFFSETS_TOPIC_NUM_PARTITIONS) as u32
    }

    /// `group.min.session.timeout.ms`
    pub fn min_session_timeout_ms(&self) -> u64 {
        self.int(GROUP_MIN_SESSION_TIMEOUT_MS) as u64
    }

    /// `socket.request.max.bytes`
    pub fn request_max_bytes(&self) -> usize {
        self.int(SOCKET_REQUEST_MAX_BYTES) as usize
    }

    /// `max.connections`
    pub fn max_connections(&self) -> usize {
        self.int(MAX_CONNECTIONS) as usize
    }

    /// `connections.max.idle.ms`; `None` is never.
    pub fn max_idle_ms(&self) -> Option<u64> {
        u64::try_from(self.int(CONNECTIONS_MAX_IDLE_MS)).ok()
    }

    /// `log.retention.check.interval.ms`
    pub fn retention_check_interval_ms(&self) -> u64 {
        self.int(LOG_RETENTION_CHECK_INTERVAL_MS) as u64
    }

    /// The settings of the topics.
    pub fn topics(&self) -> TopicSettings {
        TopicSettings {
            auto_create_topics: self.int(AUTO_CREATE_TOPICS_ENABLE) != 0,
            num_partitions: self.int(NUM_PARTITIONS) as i32,
            message_max_bytes: self.message_max_bytes(),
            offsets_partitions: self.offsets_partitions(),
            retention_bytes: u64::try_from(self.int(LOG_RETENTION_BYTES)).ok(),
            retention_ms: u64::try_from(self.int(LOG_RETENTION_MS)).ok(),
            ..TopicSettings::default()
        }
    }

    /// `message.max.bytes`
    pub fn message_max_bytes(&self) -> usize {
        self.int(MESSAGE_MAX_BYTES) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_sorted_and_every_default_is_a_legal_value() {
        assert!(SETTINGS.windows(2).all(|pair| pair[0].name < pair[1].name));
        for setting in SETTINGS {
            assert!(setting.kind.parse(setting.default).is_some(), "{}", setting.name);
        }
    }

    #[test]
    fn the_defaults_are_those_of_the_core_and_the_topics() {
        assert_eq!(Settings::default().coordinator(), Config::default());
        assert_eq!(Settings::default().consumer_groups(), ConsumerConfig::default());
        assert_eq!(Settings::default().topics(), TopicSettings::default());
    }

    #[test]
    fn an_unknown_setting_is_refused_with_the_nearest_name() {
        let error = Settings::default().set("group.max.sise", "3").unwrap_err();
        assert_eq!(error.to_string(), "unknown setting `group.max.sise`; the nearest one is `group.max.size`");
        let error = Settings::default().set("foo", "3").unwrap_err().to_string();
        assert!(error.starts_with("unknown setting `foo`; there are "), "{error}");
        assert!(error.ends_with(": `rota settings` lists them"), "{error}");
    }

    #[test]
    fn a_bad_value_is_refused_with_what_was_expected() {
        let mut settings = Settings::default();
        let error = settings.set("group.max.size", "0").unwrap_err();
        assert_eq!(error.to_string(), "`group.max.size` is `0`, expected a whole number from 1 to 2147483647");
        let error = settings.set("auto.create.topics.enable", "yes").unwrap_err();
        assert_eq!(error.to_string(), "`auto.create.topics.enable` is `yes`, expected `true` or `false`");
        assert_eq!(settings, Settings::default());
    }

    #[test]
    fn session_timeouts_that_nobody_could_have_are_refused_with_both_settings() {
        let mut settings = Settings::default();
        assert_eq!(settings.check(), Ok(()));
        settings.set("group.max.session.timeout.ms", "5999").unwrap();
        let error = settings.check().unwrap_err().to_string();
        assert_eq!(
            error,
            "`group.min.session.timeout.ms` is `6000`, above `group.max.session.timeout.ms`, which is `5999`: set both"
        );
        settings.set("group.min.session.timeout.ms", "5999").unwrap();
        assert_eq!(settings.check(), Ok(()));
    }

    #[test]
    fn a_setting_that_was_set_shows_in_its_row_and_in_the_coordinators_config() {
        let mut settings = Settings::default();
        settings.set("group.initial.rebalance.delay.ms", "0").unwrap();
        settings.set("auto.create.topics.enable", "FALSE").unwrap();
        assert!(settings.rows().contains(&("group.initial.rebalance.delay.ms", "3000", "0".to_owned())));
        assert_eq!(settings.coordinator().group_initial_rebalance_delay_ms, 0);
        assert!(!settings.topics().auto_create_topics);
    }
}
