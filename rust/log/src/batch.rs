//! Record batches of format version 2, read in place.
//!
//! Layout (big-endian): base offset i64, length i32 (of everything after it), partition leader epoch i32, magic i8,
//! CRC-32C u32 (of everything after it), attributes i16, last offset delta i32, base timestamp i64, max timestamp i64,
//! producer id i64, producer epoch i16, base sequence i32, record count i32, records. The fields in front of the
//! checksum are the broker's to write, so offsets and epoch are assigned without touching it.

use std::{borrow::Cow, fmt};

use crate::{
    compression::decompress,
    records::{RecordView, Records},
    transaction::BatchKind,
};

/// Bytes of a batch before its records.
pub const HEADER_BYTES: usize = 61;
/// Bytes of a batch outside its length field: base offset and length.
pub const LEADING_BYTES: usize = 12;

const LENGTH_AT: usize = 8;
const LEADER_EPOCH_AT: usize = 12;
const MAGIC_AT: usize = 16;
const CRC_AT: usize = 17;
const ATTRIBUTES_AT: usize = 21;
const MAX_TIMESTAMP_AT: usize = 35;

const COMPRESSION_MASK: i16 = 0x07;
const LOG_APPEND_TIME: i16 = 0x08;
pub(crate) const TRANSACTIONAL: i16 = 0x10;
pub(crate) const CONTROL: i16 = 0x20;
const DELETE_HORIZON: i16 = 0x40;

/// Why bytes are not a valid batch. Positions count from the start of the batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BatchError {
    /// The bytes end before the batch.
    Truncated {
        /// Bytes that the batch needs.
        needed_bytes: usize,
        /// Bytes available.
        available_bytes: usize,
    },
    /// Message format 0 or 1, or an unknown one.
    UnsupportedMagic {
        /// The magic byte.
        magic: i8,
    },
    /// The length is too small for a header.
    BadLength {
        /// The length field.
        length: i32,
    },
    /// The checksum does not match.
    BadChecksum {
        /// The checksum in the batch.
        stored: u32,
        /// The checksum of its bytes.
        computed: u32,
    },
    /// An unknown compression codec.
    UnknownCompression {
        /// The codec bits of the attributes.
        codec: u8,
    },
    /// The number of records is not positive, or is not `last_offset_delta + 1`.
    BadRecordCount {
        /// The record count field.
        record_count: i32,
        /// The last offset delta field.
        last_offset_delta: i32,
    },
    /// A record is malformed.
    BadRecord {
        /// Index of the record, from 0.
        index: u32,
        /// The malformed field.
        field: &'static str,
    },
    /// Decompression failed.
    BadCompression {
        /// The codec.
        codec: Compression,
        /// The codec's message.
        reason: String,
    },
    /// Decompressed records exceed the reader's limit.
    TooLargeDecompressed {
        /// The limit in bytes.
        limit_bytes: usize,
    },
}

impl fmt::Display for BatchError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BatchError::Truncated { needed_bytes, available_bytes } => {
                write!(f, "the batch needs {needed_bytes} bytes but only {available_bytes} are there")
            }
            BatchError::UnsupportedMagic { magic } => write!(f, "message format {magic} is not supported, only 2 is"),
            BatchError::BadLength { length } => {
                write!(f, "batch length {length} is below the {} of a header", HEADER_BYTES - LEADING_BYTES)
            }
            BatchError::BadChecksum { stored, computed } => {
                write!(f, "the batch carries checksum {stored:#010x} but its bytes give {computed:#010x}")
            }
            BatchError::UnknownCompression { codec } => write!(f, "compression codec {codec} does not exist"),
            BatchError::BadRecordCount { record_count, last_offset_delta } => write!(
                f,
                "the last offset delta is {last_offset_delta}, expected one less than the record count, {record_count}"
            ),
            BatchError::BadRecord { index, field } => write!(f, "record {index} of the batch has a bad `{field}`"),
            BatchError::BadCompression { codec, reason } => write!(f, "{codec:?} cannot be decompressed: {reason}"),
            BatchError::TooLargeDecompressed { limit_bytes } => {
                write!(f, "the records are larger than {limit_bytes} bytes once decompressed")
            }
        }
    }
}

impl std::error::Error for BatchError {}

/// The codec of a batch's records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compression {
    /// Uncompressed.
    None,
    /// RFC 1952.
    Gzip,
    /// Raw snappy, or snappy-java's blocks.
    Snappy,
    /// LZ4 frames.
    Lz4,
    /// Zstandard frames.
    Zstd,
}

impl Compression {
    const ALL: [Compression; 5] =
        [Compression::None, Compression::Gzip, Compression::Snappy, Compression::Lz4, Compression::Zstd];
}

/// The fixed fields of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatchHeader {
    /// Offset of the first record.
    pub base_offset: i64,
    /// Bytes after this field.
    pub length: i32,
    /// Epoch of the leader that stored it; -1 from clients.
    pub leader_epoch: i32,
    /// CRC-32C of everything after it.
    pub crc: u32,
    /// Codec, timestamp type, and the transactional, control and delete-horizon flags.
    pub attributes: i16,
    /// Offset of the last record minus `base_offset`.
    pub last_offset_delta: i32,
    /// Base of the records' timestamp deltas, in wall milliseconds.
    pub base_timestamp_ms: i64,
    /// Maximum timestamp of all records, in wall milliseconds.
    pub max_timestamp_ms: i64,
    /// Producer id; -1 if not idempotent.
    pub producer_id: i64,
    /// Producer epoch; -1 if not idempotent.
    pub producer_epoch: i16,
    /// Sequence number of the first record; -1 if not idempotent.
    pub base_sequence: i32,
    /// Number of records.
    pub record_count: i32,
}

impl BatchHeader {
    /// Reads the fixed fields. Errors: `Truncated`, `UnsupportedMagic`, `BadLength`.
    pub fn read(bytes: &[u8]) -> Result<BatchHeader, BatchError> {
        // Older formats have their magic byte at the same position, so it is checked before the length.
        if let Some(&magic) = bytes.get(MAGIC_AT)
            && magic != 2
        {
            return Err(BatchError::UnsupportedMagic { magic: magic.cast_signed() });
        }
        let Some(header) = bytes.first_chunk::<HEADER_BYTES>() else {
            return Err(BatchError::Truncated { needed_bytes: HEADER_BYTES, available_bytes: bytes.len() });
        };
        let mut fields = Fields { rest: header };
        let read = BatchHeader {
            base_offset: i64::from_be_bytes(fields.take()),
            length: i32::from_be_bytes(fields.take()),
            leader_epoch: i32::from_be_bytes(fields.take()),
            crc: {
                let [_magic] = fields.take();
                u32::from_be_bytes(fields.take())
            },
            attributes: i16::from_be_bytes(fields.take()),
            last_offset_delta: i32::from_be_bytes(fields.take()),
            base_timestamp_ms: i64::from_be_bytes(fields.take()),
            max_timestamp_ms: i64::from_be_bytes(fields.take()),
            producer_id: i64::from_be_bytes(fields.take()),
            producer_epoch: i16::from_be_bytes(fields.take()),
            base_sequence: i32::from_be_bytes(fields.take()),
            record_count: i32::from_be_bytes(fields.take()),
        };
        if usize::try_from(read.length).is_ok_and(|length| length >= HEADER_BYTES - LEADING_BYTES) {
            Ok(read)
        } else {
            Err(BatchError::BadLength { length: read.length })
        }
    }

    /// Returns the size of the whole batch in bytes.
    pub fn size_bytes(&self) -> usize {
        LEADING_BYTES + self.length as usize
    }

    /// Returns the offset of the last record.
    pub fn last_offset(&self) -> i64 {
        self.base_offset.saturating_add(i64::from(self.last_offset_delta))
    }

    /// Returns the sequence number of the last record. 0 follows `i32::MAX`.
    pub fn last_sequence(&self) -> i32 {
        if self.base_sequence < 0 {
            return self.base_sequence;
        }
        ((i64::from(self.base_sequence) + i64::from(self.last_offset_delta)) % (i64::from(i32::MAX) + 1)) as i32
    }

    /// Returns the codec. Errors: `UnknownCompression`.
    pub fn compression(&self) -> Result<Compression, BatchError> {
        let codec = (self.attributes & COMPRESSION_MASK) as u8;
        Compression::ALL.get(usize::from(codec)).copied().ok_or(BatchError::UnknownCompression { codec })
    }

    /// Whether `max_timestamp_ms` applies to all records, instead of their own timestamps.
    pub fn is_log_append_time(&self) -> bool {
        self.attributes & LOG_APPEND_TIME != 0
    }

    /// Whether the batch is part of a transaction.
    pub fn is_transactional(&self) -> bool {
        self.attributes & TRANSACTIONAL != 0
    }

    /// Whether the batch has markers instead of data.
    pub fn is_control(&self) -> bool {
        self.attributes & CONTROL != 0
    }

    /// Returns when the batch's tombstones may be removed, in wall milliseconds; `None` before the first compaction.
    /// Stored as the base timestamp.
    pub fn delete_horizon_ms(&self) -> Option<i64> {
        (self.attributes & DELETE_HORIZON != 0).then_some(self.base_timestamp_ms)
    }

    /// Returns what a batch of data is to transactions. A control batch has its kind in its record
    /// ([`EndMarker::read`](crate::EndMarker::read)).
    pub fn data_kind(&self) -> BatchKind {
        let BatchHeader { producer_id, producer_epoch, .. } = *self;
        if self.is_transactional() {
            BatchKind::Transactional { producer_id, producer_epoch }
        } else {
            BatchKind::Plain
        }
    }

    /// Whether the batch has a producer id.
    pub fn is_idempotent(&self) -> bool {
        self.producer_id >= 0
    }
}

/// Reads fixed-size fields of a header whose size was checked.
struct Fields<'a> {
    rest: &'a [u8],
}

impl Fields<'_> {
    fn take<const N: usize>(&mut self) -> [u8; N] {
        let (field, rest) = self.rest.split_first_chunk::<N>().expect("the header is as long as its fields");
        self.rest = rest;
        *field
    }
}

/// One whole batch within other bytes.
#[derive(Clone, Copy, Debug)]
pub struct Batch<'a> {
    header: BatchHeader,
    bytes: &'a [u8],
}

impl<'a> Batch<'a> {
    /// Splits off the batch at the start of `bytes`, without checking its checksum. Errors: those of
    /// [`BatchHeader::read`]; `Truncated`.
    pub fn split(bytes: &'a [u8]) -> Result<(Batch<'a>, &'a [u8]), BatchError> {
        let header = BatchHeader::read(bytes)?;
        let needed_bytes = header.size_bytes();
        match bytes.split_at_checked(needed_bytes) {
            Some((bytes, rest)) => Ok((Batch { header, bytes }, rest)),
            None => Err(BatchError::Truncated { needed_bytes, available_bytes: bytes.len() }),
        }
    }

    /// Returns the fixed fields.
    pub fn header(&self) -> &BatchHeader {
        &self.header
    }

    /// Returns the bytes of the whole batch.
    pub fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// Checks the checksum. Errors: `BadChecksum`.
    pub fn check_crc(&self) -> Result<(), BatchError> {
        let computed = crc32c::crc32c(&self.bytes[ATTRIBUTES_AT..]);
        if computed == self.header.crc {
            Ok(())
        } else {
            Err(BatchError::BadChecksum { stored: self.header.crc, computed })
        }
    }

    /// Checks everything that needs no decompression: checksum, codec, record count, and in an uncompressed batch the
    /// shape of each record. Errors: `BadChecksum`, `UnknownCompression`, `BadRecordCount`, `BadRecord`.
    pub fn validate(&self) -> Result<(), BatchError> {
        self.check_crc()?;
        let BatchHeader { record_count, last_offset_delta, .. } = self.header;
        if record_count <= 0 || i64::from(last_offset_delta) + 1 != i64::from(record_count) {
            return Err(BatchError::BadRecordCount { record_count, last_offset_delta });
        }
        if self.header.compression()? != Compression::None {
            return Ok(());
        }
        self.records_in(&self.bytes[HEADER_BYTES..]).check_all()
    }

    /// Returns the bytes of the records, decompressed, at most `limit_bytes`. Errors: `UnknownCompression`,
    /// `BadCompression`, `TooLargeDecompressed`.
    pub fn payload(&self, limit_bytes: usize) -> Result<Cow<'a, [u8]>, BatchError> {
        decompress(self.header.compression()?, &self.bytes[HEADER_BYTES..], limit_bytes)
    }

    /// Iterates over the records in `payload`, the result of [`Batch::payload`].
    pub fn records_in<'p>(&self, payload: &'p [u8]) -> Records<'p> {
        Records::new(payload, self.header.record_count)
    }

    /// Returns the effective timestamp of `record` in wall milliseconds.
    pub fn timestamp_ms(&self, record: &RecordView<'_>) -> i64 {
        if self.header.is_log_append_time() {
            self.header.max_timestamp_ms
        } else {
            self.header.base_timestamp_ms.saturating_add(record.timestamp_delta_ms)
        }
    }

    /// Returns the offset of `record`.
    pub fn offset(&self, record: &RecordView<'_>) -> i64 {
        self.header.base_offset.saturating_add(i64::from(record.offset_delta))
    }
}

/// Iterates over the batches of a produce payload or a segment. Ends after an error.
pub fn batches(bytes: &[u8]) -> Batches<'_> {
    Batches { rest: bytes }
}

/// Iterator of [`batches`].
#[derive(Clone, Debug)]
pub struct Batches<'a> {
    rest: &'a [u8],
}

impl<'a> Iterator for Batches<'a> {
    type Item = Result<Batch<'a>, BatchError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let split = Batch::split(self.rest);
        self.rest = split.as_ref().map_or(&[], |(_, rest)| rest);
        Some(split.map(|(batch, _)| batch))
    }
}

/// Returns the position, after the first byte, of the next whole batch with a valid checksum whose offsets are all
/// above `offset` and below `limit`.
pub fn later_batch(bytes: &[u8], offset: i64, limit: i64) -> Option<usize> {
    let good = |at: &usize| {
        let found = bytes.get(*at..).and_then(|bytes| Batch::split(bytes).ok()).map(|(batch, _)| batch);
        found.is_some_and(|batch| {
            let header = batch.header();
            let is_later = header.base_offset > offset && header.last_offset() < limit;
            is_later && header.last_offset_delta >= 0 && batch.check_crc().is_ok()
        })
    };
    // Starts at the stated end of the bad batch if that is plausible: values may contain batches.
    let stated = BatchHeader::read(bytes).ok().map(|header| header.size_bytes()).filter(good);
    stated.or_else(|| (1..bytes.len().saturating_sub(HEADER_BYTES)).find(good))
}

/// Writes the fields that the broker assigns into a whole batch. Its checksum does not cover them. `batch` must be one
/// that [`Batch::split`] accepted.
pub fn rewrite_header(batch: &mut [u8], base_offset: i64, leader_epoch: i32) {
    batch[..LENGTH_AT].copy_from_slice(&base_offset.to_be_bytes());
    batch[LEADER_EPOCH_AT..MAGIC_AT].copy_from_slice(&leader_epoch.to_be_bytes());
}

/// Sets the append time of a whole batch to `now_ms` and updates its checksum.
pub fn stamp_append_time(batch: &mut [u8], now_ms: i64) {
    batch[ATTRIBUTES_AT + 1] |= LOG_APPEND_TIME as u8;
    batch[MAX_TIMESTAMP_AT..MAX_TIMESTAMP_AT + 8].copy_from_slice(&now_ms.to_be_bytes());
    let crc = crc32c::crc32c(&batch[ATTRIBUTES_AT..]);
    batch[CRC_AT..ATTRIBUTES_AT].copy_from_slice(&crc.to_be_bytes());
}
