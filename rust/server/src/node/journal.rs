//! The journal: every event of every coordinator and its effects, in its own directory (docs/journal.md).
//!
//! No request waits for it. Each partition has a queue that its node writes to, and one thread writes the queues to
//! segments. If the queues or the disk are full, entries are dropped, and the journal records how many and where.

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

use crate::{
    base::error::ServerError,
    log::data_dir::{DataDir, check_journal_place},
};

/// The journal's directory within a data directory.
pub const JOURNAL_DIR: &str = "journal";

/// Maximum bytes in the queues, except for the entries of one event.
const QUEUED_BYTES_MAX: usize = 32 << 20;
/// Bytes in the queues that wake the writer.
const QUEUED_BYTES_DUE: usize = 1 << 20;
/// Interval at which the writer checks the queues.
const PERIOD: Duration = Duration::from_millis(100);
const RETENTION_PERIOD: Duration = Duration::from_secs(10);
/// Bytes of entries between snapshots: this minimum, or a multiple of the last snapshot.
const SNAPSHOT_BYTES_MIN: usize = 1 << 20;
const SNAPSHOT_FACTOR: usize = 4;
const SEGMENT_BYTES_MAX: u64 = 64 << 20;
const SEGMENT_BYTES_MIN: u64 = 64 << 10;
const BATCH_BYTES_MAX: usize = i32::MAX as usize;

/// Location and retention of a journal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JournalConfig {
    /// The directory, created if its parent exists; `None`: in the data directory.
    pub dir: Option<PathBuf>,
    /// Maximum bytes kept per partition, in whole segments.
    pub retention_bytes: Option<u64>,
    /// Time that entries are kept, in whole segments.
    pub retention_ms: Option<u64>,
}

/// The health of a journal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JournalHealth {
    /// The directory.
    pub dir: PathBuf,
    /// Entries since the start.
    pub entries: u64,
    /// Bytes of these entries.
    pub bytes: u64,
    /// Dropped entries.
    pub lost: u64,
    /// Why writes fail; `None` if they succeed.
    pub error: Option<String>,
}

/// Queued entries of one partition.
#[derive(Debug, Default)]
struct Queue {
    records: Vec<LogRecord>,
    /// Sequence number of the next entry.
    sequence: u64,
    /// Entries dropped since the last one in `records`.
    dropped: u64,
    /// Time of the last event.
    now: Option<Now>,
    /// Bytes of entries since the last snapshot.
    since_snapshot_bytes: usize,
    /// Size of the last snapshot in bytes.
    snapshot_bytes: usize,
    needs_snapshot: bool,
}

#[derive(Debug, Default)]
struct WriterSignal {
    notified: Mutex<bool>,
    closing: Mutex<bool>,
    wakeup: Condvar,
}

/// A journal in use.
#[derive(Debug)]
pub struct Journal {
    dir: PathBuf,
    queues: Vec<Mutex<Queue>>,
    queued_bytes: AtomicUsize,
    entries: AtomicU64,
    bytes: AtomicU64,
    lost: AtomicU64,
    error: Mutex<Option<String>>,
    signal: WriterSignal,
    writer: Mutex<Option<JoinHandle<()>>>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Journal {
    /// Opens the journal of a server, in its data directory or its own. Errors: `BadJournal`, `CannotOpen`.
    pub fn beside(
        config: &JournalConfig,
        data: Option<&DataDir>,
        partitions: u32,
        cluster_id: &str,
    ) -> Result<Arc<Journal>, ServerError> {
        let in_data = match data {
            None => Err("a server without a data directory needs a directory for its journal".to_owned()),
            Some(data) if data.is_read_only => {
                Err("a read-only directory cannot hold a journal: name another".to_owned())
            }
            Some(data) => Ok(data.dir().join(JOURNAL_DIR)),
        };
        let dir = config.dir.clone().map_or(in_data, Ok).map_err(ServerError::BadJournal)?;
        Journal::open(config, dir, partitions, cluster_id)
    }

    /// Opens a journal and starts its thread. Errors: `CannotOpen`, `BadData`.
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
        let bad = |reason: String| ServerError::BadData { dir: dir.clone(), reason };
        check_journal_place(&dir).map_err(bad)?;
        let (store, report) =
            SegmentStore::open(Arc::new(DiskFiles), &dir, options).map_err(ServerError::CannotOpen)?;
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
            signal: WriterSignal::default(),
            writer: Mutex::default(),
        });
        let writer = Writer { journal: Arc::clone(&journal), store, parts, config: config.clone() };
        let thread = thread::Builder::new().name("journal".to_owned()).spawn(move || writer.run());
        *lock(&journal.writer) = Some(thread.map_err(|source| ServerError::CannotRun { source })?);
        Ok(journal)
    }

    /// Runs an event on a coordinator and writes it with its effects. `outcome` is a buffer.
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
            self.signal.notify();
        }
    }

    fn drop_entries(&self, queue: &mut Queue, entries: u64) {
        queue.sequence += entries;
        queue.dropped += entries;
        self.lost.fetch_add(entries, Ordering::Relaxed);
    }

    /// Writes the number of dropped entries, if any.
    fn note_dropped(&self, queue: &mut Queue) {
        let (entries, Some(now)) = (mem::take(&mut queue.dropped), queue.now) else { return };
        if entries > 0 {
            self.push(queue, "", write_mark(queue.sequence - 1, now, &Event::Gap { entries }));
            queue.needs_snapshot = true;
        }
    }

    /// Takes the queued entries of a partition. They count as queued until they are written.
    fn take(&self, partition: usize) -> Vec<LogRecord> {
        let queue = &mut *lock(&self.queues[partition]);
        self.note_dropped(queue);
        mem::take(&mut queue.records)
    }

    /// Returns the current health.
    pub fn health(&self) -> JournalHealth {
        JournalHealth {
            dir: self.dir.clone(),
            entries: self.entries.load(Ordering::Relaxed),
            bytes: self.bytes.load(Ordering::Relaxed),
            lost: self.lost.load(Ordering::Relaxed),
            error: lock(&self.error).clone(),
        }
    }

    /// Writes the queued entries and closes the journal. A second call does nothing.
    pub fn close(&self) {
        *lock(&self.signal.closing) = true;
        self.signal.notify();
        if let Some(writer) = lock(&self.writer).take() {
            // A thread that panicked has reported that on standard error.
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

impl WriterSignal {
    fn notify(&self) {
        *lock(&self.notified) = true;
        self.wakeup.notify_one();
    }

    /// Waits for a notification, one period at most.
    fn wait(&self) {
        let notified = lock(&self.notified);
        let waited = self.wakeup.wait_timeout_while(notified, PERIOD, |notified| !*notified);
        *waited.unwrap_or_else(PoisonError::into_inner).0 = false;
    }
}

/// A partition of the journal, for its writer.
struct Part {
    info: PartitionInfo,
    is_open: bool,
    /// Entries taken from the queue but not written.
    unwritten: Vec<LogRecord>,
}

/// The thread that writes the queues.
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
            self.journal.signal.wait();
            // Checked first, so that entries queued before the close are written.
            let closing = *lock(&self.journal.signal.closing);
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

    /// Writes the queues. A failed write is repeated next time; meanwhile the queues fill, and then entries are
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

    /// Drops the oldest segments beyond size or age. A failed removal is repeated next time.
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
