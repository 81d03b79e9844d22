//! The member's side of a group. Effects are tuples that begin with their name. `rota/member.py` gives them classes.

use std::{collections::BTreeMap, sync::Arc};

use pyo3::{
    exceptions::{PyKeyError, PyValueError},
    prelude::*,
    types::{PyBytes, PyDict, PyList, PyTuple},
};
use rota_assign::Assignor;
use rota_core::ErrorCode;
use rota_member::{
    CommitId, Config, Effect, Event, Failure, Member, Node, Notice, Offset, Partition, Protocol, RequestId, Strategy,
    Subscription, To,
};

use crate::{
    errors::Code,
    member_messages::{answer, request_to_python},
    values::{Commit, Millis},
};

type PyPartition = (String, i32);
/// Offset, leader epoch, metadata.
type PyOffset = (i64, i32, String);

/// The state machine of `rota.Member`.
#[pyclass(module = "rota._rota")]
pub struct MemberMachine {
    member: Member,
    /// Whether the coordinator resolves patterns.
    is_consumer: bool,
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
        PyValueError::new_err(format!("unknown strategy {name:?}: choose from {}", names.join(", ")))
    })
}

fn protocol(group_protocol: &str, remote_assignor: Option<String>) -> PyResult<Protocol> {
    match (group_protocol, remote_assignor) {
        ("consumer", assignor) => Ok(Protocol::Consumer { assignor }),
        ("classic", None) => Ok(Protocol::Classic),
        ("classic", Some(assignor)) => Err(PyValueError::new_err(format!(
            "remote_assignor is {assignor:?}: with group_protocol `classic` a member assigns; give strategies, or \
             group_protocol `consumer`"
        ))),
        (other, _) => Err(PyValueError::new_err(format!("group_protocol is {other:?}: give classic or consumer"))),
    }
}

fn partitions(given: Vec<PyPartition>) -> Vec<Partition> {
    given.into_iter().map(|(topic, index)| Partition::new(topic, index)).collect()
}

fn offset((offset, leader_epoch, metadata): PyOffset) -> Offset {
    Offset { offset, leader_epoch, metadata }
}

impl MemberMachine {
    fn handle<'py>(&mut self, py: Python<'py>, now_ms: Millis, event: Event) -> PyResult<Bound<'py, PyList>> {
        let mut effects = Vec::new();
        self.member.handle(now_ms.0, event, &mut effects);
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
    #[pyo3(signature = (group_id, *, group_protocol, remote_assignor, strategies, instance_id, rack, auto_commit_interval_ms, leave_on_close, seed, times_ms))]
    #[expect(clippy::too_many_arguments, reason = "settings of a member, by name")]
    fn new(
        group_id: String,
        group_protocol: &str,
        remote_assignor: Option<String>,
        strategies: Vec<Bound<'_, PyAny>>,
        instance_id: Option<String>,
        rack: Option<String>,
        auto_commit_interval_ms: Option<u32>,
        leave_on_close: bool,
        seed: u64,
        times_ms: BTreeMap<String, u32>,
    ) -> PyResult<MemberMachine> {
        let mut config = Config {
            protocol: protocol(group_protocol, remote_assignor)?,
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
        let is_consumer = config.is_consumer();
        let member = Member::new(config).map_err(|error| PyValueError::new_err(error.to_string()))?;
        Ok(MemberMachine { member, is_consumer })
    }

    /// Subscribes to `topics`, a `pattern`, `manual` partitions, or nothing.
    #[pyo3(signature = (now_ms, *, topics=None, pattern=None, manual=None))]
    fn subscribe<'py>(
        &mut self,
        py: Python<'py>,
        now_ms: Millis,
        topics: Option<Vec<String>>,
        pattern: Option<&str>,
        manual: Option<Vec<PyPartition>>,
    ) -> PyResult<Bound<'py, PyList>> {
        let subscription = match (topics, pattern, manual) {
            (Some(topics), ..) => Subscription::Topics(topics.into_iter().map(Arc::from).collect()),
            (_, Some(pattern), _) if self.is_consumer => Subscription::CoordinatorPattern(pattern.into()),
            (_, Some(pattern), _) => {
                Subscription::pattern(pattern).map_err(|error| PyValueError::new_err(error.to_string()))?
            }
            (.., Some(manual)) => Subscription::Manual(partitions(manual)),
            _ => Subscription::None,
        };
        self.handle(py, now_ms, Event::Subscribe(subscription))
    }

    fn poll<'py>(&mut self, py: Python<'py>, now_ms: Millis) -> PyResult<Bound<'py, PyList>> {
        self.handle(py, now_ms, Event::Poll)
    }

    fn busy<'py>(&mut self, py: Python<'py>, now_ms: Millis) -> PyResult<Bound<'py, PyList>> {
        self.handle(py, now_ms, Event::Busy)
    }

    fn done<'py>(&mut self, py: Python<'py>, now_ms: Millis) -> PyResult<Bound<'py, PyList>> {
        self.handle(py, now_ms, Event::Done)
    }

    fn advance<'py>(&mut self, py: Python<'py>, now_ms: Millis) -> PyResult<Bound<'py, PyList>> {
        self.handle(py, now_ms, Event::Advance)
    }

    #[pyo3(signature = (now_ms, commit_timeout_ms=None))]
    fn close<'py>(
        &mut self,
        py: Python<'py>,
        now_ms: Millis,
        commit_timeout_ms: Option<u32>,
    ) -> PyResult<Bound<'py, PyList>> {
        self.handle(py, now_ms, Event::Close { commit_timeout_ms })
    }

    fn rejoin<'py>(&mut self, py: Python<'py>, now_ms: Millis, reason: String) -> PyResult<Bound<'py, PyList>> {
        self.handle(py, now_ms, Event::Rejoin { reason })
    }

    fn position<'py>(
        &mut self,
        py: Python<'py>,
        now_ms: Millis,
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
        now_ms: Millis,
        commit: Commit,
        offsets: Vec<(PyPartition, PyOffset)>,
    ) -> PyResult<Bound<'py, PyList>> {
        let one =
            |((topic, index), position): (PyPartition, PyOffset)| (Partition::new(topic, index), offset(position));
        let offsets = offsets.into_iter().map(one).collect();
        self.handle(py, now_ms, Event::Commit { commit: CommitId(commit.0), offsets })
    }

    fn fetch<'py>(
        &mut self,
        py: Python<'py>,
        now_ms: Millis,
        fetch: u64,
        wanted: Vec<PyPartition>,
    ) -> PyResult<Bound<'py, PyList>> {
        self.handle(py, now_ms, Event::Fetch { fetch: CommitId(fetch), partitions: partitions(wanted) })
    }

    /// Passes member ids with embedded assignments, or an error.
    #[pyo3(signature = (now_ms, generation, assignments, error=None))]
    fn planned<'py>(
        &mut self,
        py: Python<'py>,
        now_ms: Millis,
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
        now_ms: Millis,
        strategy: String,
        user_data: Option<Vec<u8>>,
    ) -> PyResult<Bound<'py, PyList>> {
        self.handle(py, now_ms, Event::UserData { strategy, user_data })
    }

    /// `api` is the kind of the answer; `fields` are those of the newest version that has all of them.
    fn answered<'py>(
        &mut self,
        py: Python<'py>,
        now_ms: Millis,
        request: u64,
        api: &str,
        fields: &Bound<'py, PyDict>,
    ) -> PyResult<Bound<'py, PyList>> {
        let request = RequestId(request);
        let answer = answer(api, self.member.asked_for_names(request), fields)?;
        self.handle(py, now_ms, Event::Answered { request, answer })
    }

    /// `node` as in the effect that requested it; None: the connection to any broker.
    fn disconnected<'py>(
        &mut self,
        py: Python<'py>,
        now_ms: Millis,
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
        Failure::Answer { error, .. } | Failure::Refused { error, .. } => ("Answer", Some(*error)),
        Failure::Unsupported { .. } => ("Answer", Some(ErrorCode::UnsupportedVersion)),
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

pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<MemberMachine>()
}
