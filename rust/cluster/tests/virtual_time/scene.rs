//! Hosts over one engine in memory, on one thread in virtual time, each with a serving task that stands for the server.

use std::{
    cell::{Cell, RefCell},
    collections::{BTreeMap, BTreeSet},
    pin::Pin,
    rc::Rc,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
    task::{Context, Poll, Waker},
    time::Duration,
};

use rota_cluster::{
    Change, ClusterLog, Connect, Engine, Host, HostConfig, MemoryEngine, MemoryLink, Pending, Session, SessionClock,
    Standing,
    notes::{self, Address, NodeInfo, Partitions},
    operator,
};
use rota_engine::{
    Body, Directory, HistoryId, NodeId, Request, View,
    requests::{AcceptLoss, PutNote},
};
use rota_log::{Append, BatchKind, Completions, FencedLog, LogRecord, Operation};
use tokio::{
    sync::Notify,
    task::JoinHandle,
    time::{Instant, sleep},
};

pub const TTL_MS: u64 = 5_000;
pub const PARTITIONS: u32 = 4;
/// Half of them are of transactions.
const BY_TOPIC: Partitions = Partitions { groups: 2, transactions: 2 };

/// A future that is not polled while it is paused, as a stopped process.
struct Pausable<F> {
    pause: Rc<Pause>,
    inner: Pin<Box<F>>,
}

#[derive(Default)]
struct Pause {
    is_paused: Cell<bool>,
    wakers: RefCell<Vec<Waker>>,
}

impl<F: Future<Output = ()>> Future for Pausable<F> {
    type Output = ();
    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        if self.pause.is_paused.get() {
            self.pause.wakers.borrow_mut().push(context.waker().clone());
            return Poll::Pending;
        }
        self.inner.as_mut().poll(context)
    }
}

/// What all see.
#[derive(Default)]
pub struct Truth {
    /// Values that were acknowledged, by partition, in order.
    pub acknowledged: Mutex<BTreeMap<i32, Vec<String>>>,
    next_value: AtomicU64,
}

/// An epoch, and the values that were loaded or appended; `None` until they are loaded.
type Content = (i32, Option<Vec<String>>);

/// What a node's serving task knows.
#[derive(Default)]
pub struct Served {
    /// By partition.
    pub partitions: Mutex<BTreeMap<i32, Content>>,
}

/// A process.
pub struct Process {
    pub id: i32,
    pub host: Host,
    pub link: MemoryLink,
    pub served: Arc<Served>,
    /// How often it has connected to the engine.
    pub connects: Arc<AtomicU64>,
    /// So much later its serving thread follows its host.
    pub late: Rc<Cell<Duration>>,
    pause: Rc<Pause>,
    tasks: Vec<JoinHandle<()>>,
}

/// The whole scene.
pub struct Scene {
    pub engine: MemoryEngine,
    pub processes: BTreeMap<i32, Process>,
    pub truth: Arc<Truth>,
    pub zero: Instant,
    starts: Cell<u128>,
}

impl Scene {
    pub fn new() -> Scene {
        let engine = MemoryEngine::new(HistoryId(7));
        let (processes, truth) = (BTreeMap::new(), Arc::default());
        Scene { engine, processes, truth, zero: Instant::now(), starts: Cell::new(0) }
    }

    pub fn now_ms(&self) -> u64 {
        self.zero.elapsed().as_millis() as u64
    }

    /// Starts a process of a node.
    pub fn start(&mut self, id: i32) {
        self.start_with(id, |_| ());
    }

    pub fn start_with(&mut self, id: i32, change: impl FnOnce(&mut HostConfig)) {
        let link = self.engine.link();
        self.starts.set(self.starts.get() + 1);
        let mut bits = self.starts.get() << 64;
        let zero = self.zero;
        let address = Address { listener: "PLAINTEXT".to_owned(), host: "h".to_owned(), port: id as u16 };
        let mut config = HostConfig {
            node: NodeId(id),
            directory: Directory(id as u128),
            ttl_ms: TTL_MS,
            partitions: BY_TOPIC,
            batch_bytes_max: 1 << 20,
            append_timeout_ms: 5_000,
            info: NodeInfo { addresses: vec![address], version: "1".to_owned(), ..NodeInfo::default() },
            clock: SessionClock::new(move || zero.elapsed().as_millis() as u64),
            cluster_id: "cluster".to_owned(),
            random: Box::new(move || {
                bits += 1 << 32;
                bits
            }),
            on_table: Box::new(|_, _| ()),
        };
        change(&mut config);
        let connected: Arc<dyn Engine> = Arc::new(link.clone());
        let connects = Arc::<AtomicU64>::default();
        let counted = Arc::clone(&connects);
        let connect: Connect = Box::new(move || {
            counted.fetch_add(1, Ordering::Relaxed);
            let connected = Arc::clone(&connected);
            let connecting: Pending<'static, _> = Box::pin(async move { Ok(connected) });
            connecting
        });
        let (host, run) = Host::prepared(connect, config);
        let pause = Rc::<Pause>::default();
        let served = Arc::<Served>::default();
        let waker = Arc::new(Notify::new());
        let notified = Arc::clone(&waker);
        host.session.on_mail(move || notified.notify_one());
        let late = Rc::<Cell<Duration>>::default();
        let (session, log) = (Arc::clone(&host.session), Arc::clone(&host.log));
        let serving = serve(session, log, Arc::clone(&served), waker, Rc::clone(&late));
        let tasks = vec![
            tokio::task::spawn_local(Pausable { pause: Rc::clone(&pause), inner: Box::pin(run()) }),
            tokio::task::spawn_local(Pausable { pause: Rc::clone(&pause), inner: Box::pin(serving) }),
        ];
        self.processes.insert(id, Process { id, host, link, served, connects, late, pause, tasks });
    }

    /// An operator accepts what the engine has lost.
    pub fn accept_loss(&self, begin: u128) {
        let (view, begin) = (self.engine.view(), HistoryId(begin));
        let lost = view.meta.history;
        for body in [Body::Note(operator::announce(&view, begin)), Body::AcceptLoss(AcceptLoss { lost, begin })] {
            self.engine.carry_out(&Request { history: lost, body });
        }
    }

    /// Another history begins without an operator, as in an engine that was emptied.
    pub fn begin_history(&self, begin: u128) {
        let (lost, begin) = (self.engine.view().meta.history, HistoryId(begin));
        self.engine.carry_out(&Request { history: lost, body: Body::AcceptLoss(AcceptLoss { lost, begin }) });
    }

    /// Writes of others: revisions that a restore has lost are given out again.
    pub fn write_notes(&self, count: u64) {
        (0..count).for_each(|value| self.write_note("topic/other", &value.to_string()));
    }

    pub fn write_note(&self, name: &str, value: &str) {
        let View { meta, mut notes, .. } = self.engine.view();
        let put = PutNote { name: name.to_owned(), seen: notes.remove(name), value: Some(value.into()) };
        self.engine.carry_out(&Request { history: meta.history, body: Body::Note(put) });
    }

    /// What a node says of itself when it is no member.
    pub fn trouble(&self, id: i32) -> Option<String> {
        let table = self.processes[&id].host.table();
        match &table.standing {
            Standing::Member => None,
            Standing::Stopped(reason) => Some(reason.clone()),
            _ => Some(table.trouble.clone().unwrap_or_default()),
        }
    }

    /// Whether a node has said this when it is no member.
    pub fn says(&self, id: i32, words: &str) -> bool {
        self.trouble(id).is_some_and(|trouble| trouble.contains(words))
    }

    /// kill -9.
    pub fn kill(&mut self, id: i32) {
        if let Some(process) = self.processes.remove(&id) {
            process.tasks.iter().for_each(JoinHandle::abort);
        }
    }

    /// SIGSTOP.
    pub fn pause(&self, id: i32) {
        self.processes[&id].pause.is_paused.set(true);
    }

    /// Its serving thread is stuck, and its host goes on.
    pub fn stick(&mut self, id: i32) {
        self.processes[&id].tasks[1].abort();
    }

    /// Its host is stuck, and its serving thread goes on.
    pub fn stick_host(&mut self, id: i32) {
        self.processes[&id].tasks[0].abort();
    }

    /// SIGCONT.
    pub fn resume(&self, id: i32) {
        let pause = &self.processes[&id].pause;
        pause.is_paused.set(false);
        pause.wakers.borrow_mut().drain(..).for_each(Waker::wake);
    }

    /// Time passes. What must never be is looked for all the while.
    pub async fn pass(&self, ms: u64) {
        for _ in 0..ms.div_ceil(10) {
            sleep(Duration::from_millis(10)).await;
            self.check();
        }
    }

    /// Time passes until something holds, at most `limit_ms`. Returns how long it took.
    pub async fn until(&self, limit_ms: u64, holds: impl Fn(&Scene) -> bool) -> u64 {
        let from = self.now_ms();
        while !holds(self) {
            assert!(self.now_ms() - from < limit_ms, "not within {limit_ms} ms: {}", self.state());
            self.pass(10).await;
        }
        self.now_ms() - from
    }

    /// The node that would answer a read of a partition now, with its values.
    pub fn answering(&self, partition: i32) -> Option<(i32, Vec<String>)> {
        let answers = self.processes.values().filter(|process| !process.pause.is_paused.get()).filter_map(|process| {
            let values = process.read(partition)?;
            Some((process.id, values))
        });
        let answers: Vec<_> = answers.collect();
        assert!(answers.len() < 2, "{} ms: two nodes answer for {partition}: {answers:?}", self.now_ms());
        answers.into_iter().next()
    }

    /// By partition, who answers.
    pub fn owners(&self) -> Vec<Option<i32>> {
        (0..PARTITIONS as i32).map(|partition| self.answering(partition).map(|(id, _)| id)).collect()
    }

    /// What there is to see, for a failed test.
    fn state(&self) -> String {
        let (view, tables) = (self.engine.view(), self.processes.values().map(|process| process.host.table()));
        let tables: Vec<_> = tables.map(|table| (table.standing.clone(), table.trouble.clone())).collect();
        format!("{:?} {:?} {:?} {tables:?}", self.owners(), view.parts, notes::Plan::of(&view))
    }

    pub fn all_answer(&self) -> bool {
        self.owners().iter().all(Option::is_some)
    }

    /// No two nodes answer, and who answers knows everything that was acknowledged.
    pub fn check(&self) {
        for (partition, acknowledged) in self.truth.acknowledged.lock().unwrap().iter() {
            let Some((id, values)) = self.answering(*partition) else { continue };
            let known: BTreeSet<&String> = values.iter().collect();
            let lost: Vec<_> = acknowledged.iter().filter(|value| !known.contains(value)).collect();
            assert!(lost.is_empty(), "{} ms: node {id} lacks {lost:?} of {partition}", self.now_ms());
        }
        for partition in 0..PARTITIONS as i32 {
            self.answering(partition);
        }
    }

    /// Appends a value at a node, which may not own the partition. Its completion comes later.
    pub fn append(&self, id: i32, partition: i32) -> String {
        let value = format!("v{}", self.truth.next_value.fetch_add(1, Ordering::Relaxed));
        self.append_value(id, partition, value.clone(), 0);
        value
    }

    /// Appends a value with so many more bytes.
    pub fn append_value(&self, id: i32, partition: i32, value: String, more_bytes: usize) {
        let process = &self.processes[&id];
        let Some((epoch, Some(_))) = process.served.partitions.lock().unwrap().get(&partition).cloned() else { return };
        let key = value.clone().into_bytes();
        let batch = vec![LogRecord { key, value: Some(vec![7; more_bytes]) }];
        let (truth, served) = (Arc::clone(&self.truth), Arc::clone(&process.served));
        let session = Arc::clone(&process.host.session);
        let to = Completions::relay(move |completion| {
            if completion.result.is_err() {
                return;
            }
            if let Some((of, Some(values))) = served.partitions.lock().unwrap().get_mut(&partition)
                && *of == epoch
                && session.is_valid()
            {
                values.push(value.clone());
                truth.acknowledged.lock().unwrap().entry(partition).or_default().push(value.clone());
            }
        });
        process
            .host
            .log
            .append(Append { partition, epoch, id: 1, timestamp_ms: 0, kind: BatchKind::Plain, batch }, &to);
    }
}

impl Process {
    /// The values of a partition, if the process would answer a read of it now.
    pub fn read(&self, partition: i32) -> Option<Vec<String>> {
        let partitions = self.served.partitions.lock().unwrap();
        let (_, values) = partitions.get(&partition)?;
        self.host.session.is_valid().then(|| values.clone()).flatten()
    }

    pub fn epoch_of(&self, partition: i32) -> Option<i32> {
        self.served.partitions.lock().unwrap().get(&partition).map(|(epoch, _)| *epoch)
    }
}

/// What a server's thread does with its mail: loads what it takes, forgets what it loses.
async fn serve(
    session: Arc<Session>,
    log: Arc<ClusterLog>,
    served: Arc<Served>,
    waker: Arc<Notify>,
    late: Rc<Cell<Duration>>,
) {
    loop {
        waker.notified().await;
        if late.get() > Duration::ZERO {
            sleep(late.get()).await;
        }
        session.follow(|change| match change {
            Change::Take(partition, epoch) => {
                let (partition, epoch) = (partition.0, epoch.0);
                served.partitions.lock().unwrap().insert(partition, (epoch, None));
                let (served, reading) = (Arc::clone(&served), Arc::downgrade(&log));
                let to = Completions::relay(move |completion| {
                    assert_eq!(completion.operation, Operation::Open);
                    let Some(log) = reading.upgrade().filter(|_| completion.result.is_ok()) else { return };
                    let values = read_all(&log, partition, completion.result.unwrap());
                    served.partitions.lock().unwrap().insert(partition, (epoch, Some(values)));
                });
                log.open(partition, epoch, &to);
            }
            Change::Lose(partition, epoch) => {
                let mut partitions = served.partitions.lock().unwrap();
                if partitions.get(&partition.0).is_some_and(|(of, _)| *of == epoch.0) {
                    partitions.remove(&partition.0);
                }
            }
        });
        if !session.is_valid() {
            for (partition, (epoch, _)) in std::mem::take(&mut *served.partitions.lock().unwrap()) {
                session.dropped(rota_engine::PartitionId(partition), rota_engine::Epoch(epoch));
            }
        }
    }
}

fn read_all(log: &ClusterLog, partition: i32, end: i64) -> Vec<String> {
    let (mut values, mut from, mut last) = (Vec::new(), 0, -1);
    loop {
        let next = log.read(partition, from, &mut |record| {
            assert!(record.offset > last && record.offset < end, "offsets rise");
            last = record.offset;
            values.push(String::from_utf8(record.key.to_vec()).unwrap());
        });
        match next.unwrap() {
            next if next == from => return values,
            next => from = next,
        }
    }
}

/// Runs a test in virtual time.
pub fn run<T, F: Future<Output = T>>(test: impl FnOnce() -> F) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    let local = tokio::task::LocalSet::new();
    local.block_on(&runtime, async { test().await })
}
