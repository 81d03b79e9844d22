//! Servers that share groups over an engine: `rota._rota.MemoryEngine`, and the cluster as a server sees it.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use pyo3::{
    exceptions::{PyKeyError, PyValueError},
    prelude::*,
    types::PyDict,
};
use rota_cluster::{ClusterTable, Engine, Faults, MemoryLink, NodeRow, PartitionRow, Pending, Standing};
use rota_engine::{HistoryId, NodeId};
use rota_etcd::EtcdEngine;
use rota_server::{Cluster, ConnectTo, EngineConfig};

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
        MemoryEngine { engine: rota_cluster::MemoryEngine::new(HistoryId(1)), links: Mutex::default() }
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
                twins: faults.twins,
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
    /// `etcd://HOST:PORT,.../PREFIX`.
    Url(String),
}

/// Engine, node id and TTL in milliseconds.
pub type EngineArguments<'py> = (EngineArgument<'py>, i32, u64);

/// Returns the settings of a node of a cluster. Errors: the URL is malformed.
pub fn engine((engine, node_id, ttl_ms): EngineArguments<'_>) -> PyResult<EngineConfig> {
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
        EngineArgument::Url(url) => {
            let config =
                rota_etcd::Config::parse(&url, None).map_err(|error| PyValueError::new_err(error.to_string()))?;
            Arc::new(move || {
                let config = config.clone();
                let connecting: Pending<'static, _> = Box::pin(async move {
                    let opened = EtcdEngine::open(config).await.map_err(|error| error.to_string())?;
                    Ok(Arc::new(opened) as Arc<dyn Engine>)
                });
                connecting
            })
        }
    };
    Ok(EngineConfig { connect, node_id, ttl_ms })
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
pub fn described<'py>(py: Python<'py>, cluster: &Cluster) -> PyResult<Bound<'py, PyDict>> {
    let table = cluster.table();
    let shown = PyDict::new(py);
    let (standing, reason) = standing(&table);
    shown.set_item("engine", &table.engine)?;
    shown.set_item("standing", standing)?;
    shown.set_item("reason", reason.or(table.trouble.as_deref()))?;
    shown.set_item("is_ready", cluster.is_ready())?;
    shown.set_item("cluster_id", table.settings.as_ref().map(|settings| settings.id.clone()))?;
    shown.set_item("ttl_ms", table.settings.as_ref().map(|settings| settings.ttl_ms))?;
    let node = |row: &NodeRow| {
        let addresses = row.info.addresses.iter();
        let addresses: Vec<_> = addresses.map(|at| (at.listener.clone(), at.host.clone(), at.port)).collect();
        (row.id.0, addresses, row.info.version.clone(), row.info.state.name(), row.is_alive, row.is_drained)
    };
    shown.set_item("nodes", table.nodes.iter().map(node).collect::<Vec<_>>())?;
    let id = |node: Option<NodeId>| node.map(|node| node.0);
    let partition = |row: &PartitionRow| (id(row.owner), row.epoch, row.is_held, id(row.planned), id(row.coordinator));
    shown.set_item("partitions", table.partitions.iter().map(partition).collect::<Vec<_>>())?;
    let damaged: Vec<_> = table.damaged.iter().map(|(partition, damage)| (partition.0, damage.clone())).collect();
    shown.set_item("damaged", damaged)?;
    Ok(shown)
}

/// Adds the class to the module.
pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<MemoryEngine>()
}
