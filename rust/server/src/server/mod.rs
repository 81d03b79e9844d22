//! The handle that starts, controls and stops a server.
//!
//! Methods of [`Server`] are orders to the nodes' threads, executed between two requests. This file starts and stops;
//! `checked.rs` checks a configuration, `listeners.rs` opens the listeners, `controls.rs` has the controls of tests, `inspect.rs` the views of operators,
//! `partitions.rs` partitions and nodes, `network.rs` the network, `reload.rs` files that change, `topics.rs` and
//! `messages.rs` topics, `commits.rs` offsets, `acls.rs` who may do what, `clock.rs` time.

mod acls;
mod checked;
mod clock;
mod commits;
pub mod controls;
pub mod inspect;
pub mod listeners;
pub mod messages;
mod network;
mod partitions;
pub mod reload;
mod tokens;
mod topics;
mod transactions;
mod virtual_time;

use std::{
    collections::BTreeMap,
    fmt,
    path::PathBuf,
    rc::Rc,
    sync::{
        Arc, Mutex, PoisonError, RwLock,
        mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel},
    },
    time::{Duration, Instant},
};

use rota_security::{
    acl::Binding,
    sasl::{Sasl, users::Users},
    tls::{BadTls, TlsFiles},
    token::keys::Keys,
};
use tokio::sync::mpsc::UnboundedSender;

use self::{
    checked::Checked,
    listeners::OpenListener,
    reload::{Reloader, Watch},
};
use crate::{
    base::{
        between_servers::PeerAccess,
        clock::Clock,
        entropy::RandomBits,
        error::ServerError,
        owners::FIRST_NODE,
        place::{Place, kafka_uuid, reachable_host},
        settings::{KeyFetching, Settings},
    },
    client::trace::Trace,
    log::{
        cluster::{Cluster, EngineConfig},
        data_dir::{DataConfig, DataDir, Health, StartReport},
        node_file::Home,
        users::UserStore,
    },
    net::{
        event_loop::EventLoop,
        node_thread::{Command, Running, start_node},
    },
    node::{
        Node,
        journal::{Journal, JournalConfig, JournalHealth},
        shared_state::SharedState,
    },
};

/// Time that a node of a cluster gives others to take its partitions over, within the timeout of `stop`.
const LEAVING: Duration = Duration::from_secs(2);

/// The configuration of a server.
#[derive(Clone, Debug)]
pub struct ServerConfig {
    /// `HOST:PORT` of the first node; the others have the following ports. Port 0 chooses free ports. Not used with the
    /// setting `listeners`.
    pub listen: String,
    /// Advertised `HOST:PORT` of the first node, and the following ports for the others; `None`: the address at which
    /// the client reached the server.
    pub advertise: Option<String>,
    /// Number of nodes, each with its own thread and port.
    pub nodes: u32,
    /// Kafka's broker settings.
    pub settings: Settings,
    /// The files of TLS; `None`: those in `settings`, and without any, plaintext.
    pub tls: Option<TlsFiles>,
    /// Whether the certificate is for other servers of the process, too: listeners may have none.
    pub shares_certificate: bool,
    /// How clients authenticate; `None`: they do not.
    pub sasl: Option<Sasl>,
    /// The file of the users in `sasl`, which is read again when it changes; `None`: they stay.
    pub users_file: Option<PathBuf>,
    /// The keys of the issuer of tokens, if `sasl.oauthbearer.jwks.endpoint.url` does not name a file.
    pub keys: Option<Keys>,
    /// Whether tokens without a signature are accepted, for tests.
    pub allow_unsecured_tokens: bool,
    /// Whether clients beyond this machine may send passwords without TLS.
    pub allow_plaintext_passwords: bool,
    /// The ACLs at the first start, which switch authorization on; `None`: the settings say whether it is on.
    pub acls: Option<Vec<Binding>>,
    /// The wall milliseconds at which a virtual clock of the coordinators begins; `None`: they use the machine's clock.
    pub virtual_clock: Option<i64>,
    /// The trace of requests and answers.
    pub trace: Option<Trace>,
    /// The data directory of topics, groups and offsets; `None`: in memory.
    pub data: Option<DataConfig>,
    /// The journal of the coordinators' events; `None`: none is written.
    pub journal: Option<JournalConfig>,
    /// `transaction.version` as clients see it: from 0, the first protocol of transactions only, to 2, both.
    pub transaction_version: i16,
    /// The engine that this server shares groups over with others; `None`: it is alone.
    pub engine: Option<EngineConfig>,
    /// How it shows the other servers who it is.
    pub peer_access: PeerAccess,
}

impl Default for ServerConfig {
    fn default() -> ServerConfig {
        ServerConfig {
            listen: "127.0.0.1:0".to_owned(),
            advertise: None,
            nodes: 1,
            settings: Settings::default(),
            tls: None,
            shares_certificate: false,
            sasl: None,
            users_file: None,
            keys: None,
            allow_unsecured_tokens: false,
            allow_plaintext_passwords: false,
            acls: None,
            virtual_clock: None,
            trace: None,
            data: None,
            journal: None,
            transaction_version: 2,
            engine: None,
            peer_access: PeerAccess::default(),
        }
    }
}

/// A running server. Dropping it stops it.
pub struct Server {
    /// In the order of the setting; never empty.
    listeners: Vec<OpenListener>,
    shared: Arc<SharedState>,
    nodes: Vec<NodeHandle>,
    /// Locked for writing while a partition is handed over, for reading while an order depends on owners.
    moving: RwLock<()>,
    /// Partitions whose loading was held at their last handover.
    held_loads: Mutex<BTreeMap<u32, Receiver<Result<(), ServerError>>>>,
    running: Mutex<Option<Vec<Running>>>,
    reloader: Arc<Reloader>,
    watch: Mutex<Option<Watch>>,
    report: Option<StartReport>,
    /// The process that has its threads: a copy of it, as `fork` makes one, has none.
    process_id: u32,
}

struct NodeHandle {
    commands: UnboundedSender<Command>,
}

impl fmt::Debug for Server {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Server").field("addresses", &self.addresses()).finish_non_exhaustive()
    }
}

impl Server {
    /// Starts a server. It answers requests when this returns, and has loaded its data directory. Until then clients
    /// get `COORDINATOR_LOAD_IN_PROGRESS`.
    pub fn start(config: ServerConfig) -> Result<Server, ServerError> {
        let Checked { reloader, sasl, tls, endpoints, between, mapping, authorizer } = Checked::of(&config)?;
        let first_node = config.engine.as_ref().map_or(FIRST_NODE, |engine| engine.node_id);
        let (listeners, sockets) = listeners::open(endpoints, config.nodes, first_node)?;
        let engine = config.engine;
        let mut settings = config.settings;
        let cluster_id = kafka_uuid(RandomBits::default().draw());
        let open = |data: DataConfig| open_data(&data, &mut settings, &cluster_id, engine.as_ref());
        let data = config.data.map(open).transpose()?;
        let cluster_id = data.as_ref().map_or(cluster_id, |(data, _)| data.cluster_id.clone());
        let seen_by_clients = listeners.iter().map(|open| Arc::clone(&open.listener)).collect();
        let place = Place { cluster_id, node_id: first_node, nodes: config.nodes, listeners: seen_by_clients };
        let clock = config.virtual_clock.map_or_else(Clock::real, Clock::standing_at);
        let shared = match (data, &engine) {
            (data, Some(engine)) => SharedState::of_cluster(settings, place, clock, engine, between, data)?,
            (None, None) => SharedState::new(settings, place, clock),
            (Some((data, _)), None) => SharedState::on_disk(settings, place, clock, data)?,
        };
        let shared = shared.authorized(authorizer, mapping)?.serving_transactions(config.transaction_version)?;
        let users = UserStore::new(sasl, config.users_file);
        let shared = Arc::new(shared.protected(tls, users).traced(config.trace).journaled(config.journal)?);
        let (loads, loaded) = sync_channel(shared.owners().partitions() as usize);
        let (mut nodes, mut running) = (Vec::new(), Vec::new());
        for (node_id, sockets) in (first_node..).zip(sockets) {
            // If a node does not start, the nodes that run are stopped with the handle.
            let (commands, node) = start_node(&shared, node_id, sockets, loads.clone())?;
            nodes.push(NodeHandle { commands });
            running.push(node);
        }
        let (moving, held_loads, running) = (RwLock::default(), Mutex::default(), Mutex::new(Some(running)));
        drop(loads);
        let watch = Mutex::new(reloader.has_files().then(|| Watch::start(&reloader, &shared)).transpose()?);
        let (report, process_id) = (None, std::process::id());
        let mut server =
            Server { listeners, shared, nodes, moving, held_loads, running, reloader, watch, report, process_id };
        // Ends when every partition has reported.
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

    /// Checks what a start refuses before it opens an address, a directory or an engine. Returns the settings as
    /// [`settings`](Server::settings) would.
    pub fn check(config: &ServerConfig) -> Result<Vec<(&'static str, &'static str, String)>, ServerError> {
        Checked::of(config).map(|_| config.settings.rows())
    }

    /// Returns what the start found in the data directory.
    fn start_report(&self, failed: Vec<String>) -> Result<Option<StartReport>, ServerError> {
        let Some(data) = self.shared.data() else { return Ok(None) };
        let count = |node: &mut Node| (node.group_count(), node.offset_count());
        let counts = self.ask_all(count)?;
        let (groups, offsets) = counts.iter().fold((0, 0), |sum, count| (sum.0 + count.0, sum.1 + count.1));
        let lines = data.lines.iter().cloned().chain(failed).collect();
        Ok(Some(StartReport { lines, groups, offsets, took: data.began.elapsed(), is_read_only: data.is_read_only }))
    }

    /// Returns what the start found in the data directory; `None`: in memory.
    pub fn report(&self) -> Option<&StartReport> {
        self.report.as_ref()
    }

    /// Returns the cluster of several servers that this one is a node of; `None`: it is alone.
    pub fn cluster(&self) -> Option<&Arc<Cluster>> {
        self.shared.cluster()
    }

    /// Whether this server answers for groups and knows what topics there are. Only a server of a cluster may not yet.
    pub fn is_ready(&self) -> bool {
        self.shared.is_ready()
    }

    /// Stops the server without giving its partitions up, as a killed process.
    pub fn kill(&self, timeout: Duration) -> Result<(), ServerError> {
        if let Some(cluster) = self.shared.cluster() {
            cluster.host().end();
        }
        self.stop(timeout)
    }

    /// Returns the health of the data directory; `None`: in memory.
    pub fn health(&self) -> Option<Health> {
        self.shared.data().map(DataDir::health)
    }

    /// Returns the health of the journal; `None`: none is written.
    pub fn journal(&self) -> Option<JournalHealth> {
        self.shared.journal().map(Journal::health)
    }

    /// Returns host and port of the first node's first listener, as this machine reaches it.
    pub fn address(&self) -> (String, u16) {
        let first = &self.listeners[0];
        (reachable_host(&first.host), first.ports[0])
    }

    /// Returns id, host and port of every node's first listener, as this machine reaches it.
    pub fn addresses(&self) -> Vec<(i32, String, u16)> {
        self.listeners[0].addresses()
    }

    /// Returns the listeners in the order of the setting.
    pub fn listeners(&self) -> &[OpenListener] {
        &self.listeners
    }

    /// Returns the version of rota.
    pub fn version(&self) -> &'static str {
        env!("CARGO_PKG_VERSION")
    }

    /// Returns (name, Kafka's default, value) of every setting, by name.
    pub fn settings(&self) -> Vec<(&'static str, &'static str, String)> {
        self.shared.settings().rows()
    }

    /// Whether the first listener uses TLS.
    pub fn has_tls(&self) -> bool {
        self.listeners[0].listener.protocol.has_tls()
    }

    /// Whether clients of the first listener authenticate.
    pub fn has_sasl(&self) -> bool {
        self.listeners[0].listener.protocol.has_sasl()
    }

    /// Returns the first advertised host of a listener with TLS that the server's certificate does not name: clients
    /// refuse the connection.
    pub fn unnamed_host(&self) -> Option<&str> {
        let tls = self.shared.tls()?;
        let with_tls = self.shared.listeners().iter().filter(|listener| listener.protocol.has_tls());
        with_tls.filter_map(|listener| listener.host.as_deref()).find(|host| !tls.names(host))
    }

    /// Returns why connections were closed because of their security, one line each, since the last call.
    pub fn take_refusals(&self) -> Vec<String> {
        self.shared.refusals().take_lines()
    }

    /// Reads certificate, key, client CAs and users from their files again, for new connections. Errors: a file is wrong,
    /// and what was read before stays in use.
    pub fn reload(&self) -> Result<(), ServerError> {
        self.reloader.reload(&self.shared);
        let errors = self.reloader.errors();
        if errors.is_empty() { Ok(()) } else { Err(ServerError::NotReloaded(errors.join("; "))) }
    }

    /// Replaces certificate, key and CAs of clients, for new connections. Errors: they cannot be used, or the server has
    /// none to replace.
    pub fn set_tls(&self, files: TlsFiles) -> Result<(), ServerError> {
        if self.shared.tls().is_none() {
            let none = "the server has no certificate to replace: start it with one";
            return Err(BadTls::Settings(none.to_owned()).into());
        }
        Ok(self.reloader.replace_tls(&self.shared, files)?)
    }

    /// Replaces all users, for new connections. Errors: they are in a file, or the server has none to replace.
    pub fn set_users(&self, users: Users) -> Result<(), ServerError> {
        if self.shared.users().replace_all(users) {
            return Ok(());
        }
        let other = "the server has no users in memory: change the users file, or start it with users";
        Err(BadTls::Settings(other.to_owned()).into())
    }

    /// Sets the keys of the issuer of tokens, for new connections.
    pub fn set_keys(&self, keys: Keys) {
        self.shared.users().set_keys(keys);
    }

    /// Takes the key set that was fetched from `sasl.oauthbearer.jwks.endpoint.url`, or why it was not.
    pub fn take_keys(&self, fetched: Result<&str, String>) {
        self.reloader.take_keys(&self.shared, fetched);
    }

    /// Returns how keys of tokens are fetched from their URL, for whom `take_keys` is; `None`: they have none.
    pub fn key_fetching(&self) -> Option<KeyFetching> {
        self.shared.settings().key_fetching()
    }

    /// Waits until a token is signed by an unknown key, at most this long. Returns whether one was; `None`: the server
    /// stops.
    pub fn wait_for_key_demand(&self, timeout: Duration) -> Option<bool> {
        self.shared.users().key_demand().wait(timeout)
    }

    /// Returns the wall time of the server's clock, in milliseconds.
    pub fn wall_ms(&self) -> i64 {
        self.shared.clock().now().wall_ms
    }

    /// Returns the files that are read again when they change.
    pub fn reloader(&self) -> &Reloader {
        &self.reloader
    }

    /// Stops the server: waiting requests get `NOT_COORDINATOR`, connections are closed, the threads end. Repeated
    /// calls do nothing.
    pub fn stop(&self, timeout: Duration) -> Result<(), ServerError> {
        if self.is_a_copy() {
            return Ok(());
        }
        drop(self.watch.lock().unwrap_or_else(PoisonError::into_inner).take());
        if let Some(cluster) = self.shared.cluster()
            && self.running.lock().unwrap_or_else(PoisonError::into_inner).is_some()
        {
            cluster.leave(timeout.min(LEAVING));
        }
        self.shared.users().key_demand().close();
        let running = self.running.lock().unwrap_or_else(PoisonError::into_inner).take();
        let deadline = Instant::now() + timeout;
        let mut ending = Vec::new();
        for Running { stop, ended, thread } in running.unwrap_or_default() {
            // A thread that has ended does not receive the message.
            let _ended = stop.send(());
            ending.push((ended, thread));
        }
        // The other threads are waited for even if one does not end in time or has panicked.
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
        // There are no more appends. Everything becomes durable, and the directory is unlocked.
        if let Some(journal) = self.shared.journal() {
            journal.close();
        }
        if let Some(data) = self.shared.data() {
            data.store.close();
        }
        outcome
    }

    /// Runs a function on the thread of the node with this index, and waits for its result.
    pub(crate) fn ask<R: Send + 'static>(
        &self,
        at: usize,
        order: impl FnOnce(&mut Node) -> R + Send + 'static,
    ) -> Result<R, ServerError> {
        let answer = self.order(at, |event_loop| order(&mut event_loop.node.borrow_mut()))?;
        self.answered(&answer)
    }

    /// Runs a function on the threads of all nodes, and waits for the results in node order.
    fn ask_all<R: Send + 'static>(
        &self,
        order: impl Fn(&mut Node) -> R + Clone + Send + 'static,
    ) -> Result<Vec<R>, ServerError> {
        self.run_on_all_loops(move |event_loop| order(&mut event_loop.node.borrow_mut()))
    }

    /// Runs a function on the event loops of all nodes, and waits for the results in node order.
    fn run_on_all_loops<R: Send + 'static>(
        &self,
        order: impl Fn(&Rc<EventLoop>) -> R + Clone + Send + 'static,
    ) -> Result<Vec<R>, ServerError> {
        let answers: Result<Vec<_>, _> = (0..self.nodes.len()).map(|at| self.order(at, order.clone())).collect();
        answers?.iter().map(|answer| self.answered(answer)).collect()
    }

    /// Runs a function on the thread of the node that owns `partition`, which does not move meanwhile.
    fn ask_owner<R: Send + 'static>(
        &self,
        partition: u32,
        order: impl FnOnce(&mut Node) -> R + Send + 'static,
    ) -> Result<R, ServerError> {
        let _stays = self.moving.read().unwrap_or_else(PoisonError::into_inner);
        self.ask(self.shared.place_of(self.owner(partition)?), order)
    }

    /// Sends an order to the thread of the node with this index. The receiver gets its result.
    fn order<R: Send + 'static>(
        &self,
        at: usize,
        order: impl FnOnce(&Rc<EventLoop>) -> R + Send + 'static,
    ) -> Result<Receiver<R>, ServerError> {
        self.check_process()?;
        let (reply, answer): (SyncSender<R>, Receiver<R>) = sync_channel(1);
        let command: Command = Box::new(move |event_loop| {
            // The caller may have timed out.
            let _nobody = reply.send(order(event_loop));
        });
        self.nodes[at].commands.send(command).map_err(|_| self.gone())?;
        Ok(answer)
    }

    /// Checks that this process is the server's: in a copy of it a lock stays locked that another thread had taken.
    pub fn check_process(&self) -> Result<(), ServerError> {
        if self.is_a_copy() { Err(ServerError::OtherProcess { process_id: self.process_id }) } else { Ok(()) }
    }

    /// Whether this process was copied from that of the server.
    fn is_a_copy(&self) -> bool {
        std::process::id() != self.process_id
    }

    pub(crate) fn answered<R>(&self, answer: &Receiver<R>) -> Result<R, ServerError> {
        answer.recv().map_err(|_| self.gone())
    }

    /// Checks that the server runs.
    fn check_running(&self) -> Result<(), ServerError> {
        self.ask_all(|_| ()).map(drop)
    }

    fn gone(&self) -> ServerError {
        let running = self.running.lock().unwrap_or_else(PoisonError::into_inner).is_some();
        if running { ServerError::Died } else { ServerError::Stopped }
    }
}

/// Opens a data directory. Returns where a node of a cluster used it before.
fn open_data(
    config: &DataConfig,
    settings: &mut Settings,
    cluster_id: &str,
    engine: Option<&EngineConfig>,
) -> Result<(DataDir, Option<Home>), ServerError> {
    match engine {
        Some(engine) => DataDir::open_for_node(config, settings, cluster_id, engine.node_id),
        None => Ok((DataDir::open(config, settings, cluster_id)?, None)),
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if self.is_a_copy() {
            // Nothing of it ends here: its threads and its directory are those of the other process.
            std::mem::forget(Arc::clone(&self.shared));
            std::mem::forget(self.watch.get_mut().unwrap_or_else(PoisonError::into_inner).take());
            return;
        }
        // An error has no receiver here. The thread continues to its end.
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
