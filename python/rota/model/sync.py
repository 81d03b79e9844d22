"""SyncGroup (docs/protocol.md §6)."""

from __future__ import annotations

from rota.model.answers import NONE, SyncAnswer
from rota.model.log import append, group_error, group_record
from rota.model.members import identity_error, park_sync, remove_from_group, settle_sync_timer
from rota.model.rebalance import begin_rebalance
from rota.model.requests import SyncGroup
from rota.model.state import InFlight, Parked, Plan, State, alter, arm_session, change, emit, enter, find


def sync_group(s: State, ticket: int, request: SyncGroup) -> State:
    """docs/protocol.md §6.1; its first line comes before the gate."""
    group_id = request.group_id or ""
    error = _error(s, request)
    if error != NONE:
        return emit(s, SyncAnswer(ticket, error))
    group = s.groups[group_id]
    if group.state == "CompletingRebalance":
        s = park_sync(s, group_id, request.member_id, Parked(ticket, request.version))
        return _hand_in(s, request) if request.member_id == group.leader and group.plan is None else s
    s = settle_sync_timer(alter(s, group_id, request.member_id, owes_sync=False), group_id)
    member = find(group, request.member_id)
    assignment = member.assignment if member else b""
    return emit(s, SyncAnswer(ticket, NONE, group.protocol_type, group.protocol_name, assignment))


def _error(s: State, request: SyncGroup) -> str:
    """docs/protocol.md §6.1, lines 2 to 10."""
    group = s.groups.get(request.group_id or "")
    if group is None or group.state == "Empty":
        return "UNKNOWN_MEMBER_ID"
    identity = identity_error(group, request.member_id, request.instance_id)
    if identity != NONE:
        return identity
    if request.generation != group.generation:
        return "ILLEGAL_GENERATION"
    for sent, known in (
        (request.protocol_type, group.protocol_type),
        (request.protocol_name, group.protocol_name),
    ):
        if sent is not None and known is not None and sent != known:
            return "INCONSISTENT_GROUP_PROTOCOL"
    return "REBALANCE_IN_PROGRESS" if group.state == "PreparingRebalance" else NONE


def _hand_in(s: State, request: SyncGroup) -> State:
    """The leader's plan is appended, and is not visible before it is durable (docs/protocol.md §6.3)."""
    group_id = request.group_id or ""
    group, sent = s.groups[group_id], dict(request.assignments)
    plan = {member.member_id: sent.get(member.member_id, b"") for member in group.members}
    s = append(s, group_id, (group_record(group, plan),), Plan(plan))
    return change(s, group_id, plan=s.append_ids - 1)


def plan_ended(s: State, flying: InFlight, what: Plan, error: str | None) -> State:
    """docs/protocol.md §6.4: only while the group still waits for this append."""
    group = s.groups.get(flying.group_id)
    if group is None or group.plan != flying.append_id:
        return s
    s = change(s, group.group_id, plan=None)
    for member in group.members:
        assignment = what.assignments[member.member_id] if error is None else b""
        s = alter(s, group.group_id, member.member_id, assignment=assignment, sync=None)
        if member.sync:
            answer = SyncAnswer(member.sync.ticket, NONE, group.protocol_type, group.protocol_name, assignment)
            s = emit(s, answer if error is None else SyncAnswer(member.sync.ticket, group_error(error)))
            s = arm_session(s, group.group_id, member.member_id)
    return enter(s, group.group_id, "Stable") if error is None else begin_rebalance(s, group.group_id)


def sync_timer_over(s: State, group_id: str) -> State:
    """Everybody still to sync is removed, and a rebalance begins (docs/protocol.md §6.5)."""
    for member in s.groups[group_id].members:
        if member.owes_sync:
            s = remove_from_group(s, group_id, member.member_id)
    return begin_rebalance(s, group_id)
