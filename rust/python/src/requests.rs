//! What a coordinator can be asked, as frozen Python classes.

use pyo3::{Borrowed, exceptions::PyTypeError, prelude::*, types::PyMapping};
use rota_core::{Request, request};

use crate::{
    plain::plain,
    values::{Octets, Tuple, union},
};

/// The names of all requests, as the vocabulary has them.
pub const NAMES: [&str; 10] = [
    "JoinGroup",
    "SyncGroup",
    "Heartbeat",
    "LeaveGroup",
    "OffsetCommit",
    "OffsetFetch",
    "DescribeGroup",
    "ListGroups",
    "DeleteGroup",
    "OffsetDelete",
];

plain! {
    /// Become, or stay, a member.
    JoinGroup {
        /// `None` is a null group id, which is always illegal.
        group_id: Option<String>,
        /// Empty on the first join.
        member_id: String,
        /// (name, metadata), in order of preference.
        protocols: Tuple<(String, Octets)>,
        /// `consumer` for consumers.
        protocol_type: String,
        /// How long the member may be silent.
        session_timeout_ms: i32,
        /// How long a rebalance waits for the member.
        rebalance_timeout_ms: i32,
        /// Prefix of a minted member id.
        client_id: String,
        /// As `/127.0.0.1`.
        client_host: String,
        /// `group.instance.id` of a static member.
        instance_id: Option<String>,
        /// The wire version, 0 to 9.
        version: i16,
        /// Why the client joins; only shown.
        reason: Option<String>,
    }
    methods new {
        #[new]
        #[pyo3(signature = (
            group_id, member_id="", *, protocols, protocol_type="consumer", session_timeout_ms=45_000,
            rebalance_timeout_ms=300_000, client_id="client", client_host="/127.0.0.1", instance_id=None, version=9,
            reason=None
        ))]
        #[expect(clippy::too_many_arguments, reason = "a request has as many arguments as the message has fields")]
        fn new(
            group_id: Option<String>,
            member_id: &str,
            protocols: Tuple<(String, Octets)>,
            protocol_type: &str,
            session_timeout_ms: i32,
            rebalance_timeout_ms: i32,
            client_id: &str,
            client_host: &str,
            instance_id: Option<String>,
            version: i16,
            reason: Option<String>,
        ) -> Self {
            JoinGroup {
                group_id,
                member_id: member_id.to_owned(),
                protocols,
                protocol_type: protocol_type.to_owned(),
                session_timeout_ms,
                rebalance_timeout_ms,
                client_id: client_id.to_owned(),
                client_host: client_host.to_owned(),
                instance_id,
                version,
                reason,
            }
        }
    }
}

impl JoinGroup {
    fn with<R>(&self, submit: impl FnOnce(Request<'_>) -> R) -> R {
        let offers = self.protocols.0.iter();
        let protocols: Vec<_> =
            offers.map(|(name, metadata)| request::Protocol { name, metadata: &metadata.0 }).collect();
        submit(Request::JoinGroup(request::JoinGroup {
            version: self.version,
            group_id: self.group_id.as_deref(),
            member_id: &self.member_id,
            instance_id: self.instance_id.as_deref(),
            client_id: &self.client_id,
            client_host: &self.client_host,
            session_timeout_ms: self.session_timeout_ms,
            rebalance_timeout_ms: self.rebalance_timeout_ms,
            protocol_type: &self.protocol_type,
            protocols: &protocols,
            reason: self.reason.as_deref(),
        }))
    }
}

plain! {
    /// Receive, and as the leader hand in, the assignment.
    SyncGroup {
        /// `None` is a null group id.
        group_id: Option<String>,
        /// The sender.
        member_id: String,
        /// The generation that the member believes in.
        generation: i32,
        /// (member id, its part of the leader's plan); ignored from anybody else.
        assignments: Tuple<(String, Octets)>,
        /// Compared if present.
        protocol_type: Option<String>,
        /// Compared if present.
        protocol_name: Option<String>,
        /// `group.instance.id` of a static member.
        instance_id: Option<String>,
        /// The wire version, 0 to 5.
        version: i16,
    }
    methods new {
        #[new]
        #[pyo3(signature = (
            group_id, member_id, generation, assignments=None, *, protocol_type=None, protocol_name=None,
            instance_id=None, version=None
        ), text_signature = "(group_id, member_id, generation, assignments=(), *, protocol_type=None, \
            protocol_name=None, instance_id=None, version=None)")]
        #[expect(clippy::too_many_arguments, reason = "a request has as many arguments as the message has fields")]
        fn new(
            group_id: Option<String>,
            member_id: String,
            generation: i32,
            assignments: Option<Tuple<(String, Octets)>>,
            protocol_type: Option<String>,
            protocol_name: Option<String>,
            instance_id: Option<String>,
            version: Option<i16>,
        ) -> Self {
            // Version 5 must carry both names (§6.1); who gives neither speaks version 4.
            let newest = if protocol_type.is_some() && protocol_name.is_some() { 5 } else { 4 };
            SyncGroup {
                group_id,
                member_id,
                generation,
                assignments: assignments.unwrap_or_default(),
                protocol_type,
                protocol_name,
                instance_id,
                version: version.unwrap_or(newest),
            }
        }
    }
}

impl SyncGroup {
    fn with<R>(&self, submit: impl FnOnce(Request<'_>) -> R) -> R {
        let parts = self.assignments.0.iter();
        let assignments: Vec<_> =
            parts.map(|(member_id, part)| request::Assignment { member_id, assignment: &part.0 }).collect();
        submit(Request::SyncGroup(request::SyncGroup {
            version: self.version,
            group_id: self.group_id.as_deref(),
            generation: self.generation,
            member_id: &self.member_id,
            instance_id: self.instance_id.as_deref(),
            protocol_type: self.protocol_type.as_deref(),
            protocol_name: self.protocol_name.as_deref(),
            assignments: &assignments,
        }))
    }
}

plain! {
    /// Show that the member is alive.
    Heartbeat {
        /// `None` is a null group id.
        group_id: Option<String>,
        /// The sender.
        member_id: String,
        /// The generation that the member believes in.
        generation: i32,
        /// `group.instance.id` of a static member.
        instance_id: Option<String>,
    }
    methods new {
        #[new]
        #[pyo3(signature = (group_id, member_id, generation, *, instance_id=None))]
        fn new(group_id: Option<String>, member_id: String, generation: i32, instance_id: Option<String>) -> Self {
            Heartbeat { group_id, member_id, generation, instance_id }
        }
    }
}

impl Heartbeat {
    fn with<R>(&self, submit: impl FnOnce(Request<'_>) -> R) -> R {
        submit(Request::Heartbeat(request::Heartbeat {
            group_id: self.group_id.as_deref(),
            generation: self.generation,
            member_id: &self.member_id,
            instance_id: self.instance_id.as_deref(),
        }))
    }
}

/// (member id, instance id, reason).
type Leaver = (String, Option<String>, Option<String>);

/// A leaver as given: an id alone, or a tuple cut short.
struct GivenLeaver(Leaver);

impl<'py> FromPyObject<'_, 'py> for GivenLeaver {
    type Error = PyErr;

    fn extract(object: Borrowed<'_, 'py, PyAny>) -> PyResult<GivenLeaver> {
        if let Ok(member_id) = object.extract() {
            return Ok(GivenLeaver((member_id, None, None)));
        }
        if let Ok((member_id, instance_id)) = object.extract() {
            return Ok(GivenLeaver((member_id, instance_id, None)));
        }
        let whole = object.extract().map(GivenLeaver);
        whole.map_err(|_| expected("member id, or (member id, instance id[, reason])", object))
    }
}

plain! {
    /// Stop being a member, one or several at once.
    LeaveGroup {
        /// `None` is a null group id.
        group_id: Option<String>,
        /// (member id, instance id, reason), handled in this order.
        members: Tuple<Leaver>,
        /// The wire version, 0 to 5.
        version: i16,
    }
    methods new {
        #[new]
        #[pyo3(signature = (group_id, members, *, version=5))]
        fn new(group_id: Option<String>, members: Vec<GivenLeaver>, version: i16) -> Self {
            LeaveGroup { group_id, members: members.into_iter().map(|given| given.0).collect(), version }
        }
    }
}

impl LeaveGroup {
    fn with<R>(&self, submit: impl FnOnce(Request<'_>) -> R) -> R {
        let members: Vec<_> = (self.members.0)
            .iter()
            .map(|(member_id, instance_id, reason)| request::LeaveIdentity {
                member_id,
                instance_id: instance_id.as_deref(),
                reason: reason.as_deref(),
            })
            .collect();
        submit(Request::LeaveGroup(request::LeaveGroup {
            version: self.version,
            group_id: self.group_id.as_deref(),
            members: &members,
        }))
    }
}

/// (topic, partition).
type TopicPartition = (String, i32);
/// (offset, metadata, leader epoch).
type Committed = (i64, Option<String>, i32);

/// An offset as given: a number, or a tuple cut short.
struct GivenOffset(Committed);

impl<'py> FromPyObject<'_, 'py> for GivenOffset {
    type Error = PyErr;

    fn extract(object: Borrowed<'_, 'py, PyAny>) -> PyResult<GivenOffset> {
        if let Ok(offset) = object.extract() {
            return Ok(GivenOffset((offset, None, -1)));
        }
        if let Ok((offset, metadata)) = object.extract() {
            return Ok(GivenOffset((offset, metadata, -1)));
        }
        let whole = object.extract().map(GivenOffset);
        whole.map_err(|_| expected("64-bit offset, or (offset, metadata[, leader epoch])", object))
    }
}

/// A `TypeError` that shows what was given.
fn expected(what: &str, given: Borrowed<'_, '_, PyAny>) -> PyErr {
    match given.repr() {
        Ok(given) => PyTypeError::new_err(format!("expected a {what}, not {given}")),
        Err(error) => error,
    }
}

/// The offsets of a commit: from a mapping, or from pairs, which can name a partition twice.
struct GivenOffsets(Tuple<(TopicPartition, Committed)>);

impl<'py> FromPyObject<'_, 'py> for GivenOffsets {
    type Error = PyErr;

    fn extract(object: Borrowed<'_, 'py, PyAny>) -> PyResult<GivenOffsets> {
        let pairs: Vec<(TopicPartition, GivenOffset)> = match object.cast::<PyMapping>() {
            Ok(mapping) => mapping.items()?.extract()?,
            Err(_) => object.extract()?,
        };
        Ok(GivenOffsets(pairs.into_iter().map(|(place, given)| (place, given.0)).collect()))
    }
}

plain! {
    /// Store offsets.
    OffsetCommit {
        /// `None` is a null group id; the empty string is legal here.
        group_id: Option<String>,
        /// ((topic, partition), (offset, metadata, leader epoch)), in request order.
        offsets: Tuple<(TopicPartition, Committed)>,
        /// Empty: not from a member.
        member_id: String,
        /// Negative: not from a member.
        generation: i32,
        /// `group.instance.id` of a static member.
        instance_id: Option<String>,
        /// Retention asked for by the request (versions 2 to 4).
        retention_time_ms: Option<i64>,
        /// (topic, id) of the topics whose id is known.
        topic_ids: Tuple<(String, u128)>,
        /// The wire version, 2 to 10.
        version: i16,
    }
    methods new {
        #[new]
        #[pyo3(signature = (
            group_id, offsets, member_id="", generation=-1, *, instance_id=None, retention_time_ms=None,
            topic_ids=None, version=9
        ), text_signature = "(group_id, offsets, member_id='', generation=-1, *, instance_id=None, \
            retention_time_ms=None, topic_ids=(), version=9)")]
        #[expect(clippy::too_many_arguments, reason = "a request has as many arguments as the message has fields")]
        fn new(
            group_id: Option<String>,
            offsets: GivenOffsets,
            member_id: &str,
            generation: i32,
            instance_id: Option<String>,
            retention_time_ms: Option<i64>,
            topic_ids: Option<Tuple<(String, u128)>>,
            version: i16,
        ) -> Self {
            OffsetCommit {
                group_id,
                offsets: offsets.0,
                member_id: member_id.to_owned(),
                generation,
                instance_id,
                retention_time_ms,
                topic_ids: topic_ids.unwrap_or_default(),
                version,
            }
        }
    }
}

impl OffsetCommit {
    fn with<R>(&self, submit: impl FnOnce(Request<'_>) -> R) -> R {
        let topic_id = |name: &str| self.topic_ids.0.iter().find(|(topic, _)| topic == name).map_or(0, |(_, id)| *id);
        let runs: Vec<(&str, Vec<request::CommitPartition<'_>>)> = (self.offsets.0)
            .chunk_by(|(left, _), (right, _)| left.0 == right.0)
            .map(|run| (run[0].0.0.as_str(), run.iter().map(commit_partition).collect()))
            .collect();
        let topics: Vec<_> = runs
            .iter()
            .map(|(name, partitions)| request::CommitTopic { name, topic_id: topic_id(name), partitions })
            .collect();
        submit(Request::OffsetCommit(request::OffsetCommit {
            version: self.version,
            group_id: self.group_id.as_deref(),
            generation: self.generation,
            member_id: &self.member_id,
            instance_id: self.instance_id.as_deref(),
            retention_time_ms: self.retention_time_ms,
            topics: &topics,
        }))
    }
}

fn commit_partition(committed: &(TopicPartition, Committed)) -> request::CommitPartition<'_> {
    let ((_, index), (offset, metadata, leader_epoch)) = committed;
    request::CommitPartition {
        index: *index,
        offset: *offset,
        leader_epoch: *leader_epoch,
        metadata: metadata.as_deref(),
    }
}

/// The partitions that follow each other in one topic, by topic.
fn runs(partitions: &[TopicPartition]) -> Vec<(&str, Vec<i32>)> {
    let same_topic = partitions.chunk_by(|left, right| left.0 == right.0);
    same_topic.map(|run| (run[0].0.as_str(), run.iter().map(|(_, index)| *index).collect())).collect()
}

plain! {
    /// Read offsets.
    OffsetFetch {
        /// `None` is a null group id; the empty string is legal here.
        group_id: Option<String>,
        /// (topic, partition), in request order; `None`: all that have a committed offset.
        partitions: Option<Tuple<TopicPartition>>,
        /// Wait for commits that are in flight.
        require_stable: bool,
        /// (topic, id) of the topics that are asked for by id: an offset of another topic of that name is not shown.
        topic_ids: Tuple<(String, u128)>,
    }
    methods new {
        #[new]
        #[pyo3(
            signature = (group_id, partitions=None, require_stable=false, *, topic_ids=None),
            text_signature = "(group_id, partitions=None, require_stable=False, *, topic_ids=())"
        )]
        fn new(
            group_id: Option<String>,
            partitions: Option<Tuple<TopicPartition>>,
            require_stable: bool,
            topic_ids: Option<Tuple<(String, u128)>>,
        ) -> Self {
            OffsetFetch { group_id, partitions, require_stable, topic_ids: topic_ids.unwrap_or_default() }
        }
    }
}

impl OffsetFetch {
    fn with<R>(&self, submit: impl FnOnce(Request<'_>) -> R) -> R {
        let topic_id = |name: &str| self.topic_ids.0.iter().find(|(topic, _)| topic == name).map_or(0, |(_, id)| *id);
        let runs = self.partitions.as_ref().map(|partitions| runs(&partitions.0));
        let topics: Option<Vec<_>> = runs.as_ref().map(|runs| {
            runs.iter()
                .map(|(name, partitions)| request::FetchTopic { name, topic_id: topic_id(name), partitions })
                .collect()
        });
        submit(Request::OffsetFetch(request::OffsetFetch {
            group_id: self.group_id.as_deref(),
            require_stable: self.require_stable,
            topics: topics.as_deref(),
        }))
    }
}

plain! {
    /// Show one group.
    DescribeGroup {
        /// `None` is a null group id; the empty string is legal here.
        group_id: Option<String>,
        /// The wire version, 0 to 6.
        version: i16,
    }
    methods new {
        #[new]
        #[pyo3(signature = (group_id, *, version=6))]
        fn new(group_id: Option<String>, version: i16) -> Self {
            DescribeGroup { group_id, version }
        }
    }
}

impl DescribeGroup {
    fn with<R>(&self, submit: impl FnOnce(Request<'_>) -> R) -> R {
        submit(Request::DescribeGroup(request::DescribeGroup {
            version: self.version,
            group_id: self.group_id.as_deref(),
        }))
    }
}

plain! {
    /// List the groups of one coordinator partition.
    ListGroups {
        /// Only groups in these states; empty means all.
        states: Tuple<String>,
        /// Only groups of these types; empty means all.
        types: Tuple<String>,
    }
    methods new {
        #[new]
        #[pyo3(signature = (states=None, types=None), text_signature = "(states=(), types=())")]
        fn new(states: Option<Tuple<String>>, types: Option<Tuple<String>>) -> Self {
            ListGroups { states: states.unwrap_or_default(), types: types.unwrap_or_default() }
        }
    }
}

impl ListGroups {
    fn with<R>(&self, submit: impl FnOnce(Request<'_>) -> R) -> R {
        let states: Vec<&str> = self.states.0.iter().map(String::as_str).collect();
        let types: Vec<&str> = self.types.0.iter().map(String::as_str).collect();
        submit(Request::ListGroups(request::ListGroups { states: &states, types: &types }))
    }
}

plain! {
    /// Remove one group with its offsets.
    DeleteGroup {
        /// `None` is a null group id; the empty string is legal here.
        group_id: Option<String>,
    }
}

impl DeleteGroup {
    fn with<R>(&self, submit: impl FnOnce(Request<'_>) -> R) -> R {
        submit(Request::DeleteGroup(request::DeleteGroup { group_id: self.group_id.as_deref() }))
    }
}

plain! {
    /// Remove some offsets of one group.
    OffsetDelete {
        /// `None` is a null group id.
        group_id: Option<String>,
        /// (topic, partition), in request order; may be empty.
        partitions: Tuple<TopicPartition>,
    }
}

impl OffsetDelete {
    fn with<R>(&self, submit: impl FnOnce(Request<'_>) -> R) -> R {
        let runs = runs(&self.partitions.0);
        let topics: Vec<_> =
            runs.iter().map(|(name, partitions)| request::OffsetDeleteTopic { name, partitions }).collect();
        let group_id = self.group_id.as_deref();
        submit(Request::OffsetDelete(request::OffsetDelete { group_id, topics: &topics }))
    }
}

/// Lends the core's view of a request object to `submit`.
pub fn with_request<R>(object: &Bound<'_, PyAny>, submit: impl FnOnce(Request<'_>) -> R) -> PyResult<R> {
    macro_rules! try_each {
        ($($class:ident)+) => {
            $(if let Ok(request) = object.cast::<$class>() {
                return Ok(request.get().with(submit));
            })+
        };
    }
    try_each!(Heartbeat OffsetCommit OffsetFetch JoinGroup SyncGroup LeaveGroup DescribeGroup ListGroups DeleteGroup OffsetDelete);
    let expected = NAMES.join(", ");
    Err(PyTypeError::new_err(format!("expected a request ({expected}), not {}", object.get_type().name()?)))
}

/// Adds the classes to the module.
pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<JoinGroup>()?;
    module.add_class::<SyncGroup>()?;
    module.add_class::<Heartbeat>()?;
    module.add_class::<LeaveGroup>()?;
    module.add_class::<OffsetCommit>()?;
    module.add_class::<OffsetFetch>()?;
    module.add_class::<DescribeGroup>()?;
    module.add_class::<ListGroups>()?;
    module.add_class::<DeleteGroup>()?;
    module.add_class::<OffsetDelete>()?;
    let py = module.py();
    let requests = union(&[
        py.get_type::<JoinGroup>(),
        py.get_type::<SyncGroup>(),
        py.get_type::<Heartbeat>(),
        py.get_type::<LeaveGroup>(),
        py.get_type::<OffsetCommit>(),
        py.get_type::<OffsetFetch>(),
        py.get_type::<DescribeGroup>(),
        py.get_type::<ListGroups>(),
        py.get_type::<DeleteGroup>(),
        py.get_type::<OffsetDelete>(),
    ])?;
    module.add("Request", requests)
}
