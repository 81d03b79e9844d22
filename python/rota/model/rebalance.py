"""The join phase: its beginning, its end and its outcome (docs/protocol.md §5)."""

from __future__ import annotations

from rota.model.answers import JoinAnswer, SyncAnswer
from rota.model.consumer.write import TIMERS
from rota.model.log import append_unwatched, group_error, group_record
from rota.model.members import joined, remove_from_group
from rota.model.records import GroupRecord
from rota.model.state import (
    UNGROUPED_TIMERS,
    Group,
    InFlight,
    Replacement,
    State,
    alter,
    arm,
    arm_session,
    cancel,
    change,
    emit,
    enter,
    put,
)
from rota.model.values import replace
from rota.model.vote import subscribed_topics, vote

REJOIN_INTERVAL_MIN_MS = 100


def rebalance_timeout_ms(group: Group) -> int:
    """R: the largest rebalance timeout of the members now, at least 0 (docs/protocol.md §5.1)."""
    return max([0, *(member.rebalance_timeout_ms for member in group.members)])


def all_joined(group: Group) -> bool:
    """docs/protocol.md §5.2."""
    return all(member.join for member in group.members) and not group.pending


def begin_rebalance(s: State, group_id: str) -> State:
    """docs/protocol.md §5.1."""
    before = s.groups[group_id].state
    s = _answer_who_is_overtaken(s, group_id)
    for member in s.groups[group_id].members:
        s = alter(s, group_id, member.member_id, owes_sync=False)
    s = cancel(s, "Sync", group_id, "")
    s = enter(change(s, group_id, plan=None), group_id, "PreparingRebalance")
    group = s.groups[group_id]
    timeout_ms = rebalance_timeout_ms(group)
    if before == "Empty":
        delay_ms = s.config.group_initial_rebalance_delay_ms
        s = change(s, group_id, delay=(delay_ms, max(timeout_ms - delay_ms, 0)))
        return arm(s, "InitialDelay", group_id, "", delay_ms)
    if all_joined(group):
        return complete_join_phase(s, group_id)
    return arm(s, "Join", group_id, "", timeout_ms)


def _answer_who_is_overtaken(s: State, group_id: str) -> State:
    """Parked SyncGroups get REBALANCE_IN_PROGRESS and a new session (docs/protocol.md §5.1), and so do the newcomers of
    replacements that are being written, which then stand and have no deadline any more (§9.3, departure D3).
    """
    for flying in s.appends:
        if isinstance(flying.what, Replacement) and flying.group_id == group_id:
            s = cancel(s, "Append", "", str(flying.append_id))
    for member in s.groups[group_id].members:
        if s.groups[group_id].state == "CompletingRebalance":
            s = alter(s, group_id, member.member_id, assignment=b"")
        if member.sync:
            s = emit(s, SyncAnswer(member.sync.ticket, "REBALANCE_IN_PROGRESS"))
            s = arm_session(alter(s, group_id, member.member_id, sync=None), group_id, member.member_id)
        if member.replacing is not None and member.join:
            s = emit(s, JoinAnswer(member.join.ticket, "REBALANCE_IN_PROGRESS"))
            s = arm_session(alter(s, group_id, member.member_id, join=None), group_id, member.member_id)
        s = alter(s, group_id, member.member_id, replacing=None)
    return s


def complete_if_all_joined(s: State, group_id: str, *, expiry: bool = False) -> State:
    """Only an expiry cuts an initial delay short (docs/protocol.md §5.2)."""
    group = s.groups[group_id]
    if group.state != "PreparingRebalance" or not all_joined(group):
        return s
    if group.delay is not None and not expiry:
        return s
    return complete_join_phase(s, group_id)


def initial_delay_over(s: State, group_id: str) -> State:
    """Extend the initial delay while newcomers arrive and the budget lasts (docs/protocol.md §5.3)."""
    group = s.groups[group_id]
    if group.delay is None:
        return s
    passed_ms, budget_ms = group.delay
    if not group.new_member_flag or budget_ms == 0:
        return complete_join_phase(s, group_id)
    next_ms = min(s.config.group_initial_rebalance_delay_ms, budget_ms)
    s = change(s, group_id, new_member_flag=False, delay=(next_ms, max(budget_ms - passed_ms, 0)))
    return arm(s, "InitialDelay", group_id, "", next_ms)


def complete_join_phase(s: State, group_id: str) -> State:
    """docs/protocol.md §5.4; held back while the group's first record is on its way (§4.10, departure D9)."""
    s = cancel(cancel(s, "Join", group_id, ""), "InitialDelay", group_id, "")
    group = s.groups[group_id]
    if not group.durable:
        return change(s, group_id, held=True)
    for member in group.members:
        if not member.join and member.instance_id is None:
            s = remove_from_group(s, group_id, member.member_id)
    group = s.groups[group_id]
    parked = [member for member in group.members if member.join]
    s = change(s, group_id, delay=None)
    if group.members and not parked:
        return arm(s, "Join", group_id, "", max(rebalance_timeout_ms(group), REJOIN_INTERVAL_MIN_MS))
    leader = group.leader
    if parked and leader not in [member.member_id for member in parked]:
        leader = parked[0].member_id
    s = change(s, group_id, generation=group.generation + 1, leader=leader)
    return _go_on(s, group_id) if parked else _become_empty(s, group_id)


def _become_empty(s: State, group_id: str) -> State:
    """The join phase ended without members (docs/protocol.md §5.4)."""
    s = change(s, group_id, protocol_name=None)
    s = change(s, group_id, subscribed_topics=subscribed_topics(s.groups[group_id]))
    s = enter(s, group_id, "Empty")
    return append_unwatched(s, (group_record(s.groups[group_id]),))


def _go_on(s: State, group_id: str) -> State:
    """The join phase ended with members: each is answered, and must send a SyncGroup (docs/protocol.md §5.4)."""
    s = change(s, group_id, protocol_name=vote(s.groups[group_id]))
    s = change(s, group_id, subscribed_topics=subscribed_topics(s.groups[group_id]))
    s = enter(s, group_id, "CompletingRebalance")
    group = s.groups[group_id]
    for member in group.members:
        if member.join:
            s = emit(s, joined(group, member, member.join.ticket))
        s = alter(s, group_id, member.member_id, join=None, is_new=False, owes_sync=True)
        s = arm_session(s, group_id, member.member_id)
    return arm(s, "Sync", group_id, "", rebalance_timeout_ms(group))


def release(s: State, group_id: str) -> State:
    """Once the log has something of the group, a join phase that was held back ends (docs/protocol.md §4.10)."""
    group = s.groups.get(group_id)
    if group is None or not (group.held and group.durable):
        return s
    return complete_join_phase(change(s, group_id, held=False), group_id)


def not_created(s: State, group_id: str, error: str) -> State:
    """The group's first record failed, and the creation is undone (docs/protocol.md §4.10)."""
    for member in s.groups[group_id].members:
        if member.join:
            s = emit(s, JoinAnswer(member.join.ticket, group_error(error)))
    return remove_group(s, group_id)


def remove_group(s: State, group_id: str) -> State:
    """The group is gone, and its timers with it (docs/protocol.md §2), but not those of a consumer group."""
    groups = {other: group for other, group in s.groups.items() if other != group_id}
    timers = tuple(t for t in s.timers if t.group_id != group_id or t.kind in (*UNGROUPED_TIMERS, *TIMERS))
    return replace(s, groups=groups, timers=timers)


def fold_tombstone(s: State, group_id: str) -> State:
    """A group ends; offsets that are left make it one without type (docs/protocol.md §12.3, §15.1)."""
    group = s.groups.get(group_id)
    s = remove_group(s, group_id)
    if group is None or not group.offsets:
        return s
    return put(s, Group(group_id, s.now_ms, s.wall_ms, offsets=group.offsets, durable=True))


def creation_ended(s: State, flying: InFlight, error: str | None) -> State:
    """What becomes of a new group (docs/protocol.md §4.10)."""
    group = s.groups.get(flying.group_id)
    ends = GroupRecord(flying.group_id, None) in [record for other in s.appends for record in other.records]
    if group is None and error is None and flying.late and not ends:
        return put(s, Group(flying.group_id, s.now_ms, s.wall_ms, durable=True))
    if group is None or group.creating != flying.append_id:
        return s
    s = change(s, flying.group_id, creating=None)
    if error is None or group.durable or group.deleting is not None:
        return s
    return not_created(s, flying.group_id, error)
