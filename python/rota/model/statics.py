"""A static member comes back without its id (docs/protocol.md §9.3)."""

from __future__ import annotations

from rota.model.answers import JoinAnswer, SyncAnswer
from rota.model.log import append, append_unwatched, group_error, group_record
from rota.model.members import joined
from rota.model.rebalance import begin_rebalance, complete_if_all_joined
from rota.model.records import key_of
from rota.model.requests import JoinGroup
from rota.model.state import (
    Group,
    InFlight,
    Member,
    Parked,
    Replacement,
    State,
    alter,
    arm,
    arm_session,
    cancel,
    change,
    emit,
)
from rota.model.values import replace
from rota.model.vote import vote


def replace_member(s: State, ticket: int, request: JoinGroup, old: Member, new_id: str) -> State:
    """The newcomer takes over everything and is parked (docs/protocol.md §9.3)."""
    group_id = request.group_id or ""
    if old.join:
        s = emit(s, JoinAnswer(old.join.ticket, "FENCED_INSTANCE_ID", member_id=old.member_id))
    if old.sync:
        s = emit(s, SyncAnswer(old.sync.ticket, "FENCED_INSTANCE_ID"))
    new = replace(
        old,
        member_id=new_id,
        session_timeout_ms=request.session_timeout_ms,
        rebalance_timeout_ms=request.rebalance_timeout_ms,
        protocols=request.protocols,
        join=Parked(ticket, request.version),
        sync=None,
        is_new=False,
        replacing=None,
    )
    leader = s.groups[group_id].leader or ""
    s = _swap(s, group_id, old.member_id, new)
    group = s.groups[group_id]
    if group.state == "PreparingRebalance":
        return complete_if_all_joined(s, group_id)
    if group.state == "CompletingRebalance" or vote(group) != group.protocol_name:
        return begin_rebalance(s, group_id)
    restored = _written_by(s, old) or replace(old, join=None, sync=None)
    what = Replacement(replace(new, join=None), restored, leader, s.now_ms + old.session_timeout_ms)
    s = append(s, group_id, (group_record(group),), what)
    return alter(s, group_id, new_id, replacing=s.append_ids - 1)


def _written_by(s: State, newcomer: Member) -> Member | None:
    """Whom a newcomer that is itself being written would fall back to (docs/protocol.md §9.3)."""
    flying = (f for f in s.appends if f.append_id == newcomer.replacing)
    return next((f.what.old for f in flying if isinstance(f.what, Replacement)), None)


def _swap(s: State, group_id: str, gone_id: str, new: Member) -> State:
    """Put a member into another's place, the leadership included (docs/protocol.md §5.6, §21)."""
    group = s.groups[group_id]
    members = tuple(new if member.member_id == gone_id else member for member in group.members)
    leader = new.member_id if group.leader == gone_id else group.leader
    return cancel(change(s, group_id, members=members, leader=leader), "Session", group_id, gone_id)


def replacement_ended(s: State, flying: InFlight, what: Replacement, error: str | None) -> State:
    """The record of a replacement is durable, or failed (docs/protocol.md §9.3)."""
    group = s.groups.get(flying.group_id)
    if group is None:
        return s  # it has become a consumer group
    waiting = next((member for member in group.members if _waits_with(member, what)), None)
    if waiting and waiting.replacing == flying.append_id:
        if error is None:
            return _stands(s, group, waiting, what)
        s = _falls(s, group, waiting, what, error)
        return _write_if_named_later(s, group.group_id, flying.append_id)
    if error is None and waiting and not flying.late:
        return _falls_back_to(s, waiting, what.new)
    return append_unwatched(s, (group_record(group),)) if error is None and group.state == "Stable" else s


def _waits_with(member: Member, what: Replacement) -> bool:
    return member.replacing is not None and member.instance_id == what.new.instance_id


def _stands(s: State, group: Group, new: Member, what: Replacement) -> State:
    """Up to v8 a leader's answer has the old id, so that it does not act as leader (docs/protocol.md §9.3). A refused
    conversion has answered the join already (docs/consumer-protocol.md §16.1).
    """
    s, join = alter(s, group.group_id, new.member_id, join=None, replacing=None), new.join
    if join is None:
        return s
    answer = joined(group, new, join.ticket)
    if group.leader == new.member_id:
        as_old = replace(answer, leader=what.previous_leader, members=())
        answer = replace(answer, skip_assignment=True) if join.version >= 9 else as_old
    s = emit(s, answer)
    if what.session_ends_ms > s.now_ms:
        return arm(s, "Session", group.group_id, new.member_id, what.session_ends_ms - s.now_ms)
    return arm_session(s, group.group_id, new.member_id)


def _falls(s: State, group: Group, new: Member, what: Replacement, error: str) -> State:
    """The old id, its timeouts and protocols are back, with a full session (docs/protocol.md §9.3)."""
    old = replace(what.old, assignment=new.assignment, owes_sync=new.owes_sync)
    s = arm_session(_swap(s, group.group_id, new.member_id, old), group.group_id, old.member_id)
    stands = (group.generation, group.protocol_type, group.protocol_name, what.previous_leader)
    return emit(s, JoinAnswer(new.join.ticket, group_error(error), *stands)) if new.join else s


def _write_if_named_later(s: State, group_id: str, undone: int) -> State:
    """A newer record of the group, on its way, names the newcomer that was just undone (docs/protocol.md §9.3)."""
    record = group_record(s.groups[group_id])
    later = [each for flying in s.appends if flying.append_id > undone for each in flying.records]
    return append_unwatched(s, (record,)) if key_of(record) in map(key_of, later) else s


def _falls_back_to(s: State, waiting: Member, restored: Member) -> State:
    """The record before that of a newcomer is durable, and would be what is left of the two (docs/protocol.md §9.3)."""

    def falling_back(flying: InFlight) -> InFlight:
        if isinstance(flying.what, Replacement) and flying.append_id == waiting.replacing:
            return replace(flying, what=replace(flying.what, old=restored))
        return flying

    return replace(s, appends=tuple(falling_back(flying) for flying in s.appends))
