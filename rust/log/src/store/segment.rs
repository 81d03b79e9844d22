//! One segment: consecutive batches in a file, with a sparse index in memory.

use std::{
    fmt, io,
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicI64, AtomicU64, Ordering},
    },
};

use crate::{
    batch::{Batch, BatchError, BatchHeader, HEADER_BYTES, LEADING_BYTES, batches, later_batch},
    error::Damage,
    files::{File, read_up_to},
};

/// Bytes read at once by a walk.
const WALK_BYTES: usize = 1 << 20;
/// Minimum bytes between two index entries.
const INDEX_INTERVAL_BYTES: u64 = 64 << 10;

/// A segment, shared by its readers and its writer.
#[derive(Debug)]
pub struct Segment {
    /// The offset in its name; no record has a smaller one.
    pub base_offset: i64,
    /// The path of its file.
    pub path: PathBuf,
    /// The file; it stays readable after compaction has replaced it.
    pub file: Arc<dyn File>,
    readable_bytes: AtomicU64,
    /// (offset, position) of batches, ascending.
    index: Mutex<Vec<(i64, u64)>>,
    /// The greatest timestamp of the batches before a position, which were read for it; -1 if none has one.
    read_ms: Mutex<(u64, i64)>,
    /// The greatest timestamp of all batches, counted while they are written; `NOT_COUNTED` unless that began with the first.
    counted_ms: AtomicI64,
}

/// No batch of this process has such a timestamp.
const NOT_COUNTED: i64 = i64::MIN;

impl Segment {
    /// Creates a segment of an open file, whose first `readable_bytes` are batches.
    pub fn new(base_offset: i64, path: PathBuf, file: Arc<dyn File>, readable_bytes: u64) -> Segment {
        let readable_bytes = AtomicU64::new(readable_bytes);
        Segment {
            base_offset,
            path,
            file,
            readable_bytes,
            index: Mutex::new(vec![(base_offset, 0)]),
            read_ms: Mutex::new((0, -1)),
            counted_ms: AtomicI64::new(NOT_COUNTED),
        }
    }

    /// Counts timestamps from now on: the segment has no batches yet.
    pub fn count_times(&self) {
        self.counted_ms.store(-1, Ordering::Release);
    }

    /// Counts the timestamps of batches that were written.
    pub fn count_written(&self, bytes: &[u8]) {
        if self.counted_ms.load(Ordering::Acquire) != NOT_COUNTED {
            let times = batches(bytes).flatten().map(|batch| batch.header().max_timestamp_ms);
            self.counted_ms.fetch_max(times.max().unwrap_or(-1), Ordering::AcqRel);
        }
    }

    /// Some of the counted batches are not there after all.
    pub fn forget_times(&self) {
        self.counted_ms.store(NOT_COUNTED, Ordering::Release);
    }

    /// Returns the newest timestamp of the durable batches, if it is known without a read; -1 if no batch has one. Of a
    /// segment that is written to, it may be that of a batch on its way.
    pub fn known_newest_ms(&self) -> Option<i64> {
        let counted_ms = self.counted_ms.load(Ordering::Acquire);
        if counted_ms != NOT_COUNTED {
            return Some(counted_ms);
        }
        let (read_to, read_ms) = *self.read_ms.lock().unwrap_or_else(PoisonError::into_inner);
        (read_to == self.readable_bytes()).then_some(read_ms)
    }

    /// Returns the bytes that readers may read.
    pub fn readable_bytes(&self) -> u64 {
        self.readable_bytes.load(Ordering::Acquire)
    }

    /// Sets the bytes that readers may read.
    pub fn publish(&self, readable_bytes: u64) {
        self.readable_bytes.store(readable_bytes, Ordering::Release);
    }

    /// Adds a batch to the index if the last entry is far enough away.
    pub fn note(&self, offset: i64, position: u64) {
        let mut index = self.index.lock().unwrap_or_else(PoisonError::into_inner);
        if index.last().is_none_or(|(_, last)| position >= last + INDEX_INTERVAL_BYTES) {
            index.push((offset, position));
        }
    }

    /// Forgets the batches from `position` on, which are not there after all. Others will get their offsets.
    pub fn forget_from(&self, position: u64) {
        let mut index = self.index.lock().unwrap_or_else(PoisonError::into_inner);
        index.retain(|(_, at)| *at == 0 || *at < position);
    }

    /// Returns the last index entry at or before `offset`, or the first entry.
    fn floor(&self, offset: i64) -> (i64, u64) {
        let index = self.index.lock().unwrap_or_else(PoisonError::into_inner);
        let after = index.partition_point(|(known, _)| *known <= offset);
        index[after.saturating_sub(1)]
    }

    /// Returns the position of the first batch that ends at `offset` or later; the readable size if there is none.
    pub fn seek(&self, offset: i64) -> Result<u64, Damage> {
        let (known, position) = self.floor(offset);
        if known >= offset {
            return Ok(position);
        }
        let mut walk = Walk::new(self, position, self.readable_bytes());
        walk.chunk_bytes = INDEX_INTERVAL_BYTES as usize;
        loop {
            match walk.next(false)? {
                Some((position, batch)) if batch.header().last_offset() >= offset => return Ok(position),
                Some((position, batch)) => self.note(batch.header().base_offset, position),
                None => return Ok(walk.position),
            }
        }
    }

    /// Returns the newest timestamp of the durable batches, -1 if they have none. Reads each of them at most once.
    pub fn newest_timestamp_ms(&self) -> Result<i64, Damage> {
        self.newest_up_to(i64::MAX)
    }

    /// Like `newest_timestamp_ms`, but once it is at least `enough_ms`, later batches do not count.
    pub fn newest_up_to(&self, enough_ms: i64) -> Result<i64, Damage> {
        if let Some(known) = self.known_newest_ms() {
            return Ok(known);
        }
        let (read_to, mut newest_ms) = *self.read_ms.lock().unwrap_or_else(PoisonError::into_inner);
        let mut walk = Walk::new(self, read_to, self.readable_bytes());
        while newest_ms < enough_ms
            && let Some((_, batch)) = walk.next(false)?
        {
            newest_ms = newest_ms.max(batch.header().max_timestamp_ms);
        }
        // Of two readers at once, the one that was ahead counts.
        let mut read = self.read_ms.lock().unwrap_or_else(PoisonError::into_inner);
        *read = (*read).max((walk.position, newest_ms));
        Ok(newest_ms)
    }

    /// Returns a `Damage` at `position`.
    pub fn damage(&self, position: u64, offset: i64, reason: impl fmt::Display) -> Damage {
        Damage { file: self.path.clone(), position, offset, reason: reason.to_string() }
    }
}

/// Iterates over the batches of a segment.
#[derive(Debug)]
pub struct Walk<'s> {
    segment: &'s Segment,
    /// Position of the next batch.
    pub position: u64,
    /// Lower bound of the next batch's offset.
    pub next_offset: i64,
    end: u64,
    chunk_bytes: usize,
    buffer: Vec<u8>,
    /// Position of the buffer's bytes in the file.
    buffered_at: u64,
}

impl<'s> Walk<'s> {
    /// Creates a walk from `position` to `end`.
    pub fn new(segment: &'s Segment, position: u64, end: u64) -> Walk<'s> {
        let next_offset = segment.base_offset;
        Walk { segment, position, next_offset, end, chunk_bytes: WALK_BYTES, buffer: Vec::new(), buffered_at: position }
    }

    /// Reads at most so many bytes at once, unless a batch has more.
    pub fn in_chunks(mut self, bytes: usize) -> Walk<'s> {
        self.chunk_bytes = WALK_BYTES.min(bytes);
        self
    }

    /// Returns the next batch and its position, with its checksum verified if `check`. Errors: `Damage`, also if the
    /// file cannot be read; the walk stays at its position.
    pub fn next(&mut self, check: bool) -> Result<Option<(u64, Batch<'_>)>, Damage> {
        let (position, next_offset, segment) = (self.position, self.next_offset, self.segment);
        let damage = move |reason: &dyn fmt::Display| segment.damage(position, next_offset, reason);
        let Some(header) = self.next_header()? else { return Ok(None) };
        let size_bytes = header.size_bytes();
        self.fill(size_bytes).map_err(|error| damage(&error))?;
        self.position = position + size_bytes as u64;
        self.next_offset = header.last_offset().saturating_add(1);
        let start = (position - self.buffered_at) as usize;
        let (batch, _) = Batch::split(&self.buffer[start..]).map_err(|error| damage(&error))?;
        if check && let Err(error) = batch.check_crc() {
            (self.position, self.next_offset) = (position, next_offset);
            return Err(damage(&error));
        }
        Ok(Some((position, batch)))
    }

    /// Returns the header of the next batch, which is all there; the walk stays at its position.
    pub fn next_header(&mut self) -> Result<Option<BatchHeader>, Damage> {
        let (position, next_offset, segment) = (self.position, self.next_offset, self.segment);
        if position >= self.end {
            return Ok(None);
        }
        let damage = move |reason: &dyn fmt::Display| segment.damage(position, next_offset, reason);
        self.fill(LEADING_BYTES.max(HEADER_BYTES)).map_err(|error| damage(&error))?;
        let header = BatchHeader::read(self.buffered()).map_err(|error| damage(&error))?;
        let size_bytes = header.size_bytes();
        if position + size_bytes as u64 > self.end {
            let error = BatchError::Truncated {
                needed_bytes: size_bytes,
                available_bytes: usize::try_from(self.end - position).unwrap_or(usize::MAX),
            };
            return Err(damage(&error));
        }
        if header.base_offset < next_offset || header.last_offset_delta < 0 {
            return Err(damage(&format!("a batch of offset {} is there", header.base_offset)));
        }
        Ok(Some(header))
    }

    fn buffered(&self) -> &[u8] {
        &self.buffer[((self.position - self.buffered_at) as usize).min(self.buffer.len())..]
    }

    /// Fills the buffer with the next `needed_bytes`, or with all that remain.
    fn fill(&mut self, needed_bytes: usize) -> io::Result<()> {
        if self.buffered().len() >= needed_bytes {
            return Ok(());
        }
        let left_bytes = usize::try_from(self.end - self.position).unwrap_or(usize::MAX);
        self.buffer.resize(needed_bytes.max(self.chunk_bytes).min(left_bytes), 0);
        self.buffered_at = self.position;
        let read = read_up_to(self.segment.file.as_ref(), &mut self.buffer, self.position)?;
        self.buffer.truncate(read);
        Ok(())
    }

    /// Whether a whole batch with a valid checksum and a later offset begins anywhere after the walk's position.
    pub fn has_later_batch(&self) -> io::Result<bool> {
        self.later_batch(i64::MAX).map(|found| found.is_some())
    }

    /// Moves to the next such batch with all offsets below `limit`, or to the end.
    pub fn skip_damage(&mut self, limit: i64) -> io::Result<()> {
        self.position = self.later_batch(limit)?.unwrap_or(self.end);
        Ok(())
    }

    /// Whether the position has a whole batch that could follow `expected`.
    pub fn goes_on_at(&self, expected: i64, limit: i64) -> bool {
        let mut walk = Walk::new(self.segment, self.position, self.end);
        walk.next_offset = expected;
        walk.next(true).is_ok_and(|found| found.is_some_and(|(_, batch)| batch.header().last_offset() < limit))
    }

    /// Returns the first offset of the batch at the position; `None` at the end.
    pub fn offset_here(&self) -> io::Result<Option<i64>> {
        let mut offset = [0; 8];
        let read = read_up_to(self.segment.file.as_ref(), &mut offset, self.position)?;
        Ok((self.position < self.end && read == offset.len()).then(|| i64::from_be_bytes(offset)))
    }

    fn later_batch(&self, limit: i64) -> io::Result<Option<u64>> {
        let mut rest = vec![0; (self.end - self.position) as usize];
        let read = read_up_to(self.segment.file.as_ref(), &mut rest, self.position)?;
        rest.truncate(read);
        let found = later_batch(&rest, self.next_offset, limit);
        Ok(found.map(|at| self.position + at as u64))
    }
}

/// Returns the path of a segment in its partition's directory.
pub fn segment_path(dir: &Path, base_offset: i64) -> PathBuf {
    dir.join(super::layout::segment_name(base_offset))
}
