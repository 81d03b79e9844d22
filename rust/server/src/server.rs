//! A running server: its thread, and the handle by which it is controlled.

use std::{
    fmt, io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener as StdListener},
    rc::Rc,
    sync::{
        Arc, Mutex, PoisonError,
        mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel},
    },
    thread::{self, JoinHandle},
    time::Duration,
};

use rota_core::{error::ErrorCode, explain::Explanation};
use socket2::{Domain, Protocol, Socket, Type};
use tokio::{
    net::{TcpListener, TcpStream},
    runtime, select,
    sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel},
    task::LocalSet,
};

use crate::{
    clock::Clock,
    connection::{Channel, Connection, Ending},
    entropy::RandomBits,
    error::ServerError,
    node::Node,
    place::{Place, default_host, kafka_uuid, resolve, split_address},
    settings::Settings,
    shared::Shared,
};

/// Connections that the kernel may complete before they are accepted.
const BACKLOG: i32 = 4_096;

/// How long to wait before accepting again after an error, such as too many open files.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// How long `stop` leaves connections to write what is answered, of the time that it has.
const LAST_ANSWERS: Duration = Duration::from_millis(500);

/// How to start a server.
#[derive(Clone, Debug)]
pub struct ServerConfig {
    /// `HOST:PORT`; port 0 picks a free one.
    pub listen: String,
    /// `HOST:PORT` that clients are sent to; by default where they have reached the server.
    pub advertise: Option<String>,
    /// Kafka's broker settings.
    pub settings: Settings,
    /// Whether the coordinators' time stands still until it is advanced.
    pub virtual_clock: bool,
}

impl Default for ServerConfig {
    fn default() -> ServerConfig {
        ServerConfig {
            listen: "127.0.0.1:0".to_owned(),
            advertise: None,
            settings: Settings::default(),
            virtual_clock: false,
        }
    }
}

/// Something to do on the server's thread.
type Command = Box<dyn FnOnce(&Rc<Shared>) + Send>;

/// A running server. Dropping it stops it.
pub struct Server {
    host: String,
    port: u16,
    settings: Settings,
    commands: UnboundedSender<Command>,
    thread: Mutex<Option<Running>>,
}

struct Running {
    stop: tokio::sync::oneshot::Sender<()>,
    ended: Receiver<()>,
    thread: JoinHandle<()>,
}

impl fmt::Debug for Server {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Server").field("host", &self.host).field("port", &self.port).finish_non_exhaustive()
    }
}

impl Server {
    /// Starts a server; it answers requests when this returns.
    pub fn start(config: ServerConfig) -> Result<Server, ServerError> {
        config.settings.check()?;
        let (listen_host, listen_port) = split_address("listen on", &config.listen)?;
        let listener = listen(&config.listen, &resolve(&listen_host, listen_port)?)?;
        let port = listener.local_addr().map_err(|source| ServerError::CannotRun { source })?.port();
        let (host, advertised_port) = match &config.advertise {
            Some(address) => split_address("advertise", address).map(|(host, port)| (Some(host), port))?,
            None => (default_host(&listen_host), port),
        };
        let place = Place {
            cluster_id: kafka_uuid(RandomBits::default().draw()),
            host: host.clone(),
            port: if advertised_port == 0 { port } else { advertised_port },
        };
        let settings = config.settings.clone();
        let (commands, orders) = unbounded_channel();
        let (stop, stopped) = tokio::sync::oneshot::channel();
        let (report, ended) = sync_channel(1);
        let (started, ready) = sync_channel(1);
        let thread = thread::Builder::new().name("rota-node".to_owned()).spawn(move || {
            run(config, place, listener, orders, stopped, &started);
            // Nobody may be waiting for it.
            let _nobody = report.send(());
        });
        let thread = thread.map_err(|source| ServerError::CannotRun { source })?;
        ready.recv().map_err(|_| ServerError::Died)?.map_err(|source| ServerError::CannotRun { source })?;
        let host = match listen_host.parse() {
            Ok(IpAddr::V4(Ipv4Addr::UNSPECIFIED)) => Ipv4Addr::LOCALHOST.to_string(),
            Ok(IpAddr::V6(Ipv6Addr::UNSPECIFIED)) => Ipv6Addr::LOCALHOST.to_string(),
            _ => listen_host,
        };
        let thread = Mutex::new(Some(Running { stop, ended, thread }));
        Ok(Server { host, port, settings, commands, thread })
    }

    /// The host and port at which this machine reaches the server.
    pub fn address(&self) -> (String, u16) {
        (self.host.clone(), self.port)
    }

    /// The version of rota.
    pub fn version(&self) -> &'static str {
        env!("CARGO_PKG_VERSION")
    }

    /// (name, Kafka's default, value) of every setting, by name.
    pub fn settings(&self) -> Vec<(&'static str, &'static str, String)> {
        self.settings.rows()
    }

    /// Stops the server: requests that wait are answered `NOT_COORDINATOR`, connections are closed, the thread ends.
    /// A server that has been stopped stays so.
    pub fn stop(&self, timeout: Duration) -> Result<(), ServerError> {
        let running = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some(Running { stop, ended, thread }) = running else { return Ok(()) };
        // A thread that has ended already does not listen.
        let _ended = stop.send(());
        match ended.recv_timeout(timeout) {
            Ok(()) | Err(RecvTimeoutError::Disconnected) => thread.join().map_err(|_| ServerError::Died),
            Err(RecvTimeoutError::Timeout) => Err(ServerError::StopTimedOut { timeout_ms: timeout.as_millis() as u64 }),
        }
    }

    /// Does something on the server's thread and waits for what comes of it.
    fn ask<R: Send + 'static>(&self, order: impl FnOnce(&mut Node) -> R + Send + 'static) -> Result<R, ServerError> {
        let (reply, answer): (SyncSender<R>, Receiver<R>) = sync_channel(1);
        let command: Command = Box::new(move |shared| {
            let result = order(&mut shared.node.borrow_mut());
            // Whoever asked waits below.
            let _waits = reply.send(result);
        });
        self.carry_out(command, &answer)
    }

    /// Hands `command` to the server's thread and waits for its answer.
    fn carry_out<R>(&self, command: Command, answer: &Receiver<R>) -> Result<R, ServerError> {
        let sent = self.commands.send(command).is_ok();
        let answered = if sent { answer.recv().ok() } else { None };
        let stopped = || {
            let running = self.thread.lock().unwrap_or_else(PoisonError::into_inner).is_some();
            if running { ServerError::Died } else { ServerError::Stopped }
        };
        answered.ok_or_else(stopped)
    }

    /// Ids of all groups, sorted.
    pub fn groups(&self) -> Result<Vec<String>, ServerError> {
        self.ask(|node| node.group_ids().iter().map(ToString::to_string).collect())
    }

    /// What a group is doing and why, and the monotonic millisecond of the answer; `None` if there is no such group.
    pub fn explain(&self, group_id: &str) -> Result<(Option<Explanation>, u64), ServerError> {
        let group_id = group_id.to_owned();
        self.ask(move |node| (node.explain(&group_id), node.clock.now().mono_ms))
    }

    /// The coordinators' monotonic milliseconds.
    pub fn now_ms(&self) -> Result<u64, ServerError> {
        self.ask(|node| node.clock.now().mono_ms)
    }

    /// Moves a virtual clock by `delta_ms` and returns where it stands. Members whose clients are connected are kept,
    /// as if their heartbeats had come in time, except those in `expire`.
    pub fn advance(&self, delta_ms: u64, expire: Vec<String>) -> Result<u64, ServerError> {
        self.ask(move |node| {
            if !node.clock.is_virtual() {
                return Err(ServerError::ClockIsReal);
            }
            node.advance_virtual(delta_ms, &expire);
            Ok(node.clock.now().mono_ms)
        })?
    }

    /// Ids of all members of all groups.
    pub fn member_ids(&self) -> Result<Vec<Arc<str>>, ServerError> {
        self.ask(|node| node.member_ids())
    }

    /// From now on no append to `__consumer_offsets` ends.
    pub fn hold_appends(&self) -> Result<(), ServerError> {
        self.ask(|node| node.log().hold())
    }

    /// Appends end again, those that were held back first; returns how many those are.
    pub fn release_appends(&self) -> Result<usize, ServerError> {
        self.ask(|node| {
            let held = node.log().release();
            node.settle();
            held
        })
    }

    /// The next `times` appends to `__consumer_offsets` fail with the error of this name.
    pub fn fail_appends(&self, error_name: &str, times: u32) -> Result<(), ServerError> {
        let wanted = ErrorCode::ALL.iter().copied().find(|error| error.name() == error_name);
        let Some(error) = wanted.filter(|error| *error != ErrorCode::None) else {
            return Err(ServerError::UnknownErrorName { name: error_name.to_owned() });
        };
        self.ask(move |node| node.fail_appends(error, times))
    }

    /// Creates a topic.
    pub fn create_topic(&self, name: &str, partitions: i32) -> Result<(), ServerError> {
        let topic = name.to_owned();
        self.ask(move |node| {
            let Node { topics, random, .. } = node;
            match topics.create(&topic, partitions, random) {
                Ok(_id) => Ok(()),
                Err(reason) => Err(ServerError::TopicRefused { topic, reason: reason.to_string() }),
            }
        })?
    }

    /// How many connections are open, and how many requests wait for their answer.
    pub fn load(&self) -> Result<(usize, usize), ServerError> {
        let (reply, answer) = sync_channel(1);
        let command: Command = Box::new(move |shared| {
            let _waits = reply.send((shared.connection_count(), shared.node.borrow().waiting()));
        });
        self.carry_out(command, &answer)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // There is nobody to tell that it took too long; the thread goes on to its end.
        let _late = self.stop(Duration::from_secs(5));
    }
}

/// Listens on the first of `addresses` that can be had.
fn listen(address: &str, addresses: &[SocketAddr]) -> Result<StdListener, ServerError> {
    let mut refused = io::Error::new(io::ErrorKind::AddrNotAvailable, "the host has no address");
    for socket_address in addresses {
        match listen_on(*socket_address) {
            Ok(listener) => return Ok(listener),
            Err(error) => refused = error,
        }
    }
    let address = address.to_owned();
    if refused.kind() == io::ErrorKind::AddrInUse {
        return Err(ServerError::AddressInUse { address });
    }
    Err(ServerError::CannotListen { address, source: refused })
}

fn listen_on(address: SocketAddr) -> io::Result<StdListener> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    socket.set_reuse_address(true)?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    socket.set_nonblocking(true)?;
    Ok(socket.into())
}

/// The server's thread.
fn run(
    config: ServerConfig,
    place: Place,
    listener: StdListener,
    orders: UnboundedReceiver<Command>,
    stopped: tokio::sync::oneshot::Receiver<()>,
    started: &SyncSender<io::Result<()>>,
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
        let clock = if config.virtual_clock { Clock::standing() } else { Clock::real() };
        let shared = Shared::new(Node::new(config.settings, place, clock));
        let mut accepting = tokio::task::spawn_local(accept(Rc::clone(&shared), listener));
        let mut timing = tokio::task::spawn_local(run_timers(Rc::clone(&shared)));
        let max_idle_ms = shared.node.borrow().settings.max_idle_ms();
        let sweeping = max_idle_ms.map(|max| tokio::task::spawn_local(Rc::clone(&shared).sweep_idle(max)));
        let _waits = started.send(Ok(()));
        // Without deadlines or new connections a server would look alive and answer nobody: better that it dies.
        let died = select! {
            () = follow(&shared, orders, stopped) => None,
            Err(error) = &mut timing => Some(error),
            Err(error) = &mut accepting => Some(error),
        };
        if let Some(error) = died {
            std::panic::resume_unwind(error.into_panic());
        }
        accepting.abort();
        timing.abort();
        sweeping.inspect(tokio::task::JoinHandle::abort);
        wind_up(&shared).await;
    });
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
    let connection = Rc::new(Connection::new(id, peer, local));
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
