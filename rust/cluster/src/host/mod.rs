//! The host of a node: a thread that carries the node's commands out.
//!
//! One loop takes messages, views and the passing of time, hands each to the node's state machine as an event, and
//! carries out what comes back. Calls to the engine are tasks of the same thread, so a call that takes long delays
//! nothing else.

mod appends;
mod confirming;
mod joining;
mod ownership;
mod past;
mod server_notes;
mod slow;
mod snapshots;
mod space;

use std::{
    cell::Cell,
    collections::{BTreeMap, HashMap},
    io,
    rc::Rc,
    sync::{
        Arc, Mutex, PoisonError,
        mpsc::{Receiver, channel},
    },
    thread::{self, JoinHandle},
    time::Duration,
};

use rota_engine::{
    CallId, Command, Config, Directory, Epoch, Event, HistoryId, Incarnation, Node, NodeId, Nonce, Outcome,
    PartitionId, Request, Revision, Ticket, View,
    node::Stop,
    requests::{Body, PutNote},
};
use rota_log::{Completion, Completions};
use tokio::{
    sync::{
        mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel},
        oneshot, watch,
    },
    task::{AbortHandle, LocalSet},
    time::Instant,
};

pub(crate) use self::snapshots::{DELETE_RETENTION_MS, chunks};
use self::{
    appends::{Feed, InFlight, Lane},
    joining::Joined,
    past::Past,
};
use crate::{
    clock::SessionClock,
    engine::{Engine, Pending},
    log::{ClusterLog, LANES, Shelf},
    members::Members,
    messages::{Message, Report, Written},
    notes::{NodeInfo, NodeState, Partitions, Plan},
    producer_ids::{ProducerIds, reserve},
    session::Session,
    stats::ClusterStats,
    table::{ClusterTable, Standing, reason, what_is_lost},
};

/// Connects to the engine. Called again after a pause if it fails; the error says why.
pub type Connect = Box<dyn Fn() -> Pending<'static, Result<Arc<dyn Engine>, String>> + Send>;

/// Is shown the cluster whenever it has changed, and at least once after [`Host::put_notes`] at or above the revision
/// that it returned. Has the revision of the image.
pub type OnTable = Box<dyn Fn(&Arc<ClusterTable>, Revision) + Send>;

/// Settings of a host.
pub struct HostConfig {
    /// The node.
    pub node: NodeId,
    /// The node's data directory, whose lock the process holds. Without one: a number made of the node's id.
    pub directory: Directory,
    /// So long a node is silent before others take its partitions over. The same for all nodes of a cluster.
    pub ttl_ms: u64,
    /// The partitions. The same for all nodes of a cluster.
    pub partitions: Partitions,
    /// `message.max.bytes`.
    pub batch_bytes_max: usize,
    /// A partition whose append has no outcome for so long is given up, and claimed again.
    pub append_timeout_ms: u64,
    /// What the node says of itself.
    pub info: NodeInfo,
    /// The clock of sessions.
    pub clock: SessionClock,
    /// The id of a new cluster.
    pub cluster_id: String,
    /// Gives random bits for the process.
    pub random: Box<dyn FnMut() -> u128 + Send>,
    /// Notified of the cluster when it has changed, on the host's thread.
    pub on_table: OnTable,
}

/// The handle of a host. Dropping it ends the host as if its process was killed.
#[derive(Debug)]
pub struct Host {
    /// What the serving thread follows.
    pub session: Arc<Session>,
    /// The log under the coordinators.
    pub log: Arc<ClusterLog>,
    /// Producer ids.
    pub producer_ids: Arc<ProducerIds>,
    table: Arc<Mutex<Arc<ClusterTable>>>,
    stats: Arc<Mutex<ClusterStats>>,
    messages: UnboundedSender<Message>,
    thread: Option<JoinHandle<()>>,
}

impl Host {
    /// Starts the host on a thread of its own. Errors: the thread cannot be started.
    pub fn start(connect: Connect, config: HostConfig) -> io::Result<Host> {
        let (mut host, future) = Host::prepared(connect, config);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_io().enable_time().build()?;
        let spawn = thread::Builder::new().name("rota-cluster".to_owned());
        host.thread = Some(spawn.spawn(move || LocalSet::new().block_on(&runtime, future()))?);
        Ok(host)
    }

    /// The handle, and what runs the host in a `LocalSet`, for tests in virtual time.
    pub fn prepared(
        connect: Connect,
        config: HostConfig,
    ) -> (Host, impl FnOnce() -> std::pin::Pin<Box<dyn Future<Output = ()>>> + Send) {
        let (messages, inbox) = unbounded_channel();
        let session = Session::new(config.clock.clone(), messages.clone());
        let shelf = Arc::<Shelf>::default();
        let log = Arc::new(ClusterLog {
            shelf: Arc::clone(&shelf),
            host: messages.clone(),
            partitions: config.partitions.count(),
            batch_bytes_max: config.batch_bytes_max,
        });
        let (table, stats) = (Arc::<Mutex<Arc<ClusterTable>>>::default(), Arc::<Mutex<ClusterStats>>::default());
        let producer_ids = Arc::new(ProducerIds::new(messages.clone()));
        let shared = Shared {
            session: Arc::clone(&session),
            producer_ids: Arc::clone(&producer_ids),
            shelf,
            table: Arc::clone(&table),
            stats: Arc::clone(&stats),
            shows_from: Cell::new(None),
        };
        let host = Host { session, log, producer_ids, table, stats, messages, thread: None };
        (host, move || Box::pin(run(connect, config, shared, inbox)))
    }

    /// The cluster as this node sees it.
    pub fn table(&self) -> Arc<ClusterTable> {
        Arc::clone(&self.table.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Counts of this node's work.
    pub fn stats(&self) -> ClusterStats {
        self.stats.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Gives everything up: other nodes need not wait for this one. The result arrives when that is done.
    pub fn leave(&self) -> oneshot::Receiver<()> {
        let (done, left) = oneshot::channel();
        // A host that has ended owns nothing.
        let _ended = self.messages.send(Message::Leave(done));
        left
    }

    /// Writes notes of different names, each if it still is what the caller saw: several at a time, until the engine
    /// refuses one or the receiver is gone. What becomes of them arrives.
    pub fn put_notes(&self, notes: Vec<PutNote>) -> Receiver<Written> {
        let (answers, written) = channel();
        // The receiver sees that the host has ended.
        let _ended = self.messages.send(Message::PutNotes(notes, answers));
        written
    }

    /// Asks the engine whether this node still owns partitions under these epochs. The result arrives when it has
    /// confirmed that; there is none if the node does not own them any more.
    pub fn confirm(&self, needed: impl IntoIterator<Item = (PartitionId, Epoch)>) -> oneshot::Receiver<()> {
        let (done, confirmed) = oneshot::channel();
        // The receiver sees that the host has ended.
        let _ended = self.messages.send(Message::Confirm(needed.into_iter().collect(), done));
        confirmed
    }

    /// Ends the host at once, as a killed process does.
    pub fn end(&self) {
        // It may have ended.
        let _ended = self.messages.send(Message::End);
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        self.end();
        if let Some(thread) = self.thread.take() {
            // A panic of the host is on standard error.
            let _ended = thread.join();
        }
    }
}

/// What the handle and the running host share.
struct Shared {
    session: Arc<Session>,
    producer_ids: Arc<ProducerIds>,
    shelf: Arc<Shelf>,
    table: Arc<Mutex<Arc<ClusterTable>>>,
    stats: Arc<Mutex<ClusterStats>>,
    /// The next image of this history from this revision on is shown even if nothing has changed.
    shows_from: Cell<Option<(HistoryId, Revision)>>,
}

impl Shared {
    /// A caller waits for an image of this revision. After an unknown outcome it is later than the note's own, whose image
    /// may have been shown already.
    fn show_from(&self, history: HistoryId, revision: Revision) {
        let before = self.shows_from.get().filter(|(of, _)| *of == history).map_or(revision, |(_, before)| before);
        self.shows_from.set(Some((history, revision.max(before))));
    }

    /// Whether an image has to be shown that has nothing new.
    fn must_show(&self, view: &View) -> bool {
        let awaited = self.shows_from.get().filter(|(of, from)| *of == view.meta.history && *from <= view.revision);
        if awaited.is_some() {
            self.shows_from.set(None);
        }
        awaited.is_some()
    }

    fn count(&self, change: impl FnOnce(&mut ClusterStats)) {
        change(&mut self.stats.lock().unwrap_or_else(PoisonError::into_inner));
    }
}

/// Why a node's life as a member ended.
enum Ended {
    /// The handle is gone, or everything is given up.
    Over,
    /// The node stopped. It begins anew if the history changes.
    Stopped(Stop),
}

/// Runs a host until its handle ends it, and refuses everything from then on.
async fn run(connect: Connect, config: HostConfig, shared: Shared, mut inbox: UnboundedReceiver<Message>) {
    let shared = Rc::new(shared);
    live(connect, config, &shared, &mut inbox).await;
    // An append that comes from now on is refused where it is left: the host cannot be woken.
    inbox.close();
    while let Ok(message) = inbox.try_recv() {
        appends::refuse(&shared.shelf, message);
    }
    shared.shelf.refuse_orders();
}

async fn live(connect: Connect, mut config: HostConfig, shared: &Rc<Shared>, inbox: &mut UnboundedReceiver<Message>) {
    let mut past = Past::default();
    loop {
        let Some(joined) = joining::join(&connect, &mut config, &mut past, shared, inbox).await else { return };
        let mut running = Running::new(&config, shared, joined);
        let ended = running.serve(inbox).await;
        // Appends that came without waking the host end here.
        shared.shelf.refuse_orders();
        let stop = match ended {
            Ended::Over => return,
            Ended::Stopped(stop) => stop,
        };
        shared.session.post([], 0);
        running.publish_stopped(reason(stop));
        past.stopped(stop);
        // What was lost is accepted when an operator begins another history.
        // The engine is kept meanwhile: without it there is no watch, and nothing would show that.
        let (mut views, engine) = (running.views.clone(), Arc::clone(&running.engine));
        drop(running);
        loop {
            let view = views.borrow_and_update().clone();
            if stop == Stop::Replaced || view.is_some_and(|view| past.refusal(config.node, &view).is_none()) {
                break;
            }
            tokio::select! {
                changed = views.changed() => if changed.is_err() { return },
                ended = wait_for_end(&shared.shelf, inbox) => return ended,
            }
        }
        drop(engine);
    }
}

/// Refuses everything until the handle ends the host.
async fn wait_for_end(shelf: &Shelf, inbox: &mut UnboundedReceiver<Message>) {
    while let Some(message) = inbox.recv().await {
        match message {
            Message::End => return,
            Message::Leave(done) => {
                // The caller may have given up.
                let _gone = done.send(());
            }
            message => appends::refuse(shelf, message),
        }
    }
}

/// A node as a member of the cluster.
#[expect(
    clippy::struct_excessive_bools,
    reason = "each says that one thing is under way or done, whatever the others are"
)]
struct Running<'c> {
    config: &'c HostConfig,
    shared: Rc<Shared>,
    engine: Arc<dyn Engine>,
    views: watch::Receiver<Option<Arc<View>>>,
    cluster: crate::notes::ClusterSettings,
    /// Of the node's tasks.
    reports: UnboundedSender<Report>,
    reported: UnboundedReceiver<Report>,
    node: Node,
    commands: Vec<Command>,
    incarnation: Incarnation,
    members: Members,
    plan: Plan,
    /// What the serving thread knows to be this node's.
    served: BTreeMap<PartitionId, Epoch>,
    /// Whether the serving thread and operators have been shown the cluster since something may have changed.
    is_published: bool,
    feeds: BTreeMap<PartitionId, Feed>,
    in_flight: HashMap<Ticket, InFlight>,
    /// Appends that have ended, and whom to tell.
    ended: Vec<(Arc<Completions>, Completion)>,
    opens: Vec<(PartitionId, Epoch, Arc<Completions>)>,
    lanes: Vec<Lane>,
    /// The last load of each partition.
    loads: BTreeMap<PartitionId, AbortHandle>,
    last_ticket: u64,
    damaged: BTreeMap<PartitionId, String>,
    /// Partitions that are given up as soon as nothing is under way, or at this time.
    yielding: BTreeMap<PartitionId, u64>,
    confirmations: confirming::Confirmations,
    is_putting_note: bool,
    is_reserving_ids: bool,
    is_reading_tail: bool,
    space: space::Space,
    /// Partitions that the planned node does not hold, and since when.
    moving: BTreeMap<PartitionId, u64>,
    slow: slow::Slow,
    /// When the last beat of this node was answered, as far as silence was counted anew for it.
    answered_ms: u64,
    leaving: Option<Leaving>,
    info: NodeInfo,
}

/// A node that gives everything up.
struct Leaving {
    done: Option<oneshot::Sender<()>>,
    /// Waits no longer for a plan without this node.
    until_ms: u64,
}

impl<'c> Running<'c> {
    fn new(config: &'c HostConfig, shared: &Rc<Shared>, joined: Joined) -> Running<'c> {
        let Joined { engine, views, view, settings, incarnation } = joined;
        let now_ms = config.clock.now_ms();
        let ttl_ms = settings.ttl_ms;
        let of_node = Config {
            node: config.node,
            incarnation,
            ttl_ms,
            margin_ms: margin_ms(ttl_ms),
            beat_interval_ms: ttl_ms / 5,
        };
        let mut members = Members::default();
        members.listen(now_ms, &view);
        let (reports, reported) = unbounded_channel();
        Running {
            config,
            shared: Rc::clone(shared),
            engine,
            views,
            cluster: settings,
            reports,
            reported,
            plan: Plan::of(&view),
            node: Node::new(of_node, view, now_ms),
            commands: Vec::new(),
            incarnation,
            members,
            served: BTreeMap::new(),
            is_published: false,
            feeds: BTreeMap::new(),
            in_flight: HashMap::new(),
            ended: Vec::new(),
            opens: Vec::new(),
            lanes: (0..LANES).map(|_| Lane::default()).collect(),
            loads: BTreeMap::new(),
            last_ticket: 0,
            damaged: BTreeMap::new(),
            yielding: BTreeMap::new(),
            confirmations: confirming::Confirmations::default(),
            is_putting_note: false,
            is_reserving_ids: false,
            is_reading_tail: false,
            space: space::Space::new(now_ms),
            moving: BTreeMap::new(),
            slow: slow::Slow::default(),
            answered_ms: now_ms,
            leaving: None,
            info: config.info.clone(),
        }
    }

    fn now_ms(&self) -> u64 {
        self.config.clock.now_ms()
    }

    async fn serve(&mut self, inbox: &mut UnboundedReceiver<Message>) -> Ended {
        self.views.mark_changed();
        self.shared.producer_ids.begin_history(&self.node.inspect().view);
        self.reserve_producer_ids();
        let pause = Duration::from_millis((self.cluster.ttl_ms / 50).clamp(5, 100));
        let mut ticks = tokio::time::interval(pause);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                biased;
                message = inbox.recv() => match message {
                    None | Some(Message::End) => return Ended::Over,
                    Some(message) => self.take(message),
                },
                // The node itself has a sender.
                Some(report) = self.reported.recv() => self.told(report),
                changed = self.views.changed() => {
                    if changed.is_err() {
                        return Ended::Over;
                    }
                    self.look_at_view();
                }
                _ = ticks.tick() => self.tick(),
            }
            // What came meanwhile goes together.
            while let Ok(report) = self.reported.try_recv() {
                self.told(report);
            }
            while let Ok(message) = inbox.try_recv() {
                if matches!(message, Message::End) {
                    return Ended::Over;
                }
                self.take(message);
            }
            self.take_appends();
            self.flush_lanes();
            self.confirm_waiting();
            self.follow_node();
            if let Some(stop) = self.node.inspect().stopped {
                return Ended::Stopped(stop);
            }
            if self.has_left() {
                return Ended::Over;
            }
        }
    }

    fn take(&mut self, message: Message) {
        match message {
            // It is refused only when the serving thread can know what was lost.
            Message::Open(partition, epoch, to) => self.opens.push((partition, epoch, to)),
            Message::Dropped(partition, epoch) => self.dropped(partition, epoch),
            Message::Damaged(partition, epoch, reason) => {
                if self.served.get(&partition) == Some(&epoch) {
                    self.damaged.insert(partition, reason);
                }
                self.dropped(partition, epoch);
            }
            Message::PutNotes(notes, answer) => self.put_notes(notes, answer),
            Message::MoreProducerIds => self.reserve_producer_ids(),
            Message::Confirm(needed, done) => self.confirm(needed, done),
            Message::Leave(done) => self.leave(done),
            // Appends are taken after every message.
            Message::Appends | Message::End => {}
        }
    }

    fn told(&mut self, report: Report) {
        match report {
            Report::Ended(call, outcome) => self.ended(vec![(call, outcome)]),
            Report::LaneEnded(lane, ended) => {
                self.lanes[lane].is_busy = false;
                self.ended(ended);
            }
            Report::NoteEnded => self.is_putting_note = false,
            Report::ProducerIds(block) => {
                self.is_reserving_ids = false;
                if let Some(block) = block {
                    self.shared.producer_ids.put(block);
                }
            }
            Report::Usage(outcome) => self.told_usage(&outcome),
            Report::Compacted(partition, epoch, compacted) => self.compacted(partition, epoch, compacted),
            Report::Checked(checks) => self.checked(checks),
        }
    }

    fn ended(&mut self, ended: Vec<(CallId, Outcome)>) {
        for (call, outcome) in ended {
            self.step(Event::Ended(call, outcome));
        }
    }

    /// Hands an event to the node, and carries its commands out.
    fn step(&mut self, event: Event) {
        let now_ms = self.now_ms();
        let mut commands = std::mem::take(&mut self.commands);
        self.node.step(now_ms, event, &mut commands);
        for command in commands.drain(..) {
            self.carry_out(command);
        }
        self.commands = commands;
    }

    fn carry_out(&mut self, command: Command) {
        match command {
            Command::Send(call, request) => self.send(call, request),
            Command::Loaded { partition, epoch, upto, chunks, entries } => {
                self.loaded(partition, epoch, upto, chunks, entries);
            }
            Command::Damaged(partition, damage) => {
                let damage = format!("finds its content in the engine damaged: {damage:?}");
                eprintln!("rota: {} is not served: this server {damage}", self.cluster.partitions.name(partition));
                self.damaged.insert(partition, damage);
            }
            Command::Applied { base_offset, tickets, partition } => self.applied(partition, base_offset, &tickets),
            Command::Refused(ticket, refusal) => self.refused(ticket, refusal),
            Command::SnapshotDone(..) => self.shared.count(|stats| stats.snapshots += 1),
            // Reads are gated by the session. What the node owns afterwards says the rest.
            Command::Read(..) | Command::Unload(..) | Command::Released(_) => {}
            Command::Lost(lost) => {
                let lost = what_is_lost(lost, |partition| self.cluster.partitions.name(partition));
                eprintln!("rota: the engine has lost {lost}");
            }
            Command::Stopped(stop) => {
                eprintln!("rota: this node stops answering for groups and transactions: {}", reason(stop));
            }
        }
    }

    fn send(&mut self, call: CallId, request: Request) {
        if let Body::Append(_) = request.body {
            return self.queue_append(call, request);
        }
        let load = if let Body::Read(read) = &request.body { Some(read.partition) } else { None };
        let (engine, reports) = (Arc::clone(&self.engine), self.reports.clone());
        let task = tokio::task::spawn_local(async move {
            let began = Instant::now();
            let outcome = engine.call(&request).await;
            appends::pause_after(std::slice::from_ref(&outcome), began).await;
            // The node may have ended.
            let _gone = reports.send(Report::Ended(call, outcome));
        });
        if let Some(partition) = load {
            self.end_load(partition);
            self.loads.insert(partition, task.abort_handle());
        }
    }

    /// The node does not wait for the last load of a partition any more: it would take an engine's time from the next one.
    fn end_load(&mut self, partition: PartitionId) {
        if let Some(load) = self.loads.remove(&partition) {
            load.abort();
        }
    }

    fn look_at_view(&mut self) {
        self.is_published = false;
        let Some(view) = self.views.borrow_and_update().clone() else { return };
        self.plan = Plan::of(&view);
        self.members.listen(self.now_ms(), &view);
        self.step(Event::View(View::clone(&view)));
        self.govern();
    }

    fn tick(&mut self) {
        self.is_published = false;
        // A node whose serving thread is stuck must look dead.
        if self.shared.session.is_answered() {
            let before = self.node.inspect().counter;
            self.step(Event::Turn);
            if self.node.inspect().counter > before {
                self.shared.session.ask();
            }
        }
        self.time_out_appends();
        // A partition whose append waits to be taken is not idle.
        self.take_appends();
        self.yield_due();
        self.compact_one();
        self.ask_usage();
        self.govern();
        self.say_slow();
    }

    fn reserve_producer_ids(&mut self) {
        if std::mem::replace(&mut self.is_reserving_ids, true) {
            return;
        }
        let (engine, reports) = (Arc::clone(&self.engine), self.reports.clone());
        let (history, view) = (self.node.inspect().history, self.node.inspect().view.clone());
        let (process, from) = (self.incarnation, self.shared.producer_ids.end());
        tokio::task::spawn_local(async move {
            let block = reserve(&*engine, history, process, &view, from).await;
            // The node may have ended.
            let _gone = reports.send(Report::ProducerIds(block));
        });
    }

    /// A nonce that no other append of any process has.
    fn next_nonce(&mut self) -> (Ticket, Nonce) {
        self.last_ticket += 1;
        (Ticket(self.last_ticket), Nonce(self.incarnation.0.wrapping_add(u128::from(self.last_ticket))))
    }

    fn publish_stopped(&mut self, reason: String) {
        self.publish(Standing::Stopped(reason));
    }

    fn has_left(&mut self) -> bool {
        let state = self.node.inspect();
        let owns_nothing = state.partitions.is_empty() && self.served.is_empty();
        let Some(leaving) = &mut self.leaving else { return false };
        if !owns_nothing || self.info.state != NodeState::Left || self.is_putting_note {
            return false;
        }
        if let Some(done) = leaving.done.take() {
            // The caller may have given up.
            let _gone = done.send(());
        }
        self.publish(Standing::Left);
        true
    }
}

/// How much earlier a node stops answering reads: it covers the difference of two clocks' rates within a TTL.
pub(crate) fn margin_ms(ttl_ms: u64) -> u64 {
    // A tenth, and at least 300 ms of a TTL that has them to give.
    (ttl_ms / 10).max(300.min(ttl_ms / 4))
}
