//! `rota._rota.EngineOperator`: the engine of a cluster as `rota cluster` reaches it.

use std::{collections::BTreeMap, time::Duration};

use pyo3::{
    exceptions::PyOSError,
    prelude::*,
    types::{PyBytes, PyDict},
};
use rota_cluster::{
    notes::{self, ClusterSettings, Partitions, Plan},
    operating::{ChangeError, Member, Operator},
    operator::{self, Placed, Refused, Topic},
    transfer::{Exported, NoteChange},
};
use rota_engine::{HistoryId, Incarnation, NodeId, PartitionId, View, requests::PutNote};
use rota_etcd::EtcdEngine;
use rota_postgres::{PostgresEngine, PrepareError, Prepared};
use rota_security::random;
use rota_server::topics::leaders_in_note;

use crate::{
    cluster::{EngineAccess, EngineAt, engine_at},
    errors::{EngineError, RotaError, not_found},
    log::DataLog,
};

/// The engine of a cluster, for an operator. Calls block, and release the interpreter lock.
#[pyclass(frozen, module = "rota._rota")]
pub struct EngineOperator {
    operator: Operator,
}

fn placed(partition: i32, of_transactions: bool) -> Placed {
    Placed { topic: if of_transactions { Topic::Transactions } else { Topic::Groups }, partition }
}

type MemberRow = (String, Option<String>, Option<(u64, String, bool, u64, u64, u64, Vec<String>)>);

fn member(member: &Member) -> MemberRow {
    let at = member.address.clone();
    match &member.status {
        Err(failure) => (at, Some(failure.clone()), None),
        Ok(status) => {
            let (used, errors) = (&status.used, status.errors.clone());
            let space = (used.file_bytes, used.live_bytes, used.quota_bytes);
            (at, None, Some((status.id, status.version.clone(), status.leads, space.0, space.1, space.2, errors)))
        }
    }
}

fn described<'py>(py: Python<'py>, view: &View) -> PyResult<Bound<'py, PyDict>> {
    let shown = PyDict::new(py);
    let settings = view.notes.get(notes::CLUSTER).and_then(|note| ClusterSettings::read(note));
    let partitions = settings.as_ref().map_or_else(Partitions::default, |settings| settings.partitions);
    let settings = settings.map(|settings| (settings.id, settings.partitions.groups, settings.ttl_ms));
    shown.set_item("history", format!("{:032x}", view.meta.history.0))?;
    shown.set_item("format", view.meta.format)?;
    shown.set_item("revision", view.revision.0)?;
    shown.set_item("settings", &settings)?;
    let infos = notes::nodes(view);
    let node = |(id, info): (&NodeId, &notes::NodeInfo)| {
        let addresses: Vec<_> =
            info.addresses.iter().map(|at| (at.listener.clone(), at.host.clone(), at.port)).collect();
        let incarnation = view.nodes.get(id).map(|known| known.incarnation);
        // A beat of an earlier process is no sign of life.
        let beat = view.beats.get(id).filter(|beat| Some(beat.incarnation) == incarnation);
        let beat = beat.map(|beat| (format!("{:032x}", beat.incarnation.0), beat.counter));
        let state = (info.state.name(), notes::is_drained(view, *id));
        (id.0, addresses, info.version.clone(), state.0, state.1, info.started_ms, beat)
    };
    shown.set_item("nodes", infos.iter().map(node).collect::<Vec<_>>())?;
    let (plan, pins, unserved) = (Plan::of(view), notes::pins(view), notes::unserved(view));
    let partition = |at: PartitionId| {
        let part = view.parts.get(&at);
        let is_held = part.is_some_and(|part| {
            let runs = view.nodes.get(&part.node).is_some_and(|known| known.incarnation == part.incarnation);
            part.held && runs
        });
        let owner = part.map(|part| part.node.0);
        let epoch = part.map_or(0, |part| part.epoch.0);
        let id = |node: NodeId| node.0;
        let unserved = unserved.get(&at).map(|(node, of)| (node.0, of.since_ms, of.reason.clone()));
        (owner, epoch, is_held, plan.node_of(at).map(id), pins.get(&at).copied().map(id), unserved)
    };
    let (groups, transactions): (Vec<_>, Vec<_>) =
        partitions.all().partition(|at| partitions.in_transactions(*at).is_none());
    shown.set_item("partitions", groups.into_iter().map(partition).collect::<Vec<_>>())?;
    shown.set_item("transaction_partitions", transactions.into_iter().map(partition).collect::<Vec<_>>())?;
    let topics = notes::topics(view);
    let leaders: BTreeMap<&String, Option<Vec<i32>>> =
        topics.iter().map(|(name, note)| (name, leaders_in_note(note))).collect();
    shown.set_item("topics", leaders)?;
    Ok(shown)
}

impl EngineOperator {
    /// An error of a change.
    fn failed(&self, error: &ChangeError) -> PyErr {
        match error {
            ChangeError::Refused(Refused::UnknownNode(..)) => not_found("node", error.to_string()),
            ChangeError::Refused(Refused::UnknownPartition(..)) => not_found("partition", error.to_string()),
            ChangeError::Refused(Refused::Impossible(_)) => RotaError::new_err(error.to_string()),
            ChangeError::Failed(_) | ChangeError::Unknown(_) | ChangeError::Contended => {
                self.silent(&error.to_string())
            }
        }
    }

    /// An error of the engine, which it names.
    fn silent(&self, failure: &str) -> PyErr {
        EngineError::new_err(format!("engine {}: {failure}", self.operator.name()))
    }
}

#[pymethods]
impl EngineOperator {
    /// Connects to the engine of an existing cluster, or to begin one.
    #[new]
    #[pyo3(signature = (url, access, attempt_ms, begins = false))]
    fn new(py: Python<'_>, url: &str, access: EngineAccess, attempt_ms: u64, begins: bool) -> PyResult<EngineOperator> {
        let attempt = Duration::from_millis(attempt_ms);
        match engine_at(url, access)? {
            EngineAt::Etcd(mut config) => {
                // Nodes compact.
                (config.keep, config.timeout, config.lanes) = (None, attempt, 1);
                let connected = py.detach(|| {
                    if begins {
                        Operator::connect(EtcdEngine::open(config))
                    } else {
                        Operator::connect(EtcdEngine::attach(config))
                    }
                })?;
                match connected {
                    Ok(operator) => Ok(EngineOperator { operator }),
                    Err(error @ rota_etcd::OpenError::NoCluster(..)) => Err(not_found("cluster", error.to_string())),
                    Err(error) => Err(EngineError::new_err(error.to_string())),
                }
            }
            EngineAt::Postgres(mut config) => {
                (config.timeout, config.lanes) = (attempt, 1);
                match py.detach(|| Operator::connect(PostgresEngine::attach(config)))? {
                    Ok(operator) => Ok(EngineOperator { operator }),
                    Err(error @ rota_postgres::OpenError::NoCluster(..)) => {
                        Err(not_found("cluster", error.to_string()))
                    }
                    Err(error) => Err(EngineError::new_err(error.to_string())),
                }
            }
        }
    }

    /// Makes the tables that an engine needs, or upgrades them. Returns the engine without password, and what was done:
    /// `made`, `upgraded`, `unchanged` or `not needed`.
    #[staticmethod]
    fn prepare(py: Python<'_>, url: &str, access: EngineAccess, attempt_ms: u64) -> PyResult<(String, &'static str)> {
        let mut config = match engine_at(url, access)? {
            EngineAt::Etcd(config) => return Ok((config.name(), "not needed")),
            EngineAt::Postgres(config) => config,
        };
        config.timeout = Duration::from_millis(attempt_ms);
        let name = config.name();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        match py.detach(|| runtime.block_on(PostgresEngine::prepare(&config))) {
            Ok(Prepared::Made) => Ok((name, "made")),
            Ok(Prepared::Upgraded(_)) => Ok((name, "upgraded")),
            Ok(Prepared::Unchanged) => Ok((name, "unchanged")),
            Err(error @ PrepareError::Newer(_)) => Err(RotaError::new_err(format!("engine {name}: {error}"))),
            Err(error @ PrepareError::Failed(_)) => Err(EngineError::new_err(format!("engine {name}: {error}"))),
        }
    }

    /// Returns the engine without password.
    #[getter]
    fn name(&self) -> String {
        self.operator.name()
    }

    /// Returns the small keys at present.
    fn look<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let view = py.detach(|| self.operator.view()).map_err(|failure| self.silent(&failure))?;
        described(py, &view)
    }

    /// Returns the kind of engine.
    #[getter]
    fn kind(&self) -> &'static str {
        self.operator.kind()
    }

    /// Returns the members of the engine.
    fn members(&self, py: Python<'_>) -> Vec<MemberRow> {
        py.detach(|| self.operator.members()).iter().map(member).collect()
    }

    /// Returns alarms with the ids of members.
    fn alarms(&self, py: Python<'_>) -> PyResult<Vec<(u64, &'static str)>> {
        py.detach(|| self.operator.alarms()).map_err(|failure| self.silent(&failure))
    }

    /// Gives space back, and calls `tell` with each step.
    fn mend(&self, py: Python<'_>, tell: Py<PyAny>) -> PyResult<()> {
        let mut raised = None;
        let mended = py.detach(|| {
            self.operator.mend(|step| {
                if let Err(error) = Python::attach(|py| tell.call1(py, (step,))) {
                    raised = Some(error);
                }
            })
        });
        mended.map_err(|failure| self.silent(&failure))?;
        raised.map_or(Ok(()), Err)
    }

    /// Drains a node. Returns whether that changed something.
    fn drain(&self, py: Python<'_>, node: i32) -> PyResult<bool> {
        self.change(py, |view| operator::drain(view, NodeId(node)))
    }

    /// Undrains a node.
    fn undrain(&self, py: Python<'_>, node: i32) -> PyResult<bool> {
        self.change(py, |view| operator::undrain(view, NodeId(node)))
    }

    /// Places a partition of `__consumer_offsets` or `__transaction_state`.
    #[pyo3(signature = (partition, node, of_transactions = false))]
    fn pin(&self, py: Python<'_>, partition: i32, node: i32, of_transactions: bool) -> PyResult<bool> {
        self.change(py, |view| operator::pin(view, placed(partition, of_transactions), NodeId(node)))
    }

    /// Lets the planner place a partition.
    #[pyo3(signature = (partition, of_transactions = false))]
    fn unpin(&self, py: Python<'_>, partition: i32, of_transactions: bool) -> PyResult<bool> {
        self.change(py, |view| operator::unpin(view, placed(partition, of_transactions)))
    }

    /// Forgets a node.
    fn forget(&self, py: Python<'_>, node: i32) -> PyResult<bool> {
        self.change(py, |view| operator::forget(view, NodeId(node)))
    }

    /// Begins a new history. Returns the lost one and the new one.
    fn accept_loss(&self, py: Python<'_>) -> PyResult<(String, String)> {
        let begin = random::bytes::<16>().ok_or_else(|| PyOSError::new_err("no random numbers"))?;
        let begin = HistoryId(u128::from_be_bytes(begin));
        let lost = py.detach(|| self.operator.accept_loss(begin)).map_err(|error| self.failed(&error))?;
        Ok((format!("{:032x}", lost.0), format!("{:032x}", begin.0)))
    }

    /// Returns what a partition has: entries, their bytes, and the bytes of its snapshot.
    fn content(&self, py: Python<'_>, partition: i32) -> PyResult<(usize, usize, usize)> {
        let log =
            py.detach(|| self.operator.contents(PartitionId(partition))).map_err(|error| self.failed(&error))?.log;
        let entry_bytes = log.entries.values().map(|entry| entry.value.bytes.len()).sum();
        let snapshot_bytes = log.chunks.values().map(Vec::len).sum();
        Ok((log.entries.len(), entry_bytes, snapshot_bytes))
    }

    /// Returns all notes.
    fn notes(&self, py: Python<'_>) -> PyResult<BTreeMap<String, Vec<u8>>> {
        Ok(py.detach(|| self.operator.view()).map_err(|failure| self.silent(&failure))?.notes)
    }

    /// Changes notes: name, what is there, the new value.
    fn change_notes(&self, py: Python<'_>, changes: Vec<NoteChange>) -> PyResult<()> {
        py.detach(|| self.operator.change_notes(&changes)).map_err(|error| self.failed(&error))
    }

    /// Returns the epoch of a partition's owner, its batches, and epochs with their first offsets.
    #[expect(clippy::type_complexity, reason = "a tuple for Python")]
    fn export<'py>(&self, py: Python<'py>, partition: i32) -> PyResult<(i32, Bound<'py, PyBytes>, Vec<(i32, i64)>)> {
        let exported = py.detach(|| self.operator.export(PartitionId(partition)));
        let Exported { epoch, batches, epochs } = exported.map_err(|error| self.failed(&error))?;
        Ok((epoch, PyBytes::new(py, &batches), epochs))
    }

    /// Makes a partition of a data directory the content of a partition here, for the import that has written the marker.
    #[expect(clippy::too_many_arguments, reason = "Python passes them")]
    fn restore(
        &self,
        py: Python<'_>,
        log: &DataLog,
        topic: &str,
        source: i32,
        partition: i32,
        now_ms: i64,
        marker: &[u8],
    ) -> PyResult<()> {
        let process = process()?;
        let (upto, batches) = log.whole(py, topic, source)?;
        let partition = PartitionId(partition);
        let restored = py.detach(|| self.operator.restore(partition, process, upto, &batches, now_ms, marker));
        restored.map_err(|error| self.failed(&error))
    }

    /// Empties the partitions here from this one on, for the import that has written the marker.
    fn empty_from(&self, py: Python<'_>, partition: i32, now_ms: i64, marker: &[u8]) -> PyResult<()> {
        let (process, partition) = (process()?, PartitionId(partition));
        let emptied = py.detach(|| self.operator.empty_from(partition, process, now_ms, marker));
        emptied.map_err(|error| self.failed(&error))
    }
}

fn process() -> PyResult<Incarnation> {
    let bytes = random::bytes::<16>().ok_or_else(|| PyOSError::new_err("no random numbers"))?;
    Ok(Incarnation(u128::from_be_bytes(bytes)))
}

impl EngineOperator {
    fn change(
        &self,
        py: Python<'_>,
        decide: impl Fn(&View) -> Result<Vec<PutNote>, Refused> + Send + Sync,
    ) -> PyResult<bool> {
        let changes = py.detach(|| self.operator.change(decide)).map_err(|error| self.failed(&error))?;
        Ok(changes > 0)
    }
}

/// Adds the class to the module.
pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<EngineOperator>()
}
