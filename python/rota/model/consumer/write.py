"""How a consumer group changes: records first, answers when they are durable (§4.4)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from rota.model.answers import NONE, DeleteAnswer, LeaveAnswer
from rota.model.consumer.data import (
    UNREVOKED,
    ConsumerAnswer,
    ConsumerDescribeAnswer,
    ConsumerWrite,
    Group,
    Queued,
)
from rota.model.log import append, offset_error
from rota.model.records import Record
from rota.model.state import Group as ClassicGroup
from rota.model.state import InFlight, State, arm, cancel, emit
from rota.model.values import replace

SESSION, REBALANCE, JOIN, SYNC = TIMERS = ("ConsumerSession", "ConsumerRebalance", "ConsumerJoin", "ConsumerSync")
OWN_SETTINGS = {
    "consumer.session.timeout.ms": "group_consumer_session_timeout_ms",
    "consumer.heartbeat.interval.ms": "group_consumer_heartbeat_interval_ms",
    "consumer.assignment.interval.ms": "group_consumer_assignment_interval_ms",
}


def setting_ms(s: State, group_id: str, name: str) -> int:
    """The group's own setting, else the broker's (§20)."""
    own: int = s.settings.get(group_id, {}).get(name, getattr(s.config, OWN_SETTINGS[name]))
    return own


def put(s: State, group_id: str, group: Group | None) -> State:
    """Store a group, or forget it (§1.1)."""
    others = {other: each for other, each in s.consumers.items() if other != group_id}
    return replace(s, consumers=others if group is None else {**others, group_id: group})


def write(
    s: State, group_id: str, after: Group | None, records: tuple[Record, ...], *answers: ConsumerAnswer, **more: Any
) -> State:
    """The next state of a group. Without records an answer still waits for earlier writes of its group
    (§4.4). `more` are fields of `ConsumerWrite`.
    """
    before = s.consumers.get(group_id)
    s = put(s, group_id, after)
    if records:
        return append(s, group_id, records, ConsumerWrite(answers, before, **more))
    earlier = [f for f in s.appends if f.group_id == group_id and isinstance(f.what, ConsumerWrite)]
    if not earlier:
        for answer in answers:
            s = emit(s, answer)
        return joined(s, group_id, more["joined"]) if "joined" in more else s
    last = earlier[-1]
    assert isinstance(last.what, ConsumerWrite)
    waiting = replace(last, what=replace(last.what, answers=(*last.what.answers, *answers)))
    s = replace(s, appends=tuple(waiting if f is last else f for f in s.appends))
    return arm(s, "Append", "", str(last.append_id), s.config.offsets_commit_timeout_ms) if last.late else s


def joined(s: State, group_id: str, member_id: str) -> State:
    """A JoinGroup of a classic member is durable (§10)."""
    s = cancel(arm_session(s, group_id, member_id), JOIN, group_id, member_id)
    return arm(s, SYNC, group_id, member_id, max(s.consumers[group_id].members[member_id].rebalance_timeout_ms, 0))


def done(s: State, kind: str, group_id: str, member_id: str) -> State:
    """The member has done what it owed: its timer is void, also one that waits for an append (§4.4)."""
    waits = Queued(group_id, (kind, member_id))
    return cancel(replace(s, queue=tuple(each for each in s.queue if each != waits)), kind, group_id, member_id)


def end_classic(s: State, group_id: str) -> State:
    """Of the classic group with this id the offsets stay, if there are any (§14.4, §16.1)."""
    offsets = s.groups[group_id].offsets
    others = {other: each for other, each in s.groups.items() if other != group_id}
    left = ClassicGroup(group_id, s.now_ms, s.wall_ms, offsets=offsets, durable=True)
    return replace(s, groups={**others, group_id: left} if offsets else others)


def durable(s: State, group_id: str) -> Group | None:
    """The group without what is still on its way to the log; one that is being converted is there already (§13.1)."""
    for flying in s.appends:
        if flying.group_id == group_id and isinstance(flying.what, ConsumerWrite) and not flying.what.upgraded:
            return flying.what.before
    return s.consumers.get(group_id)


def write_ended(s: State, flying: InFlight, what: ConsumerWrite, error: str | None) -> State:
    """The batch is durable, is refused, or takes too long. After a refusal the group is as it was before the batch, and
    requests that wait for a later batch of the group are answered (§4.4).
    """
    is_late_now = any(other.append_id == flying.append_id for other in s.appends)
    if error is None and what.joined and what.answers and flying.group_id in s.consumers:
        s = joined(s, flying.group_id, what.joined)
    for answer in what.answers if error is None else ():
        s = emit(s, answer)
    s = s if error is None else refused(s, what, error)
    if is_late_now:
        told = replace(flying, what=replace(what, answers=()))
        return replace(s, appends=tuple(told if f.append_id == flying.append_id else f for f in s.appends))
    return s if error is None else _undone(s, flying, what, error)


def _undone(s: State, flying: InFlight, what: ConsumerWrite, error: str) -> State:
    """The group is as before: who is a member again has its timers, who is none any more has none (§4.4)."""
    kept = []
    for other in s.appends:
        if other.group_id == flying.group_id and isinstance(other.what, ConsumerWrite):
            s = refused(s, other.what, error)
            other = replace(other, what=ConsumerWrite((), what.before))
        kept.append(other)
    after, before = s.consumers.get(flying.group_id), what.before
    s = put(replace(s, appends=tuple(kept)), flying.group_id, before and replace(before, is_stale=True))
    members = before.members if before else {}
    for member_id in after.members if after else ():
        if member_id not in members:
            s = disarm(s, flying.group_id, member_id)
    for member_id, member in members.items():
        if not is_armed(s, SESSION, flying.group_id, member_id):
            s = arm_session(s, flying.group_id, member_id)
        # One that the batch had made a consumer member is a classic one again, without this timer.
        keeps = member.state == UNREVOKED and not member.classic and is_armed(s, REBALANCE, flying.group_id, member_id)
        is_idle = member.state == UNREVOKED and not member.revoking  # static and away (§9.3)
        if not keeps and not is_idle:
            s = arm_rebalance(s, flying.group_id, member_id)
    return _resumed(s, flying.group_id, what)


def _resumed(s: State, group_id: str, what: ConsumerWrite) -> State:
    """Classic members owe a JoinGroup or SyncGroup again (§4.4)."""
    group = s.consumers.get(group_id)
    for kind, member_id in what.lost:
        member = group.members.get(member_id) if group else None
        if member and member.classic and not is_armed(s, kind, group_id, member_id):
            s = arm(s, kind, group_id, member_id, max(member.rebalance_timeout_ms, 0))
    return s


def owed(s: State, group_id: str, members: Iterable[str]) -> tuple[tuple[str, str], ...]:
    """The timers of a JoinGroup or SyncGroup that these members owe (§10)."""
    return tuple((kind, each) for each in members for kind in (JOIN, SYNC) if is_armed(s, kind, group_id, each))


def refused(s: State, what: ConsumerWrite, error: str) -> State:
    """Every request that waits for the batch gets the error (§4.4)."""
    for answer in what.answers:
        s = emit(s, _failed(answer, error))
    return s


def _failed(answer: ConsumerAnswer, error: str) -> ConsumerAnswer:
    if isinstance(answer, ConsumerDescribeAnswer) or (answer.error != NONE and not isinstance(answer, LeaveAnswer)):
        return answer
    if isinstance(answer, DeleteAnswer):
        return replace(answer, error=offset_error(error))
    return type(answer)(answer.ticket, offset_error(error))


def is_armed(s: State, kind: str, group_id: str, member_id: str) -> bool:
    """Whether a member has this timer (§10)."""
    return any((t.kind, t.group_id, t.name) == (kind, group_id, member_id) for t in s.timers)


def arm_session(s: State, group_id: str, member_id: str) -> State:
    """A full session from now on; a classic member has its own timeout (§10)."""
    classic = s.consumers[group_id].members[member_id].classic
    timeout_ms = classic.session_timeout_ms if classic else setting_ms(s, group_id, "consumer.session.timeout.ms")
    return arm(s, SESSION, group_id, member_id, timeout_ms)


def arm_rebalance(s: State, group_id: str, member_id: str) -> State:
    """A full rebalance timeout if a consumer member has something to give up, else none (§10)."""
    member = s.consumers[group_id].members[member_id]
    if member.state == UNREVOKED and not member.classic:
        return arm(s, REBALANCE, group_id, member_id, max(member.rebalance_timeout_ms, 0))
    return cancel(s, REBALANCE, group_id, member_id)


def disarm(s: State, group_id: str, *members: str) -> State:
    """Members are gone (§8.2)."""
    for member_id in members:
        for kind in TIMERS:
            s = cancel(s, kind, group_id, member_id)
    return s
