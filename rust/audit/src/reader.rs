//! Reads the rows of one range.

use std::{
    collections::BTreeSet,
    fs::File,
    io::{self, Read, Seek, SeekFrom},
    path::Path,
};

use rota_log::{Batch, BatchError, BatchHeader, LogRecord, StoredRecord, later_batch, store::PAYLOAD_BYTES_MAX};
use rota_promises::{Columns, Row};

use crate::{journal_rows::journal_rows, record_rows::record_rows, transactions::Uncommitted};

/// Maximum rows returned at once.
const ROWS_AT_ONCE: usize = 16_384;
const BYTES_AT_ONCE: usize = 16 << 20;

/// The content of a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// Records of `__consumer_offsets`.
    Offsets,
    /// Entries of a journal.
    Journal,
}

/// Selects rows of a log. Rows without a group are always selected.
#[derive(Clone, Debug, Default)]
pub struct Filter {
    /// Group ids; `None`: all.
    pub groups: Option<BTreeSet<String>>,
    /// Start time in wall milliseconds, inclusive.
    pub since_ms: Option<i64>,
    /// End time in wall milliseconds, inclusive.
    pub until_ms: Option<i64>,
    /// Whether each entry of a journal is added as a whole before its rows.
    pub has_entries: bool,
    /// Transactions whose records have no rows, whatever group they are about.
    pub uncommitted: Uncommitted,
}

impl Filter {
    pub(crate) fn wants_group(&self, group: &str) -> bool {
        group.is_empty() || self.groups.as_ref().is_none_or(|groups| groups.contains(group))
    }

    pub(crate) fn wants_time(&self, at_ms: i64) -> bool {
        self.since_ms.is_none_or(|since_ms| at_ms >= since_ms) && self.until_ms.is_none_or(|until_ms| at_ms <= until_ms)
    }
}

/// The position of a record.
pub(crate) struct Position<'a> {
    pub offset: i64,
    pub at_ms: i64,
    pub key: &'a [u8],
    pub value: Option<&'a [u8]>,
    /// A note for every row of the record.
    pub note: Option<&'static str>,
}

/// Reads one range into memory and returns its rows.
#[derive(Debug)]
pub struct RangeReader {
    bytes: Vec<u8>,
    at: usize,
    pub(crate) next_offset: i64,
    /// Records from here on have no rows.
    end_offset: i64,
    source: Source,
    filter: Filter,
    /// Whether nothing follows the range, so that a truncated batch is what a crash leaves.
    is_newest: bool,
    columns: Columns,
}

impl RangeReader {
    /// Opens the `pieces` of the file at `path`, each from a start position to an end. The first record should have
    /// `first_offset`.
    pub fn open(
        path: &Path,
        pieces: &[(u64, u64)],
        first_offset: i64,
        is_newest: bool,
        source: Source,
        filter: Filter,
    ) -> io::Result<RangeReader> {
        let mut file = File::open(path)?;
        let mut bytes = Vec::new();
        for (start, end) in pieces {
            bytes.append(&mut piece_bytes(&mut file, *start, *end)?);
        }
        Ok(RangeReader {
            bytes,
            at: 0,
            next_offset: first_offset,
            end_offset: i64::MAX,
            source,
            filter,
            is_newest,
            columns: Columns::default(),
        })
    }

    /// Returns a reader of fetched records of `__consumer_offsets` from `first_offset` to before `end_offset`.
    pub(crate) fn of_offsets(first_offset: i64, end_offset: i64) -> RangeReader {
        RangeReader {
            bytes: Vec::new(),
            at: 0,
            next_offset: first_offset,
            end_offset,
            source: Source::Offsets,
            filter: Filter::default(),
            is_newest: false,
            columns: Columns::default(),
        }
    }

    /// Returns the rows so far.
    pub(crate) fn into_columns(self) -> Columns {
        self.columns
    }

    /// Returns the next rows; `None` at the end.
    pub fn next_columns(&mut self) -> Option<Columns> {
        let bytes = std::mem::take(&mut self.bytes);
        while self.at < bytes.len() && !self.is_full() {
            match Batch::split(&bytes[self.at..]) {
                Ok((batch, _)) => {
                    self.at += batch.bytes().len();
                    self.read_batch(&batch);
                }
                Err(error) => self.skip(&bytes[self.at..], &error),
            }
        }
        self.bytes = bytes;
        let columns = std::mem::take(&mut self.columns);
        (columns.rows() > 0).then_some(columns)
    }

    /// Skips damaged bytes to the next batch, if any: nothing is written after half a batch.
    fn skip(&mut self, bytes: &[u8], error: &BatchError) {
        let next = later_batch(bytes, self.next_offset, i64::MAX);
        let kind = if self.is_newest && next.is_none() { "torn" } else { "unreadable" };
        let skipped_bytes = next.unwrap_or(bytes.len());
        self.note(kind, &format!("{skipped_bytes} bytes from here on are no batch: {error}"));
        self.at += skipped_bytes;
        if let Some(header) = bytes.get(skipped_bytes..).and_then(|rest| BatchHeader::read(rest).ok()) {
            self.next_offset = header.base_offset;
        }
    }

    fn is_full(&self) -> bool {
        self.columns.rows() >= ROWS_AT_ONCE || self.columns.size_bytes() >= BYTES_AT_ONCE
    }

    pub(crate) fn note(&mut self, kind: &str, text: &str) {
        let (offset, kind, note) = (Some(self.next_offset), Some(kind), Some(text));
        self.columns.push(&Row { offset, part: Some(0), kind, note, ..Row::default() });
    }

    fn read_batch(&mut self, batch: &Batch<'_>) {
        let header = batch.header();
        if header.base_offset > self.next_offset {
            self.push_missing(header.base_offset - self.next_offset);
        }
        self.next_offset = self.next_offset.max(header.base_offset);
        if let Err(error) = self.read_records(batch) {
            self.note("unreadable", &format!("the batch of {} records: {error}", header.record_count));
        }
        self.next_offset = header.last_offset().saturating_add(1);
    }

    fn read_records(&mut self, batch: &Batch<'_>) -> Result<(), BatchError> {
        let header = batch.header();
        batch.check_crc()?;
        if header.is_control() || self.filter.uncommitted.has(header) {
            return Ok(());
        }
        let payload = batch.payload(PAYLOAD_BYTES_MAX)?;
        for record in batch.records_in(&payload) {
            let record = record?;
            let offset = batch.offset(&record);
            self.push_missing(offset - self.next_offset);
            self.next_offset = offset + 1;
            let at_ms = batch.timestamp_ms(&record);
            let note = header.is_transactional().then_some("transactional");
            let key = record.key.unwrap_or_default();
            self.read_record(&Position { offset, at_ms, key, value: record.value, note });
        }
        self.push_missing(header.last_offset() + 1 - self.next_offset);
        Ok(())
    }

    /// Reads a fetched batch, whose first records may have been read before. Those of an aborted transaction have no rows.
    pub(crate) fn read_fetched(&mut self, batch: &Batch<'_>, is_aborted: bool) {
        let header = batch.header();
        let next_offset = header.last_offset().saturating_add(1).min(self.end_offset);
        if next_offset <= self.next_offset {
            return;
        }
        self.advance(header.base_offset);
        if is_aborted {
            self.next_offset = next_offset;
        } else if let Err(error) = self.read_rest(batch) {
            self.note("unreadable", &format!("the batch of {} records: {error}", header.record_count));
            self.next_offset = next_offset;
        }
    }

    fn read_rest(&mut self, batch: &Batch<'_>) -> Result<(), BatchError> {
        let header = batch.header();
        batch.check_crc()?;
        if header.is_control() {
            self.next_offset = header.last_offset().saturating_add(1).min(self.end_offset);
            return Ok(());
        }
        let payload = batch.payload(PAYLOAD_BYTES_MAX)?;
        let note = header.is_transactional().then_some("transactional");
        for record in batch.records_in(&payload) {
            let record = record?;
            let offset = batch.offset(&record);
            if offset < self.next_offset || offset >= self.end_offset {
                continue;
            }
            self.advance(offset);
            self.next_offset = offset + 1;
            let at_ms = batch.timestamp_ms(&record);
            let key = record.key.unwrap_or_default();
            self.read_record(&Position { offset, at_ms, key, value: record.value, note });
        }
        self.advance(header.last_offset().saturating_add(1));
        Ok(())
    }

    /// Goes on at an offset: those before it have no records.
    pub(crate) fn advance(&mut self, offset: i64) {
        let offset = offset.min(self.end_offset);
        self.push_missing(offset - self.next_offset);
        self.next_offset = self.next_offset.max(offset);
    }

    /// Adds a row for offsets without a record, removed by compaction or retention.
    fn push_missing(&mut self, count: i64) {
        if count > 0 {
            let (offset, count) = (Some(self.next_offset), Some(count));
            self.columns.push(&Row { offset, part: Some(0), kind: Some("compacted"), count, ..Row::default() });
        }
    }

    pub(crate) fn read_record(&mut self, position: &Position<'_>) {
        let read = match self.source {
            Source::Offsets => {
                record_rows(position, &self.filter, &mut self.columns).map_err(|error| error.to_string())
            }
            Source::Journal => {
                journal_rows(position, &self.filter, &mut self.columns).map_err(|error| error.to_string())
            }
        };
        if let Err(reason) = read {
            let (offset, at_ms, note) = (Some(position.offset), Some(position.at_ms), Some(reason.as_str()));
            let kind = Some("unreadable");
            self.columns.push(&Row { offset, part: Some(0), at_ms, kind, note, ..Row::default() });
        }
    }
}

/// Returns the records with a key in the `pieces` of the file at `path`, without control batches and those of
/// `uncommitted` transactions, within the range `offsets`, in order. With `is_newest`, a truncated last batch is not an
/// error. Errors: those of reading; `InvalidData`.
pub fn records_in(
    path: &Path,
    pieces: &[(u64, u64)],
    offsets: (i64, i64),
    is_newest: bool,
    uncommitted: &Uncommitted,
) -> io::Result<Vec<StoredRecord>> {
    let mut file = File::open(path)?;
    let mut found = Vec::new();
    let (mut next_offset, end_offset) = offsets;
    for (start, end) in pieces {
        let bytes = piece_bytes(&mut file, *start, *end)?;
        let mut rest = &bytes[..];
        while !rest.is_empty() {
            let at = *start + (bytes.len() - rest.len()) as u64;
            let damaged = |reason: String| io::Error::new(io::ErrorKind::InvalidData, format!("byte {at}: {reason}"));
            match Batch::split(rest).and_then(|(batch, after)| batch.check_crc().map(|()| (batch, after))) {
                Ok((batch, after)) => {
                    // The checksum does not cover it.
                    let base_offset = batch.header().base_offset;
                    if base_offset < next_offset || base_offset > end_offset {
                        let reason =
                            format!("a batch of offset {base_offset} is not one of {next_offset} to {end_offset}");
                        return Err(damaged(reason));
                    }
                    if !uncommitted.has(batch.header()) {
                        push_records(&batch, &mut found).map_err(|error| damaged(error.to_string()))?;
                    }
                    (rest, next_offset) = (after, batch.header().last_offset().saturating_add(1));
                }
                Err(_) if is_newest && later_batch(rest, next_offset - 1, i64::MAX).is_none() => break,
                Err(error) => return Err(damaged(error.to_string())),
            }
        }
    }
    Ok(found)
}

fn push_records(batch: &Batch<'_>, found: &mut Vec<StoredRecord>) -> Result<(), BatchError> {
    let header = batch.header();
    if header.is_control() {
        return Ok(());
    }
    let payload = batch.payload(PAYLOAD_BYTES_MAX)?;
    for record in batch.records_in(&payload) {
        let record = record?;
        let Some(key) = record.key else { continue };
        found.push(StoredRecord {
            offset: batch.offset(&record),
            timestamp_ms: batch.timestamp_ms(&record),
            epoch: header.leader_epoch,
            batch_base_offset: header.base_offset,
            kind: header.data_kind(),
            record: LogRecord { key: key.to_vec(), value: record.value.map(<[u8]>::to_vec) },
        });
    }
    Ok(())
}

pub(crate) fn range_bytes(path: &Path, start: u64, end: u64) -> io::Result<Vec<u8>> {
    piece_bytes(&mut File::open(path)?, start, end)
}

pub(crate) fn piece_bytes(file: &mut File, start: u64, end: u64) -> io::Result<Vec<u8>> {
    file.seek(SeekFrom::Start(start))?;
    let mut bytes = vec![0; usize::try_from(end.saturating_sub(start)).map_err(io::Error::other)?];
    let mut filled = 0;
    while filled < bytes.len() {
        match file.read(&mut bytes[filled..])? {
            0 => break,
            read => filled += read,
        }
    }
    bytes.truncate(filled);
    Ok(bytes)
}
