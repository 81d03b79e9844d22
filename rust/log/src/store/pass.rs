//! A pass makes the waiting commands durable together.

use std::{
    collections::HashMap,
    io::{self, ErrorKind},
    path::Path,
    sync::Arc,
};

use crate::{
    batch::{Batch, rewrite_header},
    error::LogError,
    files::{Access, write_all_at},
};

use super::{
    Durability, Store,
    partition::{Partition, Undo},
    side_files::{self, SideFile},
    wal::WalEntry,
};

/// Identifies a partition while the store is open.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PartitionHandle(pub u32);

/// A command of a store. Its outcome is a number or an error.
#[derive(Clone, Debug)]
pub enum Command {
    /// Appends one whole batch with the next offsets. Outcome: the first of them.
    Append {
        /// The partition.
        partition: PartitionHandle,
        /// The writer's epoch.
        epoch: i32,
        /// The batch, with a valid checksum.
        batch: Vec<u8>,
    },
    /// Like `Append`, but refused with [`LogError::Storage`] unless the next offset is `base_offset`: otherwise an append
    /// before it has failed.
    AppendAt {
        /// The partition.
        partition: PartitionHandle,
        /// The writer's epoch.
        epoch: i32,
        /// The expected first offset.
        base_offset: i64,
        /// The batch, with a valid checksum.
        batch: Vec<u8>,
    },
    /// Opens a partition under an epoch. Outcome: the offset of the next record.
    Open {
        /// The partition.
        partition: PartitionHandle,
        /// The epoch; older ones are refused from now on.
        epoch: i32,
    },
    /// Creates a partition. Outcome: the number of its [`PartitionHandle`], or that of an existing partition with the
    /// same topic id. A partition of this name with another topic id stays, and refuses the creation, unless an earlier
    /// deletion of it failed: then it is deleted first.
    Create {
        /// The topic.
        topic: String,
        /// The partition number.
        partition: i32,
        /// The topic id.
        topic_id: u128,
    },
    /// Deletes a partition and its files, also if it is damaged. Outcome: 0.
    Delete {
        /// The partition.
        partition: PartitionHandle,
    },
    /// Begins a segment if the next offset is `end_offset`, unless the newest one has no records: then a `Trim` may drop all
    /// records. A checkpoint follows, which it waits for. Outcome: the next offset.
    Roll {
        /// The partition.
        partition: PartitionHandle,
        /// The expected next offset.
        end_offset: i64,
    },
    /// Drops the oldest whole segments as long as at least `limit_bytes` remain, and those whose offsets are all below
    /// `below`. Outcome: the first offset.
    Trim {
        /// The partition.
        partition: PartitionHandle,
        /// Bytes that remain whatever is dropped for the size.
        limit_bytes: u64,
        /// Offset below which segments are dropped whatever their size.
        below: i64,
    },
    /// Writes files beside the segments of a partition, once the earlier appends are durable: in this order, and none
    /// after one that fails. Outcome: 0.
    WriteBeside {
        /// The partition.
        partition: PartitionHandle,
        /// The files.
        files: Vec<SideFile>,
    },
}

/// The outcome of a command.
pub type Outcome = Result<i64, LogError>;

/// A pass in progress.
struct Pass {
    /// The payload of the write-ahead frame. Without data in it, batches stay here until they are written.
    frame: Vec<u8>,
    /// Entries of a frame without data.
    meta: Vec<u8>,
    outcomes: Vec<Option<Outcome>>,
    touched: Vec<(PartitionHandle, Undo)>,
    created: Vec<PartitionHandle>,
    deleted: Vec<PartitionHandle>,
    /// Creations (command index, former partition, command) whose name a former partition still has.
    replacements: Vec<(usize, PartitionHandle, Command)>,
    /// Trims (command index, partition, size, offset), executed after the rest is durable.
    trims: Vec<(usize, PartitionHandle, u64, i64)>,
    /// Whether a segment was begun so that those before it can go.
    rolled: bool,
    /// Files beside segments (command index, partition, files), written after the rest is durable.
    beside: Vec<(usize, PartitionHandle, Vec<SideFile>)>,
}

impl Pass {
    /// Adds an entry to both forms of the frame.
    fn entry(&mut self, entry: WalEntry<'_>) {
        entry.write(&mut self.frame);
        entry.write(&mut self.meta);
    }

    /// Adds the deletion of a partition.
    fn delete(&mut self, handle: PartitionHandle) {
        self.entry(WalEntry::Delete { handle: handle.0 });
        self.deleted.push(handle);
    }
}

/// Batches of one partition in the frame that go to one segment.
struct Run {
    /// Position of the length in the frame, before the batches.
    length_at: usize,
    next_offset: i64,
}

const BATCHES_HEADER_BYTES: usize = 17;

/// The file that [`Store::probe`] writes and removes.
const PROBE: &str = "rota.probe";
const PROBE_BYTES: usize = 64 << 10;

/// Returns what to do about a failed write or sync.
pub(super) fn advice(error: &io::Error) -> &'static str {
    match error.kind() {
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => "free space on its file system, or raise the quota",
        ErrorKind::ReadOnlyFilesystem => "mount its file system for writing",
        ErrorKind::PermissionDenied => "let this user read and write it",
        ErrorKind::FileTooLarge => "raise the limit on the size of files (ulimit -f)",
        _ => "repair or replace the disk",
    }
}

pub(super) fn storage_error(path: &Path, error: &io::Error) -> LogError {
    let reason = format!("writing `{}` failed: {error}; {}", path.display(), advice(error));
    LogError::Storage { reason: reason.into() }
}

impl Store {
    /// Makes `commands` durable, in order within a partition. Every command has its outcome when this returns. A
    /// command that failed with [`LogError::Stopped`] may have an effect after the next start; other failed commands
    /// have none.
    pub fn pass(&mut self, commands: Vec<Command>) -> Vec<Outcome> {
        let mut pass = Pass {
            frame: Vec::new(),
            meta: Vec::new(),
            outcomes: vec![None; commands.len()],
            touched: Vec::new(),
            created: Vec::new(),
            deleted: Vec::new(),
            replacements: Vec::new(),
            trims: Vec::new(),
            rolled: false,
            beside: Vec::new(),
        };
        let mut by_partition: Vec<(PartitionHandle, usize, Command)> = Vec::with_capacity(commands.len());
        for (at, command) in commands.into_iter().enumerate() {
            if let Some(error) = self.refusal() {
                pass.outcomes[at] = Some(Err(error));
                continue;
            }
            match command {
                Command::Create { ref topic, partition, topic_id } => {
                    pass.outcomes[at] = Some(self.create(topic, partition, topic_id, &mut pass));
                    if let Some(former) = self.undeleted(topic, partition, topic_id) {
                        pass.replacements.push((at, former, command));
                    }
                }
                Command::Append { partition, .. }
                | Command::AppendAt { partition, .. }
                | Command::Open { partition, .. }
                | Command::Delete { partition }
                | Command::Roll { partition, .. }
                | Command::Trim { partition, .. }
                | Command::WriteBeside { partition, .. } => by_partition.push((partition, at, command)),
            }
        }
        by_partition.sort_by_key(|(partition, at, _)| (*partition, *at));
        let mut rest = &mut by_partition[..];
        while let Some((partition, _, _)) = rest.first() {
            let partition = *partition;
            let count = rest.partition_point(|(other, _, _)| *other == partition);
            let (group, after) = rest.split_at_mut(count);
            self.stage(partition, group, &mut pass);
            rest = after;
        }
        let replacements = std::mem::take(&mut pass.replacements);
        let mut outcomes = self.commit(pass);
        if !replacements.is_empty() {
            self.replace(replacements, &mut outcomes);
        }
        outcomes
    }

    /// Returns the partition of this name and another topic id, if an earlier deletion of it failed.
    fn undeleted(&self, topic: &str, number: i32, topic_id: u128) -> Option<PartitionHandle> {
        let handle = self.handle(topic, number)?;
        let partition = self.partitions[handle.0 as usize].as_ref()?;
        (partition.topic_id != topic_id && partition.deletion_failed).then_some(handle)
    }

    /// Deletes the former partitions, and creates those whose former one is gone.
    fn replace(&mut self, replacements: Vec<(usize, PartitionHandle, Command)>, outcomes: &mut [Outcome]) {
        let deletions = replacements.iter().map(|(_, partition, _)| Command::Delete { partition: *partition });
        let deleted = self.pass(deletions.collect());
        let (mut places, mut creations) = (Vec::new(), Vec::new());
        for ((at, former, creation), deleted) in replacements.into_iter().zip(deleted) {
            match deleted {
                Err(error) if self.partitions[former.0 as usize].is_some() => outcomes[at] = Err(error),
                _ => {
                    places.push(at);
                    creations.push(creation);
                }
            }
        }
        for (at, outcome) in places.into_iter().zip(self.pass(creations)) {
            outcomes[at] = outcome;
        }
    }

    pub(super) fn refusal(&self) -> Option<LogError> {
        if self.options.access.is_read_only() {
            return Some(LogError::ReadOnly);
        }
        self.stopped.clone().map(|reason| LogError::Stopped { reason })
    }

    fn create(&mut self, topic: &str, number: i32, topic_id: u128, pass: &mut Pass) -> Outcome {
        if !super::layout::is_topic(topic) || number < 0 {
            return Err(LogError::UnknownPartition { partition: number });
        }
        let handle = match self.handle(topic, number) {
            Some(handle) if self.partitions[handle.0 as usize].as_ref().is_some_and(|p| p.topic_id == topic_id) => {
                return Ok(i64::from(handle.0));
            }
            Some(_) => return Err(LogError::UnknownPartition { partition: number }),
            None => {
                let dir = self.partition_dir(topic, number);
                if let Err(error) = self.clear(&dir) {
                    return Err(self.fails(None, storage_error(&dir, &error)));
                }
                self.add(Partition::new(topic, number, topic_id, dir))
            }
        };
        let partition = self.partitions[handle.0 as usize].as_mut().expect("it was added");
        pass.created.push(handle);
        let is_declared = declare(partition, handle, self.wal.number, &mut pass.frame);
        debug_assert!(is_declared, "no partition has this id");
        declare_again(partition, handle, &mut pass.meta);
        Ok(i64::from(handle.0))
    }

    /// Adds the commands of one partition to the pass and writes its segments.
    fn stage(&mut self, handle: PartitionHandle, group: &mut [(PartitionHandle, usize, Command)], pass: &mut Pass) {
        let Some(Some(partition)) = self.partitions.get_mut(handle.0 as usize) else {
            for (_, at, _) in group {
                pass.outcomes[*at] = Some(Err(LogError::UnknownPartition { partition: handle.0 as i32 }));
            }
            return;
        };
        let undo = partition.undo();
        let (frame_start, meta_start) = (pass.frame.len(), pass.meta.len());
        if declare(partition, handle, self.wal.number, &mut pass.frame) {
            declare_again(partition, handle, &mut pass.meta);
        }
        // With durability `Os`, no entry is synced.
        let is_declared = self.options.durability == Durability::Fsync && !pass.created.contains(&handle);
        let mut stage = Stage {
            partition,
            handle,
            is_declared,
            files: self.files.as_ref(),
            segment_bytes_max: self.options.segment_bytes,
            batch_bytes_max: self.options.batch_bytes_max,
            run: None,
            pass,
        };
        let mut failure = None;
        for (_, at, command) in &mut *group {
            match stage.take(*at, command) {
                Ok(outcome) => stage.pass.outcomes[*at] = Some(outcome),
                Err(error) => {
                    failure = Some(error);
                    break;
                }
            }
        }
        if let Some(error) = failure.or_else(|| stage.end_run().err()) {
            partition.roll_back(self.files.as_ref(), undo);
            // After a failed rollback the append may or may not be stored.
            let error = partition.refused.clone().unwrap_or_else(|| storage_error(&partition.dir, &error));
            let error = self.fails(Some(handle), error);
            pass.frame.truncate(frame_start);
            pass.meta.truncate(meta_start);
            pass.beside.retain(|(_, partition, _)| *partition != handle);
            for (_, at, _) in &*group {
                let outcome = &mut pass.outcomes[*at];
                if !matches!(outcome, Some(Err(_))) {
                    *outcome = Some(Err(error.clone()));
                }
            }
            self.stage_deletion(handle, group, pass);
        } else {
            pass.touched.push((handle, undo));
        }
    }

    /// Adds the deletion of a partition, if there is one, after the commands before it failed and were rolled back.
    fn stage_deletion(
        &mut self,
        handle: PartitionHandle,
        group: &[(PartitionHandle, usize, Command)],
        pass: &mut Pass,
    ) {
        let is_deletion =
            |(_, _, command): &(PartitionHandle, usize, Command)| matches!(command, Command::Delete { .. });
        let Some(deletion) = group.iter().position(is_deletion) else { return };
        let Some(Some(partition)) = self.partitions.get_mut(handle.0 as usize) else { return };
        pass.touched.push((handle, partition.undo()));
        if declare(partition, handle, self.wal.number, &mut pass.frame) {
            declare_again(partition, handle, &mut pass.meta);
        }
        pass.delete(handle);
        for (nth, (_, at, _)) in group[deletion..].iter().enumerate() {
            let gone = LogError::UnknownPartition { partition: partition.number };
            pass.outcomes[*at] = Some(if nth == 0 { Ok(0) } else { Err(gone) });
        }
    }

    /// Makes the pass durable and shows it to readers.
    fn commit(&mut self, mut pass: Pass) -> Vec<Outcome> {
        let has_data = self.options.durability == Durability::Fsync;
        let payload = if has_data { &pass.frame } else { &pass.meta };
        let written = if payload.is_empty() {
            Ok(())
        } else if let Err(error) = self.wal.reserve(payload.len()) {
            // Nothing of the frame was written, so the pass had no effect.
            for (handle, undo) in pass.touched.drain(..) {
                if let Some(partition) = &mut self.partitions[handle.0 as usize] {
                    partition.roll_back(self.files.as_ref(), undo);
                }
            }
            for handle in pass.created.drain(..) {
                self.forget(handle);
            }
            for handle in pass.deleted.drain(..) {
                if let Some(partition) = &mut self.partitions[handle.0 as usize] {
                    partition.deletion_failed = true;
                }
            }
            pass.trims.clear();
            pass.beside.clear();
            let path = self.dir.join(super::layout::wal_name(self.wal.number));
            Err(self.fails(None, storage_error(&path, &error)))
        } else {
            let appended = self.wal.append(payload, has_data.then_some(&mut self.syncs));
            appended.map_err(|error| self.stop_writing(&error))
        };
        if written.is_ok() {
            self.unsynced_bytes += pass.frame.len() as u64;
            self.publish(&mut pass);
        }
        let outcome = |outcome: Option<Outcome>| match (outcome.expect("every command has an outcome"), &written) {
            (Ok(_), Err(error)) => Err(error.clone()),
            (outcome, _) => outcome,
        };
        pass.outcomes.into_iter().map(outcome).collect()
    }

    fn publish(&mut self, pass: &mut Pass) {
        self.checkpoint_due |= pass.rolled;
        for (handle, undo) in pass.touched.drain(..) {
            if let Some(partition) = &mut self.partitions[handle.0 as usize] {
                partition.publish();
                self.names_changed |= undo.is_empty() && !partition.segments.is_empty();
            }
            if !self.failing.is_empty() {
                self.failing.retain(|(place, _)| place.is_some_and(|place| place != handle));
            }
        }
        for (at, handle, limit_bytes, below) in pass.trims.drain(..) {
            if let Some(partition) = &mut self.partitions[handle.0 as usize] {
                pass.outcomes[at] = Some(Ok(trim(partition, self.files.as_ref(), limit_bytes, below)));
                partition.publish();
            }
        }
        for (at, handle, files) in pass.beside.drain(..) {
            if let Some(partition) = &mut self.partitions[handle.0 as usize] {
                let write = |file| side_files::write(partition, self.files.as_ref(), file);
                pass.outcomes[at] = Some(files.iter().try_for_each(write).map(|()| 0));
            }
        }
        for handle in pass.deleted.drain(..) {
            self.remove_files(handle);
        }
    }

    fn stop_writing(&mut self, error: &io::Error) -> LogError {
        let name = super::layout::wal_name(self.wal.number);
        let reason = format!(
            "writing `{}` failed: {error}. Whether the last appends are on the disk is not known and asking again \
             would not tell; {} and start again: what was acknowledged is there",
            self.dir.join(name).display(),
            advice(error)
        );
        self.stop(reason)
    }

    /// Records that writes to a partition, or to what all share, fail from now on.
    fn fails(&mut self, place: Option<PartitionHandle>, error: LogError) -> LogError {
        let reason: Arc<str> = error.to_string().into();
        self.failures = (self.failures.0 + 1, Some(Arc::clone(&reason)));
        if !self.failing.iter().any(|(other, _)| *other == place) {
            self.failing.push((place, reason));
        }
        error
    }

    /// Returns the first current write failure; `None` if writes succeed. The next append tries again, but not of a
    /// partition whose last append could not be taken back: that one refuses appends until the next start.
    pub fn failing(&self) -> Option<Arc<str>> {
        let refused = || self.partitions.iter().flatten().filter_map(|partition| partition.refused.as_ref());
        let stuck = || refused().find(|error| matches!(error, LogError::Stopped { .. }));
        let current = self.failing.first().map(|(_, reason)| Arc::clone(reason));
        current.or_else(|| stuck().map(|error| error.to_string().into()))
    }

    /// Returns the number of failed writes since the start and the reason of the last, even if writes succeed again.
    pub fn failures(&self) -> (u64, Option<Arc<str>>) {
        self.failures.clone()
    }

    /// After failed writes, tries a write to the directory. Without appends, nothing else would show that writes
    /// succeed again.
    pub fn probe(&mut self) {
        if self.failing.is_empty() || self.stopped.is_some() {
            return;
        }
        let path = self.dir.join(PROBE);
        let written = self.files.open(&path, Access::Create).and_then(|file| {
            write_all_at(file.as_ref(), &vec![0; PROBE_BYTES], 0)?;
            file.sync()
        });
        if self.files.remove(&path).and(written).is_ok() {
            self.failing.clear();
        }
    }

    /// Stops the store since `file` was replaced, but not durably: what was acknowledged after a refused change would
    /// be lost if the change turns out to be there after all.
    pub fn stop_unsure_of(&mut self, file: &Path, error: &io::Error) -> LogError {
        self.stop(format!(
            "replacing `{}` failed: {error}. Whether the change is on the disk is not known; {} and start again",
            file.display(),
            advice(error)
        ))
    }

    /// Stops the store: it accepts nothing from now on.
    pub(super) fn stop(&mut self, reason: String) -> LogError {
        let reason: Arc<str> = reason.into();
        LogError::Stopped { reason: Arc::clone(self.stopped.get_or_insert(reason)) }
    }
}

/// Declares `handle` in the frame, once per write-ahead file. Returns whether that was necessary.
fn declare(partition: &mut Partition, handle: PartitionHandle, wal_number: u64, frame: &mut Vec<u8>) -> bool {
    let needed = partition.declared_in != wal_number;
    if needed {
        partition.declared_in = wal_number;
        declare_again(partition, handle, frame);
    }
    needed
}

fn declare_again(partition: &Partition, PartitionHandle(handle): PartitionHandle, frame: &mut Vec<u8>) {
    let Partition { topic, number: partition, topic_id, .. } = partition;
    WalEntry::Declare { handle, topic, partition: *partition, topic_id: *topic_id }.write(frame);
}

/// Refuses an append behind a failed one.
fn not_at(base_offset: i64, next_offset: i64) -> LogError {
    let reason = format!(
        "an earlier append failed: the next offset is {next_offset}, this append is for {base_offset}; send it again"
    );
    LogError::Storage { reason: reason.into() }
}

/// The part of a pass for one partition.
struct Stage<'s> {
    partition: &'s mut Partition,
    handle: PartitionHandle,
    /// Whether an earlier pass has made its topic id durable.
    is_declared: bool,
    files: &'s dyn crate::files::Files,
    segment_bytes_max: u64,
    batch_bytes_max: usize,
    run: Option<Run>,
    pass: &'s mut Pass,
}

impl Stage<'_> {
    /// Takes one command. The outer error: the segment could not be written.
    fn take(&mut self, at: usize, command: &mut Command) -> io::Result<Outcome> {
        if self.pass.deleted.contains(&self.handle) {
            return Ok(Err(LogError::UnknownPartition { partition: self.partition.number }));
        }
        // What is wrong with a partition does not matter to its deletion.
        if let Some(refused) = self.partition.refused.as_ref().filter(|_| !matches!(command, Command::Delete { .. })) {
            return Ok(Err(refused.clone()));
        }
        match command {
            Command::Append { epoch, batch, .. } => self.append(*epoch, batch),
            Command::AppendAt { epoch, base_offset, batch, .. } => {
                let next_offset = self.next_offset();
                if *base_offset != next_offset && self.partition.check_epoch(*epoch).is_ok() {
                    return Ok(Err(not_at(*base_offset, next_offset)));
                }
                self.append(*epoch, batch)
            }
            Command::Open { epoch, .. } => self.open(*epoch),
            Command::Delete { .. } => {
                self.end_run()?;
                self.pass.delete(self.handle);
                Ok(Ok(0))
            }
            Command::Roll { end_offset, .. } => self.roll(*end_offset).map(Ok),
            Command::Trim { limit_bytes, below, .. } => {
                self.pass.trims.push((at, self.handle, *limit_bytes, *below));
                Ok(Ok(0))
            }
            Command::WriteBeside { files, .. } => {
                self.pass.beside.push((at, self.handle, std::mem::take(files)));
                Ok(Ok(0))
            }
            Command::Create { .. } => unreachable!("those are handled before"),
        }
    }

    fn open(&mut self, epoch: i32) -> io::Result<Outcome> {
        if let Some(current_epoch) = self.partition.epoch()
            && epoch < current_epoch
        {
            return Ok(Err(LogError::Fenced { current_epoch, epoch }));
        }
        let next_offset = self.next_offset();
        if self.partition.epoch() != Some(epoch) {
            self.end_run()?;
            self.pass.entry(WalEntry::Epoch { handle: self.handle.0, epoch, start_offset: next_offset });
            self.partition.begin_epoch(epoch, next_offset);
        }
        self.partition.is_open = true;
        Ok(Ok(next_offset))
    }

    fn roll(&mut self, end_offset: i64) -> io::Result<i64> {
        self.end_run()?;
        if self.partition.next_offset == end_offset && self.partition.active_bytes > 0 {
            self.partition.roll(self.files, self.is_declared)?;
            self.pass.rolled = true;
        }
        Ok(self.partition.next_offset)
    }

    /// Returns the next offset, including batches of the run.
    fn next_offset(&self) -> i64 {
        self.run.as_ref().map_or(self.partition.next_offset, |run| run.next_offset)
    }

    fn append(&mut self, epoch: i32, batch: &mut [u8]) -> io::Result<Outcome> {
        if let Err(error) = self.partition.check_epoch(epoch) {
            return Ok(Err(error));
        }
        if batch.len() > self.batch_bytes_max {
            return Ok(Err(LogError::TooLarge { batch_bytes: batch.len(), limit_bytes: self.batch_bytes_max }));
        }
        let base_offset = self.next_offset();
        let last_offset_delta = Batch::split(batch).ok().map(|(batch, _)| batch.header().last_offset_delta);
        let Some(last_offset_delta) = last_offset_delta.filter(|delta| *delta >= 0) else {
            return Ok(Err(LogError::Empty));
        };
        let Some(next_offset) = base_offset.checked_add(i64::from(last_offset_delta) + 1) else {
            return Ok(Err(LogError::TooLarge { batch_bytes: batch.len(), limit_bytes: 0 }));
        };
        let run_bytes = self.run.as_ref().map_or(0, |run| self.pass.frame.len() - run.length_at - 4) as u64;
        let active_bytes = self.partition.active_bytes + run_bytes;
        let is_full = active_bytes > 0 && active_bytes + batch.len() as u64 > self.segment_bytes_max;
        if is_full || self.partition.segments.is_empty() {
            self.end_run()?;
            self.partition.roll(self.files, self.is_declared)?;
        }
        if self.run.is_none() {
            let segment_base = self.partition.segments.last().map_or(0, |active| active.base_offset);
            let start = self.pass.frame.len();
            WalEntry::Batches { handle: self.handle.0, segment_base, bytes: &[] }.write(&mut self.pass.frame);
            self.run = Some(Run { length_at: start + BATCHES_HEADER_BYTES - 4, next_offset });
        }
        rewrite_header(batch, base_offset, epoch);
        self.pass.frame.extend_from_slice(batch);
        if let Some(run) = &mut self.run {
            run.next_offset = next_offset;
        }
        Ok(Ok(base_offset))
    }

    /// Writes the run to its segment.
    fn end_run(&mut self) -> io::Result<()> {
        let Some(run) = self.run.take() else { return Ok(()) };
        let (_, bytes) = self.pass.frame.split_at(run.length_at + 4);
        let length = bytes.len() as u32;
        self.partition.write(bytes, run.next_offset)?;
        self.pass.frame[run.length_at..run.length_at + 4].copy_from_slice(&length.to_be_bytes());
        Ok(())
    }
}

/// Removes segments. This is not written ahead: after a crash, whole segments return at worst.
fn trim(partition: &mut Partition, files: &dyn crate::files::Files, limit_bytes: u64, below: i64) -> i64 {
    let mut size_bytes: u64 = partition.active_bytes
        + partition.segments.iter().rev().skip(1).map(|segment| segment.readable_bytes()).sum::<u64>();
    let mut gone = 0;
    for pair in partition.segments.windows(2) {
        let [segment, next] = pair else { break };
        let is_open = next.base_offset > partition.view.keep_from();
        // As in Kafka, the segment with the byte at the limit stays.
        let is_within_limit = size_bytes.saturating_sub(segment.readable_bytes()) < limit_bytes;
        let is_kept = is_open || is_within_limit && next.base_offset > below;
        // Segments that the next checkpoint may need stay.
        if is_kept || segment.base_offset >= partition.checkpointed_base {
            break;
        }
        if files.remove(&segment.path).is_err() {
            break;
        }
        size_bytes -= segment.readable_bytes();
        gone += 1;
    }
    let gone: Vec<i64> = partition.segments.drain(..gone).map(|segment| segment.base_offset).collect();
    let first_offset = partition.segments.first().map_or(partition.next_offset, |first| first.base_offset);
    if !gone.is_empty() {
        side_files::remove_below(&partition.dir, files, &gone, first_offset);
        // As in Kafka, of the epochs that began before the first offset the last one is kept.
        let begun = partition.epochs.partition_point(|(_, start)| *start <= first_offset);
        if begun > 1 {
            partition.epochs.drain(..begun - 1);
            partition.epochs_changed = true;
        }
    }
    first_offset
}

pub(super) type Names = HashMap<(String, i32), PartitionHandle>;
