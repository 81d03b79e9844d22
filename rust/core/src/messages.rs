//! One description of every request and answer: names, order and kinds of their fields.
//!
//! A description is a macro that passes its table to another macro. Each user makes its own types from the table, so a
//! new field appears in all of them:
//!
//! | user | makes |
//! |---|---|
//! | [`request`](crate::request), [`response`](crate::response) | the borrowed types that the coordinator reads and answers with |
//! | `rota_journal::owned` | owned types of the same names: what a journal is read as, and requests that wait |
//! | `rust/python` | the classes of the Python module and their conversions |
//!
//! The rows, their fields and their order are the journal's format: a change is a new version of it (docs/journal.md).
//!
//! A field is `name: KIND` or `name: KIND or null`. The kinds:
//!
//! | kind | borrowed |
//! |---|---|
//! | `Text`, `Bytes` | `&str`, `&[u8]` |
//! | `[Text]`, `[i32]`, `[Protocol]` | a slice of texts, of numbers, of the elements that the table describes |
//! | `Indexes` | the same as `[i32]`; owned types can borrow it |
//! | `[CommittedTopic]`, `[FetchedTopic]`, `[OffsetDeletedTopic]` | a slice of the types in [`response`](crate::response), which own their lists |
//! | any other, such as `i16`, `bool`, `ErrorCode` | that type |

use serde::{Serialize, Serializer};

use crate::records::serialized_bytes;

/// Passes the description of the requests, and of their list elements, to the macro `$apply`.
#[macro_export]
macro_rules! requests {
    ($apply:path) => {
        $apply! {
            requests {
                /// Joins a group or rejoins it (§4).
                JoinGroup {
                    /// Wire version, 0 to 9. v0 has no rebalance timeout, v4 asks for a member id first, v9 knows
                    /// `skip_assignment`.
                    version: i16,
                    /// `None` is a null group id, which is always illegal.
                    group_id: Text or null,
                    /// Empty on the first join.
                    member_id: Text,
                    /// `group.instance.id` of a static member.
                    instance_id: Text or null,
                    /// From the request header; prefix of a minted member id.
                    client_id: Text,
                    /// As `/127.0.0.1`.
                    client_host: Text,
                    /// `session.timeout.ms`, in milliseconds.
                    session_timeout_ms: i32,
                    /// `rebalance.timeout.ms`, in milliseconds; ignored in v0.
                    rebalance_timeout_ms: i32,
                    /// `consumer` for consumers.
                    protocol_type: Text,
                    /// (name, metadata), in order of preference.
                    protocols: [Protocol],
                    /// Reason for the join (v8+); shown to operators only.
                    reason: Text or null,
                }

                /// Receives the assignment, and hands it in as the leader (§6).
                SyncGroup {
                    /// Wire version, 0 to 5. v5+ must carry the protocol type and name.
                    version: i16,
                    /// `None` is a null group id.
                    group_id: Text or null,
                    /// The generation that the client knows.
                    generation: i32,
                    /// The sender.
                    member_id: Text,
                    /// `group.instance.id` of a static member.
                    instance_id: Text or null,
                    /// Compared with the group's if present.
                    protocol_type: Text or null,
                    /// Compared with the group's if present.
                    protocol_name: Text or null,
                    /// (member id, assignment): the leader's assignment; ignored from other members.
                    assignments: [Assignment],
                }

                /// Keeps a member's session alive (§7).
                Heartbeat {
                    /// `None` is a null group id.
                    group_id: Text or null,
                    /// The generation that the client knows.
                    generation: i32,
                    /// The sender.
                    member_id: Text,
                    /// `group.instance.id` of a static member.
                    instance_id: Text or null,
                }

                /// Removes one or several members (§8). Versions 0 to 2 arrive as one identity without an instance id.
                LeaveGroup {
                    /// Wire version, 0 to 5. Up to v2 the single member's error becomes the top-level one.
                    version: i16,
                    /// `None` is a null group id.
                    group_id: Text or null,
                    /// (member id, instance id, reason), handled in this order.
                    members: [LeaveIdentity],
                }

                /// Stores offsets (§10).
                OffsetCommit {
                    /// Wire version, 2 to 10. v9+ answers `GROUP_ID_NOT_FOUND` where older ones answer `ILLEGAL_GENERATION`.
                    version: i16,
                    /// `None` is a null group id; the empty string is legal here.
                    group_id: Text or null,
                    /// Negative if the sender is not a member.
                    generation: i32,
                    /// Empty if the sender is not a member.
                    member_id: Text,
                    /// `group.instance.id` of a static member.
                    instance_id: Text or null,
                    /// Requested retention (v2 to v4) in milliseconds from now.
                    retention_time_ms: i64 or null,
                    /// The offsets to store.
                    topics: [CommitTopic],
                }

                /// Reads offsets (§11).
                OffsetFetch {
                    /// `None` is a null group id; the empty string is legal here.
                    group_id: Text or null,
                    /// Waits for commits in flight (v7+).
                    require_stable: bool,
                    /// `None`: every partition that has a committed offset.
                    topics: [FetchTopic] or null,
                }

                /// Describes one group (§12.1).
                DescribeGroup {
                    /// Wire version, 0 to 6. v6+ answers `GROUP_ID_NOT_FOUND` for a missing group.
                    version: i16,
                    /// `None` is a null group id; the empty string is legal here.
                    group_id: Text or null,
                }

                /// Lists the groups of one coordinator partition (§12.2).
                ListGroups {
                    /// Only groups in these states; case-insensitive, trimmed; empty means all.
                    states: [Text],
                    /// Only groups of these types; case-insensitive; empty means all, unknown types match nothing.
                    types: [Text],
                }

                /// Deletes one group with its offsets (§12.3).
                DeleteGroup {
                    /// `None` is a null group id; the empty string is legal here.
                    group_id: Text or null,
                }

                /// Deletes some offsets of one group (§12.4).
                OffsetDelete {
                    /// `None` is a null group id.
                    group_id: Text or null,
                    /// May be empty: the answer still has errors of the group.
                    topics: [OffsetDeleteTopic],
                }

                /// Joins, keeps and leaves a membership in a group of the consumer protocol (docs/consumer-protocol.md
                /// §4.1).
                ConsumerGroupHeartbeat {
                    /// Wire version, 0 or 1. From v1 on the client generates its member id. -1 renews the session only.
                    version: i16,
                    /// An empty id is refused.
                    group_id: Text,
                    /// Empty only in v0, from a joining member.
                    member_id: Text,
                    /// 0 joins, -1 leaves, -2 leaves and keeps a static member's place.
                    member_epoch: i32,
                    /// `group.instance.id` of a static member.
                    instance_id: Text or null,
                    /// `client.rack`; null: unchanged.
                    rack_id: Text or null,
                    /// Time that the member has to revoke partitions, in milliseconds; -1: unchanged.
                    rebalance_timeout_ms: i32,
                    /// Null: unchanged.
                    subscribed_topic_names: [Text] or null,
                    /// Null: unchanged; "": none (v1+).
                    subscribed_topic_regex: Text or null,
                    /// Null: unchanged.
                    server_assignor: Text or null,
                    /// Partitions that the member owns; null: not reported.
                    topic_partitions: [TopicPartitions] or null,
                    /// From the request header.
                    client_id: Text,
                    /// As `/127.0.0.1`.
                    client_host: Text,
                }

                /// Describes one group of the consumer protocol (docs/consumer-protocol.md §13.1).
                ConsumerGroupDescribe {
                    /// An empty id is refused.
                    group_id: Text,
                }

                /// `OffsetFetch` of version 9 and later, which can identify its sender (docs/consumer-protocol.md §12).
                /// Its answer is that of `OffsetFetch`.
                ConsumerOffsetFetch {
                    /// As in `OffsetFetch`.
                    group_id: Text or null,
                    /// Null: not from a member.
                    member_id: Text or null,
                    /// Negative: not from a member.
                    member_epoch: i32,
                    /// As in `OffsetFetch`.
                    require_stable: bool,
                    /// As in `OffsetFetch`.
                    topics: [FetchTopic] or null,
                }

                /// Stores offsets that a transaction decides about (§10.4). Its answer is that of `OffsetCommit`.
                TxnOffsetCommit {
                    /// Wire version, 0 to 6. v6+ answers `GROUP_ID_NOT_FOUND` where older ones answer `ILLEGAL_GENERATION`.
                    version: i16,
                    /// `None` is a null group id; an empty id is refused.
                    group_id: Text or null,
                    /// The producer id.
                    producer_id: i64,
                    /// The producer's epoch.
                    producer_epoch: i16,
                    /// Negative if the sender names no member; always in v0 to v2.
                    generation: i32,
                    /// Empty if the sender names no member.
                    member_id: Text,
                    /// `group.instance.id` of a static member.
                    instance_id: Text or null,
                    /// The offsets to store.
                    topics: [CommitTopic],
                }

                /// Ends a producer's transaction in this partition of `__consumer_offsets` (§10.4).
                WriteTxnMarker {
                    /// The transactional id, if the sender knows it; shown to operators only.
                    transactional_id: Text or null,
                    /// The producer id.
                    producer_id: i64,
                    /// The producer's epoch from now on.
                    producer_epoch: i16,
                    /// The epoch of the transaction coordinator.
                    coordinator_epoch: i32,
                    /// Whether the transaction is committed; otherwise it is aborted.
                    is_commit: bool,
                }
            }

            elements {
                /// A protocol that a joining member offers.
                Protocol {
                    /// Such as `range`.
                    name: Text,
                    /// Opaque to the coordinator; for consumers the embedded subscription (§18).
                    metadata: Bytes,
                }

                /// The part of the leader's assignment for one member.
                Assignment {
                    /// The member id.
                    member_id: Text,
                    /// Relayed byte for byte (S11).
                    assignment: Bytes,
                }

                /// A member that leaves.
                LeaveIdentity {
                    /// Empty for an administrative removal by instance id.
                    member_id: Text,
                    /// `group.instance.id` of a static member.
                    instance_id: Text or null,
                    /// Reason for leaving (v5+); shown to operators only.
                    reason: Text or null,
                }

                /// The offsets of one topic in a commit.
                CommitTopic {
                    /// The topic's name.
                    name: Text,
                    /// The topic id, 0 if unknown. The record stores it.
                    topic_id: u128,
                    /// In request order. The answer repeats repeated partitions.
                    partitions: [CommitPartition],
                }

                /// One offset of a commit.
                CommitPartition {
                    /// The partition index.
                    index: i32,
                    /// The offset; any value is stored.
                    offset: i64,
                    /// The leader epoch; -1: unknown.
                    leader_epoch: i32,
                    /// Metadata of the client; null is stored as "".
                    metadata: Text or null,
                }

                /// The partitions of one topic in a fetch.
                FetchTopic {
                    /// The topic's name.
                    name: Text,
                    /// The topic id if the request named the topic by it (v10), else 0. Offsets of a topic with another
                    /// id are left out.
                    topic_id: u128,
                    /// In the order of the request.
                    partitions: [i32],
                }

                /// The partitions of one topic whose offsets to delete.
                OffsetDeleteTopic {
                    /// The topic's name.
                    name: Text,
                    /// In request order. The answer repeats repeated partitions.
                    partitions: [i32],
                }

                /// Partitions of one topic.
                TopicPartitions {
                    /// The topic id.
                    topic_id: u128,
                    /// Partition indexes.
                    partitions: Indexes,
                }
            }
        }
    };
}

/// Passes the description of the answers, and of their list elements, to the macro `$apply`. A row is `REQUEST =>
/// ANSWER`.
#[macro_export]
macro_rules! answers {
    ($apply:path) => {
        $apply! {
            answers {
                /// Answer to `JoinGroup` (§4.9). On an error: generation -1, no leader, no protocol, no members.
                JoinGroup => JoinAnswer {
                    /// `NONE` on success.
                    error: ErrorCode,
                    /// -1 on an error.
                    generation: i32,
                    /// Null on an error.
                    protocol_type: Text or null,
                    /// Null on an error; the codec writes "" up to v6.
                    protocol_name: Text or null,
                    /// The leader's member id, "" on an error.
                    leader: Text,
                    /// v9+: the leader receives the members but need not compute a plan.
                    skip_assignment: bool,
                    /// The member id of the receiver, or "".
                    member_id: Text,
                    /// Filled in for the leader only.
                    members: [JoinedMember],
                }

                /// Answer to `SyncGroup` (§6.4). On an error: no assignment, no protocol.
                SyncGroup => SyncAnswer {
                    /// `NONE` on success.
                    error: ErrorCode,
                    /// v5+; null on an error.
                    protocol_type: Text or null,
                    /// v5+; null on an error.
                    protocol_name: Text or null,
                    /// The leader's bytes for this member; empty on an error.
                    assignment: Bytes,
                }

                /// Answer to `Heartbeat` (§7.1).
                Heartbeat => ErrorCode

                /// Answer to `LeaveGroup` (§8).
                LeaveGroup => LeaveAnswer {
                    /// Error of the request. Up to v2 it is the single member's error.
                    error: ErrorCode,
                    /// In request order, with the identities of the request; empty after an error of the gate.
                    members: [LeftMember],
                }

                /// Answer to `OffsetCommit` (§10): one code per partition.
                OffsetCommit => CommitAnswer {
                    /// In request order.
                    topics: [CommittedTopic],
                }

                /// Answer to `OffsetFetch` (§11) for one group.
                OffsetFetch => FetchAnswer {
                    /// Error of the group.
                    error: ErrorCode,
                    /// The group of the request.
                    group_id: Text,
                    /// Empty on an error.
                    topics: [FetchedTopic],
                }

                /// Answer to `DescribeGroups` (§12.1) for one group.
                DescribeGroup => DescribeAnswer {
                    /// Error of the gate, or from v6 on `GROUP_ID_NOT_FOUND`.
                    error: ErrorCode,
                    /// v6+: set with `GROUP_ID_NOT_FOUND` only.
                    error_message: Text or null,
                    /// The group of the request.
                    group_id: Text,
                    /// The state; `Dead` for a missing group, "" after an error of the gate.
                    state: Text,
                    /// "" if the group has none.
                    protocol_type: Text,
                    /// Set in Stable only.
                    protocol_name: Text,
                    /// In joining order.
                    members: [DescribedMember],
                }

                /// Answer to `ListGroups` (§12.2) for one coordinator partition.
                ListGroups => ListAnswer {
                    /// Error of the gate.
                    error: ErrorCode,
                    /// Sorted by group id.
                    groups: [ListedGroup],
                }

                /// Answer to `DeleteGroups` (§12.3) for one group. It never has a message (v3+).
                DeleteGroup => DeleteAnswer {
                    /// `NONE` when the deletion is durable.
                    error: ErrorCode,
                    /// The group of the request.
                    group_id: Text,
                }

                /// Answer to `OffsetDelete` (§12.4).
                OffsetDelete => OffsetDeleteAnswer {
                    /// Error of the group.
                    error: ErrorCode,
                    /// In request order; empty after an error of the group.
                    topics: [OffsetDeletedTopic],
                }

                /// Answer to `ConsumerGroupHeartbeat` (docs/consumer-protocol.md §4.2).
                ConsumerGroupHeartbeat => ConsumerHeartbeatAnswer {
                    /// `NONE` on success.
                    error: ErrorCode,
                    /// Null on success, and if the code says everything.
                    error_message: Text or null,
                    /// Null on an error.
                    member_id: Text or null,
                    /// The epoch for the next heartbeat. The epoch of the request if the member left, 0 on an error.
                    member_epoch: i32,
                    /// In milliseconds; 0 on an error and when the member left.
                    heartbeat_interval_ms: i32,
                    /// The member's new assignment; null: unchanged.
                    assignment: [AssignedTopic] or null,
                }

                /// Answer to `ConsumerGroupDescribe` (docs/consumer-protocol.md §13.1) for one group.
                ConsumerGroupDescribe => ConsumerDescribeAnswer {
                    /// Error of the group.
                    error: ErrorCode,
                    /// Null on success.
                    error_message: Text or null,
                    /// The group of the request.
                    group_id: Text,
                    /// "" on an error.
                    group_state: Text,
                    /// The group epoch.
                    group_epoch: i32,
                    /// The epoch of the target assignment.
                    assignment_epoch: i32,
                    /// The assignor that most members prefer.
                    assignor_name: Text,
                    /// Sorted by member id.
                    members: [ConsumerMemberDescription],
                }

                /// Answer to `WriteTxnMarker` (§10.4), once the marker is durable.
                WriteTxnMarker => ErrorCode
            }

            elements {
                /// One member in the leader's list.
                JoinedMember {
                    /// The member id.
                    member_id: Text,
                    /// Static members only (v5+).
                    instance_id: Text or null,
                    /// Its metadata for the chosen protocol.
                    metadata: Bytes,
                }

                /// The result for one leaver.
                LeftMember {
                    /// The member id of the request.
                    member_id: Text,
                    /// The instance id of the request.
                    instance_id: Text or null,
                    /// `NONE` when it left.
                    error: ErrorCode,
                }

                /// One member of a description.
                DescribedMember {
                    /// The member id.
                    member_id: Text,
                    /// Static members only (v4+).
                    instance_id: Text or null,
                    /// `client.id` of the first join.
                    client_id: Text,
                    /// Host of the first join.
                    client_host: Text,
                    /// Metadata for the chosen protocol in Stable, else empty.
                    metadata: Bytes,
                    /// The current assignment.
                    assignment: Bytes,
                }

                /// One group of a list. Its type is `classic`.
                ListedGroup {
                    /// The group id.
                    group_id: Text,
                    /// "" if it has none.
                    protocol_type: Text,
                    /// The group's state (v4+).
                    state: Text,
                }

                /// Partitions of one topic in the answer to a heartbeat.
                AssignedTopic {
                    /// The topic id.
                    topic_id: u128,
                    /// Partition indexes.
                    partitions: Indexes,
                }

                /// Partitions of one topic in a description.
                NamedTopic {
                    /// The topic id.
                    topic_id: u128,
                    /// The topic name.
                    topic: Text,
                    /// Partition indexes.
                    partitions: Indexes,
                }

                /// One member in the description of a consumer group.
                ConsumerMemberDescription {
                    /// The member id.
                    member_id: Text,
                    /// Static members only.
                    instance_id: Text or null,
                    /// `client.rack`; null if unknown.
                    rack_id: Text or null,
                    /// The member epoch.
                    member_epoch: i32,
                    /// `client.id`.
                    client_id: Text,
                    /// As `/127.0.0.1`.
                    client_host: Text,
                    /// Topic names, sorted.
                    subscribed_topic_names: [Text],
                    /// "" if it has none.
                    subscribed_topic_regex: Text or null,
                    /// The partitions that the member owns.
                    assignment: [NamedTopic],
                    /// The partitions of the target assignment.
                    target_assignment: [NamedTopic],
                    /// 0: classic, 1: consumer (v1+).
                    member_type: i8,
                }
            }
        }
    };
}

/// The borrowed type of a field.
macro_rules! borrowed_type {
    ($a:lifetime $kind:tt or null) => { Option<$crate::messages::borrowed_type!($a $kind)> };
    ($a:lifetime Text) => { &$a str };
    ($a:lifetime Bytes) => { &$a [u8] };
    ($a:lifetime [i32]) => { &$a [i32] };
    ($a:lifetime Indexes) => { &$a [i32] };
    ($a:lifetime [CommittedTopic]) => { &$a [CommittedTopic] };
    ($a:lifetime [OffsetDeletedTopic]) => { &$a [OffsetDeletedTopic] };
    ($a:lifetime [Text]) => { &$a [&$a str] };
    ($a:lifetime [$element:ident]) => { &$a [$element<$a>] };
    ($a:lifetime $plain:ident) => { $plain };
}
pub(crate) use borrowed_type;

/// Generates one borrowed struct of the table; nothing for an answer of a plain type.
macro_rules! borrowed_struct {
    ($(#[$doc:meta])* $plain:ident) => {};
    ($(#[$doc:meta])* $name:ident {
        $($(#[$field_doc:meta])* $field:ident: $kind:tt $(or $null:ident)?,)+
    }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub struct $name<'a> {
            $($(#[$field_doc])* pub $field: $crate::messages::borrowed_type!('a $kind $(or $null)?),)+
        }

        impl serde::Serialize for $name<'_> {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                use serde::ser::SerializeStruct as _;
                let names = [$(stringify!($field)),+];
                let mut fields = serializer.serialize_struct(stringify!($name), names.len())?;
                $(fields.serialize_field(stringify!($field), $crate::messages::serialized!($kind self.$field))?;)+
                fields.end()
            }
        }
    };
}
pub(crate) use borrowed_struct;

/// Converts a field for serde.
macro_rules! serialized {
    (Bytes $value:expr) => {
        &$crate::messages::SerializedBytes($value)
    };
    ($kind:tt $value:expr) => {
        &$value
    };
}
pub(crate) use serialized;

/// Bytes as [`serialized_bytes`] writes them.
pub(crate) struct SerializedBytes<'a>(pub &'a [u8]);

impl Serialize for SerializedBytes<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serialized_bytes(&self.0, serializer)
    }
}
