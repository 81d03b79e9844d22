//! What the coordinator answers. Views into its state: the server encodes them straight into a connection's buffer.

use serde::{Deserialize, Serialize};

use crate::{error::ErrorCode, records::serialized_bytes};

/// The answer to one request.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize)]
pub enum Answer<'a> {
    /// To `JoinGroup` (§4.9).
    JoinGroup(JoinAnswer<'a>),
    /// To `SyncGroup` (§6.4).
    SyncGroup(SyncAnswer<'a>),
    /// To `Heartbeat` (§7.1).
    Heartbeat(ErrorCode),
    /// To `LeaveGroup` (§8).
    LeaveGroup(LeaveAnswer<'a>),
    /// To `OffsetCommit` (§10).
    OffsetCommit(CommitAnswer<'a>),
    /// To `OffsetFetch` (§11).
    OffsetFetch(FetchAnswer<'a>),
    /// To `DescribeGroup` (§12.1).
    DescribeGroup(DescribeAnswer<'a>),
    /// To `ListGroups` (§12.2).
    ListGroups(ListAnswer<'a>),
    /// To `DeleteGroup` (§12.3).
    DeleteGroup(DeleteAnswer<'a>),
    /// To `OffsetDelete` (§12.4).
    OffsetDelete(OffsetDeleteAnswer<'a>),
}

/// Answer to `JoinGroup`. On an error: generation -1, leader "", no protocol, no members (§4.9).
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize)]
pub struct JoinAnswer<'a> {
    /// `None` on success.
    pub error: ErrorCode,
    /// -1 on an error.
    pub generation: i32,
    /// Null on an error.
    pub protocol_type: Option<&'a str>,
    /// Null on an error; the codec writes "" up to v6.
    pub protocol_name: Option<&'a str>,
    /// The leader's member id, "" on an error.
    pub leader: &'a str,
    /// v9+: the leader is told the list but need not compute a plan.
    pub skip_assignment: bool,
    /// The receiver's own id, or "".
    pub member_id: &'a str,
    /// Only for the leader.
    pub members: &'a [JoinedMember<'a>],
}

/// One line of the list that the leader gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct JoinedMember<'a> {
    /// The member.
    pub member_id: &'a str,
    /// v5+.
    #[serde(borrow)]
    pub instance_id: Option<&'a str>,
    /// Its metadata for the chosen protocol.
    #[serde(serialize_with = "serialized_bytes")]
    pub metadata: &'a [u8],
}

/// Answer to `SyncGroup`. On an error: empty assignment, null protocol fields.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct SyncAnswer<'a> {
    /// `None` on success.
    pub error: ErrorCode,
    /// v5+.
    #[serde(borrow)]
    pub protocol_type: Option<&'a str>,
    /// v5+.
    #[serde(borrow)]
    pub protocol_name: Option<&'a str>,
    /// The leader's bytes for this member, or empty.
    #[serde(serialize_with = "serialized_bytes")]
    pub assignment: &'a [u8],
}

/// Answer to `LeaveGroup`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize)]
pub struct LeaveAnswer<'a> {
    /// Top level; up to v2 the single member's error.
    pub error: ErrorCode,
    /// In request order, identities echoed as requested; empty on a top-level gate error.
    pub members: &'a [LeftMember<'a>],
}

/// One leaver's result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct LeftMember<'a> {
    /// As requested.
    pub member_id: &'a str,
    /// As requested.
    #[serde(borrow)]
    pub instance_id: Option<&'a str>,
    /// `None` when it left.
    pub error: ErrorCode,
}

/// Answer to `OffsetCommit`: one code per partition, in request order.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize)]
pub struct CommitAnswer<'a> {
    /// In request order.
    pub topics: &'a [CommittedTopic],
}

/// The results of one topic of a commit.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct CommittedTopic {
    /// The topic's name.
    pub name: Box<str>,
    /// The topic's id, 0 if unknown.
    pub topic_id: u128,
    /// (partition, code).
    pub partitions: Vec<(i32, ErrorCode)>,
}

/// Answer to `OffsetFetch` for one group.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize)]
pub struct FetchAnswer<'a> {
    /// Group level.
    pub error: ErrorCode,
    /// The group asked about.
    pub group_id: &'a str,
    /// Empty on an error.
    pub topics: &'a [FetchedTopic<'a>],
}

/// The offsets of one topic.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct FetchedTopic<'a> {
    /// The topic's name.
    pub name: &'a str,
    /// In request order; for the all-topics form by partition.
    #[serde(borrow)]
    pub partitions: Vec<FetchedOffset<'a>>,
}

/// One committed offset; -1, -1, "" when there is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct FetchedOffset<'a> {
    /// The partition.
    pub index: i32,
    /// -1: none.
    pub offset: i64,
    /// -1: none.
    pub leader_epoch: i32,
    /// As committed.
    pub metadata: &'a str,
    /// The topic id that the commit carried, 0 if none.
    pub topic_id: u128,
    /// `None`, or why this partition could not be read.
    pub error: ErrorCode,
}

/// Answer to `DescribeGroups` for one group.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize)]
pub struct DescribeAnswer<'a> {
    /// A gate error, or from v6 on `GROUP_ID_NOT_FOUND`.
    pub error: ErrorCode,
    /// v6+: only with `GROUP_ID_NOT_FOUND`.
    pub error_message: Option<&'a str>,
    /// The group asked about.
    pub group_id: &'a str,
    /// `Dead` for a missing group; "" on a gate error.
    pub state: &'a str,
    /// "" if the group has none.
    pub protocol_type: &'a str,
    /// Only while Stable.
    pub protocol_name: &'a str,
    /// In joining order.
    pub members: &'a [DescribedMember<'a>],
}

/// One member in a description.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct DescribedMember<'a> {
    /// The member.
    pub member_id: &'a str,
    /// v4+.
    #[serde(borrow)]
    pub instance_id: Option<&'a str>,
    /// As it joined first.
    pub client_id: &'a str,
    /// As it joined first.
    pub client_host: &'a str,
    /// For the chosen protocol while Stable, else empty.
    #[serde(serialize_with = "serialized_bytes")]
    pub metadata: &'a [u8],
    /// The assignment in memory.
    #[serde(serialize_with = "serialized_bytes")]
    pub assignment: &'a [u8],
}

/// Answer to `ListGroups` for one partition.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize)]
pub struct ListAnswer<'a> {
    /// A gate error.
    pub error: ErrorCode,
    /// By group id.
    pub groups: &'a [ListedGroup<'a>],
}

/// One line of a listing. The group type is always `classic`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ListedGroup<'a> {
    /// The group.
    pub group_id: &'a str,
    /// "" if it has none.
    pub protocol_type: &'a str,
    /// v4+.
    pub state: &'a str,
}

/// Answer to `DeleteGroups` for one group. There is never a message (v3+).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct DeleteAnswer<'a> {
    /// `None` when the group is gone for good.
    pub error: ErrorCode,
    /// The group asked about.
    pub group_id: &'a str,
}

/// Answer to `OffsetDelete`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
pub struct OffsetDeleteAnswer<'a> {
    /// Top level: the group's error.
    pub error: ErrorCode,
    /// In request order; empty on a top-level error.
    pub topics: &'a [OffsetDeletedTopic],
}

/// The results of one topic of an `OffsetDelete`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct OffsetDeletedTopic {
    /// The topic's name.
    pub name: Box<str>,
    /// (partition, code).
    pub partitions: Vec<(i32, ErrorCode)>,
}
