//! The reader's view of a partition: its segments up to the durable end. Readers do not block.

use std::sync::{
    Arc, PoisonError, RwLock,
    atomic::{AtomicI64, Ordering},
};

use bytes::{Bytes, BytesMut};

use crate::{
    batch::{Batch, BatchError, BatchHeader, Batches, HEADER_BYTES, batches},
    error::{Damage, LogError},
    fenced::{LogRecord, RecordInPlace, StoredRecord},
    files::read_up_to,
    transaction::{BatchKind, EndMarker},
};

use super::segment::Segment;

/// Maximum bytes of a batch's decompressed records.
pub const PAYLOAD_BYTES_MAX: usize = 64 << 20;

/// The readable part of a partition.
#[derive(Debug, Default)]
pub struct PartitionView {
    segments: RwLock<Arc<Vec<Arc<Segment>>>>,
    first_offset: AtomicI64,
    /// Readers do not see what is below: it was deleted.
    deleted_below: AtomicI64,
    next_offset: AtomicI64,
    /// The first offset of the oldest open transaction, minus `i64::MAX`: 0 if none is open.
    keep_from: AtomicI64,
    /// Below it the files of aborted transactions are complete.
    indexed_below: AtomicI64,
    refusal: RwLock<Option<LogError>>,
    /// The first damage that a read has met.
    damage: RwLock<Option<Damage>>,
}

/// Whole, verified, consecutive batches of a segment.
#[derive(Clone, Debug)]
pub struct Slice {
    /// The batches.
    pub bytes: Bytes,
    /// The offset to continue at; equal to the requested one at the end.
    pub next_offset: i64,
}

impl Slice {
    /// Iterates over the batches in place.
    pub fn batches(&self) -> Batches<'_> {
        batches(&self.bytes)
    }
}

impl PartitionView {
    /// Shows these segments to readers, up to `next_offset`.
    pub fn publish(&self, segments: &[Arc<Segment>], next_offset: i64) {
        let mut shared = self.segments.write().unwrap_or_else(PoisonError::into_inner);
        if !shared.iter().map(Arc::as_ptr).eq(segments.iter().map(Arc::as_ptr)) {
            *shared = Arc::new(segments.to_vec());
        }
        let first_offset = segments.first().map_or(next_offset, |segment| segment.base_offset);
        self.first_offset.store(first_offset, Ordering::Release);
        self.next_offset.store(next_offset, Ordering::Release);
    }

    /// Refuses reads from now on.
    pub fn refuse(&self, error: LogError) {
        self.refusal.write().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
    }

    /// Returns why reads are refused; `None` if they are not.
    pub fn refusal(&self) -> Option<LogError> {
        self.refusal.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Returns what is wrong: why reads are refused, or the first damage that a read has met and that is still there.
    pub fn failure(&self) -> Option<LogError> {
        let first_offset = self.first_offset();
        let is_there = |damage: &&Damage| damage.offset >= first_offset;
        let damage = self.damage.read().unwrap_or_else(PoisonError::into_inner);
        self.refusal()
            .or_else(|| damage.as_ref().filter(is_there).map(|damage| LogError::Damaged(Box::new(damage.clone()))))
    }

    /// Notes damage, unless other damage is noted that is still there. Returns its error.
    pub(super) fn damaged(&self, damage: Damage) -> LogError {
        let mut noted = self.damage.write().unwrap_or_else(PoisonError::into_inner);
        if noted.as_ref().is_none_or(|noted| noted.offset < self.first_offset()) {
            *noted = Some(damage.clone());
        }
        LogError::Damaged(Box::new(damage))
    }

    /// Returns the smallest offset that a record may have.
    pub fn first_offset(&self) -> i64 {
        self.first_offset.load(Ordering::Acquire).max(self.deleted_below.load(Ordering::Acquire))
    }

    /// Hides the records below `offset` from readers; they stay in the segments. The caller makes that durable.
    pub fn delete_below(&self, offset: i64) {
        self.deleted_below.fetch_max(offset, Ordering::AcqRel);
    }

    /// Returns the offset of the next durable record.
    pub fn next_offset(&self) -> i64 {
        self.next_offset.load(Ordering::Acquire)
    }

    /// Keeps the records from `first_open` on, the first offset of the oldest open transaction. `None`: none is open.
    pub fn keep_open(&self, first_open: Option<i64>) {
        self.keep_from.store(first_open.map_or(0, |first| first - i64::MAX), Ordering::Release);
    }

    /// Returns the offset from which trims keep records, `i64::MAX` if no transaction is open.
    pub fn keep_from(&self) -> i64 {
        i64::MAX + self.keep_from.load(Ordering::Acquire)
    }

    /// Notes that the `.txnindex` files are complete below `offset`, that of a snapshot.
    pub(super) fn set_indexed_below(&self, offset: i64) {
        self.indexed_below.store(offset, Ordering::Release);
    }

    /// Returns the offset below which the `.txnindex` files are complete. Those after it are to be written before the next
    /// snapshot.
    pub fn indexed_below(&self) -> i64 {
        self.indexed_below.load(Ordering::Acquire)
    }

    /// Returns the segments, oldest first.
    pub fn segments(&self) -> Arc<Vec<Arc<Segment>>> {
        Arc::clone(&self.segments.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Returns the bytes of the segments.
    pub fn size_bytes(&self) -> u64 {
        self.segments().iter().map(|segment| segment.readable_bytes()).sum()
    }

    /// Reads durable batches from the one with offset `from`, or the next one after a gap: about `max_bytes`, but at
    /// least one batch if there is any. Errors: `Damaged`, also for all later reads.
    pub fn read_slice(&self, from: i64, max_bytes: usize) -> Result<Slice, LogError> {
        self.read_within(from, max_bytes, true).inspect_err(|error| self.refuse(error.clone()))
    }

    /// Like [`PartitionView::read_slice`], but damage is the error of this read only: what is before and after it can be
    /// read. Unless `at_least_one`, a first batch above `max_bytes` is neither read nor returned.
    pub fn read_within(&self, from: i64, max_bytes: usize, at_least_one: bool) -> Result<Slice, LogError> {
        if let Some(refusal) = self.refusal() {
            return Err(refusal);
        }
        let end_offset = self.next_offset();
        let none = Slice { bytes: Bytes::new(), next_offset: from };
        if from >= end_offset || !at_least_one && max_bytes < HEADER_BYTES {
            return Ok(none);
        }
        let segments = self.segments();
        let first = segments.partition_point(|segment| segment.base_offset <= from).saturating_sub(1);
        for (at, segment) in segments.iter().enumerate().skip(first) {
            // The checksum does not cover offsets. Only their order shows a wrong one.
            let limit = segments.get(at + 1).map_or(end_offset, |next| next.base_offset);
            match read_segment(segment, from, limit, (max_bytes, at_least_one)) {
                Ok(Some(slice)) => return Ok(slice),
                Ok(None) => {}
                Err(damage) => return Err(self.damaged(damage)),
            }
        }
        Ok(none)
    }

    /// Reads durable records from offset `from`, at most `records_max`, without control batches and records without a
    /// key. Errors: those of [`PartitionView::read_slice`].
    pub fn read_records(&self, mut from: i64, records_max: usize) -> Result<Vec<StoredRecord>, LogError> {
        let mut records = Vec::new();
        while records.len() < records_max {
            let left = records_max - records.len();
            let max_bytes = left.saturating_mul(256).clamp(4 << 10, 1 << 20);
            let next_offset = self.each_record(from, max_bytes, |batch, record| {
                if records.len() < records_max && !record.kind.is_marker() {
                    records.push(stored(batch, record));
                }
            })?;
            if next_offset == from {
                break;
            }
            from = next_offset;
        }
        Ok(records)
    }

    /// Visits the records of a slice of about `max_bytes` in place, and the markers of transactions. Returns the offset to continue at; the requested
    /// one at the end.
    pub fn visit_records(
        &self,
        from: i64,
        max_bytes: usize,
        mut visit: impl FnMut(RecordInPlace<'_>),
    ) -> Result<i64, LogError> {
        self.each_record(from, max_bytes, |_, record| visit(record))
    }

    fn each_record(
        &self,
        from: i64,
        max_bytes: usize,
        mut visit: impl FnMut(&BatchHeader, RecordInPlace<'_>),
    ) -> Result<i64, LogError> {
        let slice = self.read_slice(from, max_bytes)?;
        for batch in slice.batches() {
            if let Err(error) = batch.and_then(|batch| records_in_place(&batch, from, &mut visit)) {
                let segments = self.segments();
                let holder = segments.iter().rfind(|segment| segment.base_offset <= from);
                let damage = holder.expect("a slice comes from a segment").damage(0, from, error);
                let error = self.damaged(damage);
                self.refuse(error.clone());
                return Err(error);
            }
        }
        Ok(slice.next_offset)
    }
}

/// Returns `None` if the segment has nothing at `from` or later. All its offsets are below `limit`.
fn read_segment(
    segment: &Segment,
    from: i64,
    limit: i64,
    (max_bytes, at_least_one): (usize, bool),
) -> Result<Option<Slice>, Damage> {
    let readable_bytes = segment.readable_bytes();
    let position = segment.seek(from)?;
    if position >= readable_bytes {
        return Ok(None);
    }
    let left_bytes = usize::try_from(readable_bytes - position).unwrap_or(usize::MAX);
    let fill = |bytes: &mut BytesMut| {
        let read = read_up_to(segment.file.as_ref(), bytes, position);
        read.map(|read| bytes.truncate(read)).map_err(|error| segment.damage(position, from, error))
    };
    if !at_least_one {
        let mut header = BytesMut::zeroed(HEADER_BYTES.min(left_bytes));
        fill(&mut header)?;
        let first = BatchHeader::read(&header).map_err(|error| segment.damage(position, from, error))?;
        if first.size_bytes() > max_bytes {
            return Ok(Some(Slice { bytes: Bytes::new(), next_offset: from }));
        }
    }
    let mut bytes = BytesMut::zeroed(max_bytes.max(HEADER_BYTES).min(left_bytes));
    fill(&mut bytes)?;
    let first = BatchHeader::read(&bytes).map_err(|error| segment.damage(position, from, error))?;
    if first.size_bytes() > bytes.len() {
        // `seek` has checked that these bytes exist.
        bytes = BytesMut::zeroed(first.size_bytes().min(left_bytes));
        fill(&mut bytes)?;
    }
    let (mut taken, mut next_offset) = (0, from);
    while taken < bytes.len() {
        let at = position + taken as u64;
        let least = if taken == 0 { segment.base_offset } else { next_offset };
        match next_batch(&bytes[taken..], (least, next_offset, limit)) {
            Ok(header) => {
                taken += header.size_bytes();
                next_offset = header.last_offset().saturating_add(1);
            }
            // It is cut off, was published since the limit was read, or is the error of the next read.
            Err(_) if taken > 0 => break,
            Err(reason) => return Err(segment.damage(at, next_offset, reason)),
        }
    }
    segment.note(next_offset, position + taken as u64);
    bytes.truncate(taken);
    Ok(Some(Slice { bytes: bytes.freeze(), next_offset }))
}

/// Returns the header of the first batch: a whole one, whose offsets are from `least` to below `limit`, and not all below
/// `next_offset`. Errors: why it is none.
fn next_batch(bytes: &[u8], (least, next_offset, limit): (i64, i64, i64)) -> Result<BatchHeader, String> {
    let (batch, _) = Batch::split(bytes).map_err(|error| error.to_string())?;
    batch.check_crc().map_err(|error| error.to_string())?;
    let header = *batch.header();
    if header.base_offset < least || header.last_offset() < next_offset || header.last_offset() >= limit {
        return Err(format!("a batch of offset {} is there", header.base_offset));
    }
    Ok(header)
}

/// Visits the records and the marker of a batch from offset `from` on. Errors: the batch is malformed.
pub fn records_in_place(
    batch: &Batch<'_>,
    from: i64,
    visit: &mut impl FnMut(&BatchHeader, RecordInPlace<'_>),
) -> Result<(), BatchError> {
    let BatchHeader { base_offset, max_timestamp_ms, .. } = *batch.header();
    if batch.header().is_control() {
        if let Some(marker) = EndMarker::read(batch)?.filter(|_| base_offset >= from) {
            let (offset, timestamp_ms, kind) = (base_offset, max_timestamp_ms, BatchKind::Marker(marker));
            visit(batch.header(), RecordInPlace { offset, timestamp_ms, kind, key: &[], value: None });
        }
        return Ok(());
    }
    let kind = batch.header().data_kind();
    let payload = batch.payload(PAYLOAD_BYTES_MAX)?;
    for record in batch.records_in(&payload) {
        let record = record?;
        let (offset, timestamp_ms) = (batch.offset(&record), batch.timestamp_ms(&record));
        if let Some(key) = record.key.filter(|_| offset >= from) {
            visit(batch.header(), RecordInPlace { offset, timestamp_ms, kind, key, value: record.value });
        }
    }
    Ok(())
}

fn stored(batch: &BatchHeader, record: RecordInPlace<'_>) -> StoredRecord {
    StoredRecord {
        offset: record.offset,
        timestamp_ms: record.timestamp_ms,
        epoch: batch.leader_epoch,
        batch_base_offset: batch.base_offset,
        kind: record.kind,
        record: LogRecord { key: record.key.to_vec(), value: record.value.map(<[u8]>::to_vec) },
    }
}
