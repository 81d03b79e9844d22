//! Requests to the coordinator, as frozen Python classes. Fields, types and conversions come from the table in
//! `rota_core::messages`; [`arguments`] adds what only Python has: the order of the arguments and their defaults. Some
//! requests are flat in Python, with one entry for each partition in place of one for each topic: they are written out
//! (docs/decisions/0010-flat-messages-in-python.md).

use pyo3::{Borrowed, exceptions::PyTypeError, prelude::*, types::PyMapping};
use rota_core::Request;
use rota_journal::owned::{self, Bytes, Text};

use crate::{
    messages::{from_python, python_type},
    plain::plain,
    values::{Octets, Tuple, union},
};

/// The order of a request's arguments in Python, and their defaults; what follows a `;` is keyword-only. A class whose
/// constructor does more than to store its arguments has a `new` of its own. A default is one token: as an expression
/// PyO3 would show it as `...`.
macro_rules! arguments {
    ($(#[$doc:meta])* JoinGroup $fields:tt) => {
        request_class! {
            $(#[$doc])*
            JoinGroup $fields
            (group_id, member_id = ""; protocols, protocol_type = "consumer", session_timeout_ms = 45_000,
             rebalance_timeout_ms = 300_000, client_id = "client", client_host = "/127.0.0.1", instance_id = None,
             version = 9, reason = None)
        }
    };
    ($(#[$doc:meta])* SyncGroup $fields:tt) => {
        request_class! {
            $(#[$doc])*
            SyncGroup $fields
            (group_id, member_id, generation, assignments, protocol_type, protocol_name, instance_id, version)
            new {
                #[new]
                #[pyo3(signature = (
                    group_id, member_id, generation, assignments=None, *, protocol_type=None, protocol_name=None,
                    instance_id=None, version=None
                ), text_signature = "(group_id, member_id, generation, assignments=(), *, protocol_type=None, \
                    protocol_name=None, instance_id=None, version=None)")]
                #[expect(clippy::too_many_arguments, reason = "a class has as many arguments as its message has fields")]
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
                    // Version 5 must carry both names (§6.1); a request that has neither is of version 4.
                    let newest = if protocol_type.is_some() && protocol_name.is_some() { 5 } else { 4 };
                    let (assignments, version) = (assignments.unwrap_or_default(), version.unwrap_or(newest));
                    SyncGroup {
                        version, group_id, generation, member_id, instance_id, protocol_type, protocol_name, assignments
                    }
                }
            }
        }
    };
    ($(#[$doc:meta])* Heartbeat $fields:tt) => {
        request_class! { $(#[$doc])* Heartbeat $fields (group_id, member_id, generation; instance_id = None) }
    };
    ($(#[$doc:meta])* LeaveGroup $fields:tt) => {
        request_class! {
            $(#[$doc])*
            LeaveGroup $fields
            (group_id, members, version)
            new {
                #[new]
                #[pyo3(signature = (group_id, members, *, version=5))]
                fn new(group_id: Option<String>, members: Vec<GivenLeaver>, version: i16) -> Self {
                    LeaveGroup { version, group_id, members: members.into_iter().map(|given| given.0).collect() }
                }
            }
        }
    };
    ($(#[$doc:meta])* DescribeGroup $fields:tt) => {
        request_class! { $(#[$doc])* DescribeGroup $fields (group_id; version = 6) }
    };
    ($(#[$doc:meta])* ListGroups $fields:tt) => {
        request_class! {
            $(#[$doc])*
            ListGroups $fields
            (states, types)
            new {
                #[new]
                #[pyo3(signature = (states=None, types=None), text_signature = "(states=(), types=())")]
                fn new(states: Option<Tuple<String>>, types: Option<Tuple<String>>) -> Self {
                    ListGroups { states: states.unwrap_or_default(), types: types.unwrap_or_default() }
                }
            }
        }
    };
    ($(#[$doc:meta])* DeleteGroup $fields:tt) => {
        request_class! { $(#[$doc])* DeleteGroup $fields (group_id) }
    };
    ($(#[$doc:meta])* ConsumerGroupHeartbeat $fields:tt) => {
        request_class! {
            $(#[$doc])*
            ConsumerGroupHeartbeat $fields
            (group_id, member_id, member_epoch, instance_id, rack_id, rebalance_timeout_ms, subscribed_topic_names,
             subscribed_topic_regex, server_assignor, topic_partitions, client_id, client_host, version)
            new {
                #[new]
                #[pyo3(signature = (
                    group_id, member_id="", member_epoch=0, *, instance_id=None, rack_id=None, rebalance_timeout_ms=-1,
                    subscribed_topic_names=None, subscribed_topic_regex=None, server_assignor=None,
                    topic_partitions=None, client_id="client", client_host="/127.0.0.1", version=1
                ), text_signature = "(group_id, member_id='', member_epoch=0, *, instance_id=None, rack_id=None, \
                    rebalance_timeout_ms=-1, subscribed_topic_names=None, subscribed_topic_regex=None, \
                    server_assignor=None, topic_partitions=None, client_id='client', client_host='/127.0.0.1', \
                    version=1)")]
                #[expect(clippy::too_many_arguments, reason = "a class has as many arguments as its message has fields")]
                fn new(
                    group_id: String,
                    member_id: &str,
                    member_epoch: i32,
                    instance_id: Option<String>,
                    rack_id: Option<String>,
                    rebalance_timeout_ms: i32,
                    subscribed_topic_names: Option<Tuple<String>>,
                    subscribed_topic_regex: Option<String>,
                    server_assignor: Option<String>,
                    topic_partitions: Option<Tuple<(u128, Tuple<i32>)>>,
                    client_id: &str,
                    client_host: &str,
                    version: i16,
                ) -> Self {
                    let (client_id, client_host) = (client_id.to_owned(), client_host.to_owned());
                    ConsumerGroupHeartbeat {
                        version, group_id, member_id: member_id.to_owned(), member_epoch, instance_id, rack_id,
                        rebalance_timeout_ms, subscribed_topic_names, subscribed_topic_regex, server_assignor,
                        topic_partitions, client_id, client_host
                    }
                }
            }
        }
    };
    ($(#[$doc:meta])* ConsumerGroupDescribe $fields:tt) => {
        request_class! { $(#[$doc])* ConsumerGroupDescribe $fields (group_id) }
    };
    ($(#[$doc:meta])* WriteTxnMarker $fields:tt) => {
        request_class! {
            $(#[$doc])*
            WriteTxnMarker $fields
            (producer_id, producer_epoch, is_commit; coordinator_epoch = 0, transactional_id = None)
        }
    };
    // Written below, flat.
    ($(#[$doc:meta])* $flat:ident $fields:tt) => {};
}

/// The type of an argument: that of the field, but for texts, which are borrowed so that they can have a default.
macro_rules! argument_type {
    (Text) => { &str };
    ($kind:tt $(or $null:ident)?) => { python_type!($kind $(or $null)?) };
}

/// Makes a macro of the request's name that gives the type of an argument by its name.
macro_rules! argument_types {
    ($name:ident { $($(#[$field_doc:meta])* $field:ident: $kind:tt $(or $null:ident)?,)+ }) => {
        macro_rules! $name {
            $(($field) => { argument_type!($kind $(or $null)?) };)+
        }
    };
}

/// The class of one request, and its conversion to the owned type of the same name.
macro_rules! request_class {
    (
        $(#[$doc:meta])* $name:ident $fields:tt
        ($($place:ident $(= $place_default:tt)?),+ $(; $($word:ident $(= $word_default:tt)?),+)?)
    ) => {
        argument_types! { $name $fields }

        request_class! {
            $(#[$doc])*
            $name $fields
            ($($place),+ $(, $($word),+)?)
            new {
                #[new]
                #[pyo3(signature = ($($place $(= $place_default)?),+ $(, *, $($word $(= $word_default)?),+)?))]
                #[expect(clippy::allow_attributes, reason = "holds in some of the classes only")]
                #[allow(clippy::too_many_arguments, reason = "a class has as many arguments as its message has fields")]
                fn new($($place: $name!($place)),+ $(, $($word: $name!($word)),+)?) -> Self {
                    $name { $($place: $place.into()),+ $(, $($word: $word.into()),+)? }
                }
            }
        }
    };
    (
        $(#[$doc:meta])* $name:ident {
            $($(#[$field_doc:meta])* $field:ident: $kind:tt $(or $null:ident)?,)+
        }
        ($($argument:ident),+)
        new { $($new:tt)* }
    ) => {
        plain! {
            $(#[$doc])*
            $name { $($(#[$field_doc])* $field: python_type!($kind $(or $null)?),)+ }
            order ($($argument),+)
            methods { $($new)* }
        }

        impl $name {
            fn owned(&self) -> owned::Request<'_> {
                owned::Request::$name(owned::$name {
                    $($field: from_python!(&self.$field => $kind $(or $null)?),)+
                })
            }
        }
    };
}

macro_rules! request_classes {
    (
        requests { $($(#[$doc:meta])* $api:ident $fields:tt)+ }
        elements { $($(#[$element_doc:meta])* $element:ident $element_fields:tt)+ }
    ) => {
        $(arguments! { $(#[$doc])* $api $fields })+

        /// Borrows a request object as the core's request for `submit`.
        pub fn with_request<R>(object: &Bound<'_, PyAny>, submit: impl FnOnce(Request<'_>) -> R) -> PyResult<R> {
            $(if let Ok(request) = object.cast::<$api>() {
                return Ok(request.get().owned().with(submit));
            })+
            let (expected, found) = (Request::NAMES.join(", "), object.get_type().name()?);
            Err(PyTypeError::new_err(format!("expected a request ({expected}), not {found}")))
        }

        /// Adds the classes to the module.
        pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
            $(module.add_class::<$api>()?;)+
            let py = module.py();
            module.add("Request", union(&[$(py.get_type::<$api>()),+])?)
        }
    };
}
rota_core::requests!(request_classes);

fn text(text: &str) -> Text<'_> {
    Text::Borrowed(text)
}

fn bytes(octets: &Octets) -> Bytes<'_> {
    Bytes::from(&*octets.0)
}

/// (member id, instance id, reason).
type Leaver = (String, Option<String>, Option<String>);

/// A leaver as given: an id, or a shortened tuple.
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

/// (topic, partition).
type TopicPartition = (String, i32);
/// (offset, metadata, leader epoch).
type Committed = (i64, Option<String>, i32);

/// An offset as given: a number, or a shortened tuple.
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

/// Returns a `TypeError` that shows the given value.
fn expected(what: &str, given: Borrowed<'_, '_, PyAny>) -> PyErr {
    match given.repr() {
        Ok(given) => PyTypeError::new_err(format!("expected a {what}, not {given}")),
        Err(error) => error,
    }
}

/// The offsets of a commit: a mapping, or pairs, which may repeat a partition.
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
    /// Stores offsets.
    OffsetCommit {
        /// `None` is a null group id; the empty string is legal here.
        group_id: Option<String>,
        /// ((topic, partition), (offset, metadata, leader epoch)), in request order.
        offsets: Tuple<(TopicPartition, Committed)>,
        /// Empty if the sender is not a member.
        member_id: String,
        /// Negative if the sender is not a member.
        generation: i32,
        /// `group.instance.id` of a static member.
        instance_id: Option<String>,
        /// Requested retention in milliseconds (versions 2 to 4).
        retention_time_ms: Option<i64>,
        /// (topic, id) of the topics with a known id.
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
    fn owned(&self) -> owned::Request<'_> {
        owned::Request::OffsetCommit(owned::OffsetCommit {
            version: self.version,
            group_id: self.group_id.as_deref().map(text),
            generation: self.generation,
            member_id: text(&self.member_id),
            instance_id: self.instance_id.as_deref().map(text),
            retention_time_ms: self.retention_time_ms,
            topics: commit_topics(&self.offsets, &self.topic_ids),
        })
    }
}

plain! {
    /// Stores offsets that a transaction decides about.
    TxnOffsetCommit {
        /// `None` is a null group id; an empty id is refused.
        group_id: Option<String>,
        /// The producer id.
        producer_id: i64,
        /// The producer's epoch.
        producer_epoch: i16,
        /// ((topic, partition), (offset, metadata, leader epoch)), in request order.
        offsets: Tuple<(TopicPartition, Committed)>,
        /// Empty if the sender names no member.
        member_id: String,
        /// Negative if the sender names no member.
        generation: i32,
        /// `group.instance.id` of a static member.
        instance_id: Option<String>,
        /// (topic, id) of the topics with a known id.
        topic_ids: Tuple<(String, u128)>,
        /// The wire version, 0 to 6.
        version: i16,
    }
    methods new {
        #[new]
        #[pyo3(signature = (
            group_id, producer_id, producer_epoch, offsets, member_id="", generation=-1, *, instance_id=None,
            topic_ids=None, version=5
        ), text_signature = "(group_id, producer_id, producer_epoch, offsets, member_id='', generation=-1, *, \
            instance_id=None, topic_ids=(), version=5)")]
        #[expect(clippy::too_many_arguments, reason = "a request has as many arguments as the message has fields")]
        fn new(
            group_id: Option<String>,
            producer_id: i64,
            producer_epoch: i16,
            offsets: GivenOffsets,
            member_id: &str,
            generation: i32,
            instance_id: Option<String>,
            topic_ids: Option<Tuple<(String, u128)>>,
            version: i16,
        ) -> Self {
            TxnOffsetCommit {
                group_id,
                producer_id,
                producer_epoch,
                offsets: offsets.0,
                member_id: member_id.to_owned(),
                generation,
                instance_id,
                topic_ids: topic_ids.unwrap_or_default(),
                version,
            }
        }
    }
}

impl TxnOffsetCommit {
    fn owned(&self) -> owned::Request<'_> {
        owned::Request::TxnOffsetCommit(owned::TxnOffsetCommit {
            version: self.version,
            group_id: self.group_id.as_deref().map(text),
            producer_id: self.producer_id,
            producer_epoch: self.producer_epoch,
            generation: self.generation,
            member_id: text(&self.member_id),
            instance_id: self.instance_id.as_deref().map(text),
            topics: commit_topics(&self.offsets, &self.topic_ids),
        })
    }
}

/// Groups the offsets of consecutive partitions by topic.
fn commit_topics<'a>(
    offsets: &'a Tuple<(TopicPartition, Committed)>,
    topic_ids: &Tuple<(String, u128)>,
) -> Vec<owned::CommitTopic<'a>> {
    let by_topic = offsets.0.chunk_by(|(left, _), (right, _)| left.0 == right.0);
    let topic = |run: &'a [(TopicPartition, Committed)]| owned::CommitTopic {
        name: text(&run[0].0.0),
        topic_id: topic_id(topic_ids, &run[0].0.0),
        partitions: run.iter().map(commit_partition).collect(),
    };
    by_topic.map(topic).collect()
}

fn commit_partition(committed: &(TopicPartition, Committed)) -> owned::CommitPartition<'_> {
    let ((_, index), (offset, metadata, leader_epoch)) = committed;
    let metadata = metadata.as_deref().map(text);
    owned::CommitPartition { index: *index, offset: *offset, leader_epoch: *leader_epoch, metadata }
}

/// Returns the id given for a topic, or 0.
fn topic_id(topic_ids: &Tuple<(String, u128)>, name: &str) -> u128 {
    topic_ids.0.iter().find(|(topic, _)| topic == name).map_or(0, |(_, id)| *id)
}

/// Groups consecutive partitions by topic.
fn by_topic(partitions: &Tuple<TopicPartition>) -> impl Iterator<Item = (&str, Vec<i32>)> {
    let same_topic = partitions.0.chunk_by(|left, right| left.0 == right.0);
    same_topic.map(|run| (run[0].0.as_str(), run.iter().map(|(_, index)| *index).collect()))
}

/// In Python, an `OffsetFetch` that identifies its sender.
type ConsumerOffsetFetch = OffsetFetch;

plain! {
    /// Reads offsets.
    OffsetFetch {
        /// `None` is a null group id; the empty string is legal here.
        group_id: Option<String>,
        /// (topic, partition) in request order; `None`: all with a committed offset.
        partitions: Option<Tuple<TopicPartition>>,
        /// Waits for commits in flight.
        require_stable: bool,
        /// (topic, id) of topics requested by id: offsets of another topic with that name are left out.
        topic_ids: Tuple<(String, u128)>,
        /// The member id of the sender; `None`: not a member.
        member_id: Option<String>,
        /// The member epoch of the sender; negative: not a member.
        member_epoch: i32,
    }
    methods new {
        #[new]
        #[pyo3(
            signature = (
                group_id, partitions=None, require_stable=false, *, topic_ids=None, member_id=None, member_epoch=-1
            ),
            text_signature = "(group_id, partitions=None, require_stable=False, *, topic_ids=(), member_id=None, \
                member_epoch=-1)"
        )]
        fn new(
            group_id: Option<String>,
            partitions: Option<Tuple<TopicPartition>>,
            require_stable: bool,
            topic_ids: Option<Tuple<(String, u128)>>,
            member_id: Option<String>,
            member_epoch: i32,
        ) -> Self {
            let topic_ids = topic_ids.unwrap_or_default();
            OffsetFetch { group_id, partitions, require_stable, topic_ids, member_id, member_epoch }
        }
    }
}

impl OffsetFetch {
    fn owned(&self) -> owned::Request<'_> {
        let topic = |(name, partitions)| owned::FetchTopic {
            name: text(name),
            topic_id: topic_id(&self.topic_ids, name),
            partitions,
        };
        let group_id = self.group_id.as_deref().map(text);
        let require_stable = self.require_stable;
        let topics = self.partitions.as_ref().map(|partitions| by_topic(partitions).map(topic).collect());
        if self.member_id.is_none() && self.member_epoch < 0 {
            return owned::Request::OffsetFetch(owned::OffsetFetch { group_id, require_stable, topics });
        }
        owned::Request::ConsumerOffsetFetch(owned::ConsumerOffsetFetch {
            group_id,
            member_id: self.member_id.as_deref().map(text),
            member_epoch: self.member_epoch,
            require_stable,
            topics,
        })
    }
}

plain! {
    /// Deletes some offsets of one group.
    OffsetDelete {
        /// `None` is a null group id.
        group_id: Option<String>,
        /// (topic, partition), in request order; may be empty.
        partitions: Tuple<TopicPartition>,
    }
}

impl OffsetDelete {
    fn owned(&self) -> owned::Request<'_> {
        let topic = |(name, partitions)| owned::OffsetDeleteTopic { name: text(name), partitions };
        owned::Request::OffsetDelete(owned::OffsetDelete {
            group_id: self.group_id.as_deref().map(text),
            topics: by_topic(&self.partitions).map(topic).collect(),
        })
    }
}
