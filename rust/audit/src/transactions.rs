//! The transactions of a partition whose records do not count: those that were aborted, and those that have not ended.

use std::{
    collections::{BTreeMap, HashMap},
    fs::File,
    io::{self, BufReader, Seek, SeekFrom},
    path::{Path, PathBuf},
};

use rota_log::{Batch, BatchError, BatchHeader, EndMarker, later_batch};

use crate::{ranges::next_header, reader::piece_bytes};

/// A transaction whose records do not count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transaction {
    /// The producer id.
    pub producer_id: i64,
    /// The offset of its first record.
    pub first_offset: i64,
    /// The offset behind its last record; `i64::MAX`: it has not ended.
    pub end_offset: i64,
}

/// The transactions of some batches whose records do not count.
#[derive(Clone, Debug, Default)]
pub struct Uncommitted {
    /// Where each ends, by producer and first offset.
    ends: BTreeMap<(i64, i64), i64>,
}

impl Uncommitted {
    /// Returns the set of these transactions.
    pub fn new(transactions: impl IntoIterator<Item = Transaction>) -> Uncommitted {
        let end = |one: Transaction| ((one.producer_id, one.first_offset), one.end_offset);
        Uncommitted { ends: transactions.into_iter().map(end).collect() }
    }

    /// Whether the records of a batch belong to one of them.
    pub(crate) fn has(&self, header: &BatchHeader) -> bool {
        let (producer_id, offset) = (header.producer_id, header.base_offset);
        let before = || self.ends.range((producer_id, i64::MIN)..=(producer_id, offset)).next_back();
        header.is_transactional() && before().is_some_and(|(_, end_offset)| offset < *end_offset)
    }
}

/// How much of a log [`transactions`] looks at.
#[derive(Clone, Copy, Debug)]
pub struct Span {
    /// Only transactions that begin before this offset matter: nothing is read that only others need.
    pub before_offset: i64,
    /// Markers of a later time, in wall milliseconds, have not come yet.
    pub until_ms: i64,
}

/// What [`transactions`] found.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Transactions {
    /// Those whose records do not count, by first offset.
    pub uncommitted: Vec<Transaction>,
    /// Where in its file the first batch of those begins that have not ended.
    pub undecided_at: Option<u64>,
}

/// Returns the transactions in pieces of files, which follow each other in the log. Where something is damaged, or a file
/// has no pieces because it cannot be read, a marker may be missing: what was open there does not count, and is decided.
/// Errors: those of reading.
pub fn transactions(files: &[(PathBuf, Vec<(u64, u64)>)], span: Span) -> io::Result<Transactions> {
    let mut pass = Pass { span, next_offset: 0, open: HashMap::new(), closed: Vec::new(), is_torn: false };
    for (path, pieces) in files {
        if pieces.is_empty() {
            pass.is_torn = true;
        } else {
            pass.file(path, pieces)?;
        }
        if pass.is_over() {
            break;
        }
    }
    Ok(pass.ended())
}

/// A reading of a log.
struct Pass {
    span: Span,
    next_offset: i64,
    /// By producer, the first offset of its open transaction, and where in the file that batch begins.
    open: HashMap<i64, (i64, u64)>,
    /// Transactions that do not count and are over.
    closed: Vec<Transaction>,
    /// Whether the last bytes were no batch: damage, unless nothing follows.
    is_torn: bool,
}

impl Pass {
    /// Whether all that matters is decided.
    fn is_over(&self) -> bool {
        let before_offset = self.span.before_offset;
        self.next_offset >= before_offset && self.open.values().all(|(first_offset, _)| *first_offset >= before_offset)
    }

    fn file(&mut self, path: &Path, pieces: &[(u64, u64)]) -> io::Result<()> {
        let mut file = File::open(path)?;
        let size_bytes = file.metadata()?.len();
        let mut headers = BufReader::with_capacity(64 << 10, File::open(path)?);
        for (start, end) in pieces {
            let (mut at, end) = (*start, size_bytes.min(*end));
            headers.seek(SeekFrom::Start(at))?;
            while at < end && !self.is_over() {
                if let Some(header) = next_header(&mut headers, end - at)?
                    && self.batch(&mut file, &header, at)?
                {
                    self.next_offset = header.last_offset().saturating_add(1);
                    at += header.size_bytes() as u64;
                    continue;
                }
                self.is_torn = true;
                let Some(skipped) = later_batch(&piece_bytes(&mut file, at, end)?, self.next_offset, i64::MAX) else {
                    break;
                };
                at += skipped as u64;
                headers.seek(SeekFrom::Start(at))?;
            }
        }
        Ok(())
    }

    /// A batch that begins there. Whether it is one: only those of transactions are looked into.
    fn batch(&mut self, file: &mut File, header: &BatchHeader, at: u64) -> io::Result<bool> {
        if !header.is_transactional() {
            self.interrupt();
            return Ok(true);
        }
        let bytes = piece_bytes(file, at, at + header.size_bytes() as u64)?;
        let Ok(marker) = read(&bytes) else { return Ok(false) };
        self.interrupt();
        match marker {
            None if header.is_control() => {}
            None => {
                self.open.entry(header.producer_id).or_insert((header.base_offset, at));
            }
            // It had not come yet.
            Some(_) if header.max_timestamp_ms > self.span.until_ms => {}
            Some(marker) => {
                let begun = self.open.remove(&header.producer_id).filter(|_| !marker.is_commit);
                self.closed.extend(begun.map(|(first_offset, _)| Transaction {
                    producer_id: header.producer_id,
                    first_offset,
                    end_offset: header.base_offset,
                }));
            }
        }
        Ok(true)
    }

    /// Something follows: if what was before is damaged, it may have ended what is open.
    fn interrupt(&mut self) {
        if std::mem::take(&mut self.is_torn) {
            let end_offset = self.next_offset;
            let ended = |(producer_id, (first_offset, _))| Transaction { producer_id, first_offset, end_offset };
            self.closed.extend(self.open.drain().map(ended));
        }
    }

    fn ended(self) -> Transactions {
        let undecided = self.open.values().filter(|(first_offset, _)| *first_offset < self.span.before_offset).min();
        let undecided_at = undecided.map(|(_, at)| *at);
        let open = self.open.into_iter().map(|(producer_id, (first_offset, _))| Transaction {
            producer_id,
            first_offset,
            end_offset: i64::MAX,
        });
        let mut uncommitted: Vec<Transaction> = self.closed.into_iter().chain(open).collect();
        uncommitted.retain(|one| one.first_offset < self.span.before_offset);
        uncommitted.sort_by_key(|one| one.first_offset);
        Transactions { uncommitted, undecided_at }
    }
}

fn read(bytes: &[u8]) -> Result<Option<EndMarker>, BatchError> {
    let (batch, _) = Batch::split(bytes)?;
    batch.check_crc()?;
    EndMarker::read(&batch)
}
