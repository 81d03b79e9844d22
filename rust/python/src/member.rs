//! The member's side of a group. What it says and hears are the messages' own fields, by the protocol's names, as dicts;
//! effects are tuples that begin with their name. `rota/member.py` gives them their classes.

use std::{collections::BTreeMap, sync::Arc};

use pyo3::{
    exceptions::{PyKeyError, PyValueError},
    prelude::*,
    types::{PyBytes, PyDict, PyList, PyTuple},
};
use rota_assign::Assignor;
use rota_core::ErrorCode;
use rota_member::{
    Answer, CommitId, Config, Effect, Event, Failure, Member, Node, Notice, Offset, Partition, Request, RequestId,
    Strategy, Subscription, To, TopicMetadata, event::Joined,
};

use crate::errors::Code;

type PyPartition = (String, i32);
/// Offset, leader epoch, metadata.
type PyOffset = (i64, i32, String);

/// The machine behind `rota.Member`.
#[pyclass(module = "rota._rota")]
pub struct MemberMachine {
    member: Member,
}

fn strategy(given: &Bound<'_, PyAny>) -> PyResult<Strategy> {
    if let Ok((name, cooperative)) = given.extract::<(String, bool)>() {
        return Ok(Strategy::Own { name, cooperative });
    }
    let name: String = given.extract()?;
    let found = Assignor::named(&name);
    found.map(Strategy::BuiltIn).ok_or_else(|| {
        let names: Vec<&str> =
            Assignor::ALL.iter().filter(|one| !one.is_servers()).map(|assignor| assignor.name()).collect();
        PyValueError::new_err(format!("no strategy is called {name:?}: there are {}", names.join(", ")))
    })
}

fn partitions(given: Vec<PyPartition>) -> Vec<Partition> {
    given.into_iter().map(|(topic, index)| Partition::new(topic, index)).collect()
}

fn offset((offset, leader_epoch, metadata): PyOffset) -> Offset {
    Offset { offset, leader_epoch, metadata }
}

impl MemberMachine {
    fn handle<'py>(&mut self, py: Python<'py>, now_ms: u64, event: Event) -> PyResult<Bound<'py, PyList>> {
        let mut effects = Vec::new();
        self.member.handle(now_ms, event, &mut effects);
        let list = PyList::empty(py);
        for effect in &effects {
            list.append(effect_to_python(py, effect)?)?;
        }
        Ok(list)
    }
}

#[pymethods]
impl MemberMachine {
    #[new]
    #[pyo3(signature = (group_id, *, strategies, instance_id, rack, auto_commit_interval_ms, leave_on_close, seed, times_ms))]
    #[expect(clippy::too_many_arguments, reason = "settings of a member, by name")]
    fn new(
        group_id: String,
        strategies: Vec<Bound<'_, PyAny>>,
        instance_id: Option<String>,
        rack: Option<String>,
        auto_commit_interval_ms: Option<u32>,
        leave_on_close: bool,
        seed: u64,
        times_ms: BTreeMap<String, u32>,
    ) -> PyResult<MemberMachine> {
        let mut config = Config {
            instance_id,
            rack,
            auto_commit_interval_ms,
            leave_on_close,
            seed,
            strategies: strategies.iter().map(strategy).collect::<PyResult<_>>()?,
            ..Config::new(group_id)
        };
        for (setting, time_ms) in times_ms {
            *match setting.as_str() {
                "session_timeout_ms" => &mut config.session_timeout_ms,
                "heartbeat_interval_ms" => &mut config.heartbeat_interval_ms,
                "max_poll_interval_ms" => &mut config.max_poll_interval_ms,
                "request_timeout_ms" => &mut config.request_timeout_ms,
                "api_timeout_ms" => &mut config.api_timeout_ms,
                "retry_backoff_ms" => &mut config.retry_backoff_ms,
                "retry_backoff_max_ms" => &mut config.retry_backoff_max_ms,
                "metadata_max_age_ms" => &mut config.metadata_max_age_ms,
                _ => return Err(PyKeyError::new_err(setting)),
            } = time_ms;
        }
        let member = Member::new(config).map_err(|error| PyValueError::new_err(error.to_string()))?;
        Ok(MemberMachine { member })
    }

    /// `topics`, or a `pattern`, or `manual` partitions, or nothing.
    #[pyo3(signature = (now_ms, *, topics=None, pattern=None, manual=None))]
    fn subscribe<'py>(
        &mut self,
        py: Python<'py>,
        now_ms: u64,
        topics: Option<Vec<String>>,
        pattern: Option<&str>,
        manual: Option<Vec<PyPartition>>,
    ) -> PyResult<Bound<'py, PyList>> {
        let subscription = match (topics, pattern, manual) {
            (Some(topics), ..) => Subscription::Topics(topics.into_iter().map(Arc::from).collect()),
            (_, Some(pattern), _) => {
                Subscription::pattern(pattern).map_err(|error| PyValueError::new_err(error.to_string()))?
            }
            (.., Some(manual)) => Subscription::Manual(partitions(manual)),
            _ => Subscription::None,
        };
        self.handle(py, now_ms, Event::Subscribe(subscription))
    }

    fn poll<'py>(&mut self, py: Python<'py>, now_ms: u64) -> PyResult<Bound<'py, PyList>> {
        self.handle(py, now_ms, Event::Poll)
    }

    fn busy<'py>(&mut self, py: Python<'py>, now_ms: u64) -> PyResult<Bound<'py, PyList>> {
        self.handle(py, now_ms, Event::Busy)
    }

    fn done<'py>(&mut self, py: Python<'py>, now_ms: u64) -> PyResult<Bound<'py, PyList>> {
        self.handle(py, now_ms, Event::Done)
    }

    fn advance<'py>(&mut self, py: Python<'py>, now_ms: u64) -> PyResult<Bound<'py, PyList>> {
        self.handle(py, now_ms, Event::Advance)
    }

    fn close<'py>(&mut self, py: Python<'py>, now_ms: u64) -> PyResult<Bound<'py, PyList>> {
        self.handle(py, now_ms, Event::Close)
    }

    fn rejoin<'py>(&mut self, py: Python<'py>, now_ms: u64, reason: String) -> PyResult<Bound<'py, PyList>> {
        self.handle(py, now_ms, Event::Rejoin { reason })
    }

    fn position<'py>(
        &mut self,
        py: Python<'py>,
        now_ms: u64,
        topic: String,
        partition: i32,
        position: PyOffset,
    ) -> PyResult<Bound<'py, PyList>> {
        let partition = Partition::new(topic, partition);
        self.handle(py, now_ms, Event::Position { partition, offset: offset(position) })
    }

    fn commit<'py>(
        &mut self,
        py: Python<'py>,
        now_ms: u64,
        commit: u64,
        offsets: Vec<(PyPartition, PyOffset)>,
    ) -> PyResult<Bound<'py, PyList>> {
        let one =
            |((topic, index), position): (PyPartition, PyOffset)| (Partition::new(topic, index), offset(position));
        let offsets = offsets.into_iter().map(one).collect();
        self.handle(py, now_ms, Event::Commit { commit: CommitId(commit), offsets })
    }

    fn fetch<'py>(
        &mut self,
        py: Python<'py>,
        now_ms: u64,
        fetch: u64,
        wanted: Vec<PyPartition>,
    ) -> PyResult<Bound<'py, PyList>> {
        self.handle(py, now_ms, Event::Fetch { fetch: CommitId(fetch), partitions: partitions(wanted) })
    }

    /// Member ids with embedded assignments, or an error.
    #[pyo3(signature = (now_ms, generation, assignments, error=None))]
    fn planned<'py>(
        &mut self,
        py: Python<'py>,
        now_ms: u64,
        generation: i32,
        assignments: Vec<(String, Vec<u8>)>,
        error: Option<String>,
    ) -> PyResult<Bound<'py, PyList>> {
        let plan = error.map_or(Ok(assignments), Err);
        self.handle(py, now_ms, Event::Planned { generation, plan })
    }

    fn user_data<'py>(
        &mut self,
        py: Python<'py>,
        now_ms: u64,
        strategy: String,
        user_data: Option<Vec<u8>>,
    ) -> PyResult<Bound<'py, PyList>> {
        self.handle(py, now_ms, Event::UserData { strategy, user_data })
    }

    /// `api` says of what kind the answer is; `fields` are those of the newest version that has all of them.
    fn answered<'py>(
        &mut self,
        py: Python<'py>,
        now_ms: u64,
        request: u64,
        api: &str,
        fields: &Bound<'py, PyDict>,
    ) -> PyResult<Bound<'py, PyList>> {
        let answer = answer(api, fields)?;
        self.handle(py, now_ms, Event::Answered { request: RequestId(request), answer })
    }

    /// `node` as in the effect that asked for it; None: the connection to any broker.
    fn disconnected<'py>(
        &mut self,
        py: Python<'py>,
        now_ms: u64,
        node: Option<(i32, String, i32)>,
    ) -> PyResult<Bound<'py, PyList>> {
        let to = node.map_or(To::Any, |(id, host, port)| To::Coordinator(Node { id, host, port }));
        self.handle(py, now_ms, Event::Disconnected(to))
    }

    fn next_deadline(&self) -> Option<u64> {
        self.member.next_deadline()
    }

    #[getter]
    fn state(&self) -> String {
        format!("{:?}", self.member.state())
    }

    #[getter]
    fn generation(&self) -> i32 {
        self.member.generation()
    }

    #[getter]
    fn member_id(&self) -> &str {
        self.member.member_id()
    }

    #[getter]
    fn owned(&self) -> Vec<PyPartition> {
        self.member.owned().map(plain).collect()
    }

    #[getter]
    fn coordinator(&self) -> Option<(i32, String, i32)> {
        self.member.coordinator().map(node_to_python)
    }

    #[getter]
    fn is_leader(&self) -> bool {
        self.member.is_leader()
    }

    #[getter]
    fn is_closed(&self) -> bool {
        self.member.is_closed()
    }
}

fn plain(partition: &Partition) -> PyPartition {
    (partition.topic.to_string(), partition.index)
}

fn plains(partitions: &[Partition]) -> Vec<PyPartition> {
    partitions.iter().map(plain).collect()
}

fn node_to_python(node: &Node) -> (i32, String, i32) {
    (node.id, node.host.clone(), node.port)
}

fn to_python(to: &To) -> Option<(i32, String, i32)> {
    match to {
        To::Any => None,
        To::Coordinator(node) => Some(node_to_python(node)),
    }
}

fn tuple<'py>(
    py: Python<'py>,
    items: impl IntoPyObject<'py, Target = PyTuple, Output = Bound<'py, PyTuple>, Error = PyErr>,
) -> PyResult<Bound<'py, PyTuple>> {
    items.into_pyobject(py)
}

fn effect_to_python<'py>(py: Python<'py>, effect: &Effect) -> PyResult<Bound<'py, PyTuple>> {
    match effect {
        Effect::Send { request, to, body } => {
            let (api, fields) = request_to_python(py, body)?;
            tuple(py, ("Send", request.0, to_python(to), api, fields))
        }
        Effect::Disconnect(to) => tuple(py, ("Disconnect", to_python(to))),
        Effect::Tell(notice) => notice_to_python(py, notice),
    }
}

fn notice_to_python<'py>(py: Python<'py>, notice: &Notice) -> PyResult<Bound<'py, PyTuple>> {
    let bytes = |bytes: &Option<Vec<u8>>| bytes.as_ref().map(|bytes| PyBytes::new(py, bytes));
    match notice {
        Notice::Revoke { partitions } => tuple(py, ("Revoke", plains(partitions))),
        Notice::Lose { partitions } => tuple(py, ("Lose", plains(partitions))),
        Notice::Assign { generation, added, all, user_data } => {
            tuple(py, ("Assign", *generation, plains(added), plains(all), bytes(user_data)))
        }
        Notice::Plan { strategy, generation, members, topics } => {
            let members: Vec<_> = members
                .iter()
                .map(|member| (&member.member_id, &member.instance_id, PyBytes::new(py, &member.metadata)))
                .collect();
            let topics: Vec<(&str, i32, &Vec<Vec<String>>)> =
                topics.iter().map(|(name, topic)| (&**name, topic.partitions, &topic.racks)).collect();
            tuple(py, ("Plan", strategy, *generation, members, topics))
        }
        Notice::Committed { commit, result } => tuple(
            py,
            ("Committed", commit.0, result.as_ref().err().map(|failure| failure_to_python(py, failure)).transpose()?),
        ),
        Notice::Fetched { fetch, result } => {
            let found = result.as_ref().ok().map(|offsets| {
                let one = |(partition, offset): &(Partition, Option<Offset>)| {
                    let offset = offset.as_ref().map(|one| (one.offset, one.leader_epoch, one.metadata.clone()));
                    (plain(partition), offset)
                };
                offsets.iter().map(one).collect::<Vec<_>>()
            });
            let failure = result.as_ref().err().map(|failure| failure_to_python(py, failure)).transpose()?;
            tuple(py, ("Fetched", fetch.0, found, failure))
        }
        Notice::Failed(failure) => tuple(py, ("Failed", failure_to_python(py, failure)?)),
        Notice::Closed => tuple(py, ("Closed",)),
    }
}

/// (kind, the error code if a broker said so, the text).
fn failure_to_python<'py>(py: Python<'py>, failure: &Failure) -> PyResult<Bound<'py, PyTuple>> {
    let (kind, error) = match failure {
        Failure::Answer { error, .. } => ("Answer", Some(*error)),
        Failure::RebalanceInProgress => ("RebalanceInProgress", None),
        Failure::CommitFailed => ("CommitFailed", None),
        Failure::TimedOut { last, .. } => ("TimedOut", *last),
        Failure::Topics { error, .. } => ("Topics", Some(*error)),
        Failure::InconsistentProtocol { .. } => ("InconsistentProtocol", None),
        Failure::UnknownProtocol { .. } => ("UnknownProtocol", None),
        Failure::Subscription { .. } => ("Subscription", None),
        Failure::Assignment { .. } => ("Assignment", None),
        Failure::Plan { .. } => ("Plan", None),
        Failure::Closed => ("Closed", None),
    };
    tuple(py, (kind, error.map(Code), failure.to_string()))
}

/// A dict from pairs of different types.
macro_rules! dict {
    ($py:expr, $($key:literal: $value:expr,)+) => {{
        let dict = PyDict::new($py);
        $(dict.set_item($key, $value)?;)+
        dict
    }};
}

/// Who asks.
fn identity<'py>(
    py: Python<'py>,
    group_id: &str,
    generation: i32,
    member_id: &str,
    instance_id: Option<&str>,
) -> PyResult<Bound<'py, PyDict>> {
    Ok(dict! { py,
        "group_id": group_id, "generation": generation, "member_id": member_id, "instance_id": instance_id,
    })
}

/// Names with bytes, as dicts with these two keys.
fn pairs<'py>(
    py: Python<'py>,
    pairs: &[(String, Vec<u8>)],
    name_key: &str,
    bytes_key: &str,
) -> PyResult<Vec<Bound<'py, PyDict>>> {
    let one = |(name, bytes): &(String, Vec<u8>)| {
        let dict = PyDict::new(py);
        dict.set_item(name_key, name)?;
        dict.set_item(bytes_key, PyBytes::new(py, bytes))?;
        Ok(dict)
    };
    pairs.iter().map(one).collect()
}

fn request_to_python<'py>(py: Python<'py>, request: &Request) -> PyResult<(&'static str, Bound<'py, PyDict>)> {
    Ok(match request {
        Request::FindCoordinator { group_id } => {
            ("FindCoordinator", dict! { py, "key": group_id, "key_type": 0, "coordinator_keys": [group_id], })
        }
        Request::Metadata { topics } => {
            let named = |topic: &Arc<str>| -> PyResult<_> { Ok(dict! { py, "name": &**topic, }) };
            let topics =
                topics.as_ref().map(|topics| topics.iter().map(named).collect::<PyResult<Vec<_>>>()).transpose()?;
            ("Metadata", dict! { py, "topics": topics, "allow_auto_topic_creation": true, })
        }
        Request::JoinGroup {
            group_id,
            member_id,
            instance_id,
            session_timeout_ms,
            rebalance_timeout_ms,
            protocols,
            reason,
        } => {
            let fields = dict! { py,
                "group_id": group_id,
                "session_timeout_ms": session_timeout_ms,
                "rebalance_timeout_ms": rebalance_timeout_ms,
                "member_id": member_id,
                "instance_id": instance_id,
                "protocol_type": "consumer",
                "protocols": pairs(py, protocols, "name", "metadata")?,
                "reason": reason,
            };
            ("JoinGroup", fields)
        }
        Request::SyncGroup { group_id, generation, member_id, instance_id, protocol_name, assignments } => {
            let fields = identity(py, group_id, *generation, member_id, instance_id.as_deref())?;
            fields.set_item("protocol_type", "consumer")?;
            fields.set_item("protocol_name", protocol_name)?;
            fields.set_item("assignments", pairs(py, assignments, "member_id", "assignment")?)?;
            ("SyncGroup", fields)
        }
        Request::Heartbeat { group_id, generation, member_id, instance_id } => {
            ("Heartbeat", identity(py, group_id, *generation, member_id, instance_id.as_deref())?)
        }
        Request::LeaveGroup { group_id, member_id, instance_id, reason } => {
            let who = dict! { py, "member_id": member_id, "instance_id": instance_id, "reason": reason, };
            ("LeaveGroup", dict! { py, "group_id": group_id, "member_id": member_id, "members": [who], })
        }
        Request::OffsetCommit { group_id, generation, member_id, instance_id, offsets } => {
            let offsets = offsets.iter().map(|(partition, offset)| (partition, Some(offset)));
            let fields = identity(py, group_id, *generation, member_id, instance_id.as_deref())?;
            fields.set_item("retention_time_ms", -1)?;
            fields.set_item("topics", by_topic(py, offsets)?)?;
            ("OffsetCommit", fields)
        }
        Request::OffsetFetch { group_id, partitions } => {
            let topics = by_topic(py, partitions.iter().map(|partition| (partition, None)))?;
            let group = dict! { py,
                "group_id": group_id, "member_id": py.None(), "member_epoch": -1, "topics": &topics,
            };
            let fields = dict! { py,
                "group_id": group_id, "topics": topics, "groups": [group], "require_stable": true,
            };
            ("OffsetFetch", fields)
        }
    })
}

/// Topics with their partitions: of a commit with offsets, of a fetch by index.
fn by_topic<'a, 'py>(
    py: Python<'py>,
    offsets: impl Iterator<Item = (&'a Partition, Option<&'a Offset>)>,
) -> PyResult<Vec<Bound<'py, PyDict>>> {
    let mut topics: BTreeMap<&str, (Bound<'py, PyList>, Bound<'py, PyList>)> = BTreeMap::new();
    for (partition, offset) in offsets {
        let (indexes, commits) =
            topics.entry(&partition.topic).or_insert_with(|| (PyList::empty(py), PyList::empty(py)));
        indexes.append(partition.index)?;
        if let Some(offset) = offset {
            commits.append(dict! { py,
                "partition_index": partition.index,
                "offset": offset.offset,
                "leader_epoch": offset.leader_epoch,
                "metadata": &offset.metadata,
            })?;
        }
    }
    let one = |(name, (indexes, commits))| -> PyResult<_> {
        Ok(dict! { py, "name": name, "partition_indexes": indexes, "partitions": commits, })
    };
    topics.into_iter().map(one).collect()
}

/// A field that the answer must have.
fn field<'py, T>(fields: &Bound<'py, PyDict>, name: &str) -> PyResult<T>
where
    T: for<'a> FromPyObject<'a, 'py, Error: Into<PyErr>>,
{
    let found = fields.get_item(name)?.ok_or_else(|| PyKeyError::new_err(name.to_owned()))?;
    found.extract().map_err(Into::into)
}

/// A field that older versions do not have.
fn newer<'py, T>(fields: &Bound<'py, PyDict>, name: &str) -> PyResult<Option<T>>
where
    T: for<'a> FromPyObject<'a, 'py, Error: Into<PyErr>>,
{
    match fields.get_item(name)?.filter(|found| !found.is_none()) {
        Some(found) => found.extract().map(Some).map_err(Into::into),
        None => Ok(None),
    }
}

/// A code that rota does not know is as unexpected as one that nobody knows.
fn code(fields: &Bound<'_, PyDict>) -> PyResult<ErrorCode> {
    let code: i16 = newer(fields, "error_code")?.unwrap_or_default();
    Ok(ErrorCode::from_code(code).unwrap_or(ErrorCode::UnknownServerError))
}

fn coordinator(fields: &Bound<'_, PyDict>) -> PyResult<Result<Node, ErrorCode>> {
    // Version 4 and newer answer every key; this one was asked for alone.
    let all: Option<Vec<Bound<'_, PyDict>>> = newer(fields, "coordinators")?;
    let found = match all.as_deref() {
        None => fields,
        Some([found]) => found,
        Some(found) => return Err(PyValueError::new_err(format!("{} coordinators for one group", found.len()))),
    };
    Ok(match code(found)? {
        ErrorCode::None => {
            Ok(Node { id: field(found, "node_id")?, host: field(found, "host")?, port: field(found, "port")? })
        }
        error => Err(error),
    })
}

fn answer(api: &str, fields: &Bound<'_, PyDict>) -> PyResult<Answer> {
    Ok(match api {
        "FindCoordinator" => Answer::FindCoordinator(coordinator(fields)?),
        "Metadata" => Answer::Metadata(metadata(fields)?),
        "JoinGroup" => {
            let joined = |member: Bound<'_, PyDict>| -> PyResult<Joined> {
                Ok(Joined {
                    member_id: field(&member, "member_id")?,
                    instance_id: newer(&member, "instance_id")?,
                    metadata: field(&member, "metadata")?,
                })
            };
            let members: Vec<Bound<'_, PyDict>> = field(fields, "members")?;
            Answer::JoinGroup {
                error: code(fields)?,
                generation: field(fields, "generation")?,
                protocol_name: newer(fields, "protocol_name")?.unwrap_or_default(),
                leader: field(fields, "leader")?,
                member_id: field(fields, "member_id")?,
                skip_assignment: newer(fields, "skip_assignment")?.unwrap_or_default(),
                members: members.into_iter().map(joined).collect::<PyResult<_>>()?,
            }
        }
        "SyncGroup" => Answer::SyncGroup {
            error: code(fields)?,
            protocol_name: newer(fields, "protocol_name")?,
            assignment: field(fields, "assignment")?,
        },
        "Heartbeat" => Answer::Heartbeat(code(fields)?),
        "LeaveGroup" => Answer::LeaveGroup(code(fields)?),
        "OffsetCommit" => {
            let mut codes = Vec::new();
            for_each_partition(fields, |partition, fields| {
                codes.push((partition, code(fields)?));
                Ok(())
            })?;
            Answer::OffsetCommit(codes)
        }
        "OffsetFetch" => {
            let groups: Option<Vec<Bound<'_, PyDict>>> = newer(fields, "groups")?;
            let group = groups.as_ref().and_then(|groups| groups.first()).unwrap_or(fields);
            let mut offsets = Vec::new();
            for_each_partition(group, |partition, fields| {
                let error = code(fields)?;
                let found = Offset {
                    offset: field(fields, "offset")?,
                    leader_epoch: newer(fields, "leader_epoch")?.unwrap_or(-1),
                    metadata: newer(fields, "metadata")?.unwrap_or_default(),
                };
                let found = (found.offset >= 0).then_some(found);
                offsets.push((partition, if error == ErrorCode::None { Ok(found) } else { Err(error) }));
                Ok(())
            })?;
            Answer::OffsetFetch { error: code(group)?, offsets }
        }
        _ => return Err(PyValueError::new_err(format!("a member never asks for {api}"))),
    })
}

fn for_each_partition<'py>(
    fields: &Bound<'py, PyDict>,
    mut take: impl FnMut(Partition, &Bound<'py, PyDict>) -> PyResult<()>,
) -> PyResult<()> {
    for topic in field::<Vec<Bound<'_, PyDict>>>(fields, "topics")? {
        let name: Arc<str> = field::<String>(&topic, "name")?.into();
        for partition in field::<Vec<Bound<'_, PyDict>>>(&topic, "partitions")? {
            take(Partition::new(name.clone(), field(&partition, "partition_index")?), &partition)?;
        }
    }
    Ok(())
}

/// Topics that exist, with the racks of their replicas if any broker has one.
fn metadata(fields: &Bound<'_, PyDict>) -> PyResult<BTreeMap<Arc<str>, TopicMetadata>> {
    let mut racks: BTreeMap<i32, String> = BTreeMap::new();
    for broker in field::<Vec<Bound<'_, PyDict>>>(fields, "brokers")? {
        if let Some(rack) = newer(&broker, "rack")? {
            racks.insert(field(&broker, "node_id")?, rack);
        }
    }
    let mut topics = BTreeMap::new();
    for topic in field::<Vec<Bound<'_, PyDict>>>(fields, "topics")? {
        let (Some(name), ErrorCode::None) = (newer::<String>(&topic, "name")?, code(&topic)?) else { continue };
        let found: Vec<Bound<'_, PyDict>> = field(&topic, "partitions")?;
        let mut of_replicas = vec![Vec::new(); if racks.is_empty() { 0 } else { found.len() }];
        for partition in found.iter().filter(|_| !racks.is_empty()) {
            let index: usize = field(partition, "partition_index")?;
            let replicas: Vec<i32> = field(partition, "replica_nodes")?;
            if let Some(place) = of_replicas.get_mut(index) {
                *place = replicas.iter().filter_map(|node| racks.get(node).cloned()).collect();
            }
        }
        topics.insert(name.into(), TopicMetadata { partitions: found.len() as i32, racks: of_replicas });
    }
    Ok(topics)
}

pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<MemberMachine>()
}
