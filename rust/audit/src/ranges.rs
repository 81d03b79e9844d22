//! Splits segment files into parts for several readers.

use std::{
    fs::File,
    io::{self, BufReader, Read, Seek, SeekFrom},
    path::Path,
};

use rota_log::{Batch, BatchHeader, HEADER_BYTES, later_batch};

use crate::reader::range_bytes;

/// A part of a segment file: whole batches, or damaged bytes in place of one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Range {
    /// Position of its first byte.
    pub start: u64,
    /// Position after its last byte.
    pub end: u64,
    /// Expected offset of its first record.
    pub first_offset: i64,
    /// Offset after its last record.
    pub next_offset: i64,
    /// The newest timestamp of its batches in wall milliseconds; `i64::MAX` if unknown.
    pub newest_ms: i64,
    /// Number of records, from the batch headers.
    pub records: u64,
}

impl Range {
    fn new(start: u64, first_offset: i64) -> Range {
        Range { start, end: start, first_offset, next_offset: first_offset, newest_ms: i64::MIN, records: 0 }
    }

    fn extend(&mut self, header: &BatchHeader) {
        self.end += header.size_bytes() as u64;
        self.next_offset = header.last_offset().saturating_add(1);
        self.newest_ms = self.newest_ms.max(header.max_timestamp_ms);
        self.records += u64::try_from(header.record_count).unwrap_or(0);
    }

    fn is_empty(&self) -> bool {
        self.end == self.start
    }
}

/// Cuts the segment at `path` from the byte `start` on to `end` or its end, where the record at `first_offset` is due,
/// into parts of about `target_bytes`, at most `ranges_max` of them. Only headers are read. Where they stop making sense a part begins that
/// goes on with the next whole batch behind that, for a reader to say so; if there is none, it is the last one and has
/// no records.
pub fn cut(
    path: &Path,
    start: u64,
    end: u64,
    first_offset: i64,
    target_bytes: u64,
    ranges_max: usize,
) -> io::Result<Vec<Range>> {
    let mut file = File::open(path)?;
    let size_bytes = file.metadata()?.len().min(end);
    file.seek(SeekFrom::Start(start))?;
    let mut reader = BufReader::with_capacity(64 << 10, file);
    let mut ranges = Vec::new();
    let mut range = Range::new(start, first_offset);
    while range.end < size_bytes && ranges.len() < ranges_max {
        if let Some(header) = next_header(&mut reader, size_bytes - range.end)? {
            range.extend(&header);
            if range.end - range.start < target_bytes {
                continue;
            }
        } else if range.is_empty() {
            range.newest_ms = i64::MAX;
            let bytes = range_bytes(path, range.end, size_bytes)?;
            let skipped = later_batch(&bytes, range.next_offset, i64::MAX);
            range.end = skipped.map_or(size_bytes, |bytes| range.end + bytes as u64);
            reader.seek(SeekFrom::Start(range.end))?;
            continue;
        } else {
            reader.seek(SeekFrom::Start(range.end))?;
        }
        let next = Range::new(range.end, range.next_offset);
        ranges.push(std::mem::replace(&mut range, next));
    }
    ranges.extend(Some(range).filter(|range| !range.is_empty()));
    Ok(ranges)
}

/// The first place in the segment at `path` where no right batch stands although one of `checked_from` or later may have
/// stood there: a header that is none, an offset that goes back, a wrong checksum. It ends where the next right batch
/// begins, and has no records. What is damaged before, with a right batch between it and `checked_from`, is left alone.
pub fn first_wrong(path: &Path, base_offset: i64, checked_from: i64) -> io::Result<Option<Range>> {
    let file = File::open(path)?;
    let size_bytes = file.metadata()?.len();
    let mut reader = BufReader::with_capacity(64 << 10, file);
    let mut before = Range::new(0, base_offset);
    while let Some(header) = next_header(&mut reader, size_bytes - before.end)? {
        if header.last_offset() >= checked_from {
            break;
        }
        before.extend(&header);
    }
    let bytes = range_bytes(path, before.end, size_bytes)?;
    let (mut at, mut next_offset) = (0, before.next_offset);
    while at < bytes.len() {
        let batch = Batch::split(&bytes[at..]).ok().map(|(batch, _)| batch);
        if let Some(batch) = batch.filter(|batch| is_right(batch, next_offset, checked_from)) {
            next_offset = batch.header().last_offset().saturating_add(1);
            at += batch.bytes().len();
            continue;
        }
        let later = later_batch(&bytes[at..], next_offset, i64::MAX).map_or(bytes.len(), |skipped| at + skipped);
        match BatchHeader::read(&bytes[later..]) {
            Ok(header) if header.base_offset <= checked_from => (at, next_offset) = (later, header.base_offset),
            _ => {
                let wrong = Range::new(before.end + at as u64, next_offset);
                return Ok(Some(Range { end: before.end + later as u64, newest_ms: i64::MAX, ..wrong }));
            }
        }
    }
    Ok(None)
}

fn is_right(batch: &Batch<'_>, next_offset: i64, checked_from: i64) -> bool {
    let header = batch.header();
    let is_in_place = header.base_offset >= next_offset && header.last_offset_delta >= 0;
    header.last_offset() < checked_from || (is_in_place && batch.check_crc().is_ok())
}

/// Reads the header of the next batch and skips the batch; `None` if `left_bytes` has no whole batch.
pub(crate) fn next_header(reader: &mut BufReader<File>, left_bytes: u64) -> io::Result<Option<BatchHeader>> {
    if left_bytes < HEADER_BYTES as u64 {
        return Ok(None);
    }
    let mut bytes = [0; HEADER_BYTES];
    reader.read_exact(&mut bytes)?;
    let header = BatchHeader::read(&bytes).ok().filter(|header| header.size_bytes() as u64 <= left_bytes);
    if let Some(header) = header {
        reader.seek_relative((header.size_bytes() - HEADER_BYTES) as i64)?;
    }
    Ok(header)
}
