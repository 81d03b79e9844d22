//! The files of transactions beside a partition's segments, as Kafka names them: `BASE.txnindex` and `OFFSET.snapshot`.
//!
//! A partition without a snapshot has no transactions. So the first snapshot is durable before the first transactional
//! batch. Later ones are written when a segment is full, and keep a start from reading older segments. Kafka writes one
//! only when a segment is full and when it stops: a partition of its directory is read, and gets one at the take-over.
//!
//! INVARIANT: the `.txnindex` files are complete below the newest snapshot. What a crash or a failed write left out after
//! it is found in the batches, and written before the next snapshot.

use std::{io, path::Path, sync::Arc};

use crate::{
    batch::BatchHeader,
    error::LogError,
    files::{Access, Files, read_file, replace_file, write_all_at},
    transaction::EndMarker,
    transaction_index::TransactionIndex,
};

use super::{
    PartitionHandle, Store,
    partition::Partition,
    pass::{advice, storage_error},
    scan::list_segments,
    segment::{Segment, Walk},
};

/// Suffix of a file of producers.
const SNAPSHOT: &str = "snapshot";
/// Suffix of a file of aborted transactions.
const TRANSACTION_INDEX: &str = "txnindex";

/// A file beside a segment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SideFile {
    /// The producers before an offset, replaced as a whole.
    Snapshot(i64, Vec<u8>),
    /// The aborted transactions of the segment with this base offset, replaced as a whole.
    Aborted(i64, Vec<u8>),
    /// More aborted transactions of the segment with this base offset.
    MoreAborted(i64, Vec<u8>),
}

fn name(offset: i64, suffix: &str) -> String {
    format!("{offset:020}.{suffix}")
}

/// Returns the offset in the name of a snapshot.
fn snapshot_offset(name: &str) -> Option<i64> {
    let digits = name.strip_suffix(SNAPSHOT)?.strip_suffix('.').filter(|digits| digits.len() == 20)?;
    digits.bytes().all(|byte| byte.is_ascii_digit()).then(|| digits.parse().ok()).flatten()
}

/// Writes a file durably. Errors: those of the file system.
pub(super) fn write(partition: &mut Partition, files: &dyn Files, file: &SideFile) -> Result<(), LogError> {
    let dir = &partition.dir;
    let (name, bytes, continues) = match file {
        SideFile::Snapshot(offset, bytes) => (name(*offset, SNAPSHOT), bytes, false),
        SideFile::Aborted(base_offset, bytes) => (name(*base_offset, TRANSACTION_INDEX), bytes, false),
        SideFile::MoreAborted(base_offset, bytes) => (name(*base_offset, TRANSACTION_INDEX), bytes, true),
    };
    let path = dir.join(name);
    let written = files.create_dir(dir).and_then(|()| {
        if continues { continue_file(files, &path, bytes) } else { replace_file(files, &path, bytes, true) }
    });
    partition.names_changed = true;
    written.map_err(|error| storage_error(&path, &error))?;
    if let SideFile::Snapshot(offset, _) = file {
        partition.view.set_indexed_below(*offset);
    }
    Ok(())
}

/// Says again that a partition has transactions, before a recovery writes a batch of one: a partition that no checkpoint
/// has is written again from its first batch, and its files are removed before. Errors: those of the file system.
pub(super) fn recovered(partition: &mut Partition, files: &dyn Files, header: &BatchHeader) -> io::Result<()> {
    if partition.has_snapshot || !header.is_transactional() {
        return Ok(());
    }
    partition.has_snapshot = true;
    let names = files.list(&partition.dir).unwrap_or_default();
    if names.iter().any(|entry| snapshot_offset(&entry.name).is_some()) {
        return Ok(());
    }
    let file = SideFile::Snapshot(header.base_offset, TransactionIndex::default().snapshot());
    write(partition, files, &file).map_err(io::Error::other)
}

/// Says which partition in `dir` has transactions, before a directory of Kafka becomes one of ours. Errors: those of the
/// file system.
pub(super) fn adopt(files: &dyn Files, dir: &Path) -> io::Result<()> {
    if files.list(dir)?.iter().any(|entry| snapshot_offset(&entry.name).is_some()) {
        return Ok(());
    }
    let listed = list_segments(files, dir, false)?.unwrap_or_default();
    let Some(offset) = first_transactional(&listed.segments) else { return Ok(()) };
    replace_file(files, &dir.join(name(offset, SNAPSHOT)), &TransactionIndex::default().snapshot(), true)
}

/// Returns an offset below which there is no transactional batch; `None`: there is none at all. A batch that cannot be read
/// may be one: it is unfinished, or a repair removes it later.
fn first_transactional(segments: &[Arc<Segment>]) -> Option<i64> {
    for segment in segments {
        let mut walk = Walk::new(segment, 0, segment.readable_bytes());
        loop {
            match walk.next(false).map(|next| next.map(|(_, batch)| *batch.header())) {
                Ok(Some(header)) if header.is_transactional() => return Some(header.base_offset),
                Ok(Some(_)) => {}
                Ok(None) => break,
                Err(_) => return Some(segment.base_offset),
            }
        }
    }
    None
}

fn continue_file(files: &dyn Files, path: &Path, bytes: &[u8]) -> io::Result<()> {
    let file = files.open(path, Access::Create)?;
    write_all_at(file.as_ref(), bytes, file.size_bytes()?)
}

/// Removes the files of removed segments: those of a segment with this base offset, and snapshots below `first_offset`.
/// Without a snapshot at `first_offset`, which a crash or a failed write leaves out, the older ones stay: the last one
/// says that there are transactions.
pub(super) fn remove_below(dir: &Path, files: &dyn Files, gone: &[i64], first_offset: i64) {
    for base_offset in gone {
        // Most partitions have none. A leftover does no harm.
        let _removed = files.remove(&dir.join(name(*base_offset, TRANSACTION_INDEX)));
    }
    let snapshots = files.list(dir).unwrap_or_default();
    if !snapshots.iter().any(|entry| snapshot_offset(&entry.name) == Some(first_offset)) {
        return;
    }
    for entry in snapshots.iter().filter(|entry| snapshot_offset(&entry.name).is_some_and(|at| at < first_offset)) {
        let _removed = files.remove(&dir.join(&entry.name));
    }
}

impl Store {
    /// Returns the transactions of a partition, from its files and the batches after the newest snapshot; `None` if it
    /// never had any. Without a snapshot, a directory of Kafka shows that in all batches. Errors: `UnknownPartition`,
    /// `Damaged`, `Storage`.
    pub fn transactions(&self, handle: PartitionHandle) -> Result<Option<TransactionIndex>, LogError> {
        let partition = self.partitions.get(handle.0 as usize).and_then(Option::as_ref);
        let partition = partition.ok_or(LogError::UnknownPartition { partition: handle.0 as i32 })?;
        let names = match self.files.list(&partition.dir) {
            // It has no record yet.
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            names => names.map_err(|error| unreadable(&partition.dir, &error))?,
        };
        let mut offsets: Vec<i64> = names.iter().filter_map(|entry| snapshot_offset(&entry.name)).collect();
        offsets.sort_unstable();
        let above = offsets.split_off(offsets.partition_point(|offset| *offset <= partition.next_offset));
        self.remove_snapshots(partition, &above).map_err(|error| storage_error(&partition.dir, &error))?;
        let first = partition.segments.first().map_or(0, |segment| segment.base_offset);
        let Some(oldest) = offsets.first().copied() else {
            if self.options.access != super::Access::ReadForeign {
                return Ok(None);
            }
            let index = replayed(partition, TransactionIndex::default(), first)?;
            let has_any = index.producers().next().is_some();
            return Ok(has_any.then_some(index));
        };
        // A transaction that was open before the first segment may have ended in a removed one.
        for offset in offsets.into_iter().rev().filter(|offset| *offset >= first) {
            if let Some(index) = self.restored(partition, offset, oldest) {
                partition.view.set_indexed_below(offset);
                return replayed(partition, index, offset).map(Some);
            }
        }
        partition.view.set_indexed_below(first);
        replayed(partition, TransactionIndex::default(), first).map(Some)
    }

    /// Removes the snapshots above the end, durably. A power failure has lost the records before them, and other records
    /// will get their offsets. The end of a refused partition is not known.
    fn remove_snapshots(&self, partition: &Partition, above: &[i64]) -> io::Result<()> {
        if above.is_empty() || self.is_read_only() || partition.refused.is_some() {
            return Ok(());
        }
        for offset in above {
            self.files.remove(&partition.dir.join(name(*offset, SNAPSHOT)))?;
        }
        self.files.sync_dir(&partition.dir)
    }

    /// Returns the state before `offset` from the files; `None` if any of them is missing or damaged.
    fn restored(&self, partition: &Partition, offset: i64, oldest: i64) -> Option<TransactionIndex> {
        let read = |name: String| read_file(self.files.as_ref(), &partition.dir.join(name));
        let snapshot = |offset| TransactionIndex::of_snapshot(&read(name(offset, SNAPSHOT)).ok()??);
        let mut index = snapshot(offset)?;
        // Before the first transaction there is a snapshot without producers. With some, the oldest one only shows that
        // older ones were removed.
        let first = partition.segments.first().map_or(0, |segment| segment.base_offset);
        let is_first = oldest > first && snapshot(oldest).is_some_and(|index| index.producers().next().is_none());
        let next_bases = partition.segments.iter().skip(1).map(|next| next.base_offset).chain([i64::MAX]);
        for (segment, next_base) in partition.segments.iter().zip(next_bases) {
            if segment.base_offset >= offset {
                break;
            }
            // The batches of the segment with the snapshot are read again, but those before it are not.
            let may_miss = is_first && segment.base_offset < oldest && (next_base <= oldest || next_base > offset);
            match read(name(segment.base_offset, TRANSACTION_INDEX)) {
                Ok(Some(rows)) if index.add_rows(&rows, offset) => {}
                Ok(None) if may_miss => {}
                _ => return None,
            }
        }
        Some(index)
    }
}

fn unreadable(path: &Path, error: &io::Error) -> LogError {
    LogError::Storage { reason: format!("reading `{}` failed: {error}; {}", path.display(), advice(error)).into() }
}

/// Adds the batches from `from` on.
fn replayed(partition: &Partition, mut index: TransactionIndex, from: i64) -> Result<TransactionIndex, LogError> {
    let damaged = |damage| LogError::Damaged(Box::new(damage));
    let next_bases = partition.segments.iter().skip(1).map(|next| next.base_offset).chain([i64::MAX]);
    for (segment, next_base) in partition.segments.iter().zip(next_bases) {
        if next_base <= from {
            continue;
        }
        let position = segment.seek(from).map_err(damaged)?;
        let mut walk = Walk::new(segment, position, segment.readable_bytes());
        while let Some((at, batch)) = walk.next(false).map_err(damaged)? {
            let marker = EndMarker::read(&batch);
            let marker = marker.map_err(|error| damaged(segment.damage(at, batch.header().base_offset, error)))?;
            if batch.header().base_offset >= from {
                index.observe(batch.header(), marker.as_ref());
            }
        }
    }
    index.forget_below(partition.segments.first().map_or(0, |first| first.base_offset));
    Ok(index)
}
