//! One partition, for its writer.

use std::{io, path::PathBuf, sync::Arc};

use crate::{
    error::LogError,
    files::{Access, Files, write_all_at},
};

use super::{
    layout::{self, CheckpointedPartition, Epochs},
    segment::{Segment, segment_path},
    view::PartitionView,
};

/// A partition that can be written.
#[derive(Debug)]
#[expect(clippy::struct_excessive_bools, reason = "independent facts about its files")]
pub struct Partition {
    /// The topic.
    pub topic: String,
    /// The partition number.
    pub number: i32,
    /// The topic id.
    pub topic_id: u128,
    /// The directory.
    pub dir: PathBuf,
    /// The reader's view.
    pub view: Arc<PartitionView>,
    /// Segments, oldest first; the last is written to.
    pub segments: Vec<Arc<Segment>>,
    /// The offset of the next record.
    pub next_offset: i64,
    /// Size of the last segment in bytes.
    pub active_bytes: u64,
    /// Epochs, oldest first.
    pub epochs: Epochs,
    /// Whether an epoch was opened since the start.
    pub is_open: bool,
    /// Why appends are refused.
    pub refused: Option<LogError>,
    /// Whether a deletion failed, so that the partition is still there.
    pub deletion_failed: bool,
    /// Segments with unsynced bytes.
    pub dirty: Vec<Arc<Segment>>,
    /// Whether names in its directory changed since the last checkpoint.
    pub names_changed: bool,
    /// Whether `partition.metadata` was written and not synced.
    pub topic_id_unsynced: bool,
    /// Whether its epochs changed since they were written to its directory.
    pub epochs_changed: bool,
    /// The write-ahead file that declares it.
    pub declared_in: u64,
    /// Base offset of the newest segment in the last checkpoint. Older segments may be compacted.
    pub checkpointed_base: i64,
    /// The checkpoint of a partition that could not be recovered.
    pub kept_checkpoint: Option<CheckpointedPartition>,
    /// Segments filled by this pass, with their sizes.
    sealed: Vec<(Arc<Segment>, u64)>,
    /// Offset from which compaction has not run.
    pub first_dirty_offset: i64,
    /// Offset below which the compactions since the start have left each key once.
    pub compacted_to: i64,
    /// Whether a compaction failed while it renamed files. The next start completes it.
    pub is_half_swapped: bool,
    /// Whether the recovery knows of a file that says that there are transactions.
    pub has_snapshot: bool,
}

/// The state before a pass, for a rollback.
#[derive(Debug)]
pub struct Undo {
    next_offset: i64,
    active_bytes: u64,
    segments: usize,
    epochs: Epochs,
    is_open: bool,
    epochs_changed: bool,
    declared_in: u64,
}

impl Undo {
    /// Whether the partition had no segment.
    pub fn is_empty(&self) -> bool {
        self.segments == 0
    }
}

impl Partition {
    /// Creates a partition without records.
    pub fn new(topic: &str, number: i32, topic_id: u128, dir: PathBuf) -> Partition {
        Partition {
            topic: topic.to_owned(),
            number,
            topic_id,
            dir,
            view: Arc::default(),
            segments: Vec::new(),
            next_offset: 0,
            active_bytes: 0,
            epochs: Vec::new(),
            is_open: false,
            refused: None,
            deletion_failed: false,
            dirty: Vec::new(),
            names_changed: false,
            topic_id_unsynced: false,
            epochs_changed: false,
            declared_in: 0,
            checkpointed_base: 0,
            kept_checkpoint: None,
            sealed: Vec::new(),
            first_dirty_offset: 0,
            compacted_to: 0,
            is_half_swapped: false,
            has_snapshot: false,
        }
    }

    /// Returns the newest epoch.
    pub fn epoch(&self) -> Option<i32> {
        self.epochs.last().map(|(epoch, _)| *epoch)
    }

    /// Checks that `epoch` may append.
    pub fn check_epoch(&self, epoch: i32) -> Result<(), LogError> {
        match self.epoch() {
            Some(current_epoch) if epoch < current_epoch => Err(LogError::Fenced { current_epoch, epoch }),
            _ if !self.is_open => Err(LogError::NotOpen { partition: self.number }),
            Some(current_epoch) if epoch > current_epoch => Err(LogError::UnknownEpoch { current_epoch, epoch }),
            _ => Ok(()),
        }
    }

    /// Begins `epoch` at `start_offset`, and drops epochs without records before it.
    pub fn begin_epoch(&mut self, epoch: i32, start_offset: i64) {
        self.epochs.retain(|(_, start)| *start < start_offset);
        self.epochs.push((epoch, start_offset));
        self.epochs_changed = true;
    }

    /// Returns the current state for a rollback.
    pub fn undo(&self) -> Undo {
        Undo {
            next_offset: self.next_offset,
            active_bytes: self.active_bytes,
            segments: self.segments.len(),
            epochs: self.epochs.clone(),
            is_open: self.is_open,
            epochs_changed: self.epochs_changed,
            declared_in: self.declared_in,
        }
    }

    /// Rolls back to `undo`. Nothing since then was acknowledged or is in the write-ahead file. If the rollback fails,
    /// the partition is refused.
    pub fn roll_back(&mut self, files: &dyn Files, undo: Undo) {
        self.sealed.clear();
        let undone = self.segments.split_off(undo.segments);
        let removed = undone.iter().try_for_each(|segment| files.remove(&segment.path));
        let truncated = self.segments.last().map_or(Ok(()), |active| active.file.truncate(undo.active_bytes));
        if let Some(active) = self.segments.last() {
            active.forget_times();
            active.forget_from(undo.active_bytes);
        }
        self.dirty.retain(|segment| !undone.iter().any(|gone| Arc::ptr_eq(gone, segment)));
        (self.next_offset, self.active_bytes) = (undo.next_offset, undo.active_bytes);
        (self.epochs, self.epochs_changed) = (undo.epochs, undo.epochs_changed);
        (self.is_open, self.declared_in) = (undo.is_open, undo.declared_in);
        if let Err(error) = removed.and(truncated) {
            let file = self.segments.last().map_or(&self.dir, |active| &active.path);
            let reason = format!("an append to `{}` could not be taken back: {error}; start again", file.display());
            self.refused = Some(LogError::Stopped { reason: reason.into() });
        }
    }

    /// Begins a new segment at the next offset. `is_declared`: the checkpoint or a write-ahead file has the topic id
    /// durably, so that the next checkpoint may sync the one in the directory.
    pub fn roll(&mut self, files: &dyn Files, is_declared: bool) -> io::Result<()> {
        if self.segments.is_empty() {
            files.create_dir(&self.dir)?;
            let metadata = layout::partition_metadata(self.topic_id);
            let file = files.open(&self.dir.join(layout::PARTITION_METADATA), Access::Create)?;
            file.truncate(0)?;
            write_all_at(file.as_ref(), metadata.as_bytes(), 0)?;
            // Whose the segments are must be known whenever one of them is there.
            if is_declared {
                self.topic_id_unsynced = true;
            } else {
                file.sync()?;
                files.sync_dir(&self.dir)?;
            }
        }
        let path = segment_path(&self.dir, self.next_offset);
        let file = files.open(&path, Access::Create)?;
        if file.size_bytes()? > 0 {
            file.truncate(0)?;
        }
        self.sealed.extend(self.segments.last().map(|active| (Arc::clone(active), self.active_bytes)));
        let segment = Segment::new(self.next_offset, path, file, 0);
        segment.count_times();
        self.segments.push(Arc::new(segment));
        self.active_bytes = 0;
        self.names_changed = true;
        Ok(())
    }

    /// Writes whole batches to the end of the newest segment. `next_offset` is the offset after them.
    pub fn write(&mut self, bytes: &[u8], next_offset: i64) -> io::Result<()> {
        let active = self.segments.last().expect("a segment is there before it is written");
        write_all_at(active.file.as_ref(), bytes, self.active_bytes)?;
        if self.dirty.last().is_none_or(|last| !Arc::ptr_eq(last, active)) {
            self.dirty.push(Arc::clone(active));
        }
        active.note(self.next_offset, self.active_bytes);
        active.count_written(bytes);
        self.active_bytes += bytes.len() as u64;
        self.next_offset = next_offset;
        Ok(())
    }

    /// Shows everything written to readers.
    pub fn publish(&mut self) {
        for (segment, size_bytes) in self.sealed.drain(..) {
            segment.publish(size_bytes);
        }
        if let Some(active) = self.segments.last() {
            active.publish(self.active_bytes);
        }
        self.view.publish(&self.segments, self.next_offset);
    }

    /// Returns the partition for a checkpoint; that of the last checkpoint if it could not be recovered.
    pub fn checkpointed(&self) -> CheckpointedPartition {
        let is_refused = matches!(self.refused, Some(LogError::Damaged(_)));
        if let Some(kept) = &self.kept_checkpoint {
            return CheckpointedPartition { is_refused, ..kept.clone() };
        }
        CheckpointedPartition {
            topic: self.topic.clone(),
            partition: self.number,
            topic_id: self.topic_id,
            next_offset: self.next_offset,
            segment_base: self.segments.last().map_or(self.next_offset, |active| active.base_offset),
            segment_bytes: self.active_bytes,
            first_dirty_offset: self.first_dirty_offset,
            epochs: self.epochs.clone(),
            is_refused,
        }
    }
}
