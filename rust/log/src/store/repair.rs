//! Removes unreadable bytes from partitions. Whole batches before and after stay, with their offsets. The original
//! segment is kept as `.damaged`.
//!
//! Each segment is replaced atomically, and the checkpoint after them. A crash in between leaves a directory that still
//! needs the repair.

use std::{collections::BTreeMap, io, path::PathBuf, sync::Arc};

use crate::{
    Damage, LogError,
    batch::batches,
    files::{Access, Files, read_file, replace_file, write_all_at},
};

use super::{
    Store,
    layout::{self, CHECKPOINT, Checkpoint, CheckpointedPartition, DAMAGED, is_kept},
    partition::Partition,
    scan::list_segments,
    segment::{Segment, Walk, segment_path},
    wal::{WalEntry, entries, salvage_wal},
};

/// The result of a repair in one partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Repaired {
    /// The topic.
    pub topic: String,
    /// The partition number.
    pub partition: i32,
    /// The unreadable bytes.
    pub losses: Vec<Loss>,
    /// Batches restored from the write-ahead files.
    pub completed_batches: u64,
    /// Paths of the original segments.
    pub kept: Vec<PathBuf>,
}

/// Bytes of a segment outside of whole batches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Loss {
    /// The segment's path.
    pub file: PathBuf,
    /// Position of the first byte.
    pub position: u64,
    /// Number of bytes.
    pub bytes: u64,
    /// Offset of the first lost record.
    pub from_offset: i64,
    /// Offset after the last lost record. The write-ahead files may have restored some in between.
    pub to_offset: i64,
    /// The damage.
    pub reason: String,
}

/// Batches of one partition by their first offset.
type Batches = BTreeMap<i64, Vec<u8>>;

/// A repaired segment.
struct Mended {
    bytes: Vec<u8>,
    next_offset: i64,
    completed_batches: u64,
    losses: Vec<Loss>,
}

impl Store {
    /// Repairs every damaged partition. The store is unusable afterwards and must be opened again.
    pub(super) fn repair(self) -> io::Result<Vec<Repaired>> {
        let path = self.dir.join(CHECKPOINT);
        let text = read_file(self.files.as_ref(), &path)?.unwrap_or_default();
        let mut checkpoint = Checkpoint::of_text(&String::from_utf8_lossy(&text))
            .ok_or_else(|| io::Error::other(format!("`{}` changed meanwhile", path.display())))?;
        let mut repaired = Vec::new();
        for partition in self.partitions.iter().flatten() {
            repaired.extend(self.repair_partition(partition, &mut checkpoint)?);
        }
        if !repaired.is_empty() {
            replace_file(self.files.as_ref(), &path, checkpoint.to_text().as_bytes(), true)?;
        }
        Ok(repaired)
    }

    fn repair_partition(&self, partition: &Partition, checkpoint: &mut Checkpoint) -> io::Result<Option<Repaired>> {
        let files = self.files.as_ref();
        let known = checkpoint
            .partitions
            .iter_mut()
            .find(|known| known.topic == partition.topic && known.partition == partition.number);
        let Some(known) = known else { return Ok(None) };
        let mut segments = match list_segments(files, &partition.dir, true) {
            Ok(Ok(listed)) => listed.segments,
            Ok(Err(damage)) => {
                let file = damage.file.display();
                return Err(io::Error::other(format!(
                    "`{file}`, which a compaction was about to use, is damaged: restore `{}` from a copy",
                    partition.dir.display()
                )));
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                files.create_dir(&partition.dir)?;
                Vec::new()
            }
            Err(error) => return Err(error),
        };
        let has_records = known.segment_bytes > 0 || known.segment_base < known.next_offset;
        if has_records && segments.last().is_none_or(|last| last.base_offset < known.segment_base) {
            let path = segment_path(&partition.dir, known.segment_base);
            let file = files.open(&path, Access::Create)?;
            segments.push(Arc::new(Segment::new(known.segment_base, path, file, 0)));
        }
        let from_wal = match partition.refused {
            Some(_) => self.kept_batches(partition, known)?,
            None => Batches::new(),
        };
        let mut repaired = Repaired {
            topic: partition.topic.clone(),
            partition: partition.number,
            losses: Vec::new(),
            completed_batches: 0,
            kept: Vec::new(),
        };
        let end_offset = end_offset(partition, known, &segments, &from_wal);
        let mut next_offset = segments.first().map_or(0, |first| first.base_offset);
        let expected_offset = known.next_offset;
        for (at, segment) in segments.iter().enumerate() {
            let limit = segments.get(at + 1).map_or(end_offset, |next| next.base_offset);
            let first_offset = next_offset.max(segment.base_offset);
            let mended = mend(segment, first_offset, limit, expected_offset, &from_wal)?;
            next_offset = mended.next_offset;
            if !mended.losses.is_empty() || mended.completed_batches > 0 {
                repaired.kept.extend(replace_segment(files, segment, &mended.bytes)?);
            }
            (known.segment_base, known.segment_bytes) = (segment.base_offset, mended.bytes.len() as u64);
            repaired.completed_batches += mended.completed_batches;
            repaired.losses.extend(mended.losses);
        }
        if let Some(LogError::Damaged(damage)) = partition.refused.as_ref().filter(|_| repaired.losses.is_empty())
            && next_offset < expected_offset
        {
            let Damage { file, position, reason, .. } = damage.as_ref().clone();
            let (from_offset, to_offset) = (next_offset, expected_offset);
            repaired.losses.push(Loss { file, position, bytes: 0, from_offset, to_offset, reason });
        }
        if repaired.losses.is_empty() && repaired.completed_batches == 0 && partition.refused.is_none() {
            return Ok(None);
        }
        files.sync_dir(&partition.dir)?;
        // Offsets are not assigned twice.
        known.next_offset = known.next_offset.max(next_offset);
        known.is_refused = false;
        Ok(Some(repaired))
    }

    /// Returns the batches of a refused partition in the kept write-ahead files, after the checkpoint: compaction may
    /// have removed earlier ones.
    pub(super) fn kept_batches(&self, partition: &Partition, known: &CheckpointedPartition) -> io::Result<Batches> {
        let mut found = Batches::new();
        for entry in self.files.list(&self.dir)?.iter().filter(|entry| is_kept(entry)) {
            let Some((wal, _)) = salvage_wal(self.files.as_ref(), &self.dir.join(&entry.name))? else { continue };
            let mut is_this = BTreeMap::new();
            for entry in wal.frames.iter().flat_map(|payload| entries(payload)).flatten() {
                match entry {
                    WalEntry::Declare { handle, topic, partition: number, topic_id } => {
                        let life = (topic, number, topic_id);
                        is_this.insert(handle, life == (&partition.topic, partition.number, partition.topic_id));
                    }
                    WalEntry::Batches { handle, bytes, .. } if is_this.get(&handle) == Some(&true) => {
                        for batch in batches(bytes).flatten() {
                            found.insert(batch.header().base_offset, batch.bytes().to_vec());
                        }
                    }
                    _ => {}
                }
            }
        }
        Ok(found.split_off(&known.next_offset))
    }
}

/// Returns an upper bound of all known offsets of a partition.
fn end_offset(
    partition: &Partition,
    known: &CheckpointedPartition,
    segments: &[Arc<Segment>],
    from_wal: &Batches,
) -> i64 {
    if partition.refused.is_none() {
        return partition.next_offset;
    }
    let last = segments.last();
    let has_more =
        last.is_some_and(|last| last.base_offset != known.segment_base || last.readable_bytes() > known.segment_bytes);
    let of_wal =
        from_wal.values().next_back().and_then(|bytes| batches(bytes).next()?.ok().map(|b| b.header().last_offset()));
    match of_wal {
        Some(last_offset) => known.next_offset.max(last_offset + 1),
        None if has_more => i64::MAX,
        None => known.next_offset,
    }
}

/// Collects the whole batches of a segment with offsets from `next_offset` and below `limit`, and between them those of
/// the write-ahead files. `end_offset` ends a loss with nothing after it.
fn mend(segment: &Segment, next_offset: i64, limit: i64, end_offset: i64, from_wal: &Batches) -> io::Result<Mended> {
    let mut mended = Mended { bytes: Vec::new(), next_offset, completed_batches: 0, losses: Vec::new() };
    let mut walk = Walk::new(segment, 0, segment.file.size_bytes()?);
    walk.next_offset = next_offset;
    // The last batch, if offsets are missing before it: its position, the length before it, and the expected offset.
    let mut jumped: Option<(u64, usize, i64)> = None;
    loop {
        let position = walk.position;
        let reason = match walk.next(true) {
            Ok(Some((_, batch))) if batch.header().last_offset() < limit => {
                let is_jump = batch.header().base_offset > mended.next_offset;
                jumped = is_jump.then_some((position, mended.bytes.len(), mended.next_offset));
                mended.bytes.extend_from_slice(batch.bytes());
                mended.next_offset = batch.header().last_offset() + 1;
                continue;
            }
            Ok(Some(_)) => "its offset is too large".to_owned(),
            Ok(None) => break,
            Err(damage) => damage.reason,
        };
        let mut from = position;
        (walk.position, walk.next_offset) = (position, mended.next_offset);
        // Checksums do not cover offsets. If the next batch continues before the gap, the batch after the gap is wrong.
        let wrong = jumped.take().filter(|(_, _, expected)| walk.goes_on_at(*expected, limit));
        if let Some((at, length, expected)) = wrong {
            mended.bytes.truncate(length);
            (from, mended.next_offset) = (at, expected);
        } else {
            walk.skip_damage(limit)?;
        }
        let from_offset = mended.next_offset;
        let to_offset = walk.offset_here()?.unwrap_or_else(|| limit.min(end_offset).max(from_offset));
        mended.complete(from_wal, to_offset);
        let (file, bytes) = (segment.path.clone(), walk.position - from);
        mended.losses.push(Loss { file, position: from, bytes, from_offset, to_offset, reason });
        walk.next_offset = mended.next_offset;
    }
    for (from_offset, to_offset) in mended.complete(from_wal, limit) {
        let (file, position) = (segment.path.clone(), mended.bytes.len() as u64);
        let reason = "no write-ahead file has what was there".to_owned();
        mended.losses.push(Loss { file, position, bytes: 0, from_offset, to_offset, reason });
    }
    Ok(mended)
}

impl Mended {
    /// Adds batches of the write-ahead files before `limit`. Returns the ranges of offsets that are still missing.
    fn complete(&mut self, from_wal: &Batches, limit: i64) -> Vec<(i64, i64)> {
        let mut missing = Vec::new();
        if self.next_offset >= limit {
            return missing;
        }
        for bytes in from_wal.range(self.next_offset..limit).map(|(_, bytes)| bytes) {
            let Some(Ok(batch)) = batches(bytes).next() else { continue };
            let header = batch.header();
            if header.base_offset >= self.next_offset && header.last_offset() < limit {
                if header.base_offset > self.next_offset {
                    missing.push((self.next_offset, header.base_offset));
                }
                self.bytes.extend_from_slice(bytes);
                self.next_offset = header.last_offset() + 1;
                self.completed_batches += 1;
            }
        }
        missing
    }
}

/// Replaces a segment's bytes durably, and keeps the original.
fn replace_segment(files: &dyn Files, segment: &Segment, bytes: &[u8]) -> io::Result<Option<PathBuf>> {
    let dir = segment.path.parent().expect("a segment is in its partition's directory");
    let kept = (1..).map(|n| segment.path.with_added_extension(format!("{n}.{DAMAGED}")));
    let there = files.list(dir)?;
    let is_free = |path: &PathBuf| !there.iter().any(|entry| path.file_name().is_some_and(|name| name == &*entry.name));
    let kept = kept.into_iter().find(is_free).expect("there are more numbers than files");
    let old = read_file(files, &segment.path)?.unwrap_or_default();
    if !old.is_empty() {
        let copy = files.open(&kept, Access::Create)?;
        write_all_at(copy.as_ref(), &old, 0)?;
        copy.sync()?;
        files.sync_dir(dir)?;
    }
    let path = dir.join(layout::segment_name(segment.base_offset));
    replace_file(files, &path, bytes, true)?;
    Ok((!old.is_empty()).then_some(kept))
}
