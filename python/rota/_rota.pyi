"""The compiled half of `rota`. Import the names from `rota`; what they mean is said here.

Times are whole milliseconds: `*_ms` on a monotonic clock of your own, `wall_ms` and `*_timestamp_ms` since the Unix
epoch. Every class below except the coordinator, the wheel, the purgatory and the server is frozen: plain fields,
equality, hash, and `match` patterns in field order. The rules are those of docs/protocol.md.
"""

from collections.abc import Callable, Mapping, Sequence
from enum import IntEnum
from pathlib import Path
from typing import Any, Final, Self, TypeAlias, final

import numpy as np
from numpy.typing import NDArray
from typing_extensions import Buffer

_UInt32s: TypeAlias = NDArray[np.uint32] | Buffer

__all__ = [
    "Answer",
    "Append",
    "AssignedTopic",
    "Assignment",
    "AuditRows",
    "BenchCrowd",
    "Certificate",
    "CommitAnswer",
    "CommittedPartition",
    "ConfigError",
    "ConsumerDescribeAnswer",
    "ConsumerGroupDescribe",
    "ConsumerGroupHeartbeat",
    "ConsumerHeartbeatAnswer",
    "ConsumerMemberDescription",
    "Coordinator",
    "DataLog",
    "DeleteAnswer",
    "DeleteGroup",
    "DeletedPartition",
    "Departure",
    "DescribeAnswer",
    "DescribeGroup",
    "DescribedMember",
    "Effect",
    "EmbeddedError",
    "ErrorCode",
    "Explanation",
    "FetchAnswer",
    "FetchedOffset",
    "FlatGroup",
    "GroupRecord",
    "GroupValue",
    "Heartbeat",
    "HeartbeatAnswer",
    "InputError",
    "InvariantViolation",
    "JoinAnswer",
    "JoinGroup",
    "JoinedMember",
    "JournalReplay",
    "LeaveAnswer",
    "LeaveGroup",
    "LeftMember",
    "ListAnswer",
    "ListGroups",
    "ListedGroup",
    "MemberMachine",
    "MemberValue",
    "NamedTopic",
    "NotFoundError",
    "OffsetCommit",
    "OffsetDelete",
    "OffsetDeleteAnswer",
    "OffsetFetch",
    "OffsetRecord",
    "OffsetValue",
    "PlanError",
    "ProjectedMember",
    "Projection",
    "Purgatory",
    "Rebalance",
    "Record",
    "RecordError",
    "Request",
    "RotaError",
    "Server",
    "ServerError",
    "SimulatedJournal",
    "SnapshotError",
    "Subscription",
    "Summary",
    "SyncAnswer",
    "SyncGroup",
    "UnknownRecord",
    "Wait",
    "Wheel",
    "__version__",
    "assign_names",
    "audit_ahead",
    "audit_columns",
    "audit_ranges",
    "audit_records",
    "audit_replay",
    "audit_wrong",
    "bench_assemble",
    "bench_clock",
    "bench_dismiss",
    "bench_echo",
    "bench_load",
    "bench_loads",
    "bench_map_hits",
    "bench_storm",
    "bench_syncs",
    "certify_names",
    "decode_assignment",
    "decode_cooperative_sticky_user_data",
    "decode_record",
    "decode_sticky_user_data",
    "decode_subscription",
    "edit_entry",
    "encode_assignment",
    "encode_cooperative_sticky_user_data",
    "encode_sticky_user_data",
    "encode_subscription",
    "exploration_bounds",
    "exploration_cells",
    "explore",
    "journal_entry",
    "journal_time",
    "nearest",
    "recover_log",
    "repair_log",
    "simulate_faults",
    "simulate_plan",
    "simulate_world",
    "simulate_worlds",
    "vocabulary",
    "write_batch",
]

__version__: str

# ---- errors

class RotaError(Exception):
    """Anything that rota refuses, or that went wrong inside it. The parent of all exceptions below."""

class ConfigError(RotaError):
    """A setting that does not exist, or a value that it cannot have. The message names the nearest one that exists."""

class InvariantViolation(RotaError):  # noqa: N818 - it is not an error of the caller's
    """The state breaks an invariant: a bug in rota. The message begins with the invariant's id, such as `S3`."""

class SnapshotError(RotaError):
    """Bytes that are not a snapshot of this version of rota."""

class RecordError(RotaError):
    """Bytes that are not a record of `__consumer_offsets`."""

class EmbeddedError(RotaError):
    """Bytes that are not a message of the embedded consumer protocol, or values that have no room in one."""

class NotFoundError(RotaError, ValueError):
    """A group, member, topic, partition or node that does not exist."""

    what: str
    """Which of them: "group", "member", "topic", "partition" or "node"."""

class ServerError(RotaError):
    """The server could not start, or stopped by itself."""

class ErrorCode(IntEnum):
    """An error code of the Kafka protocol, by the protocol's own name and number (docs/protocol.md §1.3)."""

    UNKNOWN_SERVER_ERROR = -1
    NONE = 0
    OFFSET_OUT_OF_RANGE = 1
    CORRUPT_MESSAGE = 2
    UNKNOWN_TOPIC_OR_PARTITION = 3
    LEADER_NOT_AVAILABLE = 5
    NOT_LEADER_OR_FOLLOWER = 6
    REQUEST_TIMED_OUT = 7
    MESSAGE_TOO_LARGE = 10
    OFFSET_METADATA_TOO_LARGE = 12
    NETWORK_EXCEPTION = 13
    COORDINATOR_LOAD_IN_PROGRESS = 14
    COORDINATOR_NOT_AVAILABLE = 15
    NOT_COORDINATOR = 16
    INVALID_TOPIC_EXCEPTION = 17
    RECORD_LIST_TOO_LARGE = 18
    NOT_ENOUGH_REPLICAS = 19
    NOT_ENOUGH_REPLICAS_AFTER_APPEND = 20
    INVALID_REQUIRED_ACKS = 21
    ILLEGAL_GENERATION = 22
    INCONSISTENT_GROUP_PROTOCOL = 23
    INVALID_GROUP_ID = 24
    UNKNOWN_MEMBER_ID = 25
    INVALID_SESSION_TIMEOUT = 26
    REBALANCE_IN_PROGRESS = 27
    INVALID_COMMIT_OFFSET_SIZE = 28
    TOPIC_AUTHORIZATION_FAILED = 29
    GROUP_AUTHORIZATION_FAILED = 30
    CLUSTER_AUTHORIZATION_FAILED = 31
    INVALID_TIMESTAMP = 32
    UNSUPPORTED_VERSION = 35
    TOPIC_ALREADY_EXISTS = 36
    INVALID_PARTITIONS = 37
    INVALID_REPLICATION_FACTOR = 38
    INVALID_REPLICA_ASSIGNMENT = 39
    INVALID_CONFIG = 40
    INVALID_REQUEST = 42
    UNSUPPORTED_FOR_MESSAGE_FORMAT = 43
    OUT_OF_ORDER_SEQUENCE_NUMBER = 45
    DUPLICATE_SEQUENCE_NUMBER = 46
    INVALID_PRODUCER_EPOCH = 47
    TRANSACTIONAL_ID_AUTHORIZATION_FAILED = 53
    KAFKA_STORAGE_ERROR = 56
    UNKNOWN_PRODUCER_ID = 59
    NON_EMPTY_GROUP = 68
    GROUP_ID_NOT_FOUND = 69
    FETCH_SESSION_ID_NOT_FOUND = 70
    INVALID_FETCH_SESSION_EPOCH = 71
    FENCED_LEADER_EPOCH = 74
    UNKNOWN_LEADER_EPOCH = 75
    UNSUPPORTED_COMPRESSION_TYPE = 76
    MEMBER_ID_REQUIRED = 79
    GROUP_MAX_SIZE_REACHED = 81
    FENCED_INSTANCE_ID = 82
    GROUP_SUBSCRIBED_TO_TOPIC = 86
    INVALID_RECORD = 87
    UNSTABLE_OFFSET_COMMIT = 88
    UNKNOWN_TOPIC_ID = 100
    FENCED_MEMBER_EPOCH = 110
    UNRELEASED_INSTANCE_ID = 111
    UNSUPPORTED_ASSIGNOR = 112
    STALE_MEMBER_EPOCH = 113
    INVALID_REGULAR_EXPRESSION = 128

# ---- requests

_Leaver: TypeAlias = str | tuple[str, str | None] | tuple[str, str | None, str | None]
_Offset: TypeAlias = int | tuple[int, str | None] | tuple[int, str | None, int]

@final
class JoinGroup:
    """Become, or stay, a member. The defaults are those of a dynamic consumer that speaks the newest version."""

    group_id: Final[str | None]
    """`None` is a null group id, which is always illegal."""
    member_id: Final[str]
    """Empty on the first join."""
    protocols: Final[tuple[tuple[str, bytes], ...]]
    """(name, metadata), in order of preference."""
    protocol_type: Final[str]
    """`consumer` for consumers."""
    session_timeout_ms: Final[int]
    """How long the member may be silent."""
    rebalance_timeout_ms: Final[int]
    """How long a rebalance waits for the member."""
    client_id: Final[str]
    """Prefix of a minted member id."""
    client_host: Final[str]
    """As `/127.0.0.1`."""
    instance_id: Final[str | None]
    """`group.instance.id` of a static member."""
    version: Final[int]
    """The wire version, 0 to 9."""
    reason: Final[str | None]
    """Why the client joins; only shown."""
    __match_args__: Final = (
        "group_id",
        "member_id",
        "protocols",
        "protocol_type",
        "session_timeout_ms",
        "rebalance_timeout_ms",
        "client_id",
        "client_host",
        "instance_id",
        "version",
        "reason",
    )
    def __new__(
        cls,
        group_id: str | None,
        member_id: str = "",
        *,
        protocols: Sequence[tuple[str, bytes]],
        protocol_type: str = "consumer",
        session_timeout_ms: int = 45000,
        rebalance_timeout_ms: int = 300000,
        client_id: str = "client",
        client_host: str = "/127.0.0.1",
        instance_id: str | None = None,
        version: int = 9,
        reason: str | None = None,
    ) -> Self: ...

@final
class SyncGroup:
    """Receive, and as the leader hand in, the assignment.

    Version 5 must carry both the protocol type and name, or it is refused as INCONSISTENT_GROUP_PROTOCOL. Without a
    version this is one of version 5 if both are given, else of version 4.
    """

    group_id: Final[str | None]
    """`None` is a null group id."""
    member_id: Final[str]
    """The sender."""
    generation: Final[int]
    """The generation that the member believes in."""
    assignments: Final[tuple[tuple[str, bytes], ...]]
    """(member id, its part of the leader's plan); ignored from anybody else."""
    protocol_type: Final[str | None]
    """Compared if present."""
    protocol_name: Final[str | None]
    """Compared if present."""
    instance_id: Final[str | None]
    """`group.instance.id` of a static member."""
    version: Final[int]
    """The wire version, 0 to 5."""
    __match_args__: Final = (
        "group_id",
        "member_id",
        "generation",
        "assignments",
        "protocol_type",
        "protocol_name",
        "instance_id",
        "version",
    )
    def __new__(
        cls,
        group_id: str | None,
        member_id: str,
        generation: int,
        assignments: Sequence[tuple[str, bytes]] = (),
        *,
        protocol_type: str | None = None,
        protocol_name: str | None = None,
        instance_id: str | None = None,
        version: int | None = None,
    ) -> Self: ...

@final
class Heartbeat:
    """Show that the member is alive."""

    group_id: Final[str | None]
    """`None` is a null group id."""
    member_id: Final[str]
    """The sender."""
    generation: Final[int]
    """The generation that the member believes in."""
    instance_id: Final[str | None]
    """`group.instance.id` of a static member."""
    __match_args__: Final = ("group_id", "member_id", "generation", "instance_id")
    def __new__(
        cls, group_id: str | None, member_id: str, generation: int, *, instance_id: str | None = None
    ) -> Self: ...

@final
class LeaveGroup:
    """Stop being a member, one or several at once.

    Each leaver is a member id, or a tuple (member id, instance id) or (member id, instance id, reason). An empty
    member id with an instance id is an administrative removal.
    """

    group_id: Final[str | None]
    """`None` is a null group id."""
    members: Final[tuple[tuple[str, str | None, str | None], ...]]
    """(member id, instance id, reason), handled in this order."""
    version: Final[int]
    """The wire version, 0 to 5."""
    __match_args__: Final = ("group_id", "members", "version")
    def __new__(cls, group_id: str | None, members: Sequence[_Leaver], *, version: int = 5) -> Self: ...

@final
class OffsetCommit:
    """Store offsets.

    `offsets` maps (topic, partition) to an offset, or to (offset, metadata) or (offset, metadata, leader epoch); pairs
    instead of a mapping can name a partition more than once. Neighbours with one topic become one entry of the
    request. Without a member id and generation it is a commit from outside the group.
    """

    group_id: Final[str | None]
    """`None` is a null group id; the empty string is legal here."""
    offsets: Final[tuple[tuple[tuple[str, int], tuple[int, str | None, int]], ...]]
    """((topic, partition), (offset, metadata, leader epoch)), in request order."""
    member_id: Final[str]
    """Empty: not from a member."""
    generation: Final[int]
    """Negative: not from a member."""
    instance_id: Final[str | None]
    """`group.instance.id` of a static member."""
    retention_time_ms: Final[int | None]
    """Retention asked for by the request (versions 2 to 4)."""
    topic_ids: Final[tuple[tuple[str, int], ...]]
    """(topic, id) of the topics whose id is known."""
    version: Final[int]
    """The wire version, 2 to 10."""
    __match_args__: Final = (
        "group_id",
        "offsets",
        "member_id",
        "generation",
        "instance_id",
        "retention_time_ms",
        "topic_ids",
        "version",
    )
    def __new__(
        cls,
        group_id: str | None,
        offsets: Mapping[tuple[str, int], _Offset] | Sequence[tuple[tuple[str, int], _Offset]],
        member_id: str = "",
        generation: int = -1,
        *,
        instance_id: str | None = None,
        retention_time_ms: int | None = None,
        topic_ids: Sequence[tuple[str, int]] = (),
        version: int = 9,
    ) -> Self: ...

@final
class OffsetFetch:
    """Read committed offsets: these partitions, or with `None` every one that has an offset."""

    group_id: Final[str | None]
    """`None` is a null group id; the empty string is legal here."""
    partitions: Final[tuple[tuple[str, int], ...] | None]
    """(topic, partition), in request order; `None`: all that have a committed offset."""
    require_stable: Final[bool]
    """Wait for commits that are in flight."""
    topic_ids: Final[tuple[tuple[str, int], ...]]
    """(topic, id) of the topics that are asked for by id: an offset of another topic of that name is not shown."""
    member_id: Final[str | None]
    """The member that asks; `None`: no member."""
    member_epoch: Final[int]
    """Its epoch; negative: no member."""
    __match_args__: Final = ("group_id", "partitions", "require_stable", "topic_ids", "member_id", "member_epoch")
    def __new__(
        cls,
        group_id: str | None,
        partitions: Sequence[tuple[str, int]] | None = None,
        require_stable: bool = False,
        *,
        topic_ids: Sequence[tuple[str, int]] = (),
        member_id: str | None = None,
        member_epoch: int = -1,
    ) -> Self: ...

@final
class DescribeGroup:
    """Show one group."""

    group_id: Final[str | None]
    """`None` is a null group id; the empty string is legal here."""
    version: Final[int]
    """The wire version, 0 to 6."""
    __match_args__: Final = ("group_id", "version")
    def __new__(cls, group_id: str | None, *, version: int = 6) -> Self: ...

@final
class ListGroups:
    """List the groups of one coordinator partition."""

    states: Final[tuple[str, ...]]
    """Only groups in these states; empty means all."""
    types: Final[tuple[str, ...]]
    """Only groups of these types; empty means all."""
    __match_args__: Final = ("states", "types")
    def __new__(cls, states: Sequence[str] = (), types: Sequence[str] = ()) -> Self: ...

@final
class DeleteGroup:
    """Remove one group with its offsets."""

    group_id: Final[str | None]
    """`None` is a null group id; the empty string is legal here."""
    __match_args__: Final = ("group_id",)
    def __new__(cls, group_id: str | None) -> Self: ...

@final
class OffsetDelete:
    """Remove some offsets of one group."""

    group_id: Final[str | None]
    """`None` is a null group id."""
    partitions: Final[tuple[tuple[str, int], ...]]
    """(topic, partition), in request order; may be empty."""
    __match_args__: Final = ("group_id", "partitions")
    def __new__(cls, group_id: str | None, partitions: Sequence[tuple[str, int]]) -> Self: ...

@final
class ConsumerGroupHeartbeat:
    """Join, stay in and leave a group of the consumer protocol."""

    group_id: Final[str]
    """The group."""
    member_id: Final[str]
    """The sender."""
    member_epoch: Final[int]
    """0 joins, -1 leaves, -2 leaves a static member's place open."""
    instance_id: Final[str | None]
    """`group.instance.id` of a static member."""
    rack_id: Final[str | None]
    """`client.rack`; `None`: unchanged."""
    rebalance_timeout_ms: Final[int]
    """How long the member may take to give partitions up, in ms; -1: unchanged."""
    subscribed_topic_names: Final[tuple[str, ...] | None]
    """`None`: unchanged."""
    subscribed_topic_regex: Final[str | None]
    """`None`: unchanged; empty: none."""
    server_assignor: Final[str | None]
    """`None`: unchanged."""
    topic_partitions: Final[tuple[tuple[int, tuple[int, ...]], ...] | None]
    """(topic id, partitions) that the member owns now; `None`: it does not say."""
    client_id: Final[str]
    """`client.id`"""
    client_host: Final[str]
    """As `/127.0.0.1`."""
    version: Final[int]
    """The wire version, 0 or 1. From v1 on the client makes its member id."""
    __match_args__: Final = (
        "group_id",
        "member_id",
        "member_epoch",
        "instance_id",
        "rack_id",
        "rebalance_timeout_ms",
        "subscribed_topic_names",
        "subscribed_topic_regex",
        "server_assignor",
        "topic_partitions",
        "client_id",
        "client_host",
        "version",
    )
    def __new__(
        cls,
        group_id: str,
        member_id: str = "",
        member_epoch: int = 0,
        *,
        instance_id: str | None = None,
        rack_id: str | None = None,
        rebalance_timeout_ms: int = -1,
        subscribed_topic_names: Sequence[str] | None = None,
        subscribed_topic_regex: str | None = None,
        server_assignor: str | None = None,
        topic_partitions: Sequence[tuple[int, Sequence[int]]] | None = None,
        client_id: str = "client",
        client_host: str = "/127.0.0.1",
        version: int = 1,
    ) -> Self: ...

@final
class ConsumerGroupDescribe:
    """Show one group of the consumer protocol."""

    group_id: Final[str]
    """The group."""
    __match_args__: Final = ("group_id",)
    def __new__(cls, group_id: str) -> Self: ...

Request: TypeAlias = (
    JoinGroup
    | SyncGroup
    | Heartbeat
    | LeaveGroup
    | OffsetCommit
    | OffsetFetch
    | DescribeGroup
    | ListGroups
    | DeleteGroup
    | OffsetDelete
    | ConsumerGroupHeartbeat
    | ConsumerGroupDescribe
)

# ---- records of __consumer_offsets

@final
class OffsetRecord:
    """The newest offset of (group, topic, partition)."""

    group_id: Final[str]
    """The group."""
    topic: Final[str]
    """The topic."""
    partition: Final[int]
    """The partition."""
    value: Final[OffsetValue | None]
    """`None` is a tombstone."""
    __match_args__: Final = ("group_id", "topic", "partition", "value")
    def __new__(cls, group_id: str, topic: str, partition: int, value: OffsetValue | None) -> Self: ...
    def key_bytes(self) -> bytes:
        """The key as Kafka 4.4 writes it. Raises RecordError for a string of more than 32,767 bytes."""
    def value_bytes(self) -> bytes | None:
        """The value as Kafka 4.4 writes it; None is a tombstone. Raises RecordError as `key_bytes` does."""

@final
class OffsetValue:
    """A committed offset."""

    offset: Final[int]
    """As committed."""
    leader_epoch: Final[int]
    """-1: none."""
    metadata: Final[str]
    """"" if none."""
    commit_timestamp_ms: Final[int]
    """Milliseconds since the Unix epoch."""
    expire_timestamp_ms: Final[int | None]
    """Only when the commit carried a retention time."""
    topic_id: Final[int]
    """0: not known."""
    __match_args__: Final = (
        "offset",
        "leader_epoch",
        "metadata",
        "commit_timestamp_ms",
        "expire_timestamp_ms",
        "topic_id",
    )
    def __new__(
        cls,
        offset: int,
        leader_epoch: int = -1,
        metadata: str = "",
        commit_timestamp_ms: int = 0,
        expire_timestamp_ms: int | None = None,
        topic_id: int = 0,
    ) -> Self: ...

@final
class GroupRecord:
    """A whole group."""

    group_id: Final[str]
    """The group."""
    value: Final[GroupValue | None]
    """`None` is a tombstone."""
    __match_args__: Final = ("group_id", "value")
    def __new__(cls, group_id: str, value: GroupValue | None) -> Self: ...
    def key_bytes(self) -> bytes:
        """The key as Kafka 4.4 writes it. Raises RecordError for a string of more than 32,767 bytes."""
    def value_bytes(self) -> bytes | None:
        """The value as Kafka 4.4 writes it; None is a tombstone. Raises RecordError as `key_bytes` does."""

@final
class GroupValue:
    """A group as one record."""

    protocol_type: Final[str]
    """"" if none."""
    generation: Final[int]
    """The generation."""
    protocol_name: Final[str | None]
    """The chosen protocol."""
    leader: Final[str | None]
    """The leader's member id."""
    state_timestamp_ms: Final[int]
    """When the group entered its state, milliseconds since the Unix epoch; -1: not known."""
    members: Final[tuple[MemberValue, ...]]
    """In joining order."""
    __match_args__: Final = ("protocol_type", "generation", "protocol_name", "leader", "state_timestamp_ms", "members")
    def __new__(
        cls,
        protocol_type: str,
        generation: int,
        protocol_name: str | None = None,
        leader: str | None = None,
        state_timestamp_ms: int = -1,
        members: Sequence[MemberValue] = (),
    ) -> Self: ...

@final
class MemberValue:
    """One member inside a group record."""

    member_id: Final[str]
    """The member."""
    instance_id: Final[str | None]
    """Static members only."""
    client_id: Final[str]
    """As it joined first."""
    client_host: Final[str]
    """As it joined first."""
    rebalance_timeout_ms: Final[int]
    """How long a rebalance waits for it."""
    session_timeout_ms: Final[int]
    """How long it may be silent."""
    subscription: Final[bytes]
    """Its metadata for the chosen protocol."""
    assignment: Final[bytes]
    """The leader's bytes for it."""
    __match_args__: Final = (
        "member_id",
        "instance_id",
        "client_id",
        "client_host",
        "rebalance_timeout_ms",
        "session_timeout_ms",
        "subscription",
        "assignment",
    )
    def __new__(
        cls,
        member_id: str,
        instance_id: str | None = None,
        client_id: str = "",
        client_host: str = "",
        rebalance_timeout_ms: int = 300000,
        session_timeout_ms: int = 45000,
        subscription: bytes = b"",
        assignment: bytes = b"",
    ) -> Self: ...

@final
class UnknownRecord:
    """A record of another type: kept, never interpreted."""

    key: Final[bytes]
    """As read."""
    value: Final[bytes | None]
    """As read; `None` is a tombstone."""
    __match_args__: Final = ("key", "value")
    def __new__(cls, key: bytes, value: bytes | None) -> Self: ...
    def key_bytes(self) -> bytes:
        """The key as Kafka 4.4 writes it. Raises RecordError for a string of more than 32,767 bytes."""
    def value_bytes(self) -> bytes | None:
        """The value as Kafka 4.4 writes it; None is a tombstone. Raises RecordError as `key_bytes` does."""

Record: TypeAlias = OffsetRecord | GroupRecord | UnknownRecord

def decode_record(key: bytes, value: bytes | None) -> Record:
    """Read a record of `__consumer_offsets` in any version that Kafka 4.4 can read (docs/protocol.md §14).

    A key of another type gives an UnknownRecord. Raises RecordError for malformed bytes and unknown value versions.
    """

# ---- effects

@final
class JoinAnswer:
    """Answer to `JoinGroup`. On an error: generation -1, no leader, no protocol, no members."""

    ticket: Final[int]
    """The request's ticket."""
    error: Final[ErrorCode]
    """`ErrorCode.NONE` on success."""
    generation: Final[int]
    """-1 on an error."""
    protocol_type: Final[str | None]
    """`None` on an error."""
    protocol_name: Final[str | None]
    """`None` on an error."""
    leader: Final[str]
    """The leader's member id, "" on an error."""
    skip_assignment: Final[bool]
    """The leader is told the members but need not compute a plan."""
    member_id: Final[str]
    """The receiver's own id, or ""."""
    members: Final[tuple[JoinedMember, ...]]
    """Only for the leader."""
    __match_args__: Final = (
        "ticket",
        "error",
        "generation",
        "protocol_type",
        "protocol_name",
        "leader",
        "skip_assignment",
        "member_id",
        "members",
    )
    def __new__(
        cls,
        ticket: int,
        error: ErrorCode,
        generation: int,
        protocol_type: str | None,
        protocol_name: str | None,
        leader: str,
        skip_assignment: bool,
        member_id: str,
        members: Sequence[JoinedMember],
    ) -> Self: ...

@final
class JoinedMember:
    """One line of the list that the leader gets."""

    member_id: Final[str]
    """The member."""
    instance_id: Final[str | None]
    """Static members only."""
    metadata: Final[bytes]
    """Its metadata for the chosen protocol."""
    __match_args__: Final = ("member_id", "instance_id", "metadata")
    def __new__(cls, member_id: str, instance_id: str | None, metadata: bytes) -> Self: ...

@final
class SyncAnswer:
    """Answer to `SyncGroup`. On an error: no assignment, no protocol."""

    ticket: Final[int]
    """The request's ticket."""
    error: Final[ErrorCode]
    """`ErrorCode.NONE` on success."""
    protocol_type: Final[str | None]
    """`None` on an error."""
    protocol_name: Final[str | None]
    """`None` on an error."""
    assignment: Final[bytes]
    """The leader's bytes for this member, or empty."""
    __match_args__: Final = ("ticket", "error", "protocol_type", "protocol_name", "assignment")
    def __new__(
        cls, ticket: int, error: ErrorCode, protocol_type: str | None, protocol_name: str | None, assignment: bytes
    ) -> Self: ...

@final
class HeartbeatAnswer:
    """Answer to `Heartbeat`."""

    ticket: Final[int]
    """The request's ticket."""
    error: Final[ErrorCode]
    """`ErrorCode.NONE` on success."""
    __match_args__: Final = ("ticket", "error")
    def __new__(cls, ticket: int, error: ErrorCode) -> Self: ...

@final
class LeaveAnswer:
    """Answer to `LeaveGroup`."""

    ticket: Final[int]
    """The request's ticket."""
    error: Final[ErrorCode]
    """Top level; up to version 2 the single member's error."""
    members: Final[tuple[LeftMember, ...]]
    """In request order, identities as requested."""
    __match_args__: Final = ("ticket", "error", "members")
    def __new__(cls, ticket: int, error: ErrorCode, members: Sequence[LeftMember]) -> Self: ...

@final
class LeftMember:
    """One leaver's result."""

    member_id: Final[str]
    """As requested."""
    instance_id: Final[str | None]
    """As requested."""
    error: Final[ErrorCode]
    """`ErrorCode.NONE` when it left."""
    __match_args__: Final = ("member_id", "instance_id", "error")
    def __new__(cls, member_id: str, instance_id: str | None, error: ErrorCode) -> Self: ...

@final
class CommitAnswer:
    """Answer to `OffsetCommit`."""

    ticket: Final[int]
    """The request's ticket."""
    partitions: Final[tuple[CommittedPartition, ...]]
    """In request order."""
    @property
    def error(self) -> ErrorCode:
        """The first partition's error that is not `ErrorCode.NONE`, else `ErrorCode.NONE`."""
    __match_args__: Final = ("ticket", "partitions")
    def __new__(cls, ticket: int, partitions: Sequence[CommittedPartition]) -> Self: ...

@final
class CommittedPartition:
    """One partition's result of a commit."""

    topic: Final[str]
    """The topic's name."""
    partition: Final[int]
    """The partition."""
    error: Final[ErrorCode]
    """`ErrorCode.NONE` when it was stored."""
    topic_id: Final[int]
    """The topic's id, 0 if unknown."""
    __match_args__: Final = ("topic", "partition", "error", "topic_id")
    def __new__(cls, topic: str, partition: int, error: ErrorCode, topic_id: int = 0) -> Self: ...

@final
class FetchAnswer:
    """Answer to `OffsetFetch`."""

    ticket: Final[int]
    """The request's ticket."""
    error: Final[ErrorCode]
    """The group's."""
    group_id: Final[str]
    """The group asked about."""
    partitions: Final[tuple[FetchedOffset, ...]]
    """In request order, or by topic and partition; empty on an error."""
    __match_args__: Final = ("ticket", "error", "group_id", "partitions")
    def __new__(cls, ticket: int, error: ErrorCode, group_id: str, partitions: Sequence[FetchedOffset]) -> Self: ...

@final
class FetchedOffset:
    """One committed offset; -1, -1, "" when there is none."""

    topic: Final[str]
    """The topic's name."""
    partition: Final[int]
    """The partition."""
    offset: Final[int]
    """-1: none."""
    leader_epoch: Final[int]
    """-1: none."""
    metadata: Final[str]
    """As committed."""
    error: Final[ErrorCode]
    """Why this partition could not be read, or `ErrorCode.NONE`."""
    topic_id: Final[int]
    """The topic id that the commit carried, 0 if none."""
    __match_args__: Final = ("topic", "partition", "offset", "leader_epoch", "metadata", "error", "topic_id")
    def __new__(
        cls,
        topic: str,
        partition: int,
        offset: int,
        leader_epoch: int,
        metadata: str,
        error: ErrorCode,
        topic_id: int = 0,
    ) -> Self: ...

@final
class DescribeAnswer:
    """Answer to `DescribeGroup`."""

    ticket: Final[int]
    """The request's ticket."""
    error: Final[ErrorCode]
    """The gate's, or from version 6 on `ErrorCode.GROUP_ID_NOT_FOUND`."""
    error_message: Final[str | None]
    """Only with `ErrorCode.GROUP_ID_NOT_FOUND`."""
    group_id: Final[str]
    """The group asked about."""
    state: Final[str]
    """`Dead` for a missing group; "" when the gate refused."""
    protocol_type: Final[str]
    """"" if the group has none."""
    protocol_name: Final[str]
    """Only while Stable."""
    members: Final[tuple[DescribedMember, ...]]
    """In joining order."""
    __match_args__: Final = (
        "ticket",
        "error",
        "error_message",
        "group_id",
        "state",
        "protocol_type",
        "protocol_name",
        "members",
    )
    def __new__(
        cls,
        ticket: int,
        error: ErrorCode,
        error_message: str | None,
        group_id: str,
        state: str,
        protocol_type: str,
        protocol_name: str,
        members: Sequence[DescribedMember],
    ) -> Self: ...

@final
class DescribedMember:
    """One member in a description."""

    member_id: Final[str]
    """The member."""
    instance_id: Final[str | None]
    """Static members only."""
    client_id: Final[str]
    """As it joined first."""
    client_host: Final[str]
    """As it joined first."""
    metadata: Final[bytes]
    """For the chosen protocol while Stable, else empty."""
    assignment: Final[bytes]
    """The assignment in memory."""
    __match_args__: Final = ("member_id", "instance_id", "client_id", "client_host", "metadata", "assignment")
    def __new__(
        cls,
        member_id: str,
        instance_id: str | None,
        client_id: str,
        client_host: str,
        metadata: bytes,
        assignment: bytes,
    ) -> Self: ...

@final
class ListAnswer:
    """Answer to `ListGroups` for one coordinator partition."""

    ticket: Final[int]
    """The request's ticket."""
    error: Final[ErrorCode]
    """The gate's."""
    groups: Final[tuple[ListedGroup, ...]]
    """By group id."""
    __match_args__: Final = ("ticket", "error", "groups")
    def __new__(cls, ticket: int, error: ErrorCode, groups: Sequence[ListedGroup]) -> Self: ...

@final
class ListedGroup:
    """One line of a listing."""

    group_id: Final[str]
    """The group."""
    protocol_type: Final[str]
    """"" if it has none."""
    state: Final[str]
    """The group's state."""
    __match_args__: Final = ("group_id", "protocol_type", "state")
    def __new__(cls, group_id: str, protocol_type: str, state: str) -> Self: ...

@final
class Append:
    """Records to append to the log as one batch.

    Report the end with `Coordinator.appended`; until then whoever depends on it waits, at most
    `offsets.commit.timeout.ms`.
    """

    append_id: Final[int]
    """Names the append."""
    records: Final[tuple[Record, ...]]
    """In order."""
    __match_args__: Final = ("append_id", "records")
    def __new__(cls, append_id: int, records: Sequence[Record]) -> Self: ...

@final
class DeleteAnswer:
    """Answer to `DeleteGroup`."""

    ticket: Final[int]
    """The request's ticket."""
    error: Final[ErrorCode]
    """`ErrorCode.NONE` when the group is gone for good."""
    group_id: Final[str]
    """The group asked about."""
    __match_args__: Final = ("ticket", "error", "group_id")
    def __new__(cls, ticket: int, error: ErrorCode, group_id: str) -> Self: ...

@final
class OffsetDeleteAnswer:
    """Answer to `OffsetDelete`."""

    ticket: Final[int]
    """The request's ticket."""
    error: Final[ErrorCode]
    """The group's error."""
    partitions: Final[tuple[DeletedPartition, ...]]
    """In request order; empty on an error of the group."""
    __match_args__: Final = ("ticket", "error", "partitions")
    def __new__(cls, ticket: int, error: ErrorCode, partitions: Sequence[DeletedPartition]) -> Self: ...

@final
class DeletedPartition:
    """One partition's result of an `OffsetDelete`."""

    topic: Final[str]
    """The topic's name."""
    partition: Final[int]
    """The partition."""
    error: Final[ErrorCode]
    """`ErrorCode.NONE`, also where no offset was stored."""
    __match_args__: Final = ("topic", "partition", "error")
    def __new__(cls, topic: str, partition: int, error: ErrorCode) -> Self: ...

@final
class ConsumerHeartbeatAnswer:
    """Answer to `ConsumerGroupHeartbeat`."""

    ticket: Final[int]
    """The request's ticket."""
    error: Final[ErrorCode]
    """`ErrorCode.NONE` on success."""
    error_message: Final[str | None]
    """`None` on success, and where the code says everything."""
    member_id: Final[str | None]
    """`None` on an error."""
    member_epoch: Final[int]
    """The epoch to send with the next heartbeat."""
    heartbeat_interval_ms: Final[int]
    """When to send it, in ms."""
    assignment: Final[tuple[AssignedTopic, ...] | None]
    """What the member owns now; `None`: unchanged."""
    __match_args__: Final = (
        "ticket",
        "error",
        "error_message",
        "member_id",
        "member_epoch",
        "heartbeat_interval_ms",
        "assignment",
    )
    def __new__(
        cls,
        ticket: int,
        error: ErrorCode,
        error_message: str | None,
        member_id: str | None,
        member_epoch: int,
        heartbeat_interval_ms: int,
        assignment: Sequence[AssignedTopic] | None,
    ) -> Self: ...

@final
class AssignedTopic:
    """Partitions of one topic in the answer to a heartbeat."""

    topic_id: Final[int]
    """The topic."""
    partitions: Final[tuple[int, ...]]
    """Its partitions."""
    __match_args__: Final = ("topic_id", "partitions")
    def __new__(cls, topic_id: int, partitions: Sequence[int]) -> Self: ...

@final
class ConsumerDescribeAnswer:
    """Answer to `ConsumerGroupDescribe`."""

    ticket: Final[int]
    """The request's ticket."""
    error: Final[ErrorCode]
    """The group's error."""
    error_message: Final[str | None]
    """`None` on success."""
    group_id: Final[str]
    """The group asked about."""
    group_state: Final[str]
    """Empty on an error."""
    group_epoch: Final[int]
    """The group epoch."""
    assignment_epoch: Final[int]
    """The epoch of the target assignment."""
    assignor_name: Final[str]
    """The assignor that most members name."""
    members: Final[tuple[ConsumerMemberDescription, ...]]
    """By member id."""
    __match_args__: Final = (
        "ticket",
        "error",
        "error_message",
        "group_id",
        "group_state",
        "group_epoch",
        "assignment_epoch",
        "assignor_name",
        "members",
    )
    def __new__(
        cls,
        ticket: int,
        error: ErrorCode,
        error_message: str | None,
        group_id: str,
        group_state: str,
        group_epoch: int,
        assignment_epoch: int,
        assignor_name: str,
        members: Sequence[ConsumerMemberDescription],
    ) -> Self: ...

@final
class NamedTopic:
    """Partitions of one topic in a description."""

    topic_id: Final[int]
    """The topic."""
    topic: Final[str]
    """Its name."""
    partitions: Final[tuple[int, ...]]
    """Its partitions."""
    __match_args__: Final = ("topic_id", "topic", "partitions")
    def __new__(cls, topic_id: int, topic: str, partitions: Sequence[int]) -> Self: ...

@final
class ConsumerMemberDescription:
    """One member in the description of a consumer group."""

    member_id: Final[str]
    """The member."""
    instance_id: Final[str | None]
    """Static members only."""
    rack_id: Final[str | None]
    """`client.rack`"""
    member_epoch: Final[int]
    """The member epoch."""
    client_id: Final[str]
    """`client.id`"""
    client_host: Final[str]
    """As `/127.0.0.1`."""
    subscribed_topic_names: Final[tuple[str, ...]]
    """Sorted."""
    subscribed_topic_regex: Final[str | None]
    """Empty if it has none."""
    assignment: Final[tuple[NamedTopic, ...]]
    """What it owns."""
    target_assignment: Final[tuple[NamedTopic, ...]]
    """What it is to own."""
    member_type: Final[int]
    """0 classic, 1 consumer."""
    __match_args__: Final = (
        "member_id",
        "instance_id",
        "rack_id",
        "member_epoch",
        "client_id",
        "client_host",
        "subscribed_topic_names",
        "subscribed_topic_regex",
        "assignment",
        "target_assignment",
        "member_type",
    )
    def __new__(
        cls,
        member_id: str,
        instance_id: str | None,
        rack_id: str | None,
        member_epoch: int,
        client_id: str,
        client_host: str,
        subscribed_topic_names: Sequence[str],
        subscribed_topic_regex: str | None,
        assignment: Sequence[NamedTopic],
        target_assignment: Sequence[NamedTopic],
        member_type: int,
    ) -> Self: ...

Answer: TypeAlias = (
    JoinAnswer
    | SyncAnswer
    | HeartbeatAnswer
    | LeaveAnswer
    | CommitAnswer
    | FetchAnswer
    | DescribeAnswer
    | ListAnswer
    | DeleteAnswer
    | OffsetDeleteAnswer
    | ConsumerHeartbeatAnswer
    | ConsumerDescribeAnswer
)
Effect: TypeAlias = Answer | Append

# ---- explanations

@final
class Wait:
    """One thing that a group waits for."""

    what: Final[str]
    """What: one of the vocabulary's `waits`."""
    member_id: Final[str]
    """For whom, or ""."""
    until_ms: Final[int]
    """When the coordinator stops waiting for it, monotonic milliseconds."""
    heartbeats: Final[bool]
    """Whether the member heartbeats while the group waits for it: its session then does not end, and `until_ms` is the
    end of the phase."""
    is_static: Final[bool]
    """Whether it is a static member, which stays in the group when a join phase ends without it."""
    __match_args__: Final = ("what", "member_id", "until_ms", "heartbeats", "is_static")
    def __new__(
        cls, what: str, member_id: str, until_ms: int, heartbeats: bool = False, is_static: bool = False
    ) -> Self: ...

@final
class Departure:
    """A member that went while a rebalance was running, and therefore began no other one."""

    member_id: Final[str]
    """The member, or the id that was handed out."""
    how: Final[str]
    """How it went: one of the vocabulary's `departures`."""
    reason: Final[str]
    """The reason that the request gave, or ""."""
    at_ms: Final[int]
    """Monotonic milliseconds."""
    __match_args__: Final = ("member_id", "how", "reason", "at_ms")
    def __new__(cls, member_id: str, how: str, reason: str, at_ms: int) -> Self: ...

@final
class Rebalance:
    """One rebalance of a group."""

    cause: Final[str]
    """What began it: one of the vocabulary's `causes`."""
    member_id: Final[str]
    """Whose event that was, or ""."""
    reason: Final[str]
    """What the client said about it, or ""."""
    from_generation: Final[int]
    """The generation that it ended."""
    to_generation: Final[int | None]
    """The generation that came of it, once its join phase completed."""
    began_ms: Final[int]
    """Monotonic milliseconds."""
    began_wall_ms: Final[int]
    """Milliseconds since the Unix epoch."""
    joined_ms: Final[int | None]
    """When its join phase completed."""
    settled_ms: Final[int | None]
    """When the group was Stable, or Empty, again."""
    departures: Final[tuple[Departure, ...]]
    """The members that went while it ran, the last ones, oldest first. Snapshots do not keep them."""
    __match_args__: Final = (
        "cause",
        "member_id",
        "reason",
        "from_generation",
        "to_generation",
        "began_ms",
        "began_wall_ms",
        "joined_ms",
        "settled_ms",
        "departures",
    )
    def __new__(
        cls,
        cause: str,
        member_id: str,
        reason: str,
        from_generation: int,
        to_generation: int | None,
        began_ms: int,
        began_wall_ms: int,
        joined_ms: int | None,
        settled_ms: int | None,
        departures: Sequence[Departure] = (),
    ) -> Self: ...

@final
class Explanation:
    """What a group is doing, whom it waits for, and why it rebalanced lately. `str()` gives it as a sentence:

    `PreparingRebalance for 31.0 s: waiting for consumer-3-1f0c8a2e… to rejoin (until 14.0 s from now); it began because
    consumer-7-5c0d3b11… left`
    """

    group_id: Final[str]
    """The group."""
    state: Final[str]
    """One of the vocabulary's `states`."""
    generation: Final[int]
    """Its generation."""
    since_ms: Final[int]
    """Since when it is in this state, monotonic milliseconds."""
    now_ms: Final[int]
    """When this was asked, monotonic milliseconds."""
    waiting: Final[tuple[Wait, ...]]
    """What it waits for; empty while nothing is missing."""
    rebalances: Final[tuple[Rebalance, ...]]
    """The last rebalances, oldest first."""
    __match_args__: Final = ("group_id", "state", "generation", "since_ms", "now_ms", "waiting", "rebalances")
    def __new__(
        cls,
        group_id: str,
        state: str,
        generation: int,
        since_ms: int,
        now_ms: int,
        waiting: Sequence[Wait],
        rebalances: Sequence[Rebalance],
    ) -> Self: ...

@final
class Summary:
    """A group in a few figures."""

    group_id: Final[str]
    """The group."""
    protocol_type: Final[str | None]
    """Kept when the group empties."""
    protocol_name: Final[str | None]
    """The chosen protocol."""
    members: Final[int]
    """How many members it has."""
    awaiting_join: Final[int]
    """How many of them have a parked JoinGroup."""
    awaiting_sync: Final[int]
    """How many of them have a parked SyncGroup."""
    pending: Final[int]
    """How many ids were handed out that have not joined."""
    slack: Final[tuple[int, ...]]
    """By tenths of the session that are left, how many members have so much left; first those with the least."""
    waits: Final[int]
    """How many things it waits for; `explanation` has the first of them."""
    explanation: Final[Explanation]
    """What it is doing, and why."""
    __match_args__: Final = (
        "group_id",
        "protocol_type",
        "protocol_name",
        "members",
        "awaiting_join",
        "awaiting_sync",
        "pending",
        "slack",
        "waits",
        "explanation",
    )
    def __new__(
        cls,
        group_id: str,
        protocol_type: str | None,
        protocol_name: str | None,
        members: int,
        awaiting_join: int,
        awaiting_sync: int,
        pending: int,
        slack: Sequence[int],
        waits: int,
        explanation: Explanation,
    ) -> Self: ...

# ---- projections

@final
class Projection:
    """One group's whole state as plain data, for comparison with a model. Every list has a stated order."""

    group_id: Final[str]
    """The group."""
    state: Final[str]
    """One of the vocabulary's `states`."""
    since_ms: Final[int]
    """Since when, monotonic milliseconds."""
    generation: Final[int]
    """Its generation."""
    protocol_type: Final[str | None]
    """Kept when the group empties."""
    protocol_name: Final[str | None]
    """The chosen protocol."""
    leader: Final[str | None]
    """The leader's member id."""
    members: Final[tuple[ProjectedMember, ...]]
    """In joining order."""
    pending: Final[tuple[tuple[str, int], ...]]
    """(id handed out, its deadline in milliseconds), by id."""
    timers: Final[tuple[tuple[str, int], ...]]
    """(`InitialDelay`, `Join` or `Sync`, its deadline in milliseconds)."""
    in_flight: Final[tuple[int, ...]]
    """Ids of the appends about this group that are in flight, ascending."""
    deleting: Final[int | None]
    """The append that ends this group, if it is on its way."""
    durable: Final[bool]
    """Whether the log has something of this group."""
    subscribed_topics: Final[tuple[str, ...] | None]
    """What the members subscribe to, sorted; `None`: not known."""
    offsets: Final[tuple[tuple[str, int, OffsetValue], ...]]
    """(topic, partition, durable offset), by topic and partition."""
    __match_args__: Final = (
        "group_id",
        "state",
        "since_ms",
        "generation",
        "protocol_type",
        "protocol_name",
        "leader",
        "members",
        "pending",
        "timers",
        "in_flight",
        "deleting",
        "durable",
        "subscribed_topics",
        "offsets",
    )
    def __new__(
        cls,
        group_id: str,
        state: str,
        since_ms: int,
        generation: int,
        protocol_type: str | None,
        protocol_name: str | None,
        leader: str | None,
        members: Sequence[ProjectedMember],
        pending: Sequence[tuple[str, int]],
        timers: Sequence[tuple[str, int]],
        in_flight: Sequence[int],
        deleting: int | None,
        durable: bool,
        subscribed_topics: Sequence[str] | None,
        offsets: Sequence[tuple[str, int, OffsetValue]],
    ) -> Self: ...

@final
class ProjectedMember:
    """One member as plain data."""

    member_id: Final[str]
    """The member."""
    instance_id: Final[str | None]
    """Static members only."""
    session_timeout_ms: Final[int]
    """How long it may be silent."""
    rebalance_timeout_ms: Final[int]
    """How long a rebalance waits for it."""
    protocols: Final[tuple[tuple[str, bytes], ...]]
    """(name, metadata), in order of preference."""
    assignment: Final[bytes]
    """The leader's bytes for it."""
    awaits_join: Final[bool]
    """It has a parked `JoinGroup`."""
    awaits_sync: Final[bool]
    """It has a parked `SyncGroup`."""
    owes_sync: Final[bool]
    """It has not sent `SyncGroup` for this generation."""
    is_new: Final[bool]
    """It has never seen a join phase complete."""
    deadline_ms: Final[int | None]
    """Its session or new-member deadline, monotonic milliseconds."""
    __match_args__: Final = (
        "member_id",
        "instance_id",
        "session_timeout_ms",
        "rebalance_timeout_ms",
        "protocols",
        "assignment",
        "awaits_join",
        "awaits_sync",
        "owes_sync",
        "is_new",
        "deadline_ms",
    )
    def __new__(
        cls,
        member_id: str,
        instance_id: str | None,
        session_timeout_ms: int,
        rebalance_timeout_ms: int,
        protocols: Sequence[tuple[str, bytes]],
        assignment: bytes,
        awaits_join: bool,
        awaits_sync: bool,
        owes_sync: bool,
        is_new: bool,
        deadline_ms: int | None,
    ) -> Self: ...

# ---- the coordinator

@final
class Coordinator:
    """The coordinator of one partition of `__consumer_offsets`, in this process and in your own time.

    It is a fold over events. It reads no clock, opens no file and draws no random number: the same events give the same
    effects. It begins by loading: `replay` the log, then call `loaded`; until then every request gets the loading
    answers. Each call returns its effects in order: answers, each ticket exactly once, and `Append`s, whose end you
    report with `appended`.

    `config` takes Kafka's names (`group.initial.rebalance.delay.ms`, ...) and defaults, with numbers as int or str, and
    rota's own `group.max.pending.members` and `rebalance.history`. Raises ConfigError for a name that does not exist
    or a value out of range.

    Time: `now_ms` is from 0 to 2**53 and may not go back between calls (ValueError with both values). `wall_ms`, where
    it is left out, is 1,700,000,000,000 + `now_ms`.

    Threads may share a coordinator; calls wait for each other.
    """

    def __new__(cls, config: Mapping[str, str | int] | None = None, *, partition: int = 0, epoch: int = 1) -> Self: ...
    @classmethod
    def restore(cls, data: bytes) -> Self:
        """The coordinator that `snapshot` wrote, its parked requests and deadlines included.

        Raises SnapshotError for any other bytes, and for a state that breaks an invariant.
        """
    @property
    def partition(self) -> int:
        """The partition of `__consumer_offsets` that it owns."""
    @property
    def epoch(self) -> int:
        """The epoch of its ownership."""
    @property
    def phase(self) -> str:
        """`Loading`, `Active`, `Failed` or `Unloaded`."""
    @property
    def now_ms(self) -> int:
        """The newest time that it was told."""
    def replay(self, record: Record, offset: int, timestamp_ms: int) -> None:
        """Fold one committed record, in log order. Raises RotaError after the loading has ended."""
    def loaded(self, now_ms: int, wall_ms: int | None = None) -> list[Effect]:
        """End the loading: every member gets a full session, groups with too many members rebalance.

        Raises RotaError if the loading has ended already.
        """
    def load_failed(self) -> None:
        """End the loading, because the log could not be read: every request is answered NOT_COORDINATOR from now on."""
    def submit(
        self, now_ms: int, ticket: int, request: Request, *, entropy: int, wall_ms: int | None = None
    ) -> list[Effect]:
        """One request, answered exactly once, now or in a later call, with this `ticket` (0 to 2**64 - 1, yours).

        `entropy` is 128 random bits as an int; member ids are minted from it. Raises OverflowError outside these
        ranges, TypeError for something that is not a request.
        """
    def advance(self, now_ms: int, wall_ms: int | None = None) -> list[Effect]:
        """Fire every deadline up to now, by (deadline, arming order). With nothing due there is no effect."""
    def next_deadline(self) -> int | None:
        """When `advance` has something to do, in monotonic milliseconds: never late, sometimes early."""
    def appended(
        self, append_id: int, result: int | ErrorCode, now_ms: int, wall_ms: int | None = None
    ) -> list[Effect]:
        """The log made the append durable at this offset, or failed with this error (not `ErrorCode.NONE`)."""
    def topics_deleted(self, topics: Sequence[str], now_ms: int, wall_ms: int | None = None) -> list[Effect]:
        """These topics are gone, and so are their offsets in every group."""
    def topics_changed(
        self, topics: Sequence[tuple[str, int, int]], now_ms: int, wall_ms: int | None = None
    ) -> list[Effect]:
        """These topics are new, or have changed: (name, topic id, number of partitions). Consumer groups use them."""
    def unload(self, now_ms: int, wall_ms: int | None = None) -> list[Effect]:
        """Ownership is lost: whoever waits is answered NOT_COORDINATOR, and nothing is kept."""
    def explain(self, group_id: str, now_ms: int | None = None) -> Explanation | None:
        """What a group is doing, whom it waits for, and why it rebalanced lately. None: no such group.

        The sentence it prints says for how long, as of `now_ms`; without it, or before the latest event, as of that.
        """
    def project(self, group_id: str) -> Projection | None:
        """One group's whole state as plain data. None: no such group."""
    def digest(self, group_id: str) -> int | None:
        """64 bits that differ when the group's projection differs, but for a collision. None: no such group."""
    def group_ids(self) -> list[str]:
        """The ids of all groups, sorted."""
    def snapshot(self) -> bytes:
        """The whole state as bytes; the same state gives the same bytes."""
    def check_invariants(self) -> None:
        """Check every group. Raises InvariantViolation, whose message begins with the invariant's id, such as `S3`."""
    def member_handles(self, group_id: str, member_ids: Sequence[str]) -> NDArray[np.uint64]:
        """A number per member for `heartbeats`, shape (len(member_ids),); 2**64 - 1 for who is not a member.

        Returns a numpy array of uint64, or an `array.array` where numpy is not installed. A handle is valid as long
        as its member exists; after that it matches no member.
        """
    def heartbeats(
        self, now_ms: int, handles: NDArray[np.uint64] | Buffer, generations: NDArray[np.int32] | Buffer
    ) -> NDArray[np.int16]:
        """One heartbeat per element, with the interpreter lock released; the error code of each, same shape (n,).

        A handle that stands for nobody gets UNKNOWN_MEMBER_ID. `handles` are uint64, `generations` int32: numpy
        arrays, `array.array` or other buffers; they are copied first. Returns a numpy array of int16, or an
        `array.array` where numpy is not installed. Raises ValueError unless both are one-dimensional, of these types
        and of one length.
        """

# ---- the embedded consumer protocol (docs/protocol.md §18)

@final
class Subscription:
    """What a consumer says about itself when it joins."""

    topics: Final[tuple[str, ...]]
    """In the writer's order."""
    user_data: Final[bytes | None]
    """The assignor's own bytes."""
    owned_partitions: Final[tuple[tuple[str, tuple[int, ...]], ...]]
    """(topic, partitions) that the consumer holds (version 1 and later)."""
    generation: Final[int]
    """In which generation it got them, -1: none (version 2 and later)."""
    rack: Final[str | None]
    """`client.rack` (version 3 and later)."""
    version: Final[int]
    """The version of the bytes."""
    __match_args__: Final = ("topics", "user_data", "owned_partitions", "generation", "rack", "version")
    def __new__(
        cls,
        topics: Sequence[str],
        *,
        user_data: bytes | None = None,
        owned_partitions: Sequence[tuple[str, Sequence[int]]] = (),
        generation: int = -1,
        rack: str | None = None,
        version: int = 3,
    ) -> Self: ...

@final
class Assignment:
    """One member's part of the leader's plan."""

    partitions: Final[tuple[tuple[str, tuple[int, ...]], ...]]
    """(topic, partitions), in the writer's order."""
    user_data: Final[bytes | None]
    """The assignor's own bytes."""
    version: Final[int]
    """The version of the bytes."""
    __match_args__: Final = ("partitions", "user_data", "version")
    def __new__(
        cls, partitions: Sequence[tuple[str, Sequence[int]]], *, user_data: bytes | None = None, version: int = 3
    ) -> Self: ...

def nearest(name: str, names: Sequence[str], *, misspelt: bool = False) -> str | None:
    """The name that was probably meant; None if none is close. With `misspelt` it has to be closer."""

def decode_subscription(data: bytes) -> Subscription:
    """Read the metadata that a consumer joins with. Fields that its version lacks get their defaults.

    A version above 3 is read as version 3; bytes that follow are left alone. Raises EmbeddedError.
    """

def decode_assignment(data: bytes) -> Assignment:
    """Read one member's part of the leader's plan. Raises EmbeddedError, for empty bytes too."""

def encode_subscription(subscription: Subscription) -> bytes:
    """Write a subscription in its own version, every list in the order given. Raises EmbeddedError."""

def encode_assignment(assignment: Assignment) -> bytes:
    """Write an assignment in its own version, every list in the order given. Raises EmbeddedError."""

# ---- the member's side (docs/protocol.md §22)

@final
class MemberMachine:
    """The machine behind `rota.Member`, which documents it: effects are tuples that begin with their name."""

    def __new__(
        cls,
        group_id: str,
        *,
        strategies: list[str | tuple[str, bool]],
        instance_id: str | None,
        rack: str | None,
        auto_commit_interval_ms: int | None,
        leave_on_close: bool,
        seed: int,
        times_ms: dict[str, int],
    ) -> MemberMachine: ...
    def subscribe(
        self,
        now_ms: int,
        *,
        topics: list[str] | None = None,
        pattern: str | None = None,
        manual: list[tuple[str, int]] | None = None,
    ) -> list[tuple[Any, ...]]: ...
    def poll(self, now_ms: int) -> list[tuple[Any, ...]]: ...
    def busy(self, now_ms: int) -> list[tuple[Any, ...]]: ...
    def done(self, now_ms: int) -> list[tuple[Any, ...]]: ...
    def advance(self, now_ms: int) -> list[tuple[Any, ...]]: ...
    def close(self, now_ms: int) -> list[tuple[Any, ...]]: ...
    def rejoin(self, now_ms: int, reason: str) -> list[tuple[Any, ...]]: ...
    def position(
        self, now_ms: int, topic: str, partition: int, position: tuple[int, int, str]
    ) -> list[tuple[Any, ...]]: ...
    def commit(
        self, now_ms: int, commit: int, offsets: list[tuple[tuple[str, int], tuple[int, int, str]]]
    ) -> list[tuple[Any, ...]]: ...
    def fetch(self, now_ms: int, fetch: int, wanted: list[tuple[str, int]]) -> list[tuple[Any, ...]]: ...
    def planned(
        self, now_ms: int, generation: int, assignments: list[tuple[str, bytes]], error: str | None = None
    ) -> list[tuple[Any, ...]]: ...
    def user_data(self, now_ms: int, strategy: str, user_data: bytes | None) -> list[tuple[Any, ...]]: ...
    def answered(self, now_ms: int, request: int, api: str, fields: dict[str, Any]) -> list[tuple[Any, ...]]: ...
    def disconnected(self, now_ms: int, node: tuple[int, str, int] | None) -> list[tuple[Any, ...]]: ...
    def next_deadline(self) -> int | None: ...
    @property
    def state(self) -> str: ...
    @property
    def generation(self) -> int: ...
    @property
    def member_id(self) -> str: ...
    @property
    def owned(self) -> list[tuple[str, int]]: ...
    @property
    def coordinator(self) -> tuple[int, str, int] | None: ...
    @property
    def is_leader(self) -> bool: ...
    @property
    def is_closed(self) -> bool: ...

# ---- the wheel and the purgatory (docs/protocol.md §16)

@final
class Wheel:
    """A hierarchical timing wheel of 1 ms ticks with your own time: nothing fires but in `advance`.

    Instants are ints from 0 to 2**64 - 1 ms; others raise ValueError. What is due fires by deadline, then by arming
    order, and re-arming counts as arming. Payloads can be any object. `rota.purgatory_model` says the same with sorted
    lists.
    """

    def __new__(cls, now_ms: int = 0) -> Self: ...
    def __len__(self) -> int: ...
    @property
    def now_ms(self) -> int:
        """The wheel's time in ms."""
    def arm(self, deadline_ms: int, payload: Any) -> int:
        """Arm `payload` and return its id; a deadline that has passed fires at the next advance."""
    def rearm(self, timer_id: int, deadline_ms: int) -> bool:
        """Give an armed entry a new deadline; False if it fired or was cancelled."""
    def cancel(self, timer_id: int) -> Any | None:
        """Disarm an entry and return its payload; None if it fired or was cancelled."""
    def deadline(self, timer_id: int) -> int | None:
        """The deadline of an entry's last arming, in ms; None if it is gone."""
    def advance(self, now_ms: int) -> list[tuple[int, int, Any]]:
        """Move time and return what is due as (id, deadline in ms, payload), by deadline, then arming.

        Raises ValueError if time would go back.
        """
    def next_deadline(self) -> int | None:
        """When to advance next, in ms: at or before every deadline; None when nothing is armed."""

@final
class Purgatory:
    """Operations that wait for a condition or for their deadline, with your own time and without callbacks.

    An operation is any object, with a deadline and keys that watch it. Who thinks that a key's condition may hold
    asks `check` for its operations, and takes out with `complete` those that are done; the rest expires in `advance`.
    Instants are as in `Wheel`.
    """

    def __new__(cls, now_ms: int = 0) -> Self: ...
    def __len__(self) -> int: ...
    @property
    def now_ms(self) -> int:
        """The purgatory's time in ms."""
    def watch(self, operation: Any, deadline_ms: int, keys: Sequence[str]) -> int:
        """Let `operation` wait until `deadline_ms`, watched under `keys`; its id."""
    def check(self, key: str) -> list[tuple[int, Any]]:
        """The operations that `key` watches as (id, operation), in watching order."""
    def watched(self, key: str) -> int:
        """How many operations `key` watches."""
    def complete(self, operation_id: int) -> Any | None:
        """Take an operation out, with its deadline and all its watches; None if it is gone."""
    def rearm(self, operation_id: int, deadline_ms: int) -> bool:
        """Give an operation a new deadline; False if it is gone."""
    def deadline(self, operation_id: int) -> int | None:
        """An operation's deadline in ms; None if it is gone."""
    def advance(self, now_ms: int) -> list[tuple[int, int, Any]]:
        """Move time and return what expired as (id, deadline in ms, operation), by deadline, then arming.

        Raises ValueError if time would go back.
        """
    def next_deadline(self) -> int | None:
        """When to advance next, in ms: at or before every deadline; None when nothing waits."""

# ---- the server behind `rota.Server`

@final
class Server:
    """A Kafka-compatible server, a thread a node; `rota.Server` is its face. Calls release the interpreter lock.

    Raises ConfigError for a bad setting, ValueError for an address that is none, OSError for one that cannot be
    listened on. Any call raises ServerError if the server has stopped.
    """

    def __new__(
        cls,
        listen: str = "127.0.0.1:0",
        advertise: str | None = None,
        settings: dict[str, str] | None = None,
        virtual_clock: bool = False,
        nodes: int = 1,
        trace: tuple[Callable[[str], object], bool] | None = None,
        data: tuple[Path, bool, bool] | None = None,
        journal: tuple[Path | None, int | None, int | None] | None = None,
    ) -> Self:
        """`trace`: a function that is given every line of the request trace, and whether lines are JSON.

        `data`: the data directory, whether appends are synced, and whether Kafka's directory is taken over.
        `journal`: its directory (None: in the data directory), the bytes and milliseconds that a partition of it keeps.
        """
    def report(self) -> tuple[list[str], int, int, int, bool] | None:
        """Of a data directory: lines of what was found, groups, offsets, milliseconds, whether it is only read."""
    def health(
        self,
    ) -> tuple[str | None, list[str], int, float, int, str | None, str | None, int, str | None] | None:
        """Of a data directory: why it stopped, refused partitions, syncs and their seconds, compactions, its error.

        Then why writes fail now, how many have failed since the start, and why the last of them did.
        """
    def journal(self) -> tuple[Path, int, int, int, str | None] | None:
        """Its directory, entries and bytes since the start, entries dropped, why the disk does not take it."""
    @property
    def host(self) -> str:
        """The host at which this machine reaches it."""
    @property
    def port(self) -> int:
        """The port on which its first node listens."""
    def nodes(self) -> list[tuple[int, str, int]]:
        """Of every node its id, and the host and port at which this machine reaches it."""
    def partition_of(self, group_id: str) -> int:
        """The partition of `__consumer_offsets` in which a group is."""
    def owner(self, partition: int) -> int:
        """The id of the node that owns a partition of `__consumer_offsets`. Raises ValueError if there is none such."""
    def move_partition(self, partition: int, node_id: int) -> None:
        """Hand a partition of `__consumer_offsets` to a node. Returns when it is loaded, or at once if loads are held.

        Raises ValueError if there is no such partition or node.
        """
    def hold_loads(self) -> None:
        """From now on a partition that is handed over is not loaded."""
    def release_loads(self) -> int:
        """Load partitions again, those that were held first; gives how many those are."""
    @property
    def now_ms(self) -> int:
        """Milliseconds on its coordinators' monotonic clock."""
    def load(self) -> tuple[int, int]:
        """Open connections, and requests that wait for their answer."""
    @property
    def panics(self) -> int:
        """How many requests have made their handler panic: bugs, each of which has closed its connection."""
    def stop(self) -> None:
        """Answer every request that waits, close every connection, end the threads. A second call does nothing."""
    def settings(self) -> dict[str, str]:
        """The value of every setting, by its Kafka name."""
    def delay_answers(self, ms: int, api: str | None = None, node_id: int | None = None) -> int:
        """Send answers so much later from now on; the number of this fault. Raises ValueError, NotFoundError."""
    def drop_answers(self, api: str | None = None, times: int = 1, node_id: int | None = None) -> int:
        """Close the connections of the next requests instead of answering; the number of this fault.

        Raises ValueError, NotFoundError.
        """
    def lose_append_answers(self, error: str, times: int = 1) -> None:
        """Store the next appends, and report them as failed with this error. Raises ValueError."""
    def fault(self, fault: int) -> tuple[int, int | None]:
        """Of a network fault how many requests it has affected, and how many it is still to, None without a limit."""
    def end_fault(self, fault: int) -> None:
        """End a network fault."""
    def drop_connections(self, node_id: int | None = None) -> int:
        """Close all connections, or those of one node; how many those are. Raises NotFoundError."""
    def stop_node(self, node_id: int) -> None:
        """Take a node down. Raises NotFoundError."""
    def start_node(self, node_id: int) -> None:
        """Bring a node back. Raises NotFoundError, OSError."""
    def down_nodes(self) -> list[int]:
        """The ids of the nodes that are down."""
    def reset(self) -> None:
        """End everything that a test has asked for."""
    def add_partitions(self, topic: str, added: int) -> int:
        """Add partitions to a topic; how many it has then. Raises NotFoundError, RotaError."""
    def produce(self, topic: str, partition: int, records: Sequence[tuple[bytes | None, bytes | None]]) -> list[int]:
        """Append (key, value)s to a partition; their offsets once durable. Raises NotFoundError, RotaError."""
    def messages(self, topic: str) -> list[tuple[int, int, int, bytes | None, bytes | None]]:
        """(partition, offset, milliseconds since the Unix epoch, key, value) of every message. Raises NotFoundError."""
    def wait_for_change(self, seen: int, timeout_ms: int) -> int:
        """Wait until groups have changed since this returned `seen`, `timeout_ms` at most; what to pass next."""
    def silent_members(self, group_id: str) -> list[str]:
        """On a virtual clock, the members of a group whose client is gone or paused."""
    def create_topic(self, name: str, partitions: int = 1) -> None:
        """Create a topic. Raises RotaError if it exists or cannot be."""
    def groups(self) -> list[str]:
        """The ids of all groups, sorted."""
    def explain(self, group_id: str) -> Explanation:
        """What a group is doing and why. Raises NotFoundError if there is no such group."""
    def look(self, group_id: str) -> tuple[Explanation, Projection, list[tuple[str, str]]] | None:
        """Everything about a group as of one moment, and of each member its client id and host; None: no such group."""
    def summaries(self, group_ids: Sequence[str], waits_max: int) -> list[Summary]:
        """These groups in a few figures each, by id, with at most `waits_max` waits; those that are there."""
    def log_ends(self, partitions: Sequence[tuple[str, int]]) -> list[int | None]:
        """Where partitions of topics end: the offset of the next message; None of one that does not exist."""
    def census(self) -> tuple[dict[str, int], int, list[int], list[tuple[str, str, int]]]:
        """All groups: how many in each state, members, those by tenths of the session left, lag by group and topic."""
    def tally(self) -> dict[str, Any]:
        """What was counted since the start: `bounds` in seconds, counts by label, durations as (buckets, seconds).

        `rebalances` by cause, `expiries` by timer, `refusals` by (API, error), `commits`, `failed_appends`;
        `join_phases`, `sync_phases`, `joins`, `syncs`, `appends`, `fsyncs` with one more bucket than bounds.
        """
    def loading(self) -> list[int]:
        """The partitions of `__consumer_offsets` that are being loaded."""
    def advance(self, ms: int, expire: Sequence[str] = ...) -> int:
        """Move a virtual clock by `ms`, and return where it stands then.

        `expire` names members that lapse although their clients are connected. Raises ServerError if the clock is the
        machine's.
        """
    def member_ids(self) -> list[str]:
        """Ids of all members of all groups."""
    def members(self, group_id: str | None = None) -> list[tuple[str, str, str | None]]:
        """(group, member id, instance id) of the members of a group, in joining order, or of all groups.

        Raises ValueError if there is no such group.
        """
    def expire(self, member: str, group_id: str | None = None) -> None:
        """End the session of a member, by its id, or with its group by its instance id.

        Raises ValueError if there is no such member, RotaError if it has no session at the moment.
        """
    def rebalance(self, group_id: str) -> None:
        """Begin a rebalance. Raises ValueError if there is no such group, RotaError if it has no members."""
    def inject_error(self, api: str, error: str, times: int = 1, group_id: str | None = None) -> int:
        """Let the next `times` requests of an API be answered with an error; the number of this injection.

        Raises ValueError for a name that is none.
        """
    def injection(self, injection: int) -> tuple[int, int]:
        """Of an injection how many requests have been answered with it, and how many are still to be."""
    def cancel_injection(self, injection: int) -> None:
        """Answer no more requests with it."""
    def injected(self) -> int:
        """How many requests have been answered with injected errors."""
    def pause(self, member: str, group_id: str | None = None) -> tuple[str, str]:
        """Stop listening to a member, by its id, or with its group by its instance id: (group, member id).

        Raises ValueError if there is no such member.
        """
    def resume(self, group_id: str, member_id: str) -> None:
        """Listen to a member again."""
    def delay_appends(self, ms: int) -> None:
        """From now on the ends of appends are told so many milliseconds late."""
    def hold_appends(self) -> None:
        """From now on no append to `__consumer_offsets` ends."""
    def release_appends(self) -> int:
        """Appends end again, those that were held first; how many those are."""
    def fail_appends(self, error: str, times: int = 1) -> None:
        """The next `times` appends fail with the Kafka error of this name. Raises ValueError if there is none."""

# ---- the vocabulary

def vocabulary() -> dict[str, Any]:
    """The words of the protocol as the compiled module has them, as in `python/rota/specs/vocabulary.toml`.

    `states`, `causes`, `waits`, `requests` and `operations` are lists of names, `transitions` a list of (from, to),
    `errors` maps names to numbers.
    """

# ---- assignors (rota.assign; docs/assignors.md)

class InputError(RotaError):
    """A group that cannot be assigned: the message names the member or topic that is at fault."""

class PlanError(RotaError):
    """A plan that is not complete, not disjoint, or gives a member what it did not subscribe to."""

@final
class Certificate:
    """The figures of a plan that is complete, disjoint and gives nobody what it did not subscribe to."""

    loads: Final[tuple[int, ...]]
    """How many partitions each member got, in the order of the input."""
    min_load: Final[int]
    """The smallest load of a member that subscribes to anything; 0 if none does."""
    max_load: Final[int]
    """The largest one."""
    imbalance: Final[int]
    """The sum of the differences of all pairs of loads (of members that subscribe to anything)."""
    kept: Final[int]
    """Partitions that stay with their previous owner."""
    moved: Final[int]
    """Partitions that go from one member to another."""
    fresh: Final[int]
    """Partitions that had no owner, or several."""
    withheld: Final[int]
    """Partitions that wait for somebody to give them up."""
    away: Final[int]
    """Partitions whose owner's rack has no replica; 0 without racks."""
    locally_balanced: Final[bool]
    """No partition could go to another subscriber and make the two loads more even."""
    best_balance: Final[bool]
    """No other plan has more even loads."""
    __match_args__: Final = (
        "loads",
        "min_load",
        "max_load",
        "imbalance",
        "kept",
        "moved",
        "fresh",
        "withheld",
        "away",
        "locally_balanced",
        "best_balance",
    )
    def __new__(
        cls,
        loads: Sequence[int],
        min_load: int,
        max_load: int,
        imbalance: int,
        kept: int,
        moved: int,
        fresh: int,
        withheld: int,
        away: int,
        locally_balanced: bool,
        best_balance: bool,
    ) -> Self: ...

@final
class FlatGroup:
    """A group on arrays of uint32 (numpy, `array.array` or another buffer). Members, topics and partitions are numbers,
    and their order is the canonical one.

    `topic_starts` (topics + 1): where each topic's partitions start among all partitions. `member_starts`
    (members + 1): where each member's topics start in `subscriptions`, ascending. Racks are numbers, too: of each
    member (2**32 - 1: none), and of each partition's replicas, ascending, by `rack_starts` (partitions + 1). The arrays
    are copied. `generations` are int32. Returned arrays are numpy's, or `array.array` where numpy is not installed.
    Raises ValueError for arrays that do not fit together.
    """

    def __new__(
        cls,
        topic_starts: _UInt32s,
        member_starts: _UInt32s,
        subscriptions: _UInt32s,
        *,
        member_racks: _UInt32s | None = None,
        rack_starts: _UInt32s | None = None,
        replica_racks: _UInt32s | None = None,
    ) -> Self: ...
    def assign(self, assignor: str, previous: _UInt32s | None = None) -> NDArray[np.uint32]:
        """The owner of each partition, 2**32 - 1: nobody. `previous`: who owned it, in the same form.

        Scratch memory is reused from call to call; the interpreter lock is released. Raises InputError for an unknown
        assignor and ValueError for an owner that is no member.
        """

    def resolve(
        self, claim_starts: _UInt32s, claims: _UInt32s, generations: NDArray[np.int32] | Buffer
    ) -> NDArray[np.uint32]:
        """Who owned each partition, from the partitions that members claim and the generations in which they got them.

        The newest claim counts; several in one generation void each other: 2**32 - 2.
        """

    def certify(self, owners: _UInt32s, previous: _UInt32s | None = None, *, cooperative: bool = False) -> Certificate:
        """Check and measure a plan of one owner for each partition, in O(partitions + subscriptions).

        Raises PlanError that names the first partition that is wrong.
        """

def assign_names(
    assignor: str,
    members: Sequence[tuple[str, str | None, list[str], list[tuple[str, int]], int, str | None, bytes | None]],
    topics: Sequence[tuple[str, int, list[list[str]]]],
) -> list[list[tuple[str, int]]]:
    """What `rota.assign.assign` calls: members as the fields of `Subscriber` behind their ids."""

def certify_names(
    assignor: str,
    members: Sequence[tuple[str, str | None, list[str], list[tuple[str, int]], int, str | None, bytes | None]],
    topics: Sequence[tuple[str, int, list[list[str]]]],
    plan: Sequence[Sequence[tuple[str, int]]],
    cooperative: bool,
) -> Certificate:
    """What `rota.assign.certify` calls; claims are read as `assignor` reads them."""

def encode_sticky_user_data(partitions: Sequence[tuple[str, Sequence[int]]], generation: int) -> bytes:
    """The user data of `sticky`: partitions by topic, then the generation. Raises EmbeddedError."""

def decode_sticky_user_data(data: bytes) -> tuple[tuple[tuple[str, tuple[int, ...]], ...], int]:
    """Read the user data of `sticky`: partitions by topic, and the generation or -1. Bytes of others claim nothing."""

def encode_cooperative_sticky_user_data(generation: int) -> bytes:
    """The user data of `cooperative-sticky`: the generation, -1 before the first assignment."""

def decode_cooperative_sticky_user_data(data: bytes) -> int:
    """Read the user data of `cooperative-sticky`; -1 if there is no generation in it."""

def bench_assemble(
    broker: str, members: int, group_members: int, session_timeout_ms: int, prefix: str
) -> list[tuple[str, str, int]]:
    """Join members at a broker, HOST:PORT: group, member id and generation of each. Raises OSError."""

def bench_dismiss(broker: str, seats: list[tuple[str, str, int]]) -> None:
    """Let them leave. Raises OSError."""

def bench_load(
    broker: str,
    seats: list[tuple[str, str, int]],
    *,
    connections: int,
    depth: int,
    warm_up_s: float,
    seconds: float,
    rate: float | None = None,
) -> tuple[int, int, float, list[tuple[float, int]], list[tuple[float, int]]]:
    """Heartbeats for them: answers, errors among them, seconds, and nanoseconds by share. Raises OSError.

    The last are nanoseconds, by share, by which an open loop sent heartbeats later than they were due.
    """

def bench_storm(
    broker: str, groups: int, group_members: int, session_timeout_ms: int, prefix: str
) -> tuple[float, int, int, tuple[float, float, float], list[tuple[str, str, int]]]:
    """Lets all members of some groups join at once.

    Seconds until all are Stable, requests, generations, seconds of the median, 99th of a hundred and slowest join, and
    (group, member id, generation) of each member.
    """

def bench_echo(address: str, listening: Callable[[int], object]) -> None:
    """Answer every frame as a good heartbeat until the process ends; `listening` is told the port. Raises OSError."""

@final
class BenchCrowd:
    """Stable groups of a hundred members each in a coordinator without sockets."""

    def __new__(cls, members: int) -> Self: ...
    def requests(self, seconds: float) -> tuple[int, float]:
        """Heartbeats from a request's bytes to its answer's, with many in flight: how many, and seconds."""
    def requests_singly(self, seconds: float) -> tuple[int, float]:
        """The same, each looked at when its turn has come: how many, and seconds."""
    def handles(self, seconds: float) -> tuple[int, float]:
        """Heartbeats by handle, in arrays: how many, and seconds."""

def bench_clock(seconds: float) -> tuple[str, int, float]:
    """Looks at the clock: what, how many, seconds."""

def bench_loads(size_bytes: int, seconds: float) -> tuple[str, int, float]:
    """Loads that depend on each other, among so many bytes: what, how many, seconds."""

def bench_map_hits(members: int, seconds: float) -> tuple[str, int, float]:
    """Hits in a map of member ids: what, how many, seconds."""

def bench_syncs(directory: str | Path, seconds: float) -> tuple[str, int, float]:
    """4 KiB written in place and synced in a directory: what, how many, seconds. Raises OSError."""

def journal_entry(value: bytes) -> str:
    """One entry of a journal as a JSON object (docs/journal.md). Raises ValueError for anything else."""

def journal_time(value: bytes) -> tuple[int, int]:
    """When an entry's event happened: monotonic and wall milliseconds. Raises ValueError for anything else."""

@final
class JournalReplay:
    """Folds the journal of one partition, entry by entry, through a fresh coordinator."""

    def __new__(cls) -> Self: ...
    def fold(self, value: bytes) -> tuple[int, str, str, str, str] | None:
        """Fold the next entry. None: the coordinator does the same.

        Otherwise (sequence, what differs, the event, what the journal has, what the coordinator has); after that
        nothing more can be said.
        """
    def snapshot(self) -> bytes | None:
        """The coordinator's state so far, for `Coordinator.restore`. None: what was before the entries is missing."""
    def as_entry(self) -> bytes | None:
        """An entry with all of this: another replay goes on behind it. Empty: there is nothing to go on from.

        None: in the middle of an advance.
        """
    def tally(self) -> tuple[int, int, int, int, int, int]:
        """Entries: in all, compared, whole states compared, missing, unchecked, and incarnations cut short."""

def audit_ahead(directory: Path, topic: str) -> list[tuple[int, Path, tuple[int, int, int, int, int, int]]]:
    """The batches of a topic in the write-ahead files of a directory, those of a partition in the order of offsets.

    Each is the partition, the file, and what `audit_ranges` gives. Raises OSError if the directory cannot be read, or a
    write-ahead file is damaged before its end.
    """

def audit_columns() -> list[tuple[str, str]]:
    """The columns of the rows that logs are read as (docs/audit.md): (name, `long`, `int`, `text` or `bytes`)."""

def audit_ranges(
    path: Path, first_offset: int, target_bytes: int, start: int = 0, ranges_max: int = ..., end: int = ...
) -> list[tuple[int, int, int, int, int, int]]:
    """Cut a segment from byte `start` to `end` into parts of about `target_bytes` that begin and end with a batch.

    `first_offset` is that of the record that is due at `start`; there are at most `ranges_max`. A part may begin with
    something that is no batch; a last part without records has nothing else. Each is (first byte, byte after the last,
    the first offset that belongs there, the next one, newest timestamp in milliseconds, records). Only headers of
    batches are read. Raises OSError if the file cannot be.
    """

def audit_records(
    path: Path, pieces: list[tuple[int, int]], offsets: tuple[int, int], is_newest: bool
) -> list[tuple[int, int, int, bytes, bytes | None]]:
    """(offset, wall ms, epoch, key, value) of the records with a key in pieces of a file.

    They are in order, from the first of `offsets` to before the second. If nothing follows (`is_newest`), half a batch
    at the end is none. Raises OSError that names what cannot be read.
    """

def audit_replay(
    ranges: list[tuple[Path, int, int]], is_first: bool
) -> tuple[
    tuple[int, int, int, int, int, int],
    list[tuple[int, int, str, str, str, str]],
    list[tuple[str, int, int | None, str, str, str, int]],
    str | None,
]:
    """Fold what belongs to the first of these parts of one partition of a journal, each (path, first byte, end).

    That is from the first whole state in it, or from its first entry if `is_first`, to the first whole state of a later
    part. Gives `JournalReplay.tally`; the first difference behind each whole state, with its offset in front; why there
    were generations: (group, offset, generation, cause, whose event that was, what the client said, since when in wall
    milliseconds); and why the rest cannot be read. Raises OSError if a file cannot be.
    """

def audit_wrong(path: Path, base_offset: int, checked_from: int) -> tuple[int, int, int, int, int, int] | None:
    """The first place of a segment where a batch with records from `checked_from` on may have stood and is damaged.

    Checksums are compared, too. It is what `audit_ranges` gives, up to where the next right batch begins. Raises
    OSError if the file cannot be read.
    """

def edit_entry(
    value: bytes,
    *,
    sequence: int | None = None,
    later_ms: int = 0,
    told: str | None = None,
    error: int | None = None,
    generation: int | None = None,
    leader: str | None = None,
    protocol: str | None = None,
    assignment: bytes | None = None,
    unlisted: str | None = None,
    asked_generation: int | None = None,
    asked_by: str | None = None,
    append_id: int | None = None,
    without_answers: bool = False,
    answers_twice: bool = False,
) -> bytes:
    """An entry of a journal with something wrong in it, to see whether an audit notices (`rota plant`).

    What is given replaces what the entry has: its number; its times, later by so much; of its answers, or of those to
    JoinGroup that name the member `told`, the error, generation, leader, protocol, assignment, one member of the list;
    the generation and the member that asked; the append that has ended. Raises ValueError if the bytes are no entry.
    """

def write_batch(base_offset: int, records: Sequence[tuple[int, bytes, bytes | None]]) -> bytes:
    """One uncompressed batch of records, each (wall milliseconds, key, value), the first at `base_offset`."""

@final
class AuditRows:
    """The rows of pieces of a file, each (first byte, byte after the last). Raises OSError if it cannot be read."""

    def __new__(
        cls,
        path: Path,
        pieces: list[tuple[int, int]],
        first_offset: int,
        is_newest: bool,
        is_journal: bool,
        groups: list[str] | None = None,
        since_ms: int | None = None,
        until_ms: int | None = None,
        has_entries: bool = False,
    ) -> Self: ...
    def next_columns(self) -> tuple[int, list[tuple[bytes, bytes, bytes]]] | None:
        """How many rows come now, and of each column Arrow's buffers: validity, offsets, values. None: no more."""

@final
class DataLog:
    """A data directory, opened to be read: nothing in it is changed. Raises OSError if it cannot be opened."""

    def __new__(cls, directory: Path) -> Self: ...
    def partitions(self) -> list[tuple[str, int, int, int]]:
        """(topic, partition, first offset, next offset), sorted."""
    def notes(self) -> list[str]:
        """What a start would cut or complete."""
    def damage(self) -> list[str]:
        """Damage that opening has met."""
    def records(
        self, topic: str, partition: int, from_offset: int, records_max: int
    ) -> list[tuple[int, int, int, bytes, bytes | None]]:
        """(offset, wall ms, epoch, key, value) of records with a key from an offset on; [] at the end.

        Raises OSError that names what is damaged, and ValueError if there is no such partition.
        """
    def verify(self, topic: str, partition: int) -> tuple[int, int]:
        """Read a partition to its end: bytes of batches, and how many. Raises as `records`."""

def recover_log(directory: Path, give_up: bool) -> tuple[list[str], list[str]]:
    """Do what a start does with a data directory that nobody has open.

    (what was found and done, what is still damaged), one line each. With `give_up` also if a file that all partitions
    share is damaged: what only that file had is given up.
    Raises OSError if the directory cannot be opened, or is Kafka's.
    """

def repair_log(
    directory: Path,
) -> list[tuple[str, int, list[tuple[Path, int, int, int, int, str]], int, list[Path]]]:
    """Recover, and take what cannot be read out of every partition; all whole batches stay.

    (topic, partition, losses, batches that came from write-ahead files, files with what was there); a loss is (file,
    byte, bytes, from offset, to offset, reason). Raises as `recover_log`.
    """

def exploration_bounds() -> list[str]:
    """The names of the bounds that `explore` knows."""

def exploration_cells() -> tuple[int, int]:
    """How many cells of state x event x validity there are, and how many of them are argued not to come up."""

def explore(
    bounds: str, states_max: int, workers: int, progress: Callable[[int], object] | None = None
) -> dict[str, Any]:
    """Every state of the coordinator within these bounds, breadth first, until about `states_max` are known.

    `progress` is told how many after each layer. The figures: `states`, `transitions`, `cut` (events that led out of
    the bounds), `depth`, `complete`, `memory_bytes`, `checked` (how often each check had something to say), `cells`,
    and `violation`: None, or its id, what is wrong, and the shortest way to it as the steps of a transcript. Raises
    ValueError for a name that no bounds have.
    """

def simulate_world(seed: int, *, swarm: bool = False, lines: bool = False, minimised: bool = False) -> str | None:
    """The world of a seed; its report as JSON. `rota.simulate.world` reads it."""

def simulate_worlds(first: int, stop: int, *, swarm: bool = False) -> str:
    """The worlds of the seeds from `first` to `stop` - 1, up to the first that breaks; what they came to as JSON.

    `rota.simulate.worlds` reads it. Raises ValueError if there are no such seeds.
    """

@final
class SimulatedJournal:
    """The journals of worlds in one directory, one world after the other. `rota.simulate.journal` has it for people."""

    def __new__(cls, directory: Path) -> SimulatedJournal:
        """A new one, in a directory that is empty, or created if its parent exists. Raises OSError if it cannot be."""

    @property
    def entries(self) -> int:
        """How many were written."""

    def world(self, seed: int, *, swarm: bool = False, lines: bool = False) -> str:
        """As `simulate_world`. Raises OSError if the journal cannot be written."""

    def worlds(self, first: int, stop: int, *, swarm: bool = False) -> str:
        """As `simulate_worlds`. Raises OSError if the journal cannot be written."""

    def close(self) -> None:
        """Write what is missing; nothing can be written after that. Raises OSError if something could not be."""

def simulate_plan(
    seed: int,
    *,
    members: int,
    partitions: int,
    assignor: str,
    is_static: bool,
    timeouts_ms: tuple[int, int, int, int],
    restarts: list[tuple[int, int, int, bool]],
    until_ms: int,
) -> str:
    """One group whose processes restart as (place, at ms, for ms, whether it closes its member); the report as JSON.

    Timeouts are session, heartbeat, poll interval and initial delay. Raises ValueError if they contradict each other,
    and InputError for a name that no assignor has.
    """

def simulate_faults() -> list[tuple[str, str]]:
    """The kinds of faults, and what each does."""
