//! A running server: its threads, and the handle by which it is controlled.

pub mod controls;
pub mod inspect;
mod virtual_time;

use std::{
    collections::BTreeMap,
    fmt, io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener as StdListener},
    rc::Rc,
    sync::{
        Arc, Mutex, PoisonError, RwLock,
        atomic::Ordering,
        mpsc::{Receiver, RecvTimeoutError, SyncSender, channel, sync_channel},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use rota_core::explain::Explanation;
use rota_log::{Fault, LogError};
use tokio::{
    net::{TcpListener, TcpStream},
    runtime, select,
    sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel},
    task::LocalSet,
};

use crate::{
    base::{
        clock::Clock,
        entropy::RandomBits,
        error::ServerError,
        owners::{FIRST_NODE, Owner},
        place::{Place, default_host, kafka_uuid, split_address},
        settings::Settings,
    },
    client::trace::Trace,
    log::data_dir::{DataConfig, DataDir, Health, StartReport},
    net::{
        connection::{Channel, Connection, Ending},
        listening::{listen_all, ports_from},
        shared::Shared,
    },
    node::{
        Node,
        commons::Commons,
        handover,
        journal::{Journal, JournalConfig, JournalHealth},
    },
    server::{
        controls::error_named,
        virtual_time::{Here, There},
    },
    topics::retention,
};

/// How long to wait before accepting again after an error, such as too many open files.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// How long `stop` leaves connections to write what is answered, of the time that it has.
const LAST_ANSWERS: Duration = Duration::from_millis(500);

/// Nodes that a server may have.
pub const NODES_MAX: u32 = 1_000;

/// How to start a server.
#[derive(Clone, Debug)]
pub struct ServerConfig {
    /// `HOST:PORT` of the first node; the others have the ports that follow. Port 0 picks free ones.
    pub listen: String,
    /// `HOST:PORT` that clients are sent to for the first node, and the ports that follow for the others; by default
    /// where they have reached the server.
    pub advertise: Option<String>,
    /// How many nodes there are, each with a thread and a port of its own.
    pub nodes: u32,
    /// Kafka's broker settings.
    pub settings: Settings,
    /// Whether the coordinators' time stands still until it is advanced.
    pub virtual_clock: bool,
    /// Who is shown every request and answer.
    pub trace: Option<Trace>,
    /// Where topics, groups and offsets are kept; `None`: in memory.
    pub data: Option<DataConfig>,
    /// Whether, and where, everything that coordinators are told is written down.
    pub journal: Option<JournalConfig>,
}

impl Default for ServerConfig {
    fn default() -> ServerConfig {
        ServerConfig {
            listen: "127.0.0.1:0".to_owned(),
            advertise: None,
            nodes: 1,
            settings: Settings::default(),
            virtual_clock: false,
            trace: None,
            data: None,
            journal: None,
        }
    }
}

/// Something to do on a node's thread.
type Command = Box<dyn FnOnce(&Rc<Shared>) + Send>;

/// A running server. Dropping it stops it.
pub struct Server {
    host: String,
    pub(crate) commons: Arc<Commons>,
    nodes: Vec<NodeHandle>,
    /// Write: a partition is being handed over. Read: somebody relies on where one is.
    moving: RwLock<()>,
    /// The partitions whose loading was held when they were handed over last.
    held_loads: Mutex<BTreeMap<u32, Receiver<Result<(), ServerError>>>>,
    running: Mutex<Option<Vec<Running>>>,
    report: Option<StartReport>,
}

struct NodeHandle {
    port: u16,
    commands: UnboundedSender<Command>,
}

struct Running {
    stop: tokio::sync::oneshot::Sender<()>,
    ended: Receiver<()>,
    thread: JoinHandle<()>,
}

impl fmt::Debug for Server {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Server").field("addresses", &self.addresses()).finish_non_exhaustive()
    }
}

impl Server {
    /// Starts a server; it answers requests when this returns, and has loaded what its data directory has. Meanwhile
    /// clients are told `COORDINATOR_LOAD_IN_PROGRESS`.
    pub fn start(config: ServerConfig) -> Result<Server, ServerError> {
        let mut settings = config.settings;
        settings.check()?;
        let (listen_host, listen_port) = split_address("listen on", &config.listen)?;
        let listen_ports = ports_from(listen_port, config.nodes)?;
        let listeners = listen_all(&listen_host, &listen_ports)?;
        let bound = |listener: &StdListener| listener.local_addr().map(|address| address.port());
        let bound: io::Result<Vec<u16>> = listeners.iter().map(bound).collect();
        let bound = bound.map_err(|source| ServerError::CannotRun { source })?;
        let (host, ports) = match &config.advertise {
            None => (default_host(&listen_host), bound.clone()),
            Some(address) => match split_address("advertise", address)? {
                (host, 0) => (Some(host), bound.clone()),
                (host, port) => (Some(host), ports_from(port, config.nodes)?),
            },
        };
        let cluster_id = kafka_uuid(RandomBits::default().draw());
        let data = config.data.map(|data| DataDir::open(&data, &mut settings, &cluster_id)).transpose()?;
        let cluster_id = data.as_ref().map_or(cluster_id, |data| data.cluster_id.clone());
        let place = Place { cluster_id, node_id: FIRST_NODE, host, ports };
        let clock = if config.virtual_clock { Clock::standing() } else { Clock::real() };
        let commons = match data {
            None => Commons::new(settings, place, clock),
            Some(data) => Commons::on_disk(settings, place, clock, data)?,
        };
        let journal = config.journal.map(|journal| Journal::beside(&journal, &commons)).transpose()?;
        let commons = Arc::new(Commons { trace: config.trace, journal, ..commons });
        let (loads, loaded) = sync_channel(commons.owners.partitions() as usize);
        let (mut nodes, mut running) = (Vec::new(), Vec::new());
        for ((node_id, listener), port) in (FIRST_NODE..).zip(listeners).zip(bound) {
            // A node that does not start ends those that have: nobody is left to give them orders.
            let (commands, node) = start_node(&commons, node_id, listener, loads.clone())?;
            nodes.push(NodeHandle { port, commands });
            running.push(node);
        }
        let host = match listen_host.parse() {
            Ok(IpAddr::V4(Ipv4Addr::UNSPECIFIED)) => Ipv4Addr::LOCALHOST.to_string(),
            Ok(IpAddr::V6(Ipv6Addr::UNSPECIFIED)) => Ipv6Addr::LOCALHOST.to_string(),
            _ => listen_host,
        };
        let (moving, held_loads, running) = (RwLock::default(), Mutex::default(), Mutex::new(Some(running)));
        drop(loads);
        let mut server = Server { host, commons, nodes, moving, held_loads, running, report: None };
        // Ends when every partition has reported, in whatever order.
        let mut failed = Vec::new();
        for error in loaded.iter().filter_map(Result::err) {
            match error {
                ServerError::LoadFailed { .. } => failed.push(error.to_string()),
                error => return Err(error),
            }
        }
        failed.sort_unstable();
        server.report = server.start_report(failed)?;
        Ok(server)
    }

    /// What the start has found in the data directory.
    fn start_report(&self, failed: Vec<String>) -> Result<Option<StartReport>, ServerError> {
        let Some(data) = &self.commons.data else { return Ok(None) };
        let count = |node: &mut Node| (node.group_count(), node.offset_count());
        let counts = self.ask_all(count)?;
        let (groups, offsets) = counts.iter().fold((0, 0), |sum, count| (sum.0 + count.0, sum.1 + count.1));
        let lines = data.lines.iter().cloned().chain(failed).collect();
        Ok(Some(StartReport { lines, groups, offsets, took: data.began.elapsed(), is_read_only: data.is_read_only }))
    }

    /// What the start has found in the data directory; `None`: everything is in memory.
    pub fn report(&self) -> Option<&StartReport> {
        self.report.as_ref()
    }

    /// How the data directory is; `None`: everything is in memory.
    pub fn health(&self) -> Option<Health> {
        self.commons.data.as_ref().map(DataDir::health)
    }

    /// How the journal is; `None`: none is written.
    pub fn journal(&self) -> Option<JournalHealth> {
        self.commons.journal.as_ref().map(|journal| journal.health())
    }

    /// The host and port at which this machine reaches the first node.
    pub fn address(&self) -> (String, u16) {
        (self.host.clone(), self.nodes[0].port)
    }

    /// Of every node its id, and the host and port at which this machine reaches it.
    pub fn addresses(&self) -> Vec<(i32, String, u16)> {
        let address = |(node_id, node): (i32, &NodeHandle)| (node_id, self.host.clone(), node.port);
        (FIRST_NODE..).zip(&self.nodes).map(address).collect()
    }

    /// The version of rota.
    pub fn version(&self) -> &'static str {
        env!("CARGO_PKG_VERSION")
    }

    /// (name, Kafka's default, value) of every setting, by name.
    pub fn settings(&self) -> Vec<(&'static str, &'static str, String)> {
        self.commons.settings.rows()
    }

    /// Stops the server: requests that wait are answered `NOT_COORDINATOR`, connections are closed, the threads end.
    /// A server that has been stopped stays so.
    pub fn stop(&self, timeout: Duration) -> Result<(), ServerError> {
        let running = self.running.lock().unwrap_or_else(PoisonError::into_inner).take();
        let deadline = Instant::now() + timeout;
        let mut ending = Vec::new();
        for Running { stop, ended, thread } in running.unwrap_or_default() {
            // A thread that has ended already does not listen.
            let _ended = stop.send(());
            ending.push((ended, thread));
        }
        // One that does not end in time, or has died, is no reason not to wait for the others.
        let mut outcome = Ok(());
        for (ended, thread) in ending {
            let of_this = match ended.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
                Ok(()) | Err(RecvTimeoutError::Disconnected) => thread.join().map_err(|_| ServerError::Died),
                Err(RecvTimeoutError::Timeout) => {
                    Err(ServerError::StopTimedOut { timeout_ms: timeout.as_millis() as u64 })
                }
            };
            outcome = outcome.and(of_this);
        }
        // Nobody appends any more: what there is becomes durable, and the directory is free.
        if let Some(journal) = &self.commons.journal {
            journal.close();
        }
        if let Some(data) = &self.commons.data {
            data.store.close();
        }
        outcome
    }

    /// Does something on the thread of the node at this place and waits for what comes of it.
    fn ask<R: Send + 'static>(
        &self,
        at: usize,
        order: impl FnOnce(&mut Node) -> R + Send + 'static,
    ) -> Result<R, ServerError> {
        let answer = self.order(at, |shared| order(&mut shared.node.borrow_mut()))?;
        self.answered(&answer)
    }

    /// Does something on the threads of all nodes and waits for what comes of it, in the order of the nodes.
    fn ask_all<R: Send + 'static>(
        &self,
        order: impl Fn(&mut Node) -> R + Clone + Send + 'static,
    ) -> Result<Vec<R>, ServerError> {
        self.look_all(move |shared| order(&mut shared.node.borrow_mut()))
    }

    pub(crate) fn look_all<R: Send + 'static>(
        &self,
        order: impl Fn(&Rc<Shared>) -> R + Clone + Send + 'static,
    ) -> Result<Vec<R>, ServerError> {
        let answers: Result<Vec<_>, _> = (0..self.nodes.len()).map(|at| self.order(at, order.clone())).collect();
        answers?.iter().map(|answer| self.answered(answer)).collect()
    }

    /// Does something on the thread of the node that owns `partition`, which stays there meanwhile.
    pub(crate) fn ask_owner<R: Send + 'static>(
        &self,
        partition: u32,
        order: impl FnOnce(&mut Node) -> R + Send + 'static,
    ) -> Result<R, ServerError> {
        let _stays = self.moving.read().unwrap_or_else(PoisonError::into_inner);
        self.ask(Commons::place_of(self.owner(partition)?), order)
    }

    /// Hands an order to the thread of the node at this place; what comes of it will be there.
    fn order<R: Send + 'static>(
        &self,
        at: usize,
        order: impl FnOnce(&Rc<Shared>) -> R + Send + 'static,
    ) -> Result<Receiver<R>, ServerError> {
        let (reply, answer): (SyncSender<R>, Receiver<R>) = sync_channel(1);
        let command: Command = Box::new(move |shared| {
            // Whoever asked may have given up.
            let _nobody = reply.send(order(shared));
        });
        self.nodes[at].commands.send(command).map_err(|_| self.gone())?;
        Ok(answer)
    }

    fn answered<R>(&self, answer: &Receiver<R>) -> Result<R, ServerError> {
        answer.recv().map_err(|_| self.gone())
    }

    /// Whether orders are followed at all.
    pub(crate) fn check_running(&self) -> Result<(), ServerError> {
        self.ask_all(|_| ()).map(drop)
    }

    fn gone(&self) -> ServerError {
        let running = self.running.lock().unwrap_or_else(PoisonError::into_inner).is_some();
        if running { ServerError::Died } else { ServerError::Stopped }
    }

    /// The partition of `__consumer_offsets` in which a group is.
    pub fn partition_of(&self, group_id: &str) -> u32 {
        rota_core::partition_for(group_id, self.commons.owners.partitions())
    }

    /// The id of the node that owns a partition of `__consumer_offsets`.
    pub fn owner(&self, partition: u32) -> Result<i32, ServerError> {
        self.owned(partition).map(|owner| owner.node_id)
    }

    fn owned(&self, partition: u32) -> Result<Owner, ServerError> {
        let partitions = self.commons.owners.partitions();
        self.commons.owners.of(partition).ok_or(ServerError::UnknownPartition { partition, partitions })
    }

    /// Hands a partition of `__consumer_offsets` to a node, while clients use it: the node that owns it unloads it,
    /// the other one fences what the first has in flight, and replays what is durable. To its own node it is loaded
    /// anew. Returns when it is loaded, or at once if loading is held.
    pub fn move_partition(&self, partition: u32, node_id: i32) -> Result<(), ServerError> {
        let _alone = self.moving.write().unwrap_or_else(PoisonError::into_inner);
        let from = self.owned(partition)?;
        let nodes = self.nodes.len() as u32;
        let to = usize::try_from(node_id - FIRST_NODE).ok().filter(|at| *at < self.nodes.len());
        let to = to.ok_or(ServerError::UnknownNode { node_id, nodes })?;
        let given = self.ask(Commons::place_of(from.node_id), move |node| node.give_up(partition))?;
        let (epoch, voices) = given.map_or((from.epoch, Vec::new()), |given| (given.epoch, given.voices));
        let (report, loaded) = sync_channel(1);
        let begun = self.order(to, move |shared| {
            let epoch = epoch + 1;
            let node = &mut *shared.node.borrow_mut();
            node.take_over(partition, epoch, voices);
            tokio::task::spawn_local(handover::load(Rc::clone(shared), partition, epoch, Some(report)));
            node.loads_held
        })?;
        if self.answered(&begun)? {
            self.held_loads.lock().unwrap_or_else(PoisonError::into_inner).insert(partition, loaded);
            return Ok(());
        }
        self.answered(&loaded)?
    }

    /// From now on a partition that is handed over is not loaded: clients are told `COORDINATOR_LOAD_IN_PROGRESS`.
    /// One that is being handed over is loaded before.
    pub fn hold_loads(&self) -> Result<(), ServerError> {
        let _alone = self.moving.write().unwrap_or_else(PoisonError::into_inner);
        self.ask_all(Node::hold_loads).map(drop)
    }

    /// Partitions are loaded again, those that were held first; returns how many those are, when they are loaded.
    pub fn release_loads(&self) -> Result<usize, ServerError> {
        let _alone = self.moving.write().unwrap_or_else(PoisonError::into_inner);
        self.ask_all(Node::release_loads)?;
        let held = std::mem::take(&mut *self.held_loads.lock().unwrap_or_else(PoisonError::into_inner));
        for loaded in held.values() {
            self.answered(loaded)??;
        }
        Ok(held.len())
    }

    /// Ids of all groups, sorted.
    pub fn groups(&self) -> Result<Vec<String>, ServerError> {
        let of_node = |node: &mut Node| node.group_ids().iter().map(ToString::to_string).collect::<Vec<_>>();
        let mut groups = self.ask_all(of_node)?.concat();
        groups.sort_unstable();
        Ok(groups)
    }

    /// What a group is doing and why, and the monotonic millisecond of the answer; `None` if there is no such group.
    pub fn explain(&self, group_id: &str) -> Result<(Option<Explanation>, u64), ServerError> {
        let group_id = group_id.to_owned();
        let partition = self.partition_of(&group_id);
        self.ask_owner(partition, move |node| (node.explain(&group_id), node.clock.now().mono_ms))
    }

    /// The coordinators' monotonic milliseconds.
    pub fn now_ms(&self) -> Result<u64, ServerError> {
        self.ask(0, |node| node.clock.now().mono_ms)
    }

    /// Moves a virtual clock by `delta_ms` and returns where it stands. Members whose clients are connected are kept,
    /// as if their heartbeats had come in time, except those in `expire`.
    pub fn advance(&self, delta_ms: u64, expire: Vec<String>) -> Result<u64, ServerError> {
        let clock = self.commons.clock.clone();
        if !clock.is_virtual() {
            return Err(ServerError::ClockIsReal);
        }
        let _one_at_a_time = self.moving.write().unwrap_or_else(PoisonError::into_inner);
        let target_ms = self.now_ms()?.saturating_add(delta_ms);
        if self.nodes.len() == 1 {
            let clock = clock.clone();
            self.ask(0, move |node| {
                let deadlines = vec![node.next_deadline()];
                virtual_time::conduct(&clock, target_ms, &mut [Here { node, expire: &expire }], deadlines)
            })?
        } else {
            self.conduct(&clock, target_ms, &expire)?
        }
        .map_err(|_gone| self.gone())?;
        Ok(clock.now().mono_ms)
    }

    /// Moves the clock of several nodes, which do nothing else meanwhile.
    fn conduct(
        &self,
        clock: &Clock,
        target_ms: u64,
        expire: &[String],
    ) -> Result<Result<(), virtual_time::Gone>, ServerError> {
        let (mut hands, mut still) = (Vec::new(), Vec::new());
        for at in 0..self.nodes.len() {
            let (word, words) = channel();
            let (report, deadlines) = channel();
            let expire = expire.to_vec();
            still.push(self.order(at, move |shared| {
                virtual_time::stand_still(&mut shared.node.borrow_mut(), &expire, &words, &report);
            })?);
            hands.push(There { word, deadlines });
        }
        let deadlines: Result<Vec<_>, _> = hands.iter().map(|hand| self.answered(&hand.deadlines)).collect();
        let moved = virtual_time::conduct(clock, target_ms, &mut hands, deadlines?);
        drop(hands);
        for node in &still {
            self.answered(node)?;
        }
        Ok(moved)
    }

    /// Ids of all members of all groups.
    pub fn member_ids(&self) -> Result<Vec<Arc<str>>, ServerError> {
        Ok(self.ask_all(|node| node.member_ids())?.concat())
    }

    /// From now on no append to `__consumer_offsets` ends.
    pub fn hold_appends(&self) -> Result<(), ServerError> {
        self.check_running()?;
        self.commons.log.hold();
        Ok(())
    }

    /// Appends end again, those that were held back first; returns how many those are.
    pub fn release_appends(&self) -> Result<usize, ServerError> {
        let held = self.commons.log.release_all();
        // Whoever waited has the answer when this returns.
        self.ask_all(Node::settle)?;
        Ok(held)
    }

    /// The next `times` appends to `__consumer_offsets` fail with the error of this name.
    pub fn fail_appends(&self, error_name: &str, times: u32) -> Result<(), ServerError> {
        let error = error_named(error_name)?;
        self.check_running()?;
        self.commons.log.strike(Fault::Fail(LogError::Failed { code: error.code() }), u64::from(times));
        Ok(())
    }

    /// Creates a topic.
    pub fn create_topic(&self, name: &str, partitions: i32) -> Result<(), ServerError> {
        let topic = name.to_owned();
        self.ask(0, move |node| {
            let Node { topics, random, .. } = node;
            match topics.create(&topic, partitions, random) {
                Ok(_id) => Ok(()),
                Err(reason) => Err(ServerError::TopicRefused { topic, reason: reason.to_string() }),
            }
        })?
    }

    /// How many requests have made their handler panic. Each is a bug, and has cost its client the connection.
    pub fn panics(&self) -> u64 {
        self.commons.panics.load(Ordering::Relaxed)
    }

    /// How many connections are open, and how many requests wait for their answer.
    pub fn load(&self) -> Result<(usize, usize), ServerError> {
        let loads = self.look_all(|shared| (shared.connection_count(), shared.node.borrow().waiting()))?;
        Ok(loads.iter().fold((0, 0), |sum, load| (sum.0 + load.0, sum.1 + load.1)))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // There is nobody to tell that it took too long; the thread goes on to its end.
        let _late = self.stop(Duration::from_secs(5));
    }
}

/// Starts the thread of one node; it answers requests when this returns.
fn start_node(
    commons: &Arc<Commons>,
    node_id: i32,
    listener: StdListener,
    loads: SyncSender<Result<(), ServerError>>,
) -> Result<(UnboundedSender<Command>, Running), ServerError> {
    let (commands, orders) = unbounded_channel();
    let (stop, stopped) = tokio::sync::oneshot::channel();
    let (report, ended) = sync_channel(1);
    let (started, ready) = sync_channel(1);
    let commons = Arc::clone(commons);
    let thread = thread::Builder::new().name(format!("rota-node-{node_id}")).spawn(move || {
        run(&commons, node_id, listener, orders, stopped, &started, loads);
        // Nobody may be waiting for it.
        let _nobody = report.send(());
    });
    let thread = thread.map_err(|source| ServerError::CannotRun { source })?;
    ready.recv().map_err(|_| ServerError::Died)?.map_err(|source| ServerError::CannotRun { source })?;
    Ok((commands, Running { stop, ended, thread }))
}

/// A node's thread.
fn run(
    commons: &Arc<Commons>,
    node_id: i32,
    listener: StdListener,
    orders: UnboundedReceiver<Command>,
    stopped: tokio::sync::oneshot::Receiver<()>,
    started: &SyncSender<io::Result<()>>,
    loads: SyncSender<Result<(), ServerError>>,
) {
    let built = runtime::Builder::new_current_thread().enable_io().enable_time().build();
    let runtime = match built {
        Ok(runtime) => runtime,
        Err(error) => return drop(started.send(Err(error))),
    };
    LocalSet::new().block_on(&runtime, async move {
        let listener = match TcpListener::from_std(listener) {
            Ok(listener) => listener,
            Err(error) => return drop(started.send(Err(error))),
        };
        let shared = Shared::new(Node::new(commons, node_id));
        handover::load_own(&shared, loads);
        let mut accepting = tokio::task::spawn_local(accept(Rc::clone(&shared), listener));
        let mut timing = tokio::task::spawn_local(run_timers(Rc::clone(&shared)));
        let mut listening = tokio::task::spawn_local(hear_bell(Rc::clone(&shared)));
        let max_idle_ms = shared.node.borrow().settings.max_idle_ms();
        let sweeping = max_idle_ms.map(|max| tokio::task::spawn_local(Rc::clone(&shared).sweep_idle(max)));
        let retaining = keep_messages(&shared);
        let _waits = started.send(Ok(()));
        // Without deadlines or new connections a server would look alive and answer nobody: better that it dies.
        let died = select! {
            () = follow(&shared, orders, stopped) => None,
            Err(error) = &mut timing => Some(error),
            Err(error) = &mut accepting => Some(error),
            Err(error) = &mut listening => Some(error),
        };
        if let Some(error) = died {
            std::panic::resume_unwind(error.into_panic());
        }
        accepting.abort();
        timing.abort();
        listening.abort();
        sweeping.inspect(tokio::task::JoinHandle::abort);
        retaining.inspect(tokio::task::JoinHandle::abort);
        wind_up(&shared).await;
    });
}

/// One node looks for messages on disk that all nodes may drop.
fn keep_messages(shared: &Shared) -> Option<tokio::task::JoinHandle<()>> {
    let node = shared.node.borrow();
    if node.place.node_id != FIRST_NODE || node.commons.data.is_none() {
        return None;
    }
    let interval = Duration::from_millis(node.settings.retention_check_interval_ms());
    Some(tokio::task::spawn_local(retention::run(Arc::clone(&node.commons.topics), node.clock.clone(), interval)))
}

/// Looks around whenever another thread has left something for this node.
async fn hear_bell(shared: Rc<Shared>) {
    let bell = shared.node.borrow().bell();
    loop {
        bell.notified().await;
        shared.node.borrow_mut().look_around();
    }
}

/// Follows orders until told to stop.
async fn follow(
    shared: &Rc<Shared>,
    mut orders: UnboundedReceiver<Command>,
    mut stopped: tokio::sync::oneshot::Receiver<()>,
) {
    loop {
        select! {
            biased;
            _ = &mut stopped => return,
            order = orders.recv() => match order {
                Some(order) => order(shared),
                None => return,
            },
        }
    }
}

/// Answers whoever waits, and lets connections write that before they are closed.
async fn wind_up(shared: &Rc<Shared>) {
    shared.node.borrow_mut().unload();
    shared.end_all(Ending::AfterWriting);
    // Whoever does not read its last answers in time is closed without them.
    let _unread = tokio::time::timeout(LAST_ANSWERS, shared.emptied()).await;
}

async fn accept(shared: Rc<Shared>, listener: TcpListener) {
    let max_connections = shared.node.borrow().settings.max_connections();
    let mut id = 0;
    loop {
        match listener.accept().await {
            Ok(_) if shared.connection_count() >= max_connections => {}
            Ok((stream, peer)) => {
                id += 1;
                admit(&shared, id, stream, peer);
            }
            Err(_) => tokio::time::sleep(ACCEPT_PAUSE).await,
        }
    }
}

fn admit(shared: &Rc<Shared>, id: u64, stream: TcpStream, peer: SocketAddr) {
    // Without it answers are late, not wrong.
    let _late = stream.set_nodelay(true);
    let Ok(local) = stream.local_addr() else { return };
    let mut connection = Connection::new(id, peer, local);
    {
        let node = shared.node.borrow();
        connection.trace = node.commons.trace.as_ref().map(|trace| Box::new(trace.of(&node.place, id, peer)));
    }
    let connection = Rc::new(connection);
    shared.remember(&connection);
    tokio::task::spawn_local(Channel::new(Rc::clone(shared), connection, stream).serve());
}

/// Sleeps until the earliest deadline of all coordinators and fires what is due.
async fn run_timers(shared: Rc<Shared>) {
    let timer = shared.node.borrow().timer();
    loop {
        let until = shared.node.borrow_mut().arm();
        let Some(until) = until else {
            timer.notified().await;
            continue;
        };
        select! {
            () = timer.notified() => {}
            () = tokio::time::sleep_until(until) => shared.node.borrow_mut().advance_due(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_that_has_died_is_noticed_though_the_others_live() {
        let server = Server::start(ServerConfig { nodes: 2, ..ServerConfig::default() }).unwrap();
        assert!(server.load().is_ok());
        let died = server.ask(1, |_| -> () { panic!("as a bug would") });
        assert!(matches!(died, Err(ServerError::Died)));
        assert!(server.ask(0, |_| ()).is_ok());
        assert!(matches!(server.load(), Err(ServerError::Died)));
        assert!(matches!(server.stop(Duration::from_secs(10)), Err(ServerError::Died)));
    }
}
