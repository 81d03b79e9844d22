//! Servers that share groups over an engine: `rota._rota.MemoryEngine`, and the cluster as a server sees it.

use std::{
    collections::BTreeMap,
    path::PathBuf,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use pyo3::{
    exceptions::{PyKeyError, PyValueError},
    prelude::*,
    types::PyDict,
};
use rota_cluster::{ClusterStats, ClusterTable, Engine, Faults, MemoryLink, NodeRow, PartitionRow, Pending, Standing};
use rota_engine::{HistoryId, NodeId};
use rota_etcd::EtcdEngine;
use rota_log::BOUNDS_SECONDS;
use rota_postgres::{PostgresEngine, url::is_postgres};
use rota_security::{client_tls::ClientTlsFiles, pem::Source};
use rota_server::{Cluster, ConnectTo, EngineConfig, Password, PeerAccess, RandomBits};

/// An engine in memory that servers of one process share, for tests.
#[pyclass(frozen, module = "rota._rota")]
pub struct MemoryEngine {
    engine: rota_cluster::MemoryEngine,
    /// The links of the servers, by node id.
    links: Mutex<BTreeMap<i32, MemoryLink>>,
}

#[pymethods]
impl MemoryEngine {
    #[new]
    fn new() -> MemoryEngine {
        // Never 0, which is no history.
        let history = HistoryId(RandomBits::default().draw() | 1);
        MemoryEngine { engine: rota_cluster::MemoryEngine::new(history), links: Mutex::default() }
    }

    /// Sets the faults of a server's link, by the id of its node. What is not given stays as it is.
    #[pyo3(signature = (
        node_id, *, silent = None, watch_stalled = None, latency_ms = None, lost_requests = None, lost_answers = None,
        exhausted = None
    ))]
    #[expect(clippy::too_many_arguments, reason = "Python passes them by name")]
    fn set_faults(
        &self,
        node_id: i32,
        silent: Option<bool>,
        watch_stalled: Option<bool>,
        latency_ms: Option<u64>,
        lost_requests: Option<u32>,
        lost_answers: Option<u32>,
        exhausted: Option<u32>,
    ) -> PyResult<()> {
        let links = self.links.lock().unwrap_or_else(PoisonError::into_inner);
        let link = links.get(&node_id).ok_or_else(|| PyKeyError::new_err(format!("no server is node {node_id}")))?;
        link.set_faults(|faults| {
            *faults = Faults {
                is_silent: silent.unwrap_or(faults.is_silent),
                is_watch_stalled: watch_stalled.unwrap_or(faults.is_watch_stalled),
                latency: latency_ms.map_or(faults.latency, Duration::from_millis),
                lost_requests: lost_requests.unwrap_or(faults.lost_requests),
                lost_answers: lost_answers.unwrap_or(faults.lost_answers),
                exhausted: exhausted.unwrap_or(faults.exhausted),
                ..*faults
            };
        });
        Ok(())
    }
}

/// What a server is given as its engine.
#[derive(FromPyObject)]
pub enum EngineArgument<'py> {
    /// In memory.
    Memory(PyRef<'py, MemoryEngine>),
    /// `etcd://HOST:PORT,.../PREFIX` or `postgres://HOST:PORT,.../DATABASE`.
    Url(String),
}

/// CAs of the engine's certificates, rota's certificate and its key, each PEM text or a path, and user and password.
pub type EngineAccess = (Option<String>, Option<String>, Option<String>, Option<(String, String)>);

/// Engine, node id, TTL in milliseconds, and how the engine is accessed.
pub type EngineArguments<'py> = (EngineArgument<'py>, i32, u64, bool, EngineAccess);

/// CAs of the other servers' certificates, this server's certificate and its key, each PEM text or a path; a user, and the
/// password or the path of its file.
pub type PeerArguments =
    (Option<String>, Option<String>, Option<String>, Option<(String, Option<String>, Option<PathBuf>)>);

/// Returns how a server shows the others of its cluster who it is. Errors: something is missing.
pub fn peer_access((ca, cert, key, login): PeerArguments) -> PyResult<PeerAccess> {
    let login = login.map(|(user, text, file)| match (text, file) {
        (Some(text), None) => Ok((user, Password::Text(text))),
        (None, Some(file)) => Ok((user, Password::File(file))),
        _ => Err(wrong("the servers' user has no password, or two: give `password` or `password_file`")),
    });
    let ca = ca.map(|ca| Source::given_as("peer_ca", ca));
    Ok(PeerAccess { ca, identity: identity("peer", cert, key)?, login: login.transpose()? })
}

/// How a real engine is reached.
pub enum EngineAt {
    /// etcd.
    Etcd(rota_etcd::Config),
    /// PostgreSQL.
    Postgres(rota_postgres::Config),
}

fn wrong(why: impl ToString) -> PyErr {
    PyValueError::new_err(why.to_string())
}

/// Certificate and key that are given for `what`.
fn identity(what: &'static str, cert: Option<String>, key: Option<String>) -> PyResult<Option<(Source, Source)>> {
    match (cert, key) {
        (Some(cert), key) => {
            let key = key.unwrap_or_else(|| cert.clone());
            Ok(Some((Source::given_as(what, cert), Source::given_as(what, key))))
        }
        (None, None) => Ok(None),
        (None, Some(_)) => Err(wrong(format!("the {what} has a key and no certificate: give both"))),
    }
}

/// The files that connections to an engine need; `None` without TLS.
fn tls_files(ca: Option<String>, cert: Option<String>, key: Option<String>) -> PyResult<Option<ClientTlsFiles>> {
    let identity = identity("engine", cert, key)?;
    match (ca, identity) {
        (Some(ca), identity) => Ok(Some(ClientTlsFiles { ca: Source::given_as("engine_ca", ca), identity })),
        (None, None) => Ok(None),
        (None, Some(_)) => Err(wrong("the engine has a certificate and no CA: give both")),
    }
}

/// The user of the URL, or the one that is given beside it. Errors: there are both.
fn one_user<User>(of_url: Option<User>, given: Option<User>, engine: impl Fn() -> String) -> PyResult<Option<User>> {
    if of_url.is_some() && given.is_some() {
        return Err(wrong(format!("engine {}: its URL has a user, too: give one of them", engine())));
    }
    Ok(given.or(of_url))
}

/// Returns how an engine is reached. Errors: the URL is malformed, a file is wrong, or something is missing.
pub fn engine_at(url: &str, (ca, cert, key, user): EngineAccess) -> PyResult<EngineAt> {
    let files = tls_files(ca, cert, key)?;
    let protocols: &[&str] = if is_postgres(url) { &[] } else { &[rota_etcd::ALPN] };
    let tls = files.map(|files| files.load(protocols)).transpose().map_err(wrong)?;
    if is_postgres(url) {
        let mut config = rota_postgres::Config::parse(url, tls).map_err(wrong)?;
        let given = user.map(|(name, password)| rota_postgres::User { name, password: Some(password) });
        config.user = one_user(config.user.take(), given, || config.name())?;
        return Ok(EngineAt::Postgres(config));
    }
    if !url.starts_with("etcd") {
        let scheme = url.split_once("://").map_or("no scheme", |(scheme, _)| scheme);
        return Err(wrong(format!("the engine's URL has {scheme:?}: give etcd://..., etcds://... or postgres://...")));
    }
    let mut config = rota_etcd::Config::parse(url, tls).map_err(wrong)?;
    let given = user.map(|(name, password)| rota_etcd::User { name, password });
    config.user = one_user(config.user.take(), given, || config.name())?;
    Ok(EngineAt::Etcd(config))
}

/// Returns the settings of a node of a cluster. Errors: those of [`engine_at`].
pub fn engine((engine, node_id, ttl_ms, fences_reads, access): EngineArguments<'_>) -> PyResult<EngineConfig> {
    let connect: ConnectTo = match engine {
        EngineArgument::Memory(memory) => {
            let link = memory.engine.link();
            memory.links.lock().unwrap_or_else(PoisonError::into_inner).insert(node_id, link.clone());
            let link: Arc<dyn Engine> = Arc::new(link);
            Arc::new(move || {
                let link = Arc::clone(&link);
                let connected: Pending<'static, _> = Box::pin(async move { Ok(link) });
                connected
            })
        }
        EngineArgument::Url(url) => connect_to(match engine_at(&url, access)? {
            EngineAt::Etcd(config) => EngineAt::Etcd(config.with_ttl(Duration::from_millis(ttl_ms))),
            at @ EngineAt::Postgres(_) => at,
        }),
    };
    Ok(EngineConfig { connect, node_id, ttl_ms, fences_reads })
}

fn connect_to(at: EngineAt) -> ConnectTo {
    match at {
        EngineAt::Etcd(config) => Arc::new(move || {
            let config = config.clone();
            let connecting: Pending<'static, _> = Box::pin(async move {
                let opened = EtcdEngine::open(config).await.map_err(|error| error.to_string())?;
                Ok(Arc::new(opened) as Arc<dyn Engine>)
            });
            connecting
        }),
        EngineAt::Postgres(config) => Arc::new(move || {
            let config = config.clone();
            let connecting: Pending<'static, _> = Box::pin(async move {
                let opened = PostgresEngine::open(config).await.map_err(|error| error.to_string())?;
                Ok(Arc::new(opened) as Arc<dyn Engine>)
            });
            connecting
        }),
    }
}

fn standing(table: &ClusterTable) -> (&'static str, Option<&str>) {
    match &table.standing {
        Standing::Joining => ("joining", None),
        Standing::Member => ("member", None),
        Standing::Leaving => ("leaving", None),
        Standing::Left => ("left", None),
        Standing::Stopped(reason) => ("stopped", Some(reason)),
    }
}

/// Returns the cluster as a server sees it.
pub fn described<'py>(py: Python<'py>, cluster: &Cluster, is_ready: bool) -> PyResult<Bound<'py, PyDict>> {
    let table = cluster.table();
    let shown = PyDict::new(py);
    let (standing, reason) = standing(&table);
    shown.set_item("node_id", cluster.node_id())?;
    shown.set_item("engine", &table.engine)?;
    shown.set_item("standing", standing)?;
    shown.set_item("reason", reason.or(table.trouble.as_deref()))?;
    shown.set_item("warning", table.warning.as_deref())?;
    shown.set_item("is_ready", is_ready)?;
    shown.set_item("cluster_id", table.settings.as_ref().map(|settings| settings.id.clone()))?;
    shown.set_item("ttl_ms", table.settings.as_ref().map(|settings| settings.ttl_ms))?;
    let node = |row: &NodeRow| {
        let addresses = row.info.addresses.iter();
        let addresses: Vec<_> = addresses.map(|at| (at.listener.clone(), at.host.clone(), at.port)).collect();
        let info = &row.info;
        let (state, started_ms) = (info.state.name(), info.started_ms);
        (row.id.0, addresses, info.version.clone(), state, row.is_alive, row.is_drained, started_ms)
    };
    shown.set_item("nodes", table.nodes.iter().map(node).collect::<Vec<_>>())?;
    let id = |node: Option<NodeId>| node.map(|node| node.0);
    let now_ms = cluster.session().now_ms();
    let partition = |row: &PartitionRow| {
        let moving_ms = row.moving_since_ms.map(|since_ms| now_ms.saturating_sub(since_ms));
        (id(row.owner), row.epoch, row.is_held, id(row.planned), id(row.coordinator), moving_ms)
    };
    let (groups, transactions) = table.by_topic();
    shown.set_item("partitions", groups.iter().map(partition).collect::<Vec<_>>())?;
    shown.set_item("transaction_partitions", transactions.iter().map(partition).collect::<Vec<_>>())?;
    let damaged: Vec<_> = table.damaged.iter().map(|(partition, damage)| (partition.0, damage.clone())).collect();
    shown.set_item("damaged", damaged)?;
    shown.set_item("peer_errors", cluster.troubles())?;
    let space = cluster.stats().space;
    shown.set_item("space", space.map(|used| (used.file_bytes, used.live_bytes, used.quota_bytes)))?;
    Ok(shown)
}

/// Returns the counts of a server's work with its engine.
pub fn counted<'py>(py: Python<'py>, cluster: &Cluster) -> PyResult<Bound<'py, PyDict>> {
    let ClusterStats { appends, outcomes, handovers, snapshots, space: _ } = cluster.stats();
    let counts = PyDict::new(py);
    counts.set_item("bounds", BOUNDS_SECONDS)?;
    counts.set_item("appends", (appends.counts, appends.sum_seconds))?;
    counts.set_item("outcomes", outcomes)?;
    counts.set_item("handovers", handovers)?;
    counts.set_item("snapshots", snapshots)?;
    Ok(counts)
}

/// Adds the class to the module.
pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<MemoryEngine>()
}
