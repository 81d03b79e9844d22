"""Heartbeat (docs/protocol.md §7) and what happens to those who are silent."""

from __future__ import annotations

from rota.model.answers import NONE, HeartbeatAnswer
from rota.model.members import forget_pending, identity_error, remove_from_group
from rota.model.rebalance import begin_rebalance, complete_if_all_joined
from rota.model.requests import Heartbeat
from rota.model.state import State, arm_session, emit, find


def heartbeat(s: State, ticket: int, request: Heartbeat) -> State:
    """docs/protocol.md §7.1."""
    group = s.groups.get(request.group_id or "")
    if group is None:
        return emit(s, HeartbeatAnswer(ticket, "UNKNOWN_MEMBER_ID"))
    member = find(group, request.member_id)
    error = identity_error(group, request.member_id, request.instance_id)
    if member is None or error != NONE:
        return emit(s, HeartbeatAnswer(ticket, error))
    if request.generation != group.generation:
        return emit(s, HeartbeatAnswer(ticket, "ILLEGAL_GENERATION"))
    s = arm_session(s, group.group_id, member.member_id)
    return emit(s, HeartbeatAnswer(ticket, "REBALANCE_IN_PROGRESS" if group.state == "PreparingRebalance" else NONE))


def pending_over(s: State, group_id: str, member_id: str) -> State:
    """A pending id is forgotten (docs/protocol.md §7.3)."""
    return complete_if_all_joined(forget_pending(s, group_id, member_id), group_id, expiry=True)


def session_over(s: State, group_id: str, member_id: str) -> State:
    """A silent member is removed, static or not, unless it is parked; a new one is removed parked (docs/protocol.md
    §7.3).
    """
    group = s.groups[group_id]
    member = find(group, member_id)
    if member is None or ((member.join or member.sync) and not member.is_new):
        return s
    s = remove_from_group(s, group_id, member_id)
    if group.state == "PreparingRebalance":
        return complete_if_all_joined(s, group_id, expiry=True)
    return begin_rebalance(s, group_id)
