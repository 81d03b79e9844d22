"""The compiled module `rota._rota`. Import the names from the public modules.

One compiled module has one stub; the sections below are in this order:

| section | public module |
|---|---|
| errors | `rota` (ErrorCode: `rota.protocol`) |
| requests, records of __consumer_offsets, effects | `rota.protocol` (Append, Effect: `rota.coordinator`) |
| explanations, projections | `rota.coordinator` |
| the coordinator | `rota.coordinator` |
| the embedded consumer protocol | `rota.protocol` |
| the member's side | behind `rota.member` |
| the wheel and the purgatory | `rota.coordinator` |
| the server | behind `rota.server` |
| the vocabulary | behind `rota.specs` |
| assignors | `rota.assign` |
| the coordinator of transactions | `rota.transactions` |
| benchmarks, journals, logs in columns, data directories, exploration, simulation | behind `rota.bench`, |
| | `rota.journal`, `rota.audit`, `rota.log`, `rota.check`, `rota.simulate` |

Times are whole milliseconds: `*_ms` on a monotonic clock of the caller, `wall_ms` and `*_timestamp_ms` since the Unix
epoch. All classes except Coordinator, TransactionCoordinator, Wheel, Purgatory and Server are frozen: they have plain
fields, equality, a hash, and `match` patterns in field order. docs/protocol.md has the rules.
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
    "AuditFold",
    "AuditRows",
    "Authority",
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
    "ConsumerMemberView",
    "ConsumerView",
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
    "EngineError",
    "EngineOperator",
    "ErrorCode",
    "Explanation",
    "FetchAnswer",
    "FetchedOffset",
    "FlatGroup",
    "GivenUp",
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
    "MemoryEngine",
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
    "ServerConfig",
    "ServerError",
    "SimulatedJournal",
    "SnapshotError",
    "Subscription",
    "Summary",
    "SyncAnswer",
    "SyncGroup",
    "TokenIssuer",
    "Transaction",
    "TransactionAnswer",
    "TransactionAppend",
    "TransactionCoordinator",
    "TransactionMarker",
    "TxnOffsetCommit",
    "UnknownRecord",
    "Wait",
    "Wheel",
    "WriteTxnMarker",
    "__version__",
    "acl_lines",
    "assign_names",
    "audit_ahead",
    "audit_columns",
    "audit_decode",
    "audit_extent",
    "audit_fetched",
    "audit_promises",
    "audit_ranges",
    "audit_records",
    "audit_replay",
    "audit_transactions",
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
    "check_tls",
    "consumer_record",
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
    "partition_for",
    "recover_log",
    "repair_log",
    "simulate_faults",
    "simulate_plan",
    "simulate_world",
    "simulate_worlds",
    "user_lines",
    "vocabulary",
    "write_batch",
    "write_marker",
]

__version__: str

# ---- errors

class RotaError(Exception):
    """Base class of the exceptions of rota. The parent of all exceptions below."""

class ConfigError(RotaError):
    """Unknown setting, or invalid value of a setting. The message names the nearest one that exists."""

class InvariantViolation(RotaError):  # noqa: N818 - it is not an error of the caller's
    """The state violates an invariant: a bug in rota. The message begins with the invariant's id, such as `S3`."""

class SnapshotError(RotaError):
    """Invalid snapshot, or a snapshot of another version of rota."""

class RecordError(RotaError):
    """Invalid record of `__consumer_offsets`."""

class EmbeddedError(RotaError):
    """Invalid message of the embedded consumer protocol, or values too large for one."""

class NotFoundError(RotaError, ValueError):
    """Unknown group, member, topic, partition, node or transactional id."""

    what: str
    """Which of them: "group", "member", "topic", "partition", "node", "transactional id" or "cluster"."""

class EngineError(RotaError):
    """The engine of a cluster does not answer, or refuses."""

class ServerError(RotaError):
    """The server could not start, or stopped unexpectedly."""

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
    NOT_CONTROLLER = 41
    INVALID_REQUEST = 42
    UNSUPPORTED_FOR_MESSAGE_FORMAT = 43
    OUT_OF_ORDER_SEQUENCE_NUMBER = 45
    DUPLICATE_SEQUENCE_NUMBER = 46
    INVALID_PRODUCER_EPOCH = 47
    INVALID_TXN_STATE = 48
    INVALID_PRODUCER_ID_MAPPING = 49
    CONCURRENT_TRANSACTIONS = 51
    TRANSACTION_COORDINATOR_FENCED = 52
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
    PRODUCER_FENCED = 90
    UNKNOWN_TOPIC_ID = 100
    TRANSACTIONAL_ID_NOT_FOUND = 105
    FENCED_MEMBER_EPOCH = 110
    UNRELEASED_INSTANCE_ID = 111
    UNSUPPORTED_ASSIGNOR = 112
    STALE_MEMBER_EPOCH = 113
    TRANSACTION_ABORTABLE = 120
    INVALID_REGULAR_EXPRESSION = 128

# ---- requests

_Leaver: TypeAlias = str | tuple[str, str | None] | tuple[str, str | None, str | None]
_Offset: TypeAlias = int | tuple[int, str | None] | tuple[int, str | None, int]

@final
class JoinGroup:
    """Join a group, or stay in it. The defaults are those of a dynamic consumer with the newest version."""

    group_id: Final[str | None]
    """Group id; `None` is a null group id, which is always invalid."""
    member_id: Final[str]
    """Member id; empty on the first join."""
    protocols: Final[tuple[tuple[str, bytes], ...]]
    """(name, metadata), in order of preference."""
    protocol_type: Final[str]
    """Protocol type; `consumer` for consumers."""
    session_timeout_ms: Final[int]
    """Session timeout in milliseconds."""
    rebalance_timeout_ms: Final[int]
    """Rebalance timeout in milliseconds."""
    client_id: Final[str]
    """`client.id`, the prefix of a new member id."""
    client_host: Final[str]
    """Host of the client, such as `/127.0.0.1`."""
    instance_id: Final[str | None]
    """`group.instance.id` of a static member."""
    version: Final[int]
    """The wire version, 0 to 9."""
    reason: Final[str | None]
    """Why the client joins; for display only."""
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
    """Get the assignment; the leader also sends the assignments of all members.

    Version 5 requires both protocol type and name; otherwise the answer is INCONSISTENT_GROUP_PROTOCOL. The default
    version is 5 if both are given, else 4.
    """

    group_id: Final[str | None]
    """Group id; `None` is a null group id, which is invalid."""
    member_id: Final[str]
    """Member id of the sender."""
    generation: Final[int]
    """The generation that the member knows."""
    assignments: Final[tuple[tuple[str, bytes], ...]]
    """(member id, assignment bytes) of the leader's plan; ignored if the sender is not the leader."""
    protocol_type: Final[str | None]
    """Compared with the group's if present."""
    protocol_name: Final[str | None]
    """Compared with the group's if present."""
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
    """Group id; `None` is a null group id, which is invalid."""
    member_id: Final[str]
    """Member id of the sender."""
    generation: Final[int]
    """The generation that the member knows."""
    instance_id: Final[str | None]
    """`group.instance.id` of a static member."""
    __match_args__: Final = ("group_id", "member_id", "generation", "instance_id")
    def __new__(
        cls, group_id: str | None, member_id: str, generation: int, *, instance_id: str | None = None
    ) -> Self: ...

@final
class LeaveGroup:
    """Remove one or several members from a group.

    Each leaver is a member id, or a tuple (member id, instance id) or (member id, instance id, reason). An empty
    member id with an instance id is an administrative removal.
    """

    group_id: Final[str | None]
    """Group id; `None` is a null group id, which is invalid."""
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
    """Group id; the empty string is valid here, `None` (null) is not."""
    offsets: Final[tuple[tuple[tuple[str, int], tuple[int, str | None, int]], ...]]
    """((topic, partition), (offset, metadata, leader epoch)), in request order."""
    member_id: Final[str]
    """Member id; empty for a commit from outside the group."""
    generation: Final[int]
    """Generation; negative for a commit from outside the group."""
    instance_id: Final[str | None]
    """`group.instance.id` of a static member."""
    retention_time_ms: Final[int | None]
    """Retention time of the request in milliseconds (versions 2 to 4)."""
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
    """Group id; the empty string is valid here, `None` (null) is not."""
    partitions: Final[tuple[tuple[str, int], ...] | None]
    """(topic, partition), in request order; `None`: all partitions with a committed offset."""
    require_stable: Final[bool]
    """Wait for commits that are in flight."""
    topic_ids: Final[tuple[tuple[str, int], ...]]
    """(topic, id) of topics requested by id: offsets of another topic with that name are not returned."""
    member_id: Final[str | None]
    """Member id of the sender; `None`: no member."""
    member_epoch: Final[int]
    """Member epoch; negative if the sender is not a member."""
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
    """Describe one group."""

    group_id: Final[str | None]
    """Group id; the empty string is valid here, `None` (null) is not."""
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
    """Group id; the empty string is valid here, `None` (null) is not."""
    __match_args__: Final = ("group_id",)
    def __new__(cls, group_id: str | None) -> Self: ...

@final
class OffsetDelete:
    """Remove some offsets of one group."""

    group_id: Final[str | None]
    """Group id; `None` is a null group id, which is invalid."""
    partitions: Final[tuple[tuple[str, int], ...]]
    """(topic, partition), in request order; may be empty."""
    __match_args__: Final = ("group_id", "partitions")
    def __new__(cls, group_id: str | None, partitions: Sequence[tuple[str, int]]) -> Self: ...

@final
class ConsumerGroupHeartbeat:
    """Join, stay in or leave a group of the consumer protocol."""

    group_id: Final[str]
    """Group id."""
    member_id: Final[str]
    """Member id of the sender."""
    member_epoch: Final[int]
    """0 joins, -1 leaves, -2 leaves temporarily (static members)."""
    instance_id: Final[str | None]
    """`group.instance.id` of a static member."""
    rack_id: Final[str | None]
    """`client.rack`; `None` if unchanged."""
    rebalance_timeout_ms: Final[int]
    """How long the member may take to revoke partitions, in milliseconds; -1 if unchanged."""
    subscribed_topic_names: Final[tuple[str, ...] | None]
    """`None` if unchanged."""
    subscribed_topic_regex: Final[str | None]
    """`None` if unchanged; empty to drop the pattern."""
    server_assignor: Final[str | None]
    """`None` if unchanged."""
    topic_partitions: Final[tuple[tuple[int, tuple[int, ...]], ...] | None]
    """(topic id, partitions) that the member owns; `None`: not sent."""
    client_id: Final[str]
    """`client.id` of the connection."""
    client_host: Final[str]
    """Host of the client, such as `/127.0.0.1`."""
    version: Final[int]
    """The wire version, 0 or 1. From v1 on the client generates its member id."""
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
    """Describe one group of the consumer protocol."""

    group_id: Final[str]
    """Group id."""
    __match_args__: Final = ("group_id",)
    def __new__(cls, group_id: str) -> Self: ...

@final
class TxnOffsetCommit:
    """Store offsets that the transaction of a producer decides about.

    `offsets` is as in `OffsetCommit`, and so is the answer, a `CommitAnswer`.
    """

    group_id: Final[str | None]
    """Group id; neither the empty string nor `None` (null) is valid here."""
    producer_id: Final[int]
    """Producer id."""
    producer_epoch: Final[int]
    """Epoch of the producer."""
    offsets: Final[tuple[tuple[tuple[str, int], tuple[int, str | None, int]], ...]]
    """((topic, partition), (offset, metadata, leader epoch)), in request order."""
    member_id: Final[str]
    """Member id; empty if the sender names no member."""
    generation: Final[int]
    """Generation; negative if the sender names no member."""
    instance_id: Final[str | None]
    """`group.instance.id` of a static member."""
    topic_ids: Final[tuple[tuple[str, int], ...]]
    """(topic, id) of the topics whose id is known."""
    version: Final[int]
    """The wire version, 0 to 6."""
    __match_args__: Final = (
        "group_id",
        "producer_id",
        "producer_epoch",
        "offsets",
        "member_id",
        "generation",
        "instance_id",
        "topic_ids",
        "version",
    )
    def __new__(
        cls,
        group_id: str | None,
        producer_id: int,
        producer_epoch: int,
        offsets: Mapping[tuple[str, int], _Offset] | Sequence[tuple[tuple[str, int], _Offset]],
        member_id: str = "",
        generation: int = -1,
        *,
        instance_id: str | None = None,
        topic_ids: Sequence[tuple[str, int]] = (),
        version: int = 5,
    ) -> Self: ...

@final
class WriteTxnMarker:
    """End a producer's transaction in one partition of `__consumer_offsets`. Its answer is a `HeartbeatAnswer`."""

    producer_id: Final[int]
    """Producer id."""
    producer_epoch: Final[int]
    """Epoch of the producer from now on."""
    is_commit: Final[bool]
    """Whether the transaction is committed; otherwise it is aborted."""
    coordinator_epoch: Final[int]
    """Epoch of the transaction coordinator."""
    transactional_id: Final[str | None]
    """Transactional id, if known; shown to operators only."""
    __match_args__: Final = ("producer_id", "producer_epoch", "is_commit", "coordinator_epoch", "transactional_id")
    def __new__(
        cls,
        producer_id: int,
        producer_epoch: int,
        is_commit: bool,
        *,
        coordinator_epoch: int = 0,
        transactional_id: str | None = None,
    ) -> Self: ...

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
    | TxnOffsetCommit
    | WriteTxnMarker
)

# ---- records of __consumer_offsets

@final
class OffsetRecord:
    """The newest offset of (group, topic, partition)."""

    group_id: Final[str]
    """Group id."""
    topic: Final[str]
    """Topic name."""
    partition: Final[int]
    """Partition index, from 0."""
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
    """The committed offset."""
    leader_epoch: Final[int]
    """-1 for none."""
    metadata: Final[str]
    """Empty for none."""
    commit_timestamp_ms: Final[int]
    """Milliseconds since the Unix epoch."""
    expire_timestamp_ms: Final[int | None]
    """Milliseconds since the Unix epoch; only if the commit carried a retention time."""
    topic_id: Final[int]
    """Topic id, a 128-bit int; 0: unknown."""
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
    """State of a group without its offsets."""

    group_id: Final[str]
    """Group id."""
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
    """Value of a group record."""

    protocol_type: Final[str]
    """Empty for none."""
    generation: Final[int]
    """Generation."""
    protocol_name: Final[str | None]
    """The chosen protocol."""
    leader: Final[str | None]
    """The leader's member id."""
    state_timestamp_ms: Final[int]
    """When the group entered its state, milliseconds since the Unix epoch; -1: not known."""
    members: Final[tuple[MemberValue, ...]]
    """Members in joining order."""
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
    """Member id."""
    instance_id: Final[str | None]
    """`group.instance.id`; `None` for a dynamic member."""
    client_id: Final[str]
    """`client.id` at the first join."""
    client_host: Final[str]
    """Host at the first join, such as `/127.0.0.1`."""
    rebalance_timeout_ms: Final[int]
    """Rebalance timeout in milliseconds."""
    session_timeout_ms: Final[int]
    """Session timeout in milliseconds."""
    subscription: Final[bytes]
    """Metadata of the member for the chosen protocol."""
    assignment: Final[bytes]
    """The leader's bytes for this member."""
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
    """A record of an unknown type; kept but not interpreted."""

    key: Final[bytes]
    """The key, uninterpreted."""
    value: Final[bytes | None]
    """The value, uninterpreted; `None` is a tombstone."""
    __match_args__: Final = ("key", "value")
    def __new__(cls, key: bytes, value: bytes | None) -> Self: ...
    def key_bytes(self) -> bytes:
        """The key as Kafka 4.4 writes it. Raises RecordError for a string of more than 32,767 bytes."""
    def value_bytes(self) -> bytes | None:
        """The value as Kafka 4.4 writes it; None is a tombstone. Raises RecordError as `key_bytes` does."""

Record: TypeAlias = OffsetRecord | GroupRecord | UnknownRecord

def partition_for(group_id: str, partitions: int) -> int:
    """The partition of `__consumer_offsets` that has the records of a group, of so many (docs/protocol.md §19).

    Raises ValueError for 0 partitions.
    """

def decode_record(key: bytes, value: bytes | None) -> Record:
    """Decode a record of `__consumer_offsets` in any version that Kafka 4.4 can read (docs/protocol.md §14).

    A key of another type gives an UnknownRecord. Raises RecordError for malformed bytes and unknown value versions.
    """

def consumer_record(key: bytes, value: bytes | None) -> tuple[str, str, str | None, Any] | None:
    """Decode a record of a consumer group: (group id, kind, member id or pattern, value); `None` for other records.

    Bytes in the value are hexadecimal, partitions are by topic id. Raises RecordError as `decode_record` does.
    """

# ---- effects

@final
class JoinAnswer:
    """Answer to `JoinGroup`. On an error: generation -1, no leader, no protocol, no members."""

    ticket: Final[int]
    """Ticket of the request."""
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
    """The leader gets the members but must not compute a plan."""
    member_id: Final[str]
    """Member id of the receiver, or ""."""
    members: Final[tuple[JoinedMember, ...]]
    """The members of the group; only the leader gets them."""
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
    """One member in the leader's member list."""

    member_id: Final[str]
    """Member id."""
    instance_id: Final[str | None]
    """`group.instance.id`; `None` for a dynamic member."""
    metadata: Final[bytes]
    """Metadata of the member for the chosen protocol."""
    __match_args__: Final = ("member_id", "instance_id", "metadata")
    def __new__(cls, member_id: str, instance_id: str | None, metadata: bytes) -> Self: ...

@final
class SyncAnswer:
    """Answer to `SyncGroup`. On an error: no assignment, no protocol."""

    ticket: Final[int]
    """Ticket of the request."""
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
    """Answer to `Heartbeat` or `WriteTxnMarker`."""

    ticket: Final[int]
    """Ticket of the request."""
    error: Final[ErrorCode]
    """`ErrorCode.NONE` on success."""
    __match_args__: Final = ("ticket", "error")
    def __new__(cls, ticket: int, error: ErrorCode) -> Self: ...

@final
class LeaveAnswer:
    """Answer to `LeaveGroup`."""

    ticket: Final[int]
    """Ticket of the request."""
    error: Final[ErrorCode]
    """Top level; up to version 2 the single member's error."""
    members: Final[tuple[LeftMember, ...]]
    """In request order, identities as requested."""
    __match_args__: Final = ("ticket", "error", "members")
    def __new__(cls, ticket: int, error: ErrorCode, members: Sequence[LeftMember]) -> Self: ...

@final
class LeftMember:
    """Result for one member that leaves."""

    member_id: Final[str]
    """Member id of the request."""
    instance_id: Final[str | None]
    """Instance id of the request."""
    error: Final[ErrorCode]
    """`ErrorCode.NONE` if the member left."""
    __match_args__: Final = ("member_id", "instance_id", "error")
    def __new__(cls, member_id: str, instance_id: str | None, error: ErrorCode) -> Self: ...

@final
class CommitAnswer:
    """Answer to `OffsetCommit`."""

    ticket: Final[int]
    """Ticket of the request."""
    partitions: Final[tuple[CommittedPartition, ...]]
    """In request order."""
    @property
    def error(self) -> ErrorCode:
        """The first partition's error that is not `ErrorCode.NONE`, else `ErrorCode.NONE`."""
    __match_args__: Final = ("ticket", "partitions")
    def __new__(cls, ticket: int, partitions: Sequence[CommittedPartition]) -> Self: ...

@final
class CommittedPartition:
    """Result of a commit for one partition."""

    topic: Final[str]
    """Topic name."""
    partition: Final[int]
    """Partition index, from 0."""
    error: Final[ErrorCode]
    """`ErrorCode.NONE` if the offset was stored."""
    topic_id: Final[int]
    """Topic id, 0 if unknown."""
    __match_args__: Final = ("topic", "partition", "error", "topic_id")
    def __new__(cls, topic: str, partition: int, error: ErrorCode, topic_id: int = 0) -> Self: ...

@final
class FetchAnswer:
    """Answer to `OffsetFetch`."""

    ticket: Final[int]
    """Ticket of the request."""
    error: Final[ErrorCode]
    """Error of the group."""
    group_id: Final[str]
    """Group id of the request."""
    partitions: Final[tuple[FetchedOffset, ...]]
    """In request order, or by topic and partition; empty on an error."""
    __match_args__: Final = ("ticket", "error", "group_id", "partitions")
    def __new__(cls, ticket: int, error: ErrorCode, group_id: str, partitions: Sequence[FetchedOffset]) -> Self: ...

@final
class FetchedOffset:
    """A committed offset; -1, -1, "" if there is none."""

    topic: Final[str]
    """Topic name."""
    partition: Final[int]
    """Partition index, from 0."""
    offset: Final[int]
    """-1 for none."""
    leader_epoch: Final[int]
    """-1 for none."""
    metadata: Final[str]
    """The committed metadata string."""
    error: Final[ErrorCode]
    """Error of this partition, or `ErrorCode.NONE`."""
    topic_id: Final[int]
    """Topic id of the commit, 0 if none."""
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
    """Ticket of the request."""
    error: Final[ErrorCode]
    """Error of the gate, or from version 6 on `ErrorCode.GROUP_ID_NOT_FOUND`."""
    error_message: Final[str | None]
    """Set only with `ErrorCode.GROUP_ID_NOT_FOUND`."""
    group_id: Final[str]
    """Group id of the request."""
    state: Final[str]
    """State; `Dead` for a missing group, "" for an error of the gate."""
    protocol_type: Final[str]
    """Protocol type, or ""."""
    protocol_name: Final[str]
    """Chosen protocol; only in Stable."""
    members: Final[tuple[DescribedMember, ...]]
    """Members in joining order."""
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
    """Member id."""
    instance_id: Final[str | None]
    """`group.instance.id`; `None` for a dynamic member."""
    client_id: Final[str]
    """`client.id` at the first join."""
    client_host: Final[str]
    """Host at the first join, such as `/127.0.0.1`."""
    metadata: Final[bytes]
    """Metadata for the chosen protocol in Stable, else empty."""
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
    """Ticket of the request."""
    error: Final[ErrorCode]
    """Error of the gate (docs/protocol.md §3)."""
    groups: Final[tuple[ListedGroup, ...]]
    """Groups, sorted by group id."""
    __match_args__: Final = ("ticket", "error", "groups")
    def __new__(cls, ticket: int, error: ErrorCode, groups: Sequence[ListedGroup]) -> Self: ...

@final
class ListedGroup:
    """One group in a listing."""

    group_id: Final[str]
    """Group id."""
    protocol_type: Final[str]
    """Protocol type, or ""."""
    state: Final[str]
    """The group's state."""
    __match_args__: Final = ("group_id", "protocol_type", "state")
    def __new__(cls, group_id: str, protocol_type: str, state: str) -> Self: ...

@final
class Append:
    """Records to append to the log as one batch.

    Report the completion with `Coordinator.appended`. Requests that depend on the append wait for it, at most
    `offsets.commit.timeout.ms`.
    """

    append_id: Final[int]
    """Id to report to `Coordinator.appended`."""
    records: Final[tuple[Record, ...]]
    """Records in append order."""
    __match_args__: Final = ("append_id", "records")
    def __new__(cls, append_id: int, records: Sequence[Record]) -> Self: ...

@final
class DeleteAnswer:
    """Answer to `DeleteGroup`."""

    ticket: Final[int]
    """Ticket of the request."""
    error: Final[ErrorCode]
    """`ErrorCode.NONE` if the deletion is durable."""
    group_id: Final[str]
    """Group id of the request."""
    __match_args__: Final = ("ticket", "error", "group_id")
    def __new__(cls, ticket: int, error: ErrorCode, group_id: str) -> Self: ...

@final
class OffsetDeleteAnswer:
    """Answer to `OffsetDelete`."""

    ticket: Final[int]
    """Ticket of the request."""
    error: Final[ErrorCode]
    """The group's error."""
    partitions: Final[tuple[DeletedPartition, ...]]
    """In request order; empty on an error of the group."""
    __match_args__: Final = ("ticket", "error", "partitions")
    def __new__(cls, ticket: int, error: ErrorCode, partitions: Sequence[DeletedPartition]) -> Self: ...

@final
class DeletedPartition:
    """Result of `OffsetDelete` for one partition."""

    topic: Final[str]
    """Topic name."""
    partition: Final[int]
    """Partition index, from 0."""
    error: Final[ErrorCode]
    """`ErrorCode.NONE`, also where no offset was stored."""
    __match_args__: Final = ("topic", "partition", "error")
    def __new__(cls, topic: str, partition: int, error: ErrorCode) -> Self: ...

@final
class ConsumerHeartbeatAnswer:
    """Answer to `ConsumerGroupHeartbeat`."""

    ticket: Final[int]
    """Ticket of the request."""
    error: Final[ErrorCode]
    """`ErrorCode.NONE` on success."""
    error_message: Final[str | None]
    """`None` on success, and if the error has no message."""
    member_id: Final[str | None]
    """`None` on an error."""
    member_epoch: Final[int]
    """The epoch to send with the next heartbeat."""
    heartbeat_interval_ms: Final[int]
    """Interval until the next heartbeat, in milliseconds."""
    assignment: Final[tuple[AssignedTopic, ...] | None]
    """Partitions that the member may own; `None`: unchanged."""
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
    """Topic id, a 128-bit int."""
    partitions: Final[tuple[int, ...]]
    """Partition indexes."""
    __match_args__: Final = ("topic_id", "partitions")
    def __new__(cls, topic_id: int, partitions: Sequence[int]) -> Self: ...

@final
class ConsumerDescribeAnswer:
    """Answer to `ConsumerGroupDescribe`."""

    ticket: Final[int]
    """Ticket of the request."""
    error: Final[ErrorCode]
    """The group's error."""
    error_message: Final[str | None]
    """`None` on success."""
    group_id: Final[str]
    """Group id of the request."""
    group_state: Final[str]
    """Empty on an error."""
    group_epoch: Final[int]
    """Group epoch."""
    assignment_epoch: Final[int]
    """The epoch of the target assignment."""
    assignor_name: Final[str]
    """The server assignor with the most votes."""
    members: Final[tuple[ConsumerMemberDescription, ...]]
    """Members, sorted by member id."""
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
    """Topic id, a 128-bit int."""
    topic: Final[str]
    """Topic name."""
    partitions: Final[tuple[int, ...]]
    """Partition indexes."""
    __match_args__: Final = ("topic_id", "topic", "partitions")
    def __new__(cls, topic_id: int, topic: str, partitions: Sequence[int]) -> Self: ...

@final
class ConsumerMemberDescription:
    """One member in the description of a consumer group."""

    member_id: Final[str]
    """Member id."""
    instance_id: Final[str | None]
    """`group.instance.id`; `None` for a dynamic member."""
    rack_id: Final[str | None]
    """`client.rack`; `None`: none."""
    member_epoch: Final[int]
    """Member epoch."""
    client_id: Final[str]
    """`client.id` of the connection."""
    client_host: Final[str]
    """Host of the client, such as `/127.0.0.1`."""
    subscribed_topic_names: Final[tuple[str, ...]]
    """Subscribed topics, sorted."""
    subscribed_topic_regex: Final[str | None]
    """Pattern of topic names; empty for none."""
    assignment: Final[tuple[NamedTopic, ...]]
    """Current assignment."""
    target_assignment: Final[tuple[NamedTopic, ...]]
    """Target assignment."""
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
    """One reason why a group waits."""

    what: Final[str]
    """Kind of wait: one of `waits` in `vocabulary()`."""
    member_id: Final[str]
    """Member id that the group waits for, or ""."""
    until_ms: Final[int]
    """When the coordinator stops waiting, monotonic milliseconds."""
    heartbeats: Final[bool]
    """Whether the member sends heartbeats while the group waits for it: its session does not expire then, and
    `until_ms` is the end of the phase."""
    is_static: Final[bool]
    """Whether the member is static; a static member stays when a join phase ends without it."""
    __match_args__: Final = ("what", "member_id", "until_ms", "heartbeats", "is_static")
    def __new__(
        cls, what: str, member_id: str, until_ms: int, heartbeats: bool = False, is_static: bool = False
    ) -> Self: ...

@final
class Departure:
    """A member that left during a rebalance, and therefore did not begin another one."""

    member_id: Final[str]
    """Member id, or pending id."""
    how: Final[str]
    """How the member left: one of `departures` in `vocabulary()`."""
    reason: Final[str]
    """Reason of the request, or ""."""
    at_ms: Final[int]
    """Monotonic milliseconds."""
    __match_args__: Final = ("member_id", "how", "reason", "at_ms")
    def __new__(cls, member_id: str, how: str, reason: str, at_ms: int) -> Self: ...

@final
class Rebalance:
    """One rebalance of a group."""

    cause: Final[str]
    """What began the rebalance: one of `causes` in `vocabulary()`."""
    member_id: Final[str]
    """Member that caused the rebalance, or ""."""
    reason: Final[str]
    """Reason of the request, or ""."""
    from_generation: Final[int]
    """The generation before the rebalance."""
    to_generation: Final[int | None]
    """The generation after the rebalance; `None` until the join phase has completed."""
    began_ms: Final[int]
    """Monotonic milliseconds."""
    began_wall_ms: Final[int]
    """Milliseconds since the Unix epoch."""
    joined_ms: Final[int | None]
    """When the join phase completed, monotonic milliseconds."""
    settled_ms: Final[int | None]
    """When the group became Stable or Empty, monotonic milliseconds."""
    departures: Final[tuple[Departure, ...]]
    """The latest members that left during the rebalance, oldest first. Snapshots do not contain them."""
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
    """What a group does, which members it waits for, and why it rebalanced. `str()` returns a sentence:

    `PreparingRebalance for 31.0 s: waiting for consumer-3-1f0c8a2e… to rejoin (until 14.0 s from now); it began because
    consumer-7-5c0d3b11… left`
    """

    group_id: Final[str]
    """Group id."""
    state: Final[str]
    """State: one of `states` in `vocabulary()`, or of `consumer_states` for a consumer group."""
    generation: Final[int]
    """Current generation, or the group epoch of a consumer group."""
    since_ms: Final[int]
    """When the group entered this state, monotonic milliseconds."""
    now_ms: Final[int]
    """Time of the explanation, monotonic milliseconds."""
    waiting: Final[tuple[Wait, ...]]
    """What the group waits for; empty if nothing."""
    rebalances: Final[tuple[Rebalance, ...]]
    """The last rebalances, oldest first."""
    protocol: Final[str]
    """`classic` or `consumer`."""
    target_epoch: Final[int | None]
    """Epoch of a consumer group's target assignment; `None` for a classic group."""
    __match_args__: Final = (
        "group_id",
        "state",
        "generation",
        "since_ms",
        "now_ms",
        "waiting",
        "rebalances",
        "protocol",
        "target_epoch",
    )
    def __new__(
        cls,
        group_id: str,
        state: str,
        generation: int,
        since_ms: int,
        now_ms: int,
        waiting: Sequence[Wait],
        rebalances: Sequence[Rebalance],
        protocol: str = ...,
        target_epoch: int | None = ...,
    ) -> Self: ...

@final
class Summary:
    """Key figures of a group."""

    group_id: Final[str]
    """Group id."""
    protocol_type: Final[str | None]
    """Protocol type; kept when the group becomes Empty."""
    protocol_name: Final[str | None]
    """The chosen protocol."""
    members: Final[int]
    """Number of members."""
    awaiting_join: Final[int]
    """Members with a parked JoinGroup."""
    awaiting_sync: Final[int]
    """Members with a parked SyncGroup."""
    pending: Final[int]
    """Number of pending member ids."""
    slack: Final[tuple[int, ...]]
    """Number of members by tenths of the session left; the first element has the members with the least."""
    waits: Final[int]
    """Number of waits; `explanation` has the first of them."""
    explanation: Final[Explanation]
    """What the group does, and why."""
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
class ConsumerView:
    """A consumer group as plain data. Partitions of topics that do not exist any more are left out."""

    group_id: Final[str]
    """Group id."""
    assignor: Final[str]
    """The assignor that most members name."""
    members: Final[tuple[ConsumerMemberView, ...]]
    """Members by id."""
    in_flight: Final[tuple[int, ...]]
    """Ids of the group's appends in flight, ascending."""
    offsets: Final[tuple[tuple[str, int, OffsetValue], ...]]
    """(topic, partition, durable offset), by topic and partition."""
    __match_args__: Final = (
        "group_id",
        "assignor",
        "members",
        "in_flight",
        "offsets",
    )
    def __new__(
        cls,
        group_id: str,
        assignor: str,
        members: Sequence[ConsumerMemberView],
        in_flight: Sequence[int],
        offsets: Sequence[tuple[str, int, OffsetValue]],
    ) -> Self: ...

@final
class ConsumerMemberView:
    """A member of a consumer group as plain data."""

    member_id: Final[str]
    """Member id."""
    instance_id: Final[str | None]
    """`group.instance.id` of a static member."""
    client_id: Final[str]
    """`client.id`."""
    client_host: Final[str]
    """The client's host."""
    rack: Final[str | None]
    """`client.rack`."""
    protocol: Final[str]
    """The protocol that the member speaks: `classic` or `consumer`."""
    epoch: Final[int]
    """Member epoch; -2 for a static member that is away."""
    session_timeout_ms: Final[int]
    """The session timeout that applies to it, in milliseconds."""
    rebalance_timeout_ms: Final[int]
    """The time that it has to give partitions up, in milliseconds."""
    session_ends_ms: Final[int | None]
    """End of its session, monotonic milliseconds."""
    rebalance_ends_ms: Final[int | None]
    """End of its rebalance timeout, monotonic milliseconds; `None` if that does not run."""
    topics: Final[tuple[str, ...]]
    """The topics that it names, ascending."""
    pattern: Final[str]
    """The pattern that it subscribes to; "" if none."""
    assigned: Final[tuple[tuple[str, int], ...]]
    """(topic, partition) that it owns, ascending."""
    revoking: Final[tuple[tuple[str, int], ...]]
    """(topic, partition) that it has to give up, ascending."""
    target: Final[tuple[tuple[str, int], ...]]
    """(topic, partition) of its target assignment, ascending."""
    __match_args__: Final = (
        "member_id",
        "instance_id",
        "client_id",
        "client_host",
        "rack",
        "protocol",
        "epoch",
        "session_timeout_ms",
        "rebalance_timeout_ms",
        "session_ends_ms",
        "rebalance_ends_ms",
        "topics",
        "pattern",
        "assigned",
        "revoking",
        "target",
    )
    def __new__(
        cls,
        member_id: str,
        instance_id: str | None,
        client_id: str,
        client_host: str,
        rack: str | None,
        protocol: str,
        epoch: int,
        session_timeout_ms: int,
        rebalance_timeout_ms: int,
        session_ends_ms: int | None,
        rebalance_ends_ms: int | None,
        topics: Sequence[str],
        pattern: str,
        assigned: Sequence[tuple[str, int]],
        revoking: Sequence[tuple[str, int]],
        target: Sequence[tuple[str, int]],
    ) -> Self: ...

@final
class Projection:
    """The complete state of a group as plain data, for comparison with a model. Every list has a defined order."""

    group_id: Final[str]
    """Group id."""
    state: Final[str]
    """State: one of `states` in `vocabulary()`."""
    since_ms: Final[int]
    """When the group entered this state, monotonic milliseconds."""
    generation: Final[int]
    """Current generation."""
    protocol_type: Final[str | None]
    """Protocol type; kept when the group becomes Empty."""
    protocol_name: Final[str | None]
    """The chosen protocol."""
    leader: Final[str | None]
    """The leader's member id."""
    members: Final[tuple[ProjectedMember, ...]]
    """Members in joining order."""
    pending: Final[tuple[tuple[str, int], ...]]
    """(pending member id, deadline in monotonic milliseconds), by id."""
    timers: Final[tuple[tuple[str, int], ...]]
    """(`InitialDelay`, `Join` or `Sync`, deadline in monotonic milliseconds)."""
    in_flight: Final[tuple[int, ...]]
    """Ids of the appends about this group that are in flight, ascending."""
    deleting: Final[int | None]
    """Id of the append in flight that deletes the group, or `None`."""
    durable: Final[bool]
    """Whether the log has a record of this group."""
    subscribed_topics: Final[tuple[str, ...] | None]
    """Topics that the members subscribe to, sorted; `None`: unknown."""
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
    """State of one member as plain data."""

    member_id: Final[str]
    """Member id."""
    instance_id: Final[str | None]
    """`group.instance.id`; `None` for a dynamic member."""
    session_timeout_ms: Final[int]
    """Session timeout in milliseconds."""
    rebalance_timeout_ms: Final[int]
    """Rebalance timeout in milliseconds."""
    protocols: Final[tuple[tuple[str, bytes], ...]]
    """(name, metadata), in order of preference."""
    assignment: Final[bytes]
    """The leader's bytes for this member."""
    awaits_join: Final[bool]
    """Whether the member has a parked JoinGroup."""
    awaits_sync: Final[bool]
    """Whether the member has a parked SyncGroup."""
    owes_sync: Final[bool]
    """Whether the member has not sent SyncGroup for this generation."""
    is_new: Final[bool]
    """Whether the member has not completed a join phase yet."""
    deadline_ms: Final[int | None]
    """Deadline of the session or new-member timer, monotonic milliseconds."""
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
    """The coordinator of one partition of `__consumer_offsets`; the caller provides the time.

    It reads no clock, opens no file and uses no random numbers: the same events give the same effects. A new
    coordinator is loading: `replay` the log, then call `loaded`; until then requests get the answers of a loading
    coordinator. Each call returns its effects in order: answers, exactly one for each ticket, and `Append`s, whose
    completion you report with `appended`.

    `config` takes Kafka's names (`group.initial.rebalance.delay.ms`, ...) and defaults, with numbers as int or str, and
    rota's own `group.max.pending.members` and `rebalance.history`. Raises ConfigError for an unknown name or an invalid
    value.

    Time: `now_ms` is from 0 to 2**53 and may not go back between calls (ValueError with both values). `wall_ms`, where
    it is left out, is 1,700,000,000,000 + `now_ms`.

    A coordinator is thread-safe; calls are serialized.
    """

    def __new__(cls, config: Mapping[str, str | int] | None = None, *, partition: int = 0, epoch: int = 1) -> Self: ...
    @classmethod
    def restore(cls, data: bytes) -> Self:
        """Restore the coordinator of a `snapshot`, including parked requests and deadlines.

        Raises SnapshotError for other bytes and for a state that violates an invariant.
        """
    @property
    def partition(self) -> int:
        """The partition of `__consumer_offsets` that the coordinator owns."""
    @property
    def epoch(self) -> int:
        """The epoch of the ownership."""
    @property
    def phase(self) -> str:
        """`Loading`, `Active`, `Failed` or `Unloaded`."""
    @property
    def now_ms(self) -> int:
        """The latest `now_ms` of a call."""
    def replay(self, record: Record, offset: int, timestamp_ms: int) -> None:
        """Apply one committed record, in log order. Raises RotaError after loading has ended."""
    def loaded(self, now_ms: int, wall_ms: int | None = None) -> list[Effect]:
        """End loading: every member gets a full session, and groups with too many members rebalance.

        Raises RotaError if loading has already ended.
        """
    def load_failed(self) -> None:
        """End loading because the log could not be read: all requests are answered NOT_COORDINATOR."""
    def submit(
        self, now_ms: int, ticket: int, request: Request, *, entropy: int, wall_ms: int | None = None
    ) -> list[Effect]:
        """Submit a request. It is answered exactly once, in this call or a later one, with `ticket` (0 to 2**64 - 1).

        `entropy` is 128 random bits as an int, from which member ids are generated. Raises OverflowError outside these
        ranges, TypeError for another type of request.
        """
    def advance(self, now_ms: int, wall_ms: int | None = None) -> list[Effect]:
        """Fire every deadline up to `now_ms`, by (deadline, arming order)."""
    def next_deadline(self) -> int | None:
        """When to call `advance` next, in monotonic milliseconds; may be early, never late."""
    def appended(
        self, append_id: int, result: int | ErrorCode, now_ms: int, wall_ms: int | None = None
    ) -> list[Effect]:
        """Report the completion of an append: the offset of a durable append, or the error (not `ErrorCode.NONE`)."""
    def topics_deleted(self, topics: Sequence[str], now_ms: int, wall_ms: int | None = None) -> list[Effect]:
        """Report deleted topics; removes their offsets from every group."""
    def topics_changed(
        self, topics: Sequence[tuple[str, int, int]], now_ms: int, wall_ms: int | None = None
    ) -> list[Effect]:
        """Report new and changed topics as (name, topic id, partition count), for groups of the consumer protocol."""
    def configure_group(self, group_id: str, settings: Mapping[str, int]) -> None:
        """Change the settings that one consumer group has of its own, in milliseconds: `consumer.session.timeout.ms`,
        `consumer.heartbeat.interval.ms`, `consumer.assignment.interval.ms`. The mapping replaces all of them.

        Values beyond the coordinator's bounds count as the bound. Raises ConfigError for an unknown name.
        """
    def unload(self, now_ms: int, wall_ms: int | None = None) -> list[Effect]:
        """Give up the partition: answer all waiting requests NOT_COORDINATOR and drop all state."""
    def explain(self, group_id: str, now_ms: int | None = None) -> Explanation | None:
        """Explain what a group does, which members it waits for, and why it rebalanced; None if there is no such group.

        Durations are as of `now_ms`, or of the latest event if that is later or `now_ms` is None.
        """
    def view_consumer_group(self, group_id: str) -> ConsumerView | None:
        """A consumer group as plain data; `None` if there is no consumer group of this id."""
    def project(self, group_id: str) -> Projection | None:
        """The complete state of a group as plain data; None if there is no such group."""
    def digest(self, group_id: str) -> int | None:
        """A 64-bit hash of the group's projection; None if there is no such group."""
    def group_ids(self) -> list[str]:
        """The ids of all groups, sorted."""
    def snapshot(self) -> bytes:
        """The complete state as bytes; equal states give equal bytes."""
    def check_invariants(self) -> None:
        """Check the invariants of every group. Raises InvariantViolation, whose message begins with an id (`S3`)."""
    def member_handles(self, group_id: str, member_ids: Sequence[str]) -> NDArray[np.uint64]:
        """Handles of members for `heartbeats`, shape (len(member_ids),); 2**64 - 1 for an id that is not a member.

        Returns a numpy array of uint64, or an `array.array` without numpy. A handle is valid while its member exists;
        after that it matches no member.
        """
    def heartbeats(
        self, now_ms: int, handles: NDArray[np.uint64] | Buffer, generations: NDArray[np.int32] | Buffer
    ) -> NDArray[np.int16]:
        """Submit one heartbeat per element. Returns their error codes, shape (n,). Releases the interpreter lock.

        A handle that matches no member gets UNKNOWN_MEMBER_ID. `handles` are uint64, `generations` int32: numpy
        arrays, `array.array` or other buffers; they are copied first. Returns a numpy array of int16, or an
        `array.array` without numpy. Raises ValueError unless both are one-dimensional, of these types and of the same
        length.
        """

# ---- the embedded consumer protocol (docs/protocol.md §18)

@final
class Subscription:
    """Metadata of a consumer in JoinGroup."""

    topics: Final[tuple[str, ...]]
    """Topic names, in encoded order."""
    user_data: Final[bytes | None]
    """User data of the assignor."""
    owned_partitions: Final[tuple[tuple[str, tuple[int, ...]], ...]]
    """(topic, partitions) that the consumer owns (version 1 and later)."""
    generation: Final[int]
    """Generation of the owned partitions, -1: none (version 2 and later)."""
    rack: Final[str | None]
    """`client.rack` (version 3 and later)."""
    version: Final[int]
    """Encoded version."""
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
    """Assignment of one member in the leader's plan."""

    partitions: Final[tuple[tuple[str, tuple[int, ...]], ...]]
    """(topic, partitions), in encoded order."""
    user_data: Final[bytes | None]
    """User data of the assignor."""
    version: Final[int]
    """Encoded version."""
    __match_args__: Final = ("partitions", "user_data", "version")
    def __new__(
        cls, partitions: Sequence[tuple[str, Sequence[int]]], *, user_data: bytes | None = None, version: int = 3
    ) -> Self: ...

def nearest(name: str, names: Sequence[str], *, misspelt: bool = False) -> str | None:
    """The closest of `names`; None if none is close. `misspelt` requires a closer match."""

def decode_subscription(data: bytes) -> Subscription:
    """Decode the metadata of a consumer in JoinGroup. Fields that its version lacks get their defaults.

    A version above 3 is decoded as version 3; further bytes are ignored. Raises EmbeddedError.
    """

def decode_assignment(data: bytes) -> Assignment:
    """Decode the assignment of one member. Raises EmbeddedError, also for empty bytes."""

def encode_subscription(subscription: Subscription) -> bytes:
    """Encode a subscription in its `version`; keeps the order of lists. Raises EmbeddedError."""

def encode_assignment(assignment: Assignment) -> bytes:
    """Encode an assignment in its `version`; keeps the order of lists. Raises EmbeddedError."""

# ---- the member's side (docs/protocol.md §22, docs/consumer-protocol.md §22)

@final
class MemberMachine:
    """The machine behind `rota.Member`, which has the documentation. An effect is a tuple that begins with its name."""

    def __new__(
        cls,
        group_id: str,
        *,
        group_protocol: str,
        remote_assignor: str | None,
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
    def close(self, now_ms: int, commit_timeout_ms: int | None = None) -> list[tuple[Any, ...]]: ...
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
    """A hierarchical timing wheel with 1 ms ticks. The caller provides the time; entries fire only in `advance`.

    Instants are ints from 0 to 2**64 - 1 ms; others raise ValueError. Due entries fire by deadline, then by arming
    order; re-arming counts as arming. Payloads can be any object. `rota.purgatory_model` implements the same with
    sorted lists.
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
        """Cancel an entry and return its payload; None if it fired or was cancelled."""
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
    """Operations that wait for a condition or for their deadline. The caller provides the time; there are no callbacks.

    An operation is any object, with a deadline and keys. When the condition of a key may hold, call `check` for its
    operations and `complete` those that are done; the others expire in `advance`. Instants are as in `Wheel`.
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

# ---- the coordinator of transactions

@final
class Transaction:
    """The durable state of a transactional id."""

    state: Final[str]
    """`Empty`, `Ongoing`, `PrepareCommit`, `PrepareAbort`, `CompleteCommit` or `CompleteAbort`."""
    producer_id: Final[int]
    """The producer that holds the id."""
    producer_epoch: Final[int]
    """The epoch of the producer."""
    timeout_ms: Final[int]
    """Timeout of the producer's transactions."""
    participants: Final[tuple[tuple[str, int], ...]]
    """Participants (topic, partition), sorted; a group is its partition of `__consumer_offsets`."""
    start_ms: Final[int]
    """Start of the transaction in wall milliseconds; -1 in Empty."""
    updated_ms: Final[int]
    """Wall time of the last change; in a Complete state, of its Prepare state."""
    previous_producer_id: Final[int]
    """The producer id before the last change, or -1."""
    next_producer_id: Final[int]
    """The producer id after the Complete state while an overflow of the epoch is prepared, or -1."""
    last_epoch: Final[int]
    """The epoch's predecessor if a repeated request may name it, or -1. Not in the record."""
    protocol: Final[int]
    """The protocol of the last request: 1 or 2."""
    __match_args__: Final = (
        "state",
        "producer_id",
        "producer_epoch",
        "timeout_ms",
        "participants",
        "start_ms",
        "updated_ms",
        "previous_producer_id",
        "next_producer_id",
        "last_epoch",
        "protocol",
    )
    def __new__(
        cls,
        state: str,
        producer_id: int,
        producer_epoch: int,
        timeout_ms: int,
        participants: Sequence[tuple[str, int]],
        start_ms: int,
        updated_ms: int,
        previous_producer_id: int,
        next_producer_id: int,
        last_epoch: int,
        protocol: int,
    ) -> Self: ...

@final
class TransactionAnswer:
    """The answer to a request."""

    ticket: Final[int]
    """Ticket of the request."""
    error: Final[int]
    """Error code in the newest version of the request; 0: none."""
    producer_id: Final[int]
    """After a start, and after an end by the second protocol, the producer from now on; else -1."""
    producer_epoch: Final[int]
    """The epoch of that producer, or -1."""
    __match_args__: Final = ("ticket", "error", "producer_id", "producer_epoch")
    def __new__(cls, ticket: int, error: int, producer_id: int = -1, producer_epoch: int = -1) -> Self: ...

@final
class TransactionAppend:
    """A record to append to `__transaction_state`. Report the result with `TransactionCoordinator.appended`."""

    append_id: Final[int]
    """Id to report."""
    key: Final[bytes]
    """Key of the record."""
    value: Final[bytes | None]
    """Value of the record; `None` is a tombstone."""
    __match_args__: Final = ("append_id", "key", "value")
    def __new__(cls, append_id: int, key: bytes, value: bytes | None) -> Self: ...

@final
class TransactionMarker:
    """A marker to write in a participant. Report the result with `TransactionCoordinator.marked`."""

    marker_id: Final[int]
    """Id to report."""
    transactional_id: Final[str]
    """The transactional id, to report as well."""
    participant: Final[tuple[str, int]]
    """Participant (topic, partition)."""
    producer_id: Final[int]
    """Producer id of the transaction."""
    producer_epoch: Final[int]
    """Epoch from which the participant accepts data."""
    coordinator_epoch: Final[int]
    """Number of the ownership. A participant refuses a lower one than it has seen."""
    is_commit: Final[bool]
    """Whether the transaction is committed; otherwise it is aborted."""
    protocol: Final[int]
    """The protocol that ended it: 1 or 2."""
    __match_args__: Final = (
        "marker_id",
        "transactional_id",
        "participant",
        "producer_id",
        "producer_epoch",
        "coordinator_epoch",
        "is_commit",
        "protocol",
    )
    def __new__(
        cls,
        marker_id: int,
        transactional_id: str,
        participant: tuple[str, int],
        producer_id: int,
        producer_epoch: int,
        coordinator_epoch: int,
        is_commit: bool,
        protocol: int,
    ) -> Self: ...

@final
class GivenUp:
    """Another owner has the partition. The coordinator refuses every request from now on."""

    def __new__(cls) -> Self: ...

_TransactionEffect: TypeAlias = TransactionAnswer | TransactionAppend | TransactionMarker | GivenUp

@final
class TransactionCoordinator:
    """The coordinator of transactions of one partition of `__transaction_state`.

    Give it the records of its log (`load`, then `loaded`); then it serves. Every event returns effects in order:
    answers, records to append, markers to write, and `GivenUp`. A record is durable when `appended` says so, and its
    request is answered then.

    `level` is `transaction.version`: 0, 1 or 2. `epoch` is the number of the ownership. `timeout_max_ms`,
    `expiration_ms` and `ids_max` are the limits of docs/transactions.md; `retry_ms` is the pause after a failure.
    A producer is (id, epoch), and (-1, -1) is none. `spare_producer_id` is an id that no producer has; it may stay
    unused. Raises ValueError for a level, a protocol or a word that does not exist, and for a transactional id of more
    than 32,767 bytes.
    """

    def __new__(
        cls,
        *,
        level: int = 2,
        epoch: int = 0,
        timeout_max_ms: int = 900_000,
        expiration_ms: int = 604_800_000,
        retry_ms: int = 100,
        ids_max: int = 100_000,
    ) -> Self: ...
    def load(self, key: bytes, value: bytes | None) -> None:
        """Read one record of the log, in order. Raises RecordError for a malformed one."""
    def loaded(self, wall_ms: int) -> list[_TransactionEffect]:
        """The log is read: serve, and send the markers of decided transactions again."""
    def unload(self) -> list[_TransactionEffect]:
        """End the ownership. Waiting requests get NOT_COORDINATOR."""
    def init_producer_id(
        self,
        wall_ms: int,
        ticket: int,
        transactional_id: str,
        *,
        timeout_ms: int,
        spare_producer_id: int,
        producer: tuple[int, int] = (-1, -1),
    ) -> list[_TransactionEffect]:
        """InitProducerId; `producer` is what the producer has so far."""
    def add_participants(
        self,
        wall_ms: int,
        ticket: int,
        transactional_id: str,
        producer: tuple[int, int],
        participants: Sequence[tuple[str, int]],
        *,
        protocol: int = 1,
    ) -> list[_TransactionEffect]:
        """AddPartitionsToTxn and AddOffsetsToTxn; by protocol 2 the leader of a participant asks."""
    def end_transaction(
        self,
        wall_ms: int,
        ticket: int,
        transactional_id: str,
        producer: tuple[int, int],
        is_commit: bool,
        *,
        spare_producer_id: int,
        protocol: int = 1,
    ) -> list[_TransactionEffect]:
        """EndTxn: up to version 4 by protocol 1, version 5 by protocol 2."""
    def appended(self, wall_ms: int, append_id: int, error: str | None = None) -> list[_TransactionEffect]:
        """The result of an append: `failed` (it may be in the log nevertheless), `fenced`, or None if it is durable."""
    def marked(self, wall_ms: int, transactional_id: str, marker_id: int, result: str) -> list[_TransactionEffect]:
        """The result of a marker: `written`, `gone` (no such partition), `failed` or `fenced`."""
    def advance(self, wall_ms: int) -> list[_TransactionEffect]:
        """Do everything that is due: abort transactions, forget ids, try again."""
    def next_deadline(self) -> int | None:
        """The wall time at which something is due."""
    def verify(self, transactional_id: str, producer: tuple[int, int], participant: tuple[str, int]) -> str:
        """Whether a participant may append data: `verified`, or why not: `not added`, `concurrent`, `unknown mapping`,
        `wrong epoch`, `not coordinator`, `loading`.
        """
    def describe(self, transactional_id: str) -> tuple[int, Transaction | None]:
        """DescribeTransactions: error code and state. `updated_ms` and the fields after it are defaults."""
    def list_ids(
        self,
        wall_ms: int,
        *,
        states: Sequence[str] = (),
        producer_ids: Sequence[int] = (),
        min_age_ms: int | None = None,
    ) -> tuple[int, list[str]]:
        """ListTransactions: error code, and the ids that pass all filters."""
    def transactions(self) -> dict[str, Transaction]:
        """The durable state of every id."""
    def violations(self) -> list[str]:
        """The invariants that do not hold (docs/transactions.md, section 9); empty unless rota has a bug."""

# ---- the server

def user_lines(name: str, password: str) -> list[str]:
    """The lines of a users file for this user: one for each SCRAM mechanism.

    Raises ValueError for a name that cannot be, or an empty password.
    """

def check_tls(chain: str, key: str, client_ca: str | None, client_auth: str) -> None:
    """Check certificate chain, key and CAs of clients, each PEM text or a path. Raises ValueError."""

def acl_lines(text: str) -> list[str]:
    """The ACLs in the text of a file, a line each.

    Raises ValueError for a malformed line.
    """

@final
class Authority:
    """A throw-away certificate authority, the base of `rota.Authority`. Its key exists in memory only."""

    def __new__(cls) -> Self: ...
    @property
    def certificate(self) -> str:
        """Its own certificate in PEM."""
    def issue(self, hosts: list[str], common_name: str, expired: bool) -> tuple[str, str]:
        """A certificate for these hosts, followed by that of the authority, and its private key, both in PEM.

        Raises ValueError for a host name that cannot be in a certificate.
        """

@final
class TokenIssuer:
    """A throw-away issuer of tokens, the base of `rota.TokenIssuer`. Its key exists in memory only."""

    def __new__(cls, key_id: str) -> Self: ...
    @property
    def key(self) -> str:
        """Its public key, an element of a JSON web key set."""
    def sign(self, claims: str) -> str:
        """A token with these claims, which are JSON."""
    def rotate(self, key_id: str) -> None:
        """Replace the key by a new one."""

@final
class MemoryEngine:
    """An engine in memory that servers of one process share, for tests (`rota.Server(engine=...)`)."""

    def __new__(cls) -> Self: ...
    def set_faults(
        self,
        node_id: int,
        *,
        silent: bool | None = None,
        watch_stalled: bool | None = None,
        latency_ms: int | None = None,
        lost_requests: int | None = None,
        lost_answers: int | None = None,
        exhausted: int | None = None,
    ) -> None:
        """Set the faults of a server's link to the engine. What is not given stays as it is.

        `silent`: nothing passes. `watch_stalled`: the watch shows nothing new. `lost_requests`, `lost_answers` and
        `exhausted`: so many next requests do not arrive, get no answer, or take effect and get exhausted space as their
        answer. Raises KeyError if no server has this node id.
        """

_EngineAccess: TypeAlias = tuple[str | None, str | None, str | None, tuple[str, str] | None]
_PeerAccess: TypeAlias = tuple[str | None, str | None, str | None, tuple[str, str | None, str | None] | None]

@final
class EngineOperator:
    """The engine of an existing cluster, the base of `rota cluster`. Calls release the interpreter lock.

    Calls raise EngineError if the engine does not answer or refuses, NotFoundError for an unknown node, partition or
    cluster, RotaError for a change that cannot be.
    """

    def __new__(cls, url: str, access: _EngineAccess, attempt_ms: int, begins: bool = False) -> Self:
        """`access`: (CAs of members, certificate, key, each PEM text or a path, user and password).

        `begins`: whether there need not be a cluster.

        `attempt_ms`: how long one member is asked. Raises ValueError for a malformed URL or a wrong file.
        """
    @property
    def name(self) -> str:
        """The engine without password."""
    @property
    def kind(self) -> str:
        """etcd or postgresql."""
    @staticmethod
    def prepare(url: str, access: _EngineAccess, attempt_ms: int) -> tuple[str, str]:
        """Make the tables that an engine needs: (engine, made, upgraded, unchanged or not needed).

        Raises ValueError, EngineError, and RotaError for tables of a newer rota.
        """
    def look(self) -> dict[str, Any]:
        """The small keys at present: history, format, revision, settings, nodes, partitions, leaders of topics.

        A partition is (owner, epoch, whether it is held, planned node, pin, what keeps the planned node from serving
        it as (node, milliseconds since the Unix epoch, reason)).
        """
    def members(self) -> list[tuple[str, str | None, tuple[int, str, bool, int, int, int, list[str]] | None]]:
        """The members of the engine: (address, why it does not answer, what it says of itself).

        It says: (id, version, whether it leads, bytes of its file, live bytes, quota in bytes, troubles).
        """
    def alarms(self) -> list[tuple[int, str]]:
        """(id of a member, NOSPACE or CORRUPT)."""
    def mend(self, tell: Callable[[str], object]) -> None:
        """Give space back, and disarm alarms for space. `tell` gets each step."""
    def drain(self, node: int) -> bool:
        """Let a node own nothing. Whether that changes something."""
    def undrain(self, node: int) -> bool:
        """Let a node own partitions again. Whether that changes something."""
    def pin(self, partition: int, node: int, of_transactions: bool = False) -> bool:
        """Place a partition. Whether that changes something."""
    def unpin(self, partition: int, of_transactions: bool = False) -> bool:
        """Let the planner place a partition. Whether that changes something."""
    def forget(self, node: int) -> bool:
        """Forget a node that owns nothing. Whether that changes something."""
    def accept_loss(self) -> tuple[str, str]:
        """Begin a new history. (lost history, new history)."""
    def content(self, partition: int) -> tuple[int, int, int]:
        """What a partition has: (entries after the snapshot, their bytes, bytes of the snapshot). Reads all of it."""
    def notes(self) -> dict[str, bytes]:
        """The small keys beside those of nodes and partitions."""
    def change_notes(self, changes: Sequence[tuple[str, bytes | None, bytes | None]]) -> None:
        """Change notes one after the other: (name, what is there, the new value). Raises RotaError if one differs."""
    def export(self, partition: int) -> tuple[int, bytes, list[tuple[int, int]]]:
        """A partition at one revision: (epoch of the owner or 0, all record batches, epochs with first offsets)."""
    def restore(self, log: DataLog, topic: str, source: int, partition: int, now_ms: int, marker: bytes) -> None:
        """Make partition `source` of a data directory the content of one here that no server has owned.

        Raises RotaError if the note `cluster` is not `marker`: another import has taken this one's place.
        """
    def empty_from(self, partition: int, now_ms: int, marker: bytes) -> None:
        """Empty the partitions from this one on that an import has filled. Raises RotaError as `restore` does."""

@final
class ServerConfig:
    """The options of a server. Raises ConfigError for an invalid setting, ValueError for what else cannot be read."""

    def __new__(
        cls,
        listen: str = "127.0.0.1:0",
        advertise: str | None = None,
        settings: dict[str, str] | None = None,
        virtual_clock: int | None = None,
        nodes: int = 1,
        data: tuple[Path, bool, bool] | None = None,
        journal: tuple[Path | None, int | None, int | None] | None = None,
        tls: tuple[str, str, str | None, str] | None = None,
        sasl: tuple[list[str], Path | None, dict[str, str]] | None = None,
        allow_plaintext_passwords: bool = False,
        acls: list[str] | None = None,
        keys: str | None = None,
        allow_unsecured_tokens: bool = False,
        shares_certificate: bool = False,
        engine: tuple[MemoryEngine | str, int, int, bool, _EngineAccess] | None = None,
        peer_access: _PeerAccess | None = None,
    ) -> Self:
        """`data`: (data directory, whether appends are synced, whether to take over a directory written by Kafka).
        `journal`: (directory or None for the data directory, bytes and milliseconds that a partition keeps).
        `sasl`: (names of mechanisms, path of a users file, passwords by user name).
        `allow_plaintext_passwords`: whether PLAIN may be used without TLS beyond this machine.
        `acls`: ACLs, a line each, which switch authorization on.
        `keys`: the JSON web key set of the issuer of tokens, if no setting names it.
        `allow_unsecured_tokens`: whether tokens without a signature are accepted.
        `tls`: (certificate chain, key, CAs of clients, "none", "requested" or "required"), each PEM text or a path.
        `shares_certificate`: whether HTTP has the certificate, too, so that listeners may have none.
        `engine`: (engine in memory or URL, node id, TTL in milliseconds, whether reads are fenced, access to it).
        `peer_access`: (CAs of other servers, own certificate, key, (user, password, or path of a file with it)).
        """
    def check(self) -> dict[str, str]:
        """Check what a start refuses before it opens an address, a directory or an engine: the value of every setting.

        Raises ConfigError for an invalid setting, ValueError for an invalid address, certificate or key.
        """

@final
class Server:
    """A Kafka-compatible server with one thread per node, the base of `rota.Server`. Calls release the interpreter
    lock.

    Raises ConfigError for an invalid setting, ValueError for an invalid address, OSError if it cannot listen there. Any
    call raises ServerError if the server has stopped.
    """

    def __new__(cls, config: ServerConfig, trace: tuple[Callable[[str], object], bool] | None = None) -> Self:
        """`trace`: (function called with every line of the request trace, whether lines are JSON)."""
    def cluster(self) -> dict[str, Any] | None:
        """The cluster as this server sees it; None without an engine."""
    def cluster_counts(self) -> dict[str, Any] | None:
        """Counts of the server's work with its engine, for metrics; None without an engine."""
    def kill(self) -> None:
        """Stop without giving partitions up, as a killed process."""
    def listeners(self) -> list[tuple[str, str, bool, list[tuple[int, str, int]]]]:
        """Every listener: name, security protocol, whether only this machine reaches it, (id, host, port) of nodes."""
    @property
    def has_tls(self) -> bool:
        """Whether the first listener uses TLS."""
    @property
    def has_sasl(self) -> bool:
        """Whether clients of the first listener authenticate."""
    def unnamed_host(self) -> str | None:
        """An advertised host that the server's certificate does not name."""
    def reload(self) -> None:
        """Read certificate, key, client CAs and users from their files again. Raises ValueError if a file is wrong."""
    def reload_errors(self) -> list[str] | None:
        """Why files could not be read again; None if the server has no files of TLS or users."""
    @property
    def tls_reads(self) -> int:
        """How often certificate, key and CAs of clients were read again."""
    def take_reloads(self) -> list[tuple[bool, str]]:
        """Whether files were read again, and which or why not, for each time since the last call."""
    def set_tls(self, chain: str, key: str, client_ca: str | None, client_auth: str) -> None:
        """Replace certificate, key and CAs of clients, for new connections. Raises ValueError."""
    def set_users(self, passwords: dict[str, str]) -> None:
        """Replace all users, for new connections. Raises ValueError if they are in a file."""
    def set_keys(self, text: str) -> None:
        """Set the keys of the issuer of tokens, for new connections. Raises ValueError if they are no key set."""
    def take_keys(self, text: str | None, failure: str | None = None) -> None:
        """Take the key set that was fetched from its URL, or why it was not. A wrong one changes nothing."""
    def key_fetching(self) -> tuple[str, int, int, int] | None:
        """URL of the keys of tokens, and ms between fetches, until the first retry, and at most until the next."""
    def wait_for_key_demand(self, timeout_ms: int) -> bool | None:
        """Whether a token was signed by an unknown key within this time; None if the server stops."""
    @property
    def wall_ms(self) -> int:
        """The wall time of its clock."""
    def acls(self) -> list[str] | None:
        """Return the ACLs, a line each; None without an authorizer."""

    def set_acls(self, lines: list[str]) -> None:
        """Replace all ACLs. They count for every later request.

        Raises ValueError for a malformed line, OSError without an authorizer or if they cannot be stored.
        """

    def take_denials(self) -> list[str]:
        """Return what clients were refused since the last call, in the words of Kafka's log."""

    def take_refusals(self) -> list[str]:
        """Why connections were closed because of their security since the last call."""
    def report(self) -> tuple[list[str], int, int, int, bool] | None:
        """The start of a data directory: (messages, groups, offsets, milliseconds, whether it is read-only)."""
    def health(
        self,
    ) -> tuple[str | None, list[str], int, float, int, str | None, str | None, int, str | None] | None:
        """Health of a data directory: (why it stopped, refused partitions, syncs, seconds of syncs, compactions, error
        of
        compaction, why writes fail now, failed writes since the start, error of the last failed write).

        """
    def journal(self) -> tuple[Path, int, int, int, str | None] | None:
        """The journal: (directory, entries and bytes since the start, dropped entries, write error or None)."""
    @property
    def host(self) -> str:
        """Host of the server as seen from this machine."""
    @property
    def port(self) -> int:
        """Port of the first node."""
    def nodes(self) -> list[tuple[int, str, int]]:
        """(id, host, port) of every node, as seen from this machine."""
    def partition_of(self, group_id: str) -> int:
        """The partition of `__consumer_offsets` of a group."""
    def owner(self, partition: int) -> int:
        """The id of the node that owns a partition of `__consumer_offsets`. Raises ValueError if there is none."""
    def move_partition(self, partition: int, node_id: int) -> None:
        """Move a partition of `__consumer_offsets` to a node. Returns when it is loaded, or at once if loads are held.

        Raises ValueError for an unknown partition or node.
        """
    def hold_loads(self) -> None:
        """Hold loading: partitions that are handed over from now on are not loaded."""
    def release_loads(self) -> int:
        """Load the held partitions and stop holding. Returns the number of held partitions."""
    @property
    def now_ms(self) -> int:
        """Time on the monotonic clock of the coordinators, in milliseconds."""
    def load(self) -> tuple[int, int]:
        """(open connections, requests without an answer yet)."""
    @property
    def panics(self) -> int:
        """Number of requests whose handler panicked. Each is a bug and closed its connection."""
    @property
    def reauthentications(self) -> int:
        """How often clients have authenticated again on their connection (KIP-368)."""
    def stop(self) -> None:
        """Answer all parked requests, close all connections and stop the threads. A second call does nothing."""
    def settings(self) -> dict[str, str]:
        """The value of every setting, by its Kafka name."""
    def delay_answers(self, ms: int, api: str | None = None, node_id: int | None = None) -> int:
        """Delay answers by `ms`. Returns the id of the fault. Raises ValueError, NotFoundError."""
    def drop_answers(self, api: str | None = None, times: int = 1, node_id: int | None = None) -> int:
        """Close the connections of the next requests instead of answering. Returns the id of the fault.

        Raises ValueError, NotFoundError.
        """
    def lose_append_answers(self, error: str, times: int = 1) -> None:
        """Store the next appends, but report them as failed with `error`. Raises ValueError."""
    def duplicate_appends(self, times: int = 1) -> None:
        """Store each of the next appends twice. Raises ServerStoppedError."""
    def fence_appends(self, times: int = 1) -> None:
        """Open the partition under a newer epoch just before each of the next appends. Raises ServerStoppedError."""
    def hold_opens(self) -> None:
        """Keep the log of each partition that moves from opening. Raises ServerStoppedError."""
    def release_opens(self) -> int:
        """Open the held logs, and hold no more. Returns their number, when their partitions are loaded."""
    def fault(self, fault: int) -> tuple[int, int | None]:
        """(affected requests, remaining requests or None for no limit) of a network fault."""
    def end_fault(self, fault: int) -> None:
        """End a network fault."""
    def drop_connections(self, node_id: int | None = None) -> int:
        """Close all connections, or those of one node. Returns their number. Raises NotFoundError."""
    def stop_node(self, node_id: int) -> None:
        """Stop a node. Raises NotFoundError."""
    def start_node(self, node_id: int) -> None:
        """Start a stopped node. Raises NotFoundError, OSError."""
    def down_nodes(self) -> list[int]:
        """The ids of stopped nodes."""
    def reset(self) -> None:
        """End all faults, pauses, holds and injections."""
    def add_partitions(self, topic: str, added: int) -> int:
        """Add partitions to a topic. Returns the new partition count. Raises NotFoundError, RotaError."""
    def topics(self) -> dict[str, int]:
        """The number of partitions of each topic, without `__consumer_offsets`."""
    def delete_topic(self, name: str) -> None:
        """Delete a topic. Raises NotFoundError, RotaError."""
    def produce(
        self,
        topic: str,
        partition: int,
        records: Sequence[tuple[bytes | None, bytes | None, Sequence[tuple[str, bytes | None]]]],
    ) -> list[int]:
        """Append (key, value, headers) records. Returns their offsets when durable. Raises NotFoundError, RotaError."""
    def messages(
        self, topic: str
    ) -> list[tuple[int, int, int, bytes | None, bytes | None, list[tuple[str, bytes | None]]]]:
        """Every message as (partition, offset, milliseconds since the Unix epoch, key, value, headers).

        Raises NotFoundError.
        """
    def commit(self, group_id: str, offsets: Sequence[tuple[str, int, int]]) -> None:
        """Commit (topic, partition, offset) of a group without members. Raises NotFoundError, RotaError."""
    def wait_for_change(self, seen: int, timeout_ms: int) -> int:
        """Wait up to `timeout_ms` for a change of any group after `seen`. Returns the value to pass next."""
    def silent_members(self, group_id: str) -> list[str]:
        """Members of a group whose client is disconnected or paused, on a virtual clock."""
    def create_topic(self, name: str, partitions: int = 1) -> None:
        """Create a topic. Raises RotaError if it exists or the name or count is invalid."""
    def groups(self) -> list[str]:
        """The ids of all groups, sorted."""
    def explain(self, group_id: str) -> Explanation:
        """What a group does, and why. Raises NotFoundError if there is no such group."""
    def inspect_group(
        self, group_id: str
    ) -> tuple[Explanation, Projection | ConsumerView, list[tuple[str, str]]] | None:
        """A consistent view of a group, with (client id, host) of each member of a classic group; None if there is no
        such group."""
    def held_by(
        self, group_id: str
    ) -> tuple[list[tuple[int, str, str, int, int, list[tuple[str, int]], int | None]], int]:
        """The open transactions that hold offsets of a group back, and the wall time: (producer id, transactional id,
        state, start in wall milliseconds, timeout, partitions, coordinating node); "" for an unknown producer. The node
        is that of another server, whose transactions have no state here."""
    def transactions(self) -> list[tuple[str, Transaction]]:
        """All transactional ids with their transactions, by id."""
    def transaction_totals(self) -> tuple[dict[str, int], int]:
        """The number of transactional ids by state, and the age of the oldest open transaction in ms; 0 without one."""
    def summaries(self, group_ids: Sequence[str], waits_max: int) -> list[Summary]:
        """Summaries of the existing groups among `group_ids`, sorted by id, with at most `waits_max` waits each."""
    def log_ends(self, partitions: Sequence[tuple[str, int]]) -> list[int | None]:
        """The next offset of each (topic, partition); None for one that does not exist or cannot be read."""
    def group_totals(self) -> tuple[dict[tuple[str, str], int], int, list[int], list[tuple[str, str, int]]]:
        """Totals: groups by (protocol, state), members, members by tenths of the session left, lag as (group, topic,
        messages)."""
    def metrics(self) -> dict[str, Any]:
        """Counters since the start: `bounds` in seconds, counts by label, durations as (buckets, seconds).

        `rebalances` and `consumer_rebalances` by cause, `expiries` by timer, `refusals` by (API, error), `commits`,
        `failed_appends`; `join_phases`, `sync_phases`, `reconciliations`, `joins`, `syncs`, `appends`, `fsyncs` with
        one more bucket than bounds.
        """
    def loading(self) -> list[int]:
        """The partitions of `__consumer_offsets` that are loading."""
    def advance(self, ms: int, expire: Sequence[str] = ...) -> int:
        """Advance a virtual clock by `ms`. Returns the new time in milliseconds.

        `expire` names members whose sessions expire although their clients are connected. Raises ServerError on the
        real clock.
        """
    def member_ids(self) -> list[str]:
        """Ids of all members of all groups."""
    def members(self, group_id: str | None = None) -> list[tuple[str, str, str | None]]:
        """(group, member id, instance id) of the members of one group, in joining order, or of all groups.

        Raises ValueError for an unknown group.
        """
    def expire(self, member: str, group_id: str | None = None) -> None:
        """Expire the session of a member, given by its id, or by group and instance id.

        Raises ValueError for an unknown member, RotaError if the member has no session now.
        """
    def rebalance(self, group_id: str) -> None:
        """Begin a rebalance. Raises ValueError if there is no such group, RotaError without members."""
    def inject_error(self, api: str, error: str, times: int = 1, group_id: str | None = None) -> int:
        """Answer the next `times` requests of an API with an error. Returns the id of the injection.

        Raises ValueError for an unknown API or error.
        """
    def injection(self, injection: int) -> tuple[int, int]:
        """(answered requests, remaining requests) of an injection."""
    def cancel_injection(self, injection: int) -> None:
        """End an injection."""
    def injected(self) -> int:
        """Number of requests answered with injected errors."""
    def pause(self, member: str, group_id: str | None = None) -> tuple[str, str, int]:
        """Drop the requests of a member, given by its id, or by group and instance id. Returns (group, member id).

        Raises ValueError for an unknown member.
        """
    def resume(self, pause: int) -> None:
        """End a pause of a member."""
    def delay_appends(self, ms: int) -> None:
        """Delay completions of appends by `ms`."""
    def abort_transaction(self, transactional_id: str) -> None:
        """Abort the open transaction of an id.

        Raises ValueError for an unknown id, RotaError if no transaction is open.
        """
    def fence_producer(self, transactional_id: str) -> bool:
        """Fence the producer of an id. False: a transaction is being ended; try again.

        Raises ValueError for an unknown id.
        """
    def hold_markers(self) -> None:
        """Keep markers of transactions from their partitions."""
    def release_markers(self) -> int:
        """Write the held markers and stop holding. Returns their number."""
    def hold_appends(self) -> None:
        """Hold completions of appends to `__consumer_offsets`."""
    def release_appends(self) -> int:
        """Release the held completions and stop holding. Returns the number of held appends."""
    def fail_appends(self, error: str, times: int = 1) -> None:
        """Make the next `times` appends fail with a Kafka error. Raises ValueError for an unknown error."""

# ---- the vocabulary

def vocabulary() -> dict[str, Any]:
    """The vocabulary of the compiled module, as in `python/rota/specs/vocabulary.toml`.

    `states`, `causes`, `waits`, `requests` and `operations` are lists of names, `transitions` a list of (from, to),
    `errors` maps names to numbers.
    """

# ---- assignors (docs/assignors.md)

class InputError(RotaError):
    """Invalid input of an assignor: the message names the member, topic or argument."""

class PlanError(RotaError):
    """A plan that is incomplete, not disjoint, or assigns topics to members that do not subscribe to them."""

@final
class Certificate:
    """Figures of a plan that is complete, disjoint and assigns only subscribed topics."""

    loads: Final[tuple[int, ...]]
    """Number of partitions of each member, in input order."""
    min_load: Final[int]
    """Smallest load of a member with a subscription; 0 if there is none."""
    max_load: Final[int]
    """Largest load of a member with a subscription; 0 if there is none."""
    imbalance: Final[int]
    """Sum of the differences of all pairs of loads of members with a subscription."""
    kept: Final[int]
    """Partitions that stay with their previous owner."""
    moved: Final[int]
    """Partitions that move from one member to another."""
    fresh: Final[int]
    """Partitions that had no owner, or several."""
    withheld: Final[int]
    """Partitions withheld until their previous owner revokes them."""
    away: Final[int]
    """Partitions whose owner's rack has no replica; 0 without racks."""
    locally_balanced: Final[bool]
    """Whether moving a single partition cannot balance any two loads better."""
    best_balance: Final[bool]
    """Whether no other plan balances the loads better."""
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
    """A group as arrays of uint32 (numpy, `array.array` or another buffer). Members, topics and partitions are numbers
    in
    canonical order.

    `topic_starts`, shape (topics + 1,): where each topic's partitions start among all partitions. `member_starts`,
    shape (members + 1,): where each member's topics start in `subscriptions`, ascending. `member_racks`, shape
    (members,): rack of each member, 2**32 - 1 for none. `rack_starts`, shape (partitions + 1,): where each partition's
    racks start in `replica_racks`, ascending. `generations` are int32. The arrays are copied. Returned arrays are
    numpy's, or `array.array` without numpy. Raises ValueError for arrays that do not match.
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
        """Compute the owner of each partition, shape (partitions,); 2**32 - 1 for none. `previous` has the same form.

        Reuses scratch memory; releases the interpreter lock. Raises InputError for an unknown assignor and ValueError
        for an owner that is not a member.
        """

    def resolve(
        self, claim_starts: _UInt32s, claims: _UInt32s, generations: NDArray[np.int32] | Buffer
    ) -> NDArray[np.uint32]:
        """Compute the previous owner of each partition from the members' claims and their generations.

        The newest claim counts; several claims of one generation give 2**32 - 2.
        """

    def certify(self, owners: _UInt32s, previous: _UInt32s | None = None, *, cooperative: bool = False) -> Certificate:
        """Check and measure a plan of one owner for each partition, in O(partitions + subscriptions).

        Raises PlanError, which names the first invalid partition.
        """

def assign_names(
    assignor: str,
    members: Sequence[tuple[str, str | None, list[str], list[tuple[str, int]], int, str | None, bytes | None]],
    topics: Sequence[tuple[str, int, list[list[str]]]],
) -> list[list[tuple[str, int]]]:
    """Implements `rota.assign.assign`; members are (id, fields of `Subscriber`)."""

def certify_names(
    assignor: str,
    members: Sequence[tuple[str, str | None, list[str], list[tuple[str, int]], int, str | None, bytes | None]],
    topics: Sequence[tuple[str, int, list[list[str]]]],
    plan: Sequence[Sequence[tuple[str, int]]],
    cooperative: bool,
) -> Certificate:
    """Implements `rota.assign.certify`; claims are decoded as `assignor` does."""

def encode_sticky_user_data(partitions: Sequence[tuple[str, Sequence[int]]], generation: int) -> bytes:
    """The user data of `sticky`: partitions by topic, then the generation. Raises EmbeddedError."""

def decode_sticky_user_data(data: bytes) -> tuple[tuple[tuple[str, tuple[int, ...]], ...], int]:
    """Decode the user data of `sticky`: partitions by topic, generation or -1. Other bytes give no partitions."""

def encode_cooperative_sticky_user_data(generation: int) -> bytes:
    """The user data of `cooperative-sticky`: the generation, -1 before the first assignment."""

def decode_cooperative_sticky_user_data(data: bytes) -> int:
    """Decode the user data of `cooperative-sticky`: the generation, or -1."""

# ---- benchmarks

def bench_assemble(
    broker: str, members: int, group_members: int, session_timeout_ms: int, prefix: str
) -> list[tuple[str, str, int]]:
    """Join members at a broker, HOST:PORT. Returns (group, member id, generation) of each. Raises OSError."""

def bench_dismiss(broker: str, seats: list[tuple[str, str, int]]) -> None:
    """Make members leave their groups. Raises OSError."""

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
    """Send heartbeats for members: (answers, errors, seconds, latency, delay). Raises OSError.

    Latency and delay are lists of (quantile, nanoseconds); the delay is how late an open loop sent heartbeats.
    """

def bench_storm(
    broker: str, groups: int, group_members: int, session_timeout_ms: int, prefix: str
) -> tuple[float, int, int, tuple[float, float, float], list[tuple[str, str, int]]]:
    """Make all members of `groups` groups join at once.

    Returns seconds until all are Stable, requests, generations, seconds of the (median, 99th percentile, slowest) join,
    and (group, member id, generation) of each member.
    """

def bench_echo(address: str, listening: Callable[[int], object]) -> None:
    """Answer every frame as a successful heartbeat; calls `listening` with the port. Raises OSError."""

@final
class BenchCrowd:
    """Stable groups of a hundred members each in a coordinator without sockets."""

    def __new__(cls, members: int) -> Self: ...
    def requests(self, seconds: float) -> tuple[int, float]:
        """Heartbeats from request bytes to answer bytes, many in flight: (count, seconds)."""
    def requests_singly(self, seconds: float) -> tuple[int, float]:
        """As `requests`, without prefetch: (count, seconds)."""
    def handles(self, seconds: float) -> tuple[int, float]:
        """Heartbeats by handle, in arrays: (count, seconds)."""

def bench_clock(seconds: float) -> tuple[str, int, float]:
    """Clock reads: (name, count, seconds)."""

def bench_loads(size_bytes: int, seconds: float) -> tuple[str, int, float]:
    """Dependent loads within `size_bytes` of memory: (name, count, seconds)."""

def bench_map_hits(members: int, seconds: float) -> tuple[str, int, float]:
    """Lookups in a map of member ids: (name, count, seconds)."""

def bench_syncs(directory: str | Path, seconds: float) -> tuple[str, int, float]:
    """Writes of 4 KiB with fsync in a directory: (name, count, seconds). Raises OSError."""

# ---- journals

def journal_entry(value: bytes) -> str:
    """One entry of a journal as a JSON object (docs/journal.md). Raises ValueError for other bytes."""

def journal_time(value: bytes) -> tuple[int, int]:
    """Time of an entry's event: (monotonic, wall milliseconds). Raises ValueError for other bytes."""

@final
class JournalReplay:
    """Replays the journal of one partition, entry by entry, on a new coordinator."""

    def __new__(cls) -> Self: ...
    def fold(self, value: bytes) -> tuple[int, str, str, str, str] | None:
        """Replay the next entry; None if the coordinator does the same.

        Otherwise (sequence, what differs, event, effects in the journal, effects of the coordinator); the replay
        cannot continue after that.
        """
    def snapshot(self) -> bytes | None:
        """The current state for `Coordinator.restore`; None if the journal lacks its beginning."""
    def as_entry(self) -> bytes | None:
        """An entry with the current state, from which another replay can continue; empty if there is no state.

        None in the middle of an advance.
        """
    def counts(self) -> tuple[int, int, int, int, int, int]:
        """Numbers of entries: all, compared, compared snapshots, missing, unchecked, and of truncated incarnations."""

# ---- logs in columns

def audit_ahead(directory: Path, topic: str) -> list[tuple[int, Path, tuple[int, int, int, int, int, int]]]:
    """The batches of a topic in the write-ahead files of a directory; those of a partition are in order of offsets.

    Each is (partition, file, range as of `audit_ranges`). Raises OSError if the directory cannot be read, or a
    write-ahead file is damaged before its end.
    """

def audit_columns() -> list[tuple[str, str]]:
    """Columns of the rows of logs (docs/audit.md): (name, `long`, `int`, `text` or `bytes`)."""

def audit_decode(
    records: Sequence[tuple[int, int, bytes, bytes | None]], first_offset: int | None = None
) -> tuple[int, list[tuple[bytes, bytes, bytes]]]:
    """The rows of (offset, wall ms, key, value) records of `__consumer_offsets`, as `AuditRows.next_columns` has them.

    With `first_offset` they are consecutive records of one partition, and offsets without a record have rows, too.
    """

def audit_extent(batches: bytes) -> tuple[int, int] | None:
    """The offset behind the last whole batch that a broker sent, and the epoch of the leader that wrote it.

    None without a whole batch. Raises ValueError if the bytes are no batches.
    """

def audit_fetched(
    batches: bytes, first_offset: int, end_offset: int, aborted: Sequence[tuple[int, int]]
) -> tuple[int, list[tuple[bytes, bytes, bytes]]]:
    """The rows of a partition's batches as a broker sends them to a reader of committed records.

    Of the offsets from `first_offset` to before `end_offset`. `aborted` has the aborted transactions among them, as
    (producer id, first offset). Markers and records of aborted transactions have no rows; offsets that the batches lack
    have one that counts them.
    """

def audit_ranges(
    path: Path, first_offset: int, target_bytes: int, start: int = 0, ranges_max: int = ..., end: int = ...
) -> list[tuple[int, int, int, int, int, int]]:
    """Split a segment from byte `start` to `end` into at most `ranges_max` parts of about `target_bytes`, at batches.

    `first_offset` is the offset expected at `start`. A part may begin with damaged bytes; a last part without records
    has only these. Each is (first byte, end, first offset, next offset, newest timestamp in milliseconds, records).
    Reads only the headers of batches. Raises OSError if the file cannot be read.
    """

def audit_records(
    path: Path,
    pieces: list[tuple[int, int]],
    offsets: tuple[int, int],
    is_newest: bool,
    uncommitted: Sequence[tuple[int, int, int]] = ...,
) -> list[tuple[int, int, int, bytes, bytes | None]]:
    """Records with a key in pieces of a file, as (offset, wall ms, epoch, key, value).

    Records are in order, with `offsets` = (first, end). In the newest segment (`is_newest`), an incomplete batch at the
    end is ignored. Records of `uncommitted` transactions are left out. Raises OSError, which names what cannot be read.
    """

def audit_replay(
    ranges: list[tuple[Path, int, int]], is_first: bool
) -> tuple[
    tuple[int, int, int, int, int, int],
    list[tuple[int, int, str, str, str, str]],
    list[tuple[str, int, int | None, str, str, str, int]],
    str | None,
]:
    """Replay the first of these parts of one partition of a journal; a part is (path, first byte, end).

    The replay runs from the first snapshot in the part, or from its first entry if `is_first`, to the first snapshot of
    a later part. Returns `JournalReplay.counts`; the first difference after each snapshot, with its offset first; the
    causes of generations: (group, offset, generation, cause, member, reason, wall milliseconds); and the error at which
    reading stopped, or None. Raises OSError if a file cannot be read.
    """

def audit_transactions(
    files: Sequence[tuple[Path, Sequence[tuple[int, int]]]], before_offset: int = ..., until_ms: int = ...
) -> tuple[list[tuple[int, int, int]], int | None]:
    """The transactions whose records do not count, and where in its file the first begins that has not ended.

    Each is (producer id, first offset, end offset). `files` are consecutive pieces of the log of a partition, none of a
    file that cannot be read. Transactions that begin at `before_offset` or later do not matter, and markers of a time
    later than `until_ms` have not come. Raises OSError if a file cannot be read.
    """

def audit_wrong(path: Path, base_offset: int, checked_from: int) -> tuple[int, int, int, int, int, int] | None:
    """The first damaged range of a segment that may have had records from `checked_from` on; None without damage.

    Checks checksums. The range, as of `audit_ranges`, ends at the next valid batch. Raises OSError if the file cannot
    be read.
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
    """Change an entry of a journal, to test whether an audit finds it (`rota plant`).

    Arguments replace parts of the entry: its sequence number; its times, later by `later_ms`; in its answers, or those
    to JoinGroup of the member `told`: error, generation, leader, protocol, assignment, one member of the list; the
    generation and the member of the request; the completed append. Raises ValueError if the bytes are not an entry.
    """

def write_batch(
    base_offset: int, records: Sequence[tuple[int, bytes, bytes | None]], producer_id: int | None = None
) -> bytes:
    """An uncompressed batch of (wall milliseconds, key, value) records, the first at `base_offset`.

    With a `producer_id` they belong to its transaction.
    """

def write_marker(base_offset: int, at_ms: int, producer_id: int, is_commit: bool) -> bytes:
    """The batch that ends a producer's transaction."""

def audit_promises() -> list[tuple[str, str, bool, str, str]]:
    """What `AuditFold` looks for: (name, invariant or "", is a violation, `records`, `offsets` or `journal`, meaning).

    `records`: the group records of any log.
    """

@final
class AuditFold:
    """The promises of one partition of a log, folded over its rows in log order.

    `is_whole`: all of the log is folded, and what sums up is found at its end. Otherwise memory is bounded, and
    everything is found as soon as it is certain. `Columns` are those of `audit_columns`: each is (validity, offsets,
    values, index of the first row in them).
    """

    def __new__(cls, is_journal: bool, is_whole: bool) -> Self: ...
    def read(self, rows: AuditRows) -> None:
        """Fold the rest of the rows."""

    def unreadable(self, offset: int, reason: str) -> None:
        """From this offset on a part of the log cannot be read."""

    def rows(self, count: int, columns: list[tuple[bytes, bytes, bytes, int]]) -> None:
        """Fold rows of whole records, except those that have been seen. Raises ValueError if columns are missing."""

    def end(self) -> None:
        """The log ends."""

    def take(self) -> list[tuple[str, str | None, int | None, int, int, int | None, list[str], str]]:
        """What was found since the last time.

        Each is (name, group, generation, first offset, last offset, wall ms, members, witness).
        """

    def tally(self) -> tuple[int, int, list[tuple[int, str, str]], dict[str, int]]:
        """What was counted since the last time: rows, offsets without a record, unreadable places, skipped records.

        The third as (offset, `unreadable` or `torn`, reason), the first thousand; the last one as the number of records
        by what they are about: `share group`, `streams group` or `unknown`.
        """

    def groups(self) -> list[tuple[str, bool]]:
        """The groups, and whether each is one of the newer consumer protocol."""

    @property
    def next_offset(self) -> int:
        """Rows before it have been seen."""

    def needs(self, count: int, columns: list[tuple[bytes, bytes, bytes, int]]) -> list[str]:
        """The groups whose states `rows` needs for these rows. Raises ValueError if columns are missing."""

    def state(self) -> bytes:
        """The state of the partition without its groups."""

    def resume(self, state: bytes) -> None:
        """Go on with the state of a partition. Raises ValueError if it is of another version."""

    def group_states(self) -> list[tuple[str, bytes]]:
        """The states of the groups."""

    def resume_group(self, name: str, state: bytes) -> None:
        """Go on with the state of a group. Raises ValueError if it is of another version."""

@final
class AuditRows:
    """Rows of pieces of a file; a piece is (first byte, end). Raises OSError if the file cannot be read."""

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
        uncommitted: Sequence[tuple[int, int, int]] = ...,
    ) -> Self: ...
    def next_columns(self) -> tuple[int, list[tuple[bytes, bytes, bytes]]] | None:
        """The next rows: (count, Arrow buffers of each column: validity, offsets, values); None at the end."""

# ---- data directories

@final
class DataLog:
    """A data directory opened read-only. Raises OSError if it cannot be opened."""

    def __new__(cls, directory: Path, lock: bool = False) -> Self:
        """`lock`: take the directory's lock; raises OSError if a server has it."""
    def partitions(self) -> list[tuple[str, int, int, int]]:
        """(topic, partition, first offset, next offset), sorted."""
    def notes(self) -> list[str]:
        """What a start would truncate or complete, one line each."""
    def damage(self) -> list[str]:
        """Damage found while opening, one line each."""
    def records(
        self, topic: str, partition: int, from_offset: int, records_max: int
    ) -> list[tuple[int, int, int, bytes, bytes | None]]:
        """Records with a key from `from_offset` on, as (offset, wall ms, epoch, key, value); [] at the end.

        Raises OSError, which names the damage, and ValueError for an unknown partition.
        """
    def verify(self, topic: str, partition: int) -> tuple[int, int]:
        """Read a partition to its end: (bytes, number of batches). Raises as `records`."""

def recover_log(directory: Path, give_up: bool) -> tuple[list[str], list[str]]:
    """Recover a data directory as a start does; no process may have it open.

    Returns (actions, remaining damage), one line each. `give_up` continues if a file that all partitions share is
    damaged and drops what only that file had. Raises OSError if the directory cannot be opened, or was written by
    Kafka.
    """

def repair_log(
    directory: Path,
) -> list[tuple[str, int, list[tuple[Path, int, int, int, int, str]], int, list[Path]]]:
    """Recover a data directory and remove unreadable bytes from every partition; all complete batches stay.

    Returns (topic, partition, losses, batches restored from write-ahead files, backup files); a loss is (file, byte,
    bytes, from offset, to offset, reason). Raises as `recover_log`.
    """

# ---- exploration

def exploration_bounds() -> list[str]:
    """The names of the bounds of `explore`: those of the classic protocol, then those of the newer one."""

def exploration_cells() -> tuple[int, int]:
    """(cells of state x event x validity, cells among them that cannot occur), of both protocols."""

def explore(
    bounds: str, states_max: int, workers: int, progress: Callable[[int], object] | None = None
) -> dict[str, Any]:
    """Explore the states of the coordinator within bounds, breadth first, up to about `states_max` states.

    Calls `progress` with the number of states after each layer. Returns `states`, `transitions`, `cut` (events that
    left the bounds), `depth`, `complete`, `memory_bytes`, `checked` (how often each check applied), `cells`, and
    `violation`: None, or its id, a description, and the shortest path to it as steps of a transcript, or, within bounds
    of the newer protocol, as events. Raises ValueError for unknown bounds.
    """

# ---- simulation

def simulate_world(
    seed: int,
    *,
    protocol: str = "all",
    swarm: bool = False,
    engine: bool = False,
    lines: bool = False,
    minimised: bool = False,
) -> str | None:
    """Run the world of a seed. Returns the report as JSON, for `rota.simulate.world`.

    Raises ValueError for an unknown protocol.
    """

def simulate_worlds(first: int, stop: int, *, protocol: str = "all", swarm: bool = False, engine: bool = False) -> str:
    """Run the worlds of the seeds from `first` to `stop` - 1, up to the first violation. Returns the result as JSON.

    `rota.simulate.worlds` parses it. Raises ValueError if there are no such seeds, or for an unknown protocol.
    """

@final
class SimulatedJournal:
    """Writes the journals of worlds to one directory. `rota.simulate.journal` is the public interface."""

    def __new__(cls, directory: Path) -> SimulatedJournal:
        """Open an empty directory, created if its parent exists. Raises OSError if that fails."""

    @property
    def entries(self) -> int:
        """Number of entries written."""

    def world(
        self, seed: int, *, protocol: str = "all", swarm: bool = False, engine: bool = False, lines: bool = False
    ) -> str:
        """As `simulate_world`. Raises OSError if the journal cannot be written."""

    def worlds(self, first: int, stop: int, *, protocol: str = "all", swarm: bool = False, engine: bool = False) -> str:
        """As `simulate_worlds`. Raises OSError if the journal cannot be written."""

    def close(self) -> None:
        """Flush and close the journal. Raises OSError if an entry could not be written."""

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
    """Simulate one group whose processes restart. Returns the report as JSON.

    A restart is (process, at ms, for ms, whether it closes its member). Timeouts are session, heartbeat, poll interval
    and initial delay. Raises ValueError if they contradict each other, and InputError for an unknown assignor.
    """

def simulate_faults() -> list[tuple[str, str]]:
    """(name, description) of each kind of fault."""
