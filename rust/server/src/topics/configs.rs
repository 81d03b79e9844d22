//! The configuration that a topic is created with.

use kafka_protocol::{
    messages::{create_topics_request::CreatableTopicConfig, create_topics_response::CreatableTopicConfigs},
    protocol::StrBytes,
};
use rota_core::error::ErrorCode;

use super::TopicError;

/// Every topic setting of Kafka 4.4. All are accepted; the ones in [`HONOURED`] have an effect.
const KNOWN: &[&str] = &[
    "cleanup.policy",
    "compression.gzip.level",
    "compression.lz4.level",
    "compression.type",
    "compression.zstd.level",
    "delete.retention.ms",
    "file.delete.delay.ms",
    "flush.messages",
    "flush.ms",
    "follower.replication.throttled.replicas",
    "index.interval.bytes",
    "leader.replication.throttled.replicas",
    "local.retention.bytes",
    "local.retention.ms",
    "max.compaction.lag.ms",
    "max.message.bytes",
    "message.timestamp.after.max.ms",
    "message.timestamp.before.max.ms",
    "message.timestamp.type",
    "min.cleanable.dirty.ratio",
    "min.compaction.lag.ms",
    "min.insync.replicas",
    "preallocate",
    "remote.log.copy.disable",
    "remote.log.delete.on.disable",
    "remote.storage.enable",
    "retention.bytes",
    "retention.ms",
    "segment.bytes",
    "segment.index.bytes",
    "segment.jitter.ms",
    "segment.ms",
    "unclean.leader.election.enable",
];

/// How a value is taken over; `None`: it is not one.
type Apply = fn(&mut TopicConfigs, &str) -> Option<()>;

/// The settings with an effect, and what they take.
const HONOURED: &[(&str, &str, Apply)] = &[
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
];

/// A topic's own configuration.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct TopicConfigs {
    pub message_max_bytes: Option<usize>,
    pub retention_bytes: Option<u64>,
    pub append_time: bool,
    /// As given: names and values.
    given: Vec<(String, String)>,
}

impl TopicConfigs {
    /// Errors: `InvalidConfig`.
    pub fn read(asked: &[CreatableTopicConfig]) -> Result<TopicConfigs, TopicError> {
        let mut configs = TopicConfigs::default();
        for config in asked {
            let name = config.name.as_str();
            if !KNOWN.contains(&name) {
                return Err(TopicError::new(ErrorCode::InvalidConfig, format!("no topic setting is called `{name}`")));
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
        Ok(configs)
    }

    /// The answer's list: what was given.
    pub fn listed(&self) -> Vec<CreatableTopicConfigs> {
        /// `DYNAMIC_TOPIC_CONFIG`
        const SET_ON_THE_TOPIC: i8 = 1;
        let list = |(name, value): &(String, String)| {
            CreatableTopicConfigs::default()
                .with_name(StrBytes::from_string(name.clone()))
                .with_value(Some(StrBytes::from_string(value.clone())))
                .with_config_source(SET_ON_THE_TOPIC)
        };
        self.given.iter().map(list).collect()
    }
}
