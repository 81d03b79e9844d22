//! What is read from a journal: as the coordinator's own types, but that lists are held here and not borrowed.
//!
//! INVARIANT: the same variants and fields in the same order as in `rota_core::request`, `rota_core::response` and
//! [`Event`]; the tests write each of those and read it here.

use rota_core::{
    AppendId, Config, ErrorCode, Record, Request, Ticket,
    records::serialized_bytes,
    request::{
        Assignment, CommitPartition, CommitTopic, DeleteGroup, DescribeGroup, FetchTopic, Heartbeat, JoinGroup,
        LeaveGroup, LeaveIdentity, ListGroups, OffsetCommit, OffsetDelete, OffsetDeleteTopic, OffsetFetch, Protocol,
        SyncGroup,
    },
    response::{
        CommittedTopic, DeleteAnswer, DescribedMember, FetchedTopic, JoinedMember, LeftMember, ListedGroup,
        OffsetDeletedTopic, SyncAnswer,
    },
};
use serde::{Deserialize, Serialize};

use crate::event::{Event, Firing};

/// See [`Event`].
#[derive(Clone, Debug, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the names are Event's")]
pub enum HeldEvent<'a> {
    Began {
        config: Config,
        partition: u32,
        epoch: u32,
    },
    Submitted {
        ticket: Ticket,
        entropy: u128,
        #[serde(borrow)]
        request: HeldRequest<'a>,
    },
    Advanced(#[serde(borrow)] Firing<'a>),
    Appended {
        append_id: AppendId,
        result: Result<u64, ErrorCode>,
    },
    TopicsDeleted {
        #[serde(borrow)]
        topics: Vec<&'a str>,
    },
    Loaded {
        #[serde(serialize_with = "size_for_people")]
        state: &'a [u8],
    },
    LoadFailed,
    Unloaded,
    Lapsed {
        group_id: &'a str,
        member_id: &'a str,
    },
    Rebalanced {
        group_id: &'a str,
    },
    Snapshot {
        #[serde(serialize_with = "size_for_people")]
        state: &'a [u8],
    },
    Gap {
        entries: u64,
    },
}

/// A state is for machines: a person is told how large it is.
fn size_for_people<S: serde::Serializer>(bytes: &&[u8], serializer: S) -> Result<S::Ok, S::Error> {
    if serializer.is_human_readable() {
        serializer.collect_str(&format_args!("{} bytes", bytes.len()))
    } else {
        serialized_bytes(bytes, serializer)
    }
}

impl HeldEvent<'_> {
    /// What a coordinator is told.
    pub fn with<R>(&self, tell: impl FnOnce(Event<'_>) -> R) -> R {
        match self {
            HeldEvent::Began { config, partition, epoch } => {
                tell(Event::Began { config, partition: *partition, epoch: *epoch })
            }
            HeldEvent::Submitted { ticket, entropy, request } => {
                request.with(|request| tell(Event::Submitted { ticket: *ticket, entropy: *entropy, request }))
            }
            HeldEvent::Advanced(firing) => tell(Event::Advanced(*firing)),
            HeldEvent::Appended { append_id, result } => {
                tell(Event::Appended { append_id: *append_id, result: *result })
            }
            HeldEvent::TopicsDeleted { topics } => tell(Event::TopicsDeleted { topics }),
            HeldEvent::Loaded { state } => tell(Event::Loaded { state }),
            HeldEvent::LoadFailed => tell(Event::LoadFailed),
            HeldEvent::Unloaded => tell(Event::Unloaded),
            HeldEvent::Lapsed { group_id, member_id } => tell(Event::Lapsed { group_id, member_id }),
            HeldEvent::Rebalanced { group_id } => tell(Event::Rebalanced { group_id }),
            HeldEvent::Snapshot { state } => tell(Event::Snapshot { state }),
            HeldEvent::Gap { entries } => tell(Event::Gap { entries: *entries }),
        }
    }
}

/// See [`Request`].
#[derive(Clone, Debug, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the names are Request's")]
pub enum HeldRequest<'a> {
    JoinGroup(#[serde(borrow)] HeldJoin<'a>),
    SyncGroup(#[serde(borrow)] HeldSync<'a>),
    Heartbeat(#[serde(borrow)] Heartbeat<'a>),
    LeaveGroup {
        version: i16,
        group_id: Option<&'a str>,
        #[serde(borrow)]
        members: Vec<LeaveIdentity<'a>>,
    },
    OffsetCommit(#[serde(borrow)] HeldCommit<'a>),
    OffsetFetch {
        group_id: Option<&'a str>,
        require_stable: bool,
        #[serde(borrow)]
        topics: Option<Vec<HeldFetchTopic<'a>>>,
    },
    DescribeGroup(#[serde(borrow)] DescribeGroup<'a>),
    ListGroups {
        #[serde(borrow)]
        states: Vec<&'a str>,
        #[serde(borrow)]
        types: Vec<&'a str>,
    },
    DeleteGroup(#[serde(borrow)] DeleteGroup<'a>),
    OffsetDelete {
        group_id: Option<&'a str>,
        #[serde(borrow)]
        topics: Vec<HeldDeleteTopic<'a>>,
    },
}

/// See [`JoinGroup`].
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct HeldJoin<'a> {
    pub version: i16,
    pub group_id: Option<&'a str>,
    pub member_id: &'a str,
    pub instance_id: Option<&'a str>,
    pub client_id: &'a str,
    pub client_host: &'a str,
    pub session_timeout_ms: i32,
    pub rebalance_timeout_ms: i32,
    pub protocol_type: &'a str,
    #[serde(borrow)]
    pub protocols: Vec<Protocol<'a>>,
    pub reason: Option<&'a str>,
}

/// See [`SyncGroup`].
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct HeldSync<'a> {
    pub version: i16,
    pub group_id: Option<&'a str>,
    pub generation: i32,
    pub member_id: &'a str,
    pub instance_id: Option<&'a str>,
    pub protocol_type: Option<&'a str>,
    pub protocol_name: Option<&'a str>,
    #[serde(borrow)]
    pub assignments: Vec<Assignment<'a>>,
}

/// See [`OffsetCommit`].
#[derive(Clone, Debug, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the names are OffsetCommit's")]
pub struct HeldCommit<'a> {
    pub version: i16,
    pub group_id: Option<&'a str>,
    pub generation: i32,
    pub member_id: &'a str,
    pub instance_id: Option<&'a str>,
    pub retention_time_ms: Option<i64>,
    #[serde(borrow)]
    pub topics: Vec<HeldCommitTopic<'a>>,
}

/// See [`CommitTopic`].
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct HeldCommitTopic<'a> {
    pub name: &'a str,
    pub topic_id: u128,
    #[serde(borrow)]
    pub partitions: Vec<CommitPartition<'a>>,
}

/// See [`FetchTopic`].
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct HeldFetchTopic<'a> {
    pub name: &'a str,
    pub topic_id: u128,
    pub partitions: Vec<i32>,
}

/// See [`OffsetDeleteTopic`].
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct HeldDeleteTopic<'a> {
    pub name: &'a str,
    pub partitions: Vec<i32>,
}

impl HeldRequest<'_> {
    /// As a coordinator takes it.
    pub fn with<R>(&self, ask: impl FnOnce(Request<'_>) -> R) -> R {
        match self {
            HeldRequest::JoinGroup(join) => ask(Request::JoinGroup(join.lent())),
            HeldRequest::SyncGroup(sync) => ask(Request::SyncGroup(sync.lent())),
            HeldRequest::Heartbeat(heartbeat) => ask(Request::Heartbeat(*heartbeat)),
            HeldRequest::LeaveGroup { version, group_id, members } => {
                ask(Request::LeaveGroup(LeaveGroup { version: *version, group_id: *group_id, members }))
            }
            HeldRequest::OffsetCommit(commit) => {
                let topics: Vec<CommitTopic<'_>> = commit.topics.iter().map(HeldCommitTopic::lent).collect();
                ask(Request::OffsetCommit(commit.lent(&topics)))
            }
            HeldRequest::OffsetFetch { group_id, require_stable, topics } => {
                let topics: Option<Vec<FetchTopic<'_>>> =
                    topics.as_ref().map(|topics| topics.iter().map(HeldFetchTopic::lent).collect());
                ask(Request::OffsetFetch(OffsetFetch {
                    group_id: *group_id,
                    require_stable: *require_stable,
                    topics: topics.as_deref(),
                }))
            }
            HeldRequest::DescribeGroup(describe) => ask(Request::DescribeGroup(*describe)),
            HeldRequest::ListGroups { states, types } => ask(Request::ListGroups(ListGroups { states, types })),
            HeldRequest::DeleteGroup(delete) => ask(Request::DeleteGroup(*delete)),
            HeldRequest::OffsetDelete { group_id, topics } => {
                let topics: Vec<OffsetDeleteTopic<'_>> = topics.iter().map(HeldDeleteTopic::lent).collect();
                ask(Request::OffsetDelete(OffsetDelete { group_id: *group_id, topics: &topics }))
            }
        }
    }
}

impl HeldJoin<'_> {
    fn lent(&self) -> JoinGroup<'_> {
        JoinGroup {
            version: self.version,
            group_id: self.group_id,
            member_id: self.member_id,
            instance_id: self.instance_id,
            client_id: self.client_id,
            client_host: self.client_host,
            session_timeout_ms: self.session_timeout_ms,
            rebalance_timeout_ms: self.rebalance_timeout_ms,
            protocol_type: self.protocol_type,
            protocols: &self.protocols,
            reason: self.reason,
        }
    }
}

impl HeldSync<'_> {
    fn lent(&self) -> SyncGroup<'_> {
        SyncGroup {
            version: self.version,
            group_id: self.group_id,
            generation: self.generation,
            member_id: self.member_id,
            instance_id: self.instance_id,
            protocol_type: self.protocol_type,
            protocol_name: self.protocol_name,
            assignments: &self.assignments,
        }
    }
}

impl HeldCommit<'_> {
    fn lent<'t>(&'t self, topics: &'t [CommitTopic<'t>]) -> OffsetCommit<'t> {
        OffsetCommit {
            version: self.version,
            group_id: self.group_id,
            generation: self.generation,
            member_id: self.member_id,
            instance_id: self.instance_id,
            retention_time_ms: self.retention_time_ms,
            topics,
        }
    }
}

impl HeldCommitTopic<'_> {
    fn lent(&self) -> CommitTopic<'_> {
        CommitTopic { name: self.name, topic_id: self.topic_id, partitions: &self.partitions }
    }
}

impl HeldFetchTopic<'_> {
    fn lent(&self) -> FetchTopic<'_> {
        FetchTopic { name: self.name, topic_id: self.topic_id, partitions: &self.partitions }
    }
}

impl HeldDeleteTopic<'_> {
    fn lent(&self) -> OffsetDeleteTopic<'_> {
        OffsetDeleteTopic { name: self.name, partitions: &self.partitions }
    }
}

/// Something that came of an event.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum HeldEffect<'a> {
    /// A request was answered.
    Answer {
        /// Which.
        ticket: Ticket,
        /// What it was told.
        #[serde(borrow)]
        answer: HeldAnswer<'a>,
    },
    /// Records were given to the log, as one batch.
    Append {
        /// The append's name.
        append_id: AppendId,
        /// What is written.
        records: Vec<Record>,
    },
}

/// See `rota_core::Answer`.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the names are Answer's")]
pub enum HeldAnswer<'a> {
    JoinGroup {
        error: ErrorCode,
        generation: i32,
        protocol_type: Option<&'a str>,
        protocol_name: Option<&'a str>,
        leader: &'a str,
        skip_assignment: bool,
        member_id: &'a str,
        #[serde(borrow)]
        members: Vec<JoinedMember<'a>>,
    },
    SyncGroup(#[serde(borrow)] SyncAnswer<'a>),
    Heartbeat(ErrorCode),
    LeaveGroup {
        error: ErrorCode,
        #[serde(borrow)]
        members: Vec<LeftMember<'a>>,
    },
    OffsetCommit {
        topics: Vec<CommittedTopic>,
    },
    OffsetFetch {
        error: ErrorCode,
        group_id: &'a str,
        #[serde(borrow)]
        topics: Vec<FetchedTopic<'a>>,
    },
    DescribeGroup {
        error: ErrorCode,
        error_message: Option<&'a str>,
        group_id: &'a str,
        state: &'a str,
        protocol_type: &'a str,
        protocol_name: &'a str,
        #[serde(borrow)]
        members: Vec<DescribedMember<'a>>,
    },
    ListGroups {
        error: ErrorCode,
        #[serde(borrow)]
        groups: Vec<ListedGroup<'a>>,
    },
    DeleteGroup(#[serde(borrow)] DeleteAnswer<'a>),
    OffsetDelete {
        error: ErrorCode,
        topics: Vec<OffsetDeletedTopic>,
    },
}
