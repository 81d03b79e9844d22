"""What several requests do with members."""

from __future__ import annotations

from rota.model.answers import NONE, JoinAnswer, JoinedMember, SyncAnswer
from rota.model.state import (
    NEW_MEMBER_TIMEOUT_MS,
    Group,
    Member,
    Parked,
    State,
    alter,
    arm,
    cancel,
    change,
    disarm_parked,
    emit,
    find,
    holder,
)


def identity_error(group: Group, member_id: str, instance_id: str | None) -> str:
    """Who is speaking, the instance id first (docs/protocol.md §9.1)."""
    if instance_id is not None:
        member = holder(group, instance_id)
        if member is None:
            return "UNKNOWN_MEMBER_ID"
        if member.member_id != member_id:
            return "FENCED_INSTANCE_ID"
    return NONE if find(group, member_id) else "UNKNOWN_MEMBER_ID"


def add_to_group(s: State, group_id: str, member: Member, protocol_type: str) -> State:
    """Insert a newcomer; the first of a memberless group fixes the type and leads (docs/protocol.md §4.7, §5.6)."""
    group = s.groups[group_id]
    if not group.members:
        s = change(s, group_id, protocol_type=protocol_type, leader=member.member_id)
    pending = tuple(pending for pending in group.pending if pending != member.member_id)
    s = change(s, group_id, members=(*group.members, member), pending=pending)
    s = cancel(s, "Pending", group_id, member.member_id)
    return arm(s, "Session", group_id, member.member_id, NEW_MEMBER_TIMEOUT_MS)


def remove_from_group(s: State, group_id: str, member_id: str) -> State:
    """Take a member out. Its parked requests are answered UNKNOWN_MEMBER_ID (docs/protocol.md §8.1, departure D2), the
    remaining member that joined first inherits the leadership (§5.6).
    """
    group = s.groups[group_id]
    member = next(member for member in group.members if member.member_id == member_id)
    s = cancel(s, "Session", group_id, member_id)
    if member.join:
        s = emit(s, JoinAnswer(member.join.ticket, "UNKNOWN_MEMBER_ID"))
    if member.sync:
        s = emit(s, SyncAnswer(member.sync.ticket, "UNKNOWN_MEMBER_ID"))
    members = tuple(member for member in group.members if member.member_id != member_id)
    leader = group.leader
    if leader == member_id:
        leader = members[0].member_id if members else None
    s = change(s, group_id, members=members, leader=leader)
    return settle_sync_timer(s, group_id)


def forget_pending(s: State, group_id: str, member_id: str) -> State:
    """A pending id leaves, expires or is refused (docs/protocol.md §4.6)."""
    pending = tuple(pending for pending in s.groups[group_id].pending if pending != member_id)
    return cancel(change(s, group_id, pending=pending), "Pending", group_id, member_id)


def park_join(s: State, group_id: str, member_id: str, join: Parked) -> State:
    """Park a JoinGroup; the one that is parked already is superseded (docs/protocol.md §4.8, departure D1)."""
    member = find(s.groups[group_id], member_id)
    if member and member.join:
        s = emit(s, JoinAnswer(member.join.ticket, "NOT_COORDINATOR", member_id=member_id))
    return disarm_parked(alter(s, group_id, member_id, join=join), group_id, member_id)


def park_sync(s: State, group_id: str, member_id: str, sync: Parked) -> State:
    """Park a SyncGroup likewise; the member is no longer still to sync (docs/protocol.md §6.2)."""
    member = find(s.groups[group_id], member_id)
    if member and member.sync:
        s = emit(s, SyncAnswer(member.sync.ticket, "NOT_COORDINATOR"))
    s = disarm_parked(alter(s, group_id, member_id, sync=sync, owes_sync=False), group_id, member_id)
    return settle_sync_timer(s, group_id)


def settle_sync_timer(s: State, group_id: str) -> State:
    """The sync timer is cancelled when no member is still to sync (docs/protocol.md §6.5)."""
    if any(member.owes_sync for member in s.groups[group_id].members):
        return s
    return cancel(s, "Sync", group_id, "")


def joined(group: Group, member: Member, ticket: int) -> JoinAnswer:
    """The success of a JoinGroup; only the leader gets the list (docs/protocol.md §4.9)."""
    return JoinAnswer(
        ticket,
        NONE,
        group.generation,
        group.protocol_type,
        group.protocol_name,
        group.leader or "",
        False,
        member.member_id,
        member_list(group) if member.member_id == group.leader else (),
    )


def member_list(group: Group) -> tuple[JoinedMember, ...]:
    """Every member with its metadata for the chosen protocol, in joining order (docs/protocol.md §4.9)."""
    return tuple(
        JoinedMember(member.member_id, member.instance_id, dict(member.protocols).get(group.protocol_name or "", b""))
        for member in group.members
    )
