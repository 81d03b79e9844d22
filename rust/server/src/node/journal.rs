//! The journal: what every coordinator was told and what came of it, in a directory of its own (docs/journal.md).
//!
//! Nobody waits for it. Each partition has a queue that its node writes to; one thread empties them into segments. When
//! the queues are full, or the disk fails, entries are dropped, and the journal says how many and where.

use std::{
    mem,
    path::PathBuf,
    sync::{
        Arc, Condvar, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use rota_core::{Coordinator, Now, Phase, Sink, controls::NotDone};
use rota_journal::{Event, JOURNAL_TOPIC, Outcome, Recorder, write_entries, write_mark};
use rota_log::{
    BatchWriter, LogRecord, SegmentStore,
    files::DiskFiles,
    store::{Command, Durability, PartitionInfo, StoreOptions},
};

use crate::{base::error::ServerError, log::data_dir::DataDir};

/// Where in a data directory it is.
pub const JOURNAL_DIR: &str = "journal";

/// What waits to be written has so many bytes at most, but for what one event adds.
const QUEUED_BYTES_MAX: usize = 32 << 20;
/// From here on the writer is woken.
const QUEUED_BYTES_DUE: usize = 1 << 20;
/// The writer looks by itself so often.
const PERIOD: Duration = Duration::from_millis(100);
const RETENTION_PERIOD: Duration = Duration::from_secs(10);
/// A snapshot is taken after so many bytes of entries, or so many times the bytes of the last one.
const SNAPSHOT_BYTES_MIN: usize = 1 << 20;
const SNAPSHOT_FACTOR: usize = 4;
const SEGMENT_BYTES_MAX: u64 = 64 << 20;
const SEGMENT_BYTES_MIN: u64 = 64 << 10;
const BATCH_BYTES_MAX: usize = i32::MAX as usize;

/// Where a server keeps its journal, and how much of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JournalConfig {
    /// The directory, created if its parent exists; `None`: in the data directory.
    pub dir: Option<PathBuf>,
    /// Bytes that each partition keeps, a whole segment at a time.
    pub retention_bytes: Option<u64>,
    /// How long entries are kept, a whole segment at a time.
    pub retention_ms: Option<u64>,
}

/// How the journal is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JournalHealth {
    /// Its directory.
    pub dir: PathBuf,
    /// Entries since the start.
    pub entries: u64,
    /// Bytes of those.
    pub bytes: u64,
    /// Entries that were dropped.
    pub lost: u64,
    /// Why the disk does not take it, if that is so.
    pub error: Option<String>,
}

/// What waits to be written of one partition.
#[derive(Debug, Default)]
struct Queue {
    records: Vec<LogRecord>,
    /// Of the next entry.
    sequence: u64,
    /// Entries that were dropped since the last one in `records`.
    dropped: u64,
    /// When the last event happened.
    now: Option<Now>,
    /// Entries since the last snapshot have so many bytes.
    since_snapshot_bytes: usize,
    /// That had so many.
    snapshot_bytes: usize,
    needs_snapshot: bool,
}

#[derive(Debug, Default)]
struct Bell {
    rung: Mutex<bool>,
    closing: Mutex<bool>,
    wakes: Condvar,
}

/// See the module.
#[derive(Debug)]
pub struct Journal {
    dir: PathBuf,
    queues: Vec<Mutex<Queue>>,
    queued_bytes: AtomicUsize,
    entries: AtomicU64,
    bytes: AtomicU64,
    lost: AtomicU64,
    error: Mutex<Option<String>>,
    bell: Bell,
    writer: Mutex<Option<JoinHandle<()>>>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Journal {
    /// That of a server, in its data directory unless it has a place of its own. Errors: `BadJournal`, `CannotOpen`.
    pub fn beside(
        config: &JournalConfig,
        data: Option<&DataDir>,
        partitions: u32,
        cluster_id: &str,
    ) -> Result<Arc<Journal>, ServerError> {
        let in_data = match data {
            None => Err("a server without a data directory needs a directory for its journal".to_owned()),
            Some(data) if data.is_read_only => {
                Err("a directory that is only read takes no journal: name another".to_owned())
            }
            Some(data) => Ok(data.dir().join(JOURNAL_DIR)),
        };
        let dir = config.dir.clone().map_or(in_data, Ok).map_err(ServerError::BadJournal)?;
        Journal::open(config, dir, partitions, cluster_id)
    }

    /// Opens it and starts its thread. Errors: `CannotOpen`, `BadData`.
    fn open(
        config: &JournalConfig,
        dir: PathBuf,
        partitions: u32,
        cluster_id: &str,
    ) -> Result<Arc<Journal>, ServerError> {
        let segments = config.retention_bytes.map_or(SEGMENT_BYTES_MAX, |bytes| bytes / 4);
        let segment_bytes = segments.clamp(SEGMENT_BYTES_MIN, SEGMENT_BYTES_MAX);
        let options = StoreOptions {
            durability: Durability::Os,
            segment_bytes,
            // Only what a checkpoint has synced can be dropped.
            wal_bytes: segment_bytes,
            batch_bytes_max: BATCH_BYTES_MAX,
            cluster_id: cluster_id.to_owned(),
            compacted_topics: Vec::new(),
            ..StoreOptions::default()
        };
        let (store, report) =
            SegmentStore::open(Arc::new(DiskFiles), &dir, options).map_err(ServerError::CannotOpen)?;
        let bad = |reason: String| ServerError::BadData { dir: dir.clone(), reason };
        if let Some(damage) = report.damage.first() {
            return Err(bad(format!("has a damaged journal: {damage}")));
        }
        let created = store.log(JOURNAL_TOPIC, partitions, 0, BATCH_BYTES_MAX);
        created.map_err(|error| bad(format!("cannot hold a journal of {partitions} partitions: {error}")))?;
        let mut infos: Vec<PartitionInfo> =
            store.partitions().into_iter().filter(|info| info.topic == JOURNAL_TOPIC).collect();
        infos.sort_by_key(|info| info.partition);
        let parts = infos.into_iter().map(|info| Part { info, is_open: false, unwritten: Vec::new() }).collect();
        let journal = Arc::new(Journal {
            dir,
            queues: (0..partitions).map(|_| Mutex::default()).collect(),
            queued_bytes: AtomicUsize::new(0),
            entries: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
            lost: AtomicU64::new(0),
            error: Mutex::default(),
            bell: Bell::default(),
            writer: Mutex::default(),
        });
        let writer = Writer { journal: Arc::clone(&journal), store, parts, config: config.clone() };
        let thread = thread::Builder::new().name("journal".to_owned()).spawn(move || writer.run());
        *lock(&journal.writer) = Some(thread.map_err(|source| ServerError::CannotRun { source })?);
        Ok(journal)
    }

    /// Tells a coordinator, and notes what came of it; `outcome` is room for that.
    pub fn run(
        &self,
        coordinator: &mut Coordinator,
        now: Now,
        event: &Event<'_>,
        outcome: &mut Outcome,
        sink: &mut dyn Sink,
    ) -> Result<(), NotDone> {
        outcome.clear();
        let subject = event.subject(coordinator);
        let done = event.apply(coordinator, now, &mut Recorder::new(outcome, Some(sink)));
        let queue = &mut *lock(&self.queues[coordinator.partition() as usize]);
        queue.now = Some(now);
        if matches!(event, Event::Began { .. }) {
            self.note_dropped(queue);
            *queue = Queue { records: mem::take(&mut queue.records), now: Some(now), ..Queue::default() };
        }
        self.entries.fetch_add(outcome.entries(), Ordering::Relaxed);
        if self.queued_bytes.load(Ordering::Relaxed) >= QUEUED_BYTES_MAX {
            self.drop_entries(queue, outcome.entries());
            return done;
        }
        self.note_dropped(queue);
        let state = if matches!(event, Event::Loaded { .. }) { coordinator.snapshot() } else { Vec::new() };
        let event = if state.is_empty() { event } else { &Event::Loaded { state: &state } };
        let mut sequence = queue.sequence;
        write_entries(coordinator, now, event, &subject, outcome, &mut sequence, |group_id, bytes| {
            self.push(queue, group_id, bytes);
        });
        queue.sequence = sequence;
        if !state.is_empty() {
            queue.snapshot_taken(state.len());
        } else if queue.is_snapshot_due() && coordinator.phase() == Phase::Active {
            let state = coordinator.snapshot();
            self.push(queue, "", write_mark(queue.sequence, now, &Event::Snapshot { state: &state }));
            queue.sequence += 1;
            queue.snapshot_taken(state.len());
        }
        done
    }

    fn push(&self, queue: &mut Queue, group_id: &str, entry: Vec<u8>) {
        let bytes = group_id.len() + entry.len();
        queue.records.push(LogRecord { key: group_id.as_bytes().to_vec(), value: Some(entry) });
        queue.since_snapshot_bytes += bytes;
        self.bytes.fetch_add(bytes as u64, Ordering::Relaxed);
        let before = self.queued_bytes.fetch_add(bytes, Ordering::Relaxed);
        if before < QUEUED_BYTES_DUE && before + bytes >= QUEUED_BYTES_DUE {
            self.bell.ring();
        }
    }

    fn drop_entries(&self, queue: &mut Queue, entries: u64) {
        queue.sequence += entries;
        queue.dropped += entries;
        self.lost.fetch_add(entries, Ordering::Relaxed);
    }

    /// Writes down how many entries were dropped, if any were.
    fn note_dropped(&self, queue: &mut Queue) {
        let (entries, Some(now)) = (mem::take(&mut queue.dropped), queue.now) else { return };
        if entries > 0 {
            self.push(queue, "", write_mark(queue.sequence - 1, now, &Event::Gap { entries }));
            queue.needs_snapshot = true;
        }
    }

    /// Takes what waits of a partition. It counts as queued until it is written.
    fn take(&self, partition: usize) -> Vec<LogRecord> {
        let queue = &mut *lock(&self.queues[partition]);
        self.note_dropped(queue);
        mem::take(&mut queue.records)
    }

    /// How it is now.
    pub fn health(&self) -> JournalHealth {
        JournalHealth {
            dir: self.dir.clone(),
            entries: self.entries.load(Ordering::Relaxed),
            bytes: self.bytes.load(Ordering::Relaxed),
            lost: self.lost.load(Ordering::Relaxed),
            error: lock(&self.error).clone(),
        }
    }

    /// Writes what waits, and closes it. A second call does nothing.
    pub fn close(&self) {
        *lock(&self.bell.closing) = true;
        self.bell.ring();
        if let Some(writer) = lock(&self.writer).take() {
            // A thread that panicked has said so on standard error.
            let _ended = writer.join();
        }
    }
}

impl Queue {
    fn is_snapshot_due(&self) -> bool {
        let due_bytes = SNAPSHOT_BYTES_MIN.max(self.snapshot_bytes.saturating_mul(SNAPSHOT_FACTOR));
        self.needs_snapshot || self.since_snapshot_bytes >= due_bytes
    }

    fn snapshot_taken(&mut self, bytes: usize) {
        (self.since_snapshot_bytes, self.snapshot_bytes, self.needs_snapshot) = (0, bytes, false);
    }
}

impl Bell {
    fn ring(&self) {
        *lock(&self.rung) = true;
        self.wakes.notify_one();
    }

    /// Waits for the bell, or one period.
    fn wait(&self) {
        let rung = lock(&self.rung);
        let waited = self.wakes.wait_timeout_while(rung, PERIOD, |rung| !*rung);
        *waited.unwrap_or_else(PoisonError::into_inner).0 = false;
    }
}

/// A partition of the journal, as its writer knows it.
struct Part {
    info: PartitionInfo,
    is_open: bool,
    /// What was taken from the queue and is not in the segments.
    unwritten: Vec<LogRecord>,
}

/// The thread that empties the queues.
struct Writer {
    journal: Arc<Journal>,
    store: SegmentStore,
    parts: Vec<Part>,
    config: JournalConfig,
}

impl Writer {
    fn run(mut self) {
        let mut looked = Instant::now();
        loop {
            self.journal.bell.wait();
            // Looked at first: what was queued before the close is written.
            let closing = *lock(&self.journal.bell.closing);
            self.write();
            if looked.elapsed() >= RETENTION_PERIOD || closing {
                self.retain();
                looked = Instant::now();
            }
            if closing {
                let left: usize = self.parts.iter().map(|part| part.unwritten.len()).sum();
                self.journal.lost.fetch_add(left as u64, Ordering::Relaxed);
                return self.store.close();
            }
        }
    }

    /// What the disk does not take is tried again the next time; meanwhile the queues fill, and then entries are
    /// dropped.
    fn write(&mut self) {
        let (mut commands, mut asked) = (Vec::new(), Vec::new());
        let now_ms = wall_ms();
        for (at, part) in self.parts.iter_mut().enumerate() {
            part.unwritten.append(&mut self.journal.take(at));
            if part.unwritten.is_empty() {
                continue;
            }
            let (partition, epoch) = (part.info.handle, part.info.epoch.map_or(0, |epoch| epoch + 1));
            if !part.is_open {
                commands.push(Command::Open { partition, epoch });
                asked.push(None);
            }
            let mut batch = BatchWriter::default();
            for record in &part.unwritten {
                batch.push(now_ms, Some(&record.key), record.value.as_deref());
            }
            commands.push(Command::Append { partition, epoch, batch: batch.finish().into() });
            asked.push(Some(at));
        }
        if commands.is_empty() {
            return;
        }
        let outcomes = self.store.call(commands);
        *lock(&self.journal.error) =
            outcomes.iter().find_map(|outcome| outcome.as_ref().err()).map(ToString::to_string);
        for (at, outcome) in asked.into_iter().zip(outcomes) {
            if let (Some(at), Ok(_)) = (at, outcome) {
                let part = &mut self.parts[at];
                part.is_open = true;
                let size = |record: &LogRecord| record.key.len() + record.value.as_ref().map_or(0, Vec::len);
                let bytes = part.unwritten.drain(..).map(|record| size(&record)).sum();
                self.journal.queued_bytes.fetch_sub(bytes, Ordering::Relaxed);
            }
        }
    }

    /// Drops the oldest segments of what is too large, or too old. What cannot be dropped now is tried again.
    fn retain(&self) {
        let limit_bytes = self.config.retention_bytes.unwrap_or(u64::MAX);
        let trim = |part: &Part| {
            let since_ms = self.config.retention_ms.map(|kept_ms| wall_ms().saturating_sub_unsigned(kept_ms));
            let below = since_ms.map_or(0, |since_ms| part.info.view.older_than(since_ms).unwrap_or(0));
            Command::Trim { partition: part.info.handle, limit_bytes, below }
        };
        let _outcomes = self.store.call(self.parts.iter().map(trim).collect());
    }
}

fn wall_ms() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as i64)
}
