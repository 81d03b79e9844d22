//! The group requests, decoded in place: strings and bytes are views into the frame.
//!
//! Each `read` takes the body after the header. A field that the version does not carry gets the default of the
//! protocol's schema. Bytes after a decodable body are ignored (docs/protocol.md §17.2).

use std::ops::Range;

use rota_core::{
    consumer_group::group::GroupState,
    explain::GroupProtocol,
    request::{
        Assignment, CommitPartition, CommitTopic, ConsumerOffsetFetch, FetchTopic, Heartbeat, JoinGroup, LeaveGroup,
        LeaveIdentity, ListGroups, OffsetCommit, OffsetFetch, Protocol, Request, SyncGroup,
    },
    states::State,
};

use crate::{
    limits::GROUPS_MAX,
    read::{Reader, WireError},
    versions::{self, Api},
};

/// Maximum elements that an array reserves memory for before they are decoded.
const RESERVED_ELEMENTS_MAX: usize = 1_024;

pub(crate) fn reader(key: i16, version: i16, body: &[u8]) -> Result<Reader<'_>, WireError> {
    let unsupported = WireError::Unsupported { api_key: key, version };
    let api: &Api = versions::find(key).filter(|api| api.serves(version)).ok_or(unsupported)?;
    Ok(Reader::new(body, api.flexible(version)))
}

/// Reads `count` elements, each with its tagged fields.
pub(crate) fn elements<'a, T>(
    reader: &mut Reader<'a>,
    count: usize,
    mut element: impl FnMut(&mut Reader<'a>) -> Result<T, WireError>,
) -> Result<Vec<T>, WireError> {
    let mut read = Vec::with_capacity(count.min(RESERVED_ELEMENTS_MAX));
    for _ in 0..count {
        read.push(element(reader)?);
        reader.skip_tags()?;
    }
    Ok(read)
}

/// Reads a field that exists from version `since` on.
pub(crate) fn since<T: Default>(
    version: i16,
    since: i16,
    read: impl FnOnce() -> Result<T, WireError>,
) -> Result<T, WireError> {
    if version >= since { read() } else { Ok(T::default()) }
}

/// A decoded `JoinGroup`, v0–9.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JoinGroupBody<'a> {
    version: i16,
    group_id: &'a str,
    session_timeout_ms: i32,
    rebalance_timeout_ms: i32,
    member_id: &'a str,
    instance_id: Option<&'a str>,
    protocol_type: &'a str,
    protocols: Vec<Protocol<'a>>,
    reason: Option<&'a str>,
}

impl<'a> JoinGroupBody<'a> {
    /// Reads the body of a request of `version`.
    pub fn read(version: i16, body: &'a [u8]) -> Result<JoinGroupBody<'a>, WireError> {
        let mut reader = reader(versions::JOIN_GROUP, version, body)?;
        let group_id = reader.str("group_id")?;
        let session_timeout_ms = reader.i32("session_timeout_ms")?;
        let rebalance_timeout_ms = if version >= 1 { reader.i32("rebalance_timeout_ms")? } else { -1 };
        let member_id = reader.str("member_id")?;
        let instance_id = since(version, 5, || reader.nullable_id_prefix("group_instance_id"))?;
        let protocol_type = reader.str("protocol_type")?;
        let count = reader.count("protocols")?;
        let protocols = elements(&mut reader, count, |reader| {
            Ok(Protocol { name: reader.str("name")?, metadata: reader.bytes("metadata")? })
        })?;
        let reason = since(version, 8, || reader.nullable_str("reason"))?;
        reader.skip_tags()?;
        Ok(JoinGroupBody {
            version,
            group_id,
            session_timeout_ms,
            rebalance_timeout_ms,
            member_id,
            instance_id,
            protocol_type,
            protocols,
            reason,
        })
    }

    /// Converts to the core's type. `client_host` has the form `/127.0.0.1`.
    pub fn request<'r>(&'r self, client_id: &'r str, client_host: &'r str) -> JoinGroup<'r> {
        JoinGroup {
            version: self.version,
            group_id: Some(self.group_id),
            member_id: self.member_id,
            instance_id: self.instance_id,
            client_id,
            client_host,
            session_timeout_ms: self.session_timeout_ms,
            rebalance_timeout_ms: self.rebalance_timeout_ms,
            protocol_type: self.protocol_type,
            protocols: &self.protocols,
            reason: self.reason,
        }
    }
}

/// A decoded `SyncGroup`, v0–5.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SyncGroupBody<'a> {
    version: i16,
    group_id: &'a str,
    generation: i32,
    member_id: &'a str,
    instance_id: Option<&'a str>,
    protocol_type: Option<&'a str>,
    protocol_name: Option<&'a str>,
    assignments: Vec<Assignment<'a>>,
}

impl<'a> SyncGroupBody<'a> {
    /// Reads the body of a request of `version`.
    pub fn read(version: i16, body: &'a [u8]) -> Result<SyncGroupBody<'a>, WireError> {
        let mut reader = reader(versions::SYNC_GROUP, version, body)?;
        let group_id = reader.str("group_id")?;
        let generation = reader.i32("generation_id")?;
        let member_id = reader.str("member_id")?;
        let instance_id = since(version, 3, || reader.nullable_str("group_instance_id"))?;
        let protocol_type = since(version, 5, || reader.nullable_str("protocol_type"))?;
        let protocol_name = since(version, 5, || reader.nullable_str("protocol_name"))?;
        let count = reader.count("assignments")?;
        let assignments = elements(&mut reader, count, |reader| {
            Ok(Assignment { member_id: reader.str("member_id")?, assignment: reader.bytes("assignment")? })
        })?;
        reader.skip_tags()?;
        Ok(SyncGroupBody {
            version,
            group_id,
            generation,
            member_id,
            instance_id,
            protocol_type,
            protocol_name,
            assignments,
        })
    }

    /// Converts to the core's type.
    pub fn request(&self) -> SyncGroup<'_> {
        SyncGroup {
            version: self.version,
            group_id: Some(self.group_id),
            generation: self.generation,
            member_id: self.member_id,
            instance_id: self.instance_id,
            protocol_type: self.protocol_type,
            protocol_name: self.protocol_name,
            assignments: &self.assignments,
        }
    }
}

/// Reads the body of a `Heartbeat`, v0–4. Allocates nothing.
pub fn read_heartbeat(version: i16, body: &[u8]) -> Result<Heartbeat<'_>, WireError> {
    let mut reader = reader(versions::HEARTBEAT, version, body)?;
    let group_id = Some(reader.str("group_id")?);
    let generation = reader.i32("generation_id")?;
    let member_id = reader.str("member_id")?;
    let instance_id = since(version, 3, || reader.nullable_str("group_instance_id"))?;
    reader.skip_tags()?;
    Ok(Heartbeat { group_id, generation, member_id, instance_id })
}

/// A decoded `LeaveGroup`, v0–5; up to v2 it names one member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeaveGroupBody<'a> {
    version: i16,
    group_id: &'a str,
    members: Vec<LeaveIdentity<'a>>,
}

impl<'a> LeaveGroupBody<'a> {
    /// Reads the body of a request of `version`.
    pub fn read(version: i16, body: &'a [u8]) -> Result<LeaveGroupBody<'a>, WireError> {
        let mut reader = reader(versions::LEAVE_GROUP, version, body)?;
        let group_id = reader.str("group_id")?;
        let members = if version <= 2 {
            vec![LeaveIdentity { member_id: reader.str("member_id")?, instance_id: None, reason: None }]
        } else {
            let count = reader.count("members")?;
            elements(&mut reader, count, |reader| {
                Ok(LeaveIdentity {
                    member_id: reader.str("member_id")?,
                    instance_id: reader.nullable_str("group_instance_id")?,
                    reason: since(version, 5, || reader.nullable_str("reason"))?,
                })
            })?
        };
        reader.skip_tags()?;
        Ok(LeaveGroupBody { version, group_id, members })
    }

    /// Converts to the core's type.
    pub fn request(&self) -> LeaveGroup<'_> {
        LeaveGroup { version: self.version, group_id: Some(self.group_id), members: &self.members }
    }
}

/// The topic in a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TopicRef<'a> {
    /// By name.
    Name(&'a str),
    /// By id: from version 10 on, or 6 of `TxnOffsetCommit`.
    Id(u128),
}

/// The first version of `OffsetCommit` and `OffsetFetch` that names topics by id.
pub const TOPIC_IDS_SINCE: i16 = 10;

impl<'a> TopicRef<'a> {
    pub(crate) fn read(reader: &mut Reader<'a>, by_id: bool) -> Result<TopicRef<'a>, WireError> {
        if by_id { reader.uuid("topic_id").map(TopicRef::Id) } else { reader.str("name").map(TopicRef::Name) }
    }
}

/// One topic of a decoded `OffsetCommit`; `partitions` is a range of [`OffsetCommitBody::partitions`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommitTopicBody<'a> {
    /// The topic.
    pub topic: TopicRef<'a>,
    /// The range of its partitions.
    pub partitions: Range<usize>,
}

/// Reads the topics of a commit, and the partitions of all topics.
pub(crate) fn commit_topics<'a>(
    reader: &mut Reader<'a>,
    by_id: bool,
    has_leader_epochs: bool,
) -> Result<(Vec<CommitTopicBody<'a>>, Vec<CommitPartition<'a>>), WireError> {
    let mut partitions = Vec::new();
    let count = reader.count("topics")?;
    let topics = elements(reader, count, |reader| {
        let topic = TopicRef::read(reader, by_id)?;
        let first = partitions.len();
        for _ in 0..reader.count("partitions")? {
            partitions.push(CommitPartition {
                index: reader.i32("partition_index")?,
                offset: reader.i64("committed_offset")?,
                leader_epoch: if has_leader_epochs { reader.i32("committed_leader_epoch")? } else { -1 },
                metadata: reader.nullable_str("committed_metadata")?,
            });
            reader.skip_tags()?;
        }
        Ok(CommitTopicBody { topic, partitions: first..partitions.len() })
    })?;
    Ok((topics, partitions))
}

/// A decoded `OffsetCommit`, v2–10.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OffsetCommitBody<'a> {
    version: i16,
    /// The group id.
    pub group_id: &'a str,
    generation: i32,
    member_id: &'a str,
    instance_id: Option<&'a str>,
    retention_time_ms: Option<i64>,
    /// The topics in request order.
    pub topics: Vec<CommitTopicBody<'a>>,
    /// The partitions of all topics.
    pub partitions: Vec<CommitPartition<'a>>,
}

impl<'a> OffsetCommitBody<'a> {
    /// Reads the body of a request of `version`.
    pub fn read(version: i16, body: &'a [u8]) -> Result<OffsetCommitBody<'a>, WireError> {
        let mut reader = reader(versions::OFFSET_COMMIT, version, body)?;
        let group_id = reader.str("group_id")?;
        let generation = reader.i32("generation_id_or_member_epoch")?;
        let member_id = reader.str("member_id")?;
        let instance_id = since(version, 7, || reader.nullable_str("group_instance_id"))?;
        let retention_time_ms = if version <= 4 { reader.i64("retention_time_ms")? } else { -1 };
        let (topics, partitions) = commit_topics(&mut reader, version >= TOPIC_IDS_SINCE, version >= 6)?;
        reader.skip_tags()?;
        let retention_time_ms = (retention_time_ms != -1).then_some(retention_time_ms);
        Ok(OffsetCommitBody {
            version,
            group_id,
            generation,
            member_id,
            instance_id,
            retention_time_ms,
            topics,
            partitions,
        })
    }

    /// Converts to the core's type, with the topics that the front-end accepted.
    pub fn request<'r>(&'r self, topics: &'r [CommitTopic<'r>]) -> OffsetCommit<'r> {
        OffsetCommit {
            version: self.version,
            group_id: Some(self.group_id),
            generation: self.generation,
            member_id: self.member_id,
            instance_id: self.instance_id,
            retention_time_ms: self.retention_time_ms,
            topics,
        }
    }

    /// Returns the sender's member id; "" if it is not a member.
    pub fn member_id(&self) -> &'a str {
        self.member_id
    }
}

/// One group of a decoded `OffsetFetch`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FetchGroupBody<'a> {
    /// The group id.
    pub group_id: &'a str,
    /// `None` requests every partition with a committed offset. The ranges are of [`OffsetFetchBody::partitions`].
    pub topics: FetchTopics<'a>,
    /// v9+: the member id and member epoch of the sender.
    pub asker: Option<(Option<&'a str>, i32)>,
}

/// A decoded `OffsetFetch`, v1–10; up to v7 it names one group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OffsetFetchBody<'a> {
    /// The groups in request order.
    pub groups: Vec<FetchGroupBody<'a>>,
    /// The partitions of all topics of all groups.
    pub partitions: Vec<i32>,
    require_stable: bool,
}

impl<'a> OffsetFetchBody<'a> {
    /// Reads the body of a request of `version`.
    pub fn read(version: i16, body: &'a [u8]) -> Result<OffsetFetchBody<'a>, WireError> {
        let mut reader = reader(versions::OFFSET_FETCH, version, body)?;
        let mut partitions = Vec::new();
        let groups = if version <= 7 {
            let group_id = reader.str("group_id")?;
            let topics = read_fetch_topics(&mut reader, version, &mut partitions)?;
            vec![FetchGroupBody { group_id, topics, asker: None }]
        } else {
            let count = reader.count("groups")?;
            limit_groups(count, "groups")?;
            elements(&mut reader, count, |reader| {
                let group_id = reader.str("group_id")?;
                let asker = if version >= 9 {
                    Some((reader.nullable_str("member_id")?, reader.i32("member_epoch")?))
                } else {
                    None
                };
                Ok(FetchGroupBody { group_id, topics: read_fetch_topics(reader, version, &mut partitions)?, asker })
            })?
        };
        let require_stable = since(version, 7, || reader.bool("require_stable"))?;
        reader.skip_tags()?;
        Ok(OffsetFetchBody { groups, partitions, require_stable })
    }

    /// Converts the request about one group to the core's type.
    pub fn request<'r>(&self, group_id: &'r str, topics: Option<&'r [FetchTopic<'r>]>) -> OffsetFetch<'r> {
        OffsetFetch { group_id: Some(group_id), require_stable: self.require_stable, topics }
    }

    /// Converts the request about one group of a sender with a member id and epoch.
    pub fn request_of<'r>(&self, group: &FetchGroupBody<'r>, topics: Option<&'r [FetchTopic<'r>]>) -> Request<'r> {
        match group.asker {
            None | Some((None, i32::MIN..0)) => Request::OffsetFetch(self.request(group.group_id, topics)),
            Some((member_id, member_epoch)) => Request::ConsumerOffsetFetch(ConsumerOffsetFetch {
                group_id: Some(group.group_id),
                member_id,
                member_epoch,
                require_stable: self.require_stable,
                topics,
            }),
        }
    }
}

/// Refuses a request with more groups, or keys of coordinators, than the limit.
pub(crate) fn limit_groups(count: usize, field: &'static str) -> Result<(), WireError> {
    if count > GROUPS_MAX { Err(WireError::TooManyElements { field }) } else { Ok(()) }
}

/// The topics of an `OffsetFetch`, each with a range of [`OffsetFetchBody::partitions`].
pub type FetchTopics<'a> = Option<Vec<(TopicRef<'a>, Range<usize>)>>;

fn read_fetch_topics<'a>(
    reader: &mut Reader<'a>,
    version: i16,
    partitions: &mut Vec<i32>,
) -> Result<FetchTopics<'a>, WireError> {
    let nullable = version >= 2;
    let Some(count) = reader.nullable_count("topics")? else {
        return if nullable { Ok(None) } else { Err(WireError::Null { field: "topics" }) };
    };
    let topics = elements(reader, count, |reader| {
        let topic = TopicRef::read(reader, version >= TOPIC_IDS_SINCE)?;
        let first = partitions.len();
        for _ in 0..reader.count("partition_indexes")? {
            partitions.push(reader.i32("partition_indexes")?);
        }
        Ok((topic, first..partitions.len()))
    })?;
    Ok(Some(topics))
}

/// Decodes a `DeleteGroups`, v0–3, into the group ids in request order.
pub fn read_delete_groups(version: i16, body: &[u8]) -> Result<Vec<&str>, WireError> {
    let mut reader = reader(versions::DELETE_GROUPS, version, body)?;
    let group_ids = read_strs(&mut reader, "groups_names")?;
    limit_groups(group_ids.len(), "groups")?;
    reader.skip_tags()?;
    Ok(group_ids)
}

/// A decoded `OffsetDelete`, v0.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OffsetDeleteBody<'a> {
    /// The group id.
    pub group_id: &'a str,
    /// Topics in request order, each with a range of `partitions`.
    pub topics: Vec<(&'a str, Range<usize>)>,
    /// The partitions of all topics.
    pub partitions: Vec<i32>,
}

impl<'a> OffsetDeleteBody<'a> {
    /// Reads the body of a request of `version`.
    pub fn read(version: i16, body: &'a [u8]) -> Result<OffsetDeleteBody<'a>, WireError> {
        let mut reader = reader(versions::OFFSET_DELETE, version, body)?;
        let group_id = reader.str("group_id")?;
        let mut partitions = Vec::new();
        let count = reader.count("topics")?;
        let topics = elements(&mut reader, count, |reader| {
            let name = reader.str("name")?;
            let first = partitions.len();
            for _ in 0..reader.count("partitions")? {
                partitions.push(reader.i32("partition_index")?);
            }
            Ok((name, first..partitions.len()))
        })?;
        Ok(OffsetDeleteBody { group_id, topics, partitions })
    }
}

/// A decoded `DescribeGroups`, v0–6.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DescribeGroupsBody<'a> {
    /// Group ids in request order.
    pub group_ids: Vec<&'a str>,
    /// Whether the answer has the client's authorized operations (v3+).
    pub include_authorized_operations: bool,
}

impl<'a> DescribeGroupsBody<'a> {
    /// Reads the body of a request of `version`.
    pub fn read(version: i16, body: &'a [u8]) -> Result<DescribeGroupsBody<'a>, WireError> {
        let mut reader = reader(versions::DESCRIBE_GROUPS, version, body)?;
        let group_ids = read_strs(&mut reader, "groups")?;
        limit_groups(group_ids.len(), "groups")?;
        let include_authorized_operations = since(version, 3, || reader.bool("include_authorized_operations"))?;
        reader.skip_tags()?;
        Ok(DescribeGroupsBody { group_ids, include_authorized_operations })
    }
}

/// A decoded `ListGroups`, v0–5.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListGroupsBody {
    states: Vec<&'static str>,
    types: Vec<&'static str>,
}

impl ListGroupsBody {
    /// Reads the body of a request of `version`.
    pub fn read(version: i16, body: &[u8]) -> Result<ListGroupsBody, WireError> {
        let mut reader = reader(versions::LIST_GROUPS, version, body)?;
        let states = since(version, 4, || read_filter(&mut reader, "states_filter", &group_states()))?;
        let types = since(version, 5, || read_filter(&mut reader, "types_filter", &GROUP_TYPES))?;
        reader.skip_tags()?;
        Ok(ListGroupsBody { states, types })
    }

    /// Converts to the core's type.
    pub fn request(&self) -> ListGroups<'_> {
        ListGroups { states: &self.states, types: &self.types }
    }
}

/// The types of groups, as a list names them.
pub const GROUP_TYPES: [&str; 4] = [GroupProtocol::Classic.name(), GroupProtocol::Consumer.name(), "share", "streams"];

/// The states of groups of every type. Those of the types that are not coordinated here are among them.
fn group_states() -> Vec<&'static str> {
    State::ALL.map(State::name).into_iter().chain(GroupState::ALL.map(GroupState::name)).collect()
}

/// A word of a filter that no group has.
const UNKNOWN_WORD: &str = "";

/// Reads the words of a filter: each one of `known` once, and one for all others, with which a filter without known words
/// passes nothing. A request has room for a million words, and each group is compared with all that are kept.
fn read_filter(
    reader: &mut Reader<'_>,
    field: &'static str,
    known: &[&'static str],
) -> Result<Vec<&'static str>, WireError> {
    let mut kept = Vec::new();
    for _ in 0..reader.count(field)? {
        let word = reader.str(field)?.trim();
        let named = known.iter().copied().find(|name| word.eq_ignore_ascii_case(name)).unwrap_or(UNKNOWN_WORD);
        if !kept.contains(&named) {
            kept.push(named);
        }
    }
    Ok(kept)
}

/// Reads an array of strings. Such elements have no tagged fields.
pub(crate) fn read_strs<'a>(reader: &mut Reader<'a>, field: &'static str) -> Result<Vec<&'a str>, WireError> {
    let count = reader.count(field)?;
    let mut read = Vec::with_capacity(count.min(RESERVED_ELEMENTS_MAX));
    for _ in 0..count {
        read.push(reader.str(field)?);
    }
    Ok(read)
}
