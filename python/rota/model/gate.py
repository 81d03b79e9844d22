"""What is answered before any group is looked at (docs/protocol.md §3)."""

from __future__ import annotations

from rota.model.answers import NONE, Answer
from rota.model.refusals import refusal
from rota.model.requests import (
    DeleteGroup,
    DescribeGroup,
    Heartbeat,
    JoinGroup,
    ListGroups,
    OffsetCommit,
    OffsetFetch,
    Request,
    SyncGroup,
)
from rota.model.state import State
from rota.model.values import replace

EMPTY_GROUP_ID_IS_LEGAL = (OffsetCommit, OffsetFetch, DescribeGroup, DeleteGroup)
LOADING = "COORDINATOR_LOAD_IN_PROGRESS"
PHASE_ERRORS = {"Active": NONE, "Loading": LOADING, "Failed": "NOT_COORDINATOR", "Unloaded": "NOT_COORDINATOR"}


def gate(s: State, request: Request) -> str:
    """The first line that matches decides (docs/protocol.md §3)."""
    if isinstance(request, SyncGroup):
        unnamed = request.protocol_type is None or request.protocol_name is None
        if unnamed and request.version >= 5:
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


def gate_answer(ticket: int, request: Request, error: str) -> Answer:
    """A coordinator that is not at work names no member, and a Heartbeat waits for its loading without an error
    (docs/protocol.md §3).
    """
    if isinstance(request, JoinGroup) and error in PHASE_ERRORS.values():
        return refusal(ticket, replace(request, member_id=""), error)
    if isinstance(request, Heartbeat) and error == LOADING:
        return refusal(ticket, request, NONE)
    return refusal(ticket, request, error)
