"""How members go: leave requests and timers (§8, §9.3, §10)."""

from __future__ import annotations

from collections.abc import Sequence

from rota.model.answers import NONE
from rota.model.consumer import records as log
from rota.model.consumer.checks import fenced_instance
from rota.model.consumer.conversion import downgraded
from rota.model.consumer.data import (
    IS_AWAY,
    NOTHING,
    UNREVOKED,
    ConsumerAnswer,
    ConsumerGroupHeartbeat,
    ConsumerHeartbeatAnswer,
    Downgrade,
    Group,
    holder,
    metadata,
    with_member,
    without_members,
)
from rota.model.consumer.records import ConsumerRecord
from rota.model.consumer.write import JOIN, REBALANCE, SYNC, disarm, owed, write
from rota.model.log import group_record
from rota.model.records import Record
from rota.model.state import State, cancel, emit
from rota.model.values import replace


def leave(s: State, ticket: int, r: ConsumerGroupHeartbeat) -> State:
    """Epoch -1 and -2; the epoch that the member had does not count (§8.1)."""
    group = s.consumers.get(r.group_id)
    if group is None:
        message = f"Group {r.group_id} {'is not a consumer group' if r.group_id in s.groups else 'not found'}."
        return emit(s, ConsumerHeartbeatAnswer(ticket, "GROUP_ID_NOT_FOUND", message))
    member = group.members.get(r.member_id) if r.instance_id is None else holder(group, r.instance_id)
    if member is None:
        unknown = f"Member {r.member_id} is not a member of group {r.group_id}."
        message = unknown if r.instance_id is None else f"Instance id {r.instance_id} is unknown."
        return emit(s, ConsumerHeartbeatAnswer(ticket, "UNKNOWN_MEMBER_ID", message))
    if member.member_id != r.member_id:
        return emit(s, ConsumerHeartbeatAnswer(ticket, *fenced_instance(r, member)))
    answer = ConsumerHeartbeatAnswer(ticket, NONE, None, r.member_id, r.member_epoch)
    if r.member_epoch == IS_AWAY:
        away = replace(member, epoch=IS_AWAY, revoking=NOTHING, assigned=dict.fromkeys(member.assigned, 0))
        s = cancel(s, REBALANCE, r.group_id, r.member_id)
        return write(s, r.group_id, with_member(group, away), (log.current(r.group_id, away),), answer)
    return remove(s, r.group_id, [r.member_id], answer)


def remove(
    s: State, group_id: str, gone: Sequence[str], *answers: ConsumerAnswer, lost: tuple[tuple[str, str], ...] = ()
) -> State:
    """Take members out of a group, which may become a classic one by that (§8.2, §17.1). `lost` is the timer that
    removed them.
    """
    group = s.consumers[group_id]
    classic = downgraded(group, gone, s)
    if classic:
        records: tuple[Record, ...] = (*log.deletion(group), group_record(classic))
        return write(s, group_id, group, records, *answers, lost=lost, downgrade=Downgrade(classic, tuple(gone)))
    after, records = removed(group, gone, s)
    s = write(s, group_id, after, records, *answers, lost=(*owed(s, group_id, gone), *lost))
    return disarm(s, group_id, *gone)


def removed(group: Group, gone: Sequence[str], s: State) -> tuple[Group, tuple[ConsumerRecord, ...]]:
    """The group without these members, and its records; the last member takes the target with it
    (§8.2).
    """
    members = (log.tombstones(group.group_id, member_id) for member_id in sorted(gone))
    group, patterns = without_unused(without_members(group, gone))
    group = replace(group, epoch=group.epoch + 1, metadata=metadata(group, s.topics))
    records = (*(record for each in members for record in each), *patterns, log.group_epoch(group))
    if not group.members:
        group = replace(group, target_epoch=group.epoch, target_ms=0)
        records += (log.target_epoch(group),)
    return group, records


def without_unused(group: Group) -> tuple[Group, tuple[ConsumerRecord, ...]]:
    """The group without the patterns that no member has any more, and their tombstones (§15.2)."""
    used = {each.pattern for each in group.members.values()}
    records = tuple(ConsumerRecord(log.PATTERN, group.group_id, p, None) for p in group.patterns if p not in used)
    return replace(group, patterns={p: found for p, found in group.patterns.items() if p in used}), records


def timer_over(s: State, kind: str, group_id: str, member_id: str) -> State:
    """A member has been silent, or has not done what it owes, for too long (§10). The rebalance timer stands only while
    its member is in UNREVOKED_PARTITIONS and not away, so the epoch is still that of the arming.
    """
    group = s.consumers.get(group_id)
    member = group.members.get(member_id) if group else None
    is_owed = kind in (JOIN, SYNC)
    if member is None or (kind == REBALANCE and (member.state != UNREVOKED or member.epoch == IS_AWAY)):
        return s
    if is_owed and not member.classic:
        return s
    return remove(s, group_id, [member_id], lost=((kind, member_id),) if is_owed else ())
