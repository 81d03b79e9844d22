//! A store on its own threads: one runs passes, another runs background tasks.
//!
//! Appends do not block. Operations that arrive during a pass form the next pass, so the number of syncs does not
//! depend on the number of callers and partitions.

use std::{
    collections::{BTreeSet, HashMap},
    fmt, io, mem,
    path::Path,
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, mpsc},
    thread::{self, JoinHandle},
    time::{SystemTime, UNIX_EPOCH},
};

use bytes::Bytes;

use crate::{
    BatchWriter,
    completions::Completions,
    error::LogError,
    fenced::{Append, Completion, FencedLog, LogRecord, Operation, RecordInPlace, check_size},
    files::Files,
    store::{
        Command, OpenError, Outcome, PartitionHandle, PartitionInfo, PartitionView, Report, Store, StoreOptions, Task,
    },
    transaction::BatchKind,
};

/// Maximum bytes of the appends of one pass, unless the first append alone has more.
const PASS_BYTES_MAX: usize = 16 << 20;

/// Bytes of batches that one read visits.
const SLICE_BYTES: usize = 256 << 10;

type Inspection = Box<dyn FnOnce(&mut Store) + Send>;

/// Where the outcome of a command goes.
enum Reply {
    Completion { to: Arc<Completions>, partition: i32, epoch: i32, operation: Operation },
    Once(Box<dyn FnOnce(Outcome) + Send>),
}

enum Message {
    Do(Command, Reply),
    Inspect(Inspection),
}

#[derive(Default)]
struct Queue {
    messages: Vec<Message>,
    task_done: bool,
    closed: bool,
}

/// State shared by the threads and their callers.
#[derive(Default)]
struct Shared {
    queue: Mutex<Queue>,
    wakeup: Condvar,
    stopped: Mutex<Option<Arc<str>>>,
    is_read_only: bool,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Shared {
    /// After the close, every command fails at once.
    fn send(&self, messages: impl IntoIterator<Item = Message>) {
        let mut queue = lock(&self.queue);
        if queue.closed {
            drop(queue);
            for message in messages {
                if let Message::Do(_, reply) = message {
                    reply.give(Err(LogError::Stopped { reason: "it was closed".into() }));
                }
            }
            return;
        }
        let was_empty = queue.messages.is_empty();
        queue.messages.extend(messages);
        let has_messages = !queue.messages.is_empty();
        drop(queue);
        if was_empty && has_messages {
            self.wakeup.notify_one();
        }
    }
}

impl Reply {
    fn give(self, outcome: Outcome) {
        match self {
            Reply::Once(done) => done(outcome),
            Reply::Completion { to, partition, epoch, operation } => {
                to.put([Completion { partition, epoch, operation, result: outcome }]);
            }
        }
    }
}

/// An open data directory. Dropping it writes a checkpoint and closes it.
pub struct SegmentStore {
    shared: Arc<Shared>,
    passes: Mutex<Option<JoinHandle<()>>>,
}

impl fmt::Debug for SegmentStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SegmentStore(stopped: {:?})", self.stopped())
    }
}

impl SegmentStore {
    /// Opens `dir` and starts the threads. Errors: those of [`Store::open`].
    pub fn open(files: Arc<dyn Files>, dir: &Path, options: StoreOptions) -> Result<(SegmentStore, Report), OpenError> {
        let (store, report) = Store::open(files, dir, options)?;
        let shared = Arc::new(Shared { is_read_only: store.is_read_only(), ..Shared::default() });
        let io = |error: io::Error| OpenError::Io { dir: dir.to_owned(), error };
        let passes = Passes::new(store, Arc::clone(&shared)).map_err(io)?;
        let thread = thread::Builder::new().name("log".to_owned()).spawn(move || passes.run()).map_err(io)?;
        Ok((SegmentStore { shared, passes: Mutex::new(Some(thread)) }, report))
    }

    /// Returns why the store accepts nothing any more; `None` while it works.
    pub fn stopped(&self) -> Option<Arc<str>> {
        lock(&self.shared.stopped).clone()
    }

    /// Queues `command`. The log thread calls `done` with its outcome.
    pub fn submit(&self, command: Command, done: impl FnOnce(Outcome) + Send + 'static) {
        self.shared.send([Message::Do(command, Reply::Once(Box::new(done)))]);
    }

    /// Queues `commands` for one pass and waits for their outcomes.
    pub fn call(&self, commands: Vec<Command>) -> Vec<Outcome> {
        let (messages, outcomes): (Vec<_>, Vec<_>) = commands.into_iter().map(asked).unzip();
        self.shared.send(messages);
        outcomes.iter().map(received).collect()
    }

    /// Runs `look` on the store between two passes and returns its result.
    pub fn inspect<T: Send + 'static>(&self, look: impl FnOnce(&mut Store) -> T + Send + 'static) -> Option<T> {
        let (sender, outcome) = mpsc::channel();
        let inspection: Inspection = Box::new(move |store| {
            let _ = sender.send(look(store));
        });
        self.shared.send([Message::Inspect(inspection)]);
        outcome.recv().ok()
    }

    /// Returns all partitions.
    pub fn partitions(&self) -> Vec<PartitionInfo> {
        self.inspect(|store| store.partitions()).unwrap_or_default()
    }

    /// Returns the fenced log of `topic`. Creates missing partitions from 0 to `count` with `topic_id`; in a read-only
    /// directory, they are empty. Appends above `batch_bytes_max` bytes of keys and values fail. Errors: those of the
    /// creation.
    pub fn log(&self, topic: &str, count: u32, topic_id: u128, batch_bytes_max: usize) -> Result<SegmentLog, LogError> {
        let there = || self.partitions().into_iter().filter(|info| info.topic == topic);
        let known: BTreeSet<i32> = there().map(|info| info.partition).collect();
        let mut missing: BTreeSet<i32> = (0..count as i32).filter(|partition| !known.contains(partition)).collect();
        if !self.shared.is_read_only {
            let create = |partition| Command::Create { topic: topic.to_owned(), partition, topic_id };
            let created = self.call(mem::take(&mut missing).into_iter().map(create).collect());
            created.into_iter().collect::<Result<Vec<_>, _>>()?;
        }
        let partitions = there().map(|info| (info.partition, (info.handle, info.view))).collect();
        Ok(SegmentLog { shared: Arc::clone(&self.shared), partitions, missing, batch_bytes_max })
    }
}

impl SegmentStore {
    /// Completes queued commands, writes a checkpoint and unlocks the directory. Later appends fail. A second call does
    /// nothing.
    pub fn close(&self) {
        lock(&self.shared.queue).closed = true;
        self.shared.wakeup.notify_one();
        let thread = lock(&self.passes).take();
        if let Some(thread) = thread {
            let _ = thread.join();
        }
    }
}

impl Drop for SegmentStore {
    fn drop(&mut self) {
        self.close();
    }
}

/// Returns the message for a command, and where its outcome arrives.
fn asked(command: Command) -> (Message, mpsc::Receiver<Outcome>) {
    let (sender, outcome) = mpsc::channel();
    let reply = Reply::Once(Box::new(move |outcome| {
        let _ = sender.send(outcome);
    }));
    (Message::Do(command, reply), outcome)
}

/// Waits for the outcome. The log thread answers every command before it ends.
fn received(outcome: &mpsc::Receiver<Outcome>) -> Outcome {
    outcome.recv().unwrap_or_else(|_| Err(LogError::Stopped { reason: "its thread has ended".into() }))
}

/// The fenced log of one topic of a store.
pub struct SegmentLog {
    shared: Arc<Shared>,
    partitions: HashMap<i32, (PartitionHandle, Arc<PartitionView>)>,
    /// Partitions that a read-only directory lacks.
    missing: BTreeSet<i32>,
    batch_bytes_max: usize,
}

impl fmt::Debug for SegmentLog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SegmentLog({} partitions)", self.partitions.len())
    }
}

impl SegmentLog {
    /// Returns the readable part of a partition, which grows while others append.
    pub fn view(&self, partition: i32) -> Option<&Arc<PartitionView>> {
        self.partitions.get(&partition).map(|(_, view)| view)
    }

    fn encode(&self, append: &Append<Vec<LogRecord>>) -> Result<Command, LogError> {
        let Append { partition, epoch, timestamp_ms, kind, batch, .. } = append;
        if self.missing.contains(partition) {
            return Err(LogError::ReadOnly);
        }
        let known = self.partitions.get(partition).ok_or(LogError::UnknownPartition { partition: *partition })?;
        check_size(*kind, batch, self.batch_bytes_max)?;
        let batch = encode_append(*kind, *timestamp_ms, batch);
        Ok(Command::Append { partition: known.0, epoch: *epoch, batch: batch.into() })
    }
}

/// Encodes the records of an append as a batch in Kafka's format, without offsets and epoch.
pub fn encode_append(kind: BatchKind, timestamp_ms: i64, records: &[LogRecord]) -> Bytes {
    match kind {
        // Kafka's coordinator writes sequence 0 without a producer id.
        BatchKind::Plain => written(BatchWriter::default(), (-1, -1, 0), timestamp_ms, records),
        BatchKind::Transactional { producer_id, producer_epoch } => {
            let mut writer = BatchWriter::default();
            writer.is_transactional = true;
            written(writer, (producer_id, producer_epoch, 0), timestamp_ms, records)
        }
        BatchKind::Marker(marker) => marker.batch(timestamp_ms),
    }
}

fn written(mut writer: BatchWriter, producer: (i64, i16, i32), timestamp_ms: i64, records: &[LogRecord]) -> Bytes {
    writer.producer = Some(producer);
    for record in records {
        writer.push(timestamp_ms, Some(&record.key), record.value.as_deref());
    }
    writer.finish()
}

impl FencedLog<Vec<LogRecord>> for SegmentLog {
    /// A read-only directory has no writers to fence.
    fn open(&self, partition: i32, epoch: i32, to: &Arc<Completions>) {
        let reply = Reply::Completion { to: Arc::clone(to), partition, epoch, operation: Operation::Open };
        match self.partitions.get(&partition) {
            Some(_) if self.shared.is_read_only => reply.give(self.end(partition)),
            Some((handle, _)) => self.shared.send([Message::Do(Command::Open { partition: *handle, epoch }, reply)]),
            None => reply.give(self.end(partition)),
        }
    }

    fn append(&self, append: Append<Vec<LogRecord>>, to: &Arc<Completions>) {
        let Append { partition, epoch, id, .. } = append;
        let reply = Reply::Completion { to: Arc::clone(to), partition, epoch, operation: Operation::Append(id) };
        match self.encode(&append) {
            Ok(command) => self.shared.send([Message::Do(command, reply)]),
            Err(error) => reply.give(Err(error)),
        }
    }

    fn read(&self, partition: i32, from: i64, visit: &mut dyn FnMut(RecordInPlace<'_>)) -> Result<i64, LogError> {
        match self.view(partition) {
            Some(view) => view.visit_records(from, SLICE_BYTES, visit),
            None => self.end(partition).map(|_| from),
        }
    }

    fn end(&self, partition: i32) -> Result<i64, LogError> {
        match self.view(partition) {
            Some(view) => view.refusal().map_or_else(|| Ok(view.next_offset()), Err),
            None if self.missing.contains(&partition) => Ok(0),
            None => Err(LogError::UnknownPartition { partition }),
        }
    }

    fn size_bytes(&self, partition: i32) -> u64 {
        self.view(partition).map_or(0, |view| view.size_bytes())
    }
}

/// The thread that runs passes.
struct Passes {
    store: Store,
    shared: Arc<Shared>,
    tasks: Option<mpsc::Sender<Task>>,
    done: mpsc::Receiver<(Task, io::Result<()>)>,
    /// The thread that runs background tasks.
    beside: Option<JoinHandle<()>>,
    in_task: bool,
}

impl Passes {
    fn new(store: Store, shared: Arc<Shared>) -> io::Result<Passes> {
        let (tasks, asked) = mpsc::channel::<Task>();
        let (sender, done) = mpsc::channel();
        let task_shared = Arc::clone(&shared);
        let beside = thread::Builder::new().name("log-beside".to_owned()).spawn(move || {
            for mut task in asked {
                let result = task.run();
                if sender.send((task, result)).is_err() {
                    return;
                }
                lock(&task_shared.queue).task_done = true;
                task_shared.wakeup.notify_one();
            }
        })?;
        Ok(Passes { store, shared, tasks: Some(tasks), done, beside: Some(beside), in_task: false })
    }

    fn run(mut self) {
        loop {
            let (messages, closed) = self.wait();
            self.handle(messages);
            self.take_task_back(false);
            if self.store.is_behind() {
                self.take_task_back(true);
            }
            if closed {
                break;
            }
            self.begin_task();
        }
        self.take_task_back(true);
        drop(self.tasks.take());
        if let Some(beside) = self.beside.take() {
            let _ = beside.join();
        }
        // Every waiting command has got the error that stopped the store. The next start completes the checkpoint.
        let _ = self.store.checkpoint();
    }

    fn wait(&self) -> (Vec<Message>, bool) {
        let mut queue = lock(&self.shared.queue);
        while queue.messages.is_empty() && !queue.task_done && !queue.closed {
            queue = self.shared.wakeup.wait(queue).unwrap_or_else(PoisonError::into_inner);
        }
        queue.task_done = false;
        (mem::take(&mut queue.messages), queue.closed)
    }

    fn handle(&mut self, messages: Vec<Message>) {
        let (mut commands, mut replies, mut bytes) = (Vec::new(), Vec::new(), 0);
        for message in messages {
            match message {
                Message::Do(command, reply) => {
                    bytes += match &command {
                        Command::Append { batch, .. } | Command::AppendAt { batch, .. } => batch.len(),
                        _ => 0,
                    };
                    if bytes > PASS_BYTES_MAX && !commands.is_empty() {
                        self.pass(mem::take(&mut commands), mem::take(&mut replies));
                        bytes = 0;
                    }
                    commands.push(command);
                    replies.push(reply);
                }
                Message::Inspect(inspection) => {
                    self.pass(mem::take(&mut commands), mem::take(&mut replies));
                    bytes = 0;
                    inspection(&mut self.store);
                    self.note_stop();
                }
            }
        }
        self.pass(commands, replies);
    }

    fn pass(&mut self, commands: Vec<Command>, replies: Vec<Reply>) {
        if commands.is_empty() {
            return;
        }
        let outcomes = self.store.pass(commands);
        self.note_stop();
        // Consecutive completions for the same queue are put at once, so that its owner finds all of them when it
        // wakes.
        let mut row: Option<(Arc<Completions>, Vec<Completion>)> = None;
        for (reply, result) in replies.into_iter().zip(outcomes) {
            match reply {
                Reply::Completion { to, partition, epoch, operation } => {
                    let completion = Completion { partition, epoch, operation, result };
                    match &mut row {
                        Some((same, completions)) if Arc::ptr_eq(same, &to) => completions.push(completion),
                        _ => {
                            put(row.take());
                            row = Some((to, vec![completion]));
                        }
                    }
                }
                Reply::Once(done) => done(result),
            }
        }
        put(row);
    }

    fn note_stop(&self) {
        if let Some(reason) = self.store.stopped() {
            lock(&self.shared.stopped).get_or_insert(reason);
        }
    }

    fn begin_task(&mut self) {
        let now_ms = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as i64);
        if self.in_task {
            return;
        }
        if let (Some(task), Some(tasks)) = (self.store.next_task(now_ms), &self.tasks) {
            self.in_task = tasks.send(task).is_ok();
        }
    }

    fn take_task_back(&mut self, waits: bool) {
        if !self.in_task {
            return;
        }
        let taken = if waits { self.done.recv().ok() } else { self.done.try_recv().ok() };
        if let Some((task, result)) = taken {
            self.in_task = false;
            self.store.finish(task, result);
            self.note_stop();
        }
    }
}

fn put(row: Option<(Arc<Completions>, Vec<Completion>)>) {
    if let Some((to, completions)) = row {
        to.put(completions);
    }
}
