//! What the coordinator can be asked. Borrowed from the caller's buffers: a heartbeat costs no allocation.
//!
//! `version` is the wire version of the request where a rule depends on it; everything else about versions is the
//! codec's affair (docs/protocol.md §17.3).

use serde::{Deserialize, Serialize};

use crate::records::serialized_bytes;

/// One reading of both clocks. Deadlines live on the monotonic one; wall time is only for records and retention.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Now {
    /// Monotonic milliseconds since any fixed instant; never goes back.
    pub mono_ms: u64,
    /// Milliseconds since the Unix epoch.
    pub wall_ms: i64,
}

impl Now {
    /// The monotonic instant `wait_ms` from now; the end of time is the latest there is.
    pub fn after(self, wait_ms: u64) -> u64 {
        self.mono_ms.saturating_add(wait_ms)
    }

    /// The same for a timeout as the protocol has it: a negative one has passed already.
    pub fn after_timeout(self, timeout_ms: i32) -> u64 {
        self.after(u64::try_from(timeout_ms).unwrap_or(0))
    }
}

/// The caller's name for one request. Each ticket is answered exactly once (S18).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Ticket(pub u64);

/// 128 random bits that come in with a request; member ids are minted from them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Entropy(pub u128);

/// A request about one group (or, for `ListGroups`, about one coordinator partition).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum Request<'a> {
    /// Become, or stay, a member (§4).
    JoinGroup(JoinGroup<'a>),
    /// Receive, and as the leader hand in, the assignment (§6).
    SyncGroup(SyncGroup<'a>),
    /// Show that the member is alive (§7).
    Heartbeat(Heartbeat<'a>),
    /// Stop being a member, one or several at once (§8).
    LeaveGroup(LeaveGroup<'a>),
    /// Store offsets (§10).
    OffsetCommit(OffsetCommit<'a>),
    /// Read offsets (§11).
    OffsetFetch(OffsetFetch<'a>),
    /// Show one group (§12.1).
    DescribeGroup(DescribeGroup<'a>),
    /// List the groups of this partition (§12.2).
    ListGroups(ListGroups<'a>),
    /// Remove one group with its offsets (§12.3).
    DeleteGroup(DeleteGroup<'a>),
    /// Remove some offsets of one group (§12.4).
    OffsetDelete(OffsetDelete<'a>),
}

/// One protocol that a joining member offers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Protocol<'a> {
    /// Such as `range`.
    pub name: &'a str,
    /// Opaque to the coordinator; for consumers the embedded subscription (§18).
    #[serde(serialize_with = "serialized_bytes")]
    pub metadata: &'a [u8],
}

/// `JoinGroup` (§4).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct JoinGroup<'a> {
    /// v0 has no rebalance timeout, v4 asks for a member id first, v9 knows `skip_assignment`.
    pub version: i16,
    /// `None` is a null group id, which is always illegal.
    pub group_id: Option<&'a str>,
    /// Empty on the first join.
    pub member_id: &'a str,
    /// `group.instance.id` of a static member.
    pub instance_id: Option<&'a str>,
    /// From the request header; prefix of a minted member id.
    pub client_id: &'a str,
    /// As `/127.0.0.1`.
    pub client_host: &'a str,
    /// How long the member may be silent.
    pub session_timeout_ms: i32,
    /// How long a rebalance waits for the member (ignored in v0).
    pub rebalance_timeout_ms: i32,
    /// `consumer` for consumers.
    pub protocol_type: &'a str,
    /// In order of preference.
    pub protocols: &'a [Protocol<'a>],
    /// Why the client joins (v8+); only shown.
    pub reason: Option<&'a str>,
}

/// `SyncGroup` (§6).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct SyncGroup<'a> {
    /// v5+ must carry the protocol type and name.
    pub version: i16,
    /// `None` is a null group id.
    pub group_id: Option<&'a str>,
    /// The generation that the member believes in.
    pub generation: i32,
    /// The sender.
    pub member_id: &'a str,
    /// `group.instance.id` of a static member.
    pub instance_id: Option<&'a str>,
    /// Compared if present.
    pub protocol_type: Option<&'a str>,
    /// Compared if present.
    pub protocol_name: Option<&'a str>,
    /// The leader's plan; ignored from anybody else.
    pub assignments: &'a [Assignment<'a>],
}

/// One member's part of the leader's plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Assignment<'a> {
    /// Whose.
    pub member_id: &'a str,
    /// Relayed byte for byte (S11).
    #[serde(serialize_with = "serialized_bytes")]
    pub assignment: &'a [u8],
}

/// `Heartbeat` (§7).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Heartbeat<'a> {
    /// `None` is a null group id.
    #[serde(borrow)]
    pub group_id: Option<&'a str>,
    /// The generation that the member believes in.
    pub generation: i32,
    /// The sender.
    pub member_id: &'a str,
    /// `group.instance.id` of a static member.
    #[serde(borrow)]
    pub instance_id: Option<&'a str>,
}

/// A `Heartbeat` whose ids are still bytes of the request, not even known to be text; its sender named no instance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Beat<'a> {
    /// The group's id.
    pub group_id: &'a [u8],
    /// The generation that the member believes in.
    pub generation: i32,
    /// The sender.
    pub member_id: &'a [u8],
}

/// `LeaveGroup` (§8); versions 0 to 2 arrive as one identity without an instance id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct LeaveGroup<'a> {
    /// Up to v2 the single member's error becomes the top-level one.
    pub version: i16,
    /// `None` is a null group id.
    pub group_id: Option<&'a str>,
    /// Who leaves, handled in this order.
    pub members: &'a [LeaveIdentity<'a>],
}

/// One leaver.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeaveIdentity<'a> {
    /// Empty for an administrative removal by instance id.
    pub member_id: &'a str,
    /// `group.instance.id` of a static member.
    #[serde(borrow)]
    pub instance_id: Option<&'a str>,
    /// Why the client leaves (v5+); only shown.
    #[serde(borrow)]
    pub reason: Option<&'a str>,
}

/// `OffsetCommit` (§10).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct OffsetCommit<'a> {
    /// v9+ answers `GROUP_ID_NOT_FOUND` where older ones answer `ILLEGAL_GENERATION`.
    pub version: i16,
    /// `None` is a null group id; the empty string is legal here.
    pub group_id: Option<&'a str>,
    /// Negative: not from a member.
    pub generation: i32,
    /// Empty: not from a member.
    pub member_id: &'a str,
    /// `group.instance.id` of a static member.
    pub instance_id: Option<&'a str>,
    /// Retention asked for by the request (v2 to v4), relative to now.
    pub retention_time_ms: Option<i64>,
    /// What to store.
    pub topics: &'a [CommitTopic<'a>],
}

/// The offsets of one topic in a commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct CommitTopic<'a> {
    /// The topic's name.
    pub name: &'a str,
    /// The topic's id; 0 when it is not known. Goes into the record.
    pub topic_id: u128,
    /// In the order of the request; repetitions are answered as often as sent.
    pub partitions: &'a [CommitPartition<'a>],
}

/// One offset of a commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CommitPartition<'a> {
    /// The partition.
    pub index: i32,
    /// Stored as it is; not range-checked.
    pub offset: i64,
    /// -1: unknown.
    pub leader_epoch: i32,
    /// Null is stored as "".
    #[serde(borrow)]
    pub metadata: Option<&'a str>,
}

/// `OffsetFetch` for one group (§11).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct OffsetFetch<'a> {
    /// `None` is a null group id; the empty string is legal here.
    pub group_id: Option<&'a str>,
    /// Wait for commits that are in flight (v7+).
    pub require_stable: bool,
    /// `None`: every partition that has a committed offset.
    pub topics: Option<&'a [FetchTopic<'a>]>,
}

/// The partitions of one topic in a fetch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct FetchTopic<'a> {
    /// The topic's name.
    pub name: &'a str,
    /// The topic's id if the request named the topic by it (v10), else 0. Offsets of a topic with another id are not
    /// shown.
    pub topic_id: u128,
    /// In the order of the request.
    pub partitions: &'a [i32],
}

/// `DescribeGroups` for one group (§12.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DescribeGroup<'a> {
    /// v6+ answers `GROUP_ID_NOT_FOUND` for a missing group.
    pub version: i16,
    /// `None` is a null group id; the empty string is legal here.
    #[serde(borrow)]
    pub group_id: Option<&'a str>,
}

/// `ListGroups` for one coordinator partition (§12.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct ListGroups<'a> {
    /// Case-insensitive, trimmed; empty means all.
    pub states: &'a [&'a str],
    /// Case-insensitive; empty means all, unknown types match nothing.
    pub types: &'a [&'a str],
}

impl ListGroups<'_> {
    /// Asks for all groups.
    pub const ALL: ListGroups<'static> = ListGroups { states: &[], types: &[] };

    /// Whether a group of this type and state is asked for.
    pub fn takes(&self, group_type: &str, state: &str) -> bool {
        let among = |words: &[&str], name: &str| {
            words.is_empty() || words.iter().any(|word| word.trim().eq_ignore_ascii_case(name))
        };
        among(self.states, state) && among(self.types, group_type)
    }
}

/// `DeleteGroups` for one group (§12.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeleteGroup<'a> {
    /// `None` is a null group id; the empty string is legal here.
    #[serde(borrow)]
    pub group_id: Option<&'a str>,
}

/// `OffsetDelete` (§12.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct OffsetDelete<'a> {
    /// `None` is a null group id.
    pub group_id: Option<&'a str>,
    /// May be empty: errors of the group are told all the same.
    pub topics: &'a [OffsetDeleteTopic<'a>],
}

/// The partitions of one topic whose offsets are to go.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct OffsetDeleteTopic<'a> {
    /// The topic's name.
    pub name: &'a str,
    /// In the order of the request; repetitions are answered as often as sent.
    pub partitions: &'a [i32],
}
