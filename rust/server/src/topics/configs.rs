//! The configuration of a topic.

use kafka_protocol::{
    messages::{create_topics_request::CreatableTopicConfig, create_topics_response::CreatableTopicConfigs},
    protocol::StrBytes,
};
use rota_core::error::ErrorCode;

use super::TopicError;

/// The wire number of boolean settings.
pub(crate) const BOOLEAN: i8 = 1;
/// The wire number of string settings.
pub const STRING: i8 = 2;
/// The wire number of 32-bit settings.
pub(crate) const INT: i8 = 3;
/// The wire number of 64-bit settings.
pub(crate) const LONG: i8 = 5;
/// The wire number of floating-point settings.
const DOUBLE: i8 = 6;
/// The wire number of comma-separated lists.
pub(crate) const LIST: i8 = 7;

/// The wire number of the type of secrets.
pub(crate) const PASSWORD: i8 = 9;

/// The wire number of a value set on the topic.
pub(crate) const DYNAMIC_TOPIC_CONFIG: i8 = 1;
/// The wire number of a value set at the server's start.
pub(crate) const STATIC_BROKER_CONFIG: i8 = 4;
/// The wire number of a default.
pub(crate) const DEFAULT_CONFIG: i8 = 5;

/// What `IncrementalAlterConfigs` does with the value of a setting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operation {
    Set,
    Delete,
    /// Adds elements to a list.
    Append,
    /// Removes elements of a list.
    Subtract,
}

impl Operation {
    /// Returns the operation with this number on the wire.
    pub fn of(number: i8) -> Option<Operation> {
        let all = [Operation::Set, Operation::Delete, Operation::Append, Operation::Subtract];
        all.get(usize::try_from(number).ok()?).copied()
    }

    /// Kafka's complaint about an operation on lists, for a setting that is none.
    pub fn not_of_a_list(self, name: &str) -> String {
        let operation = if self == Operation::Append { "APPEND" } else { "SUBTRACT" };
        format!("Can't {operation} to key {name} because its type is not LIST.")
    }
}

/// A topic setting: name, Kafka's default, type, and the broker setting of its default, or "".
type TopicSetting = (&'static str, &'static str, i8, &'static str);

/// Every topic setting of Kafka 4.4, by name. All are accepted; those in [`HONOURED`] have an effect.
const KNOWN: &[TopicSetting] = &[
    ("cleanup.policy", "delete", LIST, "log.cleanup.policy"),
    ("compression.gzip.level", "-1", INT, "compression.gzip.level"),
    ("compression.lz4.level", "9", INT, "compression.lz4.level"),
    ("compression.type", "producer", STRING, "compression.type"),
    ("compression.zstd.level", "3", INT, "compression.zstd.level"),
    ("delete.retention.ms", "86400000", LONG, "log.cleaner.delete.retention.ms"),
    ("errors.deadletterqueue.group.enable", "false", BOOLEAN, ""),
    ("file.delete.delay.ms", "60000", LONG, "log.segment.delete.delay.ms"),
    ("flush.messages", "9223372036854775807", LONG, "log.flush.interval.messages"),
    ("flush.ms", "9223372036854775807", LONG, ""),
    ("follower.replication.throttled.replicas", "", LIST, ""),
    ("index.interval.bytes", "4096", INT, "log.index.interval.bytes"),
    ("leader.replication.throttled.replicas", "", LIST, ""),
    ("local.retention.bytes", "-2", LONG, "log.local.retention.bytes"),
    ("local.retention.ms", "-2", LONG, "log.local.retention.ms"),
    ("max.compaction.lag.ms", "9223372036854775807", LONG, "log.cleaner.max.compaction.lag.ms"),
    ("max.decompressed.message.bytes", "2147483639", INT, "max.decompressed.message.bytes"),
    ("max.message.bytes", "1048588", INT, "message.max.bytes"),
    ("message.timestamp.after.max.ms", "3600000", LONG, "log.message.timestamp.after.max.ms"),
    ("message.timestamp.before.max.ms", "9223372036854775807", LONG, "log.message.timestamp.before.max.ms"),
    ("message.timestamp.type", "CreateTime", STRING, "log.message.timestamp.type"),
    ("min.cleanable.dirty.ratio", "0.5", DOUBLE, "log.cleaner.min.cleanable.ratio"),
    ("min.compaction.lag.ms", "0", LONG, "log.cleaner.min.compaction.lag.ms"),
    ("min.insync.replicas", "1", INT, "min.insync.replicas"),
    ("preallocate", "false", BOOLEAN, "log.preallocate"),
    ("remote.copy.lag.bytes", "-1", LONG, "log.remote.copy.lag.bytes"),
    ("remote.copy.lag.ms", "0", LONG, "log.remote.copy.lag.ms"),
    ("remote.log.copy.disable", "false", BOOLEAN, ""),
    ("remote.log.delete.on.disable", "false", BOOLEAN, ""),
    ("remote.storage.enable", "false", BOOLEAN, ""),
    ("retention.bytes", "-1", LONG, "log.retention.bytes"),
    ("retention.ms", "604800000", LONG, "log.retention.ms"),
    ("segment.bytes", "1073741824", INT, "log.segment.bytes"),
    ("segment.index.bytes", "10485760", INT, "log.index.size.max.bytes"),
    ("segment.jitter.ms", "0", LONG, ""),
    ("segment.ms", "604800000", LONG, ""),
    ("unclean.leader.election.enable", "false", BOOLEAN, "unclean.leader.election.enable"),
];

/// Returns the default of a topic setting that is a list; `None`: it is none.
pub(super) fn default_list(name: &str) -> Option<&'static str> {
    let (_, default, ..) = KNOWN.iter().find(|(known, _, kind, _)| *known == name && *kind == LIST)?;
    Some(default)
}

/// Kafka's settings of `__consumer_offsets`.
const OF_CONSUMER_OFFSETS: &[(&str, &str)] =
    &[("cleanup.policy", "compact"), ("compression.type", "producer"), ("segment.bytes", "104857600")];

/// A setting in an answer to `DescribeConfigs`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigRow {
    /// The setting's name.
    pub name: &'static str,
    /// The value.
    pub value: String,
    /// The wire number of its type.
    pub config_type: i8,
    /// The wire number of its source.
    pub source: i8,
    /// The effect in rota, if documented.
    pub effect: Option<&'static str>,
    /// Names, values and sources considered for the value, the effective one first.
    pub synonyms: Vec<(&'static str, String, i8)>,
}

/// Returns value and source of a broker setting; `None` if this server does not have it.
pub type BrokerValue<'b> = &'b dyn Fn(&str) -> Option<(String, i8)>;

/// Applies a value; `None` if it is invalid.
type Apply = fn(&mut TopicConfigs, &str) -> Option<()>;

/// The settings with an effect.
const HONOURED: &[(&str, &str, Apply)] = &[
    ("cleanup.policy", "`compact`, `delete` or both", |configs, value| {
        let policies = value.split(',').map(str::trim).filter(|policy| !policy.is_empty());
        (configs.is_kept, configs.is_compacted) = (true, false);
        for policy in policies {
            match policy {
                "compact" => configs.is_compacted = true,
                "delete" => configs.is_kept = false,
                _ => return None,
            }
        }
        Some(())
    }),
    ("max.message.bytes", "a number of bytes", |configs, value| {
        configs.message_max_bytes = Some(usize::try_from(value.parse::<i32>().ok()?).ok()?);
        Some(())
    }),
    ("message.timestamp.type", "`CreateTime` or `LogAppendTime`", |configs, value| {
        configs.append_time = match value {
            "CreateTime" => false,
            "LogAppendTime" => true,
            _ => return None,
        };
        Some(())
    }),
    ("retention.bytes", "a number of bytes, or -1", |configs, value| {
        configs.retention_bytes = match value.parse::<i64>().ok()? {
            -1 => Some(u64::MAX),
            bytes => Some(u64::try_from(bytes).ok()?),
        };
        Some(())
    }),
    ("retention.ms", "a number of milliseconds, or -1", |configs, value| {
        configs.retention_ms = match value.parse::<i64>().ok()? {
            -1 => Some(u64::MAX),
            kept_ms => Some(u64::try_from(kept_ms).ok()?),
        };
        Some(())
    }),
];

/// The configuration of one topic.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct TopicConfigs {
    pub message_max_bytes: Option<usize>,
    pub retention_bytes: Option<u64>,
    /// Retention of messages on disk in milliseconds.
    pub retention_ms: Option<u64>,
    pub append_time: bool,
    /// Whether nothing is deleted by size or age, since `cleanup.policy` lacks `delete`.
    is_kept: bool,
    /// Whether every record needs a key, since `cleanup.policy` has `compact`.
    is_compacted: bool,
    /// Given names and values.
    given: Vec<(String, String)>,
}

impl TopicConfigs {
    /// Whether nothing is ever deleted, since `cleanup.policy` lacks `delete`.
    pub fn keeps_all(&self) -> bool {
        self.is_kept
    }

    /// Whether every record needs a key, since `cleanup.policy` has `compact`.
    pub fn is_compacted(&self) -> bool {
        self.is_compacted
    }

    /// Reads the configuration of a request. Errors: `InvalidConfig`.
    pub fn read(asked: &[CreatableTopicConfig]) -> Result<TopicConfigs, TopicError> {
        let mut configs = TopicConfigs::default();
        for config in asked {
            let name = config.name.as_str();
            if !KNOWN.iter().any(|(known, ..)| *known == name) {
                return Err(TopicError::new(ErrorCode::InvalidConfig, format!("unknown topic setting `{name}`")));
            }
            let Some(value) = config.value.as_deref() else {
                return Err(TopicError::new(ErrorCode::InvalidConfig, format!("topic setting `{name}` has no value")));
            };
            if let Some((_, expected, apply)) = HONOURED.iter().find(|(honoured, ..)| *honoured == name)
                && apply(&mut configs, value.trim()).is_none()
            {
                let message = format!("topic setting `{name}` is `{value}`, expected {expected}");
                return Err(TopicError::new(ErrorCode::InvalidConfig, message));
            }
            configs.given.retain(|(given, _)| given != name);
            configs.given.push((name.to_owned(), value.to_owned()));
        }
        if configs.is_kept {
            (configs.retention_bytes, configs.retention_ms) = (Some(u64::MAX), Some(u64::MAX));
        }
        Ok(configs)
    }

    /// Returns the configuration of `__consumer_offsets`.
    pub fn of_consumer_offsets() -> TopicConfigs {
        let given = OF_CONSUMER_OFFSETS.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        TopicConfigs { given: given.collect(), ..TopicConfigs::default() }
    }

    /// Iterates over the given names and values.
    pub fn given(&self) -> impl Iterator<Item = (&str, &str)> {
        self.given.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }

    /// Returns the given settings for the answer.
    pub fn listed(&self) -> Vec<CreatableTopicConfigs> {
        let list = |(name, value): &(String, String)| {
            CreatableTopicConfigs::default()
                .with_name(StrBytes::from_string(name.clone()))
                .with_value(Some(StrBytes::from_string(value.clone())))
                .with_config_source(DYNAMIC_TOPIC_CONFIG)
        };
        self.given.iter().map(list).collect()
    }

    /// Returns every setting by name, with defaults of the broker and of Kafka.
    pub fn rows(&self, broker: BrokerValue<'_>) -> Vec<ConfigRow> {
        let row = |(name, default, config_type, fallback): &TopicSetting| {
            let mut synonyms = Vec::new();
            if let Some((_, value)) = self.given.iter().find(|(given, _)| given == name) {
                synonyms.push((*name, value.clone(), DYNAMIC_TOPIC_CONFIG));
            }
            let (value, source) = broker(fallback).unwrap_or_else(|| ((*default).to_owned(), DEFAULT_CONFIG));
            if !fallback.is_empty() {
                synonyms.push((*fallback, value.clone(), source));
            }
            let (value, source) = synonyms.first().map_or((value, source), |first| (first.1.clone(), first.2));
            ConfigRow { name, value, config_type: *config_type, source, effect: None, synonyms }
        };
        KNOWN.iter().map(row).collect()
    }
}
