//! The log that the coordinator and the topics stand on: record batches (version 2, Kafka's), an in-memory log of a
//! topic's partition, the fenced log behind `__consumer_offsets`, and partitions on disk.
//!
//! | item | what it is |
//! |---|---|
//! | [`BatchHeader`], [`Batch`], [`batches`] | a record batch read in place, checked, iterated |
//! | [`rewrite_header`], [`stamp_append_time`] | offsets, epoch and append time written into a batch in place |
//! | [`BatchWriter`] | an uncompressed batch, written |
//! | [`PartitionLog`] | a user topic's partition: batches as they came, offsets assigned, reads and look-ups by time |
//! | [`FencedLog`] | the log of `__consumer_offsets` as a trait: epochs, appends, flush, ordered completions, reads |
//! | [`MemoryLog`] | its memory implementation, whose completions can be held, reordered across partitions and failed |
//! | [`Histogram`] | how long things took, by buckets |
//! | [`store::Store`] | partitions in Kafka's layout on disk: group commit, recovery, compaction |
//! | [`SegmentStore`], [`SegmentLog`] | a store on threads of its own; the fenced log on it |
//! | [`files::Files`] | what a store asks of a file system; [`files::ForgetfulFiles`] is one that tests crash |
//!
//! Only [`SegmentStore`] starts threads; a clock is read by it, and where syncs are timed.

mod batch;
mod compression;
mod durations;
mod fenced;
pub mod files;
mod memory_log;
mod partition_log;
mod records;
mod segment_log;
pub mod store;
mod writer;

pub use batch::{
    Batch, BatchError, BatchHeader, Batches, Compression, HEADER_BYTES, LEADING_BYTES, batches, later_batch,
    rewrite_header, stamp_append_time,
};
pub use compression::decompress;
pub use durations::{BOUNDS_SECONDS, Histogram};
pub use fenced::{Completion, FencedLog, LogAppendId, LogError, LogRecord, RecordInPlace, StoredRecord};
pub use memory_log::MemoryLog;
pub use partition_log::{PartitionLog, TimestampedOffset};
pub use records::{RecordView, Records};
pub use segment_log::{SegmentLog, SegmentStore};
pub use writer::BatchWriter;
