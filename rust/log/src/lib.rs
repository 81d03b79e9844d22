//! The log under the coordinator and the topics: Kafka's record batches (version 2), an in-memory log of a topic's
//! partition, the fenced log under `__consumer_offsets`, and partitions on disk.
//!
//! | item | what it is |
//! |---|---|
//! | [`BatchHeader`], [`Batch`], [`batches`] | a record batch read in place, checked, iterated |
//! | [`rewrite_header`], [`stamp_append_time`] | write offsets, epoch and append time into a batch in place |
//! | [`BatchWriter`] | writes an uncompressed batch |
//! | [`BatchKind`], [`EndMarker`] | batches of transactions, and the markers that end them |
//! | [`TransactionIndex`] | the open and the aborted transactions of a partition |
//! | [`PartitionLog`] | a user topic's partition: stored batches, assigned offsets, reads and lookups by time |
//! | [`FencedLog`] | the trait of partitions fenced by epochs: open, append, read; results go to [`Completions`] |
//! | [`MemoryLog`] | the fenced log in memory |
//! | [`FaultyLog`] | a wrapper of a fenced log that holds, fails, delays, repeats or fences appends on demand |
//! | [`Histogram`] | durations by bucket |
//! | [`store::Store`] | partitions in Kafka's layout on disk: group commit, recovery, compaction |
//! | [`SegmentStore`], [`SegmentLog`] | a store on its own threads; a fenced log on it |
//! | [`files::Files`] | the file system of a store; [`files::ForgetfulFiles`] is one that tests crash |
//!
//! Only [`SegmentStore`] starts threads. The clock is read there and for timing syncs.

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
mod transaction;
mod transaction_index;
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
pub use segment_log::{SegmentLog, SegmentStore, encode_append};
pub use transaction::{BatchKind, EndMarker};
pub use transaction_index::{AbortedTransaction, TransactionIndex, TransactionalProducer};
pub use writer::{BatchWriter, Header};
