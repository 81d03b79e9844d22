//! What happens to a member, and what it wants done.

use std::{collections::BTreeMap, fmt, sync::Arc};

use regex_lite::Regex;
use rota_core::ErrorCode;

/// One partition of a topic.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Partition {
    /// The topic's name.
    pub topic: Arc<str>,
    /// From 0.
    pub index: i32,
}

impl Partition {
    /// The partition `index` of `topic`.
    pub fn new(topic: impl Into<Arc<str>>, index: i32) -> Partition {
        Partition { topic: topic.into(), index }
    }
}

impl fmt::Display for Partition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.topic, self.index)
    }
}

/// A broker as clients are told about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// Its id.
    pub id: i32,
    /// Where it listens.
    pub host: String,
    /// Where it listens.
    pub port: i32,
}

/// Whom a request is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum To {
    /// Any broker of the cluster.
    Any,
    /// The group's coordinator, over a connection of its own: a request may wait there for long.
    Coordinator(Node),
}

/// Names one request; ascending.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestId(pub u64);

/// The application's name for one commit or fetch of offsets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CommitId(pub u64);

/// A committed position: the next offset to read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Offset {
    /// The next offset to read.
    pub offset: i64,
    /// -1: unknown.
    pub leader_epoch: i32,
    /// The application's own words.
    pub metadata: String,
}

impl Offset {
    /// A position without an epoch and without words.
    pub fn at(offset: i64) -> Offset {
        Offset { offset, leader_epoch: -1, metadata: String::new() }
    }
}

/// What a member wants to read.
#[derive(Clone, Debug, Default)]
pub enum Subscription {
    /// Nothing: it is in no group.
    #[default]
    None,
    /// These topics, as a member of the group.
    Topics(Vec<Arc<str>>),
    /// Every topic whose whole name matches, as a member of the group.
    Pattern(Regex),
    /// These partitions, chosen by hand: no group membership, but offsets may be committed.
    Manual(Vec<Partition>),
}

impl Subscription {
    /// Topics whose whole name matches.
    pub fn pattern(pattern: &str) -> Result<Subscription, regex_lite::Error> {
        Regex::new(&format!("^(?:{pattern})$")).map(Subscription::Pattern)
    }

    /// Whether it needs a group to say what to read.
    pub fn is_group(&self) -> bool {
        matches!(self, Subscription::Topics(_) | Subscription::Pattern(_))
    }

    /// Whether a topic is asked for.
    pub fn wants(&self, topic: &str) -> bool {
        match self {
            Subscription::None => false,
            Subscription::Topics(topics) => topics.iter().any(|wanted| **wanted == *topic),
            Subscription::Pattern(pattern) => pattern.is_match(topic),
            Subscription::Manual(partitions) => partitions.iter().any(|partition| *partition.topic == *topic),
        }
    }
}

/// What the cluster says about one topic.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TopicMetadata {
    /// How many partitions it has.
    pub partitions: i32,
    /// The racks of each partition's replicas; empty: unknown.
    pub racks: Vec<Vec<String>>,
}

/// One member as the leader is told of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Joined {
    /// Its id.
    pub member_id: String,
    /// `group.instance.id` of a static member.
    pub instance_id: Option<String>,
    /// Its embedded subscription (§18).
    pub metadata: Vec<u8>,
}

/// What a member asks for. Wire versions are the driver's choice: the newest that both sides have.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "fields are the protocol's own")]
pub enum Request {
    FindCoordinator {
        group_id: String,
    },
    /// `None`: all topics.
    Metadata {
        topics: Option<Vec<Arc<str>>>,
    },
    JoinGroup {
        group_id: String,
        member_id: String,
        instance_id: Option<String>,
        session_timeout_ms: i32,
        rebalance_timeout_ms: i32,
        /// Name and embedded subscription, in order of preference.
        protocols: Vec<(String, Vec<u8>)>,
        reason: String,
    },
    SyncGroup {
        group_id: String,
        generation: i32,
        member_id: String,
        instance_id: Option<String>,
        protocol_name: String,
        /// Member id and embedded assignment: the leader's plan.
        assignments: Vec<(String, Vec<u8>)>,
    },
    Heartbeat {
        group_id: String,
        generation: i32,
        member_id: String,
        instance_id: Option<String>,
    },
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
    /// Asks to wait for commits that are in flight.
    OffsetFetch {
        group_id: String,
        partitions: Vec<Partition>,
    },
}

/// What a broker said. A code that is not an [`ErrorCode`] is to be handed in as `UnknownServerError`.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "fields are the protocol's own")]
pub enum Answer {
    FindCoordinator(Result<Node, ErrorCode>),
    /// Topics that exist; those asked for that do not are left out.
    Metadata(BTreeMap<Arc<str>, TopicMetadata>),
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
    LeaveGroup(ErrorCode),
    OffsetCommit(Vec<(Partition, ErrorCode)>),
    OffsetFetch {
        error: ErrorCode,
        offsets: Vec<(Partition, Result<Option<Offset>, ErrorCode>)>,
    },
}

/// What happens to a member.
#[derive(Clone, Debug)]
#[expect(missing_docs, reason = "fields are said in the text")]
pub enum Event {
    /// The application wants to read something else from now on.
    Subscribe(Subscription),
    /// The application waits for news: rounds go on, notices are given, failures are raised again.
    Poll,
    /// The application works: if it does so for longer than `max_poll_interval_ms`, the member leaves.
    Busy,
    /// The application has dealt with the notice that wanted it.
    Done,
    /// Answer to [`Notice::Plan`]: member ids with embedded assignments, or what went wrong.
    Planned { generation: i32, plan: Result<Vec<(String, Vec<u8>)>, String> },
    /// The bytes that the subscription of this strategy carries from the next join on.
    UserData { strategy: String, user_data: Option<Vec<u8>> },
    /// The application has read up to here: what automatic commits commit.
    Position { partition: Partition, offset: Offset },
    /// Commit these.
    Commit { commit: CommitId, offsets: Vec<(Partition, Offset)> },
    /// Ask for the committed offsets of these.
    Fetch { fetch: CommitId, partitions: Vec<Partition> },
    /// Join again though nothing has changed.
    Rejoin { reason: String },
    /// Commit, give everything up, leave.
    Close,
    /// A broker answered.
    Answered { request: RequestId, answer: Answer },
    /// The connection is gone, could not be made, or said something that is no answer.
    Disconnected(To),
    /// Time passed.
    Advance,
}

/// What a member wants done.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "fields are said in the text")]
pub enum Effect {
    /// Send this. The member itself gives up waiting at its deadline.
    Send { request: RequestId, to: To, body: Request },
    /// Close the connection: an answer did not come in time. Its other requests are given up, too.
    Disconnect(To),
    /// Tell the application.
    Tell(Notice),
}

/// What the application is told.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "fields are said in the text")]
pub enum Notice {
    /// Stop reading these, commit what you have, then say [`Event::Done`]. May be empty in an eager rebalance.
    Revoke { partitions: Vec<Partition> },
    /// These may be another's already: stop reading, commit nothing, then say [`Event::Done`].
    Lose { partitions: Vec<Partition> },
    /// Read these, too; `all` is everything that is yours now. Say [`Event::Done`].
    Assign { generation: i32, added: Vec<Partition>, all: Vec<Partition>, user_data: Option<Vec<u8>> },
    /// You lead: divide the topics' partitions among the members, and say [`Event::Planned`].
    Plan { strategy: String, generation: i32, members: Vec<Joined>, topics: BTreeMap<Arc<str>, TopicMetadata> },
    /// A commit ended.
    Committed { commit: CommitId, result: Result<(), Failure> },
    /// The committed offsets; `None`: none.
    Fetched { fetch: CommitId, result: Result<Vec<(Partition, Option<Offset>)>, Failure> },
    /// Something that retrying would not heal. The member tries again at the next [`Event::Poll`].
    Failed(Failure),
    /// The member is out of the group, and says no more.
    Closed,
}

impl Notice {
    /// Whether the member waits for [`Event::Done`].
    pub fn wants_done(&self) -> bool {
        matches!(self, Notice::Revoke { .. } | Notice::Lose { .. } | Notice::Assign { .. })
    }
}

/// Why something failed for good.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "fields are said in the text")]
pub enum Failure {
    /// A broker said so.
    Answer { api: &'static str, error: ErrorCode },
    /// The group rebalances: commit again after the next assignment.
    RebalanceInProgress,
    /// The partitions may be another's already: what was read will be read again.
    CommitFailed,
    /// No success within the time for it; the last error if there was one.
    TimedOut { api: &'static str, last: Option<ErrorCode> },
    /// A topic of the commit or the fetch that may not be used, or does not exist.
    Topics { error: ErrorCode, topics: Vec<Arc<str>> },
    /// The coordinator named another protocol at sync than at join.
    InconsistentProtocol { joined: String, synced: String },
    /// The coordinator chose a protocol that this member does not offer.
    UnknownProtocol { protocol: String },
    /// Another member's subscription cannot be read.
    Subscription { member_id: String, error: String },
    /// This member's assignment cannot be read.
    Assignment { error: String },
    /// No plan.
    Plan { strategy: String, error: String },
    /// The member was closed before it was done.
    Closed,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Answer { api, error } => write!(f, "{api} was answered {}", error.name()),
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
