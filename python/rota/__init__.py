"""rota: a Kafka consumer-group coordinator that you can pip install.

`Coordinator` is the coordinator of one partition of `__consumer_offsets` as a state machine in your own time: requests
go in, answers and records to append come out. Everything that goes in or comes out is a frozen class with plain fields.
"""

import importlib
from typing import TYPE_CHECKING, Any

from rota._rota import (
    Answer,
    Append,
    Assignment,
    CommitAnswer,
    CommittedPartition,
    ConfigError,
    Coordinator,
    DeleteAnswer,
    DeletedPartition,
    DeleteGroup,
    Departure,
    DescribeAnswer,
    DescribedMember,
    DescribeGroup,
    Effect,
    EmbeddedError,
    ErrorCode,
    Explanation,
    FetchAnswer,
    FetchedOffset,
    GroupRecord,
    GroupValue,
    Heartbeat,
    HeartbeatAnswer,
    InvariantViolation,
    JoinAnswer,
    JoinedMember,
    JoinGroup,
    LeaveAnswer,
    LeaveGroup,
    LeftMember,
    ListAnswer,
    ListedGroup,
    ListGroups,
    MemberValue,
    NotFoundError,
    OffsetCommit,
    OffsetDelete,
    OffsetDeleteAnswer,
    OffsetFetch,
    OffsetRecord,
    OffsetValue,
    ProjectedMember,
    Projection,
    Purgatory,
    Rebalance,
    Record,
    RecordError,
    Request,
    RotaError,
    ServerError,
    SnapshotError,
    Subscription,
    SyncAnswer,
    SyncGroup,
    UnknownRecord,
    Wait,
    Wheel,
    __version__,
    decode_assignment,
    decode_record,
    decode_subscription,
    encode_assignment,
    encode_subscription,
)
from rota.clock import VirtualClock
from rota.server import Message, Server

if TYPE_CHECKING:
    from rota import assign as assign
    from rota.member import Member, MemberError, MemberSettings

__all__ = [
    "Answer",
    "Append",
    "Assignment",
    "CommitAnswer",
    "CommittedPartition",
    "ConfigError",
    "Coordinator",
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
    "GroupRecord",
    "GroupValue",
    "Heartbeat",
    "HeartbeatAnswer",
    "InvariantViolation",
    "JoinAnswer",
    "JoinGroup",
    "JoinedMember",
    "LeaveAnswer",
    "LeaveGroup",
    "LeftMember",
    "ListAnswer",
    "ListGroups",
    "ListedGroup",
    "Member",
    "MemberError",
    "MemberSettings",
    "MemberValue",
    "Message",
    "NotFoundError",
    "OffsetCommit",
    "OffsetDelete",
    "OffsetDeleteAnswer",
    "OffsetFetch",
    "OffsetRecord",
    "OffsetValue",
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
    "SnapshotError",
    "Subscription",
    "SyncAnswer",
    "SyncGroup",
    "UnknownRecord",
    "VirtualClock",
    "Wait",
    "Wheel",
    "__version__",
    "decode_assignment",
    "decode_record",
    "decode_subscription",
    "encode_assignment",
    "encode_subscription",
]


def __getattr__(name: str) -> Any:
    """Import the assignors and the member's side when they are asked for: a server does not need them."""
    if name == "assign":
        return importlib.import_module("rota.assign")
    if name in ("member", "Member", "MemberError", "MemberSettings"):
        member = importlib.import_module("rota.member")
        return member if name == "member" else getattr(member, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
