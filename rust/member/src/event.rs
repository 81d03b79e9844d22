//! The events and effects of a member.

use std::{collections::BTreeMap, fmt, sync::Arc};

use regex_lite::Regex;
use rota_core::ErrorCode;

/// One partition of a topic.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Partition {
    /// The topic's name.
    pub topic: Arc<str>,
    /// Index from 0.
    pub index: i32,
}

impl Partition {
    /// Creates the partition `index` of `topic`.
    pub fn new(topic: impl Into<Arc<str>>, index: i32) -> Partition {
        Partition { topic: topic.into(), index }
    }
}

impl fmt::Display for Partition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.topic, self.index)
    }
}

/// The address of a broker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// The node id.
    pub id: i32,
    /// The advertised host.
    pub host: String,
    /// The advertised port.
    pub port: i32,
}

/// The destination of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum To {
    /// Any broker of the cluster.
    Any,
    /// The group's coordinator, on a connection of its own, because a request may wait there for long.
    Coordinator(Node),
}

/// Identifies one request; ids ascend.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestId(pub u64);

/// The application's id of one commit or fetch of offsets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CommitId(pub u64);

/// A committed position: the next offset to read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Offset {
    /// The next offset to read.
    pub offset: i64,
    /// Leader epoch; -1: unknown.
    pub leader_epoch: i32,
    /// Metadata of the application.
    pub metadata: String,
}

impl Offset {
    /// Creates a position without epoch and metadata.
    pub fn at(offset: i64) -> Offset {
        Offset { offset, leader_epoch: -1, metadata: String::new() }
    }
}

/// What a member reads.
#[derive(Clone, Debug, Default)]
pub enum Subscription {
    /// Nothing: it is in no group.
    #[default]
    None,
    /// These topics, as a member of the group.
    Topics(Vec<Arc<str>>),
    /// Every topic whose whole name matches, as a member of the group.
    Pattern(Regex),
    /// Every topic that matches this regular expression on the broker. Only with the newer protocol.
    CoordinatorPattern(Arc<str>),
    /// These partitions, assigned manually: no membership, but commits are allowed.
    Manual(Vec<Partition>),
}

impl Subscription {
    /// Subscribes to topics whose whole name matches.
    pub fn pattern(pattern: &str) -> Result<Subscription, regex_lite::Error> {
        // By itself first: within the group below, `a)|(?:b` would be valid, and match more than whole names.
        Regex::new(pattern)?;
        Regex::new(&format!("^(?:{pattern})$")).map(Subscription::Pattern)
    }

    /// Whether the subscription needs a group.
    pub fn is_group(&self) -> bool {
        matches!(self, Subscription::Topics(_) | Subscription::Pattern(_) | Subscription::CoordinatorPattern(_))
    }

    /// Whether the subscription includes a topic.
    pub fn wants(&self, topic: &str) -> bool {
        match self {
            Subscription::None => false,
            Subscription::Topics(topics) => topics.iter().any(|wanted| **wanted == *topic),
            Subscription::Pattern(pattern) => pattern.is_match(topic),
            // The coordinator knows.
            Subscription::CoordinatorPattern(_) => true,
            Subscription::Manual(partitions) => partitions.iter().any(|partition| *partition.topic == *topic),
        }
    }
}

/// The cluster's metadata of one topic.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TopicMetadata {
    /// Number of partitions.
    pub partitions: i32,
    /// Racks of each partition's replicas; empty if unknown.
    pub racks: Vec<Vec<String>>,
}

/// One member in the leader's list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Joined {
    /// The member id.
    pub member_id: String,
    /// `group.instance.id` of a static member.
    pub instance_id: Option<String>,
    /// The embedded subscription (§18).
    pub metadata: Vec<u8>,
}

/// A heartbeat of the newer protocol. `None`, and -1 in `rebalance_timeout_ms`: unchanged.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "fields are the protocol's own")]
pub struct ConsumerHeartbeat {
    pub group_id: String,
    pub member_id: String,
    /// 0 joins, -1 leaves, -2 leaves and keeps a static member's place.
    pub epoch: i32,
    pub instance_id: Option<String>,
    pub rack: Option<String>,
    pub rebalance_timeout_ms: i32,
    pub topics: Option<Vec<Arc<str>>>,
    /// The empty pattern matches nothing (v1+).
    pub pattern: Option<Arc<str>>,
    pub assignor: Option<String>,
    /// The member's partitions by topic id.
    pub owned: Option<Vec<(u128, Vec<i32>)>>,
}

/// A request of a member. The driver chooses the wire version: the newest that both sides support.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "fields are the protocol's own")]
pub enum Request {
    FindCoordinator {
        group_id: String,
    },
    /// Requests topics; `None`: all.
    Metadata {
        topics: Option<Vec<Arc<str>>>,
    },
    /// Requests the names of topics, with `Metadata` by topic id.
    TopicNames {
        ids: Vec<u128>,
    },
    JoinGroup {
        group_id: String,
        member_id: String,
        instance_id: Option<String>,
        session_timeout_ms: i32,
        rebalance_timeout_ms: i32,
        /// Name and embedded subscription of each protocol, in order of preference.
        protocols: Vec<(String, Vec<u8>)>,
        reason: String,
    },
    SyncGroup {
        group_id: String,
        generation: i32,
        member_id: String,
        instance_id: Option<String>,
        protocol_name: String,
        /// The leader's plan: member ids with embedded assignments.
        assignments: Vec<(String, Vec<u8>)>,
    },
    Heartbeat {
        group_id: String,
        generation: i32,
        member_id: String,
        instance_id: Option<String>,
    },
    /// The newer protocol's request: joins, reports and leaves.
    ConsumerGroupHeartbeat(ConsumerHeartbeat),
    LeaveGroup {
        group_id: String,
        member_id: String,
        instance_id: Option<String>,
        reason: String,
    },
    OffsetCommit {
        group_id: String,
        generation: i32,
        member_id: String,
        instance_id: Option<String>,
        offsets: Vec<(Partition, Offset)>,
    },
    /// Waits for commits in flight.
    OffsetFetch {
        group_id: String,
        /// Member id and epoch of a member that uses the newer protocol (v9+).
        member: Option<(String, i32)>,
        partitions: Vec<Partition>,
    },
}

/// An answer of a broker. The driver passes an unknown error code as `UnknownServerError`.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "fields are the protocol's own")]
pub enum Answer {
    FindCoordinator(Result<Node, ErrorCode>),
    /// The existing topics; requested topics that do not exist are missing. `refused` has topics with an error that does
    /// not go away by itself.
    Metadata {
        topics: BTreeMap<Arc<str>, TopicMetadata>,
        refused: Vec<(Arc<str>, ErrorCode)>,
    },
    /// Names by topic id; requested topics that do not exist are missing.
    TopicNames(BTreeMap<u128, Arc<str>>),
    JoinGroup {
        error: ErrorCode,
        generation: i32,
        protocol_name: String,
        leader: String,
        member_id: String,
        skip_assignment: bool,
        members: Vec<Joined>,
    },
    SyncGroup {
        error: ErrorCode,
        protocol_name: Option<String>,
        assignment: Vec<u8>,
    },
    Heartbeat(ErrorCode),
    ConsumerGroupHeartbeat {
        error: ErrorCode,
        message: Option<String>,
        epoch: i32,
        heartbeat_interval_ms: i32,
        /// Partitions by topic id; `None`: unchanged.
        assignment: Option<Vec<(u128, Vec<i32>)>>,
    },
    LeaveGroup(ErrorCode),
    OffsetCommit(Vec<(Partition, ErrorCode)>),
    OffsetFetch {
        error: ErrorCode,
        offsets: Vec<(Partition, Result<Option<Offset>, ErrorCode>)>,
    },
}

/// An event of a member.
#[derive(Clone, Debug)]
#[expect(missing_docs, reason = "the text of each variant describes its fields")]
pub enum Event {
    /// The application changes its subscription.
    Subscribe(Subscription),
    /// The application polls: rounds continue, notices are delivered, failures are raised again.
    Poll,
    /// The application works. After `max_poll_interval_ms` the member leaves.
    Busy,
    /// The application has handled the notice that required it.
    Done,
    /// The answer to [`Notice::Plan`]: member ids with embedded assignments, or an error.
    Planned { generation: i32, plan: Result<Vec<(String, Vec<u8>)>, String> },
    /// User data of this strategy's subscription, from the next join on.
    UserData { strategy: String, user_data: Option<Vec<u8>> },
    /// The application's position, for automatic commits.
    Position { partition: Partition, offset: Offset },
    /// Commits these offsets.
    Commit { commit: CommitId, offsets: Vec<(Partition, Offset)> },
    /// Fetches the committed offsets of these partitions.
    Fetch { fetch: CommitId, partitions: Vec<Partition> },
    /// Rejoins although nothing has changed. Only with the classic protocol.
    Rejoin { reason: String },
    /// Commits, revokes everything and leaves. The last commit may take `api_timeout_ms` unless a time is given.
    Close { commit_timeout_ms: Option<u32> },
    /// A broker answered.
    Answered { request: RequestId, answer: Answer },
    /// A connection failed, could not be opened, or returned an undecodable answer.
    Disconnected(To),
    /// Time passed.
    Advance,
}

/// An effect of a member.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the text of each variant describes its fields")]
pub enum Effect {
    /// Sends a request. The member itself times it out.
    Send { request: RequestId, to: To, body: Request },
    /// Closes a connection, because an answer did not arrive in time. Its other requests are dropped, too.
    Disconnect(To),
    /// Notifies the application.
    Tell(Notice),
}

/// A notice to the application.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the text of each variant describes its fields")]
pub enum Notice {
    /// Stop reading these partitions and commit, then report [`Event::Done`]. May be empty in an eager rebalance.
    Revoke { partitions: Vec<Partition> },
    /// Stop reading these partitions without a commit, since they may have another owner already; then report
    /// [`Event::Done`].
    Lose { partitions: Vec<Partition> },
    /// Read these partitions, too; `all` has the whole assignment. Then report [`Event::Done`].
    Assign { generation: i32, added: Vec<Partition>, all: Vec<Partition>, user_data: Option<Vec<u8>> },
    /// Plan as the leader: assign the topics' partitions to the members, and report [`Event::Planned`].
    Plan { strategy: String, generation: i32, members: Vec<Joined>, topics: BTreeMap<Arc<str>, TopicMetadata> },
    /// The result of a commit.
    Committed { commit: CommitId, result: Result<(), Failure> },
    /// The committed offsets; `None` for a partition without one.
    Fetched { fetch: CommitId, result: Result<Vec<(Partition, Option<Offset>)>, Failure> },
    /// A failure that a retry cannot fix. The member tries again at the next [`Event::Poll`].
    Failed(Failure),
    /// The member has left the group and is finished.
    Closed,
}

impl Notice {
    /// Whether the notice requires [`Event::Done`].
    pub fn wants_done(&self) -> bool {
        matches!(self, Notice::Revoke { .. } | Notice::Lose { .. } | Notice::Assign { .. })
    }
}

/// Why an operation failed for good.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the text of each variant describes its fields")]
pub enum Failure {
    /// A broker answered with an error.
    Answer { api: &'static str, error: ErrorCode },
    /// A broker answered with an error and a message.
    Refused { api: &'static str, error: ErrorCode, message: String },
    /// The broker does not speak the newer protocol.
    Unsupported { message: Option<String> },
    /// The group rebalances. Commit again after the next assignment.
    RebalanceInProgress,
    /// The partitions may have another owner already, which will read the messages again.
    CommitFailed,
    /// The operation timed out; the last error, if any.
    TimedOut { api: &'static str, last: Option<ErrorCode> },
    /// Topics of the commit or fetch that are not authorized or do not exist.
    Topics { error: ErrorCode, topics: Vec<Arc<str>> },
    /// The coordinator answered the sync with another protocol than the join.
    InconsistentProtocol { joined: String, synced: String },
    /// The coordinator chose a protocol that this member does not offer.
    UnknownProtocol { protocol: String },
    /// The subscription of another member cannot be decoded.
    Subscription { member_id: String, error: String },
    /// The assignment of this member cannot be decoded.
    Assignment { error: String },
    /// Planning failed.
    Plan { strategy: String, error: String },
    /// The member was closed before.
    Closed,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Answer { api, error } => write!(f, "{api} was answered {}", error.name()),
            Failure::Refused { api, error, message } => write!(f, "{api} was answered {}: {message}", error.name()),
            Failure::Unsupported { message } => write!(
                f,
                "the broker does not speak the newer consumer protocol{}: use group_protocol `classic`, or switch \
                 the protocol on in the broker",
                message.as_ref().map(|message| format!(" ({message})")).unwrap_or_default()
            ),
            Failure::RebalanceInProgress => f.write_str("the group rebalances: commit again after the next assignment"),
            Failure::CommitFailed => f.write_str(
                "not committed: this member is out of the group, and its partitions may be another's; it was silent \
                 for its session timeout, or worked for longer than max_poll_interval_ms between two polls",
            ),
            Failure::TimedOut { api, last: Some(error) } => {
                write!(f, "{api} did not succeed in time; the last answer was {}", error.name())
            }
            Failure::TimedOut { api, last: None } => write!(f, "{api} was not answered in time"),
            Failure::Topics { error, topics } => write!(f, "{} for topics {}", error.name(), topics.join(", ")),
            Failure::InconsistentProtocol { joined, synced } => {
                write!(f, "joined under protocol `{joined}`, but synced under `{synced}`")
            }
            Failure::UnknownProtocol { protocol } => {
                write!(f, "the coordinator chose protocol `{protocol}`, which this member does not offer")
            }
            Failure::Subscription { member_id, error } => {
                write!(f, "the subscription of member `{member_id}` cannot be read: {error}")
            }
            Failure::Assignment { error } => write!(f, "the assignment cannot be read: {error}"),
            Failure::Plan { strategy, error } => write!(f, "strategy `{strategy}` gave no plan: {error}"),
            Failure::Closed => f.write_str("the member was closed first"),
        }
    }
}

impl std::error::Error for Failure {}
