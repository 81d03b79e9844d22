//! A running server, and the handle by which it is started, controlled and stopped.
//!
//! A method of [`Server`] is an order to the threads of nodes, which they carry out between two requests. Starting and
//! stopping are here; what tests make a server do is in `controls.rs`, what operators read in `inspect.rs`, partitions
//! and nodes in `partitions.rs`, the network in `network.rs`, topics in `topics.rs` and `messages.rs`, time in `clock.rs`.

mod clock;
pub mod controls;
pub mod inspect;
pub mod messages;
mod network;
mod partitions;
mod topics;
mod virtual_time;

use std::{
    collections::BTreeMap,
    fmt, io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, TcpListener as StdListener},
    rc::Rc,
    sync::{
        Arc, Mutex, PoisonError, RwLock,
        mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel},
    },
    time::{Duration, Instant},
};

use tokio::sync::mpsc::UnboundedSender;

use crate::{
    base::{
        clock::Clock,
        entropy::RandomBits,
        error::ServerError,
        owners::FIRST_NODE,
        place::{Place, default_host, kafka_uuid, split_address},
        settings::Settings,
    },
    client::trace::Trace,
    log::data_dir::{DataConfig, DataDir, Health, StartReport},
    net::{
        event_loop::EventLoop,
        listening::{listen_all, ports_from},
        node_thread::{Command, Running, start_node},
    },
    node::{
        Node,
        journal::{Journal, JournalConfig, JournalHealth},
        shared_state::SharedState,
    },
};

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

/// A running server. Dropping it stops it.
pub struct Server {
    host: String,
    /// As it was asked for, for nodes that come back.
    listen_host: String,
    shared: Arc<SharedState>,
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
        let shared = match data {
            None => SharedState::new(settings, place, clock),
            Some(data) => SharedState::on_disk(settings, place, clock, data)?,
        };
        let shared = Arc::new(shared.traced(config.trace).journaled(config.journal)?);
        let (loads, loaded) = sync_channel(shared.owners().partitions() as usize);
        let (mut nodes, mut running) = (Vec::new(), Vec::new());
        for ((node_id, listener), port) in (FIRST_NODE..).zip(listeners).zip(bound) {
            // A node that does not start ends those that have: nobody is left to give them orders.
            let (commands, node) = start_node(&shared, node_id, listener, loads.clone())?;
            nodes.push(NodeHandle { port, commands });
            running.push(node);
        }
        let host = match listen_host.parse() {
            Ok(IpAddr::V4(Ipv4Addr::UNSPECIFIED)) => Ipv4Addr::LOCALHOST.to_string(),
            Ok(IpAddr::V6(Ipv6Addr::UNSPECIFIED)) => Ipv6Addr::LOCALHOST.to_string(),
            _ => listen_host.clone(),
        };
        let (moving, held_loads, running) = (RwLock::default(), Mutex::default(), Mutex::new(Some(running)));
        drop(loads);
        let mut server = Server { host, listen_host, shared, nodes, moving, held_loads, running, report: None };
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
        let Some(data) = self.shared.data() else { return Ok(None) };
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
        self.shared.data().map(DataDir::health)
    }

    /// How the journal is; `None`: none is written.
    pub fn journal(&self) -> Option<JournalHealth> {
        self.shared.journal().map(Journal::health)
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
        self.shared.settings().rows()
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
        if let Some(journal) = self.shared.journal() {
            journal.close();
        }
        if let Some(data) = self.shared.data() {
            data.store.close();
        }
        outcome
    }

    /// Does something on the thread of the node at this place and waits for what comes of it.
    pub(crate) fn ask<R: Send + 'static>(
        &self,
        at: usize,
        order: impl FnOnce(&mut Node) -> R + Send + 'static,
    ) -> Result<R, ServerError> {
        let answer = self.order(at, |event_loop| order(&mut event_loop.node.borrow_mut()))?;
        self.answered(&answer)
    }

    /// Does something on the threads of all nodes and waits for what comes of it, in the order of the nodes.
    fn ask_all<R: Send + 'static>(
        &self,
        order: impl Fn(&mut Node) -> R + Clone + Send + 'static,
    ) -> Result<Vec<R>, ServerError> {
        self.look_all(move |event_loop| order(&mut event_loop.node.borrow_mut()))
    }

    /// Does something on the threads of all nodes, with their connections, in the order of the nodes.
    fn look_all<R: Send + 'static>(
        &self,
        order: impl Fn(&Rc<EventLoop>) -> R + Clone + Send + 'static,
    ) -> Result<Vec<R>, ServerError> {
        let answers: Result<Vec<_>, _> = (0..self.nodes.len()).map(|at| self.order(at, order.clone())).collect();
        answers?.iter().map(|answer| self.answered(answer)).collect()
    }

    /// Does something on the thread of the node that owns `partition`, which stays there meanwhile.
    fn ask_owner<R: Send + 'static>(
        &self,
        partition: u32,
        order: impl FnOnce(&mut Node) -> R + Send + 'static,
    ) -> Result<R, ServerError> {
        let _stays = self.moving.read().unwrap_or_else(PoisonError::into_inner);
        self.ask(SharedState::place_of(self.owner(partition)?), order)
    }

    /// Hands an order to the thread of the node at this place; what comes of it will be there.
    fn order<R: Send + 'static>(
        &self,
        at: usize,
        order: impl FnOnce(&Rc<EventLoop>) -> R + Send + 'static,
    ) -> Result<Receiver<R>, ServerError> {
        let (reply, answer): (SyncSender<R>, Receiver<R>) = sync_channel(1);
        let command: Command = Box::new(move |event_loop| {
            // Whoever asked may have given up.
            let _nobody = reply.send(order(event_loop));
        });
        self.nodes[at].commands.send(command).map_err(|_| self.gone())?;
        Ok(answer)
    }

    pub(crate) fn answered<R>(&self, answer: &Receiver<R>) -> Result<R, ServerError> {
        answer.recv().map_err(|_| self.gone())
    }

    /// Whether orders are followed at all.
    fn check_running(&self) -> Result<(), ServerError> {
        self.ask_all(|_| ()).map(drop)
    }

    fn gone(&self) -> ServerError {
        let running = self.running.lock().unwrap_or_else(PoisonError::into_inner).is_some();
        if running { ServerError::Died } else { ServerError::Stopped }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // There is nobody to tell that it took too long; the thread goes on to its end.
        let _late = self.stop(Duration::from_secs(5));
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
