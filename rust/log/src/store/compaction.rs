//! Compaction keeps the newest record of each key in the older segments of a partition, with its offset.
//!
//! Tombstones stay for `delete_retention_ms` after the first compaction that reads them, and so do the markers of
//! transactions after the first compaction that finds no record of theirs. Records of aborted transactions are removed,
//! and open transactions stop compaction. A group of segments is written to `BASE.log.cleaned`, synced, and renamed to `BASE.log.swap`. After a sync of the directory, the group's
//! other segments are removed; after another, `.swap` is renamed to `BASE.log`. A crash before the first rename leaves
//! the old segments. A crash after it leaves a `.swap`, which the next start installs.
//!
//! A compaction remembers a limited number of keys. With more of them, several compactions follow each other: each takes
//! up the keys from where the last one ended, and removes what they supersede from there and from all before. Among the
//! records before, a key is there once. A start forgets that place, and the next compaction begins with the first key.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    hash::{BuildHasher as _, RandomState},
    io,
    path::PathBuf,
    sync::Arc,
};

use crate::{
    Damage,
    batch::Batch,
    files::{Access, File, Files, write_all_at},
};

use super::{
    PartitionHandle, Store,
    layout::{CLEANED, SWAP},
    rewrite::{Rewritten, rewrite},
    segment::{Segment, Walk, segment_path},
    view::PAYLOAD_BYTES_MAX,
};

/// Approximate bytes read in one slice.
const SLICE_BYTES: u64 = 1 << 20;

/// A compaction of one partition.
#[derive(Debug)]
pub struct Compaction {
    /// The partition.
    pub partition: PartitionHandle,
    files: Arc<dyn Files>,
    dir: PathBuf,
    sources: Vec<Arc<Segment>>,
    /// Base offset of the first segment after the compacted ones.
    end_offset: i64,
    /// The offset below which nothing is left to do before more is written.
    clean_offset: i64,
    /// Offsets of the batches whose keys are read. Below them, no record supersedes another one there.
    keys: std::ops::Range<i64>,
    keys_max: usize,
    segment_bytes_max: u64,
    now_ms: i64,
    delete_retention_ms: i64,
    newest: Newest,
    phase: Phase,
    /// Whether a group's files are being renamed and removed.
    is_swapping: bool,
    /// Replaced segments with their replacement, in order.
    finished: Vec<(Vec<Arc<Segment>>, Arc<Segment>)>,
}

#[derive(Debug)]
enum Phase {
    /// Collects the newest offset of each key; has the next source and the position in it.
    Read(usize, u64),
    /// Writes a group.
    Write(Group),
    /// Renames the group's files; has the next step.
    Swap(Group, u8),
    Done,
}

#[derive(Debug)]
struct Group {
    sources: std::ops::Range<usize>,
    source: usize,
    position: u64,
    cleaned: Arc<dyn File>,
    written_bytes: u64,
}

/// The newest offset of each key, and the transactions.
#[derive(Debug, Default)]
struct Newest {
    hashers: (RandomState, RandomState),
    /// By 128 bits of keyed hashes, so that no client can construct a collision.
    offsets: HashMap<u128, i64>,
    /// Open transactions by producer id: first offset, and (key, offset) of the records.
    open: BTreeMap<i64, (i64, Vec<(u128, i64)>)>,
    /// Aborted transactions by producer id: first offset, offset of the marker; in their order.
    aborted: HashMap<i64, Vec<(i64, i64)>>,
    /// Offsets of markers without a record of their transaction.
    idle_markers: HashSet<i64>,
}

impl Newest {
    fn key(&self, key: &[u8]) -> u128 {
        u128::from(self.hashers.0.hash_one(key)) << 64 | u128::from(self.hashers.1.hash_one(key))
    }

    /// Reads a batch: its keys if `has_keys`, and its transaction in any case.
    fn read(&mut self, batch: &Batch<'_>, has_keys: bool) -> Result<(), crate::batch::BatchError> {
        let header = batch.header();
        if !has_keys && !header.is_control() && !header.is_transactional() {
            return Ok(());
        }
        let payload = batch.payload(PAYLOAD_BYTES_MAX)?;
        for record in batch.records_in(&payload) {
            let record = record?;
            let offset = batch.offset(&record);
            if header.is_control() {
                self.marker(header.producer_id, record.key.unwrap_or_default(), offset);
                continue;
            }
            let Some(key) = record.key else { continue };
            let key = self.key(key);
            if header.is_transactional() {
                let open = self.open.entry(header.producer_id).or_insert((offset, Vec::new()));
                open.1.extend(has_keys.then_some((key, offset)));
            } else {
                self.see(key, offset);
            }
        }
        Ok(())
    }

    fn see(&mut self, key: u128, offset: i64) {
        let newest = self.offsets.entry(key).or_insert(offset);
        *newest = offset.max(*newest);
    }

    /// Applies a marker. Its key is version i16, type i16: 0 aborts, 1 commits.
    fn marker(&mut self, producer_id: i64, key: &[u8], offset: i64) {
        let kind = match key {
            [_, _, 0, kind @ (0 | 1), ..] => *kind,
            _ => return,
        };
        let Some((first_offset, records)) = self.open.remove(&producer_id) else {
            self.idle_markers.insert(offset);
            return;
        };
        if kind == 1 {
            for (key, offset) in records {
                self.see(key, offset);
            }
        } else {
            self.aborted.entry(producer_id).or_default().push((first_offset, offset));
        }
    }

    fn is_aborted(&self, producer_id: i64, offset: i64) -> bool {
        let Some(aborted) = self.aborted.get(&producer_id) else { return false };
        let at = aborted.partition_point(|(_, marker)| *marker < offset);
        aborted.get(at).is_some_and(|(first, _)| *first <= offset)
    }
}

impl Newest {
    /// Leaves out what is superseded, aborted, or a tombstone whose time is over.
    fn filter(
        &self,
        batch: &Batch<'_>,
        now_ms: i64,
        delete_retention_ms: i64,
    ) -> Result<Rewritten, crate::batch::BatchError> {
        let header = batch.header();
        let horizon = header.delete_horizon_ms();
        let new_horizon_ms = now_ms.saturating_add(delete_retention_ms);
        if header.is_control() {
            let is_over = horizon.is_some_and(|horizon_ms| horizon_ms < now_ms);
            let is_idle = self.idle_markers.contains(&header.base_offset);
            return if is_idle { rewrite(batch, new_horizon_ms, |_| !is_over) } else { Ok(Rewritten::Same) };
        }
        rewrite(batch, new_horizon_ms, |record| {
            let offset = batch.offset(record);
            if header.is_transactional() && self.is_aborted(header.producer_id, offset) {
                return false;
            }
            let Some(key) = record.key else { return false };
            let is_superseded = self.offsets.get(&self.key(key)).is_some_and(|newest| *newest > offset);
            let is_over = record.value.is_none() && horizon.is_some_and(|horizon_ms| horizon_ms < now_ms);
            !is_superseded && !is_over
        })
    }
}

/// Compacts batches in memory as a [`Compaction`] does with segments. `parts` have whole batches in the order of their
/// offsets. A batch that a part repeats is read once: a snapshot may end inside the first entry after it. Stops before
/// the first open transaction. Returns the offset that everything below is compacted, and the batches that remain.
pub fn compact_batches(
    parts: &[&[u8]],
    now_ms: i64,
    delete_retention_ms: i64,
) -> Result<(i64, Vec<Vec<u8>>), crate::batch::BatchError> {
    let mut newest = Newest::default();
    let all = || parts.iter().flat_map(|part| crate::batch::batches(part));
    let mut upto = 0;
    for batch in all() {
        let batch = batch?;
        batch.check_crc()?;
        if batch.header().last_offset() < upto {
            continue;
        }
        newest.read(&batch, true)?;
        upto = batch.header().last_offset() + 1;
    }
    upto = newest.open.values().map(|(first_offset, _)| *first_offset).min().map_or(upto, |first| first.min(upto));
    let (mut kept, mut next) = (Vec::new(), 0);
    for batch in all() {
        let batch = batch?;
        if batch.header().base_offset >= upto {
            break;
        }
        if batch.header().last_offset() < next {
            continue;
        }
        next = batch.header().last_offset() + 1;
        match newest.filter(&batch, now_ms, delete_retention_ms)? {
            Rewritten::Same => kept.push(batch.bytes().to_vec()),
            Rewritten::Gone => {}
            Rewritten::Changed(bytes) => kept.push(bytes),
        }
    }
    Ok((upto, kept))
}

fn damaged(damage: &Damage) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, damage.to_string())
}

impl Compaction {
    /// Runs one slice. Returns false at the end.
    pub fn step(&mut self) -> io::Result<bool> {
        match std::mem::replace(&mut self.phase, Phase::Done) {
            Phase::Read(source, position) => self.read(source, position)?,
            Phase::Write(group) => self.write(group)?,
            Phase::Swap(group, at) => self.swap(group, at)?,
            Phase::Done => {}
        }
        Ok(!matches!(self.phase, Phase::Done))
    }

    fn read(&mut self, source: usize, position: u64) -> io::Result<()> {
        let Some(segment) = self.sources.get(source) else {
            // Keeps the records that an open transaction may still decide about.
            let first_open = self.newest.open.values().map(|(first, _)| *first).min();
            let kept_to = self.keys.end.min(first_open.unwrap_or(i64::MAX));
            self.keep_sources(|next_base| next_base <= kept_to);
            return self.begin_group(0);
        };
        let mut walk = Walk::new(segment, position, segment.readable_bytes());
        while walk.position < position + SLICE_BYTES {
            let Some((at, batch)) = walk.next(true).map_err(|damage| damaged(&damage))? else { break };
            let read = self.newest.read(&batch, self.keys.contains(&batch.header().base_offset));
            read.map_err(|error| damaged(&segment.damage(at, batch.header().base_offset, error)))?;
        }
        let position = walk.position;
        if position < segment.readable_bytes() {
            self.phase = Phase::Read(source, position);
            return Ok(());
        }
        if self.newest.offsets.len() > self.keys_max && self.keys.end == i64::MAX {
            // The rest only shows how open transactions ended.
            let next_base = self.sources.get(source + 1).map_or(self.end_offset, |next| next.base_offset);
            self.keys.end = next_base;
            self.clean_offset = next_base;
        }
        self.phase = Phase::Read(source + 1, 0);
        Ok(())
    }

    /// Keeps the sources before the first whose successor's base offset does not satisfy `passes`.
    fn keep_sources(&mut self, passes: impl Fn(i64) -> bool) {
        let next_bases = self.sources.iter().skip(1).map(|next| next.base_offset).chain([self.end_offset]);
        let kept = next_bases.take_while(|next_base| passes(*next_base)).count();
        if let Some(first_left) = self.sources.get(kept) {
            self.end_offset = first_left.base_offset;
        }
        self.sources.truncate(kept);
    }

    /// Begins a group of segments that fit one segment, by size and by offsets.
    fn begin_group(&mut self, start: usize) -> io::Result<()> {
        let Some(first) = self.sources.get(start) else { return Ok(()) };
        let mut size_bytes = first.readable_bytes();
        let mut end = start + 1;
        while let Some(next) = self.sources.get(end) {
            let next_base = self.sources.get(end + 1).map_or(self.end_offset, |after| after.base_offset);
            size_bytes += next.readable_bytes();
            if size_bytes > self.segment_bytes_max || next_base - first.base_offset > i64::from(i32::MAX) {
                break;
            }
            end += 1;
        }
        let path = segment_path(&self.dir, first.base_offset).with_added_extension(CLEANED);
        let cleaned = self.files.open(&path, Access::Create)?;
        cleaned.truncate(0)?;
        self.phase = Phase::Write(Group { sources: start..end, source: start, position: 0, cleaned, written_bytes: 0 });
        Ok(())
    }

    fn write(&mut self, mut group: Group) -> io::Result<()> {
        if group.source == group.sources.end {
            group.cleaned.sync()?;
            self.phase = Phase::Swap(group, 0);
            return Ok(());
        }
        let segment = Arc::clone(&self.sources[group.source]);
        let mut walk = Walk::new(&segment, group.position, segment.readable_bytes());
        let mut out = Vec::new();
        while walk.position < group.position + SLICE_BYTES {
            let Some((at, batch)) = walk.next(true).map_err(|damage| damaged(&damage))? else { break };
            match self
                .filter(&batch)
                .map_err(|error| damaged(&segment.damage(at, batch.header().base_offset, error)))?
            {
                Rewritten::Same => out.extend_from_slice(batch.bytes()),
                Rewritten::Gone => {}
                Rewritten::Changed(bytes) => out.extend_from_slice(&bytes),
            }
        }
        group.position = walk.position;
        write_all_at(group.cleaned.as_ref(), &out, group.written_bytes)?;
        group.written_bytes += out.len() as u64;
        if group.position >= segment.readable_bytes() {
            group.source += 1;
            group.position = 0;
        }
        self.phase = Phase::Write(group);
        Ok(())
    }

    fn filter(&self, batch: &Batch<'_>) -> Result<Rewritten, crate::batch::BatchError> {
        self.newest.filter(batch, self.now_ms, self.delete_retention_ms)
    }

    fn swap(&mut self, group: Group, at: u8) -> io::Result<()> {
        let base_offset = self.sources[group.sources.start].base_offset;
        let path = segment_path(&self.dir, base_offset);
        let swap = path.with_added_extension(SWAP);
        self.is_swapping = true;
        match at {
            0 => self.files.rename(&path.with_added_extension(CLEANED), &swap)?,
            1 | 3 | 5 => self.files.sync_dir(&self.dir)?,
            2 => {
                for source in &self.sources[group.sources.start + 1..group.sources.end] {
                    match self.files.remove(&source.path) {
                        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                        _ => {}
                    }
                }
            }
            4 => self.files.rename(&swap, &path)?,
            _ => {
                let cleaned = Segment::new(base_offset, path, group.cleaned, group.written_bytes);
                let sources = self.sources[group.sources.clone()].to_vec();
                self.finished.push((sources, Arc::new(cleaned)));
                self.is_swapping = false;
                return self.begin_group(group.sources.end);
            }
        }
        self.phase = Phase::Swap(group, at + 1);
        Ok(())
    }
}

impl Store {
    /// Begins the most useful compaction, if any is due.
    pub(super) fn begin_compaction(&mut self, now_ms: i64) -> Option<Compaction> {
        let mut best: Option<(u64, u32)> = None;
        for (handle, partition) in (0..).zip(&self.partitions) {
            let Some(partition) = partition.as_ref().filter(|partition| {
                let is_compacted = self.options.compacted_topics.contains(&partition.topic);
                partition.refused.is_none() && !partition.is_half_swapped && is_compacted
            }) else {
                continue;
            };
            let sealed =
                || partition.segments.iter().filter(|segment| segment.base_offset < partition.checkpointed_base);
            let total: u64 = sealed().map(|segment| segment.readable_bytes()).sum();
            let is_dirty = |segment: &&Arc<Segment>| segment.base_offset >= partition.first_dirty_offset;
            let dirty: u64 = sealed().filter(is_dirty).map(|segment| segment.readable_bytes()).sum();
            if dirty > 0 && dirty * 100 >= self.options.cleanable_percent_min * total {
                best = best.max(Some((dirty, handle)));
            }
        }
        let (_, handle) = best?;
        let partition = self.partitions[handle as usize].as_ref()?;
        let end_offset = partition.checkpointed_base;
        let sources = partition.segments.iter().take_while(|segment| segment.base_offset < end_offset).cloned();
        Some(Compaction {
            partition: PartitionHandle(handle),
            files: Arc::clone(&self.files),
            dir: partition.dir.clone(),
            sources: sources.collect(),
            end_offset,
            clean_offset: end_offset,
            keys: partition.compacted_to..i64::MAX,
            keys_max: self.options.compaction_keys_max,
            segment_bytes_max: self.options.segment_bytes,
            now_ms,
            delete_retention_ms: self.options.delete_retention_ms,
            newest: Newest::default(),
            phase: Phase::Read(0, 0),
            is_swapping: false,
            finished: Vec::new(),
        })
    }

    /// Shows the compacted segments to readers.
    pub(super) fn end_compaction(&mut self, task: Compaction) {
        self.compactions += 1;
        let (clean_offset, end_offset) = (task.clean_offset, task.end_offset);
        if let Some(partition) = self.take_over(task) {
            // An open transaction may have left nothing to do. Without this, the same compaction would repeat.
            let is_further = end_offset > partition.compacted_to;
            let clean_offset = if is_further { clean_offset } else { partition.checkpointed_base };
            partition.compacted_to = partition.compacted_to.max(end_offset);
            partition.first_dirty_offset = partition.first_dirty_offset.max(clean_offset);
        }
    }

    /// Keeps what was finished; the other segments stay as they were. Compaction runs again after more writes, or only
    /// after the next start if files were being renamed: that one installs a `.swap`, which may not know later
    /// compactions.
    pub(super) fn abandon_compaction(&mut self, task: Compaction, error: &io::Error) {
        if let Some(first) = task.sources.get(task.finished.iter().map(|(sources, _)| sources.len()).sum::<usize>()) {
            let _ = task.files.remove(&first.path.with_added_extension(CLEANED));
        }
        self.last_compaction_error = Some(error.to_string());
        let is_half_swapped = task.is_swapping;
        if let Some(partition) = self.take_over(task) {
            partition.is_half_swapped |= is_half_swapped;
            partition.first_dirty_offset = partition.checkpointed_base;
        }
    }

    fn take_over(&mut self, task: Compaction) -> Option<&mut super::partition::Partition> {
        let partition = self.partitions[task.partition.0 as usize].as_mut()?;
        for (sources, cleaned) in task.finished {
            partition.segments.retain(|segment| !sources.iter().any(|source| Arc::ptr_eq(source, segment)));
            let at = partition.segments.partition_point(|segment| segment.base_offset < cleaned.base_offset);
            partition.segments.insert(at, cleaned);
        }
        let next_offset = partition.view.next_offset();
        partition.view.publish(&partition.segments, next_offset);
        Some(partition)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::BatchWriter;

    fn batch(base_offset: i64, records: &[(&str, Option<&str>)]) -> Vec<u8> {
        let mut writer = BatchWriter::default();
        writer.base_offset = base_offset;
        for (key, value) in records {
            writer.push(1_000, Some(key.as_bytes()), value.map(str::as_bytes));
        }
        writer.finish().into()
    }

    fn records(parts: &[Vec<u8>]) -> Vec<(i64, String, bool)> {
        let mut found = Vec::new();
        for part in parts {
            let (batch, _) = Batch::split(part).unwrap();
            batch.check_crc().unwrap();
            for record in batch.records_in(&batch.payload(1_000).unwrap()) {
                let record = record.unwrap();
                let key = String::from_utf8(record.key.unwrap().to_vec()).unwrap();
                found.push((batch.offset(&record), key, record.value.is_some()));
            }
        }
        found
    }

    #[test]
    fn batches_in_memory_keep_the_newest_record_of_each_key_and_tombstones_for_their_time() {
        let one = batch(0, &[("a", Some("1")), ("b", Some("1"))]);
        let two = batch(2, &[("b", None), ("c", Some("1")), ("a", Some("2"))]);
        let (upto, kept) = compact_batches(&[&one, &two], 2_000, 500).unwrap();
        let found = records(&kept);
        assert_eq!(upto, 5);
        assert_eq!(found, [(2, "b".to_owned(), false), (3, "c".to_owned(), true), (4, "a".to_owned(), true)]);
        let parts: Vec<&[u8]> = kept.iter().map(Vec::as_slice).collect();
        assert_eq!(compact_batches(&parts, 2_500, 500).unwrap(), (5, kept.clone()));
        let (upto, kept) = compact_batches(&parts, 2_501, 500).unwrap();
        assert_eq!((upto, records(&kept).len()), (5, 2), "the tombstone's time is over");
    }

    fn of_transaction(base_offset: i64, producer_id: i64, key: &str) -> Vec<u8> {
        let mut writer = BatchWriter::default();
        (writer.base_offset, writer.producer, writer.is_transactional) = (base_offset, Some((producer_id, 0, 0)), true);
        writer.push(1_000, Some(key.as_bytes()), Some(b"1"));
        writer.finish().into()
    }

    fn marker(offset: i64, producer_id: i64) -> Vec<u8> {
        let marker = crate::EndMarker { producer_id, producer_epoch: 0, coordinator_epoch: 0, is_commit: true };
        let mut bytes = marker.batch(1_000).to_vec();
        crate::rewrite_header(&mut bytes, offset, 0);
        bytes
    }

    fn offsets(parts: &[Vec<u8>]) -> Vec<i64> {
        parts.iter().map(|part| Batch::split(part).unwrap().0.header().base_offset).collect()
    }

    #[test]
    fn a_marker_that_an_entry_repeats_after_the_snapshot_stays_with_the_records_of_its_transaction() {
        let of_a = of_transaction(0, 7, "a");
        let entry = [marker(1, 7), of_transaction(2, 9, "c")].concat();
        let (upto, snapshot) = compact_batches(&[&of_a, &entry], 1_000, 500).unwrap();
        assert_eq!((upto, offsets(&snapshot)), (2, vec![0, 1]), "the transaction of `c` is open");
        // As earlier versions wrote them, too.
        let copied = [snapshot.concat(), marker(1, 7)];
        for snapshot in [snapshot, copied.to_vec()] {
            let mut kept = snapshot;
            for now_ms in [2_000, 9_000, 90_000] {
                let parts: Vec<&[u8]> = kept.iter().map(Vec::as_slice).chain([&entry[..]]).collect();
                let (upto, next) = compact_batches(&parts, now_ms, 500).unwrap();
                assert_eq!((upto, offsets(&next)), (2, vec![0, 1]), "{now_ms}");
                kept = next;
            }
        }
    }

    #[test]
    fn a_damaged_batch_is_not_compacted() {
        let mut one = batch(0, &[("a", Some("1"))]);
        *one.last_mut().unwrap() ^= 1;
        assert!(compact_batches(&[&one], 0, 0).is_err());
    }
}
