//! The group APIs: from the wire to the coordinator of the right partition, and what spans groups or partitions.

use std::{collections::HashMap, rc::Rc};

use rota_core::{
    error::ErrorCode,
    request::{CommitPartition, CommitTopic, DescribeGroup, Request},
};
use rota_wire::{
    RequestHeader, WireError,
    answers::{self, AskedTopic, RefusedTopic},
    requests::{
        DescribeGroupsBody, JoinGroupBody, LeaveGroupBody, ListGroupsBody, OffsetCommitBody, OffsetFetchBody,
        SyncGroupBody, read_heartbeat,
    },
};

use crate::{
    connection::Connection,
    dispatch::Handled,
    node::Node,
    tickets::{Address, Beside, FanOut, Reply},
};

/// The operations on a group, as bits: READ, DELETE, DESCRIBE, `DESCRIBE_CONFIGS`, `ALTER_CONFIGS`. Nobody is refused
/// anything here.
const GROUP_OPERATIONS: i32 = 1 << 3 | 1 << 6 | 1 << 8 | 1 << 10 | 1 << 11;

type Outcome = Result<Handled, WireError>;

/// Submits the one request that a client's request is.
fn submit(
    node: &mut Node,
    connection: &Rc<Connection>,
    header: &RequestHeader<'_>,
    group_id: &str,
    beside: Beside,
    request: Request<'_>,
) -> Handled {
    connection.parked.set(true);
    let reply = Reply::Whole(Address::of(connection, header), beside);
    node.submit(node.partition_of(group_id), reply, request);
    Handled::after(connection)
}

/// `JoinGroup` (docs/protocol.md §4).
pub fn join_group(node: &mut Node, connection: &Rc<Connection>, header: &RequestHeader<'_>, body: &[u8]) -> Outcome {
    let body = JoinGroupBody::read(header.version, body)?;
    let request = body.request(header.client_id, &connection.client_host);
    node.heard(request.group_id, request.member_id, connection);
    let group_id = request.group_id.unwrap_or_default();
    Ok(submit(node, connection, header, group_id, Beside::Nothing, Request::JoinGroup(request)))
}

/// `SyncGroup` (docs/protocol.md §6).
pub fn sync_group(node: &mut Node, connection: &Rc<Connection>, header: &RequestHeader<'_>, body: &[u8]) -> Outcome {
    let body = SyncGroupBody::read(header.version, body)?;
    let request = body.request();
    node.heard(request.group_id, request.member_id, connection);
    let group_id = request.group_id.unwrap_or_default();
    Ok(submit(node, connection, header, group_id, Beside::Nothing, Request::SyncGroup(request)))
}

/// `Heartbeat` (docs/protocol.md §7).
pub fn heartbeat(node: &mut Node, connection: &Rc<Connection>, header: &RequestHeader<'_>, body: &[u8]) -> Outcome {
    let request = read_heartbeat(header.version, body)?;
    node.heard(request.group_id, request.member_id, connection);
    let group_id = request.group_id.unwrap_or_default();
    Ok(submit(node, connection, header, group_id, Beside::Nothing, Request::Heartbeat(request)))
}

/// `LeaveGroup` (docs/protocol.md §8).
pub fn leave_group(node: &mut Node, connection: &Rc<Connection>, header: &RequestHeader<'_>, body: &[u8]) -> Outcome {
    let body = LeaveGroupBody::read(header.version, body)?;
    let request = body.request();
    let group_id = request.group_id.unwrap_or_default();
    Ok(submit(node, connection, header, group_id, Beside::Nothing, Request::LeaveGroup(request)))
}

/// `OffsetCommit` (docs/protocol.md §10): topics and partitions that do not exist are refused here; if nothing is
/// left, the coordinator is not asked.
pub fn offset_commit(node: &mut Node, connection: &Rc<Connection>, header: &RequestHeader<'_>, body: &[u8]) -> Outcome {
    let body = OffsetCommitBody::read(header.version, body)?;
    node.heard(Some(body.group_id), body.member_id(), connection);
    let (refused, kept) = refuse_unknown(node, &body);
    let topics: Vec<CommitTopic<'_>> =
        kept.iter().map(|(name, topic_id, partitions)| CommitTopic { name, topic_id: *topic_id, partitions }).collect();
    if topics.is_empty() {
        Address::of(connection, header).answer(|out| answers::offset_commit(out, header.version, &refused, &[]));
        return Ok(Handled::Answered);
    }
    let request = Request::OffsetCommit(body.request(&topics));
    Ok(submit(node, connection, header, body.group_id, Beside::Refused(refused), request))
}

type KeptTopic<'a> = (&'a str, u128, Vec<CommitPartition<'a>>);

/// Parts a commit into what is refused as unknown and what the coordinator is asked to store.
fn refuse_unknown<'a>(node: &Node, body: &OffsetCommitBody<'a>) -> (Vec<RefusedTopic>, Vec<KeptTopic<'a>>) {
    let mut refused: Vec<RefusedTopic> = Vec::new();
    let mut refused_at: HashMap<&str, usize> = HashMap::new();
    let mut kept: Vec<KeptTopic<'_>> = Vec::with_capacity(body.topics.len());
    for topic in &body.topics {
        let partitions = &body.partitions[topic.partitions.clone()];
        let count = node.topics.partition_count(topic.name).unwrap_or(0);
        let (known, unknown): (Vec<CommitPartition<'_>>, Vec<CommitPartition<'_>>) =
            partitions.iter().partition(|partition| (0..count).contains(&partition.index));
        if !unknown.is_empty() || (partitions.is_empty() && count == 0) {
            let at = *refused_at.entry(topic.name).or_insert_with(|| {
                refused.push((topic.name.into(), Vec::new()));
                refused.len() - 1
            });
            let codes = unknown.iter().map(|partition| (partition.index, ErrorCode::UnknownTopicOrPartition));
            refused[at].1.extend(codes);
        }
        if !known.is_empty() {
            let topic_id = node.topics.topic_id(topic.name).map_or(0, |id| id.as_u128());
            kept.push((topic.name, topic_id, known));
        }
    }
    (refused, kept)
}

/// `OffsetFetch` (docs/protocol.md §11): one ticket per group, answers in the order of the request.
pub fn offset_fetch(node: &mut Node, connection: &Rc<Connection>, header: &RequestHeader<'_>, body: &[u8]) -> Outcome {
    let body = OffsetFetchBody::read(header.version, body)?;
    if header.version <= 7 {
        let Some(group) = body.groups.first() else { return Ok(Handled::Close) };
        let topics = body.topics(group);
        let beside = match &topics {
            Some(topics) if header.version == 1 => Beside::Asked(
                topics.iter().map(|topic| -> AskedTopic { (topic.name.into(), topic.partitions.to_vec()) }).collect(),
            ),
            _ => Beside::Nothing,
        };
        let request = Request::OffsetFetch(body.request(group.group_id, topics.as_deref()));
        return Ok(submit(node, connection, header, group.group_id, beside, request));
    }
    let Some(fan_out) = fan_out(connection, header, body.groups.len(), answers::OPERATIONS_NOT_ASKED) else {
        return Ok(Handled::Answered);
    };
    for (index, group) in body.groups.iter().enumerate() {
        let topics = body.topics(group);
        let request = Request::OffsetFetch(body.request(group.group_id, topics.as_deref()));
        node.submit(node.partition_of(group.group_id), Reply::Part(Rc::clone(&fan_out), index), request);
        if fan_out.borrow().is_too_large() {
            return Ok(Handled::Close);
        }
    }
    Ok(Handled::after(connection))
}

/// `DescribeGroups` (docs/protocol.md §12.1): one ticket per group, answers in the order of the request.
pub fn describe_groups(
    node: &mut Node,
    connection: &Rc<Connection>,
    header: &RequestHeader<'_>,
    body: &[u8],
) -> Outcome {
    let body = DescribeGroupsBody::read(header.version, body)?;
    let operations = if body.include_authorized_operations { GROUP_OPERATIONS } else { answers::OPERATIONS_NOT_ASKED };
    let Some(fan_out) = fan_out(connection, header, body.group_ids.len(), operations) else {
        return Ok(Handled::Answered);
    };
    for (index, group_id) in body.group_ids.iter().enumerate() {
        let request = DescribeGroup { version: header.version, group_id: Some(group_id) };
        let reply = Reply::Part(Rc::clone(&fan_out), index);
        node.submit(node.partition_of(group_id), reply, Request::DescribeGroup(request));
        if fan_out.borrow().is_too_large() {
            return Ok(Handled::Close);
        }
    }
    Ok(Handled::after(connection))
}

/// `ListGroups` (docs/protocol.md §12.2): every partition is asked.
pub fn list_groups(node: &mut Node, connection: &Rc<Connection>, header: &RequestHeader<'_>, body: &[u8]) -> Outcome {
    let body = ListGroupsBody::read(header.version, body)?;
    let partitions = node.partitions();
    let parts = fan_out(connection, header, partitions as usize, answers::OPERATIONS_NOT_ASKED);
    let Some(fan_out) = parts else { return Ok(Handled::Answered) };
    for partition in 0..partitions {
        let reply = Reply::Part(Rc::clone(&fan_out), partition as usize);
        node.submit(partition, reply, Request::ListGroups(body.request()));
    }
    Ok(Handled::after(connection))
}

/// An answer of so many parts; `None` if there are none and it has been given.
fn fan_out(
    connection: &Rc<Connection>,
    header: &RequestHeader<'_>,
    parts: usize,
    operations: i32,
) -> Option<Rc<std::cell::RefCell<FanOut>>> {
    let address = Address::of(connection, header);
    if parts == 0 {
        let throttled = header.version >= 1;
        address.answer(|out| answers::multi(out, throttled, std::iter::empty::<&[u8]>()));
        return None;
    }
    connection.parked.set(true);
    Some(FanOut::new(address, parts, operations))
}
