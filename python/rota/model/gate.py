"""What is answered before any group is looked at (docs/protocol.md §3)."""

from __future__ import annotations

from collections.abc import Callable

from rota.model.answers import (
    NONE,
    Answer,
    DeleteAnswer,
    DescribeAnswer,
    FetchAnswer,
    HeartbeatAnswer,
    JoinAnswer,
    LeaveAnswer,
    ListAnswer,
    OffsetDeleteAnswer,
    SyncAnswer,
)
from rota.model.offsets import refused_commit
from rota.model.requests import (
    DeleteGroup,
    DescribeGroup,
    Heartbeat,
    JoinGroup,
    LeaveGroup,
    ListGroups,
    OffsetCommit,
    OffsetDelete,
    OffsetFetch,
    Request,
    SyncGroup,
)
from rota.model.state import State

EMPTY_GROUP_ID_IS_LEGAL = (OffsetCommit, OffsetFetch, DescribeGroup, DeleteGroup)
PHASE_ERRORS = {
    "Active": NONE,
    "Loading": "COORDINATOR_LOAD_IN_PROGRESS",
    "Failed": "NOT_COORDINATOR",
    "Unloaded": "NOT_COORDINATOR",
}


def gate(s: State, request: Request) -> str:
    """The first line that matches decides (docs/protocol.md §3)."""
    if (
        isinstance(request, SyncGroup)
        and request.version >= 5
        and None in (request.protocol_type, request.protocol_name)
    ):
        return "INCONSISTENT_GROUP_PROTOCOL"
    if not isinstance(request, ListGroups):
        legal = request.group_id or (request.group_id == "" and isinstance(request, EMPTY_GROUP_ID_IS_LEGAL))
        if not legal:
            return "INVALID_GROUP_ID"
    if isinstance(request, JoinGroup):
        low, high = s.config.group_min_session_timeout_ms, s.config.group_max_session_timeout_ms
        if not low <= request.session_timeout_ms <= high:
            return "INVALID_SESSION_TIMEOUT"
    return PHASE_ERRORS[s.phase]


def _names_protocol(request: SyncGroup) -> bool:
    return request.protocol_type is not None and request.protocol_name is not None


def gate_answer(ticket: int, request: Request, error: str) -> Answer:
    """How each request is given the gate's error (docs/protocol.md §3)."""
    match request:
        case JoinGroup():
            echoed = error in ("INVALID_GROUP_ID", "INVALID_SESSION_TIMEOUT")
            return JoinAnswer(ticket, error, member_id=request.member_id if echoed else "")
        case Heartbeat():
            return HeartbeatAnswer(ticket, NONE if error == "COORDINATOR_LOAD_IN_PROGRESS" else error)
        case OffsetCommit():
            return refused_commit(ticket, request, error)
        case OffsetFetch():
            return FetchAnswer(ticket, error, request.group_id or "")
        case DescribeGroup():
            return DescribeAnswer(ticket, error, None, request.group_id or "", "")
        case DeleteGroup():
            return DeleteAnswer(ticket, error, request.group_id or "")
    plain: dict[type, Callable[[int, str], Answer]] = {
        SyncGroup: SyncAnswer,
        LeaveGroup: LeaveAnswer,
        ListGroups: ListAnswer,
        OffsetDelete: OffsetDeleteAnswer,
    }
    return plain[type(request)](ticket, error)
