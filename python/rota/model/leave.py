"""LeaveGroup (docs/protocol.md §8)."""

from __future__ import annotations

from rota.model.answers import NONE, LeaveAnswer, LeftMember
from rota.model.members import forget_pending, identity_error, remove_from_group
from rota.model.rebalance import begin_rebalance, complete_if_all_joined
from rota.model.requests import LeaveGroup
from rota.model.state import State, emit, holder


def leave_group(s: State, ticket: int, request: LeaveGroup) -> State:
    """One by one, then the effect, once; the answer comes last (docs/protocol.md §8)."""
    group_id = request.group_id or ""
    results = []
    for member_id, instance_id in request.members:
        s, error = _leave(s, group_id, member_id, instance_id)
        results.append(LeftMember(member_id, instance_id, error))
    if any(result.error == NONE for result in results):
        s = _effect(s, group_id)
    top = results[0].error if request.version <= 2 and results else NONE
    return emit(s, LeaveAnswer(ticket, top, tuple(results)))


def _leave(s: State, group_id: str, member_id: str, instance_id: str | None) -> tuple[State, str]:
    """What becomes of one identity (docs/protocol.md §8.1)."""
    group = s.groups.get(group_id)
    if group is None:
        return s, "UNKNOWN_MEMBER_ID"
    if not member_id:
        member = holder(group, instance_id)
        return (remove_from_group(s, group_id, member.member_id), NONE) if member else (s, "UNKNOWN_MEMBER_ID")
    if member_id in group.pending:
        return forget_pending(s, group_id, member_id), NONE
    error = identity_error(group, member_id, instance_id)
    return (remove_from_group(s, group_id, member_id), NONE) if error == NONE else (s, error)


def _effect(s: State, group_id: str) -> State:
    """docs/protocol.md §8.2."""
    if s.groups[group_id].state in ("CompletingRebalance", "Stable"):
        return begin_rebalance(s, group_id)
    return complete_if_all_joined(s, group_id)
