//! Background tasks in slices: checkpoints and compaction.

use std::{
    collections::VecDeque,
    io,
    path::{Path, PathBuf},
    sync::Arc,
};

use crate::files::{Access, Files, replace_file};

use super::{
    Durability, PartitionHandle, Store,
    compaction::Compaction,
    layout::{self, CHECKPOINT, Checkpoint, LEADER_EPOCHS, PARTITION_METADATA},
    segment::Segment,
    wal::Wal,
};

/// Work that needs nothing of its store until it is finished. Another thread may run it.
#[derive(Debug)]
pub enum Task {
    /// Syncs the segments and removes write-ahead files.
    Checkpoint(CheckpointTask),
    /// Rewrites old segments of one partition.
    Compaction(Box<Compaction>),
}

/// A checkpoint, see [`Task`].
#[derive(Debug)]
pub struct CheckpointTask {
    files: Arc<dyn Files>,
    steps: VecDeque<Step>,
    /// Base offsets up to which compaction is allowed after this checkpoint.
    bases: Vec<(PartitionHandle, i64)>,
}

#[derive(Debug)]
enum Step {
    SyncSegment(Arc<Segment>),
    SyncFile(PathBuf),
    SyncDir(PathBuf),
    /// For Kafka's tools; rota reads its checkpoint.
    Epochs(PathBuf, String),
    Checkpoint(PathBuf, String),
    RemoveWal(PathBuf),
}

impl Task {
    /// Runs one slice. Returns false at the end. An error ends the task.
    pub fn step(&mut self) -> io::Result<bool> {
        match self {
            Task::Checkpoint(task) => task.step(),
            Task::Compaction(task) => task.step(),
        }
    }

    /// Runs all slices.
    pub fn run(&mut self) -> io::Result<()> {
        while self.step()? {}
        Ok(())
    }
}

impl CheckpointTask {
    fn step(&mut self) -> io::Result<bool> {
        let Some(step) = self.steps.pop_front() else { return Ok(false) };
        let name = |path: &Path| path.display().to_string();
        let (file, done) = match step {
            Step::SyncSegment(segment) => (name(&segment.path), segment.file.sync()),
            Step::SyncFile(path) => {
                let synced = self.files.open(&path, Access::Write).and_then(|file| file.sync());
                (name(&path), ignore_missing(synced))
            }
            Step::SyncDir(dir) => (name(&dir), ignore_missing(self.files.sync_dir(&dir))),
            Step::Epochs(path, text) => {
                let written = replace_file(self.files.as_ref(), &path, text.as_bytes(), false);
                (name(&path), ignore_missing(written))
            }
            Step::Checkpoint(path, text) => {
                (name(&path), replace_file(self.files.as_ref(), &path, text.as_bytes(), true))
            }
            Step::RemoveWal(path) => (name(&path), ignore_missing(self.files.remove(&path))),
        };
        done.map_err(|error| io::Error::new(error.kind(), format!("`{file}`: {error}")))?;
        Ok(!self.steps.is_empty())
    }
}

/// Ignores files of a partition that was deleted meanwhile.
fn ignore_missing(done: io::Result<()>) -> io::Result<()> {
    match done {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        done => done,
    }
}

impl Store {
    /// Returns the next task that is due, one at a time. [`Store::finish`] takes it back. `now_ms` is wall time.
    pub fn next_task(&mut self, now_ms: i64) -> Option<Task> {
        if self.in_task || self.stopped.is_some() || self.options.access.is_read_only() {
            return None;
        }
        let is_full = self.wal.size_bytes().max(self.unsynced_bytes) >= self.options.wal_bytes;
        let task = if is_full || self.checkpoint_due {
            self.begin_checkpoint().ok().map(Task::Checkpoint)
        } else {
            self.begin_compaction(now_ms).map(|task| Task::Compaction(Box::new(task)))
        };
        self.in_task = task.is_some();
        task
    }

    /// Whether the write-ahead file has grown so much that passes should wait for the current task.
    pub fn is_behind(&self) -> bool {
        self.in_task && self.wal.size_bytes() >= self.options.wal_bytes.saturating_mul(4)
    }

    /// Writes a whole checkpoint, so that the next start has nothing to complete.
    pub fn checkpoint(&mut self) -> Result<(), crate::LogError> {
        debug_assert!(!self.in_task, "one task at a time");
        if let Some(refusal) = self.refusal() {
            return Err(refusal);
        }
        let path = self.dir.join(layout::wal_name(self.wal.number + 1));
        let mut task = self.begin_checkpoint().map_err(|error| super::pass::storage_error(&path, &error))?;
        let steps = task.steps.len();
        let ran = (0..steps).try_for_each(|_| task.step().map(|_| ()));
        self.finish(Task::Checkpoint(task), ran);
        match &self.stopped {
            Some(reason) => Err(crate::LogError::Stopped { reason: Arc::clone(reason) }),
            None => Ok(()),
        }
    }

    /// Begins a checkpoint. After an error, such as a write-ahead file that cannot be created, the old file stays in
    /// use.
    fn begin_checkpoint(&mut self) -> io::Result<CheckpointTask> {
        let has_data = self.options.durability == Durability::Fsync;
        let files = Arc::clone(&self.files);
        let mut wiped = Ok(());
        self.leftovers.retain(|dir| {
            let gone = super::wipe(files.as_ref(), dir);
            let is_there = gone.is_err();
            wiped = std::mem::replace(&mut wiped, Ok(())).and(gone);
            is_there
        });
        wiped?;
        let (number, sequence) = (self.wal.number + 1, self.wal.next_sequence());
        let reserve_bytes = self.options.wal_reserve_bytes;
        let wal = Wal::create(files.as_ref(), &self.dir, number, sequence, has_data, reserve_bytes)?;
        let old = std::mem::replace(&mut self.wal, wal);
        self.unsynced_bytes = 0;
        self.checkpoint_due = false;
        let mut steps = VecDeque::new();
        let mut checkpoint = Checkpoint { wal_number: number, partitions: Vec::new() };
        let mut bases = Vec::new();
        for (handle, partition) in (0..).zip(&mut self.partitions) {
            let Some(partition) = partition else { continue };
            steps.extend(partition.dirty.drain(..).map(Step::SyncSegment));
            if std::mem::take(&mut partition.epochs_changed) && !partition.segments.is_empty() {
                let path = partition.dir.join(LEADER_EPOCHS);
                steps.push_back(Step::Epochs(path, layout::epochs_text(&partition.epochs)));
            }
            if std::mem::take(&mut partition.topic_id_unsynced) {
                steps.push_back(Step::SyncFile(partition.dir.join(PARTITION_METADATA)));
            }
            if std::mem::take(&mut partition.names_changed) {
                steps.push_back(Step::SyncDir(partition.dir.clone()));
            }
            checkpoint.partitions.push(partition.checkpointed());
            bases.push((PartitionHandle(handle), partition.segments.last().map_or(0, |active| active.base_offset)));
        }
        if std::mem::take(&mut self.names_changed) {
            steps.push_back(Step::SyncDir(self.dir.clone()));
        }
        steps.push_back(Step::Checkpoint(self.dir.join(CHECKPOINT), checkpoint.to_text()));
        if !old.has_ended() {
            steps.push_back(Step::RemoveWal(self.dir.join(layout::wal_name(old.number))));
        }
        Ok(CheckpointTask { files, steps, bases })
    }

    /// Takes back a task with its result. A failed checkpoint stops the store: unsynced bytes may be lost from the
    /// operating system's memory, and only the write-ahead files have them safely. These stay for the next start.
    pub fn finish(&mut self, task: Task, done: io::Result<()>) {
        self.in_task = false;
        match (task, done) {
            (Task::Checkpoint(task), Ok(())) => {
                for (PartitionHandle(handle), base) in task.bases {
                    if let Some(partition) = &mut self.partitions[handle as usize] {
                        partition.checkpointed_base = base;
                    }
                }
            }
            (Task::Checkpoint(_), Err(error)) => {
                self.stop(format!(
                    "a checkpoint failed: {error}; {} and start again: what was acknowledged is in the write-ahead files",
                    super::pass::advice(&error)
                ));
            }
            (Task::Compaction(task), Ok(())) => self.end_compaction(*task),
            (Task::Compaction(task), Err(error)) => self.abandon_compaction(*task, &error),
        }
    }
}
