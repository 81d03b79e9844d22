"""JoinGroup (docs/protocol.md §4)."""

from __future__ import annotations

from rota.model.answers import JoinAnswer
from rota.model.log import append, group_record
from rota.model.members import (
    add_to_group,
    forget_pending,
    identity_error,
    joined,
    park_join,
    remove_from_group,
)
from rota.model.rebalance import begin_rebalance, complete_if_all_joined
from rota.model.requests import JoinGroup
from rota.model.state import (
    Config,
    Creation,
    Group,
    Member,
    Parked,
    State,
    alter,
    arm,
    change,
    emit,
    find,
    holder,
    put,
)
from rota.model.statics import replace_member
from rota.model.values import replace
from rota.model.vote import is_acceptable


def join_group(s: State, ticket: int, request: JoinGroup, uuid: str) -> State:
    """The first line that matches decides (docs/protocol.md §4.2)."""
    request = normalised(request)
    group_id, member_id, instance_id = request.group_id or "", request.member_id, request.instance_id
    if group_id not in s.groups:
        if member_id:
            return _refuse(s, ticket, "UNKNOWN_MEMBER_ID", member_id)
        s = _create(s, group_id)
    group = s.groups[group_id]
    if not has_room(s.config, group, member_id):
        return _refuse_for_room(s, ticket, group_id, member_id)
    if not is_acceptable(group, request):
        return _refuse(s, ticket, "INCONSISTENT_GROUP_PROTOCOL", member_id)
    if not member_id and instance_id is None and request.version >= 4:
        return _require_member_id(s, ticket, request, f"{request.client_id}-{uuid}")
    if not member_id:
        new_id = f"{request.client_id if instance_id is None else instance_id}-{uuid}"
        old = holder(group, instance_id)
        return replace_member(s, ticket, request, old, new_id) if old else _add(s, ticket, request, new_id)
    if member_id in group.pending:
        if instance_id is not None:
            return _refuse(s, ticket, "UNKNOWN_SERVER_ERROR", "")
        return _add(s, ticket, request, member_id)
    member = find(group, member_id)
    error = identity_error(group, member_id, instance_id)
    if member is None or error != "NONE":
        return _refuse(s, ticket, error, member_id)
    return _rejoin(s, ticket, request, group, member)


def normalised(request: JoinGroup) -> JoinGroup:
    """v0 has no rebalance timeout (docs/protocol.md §4.1); a name listed twice counts once (§1.2, departure D4)."""
    protocols: dict[str, bytes] = {}
    for name, metadata in request.protocols:
        protocols.setdefault(name, metadata)
    timeout_ms = request.session_timeout_ms if request.version == 0 else request.rebalance_timeout_ms
    return replace(request, protocols=tuple(protocols.items()), rebalance_timeout_ms=timeout_ms)


def has_room(config: Config, group: Group, member_id: str) -> bool:
    """docs/protocol.md §4.4."""
    member = find(group, member_id)
    if group.state == "Empty":
        return True
    if group.state == "PreparingRebalance":
        parked = sum(1 for each in group.members if each.join)
        return (member is not None and member.join is not None) or parked < config.group_max_size
    return member is not None or len(group.members) < config.group_max_size


def _refuse(s: State, ticket: int, error: str, member_id: str) -> State:
    return emit(s, JoinAnswer(ticket, error, member_id=member_id))


def _refuse_for_room(s: State, ticket: int, group_id: str, member_id: str) -> State:
    """Who is refused for room is removed first (docs/protocol.md §4.4, departure D7)."""
    group = s.groups[group_id]
    if find(group, member_id):
        s = remove_from_group(s, group_id, member_id)
    if member_id in group.pending:
        s = forget_pending(s, group_id, member_id)
    s = _refuse(s, ticket, "GROUP_MAX_SIZE_REACHED", "")
    return complete_if_all_joined(s, group_id)


def _create(s: State, group_id: str) -> State:
    """A new group, and its record (docs/protocol.md §4.1, §4.10)."""
    s = put(s, Group(group_id, s.now_ms, s.wall_ms))
    s = append(s, group_id, (group_record(s.groups[group_id]),), Creation())
    return change(s, group_id, creating=s.append_ids - 1)


def _require_member_id(s: State, ticket: int, request: JoinGroup, new_id: str) -> State:
    """docs/protocol.md §4.6, with departure D10."""
    group_id = request.group_id or ""
    group = s.groups[group_id]
    if len(group.pending) >= s.config.group_max_pending_members:
        return _refuse(s, ticket, "GROUP_MAX_SIZE_REACHED", "")
    s = change(s, group_id, pending=(*group.pending, new_id))
    s = arm(s, "Pending", group_id, new_id, request.session_timeout_ms)
    return _refuse(s, ticket, "MEMBER_ID_REQUIRED", new_id)


def _add(s: State, ticket: int, request: JoinGroup, member_id: str) -> State:
    """docs/protocol.md §4.7."""
    group_id = request.group_id or ""
    group = s.groups[group_id]
    if group.delay is not None:
        s = change(s, group_id, new_member_flag=True)
    member = Member(
        member_id,
        request.instance_id,
        request.client_id,
        request.client_host,
        request.session_timeout_ms,
        request.rebalance_timeout_ms,
        request.protocols,
        join=Parked(ticket, request.version),
        is_new=True,
    )
    s = add_to_group(s, group_id, member, request.protocol_type)
    if group.state == "PreparingRebalance":
        return complete_if_all_joined(s, group_id)
    return begin_rebalance(s, group_id)


def _rejoin(s: State, ticket: int, request: JoinGroup, group: Group, member: Member) -> State:
    """docs/protocol.md §4.2, lines 15 to 17, and §4.8 for a newcomer whose replacement is being written. An update arms
    no timer (§4.7).
    """
    group_id, member_id = group.group_id, member.member_id
    joining, being_written = group.state == "PreparingRebalance", member.replacing is not None
    unchanged = member.protocols == request.protocols
    leads_stable = group.state == "Stable" and member_id == group.leader
    if unchanged and not (joining or being_written or leads_stable):
        return emit(s, joined(group, member, ticket))
    timeouts_ms = {
        "session_timeout_ms": request.session_timeout_ms,
        "rebalance_timeout_ms": request.rebalance_timeout_ms,
    }
    s = alter(s, group_id, member_id, protocols=request.protocols, **timeouts_ms)
    s = park_join(s, group_id, member_id, Parked(ticket, request.version))
    if joining:
        return complete_if_all_joined(s, group_id)
    return s if unchanged and being_written else begin_rebalance(s, group_id)
