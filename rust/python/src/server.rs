//! `rota._rota.Server`: a running server. Methods that wait for another thread release the GIL.

use std::{collections::BTreeMap, path::PathBuf, time::Duration};

use pyo3::{prelude::*, types::PyDict};
use rota_core::{State, consumer_group::group::GroupState, explain::GroupProtocol};
use rota_server::{
    FaultId, GroupDetails, InjectionId, JournalHealth, Listener, Message, NewMessage, OpenListener, PauseId,
    Server as Running, ServerConfig,
    trace::{self, Layout, Trace, TraceWriter},
};

use crate::{
    cluster,
    consumer_view::ConsumerView,
    explain::{Explanation, HeldRow, Summary, explanation, held_row, summary},
    metrics,
    projection::Projection,
    security,
    server_config::Config,
    server_error::raised,
    transactions::{Transaction, to_python},
};

/// Explanation of a group, its state, and client id and host of each member of a classic group.
type Look = (Explanation, Details, Vec<(String, String)>);

/// The state of a group, by its protocol.
#[derive(IntoPyObject)]
enum Details {
    Classic(Projection),
    Consumer(ConsumerView),
}

/// Partition, offset, timestamp, key, value and headers.
type MessageRow = (i32, i64, i64, Option<Vec<u8>>, Option<Vec<u8>>, Vec<(String, Option<Vec<u8>>)>);

/// Name, security protocol, whether only this machine reaches it, and id, host and port of each node.
type ListenerRow = (String, &'static str, bool, Vec<(i32, String, u16)>);

/// Why it stopped, refused partitions, syncs and their seconds, compactions, the last error of a compaction, why writes fail
/// now, the number of failed writes, the last reason.
type HealthRow = (Option<String>, Vec<String>, u64, f64, u64, Option<String>, Option<String>, u64, Option<String>);

/// Directory, entries, bytes, dropped entries, why writes fail.
type JournalRow = (PathBuf, u64, u64, u64, Option<String>);

/// Time that `stop` gives the server's threads.
const STOP_TIMEOUT: Duration = Duration::from_secs(10);

/// Time that it then gives the last lines of a trace.
const TRACE_TIMEOUT: Duration = Duration::from_secs(2);

/// Groups by protocol and state, number of members, members by time left, lags.
type GroupTotals = (BTreeMap<(&'static str, &'static str), u64>, u64, Vec<u32>, Vec<(String, String, i64)>);

/// A Kafka-compatible server with one thread per node.
#[pyclass(frozen, module = "rota._rota")]
struct Server {
    running: Running,
    writer: Option<TraceWriter>,
}

/// Creates a trace that calls `write` with each line, on its own thread.
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

impl Server {
    /// The server. Raises `ServerError` in a copy of its process.
    fn own(&self) -> PyResult<&Running> {
        self.running.check_process().map_err(raised)?;
        Ok(&self.running)
    }
}

#[pymethods]
impl Server {
    /// Starts a server. It answers requests when this returns.
    #[new]
    #[pyo3(signature = (config, trace = None))]
    fn new(py: Python<'_>, config: &Config, trace: Option<(Py<PyAny>, bool)>) -> PyResult<Server> {
        let (trace, writer) = trace.map(|(write, as_json)| tracing(write, as_json)).transpose()?.unzip();
        let config = ServerConfig { trace, ..config.config.clone() };
        let running = py.detach(|| Running::start(config)).map_err(raised)?;
        Ok(Server { running, writer })
    }

    /// Returns the cluster as this server sees it; `None`: the server is alone.
    fn cluster<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyDict>>> {
        let server = self.own()?;
        server.cluster().map(|cluster| cluster::described(py, cluster, server.is_ready())).transpose()
    }

    /// Returns the counts of the server's work with its engine; `None`: the server is alone.
    fn cluster_counts<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyDict>>> {
        self.own()?.cluster().map(|cluster| cluster::counted(py, cluster)).transpose()
    }

    /// Stops the server without giving its partitions up, as a killed process.
    fn kill(&self, py: Python<'_>) -> PyResult<()> {
        py.detach(|| self.running.kill(STOP_TIMEOUT)).map_err(raised)
    }

    /// The host at which this machine reaches the server.
    #[getter]
    fn host(&self) -> String {
        self.running.address().0
    }

    /// The port of the first node.
    #[getter]
    fn port(&self) -> u16 {
        self.running.address().1
    }

    /// Returns id, host and port of every node, as this machine reaches it.
    fn nodes(&self) -> Vec<(i32, String, u16)> {
        self.running.addresses()
    }

    /// Returns name, security protocol, whether only this machine reaches it, and id, host and port of the nodes, of every
    /// listener.
    fn listeners(&self) -> Vec<ListenerRow> {
        let row = |open: &OpenListener| {
            let Listener { name, protocol, .. } = &*open.listener;
            (name.clone(), protocol.name(), open.is_local(), open.addresses())
        };
        self.running.listeners().iter().map(row).collect()
    }

    /// Whether the first listener uses TLS.
    #[getter]
    fn has_tls(&self) -> bool {
        self.running.has_tls()
    }

    /// Whether clients of the first listener authenticate.
    #[getter]
    fn has_sasl(&self) -> bool {
        self.running.has_sasl()
    }

    /// Returns an advertised host that the server's certificate does not name.
    fn unnamed_host(&self) -> Option<&str> {
        self.running.unnamed_host()
    }

    /// Returns why connections were closed because of their security since the last call.
    fn take_refusals(&self) -> PyResult<Vec<String>> {
        Ok(self.own()?.take_refusals())
    }

    /// Reads certificate, key, client CAs and users from their files again.
    fn reload(&self, py: Python<'_>) -> PyResult<()> {
        let running = self.own()?;
        py.detach(|| running.reload()).map_err(raised)
    }

    /// Returns why files could not be read again; `None`: no files are read again.
    fn reload_errors(&self) -> PyResult<Option<Vec<String>>> {
        let reloader = self.own()?.reloader();
        Ok(reloader.has_files().then(|| reloader.errors()))
    }

    /// How often certificate, key and client CAs were read again.
    #[getter]
    fn tls_reads(&self) -> u64 {
        self.running.reloader().tls_reads()
    }

    /// Returns whether files were read again, and which or why not, for each time since the last call.
    fn take_reloads(&self) -> Vec<(bool, String)> {
        self.running.reloader().take_lines()
    }

    /// Replaces certificate, key and client CAs.
    fn set_tls(&self, chain: String, key: String, client_ca: Option<String>, client_auth: String) -> PyResult<()> {
        let files = security::tls_files((chain, key, client_ca, client_auth))?;
        self.own()?.set_tls(files).map_err(raised)
    }

    /// Replaces all users: passwords by name.
    fn set_users(&self, py: Python<'_>, passwords: BTreeMap<String, String>) -> PyResult<()> {
        let running = self.own()?;
        py.detach(|| running.set_users(security::users(passwords)?).map_err(raised))
    }

    /// Sets the keys of the issuer of tokens, a JSON web key set.
    fn set_keys(&self, text: &str) -> PyResult<()> {
        self.own()?.set_keys(security::keys(text)?);
        Ok(())
    }

    /// Takes the key set that was fetched from its URL, or why it was not.
    #[pyo3(signature = (text, failure = None))]
    fn take_keys(&self, text: Option<&str>, failure: Option<String>) {
        self.running.take_keys(text.ok_or_else(|| failure.unwrap_or_default()));
    }

    /// URL of the keys of tokens, and milliseconds between fetches, until the first retry, and at most until the next.
    fn key_fetching(&self) -> Option<(String, u64, u64, u64)> {
        let found = self.running.key_fetching()?;
        Some((found.url, found.refresh_ms, found.backoff_ms, found.backoff_max_ms))
    }

    /// Waits until a token is signed by an unknown key, at most this long; `None`: the server stops.
    fn wait_for_key_demand(&self, py: Python<'_>, timeout_ms: u64) -> Option<bool> {
        py.detach(|| self.running.wait_for_key_demand(Duration::from_millis(timeout_ms)))
    }

    /// The wall time of the server's clock, in milliseconds.
    #[getter]
    fn wall_ms(&self) -> i64 {
        self.running.wall_ms()
    }

    /// Returns the ACLs, a line each; `None`: without an authorizer.
    fn acls(&self) -> PyResult<Option<Vec<String>>> {
        let lines = |acls: Vec<_>| acls.iter().map(rota_server::acl::Binding::line).collect();
        Ok(self.own()?.acls().map(lines))
    }

    /// Replaces all ACLs.
    fn set_acls(&self, py: Python<'_>, lines: Vec<String>) -> PyResult<()> {
        let (running, bindings) = (self.own()?, security::bindings(&lines)?);
        Ok(py.detach(|| running.set_acls(bindings))?)
    }

    /// Returns what clients were refused since the last call.
    fn take_denials(&self) -> PyResult<Vec<String>> {
        Ok(self.own()?.take_denials())
    }

    /// Returns the partition of `__consumer_offsets` that owns a group.
    fn partition_of(&self, group_id: &str) -> u32 {
        self.running.partition_of(group_id)
    }

    /// Returns the id of the node that owns a partition of `__consumer_offsets`.
    fn owner(&self, partition: u32) -> PyResult<i32> {
        self.running.owner(partition).map_err(raised)
    }

    /// Hands a partition of `__consumer_offsets` to a node.
    fn move_partition(&self, py: Python<'_>, partition: u32, node_id: i32) -> PyResult<()> {
        py.detach(|| self.running.move_partition(partition, node_id)).map_err(raised)
    }

    /// Holds the loading of partitions that are handed over from now on.
    fn hold_loads(&self, py: Python<'_>) -> PyResult<()> {
        py.detach(|| self.running.hold_loads()).map_err(raised)
    }

    /// Resumes loading. Returns the number of held partitions.
    fn release_loads(&self, py: Python<'_>) -> PyResult<usize> {
        py.detach(|| self.running.release_loads()).map_err(raised)
    }

    /// Returns the coordinators' clock in monotonic milliseconds.
    #[getter]
    fn now_ms(&self, py: Python<'_>) -> PyResult<u64> {
        py.detach(|| self.running.now_ms()).map_err(raised)
    }

    /// Returns the number of open connections, and of requests that wait for their answer.
    fn load(&self, py: Python<'_>) -> PyResult<(usize, usize)> {
        py.detach(|| self.running.load()).map_err(raised)
    }

    /// Number of requests whose handler panicked.
    #[getter]
    fn panics(&self) -> u64 {
        self.running.panics()
    }

    /// How often clients have authenticated again on their connection.
    #[getter]
    fn reauthentications(&self) -> u64 {
        self.running.reauthentications()
    }

    /// Answers every waiting request, closes every connection and ends the threads. A second call does nothing.
    fn stop(&self, py: Python<'_>) -> PyResult<()> {
        py.detach(|| {
            let stopped = self.running.stop(STOP_TIMEOUT);
            self.writer.as_ref().inspect(|writer| writer.finish(TRACE_TIMEOUT));
            stopped
        })
        .map_err(raised)
    }

    /// Returns the report of a start on a data directory: findings, groups and offsets loaded, milliseconds, whether it
    /// is read-only.
    fn report(&self) -> Option<(Vec<String>, usize, usize, u64, bool)> {
        let report = self.running.report()?;
        let took_ms = report.took.as_millis() as u64;
        Some((report.lines.clone(), report.groups, report.offsets, took_ms, report.is_read_only))
    }

    /// Returns the health of a data directory.
    fn health(&self, py: Python<'_>) -> PyResult<Option<HealthRow>> {
        let running = self.own()?;
        let health = py.detach(|| running.health());
        Ok(health.map(|health| {
            (
                health.stopped,
                health.refused,
                health.syncs.count(),
                health.syncs.sum_seconds,
                health.compactions,
                health.compaction_error,
                health.failing,
                health.failures,
                health.last_failure,
            )
        }))
    }

    /// Returns the health of the journal.
    fn journal(&self) -> PyResult<Option<JournalRow>> {
        let row = |health: JournalHealth| (health.dir, health.entries, health.bytes, health.lost, health.error);
        Ok(self.own()?.journal().map(row))
    }

    /// Returns the value of every setting, by its Kafka name.
    fn settings(&self) -> BTreeMap<&'static str, String> {
        self.running.settings().into_iter().map(|(name, _, value)| (name, value)).collect()
    }

    /// Creates a topic.
    #[pyo3(signature = (name, partitions = 1))]
    fn create_topic(&self, py: Python<'_>, name: &str, partitions: i32) -> PyResult<()> {
        py.detach(|| self.running.create_topic(name, partitions)).map_err(raised)
    }

    /// Adds partitions to a topic. Returns its number of partitions.
    fn add_partitions(&self, py: Python<'_>, topic: &str, added: i32) -> PyResult<i32> {
        py.detach(|| self.running.add_partitions(topic, added)).map_err(raised)
    }

    /// Returns the topics with their numbers of partitions.
    fn topics(&self, py: Python<'_>) -> PyResult<BTreeMap<String, i32>> {
        py.detach(|| self.running.topics()).map_err(raised)
    }

    /// Deletes a topic.
    fn delete_topic(&self, py: Python<'_>, name: &str) -> PyResult<()> {
        py.detach(|| self.running.delete_topic(name)).map_err(raised)
    }

    /// Appends (key, value, headers) to a partition. Returns their offsets.
    fn produce(&self, py: Python<'_>, topic: &str, partition: i32, records: Vec<NewMessage>) -> PyResult<Vec<i64>> {
        py.detach(|| self.running.produce(topic, partition, records)).map_err(raised)
    }

    /// Returns (partition, offset, milliseconds since the Unix epoch, key, value, headers) of every message of a topic.
    fn messages(&self, py: Python<'_>, topic: &str) -> PyResult<Vec<MessageRow>> {
        let messages = py.detach(|| self.running.messages(topic)).map_err(raised)?;
        let row = |message: Message| {
            let Message { partition, offset, timestamp_ms, key, value, headers } = message;
            (partition, offset, timestamp_ms, key, value, headers)
        };
        Ok(messages.into_iter().map(row).collect())
    }

    /// Commits (topic, partition, offset) of a group without members.
    fn commit(&self, py: Python<'_>, group_id: &str, offsets: Vec<(String, i32, i64)>) -> PyResult<()> {
        py.detach(|| self.running.commit(group_id, offsets)).map_err(raised)
    }

    /// Waits until groups have changed since this returned `seen`, at most `timeout_ms`. Returns the value for the next
    /// call.
    fn wait_for_change(&self, py: Python<'_>, seen: u64, timeout_ms: u64) -> PyResult<u64> {
        let timeout = Duration::from_millis(timeout_ms);
        py.detach(|| self.running.wait_for_change(seen, timeout)).map_err(raised)
    }

    /// On a virtual clock, returns the members of a group whose client is disconnected or paused.
    fn silent_members(&self, py: Python<'_>, group_id: &str) -> PyResult<Vec<String>> {
        py.detach(|| self.running.silent_members(group_id)).map_err(raised)
    }

    /// Returns the ids of all groups, sorted.
    fn groups(&self, py: Python<'_>) -> PyResult<Vec<String>> {
        py.detach(|| self.running.groups()).map_err(raised)
    }

    /// Explains a group.
    fn explain(&self, py: Python<'_>, group_id: &str) -> PyResult<Explanation> {
        let (explained, now_ms) = py.detach(|| self.running.explain(group_id)).map_err(raised)?;
        Ok(explanation(group_id, now_ms, &explained))
    }

    /// Returns the state of a group at one moment; `None` if it does not exist.
    fn inspect_group(&self, py: Python<'_>, group_id: &str) -> PyResult<Option<Look>> {
        let (view, now_ms) = py.detach(|| self.running.inspect_group(group_id)).map_err(raised)?;
        Ok(view.map(|view| {
            let explained = explanation(group_id, now_ms, &view.explanation);
            match &view.details {
                GroupDetails::Classic(projection, clients) => {
                    let clients = clients.iter().map(|client| (client.id.to_string(), client.host.to_string()));
                    (explained, Details::Classic(projection.into()), clients.collect())
                }
                GroupDetails::Consumer(group) => (explained, Details::Consumer(group.into()), Vec::new()),
            }
        }))
    }

    /// Returns the open transactions that hold offsets of a group back, and the wall time in milliseconds.
    fn held_by(&self, py: Python<'_>, group_id: &str) -> PyResult<(Vec<HeldRow>, i64)> {
        let (held, now_ms) = py.detach(|| self.running.held_by(group_id)).map_err(raised)?;
        Ok((held.into_iter().map(held_row).collect(), now_ms))
    }

    /// Returns all transactional ids with their transactions, by id.
    fn transactions(&self, py: Python<'_>) -> PyResult<Vec<(String, Transaction)>> {
        let found = py.detach(|| self.running.transactions()).map_err(raised)?;
        Ok(found.into_iter().map(|(id, transaction)| (id, to_python(&transaction))).collect())
    }

    /// Returns the number of transactional ids by state, and the age of the oldest open transaction in milliseconds.
    fn transaction_totals(&self, py: Python<'_>) -> PyResult<(BTreeMap<&'static str, u64>, i64)> {
        let totals = py.detach(|| self.running.transaction_totals()).map_err(raised)?;
        let by_state = totals.by_state.into_iter().map(|(state, count)| (state.name(), count)).collect();
        Ok((by_state, totals.oldest_open_ms))
    }

    /// Returns summaries of these groups, by id, with at most `waits_max` waits each. Missing groups are left out.
    fn summaries(&self, py: Python<'_>, group_ids: Vec<String>, waits_max: usize) -> PyResult<Vec<Summary>> {
        let (summaries, now_ms) = py.detach(|| self.running.summaries(group_ids, waits_max)).map_err(raised)?;
        Ok(summaries.iter().map(|found| summary(now_ms, found)).collect())
    }

    /// Returns the next offset of partitions of topics; `None` for a missing partition.
    fn log_ends(&self, py: Python<'_>, partitions: Vec<(String, i32)>) -> PyResult<Vec<Option<i64>>> {
        py.detach(|| self.running.log_ends(partitions)).map_err(raised)
    }

    /// Returns totals of all groups: groups by protocol and state, members, members by tenths of their session left, and lag by
    /// group and topic.
    fn group_totals(&self, py: Python<'_>) -> PyResult<GroupTotals> {
        let totals = py.detach(|| self.running.group_totals()).map_err(raised)?;
        let named = |protocol: GroupProtocol| move |(state, count)| ((protocol.name(), state), count);
        let classic = State::ALL.map(State::name).into_iter().zip(totals.states).map(named(GroupProtocol::Classic));
        let consumer = GroupState::ALL.map(GroupState::name).into_iter().zip(totals.consumer_states);
        let states = classic.chain(consumer.map(named(GroupProtocol::Consumer))).collect();
        Ok((states, totals.members, totals.slack.to_vec(), totals.lags))
    }

    /// Returns counts since the start, by name: numbers by label, and durations by bucket with their sum.
    fn metrics<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let metrics = py.detach(|| self.running.metrics()).map_err(raised)?;
        metrics::counted(py, &metrics)
    }

    /// Returns the partitions of `__consumer_offsets` that are being loaded.
    fn loading(&self, py: Python<'_>) -> PyResult<Vec<u32>> {
        py.detach(|| self.running.loading()).map_err(raised)
    }

    /// Moves a virtual clock by `ms` and returns its time. Members in `expire` may expire although their clients are
    /// connected.
    #[pyo3(signature = (ms, expire = Vec::new()))]
    fn advance(&self, py: Python<'_>, ms: u64, expire: Vec<String>) -> PyResult<u64> {
        py.detach(|| self.running.advance(ms, expire)).map_err(raised)
    }

    /// Returns the ids of all members of all groups.
    fn member_ids(&self, py: Python<'_>) -> PyResult<Vec<String>> {
        let ids = py.detach(|| self.running.member_ids()).map_err(raised)?;
        Ok(ids.iter().map(ToString::to_string).collect())
    }

    /// Returns (group, member id, instance id) of the members of a group, in joining order, or of all groups.
    #[pyo3(signature = (group_id = None))]
    fn members(&self, py: Python<'_>, group_id: Option<&str>) -> PyResult<Vec<(String, String, Option<String>)>> {
        let members = py.detach(|| self.running.members(group_id)).map_err(raised)?;
        Ok(members.into_iter().map(|member| (member.group_id, member.member_id, member.instance_id)).collect())
    }

    /// Expires a member, by its id, or with its group by its instance id.
    #[pyo3(signature = (member, group_id = None))]
    fn expire(&self, py: Python<'_>, member: &str, group_id: Option<&str>) -> PyResult<()> {
        py.detach(|| self.running.expire(member, group_id)).map_err(raised)
    }

    /// Begins a rebalance of a group.
    fn rebalance(&self, py: Python<'_>, group_id: &str) -> PyResult<()> {
        py.detach(|| self.running.rebalance(group_id)).map_err(raised)
    }

    /// Injects an error into the next `times` answers of an API. Returns the id of the injection.
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

    /// Returns how many requests got the error of an injection, and how many still will.
    fn injection(&self, injection: u64) -> (u32, u32) {
        self.running.injection(InjectionId(injection))
    }

    /// Cancels an injection.
    fn cancel_injection(&self, injection: u64) {
        self.running.cancel_injection(InjectionId(injection));
    }

    /// Delays answers from now on. Returns the id of the fault.
    #[pyo3(signature = (ms, api = None, node_id = None))]
    fn delay_answers(&self, py: Python<'_>, ms: u64, api: Option<&str>, node_id: Option<i32>) -> PyResult<u64> {
        let delay = Duration::from_millis(ms);
        py.detach(|| self.running.delay_answers(delay, api, node_id)).map(|id| id.0).map_err(raised)
    }

    /// Closes the connections of the next `times` requests instead of answering. Returns the id of the fault.
    #[pyo3(signature = (api = None, times = 1, node_id = None))]
    fn drop_answers(&self, py: Python<'_>, api: Option<&str>, times: u32, node_id: Option<i32>) -> PyResult<u64> {
        py.detach(|| self.running.drop_answers(api, times, node_id)).map(|id| id.0).map_err(raised)
    }

    /// Returns how many requests a network fault has affected, and how many it still will; `None`: without limit.
    fn fault(&self, fault: u64) -> (u32, Option<u32>) {
        self.running.fault(FaultId(fault))
    }

    /// Ends a network fault.
    fn end_fault(&self, py: Python<'_>, fault: u64) -> PyResult<()> {
        py.detach(|| self.running.end_fault(FaultId(fault))).map_err(raised)
    }

    /// Closes all connections, or those of one node. Returns their number.
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

    /// Returns the ids of the nodes that are down.
    fn down_nodes(&self) -> Vec<i32> {
        self.running.down_nodes()
    }

    /// Ends all faults, pauses and holds of a test.
    fn reset(&self, py: Python<'_>) -> PyResult<()> {
        py.detach(|| self.running.reset()).map_err(raised)
    }

    /// Returns the number of answers with injected errors.
    fn injected(&self) -> u64 {
        self.running.injected()
    }

    /// Pauses a member, by its id, or with its group by its instance id. Returns (group, member id, pause).
    #[pyo3(signature = (member, group_id = None))]
    fn pause(&self, py: Python<'_>, member: &str, group_id: Option<&str>) -> PyResult<(String, String, u64)> {
        let (paused, id) = py.detach(|| self.running.pause(member, group_id)).map_err(raised)?;
        Ok((paused.group_id, paused.member_id, id.0))
    }

    /// Ends a pause, unless it has ended. After the last one of a member, its requests are handled again.
    fn resume(&self, py: Python<'_>, pause: u64) -> PyResult<()> {
        py.detach(|| self.running.resume(PauseId(pause))).map_err(raised)
    }

    /// Delays completions of appends by `ms` milliseconds from now on.
    fn delay_appends(&self, py: Python<'_>, ms: u64) -> PyResult<()> {
        py.detach(|| self.running.delay_appends(ms)).map_err(raised)
    }

    /// Aborts the open transaction of an id.
    fn abort_transaction(&self, py: Python<'_>, transactional_id: &str) -> PyResult<()> {
        py.detach(|| self.running.abort_transaction(transactional_id)).map_err(raised)
    }

    /// Fences the producer of an id. `false`: a transaction is being ended; try again.
    fn fence_producer(&self, py: Python<'_>, transactional_id: &str) -> PyResult<bool> {
        py.detach(|| self.running.fence_producer(transactional_id)).map_err(raised)
    }

    /// Keeps markers of transactions from their partitions.
    fn hold_markers(&self, py: Python<'_>) -> PyResult<()> {
        py.detach(|| self.running.hold_markers()).map_err(raised)
    }

    /// Writes held markers, and holds no more. Returns their number.
    fn release_markers(&self, py: Python<'_>) -> PyResult<usize> {
        py.detach(|| self.running.release_markers()).map_err(raised)
    }

    /// Holds completions of appends to `__consumer_offsets` from now on.
    fn hold_appends(&self, py: Python<'_>) -> PyResult<()> {
        py.detach(|| self.running.hold_appends()).map_err(raised)
    }

    /// Releases held appends. Returns their number.
    fn release_appends(&self, py: Python<'_>) -> PyResult<usize> {
        py.detach(|| self.running.release_appends()).map_err(raised)
    }

    /// Stores the next `times` appends, but reports them as failed with the Kafka error of this name.
    #[pyo3(signature = (error, times = 1))]
    fn lose_append_answers(&self, py: Python<'_>, error: &str, times: u32) -> PyResult<()> {
        py.detach(|| self.running.lose_append_answers(error, times)).map_err(raised)
    }

    /// Stores each of the next `times` appends twice.
    #[pyo3(signature = (times = 1))]
    fn duplicate_appends(&self, py: Python<'_>, times: u32) -> PyResult<()> {
        py.detach(|| self.running.duplicate_appends(times)).map_err(raised)
    }

    /// Fences each of the next `times` appends on its way.
    #[pyo3(signature = (times = 1))]
    fn fence_appends(&self, py: Python<'_>, times: u32) -> PyResult<()> {
        py.detach(|| self.running.fence_appends(times)).map_err(raised)
    }

    /// Keeps the logs of partitions that are handed over from opening.
    fn hold_opens(&self, py: Python<'_>) -> PyResult<()> {
        py.detach(|| self.running.hold_opens()).map_err(raised)
    }

    /// Opens the held logs, and holds no more. Returns how many they were.
    fn release_opens(&self, py: Python<'_>) -> PyResult<usize> {
        py.detach(|| self.running.release_opens()).map_err(raised)
    }

    /// Fails the next `times` appends with the Kafka error of this name.
    #[pyo3(signature = (error, times = 1))]
    fn fail_appends(&self, py: Python<'_>, error: &str, times: u32) -> PyResult<()> {
        py.detach(|| self.running.fail_appends(error, times)).map_err(raised)
    }
}

/// Adds the class to the module.
pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<Config>()?;
    module.add_class::<Server>()
}
