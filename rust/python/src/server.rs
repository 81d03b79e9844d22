//! `rota._rota.Server`: a running server, from the outside. The GIL is released wherever another thread is awaited.

use std::{collections::BTreeMap, path::PathBuf, time::Duration};

use pyo3::{
    exceptions::{PyOSError, PyValueError},
    prelude::*,
    types::PyDict,
};
use rota_core::State;
use rota_log::BOUNDS_SECONDS;
use rota_server::{
    DataConfig, Durability, FaultId, InjectionId, JournalConfig, KeyValue, Message, Server as Running, ServerConfig,
    ServerError, Settings, Tally,
    trace::{self, Layout, Trace, TraceWriter},
};

use crate::{
    errors,
    explain::{Explanation, Summary, explanation, summary},
    projection::Projection,
};

/// What a group is doing, its state, and of each member its client id and host.
type Look = (Explanation, Projection, Vec<(String, String)>);

/// Partition, offset, timestamp, key and value.
type MessageRow = (i32, i64, i64, Option<Vec<u8>>, Option<Vec<u8>>);

/// How long `stop` waits for the server's threads.
const STOP_TIMEOUT: Duration = Duration::from_secs(10);

/// How long it then waits for the last lines of a trace to be written.
const TRACE_TIMEOUT: Duration = Duration::from_secs(2);

/// Groups by state, members, slack, lags.
type Census = (BTreeMap<&'static str, u64>, u64, Vec<u32>, Vec<(String, String, i64)>);

/// A server's counts as a dictionary.
fn counted<'py>(py: Python<'py>, tally: &Tally) -> PyResult<Bound<'py, PyDict>> {
    let counts = PyDict::new(py);
    counts.set_item("bounds", BOUNDS_SECONDS)?;
    counts.set_item("rebalances", &tally.rebalances)?;
    counts.set_item("expiries", &tally.expiries)?;
    counts.set_item("refusals", &tally.refusals)?;
    counts.set_item("commits", tally.commits)?;
    counts.set_item("failed_appends", tally.failed_appends)?;
    let histograms = [
        ("join_phases", &tally.join_phases),
        ("sync_phases", &tally.sync_phases),
        ("joins", &tally.joins),
        ("syncs", &tally.syncs),
        ("appends", &tally.appends),
        ("fsyncs", &tally.fsyncs),
    ];
    for (name, histogram) in histograms {
        counts.set_item(name, (histogram.counts, histogram.sum_seconds))?;
    }
    Ok(counts)
}

fn raised(error: ServerError) -> PyErr {
    let text = error.to_string();
    match error {
        ServerError::Setting(_) => errors::ConfigError::new_err(text),
        ServerError::BadAddress { .. }
        | ServerError::BadJournal(_)
        | ServerError::BadNodes { .. }
        | ServerError::TooFewPorts { .. }
        | ServerError::UnknownErrorName { .. }
        | ServerError::UnknownApiName { .. }
        | ServerError::UnknownServedApi { .. }
        | ServerError::InstanceWithoutGroup { .. } => PyValueError::new_err(text),
        ServerError::UnknownGroup { .. } => errors::not_found("group", text),
        ServerError::UnknownMember { .. } => errors::not_found("member", text),
        ServerError::UnknownNode { .. } => errors::not_found("node", text),
        ServerError::UnknownTopic { .. } => errors::not_found("topic", text),
        ServerError::UnknownPartition { .. } | ServerError::UnknownTopicPartition { .. } => {
            errors::not_found("partition", text)
        }
        ServerError::UnknownHost { .. }
        | ServerError::AddressInUse { .. }
        | ServerError::CannotListen { .. }
        | ServerError::CannotOpen(_)
        | ServerError::BadData { .. } => PyOSError::new_err(text),
        ServerError::TopicRefused { .. }
        | ServerError::NodeIsDown { .. }
        | ServerError::NotGrown { .. }
        | ServerError::NotProduced { .. }
        | ServerError::Unreadable { .. }
        | ServerError::NotDone { .. } => errors::RotaError::new_err(text),
        ServerError::CannotRun { .. }
        | ServerError::Stopped
        | ServerError::Died
        | ServerError::StopTimedOut { .. }
        | ServerError::LoadFailed { .. }
        | ServerError::ClockIsReal => errors::ServerError::new_err(text),
    }
}

/// A Kafka-compatible server, each of its nodes on a thread of its own.
#[pyclass(frozen, module = "rota._rota")]
struct Server {
    running: Running,
    writer: Option<TraceWriter>,
}

/// A trace whose lines `write` is called with, on a thread of its own.
fn tracing(write: Py<PyAny>, as_json: bool) -> PyResult<(Trace, TraceWriter)> {
    let layout = if as_json { Layout::Json } else { Layout::Text };
    let lines = move |line: &str| {
        Python::attach(|py| {
            if let Err(error) = write.call1(py, (line,)) {
                error.write_unraisable(py, Some(write.bind(py)));
            }
        });
    };
    Ok(trace::begin(layout, lines)?)
}

#[pymethods]
impl Server {
    /// Starts it; it answers requests when this returns.
    #[new]
    #[pyo3(signature = (
        listen = "127.0.0.1:0", advertise = None, settings = None, virtual_clock = false, nodes = 1, trace = None,
        data = None, journal = None
    ))]
    #[expect(clippy::too_many_arguments, reason = "Python passes them by name")]
    fn new(
        py: Python<'_>,
        listen: &str,
        advertise: Option<String>,
        settings: Option<BTreeMap<String, String>>,
        virtual_clock: bool,
        nodes: u32,
        trace: Option<(Py<PyAny>, bool)>,
        data: Option<(PathBuf, bool, bool)>,
        journal: Option<(Option<PathBuf>, Option<u64>, Option<u64>)>,
    ) -> PyResult<Server> {
        let mut chosen = Settings::default();
        for (name, value) in settings.unwrap_or_default() {
            chosen.set(&name, &value).map_err(|error| raised(error.into()))?;
        }
        let (trace, writer) = trace.map(|(write, as_json)| tracing(write, as_json)).transpose()?.unzip();
        let data = data.map(|(dir, syncs, take_over)| {
            let durability = if syncs { Durability::Fsync } else { Durability::Os };
            DataConfig { durability, take_over, ..DataConfig::at(dir) }
        });
        let journal =
            journal.map(|(dir, retention_bytes, retention_ms)| JournalConfig { dir, retention_bytes, retention_ms });
        let listen = listen.to_owned();
        let config = ServerConfig { listen, advertise, nodes, settings: chosen, virtual_clock, trace, data, journal };
        let running = py.detach(|| Running::start(config)).map_err(raised)?;
        Ok(Server { running, writer })
    }

    /// The host at which this machine reaches it.
    #[getter]
    fn host(&self) -> String {
        self.running.address().0
    }

    /// The port on which its first node listens.
    #[getter]
    fn port(&self) -> u16 {
        self.running.address().1
    }

    /// Of every node its id, and the host and port at which this machine reaches it.
    fn nodes(&self) -> Vec<(i32, String, u16)> {
        self.running.addresses()
    }

    /// The partition of `__consumer_offsets` in which a group is.
    fn partition_of(&self, group_id: &str) -> u32 {
        self.running.partition_of(group_id)
    }

    /// The id of the node that owns a partition of `__consumer_offsets`.
    fn owner(&self, partition: u32) -> PyResult<i32> {
        self.running.owner(partition).map_err(raised)
    }

    /// Hands a partition of `__consumer_offsets` to a node.
    fn move_partition(&self, py: Python<'_>, partition: u32, node_id: i32) -> PyResult<()> {
        py.detach(|| self.running.move_partition(partition, node_id)).map_err(raised)
    }

    /// From now on a partition that is handed over is not loaded.
    fn hold_loads(&self, py: Python<'_>) -> PyResult<()> {
        py.detach(|| self.running.hold_loads()).map_err(raised)
    }

    /// Partitions are loaded again; gives how many were held.
    fn release_loads(&self, py: Python<'_>) -> PyResult<usize> {
        py.detach(|| self.running.release_loads()).map_err(raised)
    }

    /// Milliseconds on its coordinators' monotonic clock.
    #[getter]
    fn now_ms(&self, py: Python<'_>) -> PyResult<u64> {
        py.detach(|| self.running.now_ms()).map_err(raised)
    }

    /// Open connections, and requests that wait for their answer.
    fn load(&self, py: Python<'_>) -> PyResult<(usize, usize)> {
        py.detach(|| self.running.load()).map_err(raised)
    }

    /// Requests that have made their handler panic.
    #[getter]
    fn panics(&self) -> u64 {
        self.running.panics()
    }

    /// Answers every request that waits, closes every connection, ends the threads. A second call does nothing.
    fn stop(&self, py: Python<'_>) -> PyResult<()> {
        py.detach(|| {
            let stopped = self.running.stop(STOP_TIMEOUT);
            self.writer.as_ref().inspect(|writer| writer.finish(TRACE_TIMEOUT));
            stopped
        })
        .map_err(raised)
    }

    /// Of a data directory: what the start found, groups and offsets loaded, milliseconds, whether it is only read.
    fn report(&self) -> Option<(Vec<String>, usize, usize, u64, bool)> {
        let report = self.running.report()?;
        let took_ms = report.took.as_millis() as u64;
        Some((report.lines.clone(), report.groups, report.offsets, took_ms, report.is_read_only))
    }

    /// Of a data directory: why it stopped, which partitions are refused, syncs and the seconds that those took,
    /// compactions, the last one's error, why writes fail now, how many have failed, why the last of them did.
    #[expect(clippy::type_complexity, reason = "a row of plain values")]
    fn health(
        &self,
        py: Python<'_>,
    ) -> Option<(Option<String>, Vec<String>, u64, f64, u64, Option<String>, Option<String>, u64, Option<String>)> {
        let health = py.detach(|| self.running.health())?;
        Some((
            health.stopped,
            health.refused,
            health.syncs.count(),
            health.syncs.sum_seconds,
            health.compactions,
            health.compaction_error,
            health.failing,
            health.failures,
            health.last_failure,
        ))
    }

    /// Of the journal: its directory, entries, their bytes, entries dropped, why the disk does not take it.
    fn journal(&self) -> Option<(PathBuf, u64, u64, u64, Option<String>)> {
        let health = self.running.journal()?;
        Some((health.dir, health.entries, health.bytes, health.lost, health.error))
    }

    /// The value of every setting, by its Kafka name.
    fn settings(&self) -> BTreeMap<&'static str, String> {
        self.running.settings().into_iter().map(|(name, _, value)| (name, value)).collect()
    }

    /// Creates a topic.
    #[pyo3(signature = (name, partitions = 1))]
    fn create_topic(&self, py: Python<'_>, name: &str, partitions: i32) -> PyResult<()> {
        py.detach(|| self.running.create_topic(name, partitions)).map_err(raised)
    }

    /// Adds partitions to a topic; how many it has then.
    fn add_partitions(&self, py: Python<'_>, topic: &str, added: i32) -> PyResult<i32> {
        py.detach(|| self.running.add_partitions(topic, added)).map_err(raised)
    }

    /// Appends (key, value)s to a partition; their offsets.
    fn produce(&self, py: Python<'_>, topic: &str, partition: i32, records: Vec<KeyValue>) -> PyResult<Vec<i64>> {
        py.detach(|| self.running.produce(topic, partition, records)).map_err(raised)
    }

    /// (partition, offset, milliseconds since the Unix epoch, key, value) of every message of a topic.
    fn messages(&self, py: Python<'_>, topic: &str) -> PyResult<Vec<MessageRow>> {
        let messages = py.detach(|| self.running.messages(topic)).map_err(raised)?;
        let row =
            |message: Message| (message.partition, message.offset, message.timestamp_ms, message.key, message.value);
        Ok(messages.into_iter().map(row).collect())
    }

    /// Waits until groups have changed since this returned `seen`, at most `timeout_ms`; what to pass next.
    fn wait_for_change(&self, py: Python<'_>, seen: u64, timeout_ms: u64) -> PyResult<u64> {
        let timeout = Duration::from_millis(timeout_ms);
        py.detach(|| self.running.wait_for_change(seen, timeout)).map_err(raised)
    }

    /// On a virtual clock, the members of a group whose client is gone or paused.
    fn silent_members(&self, py: Python<'_>, group_id: &str) -> PyResult<Vec<String>> {
        py.detach(|| self.running.silent_members(group_id)).map_err(raised)
    }

    /// Ids of all groups, sorted.
    fn groups(&self, py: Python<'_>) -> PyResult<Vec<String>> {
        py.detach(|| self.running.groups()).map_err(raised)
    }

    /// What a group is doing and why.
    fn explain(&self, py: Python<'_>, group_id: &str) -> PyResult<Explanation> {
        let (explained, now_ms) = py.detach(|| self.running.explain(group_id)).map_err(raised)?;
        Ok(explanation(group_id, now_ms, &explained))
    }

    /// Everything about a group as of one moment; `None` if there is no such group.
    fn look(&self, py: Python<'_>, group_id: &str) -> PyResult<Option<Look>> {
        let (sight, now_ms) = py.detach(|| self.running.look(group_id)).map_err(raised)?;
        Ok(sight.map(|sight| {
            let clients = sight.clients.iter().map(|client| (client.id.to_string(), client.host.to_string()));
            (explanation(group_id, now_ms, &sight.explanation), Projection::from(&sight.projection), clients.collect())
        }))
    }

    /// These groups in a few figures each, by id, with at most `waits_max` waits; one that is not there is left out.
    fn summaries(&self, py: Python<'_>, group_ids: Vec<String>, waits_max: usize) -> PyResult<Vec<Summary>> {
        let (summaries, now_ms) = py.detach(|| self.running.summaries(group_ids, waits_max)).map_err(raised)?;
        Ok(summaries.iter().map(|found| summary(now_ms, found)).collect())
    }

    /// Where partitions of topics end, `None` of one that does not exist.
    fn log_ends(&self, py: Python<'_>, partitions: Vec<(String, i32)>) -> PyResult<Vec<Option<i64>>> {
        py.detach(|| self.running.log_ends(partitions)).map_err(raised)
    }

    /// All groups together: how many are in each state, how many members there are, the tenths of their sessions that
    /// they have left, and the lag by group and topic.
    fn census(&self, py: Python<'_>) -> PyResult<Census> {
        let census = py.detach(|| self.running.census()).map_err(raised)?;
        let states = State::ALL.iter().zip(census.states).map(|(state, count)| (state.name(), count)).collect();
        Ok((states, census.members, census.slack.to_vec(), census.lags))
    }

    /// What was counted since the start, by name: numbers by label, and durations by bucket with their sum.
    fn tally<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let tally = py.detach(|| self.running.tally()).map_err(raised)?;
        counted(py, &tally)
    }

    /// The partitions of `__consumer_offsets` that are being loaded.
    fn loading(&self, py: Python<'_>) -> PyResult<Vec<u32>> {
        py.detach(|| self.running.loading()).map_err(raised)
    }

    /// Moves a virtual clock by `ms`; gives where it stands then. `expire` names members that lapse although their
    /// clients are connected.
    #[pyo3(signature = (ms, expire = Vec::new()))]
    fn advance(&self, py: Python<'_>, ms: u64, expire: Vec<String>) -> PyResult<u64> {
        py.detach(|| self.running.advance(ms, expire)).map_err(raised)
    }

    /// Ids of all members of all groups.
    fn member_ids(&self, py: Python<'_>) -> PyResult<Vec<String>> {
        let ids = py.detach(|| self.running.member_ids()).map_err(raised)?;
        Ok(ids.iter().map(ToString::to_string).collect())
    }

    /// (group, member id, instance id) of the members of a group, in joining order, or of all groups.
    #[pyo3(signature = (group_id = None))]
    fn members(&self, py: Python<'_>, group_id: Option<&str>) -> PyResult<Vec<(String, String, Option<String>)>> {
        let members = py.detach(|| self.running.members(group_id)).map_err(raised)?;
        Ok(members.into_iter().map(|member| (member.group_id, member.member_id, member.instance_id)).collect())
    }

    /// Ends the session of a member, by its id, or with its group by its instance id.
    #[pyo3(signature = (member, group_id = None))]
    fn expire(&self, py: Python<'_>, member: &str, group_id: Option<&str>) -> PyResult<()> {
        py.detach(|| self.running.expire(member, group_id)).map_err(raised)
    }

    /// Begins a rebalance of a group.
    fn rebalance(&self, py: Python<'_>, group_id: &str) -> PyResult<()> {
        py.detach(|| self.running.rebalance(group_id)).map_err(raised)
    }

    /// Lets the next `times` requests of an API be answered with an error; gives the number of this injection.
    #[pyo3(signature = (api, error, times = 1, group_id = None))]
    fn inject_error(
        &self,
        py: Python<'_>,
        api: &str,
        error: &str,
        times: u32,
        group_id: Option<&str>,
    ) -> PyResult<u64> {
        py.detach(|| self.running.inject_error(api, error, times, group_id)).map(|id| id.0).map_err(raised)
    }

    /// Of an injection how many requests have been answered with it, and how many are still to be.
    fn injection(&self, injection: u64) -> (u32, u32) {
        self.running.injection(InjectionId(injection))
    }

    /// Answers no more requests with it.
    fn cancel_injection(&self, injection: u64) {
        self.running.cancel_injection(InjectionId(injection));
    }

    /// From now on answers are written so much later; gives the number of this fault.
    #[pyo3(signature = (ms, api = None, node_id = None))]
    fn delay_answers(&self, py: Python<'_>, ms: u64, api: Option<&str>, node_id: Option<i32>) -> PyResult<u64> {
        let delay = Duration::from_millis(ms);
        py.detach(|| self.running.delay_answers(delay, api, node_id)).map(|id| id.0).map_err(raised)
    }

    /// The next `times` requests have their connections closed instead of an answer; gives the number of this fault.
    #[pyo3(signature = (api = None, times = 1, node_id = None))]
    fn drop_answers(&self, py: Python<'_>, api: Option<&str>, times: u32, node_id: Option<i32>) -> PyResult<u64> {
        py.detach(|| self.running.drop_answers(api, times, node_id)).map(|id| id.0).map_err(raised)
    }

    /// Of a network fault how many requests it has concerned, and how many it is still to, `None` without a limit.
    fn fault(&self, fault: u64) -> (u32, Option<u32>) {
        self.running.fault(FaultId(fault))
    }

    /// Ends a network fault.
    fn end_fault(&self, py: Python<'_>, fault: u64) -> PyResult<()> {
        py.detach(|| self.running.end_fault(FaultId(fault))).map_err(raised)
    }

    /// Closes all connections, or those of one node; how many those are.
    #[pyo3(signature = (node_id = None))]
    fn drop_connections(&self, py: Python<'_>, node_id: Option<i32>) -> PyResult<usize> {
        py.detach(|| self.running.drop_connections(node_id)).map_err(raised)
    }

    /// Takes a node down.
    fn stop_node(&self, py: Python<'_>, node_id: i32) -> PyResult<()> {
        py.detach(|| self.running.stop_node(node_id)).map_err(raised)
    }

    /// Brings a node back.
    fn start_node(&self, py: Python<'_>, node_id: i32) -> PyResult<()> {
        py.detach(|| self.running.start_node(node_id)).map_err(raised)
    }

    /// The ids of the nodes that are down.
    fn down_nodes(&self) -> Vec<i32> {
        self.running.down_nodes()
    }

    /// Ends everything that a test has asked for.
    fn reset(&self, py: Python<'_>) -> PyResult<()> {
        py.detach(|| self.running.reset()).map_err(raised)
    }

    /// How many requests have been answered with injected errors.
    fn injected(&self) -> u64 {
        self.running.injected()
    }

    /// Stops listening to a member, by its id, or with its group by its instance id; gives (group, member id).
    #[pyo3(signature = (member, group_id = None))]
    fn pause(&self, py: Python<'_>, member: &str, group_id: Option<&str>) -> PyResult<(String, String)> {
        let paused = py.detach(|| self.running.pause(member, group_id)).map_err(raised)?;
        Ok((paused.group_id, paused.member_id))
    }

    /// Ends one pause of a member; with the last one it is listened to again.
    fn resume(&self, py: Python<'_>, group_id: &str, member_id: &str) -> PyResult<()> {
        py.detach(|| self.running.resume(group_id, member_id)).map_err(raised)
    }

    /// From now on the ends of appends are told so many milliseconds late.
    fn delay_appends(&self, py: Python<'_>, ms: u64) -> PyResult<()> {
        py.detach(|| self.running.delay_appends(ms)).map_err(raised)
    }

    /// From now on no append to `__consumer_offsets` ends.
    fn hold_appends(&self, py: Python<'_>) -> PyResult<()> {
        py.detach(|| self.running.hold_appends()).map_err(raised)
    }

    /// Appends end again, those that were held first; gives how many those are.
    fn release_appends(&self, py: Python<'_>) -> PyResult<usize> {
        py.detach(|| self.running.release_appends()).map_err(raised)
    }

    /// The next `times` appends are stored, and reported as failed with the Kafka error of this name.
    #[pyo3(signature = (error, times = 1))]
    fn lose_append_answers(&self, py: Python<'_>, error: &str, times: u32) -> PyResult<()> {
        py.detach(|| self.running.lose_append_answers(error, times)).map_err(raised)
    }

    /// The next `times` appends fail with the Kafka error of this name.
    #[pyo3(signature = (error, times = 1))]
    fn fail_appends(&self, py: Python<'_>, error: &str, times: u32) -> PyResult<()> {
        py.detach(|| self.running.fail_appends(error, times)).map_err(raised)
    }
}

/// Adds the class to the module.
pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<Server>()
}
