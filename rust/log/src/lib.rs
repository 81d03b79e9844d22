//! The log that the coordinator and the topics stand on: record batches (version 2, Kafka's), an in-memory log of a
//! topic's partition, the fenced log behind `__consumer_offsets`, and partitions on disk.
//!
//! | item | what it is |
//! |---|---|
//! | [`BatchHeader`], [`Batch`], [`batches`] | a record batch read in place, checked, iterated |
//! | [`rewrite_header`], [`stamp_append_time`] | offsets, epoch and append time written into a batch in place |
//! | [`BatchWriter`] | an uncompressed batch, written |
//! | [`PartitionLog`] | a user topic's partition: batches as they came, offsets assigned, reads and look-ups by time |
//! | [`FencedLog`] | partitions fenced by epochs, as a trait: open, append, read in slices; ends come to [`Completions`] |
//! | [`MemoryLog`] | the fenced log in memory |
//! | [`FaultyLog`] | a fenced log that holds, fails, delays, repeats or fences appends on demand, around any other |
//! | [`Histogram`] | how long things took, by buckets |
//! | [`store::Store`] | partitions in Kafka's layout on disk: group commit, recovery, compaction |
//! | [`SegmentStore`], [`SegmentLog`] | a store on threads of its own; the fenced log on it |
//! | [`files::Files`] | what a store asks of a file system; [`files::ForgetfulFiles`] is one that tests crash |
//!
//! Only [`SegmentStore`] starts threads; a clock is read by it, and where syncs are timed.

mod batch;
mod completions;
mod compression;
mod durations;
mod error;
mod faulty_log;
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
pub use completions::Completions;
pub use compression::decompress;
pub use durations::{BOUNDS_SECONDS, Histogram};
pub use error::{Damage, LogError};
pub use faulty_log::{Fault, FaultyLog};
pub use fenced::{Append, Completion, FencedLog, LogRecord, Operation, RecordInPlace, StoredRecord};
pub use memory_log::{MemoryLog, SLICE_RECORDS};
pub use partition_log::{PartitionLog, TimestampedOffset};
pub use records::{RecordView, Records};
pub use segment_log::{SegmentLog, SegmentStore};
pub use writer::BatchWriter;
