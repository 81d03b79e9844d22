//! State shared by the nodes of one server.

use std::{
    net::SocketAddr,
    sync::{
        Arc, PoisonError, RwLock,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use rota_cluster::OnTable;
use rota_log::{FaultyLog, MemoryLog};
use rota_security::{acl::Authorizer, principal::MappingRules, sasl::Sasl, tls::Tls};
use tokio::sync::Notify;

use crate::{
    base::{
        between_servers::BetweenServers,
        changes::Changes,
        clock::Clock,
        denials::Denials,
        entropy::RandomBits,
        error::ServerError,
        listeners::Listener,
        owners::{FIRST_NODE, Owners},
        place::Place,
        refusals::Refusals,
        settings::Settings,
    },
    client::trace::{ConnectionTrace, Trace},
    faults::{Controls, Outages},
    log::{
        acls::Acls,
        cluster::{self, Cluster, EngineConfig},
        data_dir::DataDir,
        group_configs::GroupConfigs,
        node_file::Home,
        notes::Notes,
        offsets_log::SharedLog,
        users::UserStore,
    },
    node::{
        journal::{Journal, JournalConfig},
        queues::{HeldMarkers, MarkerOrder, Queues, Told},
    },
    peers::Peers,
    topics::{Image, SharedTopics, TopicTable},
    transactions::{Transactions, log::StateLog},
};

/// The shared state. Only nodes use its fields; higher layers call its methods. No heartbeat touches its locks.
#[derive(Debug)]
pub struct SharedState {
    /// The settings at the start.
    pub(super) settings: Settings,
    /// Identity and address of the first node; the others differ in id and port.
    pub(super) place: Place,
    /// The clock of all coordinators.
    pub(super) clock: Clock,
    /// The owners of partitions.
    pub(super) owners: Arc<Owners>,
    /// The owner of the topic table.
    pub(super) topics: Arc<TopicTable>,
    /// The settings that groups have of their own.
    pub(super) group_configs: Arc<GroupConfigs>,
    /// The log of all coordinators.
    pub(super) log: Arc<SharedLog>,
    /// The coordinators of transactions.
    pub(super) transactions: Arc<Transactions>,
    /// Whether transactions are served.
    serves_transactions: bool,
    /// Markers that coordinators have left for each node; indexed by `place_of`.
    pub(super) markers: Queues<MarkerOrder>,
    /// Markers that a test holds.
    pub(super) held_markers: HeldMarkers,
    /// Answers to the questions of each node; indexed by `place_of`.
    pub(super) told: Queues<Told>,
    /// Injected faults.
    pub(super) controls: Controls,
    /// Which nodes are down.
    pub(super) outages: Outages,
    /// Wakes threads that wait for groups to change.
    pub(super) changes: Arc<Changes>,
    /// Number of requests whose handler panicked.
    panics: AtomicU64,
    /// Notified when another thread has left work for a node; indexed by `place_of`.
    pub(super) wakers: Vec<Arc<Notify>>,
    /// The trace of requests and answers.
    trace: Option<Trace>,
    /// The journal of the coordinators' events.
    pub(super) journal: Option<Arc<Journal>>,
    /// The data directory; `None`: in memory.
    data: Option<DataDir>,
    /// The cluster of several servers that this one is a node of; `None`: it is alone.
    pub(super) cluster: Option<Arc<Cluster>>,
    /// The way to its other servers; `None`: there are none, or transactions are not served.
    pub(super) peers: Option<Peers>,
    /// The TLS configuration of the listeners with TLS; `None`: there are none.
    tls: RwLock<Option<Arc<Tls>>>,
    /// The users of the listeners with SASL.
    pub(super) users: UserStore,
    refusals: Refusals,
    /// How often clients have authenticated again.
    reauthentications: AtomicU64,
    /// Who may do what; `None`: everyone everything.
    pub(super) acls: Option<Acls>,
    /// What clients were refused.
    pub(super) denials: Arc<Denials>,
    /// How subjects of certificates become principals.
    mapping: MappingRules,
}

fn owners_and_wakers(settings: &Settings, place: &Place) -> (Arc<Owners>, Vec<Arc<Notify>>) {
    let nodes = place.nodes;
    (Owners::new(settings.offsets_partitions(), nodes), (0..nodes).map(|_| Arc::default()).collect())
}

impl SharedState {
    /// Creates the state for the nodes in `place`, in memory.
    pub fn new(settings: Settings, place: Place, clock: Clock) -> SharedState {
        let (owners, wakers) = owners_and_wakers(&settings, &place);
        let table_owners = Arc::clone(&owners);
        let topics = TopicTable::new(settings.topics(), table_owners, wakers.clone(), &mut RandomBits::default());
        let log = MemoryLog::new(settings.offsets_partitions(), settings.message_max_bytes());
        let shown = clock.clone();
        let log = Arc::new(FaultyLog::new(Arc::new(log), move || shown.now().mono_ms));
        let transactions = Transactions::none(wakers.len());
        SharedState {
            transactions: Arc::new(transactions),
            markers: Queues::of(wakers.len()),
            held_markers: HeldMarkers::default(),
            told: Queues::of(wakers.len()),
            serves_transactions: false,
            controls: Controls::default(),
            outages: Outages::of(place.node_id, place.nodes as usize),
            changes: Arc::default(),
            panics: AtomicU64::new(0),
            settings,
            place,
            clock,
            owners,
            topics,
            group_configs: Arc::default(),
            log,
            wakers,
            trace: None,
            journal: None,
            data: None,
            cluster: None,
            peers: None,
            tls: RwLock::default(),
            users: UserStore::default(),
            refusals: Refusals::default(),
            reauthentications: AtomicU64::new(0),
            acls: None,
            denials: Arc::default(),
            mapping: MappingRules::default(),
        }
    }

    /// Creates the state over a data directory.
    pub fn on_disk(settings: Settings, place: Place, clock: Clock, data: DataDir) -> Result<SharedState, ServerError> {
        let mut state = SharedState::new(settings, place, clock);
        let (owners, wakers) = (Arc::clone(&state.owners), state.wakers.clone());
        state.log = data.offsets_log(&state.settings, &owners, state.clock.clone())?;
        let random = &mut RandomBits::default();
        state.topics = TopicTable::in_data_dir(&data, state.settings.topics(), owners, wakers, random)?;
        state.group_configs = Arc::new(GroupConfigs::in_data_dir(&data)?);
        state.data = Some(data);
        Ok(state)
    }

    /// Serves transactions, with what is in the data directory or in the engine of the cluster. A server with a read-only
    /// directory refuses them, and one of a cluster whose servers cannot ask each other. `level` is
    /// `transaction.version`. Errors: their log cannot be read or written, or no thread can be started.
    pub fn serving_transactions(self, level: i16) -> Result<SharedState, ServerError> {
        let apart = self.cluster.as_ref().and_then(|cluster| cluster.between_servers().err());
        if let Some(reason) = apart {
            eprintln!("rota: transactional ids are refused: {reason}");
        }
        if apart.is_some() || self.data.as_ref().is_some_and(|data| data.is_read_only) {
            return Ok(self);
        }
        let (config, partitions) = (self.settings.transactions(level), self.settings.transaction_partitions());
        if let Some(cluster) = &self.cluster {
            let log = StateLog::in_engine(Arc::clone(&self.log), cluster.partitions());
            let (owners, waker) = (Arc::clone(cluster.transaction_owners()), Arc::clone(&self.wakers[0]));
            let peers = Peers::start(Arc::downgrade(cluster)).map_err(|source| ServerError::CannotRun { source })?;
            let transactions = Arc::new(Transactions::of_cluster(config, log, owners, waker));
            return Ok(SharedState { transactions, serves_transactions: true, peers: Some(peers), ..self });
        }
        let log = match &self.data {
            None => StateLog::in_memory(partitions),
            Some(data) => StateLog::in_data_dir(data, partitions, self.clock.clone())?,
        };
        let transactions = Transactions::new(config, log, self.wakers.clone())?;
        Ok(SharedState { transactions: Arc::new(transactions), serves_transactions: true, ..self })
    }

    /// Whether transactions are served.
    pub fn serves_transactions(&self) -> bool {
        self.serves_transactions
    }

    /// Creates the state of a server that is a node of a cluster. `between`: how it asks the other ones. `data`: the
    /// directory of its messages, and where it was used before. Errors: its thread cannot be started, `BadData`.
    pub fn of_cluster(
        settings: Settings,
        place: Place,
        clock: Clock,
        engine: &EngineConfig,
        between: Result<BetweenServers, String>,
        data: Option<(DataDir, Option<Home>)>,
    ) -> Result<SharedState, ServerError> {
        let alone = SharedState::new(settings, place, clock);
        let owners = Owners::of_cluster(alone.settings.offsets_partitions(), engine.node_id);
        let mut random = RandomBits::default();
        let (data, home) = data.map_or((None, None), |(data, home)| (Some(data), home));
        let topics = TopicTable::of_cluster(
            alone.settings.topics(),
            Arc::clone(&owners),
            &alone.wakers,
            &mut random,
            data.as_ref().map(|data| (data, home)),
            engine.node_id,
        )?;
        let group_configs: Arc<GroupConfigs> = Arc::default();
        let of_transactions = Owners::of_cluster(alone.settings.transaction_partitions(), engine.node_id);
        let followed_transactions = Arc::clone(&of_transactions);
        let (waker, followed, shown) = (Arc::clone(&alone.wakers[0]), Arc::clone(&owners), Arc::clone(&topics));
        let (on_mail, changes) = (Arc::clone(&waker), Arc::clone(&alone.changes));
        let configs = Arc::clone(&group_configs);
        let on_table: OnTable = Box::new(move |table, revision| {
            configs.arrive(table.history, revision, &table.groups);
            // Who sees the owners of an image knows its topics, or that they have arrived.
            if let Some(shared) = shown.shared() {
                let (id, topics) = (table.settings.as_ref().map(|settings| settings.id.clone()), table.topics.clone());
                let home = id.map(|cluster_id| Home { cluster_id, history: table.history });
                shared.arrive(Image { revision, home, topics });
            }
            cluster::follow(&followed, &followed_transactions, table);
            changes.notify();
            waker.notify_one();
        });
        let (cluster_id, listeners) = (&alone.place.cluster_id, &alone.place.listeners);
        let started =
            Cluster::start(engine, &alone.settings, cluster_id, listeners, between, of_transactions, on_table);
        let cluster = Arc::new(started.map_err(|source| ServerError::CannotRun { source })?);
        cluster.session().on_mail(move || on_mail.notify_one());
        topics.share(SharedTopics::new(notes_of(&cluster), Arc::clone(&cluster.host().producer_ids)));
        group_configs.share(notes_of(&cluster));
        let shown = alone.clock.clone();
        let log = Arc::new(FaultyLog::new(Arc::clone(&cluster.host().log) as _, move || shown.now().mono_ms));
        Ok(SharedState { owners, topics, group_configs, log, data, cluster: Some(cluster), ..alone })
    }

    /// Returns the cluster of several servers that this one is a node of; `None`: it is alone.
    pub fn cluster(&self) -> Option<&Arc<Cluster>> {
        self.cluster.as_ref()
    }

    /// Whether this server answers for groups and knows what topics there are. Only a server of a cluster may not yet.
    pub fn is_ready(&self) -> bool {
        self.topics.is_known() && self.cluster.as_ref().is_none_or(|cluster| cluster.is_ready())
    }

    /// Sets the trace.
    pub fn traced(self, trace: Option<Trace>) -> SharedState {
        SharedState { trace, ..self }
    }

    /// Sets TLS and authentication of the listeners.
    pub fn protected(self, tls: Option<Tls>, users: UserStore) -> SharedState {
        SharedState { tls: RwLock::new(tls.map(Arc::new)), users, ..self }
    }

    /// Sets who may do what, and how subjects of certificates become principals. Errors: `BadData`.
    pub fn authorized(self, authorizer: Option<Authorizer>, mapping: MappingRules) -> Result<SharedState, ServerError> {
        let kept = |authorizer| match &self.data {
            None => Ok(Acls::in_memory(authorizer)),
            Some(data) => Acls::in_data_dir(authorizer, data),
        };
        let acls = authorizer.map(kept).transpose()?;
        Ok(SharedState { acls, mapping, ..self })
    }

    /// Opens a journal of every coordinator event. Errors: it cannot be opened.
    pub fn journaled(self, journal: Option<JournalConfig>) -> Result<SharedState, ServerError> {
        let (partitions, cluster_id) = (self.owners.partitions(), &self.place.cluster_id);
        let beside = |journal| Journal::beside(&journal, self.data.as_ref(), partitions, cluster_id);
        let journal = journal.map(beside).transpose()?;
        Ok(SharedState { journal, ..self })
    }

    /// Returns the server's settings.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Returns the listeners, which every node has.
    pub fn listeners(&self) -> &[Arc<Listener>] {
        &self.place.listeners
    }

    /// Returns the clock of all coordinators.
    pub fn clock(&self) -> &Clock {
        &self.clock
    }

    /// Returns the owners of partitions.
    pub fn owners(&self) -> &Owners {
        &self.owners
    }

    /// Returns the topic table.
    pub fn topics(&self) -> &Arc<TopicTable> {
        &self.topics
    }

    /// Returns the log of all coordinators, with injected faults.
    pub fn log(&self) -> &SharedLog {
        &self.log
    }

    /// Returns the coordinators of transactions.
    pub fn transactions(&self) -> &Transactions {
        &self.transactions
    }

    /// Returns the injected faults.
    pub fn controls(&self) -> &Controls {
        &self.controls
    }

    /// Returns the nodes that are down.
    pub fn outages(&self) -> &Outages {
        &self.outages
    }

    /// Returns the TLS configuration of the listeners with TLS; `None`: there are none.
    pub fn tls(&self) -> Option<Arc<Tls>> {
        self.tls.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Sets the TLS configuration of connections from now on.
    pub fn set_tls(&self, tls: Tls) {
        *self.tls.write().unwrap_or_else(PoisonError::into_inner) = Some(Arc::new(tls));
    }

    /// Returns the authentication of the listeners with SASL; `None`: there are none.
    pub fn sasl(&self) -> Option<Arc<Sasl>> {
        self.users.sasl()
    }

    /// Returns the users of the listeners with SASL.
    pub fn users(&self) -> &UserStore {
        &self.users
    }

    /// Returns the connections that were refused.
    pub fn refusals(&self) -> &Refusals {
        &self.refusals
    }

    /// Returns who may do what; `None`: everyone everything.
    pub fn acls(&self) -> Option<&Acls> {
        self.acls.as_ref()
    }

    /// Returns what clients were refused.
    pub fn denials(&self) -> &Denials {
        &self.denials
    }

    /// Returns how subjects of certificates become principals.
    pub fn mapping(&self) -> &MappingRules {
        &self.mapping
    }

    /// Returns the data directory; `None`: in memory.
    pub fn data(&self) -> Option<&DataDir> {
        self.data.as_ref()
    }

    /// Returns the journal; `None` if none is written.
    pub fn journal(&self) -> Option<&Journal> {
        self.journal.as_deref()
    }

    /// Returns the trace of a connection; `None` if it is not traced.
    pub fn trace_of(&self, place: &Place, connection_id: u64, peer: SocketAddr) -> Option<ConnectionTrace> {
        self.trace.as_ref().map(|trace| trace.of(place, connection_id, peer))
    }

    /// Counts a request whose handler panicked. It may have appended without taking the completion, so every node is
    /// notified.
    pub fn request_panicked(&self) {
        self.panics.fetch_add(1, Ordering::Relaxed);
        self.wakers.iter().for_each(|waker| waker.notify_one());
    }

    /// Counts a client that has authenticated again.
    pub fn count_reauthentication(&self) {
        self.reauthentications.fetch_add(1, Ordering::Relaxed);
    }

    /// Returns how often clients have authenticated again.
    pub fn reauthentications(&self) -> u64 {
        self.reauthentications.load(Ordering::Relaxed)
    }

    /// Returns the number of requests whose handler panicked.
    pub fn panics(&self) -> u64 {
        self.panics.load(Ordering::Relaxed)
    }

    /// Waits until the number of changes differs from `seen`, at most `timeout`. Returns the number.
    pub fn wait_for_change(&self, seen: u64, timeout: Duration) -> u64 {
        self.changes.wait_beyond(seen, timeout)
    }

    /// The lowest id of the nodes; in a cluster that of the only one.
    pub fn first_node(&self) -> i32 {
        self.place.node_id
    }

    /// The index of a node in `wakers`.
    pub fn place_of(&self, node_id: i32) -> usize {
        // A server of a cluster has one node.
        if self.cluster.is_some() { 0 } else { (node_id - FIRST_NODE) as usize }
    }
}

/// The notes of a cluster's engine, while the server runs.
fn notes_of(cluster: &Arc<Cluster>) -> Notes {
    let (host, session) = (Arc::downgrade(cluster), Arc::clone(cluster.session()));
    let waits = Arc::clone(&session);
    let put = move |notes| match host.upgrade() {
        Some(cluster) => cluster.host().put_notes(notes),
        // The receiver sees that the sender is gone.
        None => std::sync::mpsc::channel().1,
    };
    // A change of many topics may take longer than the TTL: this thread is not stuck.
    Notes::new(Box::new(put), Box::new(move || session.lasts()), Box::new(move || waits.waits()))
}

#[cfg(test)]
pub(crate) mod tests {
    use std::path::Path;

    use super::*;
    use crate::log::data_dir::DataConfig;

    fn place() -> Place {
        Place { cluster_id: "c".to_owned(), node_id: FIRST_NODE, nodes: 1, listeners: Arc::default() }
    }

    /// What the node of a server in memory shares with its connections.
    pub(crate) fn in_memory() -> SharedState {
        SharedState::new(Settings::default(), place(), Clock::standing())
    }

    /// The same of a server with a data directory.
    pub(crate) fn on_disk(dir: &Path) -> SharedState {
        let mut settings = Settings::default();
        let data = DataDir::open(&DataConfig::at(dir.to_owned()), &mut settings, "c").unwrap();
        SharedState::on_disk(settings, place(), Clock::standing(), data).unwrap()
    }
}
