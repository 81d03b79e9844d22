//! Requests and answers of a member as dicts of the messages' fields, under the protocol's names.

use std::{collections::BTreeMap, sync::Arc};

use pyo3::{
    exceptions::{PyKeyError, PyValueError},
    prelude::*,
    types::{PyBytes, PyDict, PyList},
};
use rota_core::ErrorCode;
use rota_member::{Answer, ConsumerHeartbeat, Node, Offset, Partition, Request, TopicMetadata, event::Joined};

/// Creates a dict from pairs of different types.
macro_rules! dict {
    ($py:expr, $($key:literal: $value:expr,)+) => {{
        let dict = PyDict::new($py);
        $(dict.set_item($key, $value)?;)+
        dict
    }};
}

/// Adds the sender's identity.
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

/// Converts names with bytes to dicts with these two keys.
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

/// Returns the API and the fields of a request.
pub fn request_to_python<'py>(py: Python<'py>, request: &Request) -> PyResult<(&'static str, Bound<'py, PyDict>)> {
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
        Request::TopicNames { ids } => ("Metadata", topics_by_id(py, ids)?),
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
        Request::ConsumerGroupHeartbeat(heartbeat) => ("ConsumerGroupHeartbeat", heartbeat_fields(py, heartbeat)?),
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
        Request::OffsetFetch { group_id, member, partitions } => {
            let topics = by_topic(py, partitions.iter().map(|partition| (partition, None)))?;
            let (member_id, epoch) = member.as_ref().map_or((None, -1), |(id, epoch)| (Some(id), *epoch));
            let group = dict! { py,
                "group_id": group_id, "member_id": member_id, "member_epoch": epoch, "topics": &topics,
            };
            let fields = dict! { py,
                "group_id": group_id, "topics": topics, "groups": [group], "require_stable": true,
            };
            ("OffsetFetch", fields)
        }
    })
}

fn topics_by_id<'py>(py: Python<'py>, ids: &[u128]) -> PyResult<Bound<'py, PyDict>> {
    let by_id = |id: &u128| -> PyResult<_> { Ok(dict! { py, "topic_id": uuid(py, *id)?, "name": py.None(), }) };
    let topics = ids.iter().map(by_id).collect::<PyResult<Vec<_>>>()?;
    Ok(dict! { py, "topics": topics, "allow_auto_topic_creation": false, })
}

fn heartbeat_fields<'py>(py: Python<'py>, heartbeat: &ConsumerHeartbeat) -> PyResult<Bound<'py, PyDict>> {
    let one = |(topic, indexes): &(u128, Vec<i32>)| -> PyResult<_> {
        Ok(dict! { py, "topic_id": uuid(py, *topic)?, "partitions": indexes, })
    };
    let owned =
        heartbeat.owned.as_ref().map(|owned| owned.iter().map(one).collect::<PyResult<Vec<_>>>()).transpose()?;
    let topics: Option<Vec<&str>> = heartbeat.topics.as_ref().map(|topics| topics.iter().map(|one| &**one).collect());
    Ok(dict! { py,
        "group_id": &heartbeat.group_id,
        "member_id": &heartbeat.member_id,
        "member_epoch": heartbeat.epoch,
        "instance_id": &heartbeat.instance_id,
        "rack_id": &heartbeat.rack,
        "rebalance_timeout_ms": heartbeat.rebalance_timeout_ms,
        "subscribed_topic_names": topics,
        "subscribed_topic_regex": heartbeat.pattern.as_deref(),
        "server_assignor": &heartbeat.assignor,
        "topic_partitions": owned,
    })
}

fn uuid(py: Python<'_>, id: u128) -> PyResult<Bound<'_, PyAny>> {
    py.import("uuid")?.getattr("UUID")?.call((), Some(&dict! { py, "int": id, }))
}

/// Groups by topic: commits with offsets, fetches by index.
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

/// Returns a required field of the answer.
fn field<'py, T>(fields: &Bound<'py, PyDict>, name: &str) -> PyResult<T>
where
    T: for<'a> FromPyObject<'a, 'py, Error: Into<PyErr>>,
{
    let found = fields.get_item(name)?.ok_or_else(|| PyKeyError::new_err(name.to_owned()))?;
    found.extract().map_err(Into::into)
}

/// Returns a field that older versions do not have.
fn newer<'py, T>(fields: &Bound<'py, PyDict>, name: &str) -> PyResult<Option<T>>
where
    T: for<'a> FromPyObject<'a, 'py, Error: Into<PyErr>>,
{
    match fields.get_item(name)?.filter(|found| !found.is_none()) {
        Some(found) => found.extract().map(Some).map_err(Into::into),
        None => Ok(None),
    }
}

/// Converts an error code; an unknown code becomes `UnknownServerError`.
fn code(fields: &Bound<'_, PyDict>) -> PyResult<ErrorCode> {
    let code: i16 = newer(fields, "error_code")?.unwrap_or_default();
    Ok(ErrorCode::from_code(code).unwrap_or(ErrorCode::UnknownServerError))
}

fn coordinator(fields: &Bound<'_, PyDict>) -> PyResult<Result<Node, ErrorCode>> {
    // Version 4 and newer answer every key; the request had this one only.
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

/// Converts the fields of an answer. `by_id`: the answer to [`Request::TopicNames`].
pub fn answer(api: &str, by_id: bool, fields: &Bound<'_, PyDict>) -> PyResult<Answer> {
    Ok(match api {
        "FindCoordinator" => Answer::FindCoordinator(coordinator(fields)?),
        "Metadata" if by_id => Answer::TopicNames(names(fields)?),
        "Metadata" => Answer::Metadata { topics: metadata(fields)?, refused: refused(fields)? },
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
        "ConsumerGroupHeartbeat" => consumer_heartbeat(fields)?,
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
        _ => return Err(PyValueError::new_err(format!("a member does not send {api}"))),
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

fn consumer_heartbeat(fields: &Bound<'_, PyDict>) -> PyResult<Answer> {
    let topic = |topic: Bound<'_, PyDict>| -> PyResult<_> { Ok((topic_id(&topic)?, field(&topic, "partitions")?)) };
    let assignment: Option<Bound<'_, PyDict>> = newer(fields, "assignment")?;
    let topics: Option<Vec<Bound<'_, PyDict>>> =
        assignment.map(|assignment| field(&assignment, "topic_partitions")).transpose()?;
    Ok(Answer::ConsumerGroupHeartbeat {
        error: code(fields)?,
        message: newer(fields, "error_message")?,
        epoch: field(fields, "member_epoch")?,
        heartbeat_interval_ms: field(fields, "heartbeat_interval_ms")?,
        assignment: topics.map(|topics| topics.into_iter().map(topic).collect::<PyResult<_>>()).transpose()?,
    })
}

/// Reads a `uuid.UUID`.
fn topic_id(topic: &Bound<'_, PyDict>) -> PyResult<u128> {
    field::<Bound<'_, PyAny>>(topic, "topic_id")?.getattr("int")?.extract()
}

/// Converts the names of existing topics.
fn names(fields: &Bound<'_, PyDict>) -> PyResult<BTreeMap<u128, Arc<str>>> {
    let mut names = BTreeMap::new();
    for topic in field::<Vec<Bound<'_, PyDict>>>(fields, "topics")? {
        if let (Some(name), ErrorCode::None) = (newer::<String>(&topic, "name")?, code(&topic)?) {
            names.insert(topic_id(&topic)?, name.into());
        }
    }
    Ok(names)
}

/// Converts the topics that the member may not see, or whose names are not valid.
fn refused(fields: &Bound<'_, PyDict>) -> PyResult<Vec<(Arc<str>, ErrorCode)>> {
    let mut refused = Vec::new();
    for topic in field::<Vec<Bound<'_, PyDict>>>(fields, "topics")? {
        let error = code(&topic)?;
        if matches!(error, ErrorCode::TopicAuthorizationFailed | ErrorCode::InvalidTopicException)
            && let Some(name) = newer::<String>(&topic, "name")?
        {
            refused.push((name.into(), error));
        }
    }
    Ok(refused)
}

/// Converts existing topics, with the racks of their replicas if any broker has one.
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
            let index: i32 = field(partition, "partition_index")?;
            let replicas: Vec<i32> = field(partition, "replica_nodes")?;
            let place = usize::try_from(index).ok().and_then(|index| of_replicas.get_mut(index));
            if let Some(place) = place {
                *place = replicas.iter().filter_map(|node| racks.get(node).cloned()).collect();
            }
        }
        topics.insert(name.into(), TopicMetadata { partitions: found.len() as i32, racks: of_replicas });
    }
    Ok(topics)
}
