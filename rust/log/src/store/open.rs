//! Opens a data directory, and completes after a crash what the write-ahead files have.
//!
//! Recovery resets a partition to the last checkpoint and writes everything after it again from the write-ahead files,
//! even if it is present: after a failed sync, the operating system may show bytes that the disk lacks. Segments
//! without a write-ahead file (durability `Os`, or Kafka's) are scanned to the last whole batch. All of it is synced
//! before the store accepts commands.

use std::{
    collections::{BTreeMap, HashMap},
    io,
    path::Path,
    sync::Arc,
};

use crate::{
    Histogram,
    batch::batches,
    error::{Damage, LogError},
    files::{Entry, Files, OverlayFiles, read_file, replace_file},
};

use super::{
    Access, Durability, LockGuard, PartitionHandle, Store, StoreOptions, adopt,
    layout::{self, CHECKPOINT, CheckpointedPartition, LOCK, MARKER, META_PROPERTIES},
    lives::{Lives, declared_topics, last_lives},
    opened::{OpenError, Report},
    partition::Partition,
    scan::{self, Listed, list_segments, scan_tail},
    side_files,
    wal::{Wal, WalContent, WalEntry, entries, secure},
};

/// The owner of a directory.
#[derive(Clone, Copy, PartialEq)]
enum Origin {
    New,
    Ours,
    Foreign,
}

/// Maximum reads of a directory that changes meanwhile.
const READS_MAX: usize = 10;

impl Store {
    /// Opens `dir`, which is created if its parent exists. With [`Access::Read`] it must exist, and a server may write
    /// to it meanwhile.
    pub fn open(files: Arc<dyn Files>, dir: &Path, options: StoreOptions) -> Result<(Store, Report), OpenError> {
        if options.access == Access::Read {
            return read_settled(&files, dir, &options);
        }
        Opening::begin(files, dir, options)?.run()
    }
}

/// Repeats reading until the directory did not change meanwhile. Between two checkpoints, files are only appended to,
/// or replaced by compacted ones with the same newest records. Damage counts if two reads find it.
fn read_settled(files: &Arc<dyn Files>, dir: &Path, options: &StoreOptions) -> Result<(Store, Report), OpenError> {
    let checkpoint = || read_file(files.as_ref(), &dir.join(CHECKPOINT)).map_err(Opening::io(dir));
    let (mut found, mut reads) = (Vec::new(), 0);
    loop {
        reads += 1;
        let before = checkpoint()?;
        let opened = Opening::begin(Arc::clone(files), dir, options.clone()).and_then(Opening::run);
        let again = damage_in(&opened);
        let is_settled = before == checkpoint()? && (again.is_empty() || again == found);
        if is_settled || reads == READS_MAX {
            return opened;
        }
        found = again;
    }
}

fn damage_in(opened: &Result<(Store, Report), OpenError>) -> Vec<String> {
    match opened {
        Ok((_, report)) => report.damage.iter().map(ToString::to_string).collect(),
        Err(error) => vec![error.to_string()],
    }
}

/// The names in a directory, and whose it is.
struct Look {
    entries: Vec<Entry>,
    origin: Origin,
}

impl Look {
    /// Looks at a directory. Errors: neither rota nor Kafka created it, or a later release wrote it.
    fn at(files: &dyn Files, dir: &Path, reads: bool) -> Result<Look, OpenError> {
        let io = Opening::io(dir);
        let entries = files.list(dir).map_err(&io)?;
        let meta = read_file(files, &dir.join(META_PROPERTIES)).map_err(&io)?;
        let origin = match &meta {
            Some(meta) if String::from_utf8_lossy(meta).lines().any(|line| line.starts_with(MARKER)) => Origin::Ours,
            Some(_) => Origin::Foreign,
            None if entries.iter().all(|entry| entry.name == LOCK || layout::is_temporary(&entry.name)) && !reads => {
                Origin::New
            }
            None if reads => return Err(OpenError::NoData { dir: dir.to_owned() }),
            None => return Err(OpenError::Strange { dir: dir.to_owned() }),
        };
        let later = meta.as_deref().and_then(|meta| layout::later_format(&String::from_utf8_lossy(meta)));
        if let Some((found, known)) = later {
            return Err(OpenError::LaterFormat { file: dir.join(META_PROPERTIES), found, known });
        }
        Ok(Look { entries, origin })
    }
}

pub(super) struct Opening {
    pub(super) store: Store,
    pub(super) report: Report,
    origin: Origin,
    pub(super) entries: Vec<Entry>,
    /// Offsets up to which partitions that are written again from the start had whole batches.
    there: BTreeMap<PartitionHandle, i64>,
    /// The same of partitions whose name belonged to another topic at the checkpoint, with their topic id.
    successors: BTreeMap<(String, i32), (u128, i64)>,
}

impl Opening {
    pub(super) fn io(dir: &Path) -> impl Fn(io::Error) -> OpenError + use<> {
        let dir = dir.to_owned();
        move |error| OpenError::Io { dir: dir.clone(), error }
    }

    fn begin(files: Arc<dyn Files>, dir: &Path, mut options: StoreOptions) -> Result<Opening, OpenError> {
        let io = Opening::io(dir);
        let reads = options.access == Access::Read;
        if !reads && files.list(dir).is_err() {
            files.create_dir(dir).map_err(&io)?;
            if let Some(parent) = dir.parent() {
                files.sync_dir(if parent.as_os_str().is_empty() { Path::new(".") } else { parent }).map_err(&io)?;
            }
        }
        let mut look = Look::at(files.as_ref(), dir, reads)?;
        let is_read = options.access.is_read_only();
        let guard = if is_read || look.origin == Origin::Foreign && options.access == Access::Own {
            None
        } else {
            let locked = files.lock(&dir.join(LOCK));
            let locked = locked.map_err(|error| match error.kind() {
                io::ErrorKind::WouldBlock => OpenError::locked(dir, &error),
                _ => io(error),
            })?;
            // The process that held it until now may have changed the directory since.
            look = Look::at(files.as_ref(), dir, reads)?;
            Some(LockGuard(locked))
        };
        if look.origin == Origin::Foreign && (options.access == Access::Own || reads) {
            options.access = Access::ReadForeign;
        }
        // Readers recover like a start, in memory.
        let files = if options.access == Access::Read { Arc::new(OverlayFiles::new(files)) } else { files };
        let store = Store {
            files,
            dir: dir.to_owned(),
            options,
            partitions: Vec::new(),
            names: HashMap::new(),
            wal: Wal::ended(0, 0),
            names_changed: false,
            syncs: Histogram::default(),
            unsynced_bytes: 0,
            checkpoint_due: false,
            leftovers: Vec::new(),
            stopped: None,
            failing: Vec::new(),
            failures: (0, None),
            in_task: false,
            compactions: 0,
            last_compaction_error: None,
            _lock: guard,
        };
        let Look { entries, origin } = look;
        let report = Report { is_foreign: origin == Origin::Foreign, ..Report::default() };
        Ok(Opening { store, report, origin, entries, there: BTreeMap::new(), successors: BTreeMap::new() })
    }

    fn run(mut self) -> Result<(Store, Report), OpenError> {
        let io = Opening::io(&self.store.dir);
        let recovers = self.store.options.access.recovers();
        if recovers && self.origin != Origin::Ours {
            self.take_possession().map_err(&io)?;
        }
        let checkpoint = self.read_checkpoint()?;
        let wals = self.read_wals(checkpoint.as_ref())?;
        // Without data in the write-ahead files, the segments alone show their ends.
        let salvages = self.store.options.access == Access::Salvage;
        let has_data = !salvages && wals.iter().all(|(_, wal)| wal.has_data);
        let is_known = checkpoint.is_some();
        let checkpoint = checkpoint.unwrap_or_default();
        let created = if has_data { declared_topics(&wals) } else { Vec::new() };
        let lives = if has_data || !recovers { BTreeMap::new() } else { last_lives(&wals) };
        for partition in &checkpoint.partitions {
            let life = lives.get(&(partition.topic.as_str(), partition.partition));
            if life.is_some_and(|life| *life != Some(partition.topic_id)) {
                continue;
            }
            if has_data && recovers {
                // Before what follows the checkpoint is cut off.
                self.note_successor(&partition.topic, partition.partition, partition.topic_id);
            }
            let opened = match partition.is_refused {
                true => self.refused_before(partition),
                false if has_data && recovers => self.at_checkpoint(partition),
                false => self.scanned(partition),
            };
            opened.map_err(&io)?;
        }
        self.clear_former(&lives).map_err(&io)?;
        self.open_others(&created).map_err(&io)?;
        self.add_empty(&lives);
        let frames: usize = wals.iter().map(|(_, wal)| wal.frames.len()).sum();
        self.report.torn_wal_bytes = wals.iter().map(|(_, wal)| wal.torn_bytes as u64).sum();
        if !recovers {
            for partition in self.store.partitions.iter_mut().flatten() {
                partition.publish();
            }
            return Ok((self.store, self.report));
        }
        let mut needed = Vec::new();
        if let Some((number, wal)) = wals.last().filter(|_| !salvages) {
            secure(self.store.files.as_ref(), &self.store.dir.join(layout::wal_name(*number)), wal).map_err(&io)?;
        }
        for (number, wal) in &wals {
            if self.replay(wal, has_data).map_err(&io)? || salvages {
                needed.push(*number);
            }
        }
        for partition in self.store.partitions.iter_mut().flatten() {
            partition.publish();
        }
        if self.store.options.access == Access::Read {
            self.forget_completed_cuts();
            return Ok((self.store, self.report));
        }
        let is_clean =
            is_known && frames == 0 && self.report == Report::default() && self.store.names_changed_nowhere();
        self.report.was_clean = is_clean || (self.origin == Origin::New && frames == 0);
        // The last run may have lost records that it had acknowledged and shown.
        let is_raised = !wals.is_empty() && !has_data && !salvages && self.store.raise_epochs();
        self.begin_wal(&wals, is_clean && !is_raised, &needed).map_err(&io)?;
        if let Some(reason) = &self.store.stopped {
            return Err(io(io::Error::other(reason.to_string())));
        }
        Ok((self.store, self.report))
    }

    /// Of the bytes that were cut, keeps those in the report that the write-ahead files lack.
    fn forget_completed_cuts(&mut self) {
        let segments: HashMap<&Path, u64> = (self.store.partitions.iter().flatten())
            .flat_map(|partition| &partition.segments)
            .map(|segment| (segment.path.as_path(), segment.readable_bytes()))
            .collect();
        self.report
            .cut
            .retain(|(path, left, bytes)| segments.get(path.as_path()).is_none_or(|there| *there < left + bytes));
    }

    /// Makes the directory one of rota's.
    fn take_possession(&mut self) -> io::Result<()> {
        if self.store.options.access == Access::Adopt && self.origin == Origin::Foreign {
            // First: a take-over that is interrupted here leaves a directory of Kafka's.
            adopt::give_topic_ids(self.store.files.as_ref(), &self.store.dir, &self.entries)?;
            self.adopt_transactions()?;
        }
        self.write_meta()
    }

    /// Says which partitions of topics have transactions. The coordinators read all of theirs.
    fn adopt_transactions(&self) -> io::Result<()> {
        let coordinators = &self.store.options.compacted_topics;
        for entry in self.entries.iter().filter(|entry| entry.is_dir) {
            if layout::topic_partition(&entry.name).is_some_and(|(topic, _)| !coordinators.iter().any(|of| of == topic))
            {
                side_files::adopt(self.store.files.as_ref(), &self.store.dir.join(&entry.name))?;
            }
        }
        Ok(())
    }

    fn write_meta(&mut self) -> io::Result<()> {
        let path = self.store.dir.join(META_PROPERTIES);
        let text = match read_file(self.store.files.as_ref(), &path)? {
            Some(theirs) => String::from_utf8_lossy(&theirs).trim_end().to_owned(),
            None => format!("version=1\nnode.id=1\ncluster.id={}", self.store.options.cluster_id),
        };
        replace_file(self.store.files.as_ref(), &path, format!("{text}\n{MARKER}=1\n").as_bytes(), true)
    }

    fn add(&mut self, partition: Partition) -> PartitionHandle {
        self.store.add(partition)
    }

    fn refuse(&mut self, mut partition: Partition, damage: Damage, checkpoint: Option<&CheckpointedPartition>) {
        let error = LogError::Damaged(Box::new(damage.clone()));
        partition.view.refuse(error.clone());
        partition.refused = Some(error);
        partition.kept_checkpoint = checkpoint.cloned();
        self.report.damage.push(damage);
        self.add(partition);
    }

    fn of_checkpoint(&self, checkpoint: &CheckpointedPartition) -> Partition {
        let CheckpointedPartition { topic, partition: number, topic_id, .. } = checkpoint;
        let dir = self.store.partition_dir(topic, *number);
        // A file that was missing may have been restored.
        let stored = || scan::stored_topic_id(self.store.files.as_ref(), &dir).unwrap_or_default();
        let topic_id = if *topic_id == 0 { stored() } else { *topic_id };
        let mut partition = Partition::new(topic, *number, topic_id, dir);
        partition.epochs.clone_from(&checkpoint.epochs);
        partition.first_dirty_offset = checkpoint.first_dirty_offset;
        partition.checkpointed_base = checkpoint.segment_base;
        partition
    }

    /// Restores a partition to the checkpoint, and cuts what was written since.
    fn at_checkpoint(&mut self, checkpoint: &CheckpointedPartition) -> io::Result<()> {
        let files = Arc::clone(&self.store.files);
        let mut partition = self.of_checkpoint(checkpoint);
        let CheckpointedPartition { next_offset, segment_base, segment_bytes, .. } = *checkpoint;
        let has_records = segment_bytes > 0 || segment_base < next_offset;
        let mut segments = match list_segments(files.as_ref(), &partition.dir, true) {
            Ok(Ok(listed)) => {
                partition.names_changed |= listed.names_changed;
                listed.segments
            }
            Ok(Err(damage)) => {
                self.refuse(partition, damage, Some(checkpoint));
                return Ok(());
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
            Err(error) => return Err(error),
        };
        // The topic id in the directory need not be durable before the checkpoint has a record.
        let is_empty = !has_records && next_offset == 0;
        let known = segments.partition_point(|segment| !is_empty && segment.base_offset <= segment_base);
        for later in segments.drain(known..) {
            if later.readable_bytes() > 0 {
                self.report.cut.push((later.path.clone(), 0, later.readable_bytes()));
            }
            files.remove(&later.path)?;
            partition.names_changed = true;
        }
        let active = segments.last().filter(|active| active.base_offset == segment_base);
        let there_bytes = active.map_or(0, |active| active.readable_bytes());
        if (has_records && active.is_none()) || there_bytes < segment_bytes {
            let damage = Damage {
                file: super::segment::segment_path(&partition.dir, segment_base),
                position: there_bytes,
                offset: segment_base,
                reason: format!("it has {there_bytes} bytes, but {segment_bytes} were there at the last checkpoint"),
            };
            self.refuse(partition, damage, Some(checkpoint));
            return Ok(());
        }
        if let Some(active) = active.filter(|_| there_bytes > segment_bytes) {
            active.file.truncate(segment_bytes)?;
            active.publish(segment_bytes);
            partition.dirty.push(Arc::clone(active));
            self.report.cut.push((active.path.clone(), segment_bytes, there_bytes - segment_bytes));
        }
        partition.segments = segments;
        (partition.next_offset, partition.active_bytes) = (next_offset, segment_bytes);
        self.add(partition);
        Ok(())
    }

    /// Restores a partition by scanning its newest segment, from the checkpoint if there is one.
    fn scanned(&mut self, checkpoint: &CheckpointedPartition) -> io::Result<()> {
        let files = Arc::clone(&self.store.files);
        let writes = self.store.options.access.recovers();
        let mut partition = self.of_checkpoint(checkpoint);
        let is_known = checkpoint.segment_bytes > 0 || checkpoint.next_offset > 0;
        let kept = is_known.then_some(checkpoint);
        let listed = match list_segments(files.as_ref(), &partition.dir, writes) {
            Ok(Ok(listed)) => listed,
            Ok(Err(damage)) => {
                self.refuse(partition, damage, kept);
                return Ok(());
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => Listed::default(),
            Err(error) => return Err(error),
        };
        // Names count as changed if they are not known to be synced.
        partition.names_changed |= listed.names_changed || !is_known;
        partition.segments = listed.segments;
        let stored_id = || scan::stored_topic_id(files.as_ref(), &partition.dir);
        let salvages = self.store.options.access == Access::Salvage && partition.topic_id != 0;
        if salvages && !partition.segments.is_empty() && stored_id().is_none() {
            // The checkpoint has it, and no write-ahead file writes the segments again.
            adopt::write_topic_id(files.as_ref(), &partition.dir, partition.topic_id)?;
        }
        match scan_tail(&partition.dir, &partition.segments, checkpoint) {
            Ok(tail) => {
                for gone in partition.segments.drain(tail.segments..) {
                    self.report.cut.push((gone.path.clone(), 0, gone.readable_bytes()));
                    if writes {
                        files.remove(&gone.path)?;
                        partition.names_changed = true;
                    }
                }
                if let Some(active) = partition.segments.last() {
                    let there_bytes = active.readable_bytes();
                    if there_bytes > tail.active_bytes {
                        self.report.cut.push((active.path.clone(), tail.active_bytes, there_bytes - tail.active_bytes));
                        active.publish(tail.active_bytes);
                        if writes {
                            active.file.truncate(tail.active_bytes)?;
                        }
                    }
                }
                (partition.next_offset, partition.active_bytes) = (tail.next_offset, tail.active_bytes);
                // An epoch may have begun at records that are gone.
                for (_, start) in &mut partition.epochs {
                    *start = tail.next_offset.min(*start);
                }
                let scanned = partition.segments.iter();
                partition.dirty =
                    scanned.filter(|segment| segment.base_offset >= checkpoint.segment_base).cloned().collect();
                self.add(partition);
            }
            Err(damage) => self.refuse(partition, damage, kept),
        }
        Ok(())
    }

    /// Opens partitions without a checkpoint, except those whose records are all in the write-ahead files.
    fn open_others(&mut self, created: &[(String, i32)]) -> io::Result<()> {
        let files = Arc::clone(&self.store.files);
        for entry in std::mem::take(&mut self.entries) {
            let Some((topic, number)) = layout::topic_partition(&entry.name).filter(|_| entry.is_dir) else { continue };
            let is_created = created.iter().any(|(name, partition)| name == topic && *partition == number);
            if is_created || self.store.handle(topic, number).is_some() {
                continue;
            }
            let dir = self.store.dir.join(&entry.name);
            let text = |name: &str| {
                let read = read_file(files.as_ref(), &dir.join(name));
                read.map(|bytes| bytes.map(|bytes| String::from_utf8_lossy(&bytes).into_owned()))
            };
            let metadata = text(layout::PARTITION_METADATA)?;
            let topic_id = metadata.and_then(|text| layout::topic_id_in(&text));
            let is_begun =
                || files.list(&dir).map(|names| names.iter().all(|at| at.name == layout::PARTITION_METADATA));
            if topic_id.is_none() && self.store.options.access.recovers() && is_begun()? {
                // A crash interrupted its creation.
                self.store.clear(&dir)?;
                self.store.names_changed = true;
                continue;
            }
            let epochs = text(layout::LEADER_EPOCHS)?.and_then(|text| layout::epochs_in(&text)).unwrap_or_default();
            let unknown = CheckpointedPartition::unknown(topic, number, topic_id.unwrap_or_default());
            self.scanned(&CheckpointedPartition { epochs, ..unknown })?;
            self.store.names_changed = true;
        }
        Ok(())
    }

    /// Removes the files of earlier partitions with the same name.
    fn clear_former(&mut self, lives: &Lives<'_>) -> io::Result<()> {
        for ((topic, number), life) in lives {
            if self.store.handle(topic, *number).is_some() {
                continue;
            }
            let dir = self.store.partition_dir(topic, *number);
            let metadata = match read_file(self.store.files.as_ref(), &dir.join(layout::PARTITION_METADATA)) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                read => read.ok().flatten(),
            };
            let found = metadata.and_then(|text| layout::topic_id_in(&String::from_utf8_lossy(&text)));
            if let (Access::Salvage, None, Some(topic_id)) = (self.store.options.access, found, life)
                && self.store.files.list(&dir).is_ok()
            {
                // Whose the segments are is in the write-ahead files only.
                adopt::write_topic_id(self.store.files.as_ref(), &dir, *topic_id)?;
                continue;
            }
            if life.is_none() || found != *life {
                self.store.clear(&dir)?;
                self.entries.retain(|entry| entry.name != layout::partition_name(topic, *number));
                self.store.names_changed = true;
            }
        }
        Ok(())
    }

    /// Adds partitions without records.
    fn add_empty(&mut self, lives: &Lives<'_>) {
        for ((topic, number), life) in lives {
            if let (None, Some(topic_id)) = (self.store.handle(topic, *number), life) {
                let dir = self.store.partition_dir(topic, *number);
                self.add(Partition::new(topic, *number, *topic_id, dir));
            }
        }
    }

    fn life(&self, topic: &str, number: i32, topic_id: u128) -> Option<PartitionHandle> {
        let handle = self.store.handle(topic, number)?;
        let known = self.store.partitions[handle.0 as usize].as_ref()?;
        (known.topic_id == topic_id).then_some(handle)
    }

    /// Replays a write-ahead file. Returns whether a refused partition still needs it.
    fn replay(&mut self, wal: &WalContent, has_data: bool) -> io::Result<bool> {
        let mut handles: BTreeMap<u32, PartitionHandle> = BTreeMap::new();
        let named = |handles: &BTreeMap<u32, PartitionHandle>, handle: u32| match handles.get(&handle) {
            Some(handle) => Ok(Some(*handle)),
            // Of a partition that was deleted since.
            None if !has_data => Ok(None),
            None => Err(io::Error::other("a write-ahead entry names a partition that was not declared")),
        };
        let (mut is_needed, mut unnamed) = (false, 0);
        for payload in &wal.frames {
            for entry in entries(payload) {
                let entry =
                    entry.ok_or_else(|| io::Error::other("a write-ahead frame has an entry of another version"))?;
                match entry {
                    WalEntry::Declare { handle, topic, partition, topic_id } => {
                        if has_data {
                            handles.insert(handle, self.declared(topic, partition, topic_id)?);
                        } else if let Some(known) = self.life(topic, partition, topic_id) {
                            handles.insert(handle, known);
                        }
                    }
                    WalEntry::Batches { handle, segment_base, bytes } => match named(&handles, handle)? {
                        Some(handle) => is_needed |= !self.complete(handle, segment_base, bytes)?,
                        None => unnamed += batches(bytes).count(),
                    },
                    WalEntry::Epoch { handle, epoch, start_offset } => {
                        if let Some(handle) = named(&handles, handle)?
                            && let Some(partition) = &mut self.store.partitions[handle.0 as usize]
                            && partition.epoch().is_none_or(|current| current < epoch)
                        {
                            let start_offset = start_offset.min(partition.next_offset);
                            partition.begin_epoch(epoch, start_offset);
                        }
                    }
                    WalEntry::Delete { handle } => {
                        if let Some(handle) = named(&handles, handle)? {
                            self.remove(handle);
                        }
                    }
                }
            }
        }
        if unnamed > 0 && self.store.options.access == Access::Salvage {
            self.report
                .given_up
                .push(format!("{unnamed} batches of write-ahead frames that do not say whose they are"));
        }
        Ok(is_needed)
    }

    /// Removes a partition; damage to it does not matter.
    fn remove(&mut self, handle: PartitionHandle) {
        if let Some(partition) = &self.store.partitions[handle.0 as usize] {
            self.report.damage.retain(|damage| !damage.file.starts_with(&partition.dir));
        }
        self.store.remove_files(handle);
    }

    /// Notes how much the directory has of a later topic of the same name, before it is written again.
    fn note_successor(&mut self, topic: &str, number: i32, topic_id: u128) -> bool {
        let (files, dir) = (Arc::clone(&self.store.files), self.store.partition_dir(topic, number));
        let found = scan::stored_topic_id(files.as_ref(), &dir).filter(|found| *found != topic_id);
        let there = |found| (found, scan::whole_until(files.as_ref(), &dir));
        found.map(|found| self.successors.entry((topic.to_owned(), number)).or_insert_with(|| there(found))).is_some()
    }

    /// Returns the offset up to which the files of a topic had whole batches before the start.
    fn there(&mut self, topic: &str, number: i32, topic_id: u128, dir: &Path) -> i64 {
        let is_of_successor = self.note_successor(topic, number, topic_id);
        match self.successors.get(&(topic.to_owned(), number)) {
            Some((successor, there)) if *successor == topic_id => *there,
            _ if is_of_successor => 0,
            _ => scan::whole_until(self.store.files.as_ref(), dir),
        }
    }

    fn declared(&mut self, topic: &str, number: i32, topic_id: u128) -> io::Result<PartitionHandle> {
        let dir = self.store.partition_dir(topic, number);
        if let Some(handle) = self.store.handle(topic, number) {
            let known = self.store.partitions[handle.0 as usize].as_ref().map_or(topic_id, |known| known.topic_id);
            if known == topic_id {
                return Ok(handle);
            }
            self.remove(handle);
        }
        let there = self.there(topic, number, topic_id, &dir);
        self.store.clear(&dir)?;
        self.store.names_changed = true;
        let handle = self.add(Partition::new(topic, number, topic_id, dir));
        self.there.insert(handle, there);
        Ok(handle)
    }

    /// Writes batches of a write-ahead file again. Returns false if the partition is refused.
    fn complete(&mut self, handle: PartitionHandle, segment_base: i64, bytes: &[u8]) -> io::Result<bool> {
        let files = Arc::clone(&self.store.files);
        let Some(partition) = &mut self.store.partitions[handle.0 as usize] else { return Ok(true) };
        if partition.refused.is_some() {
            return Ok(false);
        }
        for batch in batches(bytes) {
            let batch = batch.map_err(io::Error::other)?;
            let header = batch.header();
            if header.base_offset < partition.next_offset {
                continue;
            }
            if header.base_offset > partition.next_offset {
                let reason = format!("records are missing up to offset {}", header.base_offset);
                let damage = match partition.segments.last() {
                    Some(active) => active.damage(partition.active_bytes, partition.next_offset, reason),
                    None => Damage { file: partition.dir.clone(), position: 0, offset: partition.next_offset, reason },
                };
                let error = LogError::Damaged(Box::new(damage.clone()));
                partition.view.refuse(error.clone());
                partition.kept_checkpoint = Some(partition.checkpointed());
                partition.refused = Some(error);
                self.report.damage.push(damage);
                return Ok(false);
            }
            if partition.segments.last().is_none_or(|active| active.base_offset != segment_base) {
                // The write-ahead file declares it.
                partition.roll(files.as_ref(), true)?;
            }
            super::side_files::recovered(partition, files.as_ref(), header)?;
            partition.write(batch.bytes(), header.last_offset().saturating_add(1))?;
            // The segment may exist only because its removal is not durable.
            partition.names_changed = true;
            self.report.completed_batches += 1;
            let was_there = self.there.get(&handle).is_some_and(|there| header.base_offset < *there);
            self.report.missing_batches += u64::from(!was_there);
        }
        Ok(true)
    }

    /// Recovers a partition that the last start refused, in case it was repaired. Records after the checkpoint are in
    /// its segments or in the kept write-ahead files.
    fn refused_before(&mut self, checkpoint: &CheckpointedPartition) -> io::Result<()> {
        self.scanned(checkpoint)?;
        let handle = PartitionHandle(self.store.partitions.len() as u32 - 1);
        let Some(partition) = &self.store.partitions[handle.0 as usize] else { return Ok(()) };
        if !self.store.options.access.recovers() || partition.refused.is_some() {
            return Ok(());
        }
        for bytes in self.store.kept_batches(partition, checkpoint)?.values() {
            let active = self.store.partitions[handle.0 as usize].as_ref().and_then(|known| known.segments.last());
            let segment_base = active.map_or(0, |active| active.base_offset);
            if !self.complete(handle, segment_base, bytes)? {
                break;
            }
        }
        Ok(())
    }

    /// Syncs the recovered segments and begins a write-ahead file. With nothing to recover, the current file continues.
    fn begin_wal(&mut self, wals: &[(u64, WalContent)], is_clean: bool, needed: &[u64]) -> io::Result<()> {
        let store = &mut self.store;
        let files = Arc::clone(&store.files);
        let has_data = store.options.durability == Durability::Fsync;
        let reserve_bytes = store.options.wal_reserve_bytes;
        let last = wals.last().map(|(number, wal)| (*number, wal));
        if let Some((number, wal)) = last.filter(|(_, wal)| is_clean && wals.len() == 1 && wal.has_data == has_data) {
            store.wal = Wal::resume(files.as_ref(), &store.dir, number, wal, reserve_bytes)?;
            return Ok(());
        }
        store.names_changed = true;
        if let Some((number, wal)) = last {
            store.wal = Wal::ended(number, wal.first_sequence + wal.frames.len() as u64);
        }
        store.checkpoint().map_err(|error| io::Error::other(error.to_string()))?;
        if self.report.damage.is_empty() && self.report.given_up.is_empty() {
            for entry in files.list(&store.dir)?.iter().filter(|entry| layout::is_kept(entry)) {
                files.remove(&store.dir.join(&entry.name))?;
            }
        }
        for (number, _) in wals {
            let path = store.dir.join(layout::wal_name(*number));
            if needed.contains(number) {
                let kept = store.dir.join(layout::kept_name(*number));
                files.rename(&path, &kept)?;
                self.report.kept.push(kept);
            } else {
                match files.remove(&path) {
                    Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                    _ => {}
                }
            }
        }
        Ok(())
    }
}
