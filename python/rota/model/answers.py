"""What a step gives back, as plain data: answers, each to one ticket, and appends. Errors are the protocol's words."""

from __future__ import annotations

from dataclasses import dataclass

from rota.model.consumer.data import ConsumerDescribeAnswer, ConsumerHeartbeatAnswer
from rota.model.records import Record

NONE = "NONE"


@dataclass(frozen=True)
class JoinedMember:
    """One line of the list that a leader gets (docs/protocol.md §4.9)."""

    member_id: str
    instance_id: str | None
    metadata: bytes


@dataclass(frozen=True)
class JoinAnswer:
    """docs/protocol.md §4.9. The defaults are those of an error."""

    ticket: int
    error: str
    generation: int = -1
    protocol_type: str | None = None
    protocol_name: str | None = None
    leader: str = ""
    skip_assignment: bool = False
    member_id: str = ""
    members: tuple[JoinedMember, ...] = ()


@dataclass(frozen=True)
class SyncAnswer:
    """docs/protocol.md §6. The defaults are those of an error."""

    ticket: int
    error: str
    protocol_type: str | None = None
    protocol_name: str | None = None
    assignment: bytes = b""


@dataclass(frozen=True)
class HeartbeatAnswer:
    """docs/protocol.md §7.1."""

    ticket: int
    error: str


@dataclass(frozen=True)
class LeftMember:
    """What became of one leaver, named as requested (docs/protocol.md §8.1)."""

    member_id: str
    instance_id: str | None
    error: str


@dataclass(frozen=True)
class LeaveAnswer:
    """docs/protocol.md §8."""

    ticket: int
    error: str
    members: tuple[LeftMember, ...] = ()


@dataclass(frozen=True)
class CommittedPartition:
    """What became of one partition of a commit (docs/protocol.md §10)."""

    topic: str
    partition: int
    error: str
    topic_id: int = 0


@dataclass(frozen=True)
class CommitAnswer:
    """docs/protocol.md §10, in request order."""

    ticket: int
    partitions: tuple[CommittedPartition, ...]


@dataclass(frozen=True)
class FetchedOffset:
    """One committed offset, or -1, -1, "" (docs/protocol.md §11.2)."""

    topic: str
    partition: int
    offset: int = -1
    leader_epoch: int = -1
    metadata: str = ""
    error: str = NONE
    topic_id: int = 0


@dataclass(frozen=True)
class FetchAnswer:
    """docs/protocol.md §11."""

    ticket: int
    error: str
    group_id: str
    partitions: tuple[FetchedOffset, ...] = ()


@dataclass(frozen=True)
class DescribedMember:
    """One member of a description (docs/protocol.md §12.1)."""

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    metadata: bytes
    assignment: bytes


@dataclass(frozen=True)
class DescribeAnswer:
    """docs/protocol.md §12.1."""

    ticket: int
    error: str
    error_message: str | None
    group_id: str
    state: str
    protocol_type: str = ""
    protocol_name: str = ""
    members: tuple[DescribedMember, ...] = ()


@dataclass(frozen=True)
class ListedGroup:
    """One line of a listing (docs/protocol.md §12.2)."""

    group_id: str
    protocol_type: str
    state: str


@dataclass(frozen=True)
class ListAnswer:
    """docs/protocol.md §12.2, by group id."""

    ticket: int
    error: str
    groups: tuple[ListedGroup, ...] = ()


@dataclass(frozen=True)
class DeleteAnswer:
    """docs/protocol.md §12.3."""

    ticket: int
    error: str
    group_id: str


@dataclass(frozen=True)
class DeletedPartition:
    """What became of one partition (docs/protocol.md §12.4)."""

    topic: str
    partition: int
    error: str


@dataclass(frozen=True)
class OffsetDeleteAnswer:
    """docs/protocol.md §12.4, in request order."""

    ticket: int
    error: str
    partitions: tuple[DeletedPartition, ...] = ()


@dataclass(frozen=True)
class Append:
    """Records for the log, as one batch. Its end comes back as the event `Appended` (docs/protocol.md §10.3)."""

    append_id: int
    records: tuple[Record, ...]


Answer = (
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
Effect = Answer | Append
