//! What the topic table is told when it is made, and the limits of a server's topics.

/// Partitions that one topic may have.
pub const PARTITIONS_PER_TOPIC_MAX: i32 = 10_000;
/// Partitions that all topics together may have.
pub const PARTITIONS_MAX: usize = 100_000;
/// Idempotent producers that one partition remembers; the one that was silent for longest is forgotten first.
pub const PRODUCERS_PER_PARTITION_MAX: usize = 10_000;
/// Bytes of a partition on disk that are read for its idempotent producers after a start, the newest whole segments.
pub const PRODUCERS_READ_BYTES: u64 = 128 << 20;
/// Bytes that all topics together may hold in memory.
pub const LOG_BYTES_MAX: u64 = 4 << 30;
/// Bytes of records that one fetch answers at most, whatever it asks for (Kafka's `fetch.max.bytes`).
pub const FETCH_BYTES_MAX: usize = 57_671_680;
/// Bytes of records that one `ListOffsets` looks at, decompressed, for offsets by time; the rest is answered at the
/// precision of whole batches.
pub const LOOKUP_BYTES_MAX: usize = 256 << 20;

/// Settings of all topics, with Kafka's defaults.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TopicSettings {
    /// `auto.create.topics.enable`
    pub auto_create_topics: bool,
    /// `num.partitions`
    pub num_partitions: i32,
    /// `message.max.bytes`: of one record batch.
    pub message_max_bytes: usize,
    /// `offsets.topic.num.partitions`
    pub offsets_partitions: u32,
    /// `log.retention.bytes`: of one partition; `None` keeps everything.
    pub retention_bytes: Option<u64>,
    /// `log.retention.ms`: of messages on disk; `None` keeps everything.
    pub retention_ms: Option<u64>,
    /// Ours: bytes that all topics together may hold.
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
