//! The group APIs: from the wire to the coordinator of the right partition, and what spans groups or partitions.

use std::{
    borrow::Cow,
    collections::{HashMap, HashSet},
    rc::Rc,
};

use rota_core::{
    error::ErrorCode,
    request::{
        CommitPartition, CommitTopic, DeleteGroup, DescribeGroup, FetchTopic, ListGroups, OffsetDelete,
        OffsetDeleteTopic, Request,
    },
    response::CommittedTopic,
};
use rota_wire::{
    RequestHeader, WireError,
    answers::{self, AskedTopic, FetchIds},
    requests::{
        DescribeGroupsBody, FetchGroupBody, JoinGroupBody, LeaveGroupBody, ListGroupsBody, OffsetCommitBody,
        OffsetDeleteBody, OffsetFetchBody, SyncGroupBody, TOPIC_IDS_SINCE, TopicRef, read_delete_groups,
        read_heartbeat,
    },
};
use uuid::Uuid;

use crate::{
    apis::Handled,
    client::reply::{Address, Beside, FanOut, Reply, throttled},
    net::connection::Connection,
    node::Node,
    topics::Topics,
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
    // It never waits, so in real time a pause may learn of the connection with the member's next request.
    if node.clock.is_virtual() {
        node.heard(request.group_id, request.member_id, connection);
    }
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
    let (refused, kept) = refuse_unknown(&node.topics, &body);
    let topics: Vec<CommitTopic<'_>> =
        kept.iter().map(|kept| CommitTopic { name: &kept.0, topic_id: kept.1, partitions: &kept.2 }).collect();
    if topics.is_empty() {
        Address::of(connection, header).answer(|out| answers::offset_commit(out, header.version, &refused, &[]));
        return Ok(Handled::Answered);
    }
    let request = Request::OffsetCommit(body.request(&topics));
    Ok(submit(node, connection, header, body.group_id, Beside::Refused(refused), request))
}

/// A topic that a request names, and how many partitions it has; 0 if there is no such topic.
struct Named<'a> {
    name: Cow<'a, str>,
    topic_id: u128,
    partitions: i32,
    /// Why a partition that is not there is refused.
    unknown: ErrorCode,
}

impl<'a> Named<'a> {
    /// A topic that does not exist keeps what the request calls it.
    fn find(topics: &Topics, topic: TopicRef<'a>) -> Named<'a> {
        let (name, asked_id) = match topic {
            TopicRef::Name(name) => (Some(Cow::Borrowed(name)), 0),
            TopicRef::Id(id) => (topics.topic_name(Uuid::from_u128(id)).map(|name| Cow::Owned(name.to_owned())), id),
        };
        let unknown = if name.is_some() { ErrorCode::UnknownTopicOrPartition } else { ErrorCode::UnknownTopicId };
        let name = name.unwrap_or_default();
        let topic_id = topics.topic_id(&name).map_or(asked_id, |id| id.as_u128());
        let partitions = topics.partition_count(&name).unwrap_or(0);
        Named { name, topic_id, partitions, unknown }
    }
}

/// What the front-end refused of a request by topic, in the order in which topics came first.
#[derive(Default)]
struct Refused {
    topics: Vec<CommittedTopic>,
    at: HashMap<(Box<str>, u128), usize>,
}

impl Refused {
    fn add(&mut self, topic: &Named<'_>, partitions: impl Iterator<Item = i32>) {
        let at = *self.at.entry(((&*topic.name).into(), topic.topic_id)).or_insert_with(|| {
            let name = (&*topic.name).into();
            self.topics.push(CommittedTopic { name, topic_id: topic.topic_id, partitions: Vec::new() });
            self.topics.len() - 1
        });
        self.topics[at].partitions.extend(partitions.map(|index| (index, topic.unknown)));
    }
}

/// A topic's name and id, and what to store of it.
type KeptTopic<'a> = (Cow<'a, str>, u128, Vec<CommitPartition<'a>>);

/// Parts a commit into what is refused as unknown and what the coordinator is asked to store.
fn refuse_unknown<'a>(topics: &Topics, body: &OffsetCommitBody<'a>) -> (Vec<CommittedTopic>, Vec<KeptTopic<'a>>) {
    let mut refused = Refused::default();
    let mut kept = Vec::with_capacity(body.topics.len());
    for topic in &body.topics {
        let partitions = &body.partitions[topic.partitions.clone()];
        let named = Named::find(topics, topic.topic);
        let (known, unknown): (Vec<CommitPartition<'_>>, Vec<CommitPartition<'_>>) =
            partitions.iter().partition(|partition| (0..named.partitions).contains(&partition.index));
        if !unknown.is_empty() || (partitions.is_empty() && named.partitions == 0) {
            refused.add(&named, unknown.iter().map(|partition| partition.index));
        }
        if !known.is_empty() {
            kept.push((named.name, named.topic_id, known));
        }
    }
    (refused.topics, kept)
}

/// `OffsetFetch` (docs/protocol.md §11): one ticket per group, answers in the order of the request.
pub fn offset_fetch(node: &mut Node, connection: &Rc<Connection>, header: &RequestHeader<'_>, body: &[u8]) -> Outcome {
    let body = OffsetFetchBody::read(header.version, body)?;
    if header.version <= 7 {
        let Some(group) = body.groups.first() else { return Ok(Handled::Close) };
        let topics = asked_by_name(&body, group);
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
        let (names, ids) = if header.version >= TOPIC_IDS_SINCE {
            asked_by_id(&node.topics, &body, group)
        } else {
            (Vec::new(), FetchIds::default())
        };
        let by_id: Vec<FetchTopic<'_>> = (names.iter().zip(&ids.asked))
            .map(|((name, partitions), id)| FetchTopic { name, topic_id: *id, partitions })
            .collect();
        let (topics, reply) = if header.version >= TOPIC_IDS_SINCE {
            let topics = group.topics.as_ref().map(|_| by_id);
            (topics, Reply::PartById(Rc::clone(&fan_out), index, ids))
        } else {
            (asked_by_name(&body, group), Reply::Part(Rc::clone(&fan_out), index))
        };
        let request = Request::OffsetFetch(body.request(group.group_id, topics.as_deref()));
        node.submit(node.partition_of(group.group_id), reply, request);
        if fan_out.borrow().is_too_large() {
            return Ok(Handled::Close);
        }
    }
    Ok(Handled::after(connection))
}

/// The topics of one group of a fetch, as the core takes them.
fn asked_by_name<'r>(body: &'r OffsetFetchBody<'_>, group: &'r FetchGroupBody<'_>) -> Option<Vec<FetchTopic<'r>>> {
    let asked = group.topics.as_ref()?.iter().filter_map(|(topic, range)| match topic {
        TopicRef::Name(name) => Some(FetchTopic { name, topic_id: 0, partitions: &body.partitions[range.clone()] }),
        TopicRef::Id(_) => None,
    });
    Some(asked.collect())
}

/// The topics of one group of a fetch of version 10 that exist, by name, and the ids of all that it names.
fn asked_by_id<'r>(
    topics: &Topics,
    body: &'r OffsetFetchBody<'_>,
    group: &FetchGroupBody<'_>,
) -> (Vec<(String, &'r [i32])>, FetchIds) {
    let (mut names, mut ids) = (Vec::new(), FetchIds::default());
    for (topic, range) in group.topics.iter().flatten() {
        let TopicRef::Id(id) = *topic else { continue };
        let partitions = &body.partitions[range.clone()];
        match topics.topic_name(Uuid::from_u128(id)) {
            Some(name) => {
                names.push((name.to_owned(), partitions));
                ids.asked.push(id);
            }
            None => ids.unknown.push((id, partitions.to_vec())),
        }
    }
    (names, ids)
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
    fan_out.borrow_mut().beside_newer(node.newer.values().flat_map(|newer| newer.listed(&ListGroups::ALL)));
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

/// `DeleteGroups` (docs/protocol.md §12.3): one ticket per group, answers in the order in which groups are named
/// first. A group that is named again is not asked about again.
pub fn delete_groups(node: &mut Node, connection: &Rc<Connection>, header: &RequestHeader<'_>, body: &[u8]) -> Outcome {
    let mut group_ids = read_delete_groups(header.version, body)?;
    let mut named = HashSet::new();
    group_ids.retain(|group_id| named.insert(*group_id));
    let parts = fan_out(connection, header, group_ids.len(), answers::OPERATIONS_NOT_ASKED);
    let Some(fan_out) = parts else { return Ok(Handled::Answered) };
    for (index, group_id) in group_ids.iter().enumerate() {
        let request = DeleteGroup { group_id: Some(group_id) };
        let reply = Reply::Part(Rc::clone(&fan_out), index);
        node.submit(node.partition_of(group_id), reply, Request::DeleteGroup(request));
    }
    Ok(Handled::after(connection))
}

/// `OffsetDelete` (docs/protocol.md §12.4): topics and partitions that do not exist are refused here, but the
/// coordinator is asked all the same, for an error of the group comes before that.
pub fn offset_delete(node: &mut Node, connection: &Rc<Connection>, header: &RequestHeader<'_>, body: &[u8]) -> Outcome {
    let body = OffsetDeleteBody::read(header.version, body)?;
    let mut refused = Refused::default();
    let mut kept: Vec<(&str, Vec<i32>)> = Vec::new();
    for (name, range) in &body.topics {
        let named = Named { topic_id: 0, ..Named::find(&node.topics, TopicRef::Name(name)) };
        let partitions = &body.partitions[range.clone()];
        let (known, unknown): (Vec<i32>, Vec<i32>) =
            partitions.iter().partition(|index| (0..named.partitions).contains(index));
        if !unknown.is_empty() || (partitions.is_empty() && named.partitions == 0) {
            refused.add(&named, unknown.into_iter());
        }
        if !known.is_empty() {
            kept.push((name, known));
        }
    }
    let topics: Vec<OffsetDeleteTopic<'_>> =
        kept.iter().map(|(name, partitions)| OffsetDeleteTopic { name, partitions }).collect();
    let request = OffsetDelete { group_id: Some(body.group_id), topics: &topics };
    let beside = Beside::Refused(refused.topics);
    Ok(submit(node, connection, header, body.group_id, beside, Request::OffsetDelete(request)))
}

/// `ListGroups` (docs/protocol.md §12.2): every partition is asked.
pub fn list_groups(node: &mut Node, connection: &Rc<Connection>, header: &RequestHeader<'_>, body: &[u8]) -> Outcome {
    let body = ListGroupsBody::read(header.version, body)?;
    let partitions = node.partitions();
    let parts = fan_out(connection, header, partitions as usize, answers::OPERATIONS_NOT_ASKED);
    let Some(fan_out) = parts else { return Ok(Handled::Answered) };
    let request = body.request();
    fan_out.borrow_mut().beside_newer(node.newer.values().flat_map(|newer| newer.listed(&request)));
    for partition in 0..partitions {
        let reply = Reply::Part(Rc::clone(&fan_out), partition as usize);
        node.submit(partition, reply, Request::ListGroups(request));
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
        let throttled = throttled(header.api, header.version);
        address.answer(|out| answers::multi(out, throttled, std::iter::empty::<&[u8]>()));
        return None;
    }
    connection.parked.set(true);
    Some(FanOut::new(address, parts, operations))
}
