//! Settings of the topic table, and the limits of a server's topics.

/// Maximum partitions of one topic.
pub const PARTITIONS_PER_TOPIC_MAX: i32 = 10_000;
/// Maximum partitions of all topics.
pub const PARTITIONS_MAX: usize = 100_000;
/// Maximum idempotent producers that one partition remembers. The least recent is forgotten first.
pub const PRODUCERS_PER_PARTITION_MAX: usize = 10_000;
/// Maximum bytes of a partition on disk that are read for its idempotent producers after a start, in whole segments
/// from the newest.
pub const PRODUCERS_READ_BYTES: u64 = 128 << 20;
/// Maximum bytes of all topics in memory.
pub const LOG_BYTES_MAX: u64 = 4 << 30;
/// Maximum bytes of records in one fetch answer, whatever the request allows (Kafka's `fetch.max.bytes`).
pub const FETCH_BYTES_MAX: usize = 57_671_680;
/// Maximum bytes of batches and of their decompressed records that one `ListOffsets` searches for offsets by time. Beyond
/// it, results are first offsets of batches, which may be too early.
pub const LOOKUP_BYTES_MAX: usize = 256 << 20;

/// Settings of all topics, with Kafka's defaults.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TopicSettings {
    /// `auto.create.topics.enable`.
    pub auto_create_topics: bool,
    /// `num.partitions`.
    pub num_partitions: i32,
    /// `message.max.bytes` of one record batch.
    pub message_max_bytes: usize,
    /// `offsets.topic.num.partitions`.
    pub offsets_partitions: u32,
    /// `log.retention.bytes` of one partition; `None`: unlimited.
    pub retention_bytes: Option<u64>,
    /// `log.retention.ms` of messages on disk; `None`: unlimited.
    pub retention_ms: Option<u64>,
    /// Maximum bytes of all topics; a setting of rota.
    pub log_bytes_max: u64,
}

impl Default for TopicSettings {
    fn default() -> TopicSettings {
        TopicSettings {
            auto_create_topics: true,
            num_partitions: 1,
            message_max_bytes: 1_048_588,
            offsets_partitions: 50,
            retention_bytes: None,
            retention_ms: Some(604_800_000),
            log_bytes_max: LOG_BYTES_MAX,
        }
    }
}
