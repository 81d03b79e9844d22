//! A server as a node of a cluster of several servers, over a replicated engine (docs/engine-protocol.md).

use std::{
    collections::BTreeMap,
    fmt, io,
    net::IpAddr,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use rota_cluster::{
    ClusterStats, ClusterTable, Connect, Engine, Host, HostConfig, NodeRow, OnTable, Pending, Session, SessionClock,
    Standing,
    notes::{Address, NodeInfo, NodeState, Partitions},
};
use rota_engine::{Directory, NodeId, PartitionId};

use crate::base::{
    between_servers::BetweenServers,
    clock::wall_ms,
    entropy::RandomBits,
    listeners::Listener,
    owners::{NO_NODE, Owner, Owners},
    place::{Cluster as Nodes, Node},
    settings::Settings,
};

/// Connects to an engine. Called again until it succeeds.
pub type ConnectTo = Arc<dyn Fn() -> Pending<'static, Result<Arc<dyn Engine>, String>> + Send + Sync>;

/// Settings of a node of a cluster.
#[derive(Clone)]
pub struct EngineConfig {
    /// Connects to the engine.
    pub connect: ConnectTo,
    /// The node id of this server.
    pub node_id: i32,
    /// So long a server is silent before others take its partitions over. The same for all servers of a cluster.
    pub ttl_ms: u64,
    /// Whether `OffsetFetch` waits until the engine has confirmed that this server still owns the group's partition.
    pub fences_reads: bool,
}

impl fmt::Debug for EngineConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "EngineConfig(node {}, TTL {} ms)", self.node_id, self.ttl_ms)
    }
}

/// Why a server cannot be asked.
pub enum NoAddress {
    /// It is not there, or is unknown.
    Away,
    /// It has no listener of this name.
    Unnamed(String),
}

/// The cluster of this server.
#[derive(Debug)]
pub struct Cluster {
    host: Host,
    node_id: i32,
    fences_reads: bool,
    partitions: Partitions,
    transaction_owners: Arc<Owners>,
    ttl: Duration,
    /// How the servers ask each other. Error: why they cannot.
    between_servers: Result<BetweenServers, String>,
    /// What keeps this server from asking others, by node id and question.
    troubles: Mutex<BTreeMap<(i32, &'static str), String>>,
}

impl Cluster {
    /// Starts the host. `on_table` is shown the cluster whenever it has changed, and writes the owners of transactions.
    /// Errors: no thread can be started.
    pub fn start(
        config: &EngineConfig,
        settings: &Settings,
        cluster_id: &str,
        listeners: &[Arc<Listener>],
        between_servers: Result<BetweenServers, String>,
        transaction_owners: Arc<Owners>,
        on_table: OnTable,
    ) -> io::Result<Cluster> {
        let address = |listener: &Arc<Listener>| Address {
            listener: listener.name.clone(),
            // Without an advertised host: the address at which a client reached the server that it asked.
            host: listener.host.clone().unwrap_or_default(),
            port: listener.ports.first().copied().unwrap_or(0),
        };
        let info = NodeInfo {
            addresses: listeners.iter().map(address).collect(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            state: NodeState::Serving,
            started_ms: wall_ms().max(0) as u64,
        };
        let partitions =
            Partitions { groups: settings.offsets_partitions(), transactions: settings.transaction_partitions() };
        let (connect, mut random) = (Arc::clone(&config.connect), RandomBits::default());
        let connect: Connect = Box::new(move || connect());
        let host = HostConfig {
            node: NodeId(config.node_id),
            directory: Directory(config.node_id as u128),
            ttl_ms: config.ttl_ms,
            partitions,
            batch_bytes_max: settings.message_max_bytes(),
            append_timeout_ms: settings.offsets_commit_timeout_ms(),
            info,
            clock: SessionClock::of_boot(),
            cluster_id: cluster_id.to_owned(),
            random: Box::new(move || random.draw()),
            on_table,
        };
        Ok(Cluster {
            host: Host::start(connect, host)?,
            node_id: config.node_id,
            fences_reads: config.fences_reads,
            partitions,
            transaction_owners,
            ttl: Duration::from_millis(config.ttl_ms),
            between_servers,
            troubles: Mutex::default(),
        })
    }

    /// What the node's thread follows.
    pub fn session(&self) -> &Arc<Session> {
        &self.host.session
    }

    /// The host.
    pub fn host(&self) -> &Host {
        &self.host
    }

    /// The cluster as this server sees it.
    pub fn table(&self) -> Arc<ClusterTable> {
        self.host.table()
    }

    /// The id of the cluster; `None`: not known yet.
    pub fn id(&self) -> Option<String> {
        self.table().settings.as_ref().map(|settings| settings.id.clone())
    }

    /// The id of this server.
    pub fn node_id(&self) -> i32 {
        self.node_id
    }

    /// Whether `OffsetFetch` trusts no clock.
    pub fn fences_reads(&self) -> bool {
        self.fences_reads
    }

    /// The partitions of the cluster.
    pub fn partitions(&self) -> Partitions {
        self.partitions
    }

    /// The owners of the partitions of `__transaction_state`.
    pub fn transaction_owners(&self) -> &Arc<Owners> {
        &self.transaction_owners
    }

    /// After so long a silence a server counts as gone.
    pub fn ttl(&self) -> Duration {
        self.ttl
    }

    /// How the servers ask each other. Errors: why they cannot.
    pub fn between_servers(&self) -> Result<&BetweenServers, &str> {
        self.between_servers.as_ref().map_err(String::as_str)
    }

    /// Host and port at which this server asks another one.
    pub fn address_of(&self, node_id: i32) -> Result<(String, u16), NoAddress> {
        let (table, Ok(between)) = (self.table(), self.between_servers()) else { return Err(NoAddress::Away) };
        let row = table.node(NodeId(node_id)).filter(|row| row.is_alive).ok_or(NoAddress::Away)?;
        let address = row.info.addresses.iter().find(|address| address.listener == between.listener);
        let address = address.ok_or_else(|| NoAddress::Unnamed(between.listener.clone()))?;
        // A server that listens at every address and advertises none is on this machine.
        let host = if address.host.is_empty() { "127.0.0.1" } else { &address.host };
        Ok((host.to_owned(), address.port))
    }

    /// Another server was asked something; `trouble`: why it cannot be, which is said once on standard error.
    pub fn was_asked(&self, node_id: i32, about: &'static str, trouble: Option<String>) {
        let mut troubles = self.troubles.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(trouble) = trouble else {
            troubles.remove(&(node_id, about));
            return;
        };
        if !troubles.values().any(|known| *known == trouble) {
            eprintln!("rota: transactions wait for {trouble}");
        }
        troubles.insert((node_id, about), trouble);
    }

    /// What keeps this server from asking others, a line each.
    pub fn troubles(&self) -> Vec<String> {
        let troubles = self.troubles.lock().unwrap_or_else(PoisonError::into_inner);
        let mut lines: Vec<String> = troubles.values().cloned().collect();
        lines.dedup();
        lines
    }

    /// Counts for metrics.
    pub fn stats(&self) -> ClusterStats {
        self.host.stats()
    }

    /// Gives all partitions up, so that other servers need not wait. Returns after at most `timeout`.
    pub fn leave(&self, timeout: Duration) {
        let left = self.host.leave();
        let waiting = tokio::runtime::Builder::new_current_thread().enable_time().build();
        if let Ok(runtime) = waiting {
            // Others wait for the TTL then.
            let _late = runtime.block_on(async { tokio::time::timeout(timeout, left).await });
        }
    }

    /// The servers that beat, as a client of `listener` reaches them; this one first until it has joined.
    pub fn nodes(&self, listener: &Listener, reached_ip: IpAddr) -> Nodes {
        let table = self.table();
        let alive = table.nodes.iter().filter(|row| row.is_alive);
        let mut nodes: Vec<Node> = alive.filter_map(|row| reachable(row, listener, reached_ip)).collect();
        if nodes.is_empty() {
            let port = listener.ports.first().copied().unwrap_or(0);
            nodes.push(Node { id: self.node_id, host: listener.host_for(reached_ip), port: i32::from(port) });
        }
        Nodes { id: self.id(), nodes }
    }

    /// The server that answers for a partition, as a client of `listener` reaches it; `None`: none does, or this server
    /// does not know.
    pub fn coordinator(&self, partition: PartitionId, listener: &Listener, reached_ip: IpAddr) -> Option<Node> {
        if !self.session().lasts() {
            return None;
        }
        let table = self.table();
        let row = table.node(table.coordinator_of(partition)?)?;
        reachable(row, listener, reached_ip)
    }

    /// Whether a node beats.
    pub fn is_alive(&self, node_id: i32) -> bool {
        self.table().node(NodeId(node_id)).is_some_and(|row| row.is_alive)
    }

    /// Whether this server answers for groups: it is a member, and its session lasts.
    pub fn is_ready(&self) -> bool {
        self.table().standing == Standing::Member && self.session().lasts()
    }
}

fn reachable(row: &NodeRow, listener: &Listener, reached_ip: IpAddr) -> Option<Node> {
    let named = row.info.addresses.iter().find(|address| address.listener == listener.name);
    let address = named.or_else(|| row.info.addresses.first())?;
    let host = if address.host.is_empty() { reached_ip.to_string() } else { address.host.clone() };
    Some(Node { id: row.id.0, host, port: i32::from(address.port) })
}

/// Writes the owners in a table to the ones that requests look at: of groups, and of transactions.
pub fn follow(owners: &Owners, of_transactions: &Owners, table: &ClusterTable) {
    let (groups, transactions) = table.by_topic();
    for (owners, rows) in [(owners, groups), (of_transactions, transactions)] {
        for (partition, row) in (0..).zip(rows) {
            let node_id = row.coordinator.map_or(NO_NODE, |node| node.0);
            owners.set(partition, Owner { node_id, epoch: row.epoch as u32 });
        }
    }
    let alive: Arc<[i32]> = table.nodes.iter().filter(|row| row.is_alive).map(|row| row.id.0).collect();
    if !alive.is_empty() {
        owners.set_node_ids(alive);
    }
}
